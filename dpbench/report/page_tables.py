"""Tables for the page of a run: rows as text, numbers in few digits, data for the browser."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Row", "as_number", "digits", "make_grid", "read_rows"]

Row = Mapping[str, str]

# Labels, which stay text even if all of them look like numbers.
TEXT = {
    "request", "distribution", "family", "estimator", "privacy", "notion", "pair", "comparison",
    "method", "verdict",
}  # fmt: skip
# What the browser keeps of a number; the files have all digits.
DIGITS = 7


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV file; none if it is missing or empty."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file, restval=""))
    except FileNotFoundError:
        return []


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

    Parameters
    ----------
    rows : sequence of dict
        Columns that are empty everywhere and `seconds`, which differ from run to run, are
        left out.
    caption : str
    main : collection of str
        The columns shown at first; all by default.
    tones : dict, optional
        How a verdict looks: ``good``, ``bad``, ``unsure`` or ``calm``.
    """
    columns = [
        _column(column, [row[column] for row in rows]) | {"main": not main or column in main}
        for column in (rows[0] if rows else ())
        if column != "seconds" and any(row[column] for row in rows)
    ]
    data = {"caption": caption, "size": len(rows), "columns": columns, "tones": tones or {}}
    return data if rows else None


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
