"""Tests of histograms of records with a bounded moment: failures are declared, and bounds hold."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import Gaussian, MultivariateGaussian
from dpbench.errors import AssumptionWarning
from dpbench.estimators import (
    CoordinateWise,
    Estimator,
    KarwaVadhanGaussian,
    KSU20BallMean,
    KSU20Mean,
    KSU20RangeEstimate,
    KSU20TournamentMean,
    SubsampleInterval,
    UserLevelMean,
    release,
)
from dpbench.estimators.moment_bins import MomentBins
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.histogram import noise_on_all_bins, private_mode_bin, stability_threshold
from dpbench.samples import Bins, DenseSample
from tests.support import FALSE_ALARM, name

BUDGETS: list[Budget] = [PureDP(0.5), ZCDP(0.05), GDP(0.4), ApproxDP(0.5, 1e-6)]
each_budget = pytest.mark.parametrize("budget", BUDGETS, ids=name)
RADIUS, FAR, MEAN = 1e4, 1e3, 17.3
PARTS: dict[str, Any] = {"k": 2, "scale": 1, "radius": RADIUS}
ESTIMATORS: list[tuple[Estimator, int]] = [  # and the number of coordinates
    (KSU20RangeEstimate(**PARTS, alpha=0.5, constants="practical"), 1),
    (KSU20RangeEstimate(**PARTS, alpha=0.06), 1),
    (KSU20Mean(**PARTS), 1),
    (KSU20Mean(**PARTS, constants="tuned"), 1),
    (KSU20Mean(**PARTS, constants="paper", beta=0.9), 1),
    (UserLevelMean(**PARTS, m=4), 1),
    (KSU20BallMean(**PARTS), 2),
    (KSU20BallMean(**PARTS, constants="tuned"), 2),
    (KSU20TournamentMean(**PARTS, alpha=0.5), 2),
]
each_estimator = pytest.mark.parametrize(("estimator", "d"), ESTIMATORS, ids=name)


def released(estimator: Estimator, d: int, n: int, trials: int, budget: Budget) -> tuple[int, int]:
    """Return how many of some releases are far from the mean, and how many are declared failures.

    The records are far better than the assumption, so only the noise can cause a far miss.
    """
    rng = np.random.default_rng(n)
    law = MultivariateGaussian(d=d, scale=0.3) if d > 1 else Gaussian(location=MEAN, scale=0.3)
    value = estimator.run(law.sample(rng, trials, n), Ledger(budget, rng)).value
    missing = np.isnan(value).reshape(trials, -1).any(axis=1)
    away = np.abs(value - law.mean).reshape(trials, -1).max(axis=1)
    return int(np.sum(away[~missing] > FAR)), int(np.sum(missing))


@each_budget
@each_estimator
def test_too_few_records_are_declared(estimator: Estimator, d: int, budget: Budget) -> None:
    """At each n, a release is far from the mean with probability at most 0.1."""
    if not estimator.supports(budget):
        pytest.skip("another notion")
    trials, least = 200, estimator.least_records(d, budget)
    for n in (max(8, least), max(24, 3 * least), max(80, 10 * least)):
        far, _ = released(estimator, d, n, trials, budget)
        assert stats.binom.sf(far - 1, trials, 0.1) > FALSE_ALARM, (n, far)


@each_budget
@each_estimator
def test_from_the_stated_number_on_they_are_enough(
    estimator: Estimator, d: int, budget: Budget
) -> None:
    """From `working_records` on a right bin is released, and a little below no bin is."""
    if not estimator.supports(budget):
        pytest.skip("another notion")
    least, trials = estimator.least_records(d, budget), 100
    n = max(estimator.working_records(d, budget), least)
    for records in (n, 2 * n):
        far, missing = released(estimator, d, records, trials, budget)
        assert stats.binom.sf(far + missing - 1, trials, 0.1) > FALSE_ALARM, (records, far)
        assert missing == 0 or isinstance(budget, ApproxDP)
    below = int(0.9 * n) - 2
    if below >= least and not isinstance(budget, ApproxDP):
        assert released(estimator, d, below, trials, budget) == (0, trials)


@each_budget
@each_estimator
def test_the_stated_number_is_the_smallest(estimator: Estimator, d: int, budget: Budget) -> None:
    """One record less is a declared failure, except for groups that share the missing record."""
    if isinstance(budget, ApproxDP) or not estimator.supports(budget):
        pytest.skip("failures by public numbers alone need another notion")
    n = estimator.working_records(d, budget)
    if n > estimator.least_records(d, budget) and getattr(estimator, "groups", 1) in (None, 1):
        assert released(estimator, d, n - 1, 5, budget) == (0, 5)
        assert released(estimator, d, n, 5, budget) == (0, 0)


@each_budget
def test_estimators_with_a_base_need_its_number(budget: Budget) -> None:
    base = KSU20Mean(**PARTS, constants="tuned")
    each = CoordinateWise(base=base)
    assert each.working_records(2, budget) == base.working_records(1, budget.fraction(1 / 2))
    parts = SubsampleInterval(base=base, parts=11, beta=0.1)
    assert parts.working_records(1, budget) == 11 * base.working_records(1, budget)
    pairs = CoordinateWise(base=KarwaVadhanGaussian(radius=1))
    assert pairs.least_records(2, budget) == 2
    data = np.zeros((each.working_records(2, budget) - 1, 2))
    with pytest.warns(AssumptionWarning, match="too few records for CoordinateWise"):
        release(each, data, budget, rng=np.random.default_rng(1))


HARD = [MomentBins(50.0, 1 / 8, 3), MomentBins(1e6, 1 / 8, 2), MomentBins(1e3, 1 / 4, 2),
        MomentBins(1e12, 1e-4, 2), MomentBins(2.0, 1 / 16, 2)]  # fmt: skip


@cache
def noise_and_quantiles(budget: Budget) -> tuple[Any, Any]:
    """Return the distribution of the noise of a bin, and 1,000 quantiles at equal distances."""
    noise: Any = stats.laplace(scale=2 / budget.pure_epsilon) if isinstance(
        budget, PureDP | ApproxDP) else stats.norm(scale=float(budget.noise_tail(
            np.asarray(stats.norm.sf(1.0)), 2.0, math.sqrt(2))))  # fmt: skip
    return noise, noise.ppf((np.arange(1_000) + 0.5) / 1_000)


@cache
def difference_tail(budget: Budget, v: float) -> float:
    """Return P(Z' - Z >= v) for the noises of two bins, by quadrature."""
    noise, quantiles = noise_and_quantiles(budget)
    return float(np.mean(noise.sf(v + quantiles)))


@each_budget
@pytest.mark.parametrize("bins", HARD, ids=lambda bins: f"{bins.number:g}-{bins.stray:g}")
def test_the_bound_is_a_bound(bins: MomentBins, budget: Budget) -> None:
    """At the stated n, sum over the number of strays, with the hardest places of all records."""
    for miss in (0.02, 0.5):
        least = bins.records(budget, miss)
        for n in (math.ceil(least),):
            held, strays, left = bins.lead(n, budget, miss)
            on_all = bool(noise_on_all_bins(budget, bins.number, held, left))
            total = 0.0
            for count, weight in enumerate(stats.binom.pmf(np.arange(n + 1), n, bins.stray)):
                if weight < 1e-12:
                    continue
                best = math.ceil((n - count) / bins.touched)
                rivals = bins.number if on_all else min(count, bins.number)
                wrong = 1.0
                if best >= count:
                    wrong = rivals * difference_tail(budget, best) + (
                        difference_tail(budget, best - count) if count else 0.0
                    )
                if not on_all:
                    assert isinstance(budget, ApproxDP)
                    noise = stats.laplace(scale=2 / budget.epsilon)
                    wrong += float(noise.cdf(stability_threshold(budget) - best))
                total += weight * min(wrong, 1.0)
            # The bound on a wrong bin holds, and it is not wasteful.
            assert total <= miss * (1 + 1e-3), (n, miss)
            assert strays == 0 or stats.binom.sf(strays, n, bins.stray) <= miss / 2


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 0.01)], ids=name)
def test_the_hardest_records_rarely_miss(budget: Budget) -> None:
    """Put all strays into one bin and share the others equally: simulate the histogram."""
    bins, trials, miss = MomentBins(40.0, 1 / 8, 3), 4000, 0.1
    n = math.ceil(bins.records(budget, miss))
    rng = np.random.default_rng(4)
    places = rng.choice([0.5, 1.5, 2.5, 20.5], p=[7 / 24, 7 / 24, 7 / 24, 1 / 8], size=(trials, n))
    held, _, left = bins.lead(n, budget, miss)
    bin_ = private_mode_bin(
        DenseSample(places), Bins(1.0, 0.0, 40.0), Ledger(budget, rng), held=held, miss=left
    )
    missed = int(np.sum(~(bin_ <= 2.0)))
    assert stats.binom.sf(missed - 1, trials, miss) > FALSE_ALARM
    few = 20
    held, _, left = bins.lead(few, PureDP(0.2), miss)
    rows = DenseSample(places[:, :few])
    assert np.isnan(
        private_mode_bin(rows, Bins(1.0, 0.0, 40.0), Ledger(PureDP(0.2), rng), held=held, miss=left)
    ).all()


@pytest.mark.parametrize("budget", [ApproxDP(1.0, 0.3), ApproxDP(10.0, 0.1), ApproxDP(20.0, 1e-6)],
                         ids=name)  # fmt: skip
def test_a_low_threshold_releases_no_stray(budget: ApproxDP) -> None:
    """Where even one stray may pass the threshold, few records are a failure that shows."""
    bins, trials, miss = MomentBins(40.0, 1 / 8, 3), 4000, 0.01
    rng, released = np.random.default_rng(4), []
    for n in (3, 6, 10, 20, 40, 60, 80, 120):
        places = rng.choice([0.5, 1.5, 2.5, 20.5], p=[7 / 24] * 3 + [1 / 8], size=(trials, n))
        left = bins.fullest(DenseSample(places), Bins(1.0, 0.0, 40.0), Ledger(budget, rng), miss)
        missed = int(np.sum(left > 2.0))
        assert stats.binom.sf(missed - 1, trials, miss) > FALSE_ALARM, (n, missed)
        released.append(not np.isnan(left).any())
    assert released[-1]


def test_the_bound_on_a_low_threshold_is_a_bound() -> None:
    """Sum over the number of strays, which share the wrong bins in the hardest way."""
    bins = MomentBins(40.0, 1 / 8, 3)
    for budget, n in (
        (ApproxDP(1.0, 0.3), 60),
        (ApproxDP(4.0, 0.01), 20),
        (ApproxDP(1.0, 1e-6), 80),
    ):
        total, noise = 0.0, stats.laplace(scale=2 / budget.epsilon)
        for count in range(1, n + 1):
            best = (n - count) / 3
            beaten = count * difference_tail(budget, best) + difference_tail(budget, best - count)
            passing = count * budget.delta + noise.sf(stability_threshold(budget) - count)
            wrong = min(1.0, beaten if best >= count else 1.0, passing)
            total += float(stats.binom.pmf(count, n, 1 / 8)) * wrong
        bound = bins._wrong_passes(n, budget)
        assert total * (1 - 1e-3) <= bound <= 1.5 * total + 1e-6


def test_one_bin_is_right() -> None:
    assert MomentBins(1.0, 1 / 8, 3).records(PureDP(1e-6), 0.01) < 1e-9
