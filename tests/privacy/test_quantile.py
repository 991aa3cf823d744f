"""The private quantile: its density, its privacy, and its window of ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, NonPrivate, PureDP
from dpbench.privacy.quantile import private_quantile
from dpbench.samples import CountedSample, DenseSample, Sample
from tests.support import Floats, assert_follows, assert_frequencies, exponential_epsilon, rng

ORDERS = [1.01, 1.5, 2.0, 4.0, 16.0, 100.0]
LOW, HIGH = -1.0, 1.0
# At, inside and beyond the bounds, and within a resolution of them.
GRID = [-5.0, -1.0, -0.9, -0.5, 0.0, 0.125, 1.0, 3.0]


def cells(values: Sequence[float], h: float) -> Floats:
    """Return points of [LOW, HIGH] between which no score of these values changes."""
    kept = np.clip(values, LOW, HIGH)
    return np.unique(np.clip([*(kept - h), *(kept + h), LOW, HIGH], LOW, HIGH))


def scores_at(places: Floats, row: Sequence[float] | Floats, q: float, h: float) -> Floats:
    """Return -max(0, #{x < t - h} - q n, q n - #{x <= t + h}) at every point t."""
    kept = np.clip(row, LOW, HIGH)[:, None]
    below, within = (kept < places - h).sum(axis=0), (kept <= places + h).sum(axis=0)
    return np.asarray(-np.maximum(0.0, np.maximum(below - q * len(row), q * len(row) - within)))


def law_of(row: Sequence[float], ends: Floats, q: float, h: float, epsilon: float) -> Floats:
    """Return the probabilities of cells, proportional to length times exp(epsilon score/2)."""
    scores = scores_at((ends[1:] + ends[:-1]) / 2, row, q, h)
    weights = np.diff(ends) * np.exp(epsilon * scores / 2)
    return np.asarray(weights / weights.sum())


def samples(row: Sequence[float] | Floats, trials: int) -> list[Sample]:
    """Return the records as a dense and as a counted sample."""
    atoms, counts = np.unique(row, return_counts=True)
    dense = DenseSample(np.tile(row, (trials, 1)))
    return [dense, CountedSample(atoms, np.tile(counts, (trials, 1)))]


@pytest.mark.parametrize(
    ("epsilon", "q", "h"), [(0.1, 0.5, 0.05), (1.0, 0.1, 0.25), (5.0, 0.75, 1.5)]
)
def test_privacy_by_enumeration(epsilon: float, q: float, h: float) -> None:
    """Check all pairs of neighbours among 1 to 3 records of the grid, ties included."""
    ends = cells(GRID, h)
    rho = epsilon**2 / 8
    largest = 0.0
    for n in (1, 2, 3):
        laws = {
            row: law_of(row, ends, q, h, epsilon)
            for row in itertools.combinations_with_replacement(GRID, n)
        }
        for row, i in itertools.product(laws, range(n)):
            others = [tuple(sorted((*row[:i], *row[i + 1 :], x))) for x in GRID]
            p, qs = laws[row], np.array([laws[other] for other in others])
            # The density is constant in each cell: its ratio is that of probabilities.
            log_ratio = np.log(p / qs)
            largest = max(largest, float(np.abs(log_ratio).max()))
            for order in ORDERS:
                renyi = np.log((p * np.exp((order - 1) * log_ratio)).sum(axis=1)) / (order - 1)
                assert renyi.max() <= order * rho * (1 + 1e-9)
    assert largest <= epsilon * (1 + 1e-9)
    assert largest >= 0.3 * epsilon  # the enumeration is not idle


def quantile(sample: Sample, q: float, h: float, budget: Budget) -> Floats:
    return private_quantile(sample, q, LOW, HIGH, h, Ledger(budget, rng()))


@pytest.mark.parametrize("budget", [PureDP(2.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)], ids=str)
@pytest.mark.parametrize(
    ("row", "q", "h"),
    [
        ([0.0], 0.5, 0.25),
        ([-5.0, -0.875, 0.125, 3.0], 0.5, 0.0625),
        ([0.125, 0.0, 0.0, 0.0, -0.5], 0.3, 0.1),
        ([-1.0, 1.0], 0.5, 0.3),
        ([0.5, -0.5, 0.25], 0.1, 1.9),
    ],
)
def test_frequencies_are_those_of_the_exact_density(
    budget: Budget, row: list[float], q: float, h: float
) -> None:
    # Cells of constant density, each cut in three: it is uniform within them.
    whole = cells(row, h)
    ends = np.unique(np.concatenate([np.linspace(a, b, 4) for a, b in itertools.pairwise(whole)]))
    law = law_of(row, ends, q, h, exponential_epsilon(budget))
    for sample in samples(row, 30_000):
        t = quantile(sample, q, h, budget)
        assert np.all((t >= LOW) & (t <= HIGH))
        assert_frequencies(np.histogram(t, ends)[0], law)


@pytest.mark.parametrize(
    ("budget", "q", "ties"),
    [(PureDP(1.0), 0.5, 0), (PureDP(20.0), 0.02, 20), (ZCDP(0.5), 0.9, 400)],
    ids=str,
)
def test_the_window_of_a_large_dataset(
    monkeypatch: pytest.MonkeyPatch, budget: Budget, q: float, ties: int
) -> None:
    """Check that scores are naive down to a cap, below which no piece is ever chosen."""
    n, h, epsilon = 5000, 0.001, exponential_epsilon(budget)
    x = np.clip(rng(2).normal(0.1, 0.5, n), LOW, HIGH)
    x = np.round(x * ties) / ties if ties else x
    taken: list[Any] = []

    def choose(self: Ledger, *given: Any) -> Any:
        taken.append(given)
        return np.array([0])

    monkeypatch.setattr(Ledger, "exponential", choose)
    for sample in samples(x, 1):
        quantile(sample, q, h, budget)
        (scores,), sensitivity, (log_length,) = taken.pop()
        length = np.exp(log_length)
        assert (sensitivity, length.sum()) == (1.0, pytest.approx(HIGH - LOW))
        cap = -float(scores.min())
        # A quantile has score 0 within h of it: at least h of length and weight.
        assert (HIGH - LOW) * math.exp(-epsilon * cap / 2) <= 2.0**-60 * h
        assert cap < max(q, 1 - q) * n, "the window is all of the data: nothing is tested"
        near = np.quantile(x, q) + 0.02 * rng(4).normal(size=300)
        places = np.clip(np.append(near, rng(3).uniform(LOW, HIGH, 300)), LOW, HIGH)
        found = scores[np.searchsorted(LOW + np.cumsum(length)[:-1], places)]
        naive = scores_at(places, x, q, h)
        assert found.max() > -cap == found.min()  # points within the window and beyond it
        np.testing.assert_allclose(found, np.maximum(naive, -cap), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("budget", [PureDP(4.0), ZCDP(2.0), ApproxDP(4.0, 1e-6)], ids=str)
@pytest.mark.parametrize(("place", "found"), [(0.25, 0.25), (-7.0, LOW), (1e300, HIGH)])
def test_a_value_that_all_records_share_is_found(
    budget: Budget, place: float, found: float
) -> None:
    """Check that records beyond the bounds count at the ends."""
    for sample in samples([place] * 101, 500):
        t = quantile(sample, 0.5, 0.01, budget)
        # Elsewhere the score is -50.5, at epsilon 4: probability below 200 e^-100.
        assert np.all(np.abs(t - found) <= 0.01)
        low, high = np.clip([found - 0.01, found + 0.01], LOW, HIGH)
        assert_follows(t, stats.uniform(low, high - low))


def test_the_noise_wins_in_a_far_range_of_few_records() -> None:
    zeros, ledger = DenseSample(np.zeros((20_000, 3))), Ledger(PureDP(1.0), rng())
    t = private_quantile(zeros, 0.5, -1e300, 1e300, 1.0, ledger)
    assert_follows(t / 1e300, stats.uniform(-1, 2))  # up to e^300


def test_bad_arguments_are_refused_and_cost_nothing() -> None:
    ledger, sample = Ledger(PureDP(1.0), rng()), DenseSample([[0.0, 0.5]])
    for bad in (
        *((q, -1.0, 1.0, 0.1) for q in (0.0, 1.0)),
        *((0.5, *ends, 0.1) for ends in ((0.0, math.inf), (1.0, -1.0), (math.nan, 1.0))),
        *((0.5, -1.0, 1.0, h) for h in (0.0, math.inf)),
    ):
        with pytest.raises(ValueError, match="needs finite lower < upper"):
            private_quantile(sample, *bad, ledger)
    assert ledger.spent == (0.0,)
    with pytest.raises(ValueError, match="none"):
        quantile(sample, 0.5, 0.1, NonPrivate())
