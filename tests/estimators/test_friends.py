"""Friends: counts against exact fractions, whatever the scale."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from dpbench.arrays import Floats
from dpbench.estimators import friendly_core
from dpbench.estimators.friendly_core import count_within


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
    found = count_within(rows[orders], radius)
    assert found.tolist() == np.array(wanted)[orders].tolist()


def test_random_counts_against_exact_fractions() -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        n, d = int(rng.integers(2, 25)), int(rng.integers(1, 6))
        rows = rng.standard_normal((3, n, d)) * 10 ** rng.uniform(-3, 3, (3, n, 1))
        rows += 10 ** rng.uniform(-3, 12)
        radius = float(10 ** rng.uniform(-3, 3))
        wanted = [exact_counts(x, radius) for x in rows]
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
    radius = 2.0
    plain, held = count_within(rows, radius), count_within(rows, radius, counts)
    monkeypatch.setattr(friendly_core, "CHUNK", chunk)
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
        count_within(np.zeros((2, 3, 1)), radius)


@pytest.mark.parametrize("shape", [(3, 4), (0, 3, 1), (2, 0, 1), (2, 3, 0)])
def test_shapes_are_checked(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="array"):
        count_within(np.zeros(shape), 1.0)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 8, 16, 17, 65])
def test_a_distance_is_the_same_whatever_it_is_computed_with(d: int) -> None:
    """Bit for bit, else the records around two could decide whether they are friends."""
    rows = np.random.default_rng(6).standard_normal((19, d))
    among = cdist(rows, rows, "sqeuclidean")
    for i, j in np.ndindex(19, 19):
        one, other = rows[i, None], rows[j, None]
        assert cdist(one, other, "sqeuclidean")[0, 0] == among[i, j] == among[j, i]
        some = cdist(rows[i:], rows[: j + 1], "sqeuclidean")
        assert some[0, j] == among[i, j]
