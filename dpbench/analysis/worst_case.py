"""The worst member of a family: its errors, and which rows are about what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbench.analysis.summary import level
from dpbench.arrays import Floats
from dpbench.privacy import Budget

__all__ = [
    "BUDGET",
    "CURVE",
    "curve_starts",
    "held_out",
    "held_out_cell",
    "under",
    "worst_case",
]


BUDGET = ["privacy", "epsilon", "delta", "rho"]
CURVE = ["family", "k", "estimator", *BUDGET]
# What a sweep may add: labels of estimator and family without the parameters that claims span,
# and these parameters.
OPTIONAL = ("series", "radius", "law", "d", "norm")


def under(summary: pd.DataFrame, budget: Budget) -> pd.Series[bool]:
    """Which rows of `summary` are about `budget`."""
    same = summary["privacy"] == budget.label
    for name in ("epsilon", "delta", "rho"):
        amount = getattr(budget, name, None)
        if amount is not None:
            same &= summary[name] == amount
    return same


def curve_starts(summary: pd.DataFrame) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The order that puts the members of each curve's points together, and where each starts."""
    code = summary.groupby([*CURVE, "n"], dropna=False, observed=True).ngroup().to_numpy()
    order = np.argsort(code, kind="stable")
    return order, np.searchsorted(code[order], np.arange(code.max() + 1))


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
    order, starts = curve_starts(summary)
    kept = [*CURVE, "n", "lower_bound", *(c for c in OPTIONAL if c in summary)]
    curves = summary.iloc[order[starts]][kept].reset_index(drop=True)
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


def held_out_cell(
    summary: pd.DataFrame, errors: Sequence[Floats], metric: str
) -> tuple[pd.DataFrame, list[Floats]]:
    """Choose the row with the largest `metric` under each budget on half of the trials.

    As in `held_out`: what is then measured on the other half is not too high.

    Parameters
    ----------
    summary : DataFrame
    errors : sequence of (trials,) arrays
        One per row; `metric` is a quantile of them, or their mean if it is a rate.
    metric : str
        A column of `summary`.

    Returns
    -------
    summary : DataFrame
        The chosen rows, with `metric` of the half that is kept.
    errors : list of arrays
        That half. A row whose errors are not all known is chosen before others.
    """
    halves = [np.array_split(values, 2) for values in errors]
    first, second = (np.array([_statistic(half[i], metric) for half in halves]) for i in (0, 1))
    scored = summary.assign(chosen_by=np.where(np.isnan(first), np.inf, first))
    by_budget = scored.reset_index(drop=True).groupby(BUDGET, dropna=False, observed=True)
    chosen = by_budget["chosen_by"].idxmax().to_numpy()
    rows = summary.iloc[chosen].assign(**{metric: second[chosen]}).reset_index(drop=True)
    return rows, [halves[i][1] for i in chosen]


def _statistic(values: Floats, metric: str) -> float:
    if metric == "miss_rate" or np.any(np.isnan(values)):
        return float(values.mean())
    return float(np.quantile(values, level(metric), method="inverted_cdf"))
