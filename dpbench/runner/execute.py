"""Running blocks: in this process, on local ones, or on a dask cluster."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from dpbench.registry import ConfigError, validated

__all__ = ["Runner", "compute"]

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
        Processes of this machine, or joblib's dask backend.
    address : str, optional
        A running dask scheduler, such as ``tcp://host:8786``; by default a local
        cluster of `n_jobs` single-threaded workers is started.
    """

    backend: Literal["local", "dask"] = "local"
    address: Annotated[str, Field(pattern=r"^[a-z]+://")] | None = None


def compute(
    run: Callable[[Task], Result],
    tasks: Sequence[Task],
    runner: Runner,
    n_jobs: int,
    plugins: tuple[Path, ...],
) -> Iterator[tuple[Task, Result]]:
    """Run all tasks by a module's function and yield each with its result, in any order.

    `n_jobs` is joblib's, of which at most one a task is used, `plugins` are the source files that
    dask workers need. ConfigError if dask is not installed or its scheduler does not answer.
    """
    import joblib  # slow to load, like all that a refusal can do without

    if not tasks:
        return
    workers = min(joblib.cpu_count() if n_jobs < 0 else n_jobs, len(tasks))
    with _backend(runner, workers, plugins):
        parallel = joblib.Parallel(
            n_jobs=workers if runner.backend == "local" else -1,
            return_as="generator_unordered",
            batch_size=1,
        )
        left, here = dict(enumerate(tasks[1:])), tasks[:1]
        # Handing over costs as much as a small block: of many several at once, and then those that
        # there was no time for one by one.
        for size in (min(MOST_AT_ONCE, 1 + len(left) // MANY), 1):
            index = list(left)
            shares = [index[at : at + size] for at in range(0, len(index), size)]
            calls = (joblib.delayed(_share)(run, {i: left[i] for i in share}) for share in shares)
            with _interrupts_ignored():
                results = parallel(calls)
            for task in here:  # the first one, while the workers start
                yield task, run(task)
            here = []
            for i, result in itertools.chain.from_iterable(results):
                yield left.pop(i), result


def _share(run: Callable[[Task], Result], share: Mapping[int, Task]) -> list[tuple[int, Result]]:
    """Run those of these tasks, at least the first, that are begun in time."""
    found, end = list[tuple[int, Result]](), time.monotonic() + SECONDS
    for index, task in share.items():
        if not found or time.monotonic() < end:
            found.append((index, run(task)))
    return found


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which is for this one alone; they inherit it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _backend(runner: Runner, n_jobs: int, plugins: tuple[Path, ...]) -> Iterator[None]:
    if runner.backend == "local":
        yield
        return
    try:
        import distributed as dask_distributed  # an extra
        import joblib
    except ImportError as error:
        raise ConfigError(
            "runner: 'dask': not installed; install the extra with pip install 'dpbench-mean[dask]'"
        ) from error
    distributed: Any = dask_distributed
    with contextlib.ExitStack() as stack:
        cluster: Any = runner.address
        if cluster is None:
            alone = {"threads_per_worker": 1, "dashboard_address": None}
            with _interrupts_ignored():
                cluster = stack.enter_context(distributed.LocalCluster(n_workers=n_jobs, **alone))
        try:
            client = stack.enter_context(distributed.Client(cluster, timeout="10s"))
        except OSError as error:
            raise ConfigError(
                f"runner.address: {runner.address!r}: no dask scheduler answers there"
            ) from error
        for plugin in plugins:
            client.upload_file(str(plugin))
        stack.enter_context(joblib.parallel_config(backend="dask"))
        yield
