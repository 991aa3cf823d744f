"""Signals, and broken output streams: one line, and no written file is lost."""

from __future__ import annotations

import gc
import io
import itertools
import math
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
from joblib.externals.loky.backend import resource_tracker as loky_tracker

import dpbench
from dpbench import signals
from dpbench.runner.workers import hold_signals
from tests.bench import Bench, wait_for

ROOT = Path(dpbench.__file__).parents[1]
# A library that takes an interrupt for something else while it loads.
SWALLOWS = """
import pathlib, time
try:
    pathlib.Path("loading").touch()
    time.sleep(30)
except BaseException as error:
    raise ImportError("no luck") from error
"""


CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}  # of POSIX shells: 128 + the number


@pytest.mark.parametrize("name", CODES)
def test_a_signal_while_libraries_load(tmp_path: Path, name: str) -> None:
    """Check that no signal is swallowed, prints a traceback or waits for the end of an import."""
    (tmp_path / "numpy.py").write_text(SWALLOWS)
    process = subprocess.Popen(
        [sys.executable, "-m", "dpbench", "sweep=quick"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        preexec_fn=lambda: signal.signal(signal.Signals[name], signal.SIG_DFL),  # noqa: PLW1509
    )
    wait_for((tmp_path / "loading").exists, process)
    process.send_signal(signal.Signals[name])
    goes_on = "; finished blocks are kept, to go on: python -m dpbench sweep=quick"
    assert process.communicate(timeout=10)[1] == f"\ndpbench: interrupted{goes_on}\n"
    assert process.returncode == CODES[name]


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {one: signal.getsignal(one) for one in signals.SIGNALS}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


def test_in_order_from_the_first_block_on(handlers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that ignored signals stay ignored, and that a second signal does not wait."""
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, io.TextIOWrapper(io.BytesIO()))
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(os, "write", lambda *_: 0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signals.prepare()
    assert not gc.isenabled()
    signals.install_interrupt_handlers()
    assert gc.isenabled()
    signal.raise_signal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt) as raised:
        signal.raise_signal(signal.SIGTERM)
    assert signals.exit_code_of(raised.value) == 143
    assert signals.exit_code_of(KeyboardInterrupt()) == 130
    for name in ("SIGTERM", "SIGINT"):  # `timeout` sends a signal twice
        signal.raise_signal(signal.Signals[name])
    assert not ended
    monkeypatch.setattr("time.monotonic", lambda: math.inf)
    signal.raise_signal(signal.SIGTERM)
    assert ended == [143]


def test_workers_start_with_blocked_signals() -> None:
    """A worker that a signal ends would make the executor print its own warnings."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with hold_signals():
        resource_tracker.getfd()  # as each start of a worker does
        loky_tracker.getfd()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) >= set(signals.SIGNALS)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


CLOSED = [closed for size in (1, 2, 3) for closed in itertools.combinations(range(3), size)]


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_no_file_takes_the_place_of_a_closed_stream(
    tmp_path: Path, closed: tuple[int, ...]
) -> None:
    """Of a command that the shell starts with ``<&-``, ``>&-`` or ``2>&-``."""
    script = (
        "import os, sys; from dpbench import signals; signals.prepare();"
        "print('out'); print('err', file=sys.stderr);"
        "opened = os.open('new', os.O_CREAT | os.O_WRONLY);"
        "same = [os.path.samestat(os.fstat(i), os.stat(os.devnull)) for i in range(3)];"
        "os.write(opened, repr((opened > 2, same, *map(os.get_inheritable, range(3)))).encode())"
    )
    streams = [f"{i}{'<' if i == 0 else '>'}&-" for i in closed]
    open_streams = [f"{i}>{name}" for i, name in ((1, "out"), (2, "err")) if i not in closed]
    command = " ".join([shlex.join([sys.executable, "-c", script]), *streams, *open_streams])
    with (tmp_path / "in").open("w") as file:
        subprocess.run(
            command, shell=True, check=True, cwd=tmp_path, stdin=file,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    same = [i in closed for i in range(3)]
    assert (tmp_path / "new").read_text() == repr((True, same, True, True, True))
    for i, name in ((1, "out"), (2, "err")):
        assert i in closed or (tmp_path / name).read_text() == f"{name}\n"


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 1>&- 2>&-"])
def test_workers_start_without_open_streams(tmp_path: Path, closed: str) -> None:
    """In a script of the user, too, which does not prepare its streams."""
    script = tmp_path / "script.py"
    script.write_text(
        "from operator import neg; from pathlib import Path\n"
        "from dpbench.runner.execute import Runner, compute\n"
        "found = dict(compute(neg, range(9), Runner(), 2))\n"
        "Path('found').write_text(str(sorted(found.items())))\n"
    )
    done = subprocess.run(
        f"{shlex.quote(sys.executable)} script.py {closed}", shell=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / "found").read_text() == str([(i, -i) for i in range(9)])


def test_a_signal_while_workers_start_is_not_lost(handlers: None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def started() -> None:
        with hold_signals():
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        started()
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(signals.SIGNALS)


def test_what_cannot_be_written_is_lost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    full = os.open("/dev/full", os.O_WRONLY)
    for at, why in ((full, "No space left on device"), (write, "Broken pipe")):
        with os.fdopen(at, "w") as stream:
            found = signals._Lossy(stream)
            for _ in range(3):
                print("x" * 100_000, file=found, flush=True)
            assert found.lost == why
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print("n ~ α", file=signals._Lossy(ascii_only), flush=True)  # noqa: RUF001
    assert ascii_only.buffer.getvalue() == b"n ~ ?\n"


def test_files_first_and_printing_last(bench: Bench) -> None:
    """Run with a full disk as standard output, an ASCII locale, and a message at the start."""
    bench.write(lambda spec: spec["claims"]["alpha"].update(reason="α"))  # noqa: RUF001
    bench.done("trials=100")
    (bench.folder / "out" / "manifest.json").unlink()
    bench.blocks()[0].write_bytes(b"damaged")
    ascii_only = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "dpbench", *bench.argv("trials=100", "track=update")]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*command, "baseline=stored"],
            cwd=bench.folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **ascii_only},
            check=False,
        )
    told = "dpbench: standard output: No space left on device; nothing else is lost"
    # A slow machine prints lines of progress.
    lines = [line for line in done.stderr.splitlines() if not line.startswith("blocks: ")]
    assert (done.returncode, lines) == (1, [told])
    done_again, reused = bench.counts()
    assert (done_again > 0, done_again + reused) == (True, 5)
    assert (bench.folder / "stored").exists()
    assert "α" in bench.read("report.html")  # noqa: RUF001
