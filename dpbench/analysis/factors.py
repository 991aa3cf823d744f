"""How far the best estimators are from what no private estimator reaches."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpbench.analysis.results import worst_case
from dpbench.columns import BUDGET
from dpbench.theory.bounds import OF_VIEWS

__all__ = ["OPTIMAL", "factors"]

# The largest factor that is called optimal.
OPTIMAL = 1.1
PROBLEM = ["family", "k", *BUDGET, "n", "d"]
COLUMNS = [
    "distribution", *PROBLEM[1:], "estimator", "factor", "factor_high", "lower_bound", "bound_by",
    "verdict",
]  # fmt: skip


def factors(summary: pd.DataFrame) -> pd.DataFrame:
    """The best estimator of each family, budget and n, over the lower bound: ``factors.csv``.

    Returns
    -------
    DataFrame
        A row for each where a finite bound is known: ``distribution`` (the family), ``k``, the
        budget, ``n, d``, the ``estimator`` whose worst 0.9 quantile of the error is least, that
        quantile over ``lower_bound`` (``factor``; ``factor_high`` by the upper end of its 95%
        interval), what that is ``bound_by``, and a ``verdict``: ``optimal`` over the laws of the
        family if the high end is at most 1.1, else ``open``; of a single law ``one law``, as others
        of its class may be worse, or ``below`` if the high end is below 1. One law of bounded
        moments is left out. Where both models run it is of the central one.
    """
    members = summary.groupby("family")["distribution"].transform("nunique")
    summary = summary.assign(members=members).reset_index(drop=True)
    told = (summary["members"] > 1) | summary["k"].isna()
    private = summary["privacy"] != "none"
    known = summary[np.isfinite(summary["lower_bound"]) & private & told]
    central = known["bound_by"] != OF_VIEWS
    local = ~known["family"].isin(known.loc[central, "family"])
    known = known[central | local]
    if known.empty:
        return pd.DataFrame(columns=COLUMNS)
    curves, worst = worst_case(known, known[["q90", "q90_high"]].fillna(np.inf).to_numpy())
    over = worst / curves["lower_bound"].to_numpy()[:, None]
    curves = curves.assign(factor=over[:, 0], factor_high=over[:, 1])
    best = curves.sort_values("factor", kind="stable").drop_duplicates(PROBLEM)
    found = best.sort_index().drop(columns="distribution")
    found = found.rename(columns={"family": "distribution"})
    high = found["factor_high"]
    alone = found["members"] == 1
    cases = [high < 1, alone, high <= OPTIMAL]
    verdict = np.select(cases, ["below", "one law", "optimal"], "open")
    return found.assign(verdict=verdict)[COLUMNS].reset_index(drop=True)
