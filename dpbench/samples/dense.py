"""Datasets stored record by record."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbench.arrays import Floats
from dpbench.samples.base import (
    Sample,
    half_squares,
    part_sizes,
    share_of_records,
)
from dpbench.samples.bins import Bins, Occupied, run_starts
from dpbench.samples.records import cast_numbers
from dpbench.samples.rows import Rows

__all__ = ["DenseSample", "mean_of"]

# The ends of a trial's core come from one in PROBED of its records, but at least PROBE[0] and at
# most PROBE[1] of them. TAIL is the share of these on each side of the core.
PROBED, PROBE, TAIL = 16, (32, 4096), 0.01
# Largest number of doubles to sum at once, so that they stay in the CPU cache.
CACHED_NUMBERS = 1 << 16
# Largest number of bins per record for which counting into a table is cheaper than sorting.
MAX_TABLE_BINS = 4


class _Core(NamedTuple):
    """Core of each trial's records: the records from `low` to `high`, without the first record."""

    low: Floats
    high: Floats
    anchor: Floats  # (trials,) middles of the intervals from `low` to `high`
    share: Floats  # (trials,) shares of the records in the core
    # (trials,) sums of x - `anchor` over the records x in the core, divided by n; may overflow
    mean: Floats
    # (trials + 1,) positions in `outside` at which the records of each trial begin
    starts: NDArray[np.intp]
    outside: Floats  # records outside of the core, one trial after another


class DenseSample(Sample):
    """Datasets stored as an array of records, which is read-only.

    Parameters
    ----------
    values : array_like of shape (trials, n) or (trials, n, d)
        Finite numbers of the types that `dpbench.samples.records` lists, converted to float64; the
        attribute ``values``. One dataset that numpy broadcasts to all trials is stored once.
    """

    def __init__(self, values: ArrayLike) -> None:
        array = cast_numbers(values, "values")
        if array.ndim not in (2, 3) or 0 in array.shape:
            raise ValueError(
                f"expected a non-empty (trials, n) or (trials, n, d) array, got {array.shape}"
            )
        self._alike = array.strides[0] == 0
        once = array[:1] if self._alike else array
        mean = mean_of(once)
        # The mean is finite if and only if all values are, and it is cheaper to check.
        if not np.all(np.isfinite(mean)):
            bad = int(np.count_nonzero(~np.isfinite(once)))
            raise ValueError(f"{bad} of {once.size} values are NaN or infinite")
        self._mean = np.broadcast_to(mean, (len(array), *mean.shape[1:]))
        self.values = array.view()
        self.values.flags.writeable = False
        self.trials, self.n = array.shape[:2]
        self.vectors = array.ndim == 3
        self.d = array.shape[2] if self.vectors else 1

    def _require_kind(self, vectors: bool) -> Floats:
        """Return the records; raise ValueError if they are not of the required kind.

        The argument `vectors` is True to require vectors, and False to require scalars.
        """
        if self.vectors != vectors:
            raise self._wrong_records_error()
        return self.values

    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        return np.array(self.values[trial], order="C")

    def mean(self) -> Floats:
        return self._mean

    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = self._broadcast_bounds(lower, upper, axes=self.values.ndim - 1)
        return self._cache_answer(
            lambda: self._average_offsets(np.zeros(()), low, high), "clipped", low, high
        )

    def clipped_square(self, lower: float, upper: float, centre: float | Floats = 0.0) -> Floats:
        x = self._require_kind(vectors=False)
        return np.asarray(((np.clip(x, lower, upper) - centre) ** 2).mean(axis=1))

    def centred_mean(self, centre: float | Floats, half_width: float | Floats) -> Floats:
        middle, half = self._broadcast_bounds(centre, half_width, axes=self.values.ndim - 1)
        return self._cache_answer(
            lambda: self._average_offsets(middle, -half, half), "centred", middle, half
        )

    def _average_offsets(self, centre: Floats, low: Floats, high: Floats) -> Floats:
        """Return the mean of clip(x - centre, low, high) over the records x of each trial."""
        with np.errstate(over="ignore"):
            if self.vectors:
                return mean_of(np.clip(self.values - centre, low, high))
            core, ends = self._core, (b.ravel() if b.ndim else b for b in (centre, low, high))
            c, low, high = ends
            fast = (low <= core.low - c) & (high >= core.high - c)
            if not fast.any():
                return mean_of(np.clip(self.values - centre, low[..., None], high[..., None]))
            sizes = np.diff(core.starts)
            each = [np.repeat(b, sizes) if b.ndim else b for b in (c, low, high)]
            outside = np.clip(core.outside - each[0] if c.any() else core.outside, *each[1:])
            mean = np.add.reduceat(outside, core.starts[:-1]) / self.n
            mean += core.mean + core.share * (core.anchor - c)
            slow = np.flatnonzero(~(fast & np.isfinite(mean)))
            if slow.size:
                rows = (np.broadcast_to(b, self.trials)[slow, None] for b in (c, low, high))
                middle, *ends_of_rows = rows
                mean[slow] = mean_of(np.clip(self.values[slow] - middle, *ends_of_rows))
        return mean

    @cached_property
    def _core(self) -> _Core:
        """Divide each trial's records into a core and other records, to make clipped means fast.

        The core consists of the records in an interval with about 95% of the records of the trial.
        Most clipping intervals contain it. Clipping to such an interval changes only records
        outside of the core, so each further clipped mean is cheap. The core of a trial depends on
        its records alone: a record of another trial changes no bit of an answer. The first record
        is kept out of the core, because numpy needs at least one other record in each trial.
        """
        size = min(self.n, *PROBE[1:], max(PROBE[0], self.n // PROBED))
        probe, cut = self.values[:, :: self.n // size][:, :size], int(TAIL * size) + 1
        ranks = min(cut, size - 1), max(size - 1 - cut, 0)
        low, high = np.sort(probe, axis=1)[:, ranks].T  # faster than np.partition
        anchor = low / 2 + high / 2
        places, outside, first, seen = list[NDArray[np.intp]](), list[Floats](), 0, 0

        def sum_core(piece: Floats) -> Floats:
            nonlocal seen
            at = slice(first, first + len(piece))
            beyond = (piece < low[at, None]) | (piece > high[at, None])
            if seen % self.n == 0:
                beyond[:, 0] = True
            index = np.flatnonzero(beyond)
            places.append(index + seen)
            outside.append(piece.reshape(-1)[index])
            offsets = np.subtract(piece, anchor[at, None], order="C")
            offsets.reshape(-1)[index] = 0.0
            seen += piece.size
            return np.asarray(offsets.sum(axis=1))

        rows, sums = max(1, CACHED_NUMBERS // self.n), list[Floats]()
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, self.trials, rows):
                sums.append(_sum_by_pieces(sum_core, self.values[first : first + rows]))
        starts = np.searchsorted(np.concatenate(places), self.n * np.arange(self.trials + 1))
        share = 1 - np.diff(starts) / self.n
        mean = np.concatenate(sums) / self.n
        return _Core(low, high, anchor, share, mean, starts, np.concatenate(outside))

    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = self._broadcast_bounds(lower, upper, axes=self.values.ndim - 1)
        inside = (self.values >= low) & (self.values < high)
        return np.asarray(np.count_nonzero(inside, axis=1), dtype=float)

    def clipped_values(self, lower: float, upper: float) -> tuple[Floats, None]:
        return np.clip(self._require_kind(vectors=False), lower, upper), None

    def quantile(self, q: float) -> Floats:
        rank = max(0, int(np.ceil(share_of_records(q, self.n))) - 1)
        return np.asarray(np.partition(self.values, rank, axis=1)[:, rank])

    def trimmed_mean(self, fraction: float) -> Floats:
        cut = int(share_of_records(fraction, self.n))
        ranks = [cut, self.n - 1 - cut]
        if 2 * cut >= self.n:
            raise ValueError(f"cutting {fraction} from each end leaves nothing")
        return mean_of(np.partition(self.values, ranks, axis=1)[:, cut : self.n - cut])

    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        starts = np.cumsum([0, *sizes])
        return [type(self)(self.values[:, a:b]) for a, b in itertools.pairwise(starts)]

    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        sizes = part_sizes(self.n, parts)
        large = sizes.count(sizes[0])
        cut = large * sizes[0]
        rows = [(self.values[:, :cut], sizes[0]), (self.values[:, cut:], sizes[-1])]
        shape = self.values.shape[2:]
        return [type(self)(part.reshape(-1, size, *shape)) for part, size in rows if part.size]

    def columns(self) -> DenseSample:
        return self._columns

    @cached_property
    def _columns(self) -> DenseSample:
        return DenseSample(self._require_kind(vectors=True).transpose(0, 2, 1).reshape(-1, self.n))

    def second_moment(self) -> Floats:
        x = self._require_kind(vectors=True)
        return np.asarray(x.transpose(0, 2, 1) @ x / self.n)

    def rows(self) -> Rows:
        return self._rows

    @cached_property
    def _rows(self) -> Rows:
        x = self._require_kind(vectors=True)
        if self._alike:
            return replace(Rows.of(x[:1], self._mean[:1]), copies=self.trials)
        return Rows.of(x, self._mean)

    def listed(self) -> tuple[Floats, Floats]:
        return self._require_kind(vectors=True), np.ones((self.trials, self.n))

    def occupied(self, bins: Bins) -> Occupied:
        return self._cache_answer(lambda: self._find_occupied(bins), "occupied", bins)

    def _find_occupied(self, bins: Bins) -> Occupied:
        index = bins.index(self._require_kind(vectors=False))
        low = index.min()
        with np.errstate(over="ignore"):
            span = index.max() - low + 1
            small = span * self.trials <= MAX_TABLE_BINS * index.size
        if small:  # count into a table of all bins
            index -= low
            index += span * np.arange(self.trials)[:, None]
            table = np.bincount(index.astype(np.intp).ravel(), minlength=self.trials * int(span))
            positions = np.flatnonzero(table)
            trial, offset = np.divmod(positions, int(span))
            return Occupied(trial, low + offset, table[positions].astype(float))
        index.sort(axis=1)
        positions = run_starts(index)
        count = np.diff(positions, append=index.size)
        return Occupied(positions // self.n, index.ravel()[positions], count.astype(float))

    def ranked(self, first: int, last: int, at_most: int | None = None) -> tuple[Floats, Floats]:
        x = self._require_kind(vectors=False)
        if last - first < self.n // 2:
            x = np.partition(x, [first, last], axis=1)[:, first : last + 1]
            values = np.sort(x, axis=1)
        else:
            values = np.sort(x, axis=1)[:, first : last + 1]
        return values, np.ones_like(values)

    def half_squared_differences(self, rng: np.random.Generator) -> Self:
        if self.n < 2:
            raise ValueError(f"n: {self.n}: pairs need at least 2 records")
        x, last = self._require_kind(vectors=False), self.n - self.n % 2
        return self._cache_answer(
            lambda: type(self)(half_squares(x[:, 1:last:2], x[:, :last:2])), "pairs"
        )


def _sum_by_pieces(sums: Callable[[Floats], Floats], rows: Floats) -> Floats:
    """Return the sum of each row of the array `rows`, with fast use of the CPU cache.

    The array is cut into pieces of successive columns, each small enough for the cache. The
    function `sums` maps a piece to the sums of its rows. Rows are cut where numpy's pairwise
    summation cuts them, so the results equal numpy's sums in all bits.
    """
    n = rows.shape[1]
    if n <= CACHED_NUMBERS:
        return sums(rows)
    half = n // 16 * 8
    return _sum_by_pieces(sums, rows[:, :half]) + _sum_by_pieces(sums, rows[:, half:])


def mean_of(values: Floats) -> Floats:
    """Return the means along axis 1; means of finite values are finite even if sums overflow.

    A row that overflows does not change the last bits of the means of other rows.
    """
    n = values.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.asarray(values.sum(axis=1) / n)
        if not np.all(np.isfinite(mean)):
            mean = np.where(np.isfinite(mean), mean, (values / n).sum(axis=1))
            if np.all(np.isfinite(values)):  # rounding up may overflow
                largest = np.finfo(float).max
                mean = np.clip(mean, -largest, largest)
    return mean
