"""What the page is made of: rows as text, numbers in few digits, tables, small drawings."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

__all__ = [
    "HEIGHT", "WIDTH", "Mark", "Row", "as_number", "bound_mark", "claim_mark", "digits",
    "make_grid",
]  # fmt: skip

Row = Mapping[str, str]

# Labels, which stay text even if all of them look like numbers.
TEXT = {
    "request", "distribution", "family", "estimator", "privacy", "notion", "pair", "comparison",
    "method", "verdict", "bound_by",
}  # fmt: skip
# What the browser keeps of a number; the files have all digits.
DIGITS = 7
# Of a drawing.
WIDTH, HEIGHT = 150, 20
MARGIN = 10  # on either side, for arrows
# How much of the axis the tolerance takes: at least a twelfth, at most half of it.
LEAST_SPAN, MOST_SPAN = 2.0, 12.0

# What is drawn on one horizontal axis, in units of its view box: the ends of a `band` and a
# `line`, a `tick` and a `dot`, None where there is none; whether something lies beyond the `left`
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


def make_grid(
    rows: Sequence[Row],
    caption: str,
    main: Collection[str] = (),
    tones: Mapping[str, str] | None = None,
) -> dict[str, Any] | None:
    """A table for the browser to draw, sort and filter, as JSON can say it; None without rows.

    At first the columns `main` are shown, by default all. Those that are empty everywhere and
    `seconds`, which differ from run to run, are left out. `tones` say how verdicts look: ``good``,
    ``bad``, ``unsure`` or ``calm``.
    """
    if not rows:
        return None
    columns = [
        _column(column, [row[column] for row in rows]) | {"main": not main or column in main}
        for column in rows[0]
        if column != "seconds" and any(row[column] for row in rows)
    ]
    return {"caption": caption, "size": len(rows), "columns": columns, "tones": tones or {}}


def _column(name: str, cells: Sequence[str]) -> dict[str, Any]:
    """A column as numbers, or as places in a list of its labels, which is shorter."""
    numbers = [as_number(cell) for cell in cells]
    parsed = all(not cell or not math.isnan(x) for cell, x in zip(cells, numbers, strict=True))
    if parsed and name not in TEXT:
        return {"name": name, "values": [_shortened(x) for x in numbers]}
    labels = list(dict.fromkeys(cells))
    places = {label: i for i, label in enumerate(labels)}
    return {"name": name, "labels": labels, "places": [places[cell] for cell in cells]}


def _shortened(value: float) -> float | str | None:
    """A number as JSON can say it."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return int(value) if value.is_integer() and abs(value) < 2**53 else float(f"{value:.{DIGITS}g}")


def _mark(words: str, axis: Ends, band: Ends, line: Ends, tick: float, dot: float) -> Mark:
    """Draw what is known; NaN is left out and what lies beyond the axis is an arrow."""
    low, high = axis

    def at(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)

    shown = [x for x in (*line, dot) if not math.isnan(x)]
    return {
        "words": words,
        "band": (at(band[0]), at(band[1])),
        "line": None if any(map(math.isnan, line)) else (at(line[0]), at(line[1])),
        "tick": at(tick) if low <= tick <= high else None,
        "dot": at(dot) if low <= dot <= high else None,
        "left": any(x < low for x in shown),
        "right": any(x > high for x in shown),
    }


def claim_mark(
    predicted: float, tolerance: float, measured: float, line: Ends, floor: float | None = None
) -> Mark | None:
    """A claim: the prediction in the middle, its region grey, the interval, the measurement.

    The region of an upper limit begins a tolerance below its `floor`. None if there is no finite
    prediction with a tolerance.
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
    bottom = (predicted if floor is None else floor) - tolerance
    return _mark(words, axis, (bottom, predicted + tolerance), line, predicted, measured)


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
