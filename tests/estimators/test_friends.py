"""Friends: counts against exact fractions, whatever the scale; matches of clusterings."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbench.estimators import friends
from dpbench.estimators.friends import clusters_match, count_friends, count_within

Floats = NDArray[np.float64]


def exact_counts(rows: Floats, radius: float) -> list[int]:
    exact = [[Fraction(float(x)) for x in row] for row in rows]
    bound = Fraction(radius) ** 2
    return [
        sum(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) <= bound for y in exact)
        for x in exact
    ]


def adversarial() -> dict[str, tuple[Floats, float]]:
    rng = np.random.default_rng(0)
    lattice = rng.integers(-6, 7, (40, 2)).astype(float)  # many pairs at distance 5 exactly
    close = lattice[:12].copy()
    close[::2, 1] += 2.0**-12
    far = np.concatenate([lattice[:20], 1e12 + close, -(2.0**50) + lattice[:4]])
    line = np.outer(np.arange(30), [3.0, 4.0, 12.0])
    huge = np.zeros((20, 3))
    huge[3:9] = 1e150
    huge[6:9] *= 1 + 2.0**-50 * np.arange(3)[:, None]
    huge[9:12] = -1e300
    huge[12:15] = 1.7e308 * np.array([[1], [-1], [1]])
    near = 2.0**500 * (2.0**40 + lattice[:16])
    # Squares are finite, products are not.
    brink = 1.2e154 * np.array([0.0] * 9 + [1.0, 1 + 2.0**-20, -1.0, 1.0])[:, None]
    half = 0.5 + np.array([0.0, 2.0**-40, -(2.0**-40)])  # near half the radius off the bulk
    opposite = np.concatenate([np.zeros(20), half, -half])[:, None]
    shells = 4.0 ** np.arange(40)[:, None] * [1.0, 0.0]
    return {
        "lattice": (lattice, 5.0),
        "lattice, scaled": (lattice * 2.0**-700, 5 * 2.0**-700),
        "lattice at 2^540": (near, 5 * 2.0**500),
        "clusters at 1e12": (far, 5.0),
        "rows at 1e150 and 1e300": (huge, 1.0),
        "squares that nearly overflow": (brink, 1.0),
        "opposite": (opposite, 1.0),
        "a huge radius": (huge, 1e300),
        "a radius between": (huge, 1e136),
        "a tiny radius": (huge, 1e-310),
        "duplicates": (np.repeat(lattice[:5], 6, axis=0), 1e-9),
        "collinear": (line, 26.0),
        "shells": (shells, 3.0),
        "d = 1": (np.concatenate([lattice[:, :1], 1e9 + lattice[:, :1]]), 2.0),
        "d > n": (rng.integers(-1, 2, (9, 64)).astype(float) + 1e8 * np.eye(9, 64), 9.0),
        "few": (lattice[:2], 5.0),
        "one": (lattice[:1], 5.0),
    }


@pytest.mark.parametrize("name", adversarial())
def test_counts_against_exact_fractions(name: str) -> None:
    rows, radius = adversarial()[name]
    wanted = exact_counts(rows, radius)
    rng = np.random.default_rng(1)
    assert count_within(rows[None], radius)[0].tolist() == wanted  # one trial may be split
    orders = np.array([rng.permutation(len(rows)) for _ in range(5)])
    found = count_within(rows[orders], np.full(5, radius))
    assert found.tolist() == np.array(wanted)[orders].tolist()


def test_random_counts_against_exact_fractions() -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        n, d = int(rng.integers(2, 25)), int(rng.integers(1, 6))
        rows = rng.standard_normal((3, n, d)) * 10 ** rng.uniform(-3, 3, (3, n, 1))
        rows += 10 ** rng.uniform(-3, 12)
        radius = 10 ** rng.uniform(-3, 3, 3)
        wanted = [exact_counts(x, r) for x, r in zip(rows, radius, strict=True)]
        assert count_within(rows, radius).tolist() == wanted


def test_whether_two_are_friends_does_not_depend_on_the_others() -> None:
    """Else the filter would not be stable. At distance r up to rounding, it is a close call."""
    rng = np.random.default_rng(3)
    calls = set()
    for scale in (0.0, 1.0, 1e3, 1e8, 1e14, 1e200):
        lattice = 0.1 * rng.integers(-5, 6, (60, 2))  # 0.3, 0.4 is 0.5 off, or nearly so
        outliers = scale * rng.standard_normal((25, 2))
        rows = np.concatenate([outliers, lattice])
        i, j = np.triu_indices(len(rows), 1)
        alone = count_within(np.stack([rows[i], rows[j]], axis=1), 0.5)
        wanted = np.ones(len(rows))
        np.add.at(wanted, i, alone[:, 0] - 1)
        np.add.at(wanted, j, alone[:, 1] - 1)
        for extra in (1, 2):  # one trial, and several
            found = count_within(np.repeat(rows[None], extra, axis=0), 0.5)
            np.testing.assert_array_equal(found, np.tile(wanted, (extra, 1)))
        exact = np.abs(np.hypot(*(rows[i] - rows[j]).T) - 0.5) < 1e-12
        calls |= set(alone[exact, 0])
    assert calls == {1, 2}  # rounding does go both ways


@pytest.mark.parametrize("chunk", [1, 10, 333, 5000, 10**7])
def test_chunks_do_not_change_counts(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((6, 37, 3))
    rows[1:3, ::4] += 1e13
    rows[4, 5] = 1e300
    counts = rng.integers(0, 4, (6, 37)).astype(float)
    radius = rng.uniform(1, 3, 6)
    plain, held = count_within(rows, radius), count_within(rows, radius, counts)
    monkeypatch.setattr(friends, "CHUNK", chunk)
    np.testing.assert_array_equal(count_within(rows, radius), plain)
    np.testing.assert_array_equal(count_within(rows, radius, counts), held)


def test_counts_of_many_rows() -> None:
    """Tiles on and off the diagonal, and the rows that need no product."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((2, 1203, 4))
    rows[:, ::7] *= 5
    for radius in (0.5, 2.0, 6.0):
        apart = np.linalg.norm(rows[:, :, None] - rows[:, None], axis=3)
        assert np.abs(apart - radius).min() > 1e-12
        wanted = (apart <= radius).sum(axis=2)
        np.testing.assert_array_equal(count_within(rows, radius), wanted)


@pytest.mark.parametrize("radius", [0.0, -1.0, np.inf, np.nan])
def test_radii_are_checked(radius: float) -> None:
    with pytest.raises(ValueError, match="radius"):
        count_within(np.zeros((2, 3, 1)), np.array([1.0, radius]))


@pytest.mark.parametrize("shape", [(3, 4), (0, 3, 1), (2, 0, 1), (2, 3, 0)])
def test_shapes_are_checked(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="array"):
        count_within(np.zeros(shape), 1.0)


def test_any_predicate_is_asked_once_for_two() -> None:
    asked = []

    def divides(one: int, other: int) -> bool:
        asked.append((one, other))
        return one % other == 0 or other % one == 0

    records = [1, 2, 3, 4, 5, 6]
    assert count_friends(records, divides).tolist() == [6, 4, 3, 3, 2, 4]
    assert len(asked) == len(set(asked)) == 15
    rows = adversarial()["lattice"][0]
    found = count_friends(rows, lambda a, b: bool(np.sum((a - b) ** 2) <= 25))
    assert found.tolist() == count_within(rows[None], 5.0)[0].tolist()


def test_clusters_match_against_all_permutations() -> None:
    rng = np.random.default_rng(6)
    seen = set()
    for _ in range(600):
        m, c = int(rng.integers(1, 6)), int(rng.integers(1, 3))
        one, other = rng.integers(0, 9, (2, m, c)).astype(float)
        radius = float(rng.integers(1, 6))
        near = np.sum((one[:, None] - other[None]) ** 2, axis=2) <= radius**2
        wanted = any(
            all(near[i, j] for i, j in enumerate(order))
            for order in itertools.permutations(range(m))
        )
        assert clusters_match(one, other, radius) == wanted == clusters_match(other, one, radius)
        seen.add((m, wanted))
    assert len(seen) == 10
    assert not clusters_match([[0.0], [1e300]], [[1e300], [-1.7e308]], 1e3)
    with pytest.raises(ValueError, match="two"):
        clusters_match([[0.0]], [[0.0], [1.0]], 1.0)
