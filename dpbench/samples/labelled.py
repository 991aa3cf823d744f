"""Records of one group of a table, of which the number differs from trial to trial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from dpbench.arrays import Bools, Floats
from dpbench.samples.base import Sample

__all__ = ["GroupSample"]


class GroupSample(Sample):
    """Numbers of the records in one group; a group may be empty in some trials or in all.

    Because n differs by trial, only counts and clipped sums are available. These are the statistics
    that `dpbench.samples.base.AddRemoveView` permits, so use this class where n is private.
    `values` holds the finite numbers of all records, of shape (trials, n), and `member` is True for
    the records in the group.
    """

    def __init__(self, values: Floats, member: Bools) -> None:
        self.values, self.member = values, member
        self.trials, self.d = len(values), 1
        self.n = values.shape[1]  # an upper limit; the sizes of the group are in `size`

    def size(self) -> Floats:
        return np.asarray(self.member.sum(axis=1), dtype=float)

    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = self._broadcast_bounds(lower, upper)
        inside = self.member & (self.values >= low) & (self.values < high)
        return np.asarray(inside.sum(axis=1), dtype=float)

    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        """Return the mean of the clipped records of the group; 0, clipped, if the group is empty.

        A sum is this mean times the size. So the sum of an empty group is 0, whatever its mean.
        """
        return self._average_offsets(0.0, *self._broadcast_bounds(lower, upper))

    def centred_mean(self, centre: float | Floats, half_width: float | Floats) -> Floats:
        middle, half = self._broadcast_bounds(centre, half_width)
        return self._average_offsets(middle, -half, half)

    def _average_offsets(self, centre: float | Floats, low: Floats, high: Floats) -> Floats:
        """Return the mean of clip(x - centre, low, high) over the records x of the group.

        It is clip(-centre, low, high) if the group is empty.
        """
        size = np.maximum(self.size(), 1.0)[:, None]
        with np.errstate(over="ignore"):
            offsets = np.clip(self.values - centre, low, high)
        total = np.where(self.member, offsets / size, 0.0).sum(axis=1)
        empty = np.broadcast_to(np.clip(-np.asarray(centre), low, high), (self.trials, 1))[:, 0]
        return np.where(self.member.any(axis=1), total, empty)

    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        return np.array(self.values[trial][self.member[trial]])

    def mean(self) -> Floats:
        return self.clipped_mean(-np.inf, np.inf)

    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        raise ValueError("split: the number of records of a group differs from trial to trial")

    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        raise ValueError("groups: the number of records of a group differs from trial to trial")
