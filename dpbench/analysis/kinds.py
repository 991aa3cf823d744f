"""Kinds of claims: exponents, levels, factors, ratios and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.claims import POINT, Claim, Curves, region
from dpbench.analysis.extremes import largest
from dpbench.analysis.oracle import check_exact, exact_n, exact_values, first_n
from dpbench.analysis.resample import Measured, interval, replicates
from dpbench.analysis.results import CURVE, Results, held_out, worst_case
from dpbench.analysis.smallest_n import check_sizes, smallest_n
from dpbench.arrays import Floats
from dpbench.errors import choose_from
from dpbench.registry import ConfigError, from_mapping, validated
from dpbench.sweep.metrics import METRICS, VARIABLES
from dpbench.sweep.plan import Sweep, lower_bound
from dpbench.sweep.selection import BUDGET, swept_columns
from dpbench.theory.bounds.numbers import BETA
from dpbench.theory.theorems import THEOREMS

__all__ = ["KINDS", "build_claim", "slopes"]

LARGEST = 1e300
FAR = 1e6  # an infinite error counts as so many times the exact value, one of 0 as that part


def slopes(errors: Floats, *columns: Floats) -> list[Floats]:
    """Least-squares slopes of log errors, (m, draws), on the logarithms of columns, (m,) each."""
    design = np.stack([np.ones_like(columns[0]), *map(np.log, columns)], axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError("the fit needs at least two distinct values of every variable")
    return list(np.linalg.pinv(design) @ np.log(errors))[1:]


@validated
class Exponent(Claim):
    """Test the exponent of an error: in n, or in a variable that changes at fixed n.

    Parameters
    ----------
    finite : bool or float
        Compare the measurement not with the theorem's exponent but with the one at the claim's n,
        which tends to it: that of exact values (true), or this number. The theorem has a verdict
        of its own, see `dpbench.analysis.claims.theorem_verdict`.
    """

    finite: bool | float = False

    def _x(self, curve: pd.DataFrame) -> Floats:
        variable = VARIABLES[self.statement.variable]
        with np.errstate(divide="ignore"):
            return variable.x(curve[variable.column].to_numpy(float))

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        if self._column not in chosen and self._column != "alpha":
            raise ConfigError(f"{where}: the sweep gives no list of values for {self._column}")
        for _, curve in chosen.groupby(self._apart, dropna=False):
            if wrong := self._wrong(curve):
                raise ConfigError(f"{where}: {wrong}")
        if self.finite is True:
            metric = "samples" if self.statement.of == "samples" else self.statement.metric
            check_exact(chosen, self._apart, sweep, metric, f"{where}.finite")

    def _wrong(self, curve: pd.DataFrame) -> str:
        """Why nothing can be fitted to a curve, or nothing."""
        at, variable = curve.iloc[0], self.statement.variable
        if self.statement.of != "fixed_n" and not self._others(curve):
            return "one n in the claim's regime; an exponent needs two or more"
        if self._column in {"n", "alpha"}:
            return ""
        x = self._x(curve)
        known = np.isfinite(x)
        if np.any(x <= 0):
            return f"{at['estimator']} has a {variable} that is not above 0"
        if np.unique(x[known]).size < 2:
            few = f"fewer than two values of {variable} on {at['family']}"
            return f"{at['estimator']} has {few}; an exponent needs two or more"
        if not known.all():
            return f"{curve['estimator'][~known].iloc[0]} has no {variable}; leave it out"
        return self._mixed(curve, x)

    def _mixed(self, curve: pd.DataFrame, x: Floats) -> str:
        """Whether n and the variable cannot be told apart."""
        try:
            slopes(np.ones((len(curve), 1)), *self._others(curve), x)
        except ValueError:
            both = f"{curve['estimator'].iloc[0]}: n and {self.statement.variable}"
            return f"{both} change together on its grid"
        return ""

    def _others(self, curve: pd.DataFrame) -> list[Floats]:
        """What else errors follow: n, unless it is the same everywhere."""
        n = curve["n"].to_numpy(float)
        return [n] if np.ptp(n) else []

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        shared = sweep.shares_data(chosen.summary["family"].unique())
        # Rows of one curve whose data are the same keep what they have in common.
        _, swept = swept_columns(sweep.families.values(), sweep.estimators.values())
        joint = self._column not in {"n", "alpha"} and (shared or self._column in swept.values())
        curves, draws = self._worst(chosen, joint=joint, shared=shared)
        if self.finite is True:
            exact = exact_values(chosen.summary, sweep, self.statement.metric)
            curves["exact"] = worst_case(chosen.summary, exact[:, None])[1]
        return curves, draws

    def _at_these_n(self, curve: pd.DataFrame) -> float:
        if self.finite is True:
            return float(self._number(curve, curve[["exact"]].to_numpy())[0])
        return super()._at_these_n(curve) if self.finite is False else self.finite

    def _asymptotic_from(self, curve: pd.DataFrame, table: pd.DataFrame, sweep: Sweep) -> float:
        if self.finite is not True or self.statement.of == "samples":
            return np.nan
        rows = table.merge(curve[self._apart].drop_duplicates(), on=self._apart)
        stated = self.prediction(curve["k"].iloc[0])
        low, high = region(stated, self.tolerance, self.statement.floor)

        def near(n: pd.Series[int]) -> bool:
            grid = rows.assign(n=n)
            exact = exact_values(grid, sweep, self.statement.metric)
            curves, worst = worst_case(grid, exact[:, None])
            with np.errstate(divide="ignore", invalid="ignore"):  # far out an exact value may be 0
                return bool(low <= self._number(curves, worst)[0] <= high)

        return first_n(rows["n"], near)

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        # With log alpha = a + b log n + c log x: n ~ (1/alpha)^(-1/b), and x^(-c/b) at fixed alpha.
        if self._column in {"n", "alpha"}:
            (in_n,) = slopes(draws, *self._others(curve))
            return in_n if self._column == "n" else -1 / in_n
        *others, in_x = slopes(draws, *self._others(curve), self._x(curve))
        return in_x if self.statement.of == "fixed_n" else -in_x / others[0]


@validated
class SmallestN(Exponent):
    """Test the exponent of the smallest n for error alpha.

    Parameters
    ----------
    alpha : float
        At which error.
    """

    alpha: Annotated[float, Field(gt=0)]

    def _mixed(self, curve: pd.DataFrame, x: Floats) -> str:
        odd = curve["estimator"][curve.groupby(x)["n"].transform("nunique") < 2]
        what = f"runs at one n for a {self.statement.variable}; two are needed"
        return "" if odd.empty else f"{odd.iloc[0]} {what}"

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        curves, draws = smallest_n(chosen, sweep, [self.alpha], BETA)
        if self.finite is True:
            curves["exact"] = exact_n(curves, chosen, sweep)
        return curves, draws

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        return slopes(draws, self._x(curve))[0]


@validated
class Level(Claim):
    """Compare a measurement with its exact value, by the geometric mean of their ratios.

    A row for each entry of estimators under each notion: the mean is over laws, n, amounts and
    swept parameters, wherever the exact value is known.

    Parameters
    ----------
    exact : float > 0, optional
        The exact value of all that the claim is about, for what `dpbench.theory.exact.value` does
        not know: a number that was computed elsewhere.
    """

    exact: Annotated[float, Field(gt=0)] | None = None

    @property
    def measures(self) -> str | None:
        return METRICS[self.statement.metric].of

    @property
    def _apart(self) -> list[str]:
        return ["series", "privacy"]

    def _named(self, table: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
        laws = dict.fromkeys(sweep.families[label].name for label in table["family"])
        series = [sweep.estimators[label].name for label in table["estimator"]]
        return table.assign(law=", ".join(laws), series=series)

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        if self.exact is None:
            check_exact(chosen, self._apart, sweep, self._sought, where)

    @property
    def _sought(self) -> str:
        """What has an exact value."""
        return self.statement.metric

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        # Errors of several budgets or parameters on the same data have their sampling in common.
        exact = np.full(len(chosen.summary), self.exact or np.nan)
        if self.exact is None:
            exact = exact_values(chosen.summary, sweep, self._sought)
        known = np.isfinite(exact)
        chosen, exact = chosen.chosen(known), exact[known]
        table, shared = chosen.summary, sweep.shares_data(chosen.summary["family"].unique())
        data = ["series", "distribution", "n", *([] if shared else BUDGET)]
        joint = bool(table.duplicated(data).any())
        draws = replicates(chosen, self.statement.metric, joint=joint, shared=shared)
        # Where what is right hardly ever fails, a tenth of failures is far off. So are nine of ten
        # errors of 0: noise is missing. A rare wrong answer may well be seen never: a mean of 0.
        least = 1 / FAR if METRICS[self.statement.metric].statistic == "quantile" else 0.0
        return table, np.clip(draws * (self._unbiased(chosen) / exact)[:, None], least, FAR)

    def _unbiased(self, chosen: Results) -> Floats:
        """What makes the rows' quantiles as often too large as too small, (rows,).

        The smallest value with 0.9 of N below or at it is too small, by 1 per cent at N = 200.
        """
        metric, table = METRICS[self.statement.metric], chosen.summary
        if metric.statistic != "quantile":
            return np.ones(len(table))
        known, fair = table[self.statement.metric].to_numpy(float), []
        for one in chosen.values[metric.of]:
            finite = np.where(np.isfinite(one), one, LARGEST)  # infinities cannot be interpolated
            fair.append(np.quantile(finite, metric.q, method="median_unbiased"))
        likely = (np.array(fair) < LARGEST / 10) & (known > 0)
        return np.asarray(np.divide(fair, known, out=np.ones(len(known)), where=likely))


@validated
class LevelOfN(Level):
    """Compare the smallest n for error alpha with the exact one, by a geometric mean over curves.

    Where an error is above alpha if a coarse step misses, and below if it does not.

    Parameters
    ----------
    alpha : float
        At which error.
    """

    alpha: Annotated[float, Field(gt=0)]

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        check_sizes(chosen, where)
        super()._check(chosen, sweep, where)

    @property
    def _sought(self) -> str:
        return "samples"

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        curves, draws = smallest_n(chosen, sweep, [self.alpha], BETA)
        return curves, draws / (self.exact or exact_n(curves, chosen, sweep)[:, None])


@validated
class Factor(Claim):
    """Test the error over the lower bound, the largest over members and n.

    Members at several n have data of their own, so that their errors are independent. The interval
    allows for the choice of the largest, see `dpbench.analysis.extremes`.
    """

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        told = ["family", "estimator", *BUDGET]  # what is known does not depend on n
        for row in chosen.drop_duplicates(told, keep="last").to_dict("records"):
            if np.isnan(lower_bound(sweep, row)):
                at = f"{where}.families: {row['family']!r}"
                raise ConfigError(f"{at}: no lower bound is known for it")

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        errors = replicates(chosen, self.statement.metric)
        return chosen.summary, errors / chosen.summary["lower_bound"].to_numpy()[:, None]

    def _interval(self, curve: pd.DataFrame, draws: Floats) -> Measured:
        return largest(*np.transpose([interval(row) for row in draws]))


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


@validated
class Limit(Claim):
    """The metric itself, at its worst over estimators, families and n under each budget.

    The worst is chosen on half of the trials and measured on the other; of what has a sign it is
    the one farthest from 0.
    """

    @property
    def measures(self) -> str | None:
        return METRICS[self.statement.metric].of

    @property
    def _apart(self) -> list[str]:
        return BUDGET

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        row = [*CURVE, "distribution", "n"]
        return self._worst(held_out(chosen, self.statement.metric, BUDGET, row))

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        return np.asarray(draws[0])


KINDS: dict[str, type[Claim]] = {
    "exponent": Exponent, "smallest_n": SmallestN, "level": Level, "level_of_n": LevelOfN,
    "factor": Factor, "ratio": Ratio, "limit": Limit,
}  # fmt: skip


def build_claim(spec: Any, where: str) -> Claim:
    """Make the claim that `spec` describes: its theorem, if there is one, says of which kind."""
    if isinstance(spec, Claim):
        return spec
    name = spec.get("theorem") if isinstance(spec, Mapping) else None
    if name is None:
        return from_mapping(Exponent, spec, where)  # which says what is missing
    if str(name) not in THEOREMS:
        choices = choose_from(name, THEOREMS)
        raise ConfigError(f"{where}.theorem: {name!r}: no such theorem; {choices}")
    return from_mapping(KINDS[THEOREMS[name].kind], spec, where)
