"""Direct search for the smallest n that reaches an accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.stats import binomtest

from dpbench.analysis.results import Results
from dpbench.columns import under
from dpbench.runner.block import Setting
from dpbench.runner.plan import Cell, cell_at
from dpbench.theory.families import Family

__all__ = ["Search", "run_searches"]

# How close the largest n that fails and the smallest that works come.
RATIO = 1.1
STRIDE = 4
# The step outwards, once they are close, until both ends are beyond doubt, and what doubt is.
BEYOND = 1.2
TAIL = 0.025


@dataclass
class Search:
    """The state of one search: P(error > alpha), at its worst over a family, at every n tried.

    Attributes
    ----------
    family_label : str
    family : Family
    setting : Setting
    alpha, beta : float
        An n works if P(error > alpha) <= beta.
    start : int
        The first n.
    trials : int
    largest : int
        No n beyond it is tried.
    tried : dict of int to float
        By n, the largest share of trials above alpha over the members.
    """

    family_label: str
    family: Family
    setting: Setting
    alpha: float
    beta: float
    start: int
    trials: int
    largest: int
    tried: dict[int, float] = field(default_factory=dict)

    @property
    def bracket(self) -> tuple[int | None, int | None]:
        """The largest n that fails, and the smallest above it that works."""
        failed = [n for n, miss in self.tried.items() if miss > self.beta]
        low = max(failed, default=None)
        worked = [n for n in self.tried if n not in failed and (low is None or n > low)]
        return low, min(worked, default=None)

    def next(self) -> int | None:
        """The n to try now; None when the search is over."""
        if not self.tried:
            return self.start
        low, high = self.bracket
        wanted = None
        if high is None:
            wanted = STRIDE * max(self.tried)
        elif low is None:
            wanted = min(self.tried) // STRIDE
        elif high - low > 1 and high / low > RATIO:
            wanted = round(float(np.sqrt(float(low) * float(high))))
        elif not self._surely("less", high):
            wanted = round(BEYOND * max(self.tried)) + 1
        elif not self._surely("greater", low):
            wanted = int(min(self.tried) / BEYOND)
        if wanted is None:
            return None
        wanted = min(max(wanted, 1), self.largest)
        return None if wanted in self.tried else wanted

    def cell(self, n: int) -> Cell:
        """What runs the setting at n."""
        return cell_at(self.family_label, self.family, n, (self.setting,), self.trials)

    def take(self, n: int, results: Results) -> None:
        """Note how the setting fares at n, of all that was run."""
        rows = under(results.summary, self.setting.budget) & (results.summary["n"] == n)
        rows &= results.summary["family"] == self.family_label
        rows &= results.summary["estimator"] == self.setting.label
        errors = [results.values["error"][i] for i in np.flatnonzero(rows)]
        self.tried[n] = max(float(np.mean(~(e <= self.alpha))) for e in errors)

    def _surely(self, side: Literal["less", "greater"], n: int) -> list[int]:
        """The n tried, at n or beyond it, whose P(error > alpha) is on that side of beta."""
        return [
            tried
            for tried, miss in self.tried.items()
            if (tried >= n if side == "less" else tried <= n)
            and binomtest(round(miss * self.trials), self.trials, self.beta, side).pvalue < TAIL
        ]

    def result(self) -> tuple[float, float, float]:
        """The smallest n that works, and an interval: NaN where none was found.

        At the ends of the interval P(error > alpha) is above and below beta by exact
        binomial tests at 2.5% each; or they are the smallest and the largest n tried, where
        no n is beyond doubt.
        """
        low, high = self.bracket
        if low is None or high is None:
            return np.nan, np.nan, np.nan
        fails = self._surely("greater", low) or [min(self.tried)]
        works = self._surely("less", high) or [max(self.tried)]
        return float(high), float(max(fails)), float(min(works))


def run_searches(
    searches: Sequence[Search],
    run: Callable[[list[Cell]], Results],
    say: Callable[[str], None],
) -> None:
    """Carry all searches to their ends, in rounds that run one n of each.

    Parameters
    ----------
    searches : sequence of Search
        Their `tried` is filled.
    run : callable
        Runs cells and keeps their errors.
    say : callable
        Told what goes on.
    """
    round_number = 0
    while wanted := [(search, n) for search in searches if (n := search.next()) is not None]:
        round_number += 1
        say(f"direct search, round {round_number}: {len(wanted)} of {len(searches)} still open")
        results = run([search.cell(n) for search, n in wanted])
        for search, n in wanted:
            search.take(n, results)
