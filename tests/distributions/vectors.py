"""Helpers of tests of vectors."""

from __future__ import annotations

import numpy as np

from tests.support import Floats, rng


def unit_vectors(d: int, many: int, seed: int = 0) -> Floats:
    """Return unit vectors, (3 + many, d): the first axis, two diagonals, then random directions."""
    drawn = rng(seed).normal(size=(many, d))
    given = [np.eye(d)[:1], np.ones((1, d)), (-1.0) ** np.arange(d)[None], drawn]
    rows = np.concatenate(given)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
