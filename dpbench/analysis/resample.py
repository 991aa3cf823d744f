"""Bootstrap over trials: replicates of a statistic for every row of a table, and intervals.

Each row has its own random stream, so that its replicates do not depend on other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dpbench.analysis.results import Results
from dpbench.analysis.summary import order_statistic, ordered, quantile
from dpbench.arrays import Floats
from dpbench.seeds import stream
from dpbench.sweep.metrics import METRICS, Metric
from dpbench.sweep.selection import BUDGET, KEY

__all__ = [
    "JOINT_DRAWS",
    "Measurement",
    "interval",
    "quantile_replicates",
    "replicates",
    "resampled",
]

DRAWS = 1000
JOINT_DRAWS = 400
LEVEL = 0.95


class Measurement(NamedTuple):
    """Number with its 95% interval."""

    measured: float
    low: float
    high: float


def interval(numbers: Floats) -> Measurement:
    """Return the first number with its 95% percentile interval; the others are its replicates."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(numbers[1:], [tail, 1 - tail])
    return Measurement(float(numbers[0]), float(low), float(high))


def replicates(
    results: Results, column: str, *, joint: bool = False, shared: bool = False
) -> Floats:
    """Return a column of a summary with bootstrap replicates.

    Quantiles and rates resample the kept per-trial values. A mean uses its normal approximation,
    unless `joint` is set and its values were kept.

    Parameters
    ----------
    results : Results
        Summary with kept values.
    column : str
        A metric, see `dpbench.sweep.metrics.METRICS`.
    joint : bool, default False
        Whether rows on equal data resample equal trials, see `resampled`.
    shared : bool, default False
        Whether rows of different budgets are on equal data.

    Returns
    -------
    ndarray of shape (rows, 1 + draws)
        The column, then its replicates.
    """
    table = results.summary
    known = table[column].to_numpy(float)
    metric = METRICS[column]
    names = ["|".join(map(str, row)) for row in table[KEY].itertuples(index=False)]
    if joint and metric.of in results.values:
        resamples = resampled(table, results.values[metric.of], shared=shared)
        draws = np.stack([_statistic(one[1:], metric) for one in resamples])
    elif metric.statistic == "mean":
        noise = [stream("bootstrap", "mean", name).standard_normal(DRAWS) for name in names]
        draws = known[:, None] + table[[f"{column}_se"]].to_numpy() * np.stack(noise)
    else:
        values = zip(names, results.values[metric.of], strict=True)
        draws = np.stack([_of_trials(*one, metric) for one in values])
    return np.concatenate([known[:, None], draws], axis=1)


def _of_trials(name: str, values: Floats, metric: Metric) -> Floats:
    """Return replicates of a rate, a root mean square or a quantile; NaN if values are unknown.

    A rate of k in N trials has replicates from Beta(k + 1/2, N - k + 1/2), whose quantiles are
    Jeffreys' interval. A bootstrap of N trials without a miss would never show a miss.
    """
    trials, rng, total = len(values), stream("bootstrap", name), values.sum()
    if not trials or (metric.statistic == "rate" and not np.isfinite(total)):
        return np.full(DRAWS, np.nan)
    if metric.statistic == "rate":
        return rng.beta(total + 0.5, trials - total + 0.5, DRAWS)
    if metric.statistic == "rms":  # over trials with a release; a mean of squares is nearly normal
        squares = values[np.isfinite(values)] ** 2
        spread = squares.std() / np.sqrt(len(squares)) if len(squares) else np.nan
        return np.asarray(
            np.sqrt(np.maximum(squares.mean() + spread * rng.standard_normal(DRAWS), 0))
        )
    return quantile_replicates(ordered(values), metric.q, rng, DRAWS)


def quantile_replicates(
    ascending: Floats, q: float, rng: np.random.Generator, draws: int
) -> Floats:
    """Return bootstrap replicates of a sample quantile, over resampled trials.

    The value of rank j among N resampled trials is the value of rank ceil(N B) among the original
    trials, where B ~ Beta(j, N - j + 1) is the j-th smallest of N uniform numbers. This draws one
    number instead of N indices.

    Parameters
    ----------
    ascending : ndarray of shape (..., trials)
        Values in increasing order.
    q : float in (0, 1]
    rng : Generator
    draws : int
        Number of replicates.

    Returns
    -------
    ndarray of shape (..., draws)
        Replicates, independent along all axes.
    """
    trials = ascending.shape[-1]
    rank = order_statistic(q, trials)
    uniform = rng.beta(rank, trials - rank + 1, (*ascending.shape[:-1], draws))
    places = np.ceil(trials * uniform).astype(int) - 1
    return np.take_along_axis(ascending, places, axis=-1)


def _statistic(values: Floats, metric: Metric) -> Floats:
    """Compute a mean, a rate, a root mean square or a quantile along the last axis."""
    if metric.statistic in ("mean", "rate"):
        return np.asarray(np.mean(values, axis=-1))
    if metric.statistic == "rms":
        return np.asarray(np.sqrt(np.mean(values**2, axis=-1)))
    return quantile(values, metric.q)


def resampled(table: pd.DataFrame, values: Sequence[Floats], *, shared: bool) -> Iterator[Floats]:
    """Resample the trials of every row, with equal indices for rows on equal data.

    Errors on equal data are dependent, and comparisons between such rows keep the dependence.

    Parameters
    ----------
    table : DataFrame
        Rows of a summary.
    values : sequence of ndarray of shape (trials,)
        Per-trial values of each row.
    shared : bool
        Whether rows of different budgets are on equal data.

    Yields
    ------
    ndarray of shape (1 + JOINT_DRAWS, trials)
        The values of a row, then its resamples. Values that are not finite are +infinity.
    """
    about = ["distribution", "n", *([] if shared else BUDGET)]
    for row, vector in zip(table[about].itertuples(index=False), values, strict=True):
        rng = stream("bootstrap", "joint", "|".join(map(str, row)))
        index = rng.integers(len(vector), size=(JOINT_DRAWS, len(vector)))
        finite = np.where(np.isfinite(vector), vector, np.inf)
        yield np.concatenate([finite[None], finite[index]])
