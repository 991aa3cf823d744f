"""Test claims: compare the number that a theorem states with the number that a sweep measured.

A claim names a theorem and selects results of a sweep. The kinds of claims are in
`dpbench.analysis.claim_kinds`. A claim that tests a theorem has two verdicts:

1. `verdict` compares the measured number with a prediction. The prediction is the theorem's number.
   If the claim sets ``exact_at_run_n``, the prediction is instead the exact number. The exact
   number is the true value at the n that were run, for example of an exponent.
2. `theorem_verdict` compares the measured number with the theorem's number, which may hold only in
   the limit of large n.

A claim that checks the code has only the first verdict, because it tests no theorem. Its prediction
is a closed form that the code computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpbench.analysis.resample import Measurement, interval, replicates
from dpbench.analysis.summary_table import Results, worst_case
from dpbench.arrays import Floats
from dpbench.errors import choose_from
from dpbench.output.verdicts import CLAIMS, EARLY
from dpbench.registry import ConfigError, validated
from dpbench.sweep.metrics import METRICS, VARIABLES
from dpbench.sweep.plan import Sweep
from dpbench.sweep.selection import BUDGET, Selection
from dpbench.theory.theorems import CODE, THEOREMS, Subject, Theorem

__all__ = [
    "COLUMNS", "POINT", "UNKNOWN", "Claim", "Curves", "OwnTheorem", "count_claim_verdicts",
    "region", "shown_verdicts", "theorem_verdict", "verdict",
]  # fmt: skip

# A table, and an array of shape (rows, 1 + draws): each row's value, then its bootstrap replicates.
Curves = tuple[pd.DataFrame, Floats]
POINT = ["family", "n", *BUDGET]

COLUMNS = [
    "claim", "source", "estimator", "distribution", "variable", "metric", "predicted", "measured",
    "low", "high", "tolerance", "verdict", *BUDGET, "n_low", "n_high", "detectable_deviation",
    "checks", "theorem", "exact_at_run_n", "theorem_verdict", "asymptotic_from",
]  # fmt: skip
# With fewer trials the largest error lies below the 0.9 quantile with probability above 2.5%. Then
# an order-statistics interval at level 95% for that quantile has no upper end.
MIN_TRIALS = 36
FINITE_TRIALS = "The tolerance covers the finite number of trials."
# The reason that tables and pages print for claims without a measured number.
UNKNOWN = (
    f"too few trials (under {MIN_TRIALS}, {2 * MIN_TRIALS} if half choose the worst), "
    "or errors of 0 or ∞"
)


@validated
class OwnTheorem:
    """Prediction that a configuration states itself, in place of the name of a known theorem.

    Give exactly one of `exponent`, `constant` and `limit`.

    Parameters
    ----------
    source : str
        Publication with the number of the theorem, as it is printed beside the measurement.
    exponent : float, optional
        The e in metric ~ variable^e at fixed n; for the variable ``n``, over all n. Logarithmic
        variables are ``delta``, as ln(1/delta), ``log_radius``, as ln R, and ``log_location``.
    variable : str, optional
        Variable of the exponent, a key of `dpbench.sweep.metrics.VARIABLES` other than ``alpha``.
        The sweep needs several values of it.
    constant, limit : float, optional
        Number that the metric has, or that it exceeds nowhere, in its worst case over all rows that
        the claim selects.
    metric : str
        Column of ``summary.csv``: ``q90``, the 0.9 quantile of the error, by default.
    """

    source: Annotated[str, Field(min_length=1)]
    exponent: float | None = None
    variable: str | None = None
    constant: float | None = None
    limit: float | None = None
    metric: str = "q90"

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        numbers = {name: getattr(self, name) for name in ("exponent", "constant", "limit")}
        given = [name for name, number in numbers.items() if number is not None]
        if len(given) != 1:
            raise ValueError("give one of exponent, constant and limit")
        if (self.variable is None) != (self.exponent is None):
            raise ValueError("an exponent needs a variable, and no other number has one")
        variables = [name for name in VARIABLES if name != "alpha"]
        if self.variable is not None and self.variable not in variables:
            raise ValueError(
                f"variable: {self.variable!r}: {choose_from(self.variable, variables)}"
            )
        if self.metric not in METRICS:
            raise ValueError(f"metric: {self.metric!r}: {choose_from(self.metric, METRICS)}")
        return self

    @cached_property
    def statement(self) -> Theorem:
        """Prediction as claims use it."""
        if self.exponent is not None and self.variable is not None:
            inverse = VARIABLES[self.variable].x is np.reciprocal  # such as x = 1/epsilon
            number, variable = -self.exponent if inverse else self.exponent, self.variable
            of: Any = "error" if self.variable == "n" else "fixed_n"
            return Theorem(self.source, variable, lambda _: number, self.metric, of)
        value = float(self.constant if self.limit is None else self.limit)  # type: ignore[arg-type]
        at_most = self.limit is not None
        return Theorem(self.source, "limit", lambda _: value, self.metric, at_most=at_most)


@validated
class Claim(Selection):
    """Test of a theorem, or check of the code, on selected results of a sweep.

    Results are selected by estimator, family and budget. A family is a named set of distributions,
    and a budget is an amount of privacy.

    Parameters
    ----------
    theorem : str or OwnTheorem
        Name of the theorem, a key of `dpbench.theory.theorems.THEOREMS`; or a theorem of one's own,
        with the keys of `OwnTheorem`.
    tolerance : float > 0
        Largest accepted distance between the true number at finite n and the prediction.
    reason : str
        Reason for the tolerance and for the range of n, a full sentence. By default the tolerance
        covers the finite number of trials alone.
    n_min, n_max : int
        Smallest and largest n at which the claim is tested. By default all n are used.
    predicted : float, optional
        The predicted number. Required if the theorem's number depends on parameters of the
        estimator or the distribution, else forbidden.
    checks : {'theorem', 'target', 'code'}, optional
        Subject of the claim. ``theorem``: the claim tests the theorem. ``target``: it compares the
        measurement with a number of our own, such as 1.25 times a lower bound, or with a
        hypothesis. ``code``: it compares the code with a closed form that the code computes. By
        default a claim about a level checks the code. A level is a measurement divided by its
        exact value.
    """

    theorem: str | OwnTheorem
    tolerance: Annotated[float, Field(gt=0)]
    reason: Annotated[str, Field(min_length=1)] = FINITE_TRIALS
    n_min: Annotated[int, Field(ge=1)] = 1
    n_max: Annotated[int, Field(ge=1)] | None = None
    predicted: float | None = None
    checks: Subject | None = None

    @model_validator(mode="after")
    def _one_prediction(self) -> Self:
        if (self.predicted is not None) != self.statement.leaves_open:
            names = ", ".join(name for name, theorem in THEOREMS.items() if theorem.leaves_open)
            subject = "theorems without a number of their own, which all need it"
            raise ValueError(f"predicted is only for {subject}: {names}")
        return self

    @property
    def statement(self) -> Theorem:
        """Return the theorem that the claim names or states."""
        if isinstance(self.theorem, OwnTheorem):
            return self.theorem.statement
        return THEOREMS[self.theorem]

    @property
    def subject(self) -> Subject:
        """Return whether the claim tests a ``theorem``, a ``target`` or the ``code``."""
        return self.checks or self.statement.subject

    @property
    def measures(self) -> str | None:
        """Return the name of the per-trial quantity whose values the bootstrap of the claim needs.

        Return None if the bootstrap needs no values of trials, for example for a mean.
        """
        metric = METRICS.get(self.statement.metric)
        return None if metric is None or metric.statistic == "mean" else metric.of

    def prediction(self, k: float) -> float:
        """Return the number that the claim predicts for the order k of the bounded moment.

        The order k is NaN for distributions of which no bounded moment is known. The configured
        number has precedence over the theorem's number.
        """
        return self.statement.predicted(k) if self.predicted is None else self.predicted

    def check(self, sweep: Sweep, keys: pd.DataFrame, where: str) -> None:
        """Check that the sweep's planned results suffice to test the claim.

        `keys` has a row for each planned result, with its distribution, estimator, budget, n and
        parameters; see `dpbench.sweep.plan.key_table`. `where` is the place of the claim in the
        configuration, for error messages. Raise ConfigError if the claim selects no planned result,
        or selects results on which a claim of its kind cannot be tested.
        """
        theorem, metric = self.statement, METRICS.get(self.statement.metric)
        if metric is not None and not metric.resampled:
            place = f"{where}.theorem: {self.theorem!r}"
            raise ConfigError(f"{place}: no claim can test the metric {theorem.metric}")
        chosen = keys[sweep.select_rows(self, keys, where)]
        if chosen.empty:
            raise ConfigError(f"{where}: the sweep runs nothing that the claim selects")
        chosen = chosen[self._regime(chosen)]
        if chosen.empty:
            place = f"{where}.n_min: {self.n_min}"
            raise ConfigError(f"{place}: the sweep runs no n in the claim's regime")
        for family, k in chosen[["family", "k"]].drop_duplicates().itertuples(index=False):
            if not np.isfinite(self.prediction(k)):
                place = f"{where}.families: {family!r}"
                raise ConfigError(f"{place}: the theorem needs its moment order")
        self._check(self._add_names(chosen, sweep), sweep, where)

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        """Raise ConfigError if the planned results do not suffice to test a claim of this kind."""

    def evaluate(self, label: str, results: Results, sweep: Sweep) -> pd.DataFrame:
        """Test the claim, with a verdict for each curve.

        A curve is a group of results from which the claim measures one number. For example, an
        exponent is measured from the errors of one estimator at several n. The table has a row for
        each curve, with the columns of ``claims.csv`` in `COLUMNS`; `label` stands in the column
        ``claim``.
        """
        chosen = results.select(self.rows(results.summary, sweep))
        chosen.summary = self._add_names(chosen.summary, sweep)
        curves, draws = self._curves(chosen, sweep)
        rows = []
        for _, curve in curves.groupby(self._curve_columns, dropna=False, sort=False):
            row = self._make_row(curve, self._measure(curve, draws[curve.index]))
            early = row["theorem_verdict"] == EARLY
            start = self._asymptotic_from(curve, chosen.summary, sweep) if early else np.nan
            rows.append({"claim": label, **row, "asymptotic_from": start})
        return pd.DataFrame(rows)

    def rows(self, table: pd.DataFrame, sweep: Sweep) -> pd.Series[bool]:
        """Select the rows of a table on which the claim is tested.

        The table has columns for family, estimator, budget and n, as a summary has. The result is
        True for the rows of the claim's families, estimators and budgets with n from ``n_min`` to
        ``n_max``.
        """
        return sweep.select_rows(self, table) & self._regime(table)

    def _regime(self, table: pd.DataFrame) -> pd.Series[bool]:
        return table["n"].between(self.n_min, self.n_max or np.inf)

    @property
    def _fitted_column(self) -> str | None:
        """Return the column of the variable in which the claim's exponent is fitted, for example n.

        Return None if the claim is not about an exponent.
        """
        variable = VARIABLES.get(self.statement.variable)
        return variable.column if variable else None

    @property
    def _curve_columns(self) -> list[str]:
        """Return the columns that identify a curve, the group of results that gives one number."""
        return [name for name in ("law", "k", "series", *BUDGET) if name != self._fitted_column]

    def _add_names(self, table: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
        """Add the columns ``law`` (label of a row's family) and ``series`` (of its estimator).

        A claim about an exponent fits the exponent to results at several values of a variable. The
        labels leave out this variable, so all results of one fit have equal labels.
        """
        without = self._fitted_column or ""
        return table.assign(
            law=[sweep.families[label].label(without) for label in table["family"]],
            series=[sweep.estimators[label].label(without) for label in table["estimator"]],
        )

    def _curves(self, chosen: Results, sweep: Sweep) -> Curves:
        return self._worst_curves(chosen)

    def _worst_curves(self, chosen: Results, **options: bool) -> Curves:
        """Take the largest value of the claim's metric over the distributions of each family.

        Return a table and an array. The table has a row for each family, estimator, budget and n.
        The array has, for each row, the largest value followed by its bootstrap replicates.
        """
        draws = replicates(chosen, self.statement.metric, **options)
        return worst_case(chosen.summary, draws)

    def _measure(self, curve: pd.DataFrame, draws: Floats) -> Measurement:
        enough = curve["trials"].min() >= MIN_TRIALS
        positive = self.statement.variable in ("limit", "order") or np.all(draws > 0)
        if not (enough and positive and np.all(np.isfinite(draws))):
            return Measurement(np.nan, np.nan, np.nan)
        return self._interval(curve, draws)

    def _interval(self, curve: pd.DataFrame, draws: Floats) -> Measurement:
        return interval(self._number(curve, draws))

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        """Compute the number that the claim measures on a curve, with its bootstrap replicates.

        A curve is a group of results. Each row of `draws` has the value of one result, followed by
        bootstrap replicates of the value. By default the number is the geometric mean of the
        values.
        """
        return np.asarray(np.exp(np.log(draws).mean(axis=0)))

    def _make_row(self, curve: pd.DataFrame, measured: Measurement) -> dict[str, Any]:
        theorem, first = self.statement, curve.iloc[0]
        stated, exact = self.prediction(first["k"]), self._exact_number(curve)
        predicted = stated if np.isnan(exact) else exact
        sizes = curve["samples" if theorem.of == "samples" else "n"]
        options: Any = {"floor": theorem.floor}
        verdict_on_theorem = theorem_verdict(measured, stated, exact, self.tolerance, **options)
        return {
            "source": theorem.source,
            "estimator": first["series"],
            "distribution": first["law"],
            "variable": theorem.variable,
            "metric": "samples" if theorem.of == "samples" else theorem.metric,
            "predicted": predicted,
            **measured._asdict(),
            "tolerance": self.tolerance,
            "verdict": verdict(measured, predicted, self.tolerance, **options),
            **{name: first[name] if name in self._curve_columns else np.nan for name in BUDGET},
            "n_low": sizes.min(),
            "n_high": sizes.max(),
            "detectable_deviation": self.tolerance + 2 * _half_width(measured, theorem.floor),
            "checks": self.subject,
            "theorem": stated,
            "exact_at_run_n": exact,
            "theorem_verdict": np.nan if self.subject == CODE else verdict_on_theorem,
        }

    def _exact_number(self, curve: pd.DataFrame) -> float:
        """Return the exact number: the true value of the measured number at the n that were run.

        If the claim's option ``exact_at_run_n`` is True, compute the exact number. If
        ``exact_at_run_n`` is a number, return it. Without this option return NaN, because the
        measured number is then compared only with the theorem's number.
        """
        return np.nan

    def _asymptotic_from(self, curve: pd.DataFrame, table: pd.DataFrame, sweep: Sweep) -> float:
        """Return the smallest n from which on the exact number agrees with the theorem's number.

        The exact number is the true value at finite n, for example of an exponent. It agrees with
        the theorem's number if both differ by at most the tolerance. Return NaN if no such n is
        known. `table` holds the rows of the summary on which the claim is tested. The search is
        done by `dpbench.analysis.exact_of_sweep.first_n`.
        """
        return np.nan


def _half_width(measured: Measurement, floor: float | None) -> float:
    """Return half the width of the 95% interval of a measured number, or its lower part.

    If `floor` is None, return half the width. Otherwise the theorem states only an upper limit,
    and `floor` is the smallest value that the number can take. Then return the distance from the
    measured number to the lower end of its interval.
    """
    number, low, high = measured
    return (high - low) / 2 if floor is None else number - low


def region(predicted: float, tolerance: float, floor: float | None) -> tuple[float, float]:
    """Return both ends of the interval of numbers that a claim accepts.

    The upper end is predicted + tolerance. The lower end is predicted - tolerance. If the theorem
    states only an upper limit, this limit is the predicted number, and `floor` is the smallest
    possible number. The lower end is then floor - tolerance.
    """
    return (predicted if floor is None else floor) - tolerance, predicted + tolerance


def verdict(
    measured: Measurement, predicted: float, tolerance: float, *, floor: float | None = None
) -> str:
    """Compare the interval of a measured number with the `region` that a claim accepts.

    The result is ``consistent`` if the 95% interval lies inside the region. It is ``inconsistent``
    if the interval, stretched to twice its width, lies outside the region. It is ``inconclusive``
    otherwise, or if a number is not finite. A correct prediction gets ``inconsistent`` in at most
    about 1 of 10,000 runs. Without stretching, this would happen in 1 of 20 runs.

    If the true number is far from the prediction, most runs give ``inconsistent``. The column
    ``detectable_deviation`` of ``claims.csv`` has the distance between true number and prediction
    at which half of all runs give ``inconsistent``. This distance is the tolerance plus the width
    of the interval. If the theorem states only an upper limit, the distance is instead the
    tolerance plus 2 (measured - low), where low is the lower end of the interval.
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
    """Compare a measured number with a theorem whose number may hold only for large n.

    The exact number is the true value at the n that were run, which may differ from the theorem's
    number. The tolerance is the largest accepted distance between the true number and either of
    these numbers. If the exact number is unknown (NaN), return `verdict` on the theorem's number.
    Else let the exact verdict be `verdict` on the exact number. The theorem's region is the
    `region` around the theorem's number, and the exact region is the `region` around the exact
    number. The first rule that applies decides:

    1. Return ``consistent`` if `verdict` on the theorem's number is ``consistent``.
    2. Return ``consistent`` if the exact verdict is ``consistent`` and the measured interval meets
       the theorem's region.
    3. Return ``pre-asymptotic`` if the exact verdict is ``consistent`` and the exact number
       lies outside the theorem's region. The measurement then agrees with a formula that is still
       away from its limit for large n.
    4. Return ``inconclusive`` if the exact verdict is ``inconclusive`` and the exact number lies
       outside the theorem's region. The true number is then expected to differ from the theorem's
       number, so a difference must not refute the theorem.
    5. Return `verdict` on the theorem's number.

    All verdicts are keys of `dpbench.output.verdicts.CLAIMS`. The probabilities of false alarms
    are:

    - ``inconsistent``: 1 in 10,000 if the exact number is the true number. If the exact number lies
      outside the theorem's region, the exact verdict must be ``inconsistent``, too. If it lies
      inside, the stretched interval must miss a region that contains the true number.
    - ``pre-asymptotic``: 1 in 40 for a true number outside the exact region or inside the
      theorem's region. The interval lies inside the exact region and outside the theorem's region.
      So the true number lies beyond this 95% interval on a known side.
    - ``consistent`` by rule 2: 1 in 40 for a true number three tolerances away from the theorem's
      number. The interval has a width of at most two tolerances, and one end within one tolerance
      of the theorem's number. So the true number lies beyond the interval on a known side.
    """
    plain = verdict(measured, theorem, tolerance, floor=floor)
    if np.isnan(exact) or plain == "consistent":
        return plain
    exact_verdict = verdict(measured, exact, tolerance, floor=floor)
    bottom, top = region(theorem, tolerance, floor)
    if exact_verdict == "consistent" and measured.low <= top and measured.high >= bottom:
        return "consistent"
    if bottom <= exact <= top or exact_verdict == "inconsistent":
        return plain
    return EARLY if exact_verdict == "consistent" else "inconclusive"


def count_claim_verdicts(rows: Iterable[Mapping[Any, Any]]) -> list[str]:
    """Return lines of text that count the verdicts on theorems, on targets and on the code.

    The line ``of these, at these n`` counts some of the theorems and targets again: those with an
    exact number, the true value at the n that were run, by their verdict on this number. Lines that
    count nothing are left out.
    """
    by_subject: dict[str, list[Mapping[Any, Any]]] = {"theorem": [], "target": [], CODE: []}
    for row in rows:
        by_subject[row["checks"]].append(row)
    stated = [*by_subject["theorem"], *by_subject["target"]]
    exact = [row for row in stated if np.isfinite(float(row["exact_at_run_n"] or "nan"))]
    lines = {
        "theorems": [row["theorem_verdict"] for row in by_subject["theorem"]],
        "targets": [row["theorem_verdict"] for row in by_subject["target"]],
        "of these, at these n": [row["verdict"] for row in exact],
        "checks of the code": [row["verdict"] for row in by_subject[CODE]],
    }
    return [f"{subject}: {_counts(words)}" for subject, words in lines.items() if words]


def shown_verdicts(row: Mapping[Any, Any]) -> tuple[str, str]:
    """Return the verdict on a claim, and the verdict at the n that were run, "" if it is the same.

    The first verdict is on the theorem, if the claim tests one.
    """
    here = str(row["verdict"])
    word = str(row["theorem_verdict"] if row["theorem_verdict"] in CLAIMS else here)
    return word, here if here != word else ""


def _counts(words: list[Any]) -> str:
    """Format the number of times that each verdict occurs, as in ``3 consistent, 1 not judged``.

    A word that is no verdict on a claim counts as ``not judged``.
    """
    counts = Counter(word if word in CLAIMS else "not judged" for word in words)
    return ", ".join(f"{counts[word]} {word}" for word in [*CLAIMS, "not judged"] if counts[word])
