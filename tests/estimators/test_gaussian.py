"""Gaussians: Karwa and Vadhan's mean and scale against loops; shrinking intervals."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.estimators import KarwaVadhanMean, LearnedGaussian, ShrinkingIntervals, karwa_vadhan
from dpbench.estimators.karwa_vadhan import PowersOfTwo
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.samples import CountedSample, DenseSample
from tests.conftest import Step
from tests.support import Floats, name, noise_law, round_shares, run, same_law

# At which a few records are found sometimes, and sometimes not.
BUDGETS = [PureDP(1.5), ZCDP(0.15), ApproxDP(1.0, 0.4, "classical")]
each_budget = pytest.mark.parametrize("budget", BUDGETS, ids=name)


@cache
def unit_law(budget: Budget, share: float) -> tuple[str, float]:
    law = noise_law(budget.fraction(share), 1.0, 1.0)
    return law.dist.name, float(law.kwds["scale"])


def noise(rng: np.random.Generator, budget: Budget, share: float, sensitivity: float) -> float:
    """One number's noise at a share of the budget."""
    kind, scale = unit_law(budget, share)
    return float((rng.normal if kind == "norm" else rng.laplace)(0.0, scale * sensitivity))


def fullest(
    rng: np.random.Generator, counts: list[int], budget: Budget, share: float
) -> int | None:
    """The fullest bin of a histogram that holds every bin, or None."""
    best, most = None, -math.inf
    if isinstance(budget, ApproxDP):
        epsilon, delta = budget.epsilon * share, budget.delta * share
        most = 1 + 2 / epsilon * math.log(1 / (2 * delta))
    for i, count in enumerate(counts):
        if isinstance(budget, ApproxDP):
            if not count:
                continue
            noisy = count + rng.laplace(0, 2 / epsilon)
        else:  # two bins change by one: 2 in l1, the root of 2 in l2
            apart = 2.0 if isinstance(budget, PureDP) else math.sqrt(2)
            noisy = count + noise(rng, budget, share, apart)
        if noisy > most:
            best, most = i, noisy
    return best


def naive_mean(
    rng: Any,
    row: list[float],
    radius: float,
    sigma: float,
    beta: float,
    budget: Budget,
    share: float,
) -> float:
    """Theorem 2 of lecture 15 as algorithms.md states it; a bin starts at 0."""
    n = len(row)
    t = sigma * math.sqrt(2 * math.log(2 * n / beta))
    half = math.ceil((radius + t) / (2 * t))  # bins on either side of 0
    counts = [0] * (2 * half)
    for x in row:
        counts[min(max(math.floor(x / (2 * t)) + half, 0), 2 * half - 1)] += 1
    found = fullest(rng, counts, budget, share)
    if found is None:
        return math.nan
    a = 2 * t * (found - half)
    clipped = [min(max(x, a - 2 * t), a + 4 * t) for x in row]
    return sum(clipped) / n + noise(rng, budget, share, 6 * t / n)


ROW = np.array([-40.0, 2.1, 2.9, 3.0, 3.2, 3.3, 3.5, 60.0, 3.1, -1.0, 2.4])


@each_budget
def test_the_mean_against_a_loop(budget: Budget) -> None:
    rng = np.random.default_rng(1)
    naive = [naive_mean(rng, ROW.tolist(), 9.0, 0.5, 0.2, budget, 0.5) for _ in range(2000)]
    estimator = KarwaVadhanMean(radius=9.0, sigma=0.5, beta=0.2)
    found = run(estimator, DenseSample(np.tile(ROW, (10_000, 1))), budget).value
    assert same_law(np.array(naive), found)
    near = np.mean(np.abs(found - 3.0) < 3.0)
    assert 0.05 < near < 0.95  # neither certain nor hopeless


@each_budget
def test_the_scale_and_the_mean_that_rests_on_it_against_a_loop(budget: Budget) -> None:
    row, beta, low, high = [*ROW.tolist(), 3.0, 3.0], 0.1, 0.3, 20.0
    # Bins [2^j, 2^(j+1)) over the powers of two that reach beyond both bounds on sigma^2.
    start = math.floor(2 * math.log2(low)) - 1
    bins = math.ceil(2 * math.log2(high)) + 1 - start
    rng = np.random.default_rng(2)
    scales, means = [], []
    for _ in range(2000):
        y = [(a - b) ** 2 / 2 for a, b in zip(row[0:-1:2], row[1::2], strict=True)]
        counts = [0] * bins
        for square in y:
            j = math.floor(math.log2(square)) if square else start
            counts[min(max(j - start, 0), bins - 1)] += 1
        power = fullest(rng, counts, budget, 0.25)
        if power is None:
            scales.append(math.nan)
            means.append(math.nan)
            continue
        unit = 2.0 ** (power + start)
        width = 4 * unit * 2 * math.log(2 * len(y) / beta)
        mean = sum(min(square, width) for square in y) / len(y)
        variance = mean + noise(rng, budget, 0.25, width / len(y))
        scales.append(math.sqrt(min(max(variance, unit / 4), 8 * unit)))
        means.append(naive_mean(rng, row, 10.0, scales[-1], beta, budget, 0.25))
    estimator = LearnedGaussian(radius=10.0, sigma_low=low, sigma_high=high, beta=beta)
    found = run(estimator, DenseSample(np.tile(row, (10_000, 1))), budget)
    assert found.scale is not None
    assert same_law(np.array(scales), found.scale)
    assert same_law(np.array(means), found.value)
    np.testing.assert_array_equal(np.isnan(found.scale) <= np.isnan(found.value), True)


def test_a_known_sigma_is_the_scale() -> None:
    values, options = np.tile(ROW, (9, 1)), {"radius": 5.0, "sigma": 2.0, "beta": 0.2}
    known = run(LearnedGaussian(**options), values, PureDP(1.0))
    plain = run(KarwaVadhanMean(**options), values, PureDP(1.0))
    np.testing.assert_array_equal([known.value, known.scale], [plain.value, np.full(9, 2.0)])


def test_the_variance_is_kept_near_its_bin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within [2^(j-2), 2^(j+3)] if [2^j, 2^(j+1)) is the fullest, whatever the noise; j = 3."""

    def given(self: Ledger, values: Floats, sensitivity: Any, **_: Any) -> Floats:
        self.pay()
        return np.array([-1e9, 5.0, 1e9])

    monkeypatch.setattr(karwa_vadhan, "fullest_bin", lambda sample, *_: np.full(sample.trials, 3.0))
    monkeypatch.setattr(Ledger, "add_noise", given)
    found = run(LearnedGaussian(radius=5.0), np.zeros((3, 9)), PureDP(1.0))
    assert found.scale == pytest.approx([math.sqrt(2), math.sqrt(5), 8], rel=1e-12)


def test_edges_of_powers_of_two() -> None:
    bins = PowersOfTwo(1.0, -1000.0, 1000.0)
    j = np.arange(-1000, 1000)
    edges = np.exp2(j.astype(float))[None]
    np.testing.assert_array_equal(bins.index(edges)[0], j)
    # A logarithm cannot tell the last few numbers below a power from it.
    below = bins.index(edges * (1 - 1e-12))[0]
    np.testing.assert_array_equal(below, np.maximum(j - 1, -1000))
    np.testing.assert_array_equal(bins.index(edges * 1.999)[0], j)
    ends = np.array([[0.0, 5e-324, 1e-310, 1.7e308]])
    np.testing.assert_array_equal(bins.index(ends)[0], [-1000, -1000, -1000, 999])


@pytest.mark.parametrize(
    ("radius", "where", "budget"),
    [
        (1e12, -1e12, PureDP(1.0)),
        (1e300, 12345.6, ZCDP(0.1)),
        (None, 12345.6, ApproxDP(1.0, 1e-6)),
    ],
)
def test_far_data_are_found(radius: float | None, where: float, budget: Budget) -> None:
    sample = CountedSample([where - 1.0, where, where + 1.0], np.full((20, 3), 10**5))
    learned = LearnedGaussian(radius=radius, sigma_low=1e-3, sigma_high=1e3)
    for estimator in (KarwaVadhanMean(radius=radius), learned):
        found = run(estimator, sample, budget)
        # The noise's scale is below 6 t/(3e5/4) < 6e-4, and 4 times that for the analytic
        # Gaussian at a quarter of the budget: 20 scales, false-alarm probability 1e-7.
        assert np.all(np.abs(found.value - where) < 0.05 + 1e-15 * abs(where))
        if found.scale is not None:
            # Half the squared difference of a pair is 1/2 for most: [1/2, 1) is fullest.
            np.testing.assert_allclose(found.scale, math.sqrt(2 / 3), rtol=0.02)


@pytest.mark.parametrize("bounds", [(2.0, 1.0), (0.0, 1.0), (1.0, math.inf)])
def test_bounds_on_sigma_are_checked(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="sigma_"):
        LearnedGaussian(radius=1.0, sigma_low=bounds[0], sigma_high=bounds[1])


# Shrinking intervals: their widths, and their rounds against a loop.

SMALL: list[Budget] = [PureDP(0.7), ZCDP(0.05), ApproxDP(0.7, 1e-5, "classical")]


def widths_by_hand(
    n: int, radius: float, rounds: int, sigma: float, beta: float, budget: Budget
) -> list[float]:
    """Each new half width: 1 - miss quantiles of the sampling error and of the noise.

    An interval that would not be narrower is not drawn anew.
    """
    miss, w = beta / (2 * rounds), radius
    found = [radius]
    for share in round_shares(rounds):
        clip = w + sigma * math.sqrt(2 * math.log(2 * n / beta))
        sampling = stats.norm.isf(miss / 2, scale=sigma / math.sqrt(n))
        step = 2 * clip / n
        w = min(w, float(sampling + noise_law(budget.fraction(share), step, step).isf(miss / 2)))
        found.append(w)
    return found


@pytest.mark.parametrize("budget", SMALL, ids=name)
def test_half_widths(budget: Budget) -> None:
    for rounds, radius, sigma, beta in ((1, 0.0, 1.0, 0.1), (5, 40.0, 2.5, 0.01)):
        estimator = ShrinkingIntervals(radius=radius, rounds=rounds, sigma=sigma, beta=beta)
        for n in (1, 300, 10**12):
            wanted = widths_by_hand(n, radius, rounds, sigma, beta, budget)
            assert estimator.half_widths(n, budget) == pytest.approx(wanted, rel=1e-10, abs=0)


def test_the_number_of_rounds_by_default() -> None:
    for radius, sigma in ((0.0, 1.0), (1.7, 1.0), (1.72, 1.0), (1e300, 1.0), (50.0, 10.0)):
        rounds = len(ShrinkingIntervals(radius=radius, sigma=sigma).half_widths(9, PureDP(1.0))) - 1
        assert rounds == 2 + math.floor(math.log(1 + radius / sigma))


@pytest.mark.parametrize("budget", SMALL, ids=name)
@pytest.mark.parametrize("n", [3, 60, 900])  # no round, some or all of them shrink the interval
def test_rounds_against_a_loop(steps: list[Step], budget: Budget, n: int) -> None:
    radius, sigma = 20.0, 1.5
    values = np.random.default_rng(2).normal(5.0, 30.0, (40, n))
    estimator = ShrinkingIntervals(radius=radius, rounds=3, sigma=sigma, beta=0.2)
    found = run(estimator, values, budget, seed=1)
    widths = widths_by_hand(n, radius, 3, sigma, 0.2, budget)
    t = sigma * math.sqrt(2 * math.log(2 * n / 0.2))
    centre = np.zeros(40)
    for j, step in enumerate(steps):
        reach = widths[j] + t
        for row, c, mean in zip(values, centre, step.values, strict=True):
            wanted = sum(min(max(x, c - reach), c + reach) for x in row) / n
            assert mean == pytest.approx(wanted, rel=1e-12, abs=1e-10)
        assert step.sensitivity == pytest.approx(2 * reach / n, rel=1e-12)
        assert step.budget.amounts == pytest.approx(
            [a * round_shares(3)[j] for a in budget.amounts]
        )
        centre = step.released if widths[j + 1] < widths[j] else centre
    assert len(steps) == 3
    # Where no round shrinks the interval, the mean may be released outside of it.
    low, high = centre - widths[3], centre + widths[3]
    wanted = [min(max(x, a), b) for x, a, b in zip(steps[-1].released, low, high, strict=True)]
    np.testing.assert_allclose(found.value, wanted, rtol=1e-12)
    assert (n == 3) == (wanted != steps[-1].released.tolist())
    np.testing.assert_array_equal(found.before_noise, steps[-1].values)
    assert found.interval is not None
    np.testing.assert_allclose(found.interval[0], centre - widths[3], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.interval[1], centre + widths[3], rtol=1e-10, atol=1e-10)


def test_report_changes_nothing_but_what_is_reported(steps: list[Step]) -> None:
    sample = DenseSample(np.random.default_rng(3).normal(size=(6, 300)))
    options: dict[str, Any] = {"radius": 9.0, "rounds": 3, "sigma": 1.2, "beta": 0.05}
    widths = widths_by_hand(300, 9.0, 3, 1.2, 0.05, PureDP(1.0))
    assert widths == sorted(widths, reverse=True)
    usual: list[Step] = []
    for report in (1, 3, None):
        steps.clear()
        found = run(ShrinkingIntervals(**options, report=report), sample, PureDP(1.0))
        usual = usual or list(steps)
        for one, other in zip(steps, usual, strict=True):
            np.testing.assert_array_equal(one.released, other.released)
        step = usual[(report or 3) - 1]
        np.testing.assert_array_equal(found.value, step.released)
        np.testing.assert_array_equal(found.before_noise, step.values)
        assert found.interval is not None
        low, high = found.interval
        np.testing.assert_allclose(high - low, 2 * widths[report or 3], rtol=1e-12)
        np.testing.assert_allclose(high + low, 2 * step.released, rtol=1e-12)
    for report in (0, 4):
        with pytest.raises(ValueError, match="report"):
            ShrinkingIntervals(**options, report=report)
