"""Compare the errors of estimators with lower bounds for all private estimators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbench.analysis.extremes import largest
from dpbench.analysis.resample import Measurement
from dpbench.analysis.results import CURVE, worst_case
from dpbench.arrays import Floats, Ints
from dpbench.sweep.selection import BUDGET
from dpbench.theory.bounds.class_bound import OF_VIEWS

__all__ = ["BY_TRIALS", "ENDS", "EXACT", "OPTIMAL", "factors", "profile", "scores"]

OPTIMAL = 1.1  # largest factor with the verdict ``optimal``
LAW = ["distribution", "k", "n", "d"]
PROBLEM = [*LAW, *BUDGET]
BOUND, FREE = "lower bound", "no privacy"
EXACT, BY_TRIALS = "exact value", "trials"  # values of the column factor_by
Exact = Callable[[pd.DataFrame], Floats]
ENDS = ["factor", "factor_low", "factor_high"]
SCORES = [
    "distribution", "k", *BUDGET, "n", "d", "estimator", "score", "score_high", "over",
    "lower_bound", "bound_name", "members",
]  # fmt: skip
COLUMNS = [
    "distribution", "k", *BUDGET, "n", "d", "estimator", *ENDS, "factor_by", "lower_bound",
    "bound_name", "verdict",
]  # fmt: skip


def scores(summary: pd.DataFrame) -> pd.DataFrame:
    """Return each private estimator's error over a lower bound, or over the error without privacy.

    Returns
    -------
    DataFrame
        A row for each family, budget, n and estimator, with these columns besides the key:

        - ``score``: the worst 0.9 quantile of the error, divided by the finite lower bound.
          If no bound is known, as for a single distribution with bounded moments, it is divided
          by the least worst 0.9 quantile without privacy.
        - ``score_high``: the upper end of the 95% interval of that quantile, divided likewise.
        - ``over``: the denominator, ``lower bound`` or ``no privacy``.
        - ``lower_bound``, and ``bound_name``: the proof of the bound.
        - ``members``: the number of distributions in the family.

        Problems with neither denominator, or with an infinite bound, are left out.
    """
    summary = _told(summary)
    curves, worst = worst_case(summary, summary[["q90", "q90_high"]].fillna(np.inf).to_numpy())
    curves["distribution"] = curves["family"]
    private, bound = curves["privacy"] != "none", curves["bound"]
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
    """Return an estimator's profile: the share of all problems with a score of at most x.

    Problems that the estimator was not run on, or fails at, count as never solved. The profile
    does not depend on other estimators, because no score does.

    Parameters
    ----------
    found : array_like of shape (..., scores)
        Scores of the estimator, at most one for each problem; infinite if it fails.
    problems : int
        Number of all problems.
    at : array_like of shape (points,)
        The values of x.

    Returns
    -------
    ndarray of shape (..., points)
        Shares in [0, 1].
    """
    solved = np.asarray(found)[..., :, None] <= np.asarray(at)
    return np.asarray(solved.sum(axis=-2) / problems)


def factors(summary: pd.DataFrame, exact: Exact | None = None) -> pd.DataFrame:
    """Find the best estimator of each family, budget and n, and its factor over the lower bound.

    A factor is the worst 0.9 quantile of the error over a family, divided by the lower bound. It
    is exact if the exact quantile of every member is known. Else it comes from trials, and its 95%
    interval allows for the choice of the worst member and the best estimator; see
    `dpbench.analysis.extremes.largest`.

    Parameters
    ----------
    summary : DataFrame
        As in ``summary.csv``.
    exact : callable, optional
        Returns exact 0.9 quantiles for rows of the summary, (rows,), NaN if unknown. It is called
        only for estimators that may be the best. By default none is known.

    Returns
    -------
    DataFrame
        The table ``factors.csv``: a row for each family, budget and n with a finite bound. If
        estimators of the central and the local model run, it is about the central model. Columns:

        - ``distribution`` (the family), ``k``, the budget, ``n, d``.
        - ``estimator``: the estimator with the least ``factor``.
        - ``factor_low, factor_high``: the ends of its 95% interval, equal if it is exact.
        - ``factor_by``: ``exact value`` or ``trials``.
        - ``lower_bound``, and ``bound_name``: the proof of the bound.
        - ``verdict``: decided by ``factor_high``. ``below`` if it is below 1, so that the listed
          distributions are not the worst of their class. ``one law`` for a family with a single
          member, because others of its class may be worse. ``optimal`` if at most 1.1. Else
          ``open``.
    """
    curves = _curves(_bounded(summary), exact)
    best = curves.sort_values("factor", kind="stable").drop_duplicates(PROBLEM).sort_index()
    high = best["factor_high"]
    cases = [high < 1, best["members"] == 1, high <= OPTIMAL]
    verdict = np.select(cases, ["below", "one law", "optimal"], "open")
    return best.assign(verdict=verdict)[COLUMNS].reset_index(drop=True)


def _curves(rows: pd.DataFrame, exact: Exact | None) -> pd.DataFrame:
    """Return every estimator's factor on every problem, exact for those that may be the best."""
    at = np.asarray(rows.groupby([*CURVE, "n"], dropna=False).ngroup(), dtype=int)
    curves = rows.assign(at=at).drop_duplicates("at").set_index("at").sort_index()
    errors = rows[["q90", "q90_low", "q90_high"]].fillna(np.inf).to_numpy()
    among = curves.groupby(PROBLEM, dropna=False)["estimator"].transform("size")
    found = _by_trials(errors / rows[["lower_bound"]].to_numpy(), at, among)
    ends = pd.DataFrame(found, curves.index, columns=ENDS)
    curves = pd.concat([curves, ends], axis=1).assign(factor_by=BY_TRIALS)
    if exact is None:
        return curves
    least = curves.groupby(PROBLEM, dropna=False)["factor_high"].transform("min")
    near = (curves["factor_low"] <= least).to_numpy()[at]
    known = _exactly(exact, rows[near], at[near])
    for name in ENDS:
        curves[name] = known.reindex(curves.index).fillna(curves[name])
    curves.loc[known.index, "factor_by"] = EXACT
    return curves


def _bounded(summary: pd.DataFrame) -> pd.DataFrame:
    """Select the private rows with a finite bound; of two models, the central one."""
    rows = _told(summary)
    rows = rows.assign(distribution=rows["family"], member=rows["distribution"])
    bound = rows["bound"]
    rows = rows[np.isfinite(bound) & (bound > 0) & (rows["privacy"] != "none")]
    central = rows["bound_name"] != OF_VIEWS
    local = ~rows["family"].isin(rows.loc[central, "family"])
    bounded: pd.DataFrame = rows[central | local].reset_index(drop=True)
    return bounded


def _told(summary: pd.DataFrame) -> pd.DataFrame:
    """Add each family's number of ``members`` and its ``bound``.

    The bound is about the worst distribution of the class with a bounded moment of order k. It is
    NaN for a family of a single such distribution, which may be easier.
    """
    members = summary.groupby("family")["distribution"].transform("nunique")
    bound = summary["lower_bound"].where((members > 1) | summary["k"].isna())
    return summary.assign(members=members, bound=bound).reset_index(drop=True)


def _by_trials(over: Floats, at: Ints, among: pd.Series[int]) -> list[Measurement]:
    """Return each curve's factor with its interval, from its members' 0.9 quantiles and ends."""
    order = np.argsort(at, kind="stable")
    parts = np.split(over[order], np.flatnonzero(np.diff(at[order])) + 1) if len(at) else []
    return [largest(*one.T, among=size) for one, size in zip(parts, among, strict=True)]


def _exactly(exact: Exact, rows: pd.DataFrame, at: Ints) -> pd.Series[float]:
    """Return the exact factors of the curves for which all members' exact quantiles are known."""
    asked = rows.assign(distribution=rows["member"])
    over = pd.Series(exact(asked) / rows["lower_bound"].to_numpy())
    return over.groupby(at).max()[~over.isna().groupby(at).any()]
