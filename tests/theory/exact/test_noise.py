"""Tests of the distributions of additive noise, by quadrature."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from dpbench.privacy import ApproxDP
from dpbench.theory.exact.noise import Gaussian as Normal
from dpbench.theory.exact.noise import Laplace, Noise, Radial, additive
from tests.support import hockey_stick
from tests.theory.exact.cases import name


@pytest.mark.parametrize(
    ("noise", "law"),
    [(Normal(0.7), stats.norm(scale=0.7)), (Laplace(0.7), stats.laplace(scale=0.7))],
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


@pytest.mark.parametrize("delta", [1e-6, 0.3])
def test_the_analytic_gaussian_has_its_delta(delta: float) -> None:
    sd = additive(ApproxDP(1.0, delta, "analytic"), 1.0, 1.0).variance ** 0.5
    assert hockey_stick(sd, 1.0) == pytest.approx(delta, rel=1e-6)


def test_noise_of_a_radius() -> None:
    radius = stats.gamma(3, scale=0.7)
    quantile_and_mean = Radial(0.7).norm_quantile(3, 0.9), Radial(0.7).norm_mean(3)
    assert quantile_and_mean == pytest.approx((radius.ppf(0.9), radius.mean()))
