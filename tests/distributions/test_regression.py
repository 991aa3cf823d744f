"""Features and a response against their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from dpbench.distributions import LinearModel
from tests.support import assert_follows, rng

LAW = LinearModel(d=4, norm=1.5, noise_sd=0.3)


def test_the_law() -> None:
    x = LAW.sample(rng(), 1, 20_000).values[0]
    features, noise = x[:, :-1], (x[:, -1] - x[:, :-1] @ LAW.theta) / LAW.noise_sd
    assert np.linalg.norm(LAW.theta) == pytest.approx(1.5)
    assert_follows(np.linalg.norm(features, axis=1) ** 3, stats.uniform())
    for v in np.eye(3):  # a direction's cosine is uniform for three features
        assert_follows(features @ v / np.linalg.norm(features, axis=1), stats.uniform(-1, 2))
    assert_follows(noise, stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)))
    # E x_1^2 in a ball of three dimensions, by quadrature: 1/5
    square = integrate.quad(lambda r: 3 * r**2 * r**2 / 3, 0, 1)[0]
    wanted = square * np.vstack([np.eye(3), LAW.theta])
    np.testing.assert_allclose(LAW.covariance[:, :-1], wanted, rtol=1e-12)
    assert LAW.covariance[-1, -1] == pytest.approx(square * 1.5**2 + 0.09)
    assert LAW.variance == pytest.approx(3 * square + LAW.covariance[-1, -1])
