"""Compute the exact values of statistics that a sweep measures, to be compared with measurements.

The values come from `dpbench.theory.exact.value`, which uses formulas and numerical integration. It
runs no estimator and draws no random numbers. `first_n` finds the n from which on an exponent
fitted to exact values agrees with a theorem's exponent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pandas as pd

from dpbench.analysis.summary_table import Results
from dpbench.arrays import Floats
from dpbench.registry import ConfigError
from dpbench.sweep.plan import Sweep
from dpbench.sweep.selection import rows_of_budget
from dpbench.theory.bounds.numbers import BETA
from dpbench.theory.exact.value import exact, exact_miss

__all__ = ["MAX_N", "check_exact", "exact_n", "exact_values", "first_n"]

MAX_N = 10**15  # largest n for exact exponents, because doubles hold all of its digits


def exact_values(table: pd.DataFrame, sweep: Sweep, metric: str) -> Floats:
    """Compute the exact value of a statistic for each row of a table.

    The exact value is the limit of the statistic as the number of trials grows. The table has
    columns for family, distribution, estimator, budget and n, as a summary has. The metric is a
    column of the summary; see `dpbench.theory.exact.value.exact`. The metric ``samples`` instead
    selects the probability that the estimator's coarse step goes wrong; see
    `dpbench.theory.exact.value.exact_miss`. A coarse step locates the data, for example by a
    private choice of a histogram bin. The value is NaN for rows without a known exact value, and
    for rows without privacy. The sweep keeps the values, because claims, factors and figures need
    the same ones.
    """
    estimator = cache(sweep.estimator)
    members = cache(lambda label, n, budget: sweep.families[label].value.members(label, n, budget))
    budgets = [variant.value for variant in sweep.budgets.values()]
    compute = exact_miss if metric == "samples" else partial(exact, metric)
    values = []
    for row in table.to_dict("records"):
        budget = next((budget for budget in budgets if rows_of_budget(row, budget)), None)
        if budget is None:  # an estimator without privacy
            values.append(np.nan)
            continue
        key = (
            metric,
            *(row[name] for name in ("family", "distribution", "estimator", "n")),
            budget,
        )
        if key not in sweep.exact_values:
            law = members(row["family"], row["n"], budget)[row["distribution"]]
            of = estimator(row["estimator"], row["family"])
            sweep.exact_values[key] = compute(of, law, row["n"], budget)
        values.append(sweep.exact_values[key])
    return np.array(values)


def exact_n(curves: pd.DataFrame, results: Results, sweep: Sweep) -> Floats:
    """Find the smallest n at which an estimator's coarse step fails with probability at most 0.1.

    The coarse step of an estimator locates the data, for example by a private choice of a histogram
    bin. Exact probabilities that this step fails come from `exact_values`. The smallest n is found
    by bisection, for each row of `curves`: an estimator, a family and a budget. The largest n of
    the run bounds the search from above. The probability 0.1 is the constant `BETA`.
    """
    low, high = np.ones(len(curves)), np.full(len(curves), float(results.summary["n"].max()))
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        reached = exact_values(curves.assign(n=middle.astype(int)), sweep, "samples") <= BETA
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return high


def check_exact(
    table: pd.DataFrame, curve_columns: list[str], sweep: Sweep, metric: str, where: str
) -> None:
    """Check that the last row of each curve has a known exact value.

    The table has a row for each planned result, with its distribution, estimator, budget, n and
    parameters. A curve is a group of rows with equal values in `curve_columns`. Its other rows are
    not checked. The metric is one of `exact_values`. A failed check raises ConfigError, which names
    the place `where` of the configuration that needs exact values.
    """
    last_rows = table.drop_duplicates(curve_columns, keep="last")
    for place in np.flatnonzero(np.isnan(exact_values(last_rows, sweep, metric))):
        row = last_rows.iloc[place]
        setting = f"{row['estimator']} on {row['family']} under {row['privacy']}"
        raise ConfigError(f"{where}: no exact {metric} is known for {setting}")


def first_n(grid: pd.Series[int], agrees: Callable[[pd.Series[int]], bool]) -> float:
    """Find the n from which on an exact exponent agrees with the theorem's exponent.

    The exact exponent is the slope fitted to exact values at several n, the grid. The grid has the
    n of all rows of a curve, and values may repeat. The grid is multiplied by 2, 4, 8 and so on,
    while its largest n is at most `MAX_N` = 10^15. `agrees` tells whether the exact exponent on a
    grid is within the tolerance of the theorem's exponent.

    The answer is the smallest n of the grid at the first factor at which the exponents agree. The
    exponents must also agree at the largest factor. Else the exact exponent only passes the
    theorem's exponent on its way to another limit, and the answer is NaN. The answer is also NaN if
    no grid agrees.
    """
    doublings = int(np.log2(MAX_N / int(grid.max())))
    if doublings < 1 or not agrees(grid * 2**doublings):
        return np.nan
    factor = next(2**i for i in range(1, doublings + 1) if agrees(grid * 2**i))
    return float(grid.min() * factor)
