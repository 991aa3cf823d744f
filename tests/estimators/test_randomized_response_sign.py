"""Tests of the mean by one bit of every record, against exact values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from dpbench import PureDP
from dpbench.distributions import Gaussian
from dpbench.estimators import RandomizedResponseSignMean
from dpbench.privacy import Ledger
from dpbench.theory.exact.value import exact

TRIALS = 3000


@pytest.mark.parametrize(
    ("n", "epsilon", "radius", "mu"),
    [(2000, 1.0, 10.0, 1.3), (400, 0.5, 3.0, 0.0), (300, 2.0, 0.0, 0.0), (900, 4.0, 2.0, -1.9)],
)
def test_the_sign_errs_as_computed(n: int, epsilon: float, radius: float, mu: float) -> None:
    """The share of errors below the exact 0.9 quantile is 0.9; false alarms 1e-6 over the cases.

    Randomised response at 2 epsilon would give other shares in the first three cases.
    """
    rng = np.random.default_rng(0)
    estimator = RandomizedResponseSignMean(radius=2 * radius, sigma=2.0)
    law = Gaussian(location=2 * mu, scale=2.0)
    sample = law.sample(rng, TRIALS, n)
    values = estimator.run(sample, Ledger(PureDP(epsilon), rng)).value
    quantile = exact("q90", estimator, law, n, PureDP(epsilon))
    within = int(np.count_nonzero(np.abs(values - law.mean) <= quantile))
    # Errors are on a lattice, whose points have probability below 0.01.
    assert stats.binomtest(within, TRIALS, 0.9).pvalue > 2.5e-7 or (
        stats.binomtest(within, TRIALS, 0.91).pvalue > 2.5e-7
    )


def test_the_constant_of_the_sign() -> None:
    """The variance is (pi/2) sigma^2/(n tanh(epsilon/2)^2), but for the records of the centre."""
    law, n = Gaussian(location=1.3), 10**10
    for epsilon in (0.5, 1.0, 4.0):
        exact_value = exact(
            "q90", RandomizedResponseSignMean(radius=10, sigma=1), law, n, PureDP(epsilon)
        )
        limit = special.ndtri(0.95) * math.sqrt(math.pi / 2 / n) / math.tanh(epsilon / 2)
        assert exact_value == pytest.approx(limit, rel=1e-3)
        # At small n the records that locate the centre cost more than 3 per cent of the error.
        assert exact(
            "q90", RandomizedResponseSignMean(radius=10, sigma=1), law, 10**3, PureDP(epsilon)
        ) > 1.03 * (limit * math.sqrt(n / 10**3))
