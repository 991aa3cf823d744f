"""Shrinking intervals around a Gaussian mean: their widths, and rounds against a loop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.estimators import ShrinkingIntervals
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from dpbench.samples import DenseSample
from tests.conftest import Step
from tests.support import name, noise_law, round_shares, run

# Shrinking intervals: their widths, and their rounds against a loop.

SMALL: list[Budget] = [PureDP(0.7), ZCDP(0.05), ApproxDP(0.7, 1e-5, "classical")]


def widths_by_hand(
    n: int, radius: float, rounds: int, sigma: float, beta: float, budget: Budget
) -> list[float]:
    """Return the half-widths: 1 - miss quantiles of the sampling error plus the noise.

    An interval that would not be narrower is kept.
    """
    miss, w = beta / (2 * rounds), radius
    widths = [radius]
    for share in round_shares(rounds):
        clip = w + sigma * math.sqrt(2 * math.log(2 * n / beta))
        sampling = stats.norm.isf(miss / 2, scale=sigma / math.sqrt(n))
        step = 2 * clip / n
        w = min(w, float(sampling + noise_law(budget.fraction(share), step, step).isf(miss / 2)))
        widths.append(w)
    return widths


@pytest.mark.parametrize("budget", SMALL, ids=name)
def test_half_widths(budget: Budget) -> None:
    for rounds, radius, sigma, beta in ((1, 0.0, 1.0, 0.1), (5, 40.0, 2.5, 0.01)):
        estimator = ShrinkingIntervals(radius=radius, rounds=rounds, sigma=sigma, beta=beta)
        for n in (1, 300, 10**12):
            expected = widths_by_hand(n, radius, rounds, sigma, beta, budget)
            assert estimator.half_widths(n, budget) == pytest.approx(expected, rel=1e-10, abs=0)


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
    estimate = run(estimator, values, budget, seed=1)
    widths = widths_by_hand(n, radius, 3, sigma, 0.2, budget)
    t = sigma * math.sqrt(2 * math.log(2 * n / 0.2))
    centre = np.zeros(40)
    for j, step in enumerate(steps):
        reach = widths[j] + t
        for row, c, mean in zip(values, centre, step.values, strict=True):
            expected = sum(min(max(x, c - reach), c + reach) for x in row) / n
            assert c + mean == pytest.approx(expected, rel=1e-12, abs=1e-10)
        assert step.sensitivity == pytest.approx(2 * reach / n, rel=1e-12)
        assert step.budget.amounts == pytest.approx(
            [a * round_shares(3)[j] for a in budget.amounts]
        )
        released = centre + step.released  # noise is added to the distance from the centre
        before = centre + step.values
        centre = released if widths[j + 1] < widths[j] else centre
    assert len(steps) == 3
    # Where no round shrinks the interval, the mean may be released outside of it.
    low, high = centre - widths[3], centre + widths[3]
    expected = [min(max(x, a), b) for x, a, b in zip(released, low, high, strict=True)]
    np.testing.assert_allclose(estimate.value, expected, rtol=1e-12)
    assert (n == 3) == (expected != released.tolist())
    np.testing.assert_allclose(estimate.before_noise, before, rtol=1e-12)
    assert estimate.interval is not None
    np.testing.assert_allclose(estimate.interval[0], centre - widths[3], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(estimate.interval[1], centre + widths[3], rtol=1e-10, atol=1e-10)


def test_report_changes_nothing_but_what_is_reported(steps: list[Step]) -> None:
    sample = DenseSample(np.random.default_rng(3).normal(size=(6, 300)))
    options: dict[str, Any] = {"radius": 9.0, "rounds": 3, "sigma": 1.2, "beta": 0.05}
    widths = widths_by_hand(300, 9.0, 3, 1.2, 0.05, PureDP(1.0))
    assert widths == sorted(widths, reverse=True)
    first_steps: list[Step] = []
    for report in (1, 3, None):
        steps.clear()
        estimate = run(ShrinkingIntervals(**options, reported_round=report), sample, PureDP(1.0))
        first_steps = first_steps or list(steps)
        for current, first in zip(steps, first_steps, strict=True):
            np.testing.assert_array_equal(current.released, first.released)
        # Noise is added to the distance from the centre, which is the sum of the earlier ones.
        *earlier, step = first_steps[: report or 3]
        centre = sum((each.released for each in earlier), np.zeros(6))
        np.testing.assert_allclose(estimate.value, centre + step.released, rtol=1e-12)
        assert estimate.before_noise is not None
        np.testing.assert_allclose(estimate.before_noise, centre + step.values, rtol=1e-12)
        assert estimate.interval is not None
        low, high = estimate.interval
        np.testing.assert_allclose(high - low, 2 * widths[report or 3], rtol=1e-12)
        np.testing.assert_allclose(high + low, 2 * (centre + step.released), rtol=1e-12)
    for report in (0, 4):
        with pytest.raises(ValueError, match="report"):
            ShrinkingIntervals(**options, reported_round=report)
