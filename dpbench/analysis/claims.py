"""Claims: what a theorem predicts against what was measured, of five kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpbench.analysis.resample import Measured, interval, replicates
from dpbench.analysis.results import CURVE, Results, held_out, worst_case
from dpbench.analysis.smallest_n import smallest_n
from dpbench.arrays import Floats
from dpbench.columns import BUDGET, Selection
from dpbench.metrics import METRICS, VARIABLES
from dpbench.registry import ConfigError, from_mapping, validated
from dpbench.runner.plan import Sweep
from dpbench.theory.lower_bounds import BETA
from dpbench.theory.theorems import THEOREMS, Theorem

__all__ = ["COLUMNS", "KINDS", "Claim", "build_claim", "slopes", "verdict"]

# Rows, and (rows, 1 + draws) values with their replicates.
Curves = tuple[pd.DataFrame, Floats]
POINT = ["family", "n", *BUDGET]

COLUMNS = [
    "claim", "source", "estimator", "distribution", "variable", "metric", "predicted", "measured",
    "low", "high", "tolerance", "verdict", *BUDGET, "n_low", "n_high",
]  # fmt: skip
# With fewer trials the largest error is below the 0.9 quantile with probability above 2.5%: no
# interval for it has an upper end.
LEAST_TRIALS = 36


@validated
class Claim(Selection):
    """A theorem, and the estimators, families and regime that it is tested on.

    Parameters
    ----------
    theorem : str
        A name in `dpbench.theory.theorems.THEOREMS`.
    tolerance : float > 0
        How far a finite experiment may be from the asymptotic prediction.
    reason : str
        Why this tolerance and regime.
    n_min, n_max : int
        The regime: sample sizes that take part.
    predicted : float, optional
        For theorems that leave their number to the estimator's or the law's parameters.
    """

    theorem: str
    tolerance: Annotated[float, Field(gt=0)]
    reason: Annotated[str, Field(min_length=1)]
    n_min: Annotated[int, Field(ge=1)] = 1
    n_max: Annotated[int, Field(ge=1)] | None = None
    predicted: float | None = None

    @model_validator(mode="after")
    def _one_prediction(self) -> Self:
        if (self.predicted is not None) != self.statement.leaves_open:
            names = ", ".join(name for name, one in THEOREMS.items() if one.leaves_open)
            about = "theorems that leave their number to the estimator, and to all of these"
            raise ValueError(f"predicted belongs to {about}: {names}")
        return self

    @property
    def statement(self) -> Theorem:
        """The theorem."""
        return THEOREMS[self.theorem]

    @property
    def measures(self) -> str | None:
        """What of every trial the claim resamples, if anything."""
        metric = METRICS.get(self.statement.metric)
        return None if metric is None or metric.statistic == "mean" else metric.of

    def prediction(self, k: float) -> float:
        """The number at a moment order k."""
        return self.statement.predicted(k) if self.predicted is None else self.predicted

    def check(self, sweep: Sweep, keys: pd.DataFrame, where: str) -> None:
        """Raise ConfigError, naming the key, if the sweep's keys cannot answer the claim."""
        theorem, metric = self.statement, METRICS.get(self.statement.metric)
        if metric is not None and not metric.resampled:
            at = f"{where}.theorem: {self.theorem!r}"
            raise ConfigError(f"{at}: no claim can be about {theorem.metric}")
        chosen = keys[sweep.about(self, keys, where)]
        if chosen.empty:
            raise ConfigError(f"{where}: the sweep runs nothing of what the claim is about")
        chosen = chosen[self._regime(chosen)]
        if chosen.empty:
            at = f"{where}.n_min: {self.n_min}"
            raise ConfigError(f"{at}: the sweep runs no n in the claim's regime")
        for family, k in chosen[["family", "k"]].drop_duplicates().itertuples(index=False):
            if not np.isfinite(self.prediction(k)):
                at = f"{where}.families: {family!r}"
                raise ConfigError(f"{at}: the theorem needs its moment order")
        if theorem.metric == "lower_bound" or theorem.variable == "factor":
            for family in chosen["family"][chosen["lower_bound"].isna()]:
                raise ConfigError(f"{where}.families: {family!r}: no lower bound is known for it")
        self._check(self._named(chosen, sweep), sweep, where)

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        """Refuse keys that this kind of claim cannot be tested on."""

    def evaluate(self, label: str, results: Results, sweep: Sweep) -> pd.DataFrame:
        """Test the claim of that label: a row of `COLUMNS` for each of its curves.

        The results must hold the values that `measures` names.
        """
        rows = sweep.about(self, results.summary) & self._regime(results.summary)
        chosen = results.chosen(rows)
        chosen.summary = self._named(chosen.summary, sweep)
        curves, draws = self._curves(chosen, sweep)
        found = [
            {"claim": label, **self._row(curve, self._measure(curve, draws[curve.index]))}
            for _, curve in curves.groupby(self._apart, dropna=False)
        ]
        return pd.DataFrame(found)

    def _regime(self, table: pd.DataFrame) -> pd.Series[bool]:
        return table["n"].between(self.n_min, self.n_max or np.inf)

    @property
    def _column(self) -> str | None:
        """Of what an exponent is in, if it is one: a curve holds several values of it."""
        variable = VARIABLES.get(self.statement.variable)
        return variable.column if variable else None

    @property
    def _apart(self) -> list[str]:
        """The columns that tell curves apart."""
        return [name for name in ("law", "k", "series", *BUDGET) if name != self._column]

    def _named(self, table: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
        """The table with names of families and estimators that leave out what a curve spans."""
        without = self._column or ""
        return table.assign(
            law=[sweep.families[label].label(without) for label in table["family"]],
            series=[sweep.estimators[label].label(without) for label in table["estimator"]],
        )

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        return self._worst(chosen)

    def _worst(self, chosen: Results, **options: bool) -> Curves:
        """The metric at its worst over members, and its replicates."""
        draws = replicates(chosen, self.statement.metric, **options)
        return worst_case(chosen.summary, draws)

    def _measure(self, curve: pd.DataFrame, draws: Floats) -> Measured:
        computed = self.statement.metric == "lower_bound"
        enough = computed or curve["trials"].min() >= LEAST_TRIALS
        positive = self.statement.kind == "limit" or np.all(draws > 0)
        if not (enough and positive and np.all(np.isfinite(draws))):
            return Measured(np.nan, np.nan, np.nan)
        return interval(self._number(curve, draws))

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        """The number of a curve, and its replicates, from its rows': here their geometric mean."""
        return np.asarray(np.exp(np.log(draws).mean(axis=0)))

    def _row(self, curve: pd.DataFrame, measured: Measured) -> dict[str, Any]:
        theorem, about = self.statement, curve.iloc[0]
        predicted = self.prediction(about["k"])
        sizes = curve["samples" if theorem.of == "samples" else "n"]
        return {
            "source": theorem.source,
            "estimator": about["series"],
            "distribution": about["law"],
            "variable": theorem.variable,
            "metric": "samples" if theorem.of == "samples" else theorem.metric,
            "predicted": predicted,
            **measured._asdict(),
            "tolerance": self.tolerance,
            "verdict": verdict(measured, predicted, self.tolerance, floor=theorem.floor),
            **{name: about[name] if name in self._apart else np.nan for name in BUDGET},
            "n_low": sizes.min(),
            "n_high": sizes.max(),
        }


def verdict(
    measured: Measured, predicted: float, tolerance: float, *, floor: float | None = None
) -> str:
    """Compare an interval with the region predicted +- tolerance, or from floor - tolerance.

    ``inconsistent`` if it misses the region; ``consistent`` if it meets it and either lies inside
    or is narrower than twice the tolerance. Otherwise, or if a number is not finite, more trials
    are needed: ``inconclusive``.
    """
    if not np.all(np.isfinite([*measured, predicted])):
        return "inconclusive"
    bottom = (predicted if floor is None else floor) - tolerance
    top = predicted + tolerance
    if measured.high < bottom or measured.low > top:
        return "inconsistent"
    inside = bottom <= measured.low and measured.high <= top
    narrow = measured.high - measured.low < 2 * tolerance
    return "consistent" if inside or narrow else "inconclusive"


def slopes(errors: Floats, *columns: Floats) -> list[Floats]:
    """Least-squares slopes of log errors, (m, draws), on the logarithms of columns, (m,) each."""
    design = np.stack([np.ones_like(columns[0]), *map(np.log, columns)], axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError("the fit needs at least two distinct values of every variable")
    return list(np.linalg.pinv(design) @ np.log(errors))[1:]


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
            if wrong := self._wrong(curve):
                raise ConfigError(f"{where}: {wrong}")

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

    def _mixed(self, curve: pd.DataFrame, x: Floats) -> str:
        odd = curve["estimator"][curve.groupby(x)["n"].transform("nunique") < 2]
        what = f"runs at one n for a {self.statement.variable}; two are needed"
        return "" if odd.empty else f"{odd.iloc[0]} {what}"

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
        curves, draws = self._worst(held_out(chosen, self.statement.metric, CURVE, member))
        return curves, draws / curves["lower_bound"].to_numpy()[:, None]


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


KINDS: dict[str, type[Claim]] = {
    "exponent": Exponent, "smallest_n": SmallestN, "factor": Factor, "ratio": Ratio, "limit": Limit
}  # fmt: skip


def build_claim(spec: Any, where: str) -> Claim:
    """Make the claim that `spec` describes: its theorem, if there is one, says of which kind."""
    if isinstance(spec, Claim):
        return spec
    name = spec.get("theorem") if isinstance(spec, Mapping) else None
    if name is None:
        return from_mapping(Exponent, spec, where)  # which says what is missing
    if name not in THEOREMS:
        choices = ", ".join(THEOREMS)
        raise ConfigError(f"{where}.theorem: {name!r}: no such theorem; choose from {choices}")
    return from_mapping(KINDS[THEOREMS[name].kind], spec, where)
