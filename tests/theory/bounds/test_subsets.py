"""The lower bound for a dataset against enumeration; `test_numbers` checks the tests behind it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpbench.distributions import Empirical, FixedDataset, StudentT
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.theory.bounds.class_bound import class_bound
from dpbench.theory.bounds.numbers import _testing_error, largest_untestable_difference
from dpbench.theory.bounds.subsets import subset_lower_bound
from tests.support import Floats, rng

BUDGETS = [PureDP(0.7), PureDP(0.31), ApproxDP(0.5, 0.01), GDP(0.4), ZCDP(0.05)]


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.label)
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_largest_untestable_difference_is_that_of_a_loop(budget: Budget, n: int) -> None:
    hidden = [s for s in range(n + 1) if _testing_error(s, budget) >= 0.1]
    assert largest_untestable_difference(n, budget) == max(hidden)


def test_pure_dp_hides_two_logarithms() -> None:
    """K is (2/epsilon) ln(1/(2 beta)) up to rounding; without privacy no number is known."""
    assert largest_untestable_difference(10**6, PureDP(0.01)) == np.floor(200 * np.log(5))
    assert np.isnan(largest_untestable_difference(10, NonPrivate()))
    assert np.isnan(subset_lower_bound(np.arange(3.0), NonPrivate()))


def largest_distance(x: Floats, most: int) -> float:
    """Return half of the largest distance of means of x without two disjoint sets of records.

    The sets have at most `most` records together; all are tried, not only the largest and smallest.
    """
    n = len(x)
    means = {
        removed: np.delete(x, removed).mean()
        for size in range(min(most, n - 1) + 1)
        for removed in itertools.combinations(range(n), size)
    }
    return max(
        float(abs(means[one] - means[two])) / 2
        for one, two in itertools.product(means, means)
        if len(one) + len(two) <= most and not {*one} & {*two}
    )


@pytest.mark.parametrize("epsilon", [3.2, 1.7, 1.1, 0.85, 0.01])
@pytest.mark.parametrize(
    "x", [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.0, 0.0, 0.0, 0.0, 9.0], [-7.0, 1.0, 1.5, 40.0, 2.0]]
)
def test_no_other_removal_of_as_many_records_moves_the_mean_farther(
    x: list[float], epsilon: float
) -> None:
    """The largest or smallest records are the best to remove, in total or from both ends."""
    most = int(largest_untestable_difference(len(x), PureDP(epsilon)))
    if most < len(x):
        found = subset_lower_bound(np.array(x), PureDP(epsilon))
        assert found == pytest.approx(largest_distance(np.array(x), most), rel=1e-12, abs=1e-15)


def test_a_far_record_counts_once() -> None:
    """The bound grows by half of the record's distance over n; it follows shifts and scales."""
    x: Floats = rng().normal(0, 1, 500)
    near = subset_lower_bound(x, PureDP(1.0))
    far = subset_lower_bound(np.append(x[1:], 1e6), PureDP(1.0))
    assert far == pytest.approx(1e6 / 1000, rel=0.01)
    assert subset_lower_bound(1e9 + 8 * x, PureDP(1.0)) == pytest.approx(8 * near, rel=1e-5)


def test_a_fixed_dataset_has_the_bound_of_its_records() -> None:
    law = FixedDataset(of=StudentT(tail_index=3))
    found = class_bound(law, 300, ZCDP(0.5))
    assert found == (subset_lower_bound(law.records(300), ZCDP(0.5)), "subsets")
    assert np.isnan(class_bound(law, 300, ZCDP(0.5), local=True).value)
    galton = FixedDataset(of=Empirical(path="galton_heights.csv", column="height_cm"))
    assert class_bound(galton, 1000, PureDP(1.0)).value > 0
