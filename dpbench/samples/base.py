"""What every batch of datasets can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Sample", "part_sizes"]

Floats = NDArray[np.float64]


def part_sizes(n: int, parts: int) -> list[int]:
    """Sizes of `parts` parts of n records that differ by at most one.

    Raises
    ------
    ValueError
        If there are fewer records than parts.
    """
    if not 1 <= parts <= n:
        raise ValueError(f"{n} records cannot be cut into {parts} parts of at least one")
    return [n // parts + (i < n % parts) for i in range(parts)]


class Sample(ABC):
    """Independent datasets of n records each, one per trial.

    All questions are answered for all trials at once. With one-dimensional records
    an answer has shape (trials,), with d-dimensional ones (trials, d).

    Attributes
    ----------
    trials, n : int
        Datasets, and records in each.
    d : int
        Dimension of a record.
    """

    trials: int
    n: int
    d: int

    @abstractmethod
    def mean(self) -> Floats:
        """The empirical mean of each dataset."""

    @abstractmethod
    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        """The mean of each dataset with its records moved into [lower, upper].

        A bound is one number, or one per trial. It is accurate whatever lies outside:
        a record at 1e150 takes no digits from the others.
        """

    @abstractmethod
    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        """How many records of each dataset lie in [lower, upper)."""

    @abstractmethod
    def quantile(self, q: float) -> Floats:
        """The smallest record with at least q n records at or below it, 0 < q <= 1."""

    @abstractmethod
    def trimmed_mean(self, fraction: float) -> Floats:
        """The mean without the floor(fraction n) smallest and as many largest records."""

    @abstractmethod
    def split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        """Cut each dataset into disjoint datasets of the given sizes.

        The cut is by record index, never by value, so that replacing one record
        changes one part only and the parts' privacy costs compose in parallel.
        Records have no index in counted data; there `rng` says where each went.
        """

    def group_means(self, groups: int, rng: np.random.Generator) -> Floats:
        """The means of `groups` disjoint groups, shape (trials, groups[, d])."""
        parts = self.split(part_sizes(self.n, groups), rng)
        return np.stack([part.mean() for part in parts], axis=1)
