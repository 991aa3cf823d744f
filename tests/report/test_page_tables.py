"""Numbers and small drawings of the page."""

# ruff: noqa: RUF001 (symbols, as they are printed)
from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest

from dpbench.report import page_tables
from dpbench.report.page_tables import (
    Mark,
    as_number,
    bound_mark,
    claim_mark,
    format_digits,
    format_short,
    group_mark,
    make_table,
)


def test_tables_are_cut_and_leave_out_what_is_empty_or_not_asked_for() -> None:
    rows = [
        {"estimator": "1e3", "n": "1234567890123", "q90": "0.123456789", "rho": "", "x": "inf"},
        {"estimator": "07", "n": "10.0", "q90": "", "rho": "", "x": "-inf"},
    ]
    table = make_table(rows, 9, "caption")
    assert table is not None
    wanted = [("estimator", True), ("n", False), ("q90", False), ("x", False)]
    assert [column[:2] for column in table["columns"]] == wanted
    assert table["rows"] == [("1e3", "1.23×10¹²", "0.123", "∞"), ("07", "10", "", "-∞")]
    cut = make_table(rows, 1, "caption", columns=["n", "estimator"])
    assert cut is not None
    assert (cut["size"], cut["rows"]) == (2, [("1.23×10¹²", "1e3")])  # in the order of `columns`
    judged = make_table([{"n": "1", "verdict": "good"}], 1, "caption")
    assert judged is not None
    assert judged["rows"] == [("good", "1")]
    later = make_table([{"a": "1", "b": ""}, {"a": "two", "b": "2"}], 1, "caption")
    assert later is not None  # what a column is, is said by all its rows
    assert later["columns"] == [("a", True, False), ("b", False, False)]
    assert later["rows"] == [("1", "")]
    assert make_table([], 9, "caption") is None
    said = [{"estimator": "a", "nan": "bad", "outcome": "bad"}]
    said.append({"estimator": "bad", "nan": "", "outcome": "else"})
    toned = make_table(said, 9, "caption", tones={"bad": "bad"})
    assert toned is not None
    assert [name for name, _, all_known in toned["columns"] if all_known] == ["nan"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (999999.0, "999999"), (-3.0, "-3"), (1e6, "10⁶"), (1.25e7, "1.25×10⁷"),
     (12345.6, "1.23×10⁴"), (1e-6, "10⁻⁶"), (-1.5e-10, "-1.5×10⁻¹⁰"), (1e100, "10¹⁰⁰"), (nan, "")],
)  # fmt: skip
def test_numbers_in_short(value: float, text: str) -> None:
    assert format_short(value) == text


def test_four_digits_three_below_one_and_nothing_for_what_is_no_number() -> None:
    cases = {
        "2": "2.000",
        "0.0123456": "0.0123",
        "0.99999": "1.00",
        "-23456": "-2.346×10⁴",
        "inf": "∞",
        "-inf": "-∞",
        "": "",
        "two": "",
    }
    assert {text: format_digits(as_number(text)) for text in cases} == cases
    assert np.isnan(as_number(None))


LEFT, RIGHT, MIDDLE = 10, page_tables.WIDTH - 10, page_tables.WIDTH / 2
QUARTER = (RIGHT - LEFT) / 4


def claimed(*numbers: Any) -> Mark:
    mark = claim_mark(*numbers)
    assert mark is not None
    return mark


def test_a_mark_is_centred_on_the_prediction() -> None:
    """The axis reaches two tolerances to each side; what is far off is an arrow, not a dot."""
    mark = claimed(2.0, 0.02, 2.01, (1.98, 2.02))
    assert mark["tick"] == MIDDLE
    assert mark["band"] == mark["line"] == (LEFT + QUARTER, RIGHT - QUARTER)
    assert mark["dots"] == [round(MIDDLE + QUARTER / 2, 1)]
    assert not mark["left"] | mark["right"]
    far = claimed(2.0, 0.02, 3.0, (1.99, 3.1))
    assert (far["dots"], far["left"], far["right"], far["line"][1]) == ([], False, True, RIGHT)
    assert far["band"][1] - far["band"][0] >= (RIGHT - LEFT) / 12 - 0.1
    # the region of an upper limit reaches down to its floor
    numbers = (1.25, 0.05, 1.0, (0.99, 1.01))
    limit, value = claimed(*numbers, 1.0), claimed(*numbers)
    assert limit["band"][0] < limit["dots"][0] < value["band"][0] < value["band"][1]
    assert value["band"][1] == limit["band"][1]


@pytest.mark.parametrize(
    ("measured", "ends", "line", "arrows"),
    [
        (nan, (nan, nan), None, (False, False)),
        (2.0, (nan, 2.01), None, (False, False)),
        (2.0, (-inf, inf), (LEFT, RIGHT), (True, True)),
        (inf, (2.0, inf), (MIDDLE, RIGHT), (False, True)),
    ],
)
def test_unknown_and_infinite_ends(
    measured: float, ends: tuple[float, float], line: object, arrows: tuple[bool, bool]
) -> None:
    mark = claimed(2.0, 0.02, measured, ends)
    assert (mark["line"], mark["left"], mark["right"]) == (line, *arrows)
    assert mark["dots"] == ([MIDDLE] if measured == 2.0 else [])
    assert ("unknown" in mark["words"]) == np.isnan(ends[0])
    assert ("infinity" in mark["words"]) == (ends[1] == inf)


def test_without_a_region_there_is_no_mark_and_bounds_are_bars_from_nothing_on() -> None:
    for region in ((nan, 0.1), (inf, 0.1), (1.0, 0.0), (1.0, nan), (1e300, 0.1)):
        assert claim_mark(*region, 1.0, (0.9, 1.1)) is None
    assert bound_mark(nan, 1.0) is None
    marks = [bound_mark(1.0, bound) for bound in (0.5, 4.0, nan)] + [bound_mark(inf, 2.0)]
    within, above, failed, unlimited = (mark for mark in marks if mark)
    end = LEFT + 0.8 * (RIGHT - LEFT)
    assert (within["band"], within["tick"]) == ((LEFT, end), end)
    assert within["line"] == (LEFT, LEFT + 0.4 * (RIGHT - LEFT))
    assert (above["tick"], above["dots"]) == (LEFT + 0.2 * (RIGHT - LEFT), [end])
    assert (failed["line"], failed["dots"], unlimited["tick"]) == (None, [], None)


def test_a_group_has_a_dot_per_claim_where_it_lies_in_its_region() -> None:
    mark = group_mark([0.0, 1.0, -0.5, 3.0, nan])
    assert mark is not None
    assert mark["band"] == (LEFT + QUARTER, RIGHT - QUARTER)
    assert mark["dots"] == [round(MIDDLE - QUARTER / 2, 1), MIDDLE, RIGHT - QUARTER]
    assert (mark["left"], mark["right"]) == (False, True)
    assert mark["words"].startswith("3 of 4 measurements within")
    assert group_mark([nan]) is None
    beyond = group_mark([0.5, 1.5, -1.9])
    assert beyond is not None
    assert beyond["words"].startswith("1 of 3 measurements within")
