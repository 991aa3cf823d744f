"""Records in bins and records by rank, against loops in exact arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import BIG, unchanged

from dpbench.samples import Bins, CountedSample, DenseSample, Sample, dense

INF = math.inf
# Numbers with few binary digits, so that nothing rounds and edges are hit exactly.
ROWS = [
    [-4.0, -3.75, -2.5, -2.5, 0.0, 0.0, 0.25, 0.5, 3.0, 3.5],
    [7.5, 7.5, -9.25, -9.25, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0],
    [0.5] * 10,
    [-0.25, -0.25, 1e9, -1e9, 1e9, 3.25, 1.5, 1.5, -0.5, 1.0],
]
End = tuple[float, float, float] | tuple[float, float, float, float]
ENDS: list[End] = [
    (0.5, -4.0, 4.0),
    (1.5, -4.0, 4.0),  # the last bin reaches beyond
    (1.0, -3.5, 0.75),
    (0.25, 0.375, 2.0),  # 0 outside
    (0.25, -2.0, -0.625),
    (3.0, 1.0, 1.5),  # one bin
    (2.0, 1.0, 1.0),
    (0.5, -INF, INF),
    (0.75, -INF, INF),
    (1.5, -4.0, INF),
    (1.5, -INF, 4.0),
    (1024.0, -(2.0**40), 2.0**40),
    (1.5, -4.0, 4.0, 0.0),  # aligned elsewhere: the first bin reaches beyond as well
    (1.5, -4.0, 4.0, 0.5),
    (0.5, -3.5, 2.0, -100.25),
    (2.0, 0.25, 0.5, 7.0),
    (0.75, -INF, INF, 0.25),
    (1.5, -INF, 4.0, 1.0),
    (1.5, -4.0, INF, -INF),  # no point: 0
]


def first_and_last(end: End) -> tuple[Fraction, float, float]:
    """Where bin 0 of the definition starts, and the numbers of the outer bins from there."""
    width, lower, upper, *aligned = end
    point = aligned[0] if aligned else lower
    start = Fraction(point) if math.isfinite(point) else Fraction(0)
    first = last = INF
    if math.isfinite(lower):
        first = (Fraction(lower) - start) // Fraction(width)
    if math.isfinite(lower) and math.isfinite(upper):
        last = max(first, math.ceil((Fraction(upper) - start) / Fraction(width)) - 1)
    return start, -INF if math.isinf(lower) else first, last


def number_of_bins(end: End) -> float:
    _, first, last = first_and_last(end)
    return last - first + 1


def left_end(x: float, end: End) -> Fraction:
    """The left end of the bin of one record, from the definition."""
    start, first, last = first_and_last(end)
    which = (Fraction(x) - start) // Fraction(end[0])
    return start + Fraction(min(max(which, first), last)) * Fraction(end[0])


def naive(rows: list[list[float]], ends: list[End]) -> list[object]:
    """Per trial, the left ends and counts of its bins in increasing order."""
    return [
        sorted(Counter(left_end(x, end) for x in row).items())
        for row, end in zip(rows, ends, strict=True)
    ]


def found(sample: Sample, bins: Bins, ends: list[End]) -> list[object]:
    """The same from `occupied`; the left ends by bins of the trial's own."""
    held = sample.occupied(bins)
    assert held.trial.shape == held.index.shape == held.count.shape
    assert np.all(np.diff(held.trial) >= 0)
    tables = []
    for trial, end in enumerate(ends):
        own = held.trial == trial
        assert np.all(np.diff(held.index[own]) > 0)
        lefts = Bins(*end).left(held.index[own])
        counts = held.count[own].tolist()
        tables.append([(Fraction(a), c) for a, c in zip(lefts.tolist(), counts, strict=True)])
    return list(tables)


def counted(rows: list[list[float]]) -> CountedSample:
    atoms = sorted({x for row in rows for x in row})
    return CountedSample(atoms, [[row.count(x) for x in atoms] for row in rows])


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", [DenseSample, counted])
def test_occupied_against_a_loop(kind: type, end: End) -> None:
    assert float(Bins(*end).count) == number_of_bins(end)
    assert found(kind(ROWS), Bins(*end), [end] * len(ROWS)) == naive(ROWS, [end] * len(ROWS))


@pytest.mark.parametrize("kind", [DenseSample, counted])
def test_bins_per_trial_against_a_loop(kind: type) -> None:
    ends: list[End] = [(0.5, -4.0, 3.0), (0.25, -INF, INF), (1.5, 0.0, INF), (4.0, -5.0, -1.0)]
    width, lower, upper = np.array(ends).T
    bins = Bins(width, lower, upper)
    assert bins.count.tolist() == [number_of_bins(end) for end in ends]
    assert found(kind(ROWS), bins, ends) == naive(ROWS, ends)
    # One width and ends per trial, the other way round, and a point of alignment per trial.
    some: list[End] = [(0.5, a, b) for a, b in zip(lower.tolist(), upper.tolist(), strict=True)]
    assert found(kind(ROWS), Bins(0.5, lower, upper), some) == naive(ROWS, some)
    some = [(w, -4.0, 4.0) for w in width.tolist()]
    assert found(kind(ROWS), Bins(width, -4.0, 4.0), some) == naive(ROWS, some)
    points = [0.0, 0.125, -7.0, 1e6]
    some = [(w, -4.0, 4.0, point) for w, point in zip(width.tolist(), points, strict=True)]
    assert found(kind(ROWS), Bins(width, -4.0, 4.0, np.array(points)), some) == naive(ROWS, some)


@pytest.mark.parametrize("most", [0, 10**9], ids=["sort", "table"])
def test_sorting_and_a_table_agree(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(dense, "DENSE_BINS", most)
    for end in ENDS[:6]:
        for rows in (np.array(ROWS), np.asfortranarray(ROWS), np.array(ROWS)[:, ::-1]):
            with unchanged(rows):
                seen = found(DenseSample(rows), Bins(*end), [end] * 4)
            assert seen == naive(ROWS, [end] * 4)


@pytest.mark.parametrize("shape", [(1, 1), (400, 7), (5, 300)])
@pytest.mark.parametrize("spread", [0.4, 1e3, 1e17])
def test_dense_and_counted_bins_of_many_records(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], spread: float
) -> None:
    values = spread * np.random.default_rng(1).standard_t(3, shape)
    bins = Bins(0.7, -1e18, 1e18)
    tables = []
    for most in (4, 0, 10**9) if spread < 1e9 else (4, 0):
        monkeypatch.setattr(dense, "DENSE_BINS", most)
        tables.append(DenseSample(values).occupied(bins))
    atoms, where = np.unique(values, return_inverse=True)
    counts = np.zeros((shape[0], atoms.size), dtype=np.int64)
    np.add.at(counts, (np.arange(shape[0])[:, None], where.reshape(shape)), 1)
    tables.append(CountedSample(atoms, counts).occupied(bins))
    for held in tables:
        np.testing.assert_array_equal(np.bincount(held.trial, held.count), shape[1])
        for one, other in zip(vars(held).values(), vars(tables[0]).values(), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("width", [0.3, 2 / 3, 1e-9, 12345.678])
@pytest.mark.parametrize("lower", [-0.05, 7.1, 1e6 / 3])
def test_the_first_bin_starts_at_lower(width: float, lower: float) -> None:
    for upper in (lower, lower + 0.9 * width, lower + 10.5 * width, 1e9):
        bins = Bins(width, lower, upper)
        # Origin, product and sum each round by half a unit in the last place of `lower`.
        assert float(bins.left(bins.first)) == pytest.approx(lower, rel=4e-16, abs=4e-16 * width)
        last = bins.first + bins.count - 1
        assert upper <= float(bins.left(last + 1)) * (1 + np.sign(upper) * 1e-15)
        assert bins.count == 1 or float(bins.left(last)) <= upper * (1 + np.sign(upper) * 1e-15)


@given(
    st.floats(1e-3, 1e3),
    st.floats(-1e3, 1e3),
    st.floats(0, 1e3),
    st.lists(st.floats(-2e3, 2e3), min_size=1, max_size=20),
)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_a_record_is_in_its_bin(width: float, lower: float, span: float, row: list[float]) -> None:
    bins = Bins(width, lower, lower + span)
    index = bins.index(np.array([row]))[0]
    left, right = bins.left(index), bins.left(index + 1)
    inside = np.clip(row, lower, float(bins.left(bins.first + bins.count)))
    # Numbers up to 4e3 are off by at most a few units in the last place, 4.5e-13 each.
    slack = 4 * 4.5e-13
    assert np.all(left <= inside + slack)
    assert np.all(inside <= right + slack)


@pytest.mark.parametrize("kind", [DenseSample, counted])
def test_records_beyond_the_ends_count_in_the_nearest_bin(kind: type) -> None:
    held = kind([[-1e300, -5.0, -1.0, 0.5, 1.0, 5.0, 1e300]]).occupied(Bins(1.0, -1.0, 1.0))
    assert held.index.tolist() == [-1.0, 0.0]
    assert held.count.tolist() == [3.0, 4.0]  # upper itself is beyond the last bin


@pytest.mark.parametrize("width", [0.3, 1e-5])
@pytest.mark.parametrize("radius", [1e300, 1.234e20])
def test_a_far_lower_end_takes_no_digits_from_records_near_0(width: float, radius: float) -> None:
    bins = Bins(width, -radius, radius)
    x = np.random.default_rng(2).uniform(-20 * width, 20 * width, (1, 500))
    left = bins.left(bins.index(x)[0])
    wanted = np.array([float(left_end(v, (width, -radius, radius))) for v in x[0].tolist()])
    # Units in the last place of numbers up to 21 widths; no record is that near to an edge.
    np.testing.assert_allclose(left, wanted, rtol=0, atol=21 * width * 2**-52)
    assert float(bins.count) == pytest.approx(2 * radius / width, rel=1e-15)
    assert float(bins.left(bins.first)) == pytest.approx(-radius, rel=1e-15)


def test_bins_at_1e300_for_both_kinds_of_data() -> None:
    rows = [[-0.5, 0.25, 0.75, 1.5, 1e299, 1e301, -1e301]]
    held, same = (kind(rows).occupied(Bins(1.0, -1e300, 1e300)) for kind in (DenseSample, counted))
    assert held.index.tolist() == [-1e300, -1.0, 0.0, 1.0, 1e299, 1e300]
    assert held.count.tolist() == [1.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    assert same.index.tolist() == held.index.tolist()
    assert same.count.tolist() == held.count.tolist()


def test_counted_bins_at_large_n() -> None:
    counts = [[1, 0, BIG - 11, 3, 7], [0, 0, BIG, 0, 0], [BIG // 2, 1, 0, 0, BIG - BIG // 2 - 1]]
    held = CountedSample([-3.0, -2.75, 0.5, 0.625, 9.0], counts).occupied(Bins(1.0))
    assert held.trial.tolist() == [0, 0, 0, 1, 2, 2]
    assert held.index.tolist() == [-3.0, 0.0, 9.0, 0.0, -3.0, 9.0]
    assert held.count.tolist() == [1, BIG - 8, 7, BIG, BIG // 2 + 1, BIG - BIG // 2 - 1]


@pytest.mark.parametrize("kind", [DenseSample, counted])
@pytest.mark.parametrize(("first", "last"), [(0, 9), (0, 0), (9, 9), (3, 5), (0, 4)])
def test_ranked_against_sorting(kind: type, first: int, last: int) -> None:
    values, counts = kind(ROWS).ranked(first, last)
    assert values.shape == counts.shape
    assert np.all(np.diff(values, axis=1) >= 0)
    for row, v, c in zip(ROWS, values, counts, strict=True):
        assert np.repeat(v, c.astype(int)).tolist() == sorted(row)[first : last + 1]


def test_counted_ranks_at_large_n() -> None:
    sample = CountedSample([-1.0, 0.0, 2.0, 5.0], [[BIG // 2, 3, 0, BIG // 2 - 3], [0, 0, BIG, 0]])
    values, counts = sample.ranked(BIG // 2 - 10, BIG // 2 + 10)
    assert values[1].tolist() == [-1.0, 0.0, 2.0, 5.0]
    assert counts.tolist() == [[10.0, 3.0, 0.0, 8.0], [0.0, 0.0, 21.0, 0.0]]
