"""Tests of the distributions of additive noise, by quadrature."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from dpbench.arrays import Floats
from dpbench.privacy import ApproxDP, PureDP
from dpbench.theory.exact.instance_noise import PiecewiseUniform
from dpbench.theory.exact.noise import (
    Cube,
    GaussianNoise,
    Laplace,
    LaplaceSum,
    Noise,
    Radial,
    Staircase,
    Tulap,
    additive,
    box_noise,
)
from dpbench.theory.exact.vectors import chi_sum_quantile
from tests.support import hockey_stick
from tests.theory.exact.cases import name


@pytest.mark.parametrize(
    ("noise", "law"),
    [(GaussianNoise(0.7), stats.norm(scale=0.7)), (Laplace(0.7), stats.laplace(scale=0.7))],
    ids=name,
)
def test_noise_by_quadrature(noise: Noise, law: Any) -> None:
    nodes, weights = np.polynomial.legendre.leggauss(200)
    angles, weights = np.pi / 4 * (nodes + 1), np.pi / 4 * weights

    def within(r: float) -> float:  # P(norm <= r): |x| = r sin(angle), |y| <= r cos(angle)
        x, other_bound = r * np.sin(angles), r * np.cos(angles)
        return float(4 * weights @ (law.pdf(x) * (law.cdf(other_bound) - 0.5) * other_bound))

    for c in (0.0, 0.3, -2.0):
        ends = sorted([-30, 0, -c, 30])
        parts = [
            integrate.quad(lambda z, c=c: abs(c + z) * law.pdf(z), *interval)[0]
            for interval in itertools.pairwise(ends)
        ]
        assert noise.distance(np.array(c)) == pytest.approx(sum(parts), rel=1e-6)
    assert noise.cdf(np.array([-1.0, 0.4])) == pytest.approx(law.cdf([-1.0, 0.4]))
    assert (noise.isf(0.02), noise.variance) == pytest.approx((law.isf(0.02), law.var()))
    assert within(noise.norm_quantile(2, 0.9)) == pytest.approx(0.9, abs=1e-6)
    mean = integrate.quad(lambda r: 1 - within(r), 0, 20, epsabs=1e-7)[0]
    assert noise.norm_mean(2) == pytest.approx(mean, rel=1e-5)


EVERY_NOISE: list[Noise] = [
    GaussianNoise(0.7), Laplace(0.7), LaplaceSum((0.3, 1.0)), Cube(0.4, 3), Staircase(0.3, 2.0),
    Staircase(4.0, 0.5), Tulap(1.0, 0.1, 2.0), Tulap(3.0, 1e-6, 1.0),
    PiecewiseUniform(np.array([-2.0, -1.0, 0.5, 3.0]), np.array([0.0, 0.2, 0.7, 1.0])),
]  # fmt: skip


@pytest.mark.parametrize("noise", EVERY_NOISE, ids=name)
def test_moments_and_quantiles_are_those_of_the_distribution_function(noise: Noise) -> None:
    """E Z^2 and E|c + Z| are integrals of tails, here sums over a fine grid."""
    end = 60.0 * float(np.sqrt(noise.variance))
    x = (np.arange(600_000) + 0.5) * end / 600_000

    def integrate_tails(weight: Floats | float, c: float = 0.0) -> float:
        return float(np.sum(weight * (1 - noise.cdf(x - c) + noise.cdf(-x - c))) * end / x.size)

    assert noise.variance == pytest.approx(integrate_tails(2 * x), rel=1e-5)
    shifts = np.array([0.0, 0.4, -1.7])
    expected = [integrate_tails(1.0, c) for c in shifts]
    np.testing.assert_allclose(noise.distance(shifts), expected, rtol=1e-5)
    for upper in (0.3, 0.05, 1e-4):
        assert noise.cdf(np.array(noise.isf(upper))) == pytest.approx(1 - upper, abs=1e-9)
    if not isinstance(noise, PiecewiseUniform):
        assert noise.cdf(np.zeros(1)) == pytest.approx([0.5])


@pytest.mark.parametrize("scales", [(1.0,), (0.5, 2.0), (0.3, 1.0, 1.1), (1.0, 1.0), (2.0,) * 3])
def test_a_sum_of_laplace_variables_by_its_characteristic_function(scales: Any) -> None:
    """P(|Z| <= x) is 2/pi times the integral of phi(t) sin(t x)/t, by inversion (Gil-Pelaez)."""
    noise, t = LaplaceSum(scales), np.arange(5e-4, 1000, 1e-3)
    phi = np.prod([1 / (1 + (scale * t) ** 2) for scale in scales], axis=0)
    for x in (0.1, 1.0, 5.0):
        within = 2 / np.pi * 1e-3 * np.sum(phi * np.sin(t * x) / t)
        found = noise.cdf(np.array([x, -x]))
        assert found[0] - found[1] == pytest.approx(within, abs=2e-4)
    assert 1 - noise.cdf(np.array([noise.isf(0.05)]))[0] == pytest.approx(0.05, rel=1e-6)
    tiny = LaplaceSum(tuple(1e-14 * scale for scale in scales))
    assert tiny.isf(0.05) / 1e-14 == pytest.approx(noise.isf(0.05), rel=1e-9)
    assert noise.variance == pytest.approx(2 * sum(scale**2 for scale in scales))
    z = np.linspace(-60, 60, 240_001)  # E|c + Z| is the integral of its tails
    levels = noise.cdf(z)
    distance = (np.sum(levels[z < -0.7]) + np.sum(1 - levels[z >= -0.7])) * (z[1] - z[0])
    assert noise.distance(np.array(0.7)) == pytest.approx(distance, rel=1e-3)


def test_a_norm_of_normal_numbers_of_two_variances() -> None:
    """Two and two: the square is 2 vE + 2 wF for exponential E, F, with tails in closed form."""
    for v in (1.0, 1e-14):
        x = chi_sum_quantile(2, v, 2, 3 * v) ** 2 / v
        assert (3 * np.exp(-x / 6) - np.exp(-x / 2)) / 2 == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize("d", [1, 3, 8])
def test_the_norm_of_a_normal_vector_is_a_chi_number(d: int) -> None:
    """In two dimensions several wrong means agree, because Gamma(1) = Gamma(2)."""
    chi = stats.chi(d, scale=0.7)
    assert GaussianNoise(0.7).norm_mean(d) == pytest.approx(chi.mean(), rel=1e-12)
    assert GaussianNoise(0.7).norm_quantile(d, 0.9) == pytest.approx(chi.ppf(0.9), rel=1e-12)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_levels_of_laplace_norms_reach_to_one(d: int) -> None:
    """P(norm > x) <= d P(|Z| > x/sqrt(d)) bounds what is left beyond the last level."""
    for x in (12.0, 30.0):
        left = 1 - Laplace(1.0).norm_cdf(d, np.array([x]))[0]
        assert abs(left) <= d * math.exp(-x / math.sqrt(d)) + 1e-5
    if d > 1:
        x = Laplace(1.0).norm_quantile(d, 0.999)
        assert Laplace(1.0).norm_cdf(d, np.array([x])) == pytest.approx(0.999, abs=1e-4)


@pytest.mark.parametrize("delta", [1e-6, 0.3])
def test_the_analytic_gaussian_has_its_delta(delta: float) -> None:
    sd = additive(ApproxDP(1.0, delta, "analytic"), 1.0, 1.0).variance ** 0.5
    assert hockey_stick(sd, 1.0) == pytest.approx(delta, rel=1e-6)


def test_noise_of_a_radius() -> None:
    radius = stats.gamma(3, scale=0.7)
    quantile_and_mean = Radial(0.7).norm_quantile(3, 0.9), Radial(0.7).norm_mean(3)
    assert quantile_and_mean == pytest.approx((radius.ppf(0.9), radius.mean()))


def test_the_noise_of_a_square() -> None:
    """In two dimensions max(|x|, |y|) is |u| + |v| at x = u + v, y = u - v: two Laplace numbers."""
    square, laplace, root = Cube(0.7, 2), Laplace(0.7), math.sqrt(2)
    for q in (0.1, 0.5, 0.9, 0.99):
        expected = root * laplace.norm_quantile(2, q)
        assert square.norm_quantile(2, q) == pytest.approx(expected, rel=1e-5)
    assert square.norm_mean(2) == pytest.approx(root * laplace.norm_mean(2), rel=1e-5)
    assert square.norm_rms(2) == pytest.approx(root * laplace.norm_rms(2), rel=1e-12)
    x = np.array([0.0, 0.4, 3.0])
    tail = (0.5 + x / 2.8) * np.exp(-x / 0.7)  # of the sum of two Laplace numbers
    np.testing.assert_allclose([1 - square.cdf(x), square.cdf(-x)], [tail, tail], rtol=1e-12)
    assert np.isnan([square.norm_quantile(3, 0.9), square.norm_mean(3)]).all()


def test_the_noise_of_a_cube() -> None:
    """Given the max norm r, one of three coordinates is r, and the others are uniform."""
    cube, side = Cube(0.7, 3), (np.arange(300) + 0.5) / 300
    length = 0.7 * np.sqrt(1 + np.add.outer(side**2, side**2)).ravel()
    for q in (0.5, 0.9):
        x = cube.norm_quantile(3, q)
        assert stats.gamma(3).cdf(x / length).mean() == pytest.approx(q, abs=1e-5)
        assert cube.norm_cdf(3, np.array([x])) == pytest.approx(q, abs=3e-3)
    assert cube.norm_mean(3) == pytest.approx(3 * length.mean(), rel=1e-5)
    upper = cube.isf(0.02)
    assert cube.cdf(np.array([upper, -upper])) == pytest.approx([0.98, 0.02])
    z = np.linspace(-30, 30, 600_001)
    weights = np.gradient(cube.cdf(z))
    assert cube.variance == pytest.approx(weights @ z**2, rel=1e-6)
    for c in (0.0, 0.3, -2.0):
        assert cube.distance(np.array(c)) == pytest.approx(weights @ np.abs(c + z), rel=1e-6)


def test_the_noise_of_a_clipped_vector_is_the_quieter_one() -> None:
    assert box_noise(PureDP(2.0), 5, 3.0) == Cube(1.5, 5)
    assert box_noise(PureDP(2.0), 1, 3.0) == Laplace(1.5)
    assert box_noise(ApproxDP(2.0, 1e-6), 2, 3.0) == Cube(1.5, 2)
    for d in (49, 50, 51, 52):
        noise = box_noise(ApproxDP(1.0, 1e-6), d, 1.0)
        assert isinstance(noise, Cube) == (d <= 50)
        assert noise.variance <= min(
            Cube(1.0, d).variance, d * additive(ApproxDP(1.0, 1e-6, "analytic"), 1, 1).variance
        ) * (1 + 1e-12)


def test_the_norm_of_one_number_is_its_absolute_value() -> None:
    noise = additive(ApproxDP(1.0, 1e-3, "tulap"), 1.0, 1.0)
    x = noise.norm_quantile(1, 0.9)
    assert noise.norm_cdf(1, np.array([x]))[0] == pytest.approx(0.9, rel=1e-9)
