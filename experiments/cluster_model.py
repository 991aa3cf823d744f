"""Model of a dask cluster, which shows when the parent process becomes its bottleneck.

``python -m experiments.cluster_model [measure]`` prints blocks per second and the utilisation of
the workers, by number of workers and seconds per block. With ``measure`` it first starts a
scheduler and workers on this machine and measures the costs of the parent. The model is a queue,
for clusters larger than the authors could try. It assumes:

- One parent serves shares (groups of blocks) in order of arrival: it submits a share, receives the
  results and stores the blocks. This takes `Costs.share` plus `Costs.block` per block.
- Every worker has one thread and `SHARES_PER_THREAD` shares of the size that
  `dpbench.runner.cluster` chooses. All blocks take equal time, and none is lost.
- Sending a share takes `Costs.latency`, and returning it takes as long; shares travel in parallel.
- A worker spends `Costs.worker` per block in addition to computing.
- The scheduler, a separate process, is not a bottleneck: it took 4.8 ms of CPU per share and 0.4 ms
  per block.
- The network is not a bottleneck: 1,000 blocks of 2,000 trials and five settings are 400 MB.

The default costs were measured on two cores under other load, so they are too large if anything.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from dpbench.distributions import TwoPoint
from dpbench.estimators import TunedClippedMean
from dpbench.output.terminal import say
from dpbench.privacy import PureDP
from dpbench.runner import cluster
from dpbench.runner.execute import Runner, compute
from dpbench.runner.store import Store
from dpbench.sweep.block import MANY_TRIALS, Block, BlockTask, Setting
from dpbench.sweep.metrics import ERRORS

WORKERS, SECONDS = (2, 4, 8, 10, 100, 1_000), (0.01, 0.1, 1.0, 3.0, 10.0)
SHARES = 20  # shares that every worker completes in a simulation
SETTINGS = tuple(
    Setting(f"eps{i}", TunedClippedMean(k=2, scale=1, policy="ksu20_order"), PureDP(0.1 * i))
    for i in range(1, 6)
)


@dataclass(frozen=True)
class Costs:
    """Times, in seconds, of which the model consists.

    Parameters
    ----------
    share, block : float
        Time of the parent per share, and per block.
    latency : float
        Time of sending a share in one direction.
    worker : float
        Time of a worker per block, in addition to computing the block.
    """

    share: float = 4.3e-3
    block: float = 3.5e-3
    latency: float = 10e-3
    worker: float = 1.1e-3


def share_size(workers: int, block: float) -> int:
    """Return the number of blocks in a share while many blocks are waiting.

    Parameters
    ----------
    workers : int
        Number of workers.
    block : float
        Seconds of computing per block.

    Returns
    -------
    int
    """
    seconds = max(cluster.SHARE_SECONDS, workers / cluster.SHARES_PER_SECOND)
    return min(cluster.MAX_SHARE_TASKS, math.ceil(seconds / block))


def simulate_throughput(workers: int, block: float, costs: Costs) -> float:
    """Simulate the steady-state throughput of a cluster.

    Parameters
    ----------
    workers : int
        Number of workers.
    block : float
        Seconds of computing per block.
    costs : Costs
        Costs of the parent, the network and the workers.

    Returns
    -------
    float
        Blocks per second.
    """
    size = share_size(workers, block)
    serving, working = costs.share + size * costs.block, size * (block + costs.worker)
    arrivals = [
        (0.0, worker) for worker in range(workers) for _ in range(cluster.SHARES_PER_THREAD)
    ]
    parent_free, worker_free, halfway = 0.0, [0.0] * workers, 0.0
    for served in range(SHARES * workers):
        if served == SHARES * workers // 2:
            halfway = parent_free
        arrival, worker = heapq.heappop(arrivals)
        parent_free = max(parent_free, arrival) + serving
        worker_free[worker] = max(worker_free[worker], parent_free + costs.latency) + working
        heapq.heappush(arrivals, (worker_free[worker] + costs.latency, worker))
    return size * (SHARES * workers - SHARES * workers // 2) / (parent_free - halfway)


def shortest_block(workers: int, costs: Costs, efficiency: float = 0.9) -> float:
    """Return the shortest time of a block at which the workers reach a utilisation.

    Parameters
    ----------
    workers : int
        Number of workers.
    costs : Costs
        Costs of the parent, the network and the workers.
    efficiency : float
        Required utilisation of the workers, in [0, 1]; 0.9 by default.

    Returns
    -------
    float
        Seconds per block, accurate to about a tenth.
    """
    grid = np.geomspace(1e-3, 100, 121)
    return float(
        next(s for s in grid if simulate_throughput(workers, s, costs) * s / workers >= efficiency)
    )


def nap(seconds: float, task: BlockTask) -> Block:
    """Sleep and return a random block.

    Sleeping needs no processor, so that two cores can run many workers.

    Parameters
    ----------
    seconds : float
        Time of the call, in seconds.
    task : BlockTask
        Task that gives the shape of the block.

    Returns
    -------
    Block
    """
    end = time.monotonic() + seconds
    numbers = np.random.default_rng(task.index).random((len(task.keys), task.trials))
    block = Block({name: numbers + i for i, name in enumerate(ERRORS)})
    time.sleep(max(0.0, end - time.monotonic()))
    return block


@contextlib.contextmanager
def dask(workers: int, threads: int) -> Iterator[str]:
    """Start a dask scheduler and workers as processes on the loopback interface.

    Parameters
    ----------
    workers : int
        Number of workers.
    threads : int
        Threads of each worker.

    Yields
    ------
    str
        Address of the scheduler.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    address, running = f"tcp://127.0.0.1:{port}", list[subprocess.Popen[bytes]]()
    with tempfile.TemporaryDirectory() as folder:
        common = ["--host", "127.0.0.1", "--no-dashboard"]
        worker = [address, "--no-nanny", "--nthreads", str(threads), "--local-directory", folder]
        words = [["scheduler", "--port", port, "--dashboard-address", "127.0.0.1:0"]]
        words += [["worker", *worker]] * workers
        try:
            for program, *arguments in words:
                command = [
                    sys.executable,
                    "-m",
                    f"distributed.cli.dask_{program}",
                    *arguments,
                    *common,
                ]
                env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
                running.append(subprocess.Popen(command, stderr=-3, env=env))  # noqa: S603
                time.sleep(3 if program == "scheduler" else 0)
            time.sleep(5)
            yield address
        finally:
            for process in running:
                process.kill()
                process.wait()


def measure_throughput(address: str, seconds: float, blocks: int) -> tuple[float, float]:
    """Measure the throughput of a cluster through this process and its store.

    Parameters
    ----------
    address : str
        Address of the scheduler.
    seconds : float
        Duration of a block on a worker.
    blocks : int
        Number of blocks.

    Returns
    -------
    rate : float
        Blocks per second.
    cpu : float
        Processor seconds of this process per block.
    """
    law = (("law", TwoPoint(p=0.1, k=2)),)
    tasks = [
        BlockTask(law, 1000, SETTINGS, 0, index, "nap", most_trials=MANY_TRIALS)
        for index in range(blocks)
    ]
    runner, start, cpu_at_start = Runner(backend="dask", address=address), 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder), "nap")
        for task, block in compute(partial(nap, seconds), tasks, runner, 1):
            store.write(task, block)
            start, cpu_at_start = start or time.monotonic(), cpu_at_start or _cpu()
        store.flush()
        return blocks / (time.monotonic() - start), (_cpu() - cpu_at_start) / blocks


def _cpu() -> float:
    """Return the processor seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure() -> Costs:
    """Measure the costs of the parent, with shares of one block and with shares of many blocks."""
    block = 0.01
    with dask(2, 1) as address:
        measure_throughput(address, block, 20)  # warm-up: workers load dpbench
        with mock.patch.object(cluster, "MAX_SHARE_TASKS", 1):
            throughput, cpu_of_single = measure_throughput(address, block, 500)
        say(f"2 workers, shares of one block of {block} s: {throughput:.0f} blocks per second")
        throughput, cpu_of_many = measure_throughput(address, block, 2000)
    size = share_size(2, block)
    share = (cpu_of_single - cpu_of_many) / (1 - 1 / size)
    costs = Costs(share, cpu_of_single - share)
    say(f"CPU of the parent: {1e3 * share:.2f} ms per share, {1e3 * costs.block:.2f} per block")
    _compare(2, block, throughput, costs)
    with dask(2, 5) as address:
        measure_throughput(address, 0.1, 50)
        throughput, _ = measure_throughput(address, 0.1, 3_000)
    _compare(10, 0.1, throughput, costs)
    return costs


def _compare(workers: int, block: float, throughput: float, costs: Costs) -> None:
    """Print the measured throughput beside the throughput of the model."""
    expected = simulate_throughput(workers, block, costs)
    line = f"{throughput:.0f} blocks per second, {expected:.0f} by the model"
    say(f"{workers} threads that sleep for {block} s: {line}")


def main(*words: str) -> None:
    """Print the throughput and utilisation for each number of workers and time of a block."""
    costs = measure() if words else Costs()
    say("blocks per second and efficiency, by seconds per block; last: seconds for 90%:")
    say("workers" + "".join(f"{s:>13g} s" for s in SECONDS))
    for workers in WORKERS:
        rates = [simulate_throughput(workers, s, costs) for s in SECONDS]
        cells = (f"{r:9.1f} {r * s / workers:5.0%}" for r, s in zip(rates, SECONDS, strict=True))
        say(f"{workers:>7}{''.join(cells)}   {shortest_block(workers, costs):.3g} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
