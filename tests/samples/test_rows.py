"""Balls: rows moved to them one after another, and rows inside, against exact loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from support import BIG, Floats, rng, unchanged

from dpbench.samples import DenseSample, SparseSample
from dpbench.samples.base import Sample
from dpbench.samples.rows import norms

Ball = tuple[Floats, float | Floats]
Make = Callable[[Floats], Sample]


def dense(values: Floats) -> DenseSample:
    return DenseSample(values)


def sparse(values: Floats) -> SparseSample:
    """The same data; the first zero row of a trial, if any, is listed, too."""
    rows, held = [], []
    for trial in values:
        zero = ~trial.any(axis=1)
        zero[np.flatnonzero(zero)[:1]] = False
        rows.append(trial[~zero])
        held.append(len(rows[-1]))
    return SparseSample(np.concatenate(rows), np.array(held), values.shape[1])


def broadcast(values: Floats) -> DenseSample:
    """For values that are alike in all trials: held once."""
    return DenseSample(np.broadcast_to(values[:1], values.shape))


each = pytest.mark.parametrize("make", [dense, sparse], ids=["dense", "sparse"])


def moved(row: Sequence[float], centre: Sequence[float], radius: float) -> list[float]:
    offset = [x - c for x, c in zip(row, centre, strict=True)]
    distance = math.hypot(*offset)
    if distance <= radius:
        return list(row)
    return [c + o * (radius / distance) for c, o in zip(centre, offset, strict=True)]


def naive(values: Floats, balls: Sequence[Ball]) -> list[tuple[Floats, Floats, Floats]]:
    """After each ball: means of rows moved to the balls in turn; sums and counts inside it.

    Every sum is rounded once.
    """
    found = []
    now = values.tolist()
    for centre, radius in balls:
        bound = np.broadcast_to(radius, len(values))
        means, sums, counts = [], [], []
        for t, trial in enumerate(now):
            at, r = centre[t].tolist(), float(bound[t])
            trial[:] = [moved(row, at, r) for row in trial]
            means.append([math.fsum(column) / len(trial) for column in zip(*trial, strict=True)])
            offsets = [[x - c for x, c in zip(row, at, strict=True)] for row in values[t].tolist()]
            inside = [offset for offset in offsets if math.hypot(*offset) <= r]
            counts.append(len(inside))
            sums.append(
                [math.fsum(column) for column in zip(*inside, [0.0] * len(at), strict=True)]
            )
        found.append((np.array(means), np.array(sums), np.array(counts, float)))
    return found


def close(found: Floats, wanted: Floats, size: float) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13 * size)


def check(sample: Sample, values: Floats, balls: Sequence[Ball], size: float) -> None:
    """Against the loop, up to the rounding of numbers of this size."""
    rows = moving = sample.rows()
    for (centre, radius), wanted in zip(balls, naive(values, balls), strict=True):
        moving = moving.projected(centre, radius)
        close(moving.mean(), wanted[0], np.maximum(size, np.abs(wanted[0])).max())
        sums, counts = rows.within(centre, radius)
        np.testing.assert_array_equal(counts, wanted[2])
        close(sums, wanted[1], size * values.shape[1])


def shrinking(values: Floats, seed: int) -> list[Ball]:
    """Balls that cut off more and more, at another place and of another size in every trial."""
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
    "collinear": rng(3).normal(size=(3, 40, 1)) * np.array([1.0, -2.0, 0.5, 3.0]),
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
    size = float(np.abs(values).max())
    balls = shrinking(values, 1)
    with unchanged(values, *(np.asarray(a) for ball in balls for a in ball)):
        check(make(values), values, balls, size)
    close(make(values).rows().mean(), values.mean(axis=1), 10 * size)
    for at, radius in itertools.product((0.0, 2.0, -1e6), (0.0, 1.0, 1e300)):
        check(make(values), values, [(np.full((trials, d), at), radius)], max(size, abs(at)))


@each
def test_rows_on_the_surface_are_inside(make: Make) -> None:
    """Whole numbers and squares: who is inside is exact."""
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
@pytest.mark.parametrize("size", [1e150, -1e300])
@pytest.mark.parametrize("many", [1, 20, 39])
def test_many_wild_rows_take_no_digits(make: Make, size: float, many: int) -> None:
    """So many that the bulk is wild; each on an axis of its own."""
    values = rng(15).normal(size=(2, 40, 3))
    for i in range(many):
        values[1, i] = 0.0
        values[1, i, i % 3] = size * (-1) ** i * (1 + i) / 40
    balls: list[Ball] = [(np.full((2, 3), 0.3), 4.0), (np.zeros((2, 3)), np.array([1.0, 2.0]))]
    check(make(values), values, balls, 1.0)
    # Balls as wild as the rows.
    ball: Ball = (np.full((2, 3), abs(size) / 50), abs(size) / 3)
    found = make(values).rows().projected(*ball).mean()
    close(found, naive(values, [ball])[0][0], abs(size))


@pytest.mark.parametrize("at", [1e4, 1e9])
@pytest.mark.parametrize("d", [1, 8])
def test_rows_far_from_the_origin(at: float, d: int) -> None:
    """There squared norms cannot tell which rows are near; who leaves must not rest on them."""
    values = at + rng(16).normal(size=(3, 80, d))
    centre = at + 0.1 * rng(17).normal(size=(3, d))
    for radius in (0.3, 1.0, 3.5):
        ball: Ball = (centre, radius * math.sqrt(d))
        ((wanted, _, number),) = naive(values, [ball])
        rows = dense(values).rows()
        # Sums of 80 rows: a few units in the last place.
        assert np.abs(rows.projected(*ball).mean() - wanted).max() <= 4 * np.spacing(at)
        np.testing.assert_array_equal(rows.within(*ball)[1], number)


@each
@pytest.mark.parametrize("at", [1e6, 1e150, -1e300])
def test_a_far_centre(make: Make, at: float) -> None:
    values, centre = DATA["gaussian"], np.zeros((4, 3))
    centre[1, 0] = at
    for radius in (0.0, 0.5, np.array([3.0, 3.0, 0.1, 1e3])):
        rows = make(values).rows()
        found, (wanted,) = rows.projected(centre, radius).mean(), naive(values, [(centre, radius)])
        same = [0, 2, 3]
        close(found[same], wanted[0][same], 1.0)
        close(found[1], wanted[0][1], abs(at))
        sums, counts = rows.within(centre, radius)
        np.testing.assert_array_equal(counts, wanted[2])
        close(sums, wanted[1], 60.0)


def test_a_trial_does_not_depend_on_the_others() -> None:
    """Bit for bit, unless a square overflows or vanishes in one: then to 1e-12."""
    values = DATA["uneven"]
    together = dense(values).rows()
    rows = [dense(values[t : t + 1]).rows() for t in range(4)]
    for centre, radius in shrinking(values, 5):
        together = together.projected(centre, radius)
        for t in range(4):
            own = centre[t : t + 1], np.asarray(radius)[t : t + 1]
            rows[t] = rows[t].projected(*own)
            np.testing.assert_array_equal(rows[t].mean()[0], together.mean()[t])
            for one, all_of_them in zip(
                rows[t].within(*own), together.within(centre, radius), strict=True
            ):
                np.testing.assert_array_equal(one[0], all_of_them[t])


BALLS: list[Ball] = [
    (np.zeros((4, 3)), 30.0),
    (np.full((4, 3), 0.2), 2.5),
    (np.full((4, 3), 0.2), np.full(4, 2.2)),
    (0.3 * rng(20).normal(size=(4, 3)), 2.0),
    (0.3 * rng(21).normal(size=(4, 3)), np.array([1.8, 40.0, 1.2, 0.4])),
]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 3, 4), (0, 4), (3, 1)])
def test_data_held_once_are_like_copies(order: tuple[int, ...]) -> None:
    values = np.tile(rng(22).normal(size=(1, 70, 3)) * [1.0, 1.5, 0.1], (4, 1, 1))
    balls = [BALLS[i] for i in order]
    check(broadcast(values), values, balls, 2.0)
    rows, copies = broadcast(values).rows(), dense(values).rows()
    for ball in balls:
        rows, copies = rows.projected(*ball), copies.projected(*ball)
        np.testing.assert_array_equal(rows.mean(), copies.mean())
        for one, other in zip(rows.within(*ball), copies.within(*ball), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("make", [dense, sparse, broadcast])
@pytest.mark.parametrize("outside", [0.1, 50.0])
def test_a_centre_that_is_no_number(make: Make, outside: float) -> None:
    """Nothing was released where to put the ball: unmoved rows would be released instead."""
    values = np.tile(rng(18).normal(size=(1, 30, 3)), (4, 1, 1))
    centre = np.zeros((4, 3))
    centre[1] = np.nan
    centre[2, 1] = np.nan
    sound, ball = [0, 3], (centre[[0, 3]], outside)
    ((wanted, wanted_sums, number),) = naive(values[sound], [ball])
    rows = make(values).rows()
    for radius in (outside, np.full(4, outside)):
        moved_rows = rows.projected(centre, radius)
        # A ball behind it makes no number of it.
        again = moved_rows.projected(np.zeros((4, 3)), radius)
        sums, counts = rows.within(centre, radius)
        for found in (moved_rows.mean(), again.mean(), centre + sums):
            assert np.isnan(found).any(axis=1).tolist() == [False, True, True, False]
        close(moved_rows.mean()[sound], wanted, 1.0)
        np.testing.assert_array_equal(counts[sound], number)
        close(sums[sound], wanted_sums, 30.0)


@each
@pytest.mark.parametrize(("n", "d"), [(1, 1), (30, 1), (30, 3), (5, 20)])
def test_sensitivity_by_brute_force(make: Make, n: int, d: int) -> None:
    """Neighbours differ in one row, which may be anything; the balls are the same.

    The projected mean then moves by at most 2s/n, s the last radius.
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
    """1e12 records, of which five are not zero, in exact fractions."""
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


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_norms_of_any_size(size: float) -> None:
    rows = size * np.concatenate([rng(26).normal(size=(7, 4)), np.zeros((1, 4))])
    wanted = np.array([math.hypot(*row) for row in rows])
    np.testing.assert_allclose(norms(rows.reshape(2, 4, 4)), wanted.reshape(2, 4), rtol=1e-14)
    assert np.isnan(norms(np.array([[np.nan, 1.0], [1.0, 2.0]]))).tolist() == [True, False]
