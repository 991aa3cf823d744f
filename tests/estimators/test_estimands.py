"""Directions in which estimands differ between neighbours, from the definitions."""

from __future__ import annotations

import numpy as np

from dpbench.estimators.estimands import COVARIANCE, MEAN, REGRESSION, TABLE
from dpbench.privacy.neighbours import Pair


def test_the_direction_is_that_of_the_estimated_quantity() -> None:
    """A regression sees the product of features and response, a covariance that of coordinates."""
    rows = np.array([[1.0, 2, 3], [4, 5, 6]])
    pair = Pair.replacing("one", rows, 1, np.array([7.0, 8, 9]))
    assert MEAN.direction(pair).tolist() == [3, 3, 3]
    assert REGRESSION.direction(pair).tolist() == [7 * 9 - 4 * 6, 8 * 9 - 5 * 6]
    outer = [[a * b - c * d for b, d in zip((7, 8, 9), (4, 5, 6), strict=True)]
             for a, c in zip((7, 8, 9), (4, 5, 6), strict=True)]  # fmt: skip
    assert COVARIANCE.direction(pair).tolist() == np.ravel(outer).tolist()
    assert TABLE.direction(pair).size == 0
    removed = Pair("gone", np.array([1.0, 2, 6]), np.array([1.0, 2]))
    assert MEAN.direction(removed).tolist() == [-1.5]
