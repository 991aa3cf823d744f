"""From errors per trial to one row per distribution, estimator, budget and n."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtr

from dpbench.seeds import stream

__all__ = ["CELL", "order_statistic", "quantile_replicates", "summarise"]

Floats = NDArray[np.float64]

# What a row of a summary is about; distribution labels are those of the configuration.
CELL = (
    "distribution",
    "family",
    "k",
    "estimator",
    "privacy",
    "epsilon",
    "delta",
    "rho",
    "n",
    "d",
    "lower_bound",
)
TRIM = 0.1
PARTS = ("sampling", "bias", "noise", "private")


def order_statistic(q: float, trials: int) -> int:
    """The rank, from 1, of the sample quantile: the smallest value with q of all below or at it."""
    return max(1, int(np.ceil(q * trials - 1e-9)))


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Summarise errors per trial.

    A trial without a finite release is a failure. Quantiles and trimmed means count it
    as an infinite error, so that a failure never improves them; `mean_error` and `rmse`
    are over the releases there were.

    Parameters
    ----------
    rows : DataFrame
        The columns of `CELL` and the absolute ``error, sampling, bias, noise, private``;
        the trials of a cell in order.

    Returns
    -------
    DataFrame
        One row per cell, in the order of their first rows. ``q90_low`` and ``q90_high``
        are a distribution-free 95% interval for ``q90`` from order statistics.
    """
    code = rows.groupby(list(CELL), sort=False, dropna=False, observed=True).ngroup().to_numpy()
    counts = np.bincount(code)
    order = np.argsort(code, kind="stable")
    starts = np.cumsum(counts) - counts
    cells = rows.iloc[order[starts]][list(CELL)].reset_index(drop=True)
    columns: dict[str, Floats] = {}
    for trials in np.unique(counts):
        chosen = np.flatnonzero(counts == trials)
        index = order[starts[chosen][:, None] + np.arange(trials)]
        values = {m: rows[m].to_numpy()[index] for m in ("error", *PARTS)}
        for name, column in _statistics(values).items():
            columns.setdefault(name, np.full(len(cells), np.nan))[chosen] = column
    table = pd.concat([cells, pd.DataFrame(columns)], axis=1)
    table = table.astype({"trials": int, "failures": int})
    return table[[*(c for c in table if c != "lower_bound"), "lower_bound"]]


def _statistics(values: dict[str, Floats]) -> dict[str, Floats]:
    """Statistics along the last axis of (cells, trials) arrays."""
    error = values["error"]
    trials = error.shape[1]
    released = np.isfinite(error)
    count = released.sum(axis=1)
    kept = np.where(released, error, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = kept.sum(axis=1) / count
        spread = np.where(released, error - mean[:, None], 0.0)
        mean_se = np.sqrt((spread**2).sum(axis=1) / (count - 1) / count)
        rmse = np.sqrt((kept**2).sum(axis=1) / count)
    ordered = _sorted(error)
    low, high = _q90_ranks(trials)
    trimmed, trimmed_se = _trimmed(ordered)
    statistics = {
        "trials": np.full(len(error), float(trials)),
        "failures": (trials - count).astype(float),
        "failure_rate": 1 - count / trials,
        "mean_error": mean,
        "mean_error_se": mean_se,
        "rmse": rmse,
        "q50": ordered[:, order_statistic(0.5, trials) - 1],
        "q90": ordered[:, order_statistic(0.9, trials) - 1],
        "q90_low": ordered[:, low - 1] if low else np.zeros(len(error)),
        "q90_high": ordered[:, high - 1] if high <= trials else np.full(len(error), np.inf),
        "trimmed_mean": trimmed,
        "trimmed_mean_se": trimmed_se,
    }
    for part in PARTS:
        statistics[f"{part}_q90"] = _sorted(values[part])[:, order_statistic(0.9, trials) - 1]
    return statistics


def _sorted(values: Floats) -> Floats:
    return np.sort(np.where(np.isfinite(values), values, np.inf), axis=1)


def _q90_ranks(trials: int) -> tuple[int, int]:
    """Ranks whose order statistics hold the 0.9 quantile with probability >= 95%.

    The number of trials below it is Binomial(trials, 0.9); each end misses with at most
    2.5%. Rank 0 stands for no lower end, rank trials + 1 for no upper one.
    """
    below = bdtr(np.arange(trials + 1), trials, 0.9)
    low = int(np.searchsorted(below, 0.025, side="right"))
    high = int(np.searchsorted(below, 0.975, side="left")) + 1
    return low, high


def _trimmed(ordered: Floats) -> tuple[Floats, Floats]:
    """Trimmed mean and its standard error from the Winsorised variance (Tukey, McLaughlin 1963)."""
    trials = ordered.shape[1]
    cut = int(TRIM * trials)
    middle = ordered[:, cut : trials - cut]
    with np.errstate(invalid="ignore", divide="ignore"):
        winsorised = np.clip(ordered, middle[:, :1], middle[:, -1:])
        spread = winsorised.std(axis=1, ddof=1) if trials > 1 else np.full(len(ordered), np.nan)
        return middle.mean(axis=1), spread / ((1 - 2 * TRIM) * np.sqrt(trials))


def quantile_replicates(rows: pd.DataFrame, metric: str, *, draws: int, q: float = 0.9) -> Floats:
    """Bootstrap replicates of the q-quantile of `metric` in every cell of `rows`.

    Resampling N trials and taking the order statistic of rank j gives the original
    value of rank ceil(N B), where B ~ Beta(j, N - j + 1) is the j-th of N uniforms: the
    bootstrap over trials, without drawing N indices. Each cell has its own stream, so
    that other cells change nothing.

    Parameters
    ----------
    rows : DataFrame
        As for `summarise`.
    metric : str
        A column of errors.
    draws : int
        Replicates.

    Returns
    -------
    (cells, draws) array
        In the order of `summarise`.
    """
    groups = rows.groupby(list(CELL), sort=False, dropna=False, observed=True)
    code, values = groups.ngroup().to_numpy(), rows[metric].to_numpy()
    order, counts = np.argsort(code, kind="stable"), np.bincount(code)
    replicates = np.empty((len(counts), draws))
    first = rows.iloc[order[np.cumsum(counts) - counts]]
    about = first[[c for c in CELL if c != "lower_bound"]].itertuples(index=False)
    names = ["|".join(str(value) for value in row) for row in about]
    for cell, (name, errors) in enumerate(
        zip(names, np.split(values[order], np.cumsum(counts)[:-1]), strict=True)
    ):
        trials, rank = len(errors), order_statistic(q, len(errors))
        uniform = stream("bootstrap", metric, name).beta(rank, trials - rank + 1, draws)
        ordered = np.sort(np.where(np.isfinite(errors), errors, np.inf))
        replicates[cell] = ordered[np.ceil(trials * uniform).astype(int) - 1]
    return replicates
