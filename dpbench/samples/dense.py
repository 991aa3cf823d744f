"""Datasets stored record by record."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbench.arrays import Floats
from dpbench.samples.base import (
    Sample,
    draw_votes,
    half_squares,
    heads_probability,
    part_sizes,
    share_of_records,
)
from dpbench.samples.bins import Bins, Occupied, run_starts
from dpbench.samples.rows import Rows

__all__ = ["DenseSample", "mean_of"]

# TAIL: share of the records on each side of the core of `_parts`. PROBE: number of records that
# estimate the ends of the core.
TAIL, PROBE = 0.01, 4096
# Largest number of doubles to sum at once, so that they stay in the CPU cache.
CACHED_NUMBERS = 1 << 16
# Largest number of bins per record for which counting into a table is cheaper than sorting.
MAX_TABLE_BINS = 4


class DenseSample(Sample):
    """Datasets stored as an array of records, which is read-only.

    Parameters
    ----------
    values : array_like of shape (trials, n) or (trials, n, d)
        Finite numbers, converted to float64; the attribute ``values``. One dataset
        that numpy broadcasts to all trials is stored once.
    """

    def __init__(self, values: ArrayLike) -> None:
        array = np.asarray(values, dtype=np.float64)
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
        return self._cache_answer(lambda: self._clip_and_average(low, high), "clipped", low, high)

    def _clip_and_average(self, low: Floats, high: Floats) -> Floats:
        if not self.vectors:
            core_low, core_high, inside, starts, outside = self._parts
            if (low <= core_low).all() and (high >= core_high).all():
                # Clipping x/n to [low/n, high/n] equals clipping x before the division by n.
                low, high = (
                    np.repeat(b, np.diff(starts)) if b.ndim else b
                    for b in (low / self.n, high / self.n)
                )
                with np.errstate(over="ignore"):
                    mean = inside + np.add.reduceat(np.clip(outside, low, high), starts[:-1])
                return np.nan_to_num(mean, nan=np.nan)  # rounding up may overflow
        return mean_of(np.clip(self.values, low, high))

    @cached_property
    def _parts(self) -> tuple[float, float, Floats, NDArray[np.intp], Floats]:
        """Divide each trial's records into a core and other records, to make clipped means fast.

        The core consists of the records in an interval [low, high] with about 98% of all records.
        The result is (low, high, inside, starts, outside). The array inside, (trials,), is the sum
        of each trial's core records, divided by n. The array outside lists the other records
        divided by n, one trial after another. The list of trial i begins at position starts[i].

        Most clipping intervals contain [low, high]. Clipping to such an interval changes only
        records outside of the core, so each further clipped mean is cheap. The core depends on the
        records alone, not on earlier calls. The first record of every trial is kept out of the
        core, because numpy needs at least one other record in each trial.
        """
        step = max(1, self.values.size // PROBE)
        probe = np.sort(self.values.flat[::step])
        cut = int(TAIL * probe.size)
        low, high = float(probe[cut]), float(probe[-1 - cut])
        places, outside, seen = list[NDArray[np.intp]](), list[Floats](), 0

        def core(piece: Floats) -> Floats:
            nonlocal seen
            bulk = piece.flatten()
            beyond = (bulk < low) | (bulk > high)
            if seen % self.n == 0:
                beyond[:: self.n] = True
            index = np.flatnonzero(beyond)
            places.append(index + seen)
            outside.append(bulk[index])
            bulk[index] = 0.0
            seen += bulk.size
            return np.asarray(bulk.reshape(piece.shape).sum(axis=1))

        rows = max(1, CACHED_NUMBERS // self.n)
        with np.errstate(over="ignore", invalid="ignore"):
            firsts = range(0, self.trials, rows)
            sums = [_sum_by_pieces(core, self.values[first : first + rows]) for first in firsts]
        index, means = np.concatenate(places), np.concatenate(sums) / self.n
        if not np.all(np.isfinite(means)):  # a sum overflows
            bulk = np.array(self.values, order="C")
            bulk.reshape(-1)[index] = 0.0
            means = mean_of(bulk)
        starts = np.searchsorted(index, self.n * np.arange(self.trials + 1))
        return low, high, means, starts, np.concatenate(outside) / self.n

    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = self._broadcast_bounds(lower, upper, axes=self.values.ndim - 1)
        inside = (self.values >= low) & (self.values < high)
        return np.asarray(np.count_nonzero(inside, axis=1), dtype=float)

    def randomised_response_count(
        self, bound: float, lean: float, rng: np.random.Generator
    ) -> Floats:
        x, rows = self._require_kind(vectors=False), max(1, CACHED_NUMBERS // self.n)
        blocks = (x[first : first + rows] for first in range(0, self.trials, rows))
        tossed = (rng.random(part.shape) < heads_probability(part, bound, lean) for part in blocks)
        return np.concatenate([np.count_nonzero(heads, axis=1) for heads in tossed]).astype(float)

    def vote_sum(
        self, bound: float, low: Floats, high: Floats, weights: Floats, rng: np.random.Generator
    ) -> Floats:
        x, rows = self._require_kind(vectors=False), max(1, CACHED_NUMBERS // self.n)
        blocks = (x[first : first + rows] for first in range(0, self.trials, rows))
        return np.concatenate([draw_votes(part, bound, low, high, weights, rng) for part in blocks])

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
    """Return the means along axis 1; means of finite values are finite even if sums overflow."""
    n = values.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.asarray(values.sum(axis=1) / n)
        if not np.all(np.isfinite(mean)):
            mean = np.asarray((values / n).sum(axis=1))
            if np.all(np.isfinite(values)):  # rounding up may overflow
                largest = np.finfo(float).max
                mean = np.clip(mean, -largest, largest)
    return mean
