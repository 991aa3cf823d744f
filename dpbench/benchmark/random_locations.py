"""Random places (locations) of a problem's distributions, drawn anew in each run.

With a fixed location an entry could output the known mean and ignore the data. Each run therefore
moves the distributions by maps that preserve their class, and stores the seed of the maps.

- A scalar distribution is shifted and possibly reflected. A vector distribution is shifted, and
  its coordinates are permuted and change signs. These isometries preserve the class of
  Gaussians with a given scale, and the class with centred moments of order k at most 1.
- A Bernoulli distribution is replaced by four Bernoulli distributions. Their means are 1/2 plus and
  minus a small and a large random distance. At the small distance the sampling error is largest. At
  the large distance an entry that always releases 1/2 has a large error.
- A real column is also tilted, which changes the shape little and the mean much: a record of rank r
  in [0, 1] gets the weight exp(theta r), with a random theta for each place (`RealColumn`). So
  nobody knows the mean, even if the column is recognised. The records and the public bounds on
  their mean and standard deviation are then multiplied by a power of two.

A problem has two places on opposite sides of 0, so that no constant is close to both. Their
distances from 0 are between 0.25 and 0.9 of the radius, the public bound on the norm of the mean
(or `UNKNOWN_RADIUS` if no bound is public). The members of a family of distributions alternate
between the places. A single distribution stands at both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpbench.arrays import Floats
from dpbench.distributions import (
    Bernoulli,
    Distribution,
    Gaussian,
    RealColumn,
    Rescaled,
    SignedPermutation,
    TwoPoint,
)  # fmt: skip
from dpbench.privacy import Budget
from dpbench.registry import Radius, validated
from dpbench.seeds import stream
from dpbench.theory.bounds.class_bound import ErrorBound
from dpbench.theory.families import Family

__all__ = ["TILTS", "UNKNOWN_RADIUS", "draw_unit", "place_family"]

# Radius within which places lie if no radius is public.
UNKNOWN_RADIUS = 1e6
# Range of the distance of a place from 0, as a share of the radius.
DISTANCE_RANGE = 0.25, 0.9
# Range of the absolute value of the exponent by which real columns are tilted.
TILTS = 1.0, 2.0
# Ranges of the small and the large distance of p from 1/2.
SMALL_DISTANCES, LARGE_DISTANCES = (0.02, 0.08), (0.3, 0.45)


@validated
class _PlacedFamily(Family):
    """Family of distributions, moved to random locations, of which `seed` is the seed.

    `radius` is a public bound on the norm of the mean, None if no bound is public. `unit` is a
    factor of the records and of the radius.
    """

    of: Any
    radius: Radius | None
    seed: int
    unit: float = 1.0

    @property
    def follows_budget(self) -> bool:  # type: ignore[override]
        """True if the distributions of the family depend on the privacy budget."""
        return bool(self.of.follows_budget)

    @property
    def moment_order(self) -> float | None:
        order: float | None = self.of.moment_order
        return order

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        unmoved = self.of.members(label, n, budget)
        rng = stream("places", self.seed, label)
        laws = list(unmoved.items()) if len(unmoved) > 1 else 2 * list(unmoved.items())
        if isinstance(laws[0][1], Bernoulli):
            return {f"{label}/p={law.p:.4f}": law for law in _draw_coins(rng)}
        if isinstance(laws[0][1], RealColumn):  # tilted up at one place, and down at the other
            tilts = np.array([1, -1]) * rng.uniform(*TILTS, size=2)
            laws = [
                (name, replace(law, tilt=tilt))
                for (name, law), tilt in zip(laws, tilts.tolist(), strict=True)
            ]
        places = _draw_places(
            laws[0][1].d, UNKNOWN_RADIUS if self.radius is None else self.radius, rng
        )
        first_place = int(rng.integers(2))
        at_places = [(name, (i + first_place) % 2, law) for i, (name, law) in enumerate(laws)]
        return {
            f"{name}@{side}": _move_to_place(law, places[side], rng, self.unit)
            for name, side, law in at_places
        }

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        bound: ErrorBound = self.of.lower_bound(n, budget, local=local)
        return bound


def draw_unit(problem: str, seed: int) -> float:
    """Draw the unit of a problem's records, a power of two from 1/16 to 16, from a problem's id."""
    return float(2.0 ** stream("units", seed, problem).integers(-4, 5))


def place_family(family: Family, radius: float | None, seed: int, unit: float = 1.0) -> Family:
    """Return the family of distributions, moved to random locations.

    `radius` is the public bound on the norm of the mean, None if no bound is public. `unit` is the
    factor of the records of real columns, and of the radius.
    """
    return _PlacedFamily(of=family, radius=radius, seed=seed, unit=unit)


def _draw_coins(rng: np.random.Generator) -> Iterator[Bernoulli]:
    """Yield four Bernoulli distributions, with means 1/2 +- a small and 1/2 +- a large distance.

    The two distances are random.
    """
    for low, high in (SMALL_DISTANCES, LARGE_DISTANCES):
        distance = float(f"{rng.uniform(low, high):.6g}")
        yield from (Bernoulli(p=0.5 - distance), Bernoulli(p=0.5 + distance))


def _draw_places(d: int, radius: float, rng: np.random.Generator) -> list[Floats]:
    """Draw two random locations for distributions, on opposite sides of 0.

    The locations are vectors of shape (d,). Their distances from 0 are random shares of `radius`.
    """
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    near_share, far_share = rng.uniform(*DISTANCE_RANGE, size=2)
    return [near_share * radius * direction, -far_share * radius * direction]


def _move_to_place(law: Distribution, place: Floats, rng: np.random.Generator, unit: float) -> Any:
    """Return the distribution moved to a location, and randomly reflected.

    The coordinates of a vector distribution are also permuted, and each may change its sign.
    """
    sign = 1 if rng.random() < 0.5 else -1
    if isinstance(law, TwoPoint):
        location = float(place[0]) + sign * law.location
        return replace(law, location=location, sign=1 if sign == law.sign else -1)
    if isinstance(law, Gaussian):  # symmetric: a reflection changes nothing
        return replace(law, location=float(place[0]))
    if np.ndim(law.target) == 0:
        return Rescaled(of=law, location=unit * float(place[0]), factor=sign * unit)
    signs = np.where(rng.random(law.d) < 0.5, 1, -1)
    order = rng.permutation(law.d)
    return SignedPermutation(
        of=law,
        shift=tuple(place.tolist()),
        signs=tuple(signs.tolist()),
        order=tuple(order.tolist()),
    )
