"""PolyPlace noise: its privacy by ratios of densities, and its distribution by quadrature."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad

from dpbench.privacy.polyplace import draw
from dpbench.privacy.smooth import student_shift
from dpbench.theory.exact.instance_noise import _PolyPlaceNoise
from tests.support import Floats, assert_follows, rng

each_a = pytest.mark.parametrize("a", [1.1, 2.5, 5.0, 40.0])  # a = epsilon/t


def log_density(x: Floats, a: float) -> Floats:
    """Return the log-density up to a constant, for a scale of 1."""
    near = (a - 1) * np.log1p(-np.minimum(np.abs(x), 1 / a))
    far = (a + 1) * np.log((1 + np.maximum(np.abs(x), 1 / a)) / (1 + 1 / a))
    return np.asarray(near - far)


@each_a
def test_no_neighbour_is_told_apart_by_more_than_epsilon(a: float) -> None:
    """Compare X and e^u X + v for |u| <= t and |v| <= t min(1, e^u), with t = 1 and t = 1/10."""
    x = np.concatenate([-np.geomspace(1e-8, 1e5, 4001)[::-1], np.geomspace(1e-8, 1e5, 4001)])
    for t in (1.0, 0.1):
        losses = []
        for u, share in itertools.product(np.linspace(-t, t, 9), np.linspace(-1, 1, 9)):
            v = share * t * min(1.0, np.exp(u))
            moved = log_density((x - v) * np.exp(-u), a) - u
            losses.append(np.abs(moved - log_density(x, a)).max())
        assert 0.999 * a * t < max(losses) < a * t * (1 + 1e-9)


@each_a
def test_the_condition_holds_with_equality_at_every_point(a: float) -> None:
    """Check that |x B - 1| + B = a for the slope B, so that no density falls faster."""
    x = np.geomspace(1e-3, 1e3, 500)
    x = x[np.abs(x - 1 / a) > 1e-4]
    slope = (log_density(x - 1e-6 * x, a) - log_density(x + 1e-6 * x, a)) / (2e-6 * x)
    np.testing.assert_allclose(np.abs(x * slope - 1) + slope, a, rtol=1e-5)


@each_a
def test_the_distribution_is_the_integral_of_the_density(a: float) -> None:
    t = 0.7

    def mass(low: float, high: float) -> float:
        return quad(lambda x: float(np.exp(log_density(np.array(x), a))), low, high)[0]

    half = mass(0, 1 / a) + mass(1 / a, np.inf)
    law = _PolyPlaceNoise(a * t, t)
    for x in (0.3 / a, 1 / a, 3 / a, 20 / a):
        inside = mass(0, min(x, 1 / a)) + (mass(1 / a, x) if x > 1 / a else 0.0)
        expected = [0.5 + inside / half / 2, 0.5 - inside / half / 2]
        np.testing.assert_allclose(law.cdf(np.array([x, -x]) / t), expected, atol=1e-8)
    assert 1 - law.cdf(np.array(law.upper_end)) < 1e-6


@pytest.mark.parametrize("share", [1e-3, 0.03, 0.2, 0.3])
def test_it_is_smaller_than_students_noise(share: float) -> None:
    """Compare 0.9 quantiles of the absolute noises at one rate t = share epsilon."""
    noise = np.abs(draw(rng(), (200_000,), 1.0, share))
    student = 2.353363 / student_shift(1.0, share)
    assert np.quantile(noise, 0.9) < 0.87 * student


def test_it_tends_to_laplace_noise() -> None:
    x = np.linspace(-8, 8, 101)
    laplace = np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)
    np.testing.assert_allclose(_PolyPlaceNoise(1.0, 1e-6).cdf(x), laplace, atol=1e-4)
    drawn = draw(rng(), (50_000,), 2.0, 1e-9)
    assert np.mean(np.abs(drawn)) == pytest.approx(0.5, rel=0.03)


@each_a
def test_draws_follow_the_distribution(a: float) -> None:
    """Draws near 0 and in the tail; false-alarm probability 1e-6."""
    assert_follows(draw(rng(1), (100_000,), a * 0.7, 0.7), _PolyPlaceNoise(a * 0.7, 0.7))
