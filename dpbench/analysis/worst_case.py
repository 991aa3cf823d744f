"""The worst member of a family: replicate by replicate, or chosen on half of the trials."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpbench.analysis.results import Results
from dpbench.analysis.summary import quantile
from dpbench.arrays import Floats
from dpbench.columns import BUDGET
from dpbench.metrics import ERRORS, METRICS

__all__ = ["CURVE", "held_out", "worst_case"]

CURVE = ["family", "k", "estimator", *BUDGET]


def worst_case(table: pd.DataFrame, draws: Floats) -> tuple[pd.DataFrame, Floats]:
    """The largest values over the members of each family, anew in every replicate.

    Parameters
    ----------
    table : DataFrame
        As `Results.summary`.
    draws : (rows, draws) array
        A column of it and its replicates.

    Returns
    -------
    DataFrame and (its rows, draws) array
        A row of the table per family, estimator, budget and n, sorted.
    """
    code = table.groupby([*CURVE, "n"], dropna=False).ngroup().to_numpy()
    order = np.argsort(code, kind="stable")
    _, starts = np.unique(code[order], return_index=True)
    curves = table.iloc[order[starts]].reset_index(drop=True)
    return curves, np.maximum.reduceat(draws[order], starts, axis=0)


def held_out(results: Results, column: str, apart: list[str], one: list[str]) -> Results:
    """Choose the worst on half of the trials, and keep its rows with those of the other half.

    The largest of several noisy numbers is too high, and no bootstrap of it covers when they
    tie. A number that other trials have chosen is not. The choice is by the geometric mean over
    rows, among what has the most of them; what is not known is the worst.

    Parameters
    ----------
    results : Results
    column : str
        A quantile or a rate.
    apart, one : list of str
        The columns that tell the choices apart, and those in which the rows of one thing agree.
    """
    of, table = METRICS[column].of, results.summary
    halves = [np.array_split(values, 2) for values in results.values[of]]
    first, second = (np.array([_value(half[i], column) for half in halves]) for i in (0, 1))
    kept = [half[1] for half in halves]
    table = table.assign(**{column: second}, trials=[len(values) for values in kept])
    choice, code = (table.groupby(names, dropna=False).ngroup() for names in (apart, one))
    with np.errstate(divide="ignore"):
        scores = pd.Series(np.log(np.where(np.isnan(first), np.inf, first))).groupby(code)
    # An error of 0 at one n and a failure at another give NaN: a failure is the worst of all.
    means, sizes = scores.transform("mean").fillna(np.inf), scores.transform("size")
    everywhere = sizes == sizes.groupby(choice).transform("max")
    worst = means[everywhere].groupby(choice).idxmax()
    return Results(table, {of: kept}, results.failures).chosen(code.isin(code[worst]))


def _value(values: Floats, column: str) -> float:
    """The column as these trials have it; NaN where something but an error is not known."""
    metric = METRICS[column]
    if not values.size:
        return np.inf  # half of one trial: of that nothing is said
    if metric.statistic == "rate" or (metric.of not in ERRORS and np.isnan(values).any()):
        return float(values.mean())
    return float(quantile(values, metric.q))
