"""Binomial probabilities and hypergeometric draws, small and at 1e12."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpbench.samples.hypergeometric import hypergeometric, log_binomial_pmf

Counts = NDArray[np.int64]

BIG = 10**12
# The deviance is a difference of numbers of size |s - mean|, five standard deviations
# or 2.5e6 here, each rounded by 1.1e-16 of itself: 3e-10 per term, two terms.
ROUNDING = 1e-9
FALSE_ALARM = 1e-6


def draw(seed: int, marked: int, total: int, drawn: int, times: int) -> Counts:
    full = [np.full(times, a, dtype=np.int64) for a in (marked, total, drawn)]
    return hypergeometric(np.random.default_rng(seed), *full)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 200, 10_000])
@pytest.mark.parametrize("p", [1e-5, 0.01, 0.3, 0.5, 0.99])
def test_log_pmf_against_scipy(n: int, p: float) -> None:
    s = np.arange(n + 1)
    wanted = stats.binom.logpmf(s, n, p)
    np.testing.assert_allclose(log_binomial_pmf(s, n, p), wanted, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 5, 16, 17, 30])
@pytest.mark.parametrize("p", [0.001, 0.3, 0.5, 0.9])
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


@pytest.mark.parametrize("p", [0.5, 0.25])
def test_log_pmf_at_large_n_against_normal(p: float) -> None:
    sd = math.sqrt(BIG * p * (1 - p))
    s = np.round(BIG * p + sd * np.linspace(-5, 5, 21))
    z = (s - BIG * p) / sd
    skew = (1 - 2 * p) / sd
    # Edgeworth: the next term of ln pmf is a polynomial of degree 4 over sd^2 with
    # coefficients below 1.
    wanted = -z * z / 2 - math.log(sd * math.sqrt(2 * math.pi)) + skew / 6 * (z**3 - 3 * z)
    slack = (3 + z**4) / sd**2
    assert np.all(np.abs(log_binomial_pmf(s, BIG, p) - wanted) <= slack + ROUNDING)


def test_log_pmf_at_both_ends() -> None:
    p = 1e-13
    assert float(log_binomial_pmf(0, BIG, p)) == pytest.approx(-0.1, rel=1e-12)
    assert float(log_binomial_pmf(BIG, BIG, p)) == BIG * math.log(p)
    assert float(log_binomial_pmf(0, 0, 0.5)) == 0.0


def test_pmf_at_large_n_adds_up_to_one() -> None:
    # Poisson(50) has less than 1e-100 beyond 500.
    total = np.exp(log_binomial_pmf(np.arange(500), BIG, 50 / BIG)).sum()
    assert total == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    ("marked", "total", "drawn"),
    [(7, 20, 5), (7, 20, 15), (10, 20, 10), (300, 1000, 400), (5, 1000, 900), (995, 1000, 500)],
)
def test_hypergeometric_against_scipy(marked: int, total: int, drawn: int) -> None:
    times = 100_000
    found = np.bincount(draw(11, marked, total, drawn, times), minlength=drawn + 1)
    expected = times * stats.hypergeom.pmf(np.arange(found.size), total, marked, drawn)
    assert found[expected == 0].sum() == 0
    own = expected >= 25
    cells = np.append(found[own], found[~own].sum())
    wanted = np.append(expected[own], expected[~own].sum())
    cells, wanted = cells[wanted > 1e-6], wanted[wanted > 1e-6]
    statistic = float(((cells - wanted) ** 2 / wanted).sum())
    # Chi-square test with false-alarm probability 1e-6.
    assert statistic <= stats.chi2.isf(FALSE_ALARM, len(cells) - 1)


@pytest.mark.parametrize(
    ("marked", "total", "drawn", "wanted"),
    [
        (0, 10, 4, 0),
        (10, 10, 4, 4),
        (10, 10, 9, 9),
        (3, 10, 0, 0),
        (3, 10, 10, 3),
        (0, 0, 0, 0),
        (1, 1, 1, 1),
        (0, BIG, BIG // 3, 0),
        (BIG, BIG, BIG // 3, BIG // 3),
        (BIG // 7, BIG, BIG, BIG // 7),
    ],
)
def test_certain_draws(marked: int, total: int, drawn: int, wanted: int) -> None:
    assert draw(0, marked, total, drawn, 3).tolist() == [wanted] * 3


def test_populations_of_one_call_do_not_mix() -> None:
    rng = np.random.default_rng(3)
    total = rng.integers(1, 40, 5000)
    marked, drawn = rng.integers(0, total + 1), rng.integers(0, total + 1)
    found = hypergeometric(rng, marked, total, drawn)
    assert np.all(found >= np.maximum(0, drawn + marked - total))
    assert np.all(found <= np.minimum(drawn, marked))
    # z-test of the sum of all draws, false-alarm probability 1e-6.
    gap = (found - marked * drawn / total).sum()
    p = marked / total
    variance = drawn * p * (1 - p) * (total - drawn) / np.maximum(total - 1, 1)
    assert abs(gap) <= stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(variance.sum())


@pytest.mark.parametrize(
    ("marked", "drawn"),
    [
        (BIG // 2, BIG // 2),
        (BIG // 3, BIG // 10),
        (BIG // 3, 9 * BIG // 10),
        (1000, BIG // 3),
        (BIG - 1000, 2 * BIG // 3),
        (BIG // 1000, 10_000),
    ],
)
def test_mean_and_variance_at_large_totals(marked: int, drawn: int) -> None:
    times = 10_000
    found = draw(5, marked, BIG, drawn, times)
    p, share = marked / BIG, drawn / BIG
    mean = marked * share
    variance = drawn * p * (1 - p) * (1 - share) * BIG / (BIG - 1)
    centred = (found - mean) / math.sqrt(variance)
    # z-tests of mean and mean square, each with false-alarm probability 1e-6. The
    # variance of a square is 2 + excess kurtosis, which is below 1/variance here.
    z = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(centred.mean()) <= z / math.sqrt(times)
    assert abs((centred**2).mean() - 1) <= z * math.sqrt((2 + 1 / variance) / times)
