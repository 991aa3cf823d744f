"""The bootstrap over trials: replicates of a statistic of every row of a table.

Each row has its own stream, so that other rows change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from dpbench.analysis.summary import order_statistic, quantile
from dpbench.arrays import Floats
from dpbench.columns import BUDGET, KEY
from dpbench.metrics import METRICS
from dpbench.seeds import stream

__all__ = ["JOINT_DRAWS", "replicates", "resampled"]


DRAWS = 1000
JOINT_DRAWS = 400


def replicates(
    table: pd.DataFrame,
    values: Sequence[Floats] | None,
    column: str,
    *,
    joint: bool = False,
    shared: bool = False,
) -> Floats:
    """Replicates of a column of a summary, (rows, draws).

    Parameters
    ----------
    table : DataFrame
        The columns of `KEY`, and those of the column's statistic if it is the mean.
    values : sequence of (trials,) arrays, optional
        What the column is a statistic of, a vector per row; not for the mean, whose replicates are
        by the central limit theorem.
    column : str
        In `METRICS`, or ``lower_bound``, which is computed and has no error: two equal replicates.
    joint : bool
        Resample the same trials of rows on the same data, see `resampled`; for quantiles.
    shared : bool
        Whether rows of different budgets share their data, then.
    """
    if column == "lower_bound":
        return np.repeat(table[column].to_numpy()[:, None], 2, axis=1)
    metric = METRICS[column]
    names = ["|".join(map(str, row)) for row in table[KEY].itertuples(index=False)]
    if metric.statistic == "mean":
        known = zip(names, table[column], table[f"{column}_se"], strict=True)
        return np.stack([_of_mean(*one) for one in known])
    assert values is not None
    if metric.statistic == "rate":
        return np.stack([_of_rate(*one) for one in zip(names, values, strict=True)])
    if joint:
        draws = resampled(table, values, shared=shared)
        return np.stack([quantile(one[1:], metric.q) for one in draws])
    return np.stack([_of_quantile(*one, metric.q) for one in zip(names, values, strict=True)])


def _of_mean(name: str, mean: float, error: float) -> Floats:
    """By the central limit theorem."""
    rng = stream("bootstrap", "mean", name)
    return np.asarray(mean + error * rng.standard_normal(DRAWS))


def _of_rate(name: str, hits: Floats) -> Floats:
    """Of the mean of 0/1 values; NaN where there are none.

    From Beta(k + 1/2, N - k + 1/2), whose quantiles are Jeffreys' interval: a bootstrap of
    no miss in N trials would be certain that there never is one.
    """
    total = hits.sum()
    if not np.isfinite(total):
        return np.full(DRAWS, np.nan)
    rng = stream("bootstrap", name)
    return rng.beta(total + 0.5, len(hits) - total + 0.5, DRAWS)


def _of_quantile(name: str, errors: Floats, q: float) -> Floats:
    """Resampling N trials and taking the order statistic of rank j gives the original value of
    rank ceil(N B), where B ~ Beta(j, N - j + 1) is the j-th of N uniforms: the bootstrap over
    trials, without drawing N indices.
    """  # noqa: D205
    trials = len(errors)
    if not trials:
        return np.full(DRAWS, np.nan)
    rank = order_statistic(q, trials)
    uniform = stream("bootstrap", name).beta(rank, trials - rank + 1, DRAWS)
    ordered = np.sort(np.where(np.isfinite(errors), errors, np.inf))
    return np.asarray(ordered[np.ceil(trials * uniform).astype(int) - 1])


def resampled(table: pd.DataFrame, values: Sequence[Floats], *, shared: bool) -> Iterator[Floats]:
    """The values of every row, then bootstrap resamples of them: (JOINT_DRAWS + 1, trials) arrays.

    Rows that share data resample the same trials, so that comparisons between them keep
    what they have in common.

    Parameters
    ----------
    table : DataFrame
        The columns of `KEY`.
    values : sequence of (trials,) arrays
        One per row.
    shared : bool
        Whether rows of different budgets share their data.
    """
    about = ["distribution", "n", *([] if shared else BUDGET)]
    for row, vector in zip(table[about].itertuples(index=False), values, strict=True):
        rng = stream("bootstrap", "joint", "|".join(map(str, row)))
        index = rng.integers(len(vector), size=(JOINT_DRAWS, len(vector)))
        finite = np.where(np.isfinite(vector), vector, np.inf)
        yield np.concatenate([finite[None], finite[index]])
