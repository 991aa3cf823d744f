"""Find the smallest n with P(error > alpha) <= beta, from curves of errors and by direct search.

Here alpha is the error to reach, and beta the accepted probability of a larger error. A curve of
errors consists of the errors at the n of a sweep. A direct search runs more n than the sweep.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator
from scipy.special import bdtr, bdtrc, chdtri

from dpbench.analysis.resample import JOINT_DRAWS, interval, joint_replicates
from dpbench.analysis.summary_table import CURVE, Results, worst_case
from dpbench.analysis.trial_statistics import quantile
from dpbench.arrays import Floats
from dpbench.registry import ConfigError, Trials, validated
from dpbench.seeds import stream
from dpbench.sweep.plan import Cell, Sweep, cell_at, largest_n
from dpbench.sweep.selection import BUDGET, Selection, Variant, rows_of_budget
from dpbench.theory.bounds.numbers import BETA

__all__ = [
    "SampleComplexity", "check_sizes", "crossing", "measure", "run_searches", "search",
    "smallest_n",
]  # fmt: skip

Alpha = Annotated[float, Field(ge=1e-100, le=1e100)]  # so that squares are finite
Row = dict[Any, Any]
# Yields the cell to run next, receives its results, and returns the smallest n with its interval.
Search = Generator[Cell, Results, tuple[float, float, float]]

# Exponents of n in errors are at most 4 here (local model, k = 2). An error that falls faster
# between two n is at a threshold and follows no power law.
MAX_DECLINE = 4.0
MAX_GRID_MULTIPLE = 10  # a direct search ends at this multiple of the largest n of the curve
BRACKET_RATIO = 1.1  # ratio of upper to lower n to which a direct search narrows its bracket
STRIDE = 4  # factor between the n tried until some n fails and some n works
STEP_GROWTH = 1.04  # factor by which the steps to an end of the interval grow
TAIL = 0.025  # level of the binomial test that accepts an end of the interval
TERMS = ("sampling", "privacy", "range")
COLUMNS = [
    "request", "distribution", "k", "estimator", *BUDGET, "radius", "alpha", "beta", "method",
    "samples", "low", "high", *(f"{name}_term" for name in TERMS),
]  # fmt: skip


def crossing(n: Floats, quantiles: Floats, alpha: float, between: Floats) -> Floats:
    """Find the n from which on a curve of error quantiles stays at or below alpha.

    The grid is the increasing list `n`, of shape (m,), at which the quantiles are known.
    `quantiles` has shape (m, draws): column 0 is measured, all others are bootstrap replicates.

    Let n_j be the first n of the grid from which on every quantile is at most alpha. The crossing
    lies between n_(j-1) and n_j. It is interpolated linearly in logarithms, except at a threshold.
    At a threshold the error falls faster than n^-4 (`MAX_DECLINE`) or is not positive. The crossing
    may then lie anywhere between n_(j-1) and n_j.

    At a threshold, `between`, of shape (draws,), has the positions in (0, 1) between n_(j-1) and
    n_j. All but the first are random, so that the interval of the crossing covers the range from
    n_(j-1) to n_j. The result has the crossing in each column; NaN if it lies outside of the grid.
    """
    reached = np.logical_and.accumulate((quantiles <= alpha)[::-1], axis=0)[::-1]
    first = np.where(reached.any(axis=0), reached.argmax(axis=0), 0)
    column, last = np.arange(quantiles.shape[1]), np.maximum(first, 1)
    before = last - 1
    step = np.log(n[last] / n[before])
    with np.errstate(divide="ignore", invalid="ignore"):
        high, low = np.log(quantiles[before, column]), np.log(quantiles[last, column])
        power = (high - np.log(alpha)) / (high - low)
        smooth = high - low <= MAX_DECLINE * step
        # Replicates with the same two grid points as the measured crossing use its interpolation.
        smooth = (
            np.where(before == before[0], smooth[0], smooth) & np.isfinite(high) & np.isfinite(low)
        )
    crossing_n = n[before] * np.exp(step * np.clip(np.where(smooth, power, between), 0.0, 1.0))
    return np.where(first > 0, crossing_n, np.nan)


def smallest_n(
    results: Results, sweep: Sweep, alphas: Sequence[float], beta: float
) -> tuple[pd.DataFrame, Floats]:
    """Find the smallest n at which curves of measured errors reach each alpha.

    A curve has the 1 - beta quantiles of the error at several n, each on the worst member of the
    family. beta, in (0, 1), is the accepted probability of a larger error. The results need the
    errors of every trial.

    The table has one row for each curve and alpha. It has the columns of `results.summary`, with
    the values at the smallest n of the curve's grid, and five more columns. These are ``alpha``,
    ``beta``, the smallest n that reaches alpha (``samples``), and the ends of its 95% interval
    (``low``, ``high``). The last three are NaN if the curve crosses alpha outside of its grid of n.

    The array has shape (rows, 1 + B). For each row of the table, it has ``samples`` followed by its
    B = `JOINT_DRAWS` bootstrap replicates.
    """
    table, errors = results.summary, results.values["error"]
    shared = sweep.shares_data(table["family"].unique())
    # Ids are unique, because `results` holds the arrays.
    keys = [(id(vector), beta, shared) for vector in errors]
    new = np.flatnonzero([key not in results.replicate_cache for key in keys])
    values = [errors[i] for i in new]
    fresh = joint_replicates(table.iloc[new], values, "quantile", 1 - beta, shared=shared)
    for i, vector, replicated in zip(new, values, fresh, strict=True):
        results.replicate_cache[keys[i]] = np.append(quantile(vector, 1 - beta), replicated)
    draws = np.stack([results.replicate_cache[key] for key in keys])
    points, worst = worst_case(table, draws)
    crossings, rows = [], list[Row]()
    for _, curve in points.groupby(CURVE, dropna=False, sort=False):
        n, first = curve["n"].to_numpy(float), curve.iloc[0]
        for alpha in alphas:
            rng = stream("bootstrap", "between", _stream_name(first, sweep), str(alpha))
            between = rng.random(JOINT_DRAWS + 1)
            between[0] = 0.5
            crossings.append(crossing(n, worst[curve.index], alpha, between))
            value, low, high = interval(crossings[-1])
            row = {**first.to_dict(), "alpha": alpha, "beta": beta, "samples": value}
            # Replicates of the largest of several members are too high: keep the value inside.
            rows.append({**row, "low": np.minimum(low, value), "high": np.maximum(high, value)})
    return pd.DataFrame(rows), np.stack(crossings)


def check_sizes(keys: pd.DataFrame, where: str) -> None:
    """Check that each estimator runs at two or more n, for every family and budget.

    `keys` has a row for each planned result, with its distribution, estimator, budget, n and
    parameters. A failed check raises ConfigError, which names the place `where` of the claim or
    request in the configuration.
    """
    for (family, _, estimator, *_), sizes in keys.groupby(CURVE, dropna=False)["n"]:
        if sizes.nunique() < 2:
            raise ConfigError(f"{where}: {estimator} runs at one n on {family}; two are needed")


def _stream_name(row: pd.Series, sweep: Sweep) -> str:
    """Return the name of the random numbers that place a curve's crossing between two n.

    The name contains the curve's family, estimator, budget, first n and parameters.
    """
    family, estimator = sweep.families[row["family"]], sweep.estimators[row["estimator"]]
    of_estimator = estimator.label("radius"), _parameter_value(estimator, "radius")
    of_family = family.label("d", "norm"), row["d"], _parameter_value(family, "norm")
    return "|".join(map(str, [*row[[*CURVE, "n"]], *of_estimator, *of_family]))


def _parameter_value(variant: Variant[Any], name: str) -> float:
    value = variant.parameters.get(name)
    return np.nan if value is None else float(value)


def search(like: Cell, alpha: float, beta: float, start: int, largest: int) -> Search:
    """Search for the smallest n with P(error > alpha) <= beta on the worst member of the family.

    An n fails if more than a share beta of the trials errs by more than alpha, else it works. The
    search brackets the largest n that fails and the next larger n that works. It narrows this
    bracket until the ratio of both n is at most `BRACKET_RATIO` = 1.1. Then it steps outwards to
    find the ends of a 95% interval. At the lower end, an exact binomial test at the level 2.5%
    finds P(error > alpha) above beta. At the upper end, the test finds it below beta. If no n
    passes a test, the end is the smallest or the largest n tried.

    The cell `like` has the family, exactly one setting, and the number of trials to run at each n.
    `start` is the first n to run, and `largest` the largest n that may be run. The generator yields
    the cell to run next, and the caller sends its results into the generator.

    Return the geometric middle of the bracket and both ends of the interval. They are NaN if no n
    that was tried fails, or no larger n up to `largest` works.
    """
    tries = _SearchedSizes(like, alpha, beta, largest)
    low, high = yield from tries.bracket(start)
    if not low or high > largest:
        return np.nan, np.nan, np.nan
    fails = yield from tries.find_end("greater", low, -1)
    works = yield from tries.find_end("less", high, 1)
    return math.sqrt(float(low + 1) * float(high)), float(fails), float(works)


@dataclass(frozen=True)
class _SearchedSizes:
    """Sample sizes tried by a search, each with the share of trials with an error above alpha."""

    like: Cell
    alpha: float
    beta: float
    largest: int
    misses: dict[int, float] = field(default_factory=dict)

    def run_size(self, n: int) -> Generator[Cell, Results, None]:
        like = self.like
        cell = cell_at(like.family_label, like.family, n, like.settings, like.trials)
        self.misses[n] = _exceedance((yield cell), cell, self.alpha)

    def bracket(self, start: int) -> Generator[Cell, Results, tuple[int, int]]:
        """Run n, from `start` on, until the largest n that fails and the next n are close.

        An n fails if more than a share beta of the trials has an error above alpha, else it works.
        Return the largest n that fails, or 0 if no n fails. Return also the next larger n that was
        run and works. If there is none, return in its place `largest` + 1, where `largest` is the
        largest n that may be run.
        """
        next_n, low, high = start, 0, self.largest + 1
        while next_n not in self.misses:
            yield from self.run_size(next_n)
            low = max((n for n, miss in self.misses.items() if miss > self.beta), default=0)
            high = min((n for n in self.misses if n > low), default=self.largest + 1)
            if high > self.largest:
                next_n = STRIDE * max(self.misses)
            elif not low:
                next_n = min(self.misses) // STRIDE
            elif high - low > 1 and high / low > BRACKET_RATIO:
                next_n = round(math.sqrt(float(low) * float(high)))
            next_n = min(max(next_n, 1), self.largest)
        return low, high

    def find_end(
        self, side: Literal["less", "greater"], origin: int, sign: int
    ) -> Generator[Cell, Results, int]:
        """Find one end of the interval for the smallest n that works, by steps from n = `origin`.

        An n works if P(error > alpha) is at most beta. The steps go up if `sign` is 1, and down if
        it is -1. Return the n nearest to `origin` that passes `is_significant`, the test of
        P(error > alpha) against beta. If no n passes, return the outermost n run in this direction.
        """
        n, step, last = origin, 1, self.largest if sign > 0 else 1
        while True:
            significant = [sign * size for size in self.misses if self.is_significant(side, size)]
            nearest = min((size for size in significant if size >= sign * origin), default=None)
            next_n = min(
                max(round(origin * STEP_GROWTH ** (sign * step * (step + 1) / 2)), 1), self.largest
            )
            if nearest is not None and (nearest <= sign * next_n or n == last):
                return sign * nearest
            if n == last:
                return sign * max(sign * size for size in self.misses)
            n, step = next_n, step + 1
            if n not in self.misses:
                yield from self.run_size(n)

    def is_significant(self, side: Literal["less", "greater"], n: int) -> bool:
        """Test whether P(error > alpha) at n is significantly ``less`` or ``greater`` than beta.

        The test is the exact binomial test at the level `TAIL` = 2.5%.
        """
        trials = self.like.trials
        count = round(self.misses[n] * trials)
        upper_tail = 1.0 if count == 0 else bdtrc(count - 1, trials, self.beta)
        return bool((bdtr(count, trials, self.beta) if side == "less" else upper_tail) < TAIL)


def _exceedance(results: Results, cell: Cell, alpha: float) -> float:
    """Return the share of trials with an error above alpha, on the family's worst distribution."""
    table, (setting,) = results.summary, cell.settings
    rows = rows_of_budget(table, setting.budget) & (table["n"] == cell.n)
    rows &= (table["family"] == cell.family_label) & (table["estimator"] == setting.label)
    return max(float(np.mean(~(e <= alpha))) for e in results.select(rows).values["error"])


def run_searches(
    searches: Sequence[Search], run: Callable[[list[Cell]], Results], say: Callable[[str], None]
) -> list[tuple[float, float, float]]:
    """Run several direct searches, in rounds, until all of them have ended.

    A direct search finds the smallest n that reaches an error; see `search`. No search has started
    yet. Each round runs one n for every search that has not ended. `say` prints a line of progress.
    Return for each search the smallest n and both ends of its 95% interval.
    """
    pending = {i: next(generator) for i, generator in enumerate(searches)}
    intervals = [(np.nan, np.nan, np.nan)] * len(searches)
    for number in itertools.count(1):
        if not pending:
            break
        say(f"direct search, round {number}: {len(pending)} of {len(searches)} still open")
        results = run(list(pending.values()))
        for i in list(pending):
            try:
                pending[i] = searches[i].send(results)
            except StopIteration as end:
                intervals[i] = end.value
                del pending[i]
    return intervals


@validated
class SampleComplexity(Selection):
    """Request for the smallest n with P(error <= alpha) >= 1 - beta, for several errors alpha.

    Parameters
    ----------
    low, high : float
        Smallest and largest alpha, in the unit of the errors.
    points : int
        Number of alpha, logarithmically spaced from low to high.
    beta : float in (0, 1)
        Accepted probability of an error above alpha.
    search : float, optional
        An alpha for which a direct search also runs n that the sweep does not run. By default there
        is no direct search.
    trials : int
        Number of trials of the direct search at each n. Options of the command line do not change
        it.
    """

    low: Alpha
    high: Alpha
    points: Annotated[int, Field(ge=1, le=1000)] = 8
    beta: Annotated[float, Field(gt=0, lt=1)] = BETA
    search: Alpha | None = None
    trials: Trials = 1000

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low is {self.low}, above high {self.high}")
        min_trials = int(np.ceil(np.log(TAIL) / np.log1p(-self.beta)))
        if self.search is not None and self.trials < min_trials:
            needed = f"a search at beta = {self.beta:g} needs {min_trials} to end"
            raise ValueError(f"trials is {self.trials}; {needed}")
        return self

    @property
    def alphas(self) -> list[float]:
        """Return the errors alpha of the request in increasing order.

        They include the alpha of the direct search, if there is one.
        """
        grid = {float(alpha) for alpha in np.geomspace(self.low, self.high, self.points)}
        return sorted(grid | ({self.search} if self.search else set()))

    def check(self, sweep: Sweep, keys: pd.DataFrame, where: str) -> None:
        """Check that the request selects results, with each estimator at two or more n.

        `keys` has a row for each planned result, with its distribution, estimator, budget, n and
        parameters. `where` is the place of the request in the configuration, for error messages.
        Raise ConfigError if the request selects no results, or if it selects an estimator at only
        one n for some family and budget.
        """
        chosen = keys[sweep.select_rows(self, keys, where)]
        if chosen.empty:
            raise ConfigError(f"{where}: the sweep runs nothing that the request selects")
        check_sizes(chosen, where)


def measure(
    label: str,
    request: SampleComplexity,
    sweep: Sweep,
    cells: Sequence[Cell],
    results: Results,
    run: Callable[[list[Cell]], Results],
    say: Callable[[str], None],
) -> pd.DataFrame:
    """Find the smallest n with P(error > alpha) <= beta for each alpha of a request.

    The smallest n comes from curves and, for one alpha, also from a direct search. A curve has the
    quantiles of the error at the n of the sweep. A direct search runs more n. The results need the
    errors of every trial. `run` runs the cells of a direct search, and `say` prints a line of
    progress.

    The table has a row for each curve, alpha and method (``curve`` or ``search``), with the columns
    `COLUMNS` of ``sample_complexity.csv``. A theorem states the smallest n as a sum of terms. The
    columns that end in ``_term`` have these terms, NaN if the theorem has no such term.
    """
    chosen = results.select(sweep.select_rows(request, results.summary))
    table, _ = smallest_n(chosen, sweep, request.alphas, request.beta)
    rows: list[Row] = table.assign(method="curve").to_dict("records")
    searched_rows = [row for row in rows if row["alpha"] == request.search]
    searches = [
        _start_search(row, _reduce_cells(row, cells), request.trials) for row in searched_rows
    ]
    for row, ends in zip(searched_rows, run_searches(searches, run, say), strict=True):
        answer = dict(zip(("samples", "low", "high"), ends, strict=True))
        rows.append({**row, "method": "search", **answer})
    complete_rows = []
    for row in rows:
        radius = _parameter_value(sweep.estimators[row["estimator"]], "radius")
        columns = {"request": label, "distribution": row["family"], "radius": radius}
        complete_rows.append({**row, **columns, **_terms(row, _reduce_cells(row, cells)[0])})
    return pd.DataFrame(complete_rows)[COLUMNS]


def _reduce_cells(row: Row, cells: Sequence[Cell]) -> list[Cell]:
    """Select the cells of a row's family, and keep only the row's setting in each of them.

    A cell is a family at one n, with all settings (estimators with budgets) that run on its data.
    """
    return [
        replace(cell, settings=(setting,))
        for cell in cells
        if cell.family_label == row["family"]
        for setting in cell.settings
        if setting.label == row["estimator"] and rows_of_budget(row, setting.budget)
    ]


def _start_search(row: Row, curve: Sequence[Cell], trials: int) -> Search:
    cell, sizes = replace(curve[0], trials=trials), [cell.n for cell in curve]
    # Start at half of the n that the curve gives, so that the search is independent of it.
    start = row["samples"] / 2 if np.isfinite(row["samples"]) else np.median(sizes)
    fits = largest_n(cell.family, cell.n, cell.settings[0])
    largest = min(MAX_GRID_MULTIPLE * max(sizes), fits)
    return search(cell, row["alpha"], row["beta"], max(1, round(start)), largest)


def _terms(row: Row, cell: Cell) -> dict[str, float]:
    """Return three terms whose sum predicts the smallest n that reaches the error alpha of a row.

    Each term is the n that one cause of error requires: ``sampling``, ``privacy`` (noise) or
    ``range`` (locating the data). The sampling term assumes that the sampling error is Gaussian
    with variance v/(d n) in each of d coordinates. Here v is the largest variance of any member.
    The other two terms come from the theorem on the estimator. They are NaN if d > 1, without
    privacy, or if the theorem has no such term. Where a theorem contains ln n, n is the measured
    smallest n of the row. If the measured n is unknown, n is the sample size of `cell`.
    """
    n = row["samples"] if np.isfinite(row["samples"]) else cell.n
    variance = max(member.variance for _, member in cell.members)
    d, setting = cell.members[0][1].d, cell.settings[0]
    alpha, beta = row["alpha"], row["beta"]
    terms = {"sampling": float(chdtri(d, beta) / d * variance / alpha**2)}
    if setting.budget.amounts and d == 1:
        terms |= setting.estimator.private_terms(alpha, beta, n, setting.budget)
    return {f"{name}_term": terms.get(name, np.nan) for name in TERMS}
