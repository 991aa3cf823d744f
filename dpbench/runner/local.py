"""Run tasks on processes of this machine, which end when this process ends."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from dpbench.runner.origin import Origin
from dpbench.signals import SIGNALS

__all__ = ["R", "T", "run_locally", "run_share"]

# A worker is given min(MOST_AT_ONCE, 1 + tasks//MANY) tasks at a time, and after SECONDS it starts
# no further task of these.
MANY, MOST_AT_ONCE, SECONDS = 256, 32, 0.1
T = TypeVar("T")  # a task
R = TypeVar("R")  # its result


def run_locally(
    run: Callable[[T], R], tasks: Sequence[T], workers: int, origin: Origin
) -> Iterator[tuple[T, R]]:
    """Run the first task in this process and all others on other processes of this machine.

    Parameters
    ----------
    run : callable
        A function at the top level of a module, so that it can be pickled.
    tasks : sequence
        Arguments of `run`.
    workers : int
        Number of other processes.
    origin : Origin
        Origin that every process must have.

    Yields
    ------
    tuple
        A task and its result, in any order.

    Raises
    ------
    ConfigError
        If a process has another origin.
    """
    import joblib

    parallel = joblib.Parallel(
        n_jobs=workers,
        return_as="generator_unordered",
        batch_size=1,
        initializer=_end_with,
        initargs=(os.getpid(),),
    )
    origin.here().check(origin, "this process", "a plug-in was edited after it was loaded")
    left, first = dict(enumerate(tasks[1:])), tasks[:1]
    # Handing a task over costs as much as a small block. So many tasks are first handed over in
    # shares; tasks for which a worker had no time follow, each by itself.
    for size in (min(MOST_AT_ONCE, 1 + len(left) // MANY), 1):
        index = list(left)
        shares = [index[at : at + size] for at in range(0, len(index), size)]
        given = ({i: left[i] for i in share} for share in shares)
        with _signals_held():
            results = parallel(joblib.delayed(run_share)(run, share, origin) for share in given)
        try:
            for task in first:  # while the workers start
                yield task, run(task)
            first = []
            for found, theirs, process in results:
                theirs.check(origin, f"process {process}", "a file was edited, run it again")
                for i, result in found:
                    yield left.pop(i), result
        finally:
            with warnings.catch_warnings(action="ignore"):  # about cancelled tasks
                results.close()


def run_share(
    run: Callable[[T], R],
    share: Mapping[int, T],
    origin: Origin,
    seconds: float = SECONDS,
) -> tuple[list[tuple[int, R]], Origin, int]:
    """Run tasks until `seconds` have passed, at least one task.

    Parameters
    ----------
    run : callable
        Function of a task.
    share : mapping
        Tasks by index.
    origin : Origin
        Origin of the process that hands the tasks over.
    seconds : float
        Time after which no further task is started.

    Returns
    -------
    tuple
        List of (index, result), the origin of this process, and its process id.
    """
    found, end = list[tuple[int, R]](), time.monotonic() + seconds
    for index, task in share.items():
        if not found or time.monotonic() < end:
            found.append((index, run(task)))
    return found, origin.here(), os.getpid()


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Block signals while worker processes start, so that only this process handles signals.

    The workers inherit the blocked signals. This process receives its pending signals afterwards.
    """
    from joblib.externals.loky.backend import resource_tracker

    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        resource_tracker.ensure_running()  # unblocks some signals
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, for whatever reason."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
