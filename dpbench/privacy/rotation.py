"""Random rotations that spread a vector evenly over its coordinates."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import hadamard

from dpbench.arrays import Floats

__all__ = ["Rotation", "walsh_hadamard"]


def walsh_hadamard(x: Floats) -> Floats:
    """Apply the orthonormal Walsh-Hadamard transform, its own inverse, along the last axis.

    The length d of the axis must be a power of two. The transform of length a b is the Kronecker
    product of the transforms of lengths a and b. So two products with matrices of about sqrt(d)
    rows suffice: n vectors cost n d^(3/2) operations in place of n d^2.
    """
    bits = x.shape[-1].bit_length() - 1
    rows, columns = 2 ** (bits // 2), 2 ** (bits - bits // 2)
    square = (x.reshape(-1, columns) @ hadamard(columns, float)).reshape(-1, rows, columns)
    product = hadamard(rows, float) @ square if rows > 1 else square
    return np.asarray(product.reshape(x.shape) / np.sqrt(x.shape[-1]))


class Rotation(NamedTuple):
    """Random rotation for every trial: rounds of random signs and a Walsh-Hadamard transform.

    A vector x is padded with zeros to a length D, a power of two. After the rotation, with high
    probability, no coordinate is larger than about |x| sqrt(2 ln(D)/D) (Ailon, Chazelle 2006). The
    rotation does not depend on the data.
    """

    signs: Floats  # (rounds, trials, D)

    @classmethod
    def draw_rotation(cls, rng: np.random.Generator, trials: int, d: int) -> Self:
        """Draw a rotation of vectors of d coordinates for each trial.

        Each of the three rounds has random signs and a transform.
        """
        size = 1 << (d - 1).bit_length()
        return cls(np.where(rng.random((3, trials, size)) < 0.5, -1.0, 1.0))

    def apply_to(self, x: Floats) -> Floats:
        """Pad vectors with zeros to D coordinates, a power of two, and rotate them.

        The vectors have the shape (trials, m, d), the result (trials, m, D).
        """
        x = np.pad(x, ((0, 0), (0, 0), (0, self.signs.shape[2] - x.shape[2])))
        for sign in self.signs:
            x = walsh_hadamard(x * sign[:, None])
        return x

    def invert(self, x: Floats, d: int) -> Floats:
        """Apply the inverse rotation to the padded rows of x, and keep d coordinates."""
        for sign in self.signs[::-1]:
            x = walsh_hadamard(x) * sign
        return x[:, :d]
