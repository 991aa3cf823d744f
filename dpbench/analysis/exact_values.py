"""Exact values of a table of a sweep's keys."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pandas as pd

from dpbench.arrays import Floats
from dpbench.sweep.plan import Sweep
from dpbench.sweep.selection import under
from dpbench.theory.exact.value import exact, exact_miss

__all__ = ["exact_values"]


def exact_values(table: pd.DataFrame, sweep: Sweep, metric: str) -> Floats:
    """What a column of a summary would be with no end of trials, (rows,); see `exact`.

    Of ``samples`` it is the probability that a coarse step misses, see `exact_miss`.
    """
    estimator = cache(sweep.estimator)
    members = cache(lambda label, n, budget: sweep.families[label].value.members(label, n, budget))
    budgets = [one.value for one in sweep.budgets.values()]
    find = exact_miss if metric == "samples" else partial(exact, metric)
    found = []
    for row in table.to_dict("records"):
        budget = next((one for one in budgets if under(row, one)), None)
        if budget is None:  # without privacy
            found.append(np.nan)
            continue
        law = members(row["family"], row["n"], budget)[row["distribution"]]
        found.append(find(estimator(row["estimator"], row["family"]), law, row["n"], budget))
    return np.array(found)
