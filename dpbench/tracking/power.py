"""Power of a comparison with another processor's baseline to detect a loss of accuracy.

Another processor may round differently. A row whose bits differ is then no failure. It is compared
by the tests of `dpbench.tracking.comparison`, which detect less than equality of bits does.

Let a row's errors grow by the factor 1 + L, and let s be the standard deviation of the logarithm of
the ratio of trimmed means. The test calls the row worse if this logarithm exceeds
ln(1 + SMALLEST) + z s, with z the normal quantile at the level of the only small p-value of the
table. So the row is called worse with probability

    Phi((ln(1 + L) - ln(1 + SMALLEST))/s - z).

There are two values of s. The first is that of the comparison itself; it is 0 for equal bits, whose
trials pair. The second is that of independent trials, sqrt(u^2 + v^2) for relative standard errors
u and v of the two trimmed means. It holds if rounding has changed the draws of the trials. A loss
in many rows is detected more often, because the false discovery rate then allows larger p-values.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import ndtr

from dpbench.analysis.summary import statistics
from dpbench.arrays import Floats
from dpbench.tracking.comparison import (
    LEAST_TRIALS,
    METRICS,
    SMALLEST,
    keys_of,
    visible_reach,
)

__all__ = ["LOSSES", "power", "power_sentence"]

LOSSES = (0.05, 0.1, 0.2)  # relative growth of errors
TESTS = 1 + len(METRICS)  # a row is tested for failures, and for a ratio of each metric


def power(
    old: pd.DataFrame,
    new: pd.DataFrame,
    table: pd.DataFrame,
    losses: tuple[float, ...] = LOSSES,
) -> pd.DataFrame:
    """Return the expected share of rows that would show a loss, for each of some losses.

    Parameters
    ----------
    old, new : DataFrame
        The arguments of `dpbench.tracking.compare`.
    table : DataFrame
        The table that it returned.
    losses : tuple of float > 0
        Relative growth of all errors of a row.

    Returns
    -------
    DataFrame
        One row per loss. ``loss``; ``seen``, the expected share of rows found worse, as they were
        compared; ``seen_independent``, this share if all trials were independent; ``compared``,
        the number of rows with other bits; ``rows``, the number of rows in both tables.
    """
    both = table[table["comparison"].notna()]
    compared = both["comparison"] != "bits"
    known, independent = _spreads(old, new, both)
    reach = visible_reach(max(1, int(compared.sum())), TESTS)
    measured = np.log((1 + both["smallest_visible"].to_numpy(float)) / (1 + SMALLEST)) / sum(reach)
    as_compared = np.where(compared, measured, np.where(known, 0.0, np.nan))
    every = visible_reach(len(both), TESTS)
    return pd.DataFrame(
        {
            "loss": loss,
            "seen": _mean_chance(loss, as_compared, reach[1]),
            "seen_independent": _mean_chance(loss, independent, every[1]),
            "compared": int(compared.sum()),
            "rows": len(both),
        }
        for loss in losses
    )


def _spreads(old: pd.DataFrame, new: pd.DataFrame, both: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return which rows have trimmed means, and their ratios' spreads if independent, or NaN."""
    square = np.zeros(len(both))
    for rows in (old, new):
        by_key = dict(zip(keys_of(rows), rows["errors"], strict=True))
        errors = [np.asarray(by_key[key]) for key in keys_of(both)]
        found = [statistics({"error": one[None]}) for one in errors]
        mean, se = (
            np.array([one[name][0] for one in found])
            for name in ("trimmed_mean", "trimmed_mean_se")
        )
        many = np.array([len(one) for one in errors]) >= LEAST_TRIALS
        usable = np.isfinite(mean) & (mean > 0) & many
        with np.errstate(divide="ignore", invalid="ignore"):
            square += np.where(usable, (se / mean) ** 2, np.nan)
    return np.isfinite(square), np.sqrt(square)


def _mean_chance(loss: float, spread: Floats, level: float) -> float:
    """Return the mean probability that a row shows a loss; 0 for rows of spread NaN."""
    beyond = np.log1p(loss) - np.log1p(SMALLEST)
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = np.where(spread > 0, ndtr(beyond / spread - level), float(beyond > 0))
    return float(np.where(np.isnan(spread), 0.0, chance).mean()) if spread.size else 0.0


def power_sentence(found: pd.DataFrame) -> str:
    """Return the result of `power` as two sentences."""
    losses, seen, independent = (
        ", ".join(f"{one:.0%}" for one in found[name].astype(float))
        for name in ("loss", "seen", "seen_independent")
    )
    compared, rows = (int(found[name].iloc[0]) for name in ("compared", "rows"))
    return (
        f"Another processor: {compared} of {rows} rows have other bits and are "
        f"compared statistically. Power: a loss of {losses} would be seen in {seen} of the rows as "
        f"they were compared, in {independent} if all trials were independent."
    )
