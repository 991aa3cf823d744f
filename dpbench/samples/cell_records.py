"""Records inside cells, drawn where a query needs them and the same in every query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dpbench.arrays import Floats, Ints
from dpbench.samples.quantile_grid import QuantileGrid

__all__ = ["CellPart", "CellRecords"]

# Parts of cells with at most this many records are resolved into records. Another value changes
# the records, and so every answer about the inside of a cell.
LEAF = 512
MAX_KEPT = 4_000_000  # most tail probabilities in memory; others are drawn again where needed


class CellPart(NamedTuple):
    """Part of a cell: the records with tail probabilities in [low, high], after `depth` halvings.

    `path` counts the parts of equal depth from the left, from 0.
    """

    cell: int
    depth: int
    path: int
    low: float
    high: float

    def halves(self) -> tuple[CellPart, CellPart]:
        """Return the half with smaller tail probabilities, and the half with larger ones."""
        cell, depth, path, low, high = self
        middle = (low + high) / 2
        return (
            CellPart(cell, depth + 1, 2 * path, low, middle),
            CellPart(cell, depth + 1, 2 * path + 1, middle, high),
        )


class CellRecords:
    """Records inside the cells of datasets, given the number of records in each cell.

    Given its cell, a record's tail probability is uniform. So each record of a part of a cell falls
    into either half with probability 1/2, and the records of a small part are uniform. The random
    numbers of a part depend on `key` and the part, not on earlier queries. `counts` holds the
    number of records in each of the m cells of the grid, of shape (trials, m). `key` is 128 random
    bits, in two numbers.
    """

    def __init__(self, grid: QuantileGrid, counts: Ints, key: Sequence[int]) -> None:
        self.grid, self.counts, self.key = grid, counts, tuple(key)
        self._sizes: dict[tuple[int, int, int], Ints] = {}
        self._tails: dict[tuple[int, int, int, int], Floats] = {}
        self._kept = 0

    def _generator(self, part: CellPart, trial: int = -1) -> np.random.Generator:
        place = [0, part.cell, part.path, part.depth + 64 * (trial + 1)]
        return np.random.Generator(np.random.Philox(key=list(self.key), counter=place))

    def whole(self, cell: int) -> CellPart:
        """Return a cell as a part."""
        low, high = self.grid.bounds
        return CellPart(cell, 0, 0, float(low[cell]), float(high[cell]))

    def sizes(self, part: CellPart) -> Ints:
        """Return the number of records of each dataset in a part, (trials,)."""
        if not part.depth:
            return self.counts[:, part.cell]
        name = part[:3]
        if name not in self._sizes:
            cell, depth, path = name
            parent = CellPart(cell, depth - 1, path // 2, part.low, part.high)
            whole = self.sizes(parent)
            left = self._generator(parent).binomial(whole, 0.5)
            self._sizes[cell, depth, path - path % 2] = left
            self._sizes[cell, depth, path - path % 2 + 1] = whole - left
        return self._sizes[name]

    def is_small(self, part: CellPart) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return for each dataset if the part has few enough records to list them, (trials,)."""
        return self.sizes(part) <= LEAF

    def tails(self, part: CellPart, trial: int) -> Floats:
        """Return the increasing tail probabilities of one dataset's records in a small part.

        A small part has at most `LEAF` records.
        """
        name = (*part[:3], trial)
        if name not in self._tails:
            size = int(self.sizes(part)[trial])
            t = part.low + (part.high - part.low) * self._generator(part, trial).random(size)
            t.sort()
            if self._kept > MAX_KEPT:
                return t
            self._tails[name] = t
            self._kept += size
        return self._tails[name]

    def count_less(self, part: CellPart, trials: Ints, t: Floats) -> Ints:
        """Count the records of a part with tail probabilities below t, in some of the datasets.

        `trials` holds the indices of the datasets, and `t` has a tail probability for each of them.
        """
        size = self.sizes(part)[trials]
        less = np.where(t >= part.high, size, 0)
        inside = (t > part.low) & (t < part.high) & (size > 0)
        small = self.is_small(part)[trials]
        for i in np.flatnonzero(inside & small).tolist():
            less[i] = np.searchsorted(self.tails(part, int(trials[i])), t[i])
        large = np.flatnonzero(inside & ~small)
        if large.size:
            for half in part.halves():
                less[large] += self.count_less(half, trials[large], t[large])
        return less

    def between_ranks(
        self, part: CellPart, trial: int, first: int, last: int, *, keep_whole: int
    ) -> Iterator[tuple[CellPart, Floats | None]]:
        """Yield one dataset's records with ranks `first` to `last` in a part, in pieces.

        Ranks are by tail probability; the smallest tail probability of the part has rank 0. Ranks
        below 0 or above the size of the part are allowed, and stand for no record.

        A piece is a part with the increasing tail probabilities of its records that belong, or with
        None if all its records belong. A part whose records all belong is one piece if it has at
        most `keep_whole` records.
        """
        size = int(self.sizes(part)[trial])
        if last < 0 or first >= size or not size:
            return
        if size <= keep_whole and first <= 0 and last >= size - 1:
            yield part, None
        elif self.is_small(part)[trial]:
            yield part, self.tails(part, trial)[max(first, 0) : last + 1]
        else:
            left, right = part.halves()
            below = int(self.sizes(left)[trial])
            yield from self.between_ranks(left, trial, first, last, keep_whole=keep_whole)
            yield from self.between_ranks(
                right, trial, first - below, last - below, keep_whole=keep_whole
            )
