"""Find the smallest n with P(error > alpha) <= beta, from curves and by direct search."""

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

from dpbench.analysis.resample import JOINT_DRAWS, interval, resampled
from dpbench.analysis.results import CURVE, Results, worst_case
from dpbench.analysis.summary import quantile
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
STEEPEST = 4.0
BEYOND_GRID = 10  # a direct search ends at this multiple of the largest n of the curve
RATIO = 1.1  # the bracket of a direct search is narrowed to this ratio
STRIDE = 4  # factor between the n tried until some n fails and some n works
BEYOND = 1.04  # factor by which the steps to an end of the interval grow
TAIL = 0.025  # level of the binomial test that accepts an end of the interval
TERMS = ("sampling", "privacy", "range")
COLUMNS = [
    "request", "distribution", "k", "estimator", *BUDGET, "radius", "alpha", "beta", "method",
    "samples", "low", "high", *(f"{name}_term" for name in TERMS),
]  # fmt: skip


def crossing(n: Floats, quantiles: Floats, alpha: float, between: Floats) -> Floats:
    """Find the n from which on a curve of errors stays at or below alpha.

    The crossing lies between the first grid point from which on every quantile is at most alpha,
    and the point before it. It is interpolated log-log, except at a threshold: there the error
    falls faster than n^-STEEPEST or is not positive, and n may lie anywhere between both points.

    Parameters
    ----------
    n : ndarray of shape (m,)
        Increasing sample sizes.
    quantiles : ndarray of shape (m, draws)
        Error quantiles at each n, the measured ones first, then replicates.
    alpha : float
        The error to reach.
    between : ndarray of shape (draws,)
        Positions in (0, 1) between both points, used at a threshold. They are random except for
        the first, so that an interval covers the gap.

    Returns
    -------
    ndarray of shape (draws,)
        The crossing n; NaN outside of the grid.
    """
    good = np.logical_and.accumulate((quantiles <= alpha)[::-1], axis=0)[::-1]
    first = np.where(good.any(axis=0), good.argmax(axis=0), 0)
    column, last = np.arange(quantiles.shape[1]), np.maximum(first, 1)
    at = last - 1
    step = np.log(n[last] / n[at])
    with np.errstate(divide="ignore", invalid="ignore"):
        high, low = np.log(quantiles[at, column]), np.log(quantiles[last, column])
        power = (high - np.log(alpha)) / (high - low)
        smooth = high - low <= STEEPEST * step
        # Replicates between the points of the measured crossing are read off in its way.
        smooth = np.where(at == at[0], smooth[0], smooth) & np.isfinite(high) & np.isfinite(low)
    found = n[at] * np.exp(step * np.clip(np.where(smooth, power, between), 0.0, 1.0))
    return np.where(first > 0, found, np.nan)


def smallest_n(
    results: Results, sweep: Sweep, alphas: Sequence[float], beta: float
) -> tuple[pd.DataFrame, Floats]:
    """Read the smallest n for each alpha off every curve of errors, worst over members.

    Parameters
    ----------
    results : Results
        Results with the errors of every trial.
    sweep : Sweep
    alphas : sequence of float
        Errors to reach.
    beta : float in (0, 1)
        Probability with which a larger error is accepted.

    Returns
    -------
    table : DataFrame
        A row for each curve and alpha: the curve's first row, with ``alpha, beta``, the smallest n
        as ``samples``, and its 95% interval ``low, high``; NaN where the grid does not reach.
    draws : ndarray of shape (len(table), 1 + draws)
        ``samples`` with its bootstrap replicates.
    """
    table, errors = results.summary, results.values["error"]
    shared = sweep.shares_data(table["family"].unique())
    keys = [(id(one), beta, shared) for one in errors]  # `results` holds the arrays: ids are unique
    new = np.array([key not in results.found for key in keys])
    fresh = resampled(table[new], [errors[i] for i in np.flatnonzero(new)], shared=shared)
    for i, one in zip(np.flatnonzero(new), fresh, strict=True):
        results.found[keys[i]] = quantile(one, 1 - beta)
    draws = np.stack([results.found[key] for key in keys])
    points, worst = worst_case(table, draws)
    found, rows = [], list[Row]()
    for _, curve in points.groupby(CURVE, dropna=False):
        n, about = curve["n"].to_numpy(float), curve.iloc[0]
        for alpha in alphas:
            rng = stream("bootstrap", "between", _name(about, sweep), str(alpha))
            between = rng.random(JOINT_DRAWS + 1)
            between[0] = 0.5
            found.append(crossing(n, worst[curve.index], alpha, between))
            value, low, high = interval(found[-1])
            row = {**about.to_dict(), "alpha": alpha, "beta": beta, "samples": value}
            # Replicates of the largest of several members are too high: keep the value inside.
            rows.append({**row, "low": np.minimum(low, value), "high": np.maximum(high, value)})
    return pd.DataFrame(rows), np.stack(found)


def check_sizes(keys: pd.DataFrame, where: str) -> None:
    """Check that every curve has at least two n.

    Parameters
    ----------
    keys : DataFrame
        Keys of the planned results.
    where : str
        Key of the claim or request, for the message.

    Raises
    ------
    ConfigError
        If a curve has a single n.
    """
    for (family, _, estimator, *_), sizes in keys.groupby(CURVE, dropna=False)["n"]:
        if sizes.nunique() < 2:
            raise ConfigError(f"{where}: {estimator} runs at one n on {family}; two are needed")


def _name(about: pd.Series, sweep: Sweep) -> str:
    """Return the name of a curve's random stream."""
    family, estimator = sweep.families[about["family"]], sweep.estimators[about["estimator"]]
    of_estimator = estimator.label("radius"), _parameter(estimator, "radius")
    of_family = family.label("d", "norm"), about["d"], _parameter(family, "norm")
    return "|".join(map(str, [*about[[*CURVE, "n"]], *of_estimator, *of_family]))


def _parameter(one: Variant[Any], name: str) -> float:
    value = one.parameters.get(name)
    return np.nan if value is None else float(value)


def search(like: Cell, alpha: float, beta: float, start: int, largest: int) -> Search:
    """Search for the smallest n with P(error > alpha) <= beta, at its worst over the family.

    An n fails if more than a share beta of the trials errs by more than alpha, else it works. The
    search brackets the largest n that fails and the smallest n beyond it, within the ratio
    `RATIO`. From there it steps outwards to the ends of the interval: exact binomial tests at
    2.5% each say that P(error > alpha) is above beta at the lower end and below beta at the upper
    end. If no n passes a test, the end is the smallest or the largest n tried.

    Parameters
    ----------
    like : Cell
        Family, setting (exactly one) and number of trials to run at each n.
    alpha : float
        The error to reach.
    beta : float in (0, 1)
        Probability with which a larger error is accepted.
    start, largest : int
        The first n to run, and the largest n that may be run.

    Yields
    ------
    Cell
        The cell to run next. Send its results.

    Returns
    -------
    tuple of float
        The geometric middle of the bracket and both ends of the interval; NaN if no n works.
    """
    tries = _Tries(like, alpha, beta, largest)
    low, high = yield from tries.bracket(start)
    if not low or high > largest:
        return np.nan, np.nan, np.nan
    fails = yield from tries.end("greater", low, -1)
    works = yield from tries.end("less", high, 1)
    return math.sqrt(float(low + 1) * float(high)), float(fails), float(works)


@dataclass(frozen=True)
class _Tries:
    """Sample sizes tried by a search, with the share of trials that err by more than alpha."""

    like: Cell
    alpha: float
    beta: float
    largest: int
    misses: dict[int, float] = field(default_factory=dict)

    def ask(self, n: int) -> Generator[Cell, Results, None]:
        like = self.like
        cell = cell_at(like.family_label, like.family, n, like.settings, like.trials)
        self.misses[n] = _exceedance((yield cell), cell, self.alpha)

    def bracket(self, start: int) -> Generator[Cell, Results, tuple[int, int]]:
        """Find the largest n that fails and the smallest n beyond it.

        The first is 0 if no n fails; the second is `largest` + 1 if no larger n works.
        """
        wanted, low, high = start, 0, self.largest + 1
        while wanted not in self.misses:
            yield from self.ask(wanted)
            low = max((n for n, miss in self.misses.items() if miss > self.beta), default=0)
            high = min((n for n in self.misses if n > low), default=self.largest + 1)
            if high > self.largest:
                wanted = STRIDE * max(self.misses)
            elif not low:
                wanted = min(self.misses) // STRIDE
            elif high - low > 1 and high / low > RATIO:
                wanted = round(math.sqrt(float(low) * float(high)))
            wanted = min(max(wanted, 1), self.largest)
        return low, high

    def end(
        self, side: Literal["less", "greater"], at: int, sign: int
    ) -> Generator[Cell, Results, int]:
        """Find the n nearest to `at`, up or down by `sign`, that is `surely` on a side of beta.

        Return the last n tried in this direction if there is none.
        """
        n, step, last = at, 1, self.largest if sign > 0 else 1
        while True:
            sure = [sign * one for one in self.misses if self.surely(side, one)]
            nearest = min((one for one in sure if one >= sign * at), default=None)
            wanted = min(max(round(at * BEYOND ** (sign * step * (step + 1) / 2)), 1), self.largest)
            if nearest is not None and (nearest <= sign * wanted or n == last):
                return sign * nearest
            if n == last:
                return sign * max(sign * one for one in self.misses)
            n, step = wanted, step + 1
            if n not in self.misses:
                yield from self.ask(n)

    def surely(self, side: Literal["less", "greater"], n: int) -> bool:
        """Test at the level `TAIL` that P(error > alpha) at n lies on a side of beta."""
        trials = self.like.trials
        count = round(self.misses[n] * trials)
        above = 1.0 if count == 0 else bdtrc(count - 1, trials, self.beta)
        return bool((bdtr(count, trials, self.beta) if side == "less" else above) < TAIL)


def _exceedance(results: Results, cell: Cell, alpha: float) -> float:
    """Return the share of the cell's trials with an error above alpha, largest over members."""
    table, (setting,) = results.summary, cell.settings
    rows = rows_of_budget(table, setting.budget) & (table["n"] == cell.n)
    rows &= (table["family"] == cell.family_label) & (table["estimator"] == setting.label)
    return max(float(np.mean(~(e <= alpha))) for e in results.chosen(rows).values["error"])


def run_searches(
    searches: Sequence[Search], run: Callable[[list[Cell]], Results], say: Callable[[str], None]
) -> list[tuple[float, float, float]]:
    """Carry all searches to their ends, in rounds that run one n of each open search.

    Parameters
    ----------
    searches : sequence of Search
        Searches that have not begun, see `search`.
    run : callable
        Runs a list of cells and returns their results.
    say : callable
        Prints a line of progress.

    Returns
    -------
    list of tuple of float
        The smallest n of each search with the ends of its interval.
    """
    wanted = {i: next(one) for i, one in enumerate(searches)}
    found = [(np.nan, np.nan, np.nan)] * len(searches)
    for number in itertools.count(1):
        if not wanted:
            break
        say(f"direct search, round {number}: {len(wanted)} of {len(searches)} still open")
        results = run(list(wanted.values()))
        for i in list(wanted):
            try:
                wanted[i] = searches[i].send(results)
            except StopIteration as end:
                found[i] = end.value
                del wanted[i]
    return found


@validated
class SampleComplexity(Selection):
    """Request for the smallest n with P(error <= alpha) >= 1 - beta, for several alpha.

    Parameters
    ----------
    low, high : float
        Smallest and largest alpha, in the unit of the errors.
    points : int
        Number of alpha, logarithmically spaced from low to high.
    beta : float in (0, 1)
        Probability with which an error above alpha is accepted.
    search : float, optional
        An alpha for which a direct search also runs n of its own.
    trials : int
        Trials of the direct search at each n. The command line does not change them.
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
        least = int(np.ceil(np.log(TAIL) / np.log1p(-self.beta)))
        if self.search is not None and self.trials < least:
            needed = f"a search at beta = {self.beta:g} needs {least} to end"
            raise ValueError(f"trials is {self.trials}; {needed}")
        return self

    @property
    def alphas(self) -> list[float]:
        """Return the alpha of the curves and of the search, in increasing order."""
        grid = {float(alpha) for alpha in np.geomspace(self.low, self.high, self.points)}
        return sorted(grid | ({self.search} if self.search else set()))

    def check(self, sweep: Sweep, keys: pd.DataFrame, where: str) -> None:
        """Check that the sweep runs at least two n of every curve that the request selects.

        Parameters
        ----------
        sweep : Sweep
        keys : DataFrame
            Keys of the planned results.
        where : str
            The request's key, for messages.

        Raises
        ------
        ConfigError
            If nothing is selected, or a single n.
        """
        chosen = keys[sweep.about(self, keys, where)]
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
    """Answer a request for sample complexities, from curves and by direct search.

    Parameters
    ----------
    label : str
    request : SampleComplexity
    sweep : Sweep
    cells : sequence of Cell
    results : Results
    run : callable
        Runs the cells of a direct search and returns their results.
    say : callable
        Prints a line of progress.

    Returns
    -------
    DataFrame
        A row for each curve, alpha and method, with the columns `COLUMNS`. A term is NaN if the
        theorem has no such term.
    """
    chosen = results.chosen(sweep.about(request, results.summary))
    table, _ = smallest_n(chosen, sweep, request.alphas, request.beta)
    rows: list[Row] = table.assign(method="curve").to_dict("records")
    sought = [row for row in rows if row["alpha"] == request.search]
    searches = [_search(row, _curve(row, cells), request.trials) for row in sought]
    for row, ends in zip(sought, run_searches(searches, run, say), strict=True):
        found = dict(zip(("samples", "low", "high"), ends, strict=True))
        rows.append({**row, "method": "search", **found})
    finished = []
    for row in rows:
        radius = _parameter(sweep.estimators[row["estimator"]], "radius")
        about = {"request": label, "distribution": row["family"], "radius": radius}
        finished.append({**row, **about, **_terms(row, _curve(row, cells)[0])})
    return pd.DataFrame(finished)[COLUMNS]


def _curve(row: Row, cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells of a row's curve, reduced to the row's setting."""
    return [
        replace(cell, settings=(one,))
        for cell in cells
        if cell.family_label == row["family"]
        for one in cell.settings
        if one.label == row["estimator"] and rows_of_budget(row, one.budget)
    ]


def _search(row: Row, curve: Sequence[Cell], trials: int) -> Search:
    cell, sizes = replace(curve[0], trials=trials), [cell.n for cell in curve]
    # Start at half of the n that the curve gives, so that the search is independent of it.
    start = row["samples"] / 2 if np.isfinite(row["samples"]) else np.median(sizes)
    fits = largest_n(cell.family, cell.n, cell.settings[0])
    largest = min(BEYOND_GRID * max(sizes), fits)
    return search(cell, row["alpha"], row["beta"], max(1, round(start)), largest)


def _terms(row: Row, cell: Cell) -> dict[str, float]:
    """Return the terms of the theorem's n, with ln n evaluated at the measured n.

    The sampling term assumes isotropic errors N(0, variance/n). Terms for privacy are for d = 1.
    """
    n = row["samples"] if np.isfinite(row["samples"]) else cell.n
    variance = max(member.variance for _, member in cell.members)
    d, setting = cell.members[0][1].d, cell.settings[0]
    alpha, beta = row["alpha"], row["beta"]
    terms = {"sampling": float(chdtri(d, beta) / d * variance / alpha**2)}
    if setting.budget.amounts and d == 1:
        terms |= setting.estimator.private_terms(alpha, beta, n, setting.budget)
    return {f"{name}_term": terms.get(name, np.nan) for name in TERMS}
