"""Output on a terminal: tables, coloured verdicts, progress bars, and commands to type."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, TypeVar

from dpbench.app import applications
from dpbench.output.verdicts import AHEAD, BAD, GOOD, PRINTED, UNSURE, Tone
from dpbench.package import command_in_use

__all__ = [
    "TO_DECIDE", "WIDE", "WIDTH", "count_verdicts", "fill", "fit_columns", "format_count",
    "line_width", "progress", "say", "screen_width", "shorten", "spread", "table",
]  # fmt: skip


T = TypeVar("T")
TO_DECIDE = "to decide"  # what the next command of an undecided run is for
# Characters per line of a table: in files, pipes and narrow terminals; on terminals that have them.
WIDTH, WIDE = 80, 120
_width: ContextVar[int] = ContextVar("_width", default=WIDTH)
# Columns of words are aligned to the left, all others to the right. If a table is too wide, words
# lose their middle, down to MIN_WORD_WIDTH characters.
WORD_COLUMNS = (
    "estimator", "distribution", "privacy", "notion", "pair", "query", "mechanism", "row", "known",
    "bound by", "claim", "class", "problem", "verdict",
)  # fmt: skip
MIN_WORD_WIDTH = 6
SECONDS_BETWEEN_LINES = 10.0


@contextlib.contextmanager
def line_width(width: int) -> Iterator[None]:
    """Give the tables that are made inside this context lines of up to `width` characters."""
    token = _width.set(width)
    try:
        yield
    finally:
        _width.reset(token)


def screen_width() -> int:
    """Return the width of lines to print: 120 (`WIDE`) on a terminal that wide, else 80."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    return WIDE if columns >= WIDE else WIDTH


def spread(values: Sequence[T], cell: int, taken: int) -> list[T]:
    """Return as many values as have a column in a line, evenly spaced in rank; at least two.

    A column has `cell` characters, or the 8 of 1.23e-05 if these are more. Beside the columns are
    `taken` characters.
    """
    most = max(2, (_width.get() - taken) // (max(cell, 8) + 2))
    last, count = len(values) - 1, min(most, len(values))
    return [values[round(place * last / max(count - 1, 1))] for place in range(count)]


def say(text: str) -> None:
    """Print text at once, without buffering.

    On a terminal verdicts are coloured, unless the environment variable NO_COLOR is set.
    """
    if not (sys.stdout.isatty() or os.environ.get("FORCE_COLOR")):
        print(text, flush=True)
        return
    from rich.console import Console
    from rich.text import Text

    shown = Text(text)
    for tone in (GOOD, UNSURE, AHEAD, BAD):
        shown.highlight_regex(_verdict_pattern(tone), tone.terminal)
    Console().print(shown, soft_wrap=True)


def _verdict_pattern(tone: Tone) -> str:
    """Return a regular expression that matches the verdicts to print in the colour of a tone.

    The expression matches verdicts at the ends of lines. For the tone `BAD` it also matches counts
    such as "3 refuted", and "failed:" at the start of a line.
    """
    added = (subject for app in applications() for subject in app.verdicts())
    verdicts = [verdict for subject in (*PRINTED, *added) for verdict in subject.values()]
    words = "|".join(
        {verdict.text: None for verdict in verdicts if verdict.tone.terminal == tone.terminal}
    )
    ends = rf"(?m)(?<=  )({words})$"
    return rf"{ends}|^failed:|\b[1-9]\d* ({words})\b" if tone is BAD else ends


def table(title: str, rows: Sequence[Mapping[str, str] | str]) -> str:
    """Return a text that shows rows as aligned columns below a title.

    A row is a mapping from column to text, with equal keys in all rows, or a text that becomes a
    line. Columns that are empty in all rows are dropped. Lines have at most 80 characters, or those
    of `line_width`, if the numbers fit. No text is cut: a word that does not fit into its column
    stands in a line of its own above the row, after the name of its column if it is not the first.
    """
    cells = [row for row in rows if not isinstance(row, str)]
    shown = [name for name in cells[0] if any(row[name] for row in cells)]
    widths = {name: max(len(name), *(len(row[name]) for row in cells)) for name in shown}
    words = [name for name in WORD_COLUMNS[:-2] if name in widths]  # problems, verdicts are whole
    others = sum(width + 2 for name, width in widths.items() if name not in words)
    room = _width.get() + 2 - others - 2 * len(words)
    widths |= dict(zip(words, fit_columns([widths[name] for name in words], room), strict=True))

    def line(row: Mapping[str, str]) -> str:
        long = [name for name in words if len(row[name]) > widths[name]]
        labels = {name: "" if name == shown[0] else f"{name}: " for name in long}
        above = "".join(f"{fill(label + row[name])}\n" for name, label in labels.items())
        row = {**row, **dict.fromkeys(long, "")}
        texts = ((name in WORD_COLUMNS, row[name], w) for name, w in widths.items())
        numbers = "  ".join(t.ljust(w) if left else t.rjust(w) for left, t, w in texts)
        return above + numbers.rstrip()

    lines = [fill(row) if isinstance(row, str) else line(row) for row in rows]
    head = {name: name if len(name) <= width else "" for name, width in widths.items()}
    return "\n".join([title, line(head), *lines])


def fill(text: str, indent: str = "  ") -> str:
    """Break a text into lines of at most 80 characters, or `line_width`, where it has spaces.

    The lines after the first begin with `indent`.
    """
    return textwrap.fill(
        text,
        _width.get(),
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def fit_columns(widths: Sequence[int], room: int) -> list[int]:
    """Return column widths that fit into `room`, by shrinking the widest column repeatedly.

    Widths and their largest sum `room` are in characters. No column is shrunk below 6
    (`MIN_WORD_WIDTH`), even if the sum is too large.
    """
    fitted = list(widths)
    while sum(fitted) > room and max(fitted, default=0) > MIN_WORD_WIDTH:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def shorten(text: str) -> str:
    """Shorten a text to one line, with an ellipsis in place of its middle."""
    width = _width.get()
    last = (width - 1) // 2
    return text if len(text) <= width else f"{text[: width - 1 - last]}…{text[-last:]}"


def count_verdicts(table: Any, verdicts: Iterable[str]) -> str:
    """Return counts of the column ``verdict`` in the order of `verdicts`: "3 worse, 0 better"."""
    counts = table["verdict"].value_counts()
    return ", ".join(f"{counts.get(name, 0)} {name}" for name in verdicts)


def format_count(number: float) -> str:
    """Return a number of records as text, in full below 1e8, else with four significant digits."""
    return f"{number:,.0f}" if abs(number) < 1e8 else f"{number:.4g}"


@contextlib.contextmanager
def progress(
    unit: str, total: int, done_so: str, *, transient: bool = False
) -> Iterator[Callable[[], None]]:
    """Show the progress of work inside this context: a bar, or one line every 10 s.

    The bar is drawn on a terminal or in a notebook, and lines are printed elsewhere. A transient
    bar is removed at the end. The unit is a plural noun, such as "blocks". The words `done_so`
    follow the count of finished units, such as "done, 3 reused". Call the yielded function after
    each finished unit.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    out = Console(stderr=True)
    # In a notebook rich needs ipywidgets to draw a bar.
    has_bar = out.is_terminal or (out.is_jupyter and find_spec("ipywidgets") is not None)
    count_text = f"{{task.completed}}/{{task.total}} {done_so},"
    times = (TimeElapsedColumn(), "elapsed,", TimeRemainingColumn(), "left")
    done, started = 0, time.monotonic()
    last = started
    with Progress(
        unit, BarColumn(), count_text, *times, console=out, disable=not (has_bar and total),
        transient=transient,
    ) as bar:  # fmt: skip
        task = bar.add_task(unit, total=total)

        def advance() -> None:
            nonlocal done, last
            done += 1
            if has_bar:
                bar.advance(task)
                return
            now = time.monotonic()
            if now - last < SECONDS_BETWEEN_LINES:
                return
            last, elapsed = now, now - started
            left = elapsed / done * (total - done)
            out.print(
                f"{unit}: {done}/{total} {done_so}, {elapsed:.0f} s elapsed, "
                f"about {left:.0f} s left",
                highlight=False,
            )

        yield advance


def command_line(words: Sequence[str]) -> str:
    """Return the shell command that runs dpbench with these words of the command line.

    It begins with the command in use; see `dpbench.package.command_in_use`.
    """
    return f"{command_in_use()} {shlex.join(words)}".strip()


def rerun_line(words: Sequence[str], name: str) -> str:
    """Return the shell command that runs a failed estimator again and shows the traceback.

    `words` is the command line of the failed run, and `name` the value of the key ``rerun``.
    """
    kept_words = [word for word in words if not word.startswith(("track=", "rerun="))]
    return command_line([*kept_words, f"rerun={name}"])
