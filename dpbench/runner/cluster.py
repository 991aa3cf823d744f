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

__all__ = ["compute_on_cluster"]

distributed: Any = dask_distributed
pickle: Any = distributed.protocol.pickle
Task = TypeVar("Task")
Result = TypeVar("Result")

# Shares (lists of tasks) that the scheduler holds for each thread: one share runs, one waits.
SHARES_PER_THREAD = 2
# A worker starts no further task of a share after SHARE_SECONDS. All workers together should end at
# most SHARES_PER_SECOND shares in a second, because this process handles each of them; with more
# workers the seconds grow. See `experiments.cluster_model`.
MAX_SHARE_TASKS, SHARE_SECONDS, SHARES_PER_SECOND = 100, 0.5, 50
# Shares whose results are fetched at the same time.
PARALLEL_FETCHES = 8
# Wait before a message says that there are no workers.
PATIENCE_SECONDS = 10.0
LOOPBACK = "127.0.0.1:0"
REMEDY = "start workers with this one's environment"


def compute_on_cluster(
    run: Callable[[Task], Result],
    tasks: Sequence[Task],
    address: str | None,
    threads: int,
    origin: Origin,
) -> Iterator[tuple[int, Result]]:
    """Run all tasks on a dask cluster; yield each result with the index of its task, in any order.

    `run` is pickled, so it is defined at the top level of a module. Without the address of a
    running dask scheduler, a cluster of `threads` threads starts in this process.

    Raise ConfigError if the scheduler does not answer, or if a worker has another origin (source,
    versions, machine). Raise ConnectionError if the scheduler ends. Raise BrokenExecutor if a share
    (a list of tasks) raises an exception, or dask abandons it after several workers ended.
    """
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(PARALLEL_FETCHES))
        # Entered last, so closed first, which ends everything for which the pool waits.
        client = stack.enter_context(_client(address, threads, origin))
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting, running = deque(range(len(tasks))), dict[Any, list[int]]()

        def submit(workers: int) -> None:
            while waiting and len(running) < SHARES_PER_THREAD * workers:
                size = min(MAX_SHARE_TASKS, 1 + len(waiting) // (2 * SHARES_PER_THREAD * workers))
                share = [waiting.popleft() for _ in range(size)]
                group, seconds = (
                    {i: tasks[i] for i in share},
                    max(SHARE_SECONDS, workers / SHARES_PER_SECOND),
                )
                call = pickle.dumps(_Call(run, group, origin, seconds))
                # Send bytes, because the scheduler may have neither dpbench nor the plug-ins.
                future = client.submit(pickle.loads, call, pure=False)
                running[future] = share
                future.add_done_callback(done.put)

        while True:
            submit(workers := max(1, _count_threads(client)))
            if not running:
                return
            ended = [_wait_for_next(done, client)]
            ended += [done.get() for _ in range(min(PARALLEL_FETCHES - 1, done.qsize()))]
            shares = {future: running.pop(future) for future in ended}
            submit(workers)
            for share, (results, worker_origin, worker) in _fetch_results(
                shares, pool, client, origin
            ):
                worker_origin.check(origin, f"worker {worker}", REMEDY)
                # The worker had no time for the tasks without a result.
                waiting.extendleft(share[: len(results) - 1 : -1])
                yield from results


@contextlib.contextmanager
def _client(address: str | None, threads: int, origin: Origin) -> Iterator[Any]:
    """Open a client of the dask cluster at `address`; if it is None, start a cluster here.

    A running cluster receives the source files of the plug-ins. A cluster in this process accepts
    no network connections.
    """
    for logger in ("distributed", "distributed.client"):  # so that errors stay one line
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        cluster: Any = address
        if address is None:
            options: dict[str, Any] = {"threads_per_worker": threads, "processes": False}
            options |= dict.fromkeys(("dashboard_address", "worker_dashboard_address"), LOOPBACK)
            cluster = stack.enter_context(distributed.LocalCluster(n_workers=1, **options))
            for server in (cluster.scheduler, *cluster.workers.values()):
                server.http_server.stop()
        else:
            _refuse_without_credentials(address)
        try:
            unopened = distributed.Client(cluster, timeout="10s", set_as_default=False)
            client = stack.enter_context(unopened)
        except (OSError, TimeoutError) as error:
            message = f"runner.address: {address!r}: no dask scheduler answers there"
            raise ConfigError(message) from error
        if address is not None:
            _refuse_others(client, origin)
            if origin.plugins:
                client.register_plugin(_Sources(origin.plugins))
        yield client


def _refuse_without_credentials(address: str) -> None:
    """Raise ConfigError if dask's TLS settings do not fit the address of a scheduler.

    A ``tls`` address needs credentials. Other addresses are refused if dask's settings require
    encryption.
    """
    try:
        arguments = distributed.Security().get_connection_args("client")
    except OSError as error:  # a file of the credentials is missing or invalid
        raise ConfigError(f"runner.address: {address!r}: dask's TLS settings: {error}") from error
    encrypted = address.startswith("tls:")
    if encrypted and arguments["ssl_context"] is None:
        raise ConfigError(f"runner.address: {address!r}: dask's settings have no TLS credentials")
    if not encrypted and arguments["require_encryption"]:
        raise ConfigError(f"runner.address: {address!r}: dask's settings require tls://")


def _refuse_others(client: Any, origin: Origin) -> None:
    """Raise ConfigError if a connected worker differs from this process.

    A worker differs if it has other source files of dpbench, other numerical libraries or another
    kind of machine. A worker that fails to answer is refused too, unless it has just ended.
    """
    expected = origin.without_plugins()
    answers = client.run(expected.here, on_error="return")
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, Origin):
            answer.check(expected, f"worker {worker}", REMEDY)
        elif not isinstance(answer, OSError):  # OSError: the worker has just ended
            raise ConfigError(f"runner: worker {worker}: {_first_line_of(answer)}; {REMEDY}")


class _Sources(WorkerPlugin):  # type: ignore[misc]
    """Dask plug-in that copies the source files of the user's plug-ins to all workers.

    Workers that connect later receive the files too.
    """

    name = "dpbench-plugins"

    def __init__(self, plugins: Sequence[Path]) -> None:
        self._texts = {_path_from_root(path): path.read_bytes() for path in plugins}
        self._folder = ""

    def setup(self, worker: Any) -> None:
        """Write the plug-ins' source files to a new folder of a worker; put it on sys.path first.

        Loaded modules of the same names are unloaded, so the worker imports the new files.
        """
        folder = Path(worker.local_directory) / f"plugins-{id(self)}"
        for path, text in self._texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(text)
        self._folder = str(folder)
        sys.path.insert(0, self._folder)
        tops = {path.parts[0].removesuffix(".py") for path in self._texts}
        for name in [module for module in sys.modules if module.partition(".")[0] in tops]:
            del sys.modules[name]

    def teardown(self, worker: Any) -> None:
        """Remove the folder of the plug-ins' source files from sys.path."""
        with contextlib.suppress(ValueError):
            sys.path.remove(self._folder)


def _path_from_root(path: Path) -> Path:
    """Return the path of a source file relative to the folder from which it is imported."""
    root = path.parent
    while (root / "__init__.py").exists():
        root = root.parent
    return path.relative_to(root)


class _Call:
    """Stand-in for a call of `_run_share_on_worker` with given arguments.

    A worker that unpickles the object makes the call and gets its result.
    """

    def __init__(self, *arguments: object) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _run_share_on_worker, self._arguments


def _run_share_on_worker(*arguments: Any) -> tuple[list[tuple[int, Any]], Origin, str]:
    """Run a share (a list of tasks) on a worker.

    Return the results, and the origin and the address of the worker.
    """
    results, origin, _ = run_share(*arguments)
    return results, origin, distributed.get_worker().address


def _count_threads(client: Any) -> int:
    """Return the total number of threads of all connected workers."""
    try:
        return sum(client.nthreads().values())
    except OSError as error:
        raise _lost_scheduler(client) from error


def _lost_scheduler(client: Any) -> ConnectionError:
    """Return the error to raise if the dask scheduler has ended."""
    return ConnectionError(f"the dask scheduler {client.scheduler.address} is gone")


def _wait_for_next(ended: queue.SimpleQueue[Any], client: Any) -> Any:
    """Wait for the next item of a queue and return it.

    If the cluster has no workers meanwhile, print one message.
    """
    announced = False
    while True:
        try:
            return ended.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            if not announced and not _count_threads(client):
                address = client.scheduler.address
                print(
                    f"dpbench: waiting for workers of the dask scheduler {address}", file=sys.stderr
                )
                announced = True


def _fetch_results(
    shares: dict[Any, list[int]], pool: ThreadPoolExecutor, client: Any, origin: Origin
) -> Iterator[tuple[list[int], tuple[Any, Origin, str]]]:
    """Yield each finished share with its result, in the order in which results arrive.

    A share is a list of task indices. `shares` maps the dask future of each result to the share.
    """
    fetched: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for future, share in shares.items():
        pool.submit(_fetch_result, future, share, client, origin).add_done_callback(fetched.put)
    for _ in shares:
        yield _wait_for_next(fetched, client).result()


def _fetch_result(
    future: Any, share: list[int], client: Any, origin: Origin
) -> tuple[list[int], Any]:
    """Return a share (a list of task indices) with the result of its dask future.

    If the share failed, raise its error as one line. If a result is lost with its worker, dask
    computes it again, and this function waits.
    """
    while True:
        if future.cancelled():
            raise _lost_scheduler(client)
        error = future.exception()
        if error is None:
            try:
                return share, future.result(timeout=PATIENCE_SECONDS * 6)
            except TimeoutError as late:
                if future.status != "finished":
                    continue
                message = "a dask worker has a result and cannot be reached"
                raise ConnectionError(message) from late
        if isinstance(error, MemoryError):
            raise error
        _refuse_others(client, origin)  # the likely cause: a worker that cannot unpickle its task
        raise BrokenExecutor(_first_line_of(error)) from error


def _first_line_of(error: BaseException) -> str:
    """Return the type of an error, and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
