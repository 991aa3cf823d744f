"""The worst member of a family, replicate by replicate, and chosen on half of the trials."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpbench.analysis.results import Results
from dpbench.analysis.summary import quantile
from dpbench.arrays import Floats
from dpbench.columns import BUDGET
from dpbench.metrics import METRICS

__all__ = ["CURVE", "held_out_key", "held_out_member", "worst_case"]


CURVE = ["family", "k", "estimator", *BUDGET]


def worst_case(
    table: pd.DataFrame, column: str, replicates: Floats | None = None
) -> tuple[pd.DataFrame, Floats]:
    """The largest value of a column over the members of each family.

    Parameters
    ----------
    table : DataFrame
        As `Results.summary`.
    column : str
    replicates : (rows, draws) array, optional
        Replicates of that column; their maximum is taken anew in every replicate.

    Returns
    -------
    curves : DataFrame
        One row per family, estimator, budget and n: a row of the table, and ``value``.
    replicates : (rows of curves, draws) array
    """
    values = table[column].to_numpy()
    replicates = values[:, None] if replicates is None else replicates
    code = table.groupby([*CURVE, "n"], dropna=False, observed=True).ngroup().to_numpy()
    order = np.argsort(code, kind="stable")
    starts = np.searchsorted(code[order], np.arange(code.max() + 1))
    curves = table.iloc[order[starts]].reset_index(drop=True)
    curves["value"] = np.maximum.reduceat(values[order], starts)
    return curves, np.maximum.reduceat(replicates[order], starts, axis=0)


def held_out_member(results: Results, column: str) -> Results:
    """Choose each curve's worst member on half of the trials and keep the other half.

    The largest of several noisy quantiles is too high, and no bootstrap of it covers
    when members tie. The quantile of a member that other trials have chosen is not. The
    choice is by the geometric mean over n, among the members that are there at every n.

    Parameters
    ----------
    results : Results
    column : str
        A quantile of errors.

    Returns
    -------
    Results
        The rows of the chosen members, with the column and the values of the half that is kept.
    """
    of = METRICS[column].of
    errors = [np.where(np.isfinite(e), e, np.inf) for e in results.values[of]]
    first, kept = _halves(Results(results.summary, {of: errors}, results.failures), column)
    member = [*CURVE, "distribution"]
    with np.errstate(divide="ignore"):
        scored = results.summary.assign(chosen_by=np.log(first))
    by_member = scored.groupby(member, dropna=False, observed=True)
    # An error of 0 at one n and a failure at another give NaN: a failure is the worst of all.
    means = by_member["chosen_by"].agg(["mean", "size"]).reset_index().fillna({"mean": np.inf})
    curves = means.groupby(CURVE, dropna=False, observed=True)
    means = means[means["size"] == curves["size"].transform("max")]
    worst = means.loc[means.groupby(CURVE, dropna=False, observed=True)["mean"].idxmax(), member]
    chosen = results.summary.reset_index().merge(worst, on=member)["index"]
    return kept.chosen(results.summary.index.isin(chosen))


def held_out_key(results: Results, column: str) -> Results:
    """Choose the row with the largest value under each budget on half of the trials.

    As in `held_out_member`: what is then measured on the other half is not too high. A row whose
    values are not all known is chosen before others.
    """
    first, kept = _halves(results, column)
    scored = results.summary.assign(chosen_by=np.where(np.isnan(first), np.inf, first))
    by_budget = scored.groupby(BUDGET, dropna=False, observed=True)
    return kept.chosen(results.summary.index.isin(by_budget["chosen_by"].idxmax()))


def _halves(results: Results, column: str) -> tuple[Floats, Results]:
    """The column as the first half of the trials has it, and the results of the second half."""
    of = METRICS[column].of
    halves = [np.array_split(values, 2) for values in results.values[of]]
    first, second = (np.array([_value(half[i], column) for half in halves]) for i in (0, 1))
    kept = results.summary.assign(**{column: second})
    return first, Results(kept, {of: [half[1] for half in halves]}, results.failures)


def _value(values: Floats, column: str) -> float:
    metric = METRICS[column]
    if not values.size:
        return np.inf  # half of one trial: of that nothing is said
    if metric.statistic == "rate" or np.any(np.isnan(values)):
        return float(values.mean())
    return float(quantile(values, metric.q))
