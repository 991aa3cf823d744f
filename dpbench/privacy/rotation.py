"""Random rotations that spread a vector evenly over its coordinates."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import hadamard

from dpbench.arrays import Floats

__all__ = ["Rotation", "walsh_hadamard"]


def walsh_hadamard(x: Floats) -> Floats:
    """The orthonormal Walsh-Hadamard transform along the last axis, of a power of two; its inverse.

    H of size ab is the Kronecker product of those of a and b: two products with matrices of some
    sqrt(d) rows, so n vectors cost n d^(3/2), in place of n d^2.
    """
    bits = x.shape[-1].bit_length() - 1
    rows, columns = 2 ** (bits // 2), 2 ** (bits - bits // 2)
    square = (x.reshape(-1, columns) @ hadamard(columns, float)).reshape(-1, rows, columns)
    found = hadamard(rows, float) @ square if rows > 1 else square
    return np.asarray(found.reshape(x.shape) / np.sqrt(x.shape[-1]))


class Rotation(NamedTuple):
    """Rounds of random signs and `walsh_hadamard`, an orthogonal matrix for every trial.

    After them no coordinate of a vector x, padded with zeros to D = a power of two, is larger than
    about |x| sqrt(2 ln(D)/D) (Ailon, Chazelle 2006). It does not depend on the data.
    """

    signs: Floats  # (rounds, trials, D)

    @classmethod
    def drawn(cls, rng: np.random.Generator, trials: int, d: int, rounds: int = 3) -> Self:
        """A rotation of vectors of d coordinates for each trial."""
        size = 1 << (d - 1).bit_length()
        return cls(np.where(rng.random((rounds, trials, size)) < 0.5, -1.0, 1.0))

    def there(self, x: Floats) -> Floats:
        """Rotate (trials, m, d) vectors: (trials, m, D)."""
        x = np.pad(x, ((0, 0), (0, 0), (0, self.signs.shape[2] - x.shape[2])))
        for sign in self.signs:
            x = walsh_hadamard(x * sign[:, None])
        return x

    def back(self, x: Floats, d: int) -> Floats:
        """Rotate (trials, D) vectors back, and keep d coordinates."""
        for sign in self.signs[::-1]:
            x = walsh_hadamard(x) * sign
        return x[:, :d]
