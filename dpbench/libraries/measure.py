"""Measurements of releases of fixed columns, as rows of tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbench.analysis.claims import COLUMNS, verdict
from dpbench.analysis.resample import Measurement
from dpbench.analysis.summary import NORMAL, mean_and_se
from dpbench.errors import one_line
from dpbench.estimators import Estimator, release
from dpbench.estimators.libraries.expected import lower_bound
from dpbench.estimators.libraries.mean import LibraryMean
from dpbench.estimators.libraries.process import LibraryError, Releases, library
from dpbench.libraries.hostile import CASES, hostile, outcome
from dpbench.libraries.sweep import LibraryClaim, LibrarySettings
from dpbench.package import __version__
from dpbench.privacy import Budget
from dpbench.seeds import canonical, stream
from dpbench.sweep.block import BLOCK_NUMBERS, Setting, single_threaded_blas
from dpbench.sweep.plan import Cell

__all__ = ["Found", "Row", "cell_rows", "claim_rows", "hostile_rows", "releases_within", "status"]

# LEAST: releases of a cell without regard to their time. GROWTH: factor by which the next batch may
# exceed the releases so far. ENOUGH: fewest releases on which a claim is tested.
LEAST, GROWTH, ENOUGH = 3, 8, 100

Row = dict[str, Any]
# Row of a table, and signed errors of its releases in units of width/(n epsilon).
Found = tuple[Row, NDArray[Any]]


def status(estimator: Estimator) -> tuple[str, bool]:
    """Return the version of the library, or the reason why it does not run; and whether it runs."""
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
    """Return releases of a library, or of an estimator of dpbench with its time shared equally."""
    if isinstance(estimator, LibraryMean):
        return estimator.releases(column, budget, repeats, size)
    started, message = time.perf_counter(), ""
    try:
        values = np.asarray(release(estimator, column, budget, rng=rng, repeats=repeats))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001, recorded like an error of a library
        values, message = np.full(repeats, np.nan), one_line(f"{type(error).__name__}: {error}")
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
    """Release one column repeatedly, up to a number of releases or a time limit.

    Parameters
    ----------
    estimator : Estimator
        Library, or estimator of dpbench.
    column : ndarray of shape (n,)
        Records.
    budget : Budget
        Budget of each release.
    trials : int
        Largest number of releases.
    seconds : float
        Time limit; the first release, which includes start-up, does not count. At least `LEAST`
        releases are made.
    rng : Generator
        Source of noise for an estimator of dpbench; libraries draw their own.
    size : int, optional
        Number of records declared to the library; by default the true number.

    Returns
    -------
    Releases
    """
    found: list[Releases] = []
    done, took, count = 0, 0.0, 1
    most = max(1, BLOCK_NUMBERS // max(1, len(column)))
    while count > 0:
        began = time.perf_counter()
        with single_threaded_blas():
            found.append(_releases(estimator, column, budget, count, rng, size))
        took += time.perf_counter() - began if done else 0.0
        done += count
        more = int((seconds - took) * done / took) if took else 1
        count = min(trials - done, max(LEAST - done, more), GROWTH * done, most)
    message = next((one.message for one in found if one.message), "")
    values, raised, times = (np.concatenate(parts) for parts in list(zip(*found, strict=True))[:3])
    return Releases(values, raised, times, message)


def cell_rows(
    cell: Cell, how: LibrarySettings, seed: int, skip: Mapping[str, str]
) -> Iterator[Found]:
    """Yield one row for each distribution and setting of a cell, with the signed errors.

    A library whose process ends gets a row with the reason and without releases.

    Parameters
    ----------
    cell : Cell
        Distributions, n and settings.
    how : LibrarySettings
        Interval and time limit.
    seed : int
        Seed of the columns and of the noise of dpbench.
    skip : mapping of str
        Labels of settings to leave out.

    Yields
    ------
    row : dict
        Row of ``libraries.csv``.
    off : ndarray of shape (releases,)
        Releases minus the mean of the column, in units of width/(n epsilon).
    """
    for member, law in cell.members:
        rng = stream("column", seed, canonical(law), cell.n)
        column = law.sample(rng, 1, cell.n).records(0, rng)
        for one in cell.settings:
            if one.label in skip:
                continue
            rng = stream("noise", seed, canonical(law), cell.n, *one.stream_name)
            about = column, one.budget, cell.trials, how.seconds, rng
            try:
                found = releases_within(one.estimator, *about)
            except LibraryError as error:
                nothing = np.array([np.nan])
                found = Releases(nothing, np.array([True]), nothing, str(error))
            yield _row(one, member, column, found, how)


def _row(
    one: Setting, member: str, column: NDArray[Any], found: Releases, how: LibrarySettings
) -> Found:
    epsilon, n, mean = one.budget.amounts[0], len(column), float(column.mean())
    width = how.upper - how.lower
    off = (found.values - mean) * n * epsilon / width
    row = {
        "estimator": one.label,
        "distribution": member,
        "neighbours": one.budget.neighbours,
        "epsilon": epsilon,
        "n": n,
        "trials": len(off),
        "failures": int((~np.isfinite(off)).sum()),
        "failure_rate": (~np.isfinite(off)).mean(),
    }
    for name, values in (("error", np.abs(off)), ("bias", off)):
        at, se = mean_and_se(values)
        row |= {name: at, f"{name}_low": at - NORMAL * se, f"{name}_high": at + NORMAL * se}
    known = None
    if isinstance(one.estimator, LibraryMean):
        known = one.estimator.expected(mean, n * epsilon)
    share = (mean - how.lower) / width
    row |= {
        "expected_error": known.error if known else np.nan,
        "expected_bias": known.bias if known else np.nan,
        "lower_bound": lower_bound(one.budget.neighbours, share, epsilon),
        "ms": 1e3 * np.median(found.seconds[1:] if len(off) > 1 else found.seconds),
        "first_ms": 1e3 * found.seconds[0],
        "message": found.message,
    }
    return row, off


def claim_rows(claims: Mapping[str, LibraryClaim], rows: Sequence[Found]) -> pd.DataFrame:
    """Compare the expected with the measured error of each library on each distribution.

    Parameters
    ----------
    claims : mapping of str to LibraryClaim
        Claims about ``error`` and ``bias``.
    rows : sequence of (row, errors)
        Results of `cell_rows`.

    Returns
    -------
    DataFrame
        Rows of ``claims.csv``.
    """
    groups: dict[tuple[str, str], list[Found]] = {}
    for row, off in rows:
        if np.isfinite(row["expected_error"]):
            groups.setdefault((row["estimator"], row["distribution"]), []).append((row, off))
    found = [
        _claim(name, claim, group) for name, claim in claims.items() for group in groups.values()
    ]
    return pd.DataFrame(found, columns=COLUMNS)


def _claim(name: str, claim: LibraryClaim, group: Sequence[Found]) -> Row:
    table = pd.DataFrame([row for row, _ in group])
    off = np.concatenate([off for _, off in group])
    predicted = float(np.average(table[f"expected_{name}"], weights=table["trials"]))
    at, se = map(float, mean_and_se(np.abs(off) if name == "error" else off))
    measured = Measurement(at, at - NORMAL * se, at + NORMAL * se)
    if len(off) < ENOUGH:
        measured = Measurement(np.nan, np.nan, np.nan)
    about, *_ = group[0]
    neighbours = about["neighbours"]
    return {
        "claim": name,
        "source": "dpbench/estimators/libraries/expected.py",
        "estimator": about["estimator"],
        "distribution": about["distribution"],
        "variable": f"{name} n epsilon / width",
        "metric": f"mean_{name}",
        "predicted": predicted,
        **measured._asdict(),
        "tolerance": claim.tolerance,
        "verdict": verdict(measured, predicted, claim.tolerance),
        "privacy": "pure" if neighbours == "replace" else f"pure_{neighbours}",
        "n_low": table["n"].min(),
        "n_high": table["n"].max(),
        "visible": claim.tolerance + measured.high - measured.low,
        "checks": "code",
        "theorem": predicted,
    }


def hostile_rows(label: str, setting: Setting, how: LibrarySettings, seed: int) -> list[Row]:
    """Return one row for each adversarial column, with the `outcome` of its releases.

    Parameters
    ----------
    label : str
        Label of the estimator.
    setting : Setting
        Estimator and budget.
    how : LibrarySettings
        Interval, time limit, number of records and of releases.
    seed : int
        Seed of the noise of dpbench.

    Returns
    -------
    list of dict
    """
    found, n = [], how.hostile.n
    unit = (how.upper - how.lower) / (n * setting.budget.amounts[0])
    for case in CASES:
        column, mean, size = hostile(case, n, how.lower, how.upper)
        estimator = setting.estimator
        row: Row = {"estimator": label, "column": case, "outcome": "", "message": ""}
        if size is None or (isinstance(estimator, LibraryMean) and estimator.takes_size):
            rng = stream("hostile", seed, case, *setting.stream_name)
            about = how.hostile.trials, how.seconds, rng, size
            try:
                said = releases_within(estimator, column, setting.budget, *about)
                here = unit * n / max(1, len(column))
                row |= {"outcome": outcome(said, mean, here), "message": said.message}
            except LibraryError as error:
                row |= {"outcome": "process ended", "message": str(error)}
        found.append(row)
    return found
