"""Power laws fitted to errors, with intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Floats

__all__ = ["Measured", "alpha_exponent", "cost_exponent", "direct_exponent", "interval"]

LEVEL = 0.95


class Measured(NamedTuple):
    """A number with its 95% interval."""

    value: float
    low: float
    high: float


def interval(value: float, replicates: Floats) -> Measured:
    """The percentile bootstrap interval around `value`."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail])
    return Measured(float(value), float(low), float(high))


def _slopes(columns: list[Floats], errors: Floats) -> Floats:
    """Least-squares slopes of log error on log columns, one set per row of `errors`."""
    design = np.stack([np.ones_like(columns[0]), *(np.log(c) for c in columns)], axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError("the fit needs at least two distinct values of every variable")
    return np.asarray((np.linalg.pinv(design) @ np.log(errors).T)[1:])


def alpha_exponent(n: ArrayLike, errors: ArrayLike, replicates: ArrayLike) -> Measured:
    """The e in n ~ (1/alpha)^e, from errors alpha at several n.

    alpha carries the noise, so log alpha is regressed on log n; with slope b, e = -1/b.
    Every replicate is refitted.

    Parameters
    ----------
    n, errors : (m,) array_like
    replicates : (draws, m) array_like
        Bootstrap replicates of the errors.

    Raises
    ------
    ValueError
        If all n are equal.
    """
    n = np.asarray(n, dtype=float)
    stacked = np.concatenate([np.asarray(errors)[None], np.asarray(replicates)])
    exponents = -1 / _slopes([n], stacked)[0]
    return interval(exponents[0], exponents[1:])


def cost_exponent(n: ArrayLike, x: ArrayLike, errors: ArrayLike, replicates: ArrayLike) -> Measured:
    """The s in n ~ x^s at fixed alpha, from errors over a grid of both; x = 1/epsilon, say.

    With log alpha = a + b log n + c log x, keeping alpha fixed gives s = -c/b.

    Parameters
    ----------
    n, x, errors : (m,) array_like
    replicates : (draws, m) array_like

    Raises
    ------
    ValueError
        If all n, or all x, are equal.
    """
    columns = [np.asarray(n, dtype=float), np.asarray(x, dtype=float)]
    stacked = np.concatenate([np.asarray(errors)[None], np.asarray(replicates)])
    in_n, in_x = _slopes(columns, stacked)
    exponents = -in_x / in_n
    return interval(exponents[0], exponents[1:])


def direct_exponent(values: ArrayLike, replicates: ArrayLike, *columns: ArrayLike) -> Measured:
    """The c in value ~ x^c, where x is the last of `columns` and the others are held fixed.

    Parameters
    ----------
    values : (m,) array_like
    replicates : (draws, m) array_like
    *columns : (m,) array_like

    Raises
    ------
    ValueError
        If all values of a column are equal.
    """
    stacked = np.concatenate([np.asarray(values)[None], np.asarray(replicates)])
    exponents = _slopes([np.asarray(c, dtype=float) for c in columns], stacked)[-1]
    return interval(exponents[0], exponents[1:])
