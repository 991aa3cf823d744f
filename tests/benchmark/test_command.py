"""``python -m dpbench benchmark``: from an empty folder to a profile beside the archive."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpbench.benchmark import checks, command, measure
from dpbench.benchmark.compare import BOUND_NOTE, RELATIVE_NOTE, tabulate_problems
from dpbench.benchmark.problems import MEAN_BENCHMARK, REAL_BENCHMARK, Benchmark, read_benchmark
from dpbench.benchmark.table import Scores, archive_path
from dpbench.cli.main import run
from tests.conftest import entry_text

pytestmark = pytest.mark.usefixtures("entry_folder")
FEW = "problems=binary-n300-pure0.1,binary-n1000-gdp0.03,gauss-n100-pure1"


def test_the_guides_entry_is_scored_and_compared(
    entry_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 40 lines of code; what it answers and what it does not; tables and a figure."""
    monkeypatch.setattr(checks, "RUNS", 100)
    monkeypatch.setitem(measure.RUNS, True, 3)
    chosen = read_benchmark().select(FEW.partition("=")[2])
    few = Benchmark(MEAN_BENCHMARK, tuple(replace(one, trials=(12, 12)) for one in chosen.problems))
    monkeypatch.setattr(command, "read_benchmark", lambda _: few)
    text = entry_text()
    assert sum(not line.lstrip().startswith("#") for line in text.splitlines()) <= 40
    assert run(["benchmark", "new", "wide_clip"]) == 0
    told = capsys.readouterr().out
    assert "next: python -m dpbench benchmark run wide_clip.py quick=true\n" in told
    assert (entry_folder / "wide_clip.py").read_text() == text
    assert run(["benchmark", "run", "wide_clip.py", "quick=true", "n_jobs=1"]) == 0
    told = capsys.readouterr().out
    assert "all promises" in told
    assert "none of 2 pairs refutes" in told
    assert "audit on scored data: none of 10 pairs of 2 problems refutes" in told
    quick = "2 of 2 scores rest on audits of 3 runs a dataset: binary-n300-pure0.1, gauss-n100-"
    assert quick in " ".join(told.split())
    assert "benchmark compare wide_clip.parquet" in told
    monkeypatch.undo()
    monkeypatch.chdir(entry_folder)
    found = Scores.read(entry_folder / "wide_clip.parquet", read_benchmark())
    assert found.rows["problem"].tolist() == ["binary-n300-pure0.1", "gauss-n100-pure1"]
    assert found.about["quick"]
    assert np.isfinite(found.rows["score"]).all()
    assert (found.rows["seconds"] > 0).all()
    assert run(["benchmark", "compare", "wide_clip.parquet", FEW]) == 0
    told = capsys.readouterr().out
    table = pd.read_csv("results/benchmark/compare/problems.csv").set_index("problem")
    assert (table["wide_clip"] == "-").sum() == 1
    assert table["estimator"]["gauss-n100-pure1"] == "gaussian_score_mean"
    assert "wide_clip" in told
    smallest = table["best"]["gauss-n100-pure1"]
    assert f"Gaussian; leader: gaussian_score_mean, {smallest:.3g}\n" in told
    assert re.search(r"^wide_clip +1 of 1 .* of 1[0-9]$", told, re.MULTILINE)
    assert "page: results/benchmark/compare/leaderboard.html" in told
    assert "CPU: time of a release" in told
    assert "2 of 2 scores rest on audits of" in " ".join(told.split())
    assert list((entry_folder / "results/benchmark/compare").glob("figures/profile.*"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('    "proof"', '    "prof"', "mine.py: CARD.prof: no such key; did you mean 'proof'?"),
        ('    "proof"', '    "x": 1, "proof"', "mine.py: CARD.x: no such key; choose from name"),
        ('    "division": "declared",', "", "mine.py: CARD.division: this key is required"),
        ('["pure"]', '["puer"]', "mine.py: CARD.notions.0: 'puer': input should be 'pure'"),
        ('["pure"]', '["pure", "zcdp"]', "WideClip does not support ZCDP"),
        ('["replace"]', "[]", "mine.py: CARD.relations: []: "),
        ("CARD =", "KARD =", "mine.py: CARD: this is required: a dict with name, paper, notions"),
        ("def entry", "def enter", "mine.py: entry: this is required"),
        ("low=0, high=1", "low=0", "entry of binary-n300-pure0.1: ConfigError: high: this"),
        ("return WideClip(low=0, high=1)", "return 3", "3: return an Estimator, or None"),
        (
            "public.local or public.d > 1",
            "public.d > 1",
            "WideClip is not of the local model; derive it from OneRecord",
        ),
        ("if public.local", "if True or public.local", "it answers none of the chosen problems"),
        (
            "    low: float\n",
            "    low: float\n\n    def least_records(self, d, budget):\n        return 10**10\n\n",
            "entry of binary-n300-pure0.1: WideClip needs 1e+10 records; checks and audits have",
        ),
        ("class WideClip", "class ClippedMean", "the name 'clipped_mean' is taken by dpbench"),
        ("class WideClip", "class Wide Clip", "mine.py: cannot be imported: SyntaxError: "),
    ],
)
def test_what_cannot_be_used_is_one_line(
    entry_folder: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    text = entry_text()
    assert old in text
    (entry_folder / "mine.py").write_text(text.replace(old, new))
    names = "problems=binary-n300-*,local-gauss-n30000-pure1"
    assert run(["benchmark", "run", "mine.py", names if "zcdp" not in new else "problems=*"]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


RETURN = "        return x.clip(self.low, self.high).mean() + noise"


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        (RETURN, "        return float('nan')", 1, "all of 8 releases are nan; return finite numb"),
        (RETURN, "        x.mean()", 1, "a run raised ValueError: WideClip.one returned None"),
        (RETURN, "        raise ValueError('a\\nb')", 1, "a run raised ValueError: a b"),
        (RETURN, "        return x", 1, "WideClip returned shapes (4, 60) and (4, 60) for means"),
        (RETURN, "        return 'a'", 1, "could not convert string to float: 'a'"),
        ("one(self, x, budget, rng)", "one(self, x)", 1, "takes 2 positional arguments but 4 were"),
        ("def entry(public)", "def entry()", 2, "TypeError: entry() takes 0 positional arguments"),
        ("public.local or", "public.lokal or", 2, "'PublicKnowledge' object has no attribute"),
        ("return WideClip(low=0, high=1)", "return WideClip", 2, "such as WideClip(...), or None"),
        ("@validated", "", 2, "is @validated missing above the class?"),
    ],
)
def test_common_mistakes_are_told_in_one_line(
    entry_folder: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    code: int,
    said: str,
) -> None:
    text = entry_text()
    assert old in text
    (entry_folder / "mine.py").write_text(text.replace(old, new))
    assert run(["benchmark", "run", "mine.py", "problems=binary-n300-pure0.1"]) == code
    told = "".join(capsys.readouterr())
    assert said in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["lst"],
            "benchmark: 'lst': no such task; did you mean 'list'? choose from list, new, run",
        ),
        (["list", "benchmark=v3"], "benchmark: 'v3': choose from dpbench-mean-v2, dpbench-real-v2"),
        (["walk"], "benchmark: 'walk': no such task; choose from list, new, run, compare, archive"),
        (["new"], "benchmark new: NAME: this word is required; expected: benchmark new NAME"),
        (["new", "my-mean"], "new: 'my-mean': not the name of a module; use only letters, digits"),
        (["new", "class"], "new: 'class': not the name of a module"),
        (["new", "numpy"], "new: 'numpy': Python has a module of this name, which the file would"),
        (["new", "none/mine"], "new: 'none': no such folder; make it first"),
        (["new", "a"], "new: 'a.py': exists, and is not replaced; choose another name"),
        (["new", "a.py"], "new: 'a.py': exists, and is not replaced; choose another name"),
        (
            ["run"],
            "benchmark run: FILE: this word is required; expected: benchmark run FILE [problems=]",
        ),
        (["run", "no.py"], "'no.py': no such file"),
        (
            ["run", "a.py", "quik=true"],
            "quik: no such key of benchmark run; did you mean 'quick'? choose from problems, ",
        ),
        (["run", "a.py", "quick=perhaps"], "quick: 'perhaps': input should be true or false"),
        (["archive", "n_jobs=0"], "n_jobs: 0: give a number of processes, or -1 for all cores"),
        (["list", "problems=nothing"], "problems: 'nothing': no problem of dpbench-mean-v2"),
        (["compare", "no.parquet"], "'no.parquet': no such file; benchmark run makes one"),
        (
            ["compare", "a.parquet", "archive=no"],
            "archive: 'no': no such file; omit it for the scores of dpbench",
        ),
        (["compare", "a.parquet"], "'a.parquet': no scores of a benchmark, or damaged"),
        (["archive", "quick=true"], "archive: quick= and problems= score a part only"),
        (["archive", "out=a.py"], "out: 'a.py': give a file that ends in .parquet"),
    ],
)
def test_words_that_cannot_be_used(
    entry_folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    (entry_folder / "a.parquet").write_text("no table")
    (entry_folder / "a.py").write_text("mine")
    assert run(["benchmark", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert (entry_folder / "a.py").read_text() == "mine"


def test_names_of_entries_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Side by side by letters, which a line explains; on 80 columns."""
    benchmark = read_benchmark()
    rows = Scores.read(archive_path(benchmark.name), benchmark).rows
    for names in (["ksu20_mean"], ["approximate_bounds_mean", "median_then_clipped_mean"]):
        mine = rows["entry"].isin(names)
        shown = tabulate_problems(rows[mine], rows[~mine], benchmark.problems, mine[mine] & False)
        command._say_problems(benchmark.name, shown, sorted(set(rows["entry"][mine])))
        told = capsys.readouterr().out
        assert max(map(len, told.splitlines())) <= 80
        assert min((len(name) for name in re.findall(r"\S*…\S*", told)), default=20) > 18
        assert ("A: approximate_bounds_mean" in " ".join(told.split())) == (len(names) > 1)


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["benchmark", "list", "problems=binary-*"]) == 0
    told = capsys.readouterr().out
    assert "dpbench-mean-v2: 7 problems" in told
    assert "binary-n1000-approx0.03" in told
    assert BOUND_NOTE in told
    assert run(["benchmark", "--help"]) == 0
    assert "benchmark run mine.py" in capsys.readouterr().out


def test_an_entry_of_the_benchmark_of_real_data(
    entry_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scored in the unit of the run, over the best of the archive, and never invalid."""
    monkeypatch.setattr(checks, "RUNS", 100)
    monkeypatch.setitem(measure.RUNS, True, 3)
    chosen = read_benchmark(REAL_BENCHMARK).select("earnings-n1000-pure1")
    few = Benchmark(REAL_BENCHMARK, tuple(replace(one, trials=(40, 40)) for one in chosen.problems))
    monkeypatch.setattr(command, "read_benchmark", lambda _: few)
    (entry_folder / "wide_clip.py").write_text(entry_text())
    words = [
        "benchmark",
        "run",
        "wide_clip.py",
        "quick=true",
        "n_jobs=1",
        f"benchmark={REAL_BENCHMARK}",
    ]
    assert run([*words, "seed=4"]) == 0
    assert "bound is the smallest error of an entry of the archive" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.chdir(entry_folder)
    found = Scores.read(entry_folder / "wide_clip.parquet", read_benchmark(REAL_BENCHMARK))
    archived = Scores.read(archive_path(REAL_BENCHMARK), read_benchmark(REAL_BENCHMARK)).rows
    clipped = archived.query("entry == 'clipped_mean' and problem == 'earnings-n1000-pure1'")
    # The template is the clipped mean of the catalogue; its error does not depend on the unit.
    assert few.at_places(4).problems[0].unit != 1
    assert found.rows["score"][0] == pytest.approx(clipped["score"].iloc[0], rel=0.5)
    assert found.rows["bound"][0] == clipped["bound"].iloc[0]
    assert not found.is_below.any()
    assert run(["benchmark", "compare", "wide_clip.parquet", f"benchmark={REAL_BENCHMARK}"]) == 0
    told = capsys.readouterr().out
    assert "bounded variance; leader: quantile_clipped_mean" in told
    assert run(["benchmark", "list", f"benchmark={REAL_BENCHMARK}"]) == 0
    told = capsys.readouterr().out
    assert "sd<=1 R=10" in told
    assert RELATIVE_NOTE in told
    assert BOUND_NOTE not in told
