"""Tests of exact values against the estimators, which the exact values never call."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

import dpbench
from dpbench.distributions import (
    Bernoulli,
    Beta,
    ContaminatedGaussian,
    Distribution,
    Gaussian,
    Hypercube,
    LogNormal,
    MultivariateContaminatedGaussian,
    MultivariateGaussian,
    Pareto,
    PowerLawGaussian,
    SignedTwoPoint,
    StudentT,
    TwoPoint,
)
from dpbench.estimators import (
    BalloonMean,
    BezierVariance,
    BinaryMean,
    ClippedMean,
    ClippedVariance,
    CoinPressCovariance,
    CoinPressMean,
    CoordinateWise,
    Estimator,
    FriendlyCoreMean,
    GaussianScoreMean,
    GradientDescentMean,
    InstanceOptimalMean,
    InverseSensitivity,
    KarwaVadhanGaussian,
    KarwaVadhanMean,
    KSU20BallMean,
    KSU20Mean,
    L2ClippedMean,
    LocalMean,
    MedianThenClippedMean,
    NaiveGaussianMean,
    PairVariance,
    PlanMean,
    PublicRecordMean,
    ShrinkingIntervals,
    SmoothSensitivityTrimmedMean,
    SubsampleAggregate,
    SubsampleTest,
    ThreeSumsVariance,
    TunedClippedMean,
    UnbiasedMean,
    UserLevelMean,
    WhitenedCoinPressMean,
)
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.tape import Tape
from dpbench.samples import DenseSample
from dpbench.theory.exact.clip_and_noise import ReleaseSetting
from dpbench.theory.exact.clip_and_noise_oracle import last_step
from dpbench.theory.exact.noise import additive
from dpbench.theory.exact.value import exact
from tests.theory.exact.cases import name

TRIALS = 4000
PURE, RHO, MU, APPROX = PureDP(0.5), ZCDP(0.1), GDP(0.5), ApproxDP(1.0, 1e-6)
STAIRS, LESS_PRIVATE, TULAP = PureDP(4.0, "staircase"), PureDP(4.0), ApproxDP(1.0, 0.01, "tulap")
NORMAL, VECTORS = Gaussian(location=0.3), MultivariateGaussian(d=3, norm=1.0)
TUNED_BALL = KSU20BallMean(k=3, scale=1, radius=1, outside="project", constants="tuned")
RESPONSE = LocalMean(k=2, scale=1, mechanism="randomised_response")
COIN, SKEWED = Bernoulli(p=0.5), Beta(a=2, b=8)
PRIVATE_N = PureDP(0.5, neighbours="add_remove")
RARE = TwoPoint(p=0.02, k=2, location=0.3)
TRIMMED = SmoothSensitivityTrimmedMean(
    lower=-100, upper=1e3, trimmed_records=20, smoothness_share=0.5
)
PAPER_BALL = KSU20BallMean(k=3, scale=1, radius=5, constants="paper")
OUTLIERS = MultivariateContaminatedGaussian(d=2, eta=0.15, gap=1e3)
FEW_OUTLIERS = MultivariateContaminatedGaussian(d=2, eta=0.015, gap=1e3)
EIGHT, STRETCHED = MultivariateGaussian(d=8), PowerLawGaussian(d=8, power=2.0)
LONG, THREE = SignedTwoPoint(d=8, p=0.01, k=2), MultivariateGaussian(d=3)

CASES: list[tuple[Estimator, Distribution, int, Budget, str]] = [
    (BinaryMean(), Bernoulli(p=0.3), 100, PURE, "noise q90 privacy_cost_q90"),
    (ClippedMean(lower=-1, upper=2), NORMAL, 50, APPROX, "noise q90 privacy_cost_q90"),
    (ClippedMean(lower=-1, upper=2), VECTORS, 50, PURE, "noise"),
    (ClippedMean(lower=-1, upper=2), NORMAL, 50, STAIRS, "noise q90"),
    (LocalMean(k=2, scale=1), RARE, 500, STAIRS, "noise"),
    (ClippedMean(lower=-1, upper=2), NORMAL, 50, TULAP, "noise q90"),
    (LocalMean(k=2, scale=1), RARE, 500, TULAP, "noise"),
    (NaiveGaussianMean(radius=2, sigma=1), NORMAL, 60, RHO, "noise q90"),
    (ShrinkingIntervals(radius=50, sigma=1, rounds=3), NORMAL, 400, MU, "noise"),
    (CoinPressMean(radius=50, sigma=1, rounds=3), VECTORS, 200, MU, "noise"),
    (GradientDescentMean(clip=7, steps=8), NORMAL, 100, RHO, "noise q90 privacy_cost_q90"),
    (GradientDescentMean(clip=12, steps=3), VECTORS, 100, APPROX, "noise q90"),
    (KSU20BallMean(k=2, scale=1, radius=5), VECTORS, 800, MU, "noise"),
    (KSU20Mean(k=2, scale=1, radius=5), NORMAL, 300, MU, "noise"),
    (TunedClippedMean(k=2, scale=1), RARE, 500, PureDP(0.1), "noise q90 privacy_cost_q90"),
    (TunedClippedMean(k=3, scale=1, policy="ksu20_order"), RARE, 500, RHO,
     "noise q90 privacy_cost_q90"),
    (TunedClippedMean(k=2, scale=1, policy="keep_all", radius=1), RARE, 300, APPROX,
     "noise q90 privacy_cost_q90"),
    (TunedClippedMean(k=2, scale=1), Pareto(tail_index=2.5, standardised_moment=2), 1000,
     PureDP(0.1), "noise q90"),
    (LocalMean(k=2, scale=1), RARE, 500, PURE, "noise q90 privacy_cost_q90"),
    (LocalMean(k=2, scale=1, policy="ksu20_order"), RARE, 500, PURE, "noise q90 privacy_cost_q90"),
    (RESPONSE, RARE, 500, PureDP(0.1), "noise q90 privacy_cost_q90"),
    (ClippedMean(lower=-1, upper=2), VECTORS, 50, RHO, "noise"),
    (L2ClippedMean(radius=2), Hypercube(d=4), 20, PURE, "noise q90"),
    (L2ClippedMean(radius=2, mechanism="l2"), Hypercube(d=4), 20, PURE, "noise q90"),
    (L2ClippedMean(radius=2), VECTORS, 20, APPROX, "noise"),
    (ClippedMean(lower=-2, upper=2), Hypercube(d=4), 20, PURE, "noise q90"),
    (ClippedMean(lower=-2, upper=2, mechanism="additive"), Hypercube(d=4), 20, PURE, "noise q90"),
    (ClippedMean(lower=-2, upper=2), VECTORS, 20, APPROX, "noise"),
    (KarwaVadhanMean(radius=5, sigma=1), NORMAL, 200, PURE, "noise q90"),
    (MedianThenClippedMean(radius=5, sigma=1), NORMAL, 200, RHO, "noise q90"),
    (GaussianScoreMean(radius=5, sigma=1), NORMAL, 100, RHO, "q90"),
    (GaussianScoreMean(radius=5, sigma=2), Gaussian(location=-4, scale=2), 150, PURE, "q90"),
    (ShrinkingIntervals(radius=50, sigma=1, rounds=3), NORMAL, 400, PURE, "noise"),
    (CoinPressMean(radius=50, sigma=1, rounds=3), VECTORS, 200, APPROX, "noise"),
    (CoordinateWise(base=ClippedMean(lower=-1, upper=2)), VECTORS, 50, PURE, "noise"),
    (KSU20Mean(k=2, scale=1, radius=5), NORMAL, 300, RHO, "noise"),
    (KSU20Mean(k=2, scale=1, radius=1), RARE, 20_000, PureDP(0.01), "noise q90"),
    (KSU20Mean(k=2, scale=1, radius=1, constants="tuned"), RARE, 20_000, PureDP(0.01), "noise q90"),
    (KSU20Mean(k=2, scale=1, radius=1, constants="paper", beta=0.9), RARE, 10**7, PURE, "q90"),
    (KarwaVadhanGaussian(radius=5, sigma=1), NORMAL, 400, PureDP(1.0), "noise q90"),
    (CoinPressMean(radius=5, sigma=1, rounds=2), NORMAL, 400, RHO, "noise q90 privacy_cost_q90"),
    (FriendlyCoreMean(sigma=1), MultivariateGaussian(d=2), 250, APPROX, "noise"),
    (FriendlyCoreMean(threshold=0, sigma=1), OUTLIERS, 400, ApproxDP(1.0, 1e-6, "analytic"),
     "noise"),
    (SubsampleAggregate(buckets=300, aggregate="friendly_core", friends_within=2), FEW_OUTLIERS,
     1500, APPROX, "noise"),
    (SubsampleAggregate(buckets=20, lower=-1, upper=1, aggregate="mean"), NORMAL, 60, PURE,
     "noise q90"),
    (KSU20BallMean(k=2, scale=1, radius=5), VECTORS, 800, RHO, "noise"),
    (KSU20BallMean(k=3, scale=1, radius=5, outside="project"), VECTORS, 400, RHO, "noise"),
    (KSU20BallMean(k=2, scale=1, radius=5), VECTORS, 500, LESS_PRIVATE, "noise"),
    (KSU20BallMean(k=3, scale=1, radius=5, constants="tuned"), VECTORS, 500, LESS_PRIVATE, "noise"),
    (KSU20BallMean(k=2, scale=1, radius=1), LONG, 10_000, RHO, "q90 privacy_cost_q90"),
    (TUNED_BALL, LONG, 10_000, RHO, "noise q90 privacy_cost_q90"),
    (KSU20BallMean(k=2, scale=1, radius=1, outside="project"), LONG, 10_000, RHO,
     "q90 privacy_cost_q90"),
    (CoinPressCovariance(bound=3, rounds=4), THREE, 2000, ZCDP(0.5), "noise q90"),
    (CoinPressCovariance(bound=3, rounds=4, entry_noise="frobenius"), THREE, 2000, ZCDP(0.5),
     "noise q90"),
    (CoinPressCovariance(bound=2, rounds=1), THREE, 1000, ZCDP(0.5), "noise"),
    (CoinPressCovariance(bound=1), MultivariateGaussian(d=1), 500, ZCDP(0.5), "noise q90"),
    (WhitenedCoinPressMean(radius=3, bound=1), THREE, 2000, ZCDP(0.5), "noise"),
    (WhitenedCoinPressMean(radius=3, bound=1, entry_noise="frobenius"), THREE, 2000, ZCDP(0.5),
     "noise"),
    (WhitenedCoinPressMean(radius=3, bound=4, covariance_rounds=1), THREE, 2000, ZCDP(0.5),
     "noise"),
    (InstanceOptimalMean(radius=60), EIGHT, 150, ZCDP(2.0), "noise"),
    (PlanMean(radius=20, sigma_low=1e-3, sigma_high=1e3, rounds=8), STRETCHED, 600,
     ZCDP(0.5), "noise"),
    (BalloonMean(radius=60, sigma=1, inside=[0.9]), EIGHT, 400, ZCDP(2.0), "noise"),
    (BalloonMean(radius=20, sigma=1, inside=[0.6], growth=1.1), THREE, 800, ZCDP(0.2), "noise"),
    (PublicRecordMean(sigma=1), NORMAL, 50, PURE, "noise"),
    (PublicRecordMean(sigma=1, public_records=4), VECTORS, 50, PURE, "noise"),
    (PublicRecordMean(sigma=1, rounds=3, public_records=2), VECTORS, 200, MU, "noise"),
    (TRIMMED, RARE, 500, PureDP(0.3), "noise q90"),
    (replace(TRIMMED, noise="polyplace"), RARE, 500, PureDP(0.3), "noise q90"),
    (TRIMMED, TwoPoint(p=0.05, k=2, sign=-1), 500, RHO, "noise q90"),
    (InverseSensitivity(lower=-1, upper=9), RARE, 500, PureDP(0.1), "noise q90"),
    (InverseSensitivity(lower=0, upper=1, resolution=0.01), Bernoulli(p=0.3), 200, RHO, "noise"),
    (KarwaVadhanMean(radius=1e300, sigma=0.01), Gaussian(scale=0.01), 400, APPROX, "noise q90"),
    (SubsampleAggregate(buckets=20, lower=-5, upper=5, aggregate="mean"), VECTORS, 40, PURE,
     "noise"),
    (BezierVariance(), COIN, 800, PRIVATE_N, "noise q90"),
    (BezierVariance(), SKEWED, 800, PURE, "noise q90"),
    (BezierVariance(lower=-1, upper=2), SKEWED, 800, ZCDP(0.01, neighbours="add_remove"),
     "noise q90"),
    (ThreeSumsVariance(), SKEWED, 2000, PRIVATE_N, "noise q90"),
    (ThreeSumsVariance(centred=False), Bernoulli(p=0.3), 2000, PRIVATE_N, "noise q90"),
    (ThreeSumsVariance(), COIN, 1000, GDP(0.2, neighbours="add_remove"), "noise q90"),
    (ClippedVariance(lower=0, upper=0.3), SKEWED, 200, PURE, "noise q90"),
    (ClippedVariance(lower=0, upper=0.5), COIN, 200, PURE, "noise q90"),
    (ClippedVariance(lower=0, upper=1), Bernoulli(p=0.05), 200, PureDP(0.2), "noise q90"),
    (ClippedVariance(lower=-4, upper=4), NORMAL, 200, STAIRS, "noise q90"),
    (PairVariance(base=ClippedMean(lower=0, upper=0.5)), SKEWED, 501, PURE, "noise q90"),
    (PairVariance(base=ClippedMean(lower=0, upper=0.5)), Bernoulli(p=0.05), 201, PURE, "noise q90"),
]  # fmt: skip


@pytest.mark.parametrize(("estimator", "law", "n", "budget", "metrics"), CASES, ids=name)
def test_what_estimators_do(
    estimator: Estimator, law: Distribution, n: int, budget: Budget, metrics: str
) -> None:
    # The trials beyond the 0.9 quantile are binomial: all cases raise a false alarm with
    # probability 1e-6 together.
    slow = isinstance(estimator, FriendlyCoreMean | CoinPressCovariance) or law in (
        THREE,
        EIGHT,
        STRETCHED,
        FEW_OUTLIERS,
    )
    rng, trials = np.random.default_rng(0), 1000 if slow else TRIALS
    sample = law.sample(rng, trials, n)
    estimate = estimator.run(sample, Ledger(budget, rng))
    parts = {
        "noise": estimate.value - estimate.before_noise,
        "q90": estimate.value - estimator.estimand.truth(law, sample),
        "privacy_cost_q90": estimate.value - estimator.estimand.empirical(sample),
    }
    for metric in metrics.split():
        size = np.linalg.norm(parts[metric].reshape(trials, -1), axis=1)
        column = "noise_q90" if metric == "noise" else metric
        bound = exact(column, estimator, law, n, budget)
        beyond = int(np.count_nonzero(size > bound))
        assert stats.binomtest(beyond, trials, 0.1).pvalue > 1e-6 / (3 * len(CASES)), metric


@pytest.mark.parametrize("d", [1, 6])
@pytest.mark.parametrize("budget", [PURE, RHO, MU, APPROX, STAIRS, TULAP])
@pytest.mark.parametrize(
    "estimator",
    [
        ClippedMean(lower=-1, upper=1),
        L2ClippedMean(radius=1),
        L2ClippedMean(radius=1, mechanism="l2"),
    ],
)
def test_the_root_mean_square_of_fixed_vectors_is_that_of_the_noise(
    estimator: Estimator, budget: Budget, d: int
) -> None:
    """Compare with the root mean square of 4,000 trials, at six standard errors."""
    if not estimator.supports(budget):
        return
    law, rng = Hypercube(d=d), np.random.default_rng(0)
    sample = law.sample(rng, TRIALS, 2)
    errors = estimator.run(sample, Ledger(budget, rng)).value - law.target_of(sample)
    squares = (errors.reshape(TRIALS, -1) ** 2).sum(axis=1)
    expected = exact("rmse", estimator, law, 2, budget) ** 2
    assert abs(squares.mean() - expected) < 6 * squares.std() / np.sqrt(TRIALS)


CLOSE, FAR_VECTORS = PureDP(1.0), MultivariateGaussian(d=3, norm=9.0)
FREE = KarwaVadhanMean(radius=None, sigma=1)
UNKNOWN: list[tuple[str, Estimator, Distribution, int, Budget]] = [
    # a rare miss of a private centre may be as large as R
    ("mean_error", KarwaVadhanMean(radius=1e6, sigma=1), NORMAL, 150, CLOSE),
    ("noise_q90", GaussianScoreMean(radius=5, sigma=1), NORMAL, 150, CLOSE),
    # records with an unexpected mean or standard deviation
    ("q90", CoinPressMean(radius=3, sigma=1), FAR_VECTORS, 1000, RHO),
    ("q90", GaussianScoreMean(radius=5, sigma=1), Gaussian(scale=0.5), 1000, CLOSE),
    ("q90", GradientDescentMean(clip=6), NORMAL, 1000, RHO),
    ("q90", GradientDescentMean(clip=7), NORMAL, 5, RHO),  # the first step is mostly noise
    ("q90", CoinPressMean(radius=0, sigma=1), FAR_VECTORS, 1000, RHO),
    ("q90", CoinPressMean(radius=3, sigma=1), MultivariateGaussian(d=10, scale=1.7), 1000, RHO),
    ("q90", CoinPressCovariance(bound=1), FAR_VECTORS, 2000, RHO),
    ("q90", CoinPressCovariance(bound=0.5, rounds=1), THREE, 2000, RHO),
    ("noise_q90", WhitenedCoinPressMean(radius=3, bound=1e6), THREE, 2000, RHO),
    ("mean_error", SubsampleTest(buckets=11), NORMAL, 100, CLOSE),
    # a histogram that releases nothing, or another bin
    ("noise_q90", UnbiasedMean(sigma=1), NORMAL, 60, APPROX),
    ("noise_q90", UnbiasedMean(sigma=0.01), SKEWED, 1000, APPROX),
    ("noise_q90", FREE, ContaminatedGaussian(eta=0.01, gap=3), 20, APPROX),
    ("noise_q90", CoordinateWise(base=FREE), VECTORS, 60, APPROX),
    ("noise_q90", KSU20BallMean(k=2, scale=1, radius=None), THREE, 60, APPROX),
    ("q90", KSU20Mean(k=2, scale=1, radius=5, alpha=1), Gaussian(location=2.7), 60, CLOSE),
    # a first ball that cuts records off, and a first centre that is mostly noise
    ("noise_q90", BalloonMean(radius=3, sigma=1), THREE, 400, RHO),
    ("noise_q90", BalloonMean(radius=300, sigma=1), THREE, 400, RHO),
    ("noise_q90", PublicRecordMean(sigma=1, public_records=50), NORMAL, 50, RHO),
    # the mean of all records, but a part of them is averaged
    ("privacy_cost_q90", UnbiasedMean(sigma=1), NORMAL, 1000, APPROX),
    # vectors without an interval
    ("miss_rate", ClippedMean(lower=-1, upper=1), VECTORS, 100, RHO),
    # too few records, or too few records that are not zero
    ("q90", InverseSensitivity(lower=-1, upper=1), NORMAL, 8, RHO),
    ("q90", InverseSensitivity(lower=-1, upper=9), RARE, 100, PureDP(5.0)),
    (
        "q90",
        KSU20BallMean(k=2, scale=1, radius=1, outside="project"),
        SignedTwoPoint(d=8, p=4e-5, k=2),
        10_000,
        ZCDP(500.0),
    ),
    ("noise_q90", KSU20Mean(k=2, scale=1, radius=3), NORMAL, 1, CLOSE),
    ("noise_q90", KSU20BallMean(k=2, scale=1, radius=3), THREE, 1, RHO),
    ("noise_q90", WhitenedCoinPressMean(radius=3, bound=1), THREE, 1, RHO),
    ("q90", KarwaVadhanGaussian(radius=3), NORMAL, 1, CLOSE),
    ("mean_error", SubsampleTest(buckets=11), Gaussian(location=1), 5, CLOSE),
    # a number of records that is mostly noise; pairs that are clipped; columns without a formula
    ("q90", BezierVariance(), COIN, 50, PRIVATE_N),
    ("q90", ThreeSumsVariance(), COIN, 50, PRIVATE_N),
    ("q90", ClippedVariance(lower=0, upper=1), Beta(a=0.01, b=15), 200, PureDP(1e6)),
    ("q90", PairVariance(base=ClippedMean(lower=0, upper=0.4)), COIN, 500, PURE),
    ("rmse", BezierVariance(), COIN, 2000, PRIVATE_N),
    # no variance; noise that is not Gaussian
    ("q90", TunedClippedMean(k=2, scale=1), StudentT(tail_index=1.5), 1000, CLOSE),
    # outliers that may be friends of other records, or form the core
    ("noise_q90", FriendlyCoreMean(sigma=1), replace(OUTLIERS, gap=9.0), 1000, APPROX),
    ("noise_q90", FriendlyCoreMean(threshold=0, sigma=1), replace(OUTLIERS, eta=0.5), 1000, APPROX),
    (
        "noise_q90",
        FriendlyCoreMean(threshold=0, sigma=1),
        replace(OUTLIERS, eta=0.45),
        1000,
        ApproxDP(4.0, 1e-2),
    ),
]


@pytest.mark.parametrize(("metric", "estimator", "law", "n", "budget"), UNKNOWN, ids=name)
def test_what_is_not_known(
    metric: str, estimator: Estimator, law: Distribution, n: int, budget: Budget
) -> None:
    assert np.isnan(exact(metric, estimator, law, n, budget))


def test_a_ball_grows_as_the_error_sought_shrinks() -> None:
    """Noise is linear in the radius 4 sqrt(d) alpha^(-1/2) of a third moment."""
    coarse, fine = (
        exact("noise_q90", replace(PAPER_BALL, alpha=alpha), THREE, 20_000, ZCDP(5.0))
        for alpha in (0.04, 0.01)
    )
    assert fine == pytest.approx(2 * coarse)


def test_the_ends_of_the_numbers() -> None:
    wide, wider = (
        exact("noise_q90", CoinPressMean(radius=radius, sigma=1, rounds=2), NORMAL, 100, RHO)
        for radius in (1e200, 1e300)
    )
    assert wider == pytest.approx(1e100 * wide)
    law = Gaussian(scale=1e-10)
    assert exact("noise_q90", ShrinkingIntervals(radius=1e300, sigma=1e-10), law, 10**4, RHO) > 0
    assert exact("noise_q90", KarwaVadhanMean(radius=0, sigma=1), NORMAL, 1000, CLOSE) > 0


@pytest.mark.parametrize("upper", [3e4, 1e5, 1e6])
def test_exact_moments_of_clipped_incomes(upper: float) -> None:
    """Compare with the moments of a log-normal X of median m and sigma = 1, clipped at T.

    E min(X, T)^j = m^j e^(j^2/2) Phi(z - j) + T^j (1 - Phi(z)) with z = ln(T/m).
    """
    median, n, epsilon = 60_000.0, 500, 0.05
    z, phi = np.log(upper / median), stats.norm.cdf
    first, second = (median**j * np.exp(j**2 / 2) * phi(z - j) + upper**j * phi(-z) for j in (1, 2))
    bias = first - median * np.exp(0.5)
    noise = 2 * (upper / (n * epsilon)) ** 2
    law, clip = LogNormal(scale=median), ClippedMean(lower=0, upper=upper)
    values = [exact(metric, clip, law, n, dpbench.PureDP(epsilon)) for metric in ("bias", "rmse")]
    expected = [bias, np.sqrt(bias**2 + (second - first**2) / n + noise)]
    assert values == pytest.approx(expected, rel=1e-3)


TUNED = partial(TunedClippedMean, k=3, scale=2, radius=1)
KSU20 = partial(KSU20Mean, k=3, scale=2, radius=5)
BALL = partial(KSU20BallMean, k=3, scale=2, radius=5)
LAST_STEPS: list[tuple[Estimator, int, int, Budget]] = [
    (estimator, n, d, ApproxDP(1.0, 1e-6) if isinstance(estimator, UnbiasedMean) else RHO)
    for n, d, estimators in (
        (300, 1, [BinaryMean(), ClippedMean(lower=-1, upper=2),
                  NaiveGaussianMean(radius=2, sigma=1),
                  SubsampleAggregate(aggregate="mean", buckets=30, lower=-1, upper=1)]),
        (300, 3, [ClippedMean(lower=-1, upper=2, mechanism="additive"), L2ClippedMean(radius=2)]),
        (3000, 1, [MedianThenClippedMean(radius=5, sigma=1), KarwaVadhanMean(radius=5, sigma=1),
                   TUNED(), TUNED(policy="keep_all"), TUNED(policy="ksu20_order"),
                   UnbiasedMean(sigma=1),
                   ShrinkingIntervals(radius=50, sigma=1, rounds=3),
                   UserLevelMean(k=3, scale=2, m=4, radius=5)]),
        (3000, 2, [CoinPressMean(radius=5, sigma=2, rounds=3), PublicRecordMean(sigma=1),
                   PublicRecordMean(sigma=1, rounds=2)]),
        (5000, 3, [BALL(constants="tuned"), BALL(), BALL(constants="paper")]),
        (5000, 1, [KSU20(constants="tuned"), KSU20(constants="practical")]),
        # where a share of the records is more than the histogram needs
        (50_000, 1, [KSU20(constants="tuned"), UserLevelMean(k=3, scale=2, m=4, radius=5)]),
        (90_000, 1, [KSU20(constants="paper")]),
    )
    for estimator in estimators
]  # fmt: skip


@pytest.mark.parametrize(("estimator", "n", "d", "budget"), LAST_STEPS, ids=name)
def test_the_last_noise_is_that_of_the_sensitivity_that_the_estimator_states(
    estimator: Estimator, n: int, d: int, budget: Budget
) -> None:
    """The oracle derives clip, records and budget of the last step without the estimator."""
    records = np.random.default_rng(0).standard_normal((1, n, d)[: 2 + (d > 1)])
    tape = Tape()
    estimator.run(DenseSample(records), Ledger(budget, np.random.default_rng(0), tape=tape))
    step = [step for step in tape.steps if step.mechanism == "add_noise"][-1]
    stated = [float(np.ravel(step.sensitivity[norm])[0]) for norm in ("l1", "l2")]
    share = step.settings[0]
    assert isinstance(share, Budget)
    oracle = last_step(estimator, ReleaseSetting(n, d, budget))
    assert oracle is not None
    assert oracle.noise.variance == pytest.approx(additive(share, *stated).variance, rel=1e-6)


def test_whitening_by_frobenius_noise_stretches_less() -> None:
    """Common random numbers know the ratio of the noises to half a per cent."""
    law, n, found, expected = MultivariateGaussian(d=3), 2000, [], []
    for kind in ("equal", "frobenius"):
        one = WhitenedCoinPressMean(radius=3, bound=1, covariance_rounds=1, entry_noise=kind)
        generator = np.random.default_rng(0)
        release = one.run(law.sample(generator, 400, n), Ledger(RHO, generator))
        found.append(np.linalg.norm(release.value - release.before_noise, axis=1).mean())
        expected.append(exact("noise_q90", one, law, n, RHO))
    assert found[0] / found[1] == pytest.approx(expected[0] / expected[1], abs=6e-3)
    assert expected[0] > 1.02 * expected[1]
