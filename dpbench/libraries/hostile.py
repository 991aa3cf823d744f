"""Columns that nobody expects, and what becomes of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbench.estimators.libraries.process import Releases

__all__ = ["CASES", "Hostile", "hostile", "outcome"]

# Releases farther than this from the mean of the records that are numbers, in units of
# width/(n epsilon), are wrong: Laplace noise is so far with probability e^-40, that of a sum over a
# count e^-26, and one record moves a clipped mean by epsilon of them.
FAR = 40.0


class Hostile(NamedTuple):
    """A column, the mean to be expected of it, NaN if there is none, and a declared size."""

    column: NDArray[Any]
    mean: float
    size: int | None = None


CASES = ("nan", "infinity", "huge", "integers", "constant", "one_record", "empty", "wrong_size")


def hostile(case: str, n: int, lower: float, upper: float) -> Hostile:
    """The column of that name, of n records, most of them within the interval.

    ``nan``, ``infinity`` and ``huge`` (1e300) are one record of it; ``wrong_size`` declares twice
    as many as there are.
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
    """What became of a column: answered, refused, NaN or wrong, at least once.

    `unit` is width/(n epsilon); of a column without a mean every number is an answer.
    """
    if found.raised.all():
        return "refused"
    if not np.isfinite(found.values[~found.raised]).all():
        return "NaN"
    if (np.abs(found.values[~found.raised] - mean) > FAR * unit).any():
        return "wrong"
    return "at times refused" if found.raised.any() else "answered"
