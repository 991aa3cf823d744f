"""What survives an interruption, damage and a change, and what is computed again."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import dpbench
from dpbench.distributions import TwoPoint
from dpbench.estimators import EmpiricalMean
from dpbench.jobs.study import StudyJob
from dpbench.output.folder import write_manifest
from dpbench.output.style import save
from dpbench.privacy import NonPrivate
from dpbench.runner import imports, origin, store
from dpbench.runner.store import Store
from dpbench.sweep.block import BlockTask, Setting, run_block

from .conftest import FIGURE, MINE, Bench, finish, kill, wait_for

COMMAND = ["--config-dir", "conf", "sweep=tiny", "n_jobs=2", MINE, "out=out"]
# After four (of which two are of a block at most) all others wait while there is such a folder.
WAIT = """
        import pathlib, time
        here = pathlib.Path("wait")
        while here.exists() and len(list(here.iterdir())) >= 4:
            time.sleep(0.01)
        if here.exists():
            (here / str(time.monotonic_ns())).touch()
"""


def ten_blocks(bench: Bench, body: str) -> None:
    """With an estimator that does this first."""
    bench.odd(body, lambda spec: spec["parts"]["tails"].update(trials=1200))


def test_what_is_there_is_not_computed_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is lost, edited or damaged."""
    monkeypatch.setattr(store, "ROWS", 1)  # a block a file
    bench.done()
    results, shards = bench.results(), {p: p.read_bytes() for p in bench.blocks()}
    assert bench.counts() == (5, 0)
    out = bench.folder / "out"
    first, second = bench.blocks()[1:3]
    # What is lost, what is damaged, how many blocks are computed.
    cases: list[tuple[list[str], Callable[[], object], int]] = [
        ([], lambda: None, 0),
        (["manifest.json"], lambda: None, 0),
        (["summary.csv", "claims.csv", "scoreboard.txt"], lambda: None, 0),
        ([], lambda: (out / "summary.csv").write_text("edited"), 0),
        ([], lambda: first.write_bytes(shards[first][:-100]), 1),
        (["manifest.json"], lambda: shutil.copy(second, first), 1),
    ]
    for case, (lost, damage, done) in enumerate(cases):
        for name in lost:
            (out / name).unlink()
        damage()
        result = bench.done()
        assert f"{done} blocks done, {5 - done} reused" in result.out, case
        assert bench.counts() == (done, 5 - done), case
        damaged = [first.name] if done else []
        assert bench.manifest()["blocks_corrupt"] == damaged
        assert not damaged or first.name in result.out + result.err
        assert all((out / name).exists() for name in lost)
        assert bench.results() == results, case
        assert {p: p.read_bytes() for p in bench.blocks()} == shards, case
    bench.done("resume=false")
    assert bench.counts() == (5, 0)
    assert bench.results() == results


def test_a_byte_flipped_anywhere_is_seen(tmp_path: Path) -> None:
    setting = Setting("mean", EmpiricalMean(), NonPrivate())
    task = BlockTask((("law", TwoPoint(p=0.1, k=2)),), 10**6, (setting,), 0, 0, "cell")
    blocks, result = Store(tmp_path, "source"), run_block(task)
    blocks.write(task, result)
    (path,) = blocks.files()
    whole = path.read_bytes()
    for at in range(0, len(whole), 13):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        found = Store(tmp_path, "source")
        assert found.find(task) is None, f"byte {at}"
        assert found.damaged[0].startswith(path.name)
        assert not path.exists()
    path.write_bytes(whole)
    values = Store(tmp_path, "source").read(task).values
    for metric, expected in result.values.items():
        np.testing.assert_array_equal(values[metric], expected)


def test_a_changed_helper_makes_blocks_stale(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(dpbench.__file__).parent == origin.PACKAGE
    package = bench.folder / "copy"
    shutil.copytree(origin.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for module in (imports, origin):
        monkeypatch.setattr(module, "PACKAGE", package)
    for name, done in [("", 5), ("analysis/claims.py", 0), ("privacy/budgets.py", 5)]:
        if name:
            (package / name).write_text((package / name).read_text() + "\n# changed\n")
        bench.forget()
        bench.done("trials=4")
        assert bench.counts() == (done, 5 - done)


def test_a_changed_plugin_makes_blocks_stale(bench: Bench) -> None:
    """Or a changed module beside it, that it imports."""
    found = set()
    for shift, body in (("0.0", "pass"), ("100.0", "pass"), ("100.0", "value = value + 1")):
        (bench.conf / "helper.py").write_text(f"SHIFT = {shift}\n")
        bench.odd(f"import helper; {body}; value = value + helper.SHIFT")
        path = bench.conf / "mine.py"
        path.write_text(f"import helper\n{path.read_text()}")
        bench.done(MINE, "trials=4")
        assert bench.counts() == (5, 0)
        found.add(bench.read("summary.csv"))
    assert len(found) == 3


def test_a_worker_that_dies_is_one_line(bench: Bench, own_workers: None) -> None:
    bench.odd("import multiprocessing as m, os; m.parent_process() is None or os._exit(9)")
    result = bench.run(MINE, "n_jobs=2")
    assert result.code == 1, result
    assert "Traceback" not in result.err
    last = result.err.strip().splitlines()[-1]
    assert last.startswith("dpbench: TerminatedWorkerError: ")
    assert "finished blocks are kept, to go on: " in last


@pytest.fixture
def stuck(bench: Bench) -> Iterator[subprocess.Popen[str]]:
    """A run on two processes that goes no further than a few blocks, of which there are ten."""
    ten_blocks(bench, WAIT)
    bench.done(MINE, "out=whole")
    assert len(bench.stored("whole")) == 10
    (bench.folder / "wait").mkdir()
    process = bench.start(*COMMAND)
    wait_for(lambda: kept(bench) >= 3, process)
    yield process
    kill(process)
    process.communicate()


def kept(bench: Bench) -> int:
    """How many blocks are stored, while it goes on."""
    with contextlib.suppress(FileNotFoundError):  # what was the last file has become another
        return sum(
            len(json.loads(pq.read_schema(path).metadata[b"dpbench"])) for path in bench.blocks()
        )
    return 0


def resumed(bench: Bench) -> None:
    """Nothing that was finished is computed again, and all is as if done at once."""
    shutil.rmtree(bench.folder / "wait")
    there = kept(bench)
    assert 3 <= there < 10
    assert "damaged" not in bench.done(MINE).out
    assert bench.counts() == (10 - there, there)
    assert bench.stored() == bench.stored("whole")
    assert bench.results() == bench.results("whole")


def ended(process: subprocess.Popen[str]) -> bool:
    """Whether nothing is left of its process group."""
    with contextlib.suppress(ProcessLookupError):
        for _ in range(100):
            os.killpg(process.pid, 0)
            time.sleep(0.1)
        return False
    return True


@pytest.mark.slow
def test_kill_9_loses_blocks_in_flight_only(bench: Bench, stuck: subprocess.Popen[str]) -> None:
    """Of one process; the others end by themselves."""
    stuck.kill()
    stuck.communicate(timeout=10)
    assert ended(stuck)
    resumed(bench)


@pytest.mark.parametrize("name", ["SIGINT", pytest.param("SIGTERM", marks=pytest.mark.slow)])
def test_a_signal_keeps_what_is_finished(
    bench: Bench, stuck: subprocess.Popen[str], name: str
) -> None:
    """Ctrl-C, which all processes get, or one that is for the first alone."""
    if name == "SIGINT":
        kill(stuck, signal.SIGINT)
    else:
        stuck.send_signal(signal.Signals[name])
    result = finish(stuck)
    assert result.code == 130, result
    assert ended(stuck)
    assert not [word for word in ("Traceback", "warn") if word in result.err]
    told = [line for line in result.err.splitlines() if line]
    assert [line for line in told if "interrupted" in line] == told[-1:]
    assert not list((bench.folder / "out").rglob("*.tmp"))
    assert shlex.split(result.err.strip().rpartition("python -m dpbench ")[2]) == COMMAND
    resumed(bench)


def test_two_runs_at_once(bench: Bench) -> None:
    """The second is refused, and changes nothing; a run that was killed keeps nobody out."""
    script = (
        "import dpbench.output.folder as f, pathlib, sys; x = f.only_writer(pathlib.Path('out'))"
    )
    hold = f"{script}; x.__enter__(); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=bench.folder, **pipes) as first:  # type: ignore[call-overload]
        assert first.stdout.readline() == "held\n"
        bench.refuses(named=["out: 'out': another run writes there", f"process {first.pid} on "])
        with pytest.raises(dpbench.ConfigError, match="another run"):
            dpbench.run("tiny", config_dir=bench.conf, out=bench.folder / "out", n_jobs=1)
        first.kill()
    bench.done("trials=4")
    assert not (bench.folder / "out" / ".lock").exists()


def test_no_file_of_the_run_before_is_left(bench: Bench) -> None:
    bench.done("trials=4", "paper=true")
    assert (bench.folder / "out" / "claims.tex").exists()
    bench.done("trials=4")
    assert not (bench.folder / "out" / "claims.tex").exists()


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


def test_what_is_edited_while_a_run_goes_on_is_seen_by_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, records = bench.folder / "data.csv", "x\n1\n2\n4\n"
    data.write_text(records)
    law = {"kind": "empirical", "path": "../../data.csv", "column": "x"}
    part = {"families": "tails", "estimators": "mean", "n": [1000], "trials": 40}
    bench.write(lambda spec: (spec["families"].update(tails=law), spec["parts"].update(tails=part)))

    def drawn(job: StudyJob, *arguments: Any) -> None:
        data.write_text(records.replace("4", "80"))
        draw(job, *arguments)

    draw = StudyJob._draw
    with monkeypatch.context() as patched:
        patched.setattr(StudyJob, "_draw", drawn)
        bench.done("trials=4")
    bench.done("trials=4")
    assert bench.counts() == (1, 4)


def test_data_named_as_what_is_shipped_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = {"sweep": {"families": {"heights": {"path": "galton_heights.csv"}}}}
    found = [origin.fingerprint(tmp_path, config)]
    for text in ("height_cm\n1\n2\n", "height_cm\n1\n20\n"):
        (tmp_path / "galton_heights.csv").write_text(text)
        found.append(origin.fingerprint(tmp_path, config))
    assert len(set(found)) == 3


def loading(bench: Bench, argv: list[str], slow: set[str]) -> str:
    """What the command prints in a process of its own, and in a last line what of this it loads."""
    script = f"import sys; from dpbench.cli import run; run({argv!r})"
    command = [sys.executable, "-c", f"{script}; print({slow!r} & set(sys.modules))"]
    done = subprocess.run(command, cwd=bench.folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_help_and_a_refusal_wait_for_nothing(bench: Bench) -> None:
    told = loading(bench, ["--help"], {"numpy", "rich", "hydra", "omegaconf", "pydantic"})
    assert "sweep=NAME" in told
    assert told.endswith("set()\n")
    assert loading(bench, ["sweep=nosuch"], {"numpy", "rich", "pydantic"}) == "set()\n"


def test_what_is_no_longer_asked_for_goes(bench: Bench) -> None:
    """From the page and the folder, but not what somebody has changed, nor when it was computed."""
    bench.write(lambda spec: spec["figures"].update(errors=FIGURE, mine=FIGURE))
    bench.done("trials=4")
    manifest = bench.manifest()
    manifest["computed"]["at"] = "2026-01-02 03:04 UTC"
    write_manifest(bench.folder / "out", manifest)
    figures = bench.folder / "out" / "figures"
    (figures / "mine.svg").write_text("<svg>my own</svg>")
    assert "<img" in bench.read("report.html")
    bench.write()
    bench.done("trials=4")
    assert [path.name for path in figures.iterdir()] == ["mine.svg"]
    assert "<img" not in bench.read("report.html")
    assert "2026-01-02 03:04 UTC, in " in bench.read("report.html")
    assert bench.manifest()["computed"] == manifest["computed"]
    bench.done("trials=4", "resume=false")
    assert bench.manifest()["computed"]["at"] > manifest["computed"]["at"]


def test_another_processor_computes_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.done("trials=4")
    monkeypatch.setattr("dpbench.runner.origin.machine", lambda: "another")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "another")  # which tells so, before it is asked
    bench.done("trials=4")
    assert bench.counts() == (5, 0)
    assert dpbench.load("out", config_dir="conf").errors(n=1000).shape[0] == 3 * 4


def test_more_trials_keep_the_earlier_ones(bench: Bench) -> None:
    """And what a run tells the user to type for them works as it stands."""
    bench.odd()
    printed = bench.done(MINE, "trials=120", "out=my results").out.splitlines()[-1]
    few = bench.results("my results")
    more = bench.raw(*shlex.split(printed.partition("python -m dpbench ")[2]))
    assert more.code == 0, more
    manifest = bench.manifest("my results")
    assert [manifest[key] for key in ("trials", "blocks_done", "blocks_reused")] == [240, 5, 5]
    bench.done(MINE, "trials=240")
    assert bench.results() == bench.results("my results") != few
    bench.done(MINE, "trials=120")
    assert bench.results() == few


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writing more than `size` bytes to a file fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "ROWS", 1)  # a block a file
    monkeypatch.setattr(save, "__defaults__", (("png",), None))  # the largest
    bench.write(lambda spec: spec["figures"].update(errors=FIGURE))
    bench.done("out=whole")
    largest = max(path.stat().st_size for path in bench.blocks("whole"))
    assert largest < (bench.folder / "whole" / "figures" / "errors.png").stat().st_size
    # No block fits; then all but the figure; then, of what is made again from them, nothing.
    for size, fit in ((2048, 0), (largest, 5), (2048, 5)):
        with largest_file(size):
            result = bench.run()
        assert result.code == 1, result
        assert "finished blocks are kept" in result.err.splitlines()[-1]
        assert not list((bench.folder / "out").rglob("*.tmp"))
        assert len(bench.blocks()) == fit
        assert bench.results().items() <= bench.results("whole").items()  # nothing in part
    bench.done()
    assert bench.counts() == (0, 5)
    assert bench.results() == bench.results("whole")


@pytest.mark.parametrize("out", ["a b/x=1,[2] a%20b é", "~/tilde"])
def test_an_out_of_any_name(bench: Bench, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    """Python, pyarrow and matplotlib must agree on where it is."""
    monkeypatch.setenv("HOME", str(bench.folder / "home"))
    bench.done(f"out='{out}'", "trials=4")
    assert len(bench.stored(out.replace("~", "home"))) == 5


def test_a_run_from_python_is_a_finished_run_of_the_command(bench: Bench) -> None:
    dpbench.run("tiny", config_dir=bench.conf, out=bench.folder / "out", trials=4, n_jobs=1)
    before = (bench.folder / "out" / "summary.csv").stat().st_mtime_ns
    bench.done("trials=4")
    assert bench.counts() == (0, 5)
    assert (bench.folder / "out" / "summary.csv").stat().st_mtime_ns == before
