"""Run tasks on other processes of this machine, which end when this process ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from typing import TypeVar

from dpbench.runner.origin import Origin
from dpbench.runner.workers import hold_signals, start_workers, stop_workers

__all__ = ["R", "T", "run_locally", "run_share"]

# A worker receives min(MAX_LOCAL_TASKS, 1 + tasks//SHARES_AT_START) tasks at a time. It starts no
# further task of this share after LOCAL_SHARE_SECONDS.
SHARES_AT_START, MAX_LOCAL_TASKS, LOCAL_SHARE_SECONDS = 256, 32, 0.1
T = TypeVar("T")  # a task
R = TypeVar("R")  # the result of a task


def run_locally(
    run: Callable[[T], R], tasks: Sequence[T], workers: int, origin: Origin
) -> Iterator[tuple[T, R]]:
    """Run tasks on other processes of this machine, or in this process if `workers` is 1.

    Yield each task with its result, in any order. `run` is pickled, so it is defined at the top
    level of a module. A process with another origin (source, versions, machine) than `origin`
    raises ConfigError.
    """
    origin.here().check(origin, "this process", "a plug-in was edited after it was loaded")
    if workers == 1:
        yield from ((task, run(task)) for task in tasks)
        return
    remaining = dict(enumerate(tasks))
    # Handing a task over costs as much as a small block, so tasks are first handed over in shares.
    # Tasks for which a worker had no time follow, one at a time.
    for size in (min(MAX_LOCAL_TASKS, 1 + len(remaining) // SHARES_AT_START), 1):
        index = list(remaining)
        shares = [index[start : start + size] for start in range(0, len(index), size)]
        task_groups = ({i: remaining[i] for i in share} for share in shares)
        with hold_signals():
            executor = start_workers(workers)
            futures = {executor.submit(run_share, run, share, origin) for share in task_groups}
        results = as_completed(futures)
        del futures
        try:
            for future in results:
                share_results, worker_origin, process = future.result()
                del future
                worker_origin.check(origin, f"process {process}", "a file was edited, run it again")
                for i, result in share_results:
                    yield remaining.pop(i), result
        except BaseException:
            stop_workers(executor)
            raise


def run_share(
    run: Callable[[T], R],
    share: Mapping[int, T],
    origin: Origin,
    seconds: float = LOCAL_SHARE_SECONDS,
) -> tuple[list[tuple[int, R]], Origin, int]:
    """Run a share (a list of tasks) in order: the first task, then others until the time is over.

    `share` holds tasks by index, and `origin` belongs to the process that hands them over. Return
    (index, result) for each task that ran, the origin of this process, and its process id.
    """
    results, end = list[tuple[int, R]](), time.monotonic() + seconds
    for index, task in share.items():
        if not results or time.monotonic() < end:
            results.append((index, run(task)))
    return results, origin.here(), os.getpid()
