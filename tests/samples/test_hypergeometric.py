"""Binomial probabilities and hypergeometric draws, small and at 1e12."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from support import BIG, FALSE_ALARM, assert_frequencies, assert_standard, rng

from dpbench.arrays import Ints
from dpbench.samples.hypergeometric import hypergeometric, log_binomial_pmf

# The deviance is a difference of numbers of size |s - mean|, five standard deviations
# or 2.5e6 here, each rounded by 1.1e-16 of itself: 3e-10 per term, two terms.
ROUNDING = 1e-9


def draw(seed: int, marked: int, total: int, drawn: int, times: int) -> Ints:
    full = [np.full(times, a, dtype=np.int64) for a in (marked, total, drawn)]
    return hypergeometric(rng(seed), *full)


@pytest.mark.parametrize("n", [1, 2, 16, 17, 30])
@pytest.mark.parametrize("p", [0.001, 0.9])
def test_log_pmf_against_exact_fractions(n: int, p: float) -> None:
    exact = Fraction(p)
    for s in range(n + 1):
        pmf = math.comb(n, s) * exact**s * (1 - exact) ** (n - s)
        wanted = math.log(pmf.numerator) - math.log(pmf.denominator)
        # The logarithms of numerator and denominator are below 2000: 2000 * 1e-16 each.
        assert float(log_binomial_pmf(s, n, p)) == pytest.approx(wanted, rel=1e-13, abs=1e-12)


def test_log_pmf_at_large_n_against_poisson() -> None:
    mean = 5.0
    s = np.arange(30)
    wanted = stats.poisson.logpmf(s, mean)
    # ln(n!/((n-s)! n^s)) lies in [-s^2/n, 0], (n-s) ln(1-mean/n) + mean within
    # (mean s + mean^2)/n of 0.
    slack = (s * s + mean * s + mean * mean) / BIG
    found = log_binomial_pmf(s, BIG, mean / BIG)
    assert np.all(np.abs(found - wanted) <= slack + ROUNDING)
    assert float(log_binomial_pmf(0, BIG, 1e-13)) == pytest.approx(-0.1, rel=1e-12)


def test_log_pmf_at_large_n_against_normal() -> None:
    p = 0.25
    sd = math.sqrt(BIG * p * (1 - p))
    s = np.round(BIG * p + sd * np.linspace(-5, 5, 21))
    z = (s - BIG * p) / sd
    skew = (1 - 2 * p) / sd
    # Edgeworth: the next term of ln pmf is a polynomial of degree 4 over sd^2 with
    # coefficients below 1.
    wanted = -z * z / 2 - math.log(sd * math.sqrt(2 * math.pi)) + skew / 6 * (z**3 - 3 * z)
    slack = (3 + z**4) / sd**2
    assert np.all(np.abs(log_binomial_pmf(s, BIG, p) - wanted) <= slack + ROUNDING)


@pytest.mark.parametrize(
    ("marked", "total", "drawn", "wanted"),
    [
        *((0, 10, 4, 0), (10, 10, 9, 9), (3, 10, 0, 0), (3, 10, 10, 3), (0, 0, 0, 0)),
        *((0, BIG, BIG // 3, 0), (BIG, BIG, BIG // 3, BIG // 3), (BIG // 7, BIG, BIG, BIG // 7)),
    ],
)
def test_certain_draws(marked: int, total: int, drawn: int, wanted: int) -> None:
    assert draw(0, marked, total, drawn, 3).tolist() == [wanted] * 3


@pytest.mark.parametrize(("marked", "total", "drawn"), [(7, 20, 5), (300, 1000, 400), (5, 99, 90)])
def test_small_draws_against_scipy(marked: int, total: int, drawn: int) -> None:
    found = np.bincount(draw(11, marked, total, drawn, 50_000), minlength=drawn + 1)
    law = stats.hypergeom.pmf(np.arange(found.size), total, marked, drawn)
    assert_frequencies(found, law)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_few_marked_records_among_many_are_hypergeometric(share: float) -> None:
    """By rejection; in exact whole numbers C(20, x) (drawn)_x (rest)_(20-x) / (total)_20."""
    limit = 10**9  # where numpy's own sampler ends
    marked, drawn = 20, int(share * limit)
    found = draw(1, marked, limit, drawn, 100_000)
    ways = [
        math.comb(marked, x) * math.perm(drawn, x) * math.perm(limit - drawn, marked - x)
        for x in range(marked + 1)
    ]
    law = [way / math.perm(limit, marked) for way in ways]
    assert_frequencies(np.bincount(found, minlength=marked + 1), law)


def test_populations_of_one_call_do_not_mix() -> None:
    total = rng(3).integers(1, 40, 5000)
    marked, drawn = rng(4).integers(0, total + 1), rng(5).integers(0, total + 1)
    found = hypergeometric(rng(6), marked, total, drawn)
    assert np.all(found >= np.maximum(0, drawn + marked - total))
    assert np.all(found <= np.minimum(drawn, marked))
    # z-test of the sum of all draws, false-alarm probability 1e-6.
    gap = (found - marked * drawn / total).sum()
    p = marked / total
    variance = drawn * p * (1 - p) * (total - drawn) / np.maximum(total - 1, 1)
    assert abs(gap) <= stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(variance.sum())


@pytest.mark.parametrize(
    ("marked", "drawn"),
    [(BIG // 2, BIG // 2), (BIG // 3, 9 * BIG // 10), (BIG // 1000, 10**8)],
)
def test_large_draws_are_normal(marked: int, drawn: int) -> None:
    found = draw(5, marked, BIG, drawn, 10_000)
    p, share = marked / BIG, drawn / BIG
    variance = drawn * p * (1 - p) * (1 - share) * BIG / (BIG - 1)
    # The kurtosis, below 1e-4, changes the variance of a square by as little.
    assert_standard((found - marked * share) / math.sqrt(variance), 1e-4)
