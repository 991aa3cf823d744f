"""Claims: what a theorem predicts against what was measured. One class for each kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpbench.arrays import Floats
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
from dpbench.columns import BUDGET, Selection
from dpbench.metrics import METRICS, VARIABLES
from dpbench.registry import ConfigError, from_mapping, validated
from dpbench.runner.plan import Sweep
from dpbench.theory.lower_bounds import BETA
from dpbench.theory.theorems import THEOREMS, Theorem

__all__ = ["COLUMNS", "Claim", "Exponent", "Factor", "Limit", "Ratio", "SmallestN", "build_claim"]

Alpha = Annotated[float, Field(gt=0)]
Curves = tuple[pd.DataFrame, Floats]

COLUMNS = [
    "claim", "source", "estimator", "distribution", "variable", "metric", "predicted", "measured",
    "low", "high", "tolerance", "verdict", *BUDGET, "n_low", "n_high",
]  # fmt: skip
UNKNOWN = Measured(np.nan, np.nan, np.nan)
# With fewer trials the largest error is below the 0.9 quantile with probability above 2.5%: no
# interval for it has an upper end.
LEAST_TRIALS = 36


@validated
class Claim(Selection, ABC):
    """A theorem, and the estimators, families and regime that it is tested on.

    Parameters
    ----------
    theorem : str
        A name in `dpbench.theory.theorems.THEOREMS`.
    families, estimators, budgets : optional
        See `Selection`.
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
        if (self.predicted is not None) != _leaves_open(self.statement):
            names = [name for name, one in THEOREMS.items() if _leaves_open(one)]
            raise ValueError(
                "predicted belongs to theorems that leave their number to the estimator, and to "
                f"all of these: {', '.join(names)}"
            )
        return self

    @property
    def statement(self) -> Theorem:
        """The theorem itself."""
        return THEOREMS[self.theorem]

    @property
    def measures(self) -> str | None:
        """What of every trial the claim resamples, if anything."""
        metric = METRICS.get(self.statement.metric)
        return None if metric is None or metric.statistic == "mean" else metric.of

    def prediction(self, k: float) -> float:
        """The theorem's number at a moment order k."""
        return self.statement.predicted(k) if self.predicted is None else self.predicted

    def check(self, sweep: Sweep, keys: pd.DataFrame, where: str) -> None:
        """Refuse a claim that the sweep's keys cannot answer.

        Raises
        ------
        ConfigError
            Naming the key.
        """
        chosen = keys[sweep.about(self, keys, where)]
        if chosen.empty:
            raise ConfigError(f"{where}: the sweep runs nothing of what the claim is about")
        chosen = chosen[self._regime(chosen)]
        if chosen.empty:
            raise ConfigError(
                f"{where}.n_min: {self.n_min}: the sweep runs no n in the claim's regime"
            )
        for family, k in chosen[["family", "k"]].drop_duplicates().itertuples(index=False):
            if not np.isfinite(self.prediction(k)):
                raise ConfigError(f"{where}.families: {family!r}: the theorem needs its moment order")
        if self.statement.metric == "lower_bound" or self.statement.variable == "factor":
            for family in chosen["family"][chosen["lower_bound"].isna()]:
                raise ConfigError(f"{where}.families: {family!r}: no lower bound is known for it")
        self._check(chosen, sweep, where)

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        """Refuse keys that this kind of claim cannot be tested on."""

    def evaluate(self, label: str, results: Results, sweep: Sweep) -> pd.DataFrame:
        """Test the claim on each of its curves.

        Parameters
        ----------
        label : str
            The claim's.
        results : Results
            With the values that `measures` names.
        sweep : Sweep

        Returns
        -------
        DataFrame
            The columns of `COLUMNS`, and ``k``.
        """
        rows = sweep.about(self, results.summary) & self._regime(results.summary)
        chosen = self._kept(results.chosen(rows))
        curves, draws = self._curves(chosen, sweep)
        trials = chosen.summary["trials"]
        if self.measures is not None:
            trials = pd.Series([len(values) for values in chosen.values[self.measures]])
        enough = self.statement.metric == "lower_bound" or trials.min() >= LEAST_TRIALS
        found = []
        for _, curve in curves.groupby(self._apart, dropna=False, observed=True):
            measured = self._measure(curve, draws[curve.index]) if enough else UNKNOWN
            found.append({"claim": label, **self._row(curve, measured)})
        return pd.DataFrame(found)

    def _regime(self, table: pd.DataFrame) -> pd.Series[bool]:
        return table["n"].between(self.n_min, self.n_max or np.inf)

    def _kept(self, chosen: Results) -> Results:
        """The rows that are measured, where others choose them."""
        return chosen

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        """The worst values over members, with replicates."""
        column = self.statement.metric
        values = chosen.values.get(self.measures or "")
        return worst_case(chosen.summary, column, replicates(chosen.summary, values, column))

    @property
    def _apart(self) -> list[str]:
        """What the curves are told apart by."""
        return CURVE

    def _measure(self, curve: pd.DataFrame, draws: Floats) -> Measured:
        """The number of one curve, NaN where errors are not finite or 0."""
        value = curve["value"].to_numpy(float)
        if not np.all(np.isfinite(value)) or not np.all(np.isfinite(draws)) or np.any(draws <= 0):
            return UNKNOWN
        return self._number(curve, value, draws.T)

    @abstractmethod
    def _number(self, curve: pd.DataFrame, value: Floats, draws: Floats) -> Measured:
        """The number of a curve of positive values, and of (draws, values) replicates."""

    def _row(self, curve: pd.DataFrame, measured: Measured) -> dict[str, Any]:
        theorem, about, apart = self.statement, curve.iloc[0], self._apart
        predicted = self.prediction(about["k"])
        sizes = curve["samples" if "samples" in curve else "n"]
        return {
            "source": theorem.source,
            "estimator": about["series" if "series" in apart else "estimator"],
            "distribution": about["law" if "law" in apart else "family"],
            "variable": theorem.variable,
            "metric": "samples" if "samples" in curve else theorem.metric,
            "predicted": predicted,
            "measured": measured.value,
            "low": measured.low,
            "high": measured.high,
            "tolerance": self.tolerance,
            "verdict": verdict(measured, predicted, self.tolerance, floor=theorem.floor),
            **{name: about[name] if name in apart else np.nan for name in BUDGET},
            "n_low": sizes.min(),
            "n_high": sizes.max(),
            "k": about["k"],
        }


def _leaves_open(theorem: Theorem) -> bool:
    return bool(np.isnan(theorem.predicted(2.0)))


def verdict(
    measured: Measured, predicted: float, tolerance: float, *, floor: float | None = None
) -> str:
    """Compare an interval with the region predicted +- tolerance.

    Parameters
    ----------
    measured : Measured
    predicted, tolerance : float
    floor : float, optional
        For an upper limit: the region is from floor - tolerance to predicted + tolerance.

    Returns
    -------
    {'consistent', 'inconsistent', 'inconclusive'}
        ``inconsistent`` if the interval misses the region. ``consistent`` if it meets
        it and either lies inside or is narrower than twice the tolerance. Otherwise, or
        if a number is not finite, more trials are needed: ``inconclusive``.
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
        if np.unique(values[np.isfinite(values)]).size < 2:
            raise ConfigError(
                f"{where}: {at['estimator']} has fewer than two values of {theorem.variable} on "
                f"{at['family']}; an exponent needs two or more"
            )
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
            raise ConfigError(f"{where}: n and {self.statement.variable} change together on its grid")

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
