"""Neighbouring datasets, which differ by one replaced, added or removed record, and group privacy.

Group privacy. Datasets that are linked by a chain of k neighbours have the guarantees
(k epsilon)-DP, (k^2 rho)-zCDP (BS16, Proposition 1.9), (k mu)-GDP (DRS22, Theorem 2.14), and
(k epsilon, (1 + e^epsilon + ... + e^((k - 1) epsilon)) delta)-DP, the last by applying
P <= e^epsilon Q + delta k times.

Replacing a record equals removing it and adding another. So a guarantee for neighbours that add or
remove a record implies a guarantee for neighbours that replace a record, with k = 2. There is no
implication in the other direction, because a guarantee for replaced records lets n be public.
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
    """Return the budget that `budget` implies for datasets linked by a chain of neighbours.

    Parameters
    ----------
    budget : Budget
        Guarantee for neighbours.
    records : int
        Length k of the chain, the number of records that differ.

    Returns
    -------
    Budget
        `NonPrivate` if delta or an amount would exceed the range of budgets.

    Raises
    ------
    TypeError
        If the notion of `budget` has no group privacy here.
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
    raise TypeError(f"{budget}: no group privacy is known for this notion")


def under_replacement(budget: Budget) -> Budget:
    """Return the budget that `budget` implies for neighbours that replace a record."""
    if budget.neighbours == "replace":
        return budget
    return of_group(replace(budget, neighbours="replace"), 2)  # type: ignore[type-var]


@dataclass(frozen=True)
class Pair:
    """Neighbouring datasets: they differ in exactly one record.

    Either this record is replaced, or the right dataset lacks it and keeps the order of the others.

    Parameters
    ----------
    name : str
        Name of the pair, for tables and messages.
    left, right : ndarray of shape (n,) or (n, d)
        Finite records; `right` may have n - 1.

    Raises
    ------
    ValueError
        If the datasets are not neighbours, or a record is not finite.
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
                raise ValueError(f"{self.name}: right must be left without one record")
        elif (records := int(self._differs.sum())) != 1:
            raise ValueError(f"{self.name}: {records} records differ; neighbours differ in one")

    @property
    def relation(self) -> Relation:
        """Neighbour relation of the pair, "replace" or "add_remove"."""
        return "replace" if len(self.left) == len(self.right) else "add_remove"

    @property
    def _differs(self) -> Bools:
        """True at each index that both datasets have and at which they differ."""
        many = len(self.right)
        return np.asarray((self.left[:many] != self.right).reshape(many, -1).any(axis=1))

    @property
    def record(self) -> int:
        """Index of the record that is replaced or removed."""
        return int(np.argmax(np.append(self._differs, True)))

    @classmethod
    def replacing(cls, name: str, left: ArrayLike, record: int, by: float | Floats) -> Pair:
        """Return the pair of a dataset and its copy with one record replaced.

        Parameters
        ----------
        name : str
            Name of the pair.
        left : array_like of shape (n,) or (n, d)
            The dataset.
        record : int
            Index of the replaced record.
        by : float or ndarray of shape (d,)
            New value of the record.

        Returns
        -------
        Pair
        """
        one = np.asarray(left, dtype=float)
        other = one.copy()
        other[record] = by
        return cls(name, one, other)

    def convert(self, relation: Relation) -> list[Pair]:
        """Return the pair as pairs of neighbours under `relation`.

        A replacement gives two add/remove pairs: each dataset, and the dataset without the record.
        Raise ValueError for an add/remove pair if `relation` is "replace".
        """
        if self.relation == relation:
            return [self]
        if relation == "replace":
            raise ValueError(f"{self.name}: a pair of unequal sizes cannot replace a record")
        sides = {"left": self.left, "right": self.right}
        return [
            Pair(f"{self.name}_{which}", side, np.delete(side, self.record, axis=0))
            for which, side in sides.items()
        ]

    def along(self, direction: Floats, suffix: str = "") -> Pair:
        """Return a pair of vectors: each number of this pair times a direction.

        Parameters
        ----------
        direction : ndarray of shape (d,)
            Direction of all vectors.
        suffix : str
            Text to append to the name.

        Returns
        -------
        Pair
        """
        left, right = (side[:, None] * direction for side in (self.left, self.right))
        return Pair(self.name + suffix, left, right)
