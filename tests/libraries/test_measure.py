"""Rows, claims and answers to odd columns, by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpbench.estimators import ClippedMean
from dpbench.libraries import LibraryMean, LibraryVariance, measure
from dpbench.libraries.hostile_columns import CASES
from dpbench.libraries.means.process import Releases
from dpbench.libraries.sweep import LibraryClaim, LibrarySettings
from dpbench.privacy import PureDP
from dpbench.sweep.block import Setting

SETTINGS = LibrarySettings(lower=2, upper=6)
COLUMN = np.array([2.0, 3, 5])  # the mean is 10/3, a third of the width 4 above 2
CLIPPED = ClippedMean(lower=2, upper=6)


def row_of(*values: float, neighbours: Any = "replace", estimator: Any = CLIPPED) -> Any:
    """The row of releases that took 9, 1, 2, 3, ... seconds, for epsilon = 2."""
    seconds = np.array([9.0, *range(1, len(values))])
    releases = Releases(np.array(values), np.zeros(len(values), dtype=bool), seconds, "told")
    setting = Setting("mine", estimator, PureDP(2.0, neighbours=neighbours))
    return measure._row(setting, "law", COLUMN, releases, SETTINGS)


def test_a_row_by_hand() -> None:
    """Errors are in units of width/(n epsilon) = 4/6; one of four releases failed."""
    row, errors = row_of(3, 5, math.nan, 10 / 3)
    wanted = [-0.5, 2.5, math.nan, 0.0]
    np.testing.assert_allclose(errors, wanted, atol=1e-12)
    assert (row["trials"], row["failures"], row["failure_rate"]) == (4, 1, 0.25)
    for name, values in (("error", [0.5, 2.5, 0.0]), ("bias", [-0.5, 2.5, 0.0])):
        half = 1.96 * np.std(values, ddof=1) / math.sqrt(3)
        assert row[name] == pytest.approx(np.mean(values))
        assert row[f"{name}_low"] == pytest.approx(np.mean(values) - half)
        assert row[f"{name}_high"] == pytest.approx(np.mean(values) + half)
    assert (row["ms"], row["first_ms"], row["message"]) == (2000.0, 9000.0, "told")
    assert row_of(3)[0]["ms"] == 9000.0
    assert (row["epsilon"], row["n"], row["estimator"]) == (2.0, 3, "mine")
    assert math.isnan(row["expected_error"])  # no library


def test_what_is_expected_of_a_row() -> None:
    """At m = 1/3 and n epsilon = 6: Laplace noise between -2 and 4 units, and a sum over a count.

    Its c is 2 |m - 1/2| = 1/3. The bounds are the staircase's error, and 2/3 epsilon/sinh(epsilon).
    """
    clipped = LibraryMean(library="diffprivlib", lower=2, upper=6)
    row, _ = row_of(3, 5, estimator=clipped)
    below, above = (1 - math.exp(-room) for room in (2, 4))
    assert row["expected_error"] == pytest.approx((above + below) / 2)
    assert row["expected_bias"] == pytest.approx((above - below) / 2)
    assert row["lower_bound"] == pytest.approx(2 * math.e / (math.e**2 - 1))
    # Bounds of twice the width double the noise; the units and the bound stay.
    row, _ = row_of(3, 5, estimator=LibraryMean(library="opendp", lower=0, upper=8))
    assert (row["expected_error"], row["expected_bias"]) == pytest.approx((2, 0))
    row, _ = row_of(3, 5, estimator=LibraryVariance(library="opendp", lower=0, upper=8))
    assert row["expected_error"] == pytest.approx(4)
    ratio = LibraryMean(library="tumult", lower=2, upper=6)
    row, _ = row_of(3, 5, neighbours="add_remove", estimator=ratio)
    assert row["expected_error"] == pytest.approx((1 + 1 / 3 + 1 / 9) / (1 + 1 / 3))
    assert row["expected_bias"] == pytest.approx(0, abs=1e-12)
    assert row["lower_bound"] == pytest.approx(2 / 3 * 2 / math.sinh(2))


@pytest.mark.parametrize(("name", "predicted"), [("error", 2.0), ("bias", 0.5)])
def test_a_claim_by_hand(name: str, predicted: float) -> None:
    """150 and 50 releases of two n: predictions are averaged by them, and errors are joined."""
    errors = np.random.default_rng(0).normal(predicted, 1, 200)
    about = {"estimator": "lib", "distribution": "law", "neighbours": "add_remove"}
    about |= {"unit": "width"}
    group: list[Any] = [
        ({**about, "n": n, "trials": len(part), "expected_error": e, "expected_bias": b}, part)
        for n, part, e, b in ((10, errors[:150], 1.0, 0.0), (90, errors[150:], 5.0, 2.0))
    ]
    claim = LibraryClaim(tolerance=0.5, reason="few releases")
    (row,) = measure.claim_rows({name: claim}, group).to_dict("records")
    values = np.abs(errors) if name == "error" else errors
    half = 1.96 * values.std(ddof=1) / math.sqrt(200)
    assert row["predicted"] == row["theorem"] == pytest.approx(predicted)
    assert row["measured"] == pytest.approx(values.mean())
    assert (row["low"], row["high"]) == pytest.approx((values.mean() - half, values.mean() + half))
    assert row["detectable_deviation"] == pytest.approx(0.5 + 2 * half)
    assert row["verdict"] == "consistent"
    assert (row["n_low"], row["n_high"], row["privacy"]) == (10, 90, "pure_add_remove")
    few = [({**group[0][0], "trials": 99}, errors[:99])]
    (row,) = measure.claim_rows({name: claim}, few).to_dict("records")
    assert (math.isnan(row["measured"]), row["verdict"]) == (True, "inconclusive")


def test_odd_columns_are_judged_in_units_of_their_own_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit is width/(records epsilon); an empty column counts as one record."""
    units: list[float] = []

    def classify(_releases: Releases, _mean: float, unit: float) -> str:
        units.append(unit)
        return "answered"

    monkeypatch.setattr(measure, "classify", classify)
    rows = measure.hostile_rows("mine", Setting("mine", CLIPPED, PureDP(2.0)), SETTINGS, 0)
    assert [row["column"] for row in rows] == list(CASES)
    sizes = [1 if case in ("one_record", "empty") else 1000 for case in CASES[:-1]]
    assert units == pytest.approx([4 / (2 * size) for size in sizes])
    assert [row["outcome"] for row in rows] == ["answered"] * 7 + [""]  # it takes no size
