"""The five kinds of claim: exponent, smallest n, factor, ratio, limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpbench.analysis.claims import UNKNOWN, Claim, Curves
from dpbench.analysis.exponents import (
    Measured,
    alpha_exponent,
    cost_exponent,
    direct_exponent,
    interval,
)
from dpbench.analysis.resample import replicates
from dpbench.analysis.results import Results
from dpbench.analysis.smallest_n import smallest_n
from dpbench.analysis.worst_case import CURVE, held_out_key, held_out_member, worst_case
from dpbench.arrays import Floats
from dpbench.columns import BUDGET
from dpbench.metrics import VARIABLES
from dpbench.registry import ConfigError, from_mapping, validated
from dpbench.runner.plan import Sweep
from dpbench.theory.lower_bounds import BETA
from dpbench.theory.theorems import THEOREMS

__all__ = ["KINDS", "Exponent", "Factor", "Limit", "Ratio", "SmallestN", "build_claim"]

Alpha = Annotated[float, Field(gt=0)]


@validated
class _Spanning(Claim):
    """An exponent: one curve holds several values of what it is an exponent in."""

    @property
    def _column(self) -> str:
        """Of what the exponent is in."""
        return VARIABLES[self.statement.variable].column

    @property
    def _apart(self) -> list[str]:
        """The columns of `CURVE`, with labels that leave out what a curve spans."""
        labels = {"family": "law", "estimator": "series"}
        return [labels.get(name, name) for name in CURVE if name != self._column]

    def _labelled(self, table: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
        return table.assign(
            law=[sweep.families[label].label(self._column) for label in table["family"]],
            series=[sweep.estimators[label].label(self._column) for label in table["estimator"]],
        )

    def _x(self, curve: pd.DataFrame) -> Floats:
        with np.errstate(divide="ignore"):
            return VARIABLES[self.statement.variable].x(curve[self._column].to_numpy(float))

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        if self._column not in chosen and self._column != "alpha":
            raise ConfigError(f"{where}: the sweep gives no list of values for {self._column}")
        for _, curve in self._labelled(chosen, sweep).groupby(self._apart, dropna=False):
            self._check_curve(curve, where)

    def _check_curve(self, curve: pd.DataFrame, where: str) -> None:
        theorem, at = self.statement, curve.iloc[0]
        if theorem.of != "fixed_n" and curve["n"].nunique() < 2:
            raise ConfigError(
                f"{where}: one n in the claim's regime; an exponent needs two or more"
            )
        if self._column in {"n", "alpha"}:
            return
        values = self._x(curve)
        if np.any(values <= 0):
            raise ConfigError(
                f"{where}: {at['estimator']} has a {theorem.variable} that is not above 0"
            )
        known = np.isfinite(values)
        if np.unique(values[known]).size < 2:
            raise ConfigError(
                f"{where}: {at['estimator']} has fewer than two values of {theorem.variable} on "
                f"{at['family']}; an exponent needs two or more"
            )
        if not np.all(known):
            odd = curve[~known].iloc[0]["estimator"]
            raise ConfigError(f"{where}: {odd} has no {theorem.variable}; leave it out")
        self._check_separate(curve, values, f"{where}: {at['estimator']}")

    def _check_separate(self, curve: pd.DataFrame, values: Floats, where: str) -> None:
        """Refuse a grid on which n and the variable of an exponent cannot be told apart."""


@validated
class Exponent(_Spanning):
    """The exponent of an error at given n: in n, or in what moves along with it at fixed n."""

    def _check_separate(self, curve: pd.DataFrame, values: Floats, where: str) -> None:
        n = np.log(curve["n"].to_numpy(float))
        columns = [np.ones_like(n), np.log(values), *([n] if np.ptp(n) else [])]
        if np.linalg.matrix_rank(np.stack(columns)) < len(columns):
            raise ConfigError(
                f"{where}: n and {self.statement.variable} change together on its grid"
            )

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        theorem = self.statement
        shared = sweep.shares_data(chosen.summary["family"].unique())
        # Rows of one curve whose data are the same keep what they have in common.
        joint = self._column not in {"n", "alpha"} and (shared or self._column == "radius")
        values = chosen.values.get(self.measures or "")
        draws = replicates(chosen.summary, values, theorem.metric, joint=joint, shared=shared)
        curves, draws = worst_case(chosen.summary, theorem.metric, draws)
        curves = self._labelled(curves, sweep)
        if theorem.metric != "lower_bound":
            return curves, draws
        # The bound knows no estimator: one row of each n will do.
        first = ~curves.duplicated(["family", "n", *BUDGET])
        named = curves[first].reset_index(drop=True).assign(series="(lower bound)")
        return named, draws[first.to_numpy()]

    def _number(self, curve: pd.DataFrame, value: Floats, draws: Floats) -> Measured:
        theorem, n = self.statement, curve["n"].to_numpy(float)
        if theorem.variable == "alpha":
            return alpha_exponent(n, value, draws)
        if theorem.of == "fixed_n":
            return direct_exponent(value, draws, *([n] if np.ptp(n) else []), self._x(curve))
        if theorem.variable == "n":
            return direct_exponent(value, draws, n)
        return cost_exponent(n, self._x(curve), value, draws)


@validated
class SmallestN(_Spanning):
    """The exponent of the smallest n for error alpha.

    Parameters
    ----------
    alpha : float or list of float
        At which error; several for an exponent in alpha itself.
    """

    alpha: Alpha | Annotated[list[Alpha], Field(min_length=2)]

    @model_validator(mode="after")
    def _alphas(self) -> Self:
        if isinstance(self.alpha, list) != (self.statement.variable == "alpha"):
            raise ValueError("several alpha belong to claims about alpha, and to those only")
        return self

    def _check_separate(self, curve: pd.DataFrame, values: Floats, where: str) -> None:
        if curve.groupby(values)["n"].nunique().min() < 2:
            raise ConfigError(
                f"{where} runs at one n for a {self.statement.variable}; two are needed"
            )

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        alphas = self.alpha if isinstance(self.alpha, list) else [self.alpha]
        curves, draws = smallest_n(chosen, sweep, alphas, BETA)
        return self._labelled(curves.assign(value=curves["samples"]), sweep), draws

    def _number(self, curve: pd.DataFrame, value: Floats, draws: Floats) -> Measured:
        return direct_exponent(value, draws, self._x(curve))


@validated
class Factor(Claim):
    """The error over the lower bound, a geometric mean over n.

    The worst member is chosen on half of the trials and measured on the other.
    """

    def _kept(self, chosen: Results) -> Results:
        return held_out_member(chosen, self.statement.metric)

    def _number(self, curve: pd.DataFrame, value: Floats, draws: Floats) -> Measured:
        bound = curve["lower_bound"].to_numpy()
        return _geometric_mean(value / bound, draws / bound)


@validated
class Ratio(Claim):
    """An estimator's error over another's at the same family and n, a geometric mean over n.

    Parameters
    ----------
    over : str
        The name of the estimator in the denominator, which is one of `estimators`.
    """

    over: str

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        at, where = ["family", "n", *BUDGET], f"{where}.over"
        below, above = (chosen[side][[*at, "estimator"]] for side in self._sides(chosen, sweep))
        if below.empty:
            raise ConfigError(f"{where}: {self.over!r}: not among the claim's estimators")
        if below.drop_duplicates().duplicated(at).any():
            labels = ", ".join(sorted(below["estimator"].unique()))
            raise ConfigError(
                f"{where}: {self.over!r}: {labels}: choose one of these by its values"
            )
        if above.empty:
            raise ConfigError(f"{where}: {self.over!r}: no other estimator to put over it")
        both = above.merge(below[at].drop_duplicates(), on=at, how="left", indicator=True)
        for row in both[both["_merge"] == "left_only"].to_dict("records"):
            raise ConfigError(
                f"{where}: {self.over!r}: it does not run on {row['family']} at n = {row['n']} "
                f"under {row['privacy']}, as {row['estimator']} does"
            )

    def _sides(self, table: pd.DataFrame, sweep: Sweep) -> tuple[pd.Series[bool], pd.Series[bool]]:
        """Which rows are the denominator's, and which are others'."""
        names = table["estimator"].map(lambda label: sweep.estimators[label].name)
        return names == self.over, names != self.over

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        curves, draws = super()._curves(chosen, sweep)
        at = ["family", "n", *BUDGET]
        is_below, is_above = self._sides(curves, sweep)
        below = curves[is_below][at].reset_index(names="below")
        above = curves[is_above].reset_index(names="above").merge(below, on=at)
        value = curves["value"].to_numpy()
        with np.errstate(divide="ignore", invalid="ignore"):  # where nothing errs
            ratio = value[above["above"]] / value[above["below"]]
            draws = draws[above["above"]] / draws[above["below"]]
        return above.drop(columns=["above", "below"]).assign(value=ratio), draws

    def _number(self, curve: pd.DataFrame, value: Floats, draws: Floats) -> Measured:
        return _geometric_mean(value, draws)


@validated
class Limit(Claim):
    """The metric itself, at its worst over estimators, families and n under each budget.

    The worst is chosen on half of the trials and measured on the other.
    """

    @property
    def _apart(self) -> list[str]:
        return BUDGET

    def _kept(self, chosen: Results) -> Results:
        return held_out_key(chosen, self.statement.metric)

    def _measure(self, curve: pd.DataFrame, draws: Floats) -> Measured:
        value = curve["value"].to_numpy(float)
        if not np.all(np.isfinite(value)) or not np.all(np.isfinite(draws)):
            return UNKNOWN
        return self._number(curve, value, draws.T)

    def _number(self, curve: pd.DataFrame, value: Floats, draws: Floats) -> Measured:
        return interval(value[0], draws[:, 0])


def _geometric_mean(value: Floats, draws: Floats) -> Measured:
    logs = np.log(np.concatenate([value[:, None], draws.T], axis=1))
    means = np.exp(logs.mean(axis=0))
    return interval(means[0], means[1:])


KINDS: dict[str, type[Claim]] = {
    "exponent": Exponent,
    "smallest_n": SmallestN,
    "factor": Factor,
    "ratio": Ratio,
    "limit": Limit,
}


def build_claim(spec: Any, where: str) -> Claim:
    """Make the claim that `spec` describes: its theorem says of which kind.

    Raises
    ------
    ConfigError
        If there is no such theorem, or a key is missing, unknown or invalid.
    """
    if isinstance(spec, Claim):
        return spec
    name = spec.get("theorem") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or name is None:
        return from_mapping(Exponent, spec, where)
    if name not in THEOREMS:
        raise ConfigError(
            f"{where}.theorem: {name!r}: no such theorem; choose from {', '.join(THEOREMS)}"
        )
    return from_mapping(KINDS[THEOREMS[name].kind], spec, where)
