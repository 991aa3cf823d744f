"""Define the kinds of claims: claims about exponents, levels, factors, ratios and limits.

Claims that results carry over to other data are in `dpbench.analysis.transfer`.

An exponent describes a power law. A level is a measurement divided by its exact value. A factor is
an error divided by its lower bound. A ratio compares the errors of two estimators. A limit is the
largest accepted value of a statistic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field
from scipy.special import betaincinv

from dpbench.analysis.claims import POINT, Claim, Curves, OwnTheorem, region
from dpbench.analysis.exact_of_sweep import check_exact, exact_n, exact_values, first_n
from dpbench.analysis.largest_of_noisy import largest
from dpbench.analysis.resample import LEVEL, Measurement, interval, replicates
from dpbench.analysis.smallest_n import check_sizes, smallest_n
from dpbench.analysis.summary_table import CURVE, Results, select_held_out, worst_case
from dpbench.analysis.transfer import Transfer
from dpbench.arrays import Floats
from dpbench.errors import choose_from
from dpbench.registry import ConfigError, from_mapping, validated
from dpbench.sweep.metrics import METRICS, VARIABLES
from dpbench.sweep.plan import Sweep, lower_bound
from dpbench.sweep.selection import BUDGET, swept_columns
from dpbench.theory.bounds.numbers import BETA
from dpbench.theory.theorems import THEOREMS

__all__ = ["KINDS", "build_claim", "slopes"]

INFINITY_STAND_IN = 1e300  # a finite number in place of infinity, which cannot be interpolated
# Ratios to exact values are clipped to [1/MAX_RATIO, MAX_RATIO], so that their logarithms are
# finite.
MAX_RATIO = 1e6


def slopes(errors: Floats, *columns: Floats) -> list[Floats]:
    """Fit the logarithm of errors by least squares on the logarithms of some variables.

    The errors are positive and have shape (m, draws): m points, and a separate replicate in each
    column. Each variable has a positive value at each of the m points. Return for each variable its
    fitted slopes, of shape (draws,). Raise ValueError if a variable is constant or the variables
    are collinear.
    """
    design = np.stack([np.ones_like(columns[0]), *map(np.log, columns)], axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError("the fit needs at least two distinct values of every variable")
    return list(np.linalg.pinv(design) @ np.log(errors))[1:]


@validated
class Exponent(Claim):
    """Claim about the exponent of a power law that relates error, n and another variable.

    The theorem determines which exponent is tested. If the power law is error ~ n^c, or error ~ x^c
    for another variable x, the exponent is c. If the power law is n ~ (1/alpha)^s for an error
    alpha, or n ~ x^s at a fixed error, the exponent is s.

    Parameters
    ----------
    exact_at_run_n : bool or float
        Number with which `verdict` compares the measured exponent. False (the default): the
        theorem's exponent. True: the exponent of exact values at the n that were run. A number:
        this number. `dpbench.analysis.claims.theorem_verdict` always compares with the theorem's
        exponent.
    """

    exact_at_run_n: bool | float = False

    def _x(self, curve: pd.DataFrame) -> Floats:
        variable = VARIABLES[self.statement.variable]
        with np.errstate(divide="ignore"):
            return variable.x(curve[variable.column].to_numpy(float))

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        if self._fitted_column not in chosen and self._fitted_column != "alpha":
            raise ConfigError(
                f"{where}: the sweep gives no list of values for {self._fitted_column}"
            )
        for _, curve in chosen.groupby(self._curve_columns, dropna=False):
            if wrong := self._find_fault(curve):
                raise ConfigError(f"{where}: {wrong}")
        if self.exact_at_run_n is True:
            metric = "samples" if self.statement.of == "samples" else self.statement.metric
            check_exact(chosen, self._curve_columns, sweep, metric, f"{where}.exact_at_run_n")

    def _find_fault(self, curve: pd.DataFrame) -> str:
        """Return the reason why no exponent can be fitted to a curve of results, or blank text."""
        first, variable = curve.iloc[0], self.statement.variable
        if self.statement.of != "fixed_n" and not self._other_regressors(curve):
            return "one n in the claim's regime; an exponent needs two or more"
        if self._fitted_column in {"n", "alpha"}:
            return ""
        x = self._x(curve)
        finite = np.isfinite(x)
        if np.any(x <= 0):
            return f"{first['estimator']} has a {variable} that is not above 0"
        if np.unique(x[finite]).size < 2:
            text = f"fewer than two values of {variable} on {first['family']}"
            return f"{first['estimator']} has {text}; an exponent needs two or more"
        if not finite.all():
            return f"{curve['estimator'][~finite].iloc[0]} has no {variable}; leave it out"
        return self._find_collinearity(curve, x)

    def _find_collinearity(self, curve: pd.DataFrame, x: Floats) -> str:
        """Return the reason why a fit cannot separate slopes in n and in the claim's variable.

        A fit cannot separate these slopes if n and the variable change together. Return blank text
        if the fit can separate the slopes.
        """
        try:
            slopes(np.ones((len(curve), 1)), *self._other_regressors(curve), x)
        except ValueError:
            text = f"{curve['estimator'].iloc[0]}: n and {self.statement.variable}"
            return f"{text} change together on its grid"
        return ""

    def _other_regressors(self, curve: pd.DataFrame) -> list[Floats]:
        """Return a list of the fit's regressors other than the claim's variable.

        The list contains the values of n. It is empty if all rows of the curve have the same n.
        """
        n = curve["n"].to_numpy(float)
        return [n] if np.ptp(n) else []

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        shared = sweep.shares_data(chosen.summary["family"].unique())
        # Rows of a curve on equal data resample equal trials, because their errors are dependent.
        _, swept = swept_columns(sweep.families.values(), sweep.estimators.values())
        joint = self._fitted_column not in {"n", "alpha"} and (
            shared or self._fitted_column in swept.values()
        )
        curves, draws = self._worst_curves(chosen, joint=joint, shared=shared)
        if self.exact_at_run_n is True:
            exact = exact_values(chosen.summary, sweep, self.statement.metric)
            curves["exact"] = worst_case(chosen.summary, exact[:, None])[1]
        return curves, draws

    def _exact_number(self, curve: pd.DataFrame) -> float:
        if self.exact_at_run_n is True:
            return float(self._number(curve, curve[["exact"]].to_numpy())[0])
        return super()._exact_number(curve) if self.exact_at_run_n is False else self.exact_at_run_n

    def _asymptotic_from(self, curve: pd.DataFrame, table: pd.DataFrame, sweep: Sweep) -> float:
        if self.exact_at_run_n is not True or self.statement.of == "samples":
            return np.nan
        rows = table.merge(curve[self._curve_columns].drop_duplicates(), on=self._curve_columns)
        stated = self.prediction(curve["k"].iloc[0])
        low, high = region(stated, self.tolerance, self.statement.floor)

        def agrees(n: pd.Series[int]) -> bool:
            grid = rows.assign(n=n)
            exact = exact_values(grid, sweep, self.statement.metric)
            curves, worst = worst_case(grid, exact[:, None])
            with np.errstate(divide="ignore", invalid="ignore"):  # exact values may underflow to 0
                return bool(low <= self._number(curves, worst)[0] <= high)

        return first_n(rows["n"], agrees)

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        # With log alpha = a + b log n + c log x: n ~ (1/alpha)^(-1/b), and x^(-c/b) at fixed alpha.
        if self._fitted_column in {"n", "alpha"}:
            (in_n,) = slopes(draws, *self._other_regressors(curve))
            return in_n if self._fitted_column == "n" else -1 / in_n
        *others, in_x = slopes(draws, *self._other_regressors(curve), self._x(curve))
        return in_x if self.statement.of == "fixed_n" else -in_x / others[0]


@validated
class SmallestN(Exponent):
    """Claim about the exponent s in N ~ x^s, with N the smallest n that reaches an error alpha.

    An n reaches the error alpha if the 0.9 quantile of the error is at most alpha. The theorem
    determines the variable x, for example the dimension d.

    Parameters
    ----------
    alpha : float > 0
        The error to reach, in the unit of the data.
    """

    alpha: Annotated[float, Field(gt=0)]

    def _find_collinearity(self, curve: pd.DataFrame, x: Floats) -> str:
        single = curve["estimator"][curve.groupby(x)["n"].transform("nunique") < 2]
        text = f"runs at one n for a {self.statement.variable}; two are needed"
        return "" if single.empty else f"{single.iloc[0]} {text}"

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        curves, draws = smallest_n(chosen, sweep, [self.alpha], BETA)
        if self.exact_at_run_n is True:
            curves["exact"] = exact_n(curves, chosen, sweep)
        return curves, draws

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        return slopes(draws, self._x(curve))[0]


@validated
class Level(Claim):
    """Claim that measured values divided by their exact values have geometric mean 1.

    Each configured estimator has one geometric mean for each notion of privacy. The mean is over
    the results of the estimator whose exact value is known. These results may differ in
    distribution, n, amount of privacy and swept parameters.

    Parameters
    ----------
    exact : float > 0, optional
        One exact value for all measurements, computed elsewhere. By default
        `dpbench.theory.exact.value` computes the exact value of each measurement.
    """

    exact: Annotated[float, Field(gt=0)] | None = None

    @property
    def measures(self) -> str | None:
        return METRICS[self.statement.metric].of

    @property
    def _curve_columns(self) -> list[str]:
        return ["series", "privacy"]

    def _add_names(self, table: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
        laws = dict.fromkeys(sweep.families[label].name for label in table["family"])
        series = [sweep.estimators[label].name for label in table["estimator"]]
        return table.assign(law=", ".join(laws), series=series)

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        if self.exact is None:
            check_exact(chosen, self._curve_columns, sweep, self._exact_metric, where)

    @property
    def _exact_metric(self) -> str:
        """Return the metric that this claim passes to `exact_values` as its argument `metric`."""
        return self.statement.metric

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        # Several budgets or parameters on equal data share their sampling errors.
        exact = np.full(len(chosen.summary), self.exact or np.nan)
        if self.exact is None:
            exact = exact_values(chosen.summary, sweep, self._exact_metric)
        is_known = np.isfinite(exact)
        chosen, exact = chosen.select(is_known), exact[is_known]
        table, shared = chosen.summary, sweep.shares_data(chosen.summary["family"].unique())
        data = ["series", "distribution", "n", *([] if shared else BUDGET)]
        joint = bool(table.duplicated(data).any())
        draws = replicates(chosen, self.statement.metric, joint=joint, shared=shared)
        # Clip the ratios, because infinite errors and errors of 0 must count as far off and stay
        # finite. A mean may be 0 by chance if errors are rare: clip it above only.
        least = 1 / MAX_RATIO if METRICS[self.statement.metric].statistic == "quantile" else 0.0
        return table, np.clip(
            draws * (self._bias_corrections(chosen) / exact)[:, None], least, MAX_RATIO
        )

    def _bias_corrections(self, chosen: Results) -> Floats:
        """Return the factors, one for each row, that make sample quantiles median-unbiased.

        The sample quantile at level 0.9 is the smallest value that at least 0.9 of the N trials do
        not exceed. It is too small, by about 1 per cent at N = 200. The factor is 1 if the metric
        is not a quantile.
        """
        metric, table = METRICS[self.statement.metric], chosen.summary
        if metric.statistic != "quantile":
            return np.ones(len(table))
        measured, unbiased = table[self.statement.metric].to_numpy(float), []
        for values in chosen.values[metric.of]:
            finite = np.where(np.isfinite(values), values, INFINITY_STAND_IN)
            unbiased.append(np.quantile(finite, metric.q, method="median_unbiased"))
        usable = (np.array(unbiased) < INFINITY_STAND_IN / 10) & (measured > 0)
        return np.asarray(np.divide(unbiased, measured, out=np.ones(len(measured)), where=usable))


@validated
class BestValue(Level):
    """Claim that a parameter has its smallest error at the value that exact errors predict.

    For each family, n and budget, the value with the smallest measured error is divided by the
    value with the smallest exact error. Only values that the sweep runs count, and only those whose
    exact error is known. Each configured estimator has one geometric mean of these ratios for each
    notion of privacy.

    Parameters
    ----------
    parameter : str
        Parameter of the estimator, above 0, to which the sweep gives a list of values.
    """

    parameter: str

    @property
    def _place(self) -> list[str]:
        """Columns of one minimum: all that identifies a result except the parameter."""
        return ["series", *POINT]

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        if self.parameter not in chosen or chosen[self.parameter].isna().any():
            raise ConfigError(
                f"{where}.parameter: {self.parameter!r}: the sweep gives no list of values for it"
            )
        super()._check(chosen, sweep, where)

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        exact = exact_values(chosen.summary, sweep, self._exact_metric)
        is_known = np.isfinite(exact)
        chosen, exact = chosen.select(is_known), exact[is_known]
        shared = sweep.shares_data(chosen.summary["family"].unique())
        draws = replicates(chosen, self.statement.metric, joint=True, shared=shared)
        values = chosen.summary[self.parameter].to_numpy(float)
        firsts, ratios = [], []
        for places in chosen.summary.groupby(
            self._place, dropna=False, sort=False
        ).indices.values():
            best = values[places][np.argmin(draws[places], axis=0)]
            firsts.append(places[0])
            ratios.append(best / values[places][np.argmin(exact[places])])
        return chosen.summary.iloc[firsts].reset_index(drop=True), np.array(ratios)


@validated
class LevelOfN(Level):
    """Claim that the smallest n for an error alpha equals its exact value.

    The claim is that the measured n divided by the exact n has geometric mean 1. The mean is taken
    over families, budgets and swept parameters. The exact n concerns estimators that first locate
    the data by a coarse step, for example by a private choice of a histogram bin. The exact n
    assumes that the error exceeds alpha if and only if the coarse step goes wrong.

    Parameters
    ----------
    alpha : float > 0
        The error to reach, in the unit of the data.
    """

    alpha: Annotated[float, Field(gt=0)]

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        check_sizes(chosen, where)
        super()._check(chosen, sweep, where)

    @property
    def _exact_metric(self) -> str:
        return "samples"

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        curves, draws = smallest_n(chosen, sweep, [self.alpha], BETA)
        return curves, draws / (self.exact or exact_n(curves, chosen, sweep)[:, None])


@validated
class ErrorOverBound(Claim):
    """Claim about the largest ratio of an error to its lower bound, over all distributions and n.

    Errors for different distributions and n are independent, because each has its own data. The
    interval allows for the choice of the largest ratio, see `dpbench.analysis.largest_of_noisy`.
    """

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        columns = ["family", "estimator", *BUDGET]  # whether a bound is known does not depend on n
        for row in chosen.drop_duplicates(columns, keep="last").to_dict("records"):
            if np.isnan(lower_bound(sweep, row)):
                place = f"{where}.families: {row['family']!r}"
                raise ConfigError(f"{place}: no lower bound is known for it")

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        errors = replicates(chosen, self.statement.metric)
        return chosen.summary, errors / chosen.summary["lower_bound"].to_numpy()[:, None]

    def _interval(self, curve: pd.DataFrame, draws: Floats) -> Measurement:
        return largest(*np.transpose([interval(row) for row in draws]))


@validated
class Ratio(Claim):
    """Claim about the geometric mean, over n, of the ratio of two estimators' errors.

    The two errors of a ratio have the same family, budget and n.

    Parameters
    ----------
    denominator : str
        Name of the estimator in the denominator, one of the claim's ``estimators``.
    """

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
        pairs = chosen[~is_below].merge(below[POINT], on=POINT, how="left", indicator=True)
        for row in pairs[pairs["_merge"] == "left_only"].to_dict("records"):
            place = f"on {row['family']} at n = {row['n']} under {row['privacy']}"
            raise ConfigError(f"{where}: it does not run {place}, as {row['estimator']} does")

    def _is_below(self, table: pd.DataFrame, sweep: Sweep) -> pd.Series[bool]:
        """Return a mask of the rows whose estimator is the denominator of the ratio."""
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
    """Claim that a metric stays within a limit in its worst case over estimators, families and n.

    Each budget has its own worst case. It is chosen on one half of the trials and measured on the
    other half, because a maximum over noisy values is too high. If the metric has a sign, the worst
    value is the value farthest from 0. The interval of a rate is that of Clopper and Pearson, which
    is exact for every number of trials.
    """

    @property
    def measures(self) -> str | None:
        return METRICS[self.statement.metric].of

    @property
    def _curve_columns(self) -> list[str]:
        return BUDGET

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        row = [*CURVE, "distribution", "n"]
        return self._worst_curves(select_held_out(chosen, self.statement.metric, BUDGET, row))

    def _interval(self, curve: pd.DataFrame, draws: Floats) -> Measurement:
        if METRICS[self.statement.metric].statistic != "rate":
            return super()._interval(curve, draws)
        rate, trials, tail = float(draws[0][0]), int(curve["trials"].iloc[0]), (1 - LEVEL) / 2
        events = round(rate * trials)
        low = betaincinv(events, trials - events + 1, tail) if events else 0.0
        high = betaincinv(events + 1, trials - events, 1 - tail) if events < trials else 1.0
        return Measurement(rate, float(low), float(high))

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        return np.asarray(draws[0])


KINDS: dict[str, type[Claim]] = {
    "exponent": Exponent, "smallest_n": SmallestN, "level": Level, "best_value": BestValue,
    "level_of_n": LevelOfN,
    "error_over_bound": ErrorOverBound, "ratio": Ratio, "limit": Limit, "transfer": Transfer,
}  # fmt: skip


def build_claim(spec: Any, where: str) -> Claim:
    """Build the claim that a configuration describes; its theorem determines the kind of claim.

    A `spec` that is a claim is returned unchanged. `where` is the place of the claim in the
    configuration, for error messages. Raise ConfigError if the theorem does not exist, or a key of
    the configuration is missing or wrong.
    """
    if isinstance(spec, Claim):
        return spec
    name = spec.get("theorem") if isinstance(spec, Mapping) else None
    if isinstance(name, Mapping):
        own = from_mapping(OwnTheorem, name, f"{where}.theorem")
        return from_mapping(KINDS[own.statement.kind], {**spec, "theorem": own}, where)
    if name is None:
        return from_mapping(Exponent, spec, where)  # raises and names the missing key
    if str(name) not in THEOREMS:
        choices = choose_from(name, THEOREMS)
        raise ConfigError(f"{where}.theorem: {name!r}: no such theorem; {choices}")
    return from_mapping(KINDS[THEOREMS[name].kind], spec, where)
