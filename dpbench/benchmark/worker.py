"""Server side of an entry's process: each call of the entry runs in a forked child.

`main` runs in a process that never loads the entry and forks a child for every call. The child
loads the entry's file, releases from the records of the call, writes numbers to a pipe and ends.
A mistake of an entry therefore harms no other call: neither a global variable, nor a changed
library, nor too much time or memory. Nothing stops an entry that means harm, such as one that
writes files.

Calls come in random order, so that an entry cannot infer the purpose of a call by counting.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pickle
import signal
import socket
import struct
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from dpbench.arrays import Floats
from dpbench.benchmark.entries import Entry, load_entry
from dpbench.benchmark.problems import PublicKnowledge
from dpbench.errors import ConfigError, to_one_line
from dpbench.estimators import Estimator, OneRecord
from dpbench.package import PACKAGE
from dpbench.privacy import Budget, Ledger
from dpbench.runner.imports import list_imports
from dpbench.samples import DenseSample
from dpbench.testing import NOTIONS, check_estimator

__all__ = ["DONE", "HEADER", "REFUSED", "STATUS", "main"]

HEADER = struct.Struct("!Q")  # length in bytes of the request that follows
STATUS = struct.Struct("!id")  # exit code of a child, and its processor seconds
DONE, REFUSED = b"=", b"!"  # first byte of an answer: a result, or an error message
# Limits of a child: seconds of processor time, and bytes of address space.
SECONDS, MEMORY = 60, 6 << 30
DEATH_SIGNAL = 1  # option of prctl, from linux/prctl.h


def main(control: int) -> None:
    """Receive calls from the client process, and run each call in a forked child process.

    A call runs a task with an entry's file. `control` is the file descriptor of the socket to the
    client. The function returns when the socket is closed.
    """
    sys.dont_write_bytecode = True
    _end_with_parent()
    loaded_paths = set[Path]()
    with socket.socket(fileno=control) as calls:
        while (received := socket.recv_fds(calls, HEADER.size, 1))[0]:
            header, (answer,), *_ = received
            request = _read_exactly(calls.fileno(), *HEADER.unpack(header))
            path, task, arguments = pickle.loads(request)  # noqa: S301 (sent by the client)
            if path not in loaded_paths:
                loaded_paths.add(path)
                _preload(path)
            child = os.fork()
            if not child:
                calls.close()
                _run_child(partial(TASKS[task], path, **arguments), answer)
            os.close(answer)
            _, status, used = os.wait4(child, 0)
            code = os.waitstatus_to_exitcode(status)
            calls.sendall(STATUS.pack(code, used.ru_utime + used.ru_stime))


def _end_with_parent() -> None:
    """Make Linux kill this process when its parent process ends."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):  # another C library
            ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)


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


def _run_child(task: Callable[[], bytes], answer: int) -> None:
    """Run a task in this forked child process, write the answer to a pipe, and end the process."""
    try:
        import resource

        _end_with_parent()
        for limit, value in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MEMORY)):
            with contextlib.suppress(OSError, ValueError):  # a lower limit is already set
                resource.setrlimit(limit, (value, value))
        with np.errstate(all="ignore"):
            _write_answer(answer, DONE + task())
    except ConfigError as error:
        _write_answer(answer, REFUSED + str(error).encode())
    except Exception as error:  # noqa: BLE001, the entry may raise anything
        text = to_one_line(f"{type(error).__name__}: {error}")
        _write_answer(answer, REFUSED + text.encode())
    finally:
        os._exit(0)


def _write_answer(answer: int, content: bytes) -> None:
    with contextlib.suppress(OSError):  # the reader has gone
        view = memoryview(content)
        while view:
            view = view[os.write(answer, view) :]


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


def _check(path: Path, public: PublicKnowledge, problem: str, records: Floats) -> bytes:
    """Check the entry's estimator on a dataset, and return a rule that it breaks, as text.

    The rules are tested by `dpbench.testing.check_estimator`. The text is empty if none is broken.
    """
    try:
        check_estimator(_choose_estimator(load_entry(path), public, problem), records=records)
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
    records: Floats,
    budget: Budget,
    seed: int,
    noise_factor: float,
    place: int | None,
) -> bytes:
    """Return releases of the entry's estimator, as bytes of float64 numbers.

    The datasets `records` have the shape (trials, n) or (trials, n, d). If `place` is given, the
    estimator is local, and each release is followed by the report of the record at this index.
    """
    estimator = _choose_estimator(load_entry(path), public, problem)
    rng = np.random.default_rng(seed)
    if place is None:
        ledger = Ledger(budget, rng, noise_factor=noise_factor)
        value = estimator.run(DenseSample(records), ledger).value
    else:
        assert isinstance(estimator, OneRecord)
        value = np.stack(estimator.transcript(records, budget, rng, place), axis=1)
    return np.ascontiguousarray(value, dtype=np.float64).tobytes()


TASKS: dict[str, Callable[..., bytes]] = {
    "describe": _describe,
    "check": _check,
    "pairs": _pairs,
    "release": _release,
}
