"""Places of a problem's laws, drawn anew in each run.

A frozen place could be remembered: an entry that answers it whatever the data errs by nothing. So a
run moves the laws by what their class does not notice, and keeps the seed of the move.

- Numbers: the law, and perhaps its mirror image, is shifted. Vectors: their coordinates change
  places and signs, and they are shifted. Each is an isometry, under which the classes "Gaussian
  of that scale" and "centred k-th moments of at most 1" are closed.
- Bernoulli laws have their p moved to 1/2 plus and minus two distances: a near one, where sampling
  is hardest, and a far one, which an answer of 1/2 whatever the data misses.

A problem has two places on opposite sides of 0, from a quarter to nine tenths of the public radius
away (of `ANYWHERE` where no radius is public). No constant answer is near to both of them. Members
of a family take turns; a single law stands at both.
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
from dpbench.theory.bounds.of_class import Bound
from dpbench.theory.families import Family

__all__ = ["ANYWHERE", "placed"]

# Radius of the places of a mean that nobody knows anything about.
ANYWHERE = 1e6
# Ends of the share of the radius at which a place may be.
INSIDE = 0.25, 0.9
# Ends of the two distances of a Bernoulli law's p from 1/2.
NEAR, AWAY = (0.02, 0.08), (0.3, 0.45)


@validated
class _PlacedFamily(Family):
    """The laws of a family, moved to places that a seed names.

    Parameters
    ----------
    of : Family
    radius : float, optional
        Norm that no mean exceeds.
    seed : int
    """

    of: Any
    radius: Radius | None
    seed: int

    @property
    def follows_budget(self) -> bool:  # type: ignore[override]
        """Whether the members depend on the budget."""
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

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> Bound:
        found: Bound = self.of.lower_bound(n, budget, local=local)
        return found


def placed(family: Family, radius: float | None, seed: int) -> Family:
    """Return the family whose laws stand at the places of a seed, within a public radius."""
    return _PlacedFamily(of=family, radius=radius, seed=seed)


def _coins(rng: np.random.Generator) -> Iterator[Bernoulli]:
    """Yield a Bernoulli law on either side of 1/2, near to it and away from it."""
    for low, high in (NEAR, AWAY):
        distance = float(f"{rng.uniform(low, high):.6g}")
        yield from (Bernoulli(p=0.5 - distance), Bernoulli(p=0.5 + distance))


def _places(d: int, radius: float, rng: np.random.Generator) -> list[Floats]:
    """Return two places, (d,) each, on opposite sides of 0."""
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    near, far = rng.uniform(*INSIDE, size=2)
    return [near * radius * direction, -far * radius * direction]


def _moved(law: Distribution, place: Floats, rng: np.random.Generator) -> Any:
    """Return the law at a place, in one of its mirror images."""
    sign = 1 if rng.random() < 0.5 else -1
    if isinstance(law, TwoPoint):
        location = float(place[0]) + sign * law.location
        return replace(law, location=location, sign=1 if sign == law.sign else -1)
    if isinstance(law, Gaussian):  # its own mirror image
        return replace(law, location=float(place[0]))
    signs = np.where(rng.random(law.d) < 0.5, 1, -1)
    order = rng.permutation(law.d)
    return Moved(
        of=law,
        shift=tuple(place.tolist()),
        signs=tuple(signs.tolist()),
        order=tuple(order.tolist()),
    )
