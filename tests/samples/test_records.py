"""Records handed out one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support import assert_frequencies, rng

from dpbench.samples import CountedSample, DenseSample, Sample, SparseSample


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2)])
@pytest.mark.parametrize("alike", [False, True])
def test_dense_records_are_copies(shape: tuple[int, ...], alike: bool) -> None:
    values = rng().normal(size=shape)
    if alike:
        values = np.broadcast_to(values[:1], shape)
    sample = DenseSample(values)
    kept = values.copy()
    for trial in range(3):
        found = sample.records(trial, rng())
        np.testing.assert_array_equal(found, kept[trial])
        assert found.flags.c_contiguous
        found[:] = 0
    np.testing.assert_array_equal(values, kept)


def test_the_order_of_counted_records_is_uniform() -> None:
    sample = CountedSample([0.0, 1.0, 2.0], [[1, 3, 0], [2, 1, 1]])
    assert sorted(sample.records(0, rng())) == [0.0, 1.0, 1.0, 1.0]
    stream = rng(1)
    found = Counter(tuple(sample.records(1, stream)) for _ in range(6000))
    assert {tuple(sorted(order)) for order in found} == {(0.0, 0.0, 1.0, 2.0)}
    assert_frequencies(list(found.values()), [1 / 12] * 12)  # 4!/2!


def test_the_places_of_sparse_records_are_uniform() -> None:
    sample = SparseSample(np.array([[9.0], [1.0], [2.0], [5.0]]), np.array([1, 2, 1]), 4)
    stream = rng(2)
    found = Counter(tuple(sample.records(1, stream)[:, 0]) for _ in range(6000))
    assert {tuple(sorted(order)) for order in found} == {(0.0, 0.0, 1.0, 2.0)}
    assert_frequencies(list(found.values()), [1 / 12] * 12)
    assert sorted(sample.records(2, rng())[:, 0]) == [0.0, 0.0, 0.0, 5.0]


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
