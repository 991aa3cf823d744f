"""Statistical comparison of the errors of every trial with stored errors.

Rows with equal streams of data and noise are compared trial by trial: with common random numbers,
changes of a few per cent are exact, where independent trials would need ten thousand. Other rows
are compared as independent samples. So are rows of estimators with their own source of randomness,
whose errors never repeat.

References
----------
.. [1] B. Efron, R. Tibshirani, "An introduction to the bootstrap", 1993, chapters 6 and 16.
.. [2] Y. Benjamini, D. Yekutieli, "The control of the false discovery rate in multiple testing
   under dependency", Annals of Statistics 2001, Theorem 1.3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpbench.analysis.summary import order_statistic, ordered, trimmed
from dpbench.arrays import Floats
from dpbench.seeds import stream
from dpbench.sweep import metrics
from dpbench.sweep.selection import BUDGET

__all__ = ["COLUMNS", "KEY", "LEAST_TRIALS", "LEVEL", "METRICS", "SMALLEST"]
__all__ += ["compare", "keys_of", "trimmed_mean", "visible_reach"]

# KEY identifies a row. For each of METRICS the ratio new/old is compared, with a 95% interval.
KEY = ("estimator", "distribution", *BUDGET, "n")
METRICS = ("trimmed_mean", "q50", "q90")
COLUMNS = (
    *KEY,
    "comparison",
    *(f"{metric}{end}" for metric in METRICS for end in ("", "_low", "_high")),
    "smallest_visible",
    "verdict",
)

LEVEL = 0.01  # false discovery rate: expected share of false alarms among rows called changed
# With fewer trials the bootstrap's spread is unreliable, and only exact tests are made.
LEAST_TRIALS = 100
SMALLEST = 0.02  # largest relative change that does not matter
DRAWS = 1000  # bootstrap resamples
HELD = 1 << 20  # numbers of resamples held at a time
POWER = 0.9  # probability with which the smallest visible change is found


class _Test(NamedTuple):
    """A p-value, and True if a rejection means that the row is worse."""

    p: float
    worse: bool


def compare(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Compare two tables of errors, row by row.

    Ratios. A row is worse (better) if its trimmed mean, median or 0.9 quantile is, by more than
    `SMALLEST`. The null hypothesis is a ratio within 1 +- SMALLEST; the logarithm of the ratio is
    taken as normal, with the standard deviation of its bootstrap [1]_. Failures count as infinite
    errors; a metric that they make infinite is computed from the trials without failure.

    Rates. The rate of failures, and the rate of nonzero errors if some errors are 0, are compared
    by exact tests of no change. They are made if the rates differ by more than SMALLEST.

    Multiple tests. A row's p-value is its smallest p-value times the number of its tests. Over the
    table the false discovery rate is controlled at `LEVEL`, under any dependence [2]_. New failures
    are tested once more over all paired rows together: a few in each of many rows, or in one row if
    all rows changed, are worse as well.

    Parameters
    ----------
    old, new : DataFrame
        The columns of `KEY`; ``stream``, the name of the random streams, empty if there is none;
        ``errors``, an array of absolute errors, not finite where nothing was released.

    Returns
    -------
    DataFrame
        The columns of `COLUMNS`, one row per row of either table. ``comparison`` is ``bits`` if
        all errors are equal, ``paired``, ``unpaired``, or empty. ``smallest_visible`` is the change
        of the trimmed mean that would be found with probability 0.9. ``verdict`` is one of
        `dpbench.output.verdicts.TRACKING`.
    """
    from scipy.stats import binomtest  # slow to load, here and below

    before, after = _by_key(old), _by_key(new)
    rows: list[dict[str, object]] = []
    tests: dict[int, list[_Test]] = {}
    failures: dict[int, tuple[int, int]] = {}
    for key in {**before, **after}:
        one, other = before.get(key), after.get(key)
        row = dict(zip(KEY, key, strict=True))
        if one is None or other is None:
            rows.append(row | {"verdict": "new" if one is None else "gone"})
            continue
        found, made = _compared(one, other, "|".join(map(str, key)))
        if made:
            tests[len(rows)] = made
        if found["comparison"] == "paired":
            failures[len(rows)] = _failures(one[1], other[1])
        rows.append(row | found)
    _judge(rows, tests)
    gained, lost = np.sum([*failures.values(), (0, 0)], axis=0)
    if gained > lost and binomtest(gained, gained + lost).pvalue <= LEVEL:
        for index, (more, fewer) in failures.items():
            if more > fewer:
                rows[index]["verdict"] = "worse"
    return pd.DataFrame(rows, columns=list(COLUMNS))


def keys_of(table: pd.DataFrame) -> list[tuple[object, ...]]:
    """Return the values of `KEY` of every row, None where a budget has no amount of that name."""
    keys = table[list(KEY)].astype(object).where(table[list(KEY)].notna(), None)
    return list(keys.itertuples(index=False, name=None))


def _by_key(table: pd.DataFrame) -> dict[tuple[object, ...], tuple[str, Floats]]:
    found = zip(table["stream"], table["errors"], strict=True)
    return dict(zip(keys_of(table), found, strict=True))


def _compared(
    one: tuple[str, Floats], other: tuple[str, Floats], name: str
) -> tuple[dict[str, object], list[_Test]]:
    """Return a row's ratios and the tests of it; no tests if all errors are equal."""
    (stream_one, old), (stream_other, new) = one, other
    paired = stream_one == stream_other != ""
    if paired:
        old, new = old[: len(new)], new[: len(old)]
        if np.array_equal(old, new, equal_nan=True):
            return {"comparison": "bits", "verdict": "same"}, []
    row: dict[str, object] = {"comparison": "paired" if paired else "unpaired"}
    tests = [_rates(~np.isfinite(old), ~np.isfinite(new), paired=paired)]
    if (old == 0).any() or (new == 0).any():  # errors of decisions: 0 if right
        tests.append(_rates(old != 0, new != 0, paired=paired))
    whole = _log_ratios(old, new, name, paired=paired)
    kept = _finite(old, new, paired=paired)
    for metric in METRICS:
        logs = whole[metric]
        if not np.isfinite(logs).all() and len(kept[0]) < len(old):
            logs = _log_ratios(*kept, name, paired=paired)[metric]
        if not np.isfinite(logs).all():
            continue
        estimate, replicates = float(logs[0]), logs[1:]
        ends = np.quantile(replicates, (0.025, 0.975))
        names = (metric, f"{metric}_low", f"{metric}_high")
        row |= dict(zip(names, np.exp((estimate, *ends)), strict=True))
        spread = float(replicates.std(ddof=1))
        tests.append(_ratio_test(estimate, spread))
        if metric == METRICS[0]:
            row["smallest_visible"] = spread
    return row, tests


def _failures(old: Floats, new: Floats) -> tuple[int, int]:
    """Count the pairs that failed in the new errors only, and in the old errors only."""
    trials = min(len(old), len(new))
    before, after = (np.isfinite(errors[:trials]) for errors in (old, new))
    return int((before & ~after).sum()), int((after & ~before).sum())


def _finite(old: Floats, new: Floats, *, paired: bool) -> tuple[Floats, Floats]:
    """Return the errors of trials with a release; if they are paired, with a release in both."""
    one, other = np.isfinite(old), np.isfinite(new)
    if paired:
        one = other = one & other
    return old[one], new[other]


def _log_ratios(old: Floats, new: Floats, name: str, *, paired: bool) -> dict[str, Floats]:
    """Return ln(new/old) by metric, of the errors and of every resample; NaN for few trials."""
    if min(len(old), len(new)) < LEAST_TRIALS:
        return dict.fromkeys(METRICS, np.full(1, np.nan))
    rng = stream("tracking", name)
    pairs = _resampled(rng, old, new) if paired else [*_resampled(rng, old), *_resampled(rng, new)]
    before, after = pairs
    with np.errstate(divide="ignore", invalid="ignore"):
        return {metric: np.log(after[metric]) - np.log(before[metric]) for metric in METRICS}


def trimmed_mean(errors: Floats) -> float:
    """Return the trimmed mean of errors; a failure counts as infinite."""
    return float(_statistics(errors, np.arange(len(errors))[None])["trimmed_mean"][0])


def _resampled(rng: np.random.Generator, *samples: Floats) -> list[dict[str, Floats]]:
    """Return the metrics of errors and of each resample, (1 + DRAWS,); samples share the draws."""
    trials = len(samples[0])
    found = [[_statistics(errors, np.arange(trials)[None])] for errors in samples]
    at_once = max(1, HELD // trials)  # there may be 10^5 trials
    for first in range(0, DRAWS, at_once):
        draws = rng.integers(trials, size=(min(at_once, DRAWS - first), trials))
        for parts, errors in zip(found, samples, strict=True):
            parts.append(_statistics(errors, draws))
    return [{name: np.concatenate([one[name] for one in p]) for name in METRICS} for p in found]


def _statistics(errors: Floats, draws: NDArray[np.int64]) -> dict[str, Floats]:
    """Return the metrics of every resample."""
    ascending, trials = ordered(errors[draws]), len(errors)
    found = {"trimmed_mean": trimmed(ascending).mean(axis=1)}
    return found | {
        metric: ascending[:, order_statistic(metrics.METRICS[metric].q, trials) - 1]
        for metric in METRICS[1:]
    }


def _ratio_test(estimate: float, spread: float) -> _Test:
    """Return a two-sided test of a ratio within 1 +- SMALLEST."""
    beyond = abs(estimate) - np.log1p(SMALLEST)
    if spread == 0:
        return _Test(0.0 if beyond > 0 else 1.0, estimate > 0)
    return _Test(min(1.0, 2 * float(ndtr(-beyond / spread))), estimate > 0)


def _rates(before: NDArray[np.bool_], after: NDArray[np.bool_], *, paired: bool) -> _Test:
    """Return an exact test of equal rates: McNemar's, or Fisher's if trials are not paired."""
    from scipy.stats import binomtest, fisher_exact

    difference = float(after.mean() - before.mean())
    if abs(difference) <= SMALLEST:
        return _Test(1.0, worse=False)
    if paired:
        gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
        p = binomtest(gained, gained + lost).pvalue
    else:
        p = fisher_exact(np.array([[m.sum(), (~m).sum()] for m in (before, after)])).pvalue
    return _Test(float(p), difference > 0)


def _judge(rows: list[dict[str, object]], tests: dict[int, list[_Test]]) -> None:
    """Fill in the verdicts of compared rows, and their smallest visible changes."""
    from scipy.stats import false_discovery_control

    if not tests:
        return
    p_values = np.array([min(1.0, len(t) * min(one.p for one in t)) for t in tests.values()])
    rejected = false_discovery_control(p_values, method="by") <= LEVEL
    limit = p_values[rejected].max() if rejected.any() else -1.0
    for index, made in tests.items():
        row = rows[index]
        kinds = {one.worse for one in made if len(made) * one.p <= limit}
        row["verdict"] = "worse" if True in kinds else "better" if kinds else "changed-within-noise"
        spread = row.get("smallest_visible")
        if isinstance(spread, float):
            reach = sum(visible_reach(len(tests), len(made)))
            row["smallest_visible"] = float((1 + SMALLEST) * np.exp(reach * spread) - 1)


def visible_reach(rows: int, tests: int) -> tuple[float, float]:
    """Return how many standard deviations a change needs to be found with probability `POWER`.

    Parameters
    ----------
    rows : int
        Number of rows that are tested.
    tests : int
        Number of tests of a row.

    Returns
    -------
    margin, level : float
        The normal quantile of `POWER`; and the quantile that an estimate has to exceed if its
        p-value is the only small one of the table.
    """
    # Benjamini-Yekutieli threshold for a single small p-value.
    alone = LEVEL / (rows * sum(1 / i for i in range(1, rows + 1)))
    return float(ndtri(POWER)), float(-ndtri(alone / tests / 2))
