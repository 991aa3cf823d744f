"""Releases of mechanisms, each of which spends the budget once."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from scipy import stats

from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, OverdraftError, PureDP
from dpbench.privacy import ledger as module
from tests.privacy.ledgers import ledger
from tests.support import (
    assert_follows,
    assert_frequencies,
    exponential_epsilon,
    noise_law,
    pure_epsilon,
    row_norms,
)  # fmt: skip

BUDGETS: list[Budget] = [PureDP(0.8), ZCDP(0.1), GDP(0.7), ApproxDP(0.8, 1e-5)]
each = pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.notion)


MECHANISMS: dict[str, Callable[[Ledger, float], object]] = {
    "add_noise": lambda account, s: account.add_noise(np.zeros(2), s),
    "l1": lambda account, s: account.add_noise(np.zeros((2, 3)), 1.0, l1=s),
    "per trial": lambda account, s: account.add_noise(np.zeros(2), np.array([1.0, s])),
    "add_l2_noise": lambda account, s: account.add_l2_noise(np.zeros((2, 3)), s),
    "box": lambda account, s: account.add_joint_noise(np.zeros((2, 3)), s, base="box"),
    "ball": lambda account, s: account.add_joint_noise(np.zeros((2, 3)), s, base="ball"),
    "add_geometric_noise": lambda account, s: account.add_geometric_noise(np.zeros(2), s),
    "add_canonical_noise": lambda account, s: account.add_canonical_noise(np.zeros(2), s),
    "exponential": lambda account, s: account.exponential(np.zeros((2, 3)), s),
}


@each
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_a_mechanism_spends_the_budget_once(
    budget: Budget, mechanism: Callable[[Ledger, float], object]
) -> None:
    account = ledger(budget)
    for sensitivity in (math.inf, math.nan, -1.0):
        with pytest.raises(ValueError, match="sensitivity"):
            mechanism(account, sensitivity)
    assert account.spent == (0.0,) * len(budget.amounts)
    mechanism(account, 1.0)
    assert account.spent == pytest.approx(budget.amounts, rel=1e-15)
    with pytest.raises(OverdraftError, match="exceeds what is left"):
        mechanism(account, 1.0)
    assert account.spent == pytest.approx(budget.amounts, rel=1e-15)


# Releases.


@each
def test_the_exponential_mechanism_is_a_softmax(budget: Budget) -> None:
    scores, sensitivity = np.array([0.0, -1.0, 3.0, 2.5, -8.0]), 1.7
    epsilon = exponential_epsilon(budget)
    for weights in (np.ones(5), np.array([1.0, 5.0, 0.2, 0.1, 9.0])):
        wanted = np.exp(epsilon * scores / (2 * sensitivity)) * weights
        rows = np.tile(scores, (50_000, 1))
        chosen = ledger(budget, 7).exponential(rows, sensitivity, np.log(weights))
        assert_frequencies(np.bincount(chosen, minlength=5), wanted / wanted.sum())


@pytest.mark.parametrize("dimension", [1, 3, 20])
@each
def test_noise_in_l2(dimension: int, budget: Budget) -> None:
    times, sensitivity = 20_000, 2.5
    epsilon = pure_epsilon(budget)
    values = np.tile(1e3 * np.arange(dimension), (times, 1))
    noise = ledger(budget, 8).add_l2_noise(values, sensitivity) - values
    radius = row_norms(noise)
    assert_follows(radius, stats.gamma(dimension, scale=sensitivity / epsilon))
    if dimension == 3:
        for j in range(3):  # Archimedes: each coordinate is uniform on the sphere
            assert_follows(noise[:, j] / radius, stats.uniform(-1, 2))
        # Five standard deviations: false-alarm probability below 1e-6.
        together = float(stats.spearmanr(radius, noise[:, 0] / radius).statistic)
        assert abs(together) <= 5 / math.sqrt(times)


@pytest.mark.parametrize("base", ["box", "ball"])
@pytest.mark.parametrize("d", [1, 3])
def test_joint_noise(d: int, base: Literal["box", "ball"]) -> None:
    """Check that the norm of the noise is Gamma(d + 1), and points uniform on the cylinder."""
    times, epsilon = 20_000, 0.8
    values = np.tile(1e3 * np.arange(d + 1), (times, 1))
    noise = ledger(PureDP(epsilon), 8).add_joint_noise(values, 2.5, base=base) - values
    sides = abs(noise[:, :d]).max(axis=1) if base == "box" else row_norms(noise[:, :d])
    norm = np.maximum(sides, abs(noise[:, d]))
    assert_follows(norm, stats.gamma(d + 1, scale=2.5 / epsilon))
    # A share 1/(d + 1) of a cylinder is nearest to an end: five standard deviations, 1e-6.
    ends = np.mean(abs(noise[:, d]) == norm)
    assert abs(ends - 1 / (d + 1)) <= 5 * math.sqrt(d / times) / (d + 1)
    rest = abs(noise[:, d]) < norm
    assert_follows((noise[:, d] / norm)[rest], stats.uniform(-1, 2))
    if base == "ball":
        assert_follows((sides / norm)[~rest] ** d, stats.uniform(0, 1))
        if d == 3:
            assert_follows(noise[:, 0] / sides, stats.uniform(-1, 2))


@each
def test_geometric_noise(budget: Budget) -> None:
    epsilon = budget.pure_epsilon
    noise = ledger(budget, 9).add_geometric_noise(np.full(50_000, 7.0), 2) - 7
    decay, inner = math.exp(-epsilon / 2), np.arange(-9, 10)
    inside = (1 - decay) / (1 + decay) * decay ** abs(inner)
    wanted = np.concatenate([[(1 - inside.sum()) / 2], inside, [(1 - inside.sum()) / 2]])
    assert_frequencies(np.bincount(np.clip(noise + 10, 0, 20).astype(int), minlength=21), wanted)


def test_geometric_noise_is_for_whole_numbers() -> None:
    """Check that fractions are refused, because the noise would not hide them."""
    for counts, sensitivity in ((np.array([0.5]), 1.0), (np.array([1.0]), 0.0)):
        with pytest.raises(ValueError, match="whole numbers of a sensitivity above 0"):
            ledger(PureDP(1.0), 0).add_geometric_noise(counts, sensitivity)


@each
def test_a_sensitivity_per_trial_scales_the_noise_of_that_trial(budget: Budget) -> None:
    values, sensitivity = np.array([5.0, -1.0, 0.0, 7.0]), np.array([0.0, 1e-3, 2.0, 1e9])
    for draws in (1, 5):
        unit = ledger(budget, 4).add_noise(np.zeros(4), 1.0, draws=draws)
        found = ledger(budget, 4).add_noise(values, sensitivity, draws=draws)
        np.testing.assert_allclose(found, values + sensitivity * unit, rtol=1e-12)
        assert np.all(unit != 0)
    l2 = np.tile([[0.1], [1.0], [30.0], [7.0]], (4000, 1))
    for l1, factor in ((None, math.sqrt(3)), (1.5 * l2, 1.5)):  # l1 is at most sqrt(d) l2
        noise = ledger(budget, 6).add_noise(np.zeros((16_000, 3)), l2, l1=l1) / l2
        for trial in range(4):
            assert_follows(noise[trial::4], noise_law(budget, factor, 1.0))


# The receipt.


@pytest.mark.parametrize("sensitivity", [0.0, 5e-324])
def test_a_sensitivity_that_underflows_has_noise(sensitivity: float) -> None:
    """Check that noise has all digits, because a release with few digits reveals the value."""
    values, rng = np.zeros((1000, 2)), np.random.default_rng(0)
    one = values[:, 0]

    def pure() -> Ledger:
        return Ledger(PureDP(1.0), rng)

    for released in (
        pure().add_noise(one, sensitivity),
        pure().add_noise(values, sensitivity, l1=sensitivity),
        Ledger(ZCDP(0.5), rng).add_noise(one, sensitivity),
        pure().add_l2_noise(values, sensitivity),
        pure().add_joint_noise(values, sensitivity, base="box"),
        pure().add_smooth_noise(one, sensitivity, 0.1),
    ):
        assert np.unique(released).size == released.size


def test_the_example_runs() -> None:
    assert doctest.testmod(module) == (0, 8)


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
def test_the_last_count_is_chosen_if_none_is_above(noise: module.ThresholdNoise) -> None:
    """Noise that exceeds 1e6 scales has a probability below 1e-400000."""
    low, passing = np.full((20, 4), -1e6), np.tile([-1e6, 1e6, -1e6, 1e6], (20, 1))
    ledgers = [Ledger(PureDP(2.0), np.random.default_rng(0)) for _ in range(3)]
    assert set(ledgers[0].above_threshold(low, 1.0, 0.0, noise=noise)) == {3}
    assert set(ledgers[1].above_threshold(passing, 1.0, 0.0, noise=noise)) == {1}
    both = ledgers[2].above_opposite_thresholds((low, passing), 1.0, 0.0, noise=noise)
    assert both.tolist() == [[3, 1]] * 20
