"""Run tasks on a dask cluster, and recover from lost workers."""

from __future__ import annotations

import contextlib
import logging
import queue
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import distributed as dask_distributed  # an extra, without types
from distributed.diagnostics.plugin import WorkerPlugin

from dpbench.registry import ConfigError
from dpbench.runner.local import run_share
from dpbench.runner.origin import Origin

__all__ = ["computed"]

distributed: Any = dask_distributed
pickle: Any = distributed.protocol.pickle
Task = TypeVar("Task")
Result = TypeVar("Result")

# Shares (lists of tasks) that the scheduler holds for each thread: one runs, one waits.
AHEAD = 2
# MOST: largest number of tasks in a share. SECONDS: time after which a worker starts no further
# task of a share. SHARES: largest number of shares that all workers together end in a second; with
# more workers SECONDS grows. `experiments.cluster_model` gives the reason.
MOST, SECONDS, SHARES = 100, 0.5, 50
# Shares whose results are fetched at the same time.
FETCHED = 8
# Seconds after which a message explains the wait.
PATIENCE = 10.0
NOWHERE = "127.0.0.1:0"
REMEDY = "start workers with this one's environment"


def computed(
    run: Callable[[Task], Result],
    tasks: Sequence[Task],
    address: str | None,
    threads: int,
    origin: Origin,
) -> Iterator[tuple[int, Result]]:
    """Run all tasks on a dask cluster and yield each result with the index of its task.

    Parameters
    ----------
    run : callable
        A function at the top level of a module, so that it can be pickled.
    tasks : sequence
        Arguments of `run`.
    address : str or None
        Address of a running scheduler; None starts a cluster in this process.
    threads : int
        Threads of the cluster in this process.
    origin : Origin
        Origin that every worker must have.

    Yields
    ------
    tuple
        Index of a task and its result, in any order.

    Raises
    ------
    ConfigError
        If the scheduler does not answer, or a worker has another origin.
    ConnectionError
        If the scheduler ends.
    BrokenExecutor
        If workers end again and again.
    """
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(FETCHED))
        # Entered last, so closed first: that ends everything for which the pool waits.
        client = stack.enter_context(_client(address, threads, origin))
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting, running = deque(range(len(tasks))), dict[Any, list[int]]()

        def submit(workers: int) -> None:
            while waiting and len(running) < AHEAD * workers:
                size = min(MOST, 1 + len(waiting) // (2 * AHEAD * workers))
                share = [waiting.popleft() for _ in range(size)]
                given, seconds = {i: tasks[i] for i in share}, max(SECONDS, workers / SHARES)
                call = pickle.dumps(_Call(run, given, origin, seconds))
                # Send bytes, because the scheduler may have neither dpbench nor the plug-ins.
                future = client.submit(pickle.loads, call, pure=False)
                running[future] = share
                future.add_done_callback(done.put)

        while True:
            submit(workers := max(1, _threads(client)))
            if not running:
                return
            ended = [_next(done, client)]
            ended += [done.get() for _ in range(min(FETCHED - 1, done.qsize()))]
            shares = {future: running.pop(future) for future in ended}
            submit(workers)
            for share, (found, theirs, worker) in _fetched(shares, pool, client, origin):
                theirs.check(origin, f"worker {worker}", REMEDY)
                waiting.extendleft(share[: len(found) - 1 : -1])  # the worker had no time for these
                yield from found


@contextlib.contextmanager
def _client(address: str | None, threads: int, origin: Origin) -> Iterator[Any]:
    """Open a client of the cluster at `address`, or of a new cluster in this process.

    A running cluster receives the plug-ins. The new cluster listens on no network address.
    """
    for logger in ("distributed", "distributed.client"):  # so that errors stay one line
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        cluster: Any = address
        if address is None:
            how: dict[str, Any] = {"threads_per_worker": threads, "processes": False}
            how |= dict.fromkeys(("dashboard_address", "worker_dashboard_address"), NOWHERE)
            cluster = stack.enter_context(distributed.LocalCluster(n_workers=1, **how))
            for server in (cluster.scheduler, *cluster.workers.values()):
                server.http_server.stop()
        else:
            _refuse_without_credentials(address)
        try:
            found = distributed.Client(cluster, timeout="10s", set_as_default=False)
            client = stack.enter_context(found)
        except (OSError, TimeoutError) as error:
            told = f"runner.address: {address!r}: no dask scheduler answers there"
            raise ConfigError(told) from error
        if address is not None:
            _refuse_others(client, origin)
            if origin.plugins:
                client.register_plugin(_Sources(origin.plugins))
        yield client


def _refuse_without_credentials(address: str) -> None:
    """Raise ConfigError if dask's TLS settings do not fit this address."""
    try:
        known = distributed.Security().get_connection_args("client")
    except OSError as error:  # a file of the credentials is missing or invalid
        raise ConfigError(f"runner.address: {address!r}: dask's TLS settings: {error}") from error
    encrypted = address.startswith("tls:")
    if encrypted and known["ssl_context"] is None:
        raise ConfigError(f"runner.address: {address!r}: dask's settings have no TLS credentials")
    if not encrypted and known["require_encryption"]:
        raise ConfigError(f"runner.address: {address!r}: dask's settings require tls://")


def _refuse_others(client: Any, origin: Origin) -> None:
    """Raise ConfigError if a connected worker computes by another dpbench than this process."""
    here = origin.without_plugins()
    found = client.run(here.here, on_error="return")
    for worker, theirs in sorted(found.items()):
        if isinstance(theirs, Origin):
            theirs.check(here, f"worker {worker}", REMEDY)
        elif not isinstance(theirs, OSError):  # OSError: the worker has just ended
            raise ConfigError(f"runner: worker {worker}: {_line(theirs)}; {REMEDY}")


class _Sources(WorkerPlugin):  # type: ignore[misc]
    """Dask plug-in that copies the sources of dpbench plug-ins to present and later workers."""

    name = "dpbench-plugins"

    def __init__(self, plugins: Sequence[Path]) -> None:
        self._texts = {_within(path): path.read_bytes() for path in plugins}
        self._folder = ""

    def setup(self, worker: Any) -> None:
        """Write the files, put their folder first on sys.path, and unload modules they replace."""
        folder = Path(worker.local_directory) / f"plugins-{id(self)}"
        for path, text in self._texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(text)
        self._folder = str(folder)
        sys.path.insert(0, self._folder)
        tops = {path.parts[0].removesuffix(".py") for path in self._texts}
        for name in [one for one in sys.modules if one.partition(".")[0] in tops]:
            del sys.modules[name]

    def teardown(self, worker: Any) -> None:
        with contextlib.suppress(ValueError):
            sys.path.remove(self._folder)


def _within(path: Path) -> Path:
    """Return the path of a module relative to the folder from which it is imported."""
    root = path.parent
    while (root / "__init__.py").exists():
        root = root.parent
    return path.relative_to(root)


class _Call:
    """Object whose unpickling calls `_work`: a worker that loads it runs the share."""

    def __init__(self, *arguments: object) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _work, self._arguments


def _work(*arguments: Any) -> tuple[list[tuple[int, Any]], Origin, str]:
    """Run a share on a worker; return its results, the worker's origin and its address."""
    found, theirs, _ = run_share(*arguments)
    return found, theirs, distributed.get_worker().address


def _threads(client: Any) -> int:
    """Return the total number of threads of all connected workers."""
    try:
        return sum(client.nthreads().values())
    except OSError as error:
        raise _gone(client) from error


def _gone(client: Any) -> ConnectionError:
    return ConnectionError(f"the dask scheduler {client.scheduler.address} is gone")


def _next(ended: queue.SimpleQueue[Any], client: Any) -> Any:
    """Wait for the next future or result; print one message if there are no workers meanwhile."""
    told = False
    while True:
        try:
            return ended.get(timeout=PATIENCE)
        except queue.Empty:
            if not told and not _threads(client):
                at = client.scheduler.address
                print(f"dpbench: waiting for workers of the dask scheduler {at}", file=sys.stderr)
                told = True


def _fetched(
    shares: dict[Any, list[int]], pool: ThreadPoolExecutor, client: Any, origin: Origin
) -> Iterator[tuple[list[int], tuple[Any, Origin, str]]]:
    """Yield each share with the result of its future, in order of arrival."""
    fetched: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for future, share in shares.items():
        pool.submit(_result, future, share, client, origin).add_done_callback(fetched.put)
    for _ in shares:
        yield _next(fetched, client).result()


def _result(future: Any, share: list[int], client: Any, origin: Origin) -> tuple[list[int], Any]:
    """Return a share with the result of its future, or raise the future's error in one line.

    If a result is lost with its worker, dask computes it again, and this function waits.
    """
    while True:
        if future.cancelled():
            raise _gone(client)
        error = future.exception()
        if error is None:
            try:
                return share, future.result(timeout=PATIENCE * 6)
            except TimeoutError as late:
                if future.status != "finished":
                    continue
                told = "a dask worker has a result and cannot be reached"
                raise ConnectionError(told) from late
        if isinstance(error, MemoryError):
            raise error
        _refuse_others(client, origin)  # the likely cause: a worker that cannot unpickle its task
        raise BrokenExecutor(_line(error)) from error


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
