"""The private histogram: exact distributions of outcomes, privacy, empty bins."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, NonPrivate, PureDP, histogram
from dpbench.privacy.histogram import (
    largest_noise,
    noise_on_all_bins,
    private_mode_bin,
    stability_threshold,
    wrong_bin_probability,
)
from dpbench.samples import Bins, CountedSample, DenseSample, Sample
from tests.support import Floats, assert_follows, assert_frequencies, name, noise_law, rng

ORDERS = [1.01, 1.5, 2.0, 4.0, 16.0, 100.0]
LISTED = 4  # bins whose counts are followed one by one; further ones are empty


def fullest(sample: Sample, bins: Bins, budget: Budget, seed: int = 0, **options: Any) -> Floats:
    return private_mode_bin(sample, bins, Ledger(budget, rng(seed)), **options)


def noise_of(budget: Budget, factor: float = 1.0) -> Any:
    """Return the noise of a count under replacement, times `factor`; 1/2 is that of add/remove."""
    if isinstance(budget, ApproxDP):
        budget = PureDP(budget.epsilon)  # Laplace noise, whatever else the budget would draw
    return noise_law(budget, 2 * factor, math.sqrt(2) * factor)


def quadrature(kinks: list[float], scale: float, low: float, high: float) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights on quarter-scale pieces between the kinks."""
    points = [x for x in kinks if low < x < high]
    grid = np.unique([*np.linspace(low, high, 2 + int(4 * (high - low) / scale)), *points])
    x, w = np.polynomial.legendre.leggauss(16)
    half, middle = np.diff(grid) / 2, (grid[1:] + grid[:-1]) / 2
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def log_cdf(noise: Any, x: Floats) -> Floats:
    """Return the log of the distribution function, accurate in both tails."""
    low = noise.logcdf(np.minimum(x, 0.0))
    return np.asarray(np.where(x < 0, low, np.log1p(-noise.sf(np.maximum(x, 0.0)))))


def law_of(counts: tuple[int, ...], budget: Budget, spare: float, factor: float = 1.0) -> Floats:
    """Return the probabilities of each listed bin, of all spare bins together, and of no bin.

    They are integrals over x of f(x - count_i) times the product of F(x - count_j) over j != i.
    Under (epsilon, delta)-DP only occupied bins count, and x begins at the threshold.
    """
    noise = noise_of(budget, factor)
    scale = float(noise.kwds["scale"])
    reach = scale * (16 if isinstance(budget, ZCDP) else 40 + math.log(1 + spare))
    low, high = min(counts) - reach, max(counts) + reach
    stable = isinstance(budget, ApproxDP)
    if isinstance(budget, ApproxDP):
        # The point that 1 + Laplace(scale) exceeds with probability delta, for delta <= 1/2.
        low = 1 + scale * math.log(1 / (2 * budget.delta))
    held = {i: c for i, c in enumerate(counts) if c or not stable}
    x, w = quadrature([0.0, *map(float, counts)], scale, low, high)
    below = {c: log_cdf(noise, x - c) for c in {0, *counts}}
    # The logarithm that every bin is below x.
    every = np.sum([below[c] for c in held.values()], axis=0)
    if not stable:  # else no empty bin is released
        every = every + spare * below[0]
    wins = [
        float(w @ np.exp(noise.logpdf(x - c) + every - below[c])) if i in held else 0.0
        for i, c in enumerate(counts)
    ]
    nothing = math.prod(float(noise.cdf(low - c)) for c in held.values()) if stable else 0.0
    lazy = 0.0 if stable else spare * float(w @ np.exp(noise.logpdf(x) + every - below[0]))
    law = np.array([*wins, lazy, nothing])
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    return law


def datasets(most: int) -> Iterator[tuple[int, ...]]:
    for counts in itertools.product(range(most + 1), repeat=LISTED):
        if 1 <= sum(counts) <= most:
            yield counts


def neighbours(
    budget: Budget, spare: float, factor: float = 1.0, most: int = 4
) -> Iterator[tuple[Floats, Floats]]:
    """Yield the distributions of all pairs of neighbouring datasets of at most `most` records."""
    ordered = {c: law_of(c, budget, spare, factor) for c in datasets(most) if list(c) == sorted(c)}
    laws = {}
    for counts in datasets(most):  # bins are exchangeable: one law per set of counts
        law = ordered[tuple(sorted(counts))].copy()
        law[np.argsort(counts, kind="stable")] = law[:LISTED].copy()
        laws[counts] = law
    for counts, law in laws.items():
        for a, b in itertools.permutations(range(LISTED), 2):
            if counts[a]:
                other = list(counts)
                other[a] -= 1
                other[b] += 1
                yield law, laws[tuple(other)]


def loss(p: Floats, q: Floats, budget: Budget) -> float:
    """Return the privacy loss between two distributions of the outcome, over the budget."""
    seen = p > 0
    if isinstance(budget, PureDP):  # all spare bins have one ratio, that of their sum
        return float((p[seen] / q[seen]).max()) / math.exp(budget.epsilon)
    if isinstance(budget, ApproxDP):  # the largest P(S) - e^epsilon Q(S) of an event S
        return float(np.maximum(p - math.exp(budget.epsilon) * q, 0).sum()) / budget.delta
    assert isinstance(budget, ZCDP)
    terms = [order * np.log(p[seen]) + (1 - order) * np.log(q[seen]) for order in ORDERS]
    renyi = [np.logaddexp.reduce(t) / (a - 1) / a for t, a in zip(terms, ORDERS, strict=True)]
    return float(max(renyi)) / budget.rho


def worst(budget: Budget, spare: float, factor: float = 1.0) -> float:
    return max(loss(p, q, budget) for p, q in neighbours(budget, spare, factor))


@pytest.mark.parametrize(
    ("budget", "spare", "refuted"),
    [
        (PureDP(1.0), 0.0, 1.02),
        (PureDP(3.0), 6.0, 1.02),
        # With very many empty bins the listed ones win alone or not at all, and e^epsilon holds.
        (PureDP(3.0), 1e17, 0.0),
        (ZCDP(0.01), 0.0, 1.04),
        (ZCDP(0.3), 6.0, 0.0),
        (ZCDP(2.0), 1e17, 0.0),
        (ApproxDP(1.0, 0.05), 0.0, 0.0),
        (ApproxDP(3.0, 1e-3), 0.0, 1.5),
        (ApproxDP(1.0, 0.7), 0.0, 0.0),
    ],
    ids=str,
)
def test_privacy_by_enumeration(budget: Budget, spare: float, refuted: float) -> None:
    assert worst(budget, spare) <= 1 + 1e-9
    if refuted:  # the scale of add-remove: sensitivity 1 in place of 2, or of sqrt(2)
        assert worst(budget, spare, math.sqrt(0.5) if isinstance(budget, ZCDP) else 0.5) > refuted


@pytest.mark.parametrize(
    ("budget", "counts", "spare"),
    [
        (PureDP(1.0), (2, 1, 0, 0), 0.0),
        (PureDP(3.0), (1, 1, 1, 1), 6.0),
        (PureDP(2.0), (4, 0, 0, 0), 1e17),
        (ZCDP(0.3), (2, 0, 1, 0), 0.0),
        (ZCDP(1.0), (3, 0, 0, 1), 6.0),
        (ApproxDP(1.0, 0.05), (2, 1, 0, 0), 1e3),
        (ApproxDP(1.0, 0.05, "laplace"), (4, 0, 0, 0), 20.0),
        (ApproxDP(3.0, 0.05), (2, 1, 0, 0), 0.0),  # few bins: all of them get noise
        (ApproxDP(1.0, 1e-6, "analytic"), (4, 0, 0, 0), 0.0),
        (ApproxDP(0.9, 0.1, "classical"), (1, 1, 1, 1), math.inf),
        (ApproxDP(2.0, 0.3), (0, 3, 0, 1), math.inf),
    ],
    ids=str,
)
def test_frequencies_are_those_of_the_exact_law(
    budget: Budget, counts: tuple[int, ...], spare: float
) -> None:
    stable = isinstance(budget, ApproxDP) and spare > 0
    followed = PureDP(budget.epsilon) if isinstance(budget, ApproxDP) and not stable else budget
    law = law_of(counts, followed, 0.0 if stable else spare)
    middles, trials = np.arange(LISTED) + 0.5, 30_000
    bins = Bins(1.0, 0.0 if math.isfinite(spare) else -spare, LISTED + spare)
    dense = DenseSample(np.tile(np.repeat(middles, counts), (trials, 1)))
    for sample in (dense, CountedSample(middles, np.tile(counts, (trials, 1)))):
        left = fullest(sample, bins, budget, held=max(counts))
        own, nothing = (left >= 0) & (left < LISTED), np.isnan(left)
        found = np.bincount(left[own].astype(int), minlength=LISTED)
        rest = [np.count_nonzero(~own & ~nothing), np.count_nonzero(nothing)]
        assert_frequencies(np.append(found, rest), law)


def test_a_singleton_passes_the_threshold_with_probability_delta() -> None:
    for epsilon, delta in ((0.01, 1e-12), (10.0, 0.01), (0.01, 0.5), (10.0, 0.9)):
        threshold = stability_threshold(ApproxDP(epsilon, delta))
        passed = stats.laplace.sf(threshold, loc=1, scale=2 / epsilon)
        assert passed == pytest.approx(delta, rel=1e-9, abs=0) or passed < delta > 0.5


@pytest.mark.parametrize("budget", [PureDP(0.7), ZCDP(0.2), ApproxDP(0.7, 1e-6)], ids=name)
def test_the_largest_noise_has_its_exact_law(budget: Budget) -> None:
    noise = noise_law(budget, 2.0, math.sqrt(2))
    for draws in (1.0, 10.0, 1e17, 1e300):

        def cdf(x: Any, draws: float = draws) -> Any:
            # F^M = exp(M ln(1 - tail)); ln(1 - tail) is -tail where the tail is tiny.
            log_tail = noise.logsf(x)
            tiny = -np.exp(math.log(draws) + log_tail)
            with np.errstate(divide="ignore"):
                exact = draws * np.log1p(-np.exp(log_tail))
            return np.exp(np.where(log_tail < -50, tiny, exact))

        found = largest_noise(budget, np.full(10_000, draws), rng(1))
        assert_follows(found, SimpleNamespace(cdf=cdf))
    # It grows with the number of draws, without a step where U^(1/M) would round.
    many = [1.0, 2.0, 10.0, 1e6, 1e15, 2**53, 1e17, 1e30, 1e300, 1.7e308]
    found = np.array([largest_noise(budget, np.full(2000, m), rng(4)) for m in many])
    assert np.all(np.isfinite(found))
    assert np.all(np.diff(found, axis=0) > 0)
    mixed = largest_noise(budget, np.array([0.0, 5.0, 0.0]), rng(5))
    assert np.isneginf(mixed).tolist() == [True, False, True]


def test_the_empty_bins_are_equally_likely() -> None:
    """Check bins of a different width and range in each trial, some of them occupied."""
    patterns = [[0, 1, 5, 11], [11], [2, 3, 4, 6], list(range(11)), [0, 2, 4, 6, 8, 10]]
    size, trials, kinds = 12, 30_000, len(patterns)
    rows = np.array([(pattern * size)[:size] for pattern in patterns]) + 0.5
    width = np.tile([1.0, 0.5, 2.0, 1.0, 0.25], trials // kinds)
    lower = np.tile([-4.5, 3.0, 0.0, -1.5, 10.0], trials // kinds)
    x = lower[:, None] + width[:, None] * np.tile(rows, (trials // kinds, 1))
    # Noise of scale 2e6 hides 12 records: an occupied bin wins as often as an empty one.
    bins = Bins(width, lower, lower + size * width)
    which = (fullest(DenseSample(x), bins, PureDP(1e-6), 6) - lower) / width
    assert np.all(which == np.round(which))
    for own in which.reshape(-1, kinds).T:
        assert_frequencies(np.bincount(own.astype(int), minlength=size), [1 / size] * size)
    # One bin: no empty one is chosen, there being none.
    assert set(fullest(DenseSample(x), Bins(50.0, 0.0, 3.0), PureDP(1e-3)).tolist()) == {0.0}


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5)], ids=lambda b: b.label)
def test_a_radius_of_1e300(budget: Budget) -> None:
    bins = Bins(1.0, -1e300, 1e300)
    full = np.tile(np.repeat([0.25, 3.25], [500, 5500]), (200, 1))
    # The largest of 2e300 Laplace(2) is near 1383, beyond 5500/2 with probability e^-680.
    assert fullest(DenseSample(full), bins, budget).tolist() == [3.0] * 200
    left = fullest(DenseSample(np.full((20_000, 1), 0.5)), bins, budget)
    assert_follows(left / 2e300 + 0.5, stats.uniform)


def test_infinitely_many_bins() -> None:
    sample = DenseSample([[0.5], [0.5]])
    infinite = (Bins(1.0), Bins(1.0, 0.0), Bins(1.0, np.array([-1.0, -math.inf]), 1.0))
    for budget, bins in itertools.product((PureDP(1.0), ZCDP(1.0)), infinite):
        ledger = Ledger(budget, rng())
        with pytest.raises(ValueError, match="needs finitely many bins"):
            private_mode_bin(sample, bins, ledger)
        assert ledger.spent == (0.0,)
    x = np.concatenate([np.full((1, 100), 12345.5), 10.0 * np.arange(100)[None, :]])
    left = fullest(DenseSample(x), Bins(1.0), ApproxDP(1.0, 1e-12))
    # The threshold is 55: 100 falls below with probability e^-22, and one of 100 singletons
    # passes it with probability 1e-10.
    np.testing.assert_array_equal(left, [12345.0, math.nan])


def test_without_privacy_it_is_the_fullest_bin() -> None:
    sample = DenseSample([[0.5, 3.5, 3.6], [9.0, -9.0, -8.9]])
    assert fullest(sample, Bins(1.0, -10.0, 10.0), NonPrivate()).tolist() == [3.0, -9.0]


@functools.cache
def leads(epsilon: float, held: float) -> tuple[Floats, Floats]:
    """Return P(Z = x) dx at nodes x, and the logarithms that a bin `held` behind is below."""
    noise = noise_of(PureDP(epsilon))
    scale = float(noise.kwds["scale"])
    x, w = quadrature([0.0, -held], scale, -max(80 * scale, held + 40 * scale), 80 * scale)
    return w * noise.pdf(x), log_cdf(noise, x + held)


@functools.cache
def wrong_bin(epsilon: float, number: float, held: float) -> float:
    """Return the exact probability that one bin with records, `held` of them, is not released."""
    density, below = leads(epsilon, held)
    return float(-density @ np.expm1((number - 1) * below))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.3])
def test_the_histogram_that_fails_less_often(epsilon: float, delta: float) -> None:
    """Compare with exact probabilities; the union bound may be too large by the factor 12."""
    budget, chosen, miss = ApproxDP(epsilon, delta), set(), 0.05
    noise = noise_of(budget)
    for number, scales in itertools.product(
        (1.0, 2.0, 4.0, 30.0, 1e3, 1e5, 1e7, 1e11), (0.5, 2.0, 4.0, 8.0, 16.0, 24.0, 40.0)
    ):
        held = scales * 2 / epsilon
        on_all = bool(noise_on_all_bins(budget, number, held, miss))
        wrong = wrong_bin(epsilon, number, held)
        nothing = float(noise.cdf(stability_threshold(budget) - held))
        if on_all:
            assert wrong <= min(miss, nothing), (number, held)
        else:
            assert 12 * wrong >= min(miss, nothing) or nothing <= 1e-9, (number, held)
        chosen.add(on_all)
    assert chosen == {True, False}


@pytest.mark.parametrize(
    "budget", [PureDP(0.5), ZCDP(0.02), GDP(0.3), ApproxDP(0.5, 1e-6)], ids=name
)
def test_a_bin_that_may_be_empty_is_refused(budget: Budget) -> None:
    """With few records each run fails in the open, and with many next to none does."""
    for held, trials in ((20, 400), (400, 400)):
        sample = CountedSample([0.5], np.full((trials, 1), held))
        bins = Bins(1.0, -np.array([0.0, 1e9] * (trials // 2)), 1.0)
        left = fullest(sample, bins, budget, held=held, miss=1e-4).reshape(-1, 2)
        assert np.all(left[:, 0] == 0.0)  # a single bin is never wrong
        # 400 records are 100 scales of the Laplace noise, and more of the Gaussian noise.
        assert np.all(np.isnan(left[:, 1]) if held == 20 else left[:, 1] == 0.0)


def stability_only(budget: Budget, number: Any, *_: float) -> Any:
    return np.zeros(np.shape(number), dtype=bool)


@pytest.mark.parametrize(
    ("n", "bins", "same"),
    [
        (4000, Bins(1.0, -20.0, 20.0), True),  # many records
        (60, Bins(1.0), True),  # infinitely many bins
        (60, Bins(1.0, -1e9, 1e9), True),  # more than 1/delta
        (60, Bins(1.0, -20.0, 20.0), False),
    ],
)
def test_where_the_stability_histogram_stays(
    monkeypatch: pytest.MonkeyPatch, n: int, bins: Bins, same: bool
) -> None:
    sample, budget = DenseSample(rng(2).normal(0.5, 0.2, (300, n))), ApproxDP(0.5, 1e-6)
    streams = [rng(3), rng(3)]
    chosen = private_mode_bin(sample, bins, Ledger(budget, streams[0]), held=n * 0.9)
    monkeypatch.setattr(histogram, "noise_on_all_bins", stability_only)
    stable = private_mode_bin(sample, bins, Ledger(budget, streams[1]))
    assert np.array_equal(chosen, stable, equal_nan=True) == same
    assert (streams[0].random() == streams[1].random()) == same
    if not same:
        assert np.mean(np.isnan(stable)) > 0.05
        assert np.mean(chosen == 0.0) > 0.99


def test_each_trial_has_the_histogram_of_its_own_bins() -> None:
    """Few bins, with noise on all, and infinitely many, where a bin of 20 records does not pass."""
    sample, budget = DenseSample(np.full((400, 20), 0.5)), ApproxDP(1.0, 1e-6)
    lower = np.where(np.arange(400) % 2, -np.inf, -3.0)
    left = fullest(sample, Bins(np.ones(400), lower, np.full(400, 3.0)), budget, held=20)
    few, many = left[::2], left[1::2]
    assert not np.isnan(few).any()
    assert np.mean(few == 0.0) > 0.95
    assert np.mean(np.isnan(many)) > 0.9
    assert set(many[~np.isnan(many)]) <= {0.0}


@pytest.mark.parametrize(
    "budget", [PureDP(0.5), ApproxDP(0.5, 1e-6), ZCDP(0.02), GDP(0.3)], ids=name
)
@pytest.mark.parametrize("lead", [0.0, 3.0, 20.0, 60.0])
def test_the_bound_on_a_wrong_bin(budget: Budget, lead: float) -> None:
    # The exact probabilities by quadrature: one wrong bin reaches the bound, and several do not
    # exceed it. The difference of two noises is symmetric, so that P(difference >= 0) = 1/2.
    law = noise_of(budget)
    grid = np.linspace(-60 * law.std(), 60 * law.std(), 400_001)  # has 0, where Laplace bends
    for wrong in (1, 2, 30):
        wins = -np.expm1(wrong * law.logcdf(grid + lead)) * law.pdf(grid)
        exact = float(np.sum((wins[1:] + wins[:-1]) / 2) * (grid[1] - grid[0]))
        bound = float(wrong_bin_probability(budget, wrong, lead))
        assert exact <= bound * (1 + 1e-6)
        if wrong == 1:
            assert bound == pytest.approx(exact, rel=1e-6)


def test_the_bound_on_a_wrong_bin_at_its_ends() -> None:
    assert wrong_bin_probability(PureDP(1.0), 0, 5.0) == 0
    assert wrong_bin_probability(ZCDP(1.0), np.inf, 5.0) == 1
    assert wrong_bin_probability(NonPrivate(), 1e300, 1.0) == 0
    # 1e300 bins: 2 ln(1e300) records of lead are not enough at epsilon = 1, and twice that are
    few, many = 2 * 300 * np.log(10) * np.array([1.0, 2.0])
    assert wrong_bin_probability(PureDP(1.0), 1e300, np.array([few, many])).tolist() == [
        1.0,
        pytest.approx((2 + many / 2) / 4 * 1e300 * np.exp(-many / 2), rel=1e-9),
    ]
