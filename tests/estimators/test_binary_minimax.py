"""The minimax binary mean: rounding of records, and the distribution of releases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpbench import release
from dpbench.estimators import BinaryMinimax
from dpbench.estimators.binary_risk import binary_minimax
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.samples import CountedSample, DenseSample
from dpbench.theory.exact.binary import tulap_or_gaussian
from tests.support import assert_frequencies, rng

# These data contradict assumptions on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::dpbench.errors.AssumptionWarning")


LEVELS = np.array([0.25, 0.4, 0.5, 0.6, 0.75])  # into which releases are sorted
RECORDS = np.array([-1e300, 0.0, 0.49, 0.5, 0.7, 1.0, 1e300, 0.2])  # four are 1/2 or more


def test_the_law_of_a_release_under_pure_dp() -> None:
    """Compare releases with the sum over all noises."""
    rule, far = binary_minimax(8, PureDP(0.7)).rule, np.arange(-80, 81)
    chances = np.exp(-0.7 * abs(far)) * math.tanh(0.35)
    expected = np.bincount(np.clip(4 + far, 0, 8), weights=chances, minlength=9)
    releases = release(BinaryMinimax(), RECORDS, PureDP(0.7), rng=rng(1), repeats=40_000)
    where = np.argmin(abs(np.asarray(releases)[:, None] - rule), axis=1)
    np.testing.assert_array_equal(rule[where], releases)
    assert_frequencies(np.bincount(where, minlength=9), expected.astype(float))


@pytest.mark.parametrize("budget", [ApproxDP(0.7, 0.05), GDP(1.0), ZCDP(0.5)])
def test_the_law_of_a_release(budget: Budget) -> None:
    """Compare releases with the probabilities of the cells, by the noise of the theory."""
    minimax = binary_minimax(8, budget)
    ends = np.concatenate([[-np.inf], minimax.edges, [np.inf]])
    levels, cell = np.unique(np.round(minimax.rule, 12), return_inverse=True)
    chances = np.diff(tulap_or_gaussian(budget).cdf(ends - 4))
    expected = np.bincount(np.digitize(levels[cell], LEVELS), weights=chances, minlength=6)
    releases = release(BinaryMinimax(), RECORDS, budget, rng=rng(1), repeats=40_000)
    found = np.bincount(np.digitize(np.round(releases, 12), LEVELS), minlength=6)
    assert_frequencies(found, expected.astype(float))


def test_counts_are_as_good_as_records() -> None:
    dense = DenseSample(np.repeat([[0.0, 1.0]], [7, 3], axis=1))
    counted = CountedSample([0.0, 1.0], [[7, 3]])
    from_records, from_counts = (
        BinaryMinimax().run(sample, Ledger(PureDP(1.0), rng(2))) for sample in (dense, counted)
    )
    assert from_records.value == from_counts.value
    assert (
        from_records.before_noise
        == from_counts.before_noise
        == binary_minimax(10, PureDP(1.0)).rule[3]
    )


def test_more_records_than_it_takes_are_refused() -> None:
    with pytest.raises(ValueError, match="up to 1000 records, got 1001"):
        release(BinaryMinimax(), np.zeros(1001), PureDP(1.0), rng=rng(3))
