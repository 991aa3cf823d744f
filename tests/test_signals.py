"""Signals, and broken output streams: one line, and no written file is lost."""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpbench
from dpbench import signals
from dpbench.runner.local import _hold_signals
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


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
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
    assert process.communicate(timeout=10)[1] == "\ndpbench: interrupted\n"
    assert process.returncode == 130


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
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert not ended
    signal.raise_signal(signal.SIGTERM)
    assert ended == [130]


def test_a_signal_while_workers_start_is_not_lost(handlers: None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def started() -> None:
        with _hold_signals():
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
    told = "dpbench: standard output: No space left on device; nothing else is lost\n"
    assert (done.returncode, done.stderr) == (1, told)
    done_again, reused = bench.counts()
    assert (done_again > 0, done_again + reused) == (True, 5)
    assert (bench.folder / "stored").exists()
    assert "α" in bench.read("report.html")  # noqa: RUF001
