"""Direct search for the smallest n that reaches an accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import binomtest

from dpbench.analysis.worst_case import under
from dpbench.runner.block import Setting
from dpbench.runner.collect import Collected
from dpbench.runner.plan import Cell, cell_at, largest_n
from dpbench.theory.families import Family

__all__ = ["Search", "run_searches"]

# How close the largest n that fails and the smallest that works come.
RATIO = 1.1
STRIDE = 4


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
        largest = largest_n(self.family, self.start, self.setting.budget)
        if high is None:
            assert low is not None
            return min(STRIDE * low, largest) if low < largest else None
        if low is None:
            return max(1, high // STRIDE) if high > 1 else None
        if high - low <= 1 or high / low <= RATIO:
            return None
        return round(float(np.sqrt(float(low) * float(high))))

    def cell(self, n: int) -> Cell:
        """What runs the setting at n."""
        return cell_at(self.family_label, self.family, n, (self.setting,), self.trials)

    def take(self, n: int, collected: Collected) -> None:
        """Note how the setting fares at n, of all that was run."""
        rows = under(collected.summary, self.setting.budget) & (collected.summary["n"] == n)
        rows &= collected.summary["family"] == self.family_label
        rows &= collected.summary["estimator"] == self.setting.label
        errors = [collected.errors["q90"][i] for i in np.flatnonzero(rows)]
        self.tried[n] = max(float(np.mean(~(e <= self.alpha))) for e in errors)

    def result(self) -> tuple[float, float, float]:
        """The smallest n that works, and an interval: NaN where none was found.

        Outside of the interval the n that were tried fail, or work, by exact binomial
        tests at 2.5%.
        """
        low, high = self.bracket
        if low is None or high is None:
            return np.nan, np.nan, np.nan
        fails, works = [min(self.tried)], [max(self.tried)]
        for n, miss in self.tried.items():
            count = round(miss * self.trials)
            if binomtest(count, self.trials, self.beta, alternative="greater").pvalue < 0.025:
                fails.append(n)
            if binomtest(count, self.trials, self.beta, alternative="less").pvalue < 0.025:
                works.append(n)
        first = max(n for n in fails if n <= low)
        return float(high), float(first), float(min(n for n in works if n >= high))


def run_searches(
    searches: Sequence[Search],
    run: Callable[[list[Cell]], Collected],
    say: Callable[[str], None],
) -> None:
    """Carry all searches to their ends, in rounds that run one n of each.

    Parameters
    ----------
    searches : sequence of Search
        Their `tried` is filled.
    run : callable
        Runs cells and keeps their errors in column ``q90``.
    say : callable
        Told what goes on.
    """
    round_number = 0
    while wanted := [(search, n) for search in searches if (n := search.next()) is not None]:
        round_number += 1
        say(f"direct search, round {round_number}: {len(wanted)} of {len(searches)} still open")
        collected = run([search.cell(n) for search, n in wanted])
        for search, n in wanted:
            search.take(n, collected)
