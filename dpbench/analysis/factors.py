"""How far estimators are from what no private estimator reaches."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbench.analysis.results import worst_case
from dpbench.arrays import Floats
from dpbench.sweep.selection import BUDGET
from dpbench.theory.bounds.of_class import OF_VIEWS

__all__ = ["OPTIMAL", "factors", "profile", "scores"]

# The largest factor that is called optimal.
OPTIMAL = 1.1
LAW = ["distribution", "k", "n", "d"]
PROBLEM = [*LAW, *BUDGET]
BOUND, FREE = "lower bound", "no privacy"
SCORES = [
    "distribution", "k", *BUDGET, "n", "d", "estimator", "score", "score_high", "over",
    "lower_bound", "bound_by", "members",
]  # fmt: skip
COLUMNS = [
    "distribution", "k", *BUDGET, "n", "d", "estimator", "factor", "factor_high", "lower_bound",
    "bound_by", "verdict",
]  # fmt: skip


def scores(summary: pd.DataFrame) -> pd.DataFrame:
    """Every private estimator's error over what it cannot beat, or over that without privacy.

    Returns
    -------
    DataFrame
        A row for each family, budget, n and estimator: ``distribution`` (the family), ``k``, the
        budget, ``n, d``, the ``estimator`` and its ``score``: the worst 0.9 quantile of its error
        (``score_high``: the upper end of its 95% interval) ``over`` the finite ``lower bound``; or
        where none is known, as of one law of bounded moments, over the least such error with ``no
        privacy``. What the bound is ``bound_by``, how many ``members`` the family has. Problems
        with neither, and those where every error is possible, are left out.
    """
    members = summary.groupby("family")["distribution"].transform("nunique")
    summary = summary.assign(members=members).reset_index(drop=True)
    curves, worst = worst_case(summary, summary[["q90", "q90_high"]].fillna(np.inf).to_numpy())
    curves["distribution"] = curves["family"]
    private = curves["privacy"] != "none"
    # One law of bounded moments is easier than the worst of its class, whose bound it has.
    told = (curves["members"] > 1) | curves["k"].isna()
    bound = curves["lower_bound"].where(told)
    free = curves[LAW].assign(least=worst[:, 0])[~private].sort_values("least")
    least = curves[LAW].merge(free.drop_duplicates(LAW), "left", on=LAW)["least"]
    base = bound.fillna(least).to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        over = worst / base[:, None]
    ends = {"score": over[:, 0], "score_high": over[:, 1]}
    found = curves.assign(**ends, over=np.where(bound.isna(), FREE, BOUND))[SCORES]
    known: pd.Series[bool] = private & np.isfinite(base) & (base > 0)
    return found[known].reset_index(drop=True)


def profile(found: ArrayLike, problems: int, at: ArrayLike) -> Floats:
    """Return the share of all problems whose score is at most each of some numbers.

    It is an estimator's profile. A problem that the estimator does not answer, or fails at, it
    never solves. As no score depends on other estimators, neither does the profile.

    Parameters
    ----------
    found : (..., scores) array_like
        Scores of one estimator, at most one for each problem; infinite where it fails.
    problems : int
        How many there are.
    at : (points,) array_like

    Returns
    -------
    (..., points) array
    """
    solved = np.asarray(found)[..., :, None] <= np.asarray(at)
    return np.asarray(solved.sum(axis=-2) / problems)


def factors(summary: pd.DataFrame) -> pd.DataFrame:
    """The best estimator of each family, budget and n, over the lower bound: ``factors.csv``.

    Returns
    -------
    DataFrame
        A row for each where a finite bound is known: ``distribution`` (the family), ``k``, the
        budget, ``n, d``, the ``estimator`` of the least of `scores` (``factor``; ``factor_high`` by
        the upper end of its interval), the ``lower_bound``, what it is ``bound_by``, and a
        ``verdict``: ``optimal`` over the laws of the family if the high end is at most 1.1, else
        ``open``; of a single law ``one law``, as others of its class may be worse, or ``below`` if
        the high end is below 1. Where both models run it is of the central one.
    """
    found = scores(summary)
    found = found[found["over"] == BOUND]
    central = found["bound_by"] != OF_VIEWS
    local = ~found["distribution"].isin(found.loc[central, "distribution"])
    found = found[central | local].rename(columns={"score": "factor", "score_high": "factor_high"})
    best = found.sort_values("factor", kind="stable").drop_duplicates(PROBLEM).sort_index()
    high = best["factor_high"]
    cases = [high < 1, best["members"] == 1, high <= OPTIMAL]
    verdict = np.select(cases, ["below", "one law", "optimal"], "open")
    return best.assign(verdict=verdict)[COLUMNS].reset_index(drop=True)
