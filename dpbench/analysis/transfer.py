"""Claims that an order of estimators, or the choice of the best, carries over to other data."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.claims import Claim, Curves
from dpbench.analysis.resample import replicates
from dpbench.analysis.summary_table import Results, worst_case
from dpbench.arrays import Floats
from dpbench.registry import ConfigError, validated
from dpbench.sweep.metrics import METRICS
from dpbench.sweep.plan import Sweep
from dpbench.sweep.selection import BUDGET, Choice, select_labels

__all__ = ["Transfer", "choice_loss", "rank_correlation"]

PROBLEM = ["n", *BUDGET]


def rank_correlation(one: Floats, other: Floats) -> Floats:
    """Return Spearman's rank correlation of two orders of estimators, in every replicate.

    Both arrays, of shape (estimators, draws), have errors of the estimators on one distribution.
    Equal errors share their mean rank. The correlations have shape (draws,); they are NaN if all
    errors on a distribution are equal.
    """
    from scipy.stats import rankdata

    first, second = (rankdata(errors, axis=0) for errors in (one, other))
    first, second = (ranks - ranks.mean(axis=0) for ranks in (first, second))
    with np.errstate(invalid="ignore"):
        products = (first * second).sum(axis=0)
        return np.asarray(products / np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0)))


def choice_loss(one: Floats, other: Floats) -> Floats:
    """Return the factor that is lost by choosing the best estimator on the wrong distribution.

    Both arrays have errors of shape (estimators, draws): `one` on the distribution by which a user
    chooses, `other` on the user's data. The factor, of shape (draws,), is at least 1. The estimator
    with the smallest error in `one` is chosen. The factor is its error on the data, divided by the
    smallest error on the data.
    """
    chosen = np.argmin(one, axis=0)[None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.take_along_axis(other, chosen, axis=0)[0] / other.min(axis=0))


@validated
class Transfer(Claim):
    """Claim that the order, or the choice, of estimators carries over between distributions.

    For each n and budget, the order of the estimators by their error on a source distribution is
    compared with their order on each target. The theorem ``same_order`` states the mean of
    Spearman's rank correlation over n, budgets and targets. The theorem ``no_choice_loss`` states
    the geometric mean of the error on a target of the estimator that is best on the source, over
    the smallest error on the target. An estimator that fails in a trial has an infinite root mean
    square error.

    Trials of one family, n and budget are resampled together, because its estimators run on equal
    data. Resampling adds noise, which lowers a rank correlation. The replicates are therefore
    shifted (rank correlations) or scaled (losses) to the measured number.

    Parameters
    ----------
    targets : names, patterns or mapping
        Families to which the claim carries over, among the claim's ``families``. The other families
        are sources, each with its own number.
    """

    targets: Choice

    @property
    def _curve_columns(self) -> list[str]:
        return ["law", "privacy"]

    def _add_names(self, table: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
        labels = table["estimator"].unique()
        laws = [sweep.families[label].label() for label in table["family"]]
        return table.assign(law=laws, series=f"{len(labels)} estimators")

    def _target_labels(self, sweep: Sweep, where: str = "") -> set[str]:
        return set(select_labels(self.targets, sweep.families, where))

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        targets, families = self._target_labels(sweep, f"{where}.targets"), set(chosen["family"])
        if not families & targets or families <= targets:
            raise ConfigError(
                f"{where}.targets: {self.targets!r}: the claim needs sources and targets among its "
                "families; select some families, but not all"
            )
        if (chosen["privacy"] == "none").any():
            raise ConfigError(f"{where}.estimators: one has no privacy; leave it out")
        problems = chosen.groupby(["family", *PROBLEM], dropna=False)["estimator"].unique()
        sets = {frozenset(labels) for labels in problems}
        if len(sets) > 1 or len(next(iter(sets))) < 2:
            raise ConfigError(
                f"{where}.estimators: an order needs the same two or more estimators on every "
                "family, n and budget; select fewer"
            )
        grids = {
            frozenset(map(str, group[PROBLEM].itertuples(index=False)))
            for _, group in chosen.groupby("family")
        }
        if len(grids) > 1:
            raise ConfigError(f"{where}.families: they do not run at the same n and budgets")

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        shared = sweep.shares_data(chosen.summary["family"].unique())
        draws = replicates(chosen, self.statement.metric, joint=True, shared=shared)
        if METRICS[self.statement.metric].statistic == "rms":
            draws[(chosen.summary["failure_rate"] > 0).to_numpy()] = np.inf
        table, worst = worst_case(chosen.summary, draws)
        worst = np.where(np.isnan(worst), np.inf, worst)
        targets, errors = self._target_labels(sweep), _errors(table, worst)
        number = rank_correlation if self._is_order else choice_loss
        rows, numbers = [], []
        for (family, *problem), (index, one) in errors.items():
            if family in targets:
                continue
            for target in dict.fromkeys(key[0] for key in errors if key[0] in targets):
                rows.append(index)
                numbers.append(number(one, errors[(target, *problem)][1]))
        return table.loc[rows].reset_index(drop=True), np.stack(numbers)

    @property
    def _is_order(self) -> bool:
        """True if the claim is about rank correlations, False if it is about losses."""
        return self.statement.variable == "order"

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        if self._is_order:
            mean = draws.mean(axis=0)
            return np.asarray(mean - np.r_[0.0, np.full(mean.size - 1, mean[1:].mean() - mean[0])])
        logs = np.log(draws).mean(axis=0)
        shift = np.r_[0.0, np.full(logs.size - 1, logs[1:].mean() - logs[0])]
        return np.asarray(np.exp(logs - shift))


def _errors(
    table: pd.DataFrame, draws: Floats
) -> Mapping[tuple[Hashable, ...], tuple[Any, Floats]]:
    """Return the errors of all estimators, keyed by family, n and budget.

    An entry has the place of its first row in the table, and an array (estimators, 1 + draws) in
    which the estimators have the same order for all keys.
    """
    table = table.reset_index(drop=True)
    # Amounts that a budget does not have are NaN, which equals no key.
    keys = table[["family", *PROBLEM]].fillna(-1.0)
    found: dict[tuple[Hashable, ...], tuple[Any, Floats]] = {}
    for key, places in keys.groupby(list(keys.columns), sort=False).groups.items():
        ordered = table.loc[places, "estimator"].sort_values().index
        found[key if isinstance(key, tuple) else (key,)] = places[0], draws[ordered]
    return found
