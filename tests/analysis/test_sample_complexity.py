"""The smallest n: exact on exact curves, and with intervals that hold it on random ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from dpbench.analysis.sample_complexity import (
    joint_replicates,
    resampled,
    sample_complexity,
    smallest_n,
)
from dpbench.analysis.summary import order_statistic

Floats = NDArray[np.float64]
BETA = 0.1
GRID = np.geomspace(10, 1e7, 13)


def read_off(n: Any, quantiles: Any, alpha: float = 1.0, between: Any = 0.5) -> list[float]:
    """`smallest_n` of one curve, or of the columns of several."""
    q = np.asarray(quantiles, dtype=float).reshape(len(n), -1)
    where = np.broadcast_to(np.asarray(between, dtype=float), q.shape[1:])
    return [float(x) for x in smallest_n(np.asarray(n, float), q, alpha, where)]


# What a curve gives.


@pytest.mark.parametrize("slope", [0.05, 0.25, 0.5, 1.0, 3.9])
def test_power_laws_are_read_off_exactly(slope: float) -> None:
    """error = (n/n*)^-slope reaches 1 at n*, wherever that is between points of the grid."""
    truth = np.geomspace(10.001, 0.999e7, 57)
    found = read_off(GRID, (GRID[:, None] / truth) ** -slope)
    np.testing.assert_allclose(found, truth, rtol=1e-9)
    # The same in other units of the error.
    found = read_off(GRID, 1e-200 * (GRID[:, None] / truth) ** -slope, alpha=1e-200)
    np.testing.assert_allclose(found, truth, rtol=1e-9)


def test_the_slope_may_change_outside_of_the_crossing() -> None:
    n = [10.0, 100.0, 1000.0, 10000.0]
    # From 100 to 1000 the error falls from 4 to 1/4: it is 1 half-way.
    assert read_off(n, [1e9, 4.0, 0.25, 0.0]) == pytest.approx([10**2.5])
    assert read_off(n, [np.inf, 4.0, 0.25, 1e-300]) == pytest.approx([10**2.5])
    # An error of exactly alpha is good, and the crossing is at that point.
    assert read_off(n, [9.0, 4.0, 1.0, 0.5]) == pytest.approx([1000.0])


@pytest.mark.parametrize("slope", [4.1, 7.0, 50.0])
def test_at_a_threshold_the_answer_is_anywhere_between_two_points(slope: float) -> None:
    """An error that falls faster than n^-4 follows no power law."""
    n, where = np.array([10.0, 20.0, 40.0, 80.0]), np.array([0.5, 0.01, 0.3, 0.99])
    columns = np.ones(4)
    found = read_off(n, np.outer((n / 30) ** -slope, columns), between=where)
    np.testing.assert_allclose(found, 20 * 2**where)
    # A little less steep, and it does.
    found = read_off(n, np.outer((n / 30) ** -3.99, columns), between=where)
    np.testing.assert_allclose(found, 30.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [(np.inf, 0.5), (3.0, 0.0), (np.inf, 0.0), (1e300, 1e-300), (np.inf, 1.0)],
)
def test_failures_and_errors_of_zero_follow_no_power_law(before: float, after: float) -> None:
    n = [10.0, 20.0, 40.0]
    for where in (0.1, 0.5, 0.8):
        found = read_off(n, [np.inf, before, after], between=where)
        assert found == pytest.approx([20 * 2**where])


def test_replicates_between_the_same_points_are_read_off_as_the_curve_is() -> None:
    """Lest an interval mix two ways of reading that differ."""
    n, where = np.array([10.0, 20.0, 40.0]), np.array([0.5, 0.1, 0.9])
    gentle, steep = (n / 30) ** -3.9, (n / 30) ** -4.1
    found = read_off(n, np.stack([gentle, steep, gentle], axis=1), between=where)
    assert found == pytest.approx([30.0] * 3)
    found = read_off(n, np.stack([steep, gentle, steep], axis=1), between=where)
    np.testing.assert_allclose(found, 20 * 2**where)
    # Between other points they speak for themselves, and failures follow no power law anywhere.
    other = (n / 15) ** -4.1
    failing = np.array([np.inf, np.inf, 0.5])
    found = read_off(n, np.stack([gentle, other, failing], axis=1), between=where)
    assert found == pytest.approx([30.0, 10 * 2**0.1, 20 * 2**0.9])


def test_curves_that_rise_again() -> None:
    """The answer is where the last bad point ends, not where the first good one begins."""
    n = np.array([10.0, 20.0, 40.0, 80.0, 160.0])
    rises = [2.0, 0.5, 2.0, 0.5, 0.25]
    assert read_off(n, rises) == pytest.approx([40 * math.sqrt(2)])
    assert read_off(n, [2.0, 0.5, np.inf, 0.5, 0.25], between=0.7) == pytest.approx([40 * 2**0.7])
    # Bad at the end: whatever came before, nothing is known.
    for last in (1.0001, np.inf):
        assert np.isnan(read_off(n, [0.5, 0.5, 0.5, 0.5, last])[0])


def test_answers_outside_of_the_grid_are_no_numbers() -> None:
    n = [10.0, 100.0, 1000.0]
    for curve in ([0.9, 0.1, 0.01], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]):  # below 10
        assert np.isnan(read_off(n, curve)[0])
    for curve in ([9.0, 5.0, 1.1], [np.inf] * 3):  # beyond 1000
        assert np.isnan(read_off(n, curve)[0])
    # In the same call, each replicate by itself.
    table = np.array([[0.9, 4.0, 9.0], [0.1, 1.0, 3.0], [0.01, 0.25, 2.0]])
    found = read_off(n, table)
    assert np.isnan(found).tolist() == [True, False, True]
    assert found[1] == pytest.approx(100.0)


# What data give.


def rows(grid: Floats, **labels: Any) -> pd.DataFrame:
    """A summary's rows of one curve."""
    cell = {
        "distribution": "d",
        "family": "f",
        "k": 2.0,
        "estimator": "e",
        "privacy": "pure",
        "epsilon": 1.0,
        "delta": np.nan,
        "rho": np.nan,
    }
    return pd.DataFrame([{**cell, **labels, "n": int(n)} for n in grid])


def test_the_table_of_exact_curves() -> None:
    """Errors without spread: the answer is exact for every alpha and so is its interval."""
    one = rows(GRID, estimator="one", series="s", radius=7.0)
    two = rows(GRID, estimator="two", series="s", radius=9.0)
    both = pd.concat([one, two]).sample(frac=1, random_state=0).reset_index(drop=True)
    scale = np.where(both["estimator"] == "one", 1.0, 5.0)
    errors = [np.full(20, s * n**-0.5) for s, n in zip(scale, both["n"], strict=True)]
    alphas = [0.3, 0.03, 1e-9]
    table, draws = sample_complexity(both, errors, alphas, BETA, shared=True)
    assert len(table) == len(draws) == 6
    for row, replicates in zip(table.to_dict("records"), draws, strict=True):
        truth = ((1.0 if row["estimator"] == "one" else 5.0) / row["alpha"]) ** 2
        assert (row["family"], row["privacy"], row["beta"]) == ("f", "pure", BETA)
        assert (row["series"], row["radius"]) == ("s", 7.0 if row["estimator"] == "one" else 9.0)
        if row["alpha"] < 1e-6:  # beyond the grid
            assert np.isnan([row["samples"], row["low"], row["high"], *replicates]).all()
        else:
            for found in (row["samples"], row["low"], row["high"], *replicates):
                assert found == pytest.approx(truth, rel=1e-3)  # n is rounded
    assert table["alpha"].tolist() == alphas * 2


def test_the_worst_member_counts() -> None:
    """Of two members each is the worst somewhere: the curve is the larger error's."""
    grid = np.array([10, 100, 1000, 10000.0])
    a = np.array([9.0, 1.5, 0.1, 0.2])
    b = np.array([2.0, 3.0, 0.4, 0.1])
    both = pd.concat([rows(grid, distribution="f/a"), rows(grid, distribution="f/b")])
    errors = [np.full(30, q) for q in (*a, *b)]
    table, _ = sample_complexity(both.reset_index(drop=True), errors, [1.0], BETA, shared=True)
    # From 3 at 100 to 0.4 at 1000.
    wanted = 100 * 10 ** (math.log(3) / math.log(3 / 0.4))
    assert table["samples"].tolist() == pytest.approx([wanted])
    # At a threshold, too: only member b fails at 100, in 4 of 10 trials.
    errors = [np.where(np.arange(10) < count, np.nan, 0.1) for count in (9, 1, 0, 0, 9, 4, 0, 0)]
    table, _ = sample_complexity(both.reset_index(drop=True), errors, [1.0], BETA, shared=True)
    assert table["samples"].tolist() == pytest.approx([10**2.5])


@pytest.mark.parametrize("beta", [0.5, 0.1, 0.02])
def test_the_quantile_is_that_of_beta(beta: float) -> None:
    """Errors (i + 1/2)/trials / n: the smallest n has at most a share beta above alpha."""
    trials, alpha = 200, 1e-3
    grid = np.geomspace(10, 10000, 7)
    errors = [(np.arange(trials) + 0.5) / trials / np.round(n) for n in grid.astype(int)]
    table, _ = sample_complexity(rows(grid), errors, [alpha], beta, shared=True)
    rank = order_statistic(1 - beta, trials)
    assert table["samples"].iloc[0] == pytest.approx((rank - 0.5) / trials / alpha, rel=1e-9)


def test_an_unresolved_jump_is_covered_by_the_interval() -> None:
    """Everything fails at 20 and works at 40: only that the answer is between is known."""
    grid = np.array([10.0, 20.0, 40.0, 80.0])
    errors = [np.full(100, np.inf if n <= 20 else 1e-6) for n in grid]
    table, draws = sample_complexity(rows(grid), errors, [1.0], BETA, shared=True)
    row = table.iloc[0]
    assert row["samples"] == pytest.approx(20 * math.sqrt(2))
    assert row["low"] < 20 * 2**0.05
    assert row["high"] > 20 * 2**0.95
    # Uniform in ln n. Kolmogorov-Smirnov test with false-alarm probability 1e-6.
    assert stats.kstest(np.log2(draws[0] / 20), "uniform").pvalue > 1e-6


def test_another_order_or_company_changes_no_number() -> None:
    rng = np.random.default_rng(0)
    grid = np.array([10.0, 100.0, 1000.0])
    errors = [rng.exponential(size=50) * 9 / math.sqrt(n) for n in grid]
    others = [rng.exponential(size=50) * 3 / math.sqrt(n) for n in grid]
    table, draws = sample_complexity(rows(grid), errors, [1.0], BETA, shared=True)
    more = pd.concat([rows(grid, estimator="a"), rows(grid)[::-1]]).reset_index(drop=True)
    beside, more_draws = sample_complexity(more, [*others, *errors[::-1]], [1.0], BETA, shared=True)
    pd.testing.assert_frame_equal(beside[beside["estimator"] == "e"].reset_index(drop=True), table)
    np.testing.assert_array_equal(more_draws[1], draws[0])


# What rows have in common.


def test_rows_on_the_same_data_resample_the_same_trials() -> None:
    grid = np.array([10.0, 100.0])
    noise = np.random.default_rng(1).permutation(200).astype(float)
    frames = [rows(grid, estimator=e, epsilon=eps) for e in "ab" for eps in (0.1, 1.0)]
    table = pd.concat(frames).reset_index(drop=True)
    errors = [noise] * len(table)
    for shared in (True, False):
        drawn = np.stack(list(resampled(table, errors, shared=shared, draws=50)))
        assert drawn.shape == (8, 51, 200)
        assert np.all(drawn[:, 0] == noise)
        about = ["n"] if shared else ["n", "epsilon"]
        names = table[about].apply(tuple, axis=1).tolist()
        for i, j in np.ndindex(8, 8):
            same = np.array_equal(drawn[i, 1:], drawn[j, 1:])
            assert same == (names[i] == names[j])
        # Every record is drawn as often as any other. A chi-squared test of all counts with
        # false-alarm probability 1e-6; rows that share their draws count once.
        once = drawn[[names.index(name) for name in sorted(set(names))], 1:]
        counts = np.bincount(once.astype(int).ravel(), minlength=200)
        assert stats.chisquare(counts).pvalue > 1e-6


def test_failures_stay_failures_in_resamples() -> None:
    errors = [np.array([1.0, np.nan, np.inf, -np.inf, 2.0] * 20)]
    drawn = next(resampled(rows(np.array([10.0])), errors, shared=True, draws=30))
    assert set(np.unique(drawn)) == {1.0, 2.0, np.inf}
    assert 0.4 < np.isinf(drawn[1:]).mean() < 0.8  # 2000 draws at 0.6


def test_joint_replicates_are_quantiles_of_the_resamples() -> None:
    rng = np.random.default_rng(2)
    table = pd.concat([rows(GRID[:3], estimator=e) for e in "ab"]).reset_index(drop=True)
    errors = [rng.exponential(size=37) for _ in range(6)]
    for q in (0.9, 0.5):
        found = joint_replicates(table, errors, shared=True, q=q)
        wanted = [
            np.quantile(drawn[1:], q, axis=1, method="inverted_cdf")
            for drawn in resampled(table, errors, shared=True)
        ]
        np.testing.assert_array_equal(found, wanted)


# Whether intervals hold the truth.


def smooth(run: int, trials: int = 300) -> tuple[float, float, float]:
    """Estimate and interval over the truth, for an exponential error of scale n^(-1/2)."""
    rng = np.random.default_rng([13, run])
    grid = np.array([100, 300, 1000, 3000, 10000])
    truth = rng.uniform(500, 2000)  # where the 0.9 quantile of the error is 1
    errors = [
        rng.exponential(size=trials) / math.log(10) * math.sqrt(truth / n) for n in grid.tolist()
    ]
    table, _ = sample_complexity(rows(grid, estimator=f"e{run}"), errors, [1.0], BETA, shared=True)
    row = table.iloc[0]
    return row["samples"] / truth, row["low"] / truth, row["high"] / truth


def threshold(run: int, power: float, step: float, trials: int = 150) -> tuple[float, float, float]:
    """The same where P(failure) is 1/(1 + 9 (n/n*)^power)."""
    rng = np.random.default_rng([17, run])
    grid = np.unique(np.round(1000 * step ** np.arange(-4.0, 5.0)))
    truth = rng.uniform(1000 / step, 1000 * step)
    fails = special.expit(-math.log(9) - power * np.log(grid / truth))
    errors = [np.where(rng.random(trials) < p, 1e9, 0.01) for p in fails]
    table, _ = sample_complexity(rows(grid, estimator=f"e{run}"), errors, [1.0], BETA, shared=True)
    row = table.iloc[0]
    return row["samples"] / truth, row["low"] / truth, row["high"] / truth


def covered(found: list[tuple[float, float, float]], width: float = 1.0) -> float:
    """The share of intervals, times `width` on the scale of ln n, that hold the truth."""
    value, low, high = np.log(np.array(found)).T
    return float(
        np.mean((value + width * (low - value) <= 0) & (value + width * (high - value) >= 0))
    )


def test_intervals_on_a_smooth_curve_cover() -> None:
    # At a true coverage of 0.94, fewer than 0.86 of 120 has probability 3e-4; at one of 0.95, all
    # of them have 2e-3. The seeds are fixed.
    found = [smooth(run) for run in range(120)]
    assert 0.86 <= covered(found) < 1, covered(found)
    assert covered(found, width=0.5) < 0.86
    values = np.log(np.array(found)[:, 0])
    # The rank 270 of 300 is the quantile at 270/301 on average: 1 per cent low, twice that in
    # n. A z-test with false-alarm probability 1e-6 of a bias beyond another 2 per cent.
    limit = stats.norm.isf(1e-6) * values.std() / math.sqrt(len(values))
    assert abs(values.mean()) <= 0.04 + limit


@pytest.mark.parametrize(
    ("power", "step"), [(12.0, 1.1), (30.0, 1.09), (100.0, 1.09), (2000.0, 1.5)]
)
def test_intervals_at_a_threshold_cover(power: float, step: float) -> None:
    """Failures cease over several points of the grid, over one or two, or between two."""
    found = [threshold(run, power, step) for run in range(40)]
    # At a true coverage of 0.95, fewer than 33 of 40 has probability 7e-4; fixed seeds.
    assert covered(found) >= 33 / 40, covered(found)
    # No wider than the steps of the grid on both sides, or than what the trials leave open: at
    # beta the share of failures falls by beta (1 - beta) power per unit of ln n, and is known
    # to within +-2 sqrt(beta (1 - beta)/trials).
    low, high = np.log(np.array(found))[:, 1:].T
    unknown = 4 / math.sqrt(BETA * (1 - BETA) * 150) / power
    assert np.median(high - low) <= 2 * math.log(step) + unknown
