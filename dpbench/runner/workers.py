"""Start worker processes as copies of a server process that has imported what workers need.

The server is that of Python's `multiprocessing`, and joblib's executor hands its copies their
tasks. A copy starts in milliseconds. A process that imports the libraries itself takes a second.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import queue
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import forkserver, reduction, resource_tracker, spawn, util
from multiprocessing.context import ForkServerContext, ForkServerProcess, set_spawning_popen
from multiprocessing.popen_forkserver import Popen
from multiprocessing.process import BaseProcess
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


# Not the server of `multiprocessing` itself, on which processes of the user's script may run.
_SERVER = forkserver.ForkServer()


class _Popen(Popen):
    """Start of a process as the class above starts it, but by `_SERVER` and without the script.

    Other processes of `multiprocessing` import the user's script again. Here a script needs no
    ``if __name__ == "__main__":``, because the executor pickles its functions and classes by value.
    """

    def _launch(self, process_obj: BaseProcess) -> None:
        data = spawn.get_preparation_data(process_obj.name)
        data = {key: value for key, value in data.items() if not key.startswith("init_main")}
        content = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(data, content)
            reduction.dump(process_obj, content)
        finally:
            set_spawning_popen(None)
        self.sentinel, write = _SERVER.connect_to_new_process(self._fds)  # type: ignore[attr-defined]
        kept_open = os.dup(write)  # the process ends when this end of its pipe is closed
        self.finalizer = util.Finalize(self, util.close_fds, (kept_open, self.sentinel))  # type: ignore[attr-defined]
        with open(write, "wb") as pipe:  # noqa: PTH123, an open descriptor
            pipe.write(content.getbuffer())
        self.pid = forkserver.read_signed(self.sentinel)


class _Process(ForkServerProcess):
    """Copy of the server."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Popen:  # noqa: N802, a name of `multiprocessing`
        return _Popen(process_obj)


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
    _SERVER.set_forkserver_preload([] if sys.platform == "darwin" else list(modules))
    before, folder = {name: os.environ.get(name) for name in ONE_THREAD}, tempfile.tempdir
    os.environ.update(ONE_THREAD)
    if len(tempfile.gettempdir()) > MAX_FOLDER:
        tempfile.tempdir = "/tmp"  # noqa: S108
    try:
        with hold_signals():
            _SERVER.ensure_running()
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

    Tasks that the executor has not handed over are taken from it first. Otherwise it looks for them
    after it has dropped them, and prints a traceback.
    """
    with contextlib.suppress(queue.Empty):
        while True:
            executor._work_ids.get_nowait()
    executor.shutdown(kill_workers=True)


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
    import numpy as np

    os.environ.clear()
    os.environ.update({**ONE_THREAD, **environment})
    np.random.seed()  # noqa: NPY002, all copies would draw the same numbers by it
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
