"""Datasets too large for memory: every query draws the same records again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpbench.arrays import Bools, Floats
from dpbench.samples.base import (
    Sample,
    draw_net_votes,
    half_squares,
    heads_probability,
    part_sizes,
    share_of_records,
)
from dpbench.samples.bins import Bins, Occupied, merge_occupied
from dpbench.samples.dense import TAIL, DenseSample, mean_of

__all__ = ["HELD_RECORDS", "MAX_STREAMED_RECORDS", "MAX_WHOLE_RECORDS", "Stream", "StreamedSample"]

# Records per generator (a "leaf"), and the unit of summation. Another value changes every number.
LEAF = 1 << 16
# Largest number of selected records in memory at once. No result except the core depends on it.
HELD_RECORDS = 1 << 21
# PROBE: leaves read to locate quantiles. MARGIN: allowed error of that location, in standard
# deviations of a rank, which are at most sqrt(m)/2 for m records read.
PROBE, MARGIN = 16, 6.0
# Number of intervals into which a further pass divides an interval with too many records.
CELLS = 1024
# Larger datasets are streamed. At this size a dataset and the arrays of a query take 0.5 GB.
MAX_WHOLE_RECORDS = 1 << 24
# Largest number of records of a streamed dataset, because a pass over it takes eight hours.
MAX_STREAMED_RECORDS = 10**12


class Stream:
    """Reproducible sequence of independent records, drawn when they are read.

    The sequence consists of leaves of `LEAF` (65,536) records. Each leaf has its own generator,
    seeded by the number of the leaf and by 128 bits of `rng`. So the records depend neither on the
    order nor on the size of the reads.

    Parameters
    ----------
    draw : callable
        Maps (generator, m) to m records, an ndarray of shape (m,) of finite numbers.
    rng : Generator
        Source of the 128 bits.
    chunk : int
        Number of records to read at a time, by default one leaf; no result depends on it.
    """

    def __init__(
        self,
        draw: Callable[[np.random.Generator, int], Floats],
        rng: np.random.Generator,
        chunk: int = LEAF,
    ) -> None:
        self._draw, self.chunk = draw, chunk
        self._key: list[int] = rng.integers(2**32, size=4).tolist()
        self._last, self._leaf = -1, np.empty(0)

    def read(self, first: int, last: int) -> Floats:
        """Return the records at the positions `first` to `last` - 1 of the stream.

        Parameters
        ----------
        first, last : int
            Positions, counted from 0, first < last.

        Returns
        -------
        ndarray of shape (last - first,)
            Possibly a view of a cached leaf, so do not write to it.
        """
        leaves = range(first // LEAF, (last - 1) // LEAF + 1)
        pieces = [self._draw_leaf(i)[max(first - i * LEAF, 0) : last - i * LEAF] for i in leaves]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _draw_leaf(self, i: int) -> Floats:
        if i != self._last:
            seeds = np.random.SeedSequence(self._key, spawn_key=(i,))
            leaf = self._draw(np.random.Generator(np.random.SFC64(seeds)), LEAF)
            self._last, self._leaf = i, DenseSample(leaf[None]).values[0]  # raises for NaN
        return self._leaf


class _Total:
    """Running sums, one per row, with rounding errors summed separately (Knuth's two-sum)."""

    def __init__(self, rows: int) -> None:
        self._sum, self._rest = np.zeros((2, rows))

    def add(self, rows: slice, parts: Floats) -> None:
        old = self._sum[rows]
        with np.errstate(over="ignore", invalid="ignore"):
            new = old + parts
            step = new - old
            self._rest[rows] += (old - (new - step)) + (parts - step)
        self._sum[rows] = new

    @property
    def value(self) -> Floats:
        """Sum of each row; a sum that overflows is replaced by the largest double."""
        total = np.where(np.isfinite(self._rest), self._sum + self._rest, self._sum)
        return np.asarray(np.nan_to_num(total, nan=np.nan))


class StreamedSample(Sample):
    """Datasets read from a `Stream`, with about 2 million records in memory at once.

    A dataset consists of n successive records of the stream. Its mean adds up, in order, the sums
    of pieces of `LEAF` (65,536) records. So the bits of the mean do not depend on how many records
    are read at a time.

    Time is spent on passes, which draw all records once. If the sample has one dataset, one pass is
    enough for the mean and most clipped means. The pass finds an interval that contains most
    records. Clipping to a larger interval needs no further pass. To find the records with given
    ranks, the code usually needs two passes: the first counts records, and the second collects
    records with nearby ranks. If the collected records fit into memory, one pass is enough. Parts,
    groups, pairs and most results are cached.

    Parameters
    ----------
    stream : Stream
        Source of the records.
    starts : ndarray of int, shape (trials,)
        Positions in the stream at which the datasets begin, increasing; they do not overlap.
    n : int
        Number of records in each dataset.
    pairings : int
        Number of times that pairs (x, y) of records are replaced by (x - y)^2/2, by default 0. Each
        record of a dataset is computed from 2^pairings numbers of the stream.
    """

    def __init__(
        self, stream: Stream, starts: NDArray[np.int64], n: int, pairings: int = 0
    ) -> None:
        self._stream, self._starts, self._pairings = stream, starts, pairings
        self._each = 2**pairings
        self.trials, self.n, self.d = len(starts), n, 1

    def _read(self, start: int, records: int) -> Floats:
        """Return successive records of a dataset; the argument `records` is their number.

        The first record begins at position `start` of the stream of random numbers. Records are
        numbers of the stream, or values (x - y)^2/2 computed from pairs (x, y) of such numbers.
        """
        return self._pair_records(self._stream.read(start, start + records * self._each))

    def _pair_records(self, values: Floats) -> Floats:
        for _ in range(self._pairings):
            values = half_squares(values[..., 1::2], values[..., ::2])
        return values

    def _pieces(self, size: int | None = None) -> Iterator[tuple[slice, Floats]]:
        """Yield all records in pieces: a slice of dataset indices, and an array of their records.

        The array has one row for each dataset. If n <= `size` (by default `LEAF`, 65,536), a piece
        consists of whole datasets. Otherwise it consists of at most `size` records of one dataset.
        """
        size = size or LEAF
        at_a_time = max(size, self._stream.chunk // size * size)
        if self.n > size:
            for row, start in enumerate(self._starts.tolist()):
                for offset in range(0, self.n, at_a_time):
                    values = self._read(
                        start + offset * self._each, min(at_a_time, self.n - offset)
                    )
                    for i in range(0, values.size, size):
                        yield slice(row, row + 1), values[None, i : i + size]
            return
        width, first = self.n * self._each, 0
        ends = self._starts + width
        while first < self.trials:
            start = int(self._starts[first])
            last = int(np.searchsorted(ends, start + at_a_time * self._each, "right"))
            last = max(last, first + 1)
            values = self._stream.read(start, int(ends[last - 1]))
            if values.size > (last - first) * width:  # gaps between the rows
                values = values[self._starts[first:last, None] - start + np.arange(width)]
            yield slice(first, last), self._pair_records(values.reshape(-1, width))
            first = last

    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        self._check_listable()
        # Copy, because the cached leaf must not change.
        return np.require(self._read(int(self._starts[trial]), self.n), requirements="W")

    def mean(self) -> Floats:
        return self.clipped_mean(-np.inf, np.inf)

    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = self._broadcast_bounds(lower, upper)
        if self.trials > 1:
            return self._cache_answer(
                lambda: self._clip_and_average(low, high), "clipped", low, high
            )
        core_low, core_high, inside, outside = self._parts
        if not (np.all(low <= core_low) and np.all(high >= core_high)):
            return self._cache_answer(
                lambda: self._clip_and_average(low, high), "clipped", low, high
            )
        total = _Total(1)
        total.add(slice(1), inside)
        if outside.size:
            far = mean_of(np.clip(outside[None], low, high))
            total.add(slice(1), far * (outside.size / self.n))
        return total.value

    def _clip_and_average(self, low: Floats, high: Floats) -> Floats:
        total = _Total(self.trials)
        for rows, values in self._pieces():
            clipped = np.clip(values, _rows_of_bound(low, rows), _rows_of_bound(high, rows))
            total.add(rows, mean_of(clipped) * (values.shape[1] / self.n))
        return total.value

    @cached_property
    def _parts(self) -> tuple[float, float, Floats, Floats]:
        """Divide the records into a core and outer records, to make clipped means fast.

        The sample has one dataset, of n records. The core consists of the records in an interval
        [low, high]. Clipping to an interval that contains [low, high] changes only outer records.
        The result is (low, high, sum of the core divided by n, array of the outer records). If
        there are more than `HELD_RECORDS` (2 million) outer records, the interval grows to contain
        about half of the outer records.
        """
        cut = int(min(TAIL, HELD_RECORDS / (4 * self.n)) * self._probe.size)
        low, high = float(self._probe[cut]), float(self._probe[-1 - cut])
        inside, outside, held = _Total(1), [np.empty(0)], 0
        for rows, values in self._pieces():
            beyond = np.flatnonzero((values < low) | (values > high))
            core = values.copy()
            core[0, beyond] = 0.0
            inside.add(rows, mean_of(core) * (values.shape[1] / self.n))
            outside.append(values[0, beyond])
            held += outside[-1].size
            if held > HELD_RECORDS:
                far = np.concatenate(outside)
                low, high = (
                    float(np.median(far[side])) if side.any() else end
                    for side, end in ((far < low, low), (far > high, high))
                )
                moved = (far >= low) & (far <= high)
                inside.add(rows, mean_of(far[None, moved]) * (moved.sum() / self.n))
                outside = [far[~moved]]
                held = outside[0].size
        return low, high, inside.value, np.concatenate(outside)

    @cached_property
    def _probe(self) -> Floats:
        """First records of the first dataset, up to `PROBE` * `LEAF` (about 1 million), sorted."""
        return np.sort(self._read(int(self._starts[0]), min(self.n, PROBE * LEAF)))

    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = self._broadcast_bounds(lower, upper)

        def inside(rows: slice, x: Floats) -> Bools:
            return (x >= _rows_of_bound(low, rows)) & (x < _rows_of_bound(high, rows))

        return self._cache_answer(lambda: self._tally(inside), "count", low, high)

    def _tally(self, question: Callable[[slice, Floats], Bools]) -> Floats:
        """Return the number of records in each dataset for which `question` returns True.

        The function `question` gets a slice of dataset indices, and the array of the records of
        these datasets. It returns a boolean for each record.
        """
        total = np.zeros(self.trials)
        for rows, values in self._pieces():
            total[rows] += np.count_nonzero(question(rows, values), axis=1)
        return total

    def randomised_response_count(
        self, bound: float, lean: float, rng: np.random.Generator
    ) -> Floats:
        # Not cached, because every call tosses new coins.
        return self._tally(lambda _, x: rng.random(x.shape) < heads_probability(x, bound, lean))

    def three_output_sum(
        self, bound: float, low: float, high: float, rng: np.random.Generator
    ) -> Floats:
        total = np.zeros(self.trials)
        for rows, values in self._pieces():
            total[rows] += draw_net_votes(values, bound, low, high, rng)
        return total

    def occupied(self, bins: Bins) -> Occupied:
        return self._cache_answer(lambda: self._find_occupied(bins), "occupied", bins)

    def _find_occupied(self, bins: Bins) -> Occupied:
        parts, held = [], 0
        row_fields = {f.name: np.asarray(getattr(bins, f.name)) for f in fields(bins)}
        row_fields = {name: value for name, value in row_fields.items() if value.ndim}
        for rows, values in self._pieces():
            row_bins = replace(bins, **{name: value[rows] for name, value in row_fields.items()})
            part = DenseSample(values).occupied(row_bins)
            parts.append(replace(part, trial=part.trial + rows.start))
            held += part.trial.size
            if held > HELD_RECORDS:
                parts = [merge_occupied(parts)]
                held = parts[0].trial.size
                if held > HELD_RECORDS // 2:
                    raise ValueError(f"{held} bins for {self.n} records are too many to hold")
        return merge_occupied(parts)

    # Order statistics.

    def quantile(self, q: float) -> Floats:
        rank = max(0, int(np.ceil(share_of_records(q, self.n))) - 1)
        return self.ranked(rank, rank)[0][:, 0]

    def ranked(self, first: int, last: int) -> tuple[Floats, Floats]:
        asked = (last + 1 - first) * self.trials
        if asked > HELD_RECORDS:
            raise ValueError(
                f"{asked} of {self.n} records at once are too many; at most {HELD_RECORDS}"
            )

        def ask() -> Floats:
            if self.n <= HELD_RECORDS:
                blocks = [
                    DenseSample(x).ranked(first, last)[0] for _, x in self._pieces(HELD_RECORDS)
                ]
                return np.concatenate(blocks)
            return np.stack([row._select_ranks(first, last) for row in self._rows()])

        values = self._cache_answer(ask, "ranked", first, last)
        return values, np.ones_like(values)

    def _rows(self) -> list[Self]:
        if self.trials == 1:
            return [self]
        return [self._view_records(start[None], self.n) for start in self._starts]

    def _select_ranks(self, first: int, last: int) -> Floats:
        """Return the records with ranks `first` to `last`, sorted, of a sample of one dataset."""
        m = self._probe.size
        place = np.array([first, last]) / self.n * m + MARGIN / 2 * np.sqrt(m) * np.array([-1, 1])
        low, high = int(np.floor(place[0])), int(np.ceil(place[1]))
        ends = self._probe[low] if low >= 0 else -np.inf, self._probe[high] if high < m else np.inf
        near = self._probe[max(low, 0) : high : max(1, (high - low) // CELLS)]
        edges = np.unique(np.concatenate([near, ends]))
        while True:
            upto, held = self._count_and_collect(edges)
            if upto[0] <= first and last < upto[-1]:
                if held is not None:
                    return np.sort(held)[first - upto[0] : last + 1 - upto[0]]
                ends = (
                    edges[np.searchsorted(upto, first, "right") - 1],
                    edges[np.searchsorted(upto, last, "right")],
                )
            else:
                ends = -np.inf, np.inf
            finer = _cut_range(*ends)
            if finer.size == 2:  # no double lies between the ends
                return np.full(last + 1 - first, finer[0])
            if np.array_equal(finer, edges):
                raise ValueError(
                    f"too many of {self.n} records are equal; at most {HELD_RECORDS} can be held"
                )
            edges = finer

    def _count_and_collect(self, edges: Floats) -> tuple[NDArray[np.int64], Floats | None]:
        """Count the records below each edge, and collect the records between the outermost edges.

        The sample has one dataset, and `edges` is an array of increasing numbers. The collected
        records lie in [edges[0], edges[-1]). If there are more than `HELD_RECORDS` (2 million) of
        them, None is returned in their place.
        """
        counts, held, size = np.zeros(edges.size, dtype=np.int64), list[Floats](), 0
        for _, values in self._pieces():
            counts[0] += np.count_nonzero(values < edges[0])
            inside = values[(values >= edges[0]) & (values < edges[-1])]
            place = np.searchsorted(edges, inside, "right")
            counts += np.bincount(place, minlength=counts.size)
            size += inside.size
            held = [*held, inside] if size <= HELD_RECORDS else []
        return np.cumsum(counts), np.concatenate(held) if size <= HELD_RECORDS else None

    def trimmed_mean(self, fraction: float) -> Floats:
        cut = int(share_of_records(fraction, self.n))
        if 2 * cut >= self.n:
            raise ValueError(f"cutting {fraction} from each end leaves nothing")
        if self.n <= HELD_RECORDS:
            blocks = [DenseSample(x).trimmed_mean(fraction) for _, x in self._pieces(HELD_RECORDS)]
            return np.concatenate(blocks)
        return np.array([row._trim_row(cut) for row in self._rows()])

    def _trim_row(self, cut: int) -> float:
        """Return the mean of one dataset without its `cut` smallest and `cut` largest records."""
        if not cut:
            return float(self.mean()[0])
        records = self.n - 2 * cut
        low, high = (float(self._select_ranks(rank, rank)[0]) for rank in (cut, self.n - 1 - cut))
        total, cut_below, cut_above = _Total(1), cut, cut
        for rows, values in self._pieces():
            inside = (values >= low) & (values <= high)
            total.add(rows, mean_of(np.where(inside, values, 0.0)) * (values.shape[1] / records))
            cut_below -= int(np.count_nonzero(values < low))
            cut_above -= int(np.count_nonzero(values > high))
        # The rest of the cut consists of records equal to an end.
        total.add(slice(1), np.array([-low * (cut_below / records)]))
        total.add(slice(1), np.array([-high * (cut_above / records)]))
        return float(total.value[0]) if low < high else low

    # Parts consist of consecutive records, as in `DenseSample`.

    def _view_records(self, starts: NDArray[np.int64], n: int) -> Self:
        return type(self)(self._stream, starts, n, self._pairings)

    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        starts = np.cumsum([0, *sizes[:-1]]) * self._each

        def cut() -> list[Self]:
            return [
                self._view_records(self._starts + a, m) for a, m in zip(starts, sizes, strict=True)
            ]

        return self._cache_answer(cut, "split", tuple(sizes))

    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        sizes = part_sizes(self.n, parts)
        large = sizes.count(sizes[0])

        def cut() -> list[Self]:
            starts = np.cumsum([0, *sizes[:-1]]) * self._each + self._starts[:, None]
            group_starts = (starts[:, :large], sizes[0]), (starts[:, large:], sizes[-1])
            return [
                self._view_records(firsts.ravel(), m) for firsts, m in group_starts if firsts.size
            ]

        return [self] if parts == 1 else self._cache_answer(cut, "groups", parts)

    def half_squared_differences(self, rng: np.random.Generator) -> Self:
        if self.n < 2:
            raise ValueError(f"n: {self.n}: pairs need at least 2 records")

        pairs = type(self)(self._stream, self._starts, self.n // 2, self._pairings + 1)
        return self._cache_answer(lambda: pairs, "pairs")


def _rows_of_bound(bound: Floats, rows: slice) -> Floats:
    """Select the bounds of the datasets in the slice `rows` from an array with a bound per dataset.

    A single number, which is the bound of all datasets, is returned unchanged.
    """
    return bound[rows] if bound.ndim else bound


def _cut_range(low: float, high: float) -> Floats:
    """Return the edges of cells that divide the interval [low, high].

    The cells contain nearly equal numbers of doubles (64-bit floating-point numbers). There are at
    most `CELLS` (1024) cells.
    """
    # The bits of doubles, read as integers with sign, have the order of the doubles.
    ends = [int(np.float64(end).view(np.int64)) for end in (low, high)]
    a, b = (bits if bits >= 0 else -(bits & (2**63 - 1)) for bits in ends)
    places = np.array([a + (b - a) * i // CELLS for i in range(CELLS + 1)])
    numbers = np.abs(places).view(np.float64)
    return np.unique(np.where(places < 0, -numbers, numbers))
