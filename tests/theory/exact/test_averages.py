"""Tests of the distribution of an average of a few records."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaincinv

from dpbench.distributions import Gaussian, UserLevelData
from dpbench.estimators import ClippedMean
from dpbench.privacy import PureDP
from dpbench.theory.exact.averages import average, average_of_few
from dpbench.theory.exact.value import exact


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


@pytest.mark.parametrize("n", [20, 500, 10**5])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_an_average_of_mirrored_records_is_mirrored(n: int, noise: float) -> None:
    """Skewness to the left counts as much as skewness to the right."""
    values = np.append(np.linspace(0, 3, 40) ** 3, 40.0)
    weights = np.exp(-values / 4) / np.exp(-values / 4).sum()
    for function in (average, average_of_few):
        here, there = function(values, weights, n, noise), function(-values, weights, n, noise)
        assert (here is None) == (there is None)
        if here is None or there is None:
            continue
        levels = [0.01, 0.1, 0.5, 0.9, 0.99]
        one, other = (
            np.interp(levels, np.cumsum(shares[order]) - shares[order] / 2, points[order])
            for points, shares in (here, there)
            for order in (np.argsort(points),)
        )
        np.testing.assert_allclose(one, -other[::-1], rtol=1e-3)


def test_a_mean_of_a_persons_normal_records_is_normal() -> None:
    """Four records of standard deviation 2 have a mean of standard deviation 1."""
    clip, budget = ClippedMean(lower=-1, upper=3), PureDP(1.0)
    of_people, of_records = (
        exact("q90", clip, law, 300, budget)
        for law in (
            UserLevelData(of=Gaussian(location=0.5, scale=2), m=4),
            Gaussian(location=0.5, scale=1),
        )
    )
    assert of_people == pytest.approx(of_records, rel=1e-9)
