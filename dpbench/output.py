"""Where things are written: text on a terminal, progress beside it, files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Hashable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["WIDTH", "BlockProgress", "amounts", "atomic", "console"]

WIDTH = 170  # of tables, whatever the terminal's
SECONDS_BETWEEN_LINES = 10.0


def console() -> Console:
    """Standard output, which wraps nothing."""
    return Console(highlight=False, soft_wrap=True)


def amounts(row: Mapping[Hashable, Any]) -> list[str]:
    """The numbers of a budget in a few characters."""
    return [
        f"{symbol}={row[name]:g}"
        for name, symbol in (("epsilon", "eps"), ("delta", "delta"), ("rho", "rho"))
        if pd.notna(row.get(name, np.nan))
    ]


class BlockProgress:
    """A bar on a terminal or in a notebook, else a line now and then: blocks done, left, time.

    Parameters
    ----------
    total, reused : int
        Blocks to compute, and blocks found on disk.
    """

    def __init__(self, total: int, reused: int) -> None:
        self._console = Console(stderr=True)
        # in a notebook rich draws with ipywidgets
        widgets = self._console.is_jupyter and find_spec("ipywidgets") is not None
        self._drawn = self._console.is_terminal or widgets
        self._total, self._reused, self._done = total, reused, 0
        self._started = self._last = time.monotonic()
        self._bar = Progress(
            TextColumn("blocks"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(f"done, {reused} reused,"),
            TimeElapsedColumn(),
            TextColumn("elapsed,"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self._console,
            disable=not self._drawn,
        )
        self._task = self._bar.add_task("blocks", total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def advance(self) -> None:
        """One block is finished."""
        self._done += 1
        self._bar.advance(self._task)
        now = time.monotonic()
        if self._drawn or now - self._last < SECONDS_BETWEEN_LINES:
            return
        self._last = now
        elapsed = now - self._started
        left = elapsed / self._done * (self._total - self._done)
        self._console.print(
            f"blocks: {self._done}/{self._total} done, {self._reused} reused, "
            f"{elapsed:.0f} s elapsed, about {left:.0f} s left",
            highlight=False,
        )


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; move it to `path` if all goes well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)  # noqa: PTH105
    finally:
        temporary.unlink(missing_ok=True)
