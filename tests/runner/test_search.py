"""Direct search, on settings whose probability of a large error is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpbench.estimators import ClippedMean
from dpbench.privacy import Budget, PureDP
from dpbench.runner.block import Setting
from dpbench.runner.collect import Collected
from dpbench.runner.plan import MOST_COUNTED, MOST_DENSE, Cell, largest_n
from dpbench.runner.search import RATIO, TAIL, Search, run_searches
from dpbench.theory.families import Family, build_family

ALPHA, BETA, TRIALS = 0.25, 0.1, 1000
COIN = build_family({"kind": "bernoulli", "p": 0.5}, "here")
DENSE = build_family({"kind": "gaussian"}, "here")
PAIR = build_family({"kind": "two_point_family", "k": 2, "c": [0, 1]}, "here")
SETTING = Setting("clip", ClippedMean(lower=0.0, upper=1.0), PureDP(1.0))
Miss = Callable[[int], float]


def rows(cell: Cell, misses: list[float], rng: np.random.Generator | None) -> Collected:
    """What running a cell gives if members err by more than ALPHA with these probabilities."""
    (setting,) = cell.settings
    errors = []
    for miss in misses:
        count = round(miss * cell.trials) if rng is None else rng.binomial(cell.trials, miss)
        # NaN, infinity and any number above alpha all are errors above alpha.
        large = np.resize([np.nan, np.inf, ALPHA * 1.001, 1e9], count)
        errors.append(np.concatenate([large, np.full(cell.trials - count, ALPHA)]))
    labels = [f"{cell.family_label}/{i}" for i in range(len(misses))]
    table = pd.DataFrame({"distribution": labels, "family": cell.family_label})
    table = table.assign(estimator=setting.label, privacy=setting.budget.label, n=cell.n)
    for name in ("epsilon", "delta", "rho"):
        table[name] = getattr(setting.budget, name, np.nan)
    return Collected(table, {"q90": errors}, [])


class Machine:
    """Runs cells at once, by what is known of them, and keeps count."""

    def __init__(self, *misses: Miss, rng: np.random.Generator | None = None) -> None:
        self.misses, self.rng = misses, rng
        self.cells: list[Cell] = []
        self.rounds: list[str] = []

    def run(self, cells: list[Cell]) -> Collected:
        self.cells += cells
        parts = [rows(cell, [miss(cell.n) for miss in self.misses], self.rng) for cell in cells]
        summary = pd.concat([part.summary for part in parts], ignore_index=True)
        return Collected(summary, {"q90": [e for p in parts for e in p.errors["q90"]]}, [])

    def say(self, text: str) -> None:
        self.rounds.append(text)
        assert len(self.rounds) <= 200, "it does not end"

    @property
    def sizes(self) -> list[int]:
        return [cell.n for cell in self.cells]


def searched(
    machine: Machine,
    start: int,
    family: Family = COIN,
    trials: int = TRIALS,
    largest: int = 10**15,
) -> Search:
    search = Search("coin", family, SETTING, ALPHA, BETA, start, trials, largest)
    run_searches([search], machine.run, machine.say)
    assert search.next() is None
    return search


def falling(truth: float, power: float) -> Miss:
    """A probability that is BETA at `truth` and falls as n^-power for large n."""
    return lambda n: 1 / (1 + (1 / BETA - 1) * (n / truth) ** power)


def beyond_doubt(miss: Miss, low: float, high: float, trials: int = TRIALS) -> bool:
    """Whether exact binomial tests at 2.5% each reject that P is BETA at the ends."""
    fails, works = (round(miss(round(n)) * trials) for n in (low, high))
    return bool(
        stats.binom.sf(fails - 1, trials, BETA) < 0.025
        and stats.binom.cdf(works, trials, BETA) < 0.025
    )


@pytest.mark.parametrize("power", [0.25, 0.5, 1.0, 2.0, 20.0])
@pytest.mark.parametrize("truth", [500.5, 12345.6, 3e9])
@pytest.mark.parametrize("off", [1e-2, 0.9, 1.0, 30.0])
def test_the_bracket_closes(power: float, truth: float, off: float) -> None:
    miss = falling(truth, power)
    machine = Machine(miss)
    search = searched(machine, start=max(1, round(off * truth)))
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
    assert beyond_doubt(miss, lower, upper)
    assert len(set(machine.sizes)) == len(machine.sizes)  # no n runs twice
    assert {cell.trials for cell in machine.cells} == {TRIALS}
    assert {(cell.family_label, cell.settings) for cell in machine.cells} == {("coin", (SETTING,))}
    # From a start that is off by 100 four strides and seven halvings of the bracket; then outwards
    # until both ends are beyond doubt, at slow powers the longest.
    assert len(machine.rounds) <= 14 + 4 / power
    # No end is farther out than needed: one step further in, there is doubt, or no n was tried.
    inside = [n for n in machine.sizes if lower < n < low]
    assert not any(stats.binom.sf(round(miss(n) * TRIALS) - 1, TRIALS, BETA) < TAIL for n in inside)


@pytest.mark.parametrize("truth", [2, 3, 4, 7, 9])
@pytest.mark.parametrize("start", [1, 2, 3, 4, 5, 15, 37])
def test_the_smallest_n_is_found_exactly_where_it_is_small(truth: int, start: int) -> None:
    """Between whole numbers a ratio of 1.1 cannot be had."""
    machine = Machine(lambda n: float(n < truth))
    search = searched(machine, start)
    assert search.bracket == (truth - 1, truth)
    assert search.result() == (truth, truth - 1, truth)
    assert min(machine.sizes) >= 1


@pytest.mark.parametrize("start", [1, 2, 3, 7, 100, 10**6])
def test_a_setting_that_always_works(start: int) -> None:
    """There is no n that fails: n = 1 is tried, and nothing is claimed."""
    machine = Machine(lambda n: 0.0)
    search = searched(machine, start)
    assert min(machine.sizes) == 1
    assert np.isnan(search.result()).all()


def test_no_n_below_one_is_tried() -> None:
    for truth in (1.5, 2.0, 3.0, 6.0):
        machine = Machine(falling(truth, 0.3))
        searched(machine, start=5)
        assert min(machine.sizes) >= 1


@pytest.mark.parametrize("start", [1, 50, 10**6])
@pytest.mark.parametrize(
    ("family", "most"), [(COIN, MOST_COUNTED), (DENSE, MOST_DENSE), (PAIR, MOST_COUNTED)]
)
def test_a_setting_that_never_works(start: int, family: Family, most: int) -> None:
    assert largest_n(family, start, SETTING.budget) == most
    for largest in (most, 3 * 10**6, start):
        machine = Machine(lambda n: 1.0)
        search = searched(machine, start, family, largest=largest)
        assert max(machine.sizes) == largest
        assert np.isnan(search.result()).all()
        assert len(machine.rounds) <= 2 + math.log(largest / start, 4)


def test_ends_that_the_largest_n_leaves_in_doubt() -> None:
    """P falls so slowly that it is not surely below BETA even at the largest n."""
    machine = Machine(falling(3e7, 0.05))
    search = searched(machine, start=5 * 10**7, family=DENSE, largest=10**8)
    value, lower, upper = search.result()
    assert max(machine.sizes) == 10**8 == upper
    assert lower < value < upper


def test_the_worst_member_counts() -> None:
    """P is the largest over the members, which are the worst at different n."""
    members = [falling(2000.0, 0.2), falling(3000.0, 5.0)]
    worst: Miss = lambda n: max(m(n) for m in members)  # noqa: E731
    together, alone = Machine(*members), Machine(worst)
    search, single = searched(together, 100), searched(alone, 100)
    assert search.tried == single.tried
    assert search.result() == single.result()
    low, high = search.bracket
    assert low is not None
    assert high is not None
    assert worst(low) > BETA >= round(TRIALS * worst(high)) / TRIALS


def test_searches_go_on_side_by_side() -> None:
    """Each as if it were alone; a round runs one n of each that is still open."""
    budgets: list[Budget] = [PureDP(1.0), PureDP(0.1)]
    settings = [Setting(s, SETTING.estimator, b) for s in ("clip", "other") for b in budgets]
    truths = {setting: 100.0 * 7**i for i, setting in enumerate(settings)}

    class Many(Machine):
        def run(self, cells: list[Cell]) -> Collected:
            parts = []
            for cell in cells:
                self.misses = (falling(truths[cell.settings[0]], 3.0),)
                parts.append(super().run([cell]))
            summary = pd.concat([part.summary for part in parts], ignore_index=True)
            order = np.random.default_rng(0).permutation(len(summary))
            errors = [part.errors["q90"][0] for part in parts]
            return Collected(
                summary.iloc[order].reset_index(drop=True), {"q90": [errors[i] for i in order]}, []
            )

    searches = [Search("coin", COIN, s, ALPHA, BETA, 500, TRIALS, 10**9) for s in settings]
    machine = Many()
    run_searches(searches, machine.run, machine.say)
    longest = 0
    for search, setting in zip(searches, settings, strict=True):
        one = Machine(falling(truths[setting], 3.0))
        alone = Search("coin", COIN, setting, ALPHA, BETA, 500, TRIALS, 10**9)
        run_searches([alone], one.run, one.say)
        assert search.tried == alone.tried
        longest = max(longest, len(one.rounds))
    assert len(machine.rounds) == longest
    assert machine.rounds[0].endswith("4 of 4 still open")


def test_no_searches_run_nothing() -> None:
    machine = Machine()
    run_searches([], machine.run, machine.say)
    assert machine.rounds == []


@pytest.mark.parametrize("trials", [40, 1000])
def test_noise_does_not_go_on_for_ever(trials: int) -> None:
    """A curve that is BETA everywhere, or nearly, says next to nothing: it ends all the same."""
    rng = np.random.default_rng(5)
    for curve in (lambda n: BETA, falling(1e4, 0.02), falling(1e4, 0.2)):
        for _ in range(3):
            # Below 100 nothing works: it is the way up that may be long.
            machine = Machine(lambda n, curve=curve: curve(n) if n >= 100 else 1.0, rng=rng)  # type: ignore[misc]
            search = searched(machine, start=10_000, trials=trials, largest=10**6)
            assert max(machine.sizes) <= 10**6
            assert len(machine.rounds) <= 60
            assert len(set(machine.sizes)) == len(machine.sizes)
            value, lower, upper = search.result()
            assert np.isnan(value) or lower < value <= upper


def test_intervals_of_noisy_searches_cover() -> None:
    """The ends are the first n whose tests reject: looking again and again costs coverage."""
    rng = np.random.default_rng(6)
    truth, hits, runs = 5000.0, 0, 80
    for _ in range(runs):
        machine = Machine(falling(truth, 1.0), rng=rng)
        search = searched(machine, start=4000, trials=400)
        value, lower, upper = search.result()
        assert lower < value <= upper
        hits += lower <= truth <= upper
    # At a true coverage of 0.92, fewer than 64 of 80 has probability 2e-4; the seed is fixed.
    assert hits >= 64, hits
