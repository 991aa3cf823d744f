"""Text on a terminal: tables, verdicts in colour, progress beside it, and commands to type."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from dpbench.output.verdicts import AHEAD, BAD, GOOD, PRINTED, UNSURE, Tone

__all__ = [
    "counted", "narrowed", "progress", "say", "shortened", "table", "whole",
]  # fmt: skip


WIDTH = 80  # of tables, whatever the terminal's
# Columns of words stand at the left, numbers at the right; words that are too long lose their
# middle, as far as to so many characters.
WORDS = (
    "estimator", "distribution", "privacy", "estimator, distribution, privacy", "notion", "pair",
    "query", "mechanism", "row", "known", "bound by", "problem", "verdict",
)  # fmt: skip
LEAST = 6
SECONDS_BETWEEN_LINES = 10.0


def say(text: str) -> None:
    """Print text as it is, at once; on a terminal verdicts have colours, unless NO_COLOR is set."""
    if not (sys.stdout.isatty() or os.environ.get("FORCE_COLOR")):
        print(text, flush=True)
        return
    from rich.console import Console  # slow to load
    from rich.text import Text

    shown = Text(text)
    for tone in (GOOD, UNSURE, AHEAD, BAD):
        shown.highlight_regex(_pattern(tone), tone.terminal)
    Console().print(shown, soft_wrap=True)


def _pattern(tone: Tone) -> str:
    """Match verdicts of a colour: they end a line of a table; bad ones follow their number, too."""
    known = [one for subject in PRINTED for one in subject.values()]
    words = "|".join({one.text: None for one in known if one.tone.terminal == tone.terminal})
    ends = rf"(?m)(?<=  )({words})$"
    return rf"{ends}|^failed:|\b[1-9]\d* ({words})\b" if tone is BAD else ends


def table(title: str, rows: Sequence[Mapping[str, str] | str]) -> str:
    """A title, and in columns rows with the same keys, but those that are empty.

    A row that is text stands as it is.
    """
    cells = [row for row in rows if not isinstance(row, str)]
    shown = [name for name in cells[0] if any(row[name] for row in cells)]
    widths = {name: max(len(name), *(len(row[name]) for row in cells)) for name in shown}
    words = [name for name in WORDS[:-2] if name in widths]  # problems, verdicts are whole
    others = sum(width + 2 for name, width in widths.items() if name not in words)
    room = WIDTH + 2 - others - 2 * len(words)
    widths |= dict(zip(words, narrowed([widths[name] for name in words], room), strict=True))

    def line(row: Mapping[str, str]) -> str:
        short = ((name in WORDS, shortened(row[name], w), w) for name, w in widths.items())
        return "  ".join(t.ljust(w) if left else t.rjust(w) for left, t, w in short).rstrip()

    shorter = [shortened(row, WIDTH) if isinstance(row, str) else line(row) for row in rows]
    return "\n".join([title, line({name: name for name in widths}), *shorter])


def narrowed(widths: Sequence[int], room: int) -> list[int]:
    """Widths of columns, the widest less until together they have room, or are `LEAST`."""
    found = list(widths)
    while sum(found) > room and max(found, default=0) > LEAST:
        found[found.index(max(found))] -= 1
    return found


def shortened(text: str, width: int) -> str:
    """Its beginning and its end, if it is too long."""
    kept = width - 1
    return text if len(text) <= width else f"{text[: kept - kept // 2]}…{text[-(kept // 2) :]}"


def counted(table: Any, verdicts: Iterable[str]) -> str:
    """How many rows of a data frame have each of these verdicts."""
    counts = table["verdict"].value_counts()
    return ", ".join(f"{counts.get(name, 0)} {name}" for name in verdicts)


def whole(number: float) -> str:
    """A count of records, in four digits if it has more than eight."""
    return f"{number:,.0f}" if abs(number) < 1e8 else f"{number:.4g}"


@contextlib.contextmanager
def progress(
    what: str, total: int, done_so: str, *, transient: bool = False
) -> Iterator[Callable[[], None]]:
    """A bar on a terminal or in a notebook, else a line now and then: how many are `done_so`, time.

    Of `total` blocks, or `what` else; yields what is called as one is finished. A `transient` bar
    is removed at the end.
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
        transient=transient,
    ) as bar:  # fmt: skip
        task = bar.add_task(what, total=total)

        def advance() -> None:
            nonlocal done, last
            done += 1
            if drawn:
                bar.advance(task)
                return
            now = time.monotonic()
            if now - last < SECONDS_BETWEEN_LINES:
                return
            last, elapsed = now, now - started
            left = elapsed / done * (total - done)
            out.print(
                f"{what}: {done}/{total} {done_so}, {elapsed:.0f} s elapsed, "
                f"about {left:.0f} s left",
                highlight=False,
            )

        yield advance


def command_line(words: Sequence[str]) -> str:
    """What a user types to run dpbench with these words; ``dev.sh`` has its own way."""
    return f"{os.environ.get('DPBENCH_COMMAND', 'python -m dpbench')} {shlex.join(words)}".strip()


def replay_line(words: Sequence[str], name: str) -> str:
    """What a user types to see the traceback of a failure of the run of these words."""
    kept = [word for word in words if not word.startswith(("track=", "replay="))]
    return command_line([*kept, f"replay={name}"])
