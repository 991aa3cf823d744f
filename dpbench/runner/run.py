"""Run the cells of a sweep: reuse stored blocks and compute the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpbench.output.files import check_writable
from dpbench.output.terminal import progress
from dpbench.runner.cost import Cost
from dpbench.runner.execute import Runner, compute
from dpbench.runner.origin import Origin
from dpbench.runner.store import Memory, Store
from dpbench.sweep.block import Block, BlockTask, run_block
from dpbench.sweep.plan import Cell

__all__ = ["RunOptions", "Say", "run_cells"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunOptions:
    """Options of a run, of which only the seed changes numbers; see `Settings`.

    Parameters
    ----------
    seed : int
        Seed of all random streams.
    n_jobs : int
        Number of processes; -1 for all cores.
    runner : Runner
        Local processes or a dask cluster.
    out : Path, optional
        Folder of the run; None keeps all blocks in memory.
    resume : bool
        Whether to reuse stored blocks.
    origin : Origin
        Origin of the computed numbers.
    """

    seed: int = 0
    n_jobs: int = -1
    runner: Runner = field(default_factory=Runner)
    out: Path | None = None
    resume: bool = True
    origin: Origin = field(default_factory=Origin.of)

    def store(self) -> Store | Memory:
        """Return the store of the run's blocks, on disk or in memory."""
        return Memory() if self.out is None else Store(self.out, self.origin.bits)


def run_cells(
    cells: Sequence[Cell], options: RunOptions, store: Store | Memory, cost: Cost, say: Say
) -> Iterator[tuple[int, list[Block]]]:
    """Run or reuse every block of `cells`; an interruption keeps finished blocks.

    Parameters
    ----------
    cells : sequence of Cell
        Cells of a sweep.
    options : RunOptions
        Options of the run.
    store : Store or Memory
        Receives the blocks.
    cost : Cost
        Counts the work.
    say : callable
        Receives messages for the user, one line each.

    Yields
    ------
    tuple
        Index of a cell and its blocks; cells with all blocks in the store come first.
    """
    if options.out is not None:
        check_writable(options.out)
    pending: dict[int, list[BlockTask]] = {}
    with progress("cells", len(cells), "read", transient=True) as advance:
        for index, cell in enumerate(cells):
            tasks = cell.tasks(options.seed)
            blocks = [store.find(task) if options.resume else None for task in tasks]
            whole = [block for block in blocks if block is not None]
            cost.blocks_reused += len(whole)
            if len(whole) == len(tasks):
                cost.cells_reused += 1
                yield index, whole
            else:
                cost.cells_done += 1
                found = zip(tasks, blocks, strict=True)
                pending[index] = [task for task, block in found if block is None]
            advance()
    while store.damaged:
        error = store.damaged.pop(0)
        cost.blocks_corrupt.append(error.partition(":")[0])
        say(f"damaged blocks, computing them again: {error}")
    _compute([task for tasks in pending.values() for task in tasks], options, store, cost)
    with progress("cells", len(pending), "summarised", transient=True) as advance:
        for index in pending:
            yield index, [store.read(task) for task in cells[index].tasks(options.seed)]
            advance()


def _compute(
    tasks: Sequence[BlockTask], options: RunOptions, store: Store | Memory, cost: Cost
) -> None:
    """Compute and store blocks; an interruption keeps finished blocks."""
    o = options
    computed = compute(run_block, tasks, o.runner, o.n_jobs, o.origin)
    try:
        with progress("blocks", len(tasks), f"done, {cost.blocks_reused} reused") as advance:
            for task, block in computed:
                store.write(task, block)
                cost.add(block, task.n * task.trials * len(task.members))
                advance()
    finally:
        store.flush()
