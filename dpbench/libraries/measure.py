"""Measurement of libraries' statistics on fixed datasets: errors and times, as table rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbench.analysis.claims import COLUMNS, verdict
from dpbench.analysis.resample import Measurement
from dpbench.analysis.trial_statistics import NORMAL, mean_and_se
from dpbench.errors import AssumptionWarning, to_one_line
from dpbench.estimators import Estimator, release
from dpbench.estimators.estimands import MEAN, VARIANCE
from dpbench.libraries.hostile_columns import CASES, classify, hostile_column
from dpbench.libraries.means.expected import lower_bound
from dpbench.libraries.means.mean import LibraryMean
from dpbench.libraries.means.process import LibraryError, Releases, library
from dpbench.libraries.sweep import LibraryClaim, LibrarySettings
from dpbench.package import __version__
from dpbench.privacy import Budget
from dpbench.seeds import canonical, stream
from dpbench.sweep.block import BLOCK_NUMBERS, Setting, single_threaded_blas
from dpbench.sweep.plan import Cell

__all__ = [
    "Row",
    "RowWithErrors",
    "cell_rows",
    "claim_rows",
    "hostile_rows",
    "releases_within",
    "status",
]

# MIN_RELEASES: number of releases that are made even if they exceed the time limit. BATCH_GROWTH:
# largest ratio of the next batch to the releases so far. MIN_CLAIM_RELEASES: smallest number of
# releases on which a claim is tested.
MIN_RELEASES, BATCH_GROWTH, MIN_CLAIM_RELEASES = 3, 8, 100

Row = dict[str, Any]
# Row of a table, and signed errors of its releases in units of width/(n epsilon).
RowWithErrors = tuple[Row, NDArray[Any]]


def status(estimator: Estimator) -> tuple[str, bool]:
    """Return the version of an estimator's library and True, or an error message and False.

    The message says why the library does not run. An estimator of dpbench has the version of
    dpbench.
    """
    if not isinstance(estimator, LibraryMean):
        return __version__, True
    try:
        return library(estimator.library).version, True
    except LibraryError as error:
        return str(error), False


def _releases(
    estimator: Estimator,
    column: NDArray[Any],
    budget: Budget,
    repeats: int,
    rng: np.random.Generator,
    size: int | None,
) -> Releases:
    """Release the statistic of a column of records `repeats` times.

    The estimator is a library, or an estimator of dpbench. An estimator of dpbench makes all
    releases at once, so the time of each release is the total time divided by `repeats`.
    """
    if isinstance(estimator, LibraryMean):
        return estimator.releases(column, budget, repeats, size)
    started, message = time.perf_counter(), ""
    try:
        # Columns that contradict the bounds are part of the sweep.
        with warnings.catch_warnings(action="ignore", category=AssumptionWarning):
            values = np.asarray(release(estimator, column, budget, rng=rng, repeats=repeats))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001, recorded like an error of a library
        values, message = np.full(repeats, np.nan), to_one_line(f"{type(error).__name__}: {error}")
    seconds = np.full(repeats, (time.perf_counter() - started) / repeats)
    return Releases(values, np.full(repeats, bool(message)), seconds, message)


def releases_within(
    estimator: Estimator,
    column: NDArray[Any],
    budget: Budget,
    trials: int,
    seconds: float,
    rng: np.random.Generator,
    size: int | None = None,
) -> Releases:
    """Release the statistic of one column up to `trials` times, within a time limit in seconds.

    The first release does not count for the time limit, because it includes start-up. At least
    `MIN_RELEASES` (3) releases are made, but never more than `trials`. The generator is the source
    of noise for an estimator of dpbench; libraries draw their own. `size` is the number of records
    declared to the library, by default the true number.
    """
    batches: list[Releases] = []
    released, elapsed, count = 0, 0.0, 1
    limit = max(1, BLOCK_NUMBERS // max(1, len(column)))
    while count > 0:
        started = time.perf_counter()
        with single_threaded_blas():
            batches.append(_releases(estimator, column, budget, count, rng, size))
        elapsed += time.perf_counter() - started if released else 0.0
        released += count
        affordable = int((seconds - elapsed) * released / elapsed) if elapsed else 1
        count = min(
            trials - released,
            max(MIN_RELEASES - released, affordable),
            BATCH_GROWTH * released,
            limit,
        )
    message = next((batch.message for batch in batches if batch.message), "")
    values, raised, times = (
        np.concatenate(parts) for parts in list(zip(*batches, strict=True))[:3]
    )
    return Releases(values, raised, times, message)


def cell_rows(
    cell: Cell, settings: LibrarySettings, seed: int, skip: Mapping[str, str]
) -> Iterator[RowWithErrors]:
    """Measure each estimator on each distribution of a cell, and yield a table row with errors.

    A cell has a family of distributions, one n, and settings. A setting is an estimator with a
    budget. `skip` has the reason for leaving out a setting, by its label. The columns of records
    and the noise of dpbench follow from the seed.

    The row belongs to ``libraries.csv``. Its errors, of shape (releases,), are releases minus the
    mean or variance of the column, in units of width/(n epsilon), or width^2/(n epsilon) for a
    variance. Here width is the length of the interval of the records. If the process of a library
    ends, the row has the error message and no releases.
    """
    for member, law in cell.members:
        rng = stream("column", seed, canonical(law), cell.n)
        column = law.sample(rng, 1, cell.n).records(0, rng)
        for setting in cell.settings:
            if setting.label in skip:
                continue
            rng = stream("noise", seed, canonical(law), cell.n, *setting.stream_name)
            arguments = column, setting.budget, cell.trials, settings.seconds, rng
            try:
                releases = releases_within(setting.estimator, *arguments)
            except LibraryError as error:
                missing = np.array([np.nan])
                releases = Releases(missing, np.array([True]), missing, str(error))
            yield _row(setting, member, column, releases, settings)


def _row(
    setting: Setting,
    member: str,
    column: NDArray[Any],
    releases: Releases,
    settings: LibrarySettings,
) -> RowWithErrors:
    """Return the table row of one estimator on one column of records, and its releases' errors.

    `setting` is the estimator with its budget. An error is a release minus the mean or variance of
    the column, see `cell_rows`.
    """
    estimator, epsilon, n = setting.estimator, setting.budget.amounts[0], len(column)
    is_mean, width = estimator.estimand is MEAN, settings.upper - settings.lower
    unit = width**estimator.estimand.degree / (n * epsilon)
    errors = (releases.values - _statistic(estimator)(column)) / unit
    row = {
        "estimator": setting.label,
        "distribution": member,
        "unit": "width" if is_mean else "width^2",
        "neighbours": setting.budget.neighbours,
        "epsilon": epsilon,
        "n": n,
        "trials": len(errors),
        "failures": int((~np.isfinite(errors)).sum()),
        "failure_rate": (~np.isfinite(errors)).mean(),
    }
    for name, values in (("error", np.abs(errors)), ("bias", errors)):
        mean_value, se = mean_and_se(values)
        row |= {
            name: mean_value,
            f"{name}_low": mean_value - NORMAL * se,
            f"{name}_high": mean_value + NORMAL * se,
        }
    expected = None
    if isinstance(estimator, LibraryMean):
        expected = estimator.predict_error(column, epsilon, width)
    share = (float(column.mean()) - settings.lower) / width
    least = lower_bound(setting.budget.neighbours, share, epsilon) if is_mean else np.nan
    row |= {
        "expected_error": expected.error if expected else np.nan,
        "expected_bias": expected.bias if expected else np.nan,
        "lower_bound": least,
        "ms": 1e3 * np.median(releases.seconds[1:] if len(errors) > 1 else releases.seconds),
        "first_ms": 1e3 * releases.seconds[0],
        "message": releases.message,
    }
    return row, errors


def _statistic(estimator: Estimator) -> Callable[[Any], Any]:
    """Return the function of a column that an estimator estimates: its mean or its variance."""
    return np.var if estimator.estimand is VARIANCE else np.mean


def claim_rows(claims: Mapping[str, LibraryClaim], rows: Sequence[RowWithErrors]) -> pd.DataFrame:
    """Test each claim for each library on each distribution, and return the rows of ``claims.csv``.

    A claim compares the measured error or bias with a formula, averaged over n and epsilon. The key
    of a claim is the measured quantity, ``error`` or ``bias``. The rows are the results of
    `cell_rows`.
    """
    groups: dict[tuple[str, str], list[RowWithErrors]] = {}
    for row, errors in rows:
        if np.isfinite(row["expected_error"]):
            groups.setdefault((row["estimator"], row["distribution"]), []).append((row, errors))
    verdicts = [
        _claim(name, claim, group) for name, claim in claims.items() for group in groups.values()
    ]
    return pd.DataFrame(verdicts, columns=COLUMNS)


def _claim(name: str, claim: LibraryClaim, group: Sequence[RowWithErrors]) -> Row:
    """Return the verdict on one claim about the errors of one library on one distribution.

    `group` holds the table rows of this library and distribution, with the errors of their
    releases.
    """
    table = pd.DataFrame([row for row, _ in group])
    errors = np.concatenate([errors for _, errors in group])
    predicted = float(np.average(table[f"expected_{name}"], weights=table["trials"]))
    estimate, se = map(float, mean_and_se(np.abs(errors) if name == "error" else errors))
    measured = Measurement(estimate, estimate - NORMAL * se, estimate + NORMAL * se)
    if len(errors) < MIN_CLAIM_RELEASES:
        measured = Measurement(np.nan, np.nan, np.nan)
    first, *_ = group[0]
    neighbours = first["neighbours"]
    return {
        "claim": name,
        "source": "dpbench/libraries/means/expected.py",
        "estimator": first["estimator"],
        "distribution": first["distribution"],
        "variable": f"{name} n epsilon / {first['unit']}",
        "metric": f"mean_{name}",
        "predicted": predicted,
        **measured._asdict(),
        "tolerance": claim.tolerance,
        "verdict": verdict(measured, predicted, claim.tolerance),
        "privacy": "pure" if neighbours == "replace" else f"pure_{neighbours}",
        "n_low": table["n"].min(),
        "n_high": table["n"].max(),
        "detectable_deviation": claim.tolerance + measured.high - measured.low,
        "checks": "code",
        "theorem": predicted,
    }


def hostile_rows(label: str, setting: Setting, settings: LibrarySettings, seed: int) -> list[Row]:
    """Return one table row for each adversarial column of records, with the estimator's response.

    The rows are those of ``hostile.csv``. The response is a class such as ``refused``, see
    `classify`. The noise of dpbench follows from the seed.
    """
    rows, n = [], settings.hostile.n
    estimator, ends = setting.estimator, (settings.lower, settings.upper)
    width = settings.upper - settings.lower
    unit = width**estimator.estimand.degree / (n * setting.budget.amounts[0])
    for case in CASES:
        column, expected, size = hostile_column(case, n, *ends, _statistic(estimator))
        row: Row = {"estimator": label, "column": case, "outcome": "", "message": ""}
        if size is None or (isinstance(estimator, LibraryMean) and estimator.takes_size):
            rng = stream("hostile", seed, case, *setting.stream_name)
            arguments = settings.hostile.trials, settings.seconds, rng, size
            try:
                releases = releases_within(estimator, column, setting.budget, *arguments)
                column_unit = unit * n / max(1, len(column))
                row |= {
                    "outcome": classify(releases, expected, column_unit),
                    "message": releases.message,
                }
            except LibraryError as error:
                row |= {"outcome": "process ended", "message": str(error)}
        rows.append(row)
    return rows
