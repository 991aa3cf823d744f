"""Server side of an entry's process: each call of the entry runs in a forked child.

`main` runs in a process that never loads the entry and forks a child for every call. The child
loads the entry's file, reads the records of the call from a pipe, writes numbers to another pipe
and ends. A call therefore keeps no state of earlier calls, and its changes to Python end with it.
Scores, seeds and the locations of distributions are only in the client process
(`dpbench.suite.process`).

Before the file is loaded, the kernel forbids the child to write, to connect, to start processes and
to read the memory of other processes (`dpbench.suite.confine`). Before the records are read, a
Python audit hook forbids these actions, too, with a readable message. An entry can patch the hook,
which is the only protection on systems other than Linux.

Calls come in random order, so that an entry cannot infer the purpose of a call by counting.
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
from dpbench.errors import ConfigError, to_one_line
from dpbench.estimators import Estimator
from dpbench.package import PACKAGE
from dpbench.privacy import Budget, Ledger
from dpbench.runner.imports import list_imports
from dpbench.samples import DenseSample
from dpbench.suite.confine import WRITING, confine, end_with_parent
from dpbench.suite.entries import Entry, load_entry
from dpbench.suite.problems import PublicKnowledge
from dpbench.testing import NOTIONS, check_estimator

__all__ = ["DONE", "HEADER", "REFUSED", "STATUS", "main"]

HEADER = struct.Struct("!Q")  # length in bytes of the request that follows
STATUS = struct.Struct("!id")  # exit code of a child, and its processor seconds
DONE, REFUSED = b"=", b"!"  # first byte of an answer: a result, or an error message
# Limits of a child: seconds of processor time, and bytes of address space.
SECONDS, MEMORY = 60, 6 << 30
# Audit events of Python that reach outside the process, other than opening a file.
OUTSIDE_EVENTS = (
    "ctypes.", "mmap.", "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link",
    "os.mkdir", "os.posix_spawn", "os.remove", "os.rename", "os.rmdir", "os.setxattr",
    "os.symlink", "os.system", "os.truncate", "os.utime", "shutil.", "signal.pthread_kill",
    "socket.", "sqlite3.", "subprocess.", "syslog.", "tempfile.",
)  # fmt: skip
RECORDS, ANSWER, ASIDE = 3, 4, 100  # file descriptors of a child's pipes


def main(control: int) -> None:
    """Receive calls from the client process, and run each call in a forked child process.

    A call runs a task with an entry's file. `control` is the file descriptor of the socket to the
    client. The function returns when the socket is closed.
    """
    sys.dont_write_bytecode = True
    end_with_parent()
    loaded_paths = set[Path]()
    with socket.socket(fileno=control) as calls:
        while (received := socket.recv_fds(calls, HEADER.size, 2))[0]:
            header, pipes, *_ = received
            request = _read_exactly(calls.fileno(), *HEADER.unpack(header))
            path, task, arguments = pickle.loads(request)  # noqa: S301 (sent by the client)
            if path not in loaded_paths:
                loaded_paths.add(path)
                _preload(path)
            child = os.fork()
            if not child:
                _run_child(partial(TASKS[task], path, **arguments), *pipes)
            for pipe in pipes:
                os.close(pipe)
            _, status, used = os.wait4(child, 0)
            code = os.waitstatus_to_exitcode(status)
            calls.sendall(STATUS.pack(code, used.ru_utime + used.ru_stime))


def _preload(path: Path) -> None:
    """Import the installed libraries that an entry's file imports, once for all its calls.

    The child process of each call inherits them. Modules that are not installed may belong to the
    entry, so each child imports them again. `scipy.optimize` is added, because estimators of
    dpbench import it lazily.
    """
    names = list(list_imports(path))
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
    return any(Path(spec.origin or "").is_relative_to(folder) for folder in folders)


def _read_exactly(source: int, size: int) -> bytes:
    """Return exactly `size` bytes from a file descriptor; raise EOFError if there are fewer."""
    parts = []
    while size:
        part = os.read(source, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _run_child(task: Callable[[], bytes], records: int, answer: int) -> None:
    """Run a task in this forked child process, write the answer to a pipe, and end the process."""
    try:
        end_with_parent()
        for pipe, descriptor in ((records, ASIDE), (answer, ASIDE + 1)):
            os.dup2(pipe, descriptor)  # to high numbers first, so that no pipe overwrites the other
        os.dup2(ASIDE, RECORDS)
        os.dup2(ASIDE + 1, ANSWER)
        _close_others()
        for limit, value in (
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CPU, SECONDS),
            (resource.RLIMIT_AS, MEMORY),
        ):
            with contextlib.suppress(OSError, ValueError):  # a lower limit is already set
                resource.setrlimit(limit, (value, value))
        confine()
        with np.errstate(all="ignore"):
            _write_answer(DONE + task())
    except ConfigError as error:
        _write_answer(REFUSED + str(error).encode())
    except Exception as error:  # noqa: BLE001, the entry may raise anything
        _write_answer(REFUSED + to_one_line(f"{type(error).__name__}: {error}").encode())
    finally:
        os._exit(0)


def _close_others() -> None:
    """Close all files and connections of this process except the pipes of the call."""
    os.closerange(ANSWER + 1, 1 << 16)


def _write_answer(answer: bytes) -> None:
    with contextlib.suppress(OSError):  # the reader has gone
        view = memoryview(answer)
        while view:
            view = view[os.write(ANSWER, view) :]


def _shield_call() -> None:
    """Forbid this process to write and connect, and close files that the entry opened.

    A Python audit hook forbids the actions. Reading files stays allowed, because modules may be
    imported late.
    """
    sys.addaudithook(_refuse)
    _close_others()


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise PermissionError if an audit event is writing, connecting or starting a process."""
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
    if writes or event.startswith(OUTSIDE_EVENTS):
        raise PermissionError(f"{event}: an entry gets numbers and returns numbers")


def _choose_estimator(entry: Entry, public: PublicKnowledge, problem: str) -> Estimator:
    estimator = entry.answer(public, problem)
    if estimator is None:
        raise ConfigError(
            f"{entry.card.name}: entry of {problem}: returns an estimator in one call and None in "
            "another; make it deterministic"
        )
    return estimator


def _describe(path: Path, problems: dict[str, tuple[PublicKnowledge, PublicKnowledge]]) -> bytes:
    """Return the card of an entry and a description of its estimator for each problem, as JSON.

    The card holds the facts that the entry declares about itself, such as its name and the paper.
    The estimator's description has its class, its smallest n and the budgets that it supports.
    `problems` maps the id of a problem to a pair of public knowledge about the problem. An entry of
    the declared division gets the first of the pair, without the shape of the distribution. An
    entry of the open division gets the second, with this shape.
    """
    entry = load_entry(path)
    answers = {}
    for name, knowledge in problems.items():
        public = knowledge[entry.card.division == "open"]
        estimator = entry.answer(public, name)
        if estimator is not None:
            honoured = [budget for budget in NOTIONS if estimator.supports(budget)]
            least = max(
                estimator.least_records(public.d, budget) for budget in [*honoured, public.budget]
            )
            answers[name] = {
                "name": type(estimator).__name__,
                "least": int(least),
                "honoured": [[budget.notion, budget.neighbours] for budget in honoured],
            }
    card = {name: getattr(entry.card, name) for name in vars(entry.card)}
    return json.dumps({"card": card, "answers": answers}).encode()


def _check(path: Path, public: PublicKnowledge, problem: str, shape: tuple[int, ...]) -> bytes:
    """Check the entry's estimator on a dataset, and return a rule that it breaks, as text.

    The rules are tested by `dpbench.testing.check_estimator`. The text is empty if none is broken.
    """
    estimator = _choose_estimator(load_entry(path), public, problem)
    _shield_call()
    try:
        check_estimator(estimator, records=_read_records(shape))
    except AssertionError as error:
        return str(error).encode()
    return b""


def _pairs(path: Path, public: PublicKnowledge, problem: str, n: int, budget: Budget) -> bytes:
    """Return the pairs of neighbouring datasets that the estimator defines for its audit, as JSON.

    Each pair is a list: name, left dataset and right dataset.
    """
    estimator = _choose_estimator(load_entry(path), public, problem)
    pairs = estimator.audit_pairs(n, public.d if public.d > 1 else None, budget)
    return json.dumps(
        [[pair.name, pair.left.tolist(), pair.right.tolist()] for pair in pairs]
    ).encode()


def _release(
    path: Path,
    public: PublicKnowledge,
    problem: str,
    shape: tuple[int, ...],
    budget: Budget,
    seed: int,
    noise_factor: float,
) -> bytes:
    """Return releases of the entry's estimator, as bytes of float64 numbers.

    The datasets are read from the pipe of the call. Their shape is (trials, n) or (trials, n, d).
    """
    estimator = _choose_estimator(load_entry(path), public, problem)
    ledger = Ledger(budget, np.random.default_rng(seed), noise_factor=noise_factor)
    _shield_call()
    value = estimator.run(DenseSample(_read_records(shape)), ledger).value
    return np.ascontiguousarray(value, dtype=np.float64).tobytes()


def _read_records(shape: tuple[int, ...]) -> Floats:
    """Read the records of this call from its pipe, and return them as an array."""
    size = 8 * int(np.prod(shape))
    return np.frombuffer(_read_exactly(RECORDS, size), dtype=np.float64).reshape(shape)


TASKS: dict[str, Callable[..., bytes]] = {
    "describe": _describe,
    "check": _check,
    "pairs": _pairs,
    "release": _release,
}
