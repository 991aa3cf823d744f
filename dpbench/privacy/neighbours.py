"""Neighbouring datasets: equal but for one record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Floats

__all__ = ["Pair"]


@dataclass(frozen=True)
class Pair:
    """Two datasets of n finite records, (n,) or (n, d), that differ in exactly one."""

    name: str
    left: Floats
    right: Floats

    def __post_init__(self) -> None:
        if self.left.shape != self.right.shape or self.left.ndim not in (1, 2):
            raise ValueError(f"{self.name}: shapes {self.left.shape} and {self.right.shape}")
        if not (np.isfinite(self.left).all() and np.isfinite(self.right).all()):
            raise ValueError(f"{self.name}: records must be finite numbers")
        changed = (self.left != self.right).reshape(len(self.left), -1)
        records = int(changed.any(axis=1).sum())
        if records != 1:
            raise ValueError(f"{self.name}: {records} records differ; neighbours differ in one")

    @classmethod
    def replacing(cls, name: str, left: ArrayLike, record: int, by: float | Floats) -> Pair:
        """The pair of a dataset and the one in which a record is replaced."""
        one = np.asarray(left, dtype=float)
        other = one.copy()
        other[record] = by
        return cls(name, one, other)

    def along(self, direction: Floats, suffix: str = "") -> Pair:
        """Vectors in place of numbers: each number times `direction`, a (d,) array."""
        left, right = (side[:, None] * direction for side in (self.left, self.right))
        return Pair(self.name + suffix, left, right)
