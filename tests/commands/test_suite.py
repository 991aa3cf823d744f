"""``python -m dpbench suite``: from an empty folder to a profile beside the archive."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpbench.analysis.factors import profile
from dpbench.cli import run
from dpbench.commands import suite as command
from dpbench.estimators import Estimator
from dpbench.suite import checks
from dpbench.suite.compare import band, by_problem, overview
from dpbench.suite.entries import read_entry
from dpbench.suite.problems import read_suite
from dpbench.suite.table import COLUMNS, Scores, archive_path

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
FEW = "problems=binary-n300-pure0.1,binary-n1000-gdp0.03,gauss-n100-pure1"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder, whose modules and estimators are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))
    before = set(sys.modules)
    yield tmp_path
    for name in {"wide_clip", "mine"} & set(sys.modules) - before:
        del sys.modules[name]


def example() -> str:
    (text,) = re.findall(r"```python\n(# wide_clip.py\n.*?)```", GUIDE.read_text(), re.DOTALL)
    return str(text)


def test_the_guides_entry_is_scored_and_compared(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 40 lines; what it answers and what it does not; a figure and a table beside it."""
    monkeypatch.setattr(checks, "RUNS", 200)
    text = example()
    assert len(text.splitlines()) <= 40
    (folder / "wide_clip.py").write_text(text)
    assert run(["suite", "run", "wide_clip.py", "quick=true", "n_jobs=1", FEW]) == 0
    told = capsys.readouterr().out
    assert "all promises" in told
    assert "none of 2 pairs refutes" in told
    assert "suite compare wide_clip.parquet" in told
    found = Scores.read(folder / "wide_clip.parquet", read_suite())
    assert found.rows["problem"].tolist() == ["binary-n300-pure0.1", "gauss-n100-pure1"]
    assert found.about["quick"]
    assert np.isfinite(found.rows["score"]).all()
    assert (found.rows["seconds"] > 0).all()
    assert run(["suite", "compare", "wide_clip.parquet", FEW]) == 0
    told = capsys.readouterr().out
    table = pd.read_csv("results/suite/compare/problems.csv").set_index("problem")
    assert (table["wide_clip"] == "-").sum() == 1
    assert table["estimator"]["gauss-n100-pure1"] == "gaussian_score_mean"
    assert "wide_clip" in told
    assert "CPU: of a release" in told
    assert list((folder / "results/suite/compare").glob("profile.*"))


def test_one_that_spends_too_much_is_refuted_and_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tenth of the noise: the audit finds it, and nothing is scored."""
    (folder / "mine.py").write_text(
        example().replace("(budget.epsilon *", "(10 * budget.epsilon *")
    )
    assert run(["suite", "run", "mine.py", "quick=true", "n_jobs=1", FEW]) == 1
    assert "WideClip under pure: refuted: claimed 1, at least" in capsys.readouterr().out
    assert not (folder / "mine.parquet").exists()


def test_a_promise_that_is_not_kept_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine.py").write_text(example().replace("rng.laplace", "np.random.laplace"))
    text = (folder / "mine.py").read_text()
    (folder / "mine.py").write_text(f"import numpy as np\n{text}")
    assert run(["suite", "run", "mine.py", "n_jobs=1", FEW]) == 1
    assert "a promise is not kept: WideClip under pure on numbers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('    "proof"', '    "prof"', "mine.py: CARD.prof: no such key; did you mean 'proof'?"),
        ('    "proof"', '    "x": 1, "proof"', "mine.py: CARD.x: no such key; choose from name"),
        ('    "division": "declared",\n', "", "mine.py: CARD.division: this key is required"),
        ('["pure"]', '["puer"]', "mine.py: CARD.notions.0: 'puer': input should be 'pure'"),
        ('["pure"]', '["pure", "zcdp"]', "WideClip does not support ZCDP"),
        ('["replace"]', "[]", "mine.py: CARD.relations: []: "),
        ("CARD =", "KARD =", "mine.py: CARD: this is required: a dict with name, paper, notions"),
        ("def entry", "def enter", "mine.py: entry: this is required"),
        ("low=0, high=1", "low=0", "entry of binary-n300-pure0.1: ConfigError: high: this"),
        ("return WideClip(low=0, high=1)", "return 3", "3: return an Estimator, or None"),
        ("told.local or told.d > 1", "told.d > 1", "WideClip is not of the local model"),
        ("if told.local", "if True or told.local", "it answers none of the problems"),
        ("class WideClip", "class ClippedMean", "the name 'clipped_mean' is taken by dpbench"),
        ("class WideClip", "class Wide Clip", "mine.py: cannot be imported: SyntaxError: "),
    ],
)
def test_what_cannot_be_used_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    text = example()
    assert old in text
    (folder / "mine.py").write_text(text.replace(old, new))
    names = "problems=binary-n300-*,local-gauss-n30000-pure1"
    assert run(["suite", "run", "mine.py", names if "zcdp" not in new else "problems=*"]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lst"], "suite: 'lst': no such task; did you mean 'list'? choose from list, run, comp"),
        (["walk"], "suite: 'walk': no such task; choose from list, run, compare, archive"),
        (["run"], "suite run: FILE: this word is required; expected: suite run FILE [problems=]"),
        (["run", "no.py"], "'no.py': no such file"),
        (
            ["run", "a.py", "quik=true"],
            "quik: no such key of suite run; did you mean 'quick'? choose from problems, quick",
        ),
        (["run", "a.py", "quick=perhaps"], "quick: 'perhaps': input should be a valid boolean"),
        (["archive", "n_jobs=0"], "n_jobs: 0: give a number of processes, or -1 for all cores"),
        (["list", "problems=nothing"], "problems: 'nothing': no problem of dpbench-mean-v1"),
        (["compare", "no.parquet"], "'no.parquet': no such file; suite run makes one"),
        (["compare", "a.parquet", "archive=no"], "archive: 'no': no such file; a checkout has it"),
        (["compare", "a.parquet"], "'a.parquet': no scores of a suite, or damaged"),
        (["archive", "quick=true"], "archive: of fewer trials or problems give out=FILE"),
        (["archive", "out=a.py"], "out: 'a.py': give a file that ends in .parquet"),
    ],
)
def test_words_that_cannot_be_used(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    (folder / "a.parquet").write_text("no table")
    assert run(["suite", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_scores_of_another_problem_are_refused(folder: Path) -> None:
    suite = read_suite()
    (folder / "wide_clip.py").write_text(example())
    entry, _ = read_entry(folder / "wide_clip.py")
    row: dict[str, object] = dict.fromkeys(COLUMNS, 0.0)
    row |= {"entry": "wide_clip", "problem": suite.problems[0].id, "digest": "0" * 12}
    scores = Scores(pd.DataFrame([row]), {"wide_clip": entry.card}, {"suite": suite.name})
    scores.write(folder / "mine.parquet")
    with pytest.raises(ValueError, match="another problem than that of dpbench-mean-v1"):
        Scores.read(folder / "mine.parquet", suite)


def test_profiles_by_hand() -> None:
    """Of four problems three are answered, one of them in vain; two replicates of each score."""
    draws = [[1.0, 3.0], [2.0, 2.0], [np.inf, 9.0]]
    rows = pd.DataFrame({"score": [1.2, 2.0, np.inf], "draws": [np.array(one) for one in draws]})
    at = [1.0, 2.0, 100.0]
    assert profile(rows["score"], 4, at).tolist() == [0, 0.5, 0.5]
    low, high = band(rows, 4, at)
    # of the replicates the shares are 1/4, 2/4, 2/4 and 0, 1/4, 3/4
    assert np.allclose(low, [0.025 / 4, 1 / 4 + 0.025 / 4, 2 / 4 + 0.025 / 4])
    assert np.allclose(high, [1 / 4 - 0.025 / 4, 2 / 4 - 0.025 / 4, 3 / 4 - 0.025 / 4])
    told = rows.assign(entry="one", failure_rate=[0, 0, 1.0], seconds=2.0, drawing_seconds=4.0)
    (line,) = overview(told, 4, {"one": "open"})
    assert line["estimator"] == "one (open)"
    assert line["<=1.5"] == "25%"
    assert line["<=2"] == line["<=10"] == "50%"
    assert line["mean"] == f"{(1.2 * 2) ** 0.5:.3g}"
    assert line["fails"] == "33.3%"
    assert line["CPU"] == "0.5"


def test_names_of_entries_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Side by side by letters, which a line explains; on 80 columns."""
    suite = read_suite()
    rows = Scores.read(archive_path(suite.name), suite).rows
    for names in (["ksu20_mean"], ["approximate_bounds_mean", "exponential_coarse_mean"]):
        mine = rows["entry"].isin(names)
        shown = by_problem(rows[mine], rows[~mine], suite.problems)
        command._say_problems(suite.name, shown, sorted(set(rows["entry"][mine])))
        told = capsys.readouterr().out
        assert max(map(len, told.splitlines())) <= 80
        assert min((len(name) for name in re.findall(r"\S*…\S*", told)), default=20) > 18
        assert ("A: approximate_bounds_mean" in " ".join(told.split())) == (len(names) > 1)


def test_the_open_division_is_told_the_law(folder: Path) -> None:
    """And the declared one is not."""
    text = example().replace("def entry(told):", "def entry(told):\n    SEEN.append(told.law)")
    (folder / "mine.py").write_text(text.replace('"declared"', '"open"') + "\nSEEN = []\n")
    (folder / "wide_clip.py").write_text(text + "\nSEEN = []\n")
    (problem,) = read_suite().chosen("gauss-n100-pure1").problems
    for name, law in (("mine", {"kind": "gaussian"}), ("wide_clip", None)):
        Estimator._registry.pop("wide_clip", None)
        entry, _ = read_entry(folder / f"{name}.py")
        assert entry.estimator(problem) is not None
        assert [law] == sys.modules[name].SEEN


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["suite", "list", "problems=binary-*"]) == 0
    told = capsys.readouterr().out
    assert "dpbench-mean-v1: 7 problems" in told
    assert "binary-n1000-approx0.03" in told
    assert run(["suite", "--help"]) == 0
    assert "suite run mine.py" in capsys.readouterr().out
