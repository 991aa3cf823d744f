"""Neighbouring datasets, which differ by one replaced, added or removed record, and group privacy.

Group privacy. Let k steps, each from a dataset to a neighbour, lead from one dataset to another. A
guarantee for neighbours implies a weaker guarantee for these two datasets.

- epsilon-DP implies (k epsilon)-DP.
- rho-zCDP implies (k^2 rho)-zCDP (BS16, Proposition 1.9).
- mu-GDP implies (k mu)-GDP (DRS22, Theorem 2.14).
- (epsilon, delta)-DP implies (k epsilon, (1 + e^epsilon + ... + e^((k - 1) epsilon)) delta)-DP.
  This follows from k inequalities P <= e^epsilon Q + delta for probabilities P and Q of an event.

Replacing a record equals removing it and adding another. So a guarantee for neighbours that add or
remove a record implies a guarantee for neighbours that replace a record, with k = 2. There is no
implication in the other direction, because a guarantee for replaced records lets n be public.

`row_budget` solves the implication for the guarantee with added and removed rows, of which a record
has at most r. There k = r if neighbours add or remove a record. A replaced record is removed with
all its rows, and another is added, so there k = 2r. The solutions are epsilon/k; rho/k^2; mu/k; and
(epsilon/k, delta/(1 + e^(epsilon/k) + ... + e^((k - 1) epsilon/k))). A record is its only row in
`removal_budget`, so k = 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Bools, Floats
from dpbench.privacy.budgets import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP, Relation

__all__ = ["Pair", "group_budget", "removal_budget", "replacement_budget", "row_budget"]

MIN_DELTA = 1e-300  # a smaller delta underflows if it is divided among parts


def group_budget(budget: Budget, records: int) -> Budget:
    """Return the guarantee that `budget` implies for datasets that differ in `records` records.

    Parameters
    ----------
    budget : Budget
        Guarantee for neighbours.
    records : int
        Number of records that differ, at least 1. This number of steps, each from a dataset to a
        neighbour, leads from one dataset to the other.

    Returns
    -------
    Budget
        Implied guarantee; `NonPrivate` if a privacy parameter would be too large for a budget.

    Raises
    ------
    TypeError
        If no such guarantee is known for the notion of `budget`.
    """
    relation: Any = {"neighbours": budget.neighbours}
    try:
        if isinstance(budget, ApproxDP):
            epsilon = budget.epsilon
            times = sum(math.exp(i * epsilon) for i in range(records))
            return ApproxDP(records * epsilon, times * budget.delta, **relation)
        if isinstance(budget, ZCDP):
            return ZCDP(records**2 * budget.rho, **relation)
        if isinstance(budget, PureDP | GDP):
            return type(budget)(records * budget.amounts[0], **relation)
    except (OverflowError, ValueError):
        return NonPrivate()
    raise TypeError(f"{budget}: no group privacy is known for this notion")


def replacement_budget(budget: Budget, rows: int = 1) -> Budget:
    """Return the guarantee that `budget` implies for datasets that differ by a replaced record.

    A replacement removes a record and adds another, so it counts as two steps if `budget` is for
    added or removed records. If `budget` is for rows, it counts as two steps for each of `rows`.
    """
    if budget.neighbours == "replace":
        return budget
    return group_budget(replace(budget, neighbours="replace"), 2 * rows)  # type: ignore[type-var]


def removal_budget(budget: Budget) -> Budget:
    """Return the largest guarantee for added or removed records that implies `budget`.

    It is the inverse of `replacement_budget`.

    Parameters
    ----------
    budget : Budget
        Guarantee for neighbours that replace a record.

    Returns
    -------
    Budget
        Guarantee for neighbours that add or remove a record, with the noise of `budget`. It is pure
        DP if its delta would be below 1e-300.

    Raises
    ------
    TypeError
        If `budget` is a guarantee for added or removed records, or of a notion without parameters.
    """
    if budget.neighbours != "replace" or not budget.amounts:
        raise TypeError(f"{budget}: expected a guarantee for replaced records")
    return row_budget(budget, 1)


def row_budget(budget: Budget, rows: int) -> Budget:
    """Return the largest guarantee for added or removed rows that implies `budget` for records.

    The docstring of `dpbench.privacy.neighbours` derives it from group privacy.

    Parameters
    ----------
    budget : Budget
        Guarantee for neighbours that differ in one record.
    rows : int
        Largest number of rows of a record, at least 1.

    Returns
    -------
    Budget
        Guarantee for neighbours that add or remove a row, with the noise of `budget`. It is pure DP
        if its delta would be below 1e-300. Staircase noise then replaces Tulap noise, and Laplace
        noise all other noise.
    """
    steps = rows * (2 if budget.neighbours == "replace" else 1)
    if steps == 1:
        return budget
    powers = {"epsilon": 1, "rho": 2, "mu": 1, "delta": 0}
    parts: dict[str, Any] = {
        name: amount / steps ** powers[name] for name, amount in budget.named_amounts.items()
    }
    if isinstance(budget, ApproxDP):
        log_times = np.logaddexp.reduce(np.arange(steps) * parts["epsilon"])
        log_delta = math.log(budget.delta) - float(log_times)
        if log_delta < math.log(MIN_DELTA):
            noise: Any = {"noise_by": "staircase"} if budget.noise_by == "tulap" else {}
            return PureDP(parts["epsilon"], neighbours="add_remove", **noise)
        parts["delta"] = math.exp(log_delta)
    return replace(budget, **parts, neighbours="add_remove")  # type: ignore[type-var]


@dataclass(frozen=True)
class Pair:
    """Pair of neighbouring datasets, which differ in exactly one record.

    Either this record is replaced, or the right dataset is the left dataset without this record.

    Parameters
    ----------
    name : str
        Name of the pair, for tables and messages.
    left, right : ndarray of shape (n,) or (n, d)
        Finite records; `right` has n - 1 records if a record is removed.

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
        """Relation of the two datasets, ``replace`` or ``add_remove``."""
        return "replace" if len(self.left) == len(self.right) else "add_remove"

    @property
    def _differs(self) -> Bools:
        """Mask of the records of `right` that differ from the records of `left` at their index."""
        many = len(self.right)
        return np.asarray((self.left[:many] != self.right).reshape(many, -1).any(axis=1))

    @property
    def record(self) -> int:
        """Index of the record that is replaced or removed."""
        return int(np.argmax(np.append(self._differs, True)))

    @classmethod
    def replacing(cls, name: str, left: ArrayLike, record: int, by: float | Floats) -> Pair:
        """Return the pair of a dataset and a copy of it in which one record is replaced.

        Parameters
        ----------
        name : str
            Name of the pair.
        left : array_like of shape (n,) or (n, d)
            Dataset.
        record : int
            Index of the replaced record.
        by : float or ndarray of shape (d,)
            New value of the record.

        Returns
        -------
        Pair
        """
        original = np.asarray(left, dtype=float)
        changed = original.copy()
        changed[record] = by
        return cls(name, original, changed)

    def keep_first(self, records: int) -> Pair:
        """Return a pair in which the first `records` records are equal on both sides.

        If the replaced record is among them, it changes places with the last record. ValueError if
        the pair removes a record, or has no other record than these.
        """
        if self.record >= records:
            return self
        if self.relation != "replace" or records >= len(self.left):
            raise ValueError(f"{self.name}: no record after the first {records} can be replaced")
        left, right = self.left.copy(), self.right.copy()
        for side in (left, right):
            side[[self.record, -1]] = side[[-1, self.record]]
        return Pair(self.name, left, right)

    def convert(self, relation: Relation) -> list[Pair]:
        """Convert the pair to pairs of neighbours under `relation`, ``replace`` or ``add_remove``.

        A pair with a replaced record gives two pairs: each dataset with a copy that lacks the
        record. A pair with a removed record cannot be converted to a replacement, which raises
        ValueError.
        """
        if self.relation == relation:
            return [self]
        if relation == "replace":
            raise ValueError(f"{self.name}: a pair of unequal sizes cannot replace a record")
        sides = {"left": self.left, "right": self.right}
        return [
            Pair(f"{self.name}_{side_name}", side, np.delete(side, self.record, axis=0))
            for side_name, side in sides.items()
        ]

    def along(self, direction: Floats, suffix: str = "") -> Pair:
        """Convert a pair of datasets of numbers to a pair of datasets of vectors.

        Each number is multiplied by a fixed vector.

        Parameters
        ----------
        direction : ndarray of shape (d,)
            Fixed vector, which each number multiplies.
        suffix : str
            Text to append to the name.

        Returns
        -------
        Pair
        """
        left, right = (side[:, None] * direction for side in (self.left, self.right))
        return Pair(self.name + suffix, left, right)
