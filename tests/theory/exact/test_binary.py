"""Exact values of the interval of a binary mean, against enumeration and releases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpbench import distributions as dist
from dpbench.estimators import BinaryInterval
from dpbench.privacy import GDP, ApproxDP, PureDP
from dpbench.theory.exact.binary import count_tail, tulap_or_gaussian
from dpbench.theory.exact.value import exact


def test_the_tail_is_a_sum_over_counts() -> None:
    noise, s = tulap_or_gaussian(GDP(0.5)), np.arange(8)
    found = count_tail(np.array([3.2, 3.2]), 7, np.array([0.0, 0.4]), noise)
    whole = float(binom.pmf(s, 7, 0.4) @ norm.sf((3.2 - s) / 2))
    expected = np.array([float(norm.sf(1.6)), whole])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_pure_dp_is_a_small_delta() -> None:
    one, two = (tulap_or_gaussian(b) for b in (PureDP(0.5), ApproxDP(0.5, 1e-12)))
    x = np.linspace(-9, 9, 50)
    np.testing.assert_allclose(one.cdf(x), two.cdf(x), atol=1e-9)


def test_much_budget_leaves_the_interval_without_privacy() -> None:
    """At n = 2000 the exact interval is nearly the usual one, and noise of sd 1000 fills [0, 1]."""
    law, estimator = dist.Bernoulli(p=0.5), BinaryInterval()
    assert exact("width_ratio_q50", estimator, law, 2000, GDP(50.0)) == pytest.approx(1, rel=0.01)
    usual = 2 * norm.isf(0.05) * 0.5 / np.sqrt(100)
    widest = exact("width_ratio_q50", estimator, law, 100, GDP(1e-3))
    assert widest * usual == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("side", ["both", "lower", "upper"])
def test_misses_at_the_ends(side: str) -> None:
    expected = {"both": (0.1, 0.05), "lower": (0.1, 0.0), "upper": (0.0, 0.1)}[side]
    estimator = BinaryInterval(side=side)  # type: ignore[arg-type]
    found = [
        exact("miss_rate", estimator, dist.Bernoulli(p=p), 9, PureDP(1.0)) for p in (0.0, 1.0, 0.3)
    ]
    assert found[2] == 0.1
    assert tuple(found[:2]) == (expected if side != "both" else (0.05, 0.05))
    assert np.isnan(exact("width_ratio_q50", estimator, dist.Bernoulli(p=0.3), 3000, PureDP(1.0)))
