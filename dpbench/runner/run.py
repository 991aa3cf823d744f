"""A sweep from its cells to its summary: reuse what is stored, compute what is not."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dpbench.config import Settings
from dpbench.console import BlockProgress
from dpbench.registry import ConfigError
from dpbench.runner.block import BlockResult, BlockTask, run_block
from dpbench.runner.collect import Collected, Metrics, collect, join
from dpbench.runner.execute import Runner, compute
from dpbench.runner.manifest import Cost
from dpbench.runner.plan import Cell
from dpbench.runner.store import CorruptBlockError, Store

__all__ = ["RunOptions", "run_cells"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunOptions:
    """How to run, none of which changes a number.

    Attributes
    ----------
    seed : int
        The exception: it names all random streams.
    n_jobs : int
    runner : Runner
    out : Path
        The run's folder.
    resume : bool
        Whether to reuse blocks in `out`.
    plugins : tuple of Path
        Source files of plug-ins.
    """

    seed: int
    n_jobs: int
    runner: Runner
    out: Path
    resume: bool = True
    plugins: tuple[Path, ...] = ()

    @classmethod
    def configured(cls, settings: Settings, name: str, plugins: tuple[Path, ...]) -> Self:
        """As the configuration of a sweep of that name says."""
        return cls(
            seed=settings.seed,
            n_jobs=settings.n_jobs,
            runner=settings.runner,
            out=Path(settings.out or f"results/{name}").expanduser(),
            resume=settings.resume,
            plugins=plugins,
        )


def check_writable(folder: Path, key: str = "out") -> None:
    """Refuse a folder that cannot be written to, before anything is computed.

    Raises
    ------
    ConfigError
        Naming the folder and what the system says.
    """
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise ConfigError(f"{key}: '{folder}': cannot be written to: {error.strerror}") from error


def run_cells(
    cells: Sequence[Cell], options: RunOptions, metrics: Metrics, cost: Cost, say: Say
) -> Collected:
    """Run or reuse every block of `cells` and summarise them.

    Parameters
    ----------
    cells : sequence of Cell
    options : RunOptions
    metrics : mapping
        What claims need, see `collect`.
    cost : Cost
        Counts what is done.
    say : callable
        Told, in one line each, what a user should know.

    Raises
    ------
    ConfigError
        If the folder cannot be written to, or the runner cannot start.
    OSError
        If the disk fills up; finished blocks are kept.
    KeyboardInterrupt
        Likewise.
    """
    check_writable(options.out)
    store = Store(options.out, options.plugins)
    found: dict[int, Collected] = {}
    pending: list[BlockTask] = []
    for index, cell in enumerate(cells):
        tasks = cell.tasks(options.seed)
        blocks = [_stored(store, task, cost, say) if options.resume else None for task in tasks]
        missing = [task for task, block in zip(tasks, blocks, strict=True) if block is None]
        whole = [block for block in blocks if block is not None]
        if not missing:
            found[index] = collect(cell, whole, metrics)
        cost.blocks_reused += len(whole)
        pending += missing
    cost.cells_reused += len(found)
    cost.cells_done += len(cells) - len(found)
    _compute(pending, store, options, cost)
    for index, cell in enumerate(cells):
        if index not in found:
            blocks_of_cell = [store.read(task) for task in cell.tasks(options.seed)]
            found[index] = collect(cell, blocks_of_cell, metrics)
    return join([found[index] for index in range(len(cells))])


def _stored(store: Store, task: BlockTask, cost: Cost, say: Say) -> BlockResult | None:
    """The stored block; None if it is absent or damaged."""
    if not store.has(task):
        return None
    try:
        return store.read(task)
    except CorruptBlockError as error:
        cost.blocks_corrupt.append(store.path(task).name)
        say(f"damaged block, computing it again: {error}")
        return None


def _compute(pending: list[BlockTask], store: Store, options: RunOptions, cost: Cost) -> None:
    if not pending:
        return
    with BlockProgress(len(pending), cost.blocks_reused) as progress:
        for task, result in compute(
            run_block, pending, options.runner, options.n_jobs, options.plugins
        ):
            store.write(task, result)
            cost.blocks_done += 1
            cost.records_drawn += task.n * task.trials * len(task.members)
            cost.worker_cpu_seconds += result.cpu_seconds
            cost.worker_peak_bytes = max(cost.worker_peak_bytes, result.peak_bytes)
            progress.advance()
