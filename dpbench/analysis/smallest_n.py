"""The smallest n for error alpha with probability 1 - beta: from curves, and by direct search."""

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
from dpbench.sweep.selection import BUDGET, Selection, Variant, under
from dpbench.theory.bounds.numbers import BETA

__all__ = [
    "SampleComplexity", "check_sizes", "crossing", "measure", "run_searches", "search",
    "smallest_n",
]  # fmt: skip

Alpha = Annotated[float, Field(ge=1e-100, le=1e100)]  # whose squares are finite
Row = dict[Any, Any]
# What to run next, answered by results that hold it; at the end the smallest n and its interval.
Search = Generator[Cell, Results, tuple[float, float, float]]

# Exponents of n in errors are at most 4 here (local model, k = 2): an error that falls by
# more than that power of n from one n to the next is at a threshold and follows no power law.
STEEPEST = 4.0
# How far beyond the largest n of a curve a direct search may go.
BEYOND_GRID = 10
# How close the largest n that fails and the smallest that works come.
RATIO = 1.1
STRIDE = 4
# From there outwards, every step longer by this, until the end is beyond doubt, and what doubt is.
BEYOND = 1.04
TAIL = 0.025
TERMS = ("sampling", "privacy", "range")
COLUMNS = [
    "request", "distribution", "k", "estimator", *BUDGET, "radius", "alpha", "beta", "method",
    "samples", "low", "high", *(f"{name}_term" for name in TERMS),
]  # fmt: skip


def crossing(n: Floats, quantiles: Floats, alpha: float, between: Floats) -> Floats:
    """Where a curve of errors falls to alpha for good, (draws,); NaN outside of its grid.

    The first grid point from which on every quantile is at most alpha, and the point before
    it, interpolated log-log: of increasing n, (m,), and quantiles, (m, draws). At a threshold,
    where the error falls by more than n^-STEEPEST or is no positive number, n may be anywhere
    between the two points: there `between` says where, (draws,) positions in (0, 1), random but for
    the first, so that an interval covers the gap.
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
        # Between the same two points all replicates are read off as the curve itself is.
        smooth = np.where(at == at[0], smooth[0], smooth) & np.isfinite(high) & np.isfinite(low)
    found = n[at] * np.exp(step * np.clip(np.where(smooth, power, between), 0.0, 1.0))
    return np.where(first > 0, found, np.nan)


def smallest_n(
    results: Results, sweep: Sweep, alphas: Sequence[float], beta: float
) -> tuple[pd.DataFrame, Floats]:
    """The smallest n for each alpha on every curve of the results, worst over members.

    A row per curve and alpha: one of the curve's, with ``alpha, beta, samples, low, high``, the
    last three NaN where the grid does not reach; and ``samples`` with its replicates, (rows, 1 +
    draws).
    """
    table, errors = results.summary, results.values["error"]
    shared = sweep.shares_data(table["family"].unique())
    keys = [(id(one), beta, shared) for one in errors]  # errors that the results hold, and share
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
            # The largest of several members resamples too high, which may leave the value out.
            rows.append({**row, "low": np.minimum(low, value), "high": np.maximum(high, value)})
    return pd.DataFrame(rows), np.stack(found)


def check_sizes(keys: pd.DataFrame, where: str) -> None:
    """Raise ConfigError if a curve has one n alone."""
    for (family, _, estimator, *_), sizes in keys.groupby(CURVE, dropna=False)["n"]:
        if sizes.nunique() < 2:
            raise ConfigError(f"{where}: {estimator} runs at one n on {family}; two are needed")


def _name(about: pd.Series, sweep: Sweep) -> str:
    """What names the stream of a curve."""
    family, estimator = sweep.families[about["family"]], sweep.estimators[about["estimator"]]
    of_estimator = estimator.label("radius"), _parameter(estimator, "radius")
    of_family = family.label("d", "norm"), about["d"], _parameter(family, "norm")
    return "|".join(map(str, [*about[[*CURVE, "n"]], *of_estimator, *of_family]))


def _parameter(one: Variant[Any], name: str) -> float:
    value = one.parameters.get(name)
    return np.nan if value is None else float(value)


def search(like: Cell, alpha: float, beta: float, start: int, largest: int) -> Search:
    """The smallest n with P(error > alpha) <= beta, at its worst over the family: NaN if none.

    Runs the one setting and the trials of `like`, first at `start`, never above `largest`. Of the
    n between the largest that fails and the smallest that works beyond it, within a ratio of
    `RATIO`, the geometric middle. At the ends of the interval, sought from there outwards, P(error
    > alpha) is above and below beta by exact binomial tests at 2.5% each; where no n is beyond
    doubt they are the smallest and the largest n tried.
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
    """The n tried, with the share of trials that err by more than alpha."""

    like: Cell
    alpha: float
    beta: float
    largest: int
    misses: dict[int, float] = field(default_factory=dict)

    def ask(self, n: int) -> Generator[Cell, Results, None]:
        like = self.like
        cell = cell_at(like.family_label, like.family, n, like.settings, like.trials)
        self.misses[n] = _miss((yield cell), cell, self.alpha)

    def bracket(self, start: int) -> Generator[Cell, Results, tuple[int, int]]:
        """The largest n that fails, or 0, and the smallest beyond it, or one above `largest`."""
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
        """The nearest n from `at` up or down, by `sign`, whose P is surely on that side of beta."""
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
        """Whether P at n is on that side of beta beyond doubt."""
        trials = self.like.trials
        count = round(self.misses[n] * trials)
        above = 1.0 if count == 0 else bdtrc(count - 1, trials, self.beta)
        return bool((bdtr(count, trials, self.beta) if side == "less" else above) < TAIL)


def _miss(results: Results, cell: Cell, alpha: float) -> float:
    """The largest share of trials above alpha over the members, of all that was run."""
    table, (setting,) = results.summary, cell.settings
    rows = under(table, setting.budget) & (table["n"] == cell.n)
    rows &= (table["family"] == cell.family_label) & (table["estimator"] == setting.label)
    return max(float(np.mean(~(e <= alpha))) for e in results.chosen(rows).values["error"])


def run_searches(
    searches: Sequence[Search], run: Callable[[list[Cell]], Results], say: Callable[[str], None]
) -> list[tuple[float, float, float]]:
    """Carry all searches to their ends, in rounds that `run` one n of each and `say` so."""
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
    """The smallest n with P(error <= alpha) >= 1 - beta, for several alpha.

    Parameters
    ----------
    low, high : float
        The largest and smallest alpha lie between these.
    points : int
        Logarithmically spaced alpha.
    beta : float in (0, 1)
    search : float, optional
        An alpha whose n is sought directly, too: at n of its own, one after another.
    trials : int
        Of the direct search, at every n that it tries; the command line does not change it.
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
        """The alpha of the curves, and of the search."""
        grid = {float(alpha) for alpha in np.geomspace(self.low, self.high, self.points)}
        return sorted(grid | ({self.search} if self.search else set()))

    def check(self, sweep: Sweep, keys: pd.DataFrame, where: str) -> None:
        """Raise ConfigError if the sweep runs too little of what this is about."""
        chosen = keys[sweep.about(self, keys, where)]
        if chosen.empty:
            raise ConfigError(f"{where}: the sweep runs nothing of what it is about")
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
    """The table of the request of that label, with the columns of `COLUMNS`.

    Of the results of `cells`, with their errors; `run` runs more for a direct search, and `say` is
    told what goes on. A term is NaN where the theorem has none.
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
    """The cells of a row's curve, with its setting alone."""
    return [
        replace(cell, settings=(one,))
        for cell in cells
        if cell.family_label == row["family"]
        for one in cell.settings
        if one.label == row["estimator"] and under(row, one.budget)
    ]


def _search(row: Row, curve: Sequence[Cell], trials: int) -> Search:
    cell, sizes = replace(curve[0], trials=trials), [cell.n for cell in curve]
    # Half of the curve's n, so that the search finds its own.
    start = row["samples"] / 2 if np.isfinite(row["samples"]) else np.median(sizes)
    fits = largest_n(cell.family, cell.n, cell.settings[0])
    largest = min(BEYOND_GRID * max(sizes), fits)
    return search(cell, row["alpha"], row["beta"], max(1, round(start)), largest)


def _terms(row: Row, cell: Cell) -> dict[str, float]:
    """The theorem's terms, logarithms of n taken at the measured n.

    That of sampling is for isotropic errors N(0, variance/n); those of privacy are of numbers.
    """
    n = row["samples"] if np.isfinite(row["samples"]) else cell.n
    variance = max(member.variance for _, member in cell.members)
    d, setting = cell.members[0][1].d, cell.settings[0]
    alpha, beta = row["alpha"], row["beta"]
    terms = {"sampling": float(chdtri(d, beta) / d * variance / alpha**2)}
    if setting.budget.amounts and d == 1:
        terms |= setting.estimator.private_terms(alpha, beta, n, setting.budget)
    return {f"{name}_term": terms.get(name, np.nan) for name in TERMS}
