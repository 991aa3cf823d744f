"""Compute statistics over the trials of many keys at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import bdtr

from dpbench.arrays import Floats, Ints
from dpbench.sweep.metrics import ERRORS, METRICS, Metric

__all__ = [
    "NORMAL", "interval_ranks", "mean_and_se", "order_statistic", "ordered", "quantile",
    "quantile_interval", "statistics", "trimmed",
]  # fmt: skip

TRIM = 0.1  # share of the trials that a trimmed mean cuts at each end
NORMAL = 1.96  # 0.975 quantile of the standard normal distribution


def order_statistic(q: float, trials: int) -> int:
    """Return the rank, from 1, of the sample quantile.

    The sample q-quantile is the smallest value with a share q of all values below or at it.

    Parameters
    ----------
    q : float in [0, 1]
    trials : int
        Number of values.

    Returns
    -------
    int
        The rank in increasing order.
    """
    return max(1, int(np.ceil(q * trials - 1e-9)))


def quantile(errors: Floats, q: float) -> Floats:
    """Return the sample quantile along the last axis.

    Parameters
    ----------
    errors : ndarray of shape (..., trials)
        Values in any order. Those that are not finite count as +infinity.
    q : float in [0, 1]

    Returns
    -------
    ndarray of shape (...)
    """
    rank = order_statistic(q, errors.shape[-1]) - 1
    # Copy, because a view would keep all trials in memory as long as the quantiles.
    return np.array(np.partition(_infinite(errors), rank, axis=-1)[..., rank])


def ordered(errors: Floats) -> Floats:
    """Sort along the last axis; values that are not finite count as +infinity."""
    return np.sort(_infinite(errors), axis=-1)


def _infinite(errors: Floats) -> Floats:
    return np.where(np.isfinite(errors), errors, np.inf)


def trimmed(ascending: Floats) -> Floats:
    """Cut the share `TRIM` from each end of values in increasing order along the last axis."""
    trials = ascending.shape[-1]
    cut = int(TRIM * trials)
    return ascending[..., cut : trials - cut]


def quantile_interval(ascending: Floats, q: float) -> tuple[Floats, Floats, Floats]:
    """Return the sample q-quantile and a distribution-free 95% interval from order statistics.

    Parameters
    ----------
    ascending : ndarray of shape (..., trials)
        Absolute errors in increasing order.
    q : float in (0, 1)

    Returns
    -------
    quantile, low, high : ndarray of shape (...)
        The end low is 0, or high infinite, if no order statistic is far enough out.
    """
    trials, shape = ascending.shape[-1], ascending.shape[:-1]
    low, high = interval_ranks(q, trials)
    return (
        ascending[..., order_statistic(q, trials) - 1],
        ascending[..., low - 1] if low else np.zeros(shape),
        ascending[..., high - 1] if high <= trials else np.full(shape, np.inf),
    )


def statistics(values: Mapping[str, Floats]) -> dict[str, Floats | Ints]:
    """Compute the statistics of a summary from per-trial values, (keys, trials) arrays by name.

    A trial without a finite release is a failure. In quantiles and trimmed means it counts as an
    infinite error, so that failures never improve them. ``mean_error``, ``rmse``, ``bias``
    and ``signed_sd`` are over the trials with a release; the last two are statistics of signed
    errors, for numbers only. ``q90_low`` and ``q90_high`` are the ends of a distribution-free 95%
    interval for ``q90`` from order statistics. A statistic of values that no trial has is NaN.

    Returns
    -------
    dict of str to ndarray of shape (keys,)
        Statistics by column.
    """
    error = values["error"]
    trials, released = error.shape[1], np.isfinite(error)
    count, kept = released.sum(axis=1), np.where(released, error, 0.0)
    mean, mean_se = mean_and_se(error)
    signed, signed_se = mean_and_se(values.get("signed", np.full_like(error, np.nan)))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        rmse = np.sqrt((kept**2).sum(axis=1) / count)
    ascending = ordered(error)
    q90, q90_low, q90_high = quantile_interval(ascending, 0.9)
    trimmed_mean, trimmed_se = _trimmed_mean(ascending)
    found: dict[str, Floats | Ints] = {
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
        "trimmed_mean": trimmed_mean,
        "trimmed_mean_se": trimmed_se,
        "bias": signed,
        "bias_se": signed_se,
        "signed_sd": signed_se * np.sqrt(count),
    }
    for column, metric in METRICS.items():
        if column not in found:
            known = metric.of in values
            nothing = np.full(len(error), np.nan)
            found[column] = _of_metric(metric, values[metric.of], count) if known else nothing
    return found


def _of_metric(metric: Metric, measured: Floats, released: Ints) -> Floats:
    """Compute a metric that is a rate or a quantile; NaN for keys whose values are unknown."""
    unknown = np.isnan(measured).all(axis=1)
    if metric.of in ERRORS:  # NaN without a release, and if other code draws the noise
        unknown &= released > 0
    if metric.statistic == "rate":
        statistic = np.minimum(ordered(measured), 1.0).mean(axis=1)
    else:
        statistic = quantile(measured, metric.q)
    return np.where(unknown, np.nan, statistic)


def mean_and_se(values: Floats) -> tuple[Floats, Floats]:
    """Return the mean of the finite values along the last axis, and its standard error."""
    known = np.isfinite(values)
    count = known.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=-1) / count
        spread = np.where(known, values - mean[..., None], 0.0)
        return mean, np.sqrt((spread**2).sum(axis=-1) / (count - 1) / count)


def interval_ranks(q: float, trials: int) -> tuple[int, int]:
    """Return the ranks of the order statistics that end a 95% interval for the q-quantile.

    Parameters
    ----------
    q : float in (0, 1)
    trials : int
        Number of values.

    Returns
    -------
    low, high : int
        Ranks from 1, each missing the quantile with probability of at most 2.5%. They are 0 and
        trials + 1 if there is no such order statistic.
    """
    below = bdtr(np.arange(trials + 1), trials, q)
    low, high = np.searchsorted(below, 0.025, side="right"), np.searchsorted(below, 0.975)
    return int(low), int(high) + 1


def _trimmed_mean(ascending: Floats) -> tuple[Floats, Floats]:
    """Return trimmed means with standard errors by Winsorised variance (Tukey, McLaughlin 1963)."""
    trials, middle = ascending.shape[1], trimmed(ascending)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        winsorised = np.clip(ascending, middle[:, :1], middle[:, -1:])
        spread = winsorised.std(axis=1, ddof=1) if trials > 1 else np.full(len(ascending), np.nan)
        return middle.mean(axis=1), spread / ((1 - 2 * TRIM) * np.sqrt(trials))
