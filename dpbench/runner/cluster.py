"""Running blocks on a dask cluster, and what may become of one."""

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

# Shares of tasks with the scheduler for each thread: one at work, one on its way.
AHEAD = 2
# A share has so many tasks at most, and is worked on for so long; or for longer, that all workers
# together do not end more of them a second. `experiments.cluster_model` says what that is for.
MOST, SECONDS, SHARES = 100, 0.5, 50
# Shares whose results are on their way here at once.
FETCHED = 8
# After which a wait is explained.
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
    """Run all tasks by a module's function and yield each result with its task's index.

    On the cluster at an address, or on a new one in this process; see
    `dpbench.runner.execute.compute`. ConnectionError if the scheduler ends, BrokenExecutor if
    workers do, again and again.
    """
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(FETCHED))
        # ends first, and with it what the pool waits for
        client = stack.enter_context(_client(address, threads, origin))
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting, running = deque(range(len(tasks))), dict[Any, list[int]]()

        def submit(workers: int) -> None:
            while waiting and len(running) < AHEAD * workers:
                size = min(MOST, 1 + len(waiting) // (2 * AHEAD * workers))
                share = [waiting.popleft() for _ in range(size)]
                given, seconds = {i: tasks[i] for i in share}, max(SECONDS, workers / SHARES)
                call = pickle.dumps(_Call(run, given, origin, seconds))
                # the scheduler, which need not have dpbench or plug-ins, sees bytes
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
                waiting.extendleft(share[: len(found) - 1 : -1])  # there was no time for them
                yield from found


@contextlib.contextmanager
def _client(address: str | None, threads: int, origin: Origin) -> Iterator[Any]:
    """A client of a running cluster, which gets plug-ins, or of one here that listens nowhere."""
    for logger in ("distributed", "distributed.client"):  # what ends a run is one line
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
    """ConfigError if dask's TLS settings are not for this address."""
    try:
        known = distributed.Security().get_connection_args("client")
    except OSError as error:  # of files that cannot be read, or hold nothing of the kind
        raise ConfigError(f"runner.address: {address!r}: dask's TLS settings: {error}") from error
    encrypted = address.startswith("tls:")
    if encrypted and known["ssl_context"] is None:
        raise ConfigError(f"runner.address: {address!r}: dask's settings have no TLS credentials")
    if not encrypted and known["require_encryption"]:
        raise ConfigError(f"runner.address: {address!r}: dask's settings require tls://")


def _refuse_others(client: Any, origin: Origin) -> None:
    """ConfigError at the first worker that is there with another dpbench than this one."""
    here = origin.without_plugins()
    found = client.run(here.here, on_error="return")
    for worker, theirs in sorted(found.items()):
        if isinstance(theirs, Origin):
            theirs.check(here, f"worker {worker}", REMEDY)
        elif not isinstance(theirs, OSError):  # one that has just ended
            raise ConfigError(f"runner: worker {worker}: {_line(theirs)}; {REMEDY}")


class _Sources(WorkerPlugin):  # type: ignore[misc]
    """Source files of plug-ins, packages too, for the workers that are there or will be."""

    name = "dpbench-plugins"

    def __init__(self, plugins: Sequence[Path]) -> None:
        self._texts = {_within(path): path.read_bytes() for path in plugins}
        self._folder = ""

    def setup(self, worker: Any) -> None:
        """Write them, put them before all others, and forget what was loaded under their names."""
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
    """The path of a module below the folder that it is imported from."""
    root = path.parent
    while (root / "__init__.py").exists():
        root = root.parent
    return path.relative_to(root)


class _Call:
    """Unpickled, it is what `_work` returns."""

    def __init__(self, *arguments: object) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _work, self._arguments


def _work(*arguments: Any) -> tuple[list[tuple[int, Any]], Origin, str]:
    """On a worker: the results of a share, what they were computed by, and where."""
    found, theirs, _ = run_share(*arguments)
    return found, theirs, distributed.get_worker().address


def _threads(client: Any) -> int:
    """Of all workers that are there."""
    try:
        return sum(client.nthreads().values())
    except OSError as error:
        raise _gone(client) from error


def _gone(client: Any) -> ConnectionError:
    return ConnectionError(f"the dask scheduler {client.scheduler.address} is gone")


def _next(ended: queue.SimpleQueue[Any], client: Any) -> Any:
    """What has ended since; a wait for workers is told once."""
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
    """Shares with what their futures hold, as it arrives."""
    fetched: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for future, share in shares.items():
        pool.submit(_result, future, share, client, origin).add_done_callback(fetched.put)
    for _ in shares:
        yield _next(fetched, client).result()


def _result(future: Any, share: list[int], client: Any, origin: Origin) -> tuple[list[int], Any]:
    """A share with what its future holds, or what became of it in one line.

    A result that is lost with its worker is computed again, and waited for.
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
        _refuse_others(client, origin)  # one that cannot read its task, most likely
        raise BrokenExecutor(_line(error)) from error


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
