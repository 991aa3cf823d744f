"""The minimax binary mean: rounding of records, and the distribution of releases."""

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

# These data contradict assumptions on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::dpbench.errors.AssumptionWarning")


@pytest.mark.parametrize("budget", [PureDP(0.7), ApproxDP(0.7, 1e-6)])
def test_the_law_of_a_release(budget: Budget) -> None:
    """Compare releases with the sum over all noises; 4 of the 8 records are 1/2 or more."""
    records = np.array([-1e300, 0.0, 0.49, 0.5, 0.7, 1.0, 1e300, 0.2])
    rule, far = binary_minimax(8, 0.7).rule, np.arange(-80, 81)
    chances = np.exp(-0.7 * abs(far)) * math.tanh(0.35)
    expected = np.bincount(np.clip(4 + far, 0, 8), weights=chances, minlength=9)
    releases = release(BinaryMinimax(), records, budget, rng=rng(1), repeats=40_000)
    where = np.argmin(abs(np.asarray(releases)[:, None] - rule), axis=1)
    np.testing.assert_array_equal(rule[where], releases)
    assert_frequencies(np.bincount(where, minlength=9), expected.astype(float))


def test_counts_are_as_good_as_records() -> None:
    dense = DenseSample(np.repeat([[0.0, 1.0]], [7, 3], axis=1))
    counted = CountedSample([0.0, 1.0], [[7, 3]])
    from_records, from_counts = (
        BinaryMinimax().run(sample, Ledger(PureDP(1.0), rng(2))) for sample in (dense, counted)
    )
    assert from_records.value == from_counts.value
    assert from_records.before_noise == from_counts.before_noise == binary_minimax(10, 1.0).rule[3]


def test_more_records_than_it_takes_are_refused() -> None:
    with pytest.raises(ValueError, match="up to 1000 records, got 1001"):
        release(BinaryMinimax(), np.zeros(1001), PureDP(1.0), rng=rng(3))
