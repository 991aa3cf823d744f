"""Tulap noise: its privacy, its distribution, and the noise of what is not one number."""

from __future__ import annotations

from decimal import Decimal, getcontext

import numpy as np
import pytest

from dpbench.privacy import ApproxDP
from dpbench.privacy.ledger import Ledger
from dpbench.privacy.tulap import upper_tail
from dpbench.seeds import canonical
from dpbench.theory.exact.noise import Tulap
from tests.support import Floats, assert_follows, rng

S = 0.7  # a sensitivity
each_budget = pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-3), (1.0, 1e-6), (2.0, 0.2), (6.0, 0.05), (0.5, 0.7)]
)


def tail(budget: ApproxDP, x: Floats) -> Floats:
    """Return P(X > x) at sensitivity 1, inverted from the quantiles that the budget returns.

    The quantiles are linear between steps, where the tail is c, b (c - delta), and so on.
    """
    b = np.exp(-budget.epsilon)
    steps = [0.5, (1 - budget.delta) * b / (1 + b)]
    while steps[-1] > budget.delta:
        steps.append(b * (steps[-1] - budget.delta))
    upper = np.unique([1e-300, *np.linspace(1e-6, 0.5, 1000), *steps])
    points = budget.noise_tail(upper, 1.0, 1.0)
    right = np.interp(np.abs(x), points[::-1], upper[::-1], right=0.0)
    return np.asarray(np.where(x < 0, 1 - right, right))


@each_budget
def test_no_event_gains_more_than_delta(epsilon: float, delta: float) -> None:
    """Check the best event at shifts up to 1, and that the shift 1 uses all of delta.

    The mass of cells of a grid, in place of densities, gives the hockey-stick divergence.
    """
    budget = ApproxDP(epsilon, delta, "tulap")
    for shift in (0.25, 0.5, 1.0):
        reach = 2 + np.ceil(float(budget.noise_tail(np.asarray(1e-12), 1.0, 1.0)))
        grid = np.linspace(-reach, reach, int(2 * reach) * 200 + 1)
        first, second = (-np.diff(tail(budget, grid - move)) for move in (0.0, shift))
        gain = np.maximum(first - np.exp(epsilon) * second, 0.0).sum()
        assert gain <= delta * (1 + 1e-9) + 1e-12
        if shift == 1.0:
            assert gain == pytest.approx(delta, rel=0.02)


@each_budget
def test_the_law(epsilon: float, delta: float) -> None:
    """Compare quantiles, moments and draws with the conditioned sum of AS18 (false alarm 1e-6)."""
    noise, budget = Tulap(epsilon, delta, S), ApproxDP(epsilon, delta, "tulap")
    for upper in (0.5, 0.4, 0.05, 1e-4, 1e-9):
        expected = budget.noise_tail(np.asarray(upper), S, S)
        assert noise.isf(upper) == pytest.approx(expected, rel=1e-7, abs=1e-12)
    generator, b = rng(), np.exp(-epsilon)
    first, second = generator.geometric(1 - b, (2, 100_000))
    summed = first - second + generator.uniform(-0.5, 0.5, 100_000)
    end = noise.isf(0.0) / S
    accepted = S * summed[np.abs(summed) < end]
    assert_follows(accepted, noise)
    assert_follows(Ledger(budget, rng()).add_noise(np.zeros(20_000), S), noise)
    u = (np.arange(200_000) + 0.5) / 200_000 / 2  # quantiles, for moments by another route
    x = np.asarray(budget.noise_tail(u, S, S))
    assert noise.variance == pytest.approx(np.mean(x**2), rel=1e-3)
    for c in (0.0, 0.3, -1.9, 1e3):
        expected = np.mean(np.abs(c + x) + np.abs(c - x)) / 2
        assert noise.distance(np.array([c])) == pytest.approx([expected], rel=1e-3)


def test_a_small_delta_gives_a_closed_variance() -> None:
    b = np.exp(-1.0)
    expected = 2 * b / (1 - b) ** 2 + 1 / 12
    assert Tulap(1.0, 1e-14, 1.0).variance == pytest.approx(expected, rel=1e-9)


def test_what_is_not_one_number_has_other_noise() -> None:
    """Vectors have the noise of ``best``; averages of several noises are Laplace noise."""
    canonical_noise, best = ApproxDP(1.0, 1e-6, "tulap"), ApproxDP(1.0, 1e-6)
    laplace = ApproxDP(1.0, 1e-6, "laplace")
    numbers, few, many = np.zeros(50), np.zeros((50, 2)), np.zeros((50, 30))
    for values, draws, other, same in (
        (numbers, 1, laplace, False), (numbers, 9, laplace, True),
        (few, 1, best, True), (many, 1, best, True),
    ):  # fmt: skip
        one, two = (
            Ledger(budget, rng()).add_noise(values, 1.0, draws=draws)
            for budget in (canonical_noise, other)
        )
        assert np.array_equal(one, two) == same


def test_extreme_budgets_draw_finite_noise() -> None:
    for epsilon, delta in ((1e6, 1e-6), (1e-9, 1e-6), (1e-9, 1e-300), (1.0, 1 - 1e-9)):
        drawn = Ledger(ApproxDP(epsilon, delta, "tulap"), rng()).add_noise(np.zeros(1000), 1.0)
        assert np.isfinite(drawn).all()
        assert drawn.any()


def test_the_noise_is_a_part_of_the_names_of_streams() -> None:
    tulap = 'ApproxDP{"delta": 0.1, "epsilon": 1.0, "noise_by": "tulap"}'
    assert canonical(ApproxDP(1.0, 0.1)) == tulap.replace(', "noise_by": "tulap"', "")
    assert canonical(ApproxDP(1.0, 0.1, "tulap")) == tulap
    assert ApproxDP(1.0, 0.1, "tulap").label == "approx_tulap"


def exact_end(epsilon: float, delta: float) -> float:
    """Return the largest Tulap noise in 450 digits, by adding steps of the density until 1/2."""
    getcontext().prec = 450
    b, c = (-Decimal(epsilon)).exp(), (1 - Decimal(delta)) / (1 + Decimal(epsilon).exp())
    height, tail, end = 1 - 2 * c, c, Decimal("0.5")
    while height * b < tail:
        height *= b
        tail, end = tail - height, end + 1
    return float(end + tail / (height * b))


@pytest.mark.parametrize("delta", [2.3e-308, 1e-300, 1e-200, 1e-20, 1e-6, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("epsilon", [1.0, 5.0, 36.0, 120.0, 200.0, 1e4, 1e6])
def test_the_noise_ends_at_a_finite_point_for_every_budget(epsilon: float, delta: float) -> None:
    """Products and ratios of e^-epsilon and delta underflow and overflow; the end does not."""
    noise = ApproxDP(epsilon, delta).canonical_noise
    expected = exact_end(min(epsilon, 200.0), delta)
    assert noise.end == pytest.approx(expected, rel=1e-9)
    points = noise.upper_quantile(np.array([5e-324, 1e-300, 1e-20, 0.4]))
    assert (np.diff(points) <= 0).all()
    assert 0 < points[-1] <= points[0] <= noise.end * (1 + 1e-12)
    assert np.isfinite(noise.draw(rng(0), (100,))).all()


@each_budget
def test_tails_between_steps_are_those_of_the_quantiles(epsilon: float, delta: float) -> None:
    x = np.linspace(-4, 4, 801)
    expected = tail(ApproxDP(epsilon, delta, "tulap"), x)
    np.testing.assert_allclose(upper_tail(x, epsilon, delta), expected, atol=1e-6)
