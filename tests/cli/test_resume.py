"""What survives an interruption, damage and a change, and what is computed again."""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import dpbench
from dpbench.distributions import TwoPoint
from dpbench.estimators import EmpiricalMean
from dpbench.privacy import NonPrivate
from dpbench.runner import store
from dpbench.runner.block import BlockTask, Setting, run_block
from dpbench.runner.store import Store

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
# Two processes wait for each other, again and again.
MEET = """
        import os, pathlib, time
        here, pid, end = pathlib.Path("meet"), os.getpid(), time.monotonic() + 60
        times = len(list(here.glob(f"*.{pid}")))
        (here / f"{times}.{pid}").touch()
        while len(list(here.glob(f"{times}.*"))) < 2 and time.monotonic() < end:
            time.sleep(0.001)
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
    assert Path(dpbench.__file__).parent == store.PACKAGE
    package = bench.folder / "copy"
    shutil.copytree(store.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(store, "PACKAGE", package)
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


def test_a_worker_that_dies_is_one_line(bench: Bench) -> None:
    bench.odd("import multiprocessing as m, os; m.parent_process() is None or os._exit(9)")
    result = bench.command(MINE, "n_jobs=2")
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
        return len(bench.stored())
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


def test_kill_9_loses_blocks_in_flight_only(bench: Bench, stuck: subprocess.Popen[str]) -> None:
    kill(stuck)
    stuck.communicate()
    resumed(bench)


def test_ctrl_c_keeps_what_is_finished(bench: Bench, stuck: subprocess.Popen[str]) -> None:
    kill(stuck, signal.SIGINT)
    result = finish(stuck)
    assert result.code == 130, result
    assert "Traceback" not in result.err
    told = [line for line in result.err.splitlines() if line]
    assert [line for line in told if "interrupted" in line] == told[-1:]
    assert not list((bench.folder / "out").rglob("*.tmp"))
    assert shlex.split(result.err.strip().rpartition("python -m dpbench ")[2]) == COMMAND
    resumed(bench)


def test_two_runs_at_once(bench: Bench) -> None:
    """Which write all blocks at the same moments."""
    ten_blocks(bench, MEET)
    (bench.folder / "meet").mkdir()
    other = bench.start(*bench.argv(MINE))
    bench.done(MINE)
    result = finish(other)
    assert result.code == 0, result.err
    met = {int(path.suffix[1:]) for path in (bench.folder / "meet").iterdir()}
    assert met == {os.getpid(), other.pid}
    assert not list((bench.folder / "out").rglob("*.tmp"))
    assert len(bench.stored()) == 10
    ten_blocks(bench, "pass")
    bench.done(MINE, "out=alone")
    assert bench.results() == bench.results("alone")


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
