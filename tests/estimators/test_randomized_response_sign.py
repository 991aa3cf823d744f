"""The mean by one bit of every record, against what is computed."""

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
    """By the share of errors below the 0.9 quantile; false alarms 1e-6 over the cases.

    A p of e^(2 epsilon)/(1 + e^(2 epsilon)) gives other shares in the first three.
    """
    rng = np.random.default_rng(0)
    estimator = RandomizedResponseSignMean(radius=2 * radius, sigma=2.0)
    law = Gaussian(location=2 * mu, scale=2.0)
    sample = law.sample(rng, TRIALS, n)
    found = estimator.run(sample, Ledger(PureDP(epsilon), rng)).value
    quantile = exact("q90", estimator, law, n, PureDP(epsilon))
    within = int(np.count_nonzero(np.abs(found - law.mean) <= quantile))
    # Errors are on a lattice that is finer than 0.01 of the probability.
    assert stats.binomtest(within, TRIALS, 0.9).pvalue > 2.5e-7 or (
        stats.binomtest(within, TRIALS, 0.91).pvalue > 2.5e-7
    )


def test_the_constant_of_the_sign() -> None:
    """(pi/2) sigma^2 ((e^epsilon + 1)/(e^epsilon - 1))^2/n, but for what finds the centre."""
    law, n = Gaussian(location=1.3), 10**10
    for epsilon in (0.5, 1.0, 4.0):
        found = exact("q90", RandomizedResponseSignMean(radius=10), law, n, PureDP(epsilon))
        limit = special.ndtri(0.95) * math.sqrt(math.pi / 2 / n) / math.tanh(epsilon / 2)
        assert found == pytest.approx(limit, rel=1e-3)
        # From the first answers on alone it would be far off.
        assert exact(
            "q90", RandomizedResponseSignMean(radius=10), law, 10**3, PureDP(epsilon)
        ) > 1.03 * (limit * math.sqrt(n / 10**3))
