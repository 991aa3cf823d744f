from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbench.report.page_marks import WIDTH, Mark, bound_mark, claim_mark
from dpbench.report.page_tables import as_number, digits, make_grid

INFINITY = float("inf")
NAN = float("nan")


def test_numbers_reach_the_browser_as_json_can_say_them(tmp_path: Path) -> None:
    rows = [
        {"estimator": "1e3", "n": "1234567890123", "q90": "0.123456789", "rho": "", "x": "inf"},
        {"estimator": "07", "n": "10.0", "q90": "", "rho": "", "x": "-inf"},
    ]
    grid = make_grid("id", "caption", tmp_path / "summary.csv", rows, main=["n"])
    columns = {column["name"]: column for column in json.loads(grid.data)["columns"]}
    assert columns["estimator"]["labels"] == ["1e3", "07"]
    assert columns["n"]["values"] == [1234567890123, 10]
    assert columns["q90"]["values"] == [0.1234568, None]
    assert columns["x"]["values"] == ["Infinity", "-Infinity"]
    assert "rho" not in columns
    assert [name for name, column in columns.items() if column["main"]] == ["n"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(2, "2.000"), (0.0123456, "0.01235"), (NAN, ""), (INFINITY, "∞"), (-INFINITY, "-∞")],
)
def test_four_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_cells_that_are_no_numbers_are_nan() -> None:
    assert as_number("1e-3") == 1e-3
    assert as_number("inf") == INFINITY
    for text in ("", None, "two"):
        assert digits(as_number(text)) == ""


LEFT, RIGHT, MIDDLE = 10, WIDTH - 10, WIDTH / 2
QUARTER = (RIGHT - LEFT) / 4


def claimed(
    predicted: float, tolerance: float, measured: float, low: float, high: float, floor: Any = None
) -> Mark:
    mark = claim_mark(predicted, tolerance, measured, low, high, floor)
    assert mark is not None
    assert mark.band is not None
    return mark


def test_a_mark_is_centred_on_the_prediction() -> None:
    """The axis reaches two tolerances to each side; what is far off is an arrow, not a dot."""
    mark = claimed(2.0, 0.02, 2.01, 1.98, 2.02)
    assert mark.tick == MIDDLE
    assert mark.band == mark.line == (LEFT + QUARTER, RIGHT - QUARTER)
    assert mark.dot == round(MIDDLE + QUARTER / 2, 1)
    assert not mark.left
    assert not mark.right
    far = claimed(2.0, 0.02, 3.0, 1.99, 3.1)
    assert (far.dot, far.left, far.right) == (None, False, True)
    assert far.line is not None
    assert far.line[1] == RIGHT
    assert far.band is not None
    assert far.band[1] - far.band[0] >= (RIGHT - LEFT) / 12 - 0.1


def test_the_region_of_an_upper_limit_reaches_down_to_its_floor() -> None:
    limit = claimed(1.25, 0.05, 1.0, 0.99, 1.01, floor=1.0)
    value = claimed(1.25, 0.05, 1.0, 0.99, 1.01)
    assert limit.band is not None
    assert value.band is not None
    assert limit.dot is not None
    assert limit.band[0] < limit.dot < value.band[0] < value.band[1] == limit.band[1]


@pytest.mark.parametrize(
    ("measured", "low", "high", "line", "arrows"),
    [
        (NAN, NAN, NAN, None, (False, False)),
        (2.0, NAN, 2.01, None, (False, False)),
        (2.0, -INFINITY, INFINITY, (LEFT, RIGHT), (True, True)),
        (INFINITY, 2.0, INFINITY, (MIDDLE, RIGHT), (False, True)),
    ],
)
def test_unknown_and_infinite_ends(
    measured: float, low: float, high: float, line: object, arrows: tuple[bool, bool]
) -> None:
    mark = claimed(2.0, 0.02, measured, low, high)
    assert mark.line == line
    assert (mark.left, mark.right) == arrows
    assert mark.dot == (MIDDLE if measured == 2.0 else None)
    assert ("unknown" in mark.words) == np.isnan(low)
    assert ("infinity" in mark.words) == (high == INFINITY)


@pytest.mark.parametrize(
    ("predicted", "tolerance"), [(NAN, 0.1), (INFINITY, 0.1), (1.0, 0.0), (1.0, NAN), (1e300, 0.1)]
)
def test_without_a_region_there_is_no_mark(predicted: float, tolerance: float) -> None:
    assert claim_mark(predicted, tolerance, 1.0, 0.9, 1.1) is None


def test_bounds_are_bars_from_nothing_on() -> None:
    marks = [bound_mark(1.0, 0.5), bound_mark(1.0, 4.0), bound_mark(1.0, NAN)]
    within, above, failed = (mark for mark in marks if mark)
    end = LEFT + 0.8 * (RIGHT - LEFT)
    assert (within.band, within.tick) == ((LEFT, end), end)
    assert within.line == (LEFT, LEFT + 0.4 * (RIGHT - LEFT))
    assert (above.tick, above.dot) == (LEFT + 0.2 * (RIGHT - LEFT), end)
    assert (failed.line, failed.dot) == (None, None)
    unlimited = bound_mark(INFINITY, 2.0)
    assert unlimited is not None
    assert unlimited.tick is None
    assert bound_mark(NAN, 1.0) is None
