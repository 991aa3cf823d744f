"""Tests of the distribution of an average of a few records."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincinv

from dpbench.theory.exact.averages import average_of_few


def test_a_skewed_average_is_that_of_exponential_records() -> None:
    # A sum of n exponential records of mean 1 has a Gamma(n) distribution. Exponential records are
    # the limit of a Pareto distribution, less its lower end, for a large tail index.
    values = (np.arange(20_000) + 0.5) / 500
    weights = np.exp(-values) / np.exp(-values).sum()
    for n in (3, 40, 2000):
        points, shares = average_of_few(values, weights, n, 0.0)
        quantiles = np.interp([0.01, 0.1, 0.5, 0.9, 0.99], np.cumsum(shares) - shares / 2, points)
        expected = gammaincinv(n, [0.01, 0.1, 0.5, 0.9, 0.99]) / n
        np.testing.assert_allclose(quantiles, expected, atol=4e-3 / np.sqrt(n))
