"""Tests of the Karwa-Vadhan estimators against a loop over trials, and of their intervals."""

from __future__ import annotations

import math
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from dpbench import AssumptionWarning, release
from dpbench.estimators import (
    KarwaVadhanGaussian,
    KarwaVadhanInterval,
    KarwaVadhanMean,
    karwa_vadhan,
)
from dpbench.estimators.variance_bins import spare_powers
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP, histogram
from dpbench.privacy.histogram import noise_on_all_bins
from dpbench.samples import Bins, CountedSample, DenseSample, Sample
from tests.support import Floats, name, noise_law, rng, run, same_law

# Budgets at which the histogram locates a few records in some runs only.
BUDGETS = [PureDP(1.5), ZCDP(0.15), ApproxDP(1.0, 0.4, "classical")]
each_budget = pytest.mark.parametrize("budget", BUDGETS, ids=name)


@cache
def unit_law(budget: Budget, share: float) -> tuple[str, float]:
    law = noise_law(budget.fraction(share), 1.0, 1.0)
    return law.dist.name, float(law.kwds["scale"])


def noise(rng: np.random.Generator, budget: Budget, share: float, sensitivity: float) -> float:
    """Draw the noise of one number at a share of the budget."""
    kind, scale = unit_law(budget, share)
    return float((rng.normal if kind == "norm" else rng.laplace)(0.0, scale * sensitivity))


def fullest(
    rng: np.random.Generator, counts: list[int], budget: Budget, share: float
) -> int | None:
    """Return the index of the fullest bin of a noisy histogram, or None if no bin passes."""
    best, highest = None, -math.inf
    if noise_on_all_bins(budget.fraction(share), len(counts), sum(counts)):
        budget = PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget
    if isinstance(budget, ApproxDP):
        epsilon, delta = budget.epsilon * share, budget.delta * share
        highest = 1 + 2 / epsilon * math.log(1 / (2 * delta))
    for i, count in enumerate(counts):
        if isinstance(budget, ApproxDP):
            if not count:
                continue
            noisy = count + rng.laplace(0, 2 / epsilon)
        else:  # two bins change by one: 2 in l1, the root of 2 in l2
            apart = 2.0 if isinstance(budget, PureDP) else math.sqrt(2)
            noisy = count + noise(rng, budget, share, apart)
        if noisy > highest:
            best, highest = i, noisy
    return best


def naive_mean(
    rng: Any,
    row: list[float],
    radius: float,
    sigma: float,
    beta: float,
    budget: Budget,
    share: float,
) -> float:
    """Return the mean of L15, Theorem 2, with its constants written out; a bin starts at 0."""
    n = len(row)
    t = sigma * math.sqrt(2 * math.log(2 * n / beta))
    half = math.ceil((radius + t) / (2 * t))  # bins on either side of 0
    counts = [0] * (2 * half)
    for x in row:
        counts[min(max(math.floor(x / (2 * t)) + half, 0), 2 * half - 1)] += 1
    index = fullest(rng, counts, budget, share)
    if index is None:
        return math.nan
    a = 2 * t * (index - half)
    clipped = [min(max(x, a - 2 * t), a + 4 * t) for x in row]
    return sum(clipped) / n + noise(rng, budget, share, 6 * t / n)


@pytest.fixture
def no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the histograms of a few records release a wrong bin, for tests of their whole law."""

    def any_bin(sample: Sample, bins: Bins, ledger: Ledger, *, held: float, miss: float) -> Floats:
        return histogram.private_mode_bin(sample, bins, ledger, held=sample.n)

    monkeypatch.setattr(karwa_vadhan, "private_mode_bin", any_bin)
    monkeypatch.setattr(karwa_vadhan, "spare_powers", lambda *_: (0, 0.0))


ROW = np.array([-40.0, 2.1, 2.9, 3.0, 3.2, 3.3, 3.5, 60.0, 3.1, -1.0, 2.4])


@each_budget
@pytest.mark.usefixtures("no_refusal")
def test_the_mean_against_a_loop(budget: Budget) -> None:
    rng = np.random.default_rng(1)
    naive = [naive_mean(rng, ROW.tolist(), 9.0, 0.5, 0.2, budget, 0.5) for _ in range(2000)]
    estimator = KarwaVadhanMean(radius=9.0, sigma=0.5, beta=0.2)
    values = run(estimator, DenseSample(np.tile(ROW, (10_000, 1))), budget).value
    assert same_law(np.array(naive), values)
    near = np.mean(np.abs(values - 3.0) < 3.0)
    assert 0.05 < near < 0.95  # neither certain nor hopeless


@each_budget
@pytest.mark.usefixtures("no_refusal")
def test_the_scale_and_the_mean_that_rests_on_it_against_a_loop(budget: Budget) -> None:
    row, beta, low, high = [*ROW.tolist(), 3.0, 3.0], 0.1, 0.3, 20.0
    # Bins [2^j, 2^(j+1)) over the powers of two that reach beyond both bounds on sigma^2, and
    # eight more below. The lowest one is a failure.
    start = math.floor(2 * math.log2(low)) - 9
    bins = math.ceil(2 * math.log2(high)) + 1 - start
    rng = np.random.default_rng(2)
    scales, means = [], []
    for _ in range(2000):
        y = [(a - b) ** 2 / 2 for a, b in zip(row[0:-1:2], row[1::2], strict=True)]
        counts = [0] * bins
        for square in y:
            j = math.floor(math.log2(square)) if square else start
            counts[min(max(j - start, 0), bins - 1)] += 1
        power = fullest(rng, counts, budget, 0.25)
        if not power:
            scales.append(math.nan)
            means.append(math.nan)
            continue
        unit = 2.0 ** (power + start)
        width = 4 * unit * 2 * math.log(2 * len(y) / beta)
        mean = sum(min(square, width) for square in y) / len(y)
        variance = mean + noise(rng, budget, 0.25, width / len(y))
        scales.append(math.sqrt(min(max(variance, unit / 4), 8 * unit)))
        means.append(naive_mean(rng, row, 10.0, scales[-1], beta, budget, 0.25))
    estimator = KarwaVadhanGaussian(radius=10.0, sigma_low=low, sigma_high=high, beta=beta)
    estimate = run(estimator, DenseSample(np.tile(row, (10_000, 1))), budget)
    assert estimate.scale is not None
    assert same_law(np.array(scales), estimate.scale)
    assert same_law(np.array(means), estimate.value)
    np.testing.assert_array_equal(np.isnan(estimate.scale) <= np.isnan(estimate.value), True)


def test_a_known_sigma_is_the_scale() -> None:
    values, options = np.tile(ROW, (9, 1)), {"radius": 5.0, "sigma": 2.0, "beta": 0.2}
    known = run(KarwaVadhanGaussian(**options), values, PureDP(1.0))
    plain = run(KarwaVadhanMean(**options), values, PureDP(1.0))
    np.testing.assert_array_equal([known.value, known.scale], [plain.value, np.full(9, 2.0)])


@pytest.mark.parametrize("spare", [0, 2])
def test_the_variance_is_kept_near_its_bin(monkeypatch: pytest.MonkeyPatch, spare: int) -> None:
    """It is in [2^(j-2), 2^(j+3+spare)] if [2^j, 2^(j+1)) is the fullest bin; here j = 3.

    All records are 0, so that the noise is the variance.
    """

    def given(self: Ledger, values: Floats, sensitivity: Any, **_: Any) -> Floats:
        self.pay()
        noisy: Floats = values + np.array([-1e9, 5.0, 1e9])
        return noisy

    monkeypatch.setattr(
        karwa_vadhan, "private_mode_bin", lambda sample, *_, **__: np.full(sample.trials, 3.0)
    )
    monkeypatch.setattr(karwa_vadhan, "spare_powers", lambda *_: (spare, 0.0))
    monkeypatch.setattr(Ledger, "add_noise", given)
    estimate = run(KarwaVadhanGaussian(radius=5.0), np.zeros((3, 9)), PureDP(1.0))
    expected = [math.sqrt(2), math.sqrt(5), 8 * 2 ** (spare / 2)]
    assert estimate.scale == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("radius", "where", "budget"),
    [
        (1e12, -1e12, PureDP(1.0)),
        (1e300, 12345.6, ZCDP(0.1)),
        (None, 12345.6, ApproxDP(1.0, 1e-6)),
    ],
)
def test_far_data_are_found(radius: float | None, where: float, budget: Budget) -> None:
    sample = CountedSample([where - 1.0, where, where + 1.0], np.full((20, 3), 10**5))
    learned = KarwaVadhanGaussian(radius=radius, sigma_low=1e-3, sigma_high=1e3)
    for estimator in (KarwaVadhanMean(radius=radius, sigma=1), learned):
        estimate = run(estimator, sample, budget)
        # The scale of the noise is below 6 t/(3e5/4) < 6e-4, and below 2.4e-3 for the analytic
        # Gaussian at a quarter of the budget. So 0.05 is 20 scales: false alarms 1e-7.
        assert np.all(np.abs(estimate.value - where) < 0.05 + 1e-15 * abs(where))
        if estimate.scale is not None:
            # Half the squared difference of most pairs is 1/2, so [1/2, 1) is the fullest bin.
            np.testing.assert_allclose(estimate.scale, math.sqrt(2 / 3), rtol=0.02)


@pytest.mark.parametrize("bounds", [(2.0, 1.0), (0.0, 1.0), (1.0, math.inf)])
def test_bounds_on_sigma_are_checked(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="sigma_"):
        KarwaVadhanGaussian(radius=1.0, sigma_low=bounds[0], sigma_high=bounds[1])


@pytest.mark.parametrize("known", [True, False])
def test_an_interval_misses_by_sampling_as_often_as_it_says(
    monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Without the part for the noise, the interval misses with probability beta/2, or beta/4.

    The mean of n records of deviation 2 errs by more than h with probability 2 Phi(-h sqrt(n)/2).
    The noise is Laplace of scale 6t/(n epsilon'), where epsilon' is half of the mean's part of the
    budget. t is 2 sqrt(2 ln(2n/p)), for a probability p that some record is clipped.
    """

    def given(self: Any, sample: Any, ledger: Ledger) -> tuple[Floats, float]:
        ledger.pay()
        return np.full(sample.trials, 2.0), 0.0

    monkeypatch.setattr(KarwaVadhanInterval, "_sigma_bound", given)
    n, beta, epsilon = 500, 0.2, 1.5
    estimator = KarwaVadhanInterval(radius=5.0, sigma=2.0 if known else None, beta=beta)
    estimate = run(estimator, np.zeros((2, n)), PureDP(epsilon))
    assert estimate.interval is not None
    half = (estimate.interval[1] - estimate.interval[0])[0] / 2
    share, clipped, sampling = (1 / 2, beta / 4, beta / 2) if known else (1 / 4, beta / 8, beta / 4)
    t = 2 * math.sqrt(2 * math.log(2 * n / clipped))
    noise = stats.laplace(scale=6 * t / n / (share * epsilon)).isf(beta / 8)
    assert 2 * stats.norm.sf((half - noise) * math.sqrt(n) / 2) == pytest.approx(sampling, rel=1e-9)


def test_a_square_is_rarely_above_its_clip() -> None:
    """For the bin [1, 2) sigma^2 is below 4; each of m squares is clipped with at most beta/m."""
    m, beta = 500, 0.1
    x = np.tile([0.0, math.sqrt(2)], (1, m))
    estimator, budget = KarwaVadhanGaussian(radius=5.0, beta=beta), PureDP(50.0)
    _, sensitivity = estimator._variance(DenseSample(x), Ledger(budget, rng()))
    bins = float(estimator._powers.count)
    spare, wrong = spare_powers(budget.fraction(0.5), m, bins, beta)
    assert wrong <= beta
    chance = stats.chi2(1).sf(float(np.squeeze(sensitivity)) * m / 4 / 2**spare)
    assert beta / m / 20 < chance <= beta / m


def test_a_deviation_is_bounded_by_the_lower_tail_of_chi_square() -> None:
    """The bound follows from v, the mean of 300 half squared differences, with almost no noise."""
    x = rng(5).standard_normal((1, 600))
    estimate, wrong = KarwaVadhanInterval(radius=5.0, beta=0.1)._sigma_bound(
        DenseSample(x), Ledger(ZCDP(1e6), rng())
    )
    assert wrong < 0.1 / 8
    v = float(np.mean((x[:, ::2] - x[:, 1::2]) ** 2 / 2))
    expected = math.sqrt(300 * v / stats.chi2(300).ppf(0.1 / 8))
    assert estimate == pytest.approx(
        [expected], rel=0.02
    )  # tolerance for the quantile of the noise


@pytest.mark.parametrize("delta", [1e-6, 1e-10])
def test_a_small_delta_costs_nothing_if_there_are_few_bins(delta: float) -> None:
    """A stability-based histogram would release nothing in 85 and in 100 per cent of these runs."""
    estimator, budget = KarwaVadhanMean(radius=10, sigma=1), ApproxDP(1.0, delta)
    values = run(estimator, rng(1).normal(1.0, 1.0, (2000, 60)), budget).value
    assert not np.isnan(values).any()
    assert np.mean(np.abs(values - 1.0) < 7) > 0.999  # else a wrong bin, off by 7.5 or more


NOTIONS = [PureDP(1.0), ZCDP(0.1), GDP(0.5), ApproxDP(1.0, 1e-6)]


def count_misses(estimator: KarwaVadhanInterval, budget: Budget, n: int, trials: int) -> int:
    """Return how many intervals miss the mean 0.3 of n Gaussian records; none of them is NaN."""
    estimate = run(estimator, rng(n).normal(0.3, 1.0, (trials, n)), budget)
    assert estimate.interval is not None
    low, high = estimate.interval
    assert not np.isnan(low).any()
    whole = np.isnan(estimate.value)
    assert np.all((low[whole] == -1000) & (high[whole] == 1000))
    return int(np.count_nonzero((low > 0.3) | (high < 0.3)))


@pytest.mark.parametrize("budget", [*NOTIONS, PureDP(0.1), ApproxDP(0.1, 1e-6)], ids=name)
@pytest.mark.parametrize("n", [2, 10, 20, 30, 50, 75, 100, 200])
def test_an_interval_misses_as_rarely_as_it_says_at_every_n(budget: Budget, n: int) -> None:
    """Each of 96 counts of 1000 runs gives a false alarm with probability 1e-8."""
    allowed = stats.binom(1000, 0.05).isf(1e-8)
    for sigma in (1.0, None):
        estimator = KarwaVadhanInterval(radius=1000, sigma=sigma, beta=0.05)
        assert count_misses(estimator, budget, n, 1000) <= allowed


@pytest.mark.parametrize("n", [500, 1000, 2000, 4000])
def test_an_interval_with_unknown_sigma_misses_as_rarely_as_it_says(n: int) -> None:
    allowed = stats.binom(200, 0.05).isf(1e-8)
    estimator = KarwaVadhanInterval(radius=1000, beta=0.05)
    for budget in (PureDP(0.1), PureDP(1.0), ZCDP(0.02), ApproxDP(1.0, 1e-6)):
        assert count_misses(estimator, budget, n, 200) <= allowed


@pytest.mark.parametrize("budget", NOTIONS, ids=name)
def test_a_mean_declares_failure_up_to_the_n_from_which_it_works(budget: Budget) -> None:
    """From that n on a value is far from the mean with probability 2 beta at most."""
    for estimator in (
        KarwaVadhanMean(radius=1000, sigma=1, beta=0.1),
        KarwaVadhanGaussian(radius=1000, sigma_low=1e-3, sigma_high=1e3, beta=0.1),
    ):
        least = estimator.working_records(1, budget)
        few = run(estimator, rng(1).normal(0.3, 1.0, (500, least // 2)), budget).value
        enough = run(estimator, rng(1).normal(0.3, 1.0, (500, least + 1)), budget).value
        far = [np.count_nonzero(np.abs(values - 0.3) > 30) for values in (few, enough)]
        assert max(far) <= stats.binom(500, 0.2).isf(1e-8)
        assert np.mean(np.isnan(few)) > 0.9
        assert np.count_nonzero(np.isnan(enough)) <= stats.binom(500, 0.2).isf(1e-8)


def test_the_range_term_is_the_n_from_which_the_histogram_works() -> None:
    estimator, budget = KarwaVadhanMean(radius=1000, sigma=1), PureDP(1.0)
    least = int(estimator.private_terms(0.1, 0.1, 100, budget)["range"])
    assert least == estimator.working_records(1, budget)
    for n in (least - 1, least):
        t = math.sqrt(2 * math.log(2 * n / 0.1))
        bins = 2 * math.ceil((1000 + t) / (2 * t))
        lead = math.ceil(n / 2) / 4  # in scales of the noise, 2/(1/2)
        wrong = (bins - 1) * (2 + lead) / 4 * math.exp(-lead)
        assert (wrong <= 0.1) == (n == least)


def test_too_few_records_are_named_in_a_warning() -> None:
    """The number of records is public, and so is the n from which the estimator works."""
    records = rng(1).normal(0.3, 1.0, 20)
    with pytest.warns(AssumptionWarning, match=r"^n: 20: too few .* it works from n = 71$"):
        assert math.isnan(
            release(KarwaVadhanMean(radius=1000, sigma=1), records, PureDP(1.0), rng=rng())
        )


@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6)], ids=name)
def test_ties_are_a_failure_of_the_scale(budget: Budget) -> None:
    """More than half of all pairs are equal: no positive scale fits them."""
    counts = np.where(rng(3).random((200, 2000)) < 0.7, 0.0, 1.0)
    learned = run(KarwaVadhanGaussian(radius=50), counts, budget)
    assert learned.scale is not None
    assert np.isnan(learned.value).all()
    assert np.isnan(learned.scale).all()
    interval = run(KarwaVadhanInterval(radius=50), counts, budget).interval
    assert interval is not None
    assert np.all((interval[0] == -50) & (interval[1] == 50))
    with pytest.warns(AssumptionWarning, match="pairs of records are equal"):
        release(KarwaVadhanInterval(radius=50), counts[0], budget, rng=rng())


def test_a_scale_near_either_bound_is_found() -> None:
    for sigma in (1.0, 1.3, 1.9, 7.0, 10.0):
        estimator = KarwaVadhanGaussian(radius=50, sigma_low=1.0, sigma_high=10.0)
        x = rng(1).normal(0.0, sigma, (50, 40_000))
        scale = run(estimator, x, PureDP(4.0)).scale
        assert scale is not None
        np.testing.assert_allclose(scale, sigma, rtol=0.05)


def test_many_records_give_the_interval_of_the_plain_union_bound() -> None:
    """The probability of a wrong bin vanishes, and leaves beta to the other errors, bit for bit."""
    n, beta, budget = 5000, 0.05, PureDP(1.0)
    estimator = KarwaVadhanInterval(radius=1000, sigma=1.0, beta=beta)
    estimate = run(estimator, rng(1).normal(0.3, 1.0, (20, n)), budget)
    assert estimate.interval is not None
    t = math.sqrt(2 * math.log(2 * n / (beta / 4)))
    half = stats.norm.isf(beta / 4) / math.sqrt(n)
    half += stats.laplace(scale=6 * t / n / 0.5).isf(beta / 8)
    np.testing.assert_allclose((estimate.interval[1] - estimate.interval[0]) / 2, half, rtol=1e-12)


def test_without_a_radius_a_failure_has_no_interval() -> None:
    estimator, budget = KarwaVadhanInterval(radius=None, sigma=1.0), ApproxDP(1.0, 1e-6)
    interval = run(estimator, rng(1).normal(0.3, 1.0, (200, 20)), budget).interval
    assert interval is not None
    assert np.isnan(interval).mean() > 0.99


@pytest.mark.parametrize(("p", "spent"), [(0.02, 0.02), (0.9, 0.025)])
def test_the_errors_of_an_interval_add_up_to_beta(p: float, spent: float) -> None:
    """A quarter of beta is for the clip, p for empty bins, at most a quarter, the rest as 1 to 2.

    The noise of the mean of n records in [-3 t, 3 t] has half of rho, t = sqrt(2 ln(2 n/(beta/4))).
    """
    n, beta = 2000, 0.1
    noise_miss = (beta - beta / 4 - spent) / 3
    t = math.sqrt(2 * math.log(2 * n / (beta / 4)))
    noise = 6 * t / n / math.sqrt(2 * 0.25) * stats.norm.isf(noise_miss / 2)
    half = stats.norm.isf(noise_miss) / math.sqrt(n) + noise
    with mock.patch.object(karwa_vadhan, "_empty_bin_probability", return_value=p):
        estimate = run(
            KarwaVadhanInterval(radius=10, sigma=1, beta=beta), np.zeros((3, n)), ZCDP(0.5)
        )
    assert estimate.interval is not None
    np.testing.assert_allclose(estimate.interval[1] - estimate.value, half, rtol=1e-9)
