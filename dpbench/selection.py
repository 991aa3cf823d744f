"""What of a sweep a claim is about: which cells beforehand, which rows afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pandas as pd

from dpbench.analysis.claims import SPANNING, Claim, axis, curve_columns
from dpbench.analysis.worst_case import BUDGET, under
from dpbench.arrays import Floats
from dpbench.privacy import NonPrivate
from dpbench.registry import ConfigError
from dpbench.runner.block import Setting
from dpbench.runner.plan import Cell, Sweep, pick
from dpbench.theory.theorems import Theorem

__all__ = ["check_claim", "chosen_settings", "rows_about", "shares_data", "with_parameters"]


class Selection(Protocol):
    """Labels or patterns of families, estimators and budgets; see `Claim`."""

    @property
    def families(self) -> list[str]:
        """Families."""

    @property
    def estimators(self) -> list[str] | None:
        """Estimators, all by default."""

    @property
    def budgets(self) -> list[str] | None:
        """Budgets; None for estimators without privacy."""


def rows_about(summary: pd.DataFrame, about: Selection, sweep: Sweep) -> pd.Series[bool]:
    """Which rows of a summary a selection is about."""
    chosen = summary["family"].isin(pick(about.families, sweep.families, ""))
    if about.estimators is not None:
        chosen &= summary["estimator"].isin(pick(about.estimators, sweep.estimators, ""))
    if about.budgets is None:
        return chosen & (summary["privacy"] == "none")
    paid = pd.Series(data=False, index=summary.index)
    for label in pick(about.budgets, sweep.budgets, ""):
        paid |= under(summary, sweep.budgets[label])
    return chosen & paid


def chosen_settings(
    sweep: Sweep, cells: Sequence[Cell], about: Selection, where: str
) -> list[tuple[Cell, Setting]]:
    """The cells and settings that a selection is about.

    Raises
    ------
    ConfigError
        If a label is unknown.
    """
    families = pick(about.families, sweep.families, f"{where}.families")
    estimators = pick(about.estimators, sweep.estimators, f"{where}.estimators")
    budgets = pick(about.budgets, sweep.budgets, f"{where}.budgets")
    paid = [NonPrivate()] if about.budgets is None else [sweep.budgets[b] for b in budgets]
    found = [
        (cell, setting)
        for cell in cells
        if cell.family_label in families
        for setting in cell.settings
        if setting.label in estimators and setting.budget in paid
    ]
    if not found:
        raise ConfigError(
            f"{where}: the sweep runs none of {estimators} on {families} under "
            f"{budgets if about.budgets else 'no budget'}"
        )
    return found


def shares_data(sweep: Sweep, about: Selection) -> bool:
    """Whether budgets share data on any of these families."""
    chosen = pick(about.families, sweep.families, "")
    return any(not sweep.families[label].follows_budget for label in chosen)


def check_claim(sweep: Sweep, cells: Sequence[Cell], claim: Claim, where: str) -> None:
    """Refuse a claim that nothing of the sweep speaks about.

    Raises
    ------
    ConfigError
        Naming the key.
    """
    chosen = [
        (cell, setting)
        for cell, setting in chosen_settings(sweep, cells, claim, where)
        if claim.n_min <= cell.n <= (claim.n_max or cell.n)
    ]
    if not chosen:
        raise ConfigError(
            f"{where}.n_min: {claim.n_min}: the sweep runs no n in the claim's regime"
        )
    theorem = claim.statement
    if claim.over is not None:
        _check_pairs(chosen, claim.over, f"{where}.over")
    for label in {cell.family_label for cell, _ in chosen}:
        k = sweep.families[label].moment_order
        if not np.isfinite(claim.predicted(np.nan if k is None else k)):
            raise ConfigError(f"{where}.families: {label!r}: the theorem needs its moment order")
    if theorem.variable == "factor" or theorem.metric == "lower_bound":
        for cell, setting in chosen:
            if not np.isfinite(cell.family.lower_bound(cell.n, setting.budget)):
                label = cell.family_label
                raise ConfigError(f"{where}.families: {label!r}: no lower bound is known for it")
    _check_grid(sweep, chosen, claim, where)


def _check_pairs(chosen: Sequence[tuple[Cell, Setting]], over: str, where: str) -> None:
    """Refuse a ratio that has no numerator, or lacks a denominator somewhere."""
    at = [((cell.family_label, cell.n, setting.budget), setting.label) for cell, setting in chosen]
    below = {place for place, label in at if label == over}
    above = [(place, label) for place, label in at if label != over]
    if not below:
        raise ConfigError(f"{where}: {over!r}: not among the claim's estimators")
    if not above:
        raise ConfigError(f"{where}: {over!r}: no other estimator to put over it")
    for (family, n, budget), label in above:
        if (family, n, budget) not in below:
            raise ConfigError(
                f"{where}: {over!r}: it does not run on {family} at n = {n} under {budget}, "
                f"as {label} does"
            )


def _check_grid(
    sweep: Sweep, chosen: Sequence[tuple[Cell, Setting]], claim: Claim, where: str
) -> None:
    """Refuse an exponent without two values of what it is an exponent in."""
    theorem = claim.statement
    points = pd.DataFrame(
        {
            "family": cell.family_label,
            "k": cell.family.moment_order,
            "estimator": setting.label,
            "privacy": setting.budget.label,
            **{name: getattr(setting.budget, name, np.nan) for name in BUDGET[1:]},
            "n": float(cell.n),
            "d": cell.members[0][1].d,
        }
        for cell, setting in chosen
    )
    points = with_parameters(points, sweep)
    exponent = theorem.variable in {"alpha", "n", *SPANNING}
    for _, curve in points.groupby(curve_columns(theorem), dropna=False):
        at = curve.iloc[0]["estimator"]
        if exponent and theorem.of != "fixed_n" and curve["n"].nunique() < 2:
            raise ConfigError(
                f"{where}: one n in the claim's regime; an exponent needs two or more"
            )
        if theorem.variable in SPANNING:
            with np.errstate(divide="ignore"):
                values = axis(theorem, curve)
            if np.any(values <= 0):
                raise ConfigError(f"{where}: {at} has a {theorem.variable} that is not above 0")
            if np.unique(values[np.isfinite(values)]).size < 2:
                raise ConfigError(
                    f"{where}: {at} has fewer than two values of {theorem.variable} on "
                    f"{curve.iloc[0]['family']}; an exponent needs two or more"
                )
            _check_separate(theorem, curve, values, f"{where}: {at}")


def _check_separate(theorem: Theorem, curve: pd.DataFrame, values: Floats, where: str) -> None:
    """Refuse a grid on which n and the variable of an exponent cannot be told apart."""
    if theorem.of == "samples":
        if curve.groupby(values)["n"].nunique().min() < 2:
            raise ConfigError(f"{where} runs at one n for a {theorem.variable}; two are needed")
        return
    n = np.log(curve["n"].to_numpy(float))
    columns = [np.ones_like(n), np.log(values), *([n] if np.ptp(n) else [])]
    if np.linalg.matrix_rank(np.stack(columns)) < len(columns):
        raise ConfigError(f"{where}: n and {theorem.variable} change together on its grid")


def with_parameters(summary: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
    """The rows with what claims may span besides n and the budget.

    Columns ``radius``, of the estimator, and ``norm``, of the mean; ``series`` and ``law``, the
    labels of estimator and family without radius, norm and d.
    """
    labels, families = summary["estimator"], summary["family"]
    radius = [sweep.estimators[label].get("radius") for label in labels]
    norm = [sweep.family_value(label, "norm") for label in families]
    return summary.assign(
        series=[sweep.series(label) for label in labels],
        radius=np.array([np.nan if r is None else r for r in radius], dtype=float),
        law=[sweep.law(label, "d", "norm") for label in families],
        norm=np.array([np.nan if r is None else r for r in norm], dtype=float),
    )
