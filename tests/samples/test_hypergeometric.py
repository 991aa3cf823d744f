"""Binomial probabilities and hypergeometric draws, small and at 1e12."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from dpbench.arrays import Ints
from dpbench.samples.hypergeometric import (
    MAX_SINGLE_PLACES,
    _log_over_mode,
    draw_without_replacement,
    hypergeometric,
    log_binomial_pmf,
)
from tests.support import BIG, FALSE_ALARM, assert_frequencies, assert_standard, rng


def draw(seed: int, marked: int, total: int, drawn: int, times: int) -> Ints:
    full = [np.full(times, a, dtype=np.int64) for a in (marked, total, drawn)]
    return hypergeometric(rng(seed), *full)


def log_factorial(n: int) -> Decimal:
    if n < 1000:
        return Decimal(math.factorial(n)).ln()
    x = Decimal(n)
    series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)  # up to 1e-24
    return x * x.ln() - x + (2 * Decimal(math.pi) * x).ln() / 2 + series


SPREAD = np.linspace(-5, 5, 21) * math.sqrt(BIG * 0.25 * 0.75)  # five standard deviations


@pytest.mark.parametrize(
    ("n", "p", "places"),
    [(n, p, range(n + 1)) for n in (1, 2, 16, 17, 30) for p in (0.001, 0.3, 0.9)]
    + [(BIG, 5e-12, range(30)), (BIG, 1e-13, [0]), (BIG, 0.25, (BIG * 0.25 + SPREAD).astype(int))],
)
def test_log_pmf_in_fifty_digits(n: int, p: float, places: Sequence[int]) -> None:
    with localcontext(prec=50):
        whole, one, other = log_factorial(n), Decimal(p).ln(), (1 - Decimal(p)).ln()
        for s in map(int, places):
            wanted = whole - log_factorial(s) - log_factorial(n - s) + s * one + (n - s) * other
            # The deviance is a difference of numbers of size |s - mean|, up to 2.5e6 for BIG.
            room = 1e-9 if n == BIG else 1e-12
            assert log_binomial_pmf(s, n, p) == pytest.approx(float(wanted), rel=1e-13, abs=room)


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
    """Compare draws by rejection with exact probabilities.

    They are C(20, x) (drawn)_x (rest)_(20-x) / (total)_20, with falling factorials.
    """
    limit = 10**9  # the limit of numpy's sampler
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
    ("marked", "drawn"), [(BIG // 2, BIG // 2), (BIG // 3, 9 * BIG // 10), (BIG // 1000, 10**8)]
)
def test_large_draws_are_normal(marked: int, drawn: int) -> None:
    found = draw(5, marked, BIG, drawn, 10_000)
    p, share = marked / BIG, drawn / BIG
    variance = drawn * p * (1 - p) * (1 - share) * BIG / (BIG - 1)
    # The kurtosis, below 1e-4, changes the variance of a square by as little.
    assert_standard((found - marked * share) / math.sqrt(variance), 1e-4)


@pytest.mark.parametrize("n", [5 * 10**8, BIG])
@pytest.mark.parametrize("common", [False, True])
def test_chance_over_that_of_the_mode(n: int, common: bool) -> None:
    """Compare with probabilities, inside and beyond the table of factorials; each errs by 1e-9."""
    mean = np.repeat([0.3, 20.0, 700.0, 3000.0], 60)
    x = np.maximum(0, np.rint(mean + np.tile(np.linspace(-5, 5, 60), 4) * np.sqrt(mean)))
    mode, p = np.floor(mean), mean / n
    wanted = log_binomial_pmf(x, n, p) - log_binomial_pmf(mode, n, p)
    if common:
        x, mode, p = n - x, n - mode, 1 - p
        wanted = log_binomial_pmf(x, n, p) - log_binomial_pmf(mode, n, p)
    found = _log_over_mode(x, mode, np.full(x.size, n), p)
    assert np.abs(found - wanted).max() < 3e-9


def test_draws_from_many_places_are_hypergeometric() -> None:
    """Each comparison alarms falsely with probability 1e-6."""
    row, size = rng(7).integers(0, 6, 1300), 900
    assert row.size > MAX_SINGLE_PLACES
    found = draw_without_replacement(np.tile(row, (4000, 1)), np.full(4000, size), rng(8))
    assert np.all(found.sum(axis=1) == size)
    assert np.all((found >= 0) & (found <= row))
    for places in ([int(row.argmax())], list(range(0, 1300, 50))):  # one place, and a group
        law = stats.hypergeom(row.sum(), row[places].sum(), size)
        drawn = found[:, places].sum(axis=1)
        chances = law.pmf(np.arange(row[places].sum() + 1))
        assert_frequencies(np.bincount(drawn, minlength=chances.size), chances)
