"""Exact values against the estimators that they are not computed from."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from dpbench.distributions import (
    Bernoulli,
    ContaminatedGaussian,
    Distribution,
    Gaussian,
    Hypercube,
    MultivariateContaminatedGaussian,
    MultivariateGaussian,
    Pareto,
    SignedTwoPoint,
    StretchedGaussian,
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
    GaussianScoreMean,
    GradientDescentMean,
    HeavyTailedMean,
    InverseSensitivity,
    KarwaVadhanMean,
    KSU20BallMean,
    KSU20Mean,
    KSU20Range,
    LearnedGaussian,
    LocalMean,
    NaiveGaussianMean,
    PlanMean,
    ShiftedClippedMean,
    ShrinkingIntervals,
    SmoothTrimmedMean,
    SubsampleAggregate,
    SubsampleTest,
    WhitenedCoinPressMean,
)
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.theory.exact.choices import overtaken
from dpbench.theory.exact.last_step import Histogram
from dpbench.theory.exact.noise import Gaussian as Normal
from dpbench.theory.exact.noise import Laplace, Noise, Radial, additive
from dpbench.theory.exact.value import exact, exact_miss
from tests.support import hockey_stick

TRIALS = 4000
PURE, RHO, MU, APPROX = PureDP(0.5), ZCDP(0.1), GDP(0.5), ApproxDP(1.0, 1e-6)
STAIRS = PureDP(4.0, "staircase")
NORMAL, VECTORS = Gaussian(location=0.3), MultivariateGaussian(d=3, norm=1.0)
TUNED_BALL = KSU20BallMean(k=3, radius=1, outside="project", constants="tuned")
RESPONSE = LocalMean(k=2, mechanism="randomised_response")
RARE = TwoPoint(p=0.02, k=2, location=0.3)
TRIMMED = SmoothTrimmedMean(lower=-100, upper=1e3, trim=20, dilation=0.5)
OUTLIERS = MultivariateContaminatedGaussian(d=2, eta=0.15, gap=1e3)
FEW_OUTLIERS = MultivariateContaminatedGaussian(d=2, eta=0.015, gap=1e3)
EIGHT, STRETCHED = MultivariateGaussian(d=8), StretchedGaussian(d=8, power=2.0)
LONG, THREE = SignedTwoPoint(d=8, p=0.01, k=2), MultivariateGaussian(d=3)

CASES: list[tuple[Estimator, Distribution, int, Budget, str]] = [
    (BinaryMean(), Bernoulli(p=0.3), 100, PURE, "noise q90 private_q90"),
    (ClippedMean(lower=-1, upper=2), NORMAL, 50, APPROX, "noise q90 private_q90"),
    (ClippedMean(lower=-1, upper=2), VECTORS, 50, PURE, "noise"),
    (ClippedMean(lower=-1, upper=2), NORMAL, 50, STAIRS, "noise q90"),
    (LocalMean(k=2), RARE, 500, STAIRS, "noise"),
    (NaiveGaussianMean(radius=2), NORMAL, 60, RHO, "noise q90"),
    (ShrinkingIntervals(radius=50, rounds=3), NORMAL, 400, MU, "noise"),
    (CoinPressMean(radius=50, rounds=3), VECTORS, 200, MU, "noise"),
    (GradientDescentMean(clip=7, steps=8), NORMAL, 100, RHO, "noise q90 private_q90"),
    (GradientDescentMean(clip=12, steps=3), VECTORS, 100, APPROX, "noise q90"),
    (KSU20BallMean(k=2, radius=5), VECTORS, 400, MU, "noise"),
    (KSU20Mean(k=2, radius=5), NORMAL, 300, MU, "noise"),
    (HeavyTailedMean(k=2), RARE, 500, PureDP(0.1), "noise q90 private_q90"),
    (HeavyTailedMean(k=3, policy="rate"), RARE, 500, RHO, "noise q90 private_q90"),
    (HeavyTailedMean(k=2, policy="all", radius=1), RARE, 300, APPROX, "noise q90 private_q90"),
    (HeavyTailedMean(k=2), Pareto(tail_index=2.5, unit_moment=2), 1000, PureDP(0.1), "noise q90"),
    (LocalMean(k=2), RARE, 500, PURE, "noise q90 private_q90"),
    (LocalMean(k=2, policy="rate"), RARE, 500, PURE, "noise q90 private_q90"),
    (RESPONSE, RARE, 500, PureDP(0.1), "noise q90 private_q90"),
    (ClippedMean(lower=-1, upper=2), VECTORS, 50, RHO, "noise"),
    (BoundedMean(radius=2), Hypercube(d=4), 20, PURE, "noise q90"),
    (BoundedMean(radius=2, mechanism="l2"), Hypercube(d=4), 20, PURE, "noise q90"),
    (BoundedMean(radius=2), VECTORS, 20, APPROX, "noise"),
    (KarwaVadhanMean(radius=5), NORMAL, 200, PURE, "noise q90"),
    (ExponentialCoarseMean(radius=5), NORMAL, 200, RHO, "noise q90"),
    (GaussianScoreMean(radius=5), NORMAL, 100, RHO, "q90"),
    (GaussianScoreMean(radius=5, sigma=2), Gaussian(location=-4, scale=2), 150, PURE, "q90"),
    (ShrinkingIntervals(radius=50, rounds=3), NORMAL, 400, PURE, "noise"),
    (CoinPressMean(radius=50, rounds=3), VECTORS, 200, APPROX, "noise"),
    (CoordinateWise(base=ClippedMean(lower=-1, upper=2)), VECTORS, 50, PURE, "noise"),
    (KSU20Mean(k=2, radius=5), NORMAL, 300, RHO, "noise"),
    (KSU20Mean(k=2, radius=1), RARE, 20_000, PureDP(0.01), "noise q90"),
    (KSU20Mean(k=2, radius=1, constants="tuned"), RARE, 20_000, PureDP(0.01), "noise q90"),
    (KSU20Mean(k=2, radius=1, constants="paper", beta=0.9), RARE, 10**7, PURE, "q90"),
    (LearnedGaussian(radius=5, sigma=1), NORMAL, 400, PureDP(1.0), "noise q90"),
    (CoinPressMean(radius=5, rounds=2), NORMAL, 400, RHO, "noise q90 private_q90"),
    (FriendlyCoreMean(), MultivariateGaussian(d=2), 250, APPROX, "noise"),
    (FriendlyCoreMean(threshold=0), OUTLIERS, 400, ApproxDP(1.0, 1e-6, "analytic"), "noise"),
    (SubsampleAggregate(buckets=300, aggregate="friendly_core", friends_within=2), FEW_OUTLIERS,
     1500, APPROX, "noise"),
    (SubsampleAggregate(buckets=20, lower=-1, upper=1, aggregate="mean"), NORMAL, 60, PURE,
     "noise q90"),
    (KSU20BallMean(k=2, radius=5), VECTORS, 400, RHO, "noise"),
    (KSU20BallMean(k=3, radius=5, outside="project"), VECTORS, 400, RHO, "noise"),
    (KSU20BallMean(k=2, radius=5), VECTORS, 400, PURE, "noise"),
    (KSU20BallMean(k=3, radius=5, constants="tuned"), VECTORS, 400, PURE, "noise"),
    (KSU20BallMean(k=2, radius=1), LONG, 10_000, RHO, "q90 private_q90"),
    (TUNED_BALL, LONG, 10_000, RHO, "noise q90 private_q90"),
    (KSU20BallMean(k=2, radius=1, outside="project"), LONG, 10_000, RHO, "q90 private_q90"),
    (CoinPressCovariance(bound=3, rounds=4), THREE, 2000, ZCDP(0.5), "noise q90"),
    (CoinPressCovariance(bound=2, rounds=1), THREE, 1000, ZCDP(0.5), "noise"),
    (CoinPressCovariance(bound=1), MultivariateGaussian(d=1), 500, ZCDP(0.5), "noise q90"),
    (WhitenedCoinPressMean(radius=3, bound=1), THREE, 2000, ZCDP(0.5), "noise"),
    (WhitenedCoinPressMean(radius=3, bound=4, covariance_rounds=1), THREE, 2000, ZCDP(0.5),
     "noise"),
    (ShiftedClippedMean(radius=60), EIGHT, 150, ZCDP(2.0), "noise"),
    (PlanMean(radius=20, steps=8), STRETCHED, 250, ZCDP(4.0), "noise"),
    (TRIMMED, RARE, 500, PureDP(0.3), "noise q90"),
    (TRIMMED, TwoPoint(p=0.05, k=2, sign=-1), 500, RHO, "noise q90"),
    (InverseSensitivity(lower=-1, upper=9), RARE, 500, PureDP(0.1), "noise q90"),
    (InverseSensitivity(lower=0, upper=1, resolution=0.01), Bernoulli(p=0.3), 200, RHO, "noise"),
    (KarwaVadhanMean(radius=1e300, sigma=0.01), Gaussian(scale=0.01), 400, APPROX, "noise q90"),
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
    few = isinstance(estimator, FriendlyCoreMean | CoinPressCovariance) or law in (
        THREE,
        EIGHT,
        STRETCHED,
        FEW_OUTLIERS,
    )
    rng, trials = np.random.default_rng(0), 1000 if few else TRIALS
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


CLOSE, FAR = PureDP(1.0), MultivariateGaussian(d=3, norm=9.0)
FREE = KarwaVadhanMean(radius=None)
UNKNOWN: list[tuple[str, Estimator, Distribution, int, Budget]] = [
    # a rare miss of a private centre is as large as R
    ("mean_error", KarwaVadhanMean(radius=1e6), NORMAL, 150, CLOSE),
    ("noise_q90", GaussianScoreMean(radius=5), NORMAL, 150, CLOSE),
    # records that the estimator does not expect there, or not as wide
    ("q90", CoinPressMean(radius=3), FAR, 1000, RHO),
    ("q90", GaussianScoreMean(radius=5), Gaussian(scale=0.5), 1000, CLOSE),
    ("q90", GradientDescentMean(clip=6), NORMAL, 1000, RHO),
    ("q90", CoinPressMean(radius=0), FAR, 1000, RHO),
    ("q90", CoinPressMean(radius=3), MultivariateGaussian(d=10, scale=1.7), 1000, RHO),
    ("q90", CoinPressCovariance(bound=1), FAR, 2000, RHO),
    ("q90", CoinPressCovariance(bound=0.5, rounds=1), THREE, 2000, RHO),
    ("noise_q90", WhitenedCoinPressMean(radius=3, bound=1e6), THREE, 2000, RHO),
    ("mean_error", SubsampleTest(buckets=11), NORMAL, 100, CLOSE),
    # a histogram that releases nothing, or another bin
    ("noise_q90", FREE, ContaminatedGaussian(eta=0.01, gap=3), 20, APPROX),
    ("noise_q90", CoordinateWise(base=FREE), VECTORS, 60, APPROX),
    ("noise_q90", KSU20BallMean(k=2, radius=None), THREE, 60, APPROX),
    ("q90", KSU20Mean(k=2, radius=5, alpha=1), Gaussian(location=2.7), 60, CLOSE),
    # too few records, or too few of them that are not zero
    (
        "q90",
        KSU20BallMean(k=2, radius=1, outside="project"),
        SignedTwoPoint(d=8, p=4e-5, k=2),
        10_000,
        ZCDP(500.0),
    ),
    ("noise_q90", KSU20Mean(k=2, radius=3), NORMAL, 1, CLOSE),
    ("noise_q90", KSU20BallMean(k=2, radius=3), THREE, 1, RHO),
    ("noise_q90", WhitenedCoinPressMean(radius=3, bound=1), THREE, 1, RHO),
    ("q90", LearnedGaussian(radius=3), NORMAL, 1, CLOSE),
    ("mean_error", SubsampleTest(buckets=11), Gaussian(location=1), 5, CLOSE),
    # no variance; noise that is not Gaussian
    ("q90", HeavyTailedMean(k=2), StudentT(tail_index=1.5), 1000, CLOSE),
    # outliers that may be friends, or the core
    ("noise_q90", FriendlyCoreMean(), replace(OUTLIERS, gap=9.0), 1000, APPROX),
    ("noise_q90", FriendlyCoreMean(threshold=0), replace(OUTLIERS, eta=0.5), 1000, APPROX),
]


@pytest.mark.parametrize(("metric", "estimator", "law", "n", "budget"), UNKNOWN, ids=name)
def test_what_is_not_known(
    metric: str, estimator: Estimator, law: Distribution, n: int, budget: Budget
) -> None:
    assert np.isnan(exact(metric, estimator, law, n, budget))


@pytest.mark.parametrize(
    ("estimator", "law"),
    [
        (KarwaVadhanMean(radius=1e6), Gaussian(scale=100)),
        (KarwaVadhanMean(radius=10), Gaussian(location=100)),
        (ExponentialCoarseMean(radius=1e6), Gaussian(scale=100)),
        (KSU20Range(k=2, alpha=1, radius=100, constants="practical"), Gaussian(scale=3)),
        (LearnedGaussian(radius=10), Gaussian()),
    ],
    ids=name,
)
def test_misses_of_other_records_are_not_known(estimator: Estimator, law: Distribution) -> None:
    assert np.isnan(exact_miss(estimator, law, 150, CLOSE))


def test_the_ends_of_the_numbers() -> None:
    wide, wider = (
        exact("noise_q90", CoinPressMean(radius=radius, rounds=2), NORMAL, 100, RHO)
        for radius in (1e200, 1e300)
    )
    assert wider == pytest.approx(1e100 * wide)
    law = Gaussian(scale=1e-10)
    assert exact("noise_q90", ShrinkingIntervals(radius=1e300, sigma=1e-10), law, 10**4, RHO) > 0
    assert exact("noise_q90", KarwaVadhanMean(radius=0), NORMAL, 1000, CLOSE) > 0


@pytest.mark.parametrize(
    ("noise", "law"),
    [(Normal(0.7), stats.norm(scale=0.7)), (Laplace(0.7), stats.laplace(scale=0.7))],
    ids=name,
)
def test_noise_by_quadrature(noise: Noise, law: Any) -> None:
    nodes, weights = np.polynomial.legendre.leggauss(200)
    angles, weights = np.pi / 4 * (nodes + 1), np.pi / 4 * weights

    def within(r: float) -> float:  # of two: |x| = r sin(angle), the other at most r cos(angle)
        x, most = r * np.sin(angles), r * np.cos(angles)
        return float(4 * weights @ (law.pdf(x) * (law.cdf(most) - 0.5) * most))

    for c in (0.0, 0.3, -2.0):
        ends = sorted([-30, 0, -c, 30])
        parts = [
            integrate.quad(lambda z, c=c: abs(c + z) * law.pdf(z), *both)[0]
            for both in itertools.pairwise(ends)
        ]
        assert noise.distance(np.array(c)) == pytest.approx(sum(parts), rel=1e-6)
    assert noise.cdf(np.array([-1.0, 0.4])) == pytest.approx(law.cdf([-1.0, 0.4]))
    assert (noise.above(0.02), noise.variance) == pytest.approx((law.isf(0.02), law.var()))
    assert within(noise.norm_quantile(2, 0.9)) == pytest.approx(0.9, abs=1e-6)
    mean = integrate.quad(lambda r: 1 - within(r), 0, 20, epsabs=1e-7)[0]
    assert noise.norm_mean(2) == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize("delta", [1e-6, 0.3])
def test_the_analytic_gaussian_has_its_delta(delta: float) -> None:
    sd = additive(ApproxDP(1.0, delta, "analytic"), 1.0, 1.0).variance ** 0.5
    assert hockey_stick(sd, 1.0) == pytest.approx(delta, rel=1e-6)


def test_noise_of_a_radius() -> None:
    radius = stats.gamma(3, scale=0.7)
    found = Radial(0.7).norm_quantile(3, 0.9), Radial(0.7).norm_mean(3)
    assert found == pytest.approx((radius.ppf(0.9), radius.mean()))


def test_how_often_a_fuller_bin_is_overtaken() -> None:
    """Next to no noise decides ties alone."""
    for n, share in ((20, 0.6), (21, 0.55)):
        bins = Histogram(0.0, 1.0, np.inf, n, PureDP(1e6))
        ties = stats.binom.pmf(n / 2, n, share) / 2
        below = stats.binom.cdf(np.ceil(n / 2) - 1, n, share) + ties
        assert overtaken(share, bins) == pytest.approx(below, rel=1e-9)
    # One record, and the difference of two Laplace noises of scale 2 above 1.
    above = np.exp(-0.5) * 2.5 / 4
    one = Histogram(0.0, 1.0, np.inf, 1, PureDP(1.0))
    assert overtaken(0.8, one) == pytest.approx(0.8 * above + 0.2 * (1 - above), abs=2e-3)


EDGE, T3 = Gaussian(), StudentT(tail_index=2.5, unit_moment=2)
MISSES: list[tuple[Estimator, Distribution, int, Budget, float]] = [
    (KarwaVadhanMean(radius=1e6), EDGE, 92, PureDP(1.0), 3.0),
    (KarwaVadhanMean(radius=1e6), EDGE, 18, ZCDP(0.5), 3.0),
    (KarwaVadhanMean(radius=None), EDGE, 115, ApproxDP(1.0, 1e-6), 3.0),
    (ExponentialCoarseMean(radius=1e6), EDGE, 105, PureDP(1.0), 3.0),
    (ExponentialCoarseMean(radius=1e6), EDGE, 40, ZCDP(0.5), 3.0),
    (ExponentialCoarseMean(radius=1e6), EDGE, 40, GDP(1.0), 3.0),
    (KSU20Range(k=2, alpha=10 / 256, radius=2.0**40), T3, 85, PureDP(1.0), 512.0),
    (KSU20Range(k=2, alpha=10 / 256, radius=2.0**40), T3, 160, ZCDP(0.005), 512.0),
    (KSU20Range(k=2, alpha=10 / 256, radius=None), T3, 50, ApproxDP(1.0, 1e-6), 512.0),
    (FriendlyCoreMean(), MultivariateGaussian(d=2), 113, ApproxDP(1.0, 1e-6), 1e9),
    (FriendlyCoreMean(), OUTLIERS, 250, APPROX, 1e9),
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
    for budget in (PureDP(0.2), ZCDP(0.02), GDP(0.2))
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
