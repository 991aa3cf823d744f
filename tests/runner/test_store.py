"""Blocks on disk and in memory, and runs that reuse them."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbench.distributions import TwoPoint
from dpbench.estimators import EmpiricalMean
from dpbench.output.files import atomic, check_writable
from dpbench.privacy import NonPrivate
from dpbench.registry import ConfigError
from dpbench.report.drawing.style import save
from dpbench.runner import run, store
from dpbench.runner.cost import Cost
from dpbench.runner.run import RunOptions, run_cells
from dpbench.runner.store import CorruptBlockError, Memory, Opened, Store
from dpbench.sweep.block import Block, BlockTask, Setting, run_block
from dpbench.sweep.metrics import ERRORS
from dpbench.sweep.plan import Cell
from tests.bench import FIGURE, Bench
from tests.sweeps import CLIP, COIN, Made

MADE = Made(
    families={"coin": COIN, "numbers": {"kind": "gaussian"}},
    estimators={"clip": CLIP, "mean": {"kind": "empirical_mean"}},
    budgets={"pure": {"kind": "pure_dp", "epsilon": [0.5, 1]}},
    n=[100],
    trials=450,
)
TASKS = [task for cell in MADE.cells for task in cell.tasks(3)]


def _block(task: BlockTask, *names: str) -> Block:
    """Numbers that no other block has, with failures, NaN and infinities."""
    rng = np.random.default_rng([len(task.name), int(task.name[:8], 16), task.index])
    shape = (len(task.keys), task.trials)
    values = {name: rng.standard_exponential(shape) for name in (*ERRORS, *names)}
    values["error"][0, :3] = np.nan, np.inf, 0.0
    values["error"][1] = np.nan
    failed = {1: "RuntimeError: größer, '|'\nthan one line"}
    return Block(values, failed, cpu_seconds=2.0, seconds={"clip": 1.0})


def _same(one: Block, other: Block) -> None:
    assert list(one.values) == list(other.values)
    for name, table in one.values.items():
        np.testing.assert_array_equal(table, other.values[name])
    assert one.failures == other.failures


def test_blocks_come_back_as_they_were(tmp_path: Path) -> None:
    blocks = Store(tmp_path, "source")
    names: list[tuple[str, ...]] = [(), ("width", "missed"), ("core",)] * 2
    for task, more in zip(TASKS, names, strict=True):
        assert blocks.find(task) is None
        blocks.write(task, _block(task, *more))
    blocks.flush()
    for found in (blocks, Store(tmp_path, "source")):
        for task, more in zip(TASKS, names, strict=True):
            _same(found.read(task), _block(task, *more))
    (path,) = (tmp_path / "blocks").iterdir()  # no earlier one, and no temporary file
    texts = ("distribution", "estimator", "privacy", "status", "message")
    assert {pq.read_schema(path).field(name).type for name in texts} == {pa.string()}
    rows = pd.read_parquet(path.parent)
    assert len(rows) == sum(len(task.keys) * task.trials for task in TASKS)
    of_key = rows.groupby(["distribution", "estimator", "privacy", "epsilon", "n"], dropna=False)
    assert all(sorted(trials) == list(range(600)) for _, trials in of_key["trial"])
    status = [
        "failed" if text else "released" if np.isfinite(error) else "nothing released"
        for text, error in zip(rows["message"], rows["error"], strict=True)
    ]
    assert rows["status"].tolist() == status
    assert len(set(status)) == 3
    # Other code or another seed: other blocks.
    assert Store(tmp_path, "other").find(TASKS[0]) is None
    assert not any(blocks.find(task) for cell in MADE.cells for task in cell.tasks(4))


# A bit is flipped in one of them.
DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda data: data[:-100],
    lambda data: data[: (at := len(data) // 3)] + bytes([data[at] ^ 1]) + data[at + 1 :],
    lambda _: b"",
]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[BlockTask]:
    """The blocks that runs compute, which are `_block`."""
    done: list[BlockTask] = []

    def compute(_: Any, tasks: Sequence[BlockTask], *rest: Any) -> Iterator[tuple[Any, Any]]:
        for task in reversed(tasks):  # in any order
            done.append(task)
            yield task, (_block(task), [])

    monkeypatch.setattr(run, "compute", compute)
    return done


def _run(
    blocks: Store | Memory, cells: Sequence[Cell] = MADE.cells, **options: Any
) -> tuple[dict[int, list[Block]], Cost, list[str]]:
    cost, said = Cost(), list[str]()
    found = run_cells(cells, RunOptions(seed=3, **options), blocks, cost, said.append)
    return dict(found), cost, said


def test_a_cell_is_given_when_its_blocks_are_there(
    tmp_path: Path, computed: list[BlockTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is read for it: the blocks that were written last are in memory."""
    monkeypatch.setattr(store, "MAX_FILE_ROWS", 1)  # a block a file

    def refuse(path: Path) -> Opened:
        raise AssertionError(path)

    monkeypatch.setattr(store, "_open_file", refuse)
    found = run_cells(
        MADE.cells, RunOptions(seed=3), Store(tmp_path, "source"), Cost(), lambda _: None
    )
    for done, cell in ((3, 1), (6, 0)):
        index, blocks = next(found)
        assert (index, len(computed)) == (cell, done)
        for task, block in zip(MADE.cells[cell].tasks(3), blocks, strict=True):
            _same(block, _block(task))


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_run_computes_what_is_missing(
    tmp_path: Path, computed: list[BlockTask], kind: str
) -> None:
    blocks = Memory() if kind == "memory" else Store(tmp_path, "source")
    _, cost, _ = _run(blocks, MADE.cells[1:])
    assert (cost.blocks_done, cost.blocks_reused, cost.cells_done) == (3, 0, 1)
    assert (cost.records_drawn, cost.worker_cpu_seconds) == (3 * 200 * 100, 6.0)
    assert cost.estimator_seconds == {"clip": 3.0}
    # What is there comes first, and is not computed again.
    found, cost, _ = _run(blocks)
    assert list(found) == [1, 0]
    assert (cost.blocks_done, cost.blocks_reused) == (3, 3)
    assert (cost.cells_done, cost.cells_reused) == (1, 1)
    assert sorted(task.index for task in computed) == [0, 0, 1, 1, 2, 2]
    for index, got in found.items():
        for task, block in zip(MADE.cells[index].tasks(3), got, strict=True):
            _same(block, _block(task))
    assert _run(blocks, resume=False)[1].blocks_done == 6


@pytest.mark.parametrize("damage", [*DAMAGES, None])
def test_a_run_mends_damaged_blocks(
    tmp_path: Path,
    computed: list[BlockTask],
    damage: Callable[[bytes], bytes] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = len(TASKS[0].keys) * TASKS[0].trials
    monkeypatch.setattr(store, "MAX_FILE_ROWS", 2 * rows)
    _run(Store(tmp_path, "source"))
    written = [set(computed[i : i + 2]) for i in (0, 2, 4)]
    computed.clear()
    _, path, _ = files = Store(tmp_path, "source").files()
    before = [file.read_bytes() for file in files]
    path.write_bytes(damage(before[1]) if damage else before[0])
    blocks = Store(tmp_path, "source")
    with pytest.raises(CorruptBlockError, match=path.name) as caught:
        [blocks.read(task) for task in TASKS]
    path.write_bytes(damage(before[1]) if damage else before[0])
    found, cost, said = _run(Store(tmp_path, "source"))
    assert set(computed) in written
    assert cost.blocks_corrupt == [path.name]
    assert (cost.blocks_done, cost.blocks_reused) == (2, 4)
    assert said == [f"damaged blocks, computing them again: {caught.value}"]
    for task, block in zip(TASKS, [*found[0], *found[1]], strict=True):
        _same(block, _block(task))
    assert sorted(file.read_bytes() for file in Store(tmp_path, "source").files()) == sorted(before)
    assert _run(Store(tmp_path, "source"))[1].blocks_reused == 6


def test_many_blocks_are_few_files(
    tmp_path: Path, computed: list[BlockTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell of 100,000 trials is 50 blocks, and 300 cells are as many as they are."""
    monkeypatch.setattr(store, "MAX_FILE_ROWS", 1 << 14)
    two = {"clip": {**CLIP, "upper": [1, 2]}}
    small = Made(n=list(range(100, 400)), trials=1, estimators=two)
    many = Made(n=[100], trials=10**5, estimators=two)
    for made, count, trials in ((many, 50, 2000), (small, 300, 200)):
        computed.clear()
        folder = tmp_path / str(count)
        _run(Store(folder, "source"), made.cells)
        assert len(computed) == count
        of_file = -(-store.MAX_FILE_ROWS // (2 * trials))
        assert len(list((folder / "blocks").iterdir())) == -(-count // of_file) < 20
        assert _run(Store(folder, "source"), made.cells)[1].blocks_reused == count


def test_what_is_finished_is_soon_on_disk(tmp_path: Path) -> None:
    """The first block at once, later ones though no other comes; all is there at any moment."""
    blocks = Store(tmp_path, "source")
    for done, task in enumerate(TASKS, 1):
        blocks.write(task, _block(task))
        there = [Store(tmp_path, "source").find(one) is not None for one in TASKS[:done]]
        assert there == [True] + [False] * (done - 1)
    end = time.monotonic() + 30
    while len(there) != sum(there) and time.monotonic() < end:
        time.sleep(0.05)
        there = [Store(tmp_path, "source").find(one) is not None for one in TASKS]
    assert all(there)
    assert len(list((tmp_path / "blocks").iterdir())) == 1


def test_a_copy_on_another_process_has_what_waits_to_be_written(tmp_path: Path) -> None:
    blocks = Store(tmp_path, "source")
    for task in TASKS:
        blocks.write(task, _block(task))
    copy = pickle.loads(pickle.dumps(blocks))
    for task in TASKS:
        _same(copy.read(task), _block(task))


def test_a_slow_write_does_not_delay_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write of 1 s: the next begins 2 s after its end, and not 10 s."""
    now = 0.0

    @contextlib.contextmanager
    def slow(path: Path) -> Iterator[Path]:
        nonlocal now
        now += 1.0
        with atomic(path) as temporary:
            yield temporary

    monkeypatch.setattr(store, "atomic", slow)
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("threading.Timer.start", lambda timer: None)
    blocks, found = Store(tmp_path, "source"), []
    for task, at in zip(TASKS, (0.0, 1.5, 2.9, 3.0), strict=False):
        now = at
        blocks.write(task, _block(task))
        found.append(sum(Store(tmp_path, "source").find(one) is not None for one in TASKS))
    assert found == [1, 1, 1, 4]


def test_a_disk_that_is_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SECONDS_BETWEEN_WRITES", 0.0)
    (tmp_path / "blocks").touch()  # no folder can be made
    with pytest.raises(OSError, match="blocks"):
        Store(tmp_path, "source").write(TASKS[0], _block(TASKS[0]))


def test_a_folder_that_cannot_be_written_to_is_refused(
    tmp_path: Path, computed: list[BlockTask]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"^out: '.*/file/run': cannot be written to: "):
        _run(Memory(), out=tmp_path / "file" / "run")
    assert computed == []
    check_writable(tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


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
    monkeypatch.setattr(store, "MAX_FILE_ROWS", 1)  # a block a file
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


def test_a_file_goes_when_nothing_in_it_is_needed(tmp_path: Path) -> None:
    """A block that was computed again is in a new file; others may be in the old one alone."""
    old, new = tmp_path / "old", tmp_path / "new"
    for path in (old, new):
        path.touch()
    where = {"a": old, "b": old}
    store._enter_file(where, ["a"], new)
    assert (where, old.exists()) == ({"a": new, "b": old}, True)
    store._enter_file(where, ["b"], new)
    assert (where, old.exists()) == ({"a": new, "b": new}, False)


def test_a_block_that_read_a_file_serves_its_own_run_alone(tmp_path: Path) -> None:
    """Nobody knows whether the file has changed since, so a later run computes the block again."""
    free, bound = TASKS[:2]
    written = Store(tmp_path, "source")
    written.write(free, _block(free))
    written.write(bound, dataclasses.replace(_block(bound), reads=("/data.csv", "/more.csv")))
    written.flush()
    own, later = Store(tmp_path, "source", finished=True), Store(tmp_path, "source")
    for store_of_run in (own, later):
        _same(store_of_run.read(free), _block(free))
    _same(own.read(bound), _block(bound))
    assert later.find(bound) is None
    assert ([*own.unusable], [*later.unusable]) == ([], ["/data.csv", "/more.csv"])
