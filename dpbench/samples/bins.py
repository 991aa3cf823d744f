"""Histogram bins of equal width, finitely or infinitely many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbench.arrays import Floats

__all__ = ["Bins", "Occupied", "merged", "run_starts"]


def run_starts(rows: Floats) -> NDArray[np.intp]:
    """Return the flat indices at which runs of equal numbers begin in sorted rows."""
    starts = np.ones(rows.shape, dtype=bool)
    np.not_equal(rows[:, 1:], rows[:, :-1], out=starts[:, 1:])
    return np.flatnonzero(starts)


@dataclass(frozen=True)
class Occupied:
    """The bins that hold records, ordered by trial and bin; every trial has at least one.

    Parameters
    ----------
    trial : ndarray of int, shape (m,)
        Trial of each occupied bin.
    index : ndarray of shape (m,)
        Number of the bin: a whole number, held as a float because there may be 1e300 bins.
    count : ndarray of shape (m,)
        Records in the bin, at least 1.
    """

    trial: NDArray[np.intp]
    index: Floats
    count: Floats


def merged(found: Sequence[Occupied]) -> Occupied:
    """Return the union of the bins, and add up the counts of bins that occur more than once."""
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

    The first and the last bin may reach beyond [lower, upper]; they also count all records outside.
    Bin 0 starts at `origin`, within one width of 0, so that a far `lower` takes no digits from
    records near 0.

    Parameters
    ----------
    width, lower, upper : float or ndarray of shape (trials,)
        Width of a bin, above 0, and the ends of the range, which may be infinite.
    aligned : float or ndarray of shape (trials,), optional
        A point at which a bin starts; by default `lower`, or 0 if `lower` is infinite. Only its
        remainder modulo the width matters, and that remainder is exact.
    """

    width: float | Floats
    lower: float | Floats = -np.inf
    upper: float | Floats = np.inf
    aligned: float | Floats | None = None

    @property
    def origin(self) -> Floats:
        """Left end of bin 0."""
        start = self.lower if self.aligned is None else self.aligned
        return np.asarray(np.fmod(np.where(np.isfinite(start), start, 0.0), self.width))

    @property
    def first(self) -> Floats:
        """Number of the leftmost bin, -inf if `lower` is infinite."""
        steps = (self.lower - self.origin) / self.width
        return np.asarray(np.round(steps) if self.aligned is None else np.floor(steps))

    @property
    def count(self) -> Floats:
        """Number of bins, inf if an end is infinite."""
        with np.errstate(invalid="ignore", over="ignore"):
            bins = np.ceil((self.upper - self.origin) / self.width) - self.first
        return np.asarray(np.where(np.isfinite(self.first), np.maximum(bins, 1.0), np.inf))

    def index(self, values: Floats) -> Floats:
        """Return the number of the bin of every record; `values` and the result are (trials, n)."""

        def columns(a: float | Floats) -> Floats:
            return np.asarray(a)[..., None] if np.ndim(a) else np.asarray(a)

        origin, width = columns(self.origin), columns(self.width)
        largest = np.finfo(float).max  # stands for the missing end of infinitely many bins
        first = np.maximum(self.first, -largest)
        last = np.where(np.isfinite(self.count), first + (self.count - 1), largest)
        with np.errstate(over="ignore"):
            index = np.floor((values - origin) / width)
        return np.clip(index, columns(first), columns(last), out=index)

    def left(self, index: Floats) -> Floats:
        """Return the left ends of the bins `index`; overflow gives the largest double."""
        with np.errstate(over="ignore"):
            left = self.origin + index * np.asarray(self.width)
        return np.asarray(np.nan_to_num(left, nan=np.nan))
