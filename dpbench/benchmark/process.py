"""Client of the separate process that runs the code of entries.

A call runs a task with an entry's file. The client sends calls to `dpbench.benchmark.worker`, and
reads the answers.
"""

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

from dpbench.benchmark.worker import DONE, HEADER, REFUSED, SECONDS, STATUS
from dpbench.errors import ConfigError
from dpbench.package import PACKAGE

__all__ = ["Answer", "EntryProcess", "entry_process"]

# Largest number of bytes of an answer that are read.
MAX_ANSWER_BYTES = 1 << 28
START_CODE = """\
import sys
sys.path[:] = {path!r}
from dpbench.benchmark.worker import main
main({control})
"""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Answer(NamedTuple):
    """Answer to a call of an entry: the returned bytes, and the processor time in seconds."""

    content: bytes
    seconds: float


class EntryProcess:
    """Separate process that runs the code of entries; it starts with the first call.

    Attributes
    ----------
    limit : float
        Seconds of wall-clock time after which a call is killed.
    """

    def __init__(self) -> None:
        self.limit, self._lock = float(SECONDS), threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket

    def ask(self, path: Path, task: str, **arguments: Any) -> Answer:
        """Run a task on an entry's file in a new child process, and return the answer.

        The task is a key of `dpbench.benchmark.worker.TASKS`, such as ``"release"``. A ConfigError
        says that the entry cannot be used, raises, ends early or takes too long.
        """
        request = pickle.dumps((path, task, arguments))
        with self._lock:
            self._start()
            timer = threading.Timer(self.limit, self._kill)
            timer.start()
            try:
                content, status = self._exchange(request)
            except BaseException:  # an unread answer would be taken for the answer to the next call
                self._end()
                raise
            finally:
                timer.cancel()
            if len(status) < STATUS.size:
                self._end()
                raise ConfigError(
                    f"{path.name}: no answer in {self.limit:g} s, or its process ended"
                )
        return _read_answer(path, content, status)

    def _exchange(self, request: bytes) -> tuple[bytes, bytes]:
        """Send a call to the process that runs entries; return the answer and the exit status.

        `request` holds the name and the arguments of the task. Answer and status are bytes. Either
        is empty if the process ended before sending it.
        """
        read_answer, write_answer = os.pipe()
        with open(read_answer, "rb", 0) as source:  # noqa: PTH123
            try:
                socket.send_fds(self._control, [HEADER.pack(len(request))], [write_answer])
                self._control.sendall(request)
            except OSError:
                return b"", b""
            finally:
                os.close(write_answer)
            content = bytearray()
            while len(content) < MAX_ANSWER_BYTES and (part := source.read(1 << 20)):
                content += part
        try:
            return bytes(content), self._control.recv(STATUS.size, socket.MSG_WAITALL)
        except OSError:
            return b"", b""

    def _start(self) -> None:
        if self._process is not None:
            return
        self._control, server = socket.socketpair()
        values = {"control": server.fileno(), "path": [str(PACKAGE.parent), *sys.path]}
        with server:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-c", START_CODE.format(**values)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[server.fileno()], start_new_session=True, env=os.environ | ONE_THREAD,
            )  # fmt: skip

    def _kill(self) -> None:
        """Kill the process that runs entries, and all processes that it started."""
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
        """End the process that runs entries, if there is one."""
        with self._lock:
            self._end()


def _read_answer(path: Path, content: bytes, status: bytes) -> Answer:
    """Return the answer to a call; raise ConfigError if the call failed or ended early."""
    code, seconds = STATUS.unpack(status)
    if content[:1] == REFUSED:
        raise ConfigError(content[1:].decode("utf-8", "replace"))
    if content[:1] != DONE or code:
        raise ConfigError(f"{path.name}: a call ended early, with exit code {code}")
    return Answer(content[1:], seconds)


# Each client process has one, and all entries share it, because starting it takes a second.
entry_process = EntryProcess()
atexit.register(entry_process.close)
