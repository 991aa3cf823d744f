"""Datasets of vectors, most of which are zero."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpbench.arrays import Floats, Ints
from dpbench.samples.base import Sample, half_squares, part_sizes
from dpbench.samples.counted import CountedSample
from dpbench.samples.hypergeometric import hypergeometric
from dpbench.samples.rows import MAX_COORDINATE, Rows

__all__ = ["SparseSample"]

MAX_COLUMN_ATOMS = 64  # largest number of distinct values of coordinates for `columns`
PROBE = 4096  # values from which `_atoms` guesses the distinct values
MAX_COMPARED_ATOMS = 8  # largest number of distinct values that `_atoms` compares one by one


class SparseSample(Sample):
    """Datasets of vectors that store only the nonzero vectors.

    The number n of records may reach 1e12. The stored vectors of a trial must be in exchangeable
    order, like independent draws, because `split` assigns them to parts in this order.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        Stored vectors, finite: the vectors of the first trial, then of the second, and so on.
    held : ndarray of int, shape (trials,)
        Number of stored vectors of each trial; the sum is m.
    n : int
        Number of records in each dataset, zeros included.
    """

    vectors = True

    def __init__(self, rows: Floats, held: Ints, n: int) -> None:
        self.rows_held = np.asarray(rows, dtype=float)
        self.held = np.asarray(held, dtype=np.int64)
        if self.rows_held.ndim != 2 or not np.all(np.isfinite(self.rows_held)):
            raise ValueError("rows must be a finite (m, d) array")
        if self.held.sum() != len(self.rows_held) or np.any((self.held < 0) | (self.held > n)):
            raise ValueError(f"held: must be 0 to n = {n} and add up to {len(self.rows_held)} rows")
        self.trials, self.n, self.d = len(self.held), n, self.rows_held.shape[1]

    @property
    def _trial(self) -> NDArray[np.intp]:
        """Index of the trial of every stored vector."""
        return np.repeat(np.arange(self.trials), self.held)

    @property
    def _start(self) -> Ints:
        """Index of the first stored vector of each trial."""
        return np.asarray(np.cumsum(self.held) - self.held)

    def _sum(self, values: Floats) -> Floats:
        """Return the sum of `values` over the stored vectors of each trial.

        `values` has one row for each stored vector; the result has one row for each trial.
        """
        total = np.zeros((self.trials, values.shape[1]))
        nonempty = self.held > 0
        if nonempty.any():
            total[nonempty] = np.add.reduceat(values, self._start[nonempty], axis=0)
        return total

    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        self._check_listable()
        rows = np.zeros((self.n, self.d))
        places = rng.choice(self.n, self.held[trial], replace=False)
        start = self._start[trial]
        rows[places] = self.rows_held[start : start + places.size]
        return rows

    def mean(self) -> Floats:
        return self._cache_answer(lambda: self._sum(self.rows_held / self.n), "mean")

    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        return self._average_offsets(0.0, *self._broadcast_bounds(lower, upper))

    def centred_mean(self, centre: float | Floats, half_width: float | Floats) -> Floats:
        middle, half = self._broadcast_bounds(centre, half_width)
        return self._average_offsets(middle, -half, half)

    def _average_offsets(self, *bounds: float | Floats) -> Floats:
        """Return the mean of clip(x - centre, low, high) over the rows x of each trial."""
        c, low, high = (np.broadcast_to(b, (self.trials, 1)) for b in bounds)
        at = self._trial
        with np.errstate(over="ignore"):
            moved = np.clip(self.rows_held - c[at], low[at], high[at])
        zeros = (self.n - self.held)[:, None] / self.n
        return np.asarray(self._sum(moved / self.n) + zeros * np.clip(-c, low, high))

    def columns(self) -> CountedSample:
        return self._columns

    @cached_property
    def _columns(self) -> CountedSample:
        return _Columns(self, np.arange(self.trials * self.d), MAX_COLUMN_ATOMS)

    def rows(self) -> Rows:
        zeros = np.zeros((self.trials, self.d))
        trial = np.concatenate([self._trial, np.arange(self.trials)])
        order = np.argsort(trial, kind="stable")
        counts = np.concatenate([np.ones(len(self.rows_held)), self.n - self.held])
        rows = np.clip(
            np.concatenate([self.rows_held, zeros])[order], -MAX_COORDINATE, MAX_COORDINATE
        )
        return Rows(self.n, trial[order], rows, counts[order])

    def listed(self) -> tuple[Floats, Floats]:
        rows = np.zeros((self.trials, self.held.max() + 1, self.d))
        counts = np.zeros(rows.shape[:2])
        counts[:, 0] = self.n - self.held
        trial = self._trial
        place = 1 + np.arange(trial.size) - self._start[trial]
        rows[trial, place] = self.rows_held
        counts[trial, place] = 1
        return rows, counts

    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        parts = []
        left, total, start = self.held, self.n, self._start
        for size in sizes:
            whole = np.full(self.trials, total)
            taken = hypergeometric(rng, left, whole, np.full(self.trials, size))
            parts.append(type(self)(self.rows_held[_runs(start, taken)], taken, size))
            left, total, start = left - taken, total - size, start + taken
        return parts

    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        if parts == 1:
            return [self]
        sizes = part_sizes(self.n, parts)
        cut = self.split(sizes, rng)
        large = sizes.count(sizes[0])
        return [self._interleave(parts) for parts in (cut[:large], cut[large:]) if parts]

    def _half_squared_differences(self, rng: np.random.Generator) -> Self:
        """Return a sample with a record (x - y)^2/2 for each of floor(n/2) disjoint pairs (x, y).

        Here x and y are records, which are vectors. The square is taken in each coordinate. Pairs
        are drawn at random.
        """
        if self.n < 2:
            raise ValueError(f"n: {self.n}: pairs need at least 2 records")
        half = self.n // 2
        first_half, second_half = self._split([half, half], rng)
        paired = hypergeometric(rng, second_half.held, np.full(self.trials, half), first_half.held)
        first, second = _runs(first_half._start, paired), _runs(second_half._start, paired)
        partners = np.zeros_like(first_half.rows_held)
        partners[first] = second_half.rows_held[second]
        unpaired = np.delete(second_half.rows_held, second, axis=0)
        rows = np.concatenate(
            [
                half_squares(first_half.rows_held, partners),
                half_squares(unpaired, np.zeros_like(unpaired)),
            ]
        )
        trial = np.concatenate([first_half._trial, np.delete(second_half._trial, second)])
        order = np.lexsort((rng.random(trial.size), trial))  # restores the exchangeable order
        return type(self)(rows[order], first_half.held + second_half.held - paired, half)

    def _interleave(self, groups: Sequence[Self]) -> Self:
        """Merge several samples of one group per trial into one sample of all groups.

        All groups have equal size. Each group is a dataset of the merged sample. The groups of the
        first trial come first, then the groups of the second trial, and so on.
        """
        trial = np.concatenate([group._trial for group in groups])
        order = np.argsort(trial, kind="stable")
        rows = np.concatenate([group.rows_held for group in groups])[order]
        return type(self)(rows, np.stack([g.held for g in groups], axis=1).ravel(), groups[0].n)


class _Columns(CountedSample):
    """Coordinates of sparse vectors as datasets of numbers, stored as counts of distinct values.

    For vectors of d coordinates there are d datasets for each trial. Dataset i holds coordinate j
    of trial t, where t d + j is entry i of the array `order`. If the datasets are divided into
    parts, groups or pairs, all coordinates of a vector stay together, because they are one record.
    """

    def __init__(
        self, of: SparseSample, order: NDArray[np.intp], max_atoms: float = np.inf
    ) -> None:
        self.trials, self.n, self.d = order.size, of.n, 1
        self._of, self._order, self._max_atoms = of, order, max_atoms
        self._seed: int | None = None

    @cached_property
    def _counted(self) -> CountedSample:
        """Number of records at each distinct value of every coordinate, as a `CountedSample`.

        The numbers are computed on first use, because most parts of a sample never need them.
        """
        of = self._of
        atoms, code = _atoms(of.rows_held.ravel())
        if atoms.size > self._max_atoms:
            raise ValueError(
                f"coordinates have {atoms.size} distinct values, above {self._max_atoms}"
            )
        column = of._trial[:, None] * of.d + np.arange(of.d)
        cell = column.ravel() * atoms.size + code
        counts = np.bincount(cell, minlength=of.trials * of.d * atoms.size)
        counts = counts.reshape(-1, atoms.size)
        counts[:, np.searchsorted(atoms, 0.0)] += of.n - np.repeat(of.held, of.d)
        return CountedSample(atoms, counts[self._order])

    @property
    def atoms(self) -> Floats:  # type: ignore[override]
        return self._counted.atoms

    @property
    def counts(self) -> Ints:  # type: ignore[override]
        return self._counted.counts

    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        if self._seed is None:  # one order of the records for all coordinates of a trial
            self._seed = int(rng.integers(2**63))
        t, j = divmod(int(self._order[trial]), self._of.d)
        return self._of.records(t, np.random.default_rng([self._seed, t]))[:, j].copy()

    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        return [
            type(self)(part, self._order, self._max_atoms) for part in self._of.split(sizes, rng)
        ]

    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        if parts == 1:
            return [self]
        trial, coordinate = np.divmod(self._order[:, None], self._of.d)
        samples = []
        for cut in self._of.groups(parts, rng):
            groups_per_trial = cut.trials // self._of.trials
            order = (trial * groups_per_trial + np.arange(groups_per_trial)) * cut.d + coordinate
            samples.append(type(self)(cut, order.ravel(), self._max_atoms))
        return samples

    def half_squared_differences(self, rng: np.random.Generator) -> Self:
        return type(self)(self._of._half_squared_differences(rng), self._order)


def _runs(start: Ints, size: Ints) -> Ints:
    """Return the indices start[i], ..., start[i] + size[i] - 1 for all i, concatenated."""
    return np.asarray(np.repeat(start - (np.cumsum(size) - size), size) + np.arange(size.sum()))


def _atoms(values: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return the sorted distinct numbers among `values` and 0, and the index of each value."""
    # Comparing all values with the atoms of a few is cheaper than sorting all values.
    atoms = np.unique(np.append(values[:PROBE], 0.0))
    if atoms.size <= MAX_COMPARED_ATOMS:
        code = np.add.reduce([values > atom for atom in atoms[:-1]], axis=0, dtype=np.intp)
    else:
        code = np.minimum(np.searchsorted(atoms, values), atoms.size - 1)
    if np.array_equal(atoms[code], values):
        return atoms, code
    atoms, code = np.unique(np.append(values, 0.0), return_inverse=True)
    return atoms, code[:-1]
