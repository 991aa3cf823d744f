"""Statistical comparison of the errors of every trial with stored errors.

A row is an estimator on a distribution, at one budget and n. Rows with equal random streams of data
and noise are compared trial by trial. These common random numbers reveal changes of a few
per cent, for which independent samples would need ten thousand trials. Other rows are compared as
independent samples. An estimator with its own source of randomness belongs to them, because its
errors never repeat.

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

from dpbench.analysis.trial_statistics import order_statistic, sort_errors, trim_tails
from dpbench.arrays import Floats
from dpbench.errors import ConfigError, check_instance
from dpbench.seeds import stream
from dpbench.sweep import metrics
from dpbench.sweep.selection import BUDGET

__all__ = ["COLUMNS", "KEY", "LEVEL", "METRICS", "MIN_BOOTSTRAP_TRIALS", "SMALLEST_CHANGE"]
__all__ += ["compare", "row_keys", "trimmed_mean", "visible_reach"]

# KEY identifies a row. The ratio new/old of each of METRICS is reported with a 95% interval.
KEY = ("estimator", "distribution", *BUDGET, "n")
METRICS = ("trimmed_mean_error", "q50", "q90")
COLUMNS = (
    *KEY,
    "comparison",
    *(f"{metric}{end}" for metric in METRICS for end in ("", "_low", "_high")),
    "smallest_detectable",
    "verdict",
)

LEVEL = 0.01  # false discovery rate: expected share of false alarms among rows called changed
# With fewer trials the spread of the bootstrap is unreliable, and only exact tests are made.
MIN_BOOTSTRAP_TRIALS = 100
SMALLEST_CHANGE = 0.02  # largest relative change that does not matter
DRAWS = 1000  # bootstrap resamples
MAX_HELD_NUMBERS = 1 << 20  # numbers of resamples that are in memory at a time
POWER = 0.9  # probability with which the smallest visible change is found


class _Test(NamedTuple):
    """Result of a test for a change of a row's errors.

    `p` is the p-value. `worse` is True if the errors have become larger in the sample.
    """

    p: float
    worse: bool


def compare(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Compare two tables of errors, row by row.

    Ratios. A row is worse (better) if its trimmed mean, median or 0.9 quantile has increased
    (decreased) by more than the share `SMALLEST_CHANGE`. The null hypothesis is a ratio of new to
    old within 1 +- SMALLEST_CHANGE. The logarithm of the ratio is taken as normal, with the
    standard deviation of its bootstrap [1]_. Failures count as infinite errors. If they make one of
    the three statistics infinite, this statistic is computed from the trials without failure.

    Rates. The rates of failures are compared and, if some errors are 0, the rates of nonzero
    errors. If the two rates differ by more than SMALLEST_CHANGE, their equality is tested exactly.

    Multiple tests. A row's p-value is its smallest p-value times the number of its tests. Over the
    table the false discovery rate is controlled at `LEVEL`, under any dependence [2]_. New failures
    are tested once more over all paired rows (compared trial by trial) together, to find a few new
    failures in each of many rows. If this test rejects, every paired row with more new than old
    failures is worse.

    Parameters
    ----------
    old, new : DataFrame
        Columns `KEY`, which identify a row; ``stream``, the name of the random streams, empty if
        the estimator has its own source of randomness; ``errors``, an array of absolute errors of
        shape (trials,), not finite if nothing was released.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`, one row per row of either table. ``comparison`` is ``bits`` if the
        random streams and all errors are equal. Otherwise it is ``paired`` (compared trial by
        trial) or ``unpaired``. It is empty if only one table has the row.
        ``smallest_detectable`` is the change of the trimmed mean that would be found with
        probability 0.9. ``verdict`` is one of `dpbench.tracking.verdicts.TRACKING`.
    """
    from scipy.stats import binomtest

    for name, table in (("old", old), ("new", new)):
        check_instance(name, table, pd.DataFrame, "a table of errors", "a DataFrame")
        if missing := {*KEY, "stream", "errors"} - {*table.columns}:
            raise ConfigError(f"{name}: no column {min(missing)!r}; write a table of errors")
    before, after = _errors_by_key(old), _errors_by_key(new)
    rows: list[dict[str, object]] = []
    tests: dict[int, list[_Test]] = {}
    failures: dict[int, tuple[int, int]] = {}
    for key in {**before, **after}:
        old_errors, new_errors = before.get(key), after.get(key)
        row = dict(zip(KEY, key, strict=True))
        if old_errors is None or new_errors is None:
            rows.append(row | {"verdict": "new" if old_errors is None else "gone"})
            continue
        comparison, row_tests = _compare_row(old_errors, new_errors, "|".join(map(str, key)))
        if row_tests:
            tests[len(rows)] = row_tests
        if comparison["comparison"] == "paired":
            failures[len(rows)] = _count_failures(old_errors[1], new_errors[1])
        rows.append(row | comparison)
    _fill_verdicts(rows, tests)
    gained, lost = np.sum([*failures.values(), (0, 0)], axis=0)
    if gained > lost and binomtest(gained, gained + lost).pvalue <= LEVEL:
        for index, (new_failures, old_failures) in failures.items():
            if new_failures > old_failures:
                rows[index]["verdict"] = "worse"
    return pd.DataFrame(rows, columns=list(COLUMNS))


def row_keys(table: pd.DataFrame) -> list[tuple[object, ...]]:
    """Return for every row the values that identify it: estimator, distribution, budget and n.

    The values are the columns `KEY` of the table. A missing value is None, for example the delta of
    a budget without delta.
    """
    columns = (
        [None if pd.isna(value) else value for value in table[name].tolist()] for name in KEY
    )
    return list(zip(*columns, strict=True))


def _errors_by_key(table: pd.DataFrame) -> dict[tuple[object, ...], tuple[str, Floats]]:
    values = zip(table["stream"], table["errors"], strict=True)
    return dict(zip(row_keys(table), values, strict=True))


def _compare_row(
    before: tuple[str, Floats], after: tuple[str, Floats], name: str
) -> tuple[dict[str, object], list[_Test]]:
    """Return the ratios of a row's new to its old errors, and the tests for a change.

    There are no tests if the random streams and all errors are equal.
    """
    (old_stream, old), (new_stream, new) = before, after
    paired = old_stream == new_stream != ""
    if paired:
        old, new = old[: len(new)], new[: len(old)]
        if np.array_equal(old, new, equal_nan=True):
            return {"comparison": "bits", "verdict": "same"}, []
    row: dict[str, object] = {"comparison": "paired" if paired else "unpaired"}
    tests = [_test_rates(~np.isfinite(old), ~np.isfinite(new), paired=paired)]
    if (old == 0).any() or (new == 0).any():  # errors of decisions: 0 if right
        tests.append(_test_rates(old != 0, new != 0, paired=paired))
    log_ratios = _log_ratios(old, new, name, paired=paired)
    released = _drop_failures(old, new, paired=paired)
    for metric in METRICS:
        logs = log_ratios[metric]
        if not np.isfinite(logs).all() and len(released[0]) < len(old):
            logs = _log_ratios(*released, name, paired=paired)[metric]
        if not np.isfinite(logs).all():
            continue
        estimate, replicates = float(logs[0]), logs[1:]
        ends = np.quantile(replicates, (0.025, 0.975))
        names = (metric, f"{metric}_low", f"{metric}_high")
        row |= dict(zip(names, np.exp((estimate, *ends)), strict=True))
        spread = float(replicates.std(ddof=1))
        tests.append(_test_ratio(estimate, spread))
        if metric == METRICS[0]:
            row["smallest_detectable"] = spread
    return row, tests


def _count_failures(old: Floats, new: Floats) -> tuple[int, int]:
    """Count the paired trials that failed only in the new run, and only in the old run."""
    trials = min(len(old), len(new))
    before, after = (np.isfinite(errors[:trials]) for errors in (old, new))
    return int((before & ~after).sum()), int((after & ~before).sum())


def _drop_failures(old: Floats, new: Floats, *, paired: bool) -> tuple[Floats, Floats]:
    """Return the old and the new errors of trials with a release.

    Paired trials are kept only if both runs have a release.
    """
    old_released, new_released = np.isfinite(old), np.isfinite(new)
    if paired:
        old_released = new_released = old_released & new_released
    return old[old_released], new[new_released]


def _log_ratios(old: Floats, new: Floats, name: str, *, paired: bool) -> dict[str, Floats]:
    """Return ln(new/old) of the trimmed mean, the median and the 0.9 quantile of errors.

    Each array begins with the value for the errors. The values for bootstrap resamples of the
    errors follow. For too few trials the result is NaN.
    """
    if min(len(old), len(new)) < MIN_BOOTSTRAP_TRIALS:
        return dict.fromkeys(METRICS, np.full(1, np.nan))
    rng = stream("tracking", name)
    pairs = (
        _resample_metrics(rng, old, new)
        if paired
        else [*_resample_metrics(rng, old), *_resample_metrics(rng, new)]
    )
    before, after = pairs
    with np.errstate(divide="ignore", invalid="ignore"):
        return {metric: np.log(after[metric]) - np.log(before[metric]) for metric in METRICS}


def trimmed_mean(errors: Floats) -> float:
    """Return the trimmed mean of errors; a failure counts as an infinite error."""
    return float(_compute_metrics(errors, np.arange(len(errors))[None])["trimmed_mean_error"][0])


def _resample_metrics(rng: np.random.Generator, *samples: Floats) -> list[dict[str, Floats]]:
    """Return the trimmed mean, the median and the 0.9 quantile of errors and of their resamples.

    Each array has the shape (1 + DRAWS,). It has the value for the errors, and then the values for
    DRAWS bootstrap resamples. If there are two samples of errors, a resample has the same indices
    of trials in both samples.
    """
    trials = len(samples[0])
    metrics = [[_compute_metrics(errors, np.arange(trials)[None])] for errors in samples]
    batch = max(1, MAX_HELD_NUMBERS // trials)  # there may be 10^5 trials
    for first in range(0, DRAWS, batch):
        draws = rng.integers(trials, size=(min(batch, DRAWS - first), trials))
        for parts, errors in zip(metrics, samples, strict=True):
            parts.append(_compute_metrics(errors, draws))
    return [{name: np.concatenate([part[name] for part in p]) for name in METRICS} for p in metrics]


def _compute_metrics(errors: Floats, draws: NDArray[np.int64]) -> dict[str, Floats]:
    """Return the trimmed mean, the median and the 0.9 quantile of resampled errors.

    Each row of `draws` is a resample, given by indices into `errors`.
    """
    ascending, trials = sort_errors(errors[draws]), len(errors)
    trimmed_means = {"trimmed_mean_error": trim_tails(ascending).mean(axis=1)}
    return trimmed_means | {
        metric: ascending[:, order_statistic(metrics.METRICS[metric].q, trials) - 1]
        for metric in METRICS[1:]
    }


def _test_ratio(estimate: float, spread: float) -> _Test:
    """Test whether the ratio of new to old errors is within 1 +- SMALLEST_CHANGE (two-sided).

    `estimate` is the logarithm of the ratio, which is taken as normal. `spread` is its standard
    deviation.
    """
    beyond = abs(estimate) - np.log1p(SMALLEST_CHANGE)
    if spread == 0:
        return _Test(0.0 if beyond > 0 else 1.0, estimate > 0)
    return _Test(min(1.0, 2 * float(ndtr(-beyond / spread))), estimate > 0)


def _test_rates(before: NDArray[np.bool_], after: NDArray[np.bool_], *, paired: bool) -> _Test:
    """Test exactly whether an event has equal rates in the old and in the new run.

    The test is McNemar's if trials are paired, and Fisher's otherwise. If the rates differ by at
    most SMALLEST_CHANGE, the p-value is 1.
    """
    from scipy.stats import binomtest, fisher_exact

    difference = float(after.mean() - before.mean())
    if abs(difference) <= SMALLEST_CHANGE:
        return _Test(1.0, worse=False)
    if paired:
        gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
        p = binomtest(gained, gained + lost).pvalue
    else:
        p = fisher_exact(np.array([[m.sum(), (~m).sum()] for m in (before, after)])).pvalue
    return _Test(float(p), difference > 0)


def _fill_verdicts(rows: list[dict[str, object]], tests: dict[int, list[_Test]]) -> None:
    """Write into each compared row its verdict, and the smallest change that would be found."""
    from scipy.stats import false_discovery_control

    if not tests:
        return
    p_values = np.array([min(1.0, len(t) * min(test.p for test in t)) for t in tests.values()])
    rejected = false_discovery_control(p_values, method="by") <= LEVEL
    limit = p_values[rejected].max() if rejected.any() else -1.0
    for index, row_tests in tests.items():
        row = rows[index]
        rejected_sides = {test.worse for test in row_tests if len(row_tests) * test.p <= limit}
        row["verdict"] = (
            "worse"
            if True in rejected_sides
            else "better"
            if rejected_sides
            else "changed-within-noise"
        )
        spread = row.get("smallest_detectable")
        if isinstance(spread, float):
            reach = sum(visible_reach(len(tests), len(row_tests)))
            row["smallest_detectable"] = float((1 + SMALLEST_CHANGE) * np.exp(reach * spread) - 1)


def visible_reach(rows: int, tests: int) -> tuple[float, float]:
    """Return the parts, `margin` and `level`, of the smallest change that a test is likely to find.

    A change is found if its estimate exceeds the critical value `level`, a normal quantile, if no
    other p-value of the table is small. If the true change is margin + level, it is found with
    probability `POWER`; `margin` is the normal quantile at `POWER`. Both parts are in standard
    deviations of the estimate, and are counted from the end of the tolerated range 1 +-
    `SMALLEST_CHANGE`. The numbers are of the tested rows and of the tests of each row.
    """
    # Benjamini-Yekutieli threshold for a single small p-value.
    threshold = LEVEL / (rows * sum(1 / i for i in range(1, rows + 1)))
    return float(ndtri(POWER)), float(-ndtri(threshold / tests / 2))
