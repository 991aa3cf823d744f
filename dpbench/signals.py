"""Handle signals and broken output streams of the command line.

This file is loaded before all others, so it imports the standard library only.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "SIGNALS", "exit_code_of", "final_exit_code", "install_interrupt_handlers",
    "open_closed_streams", "prepare",
]  # fmt: skip

# Sent by Ctrl-C, by `kill` and schedulers, and by a terminal that is closed.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# `timeout`, schedulers and terminals send a signal to the process and to its group, so twice.
REPEAT_SECONDS = 1.0
advice = ""  # printed after "interrupted"; the command line sets how to go on


class _Lossy:
    """Output stream that drops text which it cannot write, instead of failing.

    The attribute `lost` holds the reason of the last failure; it is empty if no text was dropped.
    """

    lost = ""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        stream.reconfigure(errors="replace")  # for terminals without Greek letters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._drop_on_error():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._drop_on_error():
            self._stream.flush()

    @contextlib.contextmanager
    def _drop_on_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.lost = error.strerror or str(error)
            with open(os.devnull, "w") as nowhere:  # noqa: PTH123, for text still buffered
                os.dup2(nowhere.fileno(), self._stream.fileno())


def open_closed_streams() -> None:
    """Open /dev/null for each of the descriptors 0, 1 and 2 that the caller has closed.

    Otherwise the next file that is opened would receive this number, and with it the output of this
    process and of its workers. Starting workers fails without descriptor 2.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # the lowest free number is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name in ("stdout", "stderr"):  # None if the caller has closed the stream
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115


def prepare() -> None:
    """Replace the standard streams by streams that cannot fail, and let signals end the process.

    Without these handlers, an interrupted import may print a traceback or report the interrupt as a
    failed import. Garbage collection is off while libraries load, because they stay in memory. The
    collector would take a quarter of the time of a short command.
    """
    gc.disable()
    open_closed_streams()
    for name in ("stdout", "stderr"):
        setattr(sys, name, _Lossy(getattr(sys, name)))
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, quit_at_once)


def quit_at_once(number: int, _: object = None) -> None:
    """End the process immediately, with the exit code 128 + `number` of the signal.

    This is the signal handler before a run, after a run, and for a later signal during a run.
    """
    with contextlib.suppress(OSError):
        os.write(2, f"\ndpbench: interrupted{advice}\n".encode(errors="replace"))
    os._exit(128 + number)


def install_interrupt_handlers() -> None:
    """Make the next signal raise KeyboardInterrupt, if `prepare` was called before."""
    gc.freeze()  # loaded libraries and the plan stay in memory
    gc.enable()
    _replace(quit_at_once, _interrupt)


def _interrupt(number: int, _: object) -> None:
    """Raise KeyboardInterrupt with the signal's number.

    A signal after `REPEAT_SECONDS` ends the process immediately. An earlier one is a repetition.
    """
    end = time.monotonic() + REPEAT_SECONDS

    def again(number: int, _: object) -> None:
        if time.monotonic() >= end:
            quit_at_once(number)  # safe, because every finished file is written whole

    _replace(_interrupt, again)
    raise KeyboardInterrupt(number)


def exit_code_of(error: KeyboardInterrupt) -> int:
    """Return the exit code of a process that `error` ends: 128 + the number of the signal."""
    return 128 + (error.args[0] if error.args else signal.SIGINT)


def _replace(old: Callable[..., None], new: Callable[..., None]) -> None:
    """Install the handler `new` for every signal that has the handler `old`."""
    for number in SIGNALS:
        if signal.getsignal(number) is old:
            signal.signal(number, new)


def final_exit_code(code: int) -> int:
    """Return the exit code of the process: `code`, or 1 if `code` is 0 and output was lost."""
    _replace(_interrupt, quit_at_once)
    gc.freeze()
    sys.stdout.flush()
    lost = getattr(sys.stdout, "lost", "")
    if lost:
        print(f"dpbench: standard output: {lost}; nothing else is lost", file=sys.stderr)
    return code or int(bool(lost))
