"""The command ``new``: what it writes runs, passes its own test, and replaces nothing."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas as pd
import pytest

from dpbench.cli.main import run

NAME = "drafted_mean"


def test_the_next_command_runs_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert run(["new", NAME]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"next: python -m dpbench --config-dir . 'plugins=[{NAME}]' sweep={NAME}"
    words = ["--config-dir", ".", f"plugins=[{NAME}]", f"sweep={NAME}"]
    assert run([*words, "trials=20", "n_jobs=1"]) == 0
    summary = pd.read_csv(f"results/{NAME}/summary.csv")
    assert set(summary["estimator"]) == {NAME, "quantiles"}
    runpy.run_path(f"test_{NAME}.py")["test_promises"]()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("begun", "new: 'begun.py': exists, and is not replaced"),
        ("os", "new: 'os': Python has a module of this name"),
        ("a-b", "new: 'a-b': not the name of a module"),
        ("clipped_mean", "new: 'clipped_mean': dpbench has a kind of this name"),
        ("other", "new: 'test_other.py': exists, and is not replaced"),
    ],
)
def test_a_name_that_is_taken_is_refused(
    name: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("begun.py", "test_other.py"):
        (tmp_path / path).write_text("mine")
    assert run(["new", name]) == 2
    assert line in capsys.readouterr().err
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == {"begun.py": "mine", "test_other.py": "mine"}
