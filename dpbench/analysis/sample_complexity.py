"""The smallest n that gives error alpha with probability 1 - beta, from curves on a grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from dpbench.analysis.exponents import interval
from dpbench.analysis.summary import order_statistic
from dpbench.analysis.worst_case import CURVE, OPTIONAL, curve_starts
from dpbench.arrays import Floats
from dpbench.seeds import stream

__all__ = ["joint_replicates", "sample_complexity", "smallest_n"]

DRAWS = 400
# Exponents of n in errors are at most 4 here (local model, k = 2): an error that falls by
# more than that power of n from one n to the next is at a threshold and follows no power law.
STEEPEST = 4.0


def resampled(
    summary: pd.DataFrame, errors: Sequence[Floats], *, shared: bool, draws: int = DRAWS
) -> Iterator[Floats]:
    """The errors of every row, then bootstrap resamples of them: (draws + 1, trials) arrays.

    Rows that share data resample the same trials, so that comparisons between them keep
    what they have in common.

    Parameters
    ----------
    summary : DataFrame
    errors : sequence of (trials,) arrays
        One per row.
    shared : bool
        Whether rows of different budgets share their data.
    draws : int
    """
    about = ["distribution", "n"] + ([] if shared else ["privacy", "epsilon", "delta", "rho"])
    for row, values in zip(summary[about].itertuples(index=False), errors, strict=True):
        name = "|".join(str(value) for value in row)
        index = stream("bootstrap", "joint", name).integers(len(values), size=(draws, len(values)))
        finite = np.where(np.isfinite(values), values, np.inf)
        yield np.concatenate([finite[None], finite[index]])


def _quantile(errors: Floats, q: float) -> Floats:
    rank = order_statistic(q, errors.shape[1]) - 1
    return np.asarray(np.partition(errors, rank, axis=1)[:, rank])


def joint_replicates(
    summary: pd.DataFrame, errors: Sequence[Floats], *, shared: bool, q: float = 0.9
) -> Floats:
    """Replicates of the q-quantile of every row, (rows, draws); see `resampled`."""
    found = [_quantile(e[1:], q) for e in resampled(summary, errors, shared=shared)]
    return np.stack(found)


def smallest_n(n: Floats, quantiles: Floats, alpha: float, between: Floats) -> Floats:
    """Where a curve of errors falls to alpha for good, between points of its grid.

    The first grid point from which on every quantile is at most alpha, and the point before
    it, interpolated log-log. At a threshold, where the error falls by more than
    n^-STEEPEST or is no positive number, n may be anywhere between the two points:
    there `between` says where.

    Parameters
    ----------
    n : (m,) array
        Increasing.
    quantiles : (m, draws) array
        The 1 - beta quantile of the error.
    alpha : float
    between : (draws,) array
        Positions in (0, 1), random but for the first, so that an interval covers the gap.

    Returns
    -------
    (draws,) array
        NaN where the answer is outside of the grid.
    """
    good = np.logical_and.accumulate((quantiles <= alpha)[::-1], axis=0)[::-1]
    first = np.where(good.any(axis=0), good.argmax(axis=0), 0)
    column = np.arange(quantiles.shape[1])
    last, at = np.maximum(first, 1), np.maximum(first, 1) - 1
    step = np.log(n[last] / n[at])
    with np.errstate(divide="ignore", invalid="ignore"):
        high, low = np.log(quantiles[at, column]), np.log(quantiles[last, column])
        power = (high - np.log(alpha)) / (high - low)
        smooth = high - low <= STEEPEST * step
        # Between the same two points all replicates are read off as the curve itself is.
        smooth = np.where(at == at[0], smooth[0], smooth) & np.isfinite(high) & np.isfinite(low)
    found = n[at] * np.exp(step * np.clip(np.where(smooth, power, between), 0.0, 1.0))
    return np.where(first > 0, found, np.nan)


def sample_complexity(
    summary: pd.DataFrame,
    errors: Sequence[Floats],
    alphas: Sequence[float],
    beta: float,
    *,
    shared: bool,
) -> tuple[pd.DataFrame, Floats]:
    """The smallest n for each alpha on every curve, worst over the family's members.

    Parameters
    ----------
    summary : DataFrame
        As from `summarise`, the rows that this is about.
    errors : sequence of (trials,) arrays
        One per row.
    alphas : sequence of float
    beta : float in (0, 1)
    shared : bool
        See `resampled`.

    Returns
    -------
    table : DataFrame
        A row per curve and alpha: the columns of a curve, ``alpha, beta, samples, low,
        high``, the last three NaN where the grid does not reach.
    replicates : (rows of table, draws) array
    """
    quantiles = [_quantile(e, 1 - beta) for e in resampled(summary, errors, shared=shared)]
    order, starts = curve_starts(summary)
    worst = np.maximum.reduceat(np.stack(quantiles)[order], starts, axis=0)
    kept = [*CURVE, "n", *(c for c in OPTIONAL if c in summary)]
    points = summary.iloc[order[starts]][kept].reset_index(drop=True)
    rows, replicates = [], []
    for _, curve in points.groupby(CURVE, dropna=False, observed=True):
        at = curve.sort_values("n").index.to_numpy()
        for alpha in alphas:
            n = curve.loc[at, "n"].to_numpy(float)
            name = "|".join(str(value) for value in curve.iloc[0])
            between = stream("bootstrap", "between", name, str(alpha)).random(DRAWS + 1)
            between[0] = 0.5
            found = smallest_n(n, worst[at], alpha, between)
            replicates.append(found[1:])
            known = interval(found[0], found[1:])
            rows.append(
                {
                    **curve.iloc[0].drop("n").to_dict(),
                    "alpha": alpha,
                    "beta": beta,
                    "samples": known.value,
                    # The largest of several members resamples too high, which may leave it out.
                    "low": np.minimum(known.low, known.value),
                    "high": np.maximum(known.high, known.value),
                }
            )
    return pd.DataFrame(rows), np.stack(replicates)
