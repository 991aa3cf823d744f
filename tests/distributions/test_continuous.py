"""Continuous distributions against quadrature, and their samples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from dpbench.distributions import (
    Beta,
    ContaminatedGaussian,
    Distribution,
    Gaussian,
    Hyperexponential,
    LogNormal,
    Pareto,
    StudentT,
)
from dpbench.samples import DenseSample
from tests.support import assert_follows, rng


@dataclass(frozen=True)
class Oracle:
    """Distribution, its components as weighted scipy distributions, and kinks of its density."""

    law: Distribution
    parts: list[tuple[float, Any]]
    bends: list[float]

    def cdf(self, x: Any) -> Any:
        return sum(w * part.cdf(x) for w, part in self.parts)

    def expect(self, f: Callable[[float], float]) -> float:
        return sum(
            w * integrate.quad(lambda x, p=part: f(x) * p.pdf(x), a, b, epsrel=1e-11, limit=400)[0]
            for w, part in self.parts
            for a, b in itertools.pairwise(self.bends)
        )


INF = math.inf
STUDENT = stats.t(5.5, loc=-2, scale=0.5)
PARETO = stats.pareto(4.5, loc=3 - 2 * 4.5 / 3.5, scale=2)
UNIT_PARETO = 1 / stats.pareto(3.2).std()  # its scale
CONTINUOUS = [
    Oracle(Gaussian(location=1.5, scale=2.0), [(1.0, stats.norm(1.5, 2))], [-INF, 1.5, INF]),
    Oracle(StudentT(tail_index=5.5, location=-2.0, scale=0.5), [(1.0, STUDENT)], [-INF, -2.0, INF]),
    Oracle(
        Pareto(tail_index=4.5, location=3.0, scale=2.0),
        [(1.0, PARETO)],
        [PARETO.ppf(0), 3.0, 10.0, INF],
    ),
    Oracle(
        LogNormal(sigma=0.8, location=-1.0, scale=2.0),
        [(1.0, stats.lognorm(0.8, loc=-1, scale=2))],
        [-1.0, -1 + 2 * math.exp(0.32), 10.0, 100.0, INF],
    ),
    Oracle(
        ContaminatedGaussian(eta=0.1, gap=8.0, spread=0.5, location=2.0, scale=3.0),
        [(0.9, stats.norm(2, 3)), (0.1, stats.norm(26, 1.5))],
        [-40.0, 2.0, 4.4, 20.0, 26.0, 45.0],
    ),
    Oracle(
        Beta(a=2.0, b=8.0, location=-1, scale=4),
        [(1.0, stats.beta(2, 8, -1, 4))],
        [-1.0, -0.2, 1.0, 3.0],
    ),
    Oracle(
        Hyperexponential(p=0.2, ratio=15.0, location=3.8 * 0.5 - 2, scale=0.5),
        [(0.8, stats.expon(-2, 0.5)), (0.2, stats.expon(-2, 7.5))],
        [-2.0, 3.8 * 0.5 - 2, 10.0, INF],
    ),
    Oracle(
        Pareto(tail_index=3.2, standardised_moment=2.0),
        [(1.0, stats.pareto(3.2, loc=-UNIT_PARETO * 3.2 / 2.2, scale=UNIT_PARETO))],
        [-UNIT_PARETO / 2.2, 0.0, 10.0, INF],
    ),
]
each = pytest.mark.parametrize("oracle", CONTINUOUS, ids=lambda o: type(o.law).__name__)


@each
def test_mean_and_moments_against_quadrature(oracle: Oracle) -> None:
    law, tail = oracle.law, getattr(oracle.law, "tail_index", INF)
    mean = float(law.mean)
    # sums of signed parts: the tolerance is on the scale of E|X|
    assert abs(oracle.expect(lambda x: x) - mean) <= 1e-9 * oracle.expect(abs)
    assert law.variance == law.moment(2)
    assert tail == INF or law.moment(tail) == INF
    for k in (2, 2.5, 4):
        if tail - k >= 0.6:  # else the integrand is too close to x^-1 for the quadrature
            wanted = oracle.expect(lambda x, k=k: abs(x - mean) ** k)  # type: ignore[misc]
            assert law.moment(k) == pytest.approx(wanted, rel=1e-8, abs=0)


@each
def test_samples_follow_the_cdf(oracle: Oracle) -> None:
    sample = oracle.law.sample(rng(1), 4, 25_000)
    assert isinstance(sample, DenseSample)
    assert (sample.trials, sample.n, sample.d) == (4, 25_000, oracle.law.d)
    assert_follows(sample.values, oracle)


def distance(delta: float, ratio: float) -> float:
    """Return half of the integral of |phi - density of N(delta, ratio^2)|, at quantiles of both."""
    u = np.linspace(-9, 9, 60_001)
    z = np.sort(np.concatenate([u, delta + ratio * u]))
    gap = np.abs(stats.norm.pdf(z) - stats.norm.pdf(z, delta, ratio))
    return float(np.trapezoid(gap, z) / 2)


def test_distances_between_gaussians_against_quadrature() -> None:
    """Compare distances of far, near and nearly equal Gaussians, of larger and smaller width."""
    widths = (1.0, 1 + 1e-12, 1 - 1e-9, 1.01, 0.02, 3.0)
    pairs = [*itertools.product((0.0, 1e-3, -1.0, 2.5, 30.0), widths)]
    delta, ratio = np.array(pairs).T
    law = Gaussian(location=170.0, scale=8.0)
    found = law.distance_to_gaussian(170 + 8 * delta, 8 * ratio)
    # 170 + 8e-6 has lost 4e-9 of its delta.
    np.testing.assert_allclose(found, [distance(*pair) for pair in pairs], rtol=1e-6, atol=1e-9)
    assert np.all((found >= 0) & (found <= 1))
    # It is a distance: from N(0, 1) to N(d, r^2) as back, and the same for -d.
    unit = Gaussian().distance_to_gaussian(delta, ratio)
    np.testing.assert_allclose(Gaussian().distance_to_gaussian(-delta, ratio), unit, atol=1e-12)
    zero, one = np.zeros(1), np.ones(1)
    back = [Gaussian(location=d, scale=r).distance_to_gaussian(zero, one)[0] for d, r in pairs]
    np.testing.assert_allclose(back, unit, rtol=1e-9, atol=1e-9)
    # At the ends: the same law, laws apart, those whose squares overflow, and no release.
    mean, sd = [170.0, 1e9, -1e200, 170.0, 170.0, np.nan, 170.0], [8.0, 8, 8, 1e-12, 0, 8, np.nan]
    with np.errstate(all="ignore"):
        ends = law.distance_to_gaussian(np.array(mean), np.array(sd))
    np.testing.assert_allclose(ends, [0, 1, 1, 1, 1, np.nan, np.nan], rtol=1e-9)
    assert ends[0] == 0


def test_the_target_of_a_beta_law_is_its_mean_and_not_its_lower_end() -> None:
    law = Beta(a=2.0, b=8.0, location=-1, scale=4)
    assert law.target == law.mean == pytest.approx(-0.2)
