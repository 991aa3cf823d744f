"""Compute statistics over trials, for example quantiles of errors, for many results at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.special import bdtr

from dpbench.arrays import Floats, Ints
from dpbench.sweep.metrics import ERRORS, METRICS, Metric

__all__ = [
    "NORMAL", "interval_ranks", "mean_and_se", "metric_interval", "order_statistic", "quantile",
    "quantile_interval", "sort_errors", "statistics", "trim_tails",
]  # fmt: skip

TRIM = 0.1  # share of the trials that a trimmed mean cuts at each end
NORMAL = 1.96  # 0.975 quantile of the standard normal distribution


def order_statistic(q: float, trials: int) -> int:
    """Return the rank, from 1, of the sample q-quantile among values in increasing order.

    The sample q-quantile, for q in [0, 1], is the smallest value that at least a share q of all
    values do not exceed.
    """
    return max(1, int(np.ceil(q * trials - 1e-9)))


def quantile(errors: Floats, q: float) -> Floats:
    """Return the sample q-quantile of errors along the last axis; see `order_statistic`.

    The errors have shape (..., trials), in any order. Values that are not finite count as
    +infinity.
    """
    rank = order_statistic(q, errors.shape[-1]) - 1
    # Copy, because a view would keep all trials in memory as long as the quantiles.
    return np.array(np.partition(_replace_nonfinite(errors), rank, axis=-1)[..., rank])


def sort_errors(errors: Floats) -> Floats:
    """Sort errors along the last axis; errors that are not finite count as +infinity."""
    return np.sort(_replace_nonfinite(errors), axis=-1)


def _replace_nonfinite(errors: Floats) -> Floats:
    return np.where(np.isfinite(errors), errors, np.inf)


def trim_tails(ascending: Floats) -> Floats:
    """Cut off the smallest 10% and the largest 10% of sorted values along the last axis."""
    trials = ascending.shape[-1]
    cut = int(TRIM * trials)
    return ascending[..., cut : trials - cut]


def quantile_interval(ascending: Floats, q: float) -> tuple[Floats, Floats, Floats]:
    """Return the sample q-quantile and a distribution-free 95% interval from order statistics.

    `ascending`, of shape (..., trials), has absolute errors in increasing order, and q is in (0,
    1). The result is the quantile, the lower end and the upper end, each of shape (...). With too
    few trials no order statistic can be an end of the interval. Then the lower end is 0 or the
    upper end is infinite.
    """
    trials, shape = ascending.shape[-1], ascending.shape[:-1]
    low, high = interval_ranks(q, trials)
    return (
        ascending[..., order_statistic(q, trials) - 1],
        ascending[..., low - 1] if low else np.zeros(shape),
        ascending[..., high - 1] if high <= trials else np.full(shape, np.inf),
    )


def statistics(values: Mapping[str, Floats]) -> dict[str, Floats | Ints]:
    """Compute the statistics of a summary from per-trial values.

    `values` has arrays of shape (keys, trials) by name, at least ``error``. The statistics have
    shape (keys,), by name of their column in the summary.

    A trial without a finite release is a failure. In quantiles and trimmed means a failure counts
    as an infinite error, because failures must not improve these statistics. ``mean_error``,
    ``rmse``, ``bias`` and ``signed_sd`` are over the trials with a release. ``bias`` and
    ``signed_sd`` are the mean and the standard deviation of signed errors. Both are NaN if the mean
    is a vector, because only the error of a number has a sign. ``q90_low`` and ``q90_high`` are the
    ends of a distribution-free 95% interval for ``q90`` from order statistics. Some quantities, for
    example the width of an interval, may be measured in no trial. Then their statistics are NaN.
    """
    error = values["error"]
    trials, released = error.shape[1], np.isfinite(error)
    count, finite_errors = released.sum(axis=1), np.where(released, error, 0.0)
    mean, mean_se = mean_and_se(error)
    signed, signed_se = mean_and_se(values.get("signed", np.full_like(error, np.nan)))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        rmse = np.sqrt((finite_errors**2).sum(axis=1) / count)
    ascending = sort_errors(error)
    q90, q90_low, q90_high = quantile_interval(ascending, 0.9)
    trimmed_mean, trimmed_se = _trimmed_mean(ascending)
    columns: dict[str, Floats | Ints] = {
        "trials": np.full(len(error), trials),
        "failures": trials - count,
        "failure_rate": 1 - count / trials,
        "mean_error": mean,
        "mean_error_se": mean_se,
        "rmse": rmse,
        "q50": ascending[:, order_statistic(0.5, trials) - 1],
        "q90": q90,
        "q90_low": q90_low,
        "q90_high": q90_high,
        "trimmed_mean_error": trimmed_mean,
        "trimmed_mean_error_se": trimmed_se,
        "bias": signed,
        "bias_se": signed_se,
        "signed_sd": signed_se * np.sqrt(count),
    }
    for column, metric in METRICS.items():
        if column not in columns:
            has_values = metric.of in values
            unknown = np.full(len(error), np.nan)
            columns[column] = (
                _compute_metric(metric, values[metric.of], count) if has_values else unknown
            )
    return columns


def _compute_metric(metric: Metric, measured: Floats, released: Ints) -> Floats:
    """Compute a rate or a quantile over the trials of each row of values.

    A metric is a statistic of one measurement, for example the 0.9 quantile of the error. Return
    NaN for rows without values of this measurement.
    """
    unknown = np.isnan(measured).all(axis=1)
    if metric.of in ERRORS:  # NaN without a release, and if other code draws the noise
        unknown &= released > 0
    if metric.statistic == "rate":
        statistic = np.minimum(sort_errors(measured), 1.0).mean(axis=1)
    else:
        statistic = quantile(measured, metric.q)
    return np.where(unknown, np.nan, statistic)


def metric_interval(rows: pd.DataFrame, metric: str) -> tuple[pd.Series[float], pd.Series[float]]:
    """Return the ends of the 95% interval of a metric for each row of a summary.

    The metric is a column of the summary, a name in `dpbench.sweep.metrics.METRICS`. The ends are
    NaN for a metric without an interval, and infinite if the trials are too few.
    """
    description = METRICS[metric]
    low = high = pd.Series(np.nan, rows.index)
    if description.interval is None:
        pass
    elif description.statistic == "quantile":
        low, high = rows[f"{metric}_low"], rows[f"{metric}_high"]
    elif description.statistic == "rate":
        from scipy.stats import beta

        hits, trials = rows[metric] * rows["trials"], rows["trials"]
        ends = np.asarray(beta.ppf([[0.025], [0.975]], hits + 0.5, trials - hits + 0.5))
        low, high = (pd.Series(end, rows.index) for end in ends)
    else:
        half = NORMAL * rows[f"{metric}_se"]
        low, high = rows[metric] - half, rows[metric] + half
    return low, high


def mean_and_se(values: Floats) -> tuple[Floats, Floats]:
    """Return the mean of the finite values along the last axis, and the mean's standard error."""
    finite = np.isfinite(values)
    count = finite.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = np.where(finite, values, 0.0).sum(axis=-1) / count
        spread = np.where(finite, values - mean[..., None], 0.0)
        return mean, np.sqrt((spread**2).sum(axis=-1) / (count - 1) / count)


def interval_ranks(q: float, trials: int) -> tuple[int, int]:
    """Return the ranks of two order statistics that enclose the q-quantile with 95% probability.

    An order statistic of rank r is the r-th smallest of the values, from 1; q is in (0, 1). The
    order statistic of the lower rank exceeds the quantile with probability at most 2.5%. The order
    statistic of the higher rank lies below the quantile with probability at most 2.5%. If there is
    no such order statistic, the lower rank is 0 or the higher rank is trials + 1.
    """
    below = bdtr(np.arange(trials + 1), trials, q)
    low, high = np.searchsorted(below, 0.025, side="right"), np.searchsorted(below, 0.975)
    return int(low), int(high) + 1


def _trimmed_mean(ascending: Floats) -> tuple[Floats, Floats]:
    """Return the 10% trimmed mean of each row of sorted errors, and its standard error.

    The standard error is based on the Winsorised variance (Tukey and McLaughlin 1963).
    """
    trials, middle = ascending.shape[1], trim_tails(ascending)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        winsorised = np.clip(ascending, middle[:, :1], middle[:, -1:])
        spread = winsorised.std(axis=1, ddof=1) if trials > 1 else np.full(len(ascending), np.nan)
        return middle.mean(axis=1), spread / ((1 - 2 * TRIM) * np.sqrt(trials))
