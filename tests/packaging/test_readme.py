"""The README's examples do what it says."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from dpbench.cli import run
from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.testing import check_estimator

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
# Claims and figures of the shipped sweep are not what these examples are about.
WITHOUT = [f"~sweep.parts.{part}.figures" for part in ("worst_case", "real_tails")]
WITHOUT += ["~sweep.parts.worst_case.claims"]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples' names are free again afterwards."""
    for kind in (Estimator, Distribution):
        monkeypatch.setattr(kind, "_registry", dict(kind._registry))


def _blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def _write(texts: list[str]) -> None:
    """Write files whose first line names them."""
    for text in texts:
        path = Path(text.split("\n", 1)[0].removeprefix("# "))
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_library_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything is kept in memory."""
    monkeypatch.chdir(tmp_path)
    (example,) = [block for block in _blocks("python") if "heights" in block]
    try:
        exec(compile(example, "README", "exec"), {})
        (ax,) = plt.gcf().axes
        assert ax.lines
    finally:
        plt.close("all")
    release, *table, error = capsys.readouterr().out.splitlines()
    assert float(release) == pytest.approx(170, abs=1.5)
    # rows of n = 100, 1000, 10000; the noise has scale 300/n, the data a deviation of 10
    assert [int(row.split()[1]) for row in table[1:]] == [100, 1000, 10000]
    assert 0 < float(error) < 1.5
    assert list(tmp_path.iterdir()) == []


def test_one_dataset_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another library's mean passes the checks, and runs as a plug-in."""
    (source,) = [block for block in _blocks("python") if "class Outside" in block]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    _write([source])
    words = ["plugins=[outside]", "+sweep.estimators.outside.kind=outside", "trials=4", "n_jobs=1"]
    words += [
        "sweep.parts.worst_case.n={low:100,high:1000,points:2}",
        "sweep.parts.real_tails.n=[1000]",
    ]
    assert run([*words, "~sweep.figures", *WITHOUT]) == 0
    summary = pd.read_csv("results/quick/summary.csv")
    mine = summary[summary["estimator"] == "outside"]
    assert {"two_point_k2", "pareto_k2"} <= set(mine["family"])
    assert (mine["failures"] == 0).all()
    check_estimator(sys.modules["outside"].Outside())


def test_plugin_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = [block for block in _blocks("python") if "class LogClip" in block]
    (yaml,) = _blocks("yaml")
    monkeypatch.chdir(tmp_path)
    _write([source, yaml])
    (command,) = [block for block in _blocks("sh") if "--config-dir" in block]
    words = shlex.split(command)[3:]
    assert run([*words, "trials=4", "n_jobs=1", "~sweep.figures", *WITHOUT]) == 0
    summary = pd.read_csv("results/quick/summary.csv")
    beside = summary.groupby("family")["estimator"].unique()
    assert {"log_clip", "minimax"} <= set(beside["two_point_k2"])
    assert {"log_clip", "minimax"} <= set(beside["pareto_k2"])
    assert "log_clip" in Path("results/quick/scoreboard.txt").read_text()


def test_every_shown_override_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    (commands,) = [block for block in _blocks("sh") if "--help" in block]
    for line in commands.strip().splitlines():
        words = shlex.split(line, comments=True)[3:]
        assert run(words if "--help" in words else ["--cfg", "job", *words]) == 0
    assert "heavy_tail" in capsys.readouterr().out


def test_contributing_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep agrees with its theorem; the audit refutes nothing."""
    monkeypatch.chdir(tmp_path)
    _write([text for language in ("python", "yaml") for text in _blocks(language, CONTRIBUTING)])
    sweep, audit = [shlex.split(block)[3:] for block in _blocks("sh", CONTRIBUTING)]
    assert run([*sweep, "n_jobs=1"]) == 0
    claim = pd.read_csv("results/quantiles/claims.csv").iloc[0]
    assert claim["verdict"] == "consistent"
    assert claim["predicted"] == 1
    assert run([*audit, "n_jobs=1"]) == 0
    table = pd.read_csv("results/quantiles_audit/audit.csv")
    assert set(table["notion"]) == {"pure", "zcdp"}
    assert "at_the_quantile" in set(table["pair"])
    assert set(table["verdict"]) == {"not refuted"}
