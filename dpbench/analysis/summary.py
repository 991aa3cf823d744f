"""Statistics over the trials of many keys at once."""

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

TRIM = 0.1
NORMAL = 1.96  # the 0.975 quantile of a normal law


def order_statistic(q: float, trials: int) -> int:
    """The rank, from 1, of the sample quantile: the smallest value with q of all below or at it."""
    return max(1, int(np.ceil(q * trials - 1e-9)))


def quantile(errors: Floats, q: float) -> Floats:
    """Return the sample q-quantile along the last axis; values that are not finite are infinite."""
    rank = order_statistic(q, errors.shape[-1]) - 1
    # Copy, because a view would keep all trials in memory as long as the quantiles.
    return np.array(np.partition(_infinite(errors), rank, axis=-1)[..., rank])


def ordered(errors: Floats) -> Floats:
    """Sort along the last axis; what is not finite is infinite."""
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
    ascending : (..., trials) array
        Absolute errors in increasing order.
    q : float in (0, 1)

    Returns
    -------
    quantile, low, high : (...) arrays
        An end is 0 or infinite where no order statistic is far enough out.
    """
    trials, shape = ascending.shape[-1], ascending.shape[:-1]
    low, high = interval_ranks(q, trials)
    return (
        ascending[..., order_statistic(q, trials) - 1],
        ascending[..., low - 1] if low else np.zeros(shape),
        ascending[..., high - 1] if high <= trials else np.full(shape, np.inf),
    )


def statistics(values: Mapping[str, Floats]) -> dict[str, Floats | Ints]:
    """Statistics along the last axis of (keys, trials) arrays, by column of a summary.

    A trial without a finite release is a failure: an infinite error to quantiles and trimmed
    means, which it never improves; ``mean_error`` and ``rmse`` are over the releases there were.
    so are ``signed_mean`` and ``signed_sd``, of the errors of numbers with their signs.
    ``q90_low`` and ``q90_high`` are a distribution-free 95% interval for ``q90`` from order
    statistics. What is not known of any trial has NaN.
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
        "signed_mean": signed,
        "signed_mean_se": signed_se,
        "signed_sd": signed_se * np.sqrt(count),
    }
    for column, metric in METRICS.items():
        if column not in found:
            known = metric.of in values
            nothing = np.full(len(error), np.nan)
            found[column] = _of_metric(metric, values[metric.of], count) if known else nothing
    return found


def _of_metric(metric: Metric, measured: Floats, released: Ints) -> Floats:
    """The rate or the quantile of what a metric is of; NaN where that is not known."""
    unknown = np.isnan(measured).all(axis=1)
    if metric.of in ERRORS:  # NaN where nothing was released, and where code draws its noise
        unknown &= released > 0
    if metric.statistic == "rate":
        statistic = np.minimum(ordered(measured), 1.0).mean(axis=1)
    else:
        statistic = quantile(measured, metric.q)
    return np.where(unknown, np.nan, statistic)


def mean_and_se(values: Floats) -> tuple[Floats, Floats]:
    """The mean along the last axis and its standard error, of the finite values."""
    known = np.isfinite(values)
    count = known.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=-1) / count
        spread = np.where(known, values - mean[..., None], 0.0)
        return mean, np.sqrt((spread**2).sum(axis=-1) / (count - 1) / count)


def interval_ranks(q: float, trials: int) -> tuple[int, int]:
    """Ranks that miss the q-quantile with probability 2.5% each; 0 and trials + 1 are no ends."""
    below = bdtr(np.arange(trials + 1), trials, q)
    low, high = np.searchsorted(below, 0.025, side="right"), np.searchsorted(below, 0.975)
    return int(low), int(high) + 1


def _trimmed_mean(ascending: Floats) -> tuple[Floats, Floats]:
    """Trimmed mean and its standard error from the Winsorised variance (Tukey, McLaughlin 1963)."""
    trials, middle = ascending.shape[1], trimmed(ascending)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        winsorised = np.clip(ascending, middle[:, :1], middle[:, -1:])
        spread = winsorised.std(axis=1, ddof=1) if trials > 1 else np.full(len(ascending), np.nan)
        return middle.mean(axis=1), spread / ((1 - 2 * TRIM) * np.sqrt(trials))
