"""The private quantile: its density, the privacy of it, and the window of ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from support import BIG, FALSE_ALARM, Floats, assert_follows, assert_frequencies, rng

from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, NonPrivate, PureDP
from dpbench.privacy.quantile import private_quantile
from dpbench.samples import CountedSample, DenseSample, Sample

ORDERS = [1.01, 1.5, 2.0, 4.0, 16.0, 100.0]
BUDGETS: list[Budget] = [PureDP(1.0), ZCDP(0.1), ApproxDP(1.0, 1e-6)]
LOW, HIGH = -1.0, 1.0
# At, inside and beyond the bounds, and within a resolution of them.
GRID = [-5.0, -1.0, -0.9, -0.5, 0.0, 0.125, 1.0, 3.0]


def epsilon_of(budget: Budget) -> float:
    """Of the exponential mechanism: under zCDP sqrt(8 rho)."""
    if isinstance(budget, ZCDP):
        return math.sqrt(8 * budget.rho)
    assert isinstance(budget, PureDP | ApproxDP)
    return budget.epsilon


def score_at(t: float, row: Sequence[float], q: float, h: float) -> float:
    """-max(0, #{x < t - h} - q n, q n - #{x <= t + h}), one record after the other."""
    kept = [min(max(x, LOW), HIGH) for x in row]
    below = sum(x < t - h for x in kept)
    within = sum(x <= t + h for x in kept)
    return -max(0.0, below - q * len(row), q * len(row) - within)


def cells(values: Sequence[float], h: float) -> Floats:
    """Points of [LOW, HIGH] between which no score of these values changes."""
    kept = np.clip(values, LOW, HIGH)
    return np.unique(np.clip([*(kept - h), *(kept + h), LOW, HIGH], LOW, HIGH))


def law_of(row: Sequence[float], ends: Floats, q: float, h: float, epsilon: float) -> Floats:
    """The probabilities of cells, prop. to length times exp(epsilon score/2)."""
    middles = (ends[1:] + ends[:-1]) / 2
    scores = np.array([score_at(t, row, q, h) for t in middles.tolist()])
    weights = np.diff(ends) * np.exp(epsilon * scores / 2)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize(
    ("epsilon", "q", "h"), [(0.1, 0.5, 0.05), (1.0, 0.1, 0.25), (5.0, 0.75, 1.5)]
)
def test_privacy_by_enumeration(epsilon: float, q: float, h: float) -> None:
    """All pairs of neighbours among 1 to 3 records of the grid, ties included."""
    ends = cells(GRID, h)
    rho = epsilon**2 / 8
    largest = 0.0
    for n in (1, 2, 3):
        laws = {
            row: law_of(row, ends, q, h, epsilon)
            for row in itertools.combinations_with_replacement(GRID, n)
        }
        for row, i in itertools.product(laws, range(n)):
            others = [tuple(sorted((*row[:i], *row[i + 1 :], x))) for x in GRID]
            p, qs = laws[row], np.array([laws[other] for other in others])
            # The density is constant in each cell: its ratio is that of probabilities.
            log_ratio = np.log(p / qs)
            largest = max(largest, float(np.abs(log_ratio).max()))
            for order in ORDERS:
                renyi = np.log((p * np.exp((order - 1) * log_ratio)).sum(axis=1)) / (order - 1)
                assert renyi.max() <= order * rho * (1 + 1e-9)
    assert largest <= epsilon * (1 + 1e-9)
    assert largest >= 0.3 * epsilon  # the enumeration is not idle


def both_kinds(row: Sequence[float], trials: int) -> list[Sample]:
    atoms = sorted(set(row))
    counts = [row.count(x) for x in atoms]
    return [
        DenseSample(np.tile(row, (trials, 1))),
        CountedSample(atoms, np.tile(counts, (trials, 1))),
    ]


def quantile(
    sample: Sample,
    q: float,
    h: float,
    budget: Budget,
    seed: int = 0,
    ends: tuple[float, float] = (LOW, HIGH),
) -> Floats:
    return private_quantile(sample, q, ends[0], ends[1], h, Ledger(budget, rng(seed)))


@pytest.mark.parametrize("budget", [PureDP(2.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)], ids=str)
@pytest.mark.parametrize(
    ("row", "q", "h"),
    [
        ([0.0], 0.5, 0.25),
        ([-5.0, -0.875, 0.125, 3.0], 0.5, 0.0625),
        ([0.125, 0.0, 0.0, 0.0, -0.5], 0.3, 0.1),
        ([-1.0, 1.0], 0.5, 0.3),
        ([0.5, -0.5, 0.25], 0.1, 1.9),
    ],
)
def test_frequencies_are_those_of_the_exact_density(
    budget: Budget, row: list[float], q: float, h: float
) -> None:
    # Cells of constant density, each cut in three: it is uniform within them.
    whole = cells(row, h)
    ends = np.unique(np.concatenate([np.linspace(a, b, 4) for a, b in itertools.pairwise(whole)]))
    law = law_of(row, ends, q, h, epsilon_of(budget))
    for seed, sample in enumerate(both_kinds(row, 30_000)):
        t = quantile(sample, q, h, budget, seed)
        assert np.all((t >= LOW) & (t <= HIGH))
        assert_frequencies(np.histogram(t, ends)[0], law)


def pieces(
    monkeypatch: pytest.MonkeyPatch,
    sample: Sample,
    q: float,
    h: float,
    budget: Budget,
    ends: tuple[float, float] = (LOW, HIGH),
) -> tuple[Floats, Floats]:
    """Right ends and scores of the pieces of the first trial, as the mechanism gets them."""
    taken: list[Floats] = []
    real = Ledger.exponential

    def spy(
        self: Ledger, scores: Floats, sensitivity: float, log_weights: Floats
    ) -> NDArray[np.int64]:
        assert sensitivity == 1.0
        taken.extend([np.exp(log_weights[0]), scores[0]])
        return real(self, scores, sensitivity, log_weights)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "exponential", spy)
        quantile(sample, q, h, budget, ends=ends)
    length, scores = taken
    assert length.sum() == pytest.approx(ends[1] - ends[0])
    return ends[0] + np.cumsum(length), scores


def value_at(t: float, right: Floats, scores: Floats) -> float:
    return float(scores[np.searchsorted(right, t)])


def assert_capped(
    found: Sequence[float],
    naive: Sequence[float],
    cap: float,
    span: float,
    h: float,
    epsilon: float,
) -> None:
    """Scores are the naive ones down to a cap below which nothing is ever chosen."""
    # A quantile has score 0 within h of it: at least min(h, span) of length and weight.
    assert span * math.exp(-epsilon * cap / 2) <= 2.0**-60 * min(h, span)
    np.testing.assert_allclose(found, np.maximum(naive, -cap), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("budget", [PureDP(1.0), PureDP(20.0), ZCDP(0.5)], ids=str)
@pytest.mark.parametrize(("q", "ties"), [(0.5, 0), (0.02, 20), (0.9, 400), (1 / 3, 20)])
def test_the_window_of_a_large_dense_dataset(
    monkeypatch: pytest.MonkeyPatch, budget: Budget, q: float, ties: int
) -> None:
    n, h = 5000, 0.001
    x = rng(2).normal(0.1, 0.5, n)
    x = np.round(x * ties) / ties if ties else x
    right, scores = pieces(monkeypatch, DenseSample(x[None]), q, h, budget)
    assert right.size <= 2 * n
    cap = -float(scores.min())
    assert cap < q * n or cap < (1 - q) * n, "the window is all of the data: nothing is tested"
    places = np.concatenate(
        [rng(3).uniform(LOW, HIGH, 300), np.quantile(x, q) + 0.02 * rng(4).normal(size=300)]
    )
    places = places[(places > LOW) & (places < HIGH)]
    kept = np.clip(x, LOW, HIGH)
    naive = [
        -max(0.0, int((kept < t - h).sum()) - q * n, q * n - int((kept <= t + h).sum()))
        for t in places
    ]
    found = [value_at(t, right, scores) for t in places.tolist()]
    assert max(found) > -cap == min(found)  # points within the window and beyond it
    assert_capped(found, naive, cap, HIGH - LOW, h, epsilon_of(budget))


@pytest.mark.parametrize(("q", "epsilon"), [(0.5, 0.1), (0.25, 2.0)])
def test_the_window_of_a_large_counted_dataset(
    monkeypatch: pytest.MonkeyPatch, q: float, epsilon: float
) -> None:
    # 401 atoms of few records around the quantile, and all the others at five on each side.
    near = rng(5).integers(0, 40, 401).tolist()
    far = int(q * BIG) - sum(near) // 2
    left = [far // 5] * 4 + [far - 4 * (far // 5)]
    rest = BIG - sum(near) - far
    counts = [*left, *near, *[rest // 5] * 4, rest - 4 * (rest // 5)]
    atoms = [*np.linspace(-3, -0.5, 5), *np.linspace(-0.4, 0.4, 401), *np.linspace(0.5, 3, 5)]
    h = 0.01
    right, scores = pieces(monkeypatch, CountedSample(atoms, [counts]), q, h, PureDP(epsilon))
    cap = -float(scores.min())
    target = int(q * BIG)  # q n is whole: counts compare exactly
    places = [*rng(6).uniform(LOW, HIGH, 300).tolist(), *rng(7).uniform(-0.45, 0.45, 300).tolist()]
    naive = []
    for t in places:
        pairs = [(min(max(a, LOW), HIGH), c) for a, c in zip(atoms, counts, strict=True)]
        below = sum(c for a, c in pairs if a < t - h)
        within = sum(c for a, c in pairs if a <= t + h)
        naive.append(-float(max(0, below - target, target - within)))
    found = [value_at(t, right, scores) for t in places]
    assert_capped(found, naive, cap, HIGH - LOW, h, epsilon)
    assert max(found) > -cap == min(found)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.notion)
def test_a_value_that_all_records_share_is_found(budget: Budget) -> None:
    h, trials = 0.01, 500
    for sample in (
        DenseSample(np.full((trials, 1001), 3.0)),
        CountedSample([3.0], np.full((trials, 1), 1001)),
    ):
        t = quantile(sample, 0.5, h, budget, ends=(-100.0, 100.0))
        # Elsewhere the score is -500.5: probability below 1e4 e^(-0.89 * 250) in each trial.
        assert np.all(np.abs(t - 3.0) <= h)
        assert_follows((t - 3.0) / h, stats.uniform(-1, 2))


@pytest.mark.parametrize(("place", "end"), [(-7.0, LOW), (7.0, HIGH), (1e300, HIGH)])
def test_records_beyond_the_bounds_count_at_the_ends(place: float, end: float) -> None:
    # Score -50 elsewhere, at epsilon 4: probability below 200 e^-100.
    t = quantile(DenseSample(np.full((300, 100), place)), 0.5, 0.01, PureDP(4.0))
    assert np.all(np.abs(t - end) <= 0.01)
    assert np.all((t >= LOW) & (t <= HIGH))


def tail_rank(epsilon: float, span: float, h: float, probability: float) -> float:
    """The score k below which the release is with at most this probability.

    All pieces below -k weigh at most span e^(-epsilon k/2), those of score 0 at least h.
    """
    return 2 / epsilon * (math.log(span) - math.log(h) - math.log(probability))


@pytest.mark.parametrize("q", [0.001, 0.5, 0.99])
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.notion)
def test_ranks_near_the_target(budget: Budget, q: float) -> None:
    trials, n, h = 50, 20_000, 1e-6
    x = rng(8).uniform(-0.9, 0.9, (trials, n))
    t = quantile(DenseSample(x), q, h, budget)
    # False-alarm probability 1e-6 for all trials together.
    k = tail_rank(epsilon_of(budget), HIGH - LOW, h, FALSE_ALARM / trials)
    assert 2 * k < n / 50
    below = np.count_nonzero(x < t[:, None] - h, axis=1)
    within = np.count_nonzero(x <= t[:, None] + h, axis=1)
    assert np.all(below - q * n <= k)
    assert np.all(q * n - within <= k)


def test_the_noise_wins_in_a_far_range_of_few_records() -> None:
    t = quantile(DenseSample(np.zeros((20_000, 3))), 0.5, 1.0, PureDP(1.0), ends=(-1e300, 1e300))
    assert_follows(t / 1e300, stats.uniform(-1, 2))  # up to e^300


@pytest.mark.parametrize(
    ("q", "lower", "upper", "h"),
    [
        (0.0, -1.0, 1.0, 0.1),
        (1.0, -1.0, 1.0, 0.1),
        (math.nan, -1.0, 1.0, 0.1),
        (0.5, 1.0, 1.0, 0.1),
        (0.5, 0.0, math.inf, 0.1),
        (0.5, 1.0, -1.0, 0.1),
        (0.5, math.nan, 1.0, 0.1),
        (0.5, -1.0, 1.0, 0.0),
        (0.5, -1.0, 1.0, -0.1),
        (0.5, -1.0, 1.0, math.inf),
        (0.5, -1.0, 1.0, math.nan),
    ],
)
def test_bad_arguments_are_refused_and_cost_nothing(
    q: float, lower: float, upper: float, h: float
) -> None:
    ledger = Ledger(PureDP(1.0), rng())
    with pytest.raises(ValueError, match="needs finite lower < upper"):
        private_quantile(DenseSample([[0.0, 0.5]]), q, lower, upper, h, ledger)
    assert ledger.spent == (0.0,)


def test_without_privacy_there_is_no_private_quantile() -> None:
    with pytest.raises(ValueError, match="none"):
        quantile(DenseSample([[0.0, 0.5]]), 0.5, 0.1, NonPrivate())
