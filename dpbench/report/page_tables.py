"""Tables for the page of a run: rows as text, numbers in few digits, data for the browser."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

__all__ = ["Grid", "Row", "as_number", "digits", "make_grid", "read_rows", "script_json"]

Row = Mapping[str, str]

# Labels, which stay text even if all of them look like numbers.
TEXT = {
    "request", "distribution", "family", "estimator", "privacy", "notion", "pair", "comparison",
    "method", "verdict",
}  # fmt: skip
# What the browser keeps of a number; the files have all digits.
DIGITS = 7


@dataclass(frozen=True)
class Grid:
    """A table that the browser draws, sorts and filters.

    Attributes
    ----------
    id : str
        Unique on the page.
    caption : str
    file : str
        Where the numbers are for those without scripts.
    data : Markup
        JSON that is safe inside a script element.
    """

    id: str
    caption: str
    file: str
    data: Markup


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
    name: str,
    caption: str,
    path: Path,
    rows: Sequence[Row],
    main: Collection[str] = (),
    tones: Mapping[str, str] | None = None,
) -> Grid:
    """A table of `rows` for the browser.

    Parameters
    ----------
    name : str
        The id on the page.
    caption : str
    path : Path
        The file that the rows come from.
    rows : sequence of dict
        Columns that are empty everywhere and `seconds`, which differ from run to run, are
        left out.
    main : collection of str
        The columns shown at first; all by default.
    tones : dict, optional
        How a verdict looks: ``good``, ``bad``, ``unsure`` or ``calm``.
    """
    columns = [
        _column(column, [row[column] for row in rows]) | {"main": not main or column in main}
        for column in rows[0]
        if column != "seconds" and any(row[column] for row in rows)
    ]
    data = {"caption": caption, "size": len(rows), "columns": columns, "tones": tones or {}}
    return Grid(name, caption, path.name, script_json(data))


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


def script_json(data: object) -> Markup:
    """JSON that can neither end the script element it stands in nor open a comment there."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704
