"""Scores side by side, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpbench.analysis.factors import profile
from dpbench.suite.compare import describe_infinite, overview, profile_band
from dpbench.suite.problems import read_suite
from dpbench.suite.table import Scores, archive_path


def test_profiles_by_hand() -> None:
    """Of four problems three are answered, one of them in vain; two replicates of each score."""
    draws = [[1.0, 3.0], [2.0, 2.0], [np.inf, 9.0]]
    rows = pd.DataFrame({"score": [1.2, 2.0, np.inf], "draws": [np.array(one) for one in draws]})
    at = [1.0, 2.0, 100.0]
    assert profile(rows["score"], 4, at).tolist() == [0, 0.5, 0.5]
    low, high = profile_band(rows, 4, at)
    # of the replicates the shares are 1/4, 2/4, 2/4 and 0, 1/4, 3/4
    assert np.allclose(low, [0.025 / 4, 1 / 4 + 0.025 / 4, 2 / 4 + 0.025 / 4])
    assert np.allclose(high, [1 / 4 - 0.025 / 4, 2 / 4 - 0.025 / 4, 3 / 4 - 0.025 / 4])
    told = rows.assign(entry="one", failure_rate=[0, 0, 1.0], seconds=2.0, drawing_seconds=4.0)
    (line,) = overview(told, 4, {"one": "open"})
    assert line["estimator"] == "one (open)"
    assert line["<=1.5"] == "25%"
    assert line["<=2"] == line["<=10"] == "50%"
    assert "mean" not in line  # entries answer different problems
    assert line["fails"] == "33.3%"
    assert line["CPU"] == "0.5"


def test_infinite_scores_are_told_in_one_line() -> None:
    suite = read_suite()
    rows = Scores.read(archive_path(suite.name), suite).rows
    assert describe_infinite(rows[rows["entry"] == "approximate_bounds_mean"]) == [
        "approximate_bounds_mean: 3 of 33 scores are infinite, because over a tenth of the "
        "releases are NaN or fail: 100% on gauss-n100-pure1"
    ]
    assert describe_infinite(rows[rows["entry"] == "ksu20_mean"]) == []
