"""Records stored one by one, against naive loops and against counts."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from dpbench.samples import CountedSample, DenseSample, dense
from tests.samples.counts import counted, expanded
from tests.support import BIG, Floats, rng, unchanged


def naive(values: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Floats:
    """Return clipped means record by record; each sum is rounded once."""
    rows = np.asarray(values, dtype=float)
    low, high = (np.broadcast_to(b, len(rows))[:, None] for b in (lower, upper))
    return np.array([math.fsum(row) / len(row) for row in np.clip(rows, low, high).tolist()])


def close(found: Floats, wanted: Floats) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)


EVEN = np.linspace(-4, 0, 7)
BOUNDS: list[tuple[float | Floats, float | Floats]] = [
    *((-0.3, 0.4), (-3.5, 50.0), (-100.0, 1e9), (60.0, 70.0), (0.25, 0.25)),
    *((EVEN, 60.0), (EVEN, np.linspace(0.1, 60.0, 7)), (EVEN, np.linspace(51.0, 60.0, 7))),
]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_clipped_means_and_counts_agree(lower: float | Floats, upper: float | Floats) -> None:
    dense = expanded(counted())
    wanted = naive(dense.values, lower, upper)
    low, high = (np.broadcast_to(b, 7)[:, None] for b in (lower, upper))
    inside = ((dense.values >= low) & (dense.values < high)).sum(axis=1)
    for sample in (dense, counted()):
        close(sample.clipped_mean(lower, upper), wanted)
        np.testing.assert_array_equal(sample.count(lower, upper), inside)
        with pytest.raises(ValueError, match=r"one number or one per trial, got shape \(3,\)"):
            sample.clipped_mean(np.zeros(3), upper)


@pytest.mark.parametrize("q", [1e-9, 0.0625, 0.25, 0.7, 1.0])
def test_quantiles_are_the_smallest_that_reach(q: float) -> None:
    dense = expanded(counted())
    wanted = [
        next(x for x in sorted(row) if np.count_nonzero(row <= x) >= Fraction(q) * 200)
        for row in dense.values
    ]
    for sample in (dense, counted()):
        assert sample.quantile(q).tolist() == wanted


def test_ranks_are_exact_where_products_round() -> None:
    """Check ranks such as 29% of 100 and 10% of 30 records, up to n = 1e12."""
    for n in (3, 30, 70, 100, 300, 10**6, BIG, BIG - 1):
        for percent in range(1, 100):
            rank = math.ceil(Fraction(percent, 100) * n)
            counts = [[rank, n - rank], [rank - 1, n - rank + 1]]
            assert CountedSample([0.0, 1.0], counts).quantile(percent / 100).tolist() == [0.0, 1.0]
            if n <= 300:
                ranks = DenseSample(np.arange(1.0, n + 1)[None])
                assert ranks.quantile(percent / 100) == rank
                cut = math.floor(Fraction(percent, 100) * n)
                if 2 * cut < n:  # without the squares of the smallest and the largest
                    squares = DenseSample(np.arange(1.0, n + 1)[None] ** 2)
                    kept = squares.values[0, cut : n - cut]
                    assert squares.trimmed_mean(percent / 100)[0] == pytest.approx(kept.mean())


@pytest.mark.parametrize("fraction", [0.0, 0.004, 0.05, 0.499])
def test_trimmed_means_agree(fraction: float) -> None:
    dense = expanded(counted())
    cut = math.floor(Fraction(fraction) * 200)
    wanted = np.array([math.fsum(sorted(row)[cut : 200 - cut]) for row in dense.values.tolist()])
    for sample in (dense, counted()):
        close(sample.trimmed_mean(fraction), wanted / (200 - 2 * cut))


@pytest.mark.parametrize("kind", ["1e150", "-1e300", "other trials", "equal"])
@pytest.mark.parametrize("turn", [np.ascontiguousarray, np.asfortranarray])
def test_far_records_swallow_no_digits(kind: str, turn: Callable[[Floats], Floats]) -> None:
    """Check every memory order: a batch drawn as (n, trials) and transposed has Fortran order."""
    values = rng(2).normal(0.3, 1.0, (3, 5000))
    if kind == "other trials":
        values[:] = 1e150
        values[1, :4000] = np.linspace(-2, 3, 4000)
    elif kind == "equal":
        values[:] = [[0.1], [-7e150], [0.0]]
    else:
        values[1, 7] = float(kind)
    for lower, upper in ((-0.1, 0.1), (-5.0, 5.0), (-1e300, 1e300), (5.0, 6.0)):
        found = DenseSample(turn(values)).clipped_mean(lower, upper)
        np.testing.assert_allclose(found, naive(values, lower, upper), rtol=4e-13, atol=1e-14)


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=60),
    st.floats(-1e3, 1e3),
    st.floats(0, 1e3),
)
@settings(max_examples=40)
def test_clipped_mean_of_any_records(row: list[float], lower: float, width: float) -> None:
    upper = lower + width
    found = DenseSample([row]).clipped_mean(lower, upper)
    # Each of n additions rounds a sum of at most n max(|lower|, |upper|).
    slack = 4e-16 * len(row) * max(abs(lower), abs(upper))
    np.testing.assert_allclose(found, naive([row], lower, upper), rtol=0, atol=slack)


@pytest.mark.parametrize("n", [128, 129, 1000, 1031, 4099])
def test_pieces_of_rows_change_no_bit(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = rng(6).standard_t(2, (60, n))
    bounds = np.linspace(-60.0, -40.0, 60), 1e9
    whole = DenseSample(values).clipped_mean(*bounds)
    monkeypatch.setattr(dense, "CACHED_NUMBERS", 128)
    np.testing.assert_array_equal(whole, DenseSample(values).clipped_mean(*bounds))


def test_records_are_held_no_longer_than_the_sample() -> None:
    """Check that memory is freed without the garbage collector, because blocks are large."""
    sample = DenseSample(rng(7).normal(size=(2, 3000)))
    sample.clipped_mean(-9.0, 9.0)
    held = weakref.ref(sample)
    gc.disable()
    try:
        del sample
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("n", [1000, 100_000])
def test_sums_beyond_the_largest_number(n: int) -> None:
    """Check sums that overflow although the mean is finite; the first trial is small."""
    values = np.full((2, n), 1e305)
    values[0] = rng(8).normal(size=n)
    for sample in (DenseSample(values), DenseSample(np.broadcast_to(values[1:], (2, n)))):
        np.testing.assert_allclose(sample.clipped_mean(-9e305, 9e305), sample.mean(), rtol=1e-10)


def test_order_of_queries_changes_no_bit() -> None:
    values = rng(4).standard_t(2, (5, 4000))
    one, other = DenseSample(values), DenseSample(values)
    queries = [(-0.5, 0.5), (-3.0, 3.0), (-50.0, 50.0), (-1e6, 1e9)]
    first = [one.clipped_mean(*bounds) for bounds in queries]
    other.trimmed_mean(0.1)
    second = [other.clipped_mean(*bounds) for bounds in reversed(queries)]
    np.testing.assert_array_equal(first, second[::-1])
    np.testing.assert_array_equal(first, [DenseSample(values).clipped_mean(*b) for b in queries])


def test_vectors_answer_coordinate_by_coordinate() -> None:
    values = rng(5).standard_t(3, (4, 50, 3))
    sample = DenseSample(values)
    assert (sample.trials, sample.n, sample.d) == (4, 50, 3)
    for j in range(3):
        line = DenseSample(values[..., j])
        np.testing.assert_allclose(sample.mean()[:, j], line.mean(), rtol=1e-13)
        close(sample.clipped_mean(-1.0, 0.5)[:, j], line.clipped_mean(-1.0, 0.5))
        np.testing.assert_array_equal(sample.quantile(0.3)[:, j], line.quantile(0.3))
        np.testing.assert_array_equal(sample.count(-1.0, 0.5)[:, j], line.count(-1.0, 0.5))
        close(sample.trimmed_mean(0.1)[:, j], line.trimmed_mean(0.1))


def test_numbers_become_float64() -> None:
    sample = DenseSample(np.array([[0, 1, 1]], dtype=np.uint8))
    assert sample.values.dtype == np.float64
    assert sample.clipped_mean(0.5, 2.0)[0] == 2.5 / 3
    large = DenseSample([[1.5e308] * 10])  # their sum overflows
    assert large.clipped_mean(0.0, 1.0).tolist() == [1.0]
    assert np.all(np.isfinite(large.mean()))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[np.nan, np.inf, 1, 2, 3, 4]], "2 of 6 values are NaN or infinite"),
        ([[np.inf, -np.inf, 1, 2, 3, 4]], "2 of 6 values are NaN or infinite"),
        (np.zeros(3), r"array, got \(3,\)"),
        (np.zeros((2, 0)), "array, got"),
        (np.zeros((1, 2, 3, 4)), "array, got"),
    ],
)
def test_records_that_are_no_dataset_are_refused(values: ArrayLike, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DenseSample(values)


# Records handed out one by one.


def test_dense_records_are_copies() -> None:
    for shape in ((3, 4), (3, 4, 2)):
        values = rng().normal(size=shape)
        for data in (values, np.broadcast_to(values[:1], shape)):
            sample = DenseSample(data)
            with unchanged(data):
                for trial in range(3):
                    found = sample.records(trial, rng())
                    np.testing.assert_array_equal(found, data[trial])
                    assert found.flags.c_contiguous
                    found[:] = 0


@pytest.mark.parametrize("parts", [1, 2, 4, 11])
@pytest.mark.parametrize("shape", [(3, 11), (1, 11), (3, 11, 2)])
def test_dense_groups_are_cut_by_index(shape: tuple[int, ...], parts: int) -> None:
    """Check every memory order; groups are cut by index, so that a record has a fixed group."""
    values = rng(1).normal(size=shape)
    cut = np.array_split(values, parts, axis=1)
    for memory in (values, np.asfortranarray(values)):
        shaped = [
            g.values.reshape(shape[0], -1, g.n, *shape[2:])
            for g in DenseSample(memory).groups(parts, rng())
        ]
        found = [group for rows in shaped for group in np.moveaxis(rows, 1, 0)]
        for one, other in zip(found, cut, strict=True):
            np.testing.assert_array_equal(one, other)
        means = DenseSample(memory).by_group(parts, rng(), lambda rows: rows.mean())
        np.testing.assert_allclose(means, np.stack([rows.mean(axis=1) for rows in cut], axis=1))


def test_dense_pairs_are_fixed_by_index() -> None:
    for shape in ((3, 2), (3, 11), (1, 12)):
        values = rng(11).normal(size=shape)
        found = DenseSample(values).half_squared_differences(rng()).values
        pairs = values[:, : shape[1] // 2 * 2].reshape(shape[0], -1, 2)
        np.testing.assert_allclose(found, np.diff(pairs)[..., 0] ** 2 / 2, rtol=1e-14)


def test_broadcast_data_are_held_once() -> None:
    once = rng(14).normal(size=(1, 30, 2))
    one, other = (
        DenseSample(np.broadcast_to(once, (9, 30, 2))),
        DenseSample(np.tile(once, (9, 1, 1))),
    )
    assert one.values.strides[0] == 0
    parts = [[a, *a.split([10, 20], rng()), *a.groups(4, rng())] for a in (one, other)]
    for a, b in zip(*parts, strict=True):
        np.testing.assert_array_equal(a.values, b.values)
        np.testing.assert_array_equal(a.mean(), b.mean())
        np.testing.assert_array_equal(a.rows().mean(), b.rows().mean())
        np.testing.assert_array_equal(a.clipped_mean(-1, 0.5), b.clipped_mean(-1, 0.5))
    np.testing.assert_array_equal(one.columns().mean(), other.columns().mean())
    once[0, 3, 1], once[0, 4, 0] = np.nan, np.inf
    with pytest.raises(ValueError, match="2 of 60 values are NaN or infinite"):
        DenseSample(np.broadcast_to(once, (5, 30, 2)))
