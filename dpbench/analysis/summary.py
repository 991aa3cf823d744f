"""From errors per trial to one row per distribution, estimator, budget and n."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import bdtr

from dpbench.arrays import Floats
from dpbench.seeds import stream

__all__ = [
    "CELL",
    "ByCell",
    "level",
    "mean_replicates",
    "order_statistic",
    "quantile_replicates",
    "rate_replicates",
    "summarise",
]


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
# By what is measured in each trial: the columns of a summary, quantiles or a rate.
EXTRA_COLUMNS = {
    "width": ("width_q50",),
    "missed": ("miss_rate",),
    "outside": ("outside_q90",),
    "tv": ("tv_q50", "tv_q90"),
    "promise": ("promise_q90",),
    "core": ("core_q50",),
}


def order_statistic(q: float, trials: int) -> int:
    """The rank, from 1, of the sample quantile: the smallest value with q of all below or at it."""
    return max(1, int(np.ceil(q * trials - 1e-9)))


def level(metric: str) -> float:
    """The q of a column of quantiles, such as ``error_q90``."""
    return float(metric[-2:]) / 100


class ByCell:
    """Errors per trial, grouped into cells.

    Parameters
    ----------
    rows : DataFrame
        The columns of `CELL` and the absolute ``error, sampling, bias, noise, private``;
        the trials of a cell in order.

    Attributes
    ----------
    cells : DataFrame
        The columns of `CELL`, one row per cell, in the order of their first rows.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        groups = rows.groupby(list(CELL), sort=False, dropna=False, observed=True)
        code = groups.ngroup().to_numpy()
        self._rows = rows
        self._order = np.argsort(code, kind="stable")
        self._counts = np.bincount(code)
        self._starts = np.cumsum(self._counts) - self._counts
        first = rows.iloc[self._order[self._starts]]
        self.cells = first[list(CELL)].reset_index(drop=True)

    def errors(self, metric: str) -> list[Floats]:
        """The values of one column of errors, a vector of trials per cell; NaN if there is none."""
        if metric not in self._rows:
            return [np.full(count, np.nan) for count in self._counts]
        values = self._rows[metric].to_numpy()[self._order]
        return np.split(values, self._starts[1:])

    def summary(self) -> pd.DataFrame:
        """Statistics of every cell, beside its columns.

        A trial without a finite release is a failure. Quantiles and trimmed means count
        it as an infinite error, so that a failure never improves them; ``mean_error``
        and ``rmse`` are over the releases there were. ``q90_low`` and ``q90_high`` are a
        distribution-free 95% interval for ``q90`` from order statistics. The columns of
        `EXTRA_COLUMNS` are NaN for estimators that release no such thing.
        """
        columns: dict[str, Floats] = {}
        extras: dict[str, Floats] = {}
        for trials in np.unique(self._counts):
            chosen = np.flatnonzero(self._counts == trials)
            index = self._order[self._starts[chosen][:, None] + np.arange(trials)]
            values = {
                m: self._rows[m].to_numpy()[index]
                for m in ("error", *PARTS, *EXTRA_COLUMNS)
                if m in self._rows
            }
            for found, table_of in ((_statistics(values), columns), (_extras(values), extras)):
                for name, column in found.items():
                    table_of.setdefault(name, np.full(len(self.cells), np.nan))[chosen] = column
        table: pd.DataFrame = pd.concat([self.cells, pd.DataFrame(columns)], axis=1)
        table["lower_bound"] = table.pop("lower_bound")
        for name in (column for names in EXTRA_COLUMNS.values() for column in names):
            table[name] = extras.get(name, np.nan)
        table[["trials", "failures"]] = table[["trials", "failures"]].astype(int)
        return table


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Summarise errors per trial: one row per cell; see `ByCell`."""
    return ByCell(rows).summary()


def _statistics(values: dict[str, Floats]) -> dict[str, Floats]:
    """Statistics along the last axis of (cells, trials) arrays."""
    error = values["error"]
    trials = error.shape[1]
    released = np.isfinite(error)
    count = released.sum(axis=1)
    kept = np.where(released, error, 0.0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
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


def _extras(values: dict[str, Floats]) -> dict[str, Floats]:
    """Statistics of what only some estimators release, NaN for those that do not."""
    found = {}
    for metric, columns in EXTRA_COLUMNS.items():
        if metric not in values:
            continue
        trials = values[metric].shape[1]
        ordered = _sorted(values[metric])
        there = ~np.all(np.isnan(values[metric]), axis=1)
        for column in columns:
            if column == "miss_rate":
                statistic = np.minimum(ordered, 1.0).mean(axis=1)
            else:
                rank = order_statistic(level(column), trials)
                statistic = ordered[:, rank - 1]
            found[column] = np.where(there, statistic, np.nan)
    return found


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
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        winsorised = np.clip(ordered, middle[:, :1], middle[:, -1:])
        spread = winsorised.std(axis=1, ddof=1) if trials > 1 else np.full(len(ordered), np.nan)
        return middle.mean(axis=1), spread / ((1 - 2 * TRIM) * np.sqrt(trials))


def rate_replicates(cells: pd.DataFrame, errors: Sequence[Floats], *, draws: int = 1000) -> Floats:
    """Replicates of the mean of 0/1 errors, (cells, draws); NaN where there are none.

    From Beta(k + 1/2, N - k + 1/2), whose quantiles are Jeffreys' interval: a bootstrap of
    no miss in N trials would be certain that there never is one.
    """
    found = []
    about = cells[[c for c in CELL if c != "lower_bound"]].itertuples(index=False)
    for row, values in zip(about, errors, strict=True):
        rng = stream("bootstrap", "|".join(str(value) for value in row))
        misses = values.sum()
        known = np.isfinite(misses)
        a, b = (misses + 0.5, len(values) - misses + 0.5) if known else (1.0, 1.0)
        found.append(np.where(known, rng.beta(a, b, draws), np.nan))
    return np.stack(found)


def mean_replicates(summary: pd.DataFrame, *, draws: int = 1000) -> Floats:
    """Replicates of ``mean_error``, (cells, draws), by the central limit theorem."""
    found = []
    about = summary[[*(c for c in CELL if c != "lower_bound"), "mean_error", "mean_error_se"]]
    for *names, mean, error in about.itertuples(index=False):
        rng = stream("bootstrap", "mean", "|".join(str(name) for name in names))
        found.append(mean + error * rng.standard_normal(draws))
    return np.stack(found)


def quantile_replicates(
    cells: pd.DataFrame, errors: Sequence[Floats], *, draws: int = 1000, q: float = 0.9
) -> Floats:
    """Bootstrap replicates of the q-quantile of the errors of every cell.

    Resampling N trials and taking the order statistic of rank j gives the original
    value of rank ceil(N B), where B ~ Beta(j, N - j + 1) is the j-th of N uniforms: the
    bootstrap over trials, without drawing N indices. Each cell has its own stream, so
    that other cells change nothing.

    Parameters
    ----------
    cells : DataFrame
        The columns of `CELL`.
    errors : sequence of (trials,) arrays
        One per row of `cells`.
    draws : int
        Replicates.

    Returns
    -------
    (cells, draws) array
    """
    replicates = np.empty((len(errors), draws))
    about = cells[[c for c in CELL if c != "lower_bound"]].itertuples(index=False)
    for i, (row, values) in enumerate(zip(about, errors, strict=True)):
        trials = len(values)
        rank = order_statistic(q, trials)
        name = "|".join(str(value) for value in row)
        uniform = stream("bootstrap", name).beta(rank, trials - rank + 1, draws)
        ordered = np.sort(np.where(np.isfinite(values), values, np.inf))
        replicates[i] = ordered[np.ceil(trials * uniform).astype(int) - 1]
    return replicates
