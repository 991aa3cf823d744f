"""Claims: what a theorem predicts against what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpbench.analysis.exponents import (
    Measured,
    alpha_exponent,
    cost_exponent,
    direct_exponent,
    interval,
)
from dpbench.analysis.sample_complexity import joint_replicates, sample_complexity
from dpbench.analysis.summary import (
    level,
    mean_replicates,
    quantile_replicates,
    rate_replicates,
)
from dpbench.analysis.worst_case import BUDGET, CURVE, held_out, held_out_cell, worst_case
from dpbench.arrays import Floats
from dpbench.registry import validated
from dpbench.theory.lower_bounds import BETA
from dpbench.theory.theorems import THEOREMS, Theorem

__all__ = ["COLUMNS", "SPANNING", "Claim", "axis", "curve_columns", "evaluate", "verdict"]

Alpha = Annotated[float, Field(gt=0)]
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
UNKNOWN = Measured(np.nan, np.nan, np.nan)
# With fewer trials the largest error is below the 0.9 quantile with probability above 2.5%: no
# interval for it has an upper end.
LEAST_TRIALS = 36
# Columns of a summary that claims read as they are.
SUMMARISED = ("lower_bound", "mean_error")
# Variables that one curve holds several values of, other than n and alpha.
SPANNING = ("epsilon", "rho", "delta", "radius", "log_radius", "d", "norm")


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
    alpha : float or list of float
        For claims about the smallest n: at which error.
    limit : float, optional
        For theorems that leave their number to the estimator's or the law's parameters.
    over : str, optional
        For claims about ratios: the label of the estimator in the denominator, which is
        one of `estimators`.
    """

    theorem: str
    families: Labels
    tolerance: Annotated[float, Field(gt=0)]
    reason: Annotated[str, Field(min_length=1)]
    estimators: Labels | None = None
    budgets: Labels | None = None
    n_min: Annotated[int, Field(ge=1)] = 1
    n_max: Annotated[int, Field(ge=1)] | None = None
    limit: float | None = None
    over: str | None = None
    alpha: Alpha | Annotated[list[Alpha], Field(min_length=2)] | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.theorem not in THEOREMS:
            raise ValueError(f"no such theorem {self.theorem!r}; choose from {', '.join(THEOREMS)}")
        if (self.statement.of == "samples") != bool(self.alphas):
            raise ValueError("alpha belongs to claims about the smallest n, and to those only")
        if isinstance(self.alpha, list) != (
            self.statement.variable == "alpha" and self.alphas != []
        ):
            raise ValueError("several alpha belong to claims about alpha, and to those only")
        if (self.limit is not None) != bool(np.isnan(self.statement.predicted(2.0))):
            open_ = [name for name, one in THEOREMS.items() if np.isnan(one.predicted(2.0))]
            raise ValueError(
                "limit belongs to theorems that leave their number to the estimator, and to all of "
                f"these: {', '.join(open_)}"
            )
        if (self.over is not None) != (self.statement.variable == "ratio"):
            raise ValueError("over belongs to claims about ratios, and to those only")
        return self

    def predicted(self, k: float) -> float:
        """The theorem's number at a moment order k."""
        return self.statement.predicted(k) if self.limit is None else self.limit

    @property
    def alphas(self) -> list[float]:
        """The errors at which the smallest n is sought."""
        if self.alpha is None:
            return []
        return self.alpha if isinstance(self.alpha, list) else [self.alpha]

    @property
    def replicated(self) -> str | None:
        """The column of quantiles that the claim resamples, if any."""
        return None if self.statement.metric in SUMMARISED else self.statement.metric

    @property
    def statement(self) -> Theorem:
        """The theorem itself."""
        return THEOREMS[self.theorem]


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


def evaluate(
    name: str,
    claim: Claim,
    summary: pd.DataFrame,
    errors: Sequence[Floats] | None,
    *,
    shared: bool,
) -> pd.DataFrame:
    """Test a claim on every curve of `summary`.

    Parameters
    ----------
    name : str
        The claim's label.
    claim : Claim
    summary : DataFrame
        Only the rows that the claim is about; ``series`` and ``radius`` beside the
        columns of a summary if the claim is about the radius.
    errors : sequence of (trials,) arrays, optional
        The errors whose quantile or mean `claim.replicated` is, one vector per row; None
        for a claim about the lower bound, which has no error, and for one about mean errors.
    shared : bool
        Whether rows of different budgets share their data.

    Returns
    -------
    DataFrame
        The columns of `COLUMNS`, with ``k``, ``at_most``, ``of``, the budget's, and the regime
        from ``n_low`` to ``n_high``.
    """
    theorem = claim.statement
    if theorem.variable == "factor" and errors is not None:
        summary, errors = held_out(summary, errors)
    if theorem.variable == "limit" and errors is not None:
        summary, errors = held_out_cell(summary, errors, theorem.metric)
    enough = True
    if errors is not None:
        enough = min(map(len, errors)) >= LEAST_TRIALS
    elif theorem.metric == "mean_error":
        enough = bool(summary["trials"].min() >= LEAST_TRIALS)
    if theorem.of == "samples":
        assert errors is not None
        curves, draws = sample_complexity(summary, errors, claim.alphas, BETA, shared=shared)
        curves["value"] = curves["samples"]
    else:
        replicates = _replicates(theorem, summary, errors, shared)
        curves, draws = worst_case(summary, theorem.metric, replicates)
    if theorem.metric == "lower_bound":
        # The bound knows no estimator: one row of each n will do.
        first = ~curves.duplicated(["family", "n", *BUDGET])
        curves, draws = curves[first].reset_index(drop=True), draws[first.to_numpy()]
        curves["estimator"] = "(lower bound)"
    if claim.over is not None:
        curves, draws = _ratios(curves, draws, claim.over)
    found = []
    for _, curve in curves.groupby(curve_columns(theorem), dropna=False, observed=True):
        measured = _measure(theorem, curve, draws[curve.index]) if enough else UNKNOWN
        sizes = curve["n"] if "n" in curve else curve["samples"]
        regime = {"n_low": sizes.min(), "n_high": sizes.max()}
        found.append({"claim": name, **_row(claim, curve.iloc[0], measured), **regime})
    return pd.DataFrame(found)


def curve_columns(theorem: Theorem) -> list[str]:
    """The columns that a claim's curves are told apart by: all but what a curve spans.

    A limit holds for all estimators, families and n of a claim: its curve is one per budget.
    """
    if theorem.variable == "limit":
        return BUDGET
    if theorem.variable in {"radius", "log_radius"}:
        return ["family", "k", "series", *BUDGET]
    if theorem.variable in {"d", "norm"}:
        other = "norm" if theorem.variable == "d" else "d"
        return ["law", other, "k", "estimator", *BUDGET]
    return [column for column in CURVE if column != theorem.variable]


def axis(theorem: Theorem, points: pd.DataFrame) -> Floats:
    """The x of n ~ x^s at every point of a curve."""
    if theorem.variable in {"radius", "log_radius"}:
        radius = points["radius"].to_numpy(float)
        return np.log(radius) if theorem.variable == "log_radius" else radius
    if theorem.variable in {"d", "norm"}:
        return points[theorem.variable].to_numpy(float)
    if theorem.variable == "delta":
        return np.asarray(-np.log(points["delta"].to_numpy(float)))
    return np.asarray(1 / points[theorem.variable].to_numpy(float))


def _ratios(curves: pd.DataFrame, draws: Floats, over: str) -> tuple[pd.DataFrame, Floats]:
    """Each estimator's values over those of the estimator `over` at the same family and n."""
    at = ["family", "n", *BUDGET]
    below = curves[curves["estimator"] == over][at].reset_index(names="below")
    above = curves[curves["estimator"] != over].reset_index(names="above").merge(below, on=at)
    value = curves["value"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):  # where nothing errs
        ratio = value[above["above"]] / value[above["below"]]
        draws = draws[above["above"]] / draws[above["below"]]
    return above.drop(columns=["above", "below"]).assign(value=ratio), draws


def _replicates(
    theorem: Theorem, summary: pd.DataFrame, errors: Sequence[Floats] | None, shared: bool
) -> Floats | None:
    if errors is None:
        return mean_replicates(summary) if theorem.metric == "mean_error" else None
    if theorem.metric == "miss_rate":
        return rate_replicates(summary, errors)
    compares_settings = theorem.variable in SPANNING and (shared or theorem.variable == "radius")
    if compares_settings:
        return joint_replicates(summary, errors, shared=shared)
    return quantile_replicates(summary, errors, q=level(theorem.metric))


def _row(claim: Claim, about: pd.Series, measured: Measured) -> dict[str, Any]:
    """What `evaluate` says of one curve; `about` is any point of it."""
    theorem = claim.statement
    predicted = claim.predicted(about["k"])
    kept = curve_columns(theorem)
    return {
        "source": theorem.source,
        "estimator": about["series" if "series" in kept else "estimator"],
        "distribution": about["law" if "law" in kept else "family"],
        "variable": theorem.variable,
        "metric": theorem.metric if theorem.of != "samples" else "samples",
        "predicted": predicted,
        "measured": measured.value,
        "low": measured.low,
        "high": measured.high,
        "tolerance": claim.tolerance,
        "verdict": verdict(measured, predicted, claim.tolerance, floor=theorem.floor),
        "k": about["k"],
        "at_most": theorem.at_most,
        "of": theorem.of,
        **{name: about[name] if name in kept else np.nan for name in BUDGET},
    }


def _measure(theorem: Theorem, curve: pd.DataFrame, draws: Floats) -> Measured:
    value = curve["value"].to_numpy()
    if not np.all(np.isfinite(value)) or not np.all(np.isfinite(draws)):
        return UNKNOWN
    if theorem.variable == "limit":
        return interval(value[0], draws[0])
    if np.any(draws <= 0):
        return UNKNOWN
    if theorem.variable in {"factor", "ratio"}:
        bound = curve["lower_bound"].to_numpy() if theorem.variable == "factor" else np.ones(1)
        ratios = np.log(np.concatenate([value[:, None], draws], axis=1) / bound[:, None])
        factor = np.exp(ratios.mean(axis=0))
        return interval(factor[0], factor[1:])
    return _exponent(theorem, curve, value, draws.T)


def _exponent(theorem: Theorem, curve: pd.DataFrame, value: Floats, draws: Floats) -> Measured:
    if theorem.of == "samples":
        return direct_exponent(value, draws, axis(theorem, curve))
    n = curve["n"].to_numpy(float)
    if theorem.variable == "alpha":
        return alpha_exponent(n, value, draws)
    if theorem.variable == "n":
        return direct_exponent(value, draws, n)
    if theorem.of == "fixed_n":
        others = [n] if np.ptp(n) else []
        return direct_exponent(value, draws, *others, axis(theorem, curve))
    return cost_exponent(n, axis(theorem, curve), value, draws)
