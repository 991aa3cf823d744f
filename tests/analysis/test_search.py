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
from sweeps import CLIP, COIN, Made

from dpbench.analysis.results import Results
from dpbench.analysis.search import RATIO, TAIL, Search, run_searches
from dpbench.arrays import Floats
from dpbench.runner.plan import Cell, key_table

ALPHA, BETA, TRIALS = 0.25, 0.1, 1000
PAIR = {"kind": "two_point_family", "k": 2, "c": [1, 2], "scaling": "local"}
MADE = Made(families={"coin": COIN, "pair": PAIR}, n=[1000],
            estimators={"clip": {**CLIP, "upper": [1, 2]}},
            budgets={"pure": {"kind": "pure_dp", "epsilon": [0.5, 1]}})  # fmt: skip
SETTINGS = MADE.cells[0].settings
Miss = Callable[[Any], float]


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
        keys = key_table(MADE.sweep, cells)
        return Results(keys, {"error": [self.errors(row) for row in keys.itertuples()]}, [])

    def say(self, text: str) -> None:
        self.rounds.append(text)
        assert len(self.rounds) <= 200, "it does not end"

    @property
    def sizes(self) -> list[int]:
        return [cell.n for cell in self.cells]


def _search(
    start: int, *, family: str = "coin", setting: int = 0, trials: int = TRIALS, most: int = 10**15
) -> Search:
    cell = next(one for one in MADE.cells if one.family_label == family)
    like = replace(cell, settings=(SETTINGS[setting],), trials=trials)
    return Search(like, ALPHA, BETA, start, most)


def _searched(machine: Machine, start: int, **options: Any) -> Search:
    search = _search(start, **options)
    run_searches([search], machine.run, machine.say)
    assert search.next() is None
    return search


def _falling(truth: float, power: float) -> Miss:
    """A probability that is BETA at `truth` and falls as n^-power for large n."""
    return lambda row: 1 / (1 + (1 / BETA - 1) * (row.n / truth) ** power)


@pytest.mark.parametrize(
    ("power", "truth", "off"),
    [(0.25, 500.5, 0.9), (0.5, 3e9, 30.0), (2.0, 3e9, 1e-2), (20.0, 12345.6, 30.0)],
)
def test_the_bracket_closes(power: float, truth: float, off: float) -> None:
    machine = Machine(_falling(truth, power))

    def miss(n: float) -> float:
        return machine.miss(SimpleNamespace(n=n))

    search = _searched(machine, start=max(1, round(off * truth)))
    low, high = search.bracket
    assert low is not None
    assert high is not None
    assert miss(low) > BETA >= round(TRIALS * miss(high)) / TRIALS
    # Without noise the truth is between them, up to the resolution of 1/1000 in P.
    blur = 1 + 0.006 / power
    assert low / blur <= truth <= high * blur
    assert high / low <= RATIO or high - low <= 1
    value, lower, upper = search.result()
    assert value == high
    assert lower <= low < high <= upper
    # Exact binomial tests at 2.5% each reject that P is BETA at the ends, and nowhere between.
    assert stats.binom.sf(round(miss(lower) * TRIALS) - 1, TRIALS, BETA) < TAIL
    assert stats.binom.cdf(round(miss(upper) * TRIALS), TRIALS, BETA) < TAIL
    inside = np.array([round(miss(n) * TRIALS) for n in machine.sizes if lower < n < upper])
    assert np.all(stats.binom.sf(inside - 1, TRIALS, BETA) >= TAIL)
    assert np.all(stats.binom.cdf(inside, TRIALS, BETA) >= TAIL)
    assert len(set(machine.sizes)) == len(machine.sizes)  # no n runs twice
    for cell in machine.cells:
        assert (cell.family_label, cell.settings, cell.trials) == ("coin", SETTINGS[:1], TRIALS)
    # From a start that is off by 100 four strides and seven halvings of the bracket; then outwards
    # until both ends are beyond doubt, at slow powers the longest.
    assert len(machine.rounds) <= 14 + 4 / power


@pytest.mark.parametrize(("truth", "start"), [(2, 1), (2, 37), (3, 3), (7, 37)])
def test_the_smallest_n_is_found_exactly_where_it_is_small(truth: int, start: int) -> None:
    """Between whole numbers a ratio of 1.1 cannot be had."""
    machine = Machine(lambda row: float(row.n < truth))
    search = _searched(machine, start)
    assert search.bracket == (truth - 1, truth)
    assert search.result() == (truth, truth - 1, truth)
    assert min(machine.sizes) >= 1


@pytest.mark.parametrize("start", [1, 50, 3 * 10**6])
def test_a_setting_that_always_works_or_never(start: int) -> None:
    """The smallest n or the largest is tried, and nothing is claimed."""
    for miss, last in ((0.0, 1), (1.0, 3 * 10**6)):
        machine = Machine(lambda row, miss=miss: miss)  # type: ignore[misc]
        search = _searched(machine, start, most=3 * 10**6)
        assert machine.sizes[-1] == last
        assert np.isnan(search.result()).all()
        assert len(machine.rounds) <= 2 + abs(math.log(last / start, 4))


def test_ends_that_the_largest_n_leaves_in_doubt() -> None:
    """P falls so slowly that it is not surely below BETA even at the largest n."""
    machine = Machine(_falling(3e7, 0.05))
    value, lower, upper = _searched(machine, start=5 * 10**7, most=10**8).result()
    assert max(machine.sizes) == 10**8 == upper
    assert lower < value < upper


def test_the_worst_member_counts() -> None:
    """P is the largest over the members, which are the worst at different n."""
    members = {"pair/c=1": _falling(2000.0, 0.2), "pair/c=2": _falling(3000.0, 5.0)}
    together = _searched(Machine(lambda row: members[row.distribution](row)), 100, family="pair")
    single = _searched(Machine(lambda row: max(m(row) for m in members.values())), 100)
    assert together.tried == single.tried
    assert together.result() == single.result()


def test_searches_go_on_side_by_side() -> None:
    """Each as if it were alone, of its family, estimator and budget; a round runs one n of each."""
    truths = {("coin", i): 100.0 * 7**i for i in range(4)} | {("pair", 0): 50.0}

    def miss(row: Any) -> float:
        at = [(one.label, one.budget.columns["epsilon"]) for one in SETTINGS]
        return _falling(truths[row.family, at.index((row.estimator, row.epsilon))], 3.0)(row)

    searches = [_search(500, family=family, setting=i) for family, i in truths]
    machine, longest = Machine(miss), 0
    run_searches(searches, machine.run, machine.say)
    for search, (family, i) in zip(searches, truths, strict=True):
        one = Machine(miss)
        assert search.tried == _searched(one, 500, family=family, setting=i).tried
        assert search.result()[0] == pytest.approx(truths[family, i], rel=0.1)
        longest = max(longest, len(one.rounds))
    assert len(machine.rounds) == longest
    assert machine.rounds[0] == "direct search, round 1: 5 of 5 still open"
    run_searches([], machine.run, machine.say)
    assert len(machine.rounds) == longest


def test_intervals_of_noisy_searches_cover() -> None:
    """The ends are the first n whose tests reject: looking again and again costs coverage."""
    rng, hits = np.random.default_rng(6), 0
    for _ in range(40):
        search = _searched(Machine(_falling(5000.0, 1.0), rng), start=4000, trials=400)
        value, lower, upper = search.result()
        assert lower < value <= upper
        hits += lower <= 5000.0 <= upper
    # At a true coverage of 0.92, fewer than 26 of 40 has probability 2e-7.
    assert hits >= 26, hits
