"""Tests of distributions of whole numbers, by scipy's formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import BoundedZipf, ZeroTruncatedPoisson


@pytest.mark.parametrize("rate", [1e-3, 0.7, 8.0, 3000.0])
def test_a_poisson_law_without_zero(rate: float) -> None:
    law, poisson = ZeroTruncatedPoisson(rate=rate), stats.poisson(rate)
    numbers, probabilities = law.table
    assert probabilities == pytest.approx(poisson.pmf(numbers) / poisson.sf(0), rel=1e-8)
    mean = rate / poisson.sf(0)
    assert law.mean == pytest.approx(mean)
    assert law.variance == pytest.approx(mean * (1 + rate - mean), rel=1e-6)


def test_zipfs_law() -> None:
    law, zipf = BoundedZipf(exponent=1.5, largest=60), stats.zipfian(1.5, 60)
    numbers, probabilities = law.table
    assert probabilities == pytest.approx(zipf.pmf(numbers))
    assert (law.mean, law.variance) == pytest.approx(zipf.stats())
    sample = law.sample(np.random.default_rng(0), 3, 10_000)
    assert sample.counts.sum(axis=1).tolist() == [10_000] * 3
    away = (sample.mean() - law.mean) / np.sqrt(law.variance / 10_000)
    assert np.abs(away).max() < 5.5
    assert law.held(10**9) == 60
