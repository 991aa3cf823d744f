"""Processes of the libraries, one each, started at the first request; see `worker`."""

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

__all__ = [
    "REQUIREMENTS", "LibraryError", "Releases", "close_libraries", "environments", "folder",
    "library", "python",
]  # fmt: skip

HERE = Path(__file__).parent
REQUIREMENTS: dict[str, list[str]] = json.loads((HERE / "requirements.json").read_text("utf-8"))
MOST_SECONDS = 600.0  # time limit of a request; Spark needs minutes to start


class LibraryError(RuntimeError):
    """The process of a library failed; the message is one line with the reason."""


class Releases(NamedTuple):
    """Releases of the mean of one column.

    Attributes
    ----------
    values : (repeats,) array
        The releases; NaN also if the library raised.
    raised : (repeats,) array of bool
        True if the library raised.
    seconds : (repeats,) array
        Time of each release, in seconds; the first includes the library's preparation.
    message : str
        The first exception, else the first warning, else "".
    """

    values: Floats
    raised: NDArray[np.bool_]
    seconds: Floats
    message: str = ""


def folder(name: str) -> Path:
    """Return the folder of a library's environment.

    It is below ``.libraries`` of the checkout, or below the environment variable DPBENCH_LIBRARIES.
    """
    root = os.environ.get("DPBENCH_LIBRARIES") or HERE.parents[2] / ".libraries"
    return Path(root).expanduser().absolute() / name


def environments() -> list[Path]:
    """Return, for each library, the file of its environment that every installation rewrites."""
    return [folder(name) / "pyvenv.cfg" for name in REQUIREMENTS]


def python(name: str) -> Path:
    """Return the Python interpreter of a library's environment; for numpy, dpbench's own."""
    return Path(sys.executable) if name == "numpy" else folder(name) / "bin" / "python"


class _Library:
    """Connection to a library's process, which starts when needed, and again after it has ended."""

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._version = ""

    @property
    def version(self) -> str:
        """The library's version; raises LibraryError if it is not installed."""
        with self._lock:
            self._started()
        return self._version

    def release(
        self, column: NDArray[Any], ask: dict[str, Any], repeats: int, limit: float = MOST_SECONDS
    ) -> Releases:
        """Release means of a column of float64 or int64.

        Parameters
        ----------
        column : (n,) array
            The records.
        ask : dict
            The fields of `dpbench.estimators.libraries.worker.Ask`.
        repeats : int
            Number of independent releases.
        limit : float
            Time in seconds after which the process is ended.

        Returns
        -------
        Releases

        Raises
        ------
        LibraryError
            If the library is not installed, or its process ends or takes too long.
        """
        integers = column.dtype.kind == "i"
        data = column.astype(np.int64 if integers else np.float64)
        about = {"ask": ask, "repeats": repeats, "type": "q" if integers else "d"}
        found = self._answer(about, data, limit)
        values = np.array(found["values"], dtype=float)  # None becomes NaN
        raised = np.array([value is None for value in found["values"]])
        return Releases(values, raised, np.array(found["seconds"]), found["message"])

    def replay(
        self, query: str, datasets: Sequence[Floats], ask: dict[str, Any]
    ) -> list[tuple[list[dict[str, Any]], str]]:
        """Run a query on datasets; all runs but the first reuse the releases of the first.

        Parameters
        ----------
        query : str
            A name of `dpbench.estimators.libraries.recorder.QUERIES`.
        datasets : sequence of (n, d) array
            Records of each run.
        ask : dict
            The fields of `dpbench.estimators.libraries.worker.Ask`.

        Returns
        -------
        list of (list of dict, str)
            For each dataset the steps of its mechanisms, see
            `dpbench.estimators.libraries.recorder.Recorder`, and the exception that ended the run,
            or "".

        Raises
        ------
        LibraryError
            If the library is not installed, or its process ends or takes too long.
        """
        about = {"ask": ask, "query": query, "shapes": [x.shape for x in datasets], "type": "d"}
        data = np.concatenate([np.ravel(x) for x in datasets]).astype(np.float64)
        found = self._answer(about, data, MOST_SECONDS)
        return list(zip(found["tapes"], found["message"], strict=True))

    def _answer(self, about: dict[str, Any], data: NDArray[Any], limit: float) -> Any:
        """Send a request with its numbers to the process, which is started if there is none."""
        sent = data.tobytes()
        line = json.dumps({**about, "bytes": len(sent)}).encode()
        with self._lock:
            self._started()
            return self._exchange(line + b"\n" + sent, limit)

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            if self._process is not None:
                self._ended("")

    def _started(self) -> None:
        if self._process is not None:
            return
        if not python(self._name).exists():
            raise LibraryError(f"not installed: bash dev.sh libraries {self._name}")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed when the process has ended
        self._process = subprocess.Popen(  # noqa: S603
            [str(python(self._name)), "-I", str(HERE / "worker.py"), self._name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=tempfile.gettempdir(),  # Spark leaves folders where it runs
        )
        self._version = self._exchange(b"", MOST_SECONDS)

    def _exchange(self, request: bytes, limit: float) -> Any:
        """Send a request and read the reply; end a process that does not reply."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(limit, process.kill)  # a killed process ends the reading below
        late.start()
        try:
            process.stdin.write(request)
            process.stdin.flush()
            return json.loads(process.stdout.readline())
        except (OSError, ValueError) as error:
            slow = not late.is_alive()
            raise LibraryError(self._ended(f"no answer in {limit:g} s" if slow else "")) from error
        except BaseException:  # an unread reply would be taken for that of the next request
            self._ended("")
            raise
        finally:
            late.cancel()

    def _ended(self, why: str) -> str:
        """End the process; return its last line of output, or its exit code."""
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
        said = [line.strip() for line in lines if line.strip()][-1:] or [f"exit code {code}"]
        return f"{self._name}: its process ended: {why or said[0]}"


_LIBRARIES: dict[str, _Library] = {}


def library(name: str) -> _Library:
    """Return the connection to the library of that name."""
    return _LIBRARIES.setdefault(name, _Library(name))


@atexit.register
def close_libraries() -> None:
    """End all processes; a later request starts its process again."""
    for one in _LIBRARIES.values():
        one.close()
