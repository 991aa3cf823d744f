"""Claims: what a theorem predicts against what was measured. What all kinds have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpbench.analysis.exponents import Measured, interval
from dpbench.analysis.resample import replicates
from dpbench.analysis.results import Results
from dpbench.analysis.worst_case import worst_case
from dpbench.arrays import Floats
from dpbench.columns import BUDGET, Selection
from dpbench.metrics import METRICS, VARIABLES
from dpbench.registry import ConfigError, validated
from dpbench.runner.plan import Sweep
from dpbench.theory.theorems import THEOREMS, Theorem

__all__ = ["COLUMNS", "Claim", "Curves", "verdict"]

# Rows, and (rows, 1 + draws) values with their replicates.
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
            names = ", ".join(name for name, one in THEOREMS.items() if _leaves_open(one))
            raise ValueError(
                "predicted belongs to theorems that leave their number to the estimator, and to "
                f"all of these: {names}"
            )
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
        """The theorem's number at a moment order k."""
        return self.statement.predicted(k) if self.predicted is None else self.predicted

    def check(self, sweep: Sweep, keys: pd.DataFrame, where: str) -> None:
        """Raise ConfigError, naming the key, if the sweep's keys cannot answer the claim."""
        metric = METRICS.get(self.statement.metric)
        if metric is not None and not metric.resampled:
            raise ConfigError(
                f"{where}.theorem: {self.theorem!r}: no claim can be about {self.statement.metric}"
            )
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
        if self.statement.metric == "lower_bound" or self.statement.variable == "factor":
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
        computed = self.statement.metric == "lower_bound"
        enough = computed or curves["trials"].min() >= LEAST_TRIALS
        found = []
        for _, curve in curves.groupby(self._apart, dropna=False):
            measured = self._measure(curve, draws[curve.index]) if enough else UNKNOWN
            found.append({"claim": label, **self._row(curve, measured)})
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
        without = (self._column,) if self._column else ()
        return table.assign(
            law=[sweep.families[label].label(*without) for label in table["family"]],
            series=[sweep.estimators[label].label(*without) for label in table["estimator"]],
        )

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        return self._worst(chosen)

    def _worst(self, chosen: Results, **options: bool) -> Curves:
        """The metric at its worst over members, and its replicates."""
        values = chosen.values.get(self.measures or "")
        draws = replicates(chosen.summary, values, self.statement.metric, **options)
        return worst_case(chosen.summary, draws)

    def _measure(self, curve: pd.DataFrame, draws: Floats) -> Measured:
        positive = self.statement.kind == "limit" or np.all(draws > 0)
        if not np.all(np.isfinite(draws)) or not positive:
            return UNKNOWN
        return interval(self._number(curve, draws))

    @abstractmethod
    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        """The number of a curve, and its replicates, from those of its rows."""

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
            "measured": measured.value,
            "low": measured.low,
            "high": measured.high,
            "tolerance": self.tolerance,
            "verdict": verdict(measured, predicted, self.tolerance, floor=theorem.floor),
            **{name: about[name] if name in self._apart else np.nan for name in BUDGET},
            "n_low": sizes.min(),
            "n_high": sizes.max(),
        }


def _leaves_open(theorem: Theorem) -> bool:
    return bool(np.isnan(theorem.predicted(2.0)))


def verdict(
    measured: Measured, predicted: float, tolerance: float, *, floor: float | None = None
) -> str:
    """Compare an interval with the region predicted +- tolerance.

    For an upper limit the region begins at floor - tolerance.

    Returns
    -------
    {'consistent', 'inconsistent', 'inconclusive'}
        ``inconsistent`` if the interval misses the region. ``consistent`` if it meets it and
        either lies inside or is narrower than twice the tolerance. Otherwise, or if a number is
        not finite, more trials are needed: ``inconclusive``.
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
