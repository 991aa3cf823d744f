"""Smallest number of records for one estimator, by simulation.

A direct search with few releases brackets the smallest n. The errors at both ends of the bracket,
from more releases, are a curve off which the smallest n is read. Both parts are functions of
`dpbench.analysis.smallest_n`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from dpbench.analysis.smallest_n import run_searches, search, smallest_n
from dpbench.analysis.summary_table import Results, collect
from dpbench.estimators.estimands import MEAN
from dpbench.output.names import as_text
from dpbench.output.terminal import fill
from dpbench.planner.explanations import describe_object, format_records
from dpbench.planner.page import NEIGHBOURS
from dpbench.privacy.symbols import budget_text
from dpbench.registry import ConfigError
from dpbench.runner.execute import compute
from dpbench.runner.run import RunOptions
from dpbench.sweep.block import Block, BlockTask, run_block
from dpbench.sweep.plan import Cell, Sweep, cell_at, largest_n, make_cells
from dpbench.theory.bounds.numbers import BETA

__all__ = [
    "EstimatorPlan",
    "ReachedError",
    "SearchedRecords",
    "error_lines",
    "records_lines",
    "round_records",
]

FIRST_TRIALS = 200  # releases at each n of the search, which brackets the smallest n
MIN_TRIALS, MAX_TRIALS = 1000, 4000  # releases at each n of the curve, by their cost
CHECKED_N = 1000  # the estimator is checked at this n, or at the nearest n that it can use
SEARCH_LIMIT = 2e8  # values to draw at the largest n of the search: some seconds
CURVE_LIMIT = 1e8  # values to draw at one n of the curve, unless MIN_TRIALS need more
EXTENSION = 1.3  # factor by which the curve is extended beyond the bracket of the search
MAX_EXTENSIONS = 8
FLAT_RATIO = 0.85  # an error that falls less than to this ratio, from n to 4 n, hardly falls
INDENT = " " * 11
ROUNDING = 1e-12  # relative error of a quotient that counts as whole
SHARE = "in 9 of 10 releases"
PARALLEL_SECONDS = 5.0  # expected time at one n from which other processes are worth their start
QUIET_SECONDS, SECONDS_BETWEEN_LINES = 2.0, 5.0  # until the first line of progress, and others


class SearchedRecords(NamedTuple):
    """Smallest n for an error with its 95% interval; all three are NaN if the search fails."""

    n: float
    low: float
    high: float
    trials: int  # releases at each n of the curve from which the smallest n is read off


class ReachedError(NamedTuple):
    """The 0.9 quantile of the error at one n, with its 95% interval."""

    n: int
    q90: float
    low: float
    high: float
    trials: int


@dataclass
class EstimatorPlan:
    """Search for the number of records that one estimator needs.

    The sweep has one family, one estimator, at most one budget, and one part with any n.
    """

    sweep: Sweep
    options: RunOptions
    trials: int | None  # at each n of the search; None: by the cost of a release, 1,000 to 4,000
    n_max: int | None  # largest n to try; None: some seconds at one n at most
    report: Callable[[str], None]  # prints a line of progress
    started: float = field(default_factory=time.monotonic)
    next_report: float = field(default_factory=lambda: time.monotonic() + QUIET_SECONDS)
    seconds_per_value: float = 0.0  # measured at the last n; 0 before the first
    tried: dict[int, ReachedError] = field(default_factory=dict)  # every n that was run

    @cached_property
    def cell(self) -> Cell:
        """Family, estimator and budget, at an n that the estimator can use."""
        (part,) = self.sweep.parts.values()
        (estimator_label,), (family_label,) = self.sweep.estimators, self.sweep.families
        estimator = self.sweep.estimator(estimator_label, family_label)
        family = self.sweep.families[family_label].value
        (budget,) = [variant.value for variant in self.sweep.budgets.values()]
        members = family.members(family_label, CHECKED_N, budget)
        d = next((law.d for law in members.values()), 1)
        n = max(CHECKED_N, estimator.least_records(d, budget))
        checked_part = replace(part, n=[min(n, estimator.most_records or n)])
        (cell,) = make_cells(replace(self.sweep, parts={"plan": checked_part}), trials=self.trials)
        return cell

    @property
    def working(self) -> int:
        """Smallest n from which the estimator works, by public numbers."""
        (setting,), d = self.cell.settings, self.cell.members[0][1].d
        return setting.estimator.working_records(d, setting.budget)

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """Smallest and largest n that the search may run."""
        cell = self.cell
        (setting,), d = cell.settings, cell.members[0][1].d
        least = setting.estimator.least_records(d, setting.budget)
        fits = largest_n(cell.family, cell.n, setting)
        if self.n_max is not None:
            return least, min(self.n_max, fits)
        n = max(cell.n, least)
        while n < fits and FIRST_TRIALS * _drawn_values(cell, 2 * n) <= SEARCH_LIMIT:
            n *= 2
        return least, min(n, fits)

    def find_records(self, alpha: float) -> SearchedRecords:
        """Find the smallest n at which nine of ten releases err by at most `alpha`.

        If the estimator raises an exception, a ConfigError is raised.
        """
        cell, (least, largest) = self.cell, self.sizes
        variance = max(member.variance for _, member in cell.members)
        sampled = 2 * variance / alpha**2  # the sampling error alone needs more than this n
        start = int(np.clip(sampled, least, largest)) if np.isfinite(sampled) else least
        first = replace(cell, trials=min(FIRST_TRIALS, self.trials or FIRST_TRIALS))
        bracket = search(first, alpha, BETA, start, largest)
        ((n, low, high),) = run_searches([bracket], self._run, lambda _: None)
        if not np.isfinite(n):
            return SearchedRecords(np.nan, np.nan, np.nan, 0)
        return self._read_off_curve(alpha, int(low), int(high), self._trials_at(n))

    def _read_off_curve(self, alpha: float, low: int, high: int, trials: int) -> SearchedRecords:
        """Return the smallest n between two n, read off the curve of errors with more releases.

        The curve is extended until it and its bootstrap replicates cross `alpha`.
        """
        (least, largest), done = self.sizes, list[Results]()
        sizes, pending = [low, high], [low, high]
        for _ in range(MAX_EXTENSIONS):
            cells = [self._cell_at(n, trials) for n in pending]
            done += [self._run([cell]) for cell in cells]
            curve = Results(
                pd.concat([found.summary for found in done], ignore_index=True),
                {"error": [errors for found in done for errors in found.values["error"]]},
                [],
            )
            (row,) = smallest_n(curve, self.sweep, [alpha], BETA)[0].to_dict("records")
            ends = row["samples"], row["low"], row["high"]
            if np.all(np.isfinite(ends)):
                return SearchedRecords(*ends, trials)
            pending = [
                max(least, round(min(sizes) / EXTENSION)),
                min(largest, round(max(sizes) * EXTENSION)),
            ]
            pending = [n for n in pending if n not in sizes]
            sizes += pending
        return SearchedRecords(np.nan, np.nan, np.nan, trials)

    def _trials_at(self, n: float) -> int:
        if self.trials is not None:
            return self.trials
        return int(np.clip(CURVE_LIMIT / _drawn_values(self.cell, n), MIN_TRIALS, MAX_TRIALS))

    def _cell_at(self, n: int, trials: int) -> Cell:
        return cell_at(self.cell.family_label, self.cell.family, n, self.cell.settings, trials)

    def error_at(self, n: int) -> ReachedError:
        """Return the 0.9 quantile of the error at `n` records, on the worst member of the family.

        If `n` does not suit the estimator, or the estimator raises an exception, a ConfigError is
        raised.
        """
        cell, trials = self.cell, self._trials_at(n)
        least, most = self.sizes[0], largest_n(cell.family, cell.n, cell.settings[0])
        if not least <= n <= most:
            raise ConfigError(f"n: {n}: this estimator and law need n from {least} to {most}")
        self._run([self._cell_at(n, trials)])
        return self.tried[n]

    def _run(self, cells: list[Cell]) -> Results:
        """Simulate the releases of one cell.

        An exception below the smallest n of the estimator counts as no release. Raise ConfigError
        at any other exception.
        """
        (cell,) = cells
        if not cell.members:
            raise ConfigError(f"law: the family has no member at n = {cell.n}; choose another law")
        tasks, blocks = cell.tasks(self.options.seed), dict[int, Block]()
        values, start = cell.trials * _drawn_values(cell, cell.n), time.monotonic()
        # Other processes take seconds to start. The number of processes changes no result.
        done: Iterable[tuple[BlockTask, Block]] = ((task, run_block(task)) for task in tasks)
        if self.seconds_per_value * values > PARALLEL_SECONDS:
            o = self.options
            done = compute(run_block, tasks, o.runner, o.n_jobs, o.origin)
        for task, block in done:
            blocks[task.index] = block
            self._report_progress(cell, len(blocks) / len(tasks))
        self.seconds_per_value = (time.monotonic() - start) / values
        ordered = [blocks[index] for index in sorted(blocks)]
        found = collect(self.sweep, [cell], [(0, ordered)], {"error": True}, bounds=False)
        if found.failures and cell.n >= self.sizes[0]:
            _, _, problem = found.failures[0].text.partition(", block ")
            label, reason = cell.settings[0].label, problem.partition(": ")[2]
            remedy = "mend the estimator, or choose a law that it takes"
            raise ConfigError(f"estimator: {label!r}: at n = {cell.n}: {reason}; {remedy}")
        worst = found.summary.iloc[int(np.argmax(found.summary["q90"].fillna(np.inf)))]
        q90, low, high = (float(worst[name]) for name in ("q90", "q90_low", "q90_high"))
        self.tried[cell.n] = ReachedError(cell.n, q90, low, high, cell.trials)
        return found

    def _report_progress(self, cell: Cell, share: float) -> None:
        """Print a line of progress if it is time for one."""
        now = time.monotonic()
        if now > self.next_report:
            self.next_report = now + SECONDS_BETWEEN_LINES
            done = f"{share:.0%} of {cell.trials:,} releases at n = {cell.n:,}"
            self.report(f"{now - self.started:.0f} s: {done}")

    def assumptions(self) -> Iterator[str]:
        """Yield lines with all that the answer assumes."""
        cell = self.cell
        (setting,), (_, law) = cell.settings, cell.members[0]
        estimator = f"estimator: {describe_object(setting.estimator)}"
        yield fill(estimator, INDENT)
        if len(cell.members) > 1:
            count = len(cell.members)
            records = f"the worst of {count} laws of {describe_object(cell.family)}"
        else:
            records = describe_object(law)
            if law.d == 1:
                mean, sd = as_text(float(law.mean), 4), as_text(float(np.sqrt(law.variance)), 4)
                records += f"; mean {mean}, sd {sd}"
        yield fill(f"records:   {records}, independent", INDENT)
        if setting.budget.amounts:
            budget = budget_text(setting.budget, "name")
            yield f"budget:    {budget}; {NEIGHBOURS[setting.budget.neighbours]}"
        else:
            yield "budget:    none, the estimator is not private"
        target = setting.estimator.estimand
        norm = ", l2 norm" if law.d > 1 and target is MEAN else ""
        yield f"error:     |release - {target}|, {target.unit}{norm}"
        yield f"{INDENT}a trial without a release counts as a larger error"


def _drawn_values(cell: Cell, n: float) -> float:
    """Return the number of values that all members of a cell's family draw for one trial at n."""
    size, laws = max(1, round(n)), [law for _, law in cell.members]
    return sum(law.held(size) for law in laws)


def error_lines(reached: ReachedError, working: int = 1) -> Iterator[str]:
    """Yield the lines of the sentence about the error at an n.

    Below `working` records the estimator declares failure, and the lines say so.
    """
    if reached.n < working and not np.isfinite(reached.q90):
        yield fill(
            f"{format_records(reached.n)}: too few, so that the estimator declares failure; it "
            f"works from n = {working:,}.",
            "",
        )
        return
    n, give = reached.n, "gives" if reached.n == 1 else "give"
    yield fill(
        f"{format_records(n)} {give} an error of at most {as_text(reached.q90)} {SHARE} (95% "
        f"interval {as_text(reached.low)} .. {as_text(reached.high)}; {reached.trials:,} simulated "
        "releases).",
        "",
    )


def records_lines(plan: EstimatorPlan, alpha: float, found: SearchedRecords) -> Iterator[str]:
    """Yield the lines of sentences about the number of records for an error of at most `alpha`.

    `found` is the result of the plan's search for this error.
    """
    least, largest = plan.sizes
    if np.isfinite(found.n):
        n, high = round_records(found.n), round_records(found.high)
        low = min(round_records(found.low), n)
        text = f"About {n:,} records (95% interval {low:,} .. {high:,}) give an error of at most "
        yield fill(f"{text}{as_text(alpha, 6)} {SHARE}.", "")
        return
    if (fewest := plan.tried.get(least) or plan.error_at(least)).q90 <= alpha:
        text = f"{format_records(least)}, the smallest possible n, already "
        give = "gives" if least == 1 else "give"
        yield fill(f"{text}{give} an error of at most {as_text(fewest.q90)} {SHARE}.", "")
        return
    last = plan.tried.get(largest) or plan.error_at(largest)
    yield f"No n up to {largest:,} gives an error of at most {as_text(alpha, 6)} {SHARE}."
    if largest < plan.working and not np.isfinite(last.q90):
        yield from error_lines(last, plan.working)
        return
    yield f"At n = {largest:,} it is {as_text(last.q90)}."
    earlier = [plan.tried[n] for n in sorted(plan.tried) if n <= largest / 3]
    if earlier and last.q90 > FLAT_RATIO * earlier[-1].q90:
        before = earlier[-1]
        yield f"At n = {before.n:,} it is {as_text(before.q90)}, so it hardly falls with n:"
        yield "a bias remains, for example of a clip that is too narrow."
    else:
        yield f"To try larger n write n_max={4 * largest}."


def round_records(n: float) -> int:
    """Return a number of records, rounded up: to a whole number, from 1,000 on to three digits."""
    unit = 10.0 ** max(math.floor(math.log10(max(n, 1.0))) - 2, 0)
    return round(math.ceil(n / unit * (1 - ROUNDING)) * unit)
