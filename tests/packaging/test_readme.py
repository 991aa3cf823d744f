"""README, some of the how-to pages, the notebook and the citation do what they say."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import yaml

import dpbench
from dpbench.audit import cases, controls
from dpbench.audit.job import AuditJob
from dpbench.audit.pairs import catalogue
from dpbench.benchmark.problems import read_benchmark
from dpbench.cli.main import run
from dpbench.distributions import Distribution
from dpbench.distributions.real_column import column_names
from dpbench.estimators import Estimator
from dpbench.testing import check_estimator
from dpbench.theory.theorems import THEOREMS

ROOT = Path(__file__).parents[2]
LIBRARY, CHOOSING = "docs/howto/library.md", "docs/howto/run.md"
GUIDES = ("docs/howto/add_an_estimator.md", "docs/howto/add_a_theorem.md")
NOTEBOOK = ROOT / "experiments" / "library.ipynb"
# Claims and figures of the shipped sweep are not what these examples are about.
QUICK = [f"~sweep.parts.{part}.figures" for part in ("worst_case", "real_tails")]
QUICK += ["~sweep.parts.two_regimes", "~sweep.families.two_regimes"]
QUICK += ["~sweep.parts.worst_case.claims", "~sweep.figures", "trials=4", "n_jobs=1"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder; the examples' names are free again afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for kind in (Estimator, Distribution):
        monkeypatch.setattr(kind, "_registry", dict(kind._registry))
    yield tmp_path
    plt.close("all")


def _blocks(language: str, word: str = "", page: str = "README.md") -> list[str]:
    """The blocks of a language that have a word."""
    text = (ROOT / page).read_text()
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)
    return [block for block in found if word in block]


def _write(*texts: str) -> None:
    """Write files whose first line names them."""
    for text in texts:
        path = Path(text.split("\n", 1)[0].removeprefix("# "))
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_library_example(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """README's, and the longer one; everything is kept in memory."""
    (example,) = _blocks("python", "heights")
    names: dict[str, Any] = {}
    exec(compile(example, "README", "exec"), names)
    assert f"their mean is {names['heights'].mean():.3f}\n" in example
    assert float(capsys.readouterr().out) == pytest.approx(170, abs=1.5)
    example, tables = _blocks("python", "heights", LIBRARY)
    names = {}
    exec(compile(example, "library.md", "exec"), names)
    (ax,) = plt.gcf().axes
    assert ax.lines
    release, *table, error = capsys.readouterr().out.splitlines()
    assert float(release) == pytest.approx(170, abs=1.5)
    # rows of n = 100, 1000, 10000; the noise has scale 300/n, the data a deviation of 10
    assert [int(row.split()[1]) for row in table[1:]] == [100, 1000, 10000]
    assert 0 < float(error) < 1.5
    exec(compile(tables, "library.md", "exec"), names)
    told = capsys.readouterr().out
    assert "Error (0.9 quantile) in the sweep `sweep`, over 200 trials." in told
    assert r"\caption{Mean error in the sweep" in told
    assert list(folder.iterdir()) == []


def test_interval_and_table_examples(capsys: pytest.CaptureFixture[str]) -> None:
    (interval,) = _blocks("python", "KarwaVadhanInterval", "docs/howto/intervals.md")
    exec(compile(interval, "intervals.md", "exec"), {})
    printed, _ = capsys.readouterr().out.splitlines()
    assert f"print(interval)  # {printed}" in interval
    (table,) = _blocks("python", "release_table", "docs/howto/tables.md")
    exec(compile(table, "tables.md", "exec"), {})
    printed = capsys.readouterr().out
    released, receipt, _ = _blocks("text", page="docs/howto/tables.md")
    assert printed == released + receipt


def test_one_dataset_example() -> None:
    """Another library's mean passes the checks, and runs as a plug-in."""
    _write(*_blocks("python", "class Outside", LIBRARY))
    words = ["plugins=[outside]", "+sweep.estimators.outside.kind=outside"]
    words += ["sweep.parts.worst_case.n={low:100,high:1000,points:2}"]
    assert run([*words, "sweep.parts.real_tails.n=[1000]", *QUICK]) == 0
    summary = pd.read_csv("results/quick/summary.csv")
    mine = summary[summary["estimator"] == "outside"]
    assert {"two_point_k2", "pareto_k2"} <= set(mine["family"])
    assert (mine["failures"] == 0).all()
    check_estimator(sys.modules["outside"].Outside())


def test_plugin_example() -> None:
    _write(*_blocks("python", "class LogClip", CHOOSING), *_blocks("yaml", page=CHOOSING))
    (command,) = _blocks("sh", "log_clip", CHOOSING)
    # With the claims of the sweep, which of 4 trials may say anything, but have to allow a guest.
    words = [word for word in QUICK if not word.endswith(".claims")]
    words += [
        "sweep.parts.worst_case.n={low:1e5,high:1e6,points:2}",
        "sweep.parts.real_tails.n=[1000]",
    ]
    assert run([*shlex.split(command)[3:], *words]) in (0, 1)
    beside = pd.read_csv("results/quick/summary.csv").groupby("family")["estimator"].unique()
    assert {"log_clip", "minimax"} <= set(beside["two_point_k2"]) & set(beside["pareto_k2"])
    printed = " ".join(Path("results/quick/scoreboard.txt").read_text("utf-8").split())
    assert "log_clip" in printed
    (shown,) = _blocks("text", "Theory against measurement", "docs/tutorial.md")
    question, *_, title, names, row = (
        " ".join(line.split()) for line in filter(None, shown.splitlines())
    )
    assert all(line in printed for line in (question, f"{title} {names}"))
    label, theory, tolerance, *_, agree, _ = row.split()
    assert f"{label} {theory} {tolerance} " in printed
    assert f"/{agree.partition('/')[2]} agree" in printed


def test_the_annotated_sweep() -> None:
    """False alarm below 1e-6: the tolerances are above 8 standard errors, an interval has 2."""
    page = "docs/howto/write_a_sweep.md"
    _write(*_blocks("yaml", "name: coins", page))
    (command,) = _blocks("sh", "sweep=coins", page)
    assert run([*shlex.split(command)[3:], "n_jobs=1"]) == 0
    verdicts = pd.read_csv("results/coins/claims.csv").groupby("claim")["verdict"].unique()
    assert {claim: list(found) for claim, found in verdicts.items()} == {
        "rate": ["consistent"],
        "error": ["consistent"],
    }


def test_the_theorem_of_a_lecture(capsys: pytest.CaptureFixture[str]) -> None:
    """False alarm below 1e-6: the tolerances are above 8 standard errors, an interval has 2."""
    page = "docs/howto/write_a_sweep.md"
    (source,) = _blocks("yaml", "name: lecture", page)
    _write(source)
    words = [*shlex.split(_blocks("sh", "sweep=lecture", page)[0])[3:], "n_jobs=1"]
    assert run(words) == 0
    claims = pd.read_csv("results/lecture/claims.csv").set_index("claim")
    assert set(claims["theorem_verdict"]) == {"consistent"}
    assert claims.loc["noise", "theorem"] == 1.0
    assert claims.loc["noise", "source"] == "my lecture, slide 3"
    assert "YES. 4 of 4 numbers of theorems agree" in capsys.readouterr().out
    assert "my lecture, slide 4" in Path("results/lecture/report.html").read_text()
    _write(source.replace("exponent: -1", "exponent: -2"))
    assert run(words) == 1
    assert "NO. 1 of 4 numbers of theorems disagree" in capsys.readouterr().out


def test_the_example_of_a_sample_complexity() -> None:
    _write(*_blocks("yaml", "sample_complexity", CHOOSING))
    (command,) = _blocks("sh", "sweep=records", CHOOSING)
    assert run([*shlex.split(command)[3:], "~sweep.figures", "n_jobs=1"]) == 0
    table: Any = pd.read_csv("results/records/sample_complexity.csv")
    table = table[table["alpha"] == 0.1].pivot(index="epsilon", columns="method", values="samples")
    assert list(table.columns) == ["curve", "search"]
    assert table.loc[1.0].to_numpy() == pytest.approx(370, rel=0.15)
    assert (table.loc[0.5] > table.loc[1.0]).all()


def test_every_shown_override_is_accepted() -> None:
    (commands,) = _blocks("sh", "--help", CHOOSING)
    for line in commands.strip().splitlines():
        words = shlex.split(line, comments=True)[3:]
        assert run(words if "--help" in words else ["--cfg", "job", *words]) == 0


@pytest.mark.parametrize("trials", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_example_of_the_guides(monkeypatch: pytest.MonkeyPatch, trials: int) -> None:
    """The sweep agrees with its theorem; a small audit, with one control, refutes nothing."""
    monkeypatch.setitem(THEOREMS, "two_quantiles_epsilon", None)  # which goes with the test
    for name in ("two_quantiles", "uniform", "quantile_theorem"):  # each test imports its own files
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(cases, "CONTROLS", (controls.NoClipping(),))
    monkeypatch.setattr(cases, "catalogue", lambda n, d: catalogue(n, d)[:3])
    monkeypatch.setattr(AuditJob, "_draw", lambda *_: None)
    for page in GUIDES:
        _write(*_blocks("python", page=page), *_blocks("yaml", page=page))
    audit, sweep = [
        shlex.split(block)[3:] for page in GUIDES for block in _blocks("sh", "--config-dir", page)
    ]
    assert run([*sweep, "n_jobs=1", f"trials={trials}"]) == 0
    claim = pd.read_csv("results/quantiles/claims.csv").iloc[0]
    assert (claim["predicted"], claim["verdict"]) in {(1, "consistent"), (1, "inconclusive")}
    assert claim["verdict"] == "consistent" or trials == 40
    assert run([*audit, "n_jobs=1", "trials=1000"]) == 0
    table = pd.read_csv("results/quantiles_audit/audit.csv")
    assert set(table["notion"]) == {"pure", "zcdp"}
    assert "at_the_quantile" in set(table["pair"])
    assert set(table["verdict"]) == {"not refuted"}


def _shown(notebook: Any) -> list[list[set[str]]]:
    """What every cell shows: the kinds of data of its outputs; progress goes to a stream."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[set(one["data"]) for one in cell.outputs if one.get("data")] for cell in cells]


@pytest.mark.slow
def test_the_notebook_shows_what_it_is_stored_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbformat  # slow to load, as this test is to run
    from nbclient import NotebookClient

    assert NOTEBOOK.stat().st_size < 200_000
    for name in ("TMPDIR", "IPYTHONDIR"):  # the kernel writes there
        monkeypatch.setenv(name, str(folder))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    stored = _shown(notebook)
    assert sum(map(len, stored)) >= 5
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    assert _shown(notebook) == stored


def test_the_caption_of_the_first_figure_states_its_numbers() -> None:
    """The ranges over all panels of the curves in the figure's file, rounded to two digits."""
    figure = json.loads((ROOT / "results" / "figures" / "ratio.json").read_text("utf-8"))
    found: dict[str, list[float]] = {}
    for panel in figure["panels"]:
        for line in panel["lines"]:
            found.setdefault(line["name"], []).extend(line["y"])
    caption = " ".join((ROOT / "README.md").read_text("utf-8").split())
    for name, words in (
        ("clipped mean, keeps all", "{} to {} times the least error for a clip that keeps"),
        ("clipped mean, T of KSU20", "{} to {} times for their clip"),
        ("clipped mean, minimax T", "{} to {} times for the minimax clip"),
    ):
        low, high = (f"{number:.2g}" for number in (min(found[name]), max(found[name])))
        assert words.format(low if "." in low else f"{low}.0", high) in caption


def test_the_run_times_are_those_of_the_sweeps() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    for sweep, word in (("quick", "# this figure"), ("heavy_tail", "sweep=heavy_tail  ")):
        spec = yaml.safe_load((ROOT / "conf" / "sweep" / f"{sweep}.yaml").read_text("utf-8"))
        (line,) = (line for line in lines if word in line)
        assert f" in {spec['cost'].partition(',')[0]}" in line


def test_the_readme_counts_what_there_is() -> None:
    text = (ROOT / "README.md").read_text("utf-8").lower()
    for kind, step, words in (
        (Estimator, 10, "estimators"), (Distribution, 5, "kinds of distributions"),
    ):  # fmt: skip
        shipped = [one for one in kind.kinds().values() if one.__module__.startswith("dpbench.")]
        found = set(re.findall(rf"more than (\d+) {words}", text))
        assert found == {str(len(shipped) // step * step)}
    assert f"{len(read_benchmark().problems)} frozen problems" in text
    assert len(column_names()) == 11
    assert "eleven columns of real data" in text


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["license"]) == (dpbench.__version__, "MIT")
    heading = f"\n## {cited['version'].removesuffix('.dev0')} (unreleased)\n"
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert heading in changes
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tested = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    matrices = [job["strategy"]["matrix"] for job in workflow["jobs"].values() if "strategy" in job]
    assert [matrix["python"] for matrix in matrices if "python" in matrix] == [tested]
    assert project["requires-python"] == f">={tested[0]}"
    assert f"- Python {tested[0]} to {tested[-1]}.\n" in changes
    assert f"needs Python {tested[0]} or later" in (ROOT / "README.md").read_text()


def test_blocks_that_other_pages_include_have_no_relative_links() -> None:
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"<!-- (?:summary|figure) -->(.*?)<!-- end of", text, re.DOTALL)
    assert len(blocks) == 2
    for link in re.findall(r"(?<!\!)\[[^]]*\]\(([^)]*)\)", "".join(blocks)):
        assert link.startswith("https://"), link
