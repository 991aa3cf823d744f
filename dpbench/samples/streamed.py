"""Datasets too large for memory: every query draws their records again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpbench.arrays import Bools, Floats
from dpbench.samples.base import Sample, chances, half_squares, part_sizes, share_of_records, voted
from dpbench.samples.bins import Bins, Occupied, merged
from dpbench.samples.dense import TAIL, DenseSample, mean_of

__all__ = ["HELD", "MOST_STREAMED", "MOST_WHOLE", "Stream", "StreamedSample"]

# Records per generator (a "leaf"), and the unit of summation. Changing it changes every number.
LEAF = 1 << 16
# Largest number of selected records held at once. Of all results, only the core depends on it.
HELD = 1 << 21
# PROBE: leaves read to locate quantiles. MARGIN: allowed error of that location, in standard
# deviations of a rank, which are at most sqrt(m)/2 for m records read.
PROBE, MARGIN = 16, 6.0
# Number of intervals in which a further pass counts, if the previous interval holds too many.
CELLS = 1024
# Datasets of more records are streamed: held whole they take 0.5 GB with the arrays of a query.
MOST_WHOLE = 1 << 24
# Largest number of records that is drawn at all, because a pass over it takes eight hours.
MOST_STREAMED = 10**12


class Stream:
    """Reproducible sequence of independent records, drawn when they are read.

    Leaf i holds records i `LEAF` to (i + 1) `LEAF` - 1. It has its own generator, seeded by i and
    by 128 bits of `rng`. So the records depend neither on the order nor on the size of the reads.

    Parameters
    ----------
    draw : callable
        Maps (generator, m) to m records, an ndarray of shape (m,) of finite numbers.
    rng : Generator
        Source of the 128 bits.
    chunk : int
        Records read at a time; no result depends on it.
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
        """Return records `first` to `last` - 1.

        Parameters
        ----------
        first, last : int
            Positions in the stream, first < last.

        Returns
        -------
        ndarray of shape (last - first,)
            Possibly a view of a cached leaf: do not write to it.
        """
        at = range(first // LEAF, (last - 1) // LEAF + 1)
        found = [self._drawn(i)[max(first - i * LEAF, 0) : last - i * LEAF] for i in at]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _drawn(self, i: int) -> Floats:
        if i != self._last:
            seeds = np.random.SeedSequence(self._key, spawn_key=(i,))
            leaf = self._draw(np.random.Generator(np.random.SFC64(seeds)), LEAF)
            self._last, self._leaf = i, DenseSample(leaf[None]).values[0]  # raises for NaN
        return self._leaf


class _Total:
    """Compensated sums, (rows,): Knuth's two-sum keeps the digits lost to rounding."""

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
        """The sums; overflow gives the largest double."""
        found = np.where(np.isfinite(self._rest), self._sum + self._rest, self._sum)
        return np.asarray(np.nan_to_num(found, nan=np.nan))


class StreamedSample(Sample):
    """Datasets read from a `Stream`: about `HELD` records are held, and a query costs passes.

    A dataset is a run of n records of the stream. Its mean is the sum, in order, of sums within
    leaves counted from its first record, so that the bits do not depend on the stream's chunk. One
    pass serves the mean and all clipping intervals that contain the core (see `DenseSample`). A
    query for ranks takes one pass that counts, and one that holds the records of nearby ranks; one
    pass does both if these records are few. Answers, parts, groups and pairs are cached.

    Parameters
    ----------
    stream : Stream
        Source of the records.
    starts : ndarray of int, shape (trials,)
        Positions in the stream at which the datasets begin, increasing; they do not overlap.
    n : int
        Records in each dataset.
    pairings : int
        Number of times that records are replaced by half squared differences of pairs; a record
        consumes 2^pairings of the stream.
    """

    def __init__(
        self, stream: Stream, starts: NDArray[np.int64], n: int, pairings: int = 0
    ) -> None:
        self._stream, self._starts, self._pairings = stream, starts, pairings
        self._each = 2**pairings
        self.trials, self.n, self.d = len(starts), n, 1

    def _read(self, start: int, records: int) -> Floats:
        """Return records that begin at position `start` of the stream, after all pairings."""
        return self._paired(self._stream.read(start, start + records * self._each))

    def _paired(self, values: Floats) -> Floats:
        for _ in range(self._pairings):
            values = half_squares(values[..., 1::2], values[..., ::2])
        return values

    def _pieces(self, size: int | None = None) -> Iterator[tuple[slice, Floats]]:
        """Yield all records in order, with the rows that they belong to.

        A piece is several whole rows if n <= `size` (by default `LEAF`), else at most `size`
        records of one row.
        """
        size = size or LEAF
        at_a_time = max(size, self._stream.chunk // size * size)
        if self.n > size:
            for row, start in enumerate(self._starts.tolist()):
                for at in range(0, self.n, at_a_time):
                    some = self._read(start + at * self._each, min(at_a_time, self.n - at))
                    for i in range(0, some.size, size):
                        yield slice(row, row + 1), some[None, i : i + size]
            return
        width, first = self.n * self._each, 0
        ends = self._starts + width
        while first < self.trials:
            start = int(self._starts[first])
            last = int(np.searchsorted(ends, start + at_a_time * self._each, "right"))
            last = max(last, first + 1)
            some = self._stream.read(start, int(ends[last - 1]))
            if some.size > (last - first) * width:  # gaps between the rows
                some = some[self._starts[first:last, None] - start + np.arange(width)]
            yield slice(first, last), self._paired(some.reshape(-1, width))
            first = last

    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        self._check_held()
        # Copy, because the cached leaf must not change.
        return np.require(self._read(int(self._starts[trial]), self.n), requirements="W")

    def mean(self) -> Floats:
        return self.clipped_mean(-np.inf, np.inf)

    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = self._ends(lower, upper)
        if self.trials > 1:
            return self._once(lambda: self._clipped(low, high), "clipped", low, high)
        core_low, core_high, inside, outside = self._parts
        if not (np.all(low <= core_low) and np.all(high >= core_high)):
            return self._once(lambda: self._clipped(low, high), "clipped", low, high)
        total = _Total(1)
        total.add(slice(1), inside)
        if outside.size:
            far = mean_of(np.clip(outside[None], low, high))
            total.add(slice(1), far * (outside.size / self.n))
        return total.value

    def _clipped(self, low: Floats, high: Floats) -> Floats:
        total = _Total(self.trials)
        for rows, values in self._pieces():
            kept = np.clip(values, _of(low, rows), _of(high, rows))
            total.add(rows, mean_of(kept) * (values.shape[1] / self.n))
        return total.value

    @cached_property
    def _parts(self) -> tuple[float, float, Floats, Floats]:
        """Return the core of the only row: (low, high, sum of its records over n, other records).

        If there are too many other records, the core grows to contain half of them.
        """
        cut = int(min(TAIL, HELD / (4 * self.n)) * self._probe.size)
        low, high = float(self._probe[cut]), float(self._probe[-1 - cut])
        inside, outside, held = _Total(1), [np.empty(0)], 0
        for rows, values in self._pieces():
            beyond = np.flatnonzero((values < low) | (values > high))
            core = values.copy()
            core[0, beyond] = 0.0
            inside.add(rows, mean_of(core) * (values.shape[1] / self.n))
            outside.append(values[0, beyond])
            held += outside[-1].size
            if held > HELD:
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
        """First records of the first row, sorted."""
        return np.sort(self._read(int(self._starts[0]), min(self.n, PROBE * LEAF)))

    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = self._ends(lower, upper)

        def inside(rows: slice, x: Floats) -> Bools:
            return (x >= _of(low, rows)) & (x < _of(high, rows))

        return self._once(lambda: self._tally(inside), "count", low, high)

    def _tally(self, question: Callable[[slice, Floats], Bools]) -> Floats:
        """Return the number of records of each row for which `question` is true."""
        total = np.zeros(self.trials)
        for rows, values in self._pieces():
            total[rows] += np.count_nonzero(question(rows, values), axis=1)
        return total

    def randomised_response_count(
        self, bound: float, lean: float, rng: np.random.Generator
    ) -> Floats:
        # Not cached, because every call tosses new coins.
        return self._tally(lambda _, x: rng.random(x.shape) < chances(x, bound, lean))

    def three_output_sum(
        self, bound: float, low: float, high: float, rng: np.random.Generator
    ) -> Floats:
        total = np.zeros(self.trials)
        for rows, values in self._pieces():
            total[rows] += voted(values, bound, low, high, rng)
        return total

    def occupied(self, bins: Bins) -> Occupied:
        return self._once(lambda: self._occupied(bins), "occupied", bins)

    def _occupied(self, bins: Bins) -> Occupied:
        found, held = [], 0
        own = {f.name: np.asarray(getattr(bins, f.name)) for f in fields(bins)}
        own = {name: value for name, value in own.items() if value.ndim}
        for rows, values in self._pieces():
            some = replace(bins, **{name: value[rows] for name, value in own.items()})
            one = DenseSample(values).occupied(some)
            found.append(replace(one, trial=one.trial + rows.start))
            held += one.trial.size
            if held > HELD:
                found = [merged(found)]
                held = found[0].trial.size
                if held > HELD // 2:
                    raise ValueError(f"{held} bins for {self.n} records are too many to hold")
        return merged(found)

    # Order statistics.

    def quantile(self, q: float) -> Floats:
        rank = max(0, int(np.ceil(share_of_records(q, self.n))) - 1)
        return self.ranked(rank, rank)[0][:, 0]

    def ranked(self, first: int, last: int) -> tuple[Floats, Floats]:
        asked = (last + 1 - first) * self.trials
        if asked > HELD:
            raise ValueError(f"{asked} of {self.n} records at once are too many; at most {HELD}")

        def ask() -> Floats:
            if self.n <= HELD:
                each = [DenseSample(x).ranked(first, last)[0] for _, x in self._pieces(HELD)]
                return np.concatenate(each)
            return np.stack([row._between(first, last) for row in self._rows()])

        values = self._once(ask, "ranked", first, last)
        return values, np.ones_like(values)

    def _rows(self) -> list[Self]:
        if self.trials == 1:
            return [self]
        return [self._like(start[None], self.n) for start in self._starts]

    def _between(self, first: int, last: int) -> Floats:
        """Return the records of the only row with ranks `first` to `last`, in order."""
        m = self._probe.size
        place = np.array([first, last]) / self.n * m + MARGIN / 2 * np.sqrt(m) * np.array([-1, 1])
        low, high = int(np.floor(place[0])), int(np.ceil(place[1]))
        ends = self._probe[low] if low >= 0 else -np.inf, self._probe[high] if high < m else np.inf
        near = self._probe[max(low, 0) : high : max(1, (high - low) // CELLS)]
        edges = np.unique(np.concatenate([near, ends]))
        while True:
            upto, held = self._counted(edges)
            if upto[0] <= first and last < upto[-1]:
                if held is not None:
                    return np.sort(held)[first - upto[0] : last + 1 - upto[0]]
                ends = (
                    edges[np.searchsorted(upto, first, "right") - 1],
                    edges[np.searchsorted(upto, last, "right")],
                )
            else:
                ends = -np.inf, np.inf
            finer = _cut(*ends)
            if finer.size == 2:  # no double lies between the ends
                return np.full(last + 1 - first, finer[0])
            if np.array_equal(finer, edges):
                raise ValueError(
                    f"too many of {self.n} records are equal; at most {HELD} can be held"
                )
            edges = finer

    def _counted(self, edges: Floats) -> tuple[NDArray[np.int64], Floats | None]:
        """Count the records of the only row below each edge, and collect the records between.

        The second result is None if more than `HELD` records lie between the outer edges.
        """
        counts, held, size = np.zeros(edges.size, dtype=np.int64), list[Floats](), 0
        for _, values in self._pieces():
            counts[0] += np.count_nonzero(values < edges[0])
            inside = values[(values >= edges[0]) & (values < edges[-1])]
            place = np.searchsorted(edges, inside, "right")
            counts += np.bincount(place, minlength=counts.size)
            size += inside.size
            held = [*held, inside] if size <= HELD else []
        return np.cumsum(counts), np.concatenate(held) if size <= HELD else None

    def trimmed_mean(self, fraction: float) -> Floats:
        cut = int(share_of_records(fraction, self.n))
        if 2 * cut >= self.n:
            raise ValueError(f"cutting {fraction} from each end leaves nothing")
        if self.n <= HELD:
            each = [DenseSample(x).trimmed_mean(fraction) for _, x in self._pieces(HELD)]
            return np.concatenate(each)
        return np.array([row._trimmed(cut) for row in self._rows()])

    def _trimmed(self, cut: int) -> float:
        """Return the mean of the only row without `cut` records at each end."""
        if not cut:
            return float(self.mean()[0])
        kept = self.n - 2 * cut
        low, high = (float(self._between(rank, rank)[0]) for rank in (cut, self.n - 1 - cut))
        total, cut_below, cut_above = _Total(1), cut, cut
        for rows, values in self._pieces():
            inside = (values >= low) & (values <= high)
            total.add(rows, mean_of(np.where(inside, values, 0.0)) * (values.shape[1] / kept))
            cut_below -= int(np.count_nonzero(values < low))
            cut_above -= int(np.count_nonzero(values > high))
        # The rest of the cut consists of records equal to an end.
        total.add(slice(1), np.array([-low * (cut_below / kept)]))
        total.add(slice(1), np.array([-high * (cut_above / kept)]))
        return float(total.value[0]) if low < high else low

    # Parts are cut by record index, as in `DenseSample`.

    def _like(self, starts: NDArray[np.int64], n: int) -> Self:
        return type(self)(self._stream, starts, n, self._pairings)

    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        starts = np.cumsum([0, *sizes[:-1]]) * self._each

        def cut() -> list[Self]:
            return [self._like(self._starts + a, m) for a, m in zip(starts, sizes, strict=True)]

        return self._once(cut, "split", tuple(sizes))

    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        sizes = part_sizes(self.n, parts)
        large = sizes.count(sizes[0])

        def cut() -> list[Self]:
            starts = np.cumsum([0, *sizes[:-1]]) * self._each + self._starts[:, None]
            both = (starts[:, :large], sizes[0]), (starts[:, large:], sizes[-1])
            return [self._like(some.ravel(), m) for some, m in both if some.size]

        return [self] if parts == 1 else self._once(cut, "groups", parts)

    def half_squared_differences(self, rng: np.random.Generator) -> Self:
        if self.n < 2:
            raise ValueError(f"n: {self.n}: pairs need at least 2 records")

        pairs = type(self)(self._stream, self._starts, self.n // 2, self._pairings + 1)
        return self._once(lambda: pairs, "pairs")


def _of(bound: Floats, rows: slice) -> Floats:
    """Return the part of `bound` that belongs to `rows` (unchanged if it is a scalar)."""
    return bound[rows] if bound.ndim else bound


def _cut(low: float, high: float) -> Floats:
    """Return edges from `low` to `high` with equally many floating-point numbers between them."""
    # The bits of doubles, read as integers with sign, have the order of the doubles.
    ends = [int(np.float64(end).view(np.int64)) for end in (low, high)]
    a, b = (one if one >= 0 else -(one & (2**63 - 1)) for one in ends)
    places = np.array([a + (b - a) * i // CELLS for i in range(CELLS + 1)])
    numbers = np.abs(places).view(np.float64)
    return np.unique(np.where(places < 0, -numbers, numbers))
