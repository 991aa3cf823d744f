"""Exact error of a clipped mean of columns whose bounds differ (`dpbench.estimators.columns`).

Column j has the sensitivity D_j = w_j/n for bounds of width w_j. If no record is clipped, the mean
square error is the sum of the sampling variances and of the noise variances of the columns. The
formulas follow the definition of the three splits; no estimator is called.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbench import distributions as dist
from dpbench.arrays import Floats
from dpbench.estimators import ColumnsClippedMean
from dpbench.privacy import GDP, ZCDP, Budget
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for
from dpbench.theory.exact.noise import additive, box_noise

__all__ = ["column_variances"]

NAN = float("nan")
SAFE_DEVIATIONS = 6.0  # Gaussian records farther from the mean are too rare to matter


def column_variances(split: str, moves: Floats, units: Floats, budget: Budget) -> Floats:
    """Return the variance of the noise of every column.

    Parameters
    ----------
    split : {'equal', 'sensitivity', 'norm'}
        Division of the budget, as in `ColumnsClippedMean`.
    moves : (d,) array
        Sensitivity D_j of every column, in the unit of the data.
    units : (d,) array
        Size of an error that counts as 1 in every column.
    budget : Budget
        Privacy budget.

    Returns
    -------
    (d,) array
        Variances.
    """
    d = moves.size
    if split == "norm":
        return np.asarray(box_noise(budget, d, 1.0).variance * moves**2)
    weights = np.ones(d)
    if split == "sensitivity":
        weights = moves / units
        weights = weights if isinstance(budget, ZCDP | GDP) else np.cbrt(weights) ** 2
    shares = weights / weights.sum()
    return np.array(
        [
            move**2 * additive(budget.fraction(float(share)), 1.0, 1.0).variance
            for move, share in zip(moves, shares, strict=True)
        ]
    )


@exact_for(ColumnsClippedMean)
def _column_rmse(metric: str, e: Any, law: dist.Distribution, setting: ReleaseSetting) -> float:
    """Return the exact root mean square error; NaN if records are clipped, or for other metrics."""
    d, n = law.d, setting.n
    lower, upper, units = (
        np.broadcast_to(np.asarray(values, dtype=float), (d,))
        for values in (e.lower, e.upper, e.units)
    )
    if metric != "rmse":
        return NAN
    if isinstance(law, dist.Hypercube):  # fixed records, so that no sampling error counts
        half = law.length / np.sqrt(d)
        low, high, sampling = np.full(d, -half), np.full(d, half), 0.0
    elif isinstance(law, dist.MultivariateGaussian):
        deviations = SAFE_DEVIATIONS * np.sqrt(np.diag(law.covariance))
        low, high, sampling = law.mean - deviations, law.mean + deviations, law.variance / n
    else:
        return NAN
    if np.any(low < lower) or np.any(high > upper):
        return NAN
    noise = column_variances(e.split, (upper - lower) / n, units, setting.budget)
    return float(np.sqrt(noise.sum() + sampling))
