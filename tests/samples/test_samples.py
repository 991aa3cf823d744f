"""Dense and counted data answer alike, and as a loop over the records does."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from support import BIG, Floats, unchanged

from dpbench.samples import CountedSample, DenseSample, SparseSample
from dpbench.samples.base import part_sizes

ATOMS = [-3.5, -1.0, 0.0, 0.25, 2.0, 50.0]
BOUNDS = [(-0.3, 0.4), (-3.5, 50.0), (-100.0, 1e9), (3.0, 4.0), (60.0, 70.0)]


def counted() -> CountedSample:
    rng = np.random.default_rng(1)
    return CountedSample(ATOMS, rng.multinomial(200, [0.05, 0.2, 0.4, 0.2, 0.1, 0.05], 7))


def expanded(sample: CountedSample) -> DenseSample:
    return DenseSample(np.stack([np.repeat(sample.atoms, row) for row in sample.counts]))


def naive(values: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Floats:
    """Clipped means record by record, each sum exactly rounded."""
    rows = np.asarray(values, dtype=float)
    low, high = (np.broadcast_to(b, (len(rows),)) for b in (lower, upper))
    return np.array(
        [
            math.fsum(min(max(x, a), b) for x in row) / len(row)
            for row, a, b in zip(rows.tolist(), low.tolist(), high.tolist(), strict=True)
        ]
    )


def close(found: Floats, wanted: Floats, size: float = 1.0) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-14 * size)


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_clipped_means_agree(lower: float, upper: float) -> None:
    dense = expanded(counted())
    wanted = naive(dense.values, lower, upper)
    close(counted().clipped_mean(lower, upper), wanted)
    close(dense.clipped_mean(lower, upper), wanted)


@pytest.mark.parametrize("high", [60.0, np.linspace(0.1, 60.0, 7), np.linspace(51.0, 60.0, 7)])
def test_answers_agree_with_bounds_per_trial(high: float | Floats) -> None:
    low = np.linspace(-4, 0, 7)
    dense = expanded(counted())
    wanted = naive(dense.values, low, high)
    close(counted().clipped_mean(low, high), wanted)
    close(dense.clipped_mean(low, high), wanted)
    np.testing.assert_array_equal(counted().count(low, high), dense.count(low, high))


@pytest.mark.parametrize(("lower", "upper"), [*BOUNDS, (0.0, 0.25), (-1.0, 2.0), (0.25, 0.25)])
def test_counts_agree_and_are_half_open(lower: float, upper: float) -> None:
    dense = expanded(counted())
    wanted = [sum(lower <= x < upper for x in row) for row in dense.values.tolist()]
    assert dense.count(lower, upper).tolist() == wanted
    assert counted().count(lower, upper).tolist() == wanted


@pytest.mark.parametrize("q", [1e-9, 0.0625, 0.25, 0.7, 0.999, 1.0])
def test_quantiles_agree_and_are_the_smallest_that_reach(q: float) -> None:
    dense = expanded(counted())
    for row, found in zip(dense.values, dense.quantile(q), strict=True):
        reach = [x for x in sorted(row) if np.count_nonzero(row <= x) >= Fraction(q) * 200]
        assert found == reach[0]
    np.testing.assert_array_equal(counted().quantile(q), dense.quantile(q))


@pytest.mark.parametrize("fraction", [0.0, 0.004, 0.05, 0.499])
def test_trimmed_means_agree(fraction: float) -> None:
    dense = expanded(counted())
    cut = math.floor(Fraction(fraction) * 200)
    wanted = np.array([math.fsum(sorted(row)[cut : 200 - cut]) for row in dense.values.tolist()])
    close(counted().trimmed_mean(fraction), wanted / (200 - 2 * cut))
    close(dense.trimmed_mean(fraction), wanted / (200 - 2 * cut))


@pytest.mark.parametrize("wild", [1e150, -1e300])
@pytest.mark.parametrize("half_width", [0.1, 5.0])
def test_a_wild_record_swallows_no_digits(wild: float, half_width: float) -> None:
    values = np.random.default_rng(2).normal(0.3, 1.0, (3, 20_000))
    values[1, 7] = wild
    found = DenseSample(values).clipped_mean(-half_width, half_width)
    close(found, naive(values, -half_width, half_width))


@pytest.mark.parametrize("bulk", [1e12 + 0.3, 1e150])
def test_other_trials_swallow_no_digits(bulk: float) -> None:
    values = np.full((100, 3), bulk)
    values[7] = [1.2345678, 0.1, -0.7]
    close(DenseSample(values).clipped_mean(-1e300, 1e300), naive(values, -1e300, 1e300))


@pytest.mark.parametrize("n", [1, 2, 1000])
@pytest.mark.parametrize("value", [0.0, 0.1, -7e150])
def test_equal_records(n: int, value: float) -> None:
    sample = DenseSample(np.full((3, n), value))
    for lower, upper in [(-1.0, 1.0), (-1e300, 1e300), (5.0, 6.0)]:
        close(sample.clipped_mean(lower, upper), np.full(3, min(max(value, lower), upper)))
    assert sample.quantile(0.5).tolist() == [value] * 3


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=60),
    st.floats(-1e3, 1e3),
    st.floats(0, 1e3),
)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_clipped_mean_of_any_records(row: list[float], lower: float, width: float) -> None:
    upper = lower + width
    found = DenseSample([row]).clipped_mean(lower, upper)
    # Each of n additions rounds a sum of at most n max(|lower|, |upper|).
    slack = 4e-16 * len(row) * max(abs(lower), abs(upper))
    np.testing.assert_allclose(found, naive([row], lower, upper), rtol=0, atol=slack)


def test_order_of_queries_changes_no_bit() -> None:
    values = np.random.default_rng(4).standard_t(2, (5, 4000))
    one, two = DenseSample(values), DenseSample(values)
    queries = [(-0.5, 0.5), (-3.0, 3.0), (-50.0, 50.0), (-1e6, 1e9)]
    first = {b: one.clipped_mean(*b) for b in queries}
    two.trimmed_mean(0.1)
    second = {b: two.clipped_mean(*b) for b in reversed(queries)}
    for bounds in queries:
        np.testing.assert_array_equal(first[bounds], second[bounds])
        np.testing.assert_array_equal(first[bounds], DenseSample(values).clipped_mean(*bounds))


def test_vectors_answer_coordinate_by_coordinate() -> None:
    values = np.random.default_rng(5).standard_t(3, (4, 50, 3))
    sample = DenseSample(values)
    assert (sample.trials, sample.n, sample.d) == (4, 50, 3)
    for j in range(3):
        line = DenseSample(values[..., j])
        np.testing.assert_allclose(sample.mean()[:, j], line.mean(), rtol=1e-13)
        close(sample.clipped_mean(-1.0, 0.5)[:, j], line.clipped_mean(-1.0, 0.5))
        np.testing.assert_array_equal(sample.quantile(0.3)[:, j], line.quantile(0.3))
        np.testing.assert_array_equal(sample.count(-1.0, 0.5)[:, j], line.count(-1.0, 0.5))
        close(sample.trimmed_mean(0.1)[:, j], line.trimmed_mean(0.1))


def test_the_callers_arrays_are_not_written_to() -> None:
    rng = np.random.default_rng(6)
    values, counts = rng.normal(size=(3, 50)), rng.multinomial(50, np.full(5, 0.2), 3)
    rows, held = rng.choice([1.0, 2.0], (10, 2)), np.array([4, 0, 6])
    with unchanged(values, counts, rows, held):
        for sample in (DenseSample(values), CountedSample(np.arange(5.0), counts)):
            sample.clipped_mean(-0.1, 0.1)
            sample.clipped_mean(-9.0, 9.0)
            sample.quantile(0.3)
            sample.trimmed_mean(0.2)
            sample.split([20, 30], rng)
            sample.by_group(7, rng, lambda part: part.mean())
            sample.half_squared_differences(rng)
            sample.ranked(20, 30)
        sparse = SparseSample(rows, held, 50)
        sparse.clipped_mean(-1.0, 1.0)
        sparse.columns()
        sparse.listed()
        sparse.split([5, 45], rng)
        sparse.groups(3, rng)
    assert values.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        DenseSample(values).values[0, 0] = 1.0


@pytest.mark.parametrize("kind", [np.uint8, np.bool_, np.float32])
def test_numbers_become_float64(kind: type[np.generic]) -> None:
    sample = DenseSample(np.array([[0, 1, 1]]).astype(kind))
    assert sample.values.dtype == np.float64
    assert sample.mean()[0] == 2 / 3
    assert sample.clipped_mean(0.5, 2.0)[0] == 2.5 / 3


@pytest.mark.parametrize(
    ("bad", "count"),
    [
        ([np.nan], 1),
        ([np.inf, np.inf], 2),
        ([-np.inf], 1),
        ([np.nan, np.inf, np.nan], 3),
        ([np.inf, -np.inf], 2),
    ],
)
def test_infinite_and_missing_values_are_refused(bad: list[float], count: int) -> None:
    values = np.array([[*bad, *np.arange(6.0 - len(bad))]])
    with pytest.raises(ValueError, match=f"{count} of 6"):
        DenseSample(values)


def test_finite_values_whose_sum_overflows_are_accepted() -> None:
    sample = DenseSample([[1.5e308] * 10])
    assert sample.clipped_mean(0.0, 1.0).tolist() == [1.0]
    assert np.all(np.isfinite(sample.mean()))


@pytest.mark.parametrize("shape", [(3,), (2, 0), (0, 3), (2, 3, 0), (1, 2, 3, 4)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="array, got"):
        DenseSample(np.zeros(shape))


@pytest.mark.parametrize(
    ("atoms", "counts"),
    [
        ([0.0, 0.0], [[1, 1]]),
        ([1.0, 0.0], [[1, 1]]),
        ([0.0, np.inf], [[1, 1]]),
        ([0.0, np.nan], [[1, 1]]),
        ([0.0, 1.0], [[1, 1], [1, 2]]),
        ([0.0, 1.0], [[-1, 2]]),
        ([0.0, 1.0], [[0, 0]]),
        ([0.0, 1.0], [1, 1]),
        ([0.0, 1.0], [[1, 1, 1]]),
    ],
)
def test_counts_that_are_no_dataset_are_refused(atoms: ArrayLike, counts: ArrayLike) -> None:
    with pytest.raises(ValueError, match=r"atoms|counts"):
        CountedSample(atoms, counts)


@given(st.integers(1, 10**12), st.integers(1, 1000))
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
def test_part_sizes(n: int, parts: int) -> None:
    if parts > n:
        with pytest.raises(ValueError, match="cannot be cut"):
            part_sizes(n, parts)
        return
    sizes = part_sizes(n, parts)
    assert len(sizes) == parts
    assert sum(sizes) == n
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("sizes", [[100, 99], [200, 0], [201, -1], [150, 51]])
def test_parts_of_other_totals_are_refused(sizes: list[int]) -> None:
    for sample in (counted(), expanded(counted())):
        with pytest.raises(ValueError, match="do not make up 200"):
            sample.split(sizes, np.random.default_rng(0))


@pytest.mark.parametrize("ones", [0, 1, BIG // 3, BIG])
def test_a_counted_mean_is_exact_at_large_n(ones: int) -> None:
    sample = CountedSample([0.0, 1.0], [[BIG - ones, ones]])
    assert sample.mean()[0] == float(Fraction(ones, BIG))
    assert sample.count(0.5, 2.0)[0] == ones
    tau = 1234.5678
    clipped = CountedSample([0.0, tau], [[BIG - ones, ones]]).clipped_mean(-10.25, 10.25)
    assert clipped[0] == pytest.approx(float(Fraction(10.25) * ones / BIG), rel=4e-16, abs=0)


@pytest.mark.parametrize("turn", [np.asfortranarray, lambda x: x[:, ::-1][:, ::-1]])
def test_memory_order_changes_no_answer(turn: Callable[[Floats], Floats]) -> None:
    # A batch drawn as (n, trials) and transposed is laid out in Fortran order.
    x = np.random.default_rng(5).standard_t(2, (7, 500))
    plain, turned = DenseSample(x), DenseSample(turn(x))
    for bound in (0.5, 3.0, 100.0):
        found = turned.clipped_mean(-bound, bound)
        np.testing.assert_allclose(found, plain.clipped_mean(-bound, bound), rtol=1e-13)
        np.testing.assert_allclose(found, np.clip(x, -bound, bound).mean(axis=1), rtol=1e-12)


def test_a_transposed_batch_keeps_its_sensitivity() -> None:
    # One record replaced moves the mean clipped to +-3 by at most 6/n, in any memory order.
    x = np.random.default_rng(6).standard_normal((1000, 1))
    y = x.copy()
    x[10], y[10] = 50.0, -50.0
    move = DenseSample(x.T).clipped_mean(-3, 3) - DenseSample(y.T).clipped_mean(-3, 3)
    assert abs(move[0]) <= 6 / 1000 * (1 + 1e-9)
    many = np.repeat(x, 3, axis=1)
    other = many.copy()
    other[10] = -50.0
    moved = DenseSample(many.T).clipped_mean(-3, 3) - DenseSample(other.T).clipped_mean(-3, 3)
    assert np.all(np.abs(moved) <= 6 / 1000 * (1 + 1e-9))
