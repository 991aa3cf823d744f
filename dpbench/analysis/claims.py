"""Compare the number that a theorem states with the measured number; `kinds` has the kinds.

A claim that tests a theorem has two verdicts:

1. `verdict` compares the measurement with ``predicted``. This is the exact number at the claim's n
   if the claim sets ``finite``, else the theorem's number.
2. `theorem_verdict` compares the measurement with the theorem's own number.

A claim that checks the code has the first verdict only. Its number is a closed form that the code
computes, so that no theorem is tested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpbench.analysis.resample import Measurement, interval, replicates
from dpbench.analysis.results import Results, worst_case
from dpbench.arrays import Floats
from dpbench.output.verdicts import CLAIMS, EARLY
from dpbench.registry import ConfigError, validated
from dpbench.sweep.metrics import METRICS, VARIABLES
from dpbench.sweep.plan import Sweep
from dpbench.sweep.selection import BUDGET, Selection
from dpbench.theory.theorems import THEOREMS, Subject, Theorem

__all__ = [
    "COLUMNS", "POINT", "UNKNOWN", "Claim", "Curves", "completed_row", "headline",
    "region", "theorem_verdict", "verdict",
]  # fmt: skip

# A table, and for each row the value followed by its replicates, (rows, 1 + draws).
Curves = tuple[pd.DataFrame, Floats]
POINT = ["family", "n", *BUDGET]

COLUMNS = [
    "claim", "source", "estimator", "distribution", "variable", "metric", "predicted", "measured",
    "low", "high", "tolerance", "verdict", *BUDGET, "n_low", "n_high", "visible",
    "checks", "theorem", "at_these_n", "theorem_verdict", "asymptotic_from",
]  # fmt: skip
# With fewer trials the largest error lies below the 0.9 quantile with probability above 2.5%. Then
# no 95% interval for that quantile has an upper end.
LEAST_TRIALS = 36
# The reason that tables and pages print for claims without a measured number.
UNKNOWN = (
    f"too few trials (under {LEAST_TRIALS}, {2 * LEAST_TRIALS} if half choose the worst), "
    "or errors of 0 or ∞"
)


@validated
class Claim(Selection):
    """Test a theorem, or check the code, on some estimators and families in a regime of n.

    Parameters
    ----------
    theorem : str
        A name in `dpbench.theory.theorems.THEOREMS`.
    tolerance : float > 0
        Largest accepted distance between the true number at finite n and the prediction.
    reason : str
        Reason for the tolerance and the regime, a full sentence.
    n_min, n_max : int
        The regime: the smallest and largest n at which the claim is tested.
    predicted : float, optional
        The predicted number. Required if the theorem's number depends on parameters of the
        estimator or the distribution, else forbidden.
    checks : {'theorem', 'code'}, optional
        Whether the claim tests the theorem, or compares the code with the closed form that it
        computes. By default claims about a level check the code, all others test the theorem.
    """

    theorem: str
    tolerance: Annotated[float, Field(gt=0)]
    reason: Annotated[str, Field(min_length=1)]
    n_min: Annotated[int, Field(ge=1)] = 1
    n_max: Annotated[int, Field(ge=1)] | None = None
    predicted: float | None = None
    checks: Subject | None = None

    @model_validator(mode="after")
    def _one_prediction(self) -> Self:
        if (self.predicted is not None) != self.statement.leaves_open:
            names = ", ".join(name for name, one in THEOREMS.items() if one.leaves_open)
            about = "theorems without a number of their own, which all need it"
            raise ValueError(f"predicted is only for {about}: {names}")
        return self

    @property
    def statement(self) -> Theorem:
        """Return the theorem that the claim names."""
        return THEOREMS[self.theorem]

    @property
    def subject(self) -> Subject:
        """Return what the claim tests, ``theorem`` or ``code``."""
        return self.checks or self.statement.subject

    @property
    def measures(self) -> str | None:
        """Return the per-trial quantity that the claim resamples; None if it needs none."""
        metric = METRICS.get(self.statement.metric)
        return None if metric is None or metric.statistic == "mean" else metric.of

    def prediction(self, k: float) -> float:
        """Return the predicted number for distributions with a bounded moment of order k."""
        return self.statement.predicted(k) if self.predicted is None else self.predicted

    def check(self, sweep: Sweep, keys: pd.DataFrame, where: str) -> None:
        """Check that the sweep runs enough to test the claim.

        Parameters
        ----------
        sweep : Sweep
        keys : DataFrame
            Keys of the planned results; see `dpbench.sweep.plan.key_table`.
        where : str
            The claim's own key in the configuration, for messages.

        Raises
        ------
        ConfigError
            If the claim selects nothing, or keys that its kind cannot be tested on.
        """
        theorem, metric = self.statement, METRICS.get(self.statement.metric)
        if metric is not None and not metric.resampled:
            at = f"{where}.theorem: {self.theorem!r}"
            raise ConfigError(f"{at}: no claim can test the metric {theorem.metric}")
        chosen = keys[sweep.about(self, keys, where)]
        if chosen.empty:
            raise ConfigError(f"{where}: the sweep runs nothing that the claim selects")
        chosen = chosen[self._regime(chosen)]
        if chosen.empty:
            at = f"{where}.n_min: {self.n_min}"
            raise ConfigError(f"{at}: the sweep runs no n in the claim's regime")
        for family, k in chosen[["family", "k"]].drop_duplicates().itertuples(index=False):
            if not np.isfinite(self.prediction(k)):
                at = f"{where}.families: {family!r}"
                raise ConfigError(f"{at}: the theorem needs its moment order")
        self._check(self._named(chosen, sweep), sweep, where)

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        """Raise ConfigError for keys that this kind of claim cannot be tested on."""

    def evaluate(self, label: str, results: Results, sweep: Sweep) -> pd.DataFrame:
        """Test the claim on each of its curves.

        Parameters
        ----------
        label : str
        results : Results
        sweep : Sweep

        Returns
        -------
        DataFrame
            A row for each curve, with the columns `COLUMNS`.
        """
        chosen = results.chosen(self.rows(results.summary, sweep))
        chosen.summary = self._named(chosen.summary, sweep)
        curves, draws = self._curves(chosen, sweep)
        found = []
        for _, curve in curves.groupby(self._apart, dropna=False):
            row = self._row(curve, self._measure(curve, draws[curve.index]))
            early = row["theorem_verdict"] == EARLY
            since = self._asymptotic_from(curve, chosen.summary, sweep) if early else np.nan
            found.append({"claim": label, **row, "asymptotic_from": since})
        return pd.DataFrame(found)

    def rows(self, table: pd.DataFrame, sweep: Sweep) -> pd.Series[bool]:
        """Select the rows on which the claim is tested.

        Parameters
        ----------
        table : DataFrame
            A table with the sweep's keys, such as a summary.
        sweep : Sweep

        Returns
        -------
        Series of bool
            True for the rows of the claim's families, estimators and budgets in its regime of n.
        """
        return sweep.about(self, table) & self._regime(table)

    def _regime(self, table: pd.DataFrame) -> pd.Series[bool]:
        return table["n"].between(self.n_min, self.n_max or np.inf)

    @property
    def _column(self) -> str | None:
        """Return the column in which an exponent is fitted; None for a claim about no exponent."""
        variable = VARIABLES.get(self.statement.variable)
        return variable.column if variable else None

    @property
    def _apart(self) -> list[str]:
        """Return the columns that identify a curve."""
        return [name for name in ("law", "k", "series", *BUDGET) if name != self._column]

    def _named(self, table: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
        """Add the columns ``law`` and ``series``, names without the variable of the curve."""
        without = self._column or ""
        return table.assign(
            law=[sweep.families[label].label(without) for label in table["family"]],
            series=[sweep.estimators[label].label(without) for label in table["estimator"]],
        )

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        return self._worst(chosen)

    def _worst(self, chosen: Results, **options: bool) -> Curves:
        """Return the metric, the largest over the members of each family, with replicates."""
        draws = replicates(chosen, self.statement.metric, **options)
        return worst_case(chosen.summary, draws)

    def _measure(self, curve: pd.DataFrame, draws: Floats) -> Measurement:
        enough = curve["trials"].min() >= LEAST_TRIALS
        positive = self.statement.kind == "limit" or np.all(draws > 0)
        if not (enough and positive and np.all(np.isfinite(draws))):
            return Measurement(np.nan, np.nan, np.nan)
        return self._interval(curve, draws)

    def _interval(self, curve: pd.DataFrame, draws: Floats) -> Measurement:
        return interval(self._number(curve, draws))

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        """Return the number of a curve and its replicates: the geometric mean over its rows."""
        return np.asarray(np.exp(np.log(draws).mean(axis=0)))

    def _row(self, curve: pd.DataFrame, measured: Measurement) -> dict[str, Any]:
        theorem, about = self.statement, curve.iloc[0]
        stated, here = self.prediction(about["k"]), self._at_these_n(curve)
        predicted = stated if np.isnan(here) else here
        sizes = curve["samples" if theorem.of == "samples" else "n"]
        how: Any = {"floor": theorem.floor}
        of_theorem = theorem_verdict(measured, stated, here, self.tolerance, **how)
        return {
            "source": theorem.source,
            "estimator": about["series"],
            "distribution": about["law"],
            "variable": theorem.variable,
            "metric": "samples" if theorem.of == "samples" else theorem.metric,
            "predicted": predicted,
            **measured._asdict(),
            "tolerance": self.tolerance,
            "verdict": verdict(measured, predicted, self.tolerance, **how),
            **{name: about[name] if name in self._apart else np.nan for name in BUDGET},
            "n_low": sizes.min(),
            "n_high": sizes.max(),
            "visible": self.tolerance + 2 * _reach(measured, theorem.floor),
            "checks": self.subject,
            "theorem": stated,
            "at_these_n": here,
            "theorem_verdict": of_theorem if self.subject == "theorem" else np.nan,
        }

    def _at_these_n(self, curve: pd.DataFrame) -> float:
        """Return the exact number at the claim's n; NaN if the claim uses the theorem's number."""
        return np.nan

    def _asymptotic_from(self, curve: pd.DataFrame, table: pd.DataFrame, sweep: Sweep) -> float:
        """Return the n from which the exact number is within the tolerance of the theorem's.

        NaN if no such n is known. `table` holds the claim's rows of the summary; see
        `dpbench.analysis.oracle.first_n`.
        """
        return np.nan


def _reach(measured: Measurement, floor: float | None) -> float:
    """Return the half-width of the interval; for an upper limit its part below the number."""
    number, low, high = measured
    return (high - low) / 2 if floor is None else number - low


def region(predicted: float, tolerance: float, floor: float | None) -> tuple[float, float]:
    """Return the lower and the upper end of the interval of numbers that a claim accepts.

    Parameters
    ----------
    predicted : float
        The predicted number, or the upper limit that a theorem states.
    tolerance : float
        Distance that is accepted beyond the prediction.
    floor : float or None
        Smallest possible value, for a theorem that states only an upper limit.

    Returns
    -------
    tuple of float
        predicted -+ tolerance; with a floor, floor - tolerance and predicted + tolerance.
    """
    return (predicted if floor is None else floor) - tolerance, predicted + tolerance


def verdict(
    measured: Measurement, predicted: float, tolerance: float, *, floor: float | None = None
) -> str:
    """Compare an interval with the `region` that a claim accepts.

    A true number is ``visible`` if the verdict on it is ``inconsistent`` in half of all runs. Its
    distance from the prediction is the tolerance plus the width of the interval. Above an upper
    limit it is the tolerance plus twice the part of the interval below the measured number.

    Parameters
    ----------
    measured : Measured
    predicted, tolerance : float
        Prediction and tolerance of the claim.
    floor : float, optional
        Smallest possible value, for a theorem that states only an upper limit; see `region`.

    Returns
    -------
    str
        ``consistent`` if the interval lies inside the region. ``inconsistent`` if the interval
        stretched to twice its width lies outside: this happens to 1 in 10,000 correct numbers, not
        to 1 in 20. ``inconclusive`` otherwise, or if a number is not finite.
    """
    if not np.all(np.isfinite([*measured, predicted])):
        return "inconclusive"
    bottom, top = region(predicted, tolerance, floor)
    above, below = measured.high - measured.measured, measured.measured - measured.low
    if measured.high + max(above, 0) < bottom or measured.low - max(below, 0) > top:
        return "inconsistent"
    return "consistent" if bottom <= measured.low and measured.high <= top else "inconclusive"


def theorem_verdict(
    measured: Measurement,
    theorem: float,
    exact: float,
    tolerance: float,
    *,
    floor: float | None = None,
) -> str:
    """Compare an interval with the theorem's number, given the exact number at the claim's n.

    Without an exact number (NaN) return `verdict` on the theorem's number. Else let `here` be
    `verdict` on the exact number, and let the region of a number be `region`:

    1. ``consistent`` if `verdict` on the theorem's number is consistent. Also if `here` is
       consistent and the interval, widened by the tolerance on both sides, contains the theorem's
       number.
    2. Else ``not yet asymptotic`` if `here` is consistent and the exact number lies outside the
       theorem's region: the measurement agrees with a formula that is not yet at its limit.
    3. Else `verdict` on the theorem's number, with an exception. It is ``inconclusive`` instead of
       ``inconsistent`` if the exact number lies outside the theorem's region and `here` is
       inconclusive: few trials do not refute a theorem that the exact number would explain.

    False alarms, if the exact number is the true one:

    - ``inconsistent`` has probability 1 in 10,000. If the exact number lies outside the theorem's
      region, `here` must be inconsistent, by 3. If it lies inside, the doubled interval must miss
      a region that contains the true number.
    - ``not yet asymptotic`` needs an interval inside the region of the exact number and outside
      the theorem's region. A true number outside the first region or inside the second lies
      beyond this 95% interval on a known side: 1 in 40.
    - ``consistent`` by the second sentence of 1 needs an interval of at most two tolerances that
      ends within one tolerance of the theorem's number. A true number three tolerances away from
      the theorem's lies beyond this interval: 1 in 40.

    Parameters
    ----------
    measured : Measured
    theorem, exact : float
        The theorem's number, and the exact number at the claim's n or NaN.
    tolerance : float
        Tolerance of the claim.
    floor : float, optional
        As in `verdict`.

    Returns
    -------
    str
        A verdict of `dpbench.output.verdicts.CLAIMS`.
    """
    alone = verdict(measured, theorem, tolerance, floor=floor)
    if np.isnan(exact) or alone == "consistent":
        return alone
    here = verdict(measured, exact, tolerance, floor=floor)
    bottom, top = region(theorem, tolerance, floor)
    if here == "consistent" and measured.low <= top and measured.high >= bottom:
        return "consistent"
    if bottom <= exact <= top or here == "inconsistent":
        return alone
    return EARLY if here == "consistent" else "inconclusive"


def completed_row(row: Mapping[Any, Any], *, finite: bool, subject: Subject) -> dict[Any, Any]:
    """Add to a row of an older claims.csv the columns on theorems, which it lacks.

    Parameters
    ----------
    row : mapping
        A row of claims.csv by column. Its own cells stay.
    finite : bool
        Whether the claim set ``finite``. Then ``predicted`` is the exact number at its n, and the
        theorem's own number and verdict are NaN, because the older run did not store them.
    subject : {'theorem', 'code'}
        What the claim tests.

    Returns
    -------
    dict
        The row with all columns, in the order of the row.
    """
    known = not finite and subject == "theorem"
    late = {
        "checks": subject,
        "theorem": np.nan if finite else row["predicted"],
        "at_these_n": row["predicted"] if finite else np.nan,
        "theorem_verdict": row["verdict"] if known else np.nan,
        "asymptotic_from": np.nan,
    }
    return {**row, **late, **row}


def headline(rows: Iterable[Mapping[Any, Any]]) -> list[str]:
    """Count verdicts: on theorems, on the numbers at these n, and on the code, a line for each.

    The second line counts the rows of the first. It is left out if no row has an exact number at
    its n, because the lines would then be equal.
    """
    by_subject: dict[str, list[Mapping[Any, Any]]] = {"theorem": [], "code": []}
    for row in rows:
        by_subject["code" if row["checks"] == "code" else "theorem"].append(row)
    theorems = by_subject["theorem"]
    exact = any(np.isfinite(float(row["at_these_n"] or "nan")) for row in theorems)
    lines = {
        "theorems": [row["theorem_verdict"] for row in theorems],
        "at these n": [row["verdict"] for row in theorems if exact],
        "checks of the code": [row["verdict"] for row in by_subject["code"]],
    }
    return [f"{what}: {_counts(words)}" for what, words in lines.items() if words]


def _counts(words: list[Any]) -> str:
    """Count each verdict that occurs; rows of an older run may have no verdict on a theorem."""
    counts = Counter(word if word in CLAIMS else "not judged" for word in words)
    return ", ".join(f"{counts[word]} {word}" for word in [*CLAIMS, "not judged"] if counts[word])
