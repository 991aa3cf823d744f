"""Exact values against closed forms, and against the estimators that they are not computed from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import (
    Bernoulli,
    Distribution,
    Gaussian,
    Hypercube,
    MultivariateGaussian,
    Pareto,
    TwoPoint,
)
from dpbench.estimators import (
    BinaryMean,
    BoundedMean,
    ClippedMean,
    CoinPressMean,
    CoordinateWise,
    Estimator,
    ExponentialCoarseMean,
    HeavyTailedMean,
    KarwaVadhanMean,
    KSU20BallMean,
    KSU20Mean,
    LocalMean,
    NaiveGaussianMean,
    ShrinkingIntervals,
    SubsampleAggregate,
)  # fmt: skip
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.theory.exact import exact

TRIALS = 20_000
PURE, RHO, APPROX = PureDP(0.5), ZCDP(0.1), ApproxDP(1.0, 1e-6)
NORMAL, VECTORS = Gaussian(location=0.3), MultivariateGaussian(d=3, norm=1.0)
RARE = TwoPoint(p=0.02, k=2, location=0.3)

CASES: list[tuple[Estimator, Distribution, int, Budget, str]] = [
    (BinaryMean(), Bernoulli(p=0.3), 100, PURE, "noise q90 private_q90"),
    (ClippedMean(lower=-1, upper=2), NORMAL, 50, APPROX, "noise q90 private_q90"),
    (ClippedMean(lower=-1, upper=2), VECTORS, 50, PURE, "noise"),
    (NaiveGaussianMean(radius=2), NORMAL, 60, RHO, "noise q90"),
    (HeavyTailedMean(k=2), RARE, 500, PureDP(0.1), "noise q90 private_q90"),
    (HeavyTailedMean(k=3, policy="rate"), RARE, 500, RHO, "noise q90 private_q90"),
    (HeavyTailedMean(k=2, policy="all", radius=1), RARE, 300, APPROX, "noise q90 private_q90"),
    (HeavyTailedMean(k=2), Pareto(tail_index=2.5, unit_moment=2), 1000, PureDP(0.1), "noise q90"),
    (LocalMean(k=2), RARE, 500, PURE, "noise q90 private_q90"),
    (BoundedMean(radius=2), Hypercube(d=4), 20, PURE, "noise q90"),
    (BoundedMean(radius=2, mechanism="l2"), Hypercube(d=4), 20, PURE, "noise q90"),
    (BoundedMean(radius=2), VECTORS, 20, APPROX, "noise"),
    (KarwaVadhanMean(radius=5), NORMAL, 200, PURE, "noise q90"),
    (ExponentialCoarseMean(radius=5), NORMAL, 200, RHO, "noise q90"),
    (ShrinkingIntervals(radius=50, rounds=3), NORMAL, 400, PURE, "noise q90"),
    (CoinPressMean(radius=50, rounds=3), VECTORS, 200, APPROX, "noise"),
    (CoordinateWise(base=ClippedMean(lower=-1, upper=2)), VECTORS, 50, PURE, "noise"),
    (KSU20Mean(k=2, radius=5), NORMAL, 300, RHO, "noise"),
    (KSU20BallMean(k=2, radius=5), VECTORS, 400, RHO, "noise"),
    (KSU20BallMean(k=3, radius=5, outside="project"), VECTORS, 400, RHO, "noise"),
    (SubsampleAggregate(buckets=20, lower=-5, upper=5, aggregate="mean"), VECTORS, 40, PURE,
     "noise"),
]  # fmt: skip


def name(value: object) -> str:
    return value if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize(("estimator", "law", "n", "budget", "metrics"), CASES, ids=name)
def test_what_estimators_do(
    estimator: Estimator, law: Distribution, n: int, budget: Budget, metrics: str
) -> None:
    # The trials beyond the 0.9 quantile are binomial: all cases raise a false alarm with
    # probability 1e-6 together.
    rng = np.random.default_rng(0)
    sample = law.sample(rng, TRIALS, n)
    found = estimator.run(sample, Ledger(budget, rng))
    parts = {
        "noise": found.value - found.before_noise,
        "q90": found.value - law.target_of(sample),
        "private_q90": found.value - sample.mean(),
    }
    for metric in metrics.split():
        size = np.linalg.norm(parts[metric].reshape(TRIALS, -1), axis=1)
        column = "noise_q90" if metric == "noise" else metric
        bound = exact(column, estimator, law, n, budget)
        beyond = int(np.count_nonzero(size > bound))
        assert stats.binomtest(beyond, TRIALS, 0.1).pvalue > 1e-6 / (3 * len(CASES)), metric
