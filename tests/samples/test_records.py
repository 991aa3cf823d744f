"""Records handed out one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support import assert_frequencies, rng, unchanged

from dpbench.samples import CountedSample, DenseSample, Sample, SparseSample


def test_dense_records_are_copies() -> None:
    for shape in ((3, 4), (3, 4, 2)):
        values = rng().normal(size=shape)
        for given in (values, np.broadcast_to(values[:1], shape)):
            sample = DenseSample(given)
            with unchanged(given):
                for trial in range(3):
                    found = sample.records(trial, rng())
                    np.testing.assert_array_equal(found, given[trial])
                    assert found.flags.c_contiguous
                    found[:] = 0


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
    with pytest.raises(ValueError, match=r"numbers of one dataset are too many.*at most 1e\+08$"):
        sample.records(0, rng())
