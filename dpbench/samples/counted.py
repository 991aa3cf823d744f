"""Datasets of few distinct values, held as counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from dpbench.samples.base import Floats, Sample
from dpbench.samples.counting import hypergeometric

__all__ = ["CountedSample"]


class CountedSample(Sample):
    """Distinct values and how often each occurs: n = 1e12 costs what n = 10 does.

    Parameters
    ----------
    atoms : (m,) array_like of finite, increasing numbers
    counts : (trials, m) array_like of non-negative integers
        Every row adds up to the same n.

    Raises
    ------
    ValueError
        If atoms are not finite and increasing, or the rows do not add up alike.
    """

    def __init__(self, atoms: ArrayLike, counts: ArrayLike) -> None:
        self.atoms = np.asarray(atoms, dtype=float)
        self.counts = np.asarray(counts, dtype=np.int64)
        if not np.all(np.isfinite(self.atoms)) or np.any(np.diff(self.atoms) <= 0):
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

    def mean(self) -> Floats:
        return self._average(self.atoms)

    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = (np.asarray(b, dtype=float)[..., None] for b in (lower, upper))
        return self._average(np.clip(self.atoms, low, high))

    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        low, high = (np.asarray(b, dtype=float)[..., None] for b in (lower, upper))
        inside = (self.atoms >= low) & (self.atoms < high)
        return np.asarray((self.counts * inside).sum(axis=1), dtype=float)

    def quantile(self, q: float) -> Floats:
        reached = np.cumsum(self.counts, axis=1) >= max(1, int(np.ceil(q * self.n)))
        return np.asarray(self.atoms[np.argmax(reached, axis=1)])

    def trimmed_mean(self, fraction: float) -> Floats:
        cut = int(fraction * self.n)
        if 2 * cut >= self.n:
            raise ValueError(f"cutting {fraction} from each end leaves nothing")
        upto = np.clip(np.cumsum(self.counts, axis=1) - cut, 0, self.n - 2 * cut)
        kept = np.diff(upto, axis=1, prepend=0)
        return np.asarray((kept * self.atoms).sum(axis=1) / (self.n - 2 * cut))

    def split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        if sum(sizes) != self.n or min(sizes) < 1:
            raise ValueError(f"parts of {list(sizes)} records do not make up {self.n}")
        left = self.counts.copy()
        parts = []
        for size in sizes[:-1]:
            part = self._draw(left, size, rng)
            left = left - part
            parts.append(type(self)(self.atoms, part))
        return [*parts, type(self)(self.atoms, left)]

    @staticmethod
    def _draw(counts: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        """Draw `size` records of each row without replacement, atom by atom."""
        part = np.zeros_like(counts)
        wanted = np.full(len(counts), size, dtype=np.int64)
        remaining = counts.sum(axis=1)
        for atom in range(counts.shape[1] - 1):
            part[:, atom] = hypergeometric(rng, counts[:, atom], remaining, wanted)
            wanted = wanted - part[:, atom]
            remaining = remaining - counts[:, atom]
        part[:, -1] = wanted
        return part

    def _average(self, atoms: Floats) -> Floats:
        return np.asarray((self.counts * atoms).sum(axis=1) / self.n)
