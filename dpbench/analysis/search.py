"""Direct search for the smallest n that reaches an accuracy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Sequence
from typing import Literal

import numpy as np
from scipy.stats import binomtest

from dpbench.analysis.results import Results
from dpbench.columns import under
from dpbench.runner.plan import Cell, cell_at

__all__ = ["Search", "run_searches", "search"]

# What to run next, answered by results that hold it; at the end the smallest n and its interval.
Search = Generator[Cell, Results, tuple[float, float, float]]
# How close the largest n that fails and the smallest that works come.
RATIO = 1.1
STRIDE = 4
# The step outwards, once they are close, until both ends are beyond doubt, and what doubt is.
BEYOND = 1.2
TAIL = 0.025


def search(like: Cell, alpha: float, beta: float, start: int, largest: int) -> Search:
    """The smallest n with P(error > alpha) <= beta, at its worst over the family: NaN if none.

    Runs the one setting and the trials of `like`, first at `start`, never above `largest`. At the
    ends of the interval P(error > alpha) is above and below beta by exact binomial tests at 2.5%
    each; where no n is beyond doubt they are the smallest and the largest n tried.
    """
    trials, wanted = like.trials, start
    tried: dict[int, float] = {}

    def surely(side: Literal["less", "greater"], n: float) -> list[int]:
        """The n tried, at n or beyond it, whose P(error > alpha) is on that side of beta."""
        counts = {one: round(miss * trials) for one, miss in tried.items()}
        beyond = [one for one in counts if (one >= n if side == "less" else one <= n)]
        return [one for one in beyond if binomtest(counts[one], trials, beta, side).pvalue < TAIL]

    while wanted not in tried:
        cell = cell_at(like.family_label, like.family, wanted, like.settings, trials)
        tried[wanted] = _miss((yield cell), cell, alpha)
        low = max((n for n, miss in tried.items() if miss > beta), default=0)
        high = min((n for n in tried if n > low), default=np.inf)
        if high == np.inf:
            wanted = STRIDE * max(tried)
        elif not low:
            wanted = min(tried) // STRIDE
        elif high - low > 1 and high / low > RATIO:
            wanted = round(math.sqrt(float(low) * float(high)))
        elif not surely("less", high):
            wanted = round(BEYOND * max(tried)) + 1
        elif not surely("greater", low):
            wanted = int(min(tried) / BEYOND)
        else:
            break
        wanted = min(max(wanted, 1), largest)
    if not low or high == np.inf:
        return np.nan, np.nan, np.nan
    fails = max(surely("greater", low), default=min(tried))
    works = min(surely("less", high), default=max(tried))
    return float(high), float(fails), float(works)


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
