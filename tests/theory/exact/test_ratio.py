"""Tests of the tail of a sum of two Laplace noises, and of errors of vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad

from dpbench.estimators import NormalizedSumMean, TransformedNoiseMean
from dpbench.privacy import PureDP
from dpbench.theory.exact.ratio import laplaces_above, vector_rmse


@pytest.mark.parametrize(("a", "c"), [(1.0, 0.3), (1.0, 1.0), (0.2, 5.0), (1.0, 1 + 1e-9), (2, 0)])
def test_the_tail_of_a_sum_of_two_laplaces(a: float, c: float) -> None:
    """Integrate P(X > t - y) over the density of Y."""
    for t in (-3.0, 0.0, 0.4, 6.0):

        def above(y: float, t: float = t) -> float:
            z = t - y * c
            tail = np.exp(-abs(z) / a) / 2
            return float((tail if z > 0 else 1 - tail) * np.exp(-abs(y)) / 2)

        breaks = sorted({0.0, t / c if c else 0.0})
        ends = [-60.0, *breaks, 60.0]
        by_parts = sum(quad(above, *end)[0] for end in itertools.pairwise(ends))
        tail_sum = laplaces_above(np.array(t), np.array(a), np.array(c))
        assert tail_sum == pytest.approx(by_parts, abs=1e-8)


def test_vectors_without_noise_err_by_sampling() -> None:
    """Compare with the sampling error, E|average - mean|^2 = d s^2/n."""
    budget = PureDP(1e6, neighbours="add_remove")
    for estimator in (TransformedNoiseMean(), NormalizedSumMean(region="ball")):
        rmse = vector_rmse(estimator, np.array([0.1, 0.0, -0.2, 0.1]), 0.01, 10**4, budget)
        assert rmse == pytest.approx(0.01 * np.sqrt(4 / 10**4), rel=1e-3)
