"""Records in bins and records by rank, against loops in exact arithmetic."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dpbench.samples import Bins, CountedSample, DenseSample, Sample, dense
from dpbench.samples.bins import Occupied, merge_occupied
from tests.support import BIG

INF = math.inf


def test_bins_of_each_trial_are_merged_alone() -> None:
    """Neighbouring trials may end and begin with one bin."""
    trial, index, count = np.array([0, 0, 1, 0, 2]), np.array([4.0, 7, 7, 7, 7]), np.arange(1.0, 6)
    cuts = (slice(0, 2), slice(2, 3), slice(3, 5))
    parts = [Occupied(trial[cut], index[cut], count[cut]) for cut in cuts]
    merged = merge_occupied(parts)
    assert merged.trial.tolist() == [0, 0, 1, 2]
    assert merged.index.tolist() == [4, 7, 7, 7]
    assert merged.count.tolist() == [1, 2 + 4, 3, 5]


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
    (2.0, 1.0, 1.0),  # one bin
    (0.75, -INF, INF),
    (1.5, -4.0, INF),
    (1.5, -INF, 4.0),
    (1024.0, -(2.0**40), 2.0**40),
    (1.5, -4.0, 4.0, 0.5),  # aligned elsewhere: the first bin reaches beyond as well
    (0.5, -3.5, 2.0, -100.25),
    (0.75, -INF, INF, 0.25),
    (1.5, -4.0, INF, -INF),  # no point: 0
]


def first_and_last(end: End) -> tuple[Fraction, float, float]:
    """Return the start of bin 0, and the numbers of the outer bins, from the definition."""
    width, lower, upper, *aligned = end
    point = aligned[0] if aligned else lower
    start = Fraction(point) if math.isfinite(point) else Fraction(0)
    if math.isinf(lower):
        return start, -INF, INF
    first = (Fraction(lower) - start) // Fraction(width)
    if math.isinf(upper):
        return start, first, INF
    return start, first, max(first, math.ceil((Fraction(upper) - start) / Fraction(width)) - 1)


def left_end(x: float, end: End) -> Fraction:
    """Return the left end of the bin of one record, from the definition."""
    start, first, last = first_and_last(end)
    which = (Fraction(x) - start) // Fraction(end[0])
    return start + Fraction(min(max(which, first), last)) * Fraction(end[0])


def counted(rows: list[list[float]]) -> CountedSample:
    atoms = sorted({x for row in rows for x in row})
    return CountedSample(atoms, [[row.count(x) for x in atoms] for row in rows])


def check(sample: Sample, bins: Bins, ends: list[End]) -> None:
    """Compare the number of bins and their records with the definition, trial by trial."""
    held = sample.occupied(bins)
    many = np.broadcast_to(bins.count, len(ends))
    for trial, (row, end) in enumerate(zip(ROWS, ends, strict=True)):
        own = held.trial == trial
        assert np.all(np.diff(held.index[own]) > 0)
        lefts = Bins(*end).left(held.index[own])
        found = zip(map(Fraction, lefts.tolist()), held.count[own].tolist(), strict=True)
        assert list(found) == sorted(Counter(left_end(x, end) for x in row).items())
        _, first, last = first_and_last(end)
        assert many[trial] == last - first + 1
    assert np.all(np.diff(held.trial) >= 0)


@pytest.mark.parametrize("most", [0, 4, 10**9], ids=["sort", "usual", "table"])
def test_occupied_against_a_loop(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(dense, "MAX_TABLE_BINS", most)
    for end in ENDS[: 5 if most > 4 else None]:
        for sample in (DenseSample(ROWS), DenseSample(np.asfortranarray(ROWS)), counted(ROWS)):
            check(sample, Bins(*end), [end] * len(ROWS))


@pytest.mark.parametrize("kind", [DenseSample, counted])
def test_bins_per_trial_against_a_loop(kind: type) -> None:
    ends: list[End] = [(0.5, -4.0, 3.0), (0.25, -INF, INF), (1.5, 0.0, INF), (4.0, -5.0, -1.0)]
    width, lower, upper = np.array(ends).T
    check(kind(ROWS), Bins(width, lower, upper), ends)
    # One width and ends per trial, the other way round, and a point of alignment per trial.
    check(kind(ROWS), Bins(0.5, lower, upper), [(0.5, *end[1:3]) for end in ends])
    check(kind(ROWS), Bins(width, -4.0, 4.0), [(end[0], -4.0, 4.0) for end in ends])
    points = [0.0, 0.125, -7.0, 1e6]
    some: list[End] = [(end[0], -4.0, 4.0, at) for end, at in zip(ends, points, strict=True)]
    check(kind(ROWS), Bins(width, -4.0, 4.0, np.array(points)), some)


@pytest.mark.parametrize("width", [0.3, 1e-9, 12345.678])
def test_the_bins_cover_their_range(width: float) -> None:
    for lower, steps in itertools.product((-0.05, 1e6 / 3), (0.0, 10.5, 1e9 / width)):
        upper = lower + steps * width
        bins = Bins(width, lower, upper)
        # Origin, product and sum each round by half a unit in the last place of `lower`.
        assert float(bins.left(bins.first)) == pytest.approx(lower, rel=4e-16, abs=4e-16 * width)
        last, room = bins.first + bins.count - 1, abs(upper) * 1e-15
        assert upper <= float(bins.left(last + 1)) + room
        assert bins.count == 1 or float(bins.left(last)) <= upper + room


@pytest.mark.parametrize(("width", "radius"), [(0.3, 1e300), (1e-5, 1.234e20)])
def test_a_far_lower_end_takes_no_digits_from_records_near_0(width: float, radius: float) -> None:
    bins = Bins(width, -radius, radius)
    x = np.random.default_rng(2).uniform(-20 * width, 20 * width, (1, 500))
    left = bins.left(bins.index(x)[0])
    wanted = np.array([float(left_end(v, (width, -radius, radius))) for v in x[0].tolist()])
    # Units in the last place of numbers up to 21 widths; no record is that near to an edge.
    np.testing.assert_allclose(left, wanted, rtol=0, atol=21 * width * 2**-52)
    assert float(bins.count) == pytest.approx(2 * radius / width, rel=1e-15)
    assert float(bins.left(bins.first)) == pytest.approx(-radius, rel=1e-15)


def test_counted_bins_at_large_n() -> None:
    counts = [[1, 0, BIG - 11, 3, 7], [0, 0, BIG, 0, 0], [BIG // 2, 1, 0, 0, BIG - BIG // 2 - 1]]
    held = CountedSample([-3.0, -2.75, 0.5, 0.625, 9.0], counts).occupied(Bins(1.0))
    assert held.trial.tolist() == [0, 0, 0, 1, 2, 2]
    assert held.index.tolist() == [-3.0, 0.0, 9.0, 0.0, -3.0, 9.0]
    assert held.count.tolist() == [1, BIG - 8, 7, BIG, BIG // 2 + 1, BIG - BIG // 2 - 1]


def test_ranked_against_sorting() -> None:
    for kind, (first, last) in itertools.product(
        (DenseSample, counted), [(0, 9), (0, 0), (9, 9), (3, 5), (0, 4)]
    ):
        values, counts = kind(ROWS).ranked(first, last)
        assert np.all(np.diff(values, axis=1) >= 0)
        for row, v, c in zip(ROWS, values, counts, strict=True):
            assert np.repeat(v, c.astype(int)).tolist() == sorted(row)[first : last + 1]
    sample = CountedSample([-1.0, 0.0, 2.0, 5.0], [[BIG // 2, 3, 0, BIG // 2 - 3], [0, 0, BIG, 0]])
    values, counts = sample.ranked(BIG // 2 - 10, BIG // 2 + 10)
    assert values[1].tolist() == [-1.0, 0.0, 2.0, 5.0]
    assert counts.tolist() == [[10.0, 3.0, 0.0, 8.0], [0.0, 0.0, 21.0, 0.0]]


def test_lists_of_bins_are_merged_by_trial_and_bin() -> None:
    parts = [
        Occupied(np.array([0, 0, 1]), np.array([3.0, 5, 2]), np.array([1.0, 2, 4])),
        Occupied(np.array([1, 0, 1]), np.array([7.0, 5, 2]), np.array([8.0, 16, 32])),
    ]
    merged, counts = merge_occupied(parts), Counter[tuple[int, float]]()
    for part in parts:
        for trial, index, count in zip(part.trial, part.index, part.count, strict=True):
            counts[int(trial), float(index)] += count
    found = zip(merged.trial, merged.index, merged.count, strict=True)
    assert list(found) == [(*key, counts[key]) for key in sorted(counts)]
