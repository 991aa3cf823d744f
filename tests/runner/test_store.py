"""Blocks on disk and in memory, and runs that reuse them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sweeps import CLIP, COIN, Made

from dpbench.metrics import ERRORS
from dpbench.output import atomic
from dpbench.registry import ConfigError
from dpbench.runner import run
from dpbench.runner.block import Block, BlockTask
from dpbench.runner.plan import Cell
from dpbench.runner.provenance import Cost
from dpbench.runner.run import RunOptions, check_writable, run_cells
from dpbench.runner.store import CorruptBlockError, Memory, Store

MADE = Made(
    families={"coin": COIN, "numbers": {"kind": "gaussian"}},
    estimators={"clip": CLIP, "mean": {"kind": "empirical_mean"}},
    budgets={"pure": {"kind": "pure_dp", "epsilon": [0.5, 1]}},
    n=[100],
    trials=450,
)
TASKS = [task for cell in MADE.cells for task in cell.tasks(3)]
NO = lambda _: None  # noqa: E731


def _block(task: BlockTask, *names: str) -> Block:
    """Numbers that no other block has, with failures, NaN and infinities."""
    rng = np.random.default_rng([len(task.name), int(task.name[:8], 16), task.index])
    shape = (len(task.keys), task.trials)
    values = {name: rng.standard_exponential(shape) for name in (*ERRORS, *names)}
    values["error"][0, :3] = np.nan, np.inf, 0.0
    values["error"][1] = np.nan
    return Block(values, {1: "RuntimeError: größer, '|'\nthan one line"})


def _same(one: Block, other: Block) -> None:
    assert list(one.values) == list(other.values)
    for name, table in one.values.items():
        np.testing.assert_array_equal(table, other.values[name])
    assert one.failures == other.failures


def test_blocks_come_back_as_they_were(tmp_path: Path) -> None:
    store = Store(tmp_path, "source")
    for task, names in zip(TASKS, [(), ("width", "missed"), ("core",), ()] * 2, strict=False):
        assert not store.has(task)
        store.write(task, _block(task, *names))
        assert store.has(task)
        _same(store.read(task), _block(task, *names))
    assert len(list((tmp_path / "blocks").iterdir())) == len(TASKS)  # and no temporary file
    # Other code, another seed, other trials: another file.
    assert not Store(tmp_path, "other").has(TASKS[0])
    assert not any(store.has(task) for cell in MADE.cells for task in cell.tasks(4))


def test_a_block_is_a_table_that_speaks_for_itself(tmp_path: Path) -> None:
    store, task = Store(tmp_path, "source"), TASKS[1]
    store.write(task, _block(task))
    table = pq.read_table(store.path(task)).to_pandas()
    assert len(table) == 3 * 200
    assert set(table["trial"]) == set(range(200, 400))
    row = table[(table["estimator"] == "clip") & (table["epsilon"] == 0.5)].iloc[0]
    assert (row["privacy"], row["n"], row["seed"], row["distribution"]) == ("pure", 100, 3, "coin")
    assert np.isnan(row["delta"])
    states = [list(rows["status"]) for _, rows in table.groupby(np.arange(600) // 200)]
    assert states[0] == ["nothing released"] * 2 + ["released"] * 198
    assert states[1] == ["failed"] * 200


def _truncated(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _flipped(path: Path, other: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def _emptied(path: Path, other: Path) -> None:
    path.write_bytes(b"")


def _swapped(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


DAMAGES = [_truncated, _flipped, _emptied, _swapped]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_blocks_are_seen(tmp_path: Path, damage: Callable[[Path, Path], None]) -> None:
    store = Store(tmp_path, "source")
    for task in TASKS[:2]:
        store.write(task, _block(task))
    damage(*(store.path(task) for task in TASKS[:2]))
    with pytest.raises(CorruptBlockError, match=store.path(TASKS[0]).name) as caught:
        store.read(TASKS[0])
    assert len(str(caught.value).splitlines()) == 1
    _same(store.read(TASKS[1]), _block(TASKS[1]))


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def write(text: str, *, fail: bool) -> None:
        with atomic(tmp_path / "a" / "b") as temporary:
            temporary.write_text(text)
            if fail:
                raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write("x", fail=True)
    assert list((tmp_path / "a").iterdir()) == []
    write("y", fail=False)
    with pytest.raises(OSError, match="full"):
        write("x", fail=True)
    assert [path.read_text() for path in (tmp_path / "a").iterdir()] == ["y"]


def test_memory_keeps_blocks_apart() -> None:
    store = Memory()
    store.write(TASKS[0], _block(TASKS[0]))
    assert [store.has(task) for task in TASKS] == [True] + [False] * (len(TASKS) - 1)
    store.write(TASKS[1], _block(TASKS[1]))
    _same(store.read(TASKS[0]), _block(TASKS[0]))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[BlockTask]:
    """The blocks that runs compute, which are `_block`."""
    done: list[BlockTask] = []

    def compute(_: Any, tasks: Sequence[BlockTask], *rest: Any) -> Iterator[tuple[Any, Block]]:
        for task in reversed(tasks):  # in any order
            done.append(task)
            yield task, dataclasses.replace(_block(task), cpu_seconds=2.0, seconds={"clip": 1.0})

    monkeypatch.setattr(run, "compute", compute)
    return done


def _run(
    store: Store | Memory, cells: Sequence[Cell] = MADE.cells, say: Any = NO, **options: Any
) -> tuple[list[tuple[int, list[Block]]], Cost]:
    cost = Cost()
    return list(run_cells(cells, RunOptions(seed=3, **options), store, cost, say)), cost


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_run_computes_what_is_missing(
    tmp_path: Path, computed: list[BlockTask], kind: str
) -> None:
    store = Memory() if kind == "memory" else Store(tmp_path, "source")
    found, cost = _run(store, MADE.cells[1:])
    assert (cost.blocks_done, cost.blocks_reused, cost.cells_done) == (3, 0, 1)
    assert (cost.records_drawn, cost.worker_cpu_seconds) == (3 * 200 * 100, 6.0)
    assert cost.estimator_seconds == {"clip": 3.0}
    # What is there comes first, and is not computed again.
    found, cost = _run(store)
    assert [index for index, _ in found] == [1, 0]
    assert (cost.blocks_done, cost.blocks_reused) == (3, 3)
    assert (cost.cells_done, cost.cells_reused) == (1, 1)
    assert sorted(task.index for task in computed) == [0, 0, 1, 1, 2, 2]
    for index, blocks in found:
        for task, block in zip(MADE.cells[index].tasks(3), blocks, strict=True):
            _same(block, _block(task))
    assert _run(store, resume=False)[1].blocks_done == 6


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_mends_damaged_blocks(
    tmp_path: Path, computed: list[BlockTask], damage: Callable[[Path, Path], None]
) -> None:
    store = Store(tmp_path, "source")
    _run(store)
    computed.clear()
    damage(*(store.path(task) for task in TASKS[1:3]))
    said: list[str] = []
    found, cost = _run(store, say=said.append)
    name = store.path(TASKS[1]).name
    assert computed == [TASKS[1]]
    assert cost.blocks_corrupt == [name]
    assert (cost.blocks_done, cost.blocks_reused) == (1, 5)
    assert len(said) == 1
    assert said[0].startswith(f"damaged block, computing it again: {name}: ")
    for task, block in zip(TASKS[:3], dict(found)[0], strict=True):
        _same(block, _block(task))


def test_a_folder_that_cannot_be_written_to_is_refused(
    tmp_path: Path, computed: list[BlockTask]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"^out: '.*/file/run': cannot be written to: "):
        _run(Memory(), out=tmp_path / "file" / "run")
    assert computed == []
    check_writable(tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()
