"""References of benchmarks without bounds: the best of the archive."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpbench.benchmark.problems import MEAN_BENCHMARK, REAL_BENCHMARK, read_benchmark
from dpbench.benchmark.reference import archive_path, divide_by_best, reference
from dpbench.benchmark.table import Scores


def test_the_best_error_becomes_the_bound() -> None:
    rows = pd.DataFrame(
        {
            "entry": ["a", "b", "a", "b"],
            "problem": ["p", "p", "q", "q"],
            "score": [4.0, 2.0, 3.0, np.inf],
            "score_low": [3.0, 1.0, 2.0, 8.0],
            "score_high": [5.0, 3.0, 4.0, np.inf],
            "bound": [0.5, 0.5, 2.0, 2.0],
            "bound_name": "old",
            "draws": [np.array([4.0, 8.0]), np.array([2.0, 1.0]), np.ones(2), np.ones(2)],
        }
    )
    found = divide_by_best(rows)
    assert found["bound"].tolist() == [1.0, 1.0, 6.0, 6.0]
    assert found["bound_name"].tolist() == ["b", "b", "a", "a"]
    assert found["score"].tolist() == [2.0, 1.0, 1.0, np.inf]
    assert (found["score"] * found["bound"]).tolist() == (rows["score"] * rows["bound"]).tolist()
    assert found["draws"][0].tolist() == [2.0, 4.0]
    pd.testing.assert_frame_equal(divide_by_best(found), found)


def test_a_problem_without_an_archive_has_the_reference_one() -> None:
    assert reference(REAL_BENCHMARK, "none") == (1.0, "")
    assert reference("none", "none") == (1.0, "")


def test_the_archive_has_every_problem_and_its_own_best() -> None:
    benchmark = read_benchmark(REAL_BENCHMARK)
    scores = Scores.read(archive_path(REAL_BENCHMARK), benchmark)
    best = scores.rows.groupby("problem")["score"].min()
    assert set(best.index) == {problem.id for problem in benchmark.problems}
    assert best.to_numpy() == pytest.approx(1.0)
    assert not scores.is_below.any()
    assert len(scores.cards) >= 12
    for problem in benchmark.problems:
        rows = scores.rows[scores.rows["problem"] == problem.id]
        assert problem.bound == (rows["bound"].iloc[0], rows["bound_name"].iloc[0])
    assert not any(problem.relative for problem in read_benchmark(MEAN_BENCHMARK).problems)
