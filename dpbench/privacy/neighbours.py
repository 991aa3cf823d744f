"""Neighbouring datasets: equal but for one record, which is replaced, or added or removed.

Group privacy: k neighbours in a row are promised k epsilon, k^2 rho [1]_, k mu [2]_, and
(k epsilon, (1 + e^epsilon + ... + e^((k - 1) epsilon)) delta), by k times P <= e^epsilon Q + delta.

To replace a record is to remove it and to add another. So a guarantee for neighbours that add or
remove a record implies, by two neighbours in a row, a guarantee for neighbours that replace one.
Nothing follows the other way round, because the second kind of guarantee lets n be public.

References
----------
.. [1] M. Bun, T. Steinke, "Concentrated differential privacy", TCC 2016, Proposition 1.9.
.. [2] J. Dong, A. Roth, W. Su, "Gaussian differential privacy", JRSS B 2022, Theorem 2.14.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Bools, Floats
from dpbench.privacy.budgets import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP, Relation

__all__ = ["Pair", "of_group", "under_replacement"]


def of_group(budget: Budget, records: int) -> Budget:
    """Return the budget that holds for datasets that differ in so many records; see the module.

    Return `NonPrivate` if delta or an amount would be larger than budgets have them.
    """
    same: Any = {"neighbours": budget.neighbours}
    try:
        if isinstance(budget, ApproxDP):
            epsilon = budget.epsilon
            times = sum(math.exp(i * epsilon) for i in range(records))
            return ApproxDP(records * epsilon, times * budget.delta, **same)
        if isinstance(budget, ZCDP):
            return ZCDP(records**2 * budget.rho, **same)
        if isinstance(budget, PureDP | GDP):
            return type(budget)(records * budget.amounts[0], **same)
    except (OverflowError, ValueError):
        return NonPrivate()
    raise TypeError(f"{budget} is not known to imply anything")


def under_replacement(budget: Budget) -> Budget:
    """Return the budget that holds where a record is replaced; see the module."""
    if budget.neighbours == "replace":
        return budget
    return of_group(replace(budget, neighbours="replace"), 2)  # type: ignore[type-var]


@dataclass(frozen=True)
class Pair:
    """Two datasets of finite records, (n,) or (n, d), that differ in exactly one.

    Either that record is replaced, or the right dataset lacks it and keeps the others' order.
    """

    name: str
    left: Floats
    right: Floats

    def __post_init__(self) -> None:
        left, right = self.left.shape, self.right.shape
        longer = (right[0] + 1, *right[1:]) if right else ()
        if self.left.ndim not in (1, 2) or left not in (right, longer) or 0 in right:
            raise ValueError(f"{self.name}: shapes {left} and {right}")
        if not (np.isfinite(self.left).all() and np.isfinite(self.right).all()):
            raise ValueError(f"{self.name}: records must be finite numbers")
        if self.relation == "add_remove":
            if not np.array_equal(np.delete(self.left, self.record, axis=0), self.right):
                raise ValueError(f"{self.name}: the right is not the left without one record")
        elif (records := int(self._differs.sum())) != 1:
            raise ValueError(f"{self.name}: {records} records differ; neighbours differ in one")

    @property
    def relation(self) -> Relation:
        """What they differ by."""
        return "replace" if len(self.left) == len(self.right) else "add_remove"

    @property
    def _differs(self) -> Bools:
        """Of the records that both have, by index, which differ."""
        many = len(self.right)
        return np.asarray((self.left[:many] != self.right).reshape(many, -1).any(axis=1))

    @property
    def record(self) -> int:
        """The index of the record that is replaced or removed."""
        return int(np.argmax(np.append(self._differs, True)))

    @classmethod
    def replacing(cls, name: str, left: ArrayLike, record: int, by: float | Floats) -> Pair:
        """The pair of a dataset and the one in which a record is replaced."""
        one = np.asarray(left, dtype=float)
        other = one.copy()
        other[record] = by
        return cls(name, one, other)

    def under(self, relation: Relation) -> list[Pair]:
        """Pairs of that relation: of one that replaces, each dataset and the same without it."""
        if self.relation == relation:
            return [self]
        if relation == "replace":
            raise ValueError(f"{self.name}: a record is removed; one is replaced where n is public")
        sides = {"left": self.left, "right": self.right}
        return [
            Pair(f"{self.name}_{which}", side, np.delete(side, self.record, axis=0))
            for which, side in sides.items()
        ]

    def along(self, direction: Floats, suffix: str = "") -> Pair:
        """Vectors in place of numbers: each number times `direction`, a (d,) array."""
        left, right = (side[:, None] * direction for side in (self.left, self.right))
        return Pair(self.name + suffix, left, right)
