"""Bins of equal width, as many as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbench.arrays import Floats

__all__ = ["Bins", "Occupied", "merged", "run_starts"]


def run_starts(rows: Floats) -> NDArray[np.intp]:
    """Where runs of equal numbers begin in sorted rows, as places in the flattened array."""
    starts = np.ones(rows.shape, dtype=bool)
    np.not_equal(rows[:, 1:], rows[:, :-1], out=starts[:, 1:])
    return np.flatnonzero(starts)


@dataclass(frozen=True)
class Occupied:
    """The bins that hold records, ordered by trial and bin; every trial has one or more."""

    trial: NDArray[np.intp]  # (m,)
    index: Floats  # (m,): which bin; whole numbers, as floats for there may be 1e300 bins
    count: Floats  # (m,): records in it


def merged(found: Sequence[Occupied]) -> Occupied:
    """The bins of pieces of datasets, each bin once."""
    trial = np.concatenate([one.trial for one in found])
    index = np.concatenate([one.index for one in found])
    count = np.concatenate([one.count for one in found])
    order = np.lexsort((index, trial))
    trial, index, count = trial[order], index[order], count[order]
    new = np.flatnonzero(np.r_[True, (np.diff(trial) != 0) | (np.diff(index) != 0)])
    return Occupied(trial[new], index[new], np.add.reduceat(count, new))


@dataclass(frozen=True)
class Bins:
    """Half-open bins of one width that cover [lower, upper].

    The first and the last bin may reach beyond; records farther out count in them. Bins are
    numbered from the origin, so that a far `lower` takes no digits from records near 0.

    Parameters
    ----------
    width, lower, upper : float or (trials,) array
        Both ends may be infinite.
    aligned : float or (trials,) array, optional
        A point where a bin starts; by default `lower`, or 0 where that is infinite. Only its
        remainder by the width enters, which is exact.
    """

    width: float | Floats
    lower: float | Floats = -np.inf
    upper: float | Floats = np.inf
    aligned: float | Floats | None = None

    @property
    def origin(self) -> Floats:
        """The left end of bin 0."""
        start = self.lower if self.aligned is None else self.aligned
        return np.asarray(np.fmod(np.where(np.isfinite(start), start, 0.0), self.width))

    @property
    def first(self) -> Floats:
        """The number of the leftmost bin."""
        steps = (self.lower - self.origin) / self.width
        return np.asarray(np.round(steps) if self.aligned is None else np.floor(steps))

    @property
    def count(self) -> Floats:
        """How many bins there are."""
        with np.errstate(invalid="ignore", over="ignore"):
            bins = np.ceil((self.upper - self.origin) / self.width) - self.first
        return np.asarray(np.where(np.isfinite(self.first), np.maximum(bins, 1.0), np.inf))

    def index(self, values: Floats) -> Floats:
        """The number of the bin of every record, for values of shape (trials, n)."""

        def columns(a: float | Floats) -> Floats:
            return np.asarray(a)[..., None] if np.ndim(a) else np.asarray(a)

        origin, width = columns(self.origin), columns(self.width)
        largest = np.finfo(float).max  # where the bins have no end
        first = np.maximum(self.first, -largest)
        last = np.where(np.isfinite(self.count), first + (self.count - 1), largest)
        with np.errstate(over="ignore"):
            index = np.floor((values - origin) / width)
        return np.clip(index, columns(first), columns(last), out=index)

    def left(self, index: Floats) -> Floats:
        """The left ends of bins, one number or one per trial, within the largest numbers."""
        with np.errstate(over="ignore"):
            left = self.origin + index * np.asarray(self.width)
        return np.asarray(np.nan_to_num(left, nan=np.nan))
