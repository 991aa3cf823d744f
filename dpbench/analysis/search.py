"""Direct search for the smallest n that reaches an accuracy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.stats import binomtest

from dpbench.analysis.results import Results
from dpbench.columns import under
from dpbench.runner.plan import Cell, cell_at

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
    like : Cell
        Its family, one setting and the trials are run at every n.
    alpha, beta : float
        An n works if P(error > alpha) <= beta.
    start, largest : int
        The first n, and the largest that may be tried.
    tried : dict of int to float
        By n, the largest share of trials above alpha over the members.
    """

    like: Cell
    alpha: float
    beta: float
    start: int
    largest: int
    tried: dict[int, float] = field(default_factory=dict)

    @property
    def bracket(self) -> tuple[int | None, int | None]:
        """The largest n that fails, and the smallest above it that works."""
        low = max((n for n, miss in self.tried.items() if miss > self.beta), default=None)
        return low, min((n for n in self.tried if low is None or n > low), default=None)

    def next(self) -> int | None:
        """The n to try now; None when the search is over."""
        if not self.tried:
            return self.start
        low, high = self.bracket
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
        else:
            return None
        wanted = min(max(wanted, 1), self.largest)
        return None if wanted in self.tried else wanted

    def cell(self, n: int) -> Cell:
        """What is run at n."""
        one = self.like
        return cell_at(one.family_label, one.family, n, one.settings, one.trials)

    def take(self, n: int, results: Results) -> None:
        """Note how the setting fares at n, of all that was run."""
        table, (setting,) = results.summary, self.like.settings
        rows = under(table, setting.budget) & (table["n"] == n)
        rows &= (table["family"] == self.like.family_label) & (table["estimator"] == setting.label)
        errors = results.chosen(rows).values["error"]
        self.tried[n] = max(float(np.mean(~(e <= self.alpha))) for e in errors)

    def _surely(self, side: Literal["less", "greater"], n: int) -> list[int]:
        """The n tried, at n or beyond it, whose P(error > alpha) is on that side of beta."""
        trials = self.like.trials
        beyond = [tried for tried in self.tried if (tried >= n if side == "less" else tried <= n)]
        counts = {tried: round(self.tried[tried] * trials) for tried in beyond}
        return [t for t in beyond if binomtest(counts[t], trials, self.beta, side).pvalue < TAIL]

    def result(self) -> tuple[float, float, float]:
        """The smallest n that works, and an interval: NaN where none was found.

        At its ends P(error > alpha) is above and below beta by exact binomial tests at 2.5% each;
        where no n is beyond doubt they are the smallest and the largest n tried.
        """
        low, high = self.bracket
        if low is None or high is None:
            return np.nan, np.nan, np.nan
        fails = self._surely("greater", low) or [min(self.tried)]
        works = self._surely("less", high) or [max(self.tried)]
        return float(high), float(max(fails)), float(min(works))


def run_searches(
    searches: Sequence[Search], run: Callable[[list[Cell]], Results], say: Callable[[str], None]
) -> None:
    """Carry all searches to their ends, in rounds that `run` one n of each and `say` so."""
    for number in itertools.count(1):
        wanted = [(search, n) for search in searches if (n := search.next()) is not None]
        if not wanted:
            return
        say(f"direct search, round {number}: {len(wanted)} of {len(searches)} still open")
        results = run([search.cell(n) for search, n in wanted])
        for search, n in wanted:
            search.take(n, results)
