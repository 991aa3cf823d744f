"""Tests of the bins of a variance, and of the bound on a wrong bin against simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpbench.estimators.variance_bins import FULLEST, PowersOfTwo, wrong_power_probability
from dpbench.privacy import ZCDP, Budget, PureDP
from dpbench.privacy.histogram import overtaking_probability
from tests.support import name, noise_law, rng

WRONG_TRIALS = 5000  # simulated histograms of variances


def test_edges_of_powers_of_two() -> None:
    bins = PowersOfTwo(1.0, -1000.0, 1000.0)
    j = np.arange(-1000, 1000)
    edges = np.exp2(j.astype(float))[None]
    np.testing.assert_array_equal(bins.index(edges)[0], j)
    # The rounded logarithm of the last few numbers below a power is that of the power.
    below = bins.index(edges * (1 - 1e-12))[0]
    np.testing.assert_array_equal(below, np.maximum(j - 1, -1000))
    np.testing.assert_array_equal(bins.index(edges * 1.999)[0], j)
    ends = np.array([[0.0, 5e-324, 1e-310, 1.7e308]])
    np.testing.assert_array_equal(bins.index(ends)[0], [-1000, -1000, -1000, 999])


def exact_wrong_power(
    budget: Budget, pairs: int, u: float, spare: int, low: int, high: int, seed: int
) -> float:
    """Return the share of simulated histograms of chi-squared numbers that pick a wrong bin."""
    law, trials = stats.chi2(1), WRONG_TRIALS
    edges = np.exp2(np.arange(low, high + 2)) / u
    edges[0], edges[-1] = 0, np.inf
    generator = rng(seed)
    counts = generator.multinomial(pairs, np.diff(law.cdf(edges)), trials).astype(float)
    counts += noise_law(budget, 2.0, math.sqrt(2)).rvs(counts.shape, random_state=generator)
    k = low + counts.argmax(axis=1)
    return float(np.mean((k != low) & ((k <= -2 - spare) | (k >= 3))))


@pytest.mark.parametrize("budget", [PureDP(0.5), PureDP(5.0), ZCDP(0.02)], ids=name)
@pytest.mark.parametrize("spare", [0, 2])
def test_the_bound_on_a_wrong_power(budget: Budget, spare: int) -> None:
    """The bound holds at every place of sigma^2 between two powers."""
    for pairs in (3, 100, 500, 1500):
        bound = wrong_power_probability(budget, pairs, 30.0, spare, 1.0)
        shares = [
            exact_wrong_power(budget, pairs, u, spare, -14, 15, pairs) for u in (1.0, 1.2, 1.6, 2.0)
        ]
        # A false alarm in any of 96 comparisons has probability 1e-7.
        assert max(shares) * WRONG_TRIALS <= stats.binom(WRONG_TRIALS, bound).isf(1e-9)
    assert wrong_power_probability(budget, 10**5, 30.0, spare, 1.0) < 1e-9


def test_each_wrong_power_is_in_the_bound() -> None:
    """Compare with a sum over single bins by `scipy.stats`, to k = 40 and down to the last bin."""
    law, budget = stats.chi2(1), PureDP(5.0)
    for spare, number in ((0, 7), (8, 7)):
        high = [float(law.sf(2.0 ** (k - 1))) for k in range(3, 40)]
        places = [-2 - spare - i for i in range(number)]
        low = [float(law.cdf(2.0 ** (k + 1)) - law.cdf(2.0**k)) for k in places]
        rest = float(law.cdf(2.0 ** places[-1]))
        wins = [
            overtaking_probability(budget, 400, FULLEST, np.array([each]))[0]
            for each in (*high, *low, rest)
        ]
        bound = wrong_power_probability(budget, 400, number, spare, 1.0)
        assert bound == pytest.approx(sum(wins), rel=1e-9)
        assert 0 < bound < 1


def test_empty_bins_win_too() -> None:
    """Noise makes each of many bins without records win with nearly equal probability."""
    budget = PureDP(0.4)
    (win,) = overtaking_probability(budget, 400, FULLEST, np.zeros(1))
    few, many = (wrong_power_probability(budget, 400, n, 8, 1.0) for n in (300, 1300))
    assert many - few == pytest.approx(1000 * win, rel=1e-6)
    assert 300 * win < few < many < 1


def test_the_fullest_power_and_the_low_ones() -> None:
    """The least and the largest probabilities over all places of sigma^2, by a fine grid."""
    u, law = np.exp2(np.linspace(0.0, 1.0, 1001)), stats.chi2(1)
    assert np.min(law.cdf(2 / u) - law.cdf(1 / u)) == pytest.approx(FULLEST, rel=1e-12)
    for k in (-2, -3, -7):
        assert np.argmax(law.cdf(2.0 ** (k + 1) / u) - law.cdf(2.0**k / u)) == 0
