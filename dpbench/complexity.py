"""Sample complexities that a sweep asks for: from its curves, and by direct search."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator
from scipy.special import chdtri

from dpbench.analysis.sample_complexity import sample_complexity
from dpbench.analysis.worst_case import BUDGET
from dpbench.registry import ConfigError, validated
from dpbench.runner.block import Setting
from dpbench.runner.collect import Collected
from dpbench.runner.plan import Cell, Sweep, largest_n
from dpbench.runner.search import TAIL, Search, run_searches
from dpbench.selection import chosen_settings, rows_about, shares_data, with_parameters
from dpbench.theory.lower_bounds import BETA

__all__ = ["SampleComplexity", "measure"]

Alpha = Annotated[float, Field(gt=0)]
Labels = Annotated[list[str], Field(min_length=1)]

# How far beyond the largest n of a curve a direct search may go.
BEYOND_GRID = 10
TERMS = ("sampling", "privacy", "range")
COLUMNS = (
    "request", "distribution", "k", "estimator", *BUDGET, "radius", "alpha", "beta", "method",
    "samples", "low", "high", "sampling_term", "privacy_term", "range_term",
)  # fmt: skip


@validated
class SampleComplexity:
    """The smallest n with P(error <= alpha) >= 1 - beta, for several alpha.

    Parameters
    ----------
    families, estimators, budgets : list of str
        Labels of the sweep, or patterns; no budgets for estimators without privacy.
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

    families: Labels
    low: Alpha
    high: Alpha
    points: Annotated[int, Field(ge=1)] = 8
    estimators: Labels | None = None
    budgets: Labels | None = None
    beta: Annotated[float, Field(gt=0, lt=1)] = BETA
    search: Alpha | None = None
    trials: Annotated[int, Field(ge=1)] = 1000

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low is {self.low}, above high {self.high}")
        least = int(np.ceil(np.log(TAIL) / np.log1p(-self.beta)))
        if self.search is not None and self.trials < least:
            raise ValueError(
                f"trials is {self.trials}; a search at beta = {self.beta:g} needs {least} to end"
            )
        return self

    @property
    def alphas(self) -> list[float]:
        """The alpha of the curves."""
        return [float(alpha) for alpha in np.geomspace(self.low, self.high, self.points)]

    def check(self, sweep: Sweep, cells: Sequence[Cell], where: str) -> None:
        """Raise ConfigError if the sweep runs too little of what this is about."""
        sizes: dict[tuple[str, str, str], set[int]] = {}
        for cell, setting in chosen_settings(sweep, cells, self, where):
            curve = (cell.family_label, setting.label, str(setting.budget))
            sizes.setdefault(curve, set()).add(cell.n)
        for (family, label, _), found in sizes.items():
            if len(found) < 2:
                raise ConfigError(f"{where}: {label} runs at one n on {family}; two are needed")


def measure(
    label: str,
    request: SampleComplexity,
    sweep: Sweep,
    cells: Sequence[Cell],
    collected: Collected,
    run: Callable[[list[Cell]], Collected],
    say: Callable[[str], None],
) -> pd.DataFrame:
    """The table of a request.

    Parameters
    ----------
    label : str
        The request's.
    request, sweep, cells
        What is asked for, of what.
    collected : Collected
        The errors of `cells`, column ``q90``.
    run : callable
        Runs more cells, for a direct search.
    say : callable
        Told what goes on.

    Returns
    -------
    DataFrame
        ``request``, the columns of a curve with the family as ``distribution``, ``radius``,
        ``alpha, beta, method`` (curve or search), ``samples, low, high``, and the theorem's
        terms ``sampling_term, privacy_term, range_term``, NaN where it has none.
    """
    chosen = np.flatnonzero(rows_about(collected.summary, request, sweep))
    rows = with_parameters(collected.summary.iloc[chosen].reset_index(drop=True), sweep)
    errors = [collected.errors["q90"][i] for i in chosen]
    alphas = sorted({*request.alphas, *([request.search] if request.search else [])})
    shared = shares_data(sweep, request)
    table, _ = sample_complexity(rows, errors, alphas, request.beta, shared=shared)
    table["method"] = "curve"
    pairs = chosen_settings(sweep, cells, request, "")
    if request.search is not None:
        starts = table[table["alpha"] == request.search]
        found = _searched(request, starts.to_dict("records"), pairs, run, say)
        table = pd.concat([table, found], ignore_index=True)
    terms = [_terms(row, *_setting_of(row, pairs)) for row in table.to_dict("records")]
    table = pd.concat([table, pd.DataFrame(terms)], axis=1)
    table = table.assign(request=label).rename(columns={"family": "distribution"})
    return table[list(COLUMNS)]


def _setting_of(
    row: Mapping[Hashable, Any], pairs: Sequence[tuple[Cell, Setting]]
) -> tuple[Cell, Setting]:
    """A cell of the row's curve, and the curve's setting."""

    def same(setting: Setting) -> bool:
        amounts = [getattr(setting.budget, name, np.nan) for name in BUDGET[1:]]
        return (row["estimator"], row["privacy"]) == (
            setting.label,
            setting.budget.label,
        ) and np.array_equal(amounts, [row[name] for name in BUDGET[1:]], equal_nan=True)

    return next((c, s) for c, s in pairs if c.family_label == row["family"] and same(s))


def _searched(
    request: SampleComplexity,
    rows: Sequence[dict[Hashable, Any]],
    pairs: Sequence[tuple[Cell, Setting]],
    run: Callable[[list[Cell]], Collected],
    say: Callable[[str], None],
) -> pd.DataFrame:
    """The rows with their n sought directly, from where the curves have it."""
    searches = []
    for row in rows:
        cell, setting = _setting_of(row, pairs)
        sizes = [c.n for c, s in pairs if (c.family, s) == (cell.family, setting)]
        # Half of the curve's n, so that the search finds its own.
        start = row["samples"] / 2 if np.isfinite(row["samples"]) else np.median(sizes)
        largest = min(BEYOND_GRID * max(sizes), largest_n(cell.family, cell.n, setting.budget))
        searches.append(
            Search(
                cell.family_label, cell.family, setting, row["alpha"], request.beta,
                max(1, round(start)), request.trials, largest,
            )
        )  # fmt: skip
    run_searches(searches, run, say)
    found = [
        {**row, **dict(zip(("samples", "low", "high"), search.result(), strict=True))}
        for row, search in zip(rows, searches, strict=True)
    ]
    return pd.DataFrame(found).assign(method="search")


def _terms(row: Mapping[Hashable, Any], cell: Cell, setting: Setting) -> dict[str, float]:
    """The theorem's terms, logarithms of n taken at the measured n.

    The sampling term is for errors like N(0, variance/n), in d dimensions isotropic. Those
    for privacy are stated for numbers.
    """
    n = row["samples"] if np.isfinite(row["samples"]) else cell.n
    variance = max(member.variance for _, member in cell.members)
    d = cell.members[0][1].d
    alpha, beta = row["alpha"], row["beta"]
    terms = {"sampling": float(chdtri(d, beta) / d * variance / alpha**2)}
    if setting.budget.amounts and d == 1:
        terms |= setting.estimator.private_terms(alpha, beta, n, setting.budget)
    return {f"{name}_term": terms.get(name, np.nan) for name in TERMS}
