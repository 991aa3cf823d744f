"""Exact values against the estimators that they are not computed from."""

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
    SignedTwoPoint,
    StudentT,
    TwoPoint,
)
from dpbench.estimators import (
    BinaryMean,
    BoundedMean,
    ClippedMean,
    CoinPressCovariance,
    CoinPressMean,
    CoordinateWise,
    Estimator,
    ExponentialCoarseMean,
    FriendlyCoreMean,
    HeavyTailedMean,
    KarwaVadhanMean,
    KSU20BallMean,
    KSU20Mean,
    KSU20Range,
    LearnedGaussian,
    LocalMean,
    NaiveGaussianMean,
    ShrinkingIntervals,
    SubsampleAggregate,
    WhitenedCoinPressMean,
)
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.theory.exact import exact, exact_miss

TRIALS = 20_000
PURE, RHO, APPROX = PureDP(0.5), ZCDP(0.1), ApproxDP(1.0, 1e-6)
NORMAL, VECTORS = Gaussian(location=0.3), MultivariateGaussian(d=3, norm=1.0)
RARE = TwoPoint(p=0.02, k=2, location=0.3)
LONG, THREE = SignedTwoPoint(d=8, p=0.01, k=2), MultivariateGaussian(d=3)

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
    (ShrinkingIntervals(radius=50, rounds=3), NORMAL, 400, PURE, "noise"),
    (CoinPressMean(radius=50, rounds=3), VECTORS, 200, APPROX, "noise"),
    (CoordinateWise(base=ClippedMean(lower=-1, upper=2)), VECTORS, 50, PURE, "noise"),
    (KSU20Mean(k=2, radius=5), NORMAL, 300, RHO, "noise"),
    (KSU20Mean(k=2, radius=1), RARE, 20_000, PureDP(0.01), "noise q90"),
    (KSU20Mean(k=2, radius=1, constants="paper", beta=0.9), RARE, 10**7, PURE, "q90"),
    (LearnedGaussian(radius=5, sigma=1), NORMAL, 400, PureDP(1.0), "noise q90"),
    (CoinPressMean(radius=5, rounds=2), NORMAL, 400, RHO, "noise q90 private_q90"),
    (FriendlyCoreMean(), MultivariateGaussian(d=2), 150, APPROX, "noise"),
    (SubsampleAggregate(buckets=20, lower=-1, upper=1, aggregate="mean"), NORMAL, 60, PURE,
     "noise q90"),
    (KSU20BallMean(k=2, radius=5), VECTORS, 400, RHO, "noise"),
    (KSU20BallMean(k=3, radius=5, outside="project"), VECTORS, 400, RHO, "noise"),
    (KSU20BallMean(k=2, radius=1), LONG, 10_000, RHO, "q90 private_q90"),
    (KSU20BallMean(k=2, radius=1, outside="project"), LONG, 10_000, RHO, "q90 private_q90"),
    (CoinPressCovariance(bound=3, rounds=4), THREE, 2000, ZCDP(0.5), "noise q90"),
    (WhitenedCoinPressMean(radius=3, bound=1), THREE, 2000, ZCDP(0.5), "noise"),
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
    few = isinstance(estimator, FriendlyCoreMean) or law is THREE
    rng, trials = np.random.default_rng(0), 2000 if few else TRIALS
    sample = law.sample(rng, trials, n)
    found = estimator.run(sample, Ledger(budget, rng))
    covariance = estimator.estimand == "covariance"
    parts = {
        "noise": found.value - found.before_noise,
        "q90": found.value - (law.covariance if covariance else law.target_of(sample)),
        "private_q90": found.value - (0 if covariance else sample.mean()),
    }
    for metric in metrics.split():
        size = np.linalg.norm(parts[metric].reshape(trials, -1), axis=1)
        column = "noise_q90" if metric == "noise" else metric
        bound = exact(column, estimator, law, n, budget)
        beyond = int(np.count_nonzero(size > bound))
        assert stats.binomtest(beyond, trials, 0.1).pvalue > 1e-6 / (3 * len(CASES)), metric


EDGE, T3 = Gaussian(), StudentT(tail_index=2.5, unit_moment=2)
MISSES: list[tuple[Estimator, Distribution, int, Budget, float]] = [
    (KarwaVadhanMean(radius=1e6), EDGE, 92, PureDP(1.0), 3.0),
    (KarwaVadhanMean(radius=1e6), EDGE, 18, ZCDP(0.5), 3.0),
    (KarwaVadhanMean(radius=None), EDGE, 115, ApproxDP(1.0, 1e-6), 3.0),
    (ExponentialCoarseMean(radius=1e6), EDGE, 105, PureDP(1.0), 3.0),
    (ExponentialCoarseMean(radius=1e6), EDGE, 40, ZCDP(0.5), 3.0),
    (KSU20Range(k=2, alpha=10 / 256, radius=2.0**40), T3, 85, PureDP(1.0), 512.0),
    (KSU20Range(k=2, alpha=10 / 256, radius=2.0**40), T3, 160, ZCDP(0.005), 512.0),
    (KSU20Range(k=2, alpha=10 / 256, radius=None), T3, 50, ApproxDP(1.0, 1e-6), 512.0),
    (FriendlyCoreMean(), MultivariateGaussian(d=2), 113, ApproxDP(1.0, 1e-6), 1e9),
    (FriendlyCoreMean(composition="zcdp"), MultivariateGaussian(d=2), 85, ApproxDP(1.0, 1e-6), 1e9),
]


@pytest.mark.parametrize(("estimator", "law", "n", "budget", "reach"), MISSES, ids=name)
def test_how_often_a_coarse_step_misses(
    estimator: Estimator, law: Distribution, n: int, budget: Budget, reach: float
) -> None:
    # As above; all that is far off before the last noise, or is not there, is a miss.
    rng = np.random.default_rng(0)
    before = estimator.run(law.sample(rng, 3000, n), Ledger(budget, rng)).before_noise
    away = np.abs(before.reshape(3000, -1) - law.mean).max(axis=1)
    missed = int(np.count_nonzero(~(away <= reach * (1 + 1e-9))))
    share = exact_miss(estimator, law, n, budget)
    assert 0.02 < share < 0.98
    assert stats.binomtest(missed, 3000, share).pvalue > 1e-6 / len(MISSES)


VOTES = [
    (aggregate, budget)
    for aggregate in ("count", "exponential", "histogram")
    for budget in (PureDP(0.2), ZCDP(0.02))
]


@pytest.mark.parametrize(("aggregate", "budget"), VOTES, ids=name)
@pytest.mark.parametrize("location", [0.0, 1.0])
def test_how_often_votes_are_wrong(aggregate: str, budget: Budget, location: float) -> None:
    rng = np.random.default_rng(0)
    spec = {"kind": "subsample_test", "buckets": 21, "aggregate": aggregate}
    estimator = Estimator.build(spec, "estimator")
    law = Gaussian(location=location, scale=10)
    found = estimator.run(law.sample(rng, TRIALS, 200), Ledger(budget, rng)).value
    wrong = int(np.count_nonzero(found != location))
    share = exact("mean_error", estimator, law, 200, budget)
    assert stats.binomtest(wrong, TRIALS, share).pvalue > 1e-6 / (2 * len(VOTES))
