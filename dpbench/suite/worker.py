"""Server side of an entry's process: each call of the entry runs in a forked child.

`main` runs in a process that never loads the entry and forks a child for every call. The child
loads the entry's file, reads the records of the call from a pipe, writes numbers to another pipe
and ends. A call therefore keeps no state of earlier calls, and its patches end with it. Scores,
seeds and places are only in the client process (`dpbench.suite.process`).

Before the file is loaded, the kernel forbids the child to write, to connect, to start processes and
to read the memory of other processes (`dpbench.suite.confine`). Before the records are read, a
Python audit hook forbids it too, with a readable message. An entry can patch the hook, which is the
only protection on systems other than Linux.

Calls come in random order, so that counting them does not reveal their purpose.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pickle
import resource
import socket
import struct
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dpbench.arrays import Floats
from dpbench.errors import ConfigError, one_line
from dpbench.estimators import Estimator
from dpbench.package import PACKAGE
from dpbench.privacy import Budget, Ledger
from dpbench.runner.imports import imported_by
from dpbench.samples import DenseSample
from dpbench.suite.confine import WRITING, confine, end_with_parent
from dpbench.suite.entries import Entry, load_entry
from dpbench.suite.problems import PublicKnowledge
from dpbench.testing import NOTIONS, check_estimator

__all__ = ["DONE", "HEADER", "REFUSED", "STATUS", "main"]

HEADER = struct.Struct("!Q")  # length in bytes of the request that follows
STATUS = struct.Struct("!id")  # exit code of a child, and its processor seconds
DONE, REFUSED = b"=", b"!"  # first byte of an answer: a result, or an error message
# Limits of a child: processor seconds, and bytes of address space.
SECONDS, MEMORY = 60, 6 << 30
# Audit events of Python that reach outside the process, other than opening a file.
OUTSIDE = (
    "ctypes.", "mmap.", "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link",
    "os.mkdir", "os.posix_spawn", "os.remove", "os.rename", "os.rmdir", "os.setxattr",
    "os.symlink", "os.system", "os.truncate", "os.utime", "shutil.", "signal.pthread_kill",
    "socket.", "sqlite3.", "subprocess.", "syslog.", "tempfile.",
)  # fmt: skip
RECORDS, ANSWER, ASIDE = 3, 4, 100  # file descriptors of a child's pipes


def main(control: int) -> None:
    """Serve calls of entries until a socket, given by its file descriptor, is closed."""
    sys.dont_write_bytecode = True
    end_with_parent()
    known = set[Path]()
    with socket.socket(fileno=control) as calls:
        while (received := socket.recv_fds(calls, HEADER.size, 2))[0]:
            header, pipes, *_ = received
            request = _exactly(calls.fileno(), *HEADER.unpack(header))
            path, task, about = pickle.loads(request)  # noqa: S301 (of the process that asks)
            if path not in known:
                known.add(path)
                _preload(path)
            child = os.fork()
            if not child:
                _run(partial(TASKS[task], path, **about), *pipes)
            for pipe in pipes:
                os.close(pipe)
            _, status, used = os.wait4(child, 0)
            code = os.waitstatus_to_exitcode(status)
            calls.sendall(STATUS.pack(code, used.ru_utime + used.ru_stime))


def _preload(path: Path) -> None:
    """Import the libraries that an entry's file imports, so that no child has to.

    Modules that are not installed may belong to the entry, so each child imports them again.
    `scipy.optimize` is added, because estimators of dpbench import it lazily.
    """
    names = list(imported_by(path))
    if "dpbench.estimators" in names:
        names.append("scipy.optimize")
    for name in names:
        with contextlib.suppress(Exception):  # the first call reports it, or it is not a module
            if _is_installed(name.partition(".")[0]):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else garbage collection in a child would copy the pages of all objects


def _is_installed(name: str) -> bool:
    """Return True if a top-level module belongs to Python, dpbench or an installed package."""
    spec = find_spec(name)
    if spec is None or spec.origin in ("built-in", "frozen"):
        return spec is not None
    folders = [PACKAGE, *map(Path, sysconfig.get_paths().values())]
    return any(Path(spec.origin or "").is_relative_to(one) for one in folders)


def _exactly(source: int, size: int) -> bytes:
    """Return exactly `size` bytes from a file descriptor; raise EOFError if there are fewer."""
    parts = []
    while size:
        part = os.read(source, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _run(task: Callable[[], bytes], records: int, answer: int) -> None:
    """Run a task in a child, write its answer, and end the child."""
    try:
        end_with_parent()
        for pipe, place in ((records, ASIDE), (answer, ASIDE + 1)):
            os.dup2(pipe, place)  # to high numbers first, so that neither overwrites the other
        os.dup2(ASIDE, RECORDS)
        os.dup2(ASIDE + 1, ANSWER)
        _close_others()
        for what, most in (
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CPU, SECONDS),
            (resource.RLIMIT_AS, MEMORY),
        ):
            with contextlib.suppress(OSError, ValueError):  # a lower limit is already set
                resource.setrlimit(what, (most, most))
        confine()
        with np.errstate(all="ignore"):
            _write(DONE + task())
    except ConfigError as error:
        _write(REFUSED + str(error).encode())
    except Exception as error:  # noqa: BLE001, the entry may raise anything
        _write(REFUSED + one_line(f"{type(error).__name__}: {error}").encode())
    finally:
        os._exit(0)


def _close_others() -> None:
    """Close all files and connections except the pipes of the call."""
    os.closerange(ANSWER + 1, 1 << 16)


def _write(answer: bytes) -> None:
    with contextlib.suppress(OSError):  # the reader has gone
        view = memoryview(answer)
        while view:
            view = view[os.write(ANSWER, view) :]


def _alone() -> None:
    """Install the hook against writing and connecting, and close files that the entry opened.

    Files may be read, because modules may be imported late.
    """
    sys.addaudithook(_refuse)
    _close_others()


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise PermissionError on an audit event of writing, connecting or starting a process."""
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
    if writes or event.startswith(OUTSIDE):
        raise PermissionError(f"{event}: an entry gets numbers and returns numbers")


def _chosen(entry: Entry, public: PublicKnowledge, problem: str) -> Estimator:
    found = entry.answer(public, problem)
    if found is None:
        raise ConfigError(
            f"{entry.card.name}: entry of {problem}: returns an estimator in one call and None in "
            "another; make it deterministic"
        )
    return found


def _describe(path: Path, problems: dict[str, tuple[PublicKnowledge, PublicKnowledge]]) -> bytes:
    """Return the card, and a description of the chosen estimator of each problem, as JSON.

    `problems` maps the id of a problem to the knowledge of the declared and the open division.
    """
    entry = load_entry(path)
    answers = {}
    for name, both in problems.items():
        public = both[entry.card.division == "open"]
        found = entry.answer(public, name)
        if found is not None:
            honoured = [one for one in NOTIONS if found.supports(one)]
            least = max(found.least_records(public.d, one) for one in [*honoured, public.budget])
            answers[name] = {
                "name": type(found).__name__,
                "least": int(least),
                "honoured": [[one.notion, one.neighbours] for one in honoured],
            }
    card = {one: getattr(entry.card, one) for one in vars(entry.card)}
    return json.dumps({"card": card, "answers": answers}).encode()


def _check(path: Path, public: PublicKnowledge, problem: str, shape: tuple[int, ...]) -> bytes:
    """Return the promise that `check_estimator` finds broken on a dataset; empty if none is."""
    estimator = _chosen(load_entry(path), public, problem)
    _alone()
    try:
        check_estimator(estimator, records=_records(shape))
    except AssertionError as error:
        return str(error).encode()
    return b""


def _pairs(path: Path, public: PublicKnowledge, problem: str, n: int, budget: Budget) -> bytes:
    """Return the names and datasets of the estimator's own audit pairs, as JSON."""
    estimator = _chosen(load_entry(path), public, problem)
    found = estimator.audit_pairs(n, public.d if public.d > 1 else None, budget)
    return json.dumps([[one.name, one.left.tolist(), one.right.tolist()] for one in found]).encode()


def _release(
    path: Path,
    public: PublicKnowledge,
    problem: str,
    shape: tuple[int, ...],
    budget: Budget,
    seed: int,
    noise_factor: float,
) -> bytes:
    """Return releases on records of shape (trials, n) or (trials, n, d), as float64 bytes."""
    estimator = _chosen(load_entry(path), public, problem)
    ledger = Ledger(budget, np.random.default_rng(seed), noise_factor=noise_factor)
    _alone()
    value = estimator.run(DenseSample(_records(shape)), ledger).value
    return np.ascontiguousarray(value, dtype=np.float64).tobytes()


def _records(shape: tuple[int, ...]) -> Floats:
    """Return the records of the call, read from its pipe."""
    size = 8 * int(np.prod(shape))
    return np.frombuffer(_exactly(RECORDS, size), dtype=np.float64).reshape(shape)


TASKS: dict[str, Callable[..., bytes]] = {
    "describe": _describe,
    "check": _check,
    "pairs": _pairs,
    "release": _release,
}
