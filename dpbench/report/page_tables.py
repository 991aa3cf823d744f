"""Rows of tables in print for a page: numbers in few digits, tables, words, small drawings."""

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

# Labels, which stay text even if all of them look like numbers.
TEXT = {
    "request", "distribution", "family", "estimator", "privacy", "notion", "pair", "comparison",
    "method", "verdict", "theorem_verdict", "checks", "bound_by", "refuted_by_replay",
}  # fmt: skip
# Of a drawing.
WIDTH, HEIGHT = 150, 20
MARGIN = 10  # on either side, for arrows
# How much of the axis the tolerance takes: at least a twelfth, at most half of it.
LEAST_SPAN, MOST_SPAN = 2.0, 12.0

# What is drawn on one horizontal axis, in units of its view box: the ends of a `band` and a
# `line`, a `tick`, None where there is none, and `dots`; whether something lies beyond the `left`
# and the `right` end of the axis; and the same in `words`.
Mark = dict[str, Any]
Ends = tuple[float, float]


def as_number(text: str | None) -> float:
    """A cell as a number; NaN where it is none."""
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def digits(value: float, *, trailing: bool = True) -> str:
    """Four significant digits; blank for NaN."""
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
    """Put a table in print, at `most` so many of its rows; None without rows.

    It has these `columns`, by default all, but for those that are empty everywhere and `seconds`,
    which differ from run to run. `tones` say how words look, in columns of nothing but these:
    ``good``, ``bad``, ``unsure`` or ``calm``. The `name` is the file's; a page opens a table that
    is `urgent`.
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
    """Whether all are numbers that are known, but for those that are empty."""
    try:
        return not any(math.isnan(float(cell)) for cell in cells if cell)
    except ValueError:
        return False


def short(value: float, places: int = 4) -> str:
    """Four significant digits, whole numbers below a million in full; blank for NaN."""
    if math.isnan(value) or math.isinf(value):
        return digits(value)
    if value.is_integer() and abs(value) < 1e6:
        return f"{value:.0f}"
    text = f"{value:.{places}g}"
    return re.sub(r"e(-?)\+?0*", r"e\1", text) if "e" in text else text


def how_many(count: int, noun: str) -> str:
    """Write how many there are of something."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def distinct(rows: Sequence[Row], column: str) -> str:
    """Count the different cells of a column, which names what they are."""
    return how_many(len({row[column] for row in rows}), column)


def ends(rows: Sequence[Row], column: str, places: int = 4, between: str = " to ") -> str:
    """Write the least and the largest number of a column."""
    numbers = [as_number(row[column]) for row in rows]
    found = (short(end, places) for end in (min(numbers), max(numbers)))
    return between.join(dict.fromkeys(found))


def listed(words: Iterable[str]) -> str:
    """Join words, each once, with commas and an ``and``."""
    *first, last = dict.fromkeys(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def without_release(rows: Sequence[Row]) -> list[str]:
    """Tell how many settings have trials without a release; nothing if none has."""
    silent = sum(as_number(row.get("failures")) > 0 for row in rows)
    return [f"trials without a release in {silent} of {how_many(len(rows), 'setting')}"] * (
        silent > 0
    )


def row_budget(row: Row) -> str:
    """A row's budget: its label and what amounts it has."""
    amounts = {name: as_number(row.get(name)) for name in AMOUNTS}
    return budget_text(amounts, "unicode", label=spaced(row.get("privacy", "")), number=short)


def _mark(words: str, axis: Ends, band: Ends, line: Ends, tick: float, *dots: float) -> Mark:
    """Draw what is known; NaN is left out and what lies beyond the axis is an arrow."""
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
    """Draw a claim: the number at its n in the middle, its region, the interval, the measurement.

    None if there is no finite prediction with a tolerance; for `floor` see `region`.
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
    """Several claims: a dot each at its place in its region, which is from -1 to 1."""
    known = [x for x in places if not math.isnan(x)]
    within = sum(abs(x) <= 1 for x in known)
    words = f"{within} of {len(known)} measurements within what was predicted, with tolerances"
    none = (math.nan, math.nan)
    return _mark(words, (-2.0, 2.0), (-1.0, 1.0), none, math.nan, *known) if known else None


def bound_mark(claimed: float, bound: float) -> Mark | None:
    """An audit: what is claimed, grey from 0 on, and the loss that was shown, a bar from 0 on.

    None if nothing is claimed.
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
