"""Run the cells of a sweep: reuse stored blocks and compute the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpbench.output.files import check_writable
from dpbench.output.terminal import progress
from dpbench.runner.cost import Cost
from dpbench.runner.execute import Runner, compute
from dpbench.runner.opened_files import explain_no_reuse, noting
from dpbench.runner.origin import Origin
from dpbench.runner.store import Memory, Store
from dpbench.sweep.block import Block, BlockTask, run_block
from dpbench.sweep.plan import Cell

__all__ = ["RunOptions", "Say", "run_cells"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunOptions:
    """Options of a run, see `Settings`; only the option `seed` changes the numbers.

    -1 for `n_jobs` uses all cores. Without a folder `out`, all blocks stay in memory. The default
    `origin` (source, versions and machine) is that with which this process computes blocks of
    trials.
    """

    seed: int = 0
    n_jobs: int = -1
    runner: Runner = field(default_factory=Runner)
    out: Path | None = None
    resume: bool = True
    origin: Origin = field(default_factory=Origin.of)

    def store(self, *, finished: bool = False) -> Store | Memory:
        """Return the store of the run's blocks, on disk or in memory; see `Store`."""
        if self.out is None:
            return Memory()
        return Store(self.out, self.origin.bits, finished=finished)


def run_cells(
    cells: Sequence[Cell], options: RunOptions, store: Store | Memory, cost: Cost, say: Say
) -> Iterator[tuple[int, list[Block]]]:
    """Compute the blocks of trials of all cells, or reuse stored blocks; yield each cell's blocks.

    A cell is a family at one sample size n, with the estimators that run on its data. The function
    yields the index of a cell with its blocks. Cells that already have all blocks in the store come
    first. Finished blocks stay stored after an interruption. `cost` is updated, and `say` prints a
    line for the user.
    """
    if options.out is not None:
        check_writable(options.out)
    pending: dict[int, list[BlockTask]] = {}
    with progress("cells", len(cells), "read", transient=True) as advance:
        for index, cell in enumerate(cells):
            tasks = cell.tasks(options.seed)
            blocks = [store.find(task) if options.resume else None for task in tasks]
            found_blocks = [block for block in blocks if block is not None]
            cost.blocks_reused += len(found_blocks)
            if len(found_blocks) == len(tasks):
                cost.cells_reused += 1
                yield index, found_blocks
            else:
                cost.cells_done += 1
                pairs = zip(tasks, blocks, strict=True)
                pending[index] = [task for task, block in pairs if block is None]
            advance()
    while store.damaged:
        error = store.damaged.pop(0)
        cost.blocks_corrupt.append(error.partition(":")[0])
        say(f"damaged blocks, computing them again: {error}")
    for name in store.unusable:
        say(explain_no_reuse("blocks", name))
    yield from _compute(cells, pending, options, store, cost)


def _compute(
    cells: Sequence[Cell],
    pending: Mapping[int, Sequence[BlockTask]],
    options: RunOptions,
    store: Store | Memory,
    cost: Cost,
) -> Iterator[tuple[int, list[Block]]]:
    """Compute and store the blocks of the tasks in `pending`, which has those of each cell.

    Yield each cell's index with all its blocks as soon as they are stored, because its caller can
    summarise a cell while other processes compute. Finished blocks survive an interruption.
    """
    o, tasks = options, [task for of_cell in pending.values() for task in of_cell]
    cell_of = {id(task): index for index, of_cell in pending.items() for task in of_cell}
    missing = {index: len(of_cell) for index, of_cell in pending.items()}
    results = compute(noting(run_block, o.origin), tasks, o.runner, o.n_jobs, o.origin)
    try:
        with progress("blocks", len(tasks), f"done, {cost.blocks_reused} reused") as advance:
            for task, (block, reads) in results:
                block.reads = reads
                store.write(task, block)
                cost.add(block, task.n * task.trials * len(task.members))
                advance()
                index = cell_of[id(task)]
                missing[index] -= 1
                if not missing[index]:
                    yield index, [store.read(task) for task in cells[index].tasks(o.seed)]
    finally:
        store.flush()
