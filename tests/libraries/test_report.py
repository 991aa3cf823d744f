"""The table of all results of each library, and its figure, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dpbench.libraries.report import figure, overview


def row(law: str, n: int, epsilon: float, **more: Any) -> dict[str, Any]:
    known = {
        "estimator": "lib", "distribution": law, "neighbours": "replace", "n": n,
        "epsilon": epsilon, "trials": 1000, "failures": 0, "error": 1.0, "error_low": 0.9,
        "error_high": 1.125, "bias": -0.001, "lower_bound": 0.96, "ms": 2.0, "first_ms": 30.0,
    }  # fmt: skip
    return known | more


STATUS = pd.DataFrame({"estimator": ["wrong", "lib", "gone"], "version": ["1", "2", "not here"]})
ROWS = pd.DataFrame(
    [
        row("centre", 100, 1.0), row("edge", 100, 1.0),
        # Run on both laws, too, with a larger n epsilon: these numbers are shown.
        row("centre", 100, 2.0, error=1.25, error_high=1.5, bias=0.25, ms=4.0, failures=30),
        row("edge", 100, 2.0, error=2.0, error_high=2.125, bias=-0.5, ms=8.0, lower_bound=0.5,
            first_ms=70.0),
        row("centre", 1000, 2.0, error=9.0),  # on one law only
        row("centre", 100, 2.0, estimator="wrong", trials=4, error=3.0),
    ]
)  # fmt: skip
HOSTILE = pd.DataFrame(
    {"estimator": "lib", "column": ["nan", "empty"], "outcome": ["NaN", "refused"]}
)
AUDIT = pd.DataFrame(
    {"estimator": "lib", "notion": "pure", "delta": np.nan, "lower_bound": [0.25, 0.5],
     "claimed": 2.0, "verdict": "not refuted"}
)  # fmt: skip


def test_an_overview_by_hand() -> None:
    table = overview(STATUS, ROWS, HOSTILE, AUDIT, ["wrong"])
    lib, gone, wrong = table.to_dict("records")
    assert [lib["estimator"], gone["estimator"], wrong["estimator"]] == ["lib", "gone", "wrong"]
    wanted = {
        "version": "2", "neighbours": "replace", "n": 100, "epsilon": "2", "trials": 5000,
        "error centre": "1.25 ± 0.25", "error edge": "2.00 ± 0.12", "bias centre": "0.25",
        "bias edge": "-0.50", "at least": "0.50..0.96", "failed": "0.006", "ms": "6",
        "first ms": "70", "shown": "0.50 of 2", "verdict": "not refuted", "nan": "NaN",
        "empty": "refused", "control": "",
    }  # fmt: skip
    assert {name: lib[name] for name in wanted} == wanted
    assert (gone["n"], gone["version"]) == ("", "not here")
    assert (wrong["error centre"], wrong["error edge"]) == ("3.00 (of 4)", "")
    assert wrong["control"]


def test_the_figure_shows_errors_bounds_and_times() -> None:
    """Libraries stand from top to bottom, and controls last, below a line."""
    table = overview(STATUS, ROWS, HOSTILE, AUDIT, ["wrong"])
    errors, times, _ = figure(table, ROWS).axes
    (medians,) = (
        np.array(line.get_data(), dtype=float).T
        for line in times.get_lines() if line.get_marker() == "o"
    )  # fmt: skip
    np.testing.assert_allclose(medians, [(2.0, 0), (2.0, 1)])
    assert [text.get_text() for text in errors.get_yticklabels()] == ["lib", "wrong (control)"]
    lines = [line for line in times.get_lines() if line.get_marker() != "o"]
    assert [np.asarray(line.get_ydata(), dtype=float).tolist() for line in lines] == [[0.5, 0.5]]
    points = {
        (round(float(x), 9), round(float(y)))
        for line in errors.get_lines() if line.get_marker() not in ("None", "", "|")
        for x, y in np.array(line.get_data(), dtype=float).T
    }  # fmt: skip
    assert {(1.25, 0), (2.0, 0), (3.0, 1)} <= points
