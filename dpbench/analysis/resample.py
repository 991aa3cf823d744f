"""Bootstrap over trials: replicates of a statistic for every row of a table, and intervals.

Each row has its own random generator. Its seed depends only on the data and the setting of the row.
Therefore the replicates of a row do not depend on the other rows of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dpbench.analysis.summary_table import Results
from dpbench.analysis.trial_statistics import order_statistic, sort_errors
from dpbench.arrays import Floats
from dpbench.seeds import stream
from dpbench.sweep.metrics import METRICS, Metric
from dpbench.sweep.selection import BUDGET, KEY

__all__ = [
    "JOINT_DRAWS",
    "Measurement",
    "interval",
    "joint_replicates",
    "quantile_replicates",
    "replicates",
    "resample_counts",
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
    if `shared` is True; see `joint_replicates`.
    """
    table = results.summary
    measured = table[column].to_numpy(float)
    metric = METRICS[column]
    names = ["|".join(map(str, row)) for row in table[KEY].itertuples(index=False)]
    if joint and metric.of in results.values:
        values = results.values[metric.of]
        draws = joint_replicates(table, values, metric.statistic, metric.q, shared=shared)
    elif metric.statistic == "mean":
        noise = [stream("bootstrap", "mean", name).standard_normal(DRAWS) for name in names]
        draws = measured[:, None] + table[[f"{column}_se"]].to_numpy() * np.stack(noise)
    else:
        named = zip(names, results.values[metric.of], strict=True)
        draws = np.stack([_trial_replicates(*one, metric) for one in named])
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


def joint_replicates(
    table: pd.DataFrame,
    values: Sequence[Floats],
    statistic: str,
    q: float = 0.0,
    *,
    shared: bool,
) -> Floats:
    """Return replicates of a statistic for every row; rows on equal data draw the same trials.

    Errors on equal data are dependent. Equal draws keep this dependence in comparisons of rows.
    If `shared` is True, rows of different budgets are on equal data.

    Each row of the table has a vector of per-trial values. Values that are not finite count as
    +infinity. The result has shape (rows, JOINT_DRAWS).
    """
    data = table[["distribution", "n", *([] if shared else BUDGET)]].reset_index(drop=True)
    data = data.assign(trials=[len(vector) for vector in values])
    draws = np.empty((len(data), JOINT_DRAWS))
    for rows in data.groupby([*data], dropna=False, sort=False).indices.values():
        *names, trials = next(data.iloc[rows[:1]].itertuples(index=False))
        counts = resample_counts("|".join(map(str, names)), trials)
        for row in rows:
            vector = np.where(np.isfinite(values[row]), values[row], np.inf)
            draws[row] = (
                _resampled_quantile(vector, counts, q)
                if statistic == "quantile"
                else _resampled_mean(vector, counts, statistic)
            )
    return draws


def resample_counts(data: str, trials: int) -> Floats:
    """Return how often each trial stands in each resample, of shape (trials, JOINT_DRAWS).

    `data` names the data of the trials. It alone determines the random numbers.
    """
    index = stream("bootstrap", "joint", data).integers(trials, size=(JOINT_DRAWS, trials))
    index += trials * np.arange(JOINT_DRAWS)[:, None]
    counts = np.bincount(index.ravel(), minlength=JOINT_DRAWS * trials)
    return counts.reshape(JOINT_DRAWS, trials).T.astype(np.float32, order="C")  # exact below 2^24


def _resampled_mean(values: Floats, counts: Floats, statistic: str) -> Floats:
    """Return the mean of each resample, or the root of the mean square for ``rms``."""
    powers = values**2 if statistic == "rms" else values
    finite = np.isfinite(powers)
    means = np.where(finite, powers, 0) @ counts / len(values)
    means = np.where(~finite @ counts > 0, np.inf, means)
    return np.asarray(np.sqrt(means) if statistic == "rms" else means)


def _resampled_quantile(values: Floats, counts: Floats, q: float) -> Floats:
    """Return the sample quantile of level `q` of each resample, without sorting the resamples.

    Let j be the rank of the quantile, and order the N trials by their values. A resample's quantile
    is the value of the first trial up to which the resample has j trials. The number of resampled
    trials among the first j has standard deviation sqrt(j (1 - j/N)). So the first such trial is
    nearly always within eight standard deviations of j, and only these trials are looked at. If a
    resample has its quantile elsewhere, all trials are.
    """
    trials = len(values)
    rank, order = order_statistic(q, trials), np.argsort(values, kind="stable")
    near = int(8 * np.sqrt(rank * (1 - rank / trials))) + 8
    for low, high in ((max(0, rank - near), min(trials, rank + near)), (0, trials)):
        window = counts[order[low:high]]
        above = counts[order[high:]].sum(axis=0)
        reached = trials - above - window.sum(axis=0) + np.cumsum(window, axis=0)
        if reached[0].max() < rank <= reached[-1].min():
            break
    return np.asarray(values[order[low + np.argmax(reached >= rank, axis=0)]])
