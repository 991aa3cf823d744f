"""Direct search, on settings whose probability of a large error is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.analysis.smallest_n import BRACKET_RATIO, TAIL, Search, run_searches, search
from dpbench.analysis.summary_table import Results
from dpbench.arrays import Floats
from dpbench.sweep.plan import Cell, key_table
from tests.sweeps import CLIP, COIN, Made

ALPHA, BETA, TRIALS = 0.25, 0.1, 1000
PAIR = {"kind": "two_point_family", "k": 2, "c": [1, 2], "scaling": "local"}
MADE = Made(families={"coin": COIN, "pair": PAIR}, n=[1000],
            estimators={"clip": {**CLIP, "upper": [1, 2]}},
            budgets={"pure": {"kind": "pure_dp", "epsilon": [0.5, 1]}})  # fmt: skip
SETTINGS = MADE.cells[0].settings
Miss = Callable[[Any], float]
Found = tuple[float, float, float]


class Machine:
    """Runs cells at once, by what is known of them, and keeps count."""

    def __init__(self, miss: Miss, rng: np.random.Generator | None = None) -> None:
        self.miss, self.rng = miss, rng
        self.cells: list[Cell] = []
        self.rounds: list[str] = []

    def errors(self, row: Any) -> Floats:
        """Trials of a row of which that share errs by more than ALPHA."""
        trials, miss = self.cells[-1].trials, self.miss(row)
        count = round(miss * trials) if self.rng is None else self.rng.binomial(trials, miss)
        # NaN, infinity and any number above alpha all are errors above alpha.
        large = np.resize([np.nan, np.inf, ALPHA * 1.001, 1e9], count)
        return np.concatenate([large, np.full(trials - count, ALPHA)])

    def run(self, cells: list[Cell]) -> Results:
        self.cells += cells
        keys = key_table(MADE.sweep, cells, bounds=False)
        return Results(keys, {"error": [self.errors(row) for row in keys.itertuples()]}, [])

    def say(self, text: str) -> None:
        self.rounds.append(text)
        assert len(self.rounds) <= 200, "it does not end"

    def search(self, start: int, **options: Any) -> Found:
        (found,) = run_searches([_search(start, **options)], self.run, self.say)
        return found

    @property
    def sizes(self) -> list[int]:
        return [cell.n for cell in self.cells]


def _search(
    start: int, *, family: str = "coin", setting: int = 0, trials: int = TRIALS, most: int = 10**15
) -> Search:
    cell = next(one for one in MADE.cells if one.family_label == family)
    like = replace(cell, settings=(SETTINGS[setting],), trials=trials)
    return search(like, ALPHA, BETA, start, most)


def _falling(truth: float, power: float) -> Miss:
    """A probability that is BETA at `truth` and falls as n^-power for large n."""
    return lambda row: 1 / (1 + (1 / BETA - 1) * (row.n / truth) ** power)


@pytest.mark.parametrize(
    ("power", "truth", "off"), [(0.25, 500.5, 0.9), (2.0, 3e9, 1e-2), (20.0, 12345.6, 30.0)]
)
def test_the_bracket_closes(power: float, truth: float, off: float) -> None:
    machine = Machine(_falling(truth, power))
    value, lower, upper = machine.search(max(1, round(off * truth)))
    misses = {n: round(machine.miss(SimpleNamespace(n=n)) * TRIALS) for n in machine.sizes}
    assert len(misses) == len(machine.sizes)  # no n runs twice
    low = max(n for n, miss in misses.items() if miss > BETA * TRIALS)
    high = min(n for n in misses if n > low)
    assert high <= BRACKET_RATIO * low
    assert value == pytest.approx(math.sqrt((low + 1) * high))
    # Without noise the truth is between them, up to the resolution of 1/1000 in P.
    blur = 1 + 0.006 / power
    assert low / blur <= truth <= high * blur
    # The ends are the first beyond doubt.
    surely_not = {n for n, miss in misses.items() if stats.binom.sf(miss - 1, TRIALS, BETA) < TAIL}
    surely = {n for n, miss in misses.items() if stats.binom.cdf(miss, TRIALS, BETA) < TAIL}
    assert (lower, upper) == (max(surely_not), min(surely))
    for cell in machine.cells:
        assert (cell.family_label, cell.settings, cell.trials) == ("coin", SETTINGS[:1], TRIALS)
    # From a start that is off by 100 four strides and seven halvings of the bracket; then outwards
    # until both ends are beyond doubt, at slow powers the longest.
    assert len(machine.rounds) <= 14 + 4 / power


def test_the_middle_of_the_bracket_is_not_biased_and_the_interval_not_wide() -> None:
    """Without noise, from starts as curves give them; the upper end would be 0.035 too high."""
    truth, off = 5000.5, []
    for start in np.linspace(0.4, 0.6, 15) * truth:
        value, lower, upper = Machine(_falling(truth, 2.0)).search(round(start))
        off.append(math.log(value / truth))
        assert upper / lower <= 1.4  # P is beyond doubt at 0.082 and 0.119: a ratio of 1.25
    assert abs(np.mean(off)) <= 0.012


@pytest.mark.parametrize(("truth", "start"), [(2, 1), (3, 3), (7, 37)])
def test_the_smallest_n_is_found_exactly_where_it_is_small(truth: int, start: int) -> None:
    """Between whole numbers a ratio of 1.1 cannot be had."""
    machine = Machine(lambda row: float(row.n < truth))
    assert machine.search(start) == (truth, truth - 1, truth)
    assert min(machine.sizes) >= 1


def test_ends_that_no_n_reaches() -> None:
    """The smallest n or the largest is tried, and nothing is claimed."""
    for miss, start, last in ((0.0, 50, 1), (1.0, 50, 3 * 10**6), (0.0, 1, 1)):
        machine = Machine(lambda row, miss=miss: miss)  # type: ignore[misc]
        assert np.isnan(machine.search(start, most=3 * 10**6)).all()
        assert machine.sizes[-1] == last
        assert len(machine.rounds) <= 2 + abs(math.log(last / start, 4))
    # P falls so slowly that it is not surely below BETA even at the largest n.
    machine = Machine(_falling(3e7, 0.05))
    value, lower, upper = machine.search(5 * 10**7, most=10**8)
    assert lower < value < upper == max(machine.sizes) == 10**8


def test_the_worst_member_counts() -> None:
    """P is the largest over the members, which are the worst at different n."""
    members = {"pair/c=1": _falling(2000.0, 0.2), "pair/c=2": _falling(3000.0, 5.0)}
    together = Machine(lambda row: members[row.distribution](row)).search(100, family="pair")
    assert together == Machine(lambda row: max(m(row) for m in members.values())).search(100)


def test_searches_go_on_side_by_side() -> None:
    """Each as if it were alone, of its family, estimator and budget; a round runs one n of each."""
    truths = {("coin", i): 100.0 * 7**i for i in range(4)} | {("pair", 0): 50.0}
    at = [(one.label, one.budget.columns["epsilon"]) for one in SETTINGS]

    def miss(row: Any) -> float:
        return _falling(truths[row.family, at.index((row.estimator, row.epsilon))], 3.0)(row)

    machine, longest = Machine(miss), 0
    searches = [_search(500, family=family, setting=i) for family, i in truths]
    found = run_searches(searches, machine.run, machine.say)
    for ends, (family, i) in zip(found, truths, strict=True):
        one = Machine(miss)
        assert ends == one.search(500, family=family, setting=i)
        assert ends[0] == pytest.approx(truths[family, i], rel=0.1)
        longest = max(longest, len(one.rounds))
    assert len(machine.rounds) == longest
    assert machine.rounds[0] == "direct search, round 1: 5 of 5 still open"


def test_intervals_of_noisy_searches_cover() -> None:
    """The ends are the first n whose tests reject: looking again and again costs coverage."""
    rng, hits = np.random.default_rng(6), 0
    for _ in range(40):
        value, lower, upper = Machine(_falling(5000.0, 1.0), rng).search(4000, trials=400)
        assert lower < value <= upper
        hits += lower <= 5000.0 <= upper
    # At a true coverage of 0.92, fewer than 26 of 40 has probability 2e-7.
    assert hits >= 26, hits
