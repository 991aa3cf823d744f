"""What is stored is not computed again, however a run before it ended."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator

import pyarrow.parquet as pq
import pytest

from dpbench.runner import store
from tests.bench import MINE, Bench, finish, group_runs, kill, wait_for

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


SLOW = pytest.mark.slow


def ten_blocks(bench: Bench, body: str) -> None:
    """With an estimator that does this first."""
    bench.odd(body, lambda spec: spec["parts"]["tails"].update(trials=1200))


def test_what_is_there_is_not_computed_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is lost, edited or damaged."""
    monkeypatch.setattr(store, "MAX_FILE_ROWS", 1)  # a block a file
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


@pytest.mark.slow
def test_kill_9_loses_blocks_in_flight_only(bench: Bench, stuck: subprocess.Popen[str]) -> None:
    """Of one process; the others end by themselves."""
    stuck.kill()
    stuck.communicate(timeout=10)
    wait_for(lambda: not group_runs(stuck.pid))
    resumed(bench)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("SIGINT", 130),
        pytest.param("SIGTERM", 143, marks=SLOW),
        pytest.param("SIGHUP", 129, marks=SLOW),
    ],
)
def test_a_signal_keeps_what_is_finished(
    bench: Bench, stuck: subprocess.Popen[str], name: str, code: int
) -> None:
    """Ctrl-C, which all processes get, or one that the first gets twice, as from `timeout`."""
    if name != "SIGINT":
        stuck.send_signal(signal.Signals[name])
    kill(stuck, signal.Signals[name])
    result = finish(stuck)
    assert result.code == code, result
    wait_for(lambda: not group_runs(stuck.pid))
    assert not [word for word in ("Traceback", "warn") if word in result.err], result
    told = [line for line in result.err.splitlines() if line]
    assert [line for line in told if "interrupted" in line] == told[-1:]
    assert not list((bench.folder / "out").rglob("*.tmp"))
    assert shlex.split(result.err.strip().rpartition("python -m dpbench ")[2]) == COMMAND
    resumed(bench)


def test_more_trials_keep_the_earlier_ones(bench: Bench) -> None:
    """And what a run without claims tells the user to type for them works as it stands."""
    bench.odd(change=lambda spec: spec.update(claims={}))
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
