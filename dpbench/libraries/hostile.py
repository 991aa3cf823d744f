"""Adversarial columns (NaN, inf, empty, ...) and the classification of a library's response."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbench.estimators.libraries.process import Releases

__all__ = ["CASES", "Hostile", "hostile", "outcome"]

# A release farther than this from the mean of the records that are not NaN, in units of
# width/(n epsilon), is wrong: Laplace noise exceeds it with probability e^-40, the noise of a sum
# over a noisy count with e^-26, and one record moves a clipped mean by at most epsilon units.
FAR = 40.0


class Hostile(NamedTuple):
    """Adversarial column.

    Parameters
    ----------
    column : ndarray of shape (n,)
        Records.
    mean : float
        Expected mean after clipping; NaN if there is none.
    size : int, optional
        Number of records declared to the library; by default the true number.
    """

    column: NDArray[Any]
    mean: float
    size: int | None = None


CASES = ("nan", "infinity", "huge", "integers", "constant", "one_record", "empty", "wrong_size")


def hostile(case: str, n: int, lower: float, upper: float) -> Hostile:
    """Return an adversarial column; most of its records lie within [lower, upper].

    Parameters
    ----------
    case : str
        One of `CASES`. ``nan``, ``infinity`` and ``huge`` (1e300) contain one record of this value;
        ``wrong_size`` declares twice the true number of records.
    n : int
        Number of records, except for ``one_record`` and ``empty``.
    lower, upper : float
        Bounds given to the library.

    Returns
    -------
    Hostile
    """
    ends = np.resize([0.75 * lower + 0.25 * upper, 0.25 * lower + 0.75 * upper], n)
    one = {"nan": np.nan, "infinity": np.inf, "huge": 1e300}
    if case in one:
        column = np.append(ends[1:], one[case])
        kept = column[~np.isnan(column)].clip(lower, upper)
        return Hostile(column, float(kept.mean()))
    if case == "integers":
        whole = np.resize(np.array([np.ceil(lower), np.floor(upper)], dtype=np.int64), n)
        return Hostile(whole, float(whole.mean()))
    if case == "constant":
        return Hostile(np.full(n, lower / 2 + upper / 2), lower / 2 + upper / 2)
    if case == "one_record":
        return Hostile(ends[:1], float(ends[0]))
    if case == "empty":
        return Hostile(np.empty(0), np.nan)
    return Hostile(ends, float(ends.mean()), 2 * n)


def outcome(found: Releases, mean: float, unit: float) -> str:
    """Classify the releases of a column.

    Parameters
    ----------
    found : Releases
        Releases of the column.
    mean : float
        Expected mean; if it is NaN, every finite number counts as an answer.
    unit : float
        Unit of errors, width/(n epsilon).

    Returns
    -------
    str
        ``refused`` if every release raised; else ``NaN`` or ``wrong`` if a release was; else
        ``at times refused`` if a release raised; else ``answered``.
    """
    if found.raised.all():
        return "refused"
    if not np.isfinite(found.values[~found.raised]).all():
        return "NaN"
    if (np.abs(found.values[~found.raised] - mean) > FAR * unit).any():
        return "wrong"
    return "at times refused" if found.raised.any() else "answered"
