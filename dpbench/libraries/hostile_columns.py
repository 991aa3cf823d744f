"""Adversarial columns of records (NaN, inf, empty, ...), and classes of a library's responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbench.libraries.means.process import Releases

__all__ = ["CASES", "HostileColumn", "classify", "hostile_column"]

# A release that is farther from the expected mean or variance, in units of width/(n epsilon) or
# width^2/(n epsilon), is wrong. Laplace noise exceeds this limit with probability e^-40, and the
# noise of a sum over a noisy count with e^-26. One record moves a clipped mean, or variance, by at
# most epsilon units.
MAX_CORRECT_ERROR = 40.0


class HostileColumn(NamedTuple):
    """Adversarial column of records, with its expected mean or variance, and its declared size."""

    column: NDArray[Any]  # records, of shape (n,)
    expected: float  # of the clipped records that are not NaN; NaN for an empty column
    size: int | None = None  # number of records declared to the library; None: the true number


CASES = ("nan", "infinity", "huge", "integers", "constant", "one_record", "empty", "wrong_size")


def hostile_column(
    case: str, n: int, lower: float, upper: float, statistic: Callable[[Any], Any] = np.mean
) -> HostileColumn:
    """Return an adversarial column of records; most of them lie within [lower, upper].

    The case is one of `CASES`. ``nan``, ``infinity`` and ``huge`` (1e300) contain one record of
    this value. ``wrong_size`` declares twice the true number of records. The column has n records,
    except for ``one_record`` and ``empty``. `statistic` takes records to their mean or variance.
    """
    records = np.resize([0.75 * lower + 0.25 * upper, 0.25 * lower + 0.75 * upper], n)
    values = {"nan": np.nan, "infinity": np.inf, "huge": 1e300}
    if case in values:
        column = np.append(records[1:], values[case])
        clipped = column[~np.isnan(column)].clip(lower, upper)
        return HostileColumn(column, float(statistic(clipped)))
    if case == "integers":
        whole = np.resize(np.array([np.ceil(lower), np.floor(upper)], dtype=np.int64), n)
        return HostileColumn(whole, float(statistic(whole)))
    if case == "constant":
        same = np.full(n, lower / 2 + upper / 2)
        return HostileColumn(same, float(statistic(same)))
    if case == "one_record":
        return HostileColumn(records[:1], float(statistic(records[:1])))
    if case == "empty":
        return HostileColumn(np.empty(0), np.nan)
    return HostileColumn(records, float(statistic(records)), 2 * n)


def classify(releases: Releases, mean: float, unit: float) -> str:
    """Return the class of a library's response to a column of records, such as ``wrong``.

    The class is ``refused`` if every release raised an exception. Otherwise it is ``NaN`` if some
    release is not finite. Otherwise it is ``wrong`` if some release is farther from the expected
    mean than `MAX_CORRECT_ERROR` (40) units. A unit is width/(n epsilon) for n records in an
    interval of length width. If the expected mean is NaN, every finite number counts as an answer.
    Otherwise the class is ``at times refused`` if some release raised an exception, else
    ``answered``.
    """
    if releases.raised.all():
        return "refused"
    if not np.isfinite(releases.values[~releases.raised]).all():
        return "NaN"
    if (np.abs(releases.values[~releases.raised] - mean) > MAX_CORRECT_ERROR * unit).any():
        return "wrong"
    return "at times refused" if releases.raised.any() else "answered"
