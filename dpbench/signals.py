"""Handle signals and broken output streams of the command line.

This file is loaded before all others, so it imports the standard library only.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["INTERRUPTED", "SIGNALS", "final_exit_code", "install_interrupt_handlers", "prepare"]

INTERRUPTED = 130  # exit code of a process that SIGINT ended: 128 + 2
# Sent by Ctrl-C, by `kill` and schedulers, and by a terminal that is closed.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


def prepare() -> None:
    """Replace the standard streams by streams that cannot fail, and let signals end the process.

    Without these handlers, an interrupted import may print a traceback or report the interrupt as a
    failed import. Garbage collection is off while libraries load, because they stay in memory. The
    collector would take a quarter of the time of a short command.
    """
    gc.disable()
    for name in ("stdout", "stderr"):  # None if the caller has closed the stream
        stream = getattr(sys, name) or open(os.devnull, "w")  # noqa: PTH123, SIM115
        setattr(sys, name, _Lossy(stream))
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, quit_at_once)


def quit_at_once(*_: object) -> None:
    """End the process immediately.

    This is the signal handler before a run, after a run, and for a second signal during a run.
    """
    with contextlib.suppress(OSError):
        os.write(2, b"\ndpbench: interrupted\n")
    os._exit(INTERRUPTED)


def install_interrupt_handlers() -> None:
    """Make the next signal raise KeyboardInterrupt, if `prepare` was called before."""
    gc.freeze()  # loaded libraries and the plan stay in memory
    gc.enable()
    _replace(quit_at_once, _interrupt)


def _interrupt(*_: object) -> None:
    """Raise KeyboardInterrupt, and let the next signal end the process immediately."""
    _replace(_interrupt, quit_at_once)  # safe, because every finished file is written whole
    raise KeyboardInterrupt


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
