"""Datasets of vectors, most of them zero."""

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
from dpbench.samples.rows import LARGEST, Rows

__all__ = ["SparseSample"]

MOST_ATOMS = 64  # largest number of distinct values of coordinates for `columns`
PROBE = 4096  # values from which `_atoms` guesses the distinct values
FEW = 8  # largest number of distinct values that `_atoms` compares with one at a time


class SparseSample(Sample):
    """Datasets of vectors that store only the nonzero vectors, so that n may reach 1e12.

    The stored vectors of a trial must be in exchangeable order, like independent draws, because
    `split` assigns them to parts in this order.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        Stored vectors, finite: the vectors of the first trial, then of the second, and so on.
    held : ndarray of int, shape (trials,)
        Number of stored vectors of each trial; the sum is m.
    n : int
        Records in each dataset, zeros included.
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
        """Trial of every stored row."""
        return np.repeat(np.arange(self.trials), self.held)

    @property
    def _start(self) -> Ints:
        """Index of the first stored row of each trial."""
        return np.asarray(np.cumsum(self.held) - self.held)

    def _sum(self, values: Floats) -> Floats:
        """Return the sum over the stored rows of each trial, (trials, columns of `values`)."""
        total = np.zeros((self.trials, values.shape[1]))
        some = self.held > 0
        if some.any():
            total[some] = np.add.reduceat(values, self._start[some], axis=0)
        return total

    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        self._check_held()
        rows = np.zeros((self.n, self.d))
        places = rng.choice(self.n, self.held[trial], replace=False)
        start = self._start[trial]
        rows[places] = self.rows_held[start : start + places.size]
        return rows

    def mean(self) -> Floats:
        return self._once(lambda: self._sum(self.rows_held / self.n), "mean")

    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = (np.broadcast_to(b, (self.trials, 1)) for b in self._ends(lower, upper))
        moved = np.clip(self.rows_held, low[self._trial], high[self._trial])
        zeros = (self.n - self.held)[:, None] / self.n
        return np.asarray(self._sum(moved / self.n) + zeros * np.clip(0.0, low, high))

    def columns(self) -> CountedSample:
        return self._columns

    @cached_property
    def _columns(self) -> CountedSample:
        return _Columns(self, np.arange(self.trials * self.d), MOST_ATOMS)

    def rows(self) -> Rows:
        zeros = np.zeros((self.trials, self.d))
        trial = np.concatenate([self._trial, np.arange(self.trials)])
        order = np.argsort(trial, kind="stable")
        counts = np.concatenate([np.ones(len(self.rows_held)), self.n - self.held])
        rows = np.clip(np.concatenate([self.rows_held, zeros])[order], -LARGEST, LARGEST)
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
        return [self._interleaved(some) for some in (cut[:large], cut[large:]) if some]

    def _half_squared_differences(self, rng: np.random.Generator) -> Self:
        """Return half the squared differences of disjoint pairs of rows, by coordinate."""
        if self.n < 2:
            raise ValueError(f"n: {self.n}: pairs need at least 2 records")
        half = self.n // 2
        one, other = self._split([half, half], rng)
        met = hypergeometric(rng, other.held, np.full(self.trials, half), one.held)
        first, second = _runs(one._start, met), _runs(other._start, met)
        partners = np.zeros_like(one.rows_held)
        partners[first] = other.rows_held[second]
        alone = np.delete(other.rows_held, second, axis=0)
        rows = np.concatenate(
            [half_squares(one.rows_held, partners), half_squares(alone, np.zeros_like(alone))]
        )
        trial = np.concatenate([one._trial, np.delete(other._trial, second)])
        order = np.lexsort((rng.random(trial.size), trial))  # restores the exchangeable order
        return type(self)(rows[order], one.held + other.held - met, half)

    def _interleaved(self, groups: Sequence[Self]) -> Self:
        """Return groups of equal size as trials of one sample, ordered by trial, then group."""
        trial = np.concatenate([group._trial for group in groups])
        order = np.argsort(trial, kind="stable")
        rows = np.concatenate([group.rows_held for group in groups])[order]
        return type(self)(rows, np.stack([g.held for g in groups], axis=1).ravel(), groups[0].n)


class _Columns(CountedSample):
    """Coordinates of sparse vectors as counted datasets; parts and pairs are cut as whole vectors.

    Dataset i is coordinate j of trial t, where order[i] = t d + j.
    """

    def __init__(self, of: SparseSample, order: NDArray[np.intp], most: float = np.inf) -> None:
        self.trials, self.n, self.d = order.size, of.n, 1
        self._of, self._order, self._most = of, order, most
        self._seed: int | None = None

    @cached_property
    def _counted(self) -> CountedSample:
        """Counted form of the coordinates, computed on first use: most splits never need it."""
        of = self._of
        atoms, code = _atoms(of.rows_held.ravel())
        if atoms.size > self._most:
            raise ValueError(f"coordinates have {atoms.size} distinct values, above {self._most}")
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
        if self._seed is None:  # so that all coordinates of a trial have their records in one order
            self._seed = int(rng.integers(2**63))
        t, j = divmod(int(self._order[trial]), self._of.d)
        return self._of.records(t, np.random.default_rng([self._seed, t]))[:, j].copy()

    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        return [type(self)(part, self._order, self._most) for part in self._of.split(sizes, rng)]

    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        if parts == 1:
            return [self]
        trial, coordinate = np.divmod(self._order[:, None], self._of.d)
        found = []
        for cut in self._of.groups(parts, rng):
            each = cut.trials // self._of.trials
            order = (trial * each + np.arange(each)) * cut.d + coordinate
            found.append(type(self)(cut, order.ravel(), self._most))
        return found

    def half_squared_differences(self, rng: np.random.Generator) -> Self:
        return type(self)(self._of._half_squared_differences(rng), self._order)


def _runs(start: Ints, size: Ints) -> Ints:
    """Return the indices start[i], ..., start[i] + size[i] - 1 for all i, concatenated."""
    return np.asarray(np.repeat(start - (np.cumsum(size) - size), size) + np.arange(size.sum()))


def _atoms(values: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return the distinct values, with 0 added, and the index among them of every value."""
    # Sorting a few values and comparing all with them is cheaper than sorting all.
    atoms = np.unique(np.append(values[:PROBE], 0.0))
    if atoms.size <= FEW:
        code = np.add.reduce([values > atom for atom in atoms[:-1]], axis=0, dtype=np.intp)
    else:
        code = np.minimum(np.searchsorted(atoms, values), atoms.size - 1)
    if np.array_equal(atoms[code], values):
        return atoms, code
    atoms, code = np.unique(np.append(values, 0.0), return_inverse=True)
    return atoms, code[:-1]
