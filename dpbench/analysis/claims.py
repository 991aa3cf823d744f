"""Claims: what a theorem predicts against what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from dpbench.analysis.exponents import Measured, alpha_exponent, epsilon_exponent, interval
from dpbench.analysis.summary import quantile_replicates
from dpbench.parameters import validated
from dpbench.privacy import Budget
from dpbench.theory.theorems import THEOREMS, Theorem

__all__ = ["COLUMNS", "Claim", "evaluate", "under", "verdict", "worst_case"]

Floats = NDArray[np.float64]
Labels = Annotated[list[str], Field(min_length=1)]

COLUMNS = (
    "claim",
    "source",
    "estimator",
    "distribution",
    "variable",
    "metric",
    "predicted",
    "measured",
    "low",
    "high",
    "tolerance",
    "verdict",
)
BUDGET = ["privacy", "epsilon", "delta", "rho"]
CURVE = ["family", "k", "estimator", *BUDGET]


@validated
class Claim:
    """A theorem, and the estimators, families and regime that it is tested on.

    Parameters
    ----------
    theorem : str
        A name in `dpbench.theory.theorems.THEOREMS`.
    families, estimators, budgets : list of str
        Labels of the sweep, or patterns. No estimators for a claim about the lower
        bound; no budgets for estimators without privacy.
    tolerance : float > 0
        How far a finite experiment may be from the asymptotic prediction.
    reason : str
        Why this tolerance and regime.
    n_min, n_max : int
        The regime: sample sizes that take part.
    """

    theorem: str
    families: Labels
    tolerance: Annotated[float, Field(gt=0)]
    reason: Annotated[str, Field(min_length=1)]
    estimators: Labels | None = None
    budgets: Labels | None = None
    n_min: Annotated[int, Field(ge=1)] = 1
    n_max: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.theorem not in THEOREMS:
            raise ValueError(f"no such theorem {self.theorem!r}; choose from {', '.join(THEOREMS)}")
        return self

    @property
    def replicated(self) -> str | None:
        """The column of quantiles that the claim resamples, if any."""
        return None if self.statement.metric == "lower_bound" else self.statement.metric

    @property
    def statement(self) -> Theorem:
        """The theorem itself."""
        return THEOREMS[self.theorem]


def under(summary: pd.DataFrame, budget: Budget) -> pd.Series[bool]:
    """Which rows of `summary` are about `budget`."""
    same = summary["privacy"] == budget.label
    for name in ("epsilon", "delta", "rho"):
        amount = getattr(budget, name, None)
        if amount is not None:
            same &= summary[name] == amount
    return same


def verdict(
    measured: Measured, predicted: float, tolerance: float, *, floor: float | None = None
) -> str:
    """Compare an interval with the region predicted +- tolerance.

    Parameters
    ----------
    measured : Measured
    predicted, tolerance : float
    floor : float, optional
        For an upper limit: the region is from floor - tolerance to predicted + tolerance.

    Returns
    -------
    {'consistent', 'inconsistent', 'inconclusive'}
        ``inconsistent`` if the interval misses the region. ``consistent`` if it meets
        it and either lies inside or is narrower than twice the tolerance. Otherwise, or
        if a number is not finite, more trials are needed: ``inconclusive``.
    """
    if not np.all(np.isfinite([*measured, predicted])):
        return "inconclusive"
    bottom = (predicted if floor is None else floor) - tolerance
    top = predicted + tolerance
    if measured.high < bottom or measured.low > top:
        return "inconsistent"
    inside = bottom <= measured.low and measured.high <= top
    narrow = measured.high - measured.low < 2 * tolerance
    return "consistent" if inside or narrow else "inconclusive"


def worst_case(
    summary: pd.DataFrame, metric: str, replicates: Floats | None = None
) -> tuple[pd.DataFrame, Floats]:
    """The largest `metric` over the members of each family, replicate by replicate.

    Parameters
    ----------
    summary : DataFrame
        As from `summarise`.
    metric : str
        Its column.
    replicates : (rows, draws) array, optional
        Bootstrap replicates of that column; their maximum is taken anew in every
        replicate.

    Returns
    -------
    curves : DataFrame
        One row per family, estimator, budget and n: those columns, ``value`` and
        ``lower_bound``.
    replicates : (rows of curves, draws) array
    """
    code = summary.groupby([*CURVE, "n"], dropna=False, observed=True).ngroup().to_numpy()
    order = np.argsort(code, kind="stable")
    starts = np.searchsorted(code[order], np.arange(code.max() + 1))
    curves = summary.iloc[order[starts]][[*CURVE, "n", "lower_bound"]].reset_index(drop=True)
    curves["value"] = np.maximum.reduceat(summary[metric].to_numpy()[order], starts)
    if replicates is None:
        replicates = np.repeat(summary[metric].to_numpy()[:, None], 2, axis=1)
    return curves, np.maximum.reduceat(replicates[order], starts, axis=0)


def held_out(summary: pd.DataFrame, errors: Sequence[Floats]) -> tuple[pd.DataFrame, list[Floats]]:
    """Choose each curve's worst member on half of the trials and keep the other half.

    The largest of several noisy quantiles is too high, and no bootstrap of it covers
    when members tie. The quantile of a member that other trials have chosen is not. The
    choice is by the geometric mean over n, among the members that are there at every n.

    Returns
    -------
    summary : DataFrame
        The rows of the chosen members, with ``q90`` of the half that is kept.
    errors : list of arrays
        That half.
    """
    halves = [np.array_split(np.where(np.isfinite(e), e, np.inf), 2) for e in errors]
    first, second = (
        np.array([np.quantile(half[i], 0.9, method="inverted_cdf") for half in halves])
        for i in (0, 1)
    )
    member = [*CURVE, "distribution"]
    with np.errstate(divide="ignore"):
        scored = summary.assign(chosen_by=np.log(first))
    by_member = scored.groupby(member, dropna=False, observed=True)
    means = by_member["chosen_by"].agg(["mean", "size"]).reset_index()
    curves = means.groupby(CURVE, dropna=False, observed=True)
    means = means[means["size"] == curves["size"].transform("max")]
    worst = means.loc[means.groupby(CURVE, dropna=False, observed=True)["mean"].idxmax(), member]
    chosen = summary.reset_index().merge(worst, on=member)["index"].to_numpy()
    rows = summary.iloc[chosen].assign(q90=second[chosen]).reset_index(drop=True)
    return rows, [halves[i][1] for i in chosen]


def evaluate(
    name: str, claim: Claim, summary: pd.DataFrame, errors: Sequence[Floats] | None
) -> pd.DataFrame:
    """Test a claim on every curve of `summary`.

    Parameters
    ----------
    name : str
        The claim's label.
    claim : Claim
    summary : DataFrame
        Only the rows that the claim is about.
    errors : sequence of (trials,) arrays, optional
        The errors whose quantile `claim.replicated` is, one vector per row; None for
        a claim about the lower bound, which has no error.

    Returns
    -------
    DataFrame
        The columns of `COLUMNS`, with ``k``, ``at_most`` and the budget's.
    """
    theorem = claim.statement
    if theorem.variable == "factor" and errors is not None:
        summary, errors = held_out(summary, errors)
    replicates = None if errors is None else quantile_replicates(summary, errors)
    curves, draws = worst_case(summary, claim.replicated or theorem.metric, replicates)
    by = CURVE if theorem.variable != "epsilon" else ["family", "k", "estimator", "privacy"]
    if theorem.metric == "lower_bound":
        # The bound knows no estimator: one row of each n will do.
        first = ~curves.duplicated(["family", "n", *BUDGET])
        curves, draws = curves[first].reset_index(drop=True), draws[first.to_numpy()]
        curves["estimator"] = "(lower bound)"
    found = []
    for _, curve in curves.groupby(by, dropna=False, observed=True):
        measured = _measure(theorem, curve, draws[curve.index])
        found.append({"claim": name, **_row(claim, curve.iloc[0], measured)})
    return pd.DataFrame(found)


def _row(claim: Claim, about: pd.Series, measured: Measured) -> dict[str, Any]:
    """What `evaluate` says of one curve; `about` is any point of it."""
    theorem = claim.statement
    predicted = theorem.predicted(about["k"])
    # A claim about epsilon spans budgets of one notion.
    spanned = dict.fromkeys(BUDGET[1:], np.nan) if theorem.variable == "epsilon" else {}
    return {
        "source": theorem.source,
        "estimator": about["estimator"],
        "distribution": about["family"],
        "variable": theorem.variable,
        "metric": theorem.metric,
        "predicted": predicted,
        "measured": measured.value,
        "low": measured.low,
        "high": measured.high,
        "tolerance": claim.tolerance,
        "verdict": verdict(measured, predicted, claim.tolerance, floor=theorem.floor),
        "k": about["k"],
        "at_most": theorem.at_most,
        **({name: about[name] for name in BUDGET} | spanned),
    }


def _measure(theorem: Theorem, curve: pd.DataFrame, draws: Floats) -> Measured:
    n, value = curve["n"].to_numpy(), curve["value"].to_numpy()
    if not np.all(np.isfinite(value)) or not np.all(np.isfinite(draws)) or np.any(draws <= 0):
        return Measured(np.nan, np.nan, np.nan)
    if theorem.variable == "factor":
        bound = curve["lower_bound"].to_numpy()
        ratios = np.log(np.concatenate([value[:, None], draws], axis=1) / bound[:, None])
        factor = np.exp(ratios.mean(axis=0))
        return interval(factor[0], factor[1:])
    if theorem.variable == "alpha":
        return alpha_exponent(n, value, draws.T)
    return epsilon_exponent(n, curve["epsilon"].to_numpy(), value, draws.T)
