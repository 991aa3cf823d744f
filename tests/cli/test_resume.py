"""What survives an interruption, damage and a change, and what is computed again."""

from __future__ import annotations

import contextlib
import resource
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import dpbench
from dpbench.distributions import TwoPoint
from dpbench.estimators import EmpiricalMean
from dpbench.privacy import NonPrivate
from dpbench.runner import store
from dpbench.runner.block import BlockTask, Setting, run_block
from dpbench.runner.store import CorruptBlockError, Store

from .conftest import FIGURE, Bench, finish, kill, wait_for

COMMAND = ["--config-dir", "conf", "sweep=tiny", "n_jobs=2", "plugins=[mine]", "out=out"]
# From three finished blocks on, all others wait for as long as there is a file of that name.
WAIT = """
        import pathlib, time
        while pathlib.Path("wait").exists() and len(list(pathlib.Path("out/blocks").glob("*"))) > 2:
            time.sleep(0.01)
"""
# Two processes wait for each other, again and again.
MEET = """
        import os, pathlib, time
        here, pid = pathlib.Path("meet"), os.getpid()
        times = len(list(here.glob(f"*.{pid}")))
        (here / f"{times}.{pid}").touch()
        for _ in range(10_000):
            if len(list(here.glob(f"{times}.*"))) > 1:
                break
            time.sleep(0.001)
"""


def with_plugin(bench: Bench, body: str) -> None:
    """Ten blocks, with an estimator that does this first."""
    bench.plugin("WideMean", body)
    bench.write(
        lambda spec: (
            spec["parts"]["tails"].update(trials=1200),
            spec["estimators"].update(wide={"kind": "wide_mean"}),
        )
    )


def damage_truncate(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def damage_flip(path: Path, _: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def damage_empty(path: Path, _: Path) -> None:
    path.write_bytes(b"")


def damage_swap(path: Path, other: Path) -> None:
    shutil.copy(other, path)


def test_a_second_run_computes_nothing(bench: Bench) -> None:
    assert bench.run().code == 0
    done, results = bench.manifest()["blocks_done"], bench.results()
    assert done == len(bench.blocks()) == 5
    again = bench.run()
    assert again.code == 0
    assert "0 blocks done, 5 reused" in again.out
    assert bench.manifest()["blocks_done"] == 0
    assert bench.manifest()["blocks_reused"] == done
    assert bench.results() == results


def test_a_lost_or_edited_file_is_made_again_from_the_blocks(bench: Bench) -> None:
    bench.run()
    results = bench.results()

    def again() -> None:
        assert bench.run().code == 0
        assert bench.manifest()["blocks_done"] == 0
        assert bench.manifest()["blocks_reused"] == 5
        assert bench.results() == results

    for lost in (["manifest.json"], ["summary.csv", "claims.csv", "scoreboard.txt"]):
        for name in lost:
            (bench.folder / "out" / name).unlink()
        again()
        assert all((bench.folder / "out" / name).exists() for name in lost)
    (bench.folder / "out" / "summary.csv").write_text("edited")
    again()


def test_resume_false_computes_all_again(bench: Bench) -> None:
    bench.run()
    results = bench.results()
    assert bench.run("resume=false").code == 0
    assert bench.manifest()["blocks_done"] == 5
    assert bench.results() == results


def test_a_damaged_block(bench: Bench) -> None:
    bench.run()
    results, shards = bench.results(), {p: p.read_bytes() for p in bench.blocks()}
    first, second = bench.blocks()[1:3]
    damages = (damage_truncate, damage_flip, damage_empty, damage_swap)
    for damage, keep_manifest in zip(damages, [True, False] * 2, strict=True):
        damage(first, second)
        if not keep_manifest:
            (bench.folder / "out" / "manifest.json").unlink()
        result = bench.run()
        assert result.code == 0, damage
        assert first.name in result.out + result.err, damage
        assert bench.manifest()["blocks_corrupt"] == [first.name]
        assert bench.manifest()["blocks_done"] == 1
        assert bench.manifest()["blocks_reused"] == 4
        assert bench.results() == results, damage
        assert {p: p.read_bytes() for p in bench.blocks()} == shards, damage


def test_a_byte_flipped_anywhere_is_seen_or_changes_nothing(tmp_path: Path) -> None:
    setting = Setting("mean", EmpiricalMean(), NonPrivate())
    task = BlockTask((("law", TwoPoint(p=0.1, k=2)),), 10**6, (setting,), 0, 0, "cell")
    blocks, result = Store(tmp_path, "source"), run_block(task)
    blocks.write(task, result)
    whole, seen = blocks.path(task).read_bytes(), 0
    columns = pq.ParquetFile(blocks.path(task)).metadata.row_group(0)
    texts = next(c for i in range(99) if (c := columns.column(i)).path_in_schema == "message")
    message = range(texts.dictionary_page_offset, texts.data_page_offset + 200, 3)
    tried = {*range(0, len(whole), 29), *message}
    for at in tried:
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        blocks.path(task).write_bytes(data)
        try:
            values = blocks.read(task).values
        except CorruptBlockError:
            seen += 1
            continue
        for metric, expected in result.values.items():
            np.testing.assert_array_equal(values[metric], expected, err_msg=f"byte {at}")
    assert seen > len(tried) / 3


def test_a_changed_helper_makes_blocks_stale(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(dpbench.__file__).parent == store.PACKAGE
    package = bench.folder / "copy"
    shutil.copytree(store.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(store, "PACKAGE", package)
    bench.forget()
    assert bench.run().code == 0
    results = bench.results()
    for name, done in [("analysis/claims.py", 0), ("privacy/budgets.py", 5)]:
        path = package / name
        path.write_text(path.read_text() + "\n# changed\n")
        bench.forget()
        assert bench.run().code == 0
        assert bench.manifest()["blocks_done"] == done
        assert bench.results() == results


def test_a_changed_plugin_makes_blocks_stale(bench: Bench) -> None:
    """Or a changed module beside it, that it imports."""
    bench.write(lambda spec: spec["estimators"].update(wide={"kind": "wide_mean"}))
    found = []
    for shift, body in (("0.0", "pass"), ("100.0", "pass"), ("100.0", "value = value + 1")):
        (bench.conf / "helper.py").write_text(f"SHIFT = {shift}\n")
        bench.plugin("WideMean", f"{body}; value = value + helper.SHIFT")
        path = bench.conf / "mine.py"
        path.write_text(f"import helper\n{path.read_text()}")
        bench.forget()
        assert bench.run("plugins=[mine]", "trials=4").code == 0
        assert bench.manifest()["blocks_done"] == 5
        found.append(bench.read("summary.csv"))
    assert len(set(found)) == 3


def test_a_worker_that_dies_is_one_line(bench: Bench) -> None:
    dies = (
        "import multiprocessing as m, os; m.current_process().name != 'MainProcess' and os._exit(9)"
    )
    bench.plugin("WideMean", dies)
    bench.write(lambda spec: spec["estimators"].update(wide={"kind": "wide_mean"}))
    argv = [word for word in bench.argv("plugins=[mine]") if not word.startswith("n_jobs=")]
    result = bench.command(*argv, "n_jobs=2")
    assert result.code == 1, result
    assert "Traceback" not in result.err
    last = result.err.strip().splitlines()[-1]
    assert last.startswith("dpbench: TerminatedWorkerError: ")
    assert "finished blocks are kept, to go on: " in last


@pytest.fixture
def stuck(bench: Bench) -> Iterator[subprocess.Popen[str]]:
    """A run on two processes that goes no further than a few blocks, of which there are ten."""
    with_plugin(bench, WAIT)
    assert bench.run("plugins=[mine]", "out=whole").code == 0
    assert len(bench.blocks("whole")) == 10
    wait = bench.folder / "wait"
    wait.touch()
    process = bench.start(*COMMAND)
    wait_for(lambda: len(bench.blocks()) >= 3, process)
    yield process
    kill(process)
    process.communicate()


def resumed(bench: Bench) -> None:
    """Nothing that was finished is computed again, and all is as if done at once."""
    (bench.folder / "wait").unlink()
    kept = len(bench.blocks())
    assert 3 <= kept < 10
    result = bench.run("plugins=[mine]")
    assert result.code == 0
    assert "damaged" not in result.out
    assert bench.manifest()["blocks_reused"] == kept
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
    assert [line for line in result.err.splitlines() if line][-1:] == [
        line for line in result.err.splitlines() if "interrupted" in line
    ]
    assert not list((bench.folder / "out").rglob("*.tmp"))
    assert shlex.split(result.err.strip().rpartition("python -m dpbench ")[2]) == COMMAND
    resumed(bench)


def test_two_runs_at_once(bench: Bench) -> None:
    """Which write all blocks at the same moments."""
    with_plugin(bench, MEET)
    (bench.folder / "meet").mkdir()
    for process in [bench.start(*bench.argv("plugins=[mine]")) for _ in range(2)]:
        result = finish(process)
        assert result.code == 0, result.err
    assert not list((bench.folder / "out").rglob("*.tmp"))
    assert len(bench.blocks()) == 10
    with_plugin(bench, "pass")
    assert bench.run("plugins=[mine]", "out=alone").code == 0
    assert bench.results() == bench.results("alone")


def test_more_trials_keep_the_earlier_ones(bench: Bench) -> None:
    bench.run("trials=20")
    first = bench.manifest()["blocks_done"]
    assert bench.run("trials=220").code == 0
    assert bench.manifest()["blocks_reused"] == first
    bench.run("trials=220", "out=once")
    assert bench.results() == bench.results("once")
    bench.run("trials=20")
    bench.run("trials=20", "out=few")
    assert bench.results() == bench.results("few")


def test_the_printed_command_adds_trials(bench: Bench) -> None:
    """What a run tells the user to type must work as it stands."""
    out = "my results"
    bench.plugin("WideMean")
    bench.write(lambda spec: spec["estimators"].update(wide={"kind": "wide_mean"}))
    printed = bench.run("plugins=[mine]", f"out={out}").out.splitlines()[-1]
    words = shlex.split(printed.partition("python -m dpbench ")[2])
    result = bench.raw(*words)
    assert result.code == 0, result.err
    assert bench.manifest(out)["trials"] == 80
    assert bench.manifest(out)["blocks_reused"] == 5


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writing more than `size` bytes to a file fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk(bench: Bench) -> None:
    bench.write(lambda spec: spec["figures"].update(errors=FIGURE))
    assert bench.run("out=whole").code == 0
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
    assert bench.run().code == 0
    assert bench.manifest()["blocks_reused"] == 5
    assert bench.results() == bench.results("whole")


@pytest.mark.parametrize("out", ["a b/x=1,[2] a%20b é", "~/tilde"])
def test_an_out_of_any_name(bench: Bench, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    """Python, pyarrow and matplotlib must agree on where it is."""
    monkeypatch.setenv("HOME", str(bench.folder / "home"))
    result = bench.run(f"out='{out}'", "trials=4")
    assert result.code == 0, result.err
    assert [len(bench.blocks(at)) for at in (out, out.replace("~", "home", 1))].count(5) >= 1
