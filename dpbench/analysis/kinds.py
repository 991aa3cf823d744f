"""Kinds of claims: exponents, levels, factors, ratios and upper limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.claims import POINT, Claim, Curves, region
from dpbench.analysis.extremes import largest
from dpbench.analysis.oracle import check_exact, exact_n, exact_values, first_n
from dpbench.analysis.resample import Measurement, interval, replicates
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
FAR = 1e6  # ratios to exact values are clipped to [1/FAR, FAR], so that their logarithms are finite


def slopes(errors: Floats, *columns: Floats) -> list[Floats]:
    """Fit the logarithm of errors by least squares on the logarithms of some variables.

    Parameters
    ----------
    errors : ndarray of shape (m, draws)
        Positive errors, m points in each of several replicates.
    *columns : ndarray of shape (m,)
        Positive values of each variable.

    Returns
    -------
    list of ndarray of shape (draws,)
        The slope in each variable.

    Raises
    ------
    ValueError
        If a variable is constant or the variables are collinear.
    """
    design = np.stack([np.ones_like(columns[0]), *map(np.log, columns)], axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError("the fit needs at least two distinct values of every variable")
    return list(np.linalg.pinv(design) @ np.log(errors))[1:]


@validated
class Exponent(Claim):
    """Claim about the exponent of an error in n, or in another variable at fixed n.

    Parameters
    ----------
    finite : bool or float
        If true, `verdict` compares the measurement with the exponent of exact values at the
        claim's n; if a number, with this number. By default it compares with the theorem's
        exponent, which `dpbench.analysis.claims.theorem_verdict` always does.
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
        """Return the reason why no exponent can be fitted to a curve; blank if one can."""
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
        """Return the reason why slopes in n and the variable cannot be separated, or blank."""
        try:
            slopes(np.ones((len(curve), 1)), *self._others(curve), x)
        except ValueError:
            both = f"{curve['estimator'].iloc[0]}: n and {self.statement.variable}"
            return f"{both} change together on its grid"
        return ""

    def _others(self, curve: pd.DataFrame) -> list[Floats]:
        """Return the other regressors: n, unless the curve has a single n."""
        n = curve["n"].to_numpy(float)
        return [n] if np.ptp(n) else []

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        shared = sweep.shares_data(chosen.summary["family"].unique())
        # Rows of a curve on equal data resample equal trials, because their errors are dependent.
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
            with np.errstate(divide="ignore", invalid="ignore"):  # exact values may underflow to 0
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
    """Claim about the exponent of the smallest n for error alpha.

    Parameters
    ----------
    alpha : float > 0
        The error, in the unit of the data.
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
    """Claim that a measurement equals its exact value, by the geometric mean of their ratios.

    There is a row for each entry of estimators under each notion. The mean is over distributions,
    n, amounts and swept parameters for which the exact value is known.

    Parameters
    ----------
    exact : float > 0, optional
        The exact value in all rows, computed elsewhere. By default
        `dpbench.theory.exact.value` computes it for each row.
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
        """Return the metric whose exact value is needed."""
        return self.statement.metric

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        # Several budgets or parameters on equal data share their sampling errors.
        exact = np.full(len(chosen.summary), self.exact or np.nan)
        if self.exact is None:
            exact = exact_values(chosen.summary, sweep, self._sought)
        known = np.isfinite(exact)
        chosen, exact = chosen.chosen(known), exact[known]
        table, shared = chosen.summary, sweep.shares_data(chosen.summary["family"].unique())
        data = ["series", "distribution", "n", *([] if shared else BUDGET)]
        joint = bool(table.duplicated(data).any())
        draws = replicates(chosen, self.statement.metric, joint=joint, shared=shared)
        # Clip the ratios to [1/FAR, FAR], because infinite errors and errors of 0 must count as
        # far off and stay finite. A mean may be 0 by chance if errors are rare: clip it above only.
        least = 1 / FAR if METRICS[self.statement.metric].statistic == "quantile" else 0.0
        return table, np.clip(draws * (self._unbiased(chosen) / exact)[:, None], least, FAR)

    def _unbiased(self, chosen: Results) -> Floats:
        """Return correction factors, (rows,), that make sample quantiles median-unbiased.

        The smallest value with a share of 0.9 of the N trials below or at it is too small, by
        1 per cent at N = 200.
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
    """Claim that the smallest n for error alpha is the exact one, by a geometric mean over curves.

    The exact n assumes that the error exceeds alpha exactly if a coarse step misses.

    Parameters
    ----------
    alpha : float > 0
        The error, in the unit of the data.
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
    """Claim about the error over the lower bound, the largest over members and n.

    Errors of different members and n are independent, because each has its own data. The interval
    allows for the choice of the largest, see `dpbench.analysis.extremes`.
    """

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        told = ["family", "estimator", *BUDGET]  # whether a bound is known does not depend on n
        for row in chosen.drop_duplicates(told, keep="last").to_dict("records"):
            if np.isnan(lower_bound(sweep, row)):
                at = f"{where}.families: {row['family']!r}"
                raise ConfigError(f"{at}: no lower bound is known for it")

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        errors = replicates(chosen, self.statement.metric)
        return chosen.summary, errors / chosen.summary["lower_bound"].to_numpy()[:, None]

    def _interval(self, curve: pd.DataFrame, draws: Floats) -> Measurement:
        return largest(*np.transpose([interval(row) for row in draws]))


@validated
class Ratio(Claim):
    """Claim about the ratio of two estimators' errors, by a geometric mean over n.

    Both errors are on equal families, budgets and n.

    Parameters
    ----------
    denominator : str
        Name of the estimator in the denominator, one of `estimators`.
    """

    first_names: ClassVar[dict[str, str]] = {"denominator": "over"}

    denominator: str

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        where, is_below = (
            f"{where}.denominator: {self.denominator!r}",
            self._is_below(chosen, sweep),
        )
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
        """Select the rows of the estimator in the denominator."""
        return (
            table["estimator"].map(lambda label: sweep.estimators[label].name) == self.denominator
        )

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        curves, draws = super()._curves(chosen, sweep)
        is_below = self._is_below(curves, sweep)
        below = curves[is_below][POINT].reset_index(names="below")
        above = curves[~is_below].reset_index(names="above").merge(below, on=POINT)
        with np.errstate(divide="ignore", invalid="ignore"):  # errors may be 0
            return above, draws[above["above"]] / draws[above["below"]]


@validated
class Limit(Claim):
    """Claim about the worst value of the metric over estimators, families and n, by budget.

    The worst case is chosen on half of the trials and measured on the other half. For a metric
    with a sign it is the value farthest from 0.
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
    """Build the claim that a configuration describes; its theorem determines the kind.

    Parameters
    ----------
    spec : mapping or Claim
        Configuration of the claim. A claim is returned unchanged.
    where : str
        The claim's key, for messages.

    Returns
    -------
    Claim

    Raises
    ------
    ConfigError
        If there is no such theorem, or a key is missing or wrong.
    """
    if isinstance(spec, Claim):
        return spec
    name = spec.get("theorem") if isinstance(spec, Mapping) else None
    if name is None:
        return from_mapping(Exponent, spec, where)  # raises and names the missing key
    if str(name) not in THEOREMS:
        choices = choose_from(name, THEOREMS)
        raise ConfigError(f"{where}.theorem: {name!r}: no such theorem; {choices}")
    return from_mapping(KINDS[THEOREMS[name].kind], spec, where)
