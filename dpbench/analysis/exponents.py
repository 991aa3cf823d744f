"""Power laws fitted to errors, and intervals of what is measured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpbench.arrays import Floats

__all__ = ["Measured", "interval", "slopes"]

LEVEL = 0.95


class Measured(NamedTuple):
    """A number with its 95% interval."""

    value: float
    low: float
    high: float


def interval(numbers: Floats) -> Measured:
    """The first number, with the percentile bootstrap interval of the others, its replicates."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(numbers[1:], [tail, 1 - tail])
    return Measured(float(numbers[0]), float(low), float(high))


def slopes(errors: Floats, *columns: Floats) -> list[Floats]:
    """Least-squares slopes of log errors, (m, draws), on the logarithms of columns, (m,) each.

    Raises
    ------
    ValueError
        If all values of a column are equal, or follow from those of others.
    """
    design = np.stack([np.ones_like(columns[0]), *map(np.log, columns)], axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError("the fit needs at least two distinct values of every variable")
    return list(np.linalg.pinv(design) @ np.log(errors))[1:]
