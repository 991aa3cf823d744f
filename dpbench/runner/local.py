"""Running blocks on processes of this machine, which end when this one does."""

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

# Of as many tasks one more at a time is handed over, up to a limit, and worked on for so long.
MANY, MOST_AT_ONCE, SECONDS = 256, 32, 0.1
T = TypeVar("T")  # a task
R = TypeVar("R")  # what becomes of it


def run_locally(
    run: Callable[[T], R], tasks: Sequence[T], workers: int, origin: Origin
) -> Iterator[tuple[T, R]]:
    """Run tasks on processes of this machine, and the first task in this one."""
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
    # Handing over costs as much as a small block: of many several at once, and then those that
    # there was no time for one by one.
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
            with warnings.catch_warnings(action="ignore"):  # of tasks that are cancelled
                results.close()


def run_share(
    run: Callable[[T], R],
    share: Mapping[int, T],
    origin: Origin,
    seconds: float = SECONDS,
) -> tuple[list[tuple[int, R]], Origin, int]:
    """Run those of these tasks, at least the first, that are begun in time; by what, and where."""
    found, end = list[tuple[int, R]](), time.monotonic() + seconds
    for index, task in share.items():
        if not found or time.monotonic() < end:
            found.append((index, run(task)))
    return found, origin.here(), os.getpid()


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
