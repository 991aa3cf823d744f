"""Queries that every sample answers or refuses."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dpbench.samples import CountedSample, DenseSample, Sample, SparseSample
from tests.support import assert_frequencies, rng


@pytest.mark.parametrize(
    "sample",
    [
        CountedSample([0.0, 1.0, 2.0], [[1, 3, 0], [2, 1, 1], [3, 0, 1]]),
        SparseSample(np.array([[9.0], [1.0], [2.0], [5.0]]), np.array([1, 2, 1]), 4),
    ],
)
def test_the_order_of_records_is_uniform(sample: Sample) -> None:
    stream = rng(1)
    found = Counter(tuple(np.ravel(sample.records(1, stream))) for _ in range(6000))
    assert {tuple(sorted(order)) for order in found} == {(0.0, 0.0, 1.0, 2.0)}
    assert_frequencies(list(found.values()), [1 / 12] * 12)  # 4!/2!
    assert sorted(np.ravel(sample.records(2, rng())))[:3] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "sample",
    [
        CountedSample([0.0, 1.0], [[10**12 - 5, 5]]),
        SparseSample(np.ones((1, 2)), np.array([1]), 10**8 // 2 + 1),
    ],
)
def test_too_many_records_are_refused(sample: Sample) -> None:
    with pytest.raises(ValueError, match=r"numbers is too large to hold.*at most 1e\+08$"):
        sample.records(0, rng())


def test_too_few_records_are_refused() -> None:
    for sample in (DenseSample(np.zeros((2, 5))), CountedSample([0.0, 1.0], [[2, 3]])):
        for parts in (0, 6, -1):
            with pytest.raises(ValueError, match="5 records cannot be cut"):
                sample.groups(parts, rng())
    for sample in (DenseSample([[1.0], [2.0]]), CountedSample([0.0, 1.0], [[0, 1]])):
        with pytest.raises(ValueError, match="pairs need at least 2"):
            sample.half_squared_differences(rng())
