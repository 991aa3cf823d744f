"""Hourglass noise: its privacy and its distribution, by enumeration of the density."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dpbench.privacy import GDP, Ledger, PureDP
from dpbench.privacy.hourglass import _shape, draw
from dpbench.theory.exact.ratio import Hourglass
from tests.support import Floats, assert_follows, rng

each_epsilon = pytest.mark.parametrize("epsilon", [0.4, 1.0, 3.0, 10.0])


def levels(z: Floats, j: Any, g: float) -> Floats:
    """Return the level, by trying all l >= |j| of the parity of j until |z| <= 2g + l."""
    level: Floats = np.abs(j) + 0.0 * z
    while (short := np.abs(z) > 2 * g + level).any():
        level = level + 2 * short
    return level


def stairs_variance(epsilon: float, g: float) -> float:
    """Return the variance of a density constant up to g, and lower by e^-epsilon each unit."""
    k = np.arange(int(60 / epsilon) + 3)
    low, high, height = np.where(k == 0, 0.0, g + k - 1), g + k, np.exp(-epsilon * k)
    return float(height @ (high**3 - low**3) / 3 / (height @ (high - low)))


@pytest.mark.parametrize("g", [0.0, 0.03, 0.26, 0.5])
def test_the_level_moves_by_at_most_one(g: float) -> None:
    """Move every (z, j) of a grid by (c, 1) and by (c, -1), for all c in [-1, 1]."""
    j, z, c = (
        np.arange(-6, 7)[:, None, None],
        np.arange(-10, 10, 0.21)[:, None],
        np.linspace(-1, 1, 41),
    )
    moved = [levels(z + c, j + step, g) - levels(z, j, g) for step in (1, -1)]
    assert {float(np.abs(move).max()) for move in moved} == {1.0}
    assert np.abs(levels(z + c, j, g) - levels(z, j, g)).max() == 2  # so the count has to move


@each_epsilon
def test_both_sums_have_staircase_noise(epsilon: float) -> None:
    """Add the density over the counts, along lines on which S, or T, is constant."""
    g = _shape(epsilon)[2]
    j, x = np.arange(-200, 201), np.arange(-6, 6, 0.097)[:, None]
    expected = np.exp(-epsilon * np.maximum(np.ceil(np.abs(x[:, 0]) - g), 0))
    for z in (2 * x - j, j - 2 * x):
        density = np.exp(-epsilon * levels(z, j, g)).sum(axis=1)
        np.testing.assert_allclose(density / density.max(), expected, rtol=1e-9)


@each_epsilon
def test_no_staircase_has_a_smaller_variance(epsilon: float) -> None:
    least = minimize_scalar(
        lambda g: stairs_variance(epsilon, g), bounds=(0, 1), options={"xatol": 1e-9}
    )
    b, y, g = _shape(epsilon)
    assert g == pytest.approx(least.x, abs=1e-4)
    variance = (y**2 + b) / (1 - b) ** 2
    assert variance == pytest.approx(least.fun, rel=1e-9)
    published = (2 ** (-2 / 3) * b ** (2 / 3) * (1 + b) ** (2 / 3) + b) / (1 - b) ** 2  # GV14
    assert variance == pytest.approx(published, rel=1e-12)
    assert variance < 2 / epsilon**2  # Laplace noise


@each_epsilon
def test_draws_have_the_density(epsilon: float) -> None:
    """Compare S, T and weighted differences of them with `Hourglass` (false alarm 1e-6 each)."""
    z, j = draw(rng(), 30_000, epsilon).T
    assert np.array_equal(j, np.round(j))
    law = Hourglass(epsilon)
    for one in ((j + z) / 2, (j - z) / 2):
        assert_follows(one, law)
    for r in (0.25, 0.5, 0.9):
        t = np.sort((1 - r) * (j + z) / 2 - r * (j - z) / 2)
        # The distribution at r = 1/2 is continuous, because it is the distribution of z/2.
        gap = np.abs(1 - law.above(t, np.array(r)) - np.arange(t.size) / t.size).max()
        assert gap < np.sqrt(np.log(2 / 1e-6) / (2 * t.size)) + 1 / t.size


@each_epsilon
def test_the_two_formulas_agree(epsilon: float) -> None:
    """Compare the distribution of S with the sum over all counts, at r = 0."""
    x, law = np.linspace(-4, 4, 101), Hourglass(epsilon)
    np.testing.assert_allclose(1 - law.cdf(x), law.above(x, np.array(0.0)), atol=1e-12)


def test_small_and_large_epsilon() -> None:
    """Check the limits: Laplace noise, and no noise."""
    for epsilon in (1e-9, 1e-3):
        noise = draw(rng(), 20_000, epsilon)
        assert np.mean(noise.sum(axis=1) ** 2) / 4 * epsilon**2 == pytest.approx(2, rel=0.2)
    assert np.abs(draw(rng(), 1000, 1e6)).max() < 1e-20


def test_what_the_ledger_refuses() -> None:
    add_remove = PureDP(1.0, neighbours="add_remove")
    with pytest.raises(ValueError, match="no sensitivity is stated for neighbours: replace"):
        Ledger(PureDP(1.0), rng()).add_hourglass_noise(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="whole numbers of records"):
        Ledger(add_remove, rng()).add_hourglass_noise(np.full((3, 2), 0.5))


def test_the_ledger_pays_and_scales_the_noise() -> None:
    values = np.full((500, 2), 7.0)
    for budget in (PureDP(0.5, neighbours="add_remove"), GDP(0.5, neighbours="add_remove")):
        one, half = (Ledger(budget, rng(), noise_factor=factor) for factor in (1.0, 0.5))
        whole, halved = (ledger.add_hourglass_noise(values) - 7 for ledger in (one, half))
        assert one.spent == pytest.approx(budget.amounts)
        np.testing.assert_allclose(whole, draw(rng(), 500, budget.pure_epsilon), atol=1e-12)
        np.testing.assert_allclose(halved[:, 0], whole[:, 0] / 2, atol=1e-12)
        np.testing.assert_array_equal(halved[:, 1], np.rint(whole[:, 1] / 2))
