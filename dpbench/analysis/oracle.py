"""Compute exact values for a summary, and the n from which an exact exponent is the theorem's.

The values come from `dpbench.theory.exact.value`, which calls no estimator and draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pandas as pd

from dpbench.analysis.results import Results
from dpbench.arrays import Floats
from dpbench.registry import ConfigError
from dpbench.sweep.plan import Sweep
from dpbench.sweep.selection import rows_of_budget
from dpbench.theory.bounds.numbers import BETA
from dpbench.theory.exact.value import exact, exact_miss

__all__ = ["MAX_N", "check_exact", "exact_n", "exact_values", "first_n"]

MAX_N = 10**15  # largest n for exact exponents, because doubles hold all of its digits


def exact_values(table: pd.DataFrame, sweep: Sweep, metric: str) -> Floats:
    """Compute the limits of a column of a summary as the number of trials grows.

    Parameters
    ----------
    table : DataFrame
        Rows of a summary, or of its keys.
    sweep : Sweep
    metric : str
        The column, see `dpbench.theory.exact.value.exact`. For ``samples`` compute the probability
        that a coarse step misses, see `dpbench.theory.exact.value.exact_miss`.

    Returns
    -------
    ndarray of shape (rows,)
        Exact values; NaN where none is known, and without privacy.
    """
    estimator = cache(sweep.estimator)
    members = cache(lambda label, n, budget: sweep.families[label].value.members(label, n, budget))
    budgets = [one.value for one in sweep.budgets.values()]
    find = exact_miss if metric == "samples" else partial(exact, metric)
    found = []
    for row in table.to_dict("records"):
        budget = next((one for one in budgets if rows_of_budget(row, one)), None)
        if budget is None:  # an estimator without privacy
            found.append(np.nan)
            continue
        law = members(row["family"], row["n"], budget)[row["distribution"]]
        found.append(find(estimator(row["estimator"], row["family"]), law, row["n"], budget))
    return np.array(found)


def exact_n(curves: pd.DataFrame, results: Results, sweep: Sweep) -> Floats:
    """Find the smallest n at which a coarse step misses with probability at most BETA.

    Parameters
    ----------
    curves : DataFrame
        A row for each curve.
    results : Results
        Results of the run: its largest n is the largest answer.
    sweep : Sweep

    Returns
    -------
    ndarray of shape (rows,)
        The smallest n of each curve.
    """
    low, high = np.ones(len(curves)), np.full(len(curves), float(results.summary["n"].max()))
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        good = exact_values(curves.assign(n=middle.astype(int)), sweep, "samples") <= BETA
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return high


def check_exact(
    table: pd.DataFrame, apart: list[str], sweep: Sweep, metric: str, where: str
) -> None:
    """Check that the last row of each curve has a known exact value.

    Parameters
    ----------
    table : DataFrame
        Keys of the planned results.
    apart : list of str
        Columns that identify a curve.
    sweep : Sweep
    metric : str
        As in `exact_values`.
    where : str
        Key for the message.

    Raises
    ------
    ConfigError
        If a value is not known.
    """
    one = table.drop_duplicates(apart, keep="last")
    for place in np.flatnonzero(np.isnan(exact_values(one, sweep, metric))):
        row = one.iloc[place]
        about = f"{row['estimator']} on {row['family']} under {row['privacy']}"
        raise ConfigError(f"{where}: no exact {metric} is known for {about}")


def first_n(grid: pd.Series[int], near: Callable[[pd.Series[int]], bool]) -> float:
    """Find the n from which the exact exponent of a grid agrees with the theorem's.

    The grid is multiplied by 2, 4, 8 and so on, up to `MAX_N`. It must also agree at the largest
    factor, else the exponent only passes the theorem's on its way to another limit.

    Parameters
    ----------
    grid : Series of int
        The n of a curve, with repetitions. Multiplication keeps their ratios.
    near : callable
        Returns whether the exact exponent on a grid is within the tolerance of the theorem's.

    Returns
    -------
    float
        Smallest n of the first grid that agrees; NaN if none does.
    """
    doublings = int(np.log2(MAX_N / int(grid.max())))
    if doublings < 1 or not near(grid * 2**doublings):
        return np.nan
    factor = next(2**i for i in range(1, doublings + 1) if near(grid * 2**i))
    return float(grid.min() * factor)
