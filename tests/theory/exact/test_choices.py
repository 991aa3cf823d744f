"""Tests of the probabilities that private choices miss, against draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import (
    Distribution,
    Gaussian,
    MultivariateContaminatedGaussian,
    MultivariateGaussian,
    StudentT,
)
from dpbench.estimators import (
    Estimator,
    FriendlyCoreMean,
    KarwaVadhanGaussian,
    KarwaVadhanMean,
    KSU20RangeEstimate,
    MedianThenClippedMean,
)
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.theory.exact.choices import histogram_miss_probability, overtaking_probability
from dpbench.theory.exact.clip_and_noise_oracle import Histogram
from dpbench.theory.exact.value import exact, exact_miss
from tests.theory.exact.cases import name

TRIALS = 4000
PURE, RHO, MU, APPROX = PureDP(0.5), ZCDP(0.1), GDP(0.5), ApproxDP(1.0, 1e-6)
OUTLIERS = MultivariateContaminatedGaussian(d=2, eta=0.15, gap=1e3)


CLOSE, FAR_VECTORS = PureDP(1.0), MultivariateGaussian(d=3, norm=9.0)


@pytest.mark.parametrize(
    ("estimator", "law"),
    [
        (KarwaVadhanMean(radius=1e6, sigma=1), Gaussian(scale=100)),
        (KarwaVadhanMean(radius=10, sigma=1), Gaussian(location=100)),
        (MedianThenClippedMean(radius=1e6, sigma=1), Gaussian(scale=100)),
        (
            KSU20RangeEstimate(k=2, scale=1, alpha=1, radius=100, constants="practical"),
            Gaussian(scale=3),
        ),
        (KarwaVadhanGaussian(radius=10), Gaussian()),
    ],
    ids=name,
)
def test_misses_of_other_records_are_not_known(estimator: Estimator, law: Distribution) -> None:
    assert np.isnan(exact_miss(estimator, law, 150, CLOSE))


@pytest.mark.parametrize("either_bin", [False, True])
@pytest.mark.parametrize("number", [3, 4, 12])
def test_misses_among_a_few_bins_by_draws(number: int, either_bin: bool) -> None:
    """Five standard errors of 200,000 draws; false alarms 1e-6. Counts have Laplace(2/epsilon)."""
    generator, n, share, draws = np.random.default_rng(number), 12, 0.7, 200_000
    noisy = generator.laplace(0, 2 / PURE.epsilon, (draws, number))
    s = generator.binomial(n, share, draws)
    noisy[:, 0] += s
    noisy[:, 1] += (n - s) * either_bin
    missed = np.mean(noisy.argmax(axis=1) > either_bin)
    bins = Histogram(0.0, 1.0, number, n, PURE, held=6.0, miss=1.0)
    expected = histogram_miss_probability(share, either_bin, bins)
    assert abs(missed - expected) < 5 * np.sqrt(missed * (1 - missed) / draws) + 1e-3


def test_how_often_a_fuller_bin_is_overtaken() -> None:
    """Compare with binomials: negligible noise only decides ties."""
    for n, share in ((20, 0.6), (21, 0.55)):
        bins = Histogram(0.0, 1.0, np.inf, n, PureDP(1e6), 0.0, 1.0)
        ties = stats.binom.pmf(n / 2, n, share) / 2
        below = stats.binom.cdf(np.ceil(n / 2) - 1, n, share) + ties
        assert overtaking_probability(share, bins) == pytest.approx(below, rel=1e-9)
    # With one record, the difference of two Laplace noises of scale 2 is above 1 or below -1.
    above = np.exp(-0.5) * 2.5 / 4
    bins_of_one = Histogram(0.0, 1.0, np.inf, 1, PureDP(1.0), 0.0, 1.0)
    assert overtaking_probability(0.8, bins_of_one) == pytest.approx(
        0.8 * above + 0.2 * (1 - above), abs=2e-3
    )


EDGE, T3 = Gaussian(), StudentT(tail_index=2.5, standardised_moment=2)
MISSES: list[tuple[Estimator, Distribution, int, Budget, float]] = [
    (KarwaVadhanMean(radius=1e6, sigma=1, beta=0.6), EDGE, 117, PureDP(1.0), 3.0),
    (KarwaVadhanMean(radius=1e6, sigma=1), EDGE, 18, ZCDP(0.5), 3.0),
    (KarwaVadhanMean(radius=None, sigma=1), EDGE, 115, ApproxDP(1.0, 1e-6), 3.0),
    (MedianThenClippedMean(radius=1e6, sigma=1), EDGE, 105, PureDP(1.0), 3.0),
    (MedianThenClippedMean(radius=1e6, sigma=1), EDGE, 40, ZCDP(0.5), 3.0),
    (MedianThenClippedMean(radius=1e6, sigma=1), EDGE, 40, GDP(1.0), 3.0),
    (KSU20RangeEstimate(k=2, scale=1, alpha=10 / 256, radius=2.0**40), T3, 106, PureDP(1.0), 512.0),
    (KSU20RangeEstimate(k=2, scale=1, alpha=10 / 256, radius=2.0**40), T3, 160, ZCDP(0.005), 512.0),
    (
        KSU20RangeEstimate(k=2, scale=1, alpha=10 / 256, radius=None),
        T3,
        50,
        ApproxDP(1.0, 1e-6),
        512.0,
    ),
    (
        KSU20RangeEstimate(k=2, scale=1, alpha=10 / 256, radius=2.0**14),
        T3,
        30,
        ApproxDP(1.0, 1e-6),
        512.0,
    ),
    (FriendlyCoreMean(sigma=1), MultivariateGaussian(d=2), 113, ApproxDP(1.0, 1e-6), 1e9),
    (FriendlyCoreMean(sigma=1), OUTLIERS, 250, APPROX, 1e9),
    (
        FriendlyCoreMean(composition="zcdp", sigma=1),
        MultivariateGaussian(d=2),
        85,
        ApproxDP(1.0, 1e-6),
        1e9,
    ),
    (
        FriendlyCoreMean(composition="gdp", sigma=1),
        MultivariateGaussian(d=2),
        80,
        ApproxDP(1.0, 1e-6),
        1e9,
    ),
]


@pytest.mark.parametrize(("estimator", "law", "n", "budget", "reach"), MISSES, ids=name)
def test_how_often_a_coarse_step_misses(
    estimator: Estimator, law: Distribution, n: int, budget: Budget, reach: float
) -> None:
    # A value before the last noise that is far off, or missing, is a miss.
    rng = np.random.default_rng(0)
    before = estimator.run(law.sample(rng, 3000, n), Ledger(budget, rng)).before_noise
    away = np.abs(before.reshape(3000, -1) - law.mean).max(axis=1)
    missed = int(np.count_nonzero(~(away <= reach * (1 + 1e-9))))
    share = exact_miss(estimator, law, n, budget)
    assert 0.002 < share < 0.98 or share == 1  # declared failures, by public numbers alone
    assert stats.binomtest(missed, 3000, share).pvalue > 1e-6 / len(MISSES)


VOTES = [
    (aggregate, budget)
    for aggregate in ("count", "exponential", "histogram")
    for budget in (PureDP(0.2), ZCDP(0.02), GDP(0.2), ApproxDP(0.2, 1e-6))
]


@pytest.mark.parametrize(("aggregate", "budget"), VOTES, ids=name)
@pytest.mark.parametrize("location", [0.0, 1.0])
def test_how_often_votes_are_wrong(aggregate: str, budget: Budget, location: float) -> None:
    rng = np.random.default_rng(0)
    spec = {"kind": "subsample_test", "buckets": 21, "aggregate": aggregate}
    estimator = Estimator.build(spec, "estimator")
    law = Gaussian(location=location, scale=10)
    answers = estimator.run(law.sample(rng, TRIALS, 200), Ledger(budget, rng)).value
    wrong = int(np.count_nonzero(answers != location))
    share = exact("mean_error", estimator, law, 200, budget)
    assert stats.binomtest(wrong, TRIALS, share).pvalue > 1e-6 / (2 * len(VOTES))


def test_buckets_of_two_sizes_vote() -> None:
    """Enumerate the votes of two buckets of two records and one of one, with negligible noise."""
    spec = {"kind": "subsample_test", "buckets": 3}
    estimator, budget = Estimator.build(spec, "estimator"), PureDP(1000.0)
    right = [stats.norm.cdf(0.5 * np.sqrt(size)) for size in (2, 2, 1)]
    wrong = 0.0
    for votes in itertools.product((0, 1), repeat=3):
        chance = np.prod([p if v else 1 - p for p, v in zip(right, votes, strict=True)])
        wrong += float(chance) * (sum(votes) < 2)
    probability = exact("mean_error", estimator, Gaussian(location=1.0), 5, budget)
    assert probability == pytest.approx(wrong, rel=1e-9)
