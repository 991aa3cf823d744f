"""Client side of an entry's process: send calls to `dpbench.suite.worker` and read answers."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from dpbench.errors import ConfigError
from dpbench.package import PACKAGE
from dpbench.suite.worker import DONE, HEADER, REFUSED, SECONDS, STATUS

__all__ = ["Answer", "EntryProcess", "entry_process"]

# Longest answer that is read.
MOST_BYTES = 1 << 28
START = """\
import sys
sys.path[:] = {path!r}
from dpbench.suite.worker import main
main({control})
"""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Answer(NamedTuple):
    """Answer of a call: the returned bytes, and the processor seconds of the call."""

    content: bytes
    seconds: float


class EntryProcess:
    """Process that runs the calls of entries; it starts with the first call.

    Attributes
    ----------
    limit : float
        Seconds after which a call is killed.
    """

    def __init__(self) -> None:
        self.limit, self._lock = float(SECONDS), threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket

    def ask(self, path: Path, task: str, records: bytes = b"", **about: Any) -> Answer:
        """Run a task of `dpbench.suite.worker` in a new process.

        Parameters
        ----------
        path : Path
            File of the entry.
        task : str
            Key of `dpbench.suite.worker.TASKS`.
        records : bytes
            Records that the task reads after it has loaded the file; none by default.
        **about
            Arguments of the task.

        Returns
        -------
        Answer

        Raises
        ------
        ConfigError
            If the entry cannot be used, raises, ends early or takes too long.
        """
        request = pickle.dumps((path, task, about))
        with self._lock:
            self._start()
            late = threading.Timer(self.limit, self._kill)
            late.start()
            try:
                content, status = self._exchange(request, records)
            except BaseException:  # an unread answer would be taken for the answer to the next call
                self._end()
                raise
            finally:
                late.cancel()
            if len(status) < STATUS.size:
                self._end()
                raise ConfigError(
                    f"{path.name}: no answer in {self.limit:g} s, or its process ended"
                )
        return _read(path, content, status)

    def _exchange(self, request: bytes, records: bytes) -> tuple[bytes, bytes]:
        """Send a call; return its answer and status, each empty if a process ended."""
        read_records, write_records = os.pipe()
        read_answer, write_answer = os.pipe()
        with open(write_records, "wb", 0) as sent, open(read_answer, "rb", 0) as told:  # noqa: PTH123
            try:
                pipes = [read_records, write_answer]
                socket.send_fds(self._control, [HEADER.pack(len(request))], pipes)
                self._control.sendall(request)
            except OSError:
                return b"", b""
            finally:
                os.close(read_records)
                os.close(write_answer)
            with contextlib.suppress(OSError):  # the call has ended and does not read any more
                view = memoryview(records)
                while view:
                    view = view[sent.write(view) or 0 :]
            sent.close()
            content = bytearray()
            while len(content) < MOST_BYTES and (part := told.read(1 << 20)):
                content += part
        try:
            return bytes(content), self._control.recv(STATUS.size, socket.MSG_WAITALL)
        except OSError:
            return b"", b""

    def _start(self) -> None:
        if self._process is not None:
            return
        self._control, theirs = socket.socketpair()
        about = {"control": theirs.fileno(), "path": [str(PACKAGE.parent), *sys.path]}
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-c", START.format(**about)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()], start_new_session=True, env=os.environ | ONE_THREAD,
            )  # fmt: skip

    def _kill(self) -> None:
        """Kill the process, its calls, and all their children."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _end(self) -> None:
        self._kill()
        if self._process is not None:
            self._process.wait()
            self._control.close()
            self._process = None

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._end()


def _read(path: Path, content: bytes, status: bytes) -> Answer:
    """Return the answer of a call; raise ConfigError if the call refused or ended early."""
    code, seconds = STATUS.unpack(status)
    if content[:1] == REFUSED:
        raise ConfigError(content[1:].decode("utf-8", "replace"))
    if content[:1] != DONE or code:
        raise ConfigError(f"{path.name}: a call ended early, with exit code {code}")
    return Answer(content[1:], seconds)


# One for each client process; all entries share it, because starting it takes a second.
entry_process = EntryProcess()
atexit.register(entry_process.close)
