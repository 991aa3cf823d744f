"""Compare the errors of estimators with lower bounds for all private estimators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbench.analysis.largest_of_noisy import largest
from dpbench.analysis.resample import Measurement
from dpbench.analysis.summary_table import CURVE, worst_case
from dpbench.arrays import Floats, Ints
from dpbench.sweep.selection import BUDGET
from dpbench.theory.bounds.class_bound import LOCAL_BOUND_NAME

__all__ = ["BY_TRIALS", "ENDS", "EXACT", "OPTIMAL", "add_bounds", "factors", "profile", "scores"]

OPTIMAL = 1.1  # largest factor with the verdict ``optimal``
DATA_KEY = ["distribution", "k", "n", "d"]
PROBLEM = [*DATA_KEY, *BUDGET]
BOUND, NO_PRIVACY = "lower bound", "no privacy"
EXACT, BY_TRIALS = "exact value", "trials"  # values of the column error_over_bound_from
Exact = Callable[[pd.DataFrame], Floats]
ENDS = ["error_over_bound", "error_over_bound_low", "error_over_bound_high"]
SCORE_COLUMNS = [
    "distribution", "k", *BUDGET, "n", "d", "estimator", "score", "score_high", "over",
    "lower_bound", "bound_name", "members",
]  # fmt: skip
COLUMNS = [
    "distribution", "k", *BUDGET, "n", "d", "estimator", *ENDS, "error_over_bound_from",
    "lower_bound", "bound_name", "verdict",
]  # fmt: skip


def scores(summary: pd.DataFrame) -> pd.DataFrame:
    """Divide each private estimator's error by a lower bound, or by the error without privacy.

    From the table ``summary.csv``, return a row for each family, budget, n and private estimator.
    Besides columns that identify the row, there are:

    - ``score``: the 0.9 quantile of the error on the worst member of the family, divided by the
      lower bound. A bound may be unknown, as for a single distribution with bounded moments. Then
      the denominator is the smallest such quantile of an estimator without privacy.
    - ``score_high``: the upper end of the 95% interval of the quantile, over the same denominator.
    - ``over``: the kind of denominator, ``lower bound`` or ``no privacy``.
    - ``lower_bound``, and ``bound_name``: the lower bound, and the name of its proof.
    - ``members``: the number of distributions in the family.

    Rows without a positive finite denominator are left out.
    """
    summary = add_bounds(summary)
    curves, worst = worst_case(summary, summary[["q90", "q90_high"]].fillna(np.inf).to_numpy())
    curves["distribution"] = curves["family"]
    private, bound = curves["privacy"] != "none", curves["bound"]
    free = curves[DATA_KEY].assign(least=worst[:, 0])[~private].sort_values("least")
    least = curves[DATA_KEY].merge(free.drop_duplicates(DATA_KEY), "left", on=DATA_KEY)["least"]
    base = bound.fillna(least).to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        over = worst / base[:, None]
    ends = {"score": over[:, 0], "score_high": over[:, 1]}
    scored = curves.assign(**ends, over=np.where(bound.isna(), NO_PRIVACY, BOUND))[SCORE_COLUMNS]
    valid: pd.Series[bool] = private & np.isfinite(base) & (base > 0)
    return scored[valid].reset_index(drop=True)


def profile(estimator_scores: ArrayLike, problems: int, points: ArrayLike) -> Floats:
    """Return, for each x, the share of all problems on which an estimator has a score of at most x.

    A problem is a family, a budget and an n. A score is the estimator's error over a lower bound,
    or over the error without privacy. A problem without a score, or with an infinite score, counts
    as never solved. A score does not depend on the other private estimators, so neither does the
    profile.

    The scores have shape (..., scores), with at most one score for each of `problems` problems. A
    failure has an infinite score. `points`, of shape (points,), are the values of x. The shares
    have shape (..., points).
    """
    solved = np.asarray(estimator_scores)[..., :, None] <= np.asarray(points)
    return np.asarray(solved.sum(axis=-2) / problems)


def factors(summary: pd.DataFrame, exact: Exact | None = None) -> pd.DataFrame:
    """Find the best estimator of each family, budget and n, and its factor over the lower bound.

    An estimator's factor is the 0.9 quantile of its error on the worst member of the family,
    divided by the lower bound. A factor is exact if the exact quantile of every member is known.
    Else it comes from trials. Its 95% interval then allows for the choice of the worst member and
    of the best estimator; see `dpbench.analysis.largest_of_noisy.largest`.

    `summary` is the table ``summary.csv``. `exact` takes rows of the summary to an array of their
    exact 0.9 quantiles, NaN if unknown. It is called only for estimators that may be the best. By
    default all factors come from trials.

    The table ``factors.csv`` has a row for each family, budget and n with a finite bound. If
    estimators of the central and the local model ran on a family, only the central model counts.
    The columns are:

    - ``distribution``: the family; ``k``: the order of its bounded moment; the budget; ``n``;
      ``d``: the dimension.
    - ``estimator``: the estimator with the least factor.
    - ``error_over_bound``: the factor of this estimator.
    - ``error_over_bound_low, error_over_bound_high``: the ends of the factor's 95% interval,
      equal if it is exact.
    - ``error_over_bound_from``: ``exact value`` or ``trials``.
    - ``lower_bound``, and ``bound_name``: the lower bound, and the name of its proof.
    - ``verdict``: the first of four words that applies. ``below``: the upper end is below 1. The
      family's distributions are then easier than the worst of their class. ``one distribution``:
      the family has a single member. Other distributions of its class may be worse. ``optimal``:
      the upper end is at most 1.1. ``open``: no other word applies.
    """
    curves = _curves(_select_bounded(summary), exact)
    best = (
        curves.sort_values("error_over_bound", kind="stable").drop_duplicates(PROBLEM).sort_index()
    )
    high = best["error_over_bound_high"]
    cases = [high < 1, best["members"] == 1, high <= OPTIMAL]
    verdict = np.select(cases, ["below", "one distribution", "optimal"], "open")
    return best.assign(verdict=verdict)[COLUMNS].reset_index(drop=True)


def _curves(rows: pd.DataFrame, exact: Exact | None) -> pd.DataFrame:
    """Return the factor of every private estimator for every family, budget and n.

    A factor is the 0.9 quantile of the error on the worst distribution of the family, divided by
    the lower bound. The exact factor is used if it is known and the estimator may be the best. All
    other factors come from trials.
    """
    curve_index = np.asarray(rows.groupby([*CURVE, "n"], dropna=False).ngroup(), dtype=int)
    curves = rows.assign(at=curve_index).drop_duplicates("at").set_index("at").sort_index()
    errors = rows[["q90", "q90_low", "q90_high"]].fillna(np.inf).to_numpy()
    candidates = curves.groupby(PROBLEM, dropna=False)["estimator"].transform("size")
    intervals = _trial_factors(errors / rows[["lower_bound"]].to_numpy(), curve_index, candidates)
    ends = pd.DataFrame(intervals, curves.index, columns=ENDS)
    curves = pd.concat([curves, ends], axis=1).assign(error_over_bound_from=BY_TRIALS)
    if exact is None:
        return curves
    least = curves.groupby(PROBLEM, dropna=False)["error_over_bound_high"].transform("min")
    contends = (curves["error_over_bound_low"] <= least).to_numpy()[curve_index]
    exact_factors = _exact_factors(exact, rows[contends], curve_index[contends])
    for name in ENDS:
        curves[name] = exact_factors.reindex(curves.index).fillna(curves[name])
    curves.loc[exact_factors.index, "error_over_bound_from"] = EXACT
    return curves


def _select_bounded(summary: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of private estimators with a finite positive lower bound.

    If estimators of the central and the local model ran on a family, keep only the central model.
    """
    rows = add_bounds(summary)
    rows = rows.assign(distribution=rows["family"], member=rows["distribution"])
    bound = rows["bound"]
    rows = rows[np.isfinite(bound) & (bound > 0) & (rows["privacy"] != "none")]
    central = rows["bound_name"] != LOCAL_BOUND_NAME
    local = ~rows["family"].isin(rows.loc[central, "family"])
    bounded: pd.DataFrame = rows[central | local].reset_index(drop=True)
    return bounded


def add_bounds(summary: pd.DataFrame) -> pd.DataFrame:
    """Add the columns ``members`` and ``bound`` to a summary, the table of all results.

    ``members`` is the number of distributions in the row's family. ``bound`` is the lower bound
    with which the worst error over the family may be compared. A lower bound for all distributions
    with a bounded moment of order k concerns the worst of them. A single such distribution may be
    easier. So ``bound`` is NaN for a family that has a bounded moment and only one member.
    """
    members = summary.groupby("family")["distribution"].transform("nunique")
    bound = summary["lower_bound"].where((members > 1) | summary["k"].isna())
    return summary.assign(members=members, bound=bound).reset_index(drop=True)


def _trial_factors(
    over: Floats, curve_index: Ints, candidates: pd.Series[int]
) -> list[Measurement]:
    """Estimate the largest factor over the members of each family from trials, with its interval.

    Each row of `over` has a member's error over the lower bound, and both ends of its interval.
    Rows with equal `curve_index` belong to one family, estimator, budget and n.
    """
    order = np.argsort(curve_index, kind="stable")
    parts = (
        np.split(over[order], np.flatnonzero(np.diff(curve_index[order])) + 1)
        if len(curve_index)
        else []
    )
    return [
        largest(*members.T, candidates=size)
        for members, size in zip(parts, candidates, strict=True)
    ]


def _exact_factors(exact: Exact, rows: pd.DataFrame, curve_index: Ints) -> pd.Series[float]:
    """Return the largest exact factor over the members of each family, estimator, budget and n.

    A factor is the exact 0.9 quantile of the error over the lower bound. The result leaves out a
    family, estimator, budget and n if the exact quantile of a member is unknown.
    """
    queried = rows.assign(distribution=rows["member"])
    over = pd.Series(exact(queried) / rows["lower_bound"].to_numpy())
    return over.groupby(curve_index).max()[~over.isna().groupby(curve_index).any()]
