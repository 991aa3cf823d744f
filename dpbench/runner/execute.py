"""Run tasks on processes of this machine or on a dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from dpbench.privacy.noise_factor import current_noise_factor, noise_times
from dpbench.registry import ConfigError, validated
from dpbench.runner.local import R, T, run_locally
from dpbench.runner.origin import Origin
from dpbench.runner.workers import processes

__all__ = ["Runner", "compute"]


@validated
class Runner:
    """Choice of the processes that run blocks: of this machine (``local``), or a dask cluster.

    The address is that of a running dask scheduler: ``tcp://host:8786``, or ``tls://host:8786``
    with the credentials of dask's configuration. By default dask starts a cluster of `n_jobs`
    threads in this process, which accepts no connections from outside.
    """

    backend: Literal["local", "dask"] = "local"
    address: Annotated[str, Field(pattern=r"^(tcp|tls|wss?|ucx)://.+:\d+$")] | None = None


def _with_noise_times(factor: float, run: Callable[[T], R], task: T) -> R:
    """Run a task while the noise of all mechanisms is multiplied by `factor`.

    The process that hands out the tasks sets this factor. Workers do not inherit the setting, so
    they receive it as an argument.
    """
    with noise_times(factor):
        return run(task)


def compute(
    run: Callable[[T], R],
    tasks: Sequence[T],
    runner: Runner,
    n_jobs: int,
    origin: Origin | None = None,
) -> Iterator[tuple[T, R]]:
    """Run all tasks and yield each task with its result, in any order.

    `run` is pickled, so it is defined at the top level of a module. `n_jobs` counts processes as in
    joblib, at most one for each task; -1 uses all cores. Every worker must have the source,
    versions and machine of `origin`. By default these are the ones with which this process computes
    blocks of trials. Raise ConfigError if a worker has another origin, dask is not installed, or
    its scheduler does not answer.
    """
    if not tasks:
        return
    origin = Origin.of() if origin is None else origin
    if (factor := current_noise_factor()) != 1:
        run = partial(_with_noise_times, factor, run)
    workers = min(processes(n_jobs), len(tasks))
    if runner.backend == "dask":
        try:
            from dpbench.runner.cluster import compute_on_cluster  # an extra
        except ImportError as error:
            raise ConfigError(
                "runner: 'dask': not installed; install it with pip install 'distributed>=2024.8'"
            ) from error
        for i, result in compute_on_cluster(run, tasks, runner.address, workers, origin):
            yield tasks[i], result
    else:
        yield from run_locally(run, tasks, workers, origin)
