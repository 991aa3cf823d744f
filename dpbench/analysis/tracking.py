"""Comparing the errors of every trial with stored ones.

Rows whose streams of data and noise are the same are compared trial by trial: common random
numbers show a change of a few per cent exactly, where independent trials would need ten thousand.
Other rows are compared as independent samples.

References
----------
.. [1] B. Efron, R. Tibshirani, "An introduction to the bootstrap", 1993, chapters 6 and 16.
.. [2] Y. Benjamini, D. Yekutieli, "The control of the false discovery rate in multiple testing
   under dependency", Annals of Statistics 2001, Theorem 1.3.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binomtest, false_discovery_control, fisher_exact

from dpbench.analysis.summary import TRIM, level, order_statistic
from dpbench.seeds import stream

__all__ = ["COLUMNS", "KEY", "LEVEL", "SMALLEST", "VERDICTS", "compare"]

Floats = NDArray[np.float64]

# What a row is about, and what is compared: ratios new/old with 95% intervals.
KEY = ("estimator", "distribution", "privacy", "epsilon", "delta", "rho", "n")
METRICS = ("trimmed_mean", "q50", "q90")
COLUMNS = (
    *KEY,
    "comparison",
    *(f"{metric}{end}" for metric in METRICS for end in ("", "_low", "_high")),
    "smallest_visible",
    "verdict",
)
VERDICTS = ("worse", "gone", "better", "new", "changed-within-noise", "same")

# Of all rows that are called better or worse, the expected share that is neither.
LEVEL = 0.01
# Changes of less do not matter.
SMALLEST = 0.02
DRAWS = 1000
POWER = 0.9


def compare(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Compare two tables of errors, row by row.

    A row is worse (better) if one of the trimmed mean, the median, the 0.9 quantile and the rate
    of failures is, by more than `SMALLEST`: the null hypothesis is a ratio within
    1 +- SMALLEST. The ratio's logarithm is taken as normal with the standard deviation of its
    bootstrap [1]_; failures are compared by exact tests. All p-values of the table enter one
    control of the false discovery rate, at `LEVEL`, under any dependence [2]_.

    Parameters
    ----------
    old, new : DataFrame
        The columns of `KEY`; ``stream``, a name of the random streams; ``errors``, an array of
        absolute errors, not finite where nothing was released.

    Returns
    -------
    DataFrame
        The columns of `COLUMNS`, one row per row of either table: ``comparison`` is ``bits``
        where all errors are equal, ``paired``, ``unpaired``, or empty; ``smallest_visible`` the
        change of the trimmed mean that would be found with probability 0.9. Verdicts are those
        of `VERDICTS`.
    """
    before, after = _by_key(old), _by_key(new)
    rows, tests = [], []
    for key in {**before, **after}:
        one, other = before.get(key), after.get(key)
        row = dict(zip(KEY, key, strict=True))
        if one is None or other is None:
            rows.append(row | {"verdict": "new" if one is None else "gone"})
            continue
        found, p_values = _compared(one, other, "|".join(map(str, key)))
        tests += [(len(rows), p, worse) for p, worse in p_values]
        rows.append(row | found)
    _judge(rows, tests)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _by_key(table: pd.DataFrame) -> dict[tuple[object, ...], tuple[str, Floats]]:
    keys = table[list(KEY)].astype(object).where(table[list(KEY)].notna(), None)
    about = keys.itertuples(index=False, name=None)
    return dict(zip(about, zip(table["stream"], table["errors"], strict=True), strict=True))


def _compared(
    one: tuple[str, Floats], other: tuple[str, Floats], name: str
) -> tuple[dict[str, object], list[tuple[float, bool]]]:
    """A row's ratios, and p-values with whether they are for worse."""
    (stream_one, old), (stream_other, new) = one, other
    paired = stream_one == stream_other
    if paired:
        old, new = old[: len(new)], new[: len(old)]
        if np.array_equal(old, new, equal_nan=True):
            return {"comparison": "bits", "verdict": "same"}, []
    rng = stream("tracking", name)
    draws = rng.integers(len(old), size=(DRAWS, len(old)))
    others = draws if paired else rng.integers(len(new), size=(DRAWS, len(new)))
    before, after = _statistics(old, draws), _statistics(new, others)
    row: dict[str, object] = {"comparison": "paired" if paired else "unpaired"}
    tests = [_failures(old, new, paired=paired)]
    for metric in METRICS:
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(after[metric]) - np.log(before[metric])
        estimate, replicates = logs[0], logs[1:]
        low, high = np.nanquantile(replicates, (0.025, 0.975)) if _known(logs) else (np.nan,) * 2
        names, ratios = (metric, f"{metric}_low", f"{metric}_high"), np.exp((estimate, low, high))
        row |= dict(zip(names, ratios, strict=True))
        if _known(logs):
            spread = float(replicates.std(ddof=1))
            tests.append(_test(float(estimate), spread))
            if metric == METRICS[0]:
                row["smallest_visible"] = spread
    return row, tests


def _known(logs: Floats) -> bool:
    """Whether no resample has a quantile that is 0 or infinite: else failures speak."""
    return bool(np.isfinite(logs).all())


def _statistics(errors: Floats, draws: NDArray[np.int64]) -> dict[str, Floats]:
    """The metrics of the errors themselves and of every resample, (1 + draws,) arrays."""
    whole = np.arange(len(errors))[None]
    ordered = np.sort(np.where(np.isfinite(errors), errors, np.inf)[np.concatenate([whole, draws])])
    trials = len(errors)
    cut = int(TRIM * trials)
    found = {"trimmed_mean": ordered[:, cut : trials - cut].mean(axis=1)}
    return found | {
        metric: ordered[:, order_statistic(level(metric), trials) - 1] for metric in METRICS[1:]
    }


def _test(estimate: float, spread: float) -> tuple[float, bool]:
    """A two-sided p-value for a ratio within 1 +- SMALLEST, and whether it is above 1."""
    beyond = abs(estimate) - np.log1p(SMALLEST)
    if spread == 0:
        return (0.0 if beyond > 0 else 1.0), estimate > 0
    return min(1.0, 2 * float(ndtr(-beyond / spread))), estimate > 0


def _failures(old: Floats, new: Floats, *, paired: bool) -> tuple[float, bool]:
    """An exact test of the failures' rate: McNemar's, or Fisher's where trials are not paired."""
    before, after = ~np.isfinite(old), ~np.isfinite(new)
    difference = float(after.mean() - before.mean())
    if abs(difference) <= SMALLEST:
        return 1.0, False
    if paired:
        gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
        p = binomtest(gained, gained + lost).pvalue
    else:
        table = np.array([[m.sum(), (~m).sum()] for m in (before, after)])
        p = fisher_exact(table).pvalue
    return float(p), difference > 0


def _judge(rows: list[dict[str, object]], tests: list[tuple[int, float, bool]]) -> None:
    """Fill in the verdicts of compared rows, and what change they could have shown."""
    p_values = np.array([p for _, p, _ in tests])
    adjusted = false_discovery_control(p_values, method="by") if tests else p_values
    found: dict[int, set[bool]] = {}
    for (index, _, worse), p in zip(tests, adjusted, strict=True):
        found.setdefault(index, set())
        if p <= LEVEL:
            found[index].add(worse)
    # What the smallest of the p-values has to be below, if it is alone.
    alone = LEVEL / (len(tests) * sum(1 / i for i in range(1, len(tests) + 1))) if tests else LEVEL
    reach = float(ndtri(POWER) - ndtri(alone / 2))
    for index, kinds in found.items():
        row = rows[index]
        row["verdict"] = "worse" if True in kinds else "better" if kinds else "changed-within-noise"
        spread = row.get("smallest_visible")
        if isinstance(spread, float):
            row["smallest_visible"] = float((1 + SMALLEST) * np.exp(reach * spread) - 1)
