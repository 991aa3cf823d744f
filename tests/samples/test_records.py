"""Records handed out one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from dpbench.samples import CountedSample, DenseSample, Sample, SparseSample

FALSE_ALARM = 1e-6


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2), (3, 4, 1)])
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
        assert not np.shares_memory(found, values)
        found[:] = 0
    np.testing.assert_array_equal(values, kept)


def test_counted_records_are_the_counts() -> None:
    counts = np.array([[2, 0, 3], [0, 5, 0]])
    sample = CountedSample([-1.0, 0.5, 7.0], counts)
    for trial, wanted in enumerate(counts):
        found = sample.records(trial, rng())
        assert Counter(found.tolist()) == {
            a: c for a, c in zip(sample.atoms, wanted, strict=True) if c
        }
        found[:] = 0
    assert sample.atoms.tolist() == [-1.0, 0.5, 7.0]


def chi_squared(found: Counter[tuple[float, ...]], kinds: int) -> None:
    """Each of so many outcomes is as likely as any other."""
    assert len(found) == kinds
    assert stats.chisquare(list(found.values())).pvalue > FALSE_ALARM


def test_the_order_of_counted_records_is_uniform() -> None:
    sample = CountedSample([0.0, 1.0, 2.0], [[2, 1, 1]])
    stream = rng(1)
    chi_squared(Counter(tuple(sample.records(0, stream)) for _ in range(6000)), 12)  # 4!/2!


def test_the_places_of_sparse_records_are_uniform() -> None:
    sample = SparseSample(np.array([[9.0], [1.0], [2.0]]), np.array([1, 2]), 4)
    stream = rng(2)
    found = Counter(tuple(sample.records(1, stream)[:, 0]) for _ in range(6000))
    assert {tuple(sorted(order)) for order in found} == {(0.0, 0.0, 1.0, 2.0)}
    chi_squared(found, 12)


def test_sparse_records_of_every_trial() -> None:
    rows, held = rng(3).normal(size=(7, 3)), np.array([3, 0, 4])
    sample = SparseSample(rows, held, 4)
    for trial, wanted in enumerate(np.split(rows, [3, 3])):
        found = sample.records(trial, rng())
        assert found.shape == (4, 3)
        kept = found[found.any(axis=1)]
        assert sorted(map(tuple, kept)) == sorted(map(tuple, wanted))
        found[:] = 0
    assert sample.rows_held.all()


@pytest.mark.parametrize(
    "sample",
    [
        CountedSample([0.0, 1.0], [[10**12 - 5, 5]]),
        SparseSample(np.ones((1, 3)), np.array([1]), 10**12),
        SparseSample(np.ones((1, 2)), np.array([1]), 10**8 // 2 + 1),
    ],
)
def test_too_many_records_are_refused(sample: Sample) -> None:
    with pytest.raises(ValueError, match=r"numbers of one dataset are too many.*at most 1e\+08$"):
        sample.records(0, rng())
