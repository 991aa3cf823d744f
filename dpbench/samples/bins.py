"""Histogram bins of equal width, finitely or infinitely many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbench.arrays import Floats

__all__ = ["Bins", "Occupied", "merge_occupied", "run_starts"]


def run_starts(rows: Floats) -> NDArray[np.intp]:
    """Return the positions at which runs of equal numbers begin in the sorted rows of an array.

    Positions are indices of the flattened array. A new row begins a new run.
    """
    starts = np.ones(rows.shape, dtype=bool)
    np.not_equal(rows[:, 1:], rows[:, :-1], out=starts[:, 1:])
    return np.flatnonzero(starts)


@dataclass(frozen=True)
class Occupied:
    """Nonempty histogram bins of all trials, ordered by trial, then by bin.

    Every trial has at least one nonempty bin.

    Parameters
    ----------
    trial : ndarray of int, shape (m,)
        Index of the trial of each nonempty bin.
    index : ndarray of shape (m,)
        Number of the bin: a whole number, stored as a float because there may be 1e300 bins.
    count : ndarray of shape (m,)
        Number of records in the bin, at least 1.
    """

    trial: NDArray[np.intp]
    index: Floats
    count: Floats


def merge_occupied(parts: Sequence[Occupied]) -> Occupied:
    """Merge several lists of nonempty histogram bins into one list.

    If several lists contain a bin, the merged list contains the sum of its counts.
    """
    trial = np.concatenate([part.trial for part in parts])
    index = np.concatenate([part.index for part in parts])
    count = np.concatenate([part.count for part in parts])
    order = np.lexsort((index, trial))
    trial, index, count = trial[order], index[order], count[order]
    new = np.flatnonzero(np.r_[True, (np.diff(trial) != 0) | (np.diff(index) != 0)])
    return Occupied(trial[new], index[new], np.add.reduceat(count, new))


@dataclass(frozen=True)
class Bins:
    """Histogram bins: half-open intervals of equal width that cover [lower, upper].

    The first and the last bin may reach beyond [lower, upper]. Records outside of [lower, upper]
    count as records of the first or the last bin. Bin 0 starts at the attribute `origin`, which is
    within one width of 0. A bin 0 at `lower` would be worse: if `lower` is far from 0, rounding
    erases digits of the differences between `lower` and records near 0.

    Parameters
    ----------
    width, lower, upper : float or ndarray of shape (trials,)
        Width of a bin, above 0, and the ends of the range, which may be infinite.
    aligned : float or ndarray of shape (trials,), optional
        Point at which a bin starts; by default `lower`, or 0 if `lower` is infinite. Only the
        remainder of this point modulo the width matters; it is computed exactly.
    """

    width: float | Floats
    lower: float | Floats = -np.inf
    upper: float | Floats = np.inf
    aligned: float | Floats | None = None

    @property
    def origin(self) -> Floats:
        """Left end of bin 0, the bin from which bins are numbered."""
        start = self.lower if self.aligned is None else self.aligned
        return np.asarray(np.fmod(np.where(np.isfinite(start), start, 0.0), self.width))

    @property
    def first(self) -> Floats:
        """Index of the leftmost bin; -inf if `lower` is infinite."""
        steps = (self.lower - self.origin) / self.width
        return np.asarray(np.round(steps) if self.aligned is None else np.floor(steps))

    @property
    def count(self) -> Floats:
        """Number of bins; inf if `lower` or `upper` is infinite."""
        with np.errstate(invalid="ignore", over="ignore"):
            bins = np.ceil((self.upper - self.origin) / self.width) - self.first
        return np.asarray(np.where(np.isfinite(self.first), np.maximum(bins, 1.0), np.inf))

    def index(self, values: Floats) -> Floats:
        """Return the index of the bin that contains each record of `values`, (trials, n)."""

        def columns(a: float | Floats) -> Floats:
            return np.asarray(a)[..., None] if np.ndim(a) else np.asarray(a)

        origin, width = columns(self.origin), columns(self.width)
        largest = np.finfo(float).max  # in place of an infinite end
        first = np.maximum(self.first, -largest)
        last = np.where(np.isfinite(self.count), first + (self.count - 1), largest)
        with np.errstate(over="ignore"):
            index = np.floor((values - origin) / width)
        return np.clip(index, columns(first), columns(last), out=index)

    def left(self, index: Floats) -> Floats:
        """Return the left ends of the bins with indices `index`, limited to the largest double."""
        with np.errstate(over="ignore"):
            left = self.origin + index * np.asarray(self.width)
        return np.asarray(np.nan_to_num(left, nan=np.nan))
