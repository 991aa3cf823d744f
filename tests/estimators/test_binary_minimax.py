"""The minimax binary mean: what it counts, and the law of what it releases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpbench import release
from dpbench.estimators import BinaryMinimax
from dpbench.estimators.binary_risk import binary_minimax
from dpbench.privacy import ApproxDP, Budget, Ledger, PureDP
from dpbench.samples import CountedSample, DenseSample
from tests.support import assert_frequencies, rng


@pytest.mark.parametrize("budget", [PureDP(0.7), ApproxDP(0.7, 1e-6)])
def test_the_law_of_a_release(budget: Budget) -> None:
    """By the sum over all noises; records of 1/2 or more are ones, wherever they are."""
    records = np.array([-1e300, 0.0, 0.49, 0.5, 0.7, 1.0, 1e300, 0.2])
    rule, far = binary_minimax(8, 0.7).rule, np.arange(-80, 81)
    chances = np.exp(-0.7 * abs(far)) * math.tanh(0.35)
    wanted = np.bincount(np.clip(4 + far, 0, 8), weights=chances, minlength=9)
    found = release(BinaryMinimax(), records, budget, rng=rng(1), repeats=40_000)
    where = np.argmin(abs(np.asarray(found)[:, None] - rule), axis=1)
    np.testing.assert_array_equal(rule[where], found)
    assert_frequencies(np.bincount(where, minlength=9), wanted.astype(float))


def test_counts_are_as_good_as_records() -> None:
    dense = DenseSample(np.repeat([[0.0, 1.0]], [7, 3], axis=1))
    counted = CountedSample([0.0, 1.0], [[7, 3]])
    one, other = (
        BinaryMinimax().run(sample, Ledger(PureDP(1.0), rng(2))) for sample in (dense, counted)
    )
    assert one.value == other.value
    assert one.before_noise == other.before_noise == binary_minimax(10, 1.0).rule[3]


def test_more_records_than_it_takes_are_refused() -> None:
    with pytest.raises(ValueError, match="up to 1000 records, got 1001"):
        release(BinaryMinimax(), np.zeros(1001), PureDP(1.0), rng=rng(3))
