"""Frames of figures of errors, and triangles for what lies below them."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.report.error_curves import BELOW, FALLBACK, divide_errors, leave_frame
from dpbench.report.run_result import Result
from dpbench.report.scoreboard import render
from tests.report.conftest import curves, drawn, lines
from tests.report.specs import ERROR

ROW: dict[str, Any] = {
    "privacy": "pure", "q50": 1.0, "sampling_q90": 0.1, "low": 1.0, "high": 3.0, "lower_bound": 0.5,
}  # fmt: skip


def framed(*values: tuple[float, float], metric: str = "q90") -> pd.DataFrame:
    """The rows of a figure with these medians and values."""
    rows = [ROW | {"q50": median, metric: value} for median, value in values]
    return leave_frame(pd.DataFrame(rows), metric)


def test_the_frame_ends_below_what_depends_on_data() -> None:
    rows = framed((1.0, 2.0), (1.0, 0.2), (1e-298, 1e-298), (1e-290, 0.3), (1e-290, 0.01))
    assert rows["below"].tolist() == ["", "", FALLBACK, "", FALLBACK]
    np.testing.assert_equal(rows["q90"].tolist(), [2.0, 0.2, np.nan, 0.3, np.nan])
    assert set(rows["floor"]) == {0.1}
    rows = framed((1.0, 2.0), (1.0, 0.0), (1.0, 1e-17))  # exact values and rounding errors
    assert rows["below"].tolist() == ["", BELOW, BELOW]
    assert framed((1.0, 2.0), (1.0, 1e-7))["floor"].isna().all()
    # Where nothing depends on data, the bound is the scale; a metric without one has the sampling.
    assert set(framed((0.0, 1e-300))["floor"]) == {0.25}
    assert set(framed((0.0, 1e-300), metric="privacy_cost_q90")["floor"]) == {0.05}


def test_an_answer_without_data_is_no_point_of_the_figure(numbers: Result) -> None:
    summary = numbers.summary.copy()
    at = (summary["estimator"] == "naive_radius10") & (summary["n"] <= 300)
    summary.loc[at, ["q50", "q90", "q90_low", "q90_high"]] = 1e-298
    lucky = dataclasses.replace(numbers, summary=summary)
    estimators: dict[str, Any] = {"naive": {}, "mean": {}}
    spec = {**ERROR, "families": "gaussian", "estimators": estimators}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (ax,) = drawn(lucky, spec)
        ax.figure.figure.canvas.draw()
    low, high = ax.get_ylim()
    assert 1e-4 < low < high < 1e4
    n, errors = curves(ax)["naive, $R = 10$"]
    assert n == [30, 100, 300, 1000, 3000]
    assert np.isnan(errors).tolist() == [True] * 3 + [False] * 2
    (marks,) = [x for x in ax.get_lines() if x.get_marker() == "v" and np.size(x.get_xdata())]
    assert np.asarray(marks.get_xdata()).tolist() == [30, 100, 300]
    assert len(lines(ax, FALLBACK)) == 1
    few = summary[(summary["family"] == "gaussian") & summary["estimator"].isin(["naive_radius10"])]
    text = render(
        numbers.study, summary=few, claims=numbers.claims.iloc[:0], factors=numbers.factors,
        samples=numbers.samples.iloc[:0], failures=[],
    )  # fmt: skip
    assert "1e-298*" in text
    assert "naive_radius10 on gaussian, n = 30 .. 300" in text
    assert max(map(len, text.splitlines())) <= 80


def test_errors_are_divided_by_the_smallest_bound_of_a_family_at_each_n() -> None:
    """Its members may have different bounds, and all of them are allowed."""
    rows = pd.DataFrame({
        "family": "f", "privacy": "pure", "epsilon": 1.0, "n": [10, 10, 100, 100],
        "lower_bound": [2.0, 4.0, 0.5, 1.0], "q90": [6.0, 8.0, 1.0, 2.0], "floor": np.nan,
    })  # fmt: skip
    rows = rows.assign(
        low=rows["q90"] / 2, high=2 * rows["q90"], delta=np.nan, rho=np.nan, mu=np.nan
    )
    ratios = divide_errors(rows, "q90")
    assert ratios["q90"].tolist() == [3, 4, 2, 4]
    assert ratios["high"].tolist() == [6, 8, 4, 8]
    assert (ratios["lower_bound"] == 1).all()
    by_error = divide_errors(rows.assign(mean_error=rows["q90"]), "mean_error")
    assert by_error["mean_error"].tolist() == pytest.approx([1, 4 / 3, 1, 2])
    assert by_error["lower_bound"].isna().all()
