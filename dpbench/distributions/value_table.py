"""Distribution of numbers as a table: distinct values and their probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbench.arrays import Floats, Ints

__all__ = ["ValueTable"]


@dataclass(frozen=True)
class ValueTable:
    """Distinct values with the number of records at each; records are drawn with replacement.

    The values are finite and increasing, and the counts are at least 1. The probability of a value
    is its count times exp(tilt r), up to a factor. The rank r of a value is the share of records
    below it, plus half of its own share.
    """

    values: Floats
    counts: Ints
    tilt: float = 0.0

    @classmethod
    def of(cls, records: Floats, counts: Ints | None = None) -> ValueTable:
        """Return the table of `records`, an array of numbers, each with a count (1 by default)."""
        if counts is None:
            return cls(*np.unique(records, return_counts=True))
        values, place = np.unique(records, return_inverse=True)
        total = np.zeros(values.size, dtype=np.int64)
        np.add.at(total, place, counts)
        return cls(values, total)

    @cached_property
    def weights(self) -> Floats:
        """Probability of each value."""
        shares = self.counts / self.counts.sum()
        tilted = shares * np.exp(self.tilt * (np.cumsum(shares) - shares / 2))
        return np.asarray(tilted / tilted.sum() if self.tilt else shares)

    @cached_property
    def middle(self) -> tuple[float, float]:
        """Middle one of the values, and the mean minus this value.

        The mean is the sum of the two numbers. They are kept apart, because a floating-point sum
        would be rounded.
        """
        centre = float(self.values[self.values.size // 2])
        return centre, math.fsum((self.values - centre) * self.weights)

    @property
    def mean(self) -> float:
        """Mean of the table."""
        return sum(self.middle)

    def moment(self, k: float) -> float:
        """Return the k-th absolute moment about the mean."""
        centre, shift = self.middle
        return math.fsum(np.abs(self.values - centre - shift) ** k * self.weights)
