"""The stationary autoregression: its moments, its correlations and the variance of a mean."""

from __future__ import annotations

import numpy as np
import pytest

from dpbench.distributions import AutoregressiveGaussian
from dpbench.samples import DenseSample
from tests.support import rng

TRIALS = 20_000


@pytest.mark.parametrize("c", [-0.6, 0.0, 0.9])
def test_each_record_is_normal_and_correlated_with_the_next(c: float) -> None:
    """Averages of 20,000 products, with sds of 0.01: 0.07 is exceeded in less than 1e-10."""
    sample = AutoregressiveGaussian(correlation=c).sample(rng(), TRIALS, 5)
    assert isinstance(sample, DenseSample)
    lags = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    products = np.einsum("ti,tj->ij", sample.values, sample.values) / TRIALS
    assert np.abs(products - c**lags).max() < 0.07


@pytest.mark.parametrize("c", [-0.6, 0.0, 0.9])
def test_the_variance_of_a_mean_is_the_average_covariance(c: float) -> None:
    """Sum all n^2 covariances by a loop, and compare with draws.

    A variance of 20,000 means has a relative sd of 0.01; 0.05 is exceeded in less than 1e-6.
    """
    law, n = AutoregressiveGaussian(location=3.0, scale=2.0, correlation=c), 30
    pairs = sum(c ** abs(i - j) for i in range(n) for j in range(n))
    means = law.sample(rng(), TRIALS, n).mean()
    assert np.mean((means - 3.0) ** 2) == pytest.approx(4 * pairs / n**2, rel=0.05)
