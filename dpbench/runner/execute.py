"""Running blocks: in this process and on local ones, or on a dask cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from dpbench.endings import SIGNALS
from dpbench.registry import ConfigError, validated
from dpbench.runner.sources import Computer

__all__ = ["Runner", "compute", "run_share"]

Task = TypeVar("Task")
Result = TypeVar("Result")

# Of as many tasks one more at a time is handed over, up to a limit, and worked on for so long.
MANY, MOST_AT_ONCE, SECONDS = 256, 32, 0.1


@validated
class Runner:
    """Where blocks run.

    Parameters
    ----------
    backend : {'local', 'dask'}
        Processes of this machine, or a dask cluster.
    address : str, optional
        A running dask scheduler, such as ``tcp://host:8786``, or ``tls://host:8786`` with the
        credentials of dask's configuration; by default a cluster of `n_jobs` threads in this
        process, which nobody else can reach.
    """

    backend: Literal["local", "dask"] = "local"
    address: Annotated[str, Field(pattern=r"^(tcp|tls|wss?|ucx)://.+:\d+$")] | None = None


def compute(
    run: Callable[[Task], Result],
    tasks: Sequence[Task],
    runner: Runner,
    n_jobs: int,
    plugins: tuple[Path, ...] = (),
    depends: tuple[str, ...] = (),
) -> Iterator[tuple[Task, Result]]:
    """Run all tasks by a module's function and yield each with its result, in any order.

    `n_jobs` is joblib's, of which at most one a task is used, `plugins` are the source files that
    dask workers need; for `depends` see `dpbench.runner.sources.used_by`. ConfigError if a worker
    computes by other source, or if dask is not installed or its scheduler does not answer.
    """
    if not tasks:
        return
    import joblib  # slow to load, like all that a refusal can do without

    workers = min(joblib.cpu_count() if n_jobs < 0 else n_jobs, len(tasks))
    if runner.backend == "dask":
        try:
            from dpbench.runner.cluster import computed  # an extra
        except ImportError as error:
            raise ConfigError(
                "runner: 'dask': not installed; install the extra with pip install "
                "'dpbench-mean[dask]'"
            ) from error
        for i, result in computed(run, tasks, runner.address, workers, plugins, depends):
            yield tasks[i], result
    else:
        yield from _locally(run, tasks, workers, depends)


def _locally(
    run: Callable[[Task], Result], tasks: Sequence[Task], workers: int, depends: tuple[str, ...]
) -> Iterator[tuple[Task, Result]]:
    """On processes of this machine, and the first task in this one."""
    import joblib

    parallel = joblib.Parallel(
        n_jobs=workers,
        return_as="generator_unordered",
        batch_size=1,
        initializer=_end_with,
        initargs=(os.getpid(),),
    )
    left, first, here = dict(enumerate(tasks[1:])), tasks[:1], Computer.of(depends)
    # Handing over costs as much as a small block: of many several at once, and then those that
    # there was no time for one by one.
    for size in (min(MOST_AT_ONCE, 1 + len(left) // MANY), 1):
        index = list(left)
        shares = [index[at : at + size] for at in range(0, len(index), size)]
        given = ({i: left[i] for i in share} for share in shares)
        with _signals_held():
            results = parallel(joblib.delayed(run_share)(run, share, depends) for share in given)
        try:
            for task in first:  # while the workers start
                yield task, run(task)
            first = []
            for found, computer, process in results:
                computer.check(here, f"process {process}", "a file was edited, run it again")
                for i, result in found:
                    yield left.pop(i), result
        finally:
            with warnings.catch_warnings(action="ignore"):  # of tasks that are cancelled
                results.close()


def run_share(
    run: Callable[[Task], Result],
    share: Mapping[int, Task],
    depends: tuple[str, ...],
    seconds: float = SECONDS,
) -> tuple[list[tuple[int, Result]], Computer, int]:
    """Run those of these tasks, at least the first, that are begun in time; by what, and where."""
    found, end = list[tuple[int, Result]](), time.monotonic() + seconds
    for index, task in share.items():
        if not found or time.monotonic() < end:
            found.append((index, run(task)))
    return found, Computer.here(depends), os.getpid()


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Start processes that are deaf to signals, which are for this one; meanwhile they wait."""
    from joblib.externals.loky.backend import resource_tracker

    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        resource_tracker.ensure_running()  # which lets some of them through
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, by whatever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
