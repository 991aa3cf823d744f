"""Claims: the number of a theorem against the measured one; their kinds are in `kinds`.

A claim that tests a theorem has two verdicts. `verdict` compares the measurement with
``predicted``, the number at the claim's n: the exact one if the claim sets ``finite``, else the
theorem's.
`theorem_verdict` compares it with the theorem's number. A claim that checks the code has the first
alone: its number is the closed form that the code computes, so that no theorem is at stake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpbench.analysis.resample import Measured, interval, replicates
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

# Rows, and (rows, 1 + draws) values with their replicates.
Curves = tuple[pd.DataFrame, Floats]
POINT = ["family", "n", *BUDGET]

COLUMNS = [
    "claim", "source", "estimator", "distribution", "variable", "metric", "predicted", "measured",
    "low", "high", "tolerance", "verdict", *BUDGET, "n_low", "n_high", "visible",
    "checks", "theorem", "at_these_n", "theorem_verdict", "asymptotic_from",
]  # fmt: skip
# With fewer trials the largest error is below the 0.9 quantile with probability above 2.5%: no
# interval for it has an upper end.
LEAST_TRIALS = 36
# What is said of claims without a number.
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
        How far what is true at finite n may be from the prediction.
    reason : str
        Why this tolerance and regime.
    n_min, n_max : int
        The regime: sample sizes that take part.
    predicted : float, optional
        For theorems that leave their number to the estimator's or the law's parameters.
    checks : {'theorem', 'code'}, optional
        Whether the claim tests the theorem, or checks the code: its number is the closed form that
        the code computes, at every n. By default claims of level check the code, all others the
        theorem.
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
            about = "theorems that leave their number to the estimator, and to all of these"
            raise ValueError(f"predicted belongs to {about}: {names}")
        return self

    @property
    def statement(self) -> Theorem:
        """The theorem."""
        return THEOREMS[self.theorem]

    @property
    def subject(self) -> Subject:
        """Return the subject of the claim: ``theorem`` or ``code``."""
        return self.checks or self.statement.subject

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
        self._check(self._named(chosen, sweep), sweep, where)

    def _check(self, chosen: pd.DataFrame, sweep: Sweep, where: str) -> None:
        """Refuse keys that this kind of claim cannot be tested on."""

    def evaluate(self, label: str, results: Results, sweep: Sweep) -> pd.DataFrame:
        """Test the claim of that label: a row of `COLUMNS` for each of its curves.

        The results must hold the values that `measures` names.
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
        """Which rows of a table of the sweep's keys the claim is tested on."""
        return sweep.about(self, table) & self._regime(table)

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
        enough = curve["trials"].min() >= LEAST_TRIALS
        positive = self.statement.kind == "limit" or np.all(draws > 0)
        if not (enough and positive and np.all(np.isfinite(draws))):
            return Measured(np.nan, np.nan, np.nan)
        return self._interval(curve, draws)

    def _interval(self, curve: pd.DataFrame, draws: Floats) -> Measured:
        return interval(self._number(curve, draws))

    def _number(self, curve: pd.DataFrame, draws: Floats) -> Floats:
        """The number of a curve, and its replicates, from its rows': here their geometric mean."""
        return np.asarray(np.exp(np.log(draws).mean(axis=0)))

    def _row(self, curve: pd.DataFrame, measured: Measured) -> dict[str, Any]:
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
        """Return the exact number at the claim's n; NaN if the claim has the theorem's alone."""
        return np.nan

    def _asymptotic_from(self, curve: pd.DataFrame, table: pd.DataFrame, sweep: Sweep) -> float:
        """Return the n from which the exact number is the theorem's, up to the tolerance, or NaN.

        `table` has the summary's rows of the claim; see `dpbench.analysis.oracle.first_n`.
        """
        return np.nan


def _reach(measured: Measured, floor: float | None) -> float:
    """Return how far below the number, above a limit, or around it the interval reaches."""
    number, low, high = measured
    return (high - low) / 2 if floor is None else number - low


def region(predicted: float, tolerance: float, floor: float | None) -> tuple[float, float]:
    """Return the ends of the numbers that a claim accepts; those of a limit begin at its floor."""
    return (predicted if floor is None else floor) - tolerance, predicted + tolerance


def verdict(
    measured: Measured, predicted: float, tolerance: float, *, floor: float | None = None
) -> str:
    """Compare an interval with the region predicted +- tolerance, or from floor - tolerance.

    ``consistent`` if it lies inside; ``inconsistent`` if one of twice the width lies outside, which
    is so of 1 in 10,000 numbers that are right, not of 1 in 20. Otherwise, or if a number is not
    finite, more trials are needed: ``inconclusive``. A truth that is off by the tolerance and the
    width of the interval, above a limit by the tolerance and twice what is below the measured
    number, is found inconsistent half of the time: ``visible``.
    """
    if not np.all(np.isfinite([*measured, predicted])):
        return "inconclusive"
    bottom, top = region(predicted, tolerance, floor)
    above, below = measured.high - measured.measured, measured.measured - measured.low
    if measured.high + max(above, 0) < bottom or measured.low - max(below, 0) > top:
        return "inconsistent"
    return "consistent" if bottom <= measured.low and measured.high <= top else "inconclusive"


def theorem_verdict(
    measured: Measured,
    theorem: float,
    exact: float,
    tolerance: float,
    *,
    floor: float | None = None,
) -> str:
    """Compare an interval with the theorem's own number, given the exact one at the claim's n.

    Without an exact number (NaN) return `verdict` on the theorem's. Else let `here` be `verdict` on
    the exact number, and a number's region as in `verdict`:

    1. ``consistent`` if `verdict` says so of the theorem's number; or if `here` is consistent and
       the interval, widened by the tolerance on both sides, holds the theorem's number.
    2. Else ``not yet asymptotic`` if `here` is consistent and the exact number lies outside the
       theorem's region: the measurement agrees with a formula that is not at its limit yet.
    3. Else `verdict` on the theorem's number; but ``inconclusive`` for ``inconsistent`` if the
       exact number lies outside the theorem's region and `here` is inconclusive: few trials do not
       refute a theorem that the exact number would explain.

    False alarms. If the exact number is the truth, ``inconsistent`` needs a doubled interval that
    misses it. By 3, `here` is inconsistent if that number lies outside the theorem's region; if it
    lies inside, the doubled interval lies outside of a region that holds it. Either is so of 1 in
    10,000. ``not yet asymptotic`` needs an interval inside the region of the exact number and
    outside the theorem's. A truth outside the one region or inside the other is beyond this 95%
    interval, on one known side: 1 in 40. ``consistent`` by the second half of 1 needs an interval
    of at most two tolerances that ends within one tolerance of the theorem's number. A truth that
    is off by three tolerances is beyond it: 1 in 40.
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
    """Return a row of claims.csv with the columns on theorems, which older runs have not written.

    Where an older claim set ``finite``, its ``predicted`` is the number at its n; the theorem's own
    number and verdict are not known then, and NaN.
    """
    known = not finite and subject == "theorem"
    late = {
        "checks": subject,
        "theorem": np.nan if finite else row["predicted"],
        "at_these_n": row["predicted"] if finite else np.nan,
        "theorem_verdict": row["verdict"] if known else np.nan,
        "asymptotic_from": np.nan,
    }
    return {**row, **late, **row}  # in the order of the row, whose own cells stay


def headline(rows: Iterable[Mapping[Any, Any]]) -> list[str]:
    """Count the verdicts on theorems, on the same rows at their n, and on the code, a line each.

    Where no row has an exact number at its n, the second line is left out: it equals the first.
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
    """Count each verdict that occurs; a theorem in a row of an older run may have none."""
    counts = Counter(word if word in CLAIMS else "not judged" for word in words)
    return ", ".join(f"{counts[word]} {word}" for word in [*CLAIMS, "not judged"] if counts[word])
