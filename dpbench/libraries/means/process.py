"""Processes of the libraries, one for each library, started at the first request.

Each process runs `dpbench.libraries.means.worker`, which documents requests and replies.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbench.arrays import Floats
from dpbench.package import cache_folder, checkout, command_in_use

__all__ = [
    "REQUIREMENTS", "LibraryError", "Releases", "close_libraries", "environments", "folder",
    "library", "python",
]  # fmt: skip

HERE = Path(__file__).parent
REQUIREMENTS: dict[str, list[str]] = json.loads((HERE / "requirements.json").read_text("utf-8"))
MAX_SECONDS = 600.0  # time limit of a request; Spark needs minutes to start


class LibraryError(RuntimeError):
    """Failure of the process of a library; the message is one line with the reason."""


class Releases(NamedTuple):
    """Releases of the mean of one column of records, by a library."""

    # Arrays of shape (repeats,).
    values: Floats  # NaN if the library returned NaN or raised an exception
    raised: NDArray[np.bool_]  # whether the library raised an exception
    seconds: Floats  # time of each release; the first includes the library's preparation
    message: str = ""  # the first exception, else the first warning, else ""


def folder(name: str) -> Path:
    """Return the folder of a library's Python environment.

    The folder is below the folder that the environment variable DPBENCH_LIBRARIES names. If the
    variable is not set, it is below ``.libraries`` of the checkout. If dpbench is installed, or the
    checkout cannot be written to, it is below the user's folder for caches.
    """
    root: str | Path | None = os.environ.get("DPBENCH_LIBRARIES")
    if not root and (home := checkout()) is not None:
        own = home / ".libraries"
        root = own if own.is_dir() or os.access(home, os.W_OK) else None
    return Path(root or cache_folder() / "libraries").expanduser().absolute() / name


def environments() -> list[Path]:
    """Return the path of ``pyvenv.cfg`` in each library's Python environment.

    Every installation rewrites this file. A newer modification time shows that the environment may
    have changed.
    """
    return [folder(name) / "pyvenv.cfg" for name in REQUIREMENTS]


def python(name: str) -> Path:
    """Return the path of the Python interpreter in a library's environment.

    For ``numpy`` it is the interpreter that runs dpbench.
    """
    return Path(sys.executable) if name == "numpy" else folder(name) / "bin" / "python"


class _Library:
    """Connection to a library's process; a request starts the process if none runs."""

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._version = ""

    @property
    def version(self) -> str:
        """Version of the library; LibraryError is raised if the library is not installed."""
        with self._lock:
            self._start()
        return self._version

    def release(
        self, column: NDArray[Any], ask: dict[str, Any], repeats: int, limit: float = MAX_SECONDS
    ) -> Releases:
        """Release the mean of a column of float64 or int64 several times, in the library's process.

        The column has shape (n,), and the releases are independent. `ask` has the fields of
        `dpbench.libraries.means.worker.Ask`: budget, bounds and size. A process that has not
        replied after `limit` seconds is ended. If the library is not installed, or its process ends
        or takes too long, a LibraryError is raised.
        """
        integers = column.dtype.kind == "i"
        data = column.astype(np.int64 if integers else np.float64)
        request = {"ask": ask, "repeats": repeats, "type": "q" if integers else "d"}
        reply = self._request(request, data, limit)
        values = np.array(reply["values"], dtype=float)  # None becomes NaN
        raised = np.array([value is None for value in reply["values"]])
        return Releases(values, raised, np.array(reply["seconds"]), reply["message"])

    def replay(
        self, query: str, datasets: Sequence[Floats], ask: dict[str, Any]
    ) -> list[tuple[list[dict[str, Any]], str]]:
        """Run a query of the library on several datasets, and record the inputs of its mechanisms.

        Mechanisms of later runs reuse the releases of the first run, so only their inputs can
        differ. The query is one of `dpbench.libraries.means.recorder.QUERIES`. Each dataset has
        shape (n, d). `ask` has the fields of `dpbench.libraries.means.worker.Ask`: budget, bounds
        and size. For each dataset the result has the recorded calls of mechanisms, in the format of
        `dpbench.libraries.means.recorder.Recorder`, and the exception that ended the run, or "". If
        the library is not installed, or its process ends or takes too long, a LibraryError is
        raised.
        """
        request = {"ask": ask, "query": query, "shapes": [x.shape for x in datasets], "type": "d"}
        data = np.concatenate([np.ravel(x) for x in datasets]).astype(np.float64)
        reply = self._request(request, data, MAX_SECONDS)
        return list(zip(reply["tapes"], reply["message"], strict=True))

    def _request(self, request: dict[str, Any], data: NDArray[Any], limit: float) -> Any:
        """Send a request and an array of numbers to the library's process, and return the reply.

        If no process runs, one is started. A process that has not replied after `limit` seconds is
        ended.
        """
        payload = data.tobytes()
        line = json.dumps({**request, "bytes": len(payload)}).encode()
        with self._lock:
            self._start()
            return self._exchange(line + b"\n" + payload, limit)

    def close(self) -> None:
        """End the library's process, if there is one."""
        with self._lock:
            if self._process is not None:
                self._end("")

    def _start(self) -> None:
        """Start the library's process if none runs, and read the library's version."""
        if self._process is not None:
            return
        if not python(self._name).exists():
            raise LibraryError(f"not installed: {command_in_use()} libraries {self._name}")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed when the process has ended
        self._process = subprocess.Popen(  # noqa: S603
            [str(python(self._name)), "-I", str(HERE / "worker.py"), self._name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=tempfile.gettempdir(),  # Spark leaves folders where it runs
        )
        self._version = self._exchange(b"", MAX_SECONDS)

    def _exchange(self, request: bytes, limit: float) -> Any:
        """Send a request to the library's process, and return the reply.

        A process that has not replied after `limit` seconds is ended, and LibraryError is raised.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(limit, process.kill)  # a killed process ends the reading below
        timer.start()
        try:
            process.stdin.write(request)
            process.stdin.flush()
            return json.loads(process.stdout.readline())
        except (OSError, ValueError) as error:
            timed_out = not timer.is_alive()
            raise LibraryError(
                self._end(f"no answer in {limit:g} s" if timed_out else "")
            ) from error
        except BaseException:  # an unread reply would be taken for that of the next request
            self._end("")
            raise
        finally:
            timer.cancel()

    def _end(self, reason: str) -> str:
        """End the library's process, and return a line with the library's name and a reason.

        If `reason` is empty, the reason is the last line that the process wrote, or its exit code.
        """
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # unsent bytes cannot be flushed
                pipe.close()  # type: ignore[union-attr]
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        self._errors.close()
        last_line = [line.strip() for line in lines if line.strip()][-1:] or [f"exit code {code}"]
        return f"{self._name}: its process ended: {reason or last_line[0]}"


_LIBRARIES: dict[str, _Library] = {}


def library(name: str) -> _Library:
    """Return the connection to the process of the library called `name`."""
    return _LIBRARIES.setdefault(name, _Library(name))


@atexit.register
def close_libraries() -> None:
    """End the processes of all libraries; a later request to a library starts a new process."""
    for connection in _LIBRARIES.values():
        connection.close()
