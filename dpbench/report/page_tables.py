"""Format tables for the page of a run: short numbers, words and small drawings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpbench.analysis.claims import region
from dpbench.output import names
from dpbench.output.names import display_name
from dpbench.privacy import AMOUNTS
from dpbench.privacy.symbols import budget_text
from dpbench.report.drawing.unicode_math import HIGH

__all__ = [
    "HEIGHT", "WIDTH", "Mark", "Row", "Table", "as_number", "bound_mark",
    "claim_mark", "count_distinct", "count_noun", "describe_failures", "format_digits",
    "format_range", "format_short", "group_mark", "join_words", "make_table", "row_budget",
]  # fmt: skip

Row = Mapping[str, str]
# Variables of the macro ``table`` in ``page.html``; see `make_table`.
Table = dict[str, Any]

# Columns of labels, which stay text even if all of them look like numbers.
TEXT_COLUMNS = {
    "request", "distribution", "family", "estimator", "privacy", "notion", "pair", "comparison",
    "method", "verdict", "theorem_verdict", "checks", "bound_name", "refuted_by_replay",
    "compared",
}  # fmt: skip
WIDTH, HEIGHT = 150, 20  # size of a drawing, in CSS pixels
MARGIN = 10  # space for an arrow at each end of the axis
# Least and largest half-width of the axis of a claim, in tolerances.
MIN_SPAN, MAX_SPAN = 2.0, 12.0

# A drawing on a horizontal axis, in units of its view box: the ends of a `band` and of a `line`,
# a `tick` (None if absent) and `dots`. `left` and `right` say whether something lies beyond these
# ends of the axis. `words` describe the drawing.
Mark = dict[str, Any]
Ends = tuple[float, float]


def as_number(text: str | None) -> float:
    """Return the text of a cell as a number; NaN if the text is empty or no number."""
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def format_digits(value: float, *, trailing: bool = True) -> str:
    """Format a number as `dpbench.output.names.format_digits` does, with powers as 10⁶."""
    return _raise_power(names.format_digits(value, trailing=trailing))


def _raise_power(text: str) -> str:
    """Rewrite a number such as 1.5e-06 as 1.5×10⁻⁶, and 1e6 as 10⁶."""
    mantissa, letter, exponent = text.partition("e")
    if not letter:
        return text
    power = f"10{''.join(HIGH[sign] for sign in str(int(exponent)))}"
    mantissa = f"{float(mantissa):g}"
    return power if mantissa == "1" else f"{mantissa}×{power}"  # noqa: RUF001


def make_table(
    rows: Sequence[Row],
    max_rows: int,
    caption: str,
    columns: Sequence[str] = (),
    tones: Mapping[str, str] | None = None,
    *,
    name: str = "",
    urgent: bool = False,
) -> Table | None:
    """Format rows as a table of the page: the variables of the macro ``table`` in ``page.html``.

    Empty columns are left out. So is the column ``seconds``, because it differs from run to run.
    The others stand in the order of `columns`, by default in that of the rows, but verdicts first.
    `tones` maps words to tones, CSS classes that set their
    colours. A tone applies only in columns that contain no other words. The rows come from the
    file `name`, without ``.csv``. The page shows an urgent table unfolded. Return None if there are
    no rows.
    """
    if not rows:
        return None
    shown = [name for name in columns or rows[0] if name in rows[0] and name != "seconds"]
    shown.sort(key=lambda name: name != "verdict")
    cells_by_column = {name: [row[name] for row in rows] for name in shown}
    cells_by_column = {name: cells for name, cells in cells_by_column.items() if any(cells)}
    is_text = {
        name: name in TEXT_COLUMNS or not _all_numbers(cells)
        for name, cells in cells_by_column.items()
    }
    printed = (
        cells[:max_rows]
        if is_text[name]
        else [format_short(as_number(cell)) for cell in cells[:max_rows]]
        for name, cells in cells_by_column.items()
    )
    words = {"", *(tones or {})}
    return {
        "name": name,
        "urgent": urgent,
        "caption": caption,
        "size": len(rows),
        "columns": [
            (name, is_text[name], words.issuperset(cells))
            for name, cells in cells_by_column.items()
        ],
        "rows": list(zip(*printed, strict=True)),
        "tones": tones or {},
    }


def _all_numbers(cells: Sequence[str]) -> bool:
    """Return whether every cell of a column is empty or a number other than NaN."""
    try:
        return not any(math.isnan(float(cell)) for cell in cells if cell)
    except ValueError:
        return False


def format_short(value: float, places: int = 3) -> str:
    """Format a number in few digits, and a whole number below a million in full.

    Powers of ten are written as 10⁶. The number has `places` significant digits. NaN is blank, and
    infinity is ∞.
    """
    if math.isnan(value) or math.isinf(value):
        return format_digits(value)
    if value.is_integer() and abs(value) < 1e6:
        return f"{value:.0f}"
    return _raise_power(f"{value:.{places}g}")


def count_noun(count: int, noun: str) -> str:
    """Format a count with its noun, as in ``3 settings``; the plural of the noun ends in s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def count_distinct(rows: Sequence[Row], column: str) -> str:
    """Format the number of different cells in a column, as in ``3 estimators``.

    The name of the column is a noun in the singular.
    """
    return count_noun(len({row[column] for row in rows}), column)


def format_range(rows: Sequence[Row], column: str, places: int = 3) -> str:
    """Format the smallest and the largest number of a column, as in ``10 to 1000``.

    Both have `places` significant digits. If both are formatted in the same way, the text is a
    single number.
    """
    numbers = [as_number(row[column]) for row in rows]
    texts = (format_short(end, places) for end in (min(numbers), max(numbers)))
    return " to ".join(dict.fromkeys(texts))


def join_words(words: Iterable[str]) -> str:
    """Join the distinct words of a list into one text, with commas and a final ``and``."""
    *first, last = dict.fromkeys(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def describe_failures(rows: Sequence[Row]) -> list[str]:
    """Return a list with a phrase that counts the settings in which some trials released nothing.

    The list is empty if there are no such settings. Each row is one setting.
    """
    failing = sum(as_number(row.get("failures")) > 0 for row in rows)
    return [f"trials without a release in {failing} of {count_noun(len(rows), 'setting')}"] * (
        failing > 0
    )


def row_budget(row: Row) -> str:
    """Format the budget of a row: its label, then its amounts such as ε."""
    amounts = {name: as_number(row.get(name)) for name in AMOUNTS}
    return budget_text(
        amounts, "unicode", label=display_name(row.get("privacy", "")), number=format_short
    )


def _make_mark(words: str, axis: Ends, band: Ends, line: Ends, tick: float, *dots: float) -> Mark:
    """Return a small drawing on a horizontal axis: a band, a line, a tick and some dots.

    Numbers that are NaN are left out. A number beyond the axis becomes an arrow at its end. `words`
    describe the drawing.
    """
    low, high = axis

    def place(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)

    values = [x for x in (*line, *dots) if not math.isnan(x)]
    return {
        "words": words,
        "band": (place(band[0]), place(band[1])),
        "line": None if any(map(math.isnan, line)) else (place(line[0]), place(line[1])),
        "tick": place(tick) if low <= tick <= high else None,
        "dots": sorted(place(dot) for dot in dots if low <= dot <= high),
        "left": any(x < low for x in values),
        "right": any(x > high for x in values),
    }


def claim_mark(
    predicted: float, tolerance: float, measured: float, line: Ends, floor: float | None = None
) -> Mark | None:
    """Draw a claim on an axis: its prediction, accepted region, measured number and interval.

    The prediction is in the middle of the axis, and `tolerance` is the largest accepted distance to
    it. The 95% interval of the measured number has the ends `line`. `floor` is the smallest
    possible number, if the prediction is an upper limit; see `dpbench.analysis.claims.region`.
    Return None without a finite prediction and a positive finite tolerance.
    """
    if not (math.isfinite(predicted) and math.isfinite(tolerance) and tolerance > 0):
        return None
    distances = [abs(x - predicted) for x in (measured, *line) if math.isfinite(x)]
    span = min(max(1.15 * max(distances, default=0.0), MIN_SPAN * tolerance), MAX_SPAN * tolerance)
    axis = (predicted - span, predicted + span)
    if not axis[0] < axis[1]:  # the tolerance is lost in the digits of the prediction
        return None
    words = (
        f"measured {_number_words(measured)}, 95% interval {_number_words(line[0])} to "
        f"{_number_words(line[1])}, predicted {'' if floor is None else 'at most '}"
        f"{_number_words(predicted)} plus or minus {tolerance:g}"
    )
    return _make_mark(words, axis, region(predicted, tolerance, floor), line, predicted, measured)


def group_mark(places: Sequence[float]) -> Mark | None:
    """Draw a group of claims on an axis, with a dot for each claim.

    The measured number of each claim is rescaled so that the claim accepts the numbers from -1 to
    1. `places` holds the rescaled numbers. Return None if all of them are NaN.
    """
    finite = [x for x in places if not math.isnan(x)]
    inside = sum(abs(x) <= 1 for x in finite)
    words = f"{inside} of {len(finite)} measurements within what was predicted, with tolerances"
    unknown = (math.nan, math.nan)
    return (
        _make_mark(words, (-2.0, 2.0), (-1.0, 1.0), unknown, math.nan, *finite) if finite else None
    )


def bound_mark(claimed: float, bound: float) -> Mark | None:
    """Draw an audited claim of privacy: the claimed privacy loss and the audit's lower bound on it.

    The claimed loss is a band from 0. The lower bound is a bar from 0. Return None if no privacy
    loss is claimed.
    """
    if math.isnan(claimed) or claimed < 0:
        return None
    finite = [x for x in (claimed, bound) if math.isfinite(x)]
    axis = (0.0, 1.25 * max(finite, default=0.0) or 1.0)
    words = f"lower bound {_number_words(bound)}, claimed {_number_words(claimed)}"
    return _make_mark(words, axis, (0.0, claimed), (0.0, bound), claimed, bound)


def _number_words(value: float) -> str:
    if math.isinf(value):
        return "infinity" if value > 0 else "minus infinity"
    return format_digits(value, trailing=False) or "unknown"
