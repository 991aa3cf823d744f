"""When this process holds up a dask cluster: ``python -m experiments.cluster_model [measure]``.

Prints blocks a second and how busy workers are with them, by workers and seconds a block; with
``measure`` first starts a scheduler and workers here, and takes the parent's costs from them. A
model of a queue, for clusters that are larger than could be tried. It assumes:

- One parent serves shares of blocks as they come, for `Costs.share` and for `Costs.block` times
  the blocks of the share: submits it, receives it, stores its blocks.
- Every worker has one thread and `AHEAD` shares, of as many blocks as `dpbench.runner.cluster`
  gives it. All blocks take equally long, and none is lost.
- A share takes `Costs.latency` there and as long back; several are on their way at once.
- What a worker spends beside computing is `Costs.worker` a block.
- The scheduler, a process of its own, is faster than the parent: it took 4.8 ms of CPU for a
  share and 0.4 ms for a block.
- So is the network: 1,000 blocks of five settings are 40 MB.

The costs were measured on two cores that other work was using, too, and are rather too large.
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
from dpbench.estimators import HeavyTailedMean
from dpbench.output.terminal import say
from dpbench.privacy import PureDP
from dpbench.runner import cluster
from dpbench.runner.execute import Runner, compute
from dpbench.runner.store import Store
from dpbench.sweep.block import Block, BlockTask, Setting
from dpbench.sweep.metrics import ERRORS

WORKERS, SECONDS = (2, 10, 100, 1_000), (0.01, 0.1, 1.0, 3.0, 10.0)
SHARES = 20  # that every worker ends in a simulation
SETTINGS = tuple(
    Setting(f"eps{i}", HeavyTailedMean(k=2, policy="rate"), PureDP(0.1 * i)) for i in range(1, 6)
)


@dataclass(frozen=True)
class Costs:
    """Seconds: the parent's for a share and for a block, on the way, a worker's for a block."""

    share: float = 5.1e-3
    block: float = 0.95e-3
    latency: float = 10e-3
    worker: float = 1.1e-3


def share_size(workers: int, block: float) -> int:
    """The blocks of a share, where very many wait."""
    seconds = max(cluster.SECONDS, workers / cluster.SHARES)
    return min(cluster.MOST, math.ceil(seconds / block))


def rate(workers: int, block: float, costs: Costs) -> float:
    """Blocks a second, when all are busy, of so many workers whose blocks take so long."""
    size = share_size(workers, block)
    serving, working = costs.share + size * costs.block, size * (block + costs.worker)
    back = [(0.0, worker) for worker in range(workers) for _ in range(cluster.AHEAD)]
    parent, free, half = 0.0, [0.0] * workers, 0.0
    for served in range(SHARES * workers):
        if served == SHARES * workers // 2:
            half = parent
        came, worker = heapq.heappop(back)
        parent = max(parent, came) + serving
        free[worker] = max(free[worker], parent + costs.latency) + working
        heapq.heappush(back, (free[worker] + costs.latency, worker))
    return size * (SHARES * workers - SHARES * workers // 2) / (parent - half)


def enough(workers: int, costs: Costs, efficiency: float = 0.9) -> float:
    """Seconds a block (to a tenth) from which on the workers are so busy."""
    grid = np.geomspace(1e-3, 100, 121)
    return float(next(s for s in grid if rate(workers, s, costs) * s / workers >= efficiency))


def nap(seconds: float, task: BlockTask) -> Block:
    """A block that costs no processor, so that two cores can be many workers."""
    end = time.monotonic() + seconds
    numbers = np.random.default_rng(task.index).random((len(task.keys), task.trials))
    block = Block({name: numbers + i for i, name in enumerate(ERRORS)})
    time.sleep(max(0.0, end - time.monotonic()))
    return block


@contextlib.contextmanager
def dask(workers: int, threads: int) -> Iterator[str]:
    """The address of a scheduler on loopback with so many workers, processes all of them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    address, running = f"tcp://127.0.0.1:{port}", list[subprocess.Popen[bytes]]()
    with tempfile.TemporaryDirectory() as folder:
        common = ["--host", "127.0.0.1", "--no-dashboard"]
        worker = [address, "--no-nanny", "--nthreads", str(threads), "--local-directory", folder]
        words = [["scheduler", "--port", port, "--dashboard-address", "127.0.0.1:0"]]
        words += [["worker", *worker]] * workers
        try:
            for what, *rest in words:
                command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *rest, *common]
                env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
                running.append(subprocess.Popen(command, stderr=-3, env=env))  # noqa: S603
                time.sleep(3 if what == "scheduler" else 0)
            time.sleep(5)
            yield address
        finally:
            for process in running:
                process.kill()
                process.wait()


def measured(address: str, seconds: float, blocks: int) -> tuple[float, float]:
    """Blocks a second through this process and its store, and its CPU seconds a block."""
    law = (("law", TwoPoint(p=0.1, k=2)),)
    tasks = [BlockTask(law, 1000, SETTINGS, 0, index, "nap") for index in range(blocks)]
    runner, began, before = Runner(backend="dask", address=address), 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder), "nap")
        for task, block in compute(partial(nap, seconds), tasks, runner, 1):
            store.write(task, block)
            began, before = began or time.monotonic(), before or _cpu()
        store.flush()
        return blocks / (time.monotonic() - began), (_cpu() - before) / blocks


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure() -> Costs:
    """Print the parent's costs here, from shares of one block and of many, and rates."""
    block = 0.01
    with dask(2, 1) as address:
        measured(address, block, 20)  # workers load dpbench
        with mock.patch.object(cluster, "MOST", 1):
            found, one = measured(address, block, 500)
        say(f"2 workers, shares of one block of {block} s: {found:.0f} blocks a second")
        found, many = measured(address, block, 2000)
    size = share_size(2, block)
    share = (one - many) / (1 - 1 / size)
    costs = Costs(share, one - share)
    say(f"the parent's CPU: {1e3 * share:.2f} ms a share, {1e3 * costs.block:.2f} ms a block")
    _compare(2, block, found, costs)
    with dask(2, 5) as address:
        measured(address, 0.1, 50)
        found, _ = measured(address, 0.1, 3_000)
    _compare(10, 0.1, found, costs)
    return costs


def _compare(workers: int, block: float, found: float, costs: Costs) -> None:
    expected = rate(workers, block, costs)
    line = f"{found:.0f} blocks a second, {expected:.0f} by the model"
    say(f"{workers} threads that sleep for {block} s: {line}")


def main(*words: str) -> None:
    """Print."""
    costs = measure() if words else Costs()
    say("blocks a second, efficiency, by seconds a block, and from when on it is 90%:")
    say("workers" + "".join(f"{s:>13g} s" for s in SECONDS))
    for workers in WORKERS:
        rates = [rate(workers, s, costs) for s in SECONDS]
        cells = (f"{r:9.1f} {r * s / workers:5.0%}" for r, s in zip(rates, SECONDS, strict=True))
        say(f"{workers:>7}{''.join(cells)}   {enough(workers, costs):.3g} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
