"""Places of laws: where they may be, what they leave alone, and that nobody can know them."""

from __future__ import annotations

import numpy as np
import pytest

from dpbench.benchmark.problems import read_benchmark
from dpbench.benchmark.random_locations import (
    DISTANCE_RANGE,
    LARGE_DISTANCES,
    SMALL_DISTANCES,
    TILTS,
    UNKNOWN_RADIUS,
    place_family,
)
from dpbench.distributions import (
    Bernoulli,
    Distribution,
    Gaussian,
    RealColumn,
    Rescaled,
    SignedPermutation,
    TwoPoint,
)
from dpbench.theory.families import TwoPointFamily, build_family
from tests.support import rng

PROBLEMS = read_benchmark().problems


def norms(laws: dict[str, Distribution]) -> list[float]:
    return [float(np.linalg.norm(law.mean)) for law in laws.values()]


def test_another_seed_is_another_place_and_the_same_seed_the_same() -> None:
    benchmark = read_benchmark()
    one, again, other = (benchmark.at_places(seed).problems for seed in (1, 1, 2))
    for a, b, c in zip(one, again, other, strict=True):
        assert a.members == b.members, a.id
        assert all(x != y for x, y in zip(a.members.values(), c.members.values(), strict=True))
        assert a.digest == c.digest
        assert a.bound == c.bound


@pytest.mark.parametrize("seed", range(3))
def test_members_are_the_frozen_ones_in_a_mirror(seed: int) -> None:
    """Variances and moments are those of the law as it is written down; but for Bernoulli laws."""
    for problem in read_benchmark().at_places(seed).problems:
        if problem.known.records == "binary":
            continue
        still = problem._frozen.members(problem.id, problem.n, problem.budget)
        for name, law in problem.members.items():
            frozen = still[name.rpartition("@")[0]]
            assert law.variance == pytest.approx(frozen.variance, rel=1e-12)
            assert law.moment(2) == pytest.approx(frozen.moment(2), rel=1e-12)


def test_numbers_stand_on_both_sides_within_the_radius() -> None:
    family = build_family({"kind": "gaussian", "scale": 2.0}, "here")
    for radius, most in ((10.0, 10.0), (None, UNKNOWN_RADIUS)):
        for seed in range(20):
            one, other = (
                place_family(family, radius, seed).members("x", 100, PROBLEMS[0].budget).values()
            )
            assert isinstance(one, Gaussian)
            assert np.sign(one.mean) == -np.sign(other.mean)
            for law in (one, other):
                assert DISTANCE_RANGE[0] * most <= abs(float(law.mean)) <= DISTANCE_RANGE[1] * most


def test_a_two_point_law_in_the_mirror_has_its_atoms_there() -> None:
    """The coin too, whose location is not its centre: its values stay 1 away from the place."""
    family = TwoPointFamily(k=2, c=[1], with_fair_coin=True)
    budget = PROBLEMS[0].budget
    seen = set()
    for seed in range(10):
        laws = place_family(family, 10.0, seed).members("x", 300, budget)
        coin = next(law for name, law in laws.items() if "coin" in name)
        assert isinstance(coin, TwoPoint)
        values = coin.location + coin.sign * coin.tau * np.arange(2)
        assert np.allclose(np.abs(values - coin.mean), 1)
        rare = [law for law in laws.values() if isinstance(law, TwoPoint) and law is not coin]
        assert min(abs(law.location - coin.mean) for law in rare) < 1e-9
        seen.add(coin.sign)
    assert seen == {-1, 1}


def test_bernoulli_laws_are_near_to_one_half_and_away_from_it() -> None:
    family = build_family({"kind": "bernoulli", "p": 0.5}, "here")
    for seed in range(20):
        laws = place_family(family, None, seed).members("x", 300, PROBLEMS[0].budget).values()
        assert all(isinstance(law, Bernoulli) for law in laws)
        p = np.array([law.mean for law in laws])
        assert np.allclose(p[:2].sum(), 1)
        assert np.allclose(p[2:].sum(), 1)
        assert SMALL_DISTANCES[0] <= p[1] - 0.5 <= SMALL_DISTANCES[1]
        assert LARGE_DISTANCES[0] <= p[3] - 0.5 <= LARGE_DISTANCES[1]


def test_no_constant_answer_is_near_to_all_members() -> None:
    """A constant errs by half of the largest distance of two means: by three bounds and more."""
    for seed in range(5):
        for problem in read_benchmark().at_places(seed).problems:
            means = np.array([np.atleast_1d(law.mean) for law in problem.members.values()])
            widest = max(np.linalg.norm(a - b) for a in means for b in means)
            assert widest / 2 > 3 * problem.bound.value, problem.id


def test_vectors_change_places_and_signs() -> None:
    family = build_family({"kind": "signed_two_point_family", "d": 4, "k": 2, "c": [1, 3]}, "here")
    problem = next(one for one in PROBLEMS if one.d > 1)
    laws = place_family(family, 10.0, 3).members("x", 10_000, problem.budget)
    for law in laws.values():
        x = law.sample(rng(1), 2, 50)
        assert x.mean().shape == (2, 4)
        assert np.linalg.norm(law.mean) <= 10


@pytest.mark.parametrize("unit", [1.0, 0.25])
def test_real_columns_are_tilted_shifted_mirrored_and_rescaled(unit: float) -> None:
    """Upwards at one place and downwards at the other, which may be on either side."""
    column = {"kind": "real_column", "column": "wind_speed", "scale": 0.05}
    seen = set()
    for seed in range(12):
        laws = place_family(build_family(column, "x"), 10.0, seed, unit).members(
            "x", 100, PROBLEMS[0].budget
        )
        means = [float(law.mean) for law in laws.values()]
        assert np.sign(means[0]) == -np.sign(means[1])
        for law in laws.values():
            assert 2.5 * unit <= abs(float(law.mean)) <= 9 * unit
            assert isinstance(law, Rescaled)
            assert TILTS[0] <= abs(law.of.tilt) <= TILTS[1]
            still = RealColumn(column="wind_speed", scale=0.05, tilt=law.of.tilt)
            assert law.moment(3) == pytest.approx(unit**3 * still.moment(3))
            seen.add((np.sign(law.factor), np.sign(law.of.tilt), np.sign(law.mean)))
        assert len({np.sign(law.of.tilt) for law in laws.values()}) == 2  # type: ignore[attr-defined]
    assert len(seen) == 8


def test_coordinates_of_vectors_are_permuted_and_half_of_the_signs_change() -> None:
    """In 40 laws of 4 coordinates; a share beyond 1/2 -+ 0.2 has probability 3e-7."""
    family = build_family({"kind": "signed_two_point_family", "d": 4, "k": 2, "c": [1, 3]}, "here")
    problem = next(one for one in PROBLEMS if one.d > 1)
    laws = [
        law
        for seed in range(20)
        for law in place_family(family, 10.0, seed).members("x", 10_000, problem.budget).values()
    ]
    assert len(laws) >= 40
    found = [law for law in laws if isinstance(law, SignedPermutation)][:40]
    assert abs(np.mean([sign > 0 for law in found for sign in law.signs]) - 0.5) < 0.2
    moved = np.mean([j != i for law in found for i, j in enumerate(law.order)])
    assert moved == pytest.approx(3 / 4, abs=0.2)  # of random permutations
    for law in found:
        assert np.linalg.norm(law.mean - np.array(law.shift)) == pytest.approx(
            np.linalg.norm(law.of.mean)
        )
