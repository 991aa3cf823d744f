"""The largest of noisy numbers, and its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from dpbench.analysis.largest_of_noisy import NORMAL_QUANTILE, largest
from dpbench.analysis.resample import Measurement

RUNS = 4000
SPREAD = 0.03


def measured(truth: Sequence[float], seed: int, among: int = 1) -> list[Measurement]:
    """What many experiments say of the largest of these numbers."""
    rng = np.random.default_rng(seed)
    seen = np.asarray(truth) + SPREAD * rng.standard_normal((RUNS, len(truth)))
    reach = NORMAL_QUANTILE * SPREAD
    return [largest(one, one - reach, one + reach, candidates=among) for one in seen]


def rarely(count: int, rate: float) -> bool:
    """Whether so many of RUNS are possible at this rate; false alarms have probability 1e-6."""
    return bool(stats.binom.sf(count - 1, RUNS, rate) > 1e-6)


TIED, ONE, NEAR, MIXED = [1.2] * 16, [1.2], [1.2, 1.19, 1.17, 1.1], [1.2] + [1.0] * 15


@pytest.mark.parametrize("truth", [TIED, ONE, NEAR, MIXED])
def test_an_interval_covers_the_largest_and_the_number_is_not_too_high(truth: list[float]) -> None:
    found = np.array(measured(truth, 1))
    number, low, high = found.T
    assert rarely(int((low > 1.2).sum()), 0.025)
    assert rarely(int((high < 1.2).sum()), 0.025)
    assert rarely(int((number > 1.2).sum()), 0.5)
    assert np.all(low <= number)
    assert np.all(number <= high)


def test_of_tied_numbers_levels_are_reached() -> None:
    """Below at rates 0.025 and 1/2: neither end nor number is lower than it need be."""
    number, low, _ = np.array(measured(TIED, 2)).T
    assert stats.binomtest(int((low > 1.2).sum()), RUNS, 0.025).pvalue > 1e-6
    assert stats.binomtest(int((number > 1.2).sum()), RUNS, 0.5).pvalue > 1e-6
    # The plain largest is nearly always too high, by 1.8 standard errors.
    rng = np.random.default_rng(3)
    plain = (1.2 + SPREAD * rng.standard_normal((RUNS, 16))).max(axis=1)
    assert not rarely(int((plain > 1.2).sum()), 0.5)


def test_one_that_stands_out_is_as_measured() -> None:
    """Those far below it have no part in the number; its lower end allows for them."""
    number, low, high = largest([1.2, 1.0], [1.19, 0.99], [1.22, 1.01])
    assert number == pytest.approx(1.2)
    assert high == pytest.approx(1.22)
    assert low == pytest.approx(1.2 - 0.01 * stats.norm.ppf(0.975**0.5) / NORMAL_QUANTILE)


def test_the_chosen_one_of_several_is_covered() -> None:
    """The least of ten largest is too low, and the ends of ten cover at once."""
    truth, among = [1.2, 1.0], 10
    each = np.array([measured(truth, seed, among) for seed in range(20, 20 + among)])
    chosen = each[each[..., 0].argmin(axis=0), np.arange(RUNS)]
    assert rarely(int((chosen[:, 2] < 1.2).sum()), 0.025)
    alone = np.array([measured(truth, seed) for seed in range(20, 20 + among)])
    chosen = alone[alone[..., 0].argmin(axis=0), np.arange(RUNS)]
    assert not rarely(int((chosen[:, 2] < 1.2).sum()), 0.025)


def test_exact_and_infinite_numbers_stand_as_they_are() -> None:
    assert largest([1.1, 1.3], [1.1, 1.3], [1.1, 1.3]) == (1.3, 1.3, 1.3)
    number, low, high = largest([1.3, 1.0], [1.3, 0.9], [1.3, 1.5])
    assert (number, low, high) == (1.3, 1.3, 1.5)
    assert largest([np.inf, 1.0], [1.1, 0.9], [np.inf, 1.2]) == (np.inf, 1.1, np.inf)
    assert largest([1.0], [0.9], [np.inf]).high == np.inf
    assert largest([0.1, 0.1], [0.0, 0.0], [0.2, 0.2]).low == 0  # no error is negative


@pytest.mark.parametrize(("distance", "near"), [(5.5, 2), (6.6, 2), (6.8, 1)])
def test_which_numbers_may_be_the_largest(distance: float, near: int) -> None:
    """Of two with standard error 1: those within 3 c of the larger, c = 2.24 standard errors.

    The estimate lies below the larger number by the median of the larger of `near` normal errors.
    """
    numbers = np.array([100.0, 100.0 - distance])
    found = largest(numbers, numbers - NORMAL_QUANTILE, numbers + NORMAL_QUANTILE)
    c = stats.norm.ppf(0.975**0.5)
    assert (distance <= 3 * c) == (near == 2)
    assert found.measured == pytest.approx(100 - stats.norm.ppf(0.5 ** (1 / near)))
