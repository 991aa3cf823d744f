"""The five kinds of claim: exponent, smallest n, factor, ratio, limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.claims import Claim, Curves
from dpbench.analysis.exponents import slopes
from dpbench.analysis.results import Results
from dpbench.analysis.smallest_n import smallest_n
from dpbench.analysis.worst_case import CURVE, held_out
from dpbench.arrays import Floats
from dpbench.columns import BUDGET
from dpbench.metrics import VARIABLES
from dpbench.registry import ConfigError, from_mapping, validated
from dpbench.runner.plan import Sweep
from dpbench.theory.lower_bounds import BETA
from dpbench.theory.theorems import THEOREMS

__all__ = ["KINDS", "Exponent", "Factor", "Limit", "Ratio", "SmallestN", "build_claim"]


POINT = ["family", "n", *BUDGET]


@validated
class Exponent(Claim):
    """The exponent of an error at given n: in n, or in what moves along with it at fixed n."""

    def _x(self, curve: pd.DataFrame) -> Floats:
        variable = VARIABLES[self.statement.variable]
        with np.errstate(divide="ignore"):
            return variable.x(curve[variable.column].to_numpy(float))

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        if self._column not in chosen and self._column != "alpha":
            raise ConfigError(f"{where}: the sweep gives no list of values for {self._column}")
        for _, curve in chosen.groupby(self._apart, dropna=False):
            if self.statement.of != "fixed_n" and not self._others(curve):
                two = "an exponent needs two or more"
                raise ConfigError(f"{where}: one n in the claim's regime; {two}")
            if self._column not in {"n", "alpha"}:
                self._check_values(curve, where)

    def _check_values(self, curve: pd.DataFrame, where: str) -> None:
        at, variable, x = curve.iloc[0], self.statement.variable, self._x(curve)
        if np.any(x <= 0):
            raise ConfigError(f"{where}: {at['estimator']} has a {variable} that is not above 0")
        known = np.isfinite(x)
        if np.unique(x[known]).size < 2:
            few = f"{at['estimator']} has fewer than two values of {variable} on {at['family']}"
            raise ConfigError(f"{where}: {few}; an exponent needs two or more")
        for odd in curve["estimator"][~known]:
            raise ConfigError(f"{where}: {odd} has no {variable}; leave it out")
        self._check_apart(curve, x, where)

    def _check_apart(self, curve: pd.DataFrame, x: Floats, where: str) -> None:
        """Refuse a grid on which n and the variable cannot be told apart."""
        try:
            slopes(np.ones((len(curve), 1)), *self._others(curve), x)
        except ValueError:
            both = f"{curve['estimator'].iloc[0]}: n and {self.statement.variable}"
            raise ConfigError(f"{where}: {both} change together on its grid") from None

    def _others(self, curve: pd.DataFrame) -> list[Floats]:
        """What else errors follow: n, unless it is the same everywhere."""
        n = curve["n"].to_numpy(float)
        return [n] if np.ptp(n) else []

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        if self.statement.metric == "lower_bound":  # knows no estimator: one row of each n will do
            chosen = chosen.chosen(~chosen.summary.duplicated(POINT))
            chosen.summary["series"] = "(lower bound)"
        shared = sweep.shares_data(chosen.summary["family"].unique())
        # Rows of one curve whose data are the same keep what they have in common.
        joint = self._column not in {"n", "alpha"} and (shared or self._column == "radius")
        return self._worst(chosen, joint=joint, shared=shared)

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        # With log alpha = a + b log n + c log x: n ~ (1/alpha)^(-1/b), and x^(-c/b) at fixed alpha.
        if self._column in {"n", "alpha"}:
            (in_n,) = slopes(draws, *self._others(curve))
            return in_n if self._column == "n" else -1 / in_n
        *others, in_x = slopes(draws, *self._others(curve), self._x(curve))
        return in_x if self.statement.of == "fixed_n" else -in_x / others[0]


@validated
class SmallestN(Exponent):
    """The exponent of the smallest n for error alpha.

    Parameters
    ----------
    alpha : float
        At which error.
    """

    alpha: Annotated[float, Field(gt=0)]

    def _check_apart(self, curve: pd.DataFrame, x: Floats, where: str) -> None:
        sizes, what = curve.groupby(x)["n"].transform("nunique"), self.statement.variable
        for odd in curve["estimator"][sizes < 2]:
            raise ConfigError(f"{where}: {odd} runs at one n for a {what}; two are needed")

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        return smallest_n(chosen, sweep, [self.alpha], BETA)

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        return slopes(draws, self._x(curve))[0]


@validated
class Factor(Claim):
    """The error over the lower bound, a geometric mean over n.

    The worst member is chosen on half of the trials and measured on the other.
    """

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        member = [*CURVE, "distribution"]
        return self._worst(held_out(chosen, self.statement.metric, CURVE, member))

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        return _geometric_mean(draws / curve["lower_bound"].to_numpy()[:, None])


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
        where, is_below = f"{where}.over: {self.over!r}", self._is_below(chosen, sweep)
        below = chosen[is_below][[*POINT, "estimator"]].drop_duplicates()
        if below.empty:
            raise ConfigError(f"{where}: not among the claim's estimators")
        if below.duplicated(POINT).any():
            labels = ", ".join(sorted(below["estimator"].unique()))
            raise ConfigError(f"{where}: {labels}: choose one of these by its values")
        if is_below.all():
            raise ConfigError(f"{where}: no other estimator to put over it")
        both = chosen[~is_below].merge(below[POINT], on=POINT, how="left", indicator=True)
        for row in both[both["_merge"] == "left_only"].to_dict("records"):
            at = f"on {row['family']} at n = {row['n']} under {row['privacy']}"
            raise ConfigError(f"{where}: it does not run {at}, as {row['estimator']} does")

    def _is_below(self, table: pd.DataFrame, sweep: Sweep) -> pd.Series[bool]:
        """Which rows are the denominator's."""
        return table["estimator"].map(lambda label: sweep.estimators[label].name) == self.over

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        curves, draws = super()._curves(chosen, sweep)
        is_below = self._is_below(curves, sweep)
        below = curves[is_below][POINT].reset_index(names="below")
        above = curves[~is_below].reset_index(names="above").merge(below, on=POINT)
        with np.errstate(divide="ignore", invalid="ignore"):  # where nothing errs
            return above, draws[above["above"]] / draws[above["below"]]

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        return _geometric_mean(draws)


@validated
class Limit(Claim):
    """The metric itself, at its worst over estimators, families and n under each budget.

    The worst is chosen on half of the trials and measured on the other.
    """

    @property
    def _apart(self) -> list[str]:
        return BUDGET

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        row = [*CURVE, "distribution", "n"]
        return self._worst(held_out(chosen, self.statement.metric, BUDGET, row))

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        return np.asarray(draws[0])


def _geometric_mean(draws: Floats) -> Floats:
    return np.asarray(np.exp(np.log(draws).mean(axis=0)))


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
    if name is None:
        return from_mapping(Exponent, spec, where)  # which says what is missing
    if name not in THEOREMS:
        choices = ", ".join(THEOREMS)
        raise ConfigError(f"{where}.theorem: {name!r}: no such theorem; choose from {choices}")
    return from_mapping(KINDS[THEOREMS[name].kind], spec, where)
