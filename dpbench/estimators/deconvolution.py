"""Deconvolution of normal noise by g-modelling (E16, NE20), for the private bootstrap.

The data are noisy: each is a draw from an unknown density g plus N(0, 1). The density lives on a
grid of K points, and is proportional to exp(Q a). Q is the basis of natural cubic splines on the
grid, with centred columns of norm 1. The coefficients a maximise the log-likelihood of the binned
data, minus `PENALTY` times the norm of a. All choices follow the defaults of the R package
deconvolveR (NE20) and the settings of WCA22.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtr

from dpbench.arrays import Floats

__all__ = ["deconvolve"]

PENALTY = 0.1  # WCA22
DEGREE = 5  # number of splines; default of NE20
BINS = 39  # default of NE20
POINTS = 1000  # WCA22; the penalty grows with it, because columns of Q have norm 1
REACH = 3.0  # of the grid beyond the quartiles, in interquartile ranges; WCA22


def deconvolve(values: Floats, beta: float) -> tuple[float, float]:
    """Return two quantiles of a distribution that is observed with N(0, 1) noise.

    `values` are the noisy draws, at least two of them distinct. The quantiles leave beta/2 on each
    side, and are rounded outwards to points of the grid.
    """
    from scipy.optimize import minimize

    first, third = np.quantile(values, [0.25, 0.75])
    reach = REACH * (third - first)
    grid = np.linspace(first - reach, third + reach, POINTS)
    edges = np.linspace(round(values.min(), 1), round(values.max(), 1), BINS + 1)
    counts = np.histogram(values, edges)[0]
    kept = counts > 0
    within = -np.diff(ndtr(grid - edges[:, None]), axis=0)[kept]
    weights, basis = counts[kept], _spline_basis()

    def loss(a: Floats) -> tuple[float, Floats]:
        exponent = basis @ a
        g = np.exp(exponent - exponent.max())
        g /= g.sum()
        f = np.maximum(within @ g, 1e-300)
        norm = float(np.sqrt(a @ a))
        slope = basis.T @ (g * (weights.sum() - (weights / f) @ within))
        return PENALTY * norm - float(weights @ np.log(f)), slope + PENALTY * a / max(norm, 1e-300)

    found = minimize(loss, np.ones(DEGREE), jac=True, method="BFGS")
    exponent = basis @ found.x
    below = np.cumsum(np.exp(exponent - exponent.max()))
    above = np.searchsorted(below / below[-1], [beta / 2, 1 - beta / 2], side="right")
    return float(grid[max(above[0] - 1, 0)]), float(grid[min(above[1], POINTS - 1)])


@cache
def _spline_basis() -> Floats:
    """Return the basis of natural cubic splines on the grid, (K, `DEGREE`), as R's `ns` has it.

    Columns are centred and have norm 1, so the ends of the grid do not matter. Inner knots are
    quantiles of the grid.
    """
    from scipy.interpolate import BSpline

    grid = np.linspace(0.0, 1.0, POINTS)
    inner = np.quantile(grid, np.linspace(0, 1, DEGREE + 1))[1:-1]
    knots = np.concatenate([np.repeat(grid[0], 4), inner, np.repeat(grid[-1], 4)])
    splines = BSpline(knots, np.eye(knots.size - 4), 3)
    bends = splines(grid[[0, -1]], nu=2)[:, 1:]  # second derivatives at the ends are 0
    rotation = np.linalg.qr(bends.T, mode="complete")[0]
    columns = (splines(grid)[:, 1:] @ rotation)[:, 2:]
    columns -= columns.mean(axis=0)
    return np.asarray(columns / np.linalg.norm(columns, axis=0))
