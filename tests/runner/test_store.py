"""Blocks on disk and in memory, and runs that reuse them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
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


# A bit is flipped in one of them.
DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda data: data[:-100],
    lambda data: data[: (at := len(data) // 3)] + bytes([data[at] ^ 1]) + data[at + 1 :],
    lambda _: b"",
]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def write(text: str, *, fail: bool) -> None:
        with atomic(tmp_path / "a" / "b") as temporary:
            temporary.write_text(text)
            if fail:
                raise OSError("full")

    for before in ([], ["y"]):
        with pytest.raises(OSError, match="full"):
            write("x", fail=True)
        assert [path.read_text() for path in (tmp_path / "a").iterdir()] == before
        write("y", fail=False)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[BlockTask]:
    """The blocks that runs compute, which are `_block`."""
    done: list[BlockTask] = []

    def compute(_: Any, tasks: Sequence[BlockTask], *rest: Any) -> Iterator[tuple[Any, Block]]:
        for task in reversed(tasks):  # in any order
            done.append(task)
            yield task, _block(task)

    monkeypatch.setattr(run, "compute", compute)
    return done


def _run(
    store: Store | Memory, cells: Sequence[Cell] = MADE.cells, **options: Any
) -> tuple[dict[int, list[Block]], Cost, list[str]]:
    cost, said = Cost(), list[str]()
    found = run_cells(cells, RunOptions(seed=3, **options), store, cost, said.append)
    return dict(found), cost, said


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_run_computes_what_is_missing(
    tmp_path: Path, computed: list[BlockTask], kind: str
) -> None:
    store = Memory() if kind == "memory" else Store(tmp_path, "source")
    _, cost, _ = _run(store, MADE.cells[1:])
    assert (cost.blocks_done, cost.blocks_reused, cost.cells_done) == (3, 0, 1)
    assert (cost.records_drawn, cost.worker_cpu_seconds) == (3 * 200 * 100, 6.0)
    assert cost.estimator_seconds == {"clip": 3.0}
    # What is there comes first, and is not computed again.
    found, cost, _ = _run(store)
    assert list(found) == [1, 0]
    assert (cost.blocks_done, cost.blocks_reused) == (3, 3)
    assert (cost.cells_done, cost.cells_reused) == (1, 1)
    assert sorted(task.index for task in computed) == [0, 0, 1, 1, 2, 2]
    for index, blocks in found.items():
        for task, block in zip(MADE.cells[index].tasks(3), blocks, strict=True):
            _same(block, _block(task))
    assert _run(store, resume=False)[1].blocks_done == 6


@pytest.mark.parametrize("damage", [*DAMAGES, None])
def test_a_run_mends_damaged_blocks(
    tmp_path: Path, computed: list[BlockTask], damage: Callable[[bytes], bytes] | None
) -> None:
    store = Store(tmp_path, "source")
    _run(store)
    computed.clear()
    path, other = (store.path(task) for task in TASKS[1:3])
    path.write_bytes(damage(path.read_bytes()) if damage else other.read_bytes())
    with pytest.raises(CorruptBlockError, match=path.name) as caught:
        store.read(TASKS[1])
    found, cost, said = _run(store)
    assert computed == [TASKS[1]]
    assert cost.blocks_corrupt == [path.name]
    assert (cost.blocks_done, cost.blocks_reused) == (1, 5)
    assert said == [f"damaged block, computing it again: {caught.value}"]
    for task, block in zip(TASKS[:3], found[0], strict=True):
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
