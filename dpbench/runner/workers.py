"""Start worker processes as copies of a server process that has imported what workers need.

The server is that of Python's `multiprocessing`, and joblib's executor hands its copies their
tasks. A copy starts in milliseconds. A process that imports the libraries itself takes a second.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.popen_forkserver import Popen
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

from dpbench.signals import SIGNALS, open_closed_streams

__all__ = ["hold_signals", "processes", "start_server", "start_workers", "stop_workers"]

IDLE_SECONDS = 300  # after this time without a task a worker ends
MAX_FOLDER = 60  # characters; a socket in the temporary folder, whose path may have about 100
# A process with several threads must not be copied. With these variables the libraries of linear
# algebra and Arrow start none when they are imported.
ONE_THREAD = {
    **dict.fromkeys(["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"], "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


class _Process(ForkServerProcess):
    """Process that does not import the user's script, as processes of `multiprocessing` do.

    So a script needs no ``if __name__ == "__main__":``. The executor pickles the functions and
    classes of a script by value.
    """

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Popen:  # noqa: N802, a name of `multiprocessing`
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            return Popen(process_obj)
        finally:
            sys.modules["__main__"] = script


class _Context(ForkServerContext):
    """Context of `multiprocessing` whose processes are `_Process`."""

    Process = _Process


_CONTEXT = _Context()  # only one, because the executor is used again while its arguments are equal


def processes(n_jobs: int) -> int:
    """Return the number of processes that `n_jobs` means; -1 means one for each core."""
    import joblib

    return joblib.cpu_count() if n_jobs < 0 else n_jobs


def start_server(modules: Sequence[str] = ("dpbench.sweep.block",)) -> None:
    """Start the server, which imports the given modules; return at once.

    A server that runs already stays as it is. Apple's linear algebra cannot be used in a copy of a
    process that has loaded it, so on macOS the server imports nothing.
    """
    forkserver.set_forkserver_preload([] if sys.platform == "darwin" else list(modules))
    before, folder = {name: os.environ.get(name) for name in ONE_THREAD}, tempfile.tempdir
    os.environ.update(ONE_THREAD)
    if len(tempfile.gettempdir()) > MAX_FOLDER:
        tempfile.tempdir = "/tmp"  # noqa: S108
    try:
        with hold_signals():
            forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        tempfile.tempdir = folder


def start_workers(count: int) -> Any:
    """Start worker processes, or take those of an earlier call, and return their executor.

    If no server runs, one starts and imports what every block of trials needs.
    """
    from joblib.externals.loky import get_reusable_executor

    start_server()
    return get_reusable_executor(
        count,
        context=_CONTEXT,
        timeout=IDLE_SECONDS,
        initializer=_begin,
        initargs=(dict(os.environ),),
    )


def stop_workers(executor: Any) -> None:
    """End all workers at once, with the processes that they have started.

    The executor's own way is `shutdown(kill_workers=True)`. It prints a traceback if many tasks
    still wait.
    """
    from joblib.externals.loky.backend.utils import kill_process_tree

    for process in multiprocessing.active_children():
        if isinstance(process, _Process):
            kill_process_tree(process)
    executor.shutdown()


@contextlib.contextmanager
def hold_signals() -> Iterator[None]:
    """Block signals while other processes start, because only this process should handle them.

    The other processes inherit the blocked signals. This process receives its pending signals
    afterwards. The two trackers of resources start first, because each start unblocks some signals.
    They print no warnings, because a second signal ends this process without the release of its
    resources.
    """
    from joblib.externals.loky.backend import resource_tracker as loky_tracker

    open_closed_streams()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        sys.warnoptions.append("ignore")  # an option of the processes that start here
        try:
            loky_tracker.ensure_running()
            resource_tracker.ensure_running()
        finally:
            sys.warnoptions.pop()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(environment: Mapping[str, str]) -> None:
    """Prepare a worker: take over the environment, and end when the parent process has ended."""
    os.environ.update(environment)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
