"""Power of a comparison with another processor's baseline to detect a loss of accuracy.

Another processor may round differently. A row whose errors differ from the baseline in a bit is
therefore no failure. Such a row is compared by the statistical tests of
`dpbench.tracking.comparison`. These tests miss small losses that a comparison bit by bit would
show.

Let a row's errors grow by the factor 1 + L. Let s be the standard deviation of the logarithm of the
ratio of new to old trimmed mean. The test calls the row worse if this logarithm exceeds ln(1 +
SMALLEST_CHANGE) + z s. Here z is the normal quantile for the level of the test. The level is set so
that the false discovery rate is kept if no other p-value in the table is small. Hence the row is
called worse with probability

    Phi((ln(1 + L) - ln(1 + SMALLEST_CHANGE))/s - z).

The power is computed for two values of s. The first is the standard deviation that the comparison
itself estimates from paired trials. It is 0 for a row with equal bits, because all pairs of errors
are then equal. The second is the standard deviation for independent trials, sqrt(u^2 + v^2), where
u and v are the relative standard errors of the two trimmed means. It holds if rounding has changed
the draws of the trials. A loss in many rows is detected more often, because the false discovery
rate then allows larger p-values.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import ndtr

from dpbench.analysis.trial_statistics import statistics
from dpbench.arrays import Floats
from dpbench.tracking.comparison import (
    METRICS,
    MIN_BOOTSTRAP_TRIALS,
    SMALLEST_CHANGE,
    row_keys,
    visible_reach,
)

__all__ = ["LOSSES", "power", "power_sentence"]

LOSSES = (0.05, 0.1, 0.2)  # relative growths of all errors of a row
TESTS_PER_ROW = 1 + len(METRICS)  # a test of failures, and of the ratio of each metric


def power(
    old: pd.DataFrame,
    new: pd.DataFrame,
    table: pd.DataFrame,
    losses: tuple[float, ...] = LOSSES,
) -> pd.DataFrame:
    """Return the expected share of rows in which the tests would detect a loss of accuracy.

    `table` is the result of `dpbench.tracking.compare` for `old` and `new`. Losses are relative
    growths of all errors of a row; 5%, 10% and 20% by default. Each has a row with five columns.
    ``loss`` is the loss. ``seen`` is the expected share of rows with the verdict ``worse``, if all
    errors grow by the loss. ``seen`` assumes the spreads of the comparison in `table`, whose trials
    may be paired. ``seen_independent`` is the share for independent trials. ``compared`` is the
    number of rows with any unequal error. ``rows`` is the number of rows that are in both `old` and
    `new`.
    """
    shared = table[table["comparison"].notna()]
    compared = shared["comparison"] != "bits"
    has_mean, independent = _spreads(old, new, shared)
    reach = visible_reach(max(1, int(compared.sum())), TESTS_PER_ROW)
    spread = np.log(
        (1 + shared["smallest_detectable"].to_numpy(float)) / (1 + SMALLEST_CHANGE)
    ) / sum(reach)
    as_compared = np.where(compared, spread, np.where(has_mean, 0.0, np.nan))
    all_rows_reach = visible_reach(len(shared), TESTS_PER_ROW)
    return pd.DataFrame(
        {
            "loss": loss,
            "seen": _mean_chance(loss, as_compared, reach[1]),
            "seen_independent": _mean_chance(loss, independent, all_rows_reach[1]),
            "compared": int(compared.sum()),
            "rows": len(shared),
        }
        for loss in losses
    )


def _spreads(old: pd.DataFrame, new: pd.DataFrame, shared: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return which rows have usable trimmed mean errors in both tables, and the spread of each row.

    A trimmed mean is usable if it is finite and positive and comes from at least
    `MIN_BOOTSTRAP_TRIALS` trials. The spread is the standard deviation of ln(new/old), where new
    and old are the trimmed mean errors of the row, if all trials are independent. The spread is NaN
    for rows without usable trimmed means.
    """
    square = np.zeros(len(shared))
    for rows in (old, new):
        by_key = dict(zip(row_keys(rows), rows["errors"], strict=True))
        errors = [np.asarray(by_key[key]) for key in row_keys(shared)]
        summaries = [statistics({"error": row_errors[None]}) for row_errors in errors]
        mean, se = (
            np.array([summary[name][0] for summary in summaries])
            for name in ("trimmed_mean_error", "trimmed_mean_error_se")
        )
        enough = np.array([len(row_errors) for row_errors in errors]) >= MIN_BOOTSTRAP_TRIALS
        usable = np.isfinite(mean) & (mean > 0) & enough
        with np.errstate(divide="ignore", invalid="ignore"):
            square += np.where(usable, (se / mean) ** 2, np.nan)
    return np.isfinite(square), np.sqrt(square)


def _mean_chance(loss: float, spread: Floats, level: float) -> float:
    """Return the probability that a test shows a loss in a row, averaged over the rows.

    `spread` is the standard deviation of each row's log ratio of new to old error. If it is NaN,
    the probability is 0.
    """
    beyond = np.log1p(loss) - np.log1p(SMALLEST_CHANGE)
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = np.where(spread > 0, ndtr(beyond / spread - level), float(beyond > 0))
    return float(np.where(np.isnan(spread), 0.0, chance).mean()) if spread.size else 0.0


def power_sentence(table: pd.DataFrame) -> str:
    """Return two sentences that state the power to detect losses, for another processor's baseline.

    `table` is the result of `power`.
    """
    losses, detected, independent = (
        ", ".join(f"{share:.0%}" for share in table[name].astype(float))
        for name in ("loss", "seen", "seen_independent")
    )
    compared, rows = (int(table[name].iloc[0]) for name in ("compared", "rows"))
    return (
        f"Another processor: {compared} of {rows} rows have other bits and are "
        f"compared statistically. Power: a loss of {losses} would be seen in {detected} of the "
        f"rows as they were compared, in {independent} if all trials were independent."
    )
