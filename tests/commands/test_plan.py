"""The page that a plan prints."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from dpbench.cli import run
from dpbench.planner import figure
from dpbench.planner.question import LAW_NAMES

COMMAND = ["plan", "n=2000", "epsilon=1", "lower=0", "upper=300", "law=log_normal", "law.scale=50"]


def test_the_command_prints_a_page_and_a_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COMMAND, "alpha=8", f"out={tmp_path}"]) == 0
    page = capsys.readouterr().out
    assert max(len(line) for line in page.splitlines() if str(tmp_path) not in line) <= 80
    assert {"plan.pdf", "plan.png"} == {path.name for path in tmp_path.iterdir()}
    assert "A q90 of 8 needs " in page
    assert "best: smallest guarded q90, " in page
    assert "with 2,000 records " in page
    code, told = (
        page.partition("Python, ")[2].partition(":")[2].partition("OpenDP")[0],
        io.StringIO(),
    )
    with contextlib.redirect_stdout(told):
        exec(code, {})
    assert 0 < float(told.getvalue()) < 300
    compile(page.partition("best clip:")[2].partition("figure:")[0], "opendp", "exec")


def test_alone_it_says_how_to_use_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan"]) == 0
    page = capsys.readouterr().out
    assert ", ".join(LAW_NAMES) in page
    assert page.count("python -m dpbench plan ") >= 3
    assert max(map(len, page.splitlines())) <= 100


def test_data_say_how_many_they_are_and_that_it_is_not_private(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure, "write", lambda *_: [])  # slow
    words = ["plan", "epsilon=1", "data=galton_heights.csv", "column=height_cm", f"out={tmp_path}"]
    assert run([*words, "lower=0", "upper=300"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("934 records")
    assert "Not private if the values of galton_heights.csv" in page
