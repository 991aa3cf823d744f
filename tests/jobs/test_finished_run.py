"""A finished run is shown again before anything slow is loaded, if nothing has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dpbench
from dpbench.jobs import finished_run
from dpbench.jobs.finished_run import FinishedRun
from dpbench.jobs.prepare import find_app
from dpbench.jobs.study import StudyJob
from tests.bench import Bench


def test_a_run_is_finished_by_what_it_has_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by what another has put there meanwhile."""

    def drawn(job: StudyJob, *arguments: Any) -> None:
        (job.folder / "summary.csv").write_text("of another run")
        draw(job, *arguments)

    draw = StudyJob._draw
    with monkeypatch.context() as patched:
        patched.setattr(StudyJob, "_draw", drawn)
        bench.done("trials=4")
    assert bench.read("summary.csv") == "of another run"
    bench.done("trials=4")
    assert bench.read("summary.csv").startswith("distribution,")


def test_a_finished_run_is_shown_before_anything_slow_is_loaded(bench: Bench) -> None:
    """But is not taken for finished where data or variables of arithmetic are others."""
    data, records = bench.folder / "data.csv", "x\n1\n2\n4\n"
    data.write_text(records)
    law = {"kind": "empirical", "path": "../../data.csv", "column": "x"}
    part = {"families": "tails", "estimators": "mean", "n": [1000], "trials": 40}
    bench.write(lambda spec: (spec["families"].update(tails=law), spec["parts"].update(tails=part)))
    argv = bench.argv("trials=4")
    bench.done("trials=4")
    first = bench.read("summary.csv")
    slow = {"numpy", "pandas", "pydantic", "pyarrow", "joblib", "jinja2", "rich"}
    shown = loading(bench, argv, slow)
    assert shown.endswith("set()\n")
    assert bench.read("scoreboard.txt").rstrip() in shown
    assert bench.counts() == (0, 5)
    data.write_text(records.replace("4", "8"))
    bench.done("trials=4")
    assert bench.counts() == (1, 4)
    assert bench.read("summary.csv") != first


def test_a_page_that_was_edited_is_written_anew(bench: Bench) -> None:
    bench.done("trials=4")
    page = bench.folder / "out" / "report.html"
    written = page.read_bytes()
    page.write_text("of another run")
    bench.done("trials=4")
    assert (page.read_bytes(), bench.counts()) == (written, (0, 5))


def test_a_finished_run_is_no_excuse_for_a_configuration_that_cannot_be_used(bench: Bench) -> None:
    """Of keys that change no result: what the finished run had is not checked again."""
    bench.done("trials=4")
    bench.refuses("trials=4", "n_jobs=0", named=["n_jobs: 0: "])
    bench.refuses("trials=4", "resume=perhaps", named=["resume: 'perhaps': "])
    bench.refuses("trials=4", "~sweep", named=["sweep"])
    long = "x" * 300  # which no file can have for a name
    bench.refuses("trials=4", f"sweep.families.tails.kind={long}", named=["sweep.families.tails"])
    bench.done("trials=4", "n_jobs=2")
    assert bench.counts() == (0, 5)
    bench.done("trials=4", "resume=no")
    assert bench.counts() == (5, 0)


def loading(bench: Bench, argv: list[str], slow: set[str]) -> str:
    """What the command prints in a process of its own, and in a last line what of this it loads."""
    script = f"import sys; from dpbench.cli.main import run; run({argv!r})"
    command = [sys.executable, "-c", f"{script}; print({slow!r} & set(sys.modules))"]
    done = subprocess.run(command, cwd=bench.folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_help_and_a_refusal_wait_for_nothing(bench: Bench) -> None:
    told = loading(bench, ["--help"], {"numpy", "rich", "hydra", "omegaconf", "pydantic"})
    assert "sweep=NAME" in told
    assert told.endswith("set()\n")
    assert loading(bench, ["sweep=nosuch"], {"numpy", "rich", "pydantic"}) == "set()\n"
    assert loading(bench, ["trails=5"], {"scipy.stats", "scipy.interpolate"}) == "set()\n"


def test_a_run_from_python_is_a_finished_run_of_the_command(bench: Bench) -> None:
    dpbench.run("tiny", config_dir=bench.conf, out=bench.folder / "out", trials=4, n_jobs=1)
    before = (bench.folder / "out" / "summary.csv").stat().st_mtime_ns
    bench.done("trials=4")
    assert bench.counts() == (0, 5)
    assert (bench.folder / "out" / "summary.csv").stat().st_mtime_ns == before


def test_a_file_is_written_again_if_its_bytes_have_changed_not_its_time(bench: Bench) -> None:
    bench.done("trials=4")
    path = bench.folder / "out" / "summary.csv"
    text = path.read_text("utf-8")
    path.touch()
    touched = path.stat().st_mtime_ns
    bench.done("trials=4")
    assert path.stat().st_mtime_ns == touched
    state = path.stat()
    path.write_text(text.swapcase(), "utf-8")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # of the same size, too
    bench.done("trials=4")
    assert path.read_text("utf-8") == text


@pytest.mark.parametrize(
    "more",
    [
        {"track": "check"},
        {"plugins": ["mine"]},
        {"rerun": "f0n7"},
        {"report": "x"},
        {"resume": False},
    ],
)
def test_a_finished_run_of_which_more_is_asked_is_run(
    more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finished_run, "find_finished_run", lambda *_: {"tracked": []})
    (tmp_path / "report.html").touch()
    config = {"sweep": {"name": "a"}, "out": str(tmp_path)}
    assert FinishedRun.of(config) is not None
    assert find_app(config | more).always_runs or FinishedRun.of(config | more) is None


def test_a_run_that_was_compared_is_run_again_to_remove_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of ``track`` belong to a run that asked for them."""
    config = {"sweep": {"name": "a"}, "out": str(tmp_path)}
    (tmp_path / "report.html").touch()
    monkeypatch.setattr(finished_run, "find_finished_run", lambda *_: {"tracked": ["changes.csv"]})
    assert FinishedRun.of(config) is None
