"""Text on a terminal: tables, coloured verdicts, progress bars, and commands to type."""

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
    "counted", "fit_columns", "progress", "say", "shortened", "table", "whole",
]  # fmt: skip


WIDTH = 80  # characters per line of a table, on every terminal
# Columns of words, aligned to the left; numbers are aligned to the right. If a table is too wide,
# words lose their middle, down to LEAST characters.
WORDS = (
    "estimator", "distribution", "privacy", "estimator, distribution, privacy", "notion", "pair",
    "query", "mechanism", "row", "known", "bound by", "problem", "verdict",
)  # fmt: skip
LEAST = 6
SECONDS_BETWEEN_LINES = 10.0


def say(text: str) -> None:
    """Print text at once, with coloured verdicts on a terminal unless NO_COLOR is set."""
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
    """Return a regular expression for the verdicts of a tone at the end of a table's line.

    For `BAD` it also matches counts ("3 refuted") and lines that begin with "failed:".
    """
    known = [one for subject in PRINTED for one in subject.values()]
    words = "|".join({one.text: None for one in known if one.tone.terminal == tone.terminal})
    ends = rf"(?m)(?<=  )({words})$"
    return rf"{ends}|^failed:|\b[1-9]\d* ({words})\b" if tone is BAD else ends


def table(title: str, rows: Sequence[Mapping[str, str] | str]) -> str:
    """Format rows as aligned columns below a title.

    Parameters
    ----------
    title : str
        First line.
    rows : sequence of mapping or str
        Cells by column, with equal keys in every row; columns that are empty in all rows are
        dropped. A row that is text is printed as a line.

    Returns
    -------
    str
        Lines of at most `WIDTH` characters, if shortened words suffice for that.
    """
    cells = [row for row in rows if not isinstance(row, str)]
    shown = [name for name in cells[0] if any(row[name] for row in cells)]
    widths = {name: max(len(name), *(len(row[name]) for row in cells)) for name in shown}
    words = [name for name in WORDS[:-2] if name in widths]  # problems, verdicts are whole
    others = sum(width + 2 for name, width in widths.items() if name not in words)
    room = WIDTH + 2 - others - 2 * len(words)
    widths |= dict(zip(words, fit_columns([widths[name] for name in words], room), strict=True))

    def line(row: Mapping[str, str]) -> str:
        short = ((name in WORDS, shortened(row[name], w), w) for name, w in widths.items())
        return "  ".join(t.ljust(w) if left else t.rjust(w) for left, t, w in short).rstrip()

    shorter = [shortened(row, WIDTH) if isinstance(row, str) else line(row) for row in rows]
    return "\n".join([title, line({name: name for name in widths}), *shorter])


def fit_columns(widths: Sequence[int], room: int) -> list[int]:
    """Return column widths that fit together, by shrinking the widest column first.

    Parameters
    ----------
    widths : sequence of int
        Widths that the columns want, in characters.
    room : int
        Sum of the widths that fits.

    Returns
    -------
    list of int
        Widths; columns wider than `LEAST` shrink to no less.
    """
    found = list(widths)
    while sum(found) > room and max(found, default=0) > LEAST:
        found[found.index(max(found))] -= 1
    return found


def shortened(text: str, width: int) -> str:
    """Shorten a text by replacing its middle by an ellipsis.

    Parameters
    ----------
    text : str
        Text of any length.
    width : int
        Largest number of characters.

    Returns
    -------
    str
        Text of at most `width` characters.
    """
    kept = width - 1
    return text if len(text) <= width else f"{text[: kept - kept // 2]}…{text[-(kept // 2) :]}"


def counted(table: Any, verdicts: Iterable[str]) -> str:
    """Count the rows of a data frame that have each verdict.

    Parameters
    ----------
    table : DataFrame
        Table with the column ``verdict``.
    verdicts : iterable of str
        Verdicts in the order to print.

    Returns
    -------
    str
        Text such as "3 worse, 0 better".
    """
    counts = table["verdict"].value_counts()
    return ", ".join(f"{counts.get(name, 0)} {name}" for name in verdicts)


def whole(number: float) -> str:
    """Format a count of records in full below 1e8, else with four digits and an exponent."""
    return f"{number:,.0f}" if abs(number) < 1e8 else f"{number:.4g}"


@contextlib.contextmanager
def progress(
    what: str, total: int, done_so: str, *, transient: bool = False
) -> Iterator[Callable[[], None]]:
    """Show progress: a bar on a terminal or in a notebook, elsewhere one line every 10 s.

    Parameters
    ----------
    what : str
        Plural noun for the units of work, such as "blocks".
    total : int
        Number of units.
    done_so : str
        Words printed after the count of finished units, such as "done, 3 reused".
    transient : bool
        Remove the bar at the end. False by default.

    Yields
    ------
    callable
        Function without arguments, to call when a unit is finished.
    """
    from rich.console import Console  # slow to load
    from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    out = Console(stderr=True)
    # In a notebook rich needs ipywidgets to draw.
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
    """Return the shell command that runs dpbench with these words.

    ``dev.sh`` sets its own command in the environment variable ``DPBENCH_COMMAND``.
    """
    return f"{os.environ.get('DPBENCH_COMMAND', 'python -m dpbench')} {shlex.join(words)}".strip()


def replay_line(words: Sequence[str], name: str) -> str:
    """Return the shell command that runs a failure again and shows its traceback.

    Parameters
    ----------
    words : sequence of str
        Words of the command line of the run that failed.
    name : str
        Name of the failure.

    Returns
    -------
    str
    """
    kept = [word for word in words if not word.startswith(("track=", "replay="))]
    return command_line([*kept, f"replay={name}"])
