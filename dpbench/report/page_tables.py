"""Format tables for the page of a run: short numbers, words and small drawings."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from dpbench.analysis.claims import region
from dpbench.output.style import spaced
from dpbench.privacy import AMOUNTS
from dpbench.privacy.symbols import budget_text

__all__ = [
    "HEIGHT", "WIDTH", "Mark", "Row", "Table", "as_number", "bound_mark",
    "claim_mark", "digits", "distinct", "ends", "group_mark", "how_many", "listed",
    "make_table", "row_budget", "short", "without_release",
]  # fmt: skip

Row = Mapping[str, str]
# See `make_table`.
Table = dict[str, Any]

# Columns of labels, which stay text even if all of them look like numbers.
TEXT = {
    "request", "distribution", "family", "estimator", "privacy", "notion", "pair", "comparison",
    "method", "verdict", "theorem_verdict", "checks", "bound_name", "refuted_by_replay",
}  # fmt: skip
WIDTH, HEIGHT = 150, 20  # size of a drawing, in CSS pixels
MARGIN = 10  # space for an arrow at each end of the axis
# Half of the axis, in tolerances: the region of a claim takes at least a twelfth, at most a half.
LEAST_SPAN, MOST_SPAN = 2.0, 12.0

# A drawing on a horizontal axis, in units of its view box: the ends of a `band` and of a `line`,
# a `tick` (None if absent) and `dots`. `left` and `right` say whether something lies beyond these
# ends of the axis. `words` describe the drawing.
Mark = dict[str, Any]
Ends = tuple[float, float]


def as_number(text: str | None) -> float:
    """Return a cell as a number; NaN if it is no number."""
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def digits(value: float, *, trailing: bool = True) -> str:
    """Format a number with four significant digits; blank for NaN.

    Parameters
    ----------
    value : float
    trailing : bool, default True
        Whether to keep trailing zeros.

    Returns
    -------
    str
    """
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:#.4g}" if trailing else f"{value:.4g}"


def make_table(
    rows: Sequence[Row],
    most: int,
    caption: str,
    columns: Collection[str] = (),
    tones: Mapping[str, str] | None = None,
    *,
    name: str = "",
    urgent: bool = False,
) -> Table | None:
    """Format a table for the page.

    Empty columns are left out, and so is ``seconds``, which differs from run to run.

    Parameters
    ----------
    rows : sequence of mapping
        Cells by column.
    most : int
        Largest number of rows to show.
    caption : str
        Caption of the table.
    columns : collection of str, optional
        Columns to show, by default all.
    tones : mapping of str to str, optional
        Tone of each word, for columns that contain only these words.
    name : str
        Name of the file, without ``.csv``.
    urgent : bool, default False
        Whether the page shows the table unfolded.

    Returns
    -------
    Table or None
        Variables of the macro ``table`` in ``page.html``; None without rows.
    """
    if not rows:
        return None
    wanted = [name for name in rows[0] if name in (columns or rows[0]) and name != "seconds"]
    known = {name: [row[name] for row in rows] for name in wanted}
    known = {name: cells for name, cells in known.items() if any(cells)}
    text = {name: name in TEXT or not _numbers(cells) for name, cells in known.items()}
    printed = (
        cells[:most] if text[name] else [short(as_number(cell)) for cell in cells[:most]]
        for name, cells in known.items()
    )
    said = {"", *(tones or {})}
    return {
        "name": name,
        "urgent": urgent,
        "caption": caption,
        "size": len(rows),
        "columns": [(name, text[name], said.issuperset(cells)) for name, cells in known.items()],
        "rows": list(zip(*printed, strict=True)),
        "tones": tones or {},
    }


def _numbers(cells: Sequence[str]) -> bool:
    """Return whether all cells are empty or numbers other than NaN."""
    try:
        return not any(math.isnan(float(cell)) for cell in cells if cell)
    except ValueError:
        return False


def short(value: float, places: int = 4) -> str:
    """Format a number in few digits, and whole numbers below a million in full; blank for NaN.

    Parameters
    ----------
    value : float
    places : int, default 4
        Number of significant digits.

    Returns
    -------
    str
    """
    if math.isnan(value) or math.isinf(value):
        return digits(value)
    if value.is_integer() and abs(value) < 1e6:
        return f"{value:.0f}"
    text = f"{value:.{places}g}"
    return re.sub(r"e(-?)\+?0*", r"e\1", text) if "e" in text else text


def how_many(count: int, noun: str) -> str:
    """Format a count with its noun.

    Parameters
    ----------
    count : int
    noun : str
        The noun in the singular; its plural ends in s.

    Returns
    -------
    str
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def distinct(rows: Sequence[Row], column: str) -> str:
    """Count the different cells of a column, and format the count with the column as noun.

    Parameters
    ----------
    rows : sequence of mapping
        Cells by column.
    column : str
        Name of the column, a noun in the singular.

    Returns
    -------
    str
    """
    return how_many(len({row[column] for row in rows}), column)


def ends(rows: Sequence[Row], column: str, places: int = 4, between: str = " to ") -> str:
    """Format the least and the largest number of a column.

    Parameters
    ----------
    rows : sequence of mapping
        Cells by column.
    column : str
        Name of the column.
    places : int, default 4
        Number of significant digits.
    between : str, default ' to '
        Text between both numbers; equal numbers are written once.

    Returns
    -------
    str
    """
    numbers = [as_number(row[column]) for row in rows]
    found = (short(end, places) for end in (min(numbers), max(numbers)))
    return between.join(dict.fromkeys(found))


def listed(words: Iterable[str]) -> str:
    """Join the distinct words with commas and a final ``and``."""
    *first, last = dict.fromkeys(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def without_release(rows: Sequence[Row]) -> list[str]:
    """Return a phrase that counts the settings with failed trials; an empty list if none has."""
    silent = sum(as_number(row.get("failures")) > 0 for row in rows)
    return [f"trials without a release in {silent} of {how_many(len(rows), 'setting')}"] * (
        silent > 0
    )


def row_budget(row: Row) -> str:
    """Format the budget of a row: its label and its amounts."""
    amounts = {name: as_number(row.get(name)) for name in AMOUNTS}
    return budget_text(amounts, "unicode", label=spaced(row.get("privacy", "")), number=short)


def _mark(words: str, axis: Ends, band: Ends, line: Ends, tick: float, *dots: float) -> Mark:
    """Return a drawing: NaN is left out, and values beyond the axis become arrows."""
    low, high = axis

    def at(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)

    shown = [x for x in (*line, *dots) if not math.isnan(x)]
    return {
        "words": words,
        "band": (at(band[0]), at(band[1])),
        "line": None if any(map(math.isnan, line)) else (at(line[0]), at(line[1])),
        "tick": at(tick) if low <= tick <= high else None,
        "dots": sorted(at(dot) for dot in dots if low <= dot <= high),
        "left": any(x < low for x in shown),
        "right": any(x > high for x in shown),
    }


def claim_mark(
    predicted: float, tolerance: float, measured: float, line: Ends, floor: float | None = None
) -> Mark | None:
    """Draw a claim: its prediction in the middle, the region, the interval and the measurement.

    Parameters
    ----------
    predicted, tolerance : float
        Predicted number at the claim's n, and its tolerance.
    measured : float
        The measured number.
    line : tuple of float
        Ends of its 95% interval.
    floor : float, optional
        See `dpbench.analysis.claims.region`.

    Returns
    -------
    Mark or None
        None without a finite prediction and tolerance.
    """
    if not (math.isfinite(predicted) and math.isfinite(tolerance) and tolerance > 0):
        return None
    off = [abs(x - predicted) for x in (measured, *line) if math.isfinite(x)]
    span = min(max(1.15 * max(off, default=0.0), LEAST_SPAN * tolerance), MOST_SPAN * tolerance)
    axis = (predicted - span, predicted + span)
    if not axis[0] < axis[1]:  # the tolerance is lost in the digits of the prediction
        return None
    words = (
        f"measured {_said(measured)}, 95% interval {_said(line[0])} to {_said(line[1])}, predicted "
        f"{'' if floor is None else 'at most '}{_said(predicted)} plus or minus {tolerance:g}"
    )
    return _mark(words, axis, region(predicted, tolerance, floor), line, predicted, measured)


def group_mark(places: Sequence[float]) -> Mark | None:
    """Draw a group of claims: a dot for each, at its place in its region from -1 to 1."""
    known = [x for x in places if not math.isnan(x)]
    within = sum(abs(x) <= 1 for x in known)
    words = f"{within} of {len(known)} measurements within what was predicted, with tolerances"
    none = (math.nan, math.nan)
    return _mark(words, (-2.0, 2.0), (-1.0, 1.0), none, math.nan, *known) if known else None


def bound_mark(claimed: float, bound: float) -> Mark | None:
    """Draw an audited claim: the claimed loss as a band and the lower bound as a bar, both from 0.

    Parameters
    ----------
    claimed : float
        Claimed privacy loss.
    bound : float
        Lower bound on the privacy loss by the audit.

    Returns
    -------
    Mark or None
        None if no loss is claimed.
    """
    if math.isnan(claimed) or claimed < 0:
        return None
    known = [x for x in (claimed, bound) if math.isfinite(x)]
    axis = (0.0, 1.25 * max(known, default=0.0) or 1.0)
    words = f"lower bound {_said(bound)}, claimed {_said(claimed)}"
    return _mark(words, axis, (0.0, claimed), (0.0, bound), claimed, bound)


def _said(value: float) -> str:
    if math.isinf(value):
        return "infinity" if value > 0 else "minus infinity"
    return digits(value, trailing=False) or "unknown"
