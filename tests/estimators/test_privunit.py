"""Tests of PrivUnit against closed forms and simulations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from dpbench import PureDP
from dpbench.distributions import Hypercube
from dpbench.estimators import PrivUnitMean
from dpbench.estimators.privunit import (
    PrivUnitParameters,
    _draw_releases,
    _round_to_sphere,
    best_cap,
)
from dpbench.privacy import Ledger
from dpbench.samples import DenseSample
from dpbench.theory.exact.value import exact


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 50.0])
def test_in_three_dimensions_the_cap_is_known(epsilon: float) -> None:
    """For d = 3 W is uniform on [-1, 1], so q = (1-gamma)/2 and kappa = (1-gamma^2)/4.

    gamma (q + w) = kappa gives gamma^2 - 2 gamma (1 + 2w) + 1 = 0, so gamma = m = tanh(epsilon/4).
    """
    cap = best_cap(3, epsilon)
    assert cap.mean == pytest.approx(math.tanh(epsilon / 4), rel=1e-7)
    assert cap.share == pytest.approx((1 - math.tanh(epsilon / 4)) / 2, rel=1e-2, abs=1e-9)


@pytest.mark.parametrize("d", [2, 4, 17, 500])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 6.0])
def test_the_cap_is_private_and_unbiased(d: int, epsilon: float) -> None:
    """Check the ratio of the densities, and m by quadrature of the density of W over arccos W."""
    cap = best_cap(d, epsilon)
    ratio = cap.chance / cap.share * (1 - cap.share) / (1 - cap.chance)
    assert math.log(ratio) == pytest.approx(epsilon, rel=1e-9)
    gamma = 1 - 2 * float(special.betaincinv((d - 1) / 2, (d - 1) / 2, cap.share))
    edge, points = math.acos(gamma), [math.acos(gamma), math.pi / 2]

    def part(low: float, high: float, power: int) -> float:
        def density(a: float) -> float:
            return float(math.cos(a) ** power * math.sin(a) ** (d - 2))

        return float(integrate.quad(density, low, high, points=points, epsabs=0, limit=200)[0])

    whole = part(0, math.pi, 0)
    assert part(0, edge, 0) / whole == pytest.approx(cap.share, rel=1e-6)
    inside, outside = part(0, edge, 1) / whole, part(edge, math.pi, 1) / whole
    mean = cap.chance * inside / cap.share + (1 - cap.chance) * outside / (1 - cap.share)
    assert mean == pytest.approx(cap.mean, rel=1e-6)
    assert gamma == pytest.approx(cap.mean, rel=1e-3)  # the condition of the best cap
    law, n = Hypercube(d=d, length=2.0), 50
    exact_value = exact("rmse", PrivUnitMean(radius=3.0), law, n, PureDP(epsilon))
    assert exact_value == pytest.approx(math.sqrt((9 / cap.mean**2 - 4) / n), rel=1e-6)


@pytest.mark.parametrize("d", [2, 3, 9])
def test_what_is_released(d: int) -> None:
    """Releases are on the cap with probability p, and uniform on both sides of its edge.

    Kolmogorov-Smirnov on (1 - W)/2, and normal limits of means; false alarms 1e-6 in all.
    """
    rng, cap, draws = np.random.default_rng(0), best_cap(d, 1.0), 100_000
    unit = rng.standard_normal((draws, d))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    released = _draw_releases(unit, cap, rng)
    assert np.allclose(np.linalg.norm(released, axis=1), 1)
    level = special.betainc((d - 1) / 2, (d - 1) / 2, (1 - np.sum(released * unit, axis=1)) / 2)

    def law(u: Any) -> Any:
        inside = cap.chance * np.minimum(u / cap.share, 1)
        return inside + (1 - cap.chance) * np.maximum(u - cap.share, 0) / (1 - cap.share)

    assert stats.kstest(level, law).pvalue > 1e-7
    fixed = np.zeros((draws, d))
    fixed[:, 0], fixed[:, 1] = 0.3, -0.4  # the norm is 1/4 of the radius
    release = _draw_releases(_round_to_sphere(fixed, 2.0, rng), cap, rng) * (2.0 / cap.mean)
    z = (release.mean(axis=0) - fixed[0]) / (release.std(axis=0) / math.sqrt(draws))
    assert np.abs(z).max() < 5.7  # 1e-8 on each side


@pytest.mark.parametrize("length", [0.0, 5e-324, 1.7e308])
@pytest.mark.parametrize("d", [2, 4])
def test_every_record_is_released_on_the_sphere(d: int, length: float) -> None:
    """Every release has norm L/m, because another norm would reveal the record."""
    sample = DenseSample(np.full((50, 1, d), -length))
    rng = np.random.default_rng(0)
    released = PrivUnitMean(radius=2.0).run(sample, Ledger(PureDP(1.0), rng)).value
    norms = np.linalg.norm(released, axis=1)
    assert norms == pytest.approx(np.full(50, 2.0 / best_cap(d, 1.0).mean), rel=1e-12)


def test_errors_of_vectors() -> None:
    """The mean square of 2000 errors is within 5.6 standard errors: false alarms 2e-8 each."""
    rng, n, d = np.random.default_rng(0), 30, 5
    for length, radius in ((1.0, 1.0), (0.5, 2.0)):
        law, estimator = Hypercube(d=d, length=length), PrivUnitMean(radius=radius)
        sample = law.sample(rng, 2000, n)
        values = estimator.run(sample, Ledger(PureDP(1.0), rng)).value
        square = np.sum((values - sample.mean()) ** 2, axis=1)
        error = square.std() / math.sqrt(len(square))
        limit = exact("rmse", estimator, law, n, PureDP(1.0)) ** 2
        assert abs(square.mean() - limit) < 5.6 * error
        assert error < 0.02 * limit


def test_numbers_are_refused() -> None:
    ledger = Ledger(PureDP(1.0), np.random.default_rng(0))
    with pytest.raises(ValueError, match="vectors"):
        PrivUnitMean().run(DenseSample(np.zeros((1, 4, 1))), ledger)
    assert isinstance(best_cap(4, 1e4), PrivUnitParameters)
