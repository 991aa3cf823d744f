"""Compare the errors of estimators with what no private estimator reaches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbench.analysis.extremes import largest
from dpbench.analysis.resample import Measured
from dpbench.analysis.results import CURVE, worst_case
from dpbench.arrays import Floats, Ints
from dpbench.sweep.selection import BUDGET
from dpbench.theory.bounds.of_class import OF_VIEWS

__all__ = ["BY_TRIALS", "ENDS", "EXACT", "OPTIMAL", "factors", "profile", "scores"]

# The largest factor that is called optimal.
OPTIMAL = 1.1
LAW = ["distribution", "k", "n", "d"]
PROBLEM = [*LAW, *BUDGET]
BOUND, FREE = "lower bound", "no privacy"
EXACT, BY_TRIALS = "exact value", "trials"  # how a factor is known
Exact = Callable[[pd.DataFrame], Floats]
ENDS = ["factor", "factor_low", "factor_high"]
SCORES = [
    "distribution", "k", *BUDGET, "n", "d", "estimator", "score", "score_high", "over",
    "lower_bound", "bound_by", "members",
]  # fmt: skip
COLUMNS = [
    "distribution", "k", *BUDGET, "n", "d", "estimator", *ENDS, "factor_by", "lower_bound",
    "bound_by", "verdict",
]  # fmt: skip


def scores(summary: pd.DataFrame) -> pd.DataFrame:
    """Return each private estimator's error over a lower bound, or over the error without privacy.

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


def factors(summary: pd.DataFrame, exact: Exact | None = None) -> pd.DataFrame:
    """Return the best estimator of each family, budget and n, over the bound: ``factors.csv``.

    A factor is the worst 0.9 quantile of an error over a family, divided by the lower bound. It is
    exact if the exact quantile of every member is known. Else it comes from trials, and its 95%
    interval allows for the choice of the worst member and the best estimator; see `largest`.

    Parameters
    ----------
    summary : DataFrame
        As in ``summary.csv``.
    exact : callable, optional
        Exact 0.9 quantiles of rows of the summary, (rows,), NaN where none is known. Only rows of
        estimators that may be the best are asked for. By default none is known.

    Returns
    -------
    DataFrame
        A row for each where a finite bound is known: ``distribution`` (the family), ``k``, the
        budget, ``n, d``, the ``estimator`` of the least ``factor``, its interval from
        ``factor_low`` to ``factor_high``, ``factor_by`` (``exact value`` or ``trials``), the
        ``lower_bound`` and the proof it is ``bound_by``. The ``verdict`` reads ``factor_high``,
        which is the factor where that is exact: ``below`` if it is below 1 (the listed laws are not
        the worst of their class), ``one law`` for a family of one member, as others of its class
        may be worse, ``optimal`` if at most 1.1, else ``open``. Where both models run it is of the
        central one.
    """
    curves = _curves(_bounded(summary), exact)
    best = curves.sort_values("factor", kind="stable").drop_duplicates(PROBLEM).sort_index()
    high = best["factor_high"]
    cases = [high < 1, best["members"] == 1, high <= OPTIMAL]
    verdict = np.select(cases, ["below", "one law", "optimal"], "open")
    return best.assign(verdict=verdict)[COLUMNS].reset_index(drop=True)


def _curves(rows: pd.DataFrame, exact: Exact | None) -> pd.DataFrame:
    """Return every estimator's factor at every problem, exact for those that may be the best."""
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
    """Return the private rows that a finite bound holds for; of two models, the central one."""
    rows = _told(summary)
    rows = rows.assign(distribution=rows["family"], member=rows["distribution"])
    bound = rows["bound"]
    rows = rows[np.isfinite(bound) & (bound > 0) & (rows["privacy"] != "none")]
    central = rows["bound_by"] != OF_VIEWS
    local = ~rows["family"].isin(rows.loc[central, "family"])
    bounded: pd.DataFrame = rows[central | local].reset_index(drop=True)
    return bounded


def _told(summary: pd.DataFrame) -> pd.DataFrame:
    """Add each family's number of ``members`` and its ``bound``, NaN for one law of order k.

    One law of bounded moments may be easier than the worst law of the class, which the bound is
    about.
    """
    members = summary.groupby("family")["distribution"].transform("nunique")
    bound = summary["lower_bound"].where((members > 1) | summary["k"].isna())
    return summary.assign(members=members, bound=bound).reset_index(drop=True)


def _by_trials(over: Floats, at: Ints, among: pd.Series[int]) -> list[Measured]:
    """Return each curve's factor with its interval, from its members' 0.9 quantiles and ends."""
    order = np.argsort(at, kind="stable")
    parts = np.split(over[order], np.flatnonzero(np.diff(at[order])) + 1) if len(at) else []
    return [largest(*one.T, among=size) for one, size in zip(parts, among, strict=True)]


def _exactly(exact: Exact, rows: pd.DataFrame, at: Ints) -> pd.Series[float]:
    """Return the factors of the curves all of whose members have a known exact quantile."""
    asked = rows.assign(distribution=rows["member"])
    over = pd.Series(exact(asked) / rows["lower_bound"].to_numpy())
    return over.groupby(at).max()[~over.isna().groupby(at).any()]
