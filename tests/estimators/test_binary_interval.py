"""The exact interval of a binary mean: coverage, sides, and agreement with the exact values."""

from __future__ import annotations

import numpy as np
import pytest

from dpbench import distributions as dist
from dpbench import release
from dpbench.estimators import BinaryInterval, Interval, Intervals, binary_p_value
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.samples import CountedSample, DenseSample
from dpbench.theory.exact.binary import tulap_or_gaussian
from dpbench.theory.exact.value import exact
from tests.support import assert_follows, rng

BUDGETS = [PureDP(0.5), ApproxDP(0.3, 0.02), GDP(0.6), ZCDP(0.3)]
each = pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.notion)
N, TRIALS = 12, 10_000


def intervals(p: float, budget: Budget, side: str, seed: int = 1) -> Intervals:
    """Return intervals for fresh datasets of N records."""
    ones = rng(seed).binomial(N, p, TRIALS)
    sample = CountedSample([0.0, 1.0], np.stack([N - ones, ones], axis=1))
    estimator = BinaryInterval(beta=0.2, side=side)  # type: ignore[arg-type]
    estimate = estimator.run(sample, Ledger(budget, rng(seed + 1)))
    assert estimate.interval is not None
    assert estimate.miss == 0.2
    return Intervals(*estimate.interval, estimate.value, estimate.miss)


@each
@pytest.mark.parametrize("side", ["both", "lower", "upper"])
def test_coverage_is_exact_at_every_mean(budget: Budget, side: str) -> None:
    """Compare with the stated probability, 5 standard deviations (false alarm 6e-7)."""
    for p in (0.0, 0.04, 0.5, 1.0):
        low, high = intervals(p, budget, side)
        misses = np.mean((low > p) | (high < p))
        law = dist.Bernoulli(p=p)
        expected = exact("miss_rate", BinaryInterval(beta=0.2, side=side), law, N, budget)  # type: ignore[arg-type]
        assert expected == 0.2 or p in (0.0, 1.0)
        spread = np.sqrt(expected * (1 - expected) / TRIALS)
        assert misses == pytest.approx(expected, abs=5 * spread)
        assert np.all(low <= high)
        assert np.all(low >= 0)
        assert np.all(high <= 1)
        assert np.all(low == 0) or side != "upper"
        assert np.all(high == 1) or side != "lower"


@each
def test_widths_and_errors_are_the_exact_values(budget: Budget) -> None:
    found = intervals(0.3, budget, "both")
    law, estimator = dist.Bernoulli(p=0.3), BinaryInterval(beta=0.2)
    usual = 2 * 1.2815515655446004 * np.sqrt(0.21 / N)
    width = exact("width_ratio_q50", estimator, law, N, budget)
    assert np.median(found.high - found.low) / usual == pytest.approx(width, rel=0.01)
    rmse = exact("rmse", estimator, law, N, budget)
    assert np.sqrt(np.mean((found.estimate - 0.3) ** 2)) == pytest.approx(rmse, rel=0.03)
    assert exact("bias", estimator, law, N, budget) == 0
    one = release(estimator, np.zeros(N), budget, rng=rng(), repeats=4000)
    noise = np.asarray(one) * N
    assert_follows(noise, tulap_or_gaussian(budget))
    q90 = np.quantile(np.abs(noise), 0.9) / N
    assert q90 == pytest.approx(exact("noise_q90", estimator, law, N, budget), rel=0.1)
    assert np.isnan(exact("width_ratio_q50", estimator, dist.Gaussian(), N, budget))
    assert np.isnan(exact("q90", estimator, law, N, budget))


def test_the_interval_is_the_set_of_means_that_tests_accept() -> None:
    records, budget = np.repeat([0.0, 1.0], [14, 26]), GDP(0.5)
    interval = release(BinaryInterval(), records, budget, rng=rng(3))
    assert isinstance(interval, Interval)
    low, high = interval
    for end, alternative in ((low, "greater"), (high, "less")):
        p_value = binary_p_value(interval, 40, end, budget, alternative)  # type: ignore[arg-type]
        assert p_value == pytest.approx(0.05, rel=1e-6)
    assert binary_p_value(interval, 40, (low + high) / 2, budget) > 0.05


def test_counts_are_as_good_as_records() -> None:
    dense = DenseSample(np.repeat([[0.0, 1.0]], [7, 3], axis=1))
    counted = CountedSample([0.0, 1.0], [[7, 3]])
    one, two = (
        BinaryInterval().run(sample, Ledger(PureDP(1.0), rng(2))) for sample in (dense, counted)
    )
    assert one.value == two.value
    assert one.before_noise == two.before_noise == 0.3
    np.testing.assert_array_equal(one.interval, two.interval)


def test_a_noise_factor_narrows_the_interval() -> None:
    """Halved noise is accounted for, so that audits see no other change."""
    sample = CountedSample([0.0, 1.0], np.tile([500, 500], (300, 1)))
    usual, half = (
        BinaryInterval().run(sample, Ledger(GDP(0.02), rng(4), noise_factor=factor))
        for factor in (1.0, 0.5)
    )
    assert usual.interval is not None
    assert half.interval is not None
    widths = [np.median(high - low) for low, high in (usual.interval, half.interval)]
    assert widths[1] == pytest.approx(0.55 * widths[0], rel=0.1)


def test_a_half_counts_as_a_one() -> None:
    records = np.array([[0.0, 0.5, np.nextafter(0.5, 0), 1.0, 0.49]])
    estimate = BinaryInterval().run(DenseSample(records), Ledger(PureDP(1.0), rng(2)))
    assert estimate.before_noise == pytest.approx([2 / 5])
