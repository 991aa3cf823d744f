"""Datasets with few distinct values, stored as the number of records at each value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Floats, Ints
from dpbench.samples.base import (
    Sample,
    half_squares,
    part_sizes,
    share_of_records,
)
from dpbench.samples.bins import Bins, Occupied, run_starts
from dpbench.samples.dense import DenseSample
from dpbench.samples.hypergeometric import cut_counts, cut_groups, draw_without_replacement

__all__ = ["MAX_PAIRED_ATOMS", "CountedSample"]

# Largest number of distinct values to count pairs of records, because there are m^2 kinds of pairs.
MAX_PAIRED_ATOMS = 64


class CountedSample(Sample):
    """Datasets of numbers, stored as the number of records at each distinct value.

    The time and memory of a statistic do not grow with the number n of records.

    Parameters
    ----------
    atoms : array_like of shape (m,)
        Distinct values, finite and increasing.
    counts : array_like of int, shape (trials, m)
        Number of records at each distinct value, at least 0. Every row adds up to the same n.
    """

    def __init__(self, atoms: ArrayLike, counts: ArrayLike) -> None:
        self.atoms = np.asarray(atoms, dtype=float)
        self.counts = np.asarray(counts, dtype=np.int64)
        if not np.all(np.isfinite(self.atoms)) or np.any(self.atoms[1:] <= self.atoms[:-1]):
            raise ValueError(f"atoms must be finite and increasing, got {self.atoms}")
        if not np.array_equal(self.counts, counts):
            raise ValueError("counts must be whole numbers")
        if self.counts.ndim != 2 or self.counts.shape[1] != self.atoms.size or not len(self.counts):
            raise ValueError(
                f"expected counts of shape (trials, {self.atoms.size}), got {self.counts.shape}"
            )
        totals = self.counts.sum(axis=1)
        if np.any(self.counts < 0) or np.any(totals != totals[0]) or totals[0] < 1:
            raise ValueError("counts must be non-negative, with the same positive total per trial")
        self.trials, self.n, self.d = len(totals), int(totals[0]), 1

    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        self._check_listable()
        values = np.repeat(self.atoms, self.counts[trial])
        rng.shuffle(values)
        return values

    def mean(self) -> Floats:
        return self._average(self.atoms)

    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        return self._average(np.clip(self.atoms, *self._broadcast_bounds(lower, upper)))

    def clipped_square(self, lower: float, upper: float, centre: float | Floats = 0.0) -> Floats:
        return self._average((np.clip(self.atoms, lower, upper) - centre) ** 2)

    def centred_mean(self, centre: float | Floats, half_width: float | Floats) -> Floats:
        middle, half = self._broadcast_bounds(centre, half_width)
        with np.errstate(over="ignore"):
            return self._average(np.clip(self.atoms - middle, -half, half))

    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = self._broadcast_bounds(lower, upper)
        inside = (self.atoms >= low) & (self.atoms < high)
        return np.asarray((self.counts * inside).sum(axis=1), dtype=float)

    def clipped_values(self, lower: float, upper: float) -> tuple[Floats, Ints]:
        return np.clip(self.atoms, lower, upper), self.counts

    def quantile(self, q: float) -> Floats:
        reached = np.cumsum(self.counts, axis=1) >= max(
            1, int(np.ceil(share_of_records(q, self.n)))
        )
        return np.asarray(self.atoms[np.argmax(reached, axis=1)])

    def trimmed_mean(self, fraction: float) -> Floats:
        cut = int(share_of_records(fraction, self.n))
        if 2 * cut >= self.n:
            raise ValueError(f"cutting {fraction} from each end leaves nothing")
        upto = np.clip(np.cumsum(self.counts, axis=1) - cut, 0, self.n - 2 * cut)
        counts = np.diff(upto, axis=1, prepend=0)
        return np.asarray((counts * self.atoms).sum(axis=1) / (self.n - 2 * cut))

    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        parts = cut_counts(self.counts, sizes, rng)
        return [type(self)(self.atoms, parts[:, i]) for i in range(len(sizes))]

    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        if parts == 1:
            return [self]
        groups = cut_groups(self.counts, part_sizes(self.n, parts), rng)
        return [type(self)(self.atoms, counts) for counts in groups]

    def occupied(self, bins: Bins) -> Occupied:
        index = bins.index(np.broadcast_to(self.atoms, self.counts.shape))
        first = run_starts(index)
        count = np.add.reduceat(self.counts.ravel(), first)
        trial = first // self.atoms.size
        nonempty = count > 0
        return Occupied(
            trial[nonempty], index.ravel()[first[nonempty]], count[nonempty].astype(float)
        )

    def ranked(self, first: int, last: int, at_most: int | None = None) -> tuple[Floats, Floats]:
        upto = np.clip(np.cumsum(self.counts, axis=1), first, last + 1)
        counts = np.diff(upto, axis=1, prepend=first)
        return np.broadcast_to(self.atoms, counts.shape), counts.astype(float)

    def half_squared_differences(self, rng: np.random.Generator) -> Sample:
        if self.n < 2:
            raise ValueError(f"n: {self.n}: pairs need at least 2 records")
        if self.atoms.size > MAX_PAIRED_ATOMS:
            records = np.stack([self.records(trial, rng) for trial in range(self.trials)])
            return DenseSample(records).half_squared_differences(rng)
        half = self.n // 2
        counts = cut_counts(self.counts, [half, half, 1] if self.n % 2 else [half, half], rng)
        first_half, second_half = counts[:, 0], counts[:, 1]
        pairs = []
        for atom in range(self.atoms.size):  # partners of the records at this atom
            partners = draw_without_replacement(second_half, first_half[:, atom], rng)
            second_half = second_half - partners
            pairs.append(partners)
        squares = half_squares(self.atoms[:, None], self.atoms).ravel()
        atoms, where = np.unique(squares, return_inverse=True)
        table = np.zeros((self.trials, atoms.size), dtype=np.int64)
        for code, partners in zip(where, np.concatenate(pairs, axis=1).T, strict=True):
            table[:, code] += partners
        return type(self)(atoms, table)

    def _average(self, atoms: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            mean = (self.counts * atoms).sum(axis=1) / self.n
        if not np.all(np.isfinite(mean)):
            mean = (self.counts / self.n * atoms).sum(axis=1)
        return np.asarray(mean)
