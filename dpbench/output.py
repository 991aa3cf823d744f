"""Where things are written: text on a terminal, progress beside it, files whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbench.registry import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Stamps", "amounts", "atomic", "check_writable", "print_table", "progress", "say", "stamp",
    "text_console",
]  # fmt: skip

Stamps = dict[Path, list[int]]

PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
WIDTH = 170  # of tables, whatever the terminal's
WORDS = {
    "bound by", "claim", "source", "estimator", "distribution", "privacy", "notion", "pair",
    "verdict",
}  # fmt: skip
SECONDS_BETWEEN_LINES = 10.0


def say(text: str) -> None:
    """Print text as it is, at once."""
    print(text, flush=True)


def text_console() -> tuple[Console, io.StringIO]:
    """A console for tables, and the text that is printed there."""
    from rich.console import Console  # slow to load

    text = io.StringIO()
    # a notebook would show what is printed, whatever the file
    plain: dict[str, Any] = {"color_system": None, "force_jupyter": False, **PLAIN}
    return Console(width=WIDTH, file=text, **plain), text


def print_table(title: str, rows: Sequence[Mapping[str, str]], out: Console) -> None:
    """Print rows with the same keys, which are the columns; all but words stand at the right."""
    from rich.table import Table  # slow to load

    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="left" if name in WORDS else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row.values())
    out.print(table)


def amounts(row: Mapping[Hashable, Any]) -> list[str]:
    """The numbers of a budget in a few characters."""
    from dpbench.privacy import AMOUNTS  # slow to load

    symbols = {"epsilon": "eps"}
    known = [name for name in AMOUNTS if row.get(name) is not None and row[name] == row[name]]
    return [f"{symbols.get(name, name)}={row[name]:g}" for name in known]


@contextlib.contextmanager
def progress(what: str, total: int, done_so: str) -> Iterator[Callable[[], None]]:
    """A bar on a terminal or in a notebook, else a line now and then: how many are `done_so`, time.

    Of `total` blocks, or `what` else; yields what is called as one is finished.
    """
    from rich.console import Console  # slow to load
    from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    out = Console(stderr=True)
    # in a notebook rich draws with ipywidgets
    drawn = out.is_terminal or (out.is_jupyter and find_spec("ipywidgets") is not None)
    counted = f"{{task.completed}}/{{task.total}} {done_so},"
    times = (TimeElapsedColumn(), "elapsed,", TimeRemainingColumn(), "left")
    done, started = 0, time.monotonic()
    last = started
    with Progress(
        what, BarColumn(), counted, *times, console=out, disable=not (drawn and total),
        transient=what == "cells",
    ) as bar:  # fmt: skip
        task = bar.add_task(what, total=total)

        def advance() -> None:
            nonlocal done, last
            done += 1
            bar.advance(task)
            now = time.monotonic()
            if drawn or now - last < SECONDS_BETWEEN_LINES:
                return
            last, elapsed = now, now - started
            left = elapsed / done * (total - done)
            out.print(
                f"{what}: {done}/{total} {done_so}, {elapsed:.0f} s elapsed, "
                f"about {left:.0f} s left",
                highlight=False,
            )

        yield advance


def check_writable(folder: Path, key: str = "out") -> None:
    """Refuse a folder that cannot be written to, before anything is computed."""
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise ConfigError(f"{key}: '{folder}': cannot be written to: {error.strerror}") from error


def stamp(path: Path) -> list[int]:
    """The size of a file, and when it was changed."""
    state = path.stat()
    return [state.st_size, state.st_mtime_ns]


@contextlib.contextmanager
def atomic(path: Path, stamps: Stamps | None = None) -> Iterator[Path]:
    """Give a temporary path to write to; move it to `path` if all goes well.

    `stamps` gets that of what was written, whatever others write to `path` afterwards.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if stamps is not None:
            stamps[path] = stamp(temporary)
        os.replace(temporary, path)  # noqa: PTH105
    finally:
        temporary.unlink(missing_ok=True)
