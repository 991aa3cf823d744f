"""How the command ends: at a signal, and where nobody can read what it prints.

Loaded before anything else, so it needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["INTERRUPTED", "SIGNALS", "in_order", "last_word", "prepare"]

INTERRUPTED = 130
# Of Ctrl-C, of `kill` and schedulers, of a terminal that is closed.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Lossy:
    """A stream that loses what cannot be written, for `lost` reason, rather than the run."""

    lost = ""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        stream.reconfigure(errors="replace")  # a terminal that has no Greek

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._trying():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._trying():
            self._stream.flush()

    @contextlib.contextmanager
    def _trying(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.lost = error.strerror or str(error)
            with open(os.devnull, "w") as nowhere:  # noqa: PTH123, what is left goes there
                os.dup2(nowhere.fileno(), self._stream.fileno())


def prepare() -> None:
    """Make standard streams that cannot fail, and end at once at a signal while libraries load.

    They would print a traceback, or take an interrupt for an import that failed. Looking for
    garbage among what is loaded, which stays, would take a quarter of a short command's time.
    """
    gc.disable()
    for name in ("stdout", "stderr"):  # None if the caller has closed it
        stream = getattr(sys, name) or open(os.devnull, "w")  # noqa: PTH123, SIM115
        setattr(sys, name, _Lossy(stream))
    for one in SIGNALS:
        if signal.getsignal(one) != signal.SIG_IGN:  # as nohup has it
            signal.signal(one, quit_at_once)


def quit_at_once(*_: object) -> None:
    """End the process: nothing is begun yet, or all is done, or nobody wants to wait."""
    with contextlib.suppress(OSError):
        os.write(2, b"\ndpbench: interrupted\n")
    os._exit(INTERRUPTED)


def in_order() -> None:
    """From here on the first signal raises KeyboardInterrupt, if `prepare` was called."""
    gc.freeze()  # what is loaded and planned stays
    gc.enable()
    _replace(quit_at_once, _interrupt)


def _interrupt(*_: object) -> None:
    _replace(_interrupt, quit_at_once)  # what is finished is whole whenever this process ends
    raise KeyboardInterrupt


def _replace(old: Callable[..., None], new: Callable[..., None]) -> None:
    for one in SIGNALS:
        if signal.getsignal(one) is old:
            signal.signal(one, new)


def last_word(code: int) -> int:
    """The exit code; 1 for 0 if nobody could read what was printed."""
    _replace(_interrupt, quit_at_once)
    gc.freeze()
    sys.stdout.flush()
    lost = getattr(sys.stdout, "lost", "")
    if lost:
        print(f"dpbench: standard output: {lost}; nothing else is lost", file=sys.stderr)
    return code or int(bool(lost))
