"""Thresholds of clipped means of heavy-tailed data, and releases in the local model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import dpbench.estimators as est
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from tests.support import FALSE_ALARM, name, off_by, run

# The bias of clipping, and the threshold.


@pytest.mark.parametrize("budget", [PureDP(0.01), ZCDP(1e-4), ApproxDP(0.01, 1e-6)], ids=name)
@pytest.mark.parametrize(
    ("k", "n", "radius"), [(2, 10**12, 0.0), (2.5, 1000, 3.0), (6, 10**6, 40.0)]
)
@pytest.mark.parametrize("beta", [0.05, 0.7])
def test_the_minimax_threshold_is_the_minimiser(
    budget: Budget, k: float, n: int, radius: float, beta: float
) -> None:
    estimator = est.TunedClippedMean(k=k, scale=1, beta=beta, radius=radius)
    threshold = estimator.clipping_threshold(n, budget)

    def worst(t: float) -> float:
        return off_by(worst_clipping_bias(t, k), radius + t, n, beta, budget)

    assert worst(threshold) < min(worst(f * threshold) for f in (0.5, 0.999, 1.001, 2.0))
    if not radius:
        (needed,) = estimator.private_terms(worst(threshold), beta, 1e9, budget).values()
        assert needed == pytest.approx(n, rel=1e-6)


def test_thresholds_of_the_other_policies() -> None:
    n, eps = 10_000, 0.02
    for estimator, expected in (
        (
            est.TunedClippedMean(k=3, scale=1, policy="ksu20_order", beta=0.01, c=0.4),
            0.4 * (n * eps) ** (1 / 3),
        ),
        (est.TunedClippedMean(k=2, scale=1, policy="keep_all", beta=0.04), math.sqrt(n / 0.04)),
        (est.TunedClippedMean(k=2, scale=1, threshold=7.5), 7.5),
        (est.LocalMean(k=2, scale=1, beta=0.01, policy="ksu20_order"), (n * eps**2) ** 0.25),
    ):
        threshold = estimator.clipping_threshold(n, PureDP(eps))
        assert threshold == pytest.approx(expected)


@pytest.mark.parametrize(("k", "threshold"), [(2, 0.9), (3, 5.0), (6, 1e4), (200.0, 1.1)])
def test_the_worst_bias_is_attained_and_never_exceeded(threshold: float, k: float) -> None:
    worst = worst_clipping_bias(threshold, k)

    def bias(x: float) -> float:
        """Return E(|X| - T)_+ for |X| = x with the largest probability at k-th moment 1, else 0."""
        return min(1.0, math.pow(x, -k)) * max(0.0, x - threshold)

    worst_x = k * threshold / (k - 1)
    assert bias(worst_x) == pytest.approx(worst, rel=1e-12, abs=0)
    assert max(bias(worst_x * f) for f in np.geomspace(0.1, 10, 2001)) <= worst * (1 + 1e-12)


@pytest.mark.parametrize("budget", [PureDP(0.01), ZCDP(1e-4)], ids=name)
def test_the_noise_of_the_local_mean(budget: Budget) -> None:
    n, trials = 500, 40_000
    estimator = est.LocalMean(k=3, scale=1, radius=0.5)
    width = 2 * (0.5 + estimator.clipping_threshold(n, budget))
    sd = budget.noise_quantile(2 * float(stats.norm.sf(1)))
    variance = 2 / 0.01**2 if isinstance(budget, PureDP) else sd**2
    z = run(estimator, np.zeros((trials, n)), budget).value / math.sqrt(variance * width**2 / n)
    # z-tests with false-alarm probability 1e-6; excess kurtosis is 3/n or 0.
    limit = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(z.mean()) <= limit / math.sqrt(trials)
    assert abs((z**2).mean() - 1) <= limit * math.sqrt((2 + 3 / n) / trials)


RESPONSE = est.LocalMean(k=3, scale=1, radius=0.5, mechanism="randomised_response")


@pytest.mark.parametrize(
    ("estimator", "budget", "sd"),
    [
        (est.LocalMean(k=3, scale=1, radius=0.5), PureDP(0.3), 2 * math.sqrt(2) / 0.3),
        (est.LocalMean(k=3, scale=1, radius=0.5), ZCDP(0.02), 2 / 0.2),
        (RESPONSE, PureDP(0.3), (math.exp(0.3) + 1) / math.expm1(0.3)),
    ],
    ids=["laplace", "gaussian", "response"],
)
def test_the_local_threshold_is_the_minimiser(
    estimator: est.LocalMean, budget: Budget, sd: float
) -> None:
    n = 10**6
    threshold = estimator.clipping_threshold(n, budget)

    def worst(t: float) -> float:
        sd_of_mean = sd * (0.5 + t) / math.sqrt(n)
        centre = worst_clipping_bias(t, 3) / sd_of_mean
        return sd_of_mean * float(np.sqrt(stats.ncx2.isf(0.1, 1, centre**2)))

    assert worst(threshold) < min(worst(f * threshold) for f in (0.5, 0.999, 1.001, 2.0))


@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_a_randomised_response_is_private_and_unbiased(epsilon: float) -> None:
    """The largest ratio of probabilities of an answer is e^epsilon, and the mean is x."""
    budget, trials = PureDP(epsilon), 20_000
    bound = 0.5 + RESPONSE.clipping_threshold(1, budget)
    away = bound * (math.exp(epsilon) + 1) / math.expm1(epsilon)
    # z-tests with false-alarm probability 1e-6
    limit = stats.norm.isf(FALSE_ALARM / 2) / 2 / math.sqrt(trials)
    for x in (-1e9, 0.3, bound, 1e9):
        value = run(RESPONSE, np.full((trials, 1), x), budget).value
        assert np.abs(value) == pytest.approx(away)
        chance = (1 + max(-bound, min(x, bound)) / away) / 2
        assert abs(float(np.mean(value > 0)) - chance) <= limit
        odds = chance / (1 - chance)
        assert odds <= math.exp(epsilon) * (1 + 1e-12)
        assert abs(x) < 1e9 or odds ** math.copysign(1, x) == pytest.approx(math.exp(epsilon))
