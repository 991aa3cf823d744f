"""Adversarial columns of records (NaN, inf, empty, ...), and classes of a library's responses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbench.libraries.means.process import Releases

__all__ = ["CASES", "HostileColumn", "classify", "hostile_column"]

# A release that is farther from the expected mean, in units of width/(n epsilon), is wrong. Laplace
# noise exceeds this limit with probability e^-40, and the noise of a sum over a noisy count with
# e^-26. One record moves a clipped mean by at most epsilon units.
MAX_CORRECT_ERROR = 40.0


class HostileColumn(NamedTuple):
    """Adversarial column of records, with its expected mean and its declared size.

    Parameters
    ----------
    column : ndarray of shape (n,)
        Records.
    mean : float
        Mean of the clipped records that are not NaN; NaN for an empty column.
    size : int, optional
        Number of records declared to the library; by default the true number.
    """

    column: NDArray[Any]
    mean: float
    size: int | None = None


CASES = ("nan", "infinity", "huge", "integers", "constant", "one_record", "empty", "wrong_size")


def hostile_column(case: str, n: int, lower: float, upper: float) -> HostileColumn:
    """Return an adversarial column of records; most of them lie within [lower, upper].

    Parameters
    ----------
    case : str
        Name of the column, listed in `CASES`. ``nan``, ``infinity`` and ``huge`` (1e300) contain
        one record of this value. ``wrong_size`` declares twice the true number of records.
    n : int
        Number of records, except for ``one_record`` and ``empty``.
    lower, upper : float
        Bounds given to the library.

    Returns
    -------
    HostileColumn
        The records, their expected mean, and the declared size.
    """
    records = np.resize([0.75 * lower + 0.25 * upper, 0.25 * lower + 0.75 * upper], n)
    values = {"nan": np.nan, "infinity": np.inf, "huge": 1e300}
    if case in values:
        column = np.append(records[1:], values[case])
        clipped = column[~np.isnan(column)].clip(lower, upper)
        return HostileColumn(column, float(clipped.mean()))
    if case == "integers":
        whole = np.resize(np.array([np.ceil(lower), np.floor(upper)], dtype=np.int64), n)
        return HostileColumn(whole, float(whole.mean()))
    if case == "constant":
        return HostileColumn(np.full(n, lower / 2 + upper / 2), lower / 2 + upper / 2)
    if case == "one_record":
        return HostileColumn(records[:1], float(records[0]))
    if case == "empty":
        return HostileColumn(np.empty(0), np.nan)
    return HostileColumn(records, float(records.mean()), 2 * n)


def classify(releases: Releases, mean: float, unit: float) -> str:
    """Return the class of a library's response to a column of records, such as ``wrong``.

    Parameters
    ----------
    releases : Releases
        Releases of the column's mean.
    mean : float
        Expected mean; if it is NaN, every finite number counts as an answer.
    unit : float
        Unit of errors, width/(n epsilon) for n records in an interval of length width.

    Returns
    -------
    str
        ``refused`` if every release raised an exception. Otherwise ``NaN`` if some release is not
        finite. Otherwise ``wrong`` if some release is farther from the mean than
        `MAX_CORRECT_ERROR` (40) units. Otherwise ``at times refused`` if some release raised an
        exception, else ``answered``.
    """
    if releases.raised.all():
        return "refused"
    if not np.isfinite(releases.values[~releases.raised]).all():
        return "NaN"
    if (np.abs(releases.values[~releases.raised] - mean) > MAX_CORRECT_ERROR * unit).any():
        return "wrong"
    return "at times refused" if releases.raised.any() else "answered"
