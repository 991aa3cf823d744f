"""Projections of rows to successive balls, and rows inside, against exact loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

from dpbench.samples import DenseSample, SparseSample
from dpbench.samples.base import Sample
from tests.support import BIG, Floats, rng, unchanged

Ball = tuple[Floats, float | Floats]
Make = Callable[[Floats], Sample]


def sparse(values: Floats) -> SparseSample:
    """Return a sparse sample that also stores all zero rows of a trial but the first."""
    rows, held = [], []
    for trial in values:
        zero = ~trial.any(axis=1)
        zero[np.flatnonzero(zero)[:1]] = False
        rows.append(trial[~zero])
        held.append(len(rows[-1]))
    return SparseSample(np.concatenate(rows), np.array(held), values.shape[1])


def broadcast(values: Floats) -> DenseSample:
    """Return a dense sample that stores one dataset for all trials."""
    return DenseSample(np.broadcast_to(values[:1], values.shape))


each = pytest.mark.parametrize("make", [DenseSample, sparse])


def moved(row: Sequence[float], centre: Sequence[float], radius: float) -> list[float]:
    offset = [x - c for x, c in zip(row, centre, strict=True)]
    distance = math.hypot(*offset)
    if distance <= radius:
        return list(row)
    return [c + o * (radius / distance) for c, o in zip(centre, offset, strict=True)]


def naive(values: Floats, balls: Sequence[Ball]) -> list[tuple[Floats, Floats, Floats]]:
    """Return, for each ball, means of rows projected so far, and sums and counts of rows inside.

    Every sum is rounded once.
    """
    found = []
    now = values.tolist()
    for centre, radius in balls:
        means, sums, counts = (np.zeros(shape) for shape in (centre.shape, centre.shape, len(now)))
        for t, (at, r) in enumerate(zip(centre, np.broadcast_to(radius, len(now)), strict=True)):
            now[t] = [moved(row, at.tolist(), float(r)) for row in now[t]]
            means[t] = [math.fsum(column) / len(now[t]) for column in zip(*now[t], strict=True)]
            inside = [offset for offset in values[t] - at if math.hypot(*offset) <= r]
            counts[t] = len(inside)
            sums[t] = [math.fsum(column) for column in np.reshape(inside, (-1, at.size)).T]
        found.append((means, sums, counts))
    return found


def check(sample: Sample, values: Floats, balls: Sequence[Ball]) -> None:
    """Compare with the loop, up to the rounding of the numbers in the balls of a trial."""
    rows = moving = sample.rows()
    farthest = np.abs(values).max(axis=(1, 2))
    for (centre, radius), (means, sums, counts) in zip(balls, naive(values, balls), strict=True):
        size = np.abs(centre).max(axis=1) + np.minimum(radius, farthest)
        room = 1e-12 * np.broadcast_to(size, len(values))[:, None]
        moving = moving.projected(centre, radius)
        assert np.all(np.abs(moving.mean() - means) <= room)
        found, number = rows.within(centre, radius)
        np.testing.assert_array_equal(number, counts)
        assert np.all(np.abs(found - sums) <= room * values.shape[1])


def shrinking(values: Floats, seed: int) -> list[Ball]:
    """Return balls that cut off more and more rows, of other centre and radius in each trial."""
    trials, _, d = values.shape
    draw = rng(seed)
    far = np.median(np.linalg.norm(values - values.mean(axis=1, keepdims=True), axis=2), axis=1)
    balls: list[Ball] = []
    for share in (8.0, 2.0, 1.5, 1.1, 0.7, 0.4):
        centre = values.mean(axis=1) + 0.1 * far[:, None] * draw.normal(size=(trials, d))
        balls.append((centre, share * far * draw.uniform(0.7, 1.3, trials)))
    return balls


DATA: dict[str, Floats] = {
    "gaussian": rng(1).normal(size=(4, 60, 3)),
    "heavy": rng(1).standard_cauchy((3, 60, 2)),
    "equal": np.tile([3.0, -1.0, 0.5], (3, 25, 1)),
    "zeros": np.zeros((2, 9, 3)),
    "wide": rng(4).normal(size=(3, 6, 25)),
    "numbers": rng(5).normal(size=(4, 50, 1)),
    "one record": rng(6).normal(size=(5, 1, 3)),
    "rare": rng(8).normal(size=(4, 50, 3)) * (rng(9).random((4, 50, 1)) < 0.15),
    "one trial": rng(10).normal(size=(1, 80, 3)),
    "two clouds": rng(11).normal(size=(3, 60, 2)) + 40.0 * (np.arange(60) % 2)[:, None],
    "uneven": rng(12).normal(size=(4, 60, 3)) * 10.0 ** np.arange(-3, 1)[:, None, None],
}


@each
@pytest.mark.parametrize("values", DATA.values(), ids=DATA.keys())
def test_balls_against_a_loop(make: Make, values: Floats) -> None:
    trials, _, d = values.shape
    balls = shrinking(values, 1)
    with unchanged(values, *(np.asarray(a) for ball in balls for a in ball)):
        check(make(values), values, balls)
    np.testing.assert_allclose(make(values).rows().mean(), values.mean(axis=1), atol=1e-12)
    for at, radius in itertools.product((0.0, 2.0, -1e6), (0.0, 1.0, 1e300)):
        check(make(values), values, [(np.full((trials, d), at), radius)])


@each
def test_rows_on_the_surface_are_inside(make: Make) -> None:
    """Check whole numbers, for which squared distances are exact."""
    values = rng(2).integers(-6, 7, (3, 200, 2)).astype(float)
    rows = make(values).rows()
    centre = np.array([[0.0, 0.0], [3.0, 4.0], [-1.0, 2.0]])
    square = ((values - centre[:, None]) ** 2).sum(axis=2)
    assert (square == 25).sum() + (square == 100).sum() > 20
    for radius in (0.0, 1.0, 5.0, 10.0):
        counts = rows.within(centre, radius)[1]
        assert counts.tolist() == (square <= radius**2).sum(axis=1).tolist()
        once = rows.projected(centre, radius)
        np.testing.assert_array_equal(once.within(centre, radius * (1 + 1e-12))[1], [200] * 3)


@each
@pytest.mark.parametrize(("size", "many"), [(1e150, 1), (-1e300, 20), (1e300, 39)])
def test_many_wild_rows_take_no_digits(make: Make, size: float, many: int) -> None:
    """Check rows so large and so many that the core contains them, each on an axis."""
    values = rng(15).normal(size=(2, 40, 3))
    for i in range(many):
        values[1, i] = 0.0
        values[1, i, i % 3] = size * (-1) ** i * (1 + i) / 40
    balls: list[Ball] = [(np.full((2, 3), 0.3), 4.0), (np.zeros((2, 3)), np.array([1.0, 2.0]))]
    check(make(values), values, balls)
    # A ball as wild as the rows.
    check(make(values), values, [(np.full((2, 3), abs(size) / 50), abs(size) / 3)])


@pytest.mark.parametrize("at", [1e4, 1e9])
@pytest.mark.parametrize("d", [1, 8])
def test_rows_far_from_the_origin(at: float, d: int) -> None:
    """Check distances that squared norms cannot resolve, so that they must not decide."""
    values = at + rng(16).normal(size=(3, 80, d))
    centre = at + 0.1 * rng(17).normal(size=(3, d))
    for radius in (0.3, 1.0, 3.5):
        ball: Ball = (centre, radius * math.sqrt(d))
        check(DenseSample(values), values, [ball])
        found = DenseSample(values).rows().projected(*ball).mean()
        # Sums of 80 rows: a few units in the last place.
        assert np.abs(found - naive(values, [ball])[0][0]).max() <= 4 * np.spacing(at)


@each
@pytest.mark.parametrize("at", [1e6, 1e150, -1e300])
def test_a_far_centre(make: Make, at: float) -> None:
    values, centre = DATA["gaussian"], np.zeros((4, 3))
    centre[1, 0] = at
    for radius in (0.0, 0.5, np.array([3.0, 3.0, 0.1, 1e3])):
        check(make(values), values, [(centre, radius)])


def test_a_trial_does_not_depend_on_the_others() -> None:
    """Check that results are equal bit for bit."""
    values = DATA["uneven"]
    together = DenseSample(values).rows()
    rows = [DenseSample(values[t : t + 1]).rows() for t in range(4)]
    for centre, radius in shrinking(values, 5):
        together = together.projected(centre, radius)
        inside = together.within(centre, radius)
        for t in range(4):
            own = centre[t : t + 1], np.asarray(radius)[t : t + 1]
            rows[t] = rows[t].projected(*own)
            np.testing.assert_array_equal(rows[t].mean()[0], together.mean()[t])
            for one, all_of_them in zip(rows[t].within(*own), inside, strict=True):
                np.testing.assert_array_equal(one[0], all_of_them[t])


def test_data_held_once_are_like_copies() -> None:
    """Check one ball for all trials, and then a ball for each trial."""
    values = np.tile(rng(22).normal(size=(1, 70, 3)) * [1.0, 1.5, 0.1], (4, 1, 1))
    balls: list[Ball] = [
        (np.zeros((4, 3)), 30.0),
        (np.full((4, 3), 0.2), 2.5),
        (np.full((4, 3), 0.2), np.full(4, 2.2)),
        (0.3 * rng(20).normal(size=(4, 3)), 2.0),
        (0.3 * rng(21).normal(size=(4, 3)), np.array([1.8, 40.0, 1.2, 0.4])),
    ]
    for first in range(5):
        check(broadcast(values), values, balls[first:])
    rows, copies = broadcast(values).rows(), DenseSample(values).rows()
    for ball in balls:
        rows, copies = rows.projected(*ball), copies.projected(*ball)
        np.testing.assert_array_equal(rows.mean(), copies.mean())


@pytest.mark.parametrize("make", [DenseSample, sparse, broadcast])
@pytest.mark.parametrize("outside", [0.1, 50.0])
def test_a_centre_that_is_no_number(make: Make, outside: float) -> None:
    """Check that a NaN centre gives NaN, because unmoved rows would be released otherwise."""
    values = np.tile(rng(18).normal(size=(1, 30, 3)), (4, 1, 1))
    centre = np.zeros((4, 3))
    centre[1], centre[2, 1] = np.nan, np.nan
    sound = [0, 3]
    ((means, sums, counts),) = naive(values[sound], [(centre[sound], outside)])
    rows = make(values).rows()
    for radius in (outside, np.full(4, outside)):
        moved_rows = rows.projected(centre, radius)
        # A ball behind it makes no number of it.
        again = moved_rows.projected(np.zeros((4, 3)), radius)
        inside, number = rows.within(centre, radius)
        for found in (moved_rows.mean(), again.mean(), centre + inside):
            assert np.isnan(found).any(axis=1).tolist() == [False, True, True, False]
        np.testing.assert_allclose(moved_rows.mean()[sound], means, atol=1e-13)
        np.testing.assert_allclose(inside[sound], sums, atol=1e-11)
        np.testing.assert_array_equal(number[sound], counts)


@each
@pytest.mark.parametrize(("n", "d"), [(1, 1), (30, 1), (30, 3), (5, 20)])
def test_sensitivity_by_brute_force(make: Make, n: int, d: int) -> None:
    """Check that the projected mean moves by at most 2s/n, with s the last radius.

    Neighbours differ in one arbitrary row; the balls are equal.
    """
    draw = rng(24)
    extremes = [0.0, 1e-300, 1e-3, 1.0, 3.0, 10.0, 1e8, 1e150, 1e300]
    trials = 2 * len(extremes) * 4
    base = draw.standard_t(2.0, (n, d))
    values = np.tile(base, (trials + 1, 1, 1))
    for t in range(trials):
        direction = draw.normal(size=d)
        wild = extremes[t % len(extremes)] * direction / np.linalg.norm(direction)
        values[t + 1, draw.integers(n)] = wild if t % 2 else wild * (np.arange(d) == 0)
    worst, sample = 0.0, make(values)
    for _ in range(6):
        rows = sample.rows()
        middle = base.mean(axis=0) + draw.normal(size=(3, d)) * 0.3
        for c, radius in zip(middle, np.sort(draw.uniform(0.1, 4.0, 3))[::-1], strict=True):
            rows = rows.projected(np.tile(c, (trials + 1, 1)), float(radius))
            found = rows.mean()
            step = np.linalg.norm(found[1:] - found[0], axis=1) / (2 * radius / n)
            worst = max(worst, float(step.max()))
    assert 0.5 <= worst <= 1 + 1e-9  # the test reaches near the bound


def test_counted_rows_at_large_n() -> None:
    """Compare 1e12 records, five of them nonzero, with exact fractions."""
    rows = np.array([[3.0, 4.0], [1e150, 0.0], [0.0, -0.5], [6.0, 8.0], [0.1, 0.0]])
    sample = SparseSample(rows, np.array([2, 0, 3]), BIG)
    centre, radius = np.array([[0.5, 0.0], [3.0, 4.0], [0.0, 0.0]]), 2.0
    found = sample.rows().projected(centre, radius).mean()
    sums, counts = sample.rows().within(centre, radius)
    for t, own in enumerate(np.split(rows, [2, 2])):
        listed = [([0.0, 0.0], BIG - len(own)), *((row, 1) for row in own.tolist())]
        near = [(row, many) for row, many in listed if math.dist(row, centre[t]) <= radius]
        for j, at in enumerate(centre[t].tolist()):
            moves = [many * Fraction(moved(r, centre[t], radius)[j]) for r, many in listed]
            assert found[t, j] == pytest.approx(float(sum(moves) / BIG), rel=1e-12, abs=0)
            inside = sum(many * Fraction(row[j] - at) for row, many in near)
            assert sums[t, j] == pytest.approx(float(inside), rel=1e-12, abs=0)
        assert counts[t] == sum(many for _, many in near)
