"""Tests of the exact values of released intervals and guarantees, against the estimators."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import Distribution, Gaussian, Pareto, StudentT, TwoPoint
from dpbench.estimators import (
    CoinPressMean,
    Estimator,
    KarwaVadhanGaussian,
    KSU20Mean,
    KSU20RangeEstimate,
    ShrinkingIntervals,
)
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.theory.exact.value import exact
from tests.theory.exact.cases import name

TRIALS = 2000
NORMAL, WIDE = Gaussian(location=0.3), Gaussian(location=-2, scale=3)
TAILS, SKEWED = (
    StudentT(tail_index=2.5, standardised_moment=2),
    Pareto(tail_index=3.5, standardised_moment=3),
)
PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
ROUNDS = ShrinkingIntervals(radius=100, sigma=1, rounds=4)

CASES: list[tuple[str, Estimator, Distribution, int, Budget]] = [
    ("width_q50", ROUNDS, NORMAL, 400, PURE),
    ("width_q50", ShrinkingIntervals(radius=100, sigma=1, rounds=4, reported_round=2), NORMAL,
     400, APPROX),
    ("width_q50", CoinPressMean(radius=100, sigma=1, rounds=3), NORMAL, 400, RHO),
    ("width_q50", CoinPressMean(radius=100, rounds=3, sigma=3, reported_round=1), WIDE, 400,
     APPROX),
    ("width_q50", KSU20RangeEstimate(k=2, scale=1, alpha=0.05, radius=1e3), TAILS, 3000, PURE),
    ("width_q50", KSU20RangeEstimate(k=3, scale=1, alpha=0.05, radius=9, constants="practical"),
     SKEWED, 3000, RHO),
    ("error_over_guarantee_q90", KSU20RangeEstimate(k=2, scale=1, alpha=0.04, radius=1000), TAILS,
     3000, PURE),  # the mean is at an edge of a bin
    ("error_over_guarantee_q90", KSU20RangeEstimate(k=3, scale=1, alpha=0.05, radius=1e3), SKEWED,
     3000, APPROX),
    ("error_over_guarantee_q90", KSU20Mean(k=2, scale=1, radius=1, constants="paper", beta=0.9),
     TwoPoint(p=1e-5, k=2, location=0.3), 2 * 10**9, PURE),
    ("miss_rate", ShrinkingIntervals(radius=3, sigma=1, rounds=1), NORMAL, 300, PURE),
    ("miss_rate", ShrinkingIntervals(radius=100, sigma=1, rounds=4, reported_round=1), NORMAL,
     300, RHO),
    ("miss_rate", CoinPressMean(radius=5, sigma=1, rounds=1, b=0.5), NORMAL, 200, RHO),
    ("tv_q90", KarwaVadhanGaussian(radius=10, sigma=3), WIDE, 1000, PURE),
    ("tv_q90", KarwaVadhanGaussian(radius=10), WIDE, 10_000, RHO),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "estimator", "law", "n", "budget"), CASES, ids=name)
def test_what_estimators_state(
    metric: str, estimator: Estimator, law: Distribution, n: int, budget: Budget
) -> None:
    # Counts of trials are binomial: all cases raise a false alarm with probability 1e-6 together.
    rng = np.random.default_rng(0)
    estimate = estimator.run(law.sample(rng, TRIALS, n), Ledger(budget, rng))
    expected = exact(metric, estimator, law, n, budget)
    error, count = np.abs(estimate.value - law.target), 0
    if metric == "width_q50":
        assert estimate.interval is not None
        widths = estimate.interval[1] - estimate.interval[0]
        assert widths == pytest.approx(np.full(TRIALS, expected), rel=1e-6)
        return
    if metric == "miss_rate":
        assert estimate.interval is not None
        low, high = estimate.interval
        count, chance = int(np.sum((law.target < low) | (law.target > high))), expected
    else:
        if metric == "tv_q90":
            assert estimate.scale is not None
            values = law.distance_to_gaussian(estimate.value, estimate.scale)
        else:
            assert estimate.accuracy is not None
            values = error / estimate.accuracy
            if np.ptp(values) < 1e-9:  # the position of the mean in its bin is not random
                assert values == pytest.approx(np.full(TRIALS, expected), rel=1e-6)
                return
        assert values is not None
        count, chance = int(np.sum(values > expected)), 0.1
    assert stats.binomtest(count, TRIALS, chance).pvalue > 1e-6 / len(CASES)


UNKNOWN: list[tuple[str, Estimator, Distribution, int, Budget]] = [
    ("miss_rate", ROUNDS, NORMAL, 400, PURE),  # records are clipped after a miss
    ("width_q50", ROUNDS, WIDE, 400, PURE),
    ("width_q50", ROUNDS, NORMAL, 5, PURE),  # no round makes the interval narrower
    ("error_over_guarantee_q90", ROUNDS, NORMAL, 400, PURE),
    (
        "error_over_guarantee_q90",
        KSU20RangeEstimate(k=2, scale=1, alpha=0.05, radius=1.0),
        NORMAL,
        3000,
        PURE,
    ),  # the mean is in the middle of a bin
    ("outside_q90", KSU20RangeEstimate(k=2, scale=1, alpha=0.05, radius=1e3), TAILS, 3000, PURE),
    (
        "error_over_guarantee_q90",
        KSU20Mean(k=2, scale=1, radius=1, constants="paper"),
        TAILS,
        10**6,
        PURE,
    ),
    ("tv_q90", KarwaVadhanGaussian(radius=10, sigma=4), WIDE, 1000, PURE),
    ("tv_q90", KarwaVadhanGaussian(radius=10), TAILS, 10_000, RHO),
]


@pytest.mark.parametrize(("metric", "estimator", "law", "n", "budget"), UNKNOWN, ids=name)
def test_what_is_not_known(
    metric: str, estimator: Estimator, law: Distribution, n: int, budget: Budget
) -> None:
    assert np.isnan(exact(metric, estimator, law, n, budget))
