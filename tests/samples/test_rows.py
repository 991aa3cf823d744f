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


def exact_mean(rows: Sequence[Sequence[float]]) -> list[float]:
    """Sums rounded once."""
    return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]


def naive(values: Floats, balls: Sequence[Ball]) -> list[Floats]:
    """The means of rows that are moved to the balls in turn, after each ball."""
    trials = len(values)
    now = [[row.tolist() for row in trial] for trial in values]
    found = []
    for centre, radius in balls:
        bound = np.broadcast_to(radius, trials)
        now = [
            [moved(x, centre[t].tolist(), float(bound[t])) for x in now[t]] for t in range(trials)
        ]
        found.append(np.array([exact_mean(trial) for trial in now]))
    return found


def naive_within(values: Floats, ball: Ball) -> tuple[Floats, Floats]:
    centre, radius = ball
    bound = np.broadcast_to(radius, len(values))
    sums, counts = np.zeros((len(values), values.shape[2])), np.zeros(len(values))
    for t, trial in enumerate(values.tolist()):
        offsets = [[x - c for x, c in zip(row, centre[t].tolist(), strict=True)] for row in trial]
        inside = [offset for offset in offsets if math.hypot(*offset) <= bound[t]]
        counts[t] = len(inside)
        if inside:
            sums[t] = [math.fsum(column) for column in zip(*inside, strict=True)]
    return sums, counts


def answers(sample: Sample, balls: Sequence[Ball]) -> list[Floats]:
    rows, found = sample.rows(), []
    for centre, radius in balls:
        rows = rows.projected(centre, radius)
        found.append(rows.mean())
    return found


def wild_rows(values: Floats, trial: int, wild: Sequence[float]) -> Floats:
    """A copy with large numbers in the first rows of a trial, in turn along each axis."""
    other = values.copy()
    for i, size in enumerate(wild):
        other[trial, i] = 0.0
        other[trial, i, i % values.shape[2]] = size
    return other


def lattice(shape: tuple[int, int, int]) -> Floats:
    return rng(2).integers(-6, 7, shape).astype(float)


DATA: dict[str, Floats] = {
    "gaussian": rng(1).normal(size=(4, 60, 3)),
    "heavy": rng(1).standard_cauchy((3, 60, 2)),
    "equal": np.tile([3.0, -1.0, 0.5], (3, 25, 1)),
    "zeros": np.zeros((2, 9, 3)),
    "lattice": lattice((4, 60, 2)),
    "collinear": rng(3).normal(size=(3, 40, 1)) * np.array([1.0, -2.0, 0.5, 3.0]),
    "wide": rng(4).normal(size=(3, 6, 25)),
    "numbers": rng(5).normal(size=(4, 50, 1)),
    "one record": rng(6).normal(size=(5, 1, 3)),
    "one number": rng(7).normal(size=(5, 1, 1)),
    "rare": rng(8).normal(size=(4, 50, 3)) * (rng(9).random((4, 50, 1)) < 0.15),
    "one trial": rng(10).normal(size=(1, 80, 3)),
    "two clouds": rng(11).normal(size=(3, 60, 2)) + 40.0 * (np.arange(60) % 2)[:, None],
    "uneven": rng(12).normal(size=(4, 60, 3)) * 10.0 ** np.arange(-3, 1)[:, None, None],
}
data = pytest.mark.parametrize("values", DATA.values(), ids=DATA.keys())


def shrinking(values: Floats, seed: int) -> list[Ball]:
    """Balls that cut off more and more, at another place and of another size in every trial."""
    trials, _, d = values.shape
    draw = rng(seed)
    far = np.median(np.linalg.norm(values - values.mean(axis=1, keepdims=True), axis=2), axis=1)
    balls: list[Ball] = []
    for share in (8.0, 3.0, 2.0, 1.5, 1.1, 0.7, 0.4):
        centre = values.mean(axis=1) + 0.1 * far[:, None] * draw.normal(size=(trials, d))
        balls.append((centre, share * far * draw.uniform(0.7, 1.3, trials)))
    return balls


def close(found: Floats, wanted: Floats, size: float) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13 * size)


@each
@data
def test_balls_one_after_another_against_a_loop(make: Make, values: Floats) -> None:
    balls = shrinking(values, 1)
    size = float(np.abs(values).max())
    arrays = [values, *(np.asarray(a) for ball in balls for a in ball)]
    with unchanged(*arrays):
        found = answers(make(values), balls)
    for one, wanted in zip(found, naive(values, balls), strict=True):
        close(one, wanted, size)


@each
@data
@pytest.mark.parametrize("radius", [0.0, 1.0, 1e300])
def test_one_radius_for_all_trials(make: Make, values: Floats, radius: float) -> None:
    trials, _, d = values.shape
    size = float(np.abs(values).max())
    for at in (0.0, 2.0, -1e6):
        ball = (np.full((trials, d), at), radius)
        (wanted,) = naive(values, [ball])
        (found,) = answers(make(values), [ball])
        close(found, wanted, max(size, abs(at)))
    if radius == 1e300:
        np.testing.assert_allclose(found, values.mean(axis=1), rtol=1e-12, atol=1e-13 * size)
    if radius == 0:
        np.testing.assert_allclose(found, -1e6, rtol=1e-14)


@each
@data
def test_rows_inside_against_a_loop(make: Make, values: Floats) -> None:
    rows = make(values).rows()
    size = float(np.abs(values).max())
    for ball in shrinking(values, 3):
        sums, counts = rows.within(*ball)
        wanted, number = naive_within(values, ball)
        np.testing.assert_array_equal(counts, number)
        close(sums, wanted, size * values.shape[1])


@each
def test_the_mean_of_rows_is_that_of_the_sample(make: Make) -> None:
    for values in DATA.values():
        wanted = np.array([exact_mean(trial.tolist()) for trial in values])
        close(make(values).rows().mean(), wanted, float(np.abs(values).max()))


@each
def test_rows_on_the_surface_are_inside(make: Make) -> None:
    """Whole numbers and squares: who is inside is exact."""
    values = lattice((3, 200, 2))
    rows = make(values).rows()
    centre = np.array([[0.0, 0.0], [3.0, 4.0], [-1.0, 2.0]])
    square = ((values - centre[:, None]) ** 2).sum(axis=2)
    on_surface = 0
    for radius in (0.0, 1.0, 5.0, 10.0):
        on_surface += int((square == radius**2).sum())
        inside = square <= radius**2
        sums, counts = rows.within(centre, radius)
        assert counts.tolist() == inside.sum(axis=1).tolist()
        wanted = ((values - centre[:, None]) * inside[..., None]).sum(axis=1)
        np.testing.assert_allclose(sums, wanted, atol=1e-10)
        once = rows.projected(centre, radius)
        np.testing.assert_array_equal(once.within(centre, radius * (1 + 1e-12))[1], [200] * 3)
    assert on_surface > 20


def test_the_core_is_opened_in_some_trials_only() -> None:
    """What the speed rests on: the bulk is held while the balls contain it."""
    values = rng(13).normal(size=(4, 400, 3))
    values[3] *= 50
    rows = DenseSample(values).rows()
    assert rows.core is not None
    assert np.all(rows.core.held.sum(axis=1) >= 370)
    centre = np.zeros((4, 3))
    wide = rows.projected(centre, 1e3)
    assert wide.core is rows.core
    part = rows.projected(centre, np.array([1e3, 1.0, 1e3, 1e3]))
    assert part.core is not None
    held = part.core.held.sum(axis=1)
    np.testing.assert_array_equal(held[[0, 2, 3]], rows.core.held.sum(axis=1)[[0, 2, 3]])
    assert 0 < held[1] < 200  # those within 1 of the centre stay
    for ball, found in (((centre, 1e3), wide), ((centre, np.array([1e3, 1, 1e3, 1e3])), part)):
        close(found.mean(), naive(values, [ball])[0], 1.0)


@each
@pytest.mark.parametrize("size", [1e150, -1e300])
@pytest.mark.parametrize("many", [1, 20, 39])
@pytest.mark.parametrize("signs", [(1.0,), (1.0, -1.0)])
def test_many_wild_rows_take_no_digits(
    make: Make, size: float, many: int, signs: tuple[float, ...]
) -> None:
    """So many that the bulk is wild; each on an axis of its own."""
    values = rng(15).normal(size=(2, 40, 3))
    wild = [size * sign * (1 + i) / 40 for i, sign in zip(range(many), itertools.cycle(signs))]
    other = wild_rows(values, 1, wild)
    balls: list[Ball] = [(np.full((2, 3), 0.3), 4.0), (np.zeros((2, 3)), np.array([1.0, 2.0]))]
    for found, wanted in zip(answers(make(other), balls), naive(other, balls), strict=True):
        close(found, wanted, 1.0)
    sums, counts = make(other).rows().within(*balls[0])
    wanted_sums, wanted_counts = naive_within(other, balls[0])
    np.testing.assert_array_equal(counts, wanted_counts)
    close(sums, wanted_sums, 40.0)
    # Balls as wild as the rows.
    ball: Ball = (np.full((2, 3), abs(size) / 50), abs(size) / 3)
    (found,) = answers(make(other), [ball])
    close(found, naive(other, [ball])[0], abs(size))


@pytest.mark.parametrize("at", [1e4, 1e9])
@pytest.mark.parametrize("d", [1, 8])
def test_rows_far_from_the_origin(at: float, d: int) -> None:
    """There squared norms cannot tell which rows are near; who leaves must not rest on them."""
    values = at + rng(16).normal(size=(3, 80, d))
    centre = at + 0.1 * rng(17).normal(size=(3, d))
    for radius in (0.3, 1.0, 2.0, 3.5):
        ball: Ball = (centre, radius * math.sqrt(d))
        (found,) = answers(dense(values), [ball])
        (wanted,) = naive(values, [ball])
        # Sums of 80 rows: a few units in the last place.
        assert np.abs(found - wanted).max() <= 4 * np.spacing(at)
        counts = dense(values).rows().within(*ball)[1]
        np.testing.assert_array_equal(counts, naive_within(values, ball)[1])


@each
@pytest.mark.parametrize("at", [1e6, 1e150, -1e300])
def test_far_centres(make: Make, at: float) -> None:
    values = DATA["gaussian"]
    centre = np.zeros((4, 3))
    centre[1, 0] = at
    for radius in (0.0, 0.5, np.array([3.0, 3.0, 0.1, 1e3])):
        ball: Ball = (centre, radius)
        (found,) = answers(make(values), [ball])
        (wanted,) = naive(values, [ball])
        same = [0, 2, 3]
        close(found[same], wanted[same], 1.0)
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-12, atol=1e-13 * abs(at))
        sums, counts = make(values).rows().within(*ball)
        wanted_sums, wanted_counts = naive_within(values, ball)
        np.testing.assert_array_equal(counts, wanted_counts)
        assert (counts[1], sums[1].tolist()) == (0, [0.0] * 3)
        close(sums, wanted_sums, 60.0)


@pytest.mark.parametrize("make", [dense, sparse, broadcast])
@pytest.mark.parametrize("outside", [0.1, 50.0])
def test_a_centre_that_is_no_number(make: Make, outside: float) -> None:
    """Nothing was released where to put the ball: unmoved rows would be released instead."""
    values = np.tile(rng(18).normal(size=(1, 30, 3)), (4, 1, 1))
    centre = np.zeros((4, 3))
    centre[1] = np.nan
    centre[2, 1] = np.nan
    sound = [0, 3]
    (wanted,) = naive(values[sound], [(centre[sound], outside)])
    rows = make(values).rows()
    for radius in (outside, np.full(4, outside)):
        found = rows.projected(centre, radius).mean()
        close(found[sound], wanted, 1.0)
        assert np.all(np.isnan(found[[1, 2]]).any(axis=1))
        # A ball behind it makes no number of it.
        again = rows.projected(centre, radius).projected(np.zeros((4, 3)), radius).mean()
        assert np.all(np.isnan(again[[1, 2]]).any(axis=1))
        sums, counts = rows.within(centre, radius)
        inside = naive_within(values[sound], (centre[sound], outside))
        np.testing.assert_array_equal(counts[sound], inside[1])
        close(sums[sound], inside[0], 30.0)
        assert np.all(np.isnan(centre + sums)[[1, 2]].any(axis=1))


def test_a_trial_does_not_depend_on_the_others() -> None:
    """Bit for bit, unless a square overflows or vanishes in one: then to 1e-12."""
    values = DATA["uneven"]
    balls = shrinking(values, 5)
    together = answers(dense(values), balls)
    sums, counts = dense(values).rows().within(*balls[3])
    for t in range(4):
        alone = dense(values[t : t + 1])
        one = [(centre[t : t + 1], np.asarray(radius)[t : t + 1]) for centre, radius in balls]
        for found, batch in zip(answers(alone, one), together, strict=True):
            np.testing.assert_array_equal(found[0], batch[t])
        own = alone.rows().within(*one[3])
        np.testing.assert_array_equal(own[0][0], sums[t])
        assert own[1][0] == counts[t]


COMMON: list[Ball] = [
    (np.zeros((4, 3)), 30.0),
    (np.full((4, 3), 0.2), 2.5),
    (np.full((4, 3), 0.2), np.full(4, 2.2)),
]
APART: list[Ball] = [
    (0.3 * rng(20).normal(size=(4, 3)), 2.0),
    (0.3 * rng(21).normal(size=(4, 3)), np.array([1.8, 40.0, 1.2, 0.4])),
]


@pytest.mark.parametrize("order", list(itertools.combinations(range(5), 3)))
def test_data_held_once_are_like_copies(order: tuple[int, ...]) -> None:
    values = np.tile(rng(22).normal(size=(1, 70, 3)) * [1.0, 1.5, 0.1], (4, 1, 1))
    balls = [[*COMMON, *APART][i] for i in order]
    wanted = naive(values, balls)
    once, copies = answers(broadcast(values), balls), answers(dense(values), balls)
    for found, copied, loop in zip(once, copies, wanted, strict=True):
        np.testing.assert_array_equal(found, copied)
        close(found, loop, 2.0)
    rows, copied_rows = broadcast(values).rows(), dense(values).rows()
    for ball in balls:
        rows, copied_rows = rows.projected(*ball), copied_rows.projected(*ball)
        for one, other in zip(rows.within(*ball), copied_rows.within(*ball), strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-11)


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
    worst = 0.0
    for _ in range(6):
        middle = base.mean(axis=0) + draw.normal(size=(3, d)) * 0.3
        radii = np.sort(draw.uniform(0.1, 4.0, 3))[::-1]
        balls = [
            (np.tile(c, (trials + 1, 1)), float(r)) for c, r in zip(middle, radii, strict=True)
        ]
        for found, (_, radius) in zip(answers(make(values), balls), balls, strict=True):
            step = np.linalg.norm(found[1:] - found[0], axis=1) / (2 * float(radius) / n)
            worst = max(worst, float(step.max()))
    assert worst <= 1 + 1e-9
    assert worst >= 0.5  # the test reaches near the bound


def test_counted_rows_at_large_n() -> None:
    """1e12 records, of which five are not zero, in exact fractions."""
    rows = np.array([[3.0, 4.0], [1e150, 0.0], [0.0, -0.5], [6.0, 8.0], [0.1, 0.0]])
    sample = SparseSample(rows, np.array([2, 0, 3]), BIG)
    trial = [0, 0, 2, 2, 2]
    centre, radius = np.array([[0.5, 0.0], [3.0, 4.0], [0.0, 0.0]]), 2.0
    listed: list[list[tuple[list[float], int]]] = [
        [([0.0, 0.0], BIG - trial.count(t))]
        + [(row.tolist(), 1) for row, home in zip(rows, trial, strict=True) if home == t]
        for t in range(3)
    ]
    found = sample.rows().projected(centre, radius).mean()
    sums, counts = sample.rows().within(centre, radius)
    for t in range(3):
        total, inside, number = [Fraction(0)] * 2, [Fraction(0)] * 2, 0
        for row, count in listed[t]:
            new = moved(row, centre[t].tolist(), radius)
            total = [a + count * Fraction(b) for a, b in zip(total, new, strict=True)]
            offset = [x - c for x, c in zip(row, centre[t], strict=True)]
            if math.hypot(*offset) <= radius:
                number += count
                inside = [a + count * Fraction(b) for a, b in zip(inside, offset, strict=True)]
        np.testing.assert_allclose(found[t], [float(a / BIG) for a in total], rtol=1e-12)
        np.testing.assert_allclose(sums[t], [float(a) for a in inside], rtol=1e-12)
        assert counts[t] == number


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_norms_of_any_size(size: float) -> None:
    draw = rng(26).normal(size=(7, 4))
    rows = size * np.concatenate([draw, np.zeros((1, 4))])
    wanted = [math.hypot(*row) for row in rows]
    np.testing.assert_allclose(norms(rows), wanted, rtol=1e-14)
    np.testing.assert_allclose(norms(rows.reshape(2, 4, 4)), np.reshape(wanted, (2, 4)), rtol=1e-14)
    assert np.isnan(norms(np.array([[np.nan, 1.0], [1.0, 2.0]]))).tolist() == [True, False]
