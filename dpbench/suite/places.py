"""Random places (locations) of a problem's distributions, drawn anew in each run.

With a fixed location an entry could output the known mean and ignore the data. Each run therefore
moves the distributions by maps under which their class is closed, and stores the seed of the maps.

- A scalar distribution is shifted and possibly reflected. A vector distribution is shifted, and
  its coordinates are permuted and change signs. These isometries preserve the classes "Gaussian of
  this scale" and "k-th centred moments of at most 1".
- The p of a Bernoulli distribution is moved to 1/2 plus and minus two distances: a small one,
  where the sampling error is largest, and a large one, for which the constant 1/2 is wrong.

A problem has two places on opposite sides of 0, at distances between 0.25 and 0.9 of the public
radius (of `ANYWHERE` if no radius is public), so that no constant is close to both. The members of
a family alternate between the places; a single distribution stands at both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpbench.arrays import Floats
from dpbench.distributions import Bernoulli, Distribution, Gaussian, Moved, TwoPoint
from dpbench.privacy import Budget
from dpbench.registry import Radius, validated
from dpbench.seeds import stream
from dpbench.theory.bounds.class_bound import ErrorBound
from dpbench.theory.families import Family

__all__ = ["ANYWHERE", "placed"]

# Radius of the places if no radius is public.
ANYWHERE = 1e6
# Range of the distance of a place from 0, as a share of the radius.
INSIDE = 0.25, 0.9
# Ranges of the small and the large distance of p from 1/2.
NEAR, AWAY = (0.02, 0.08), (0.3, 0.45)


@validated
class _PlacedFamily(Family):
    """Family of distributions, moved to random places.

    Parameters
    ----------
    of : Family
        Family before the move.
    radius : float, optional
        Public bound on the norm of the mean.
    seed : int
        Seed of the places.
    """

    of: Any
    radius: Radius | None
    seed: int

    @property
    def follows_budget(self) -> bool:  # type: ignore[override]
        """True if the members depend on the budget."""
        return bool(self.of.follows_budget)

    @property
    def moment_order(self) -> float | None:
        found: float | None = self.of.moment_order
        return found

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        still = self.of.members(label, n, budget)
        rng = stream("places", self.seed, label)
        laws = list(still.items()) if len(still) > 1 else 2 * list(still.items())
        if isinstance(laws[0][1], Bernoulli):
            return {f"{label}/p={law.p:.4f}": law for law in _coins(rng)}
        places = _places(laws[0][1].d, ANYWHERE if self.radius is None else self.radius, rng)
        turn = int(rng.integers(2))
        moved = [(name, (i + turn) % 2, law) for i, (name, law) in enumerate(laws)]
        return {f"{name}@{side}": _moved(law, places[side], rng) for name, side, law in moved}

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        found: ErrorBound = self.of.lower_bound(n, budget, local=local)
        return found


def placed(family: Family, radius: float | None, seed: int) -> Family:
    """Return the family moved to random places.

    Parameters
    ----------
    family : Family
        Family before the move.
    radius : float or None
        Public bound on the norm of the mean.
    seed : int
        Seed of the places.

    Returns
    -------
    Family
    """
    return _PlacedFamily(of=family, radius=radius, seed=seed)


def _coins(rng: np.random.Generator) -> Iterator[Bernoulli]:
    """Yield Bernoulli distributions on both sides of 1/2, at a small and a large distance."""
    for low, high in (NEAR, AWAY):
        distance = float(f"{rng.uniform(low, high):.6g}")
        yield from (Bernoulli(p=0.5 - distance), Bernoulli(p=0.5 + distance))


def _places(d: int, radius: float, rng: np.random.Generator) -> list[Floats]:
    """Return two places of shape (d,) on opposite sides of 0."""
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    near, far = rng.uniform(*INSIDE, size=2)
    return [near * radius * direction, -far * radius * direction]


def _moved(law: Distribution, place: Floats, rng: np.random.Generator) -> Any:
    """Return the distribution moved to a place and randomly reflected."""
    sign = 1 if rng.random() < 0.5 else -1
    if isinstance(law, TwoPoint):
        location = float(place[0]) + sign * law.location
        return replace(law, location=location, sign=1 if sign == law.sign else -1)
    if isinstance(law, Gaussian):  # symmetric: a reflection changes nothing
        return replace(law, location=float(place[0]))
    signs = np.where(rng.random(law.d) < 0.5, 1, -1)
    order = rng.permutation(law.d)
    return Moved(
        of=law,
        shift=tuple(place.tolist()),
        signs=tuple(signs.tolist()),
        order=tuple(order.tolist()),
    )
