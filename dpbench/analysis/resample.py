"""Bootstrap over trials: replicates of a statistic for every row of a table, and intervals.

Each row has its own random generator. Its seed depends only on the data and the setting of the row.
Therefore the replicates of a row do not depend on the other rows of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dpbench.analysis.results import Results
from dpbench.analysis.summary import order_statistic, quantile, sort_errors
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
    "resample_trials",
]

DRAWS = 1000
JOINT_DRAWS = 400
LEVEL = 0.95


class Measurement(NamedTuple):
    """Measured number with the lower and upper end of its 95% interval."""

    measured: float
    low: float
    high: float


def interval(numbers: Floats) -> Measurement:
    """Return a measured number with the 95% percentile interval of its bootstrap replicates.

    The first element of `numbers` is the measured number. All other elements are its replicates.
    """
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(numbers[1:], [tail, 1 - tail])
    return Measurement(float(numbers[0]), float(low), float(high))


def replicates(
    results: Results, column: str, *, joint: bool = False, shared: bool = False
) -> Floats:
    """Return the values of a metric, each followed by its replicates, of shape (rows, 1 + draws).

    Replicates of a quantile come from resampled trials. Replicates of a rate are drawn from a Beta
    distribution. Replicates of a mean or a root mean square use a normal approximation. If `joint`
    is True and the per-trial values were kept, replicates of every statistic come from resampled
    trials. Rows whose estimators ran on the same data then draw the same trials, under all budgets
    if `shared` is True; see `resample_trials`.
    """
    table = results.summary
    measured = table[column].to_numpy(float)
    metric = METRICS[column]
    names = ["|".join(map(str, row)) for row in table[KEY].itertuples(index=False)]
    if joint and metric.of in results.values:
        resamples = resample_trials(table, results.values[metric.of], shared=shared)
        draws = np.stack([_compute_statistic(arrays[1:], metric) for arrays in resamples])
    elif metric.statistic == "mean":
        noise = [stream("bootstrap", "mean", name).standard_normal(DRAWS) for name in names]
        draws = measured[:, None] + table[[f"{column}_se"]].to_numpy() * np.stack(noise)
    else:
        values = zip(names, results.values[metric.of], strict=True)
        draws = np.stack([_trial_replicates(*named, metric) for named in values])
    return np.concatenate([measured[:, None], draws], axis=1)


def _trial_replicates(name: str, values: Floats, metric: Metric) -> Floats:
    """Return bootstrap replicates of a rate, a root mean square or a quantile over trials.

    Return NaN if the values of the trials are unknown. A rate is the share of trials with an event.
    If the event occurs in k of N trials, replicates of the rate are drawn from
    Beta(k + 1/2, N - k + 1/2). The quantiles of these replicates are Jeffreys' interval. If k = 0,
    a plain bootstrap would instead give a rate of 0 in every replicate.
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
    return quantile_replicates(sort_errors(values), metric.q, rng, DRAWS)


def quantile_replicates(
    ascending: Floats, q: float, rng: np.random.Generator, draws: int
) -> Floats:
    """Return bootstrap replicates of the sample quantile of level `q`, in (0, 1].

    `ascending` has shape (..., trials), with sorted values on its last axis. The replicates have
    shape (..., draws) and are drawn independently.

    Let N be the number of trials, and j the rank of the quantile among N sorted values. Let B be
    the j-th smallest of N uniform random numbers, so B ~ Beta(j, N - j + 1). The value of rank j
    among N resampled trials is then the value of rank ceil(N B) among the original trials. So a
    replicate needs one random number instead of N.
    """
    trials = ascending.shape[-1]
    rank = order_statistic(q, trials)
    uniform = rng.beta(rank, trials - rank + 1, (*ascending.shape[:-1], draws))
    places = np.ceil(trials * uniform).astype(int) - 1
    return np.take_along_axis(ascending, places, axis=-1)


def _compute_statistic(values: Floats, metric: Metric) -> Floats:
    """Compute the statistic of a metric along the last axis of the values.

    The statistic is a mean, a rate, a root mean square or a quantile.
    """
    if metric.statistic in ("mean", "rate"):
        return np.asarray(np.mean(values, axis=-1))
    if metric.statistic == "rms":
        return np.asarray(np.sqrt(np.mean(values**2, axis=-1)))
    return quantile(values, metric.q)


def resample_trials(
    table: pd.DataFrame, values: Sequence[Floats], *, shared: bool
) -> Iterator[Floats]:
    """Resample the trials of every row of a summary, with equal indices for rows on equal data.

    Errors on equal data are dependent. Equal indices keep this dependence in comparisons of rows.
    If `shared` is True, rows of different budgets are on equal data.

    Each row has a vector of per-trial values. For each row, yield an array of shape
    (1 + JOINT_DRAWS, trials): its values, then 400 resamples of them. Values that are not finite
    become +infinity.
    """
    data_columns = ["distribution", "n", *([] if shared else BUDGET)]
    for row, vector in zip(table[data_columns].itertuples(index=False), values, strict=True):
        rng = stream("bootstrap", "joint", "|".join(map(str, row)))
        index = rng.integers(len(vector), size=(JOINT_DRAWS, len(vector)))
        finite = np.where(np.isfinite(vector), vector, np.inf)
        yield np.concatenate([finite[None], finite[index]])
