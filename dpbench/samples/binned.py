"""Datasets of a continuous distribution, stored as the number of records in each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Self

import numpy as np

from dpbench.arrays import Floats, Ints
from dpbench.samples.base import (
    Sample,
    part_sizes,
    share_of_records,
)
from dpbench.samples.bins import Bins, Occupied, merge_occupied, run_starts
from dpbench.samples.cell_records import CellPart, CellRecords
from dpbench.samples.dense import DenseSample
from dpbench.samples.hypergeometric import cut_counts, cut_groups
from dpbench.samples.quantile_grid import QuantileGrid, clipped_means, partial_mean

__all__ = ["HELD_NUMBERS", "MAX_BINNED_RECORDS", "MAX_WHOLE_RECORDS", "BinnedSample"]

# Largest number of records of a dataset that is stored record by record. There, drawing records of
# Student's t takes about 30 times as long as drawing counts. Another value changes the data of all
# sizes between both values.
MAX_WHOLE_RECORDS = 300_000
# Largest number of records; beyond, draws without replacement lose digits.
MAX_BINNED_RECORDS = 10**12
# About how many numbers the counts of a dataset, and shares of records, take in memory.
HELD_NUMBERS = 5_000


class BinnedSample(Sample):
    """Datasets of a continuous distribution, as counts on the cells of a `QuantileGrid`.

    The time and memory of most statistics do not grow with the number n of records.

    - Counts in cells are exact: they were drawn from their multinomial distribution.
    - Counts, ranks and quantiles inside a cell are exact, too. A cell is halved again and again
      where a query needs it. Its records fall into either half with probability 1/2 each. A part
      with at most `LEAF` (512) records is resolved into records. The random numbers of a part
      depend on `key` and the part, not on earlier queries.
    - In means and clipped means, each record of a cell is replaced by the conditional mean of the
      (clipped) record given the cell. So the expectation is exact. The variance lacks the
      variances within cells (Jensen's inequality: no expectation of a convex function of the mean
      is too large). Of a Gaussian mean it lacks less than 6e-5, of one clipped at 1 standard
      deviation 6e-5, at 0.1 standard deviations 2.7e-4, and inside a cell up to 8e-3.
    - Random votes of records are exact: given its cell, every record votes independently with the
      mean probability of the cell.

    `split` and `groups` distribute the records of cells exactly. Inside a cell, the records of a
    part are independent of the whole dataset's.

    Parameters
    ----------
    grid : QuantileGrid
        Cells, with their conditional means.
    counts : ndarray of int, shape (trials, m)
        Number of records in each cell. Every row adds up to the same n.
    key : sequence of two int
        126 random bits, in two numbers, from which records inside cells are drawn.
    """

    def __init__(self, grid: QuantileGrid, counts: Ints, key: Sequence[int]) -> None:
        self.grid, self.counts, self._inside = grid, counts, CellRecords(grid, counts, key)
        self.trials, self.n, self.d = len(counts), int(counts[0].sum()), 1

    @classmethod
    def draw(cls, grid: QuantileGrid, rng: np.random.Generator, trials: int, n: int) -> Self:
        """Draw independent datasets of n records.

        Parameters
        ----------
        grid : QuantileGrid
            Cells of the distribution, made for n records.
        rng : Generator
            Source of the counts and of the key.
        trials, n : int
            Numbers of datasets and of records in each dataset.

        Returns
        -------
        BinnedSample
        """
        counts = grid.draw(rng, trials, n)
        return cls(grid, counts, _draw_key(rng))

    # Sums.

    @cached_property
    def _shares(self) -> Floats:
        return self.counts / self.n

    def mean(self) -> Floats:
        return self._cache_answer(lambda: self._shares @ self.grid.means, "mean")

    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = self._broadcast_bounds(lower, upper)

        def answer() -> Floats:
            if not low.ndim and not high.ndim:
                return np.asarray(self._shares @ clipped_means(self.grid, float(low), float(high)))
            means = self.grid.clipped_means(
                *(np.broadcast_to(x, (self.trials, 1)) for x in (low, high))
            )
            return np.asarray((self._shares * means).sum(axis=1))

        return self._cache_answer(answer, "clipped", low, high)

    def centred_mean(self, centre: float | Floats, half_width: float | Floats) -> Floats:
        middle, half = self._broadcast_bounds(centre, half_width)
        means = (
            self.grid.clipped_means(
                *(np.broadcast_to(x, (self.trials, 1)) for x in (middle - half, middle + half))
            )
            if middle.ndim or half.ndim
            else clipped_means(self.grid, float(middle - half), float(middle + half))
        )
        return np.asarray((self._shares * np.clip(means - middle, -half, half)).sum(axis=1))

    def clipped_values(self, lower: float, upper: float) -> tuple[Floats, Ints]:
        return clipped_means(self.grid, lower, upper), self.counts

    # Counts.

    @cached_property
    def _upto(self) -> Ints:
        """Number of records below each edge of the cells, (trials, m + 1)."""
        return np.concatenate(
            [np.zeros((self.trials, 1), dtype=np.int64), np.cumsum(self.counts, axis=1)], axis=1
        )

    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = self._broadcast_bounds(lower, upper)

        def answer() -> Floats:
            inside = self._count_below(high) - self._count_below(low)
            return np.asarray(np.maximum(inside, 0), dtype=float)

        return self._cache_answer(answer, "count", low, high)

    def _count_below(self, bound: Floats) -> Ints:
        """Return the number of records below a bound, () or (trials, 1), in each dataset."""
        cells, tails = self.grid.locate(np.broadcast_to(bound, (self.trials, 1))[:, 0])
        total = self._upto[np.arange(self.trials), cells]
        for cell in np.unique(cells).tolist():
            rows = np.flatnonzero(cells == cell)
            less = self._inside.count_less(self._inside.whole(cell), rows, tails[rows])
            # the tail probability of the upper side falls where the records grow
            total[rows] += self.counts[rows, cell] - less if self.grid.is_upper(cell) else less
        return total

    # Order statistics.

    def quantile(self, q: float) -> Floats:
        rank = max(0, int(np.ceil(share_of_records(q, self.n))) - 1)
        return self.ranked(rank, rank)[0][:, 0]

    def ranked(self, first: int, last: int, at_most: int | None = None) -> tuple[Floats, Floats]:
        size = last + 1 - first
        group = 1 if at_most is None else -(-size // at_most)
        if size > MAX_WHOLE_RECORDS * group:
            raise ValueError(
                f"{size} of {self.n} records are too many to list; at most {MAX_WHOLE_RECORDS}"
            )

        def answer() -> tuple[Floats, Floats]:
            rows = [self._list_ranks(i, first, last, group) for i in range(self.trials)]
            longest = max(values.size for values, _ in rows)
            wanted = [longest - values.size for values, _ in rows]  # of values without records
            lists = zip(rows, wanted, strict=True)
            padded = [(np.pad(x, (0, k), "edge"), np.pad(c, (0, k))) for (x, c), k in lists]
            values, counts = (np.stack(part) for part in zip(*padded, strict=True))
            return values, counts

        return self._cache_answer(answer, "ranked", first, last, group)

    def _list_ranks(
        self, trial: int, first: int, last: int, group: int = 1
    ) -> tuple[Floats, Floats]:
        """Return one dataset's records with ranks `first` to `last`, and their multiplicities.

        The records increase. One record in the middle of up to `group` consecutive records stands
        for all of them.
        """
        sides: list[list[tuple[Floats, Floats]]] = [[], []]
        for cell, *ranks in self._cells_of_ranks(trial, first, last):
            pieces: list[tuple[Floats, Floats]] = []
            for part, t in self._inside.between_ranks(
                self._inside.whole(cell), trial, *ranks, keep_whole=group if group > 1 else 0
            ):
                if t is None:
                    middle = np.array([(part.low + part.high) / 2])
                    pieces.append((middle, np.array([float(self._inside.sizes(part)[trial])])))
                else:
                    ends = np.append(np.arange(0, t.size, group), t.size)
                    middles = t[(ends[:-1] + ends[1:] - 1) // 2]
                    pieces.append((middles, np.diff(ends).astype(float)))
            upper = self.grid.is_upper(cell)
            turned = [(t[::-1], counts[::-1]) for t, counts in reversed(pieces)]
            sides[upper] += turned if upper else pieces
        values = [
            self.grid.law.tail_quantile(
                np.concatenate([np.empty(0), *(t for t, _ in side)]), upper=upper
            )
            for side, upper in zip(sides, (False, True), strict=True)
        ]
        counts = [count for side in sides for _, count in side]
        return np.concatenate(values), np.concatenate(counts)

    def _cells_of_ranks(self, trial: int, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield the cells with ranks from `first` to `last`, and ranks by tail probability in them.

        The ranks in a cell count from 0, the record with the smallest tail probability.
        """
        upto = self._upto[trial]
        start = int(np.searchsorted(upto, first, "right")) - 1
        stop = int(np.searchsorted(upto, last, "right"))
        for cell in (start + np.flatnonzero(self.counts[trial, start:stop])).tolist():
            size = int(self.counts[trial, cell])
            low = max(first - int(upto[cell]), 0)
            high = min(last - int(upto[cell]), size - 1)
            yield (
                cell,
                *((size - 1 - high, size - 1 - low) if self.grid.is_upper(cell) else (low, high)),
            )

    def trimmed_mean(self, fraction: float) -> Floats:
        cut = int(share_of_records(fraction, self.n))
        if 2 * cut >= self.n:
            raise ValueError(f"cutting {fraction} from each end leaves nothing")
        if not cut:
            return self.mean()
        ranks, kept = (cut, self.n - 1 - cut), self.n - 2 * cut
        return self._cache_answer(lambda: self._sum_ranks(*ranks) / kept, "trimmed", cut)

    def _sum_ranks(self, first: int, last: int) -> Floats:
        """Return the sum of each dataset's records with ranks `first` to `last`."""
        total = np.zeros(self.trials)
        whole: list[list[tuple[float, ...]]] = [[], []]  # trial, size and ends of parts, by side
        for trial in range(self.trials):
            cells = list(self._cells_of_ranks(trial, first, last))
            inner = np.array([cell for cell, *_ in cells[1:-1]], dtype=int)
            total[trial] = self.counts[trial, inner] @ self.grid.means[inner]
            for cell, *ranks in {cells[0], cells[-1]}:
                for part, t in self._inside.between_ranks(
                    self._inside.whole(cell), trial, *ranks, keep_whole=self.n
                ):
                    if t is None:
                        size = self._inside.sizes(part)[trial]
                        whole[self.grid.is_upper(cell)].append((trial, size, part.low, part.high))
                    else:
                        total[trial] += self.grid.quantiles(t, cell).sum()
        for upper, parts in zip((False, True), whole, strict=True):
            if parts:
                trials, size, low, high = np.array(parts).T
                mean = partial_mean(self.grid.law, low, high, upper=upper) / (high - low)
                np.add.at(total, trials.astype(int), size * mean)
        return total

    # Histograms.

    def occupied(self, bins: Bins) -> Occupied:
        return self._cache_answer(lambda: self._find_occupied(bins), "occupied", bins)

    def _find_occupied(self, bins: Bins) -> Occupied:
        index = bins.index(np.broadcast_to(self.grid.edges, (self.trials, self.grid.edges.size)))
        whole = index[:, :-1] == index[:, 1:]
        counts = np.where(whole, self.counts, 0)
        first = run_starts(index[:, :-1])
        total = np.add.reduceat(counts.ravel(), first)
        trial, held = first // counts.shape[1], total > 0
        parts = [
            Occupied(trial[held], index[:, :-1].ravel()[first[held]], total[held].astype(float))
        ]
        torn = ~whole & (self.counts > 0)
        for cell in np.flatnonzero(torn.any(axis=0)).tolist():
            rows = np.flatnonzero(torn[:, cell])
            parts += self._bin_part(self._inside.whole(cell), rows, bins)
        return merge_occupied(parts)

    def _bin_part(self, part: CellPart, trials: Ints, bins: Bins) -> Iterator[Occupied]:
        """Yield the nonempty bins of the records in a part of a cell, for some of the trials."""
        size = self._inside.sizes(part)[trials]
        trials, size = trials[size > 0], size[size > 0]
        if not trials.size:
            return
        ends = self.grid.quantiles(np.array([part.low, part.high]), part.cell)
        low, high = _rows_of(bins, trials).index(np.broadcast_to(ends, (trials.size, 2))).T
        same, small = low == high, self._inside.is_small(part)[trials]
        if same.any():
            yield Occupied(trials[same], low[same], size[same].astype(float))
        for i in np.flatnonzero(~same & small).tolist():
            tails = self._inside.tails(part, int(trials[i]))
            records = DenseSample(self.grid.quantiles(tails, part.cell)[None])
            found = records.occupied(_rows_of(bins, trials[i : i + 1]))
            yield replace(found, trial=found.trial + trials[i])
        large = trials[~same & ~small]
        if large.size:
            for half in part.halves():
                yield from self._bin_part(half, large, bins)

    # Parts and lists of records.

    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        parts = cut_counts(self.counts, sizes, rng)
        return [type(self)(self.grid, parts[:, i], _draw_key(rng)) for i in range(len(sizes))]

    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        if parts == 1:
            return [self]
        groups = cut_groups(self.counts, part_sizes(self.n, parts), rng)
        return [type(self)(self.grid, counts, _draw_key(rng)) for counts in groups]

    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        self._check_listable()
        values = self._list_ranks(trial, 0, self.n - 1)[0]
        rng.shuffle(values)
        return values

    def half_squared_differences(self, rng: np.random.Generator) -> Self:
        raise ValueError(
            f"n: {self.n}: pairs of records need all records; at most {MAX_WHOLE_RECORDS}"
        )


def _draw_key(rng: np.random.Generator) -> list[int]:
    return [int(bits) for bits in rng.integers(2**63, size=2)]


def _rows_of(bins: Bins, rows: Ints) -> Bins:
    """Return the bins of some trials."""
    values = {field.name: np.asarray(getattr(bins, field.name)) for field in fields(bins)}
    return replace(bins, **{name: value[rows] for name, value in values.items() if value.ndim})
