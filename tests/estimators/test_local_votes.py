"""Votes: their privacy by tests of all pairs of records, their size, and the mean from votes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

import dpbench.estimators as est
from dpbench.arrays import Floats
from dpbench.estimators.local_votes import (
    GRADED_RATIO,
    TYPICAL_RATIO,
    _divergence_excess,
    _typical_sd,
    graded_votes,
    three_values,
)
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.samples import CountedSample
from tests.support import name, run


@pytest.mark.parametrize(
    "budget", [PureDP(0.3), PureDP(2.0), GDP(0.2), GDP(1.0), ZCDP(3.0)], ids=name
)
def test_a_release_of_three_values_is_private(budget: Budget) -> None:
    """Compare size and power of tests of all pairs of records, in fifths of the clip."""
    low, high = three_values(budget)
    x = np.linspace(-1, 1, 11)
    up, down = low + (high - low) * np.maximum(x, 0), low + (high - low) * np.maximum(-x, 0)
    laws = np.stack([up, 1 - up - down, down], axis=1)
    tests = np.array(list(itertools.product([0.0, 0.3, 1.0], repeat=3)))
    size, power = np.broadcast_arrays((laws @ tests.T)[:, None], (laws @ tests.T)[None])
    if isinstance(budget, PureDP):
        most = np.minimum(
            size * math.exp(budget.epsilon), 1 - (1 - size) / math.exp(budget.epsilon)
        )
    else:
        mu = budget.mu if isinstance(budget, GDP) else math.sqrt(2 * budget.named_amounts["rho"])
        most = norm.cdf(norm.ppf(np.clip(size, 0, 1)) + mu)
    assert np.all(power <= most + 1e-12)
    assert np.any(power[(size > 0) & (size < 1)] >= most[(size > 0) & (size < 1)] - 1e-12)


def vote_laws(budget: Budget, x: Floats) -> Floats:
    """The chances of up votes, down votes and no vote, for each record."""
    low, high, _ = graded_votes(budget)
    up = low + (high - low) * np.maximum(x, 0)[:, None]
    down = low + (high - low) * np.maximum(-x, 0)[:, None]
    return np.hstack([up, down, 1 - up.sum(axis=1)[:, None] - down.sum(axis=1)[:, None]])


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_graded_votes_are_gaussian_dp(mu: float) -> None:
    """The most powerful tests of all pairs of records, in fifths of the clip."""
    laws = vote_laws(GDP(mu), np.linspace(-1, 1, 11))
    assert np.all(laws > 0)
    tight = 0.0
    for p, q in itertools.permutations(laws, 2):
        order = np.argsort(-p / q)
        power, size = np.cumsum(p[order])[:-1], np.cumsum(q[order])[:-1]
        most = norm.cdf(norm.ppf(size) + mu)
        assert np.all(power <= most + 1e-12)
        tight = max(tight, float(np.max(power / most)))
    assert tight == pytest.approx(1, abs=1e-6)  # the last grade has no upper end


@pytest.mark.parametrize("rho", [1e-3, 0.5, 3.0])
def test_graded_votes_are_zcdp(rho: float) -> None:
    """Divergences of all pairs at many orders; the largest is within 1% of its limit."""
    laws = np.log(vote_laws(ZCDP(rho), np.linspace(-1, 1, 11)))
    orders = 1 + np.geomspace(1e-6, 1e3 / math.sqrt(rho), 400)
    worst = max(
        float(np.max(np.logaddexp.reduce(np.outer(orders, p) + np.outer(1 - orders, q), axis=1)
                     / (orders - 1) / orders))
        for p, q in itertools.permutations(laws, 2)
    )  # fmt: skip
    assert 0.985 * rho <= worst <= rho
    low, high, _ = graded_votes(ZCDP(rho))
    assert _divergence_excess(low, high, rho)[0] <= 1e-5 * rho  # the grid depends on the pairs
    assert _divergence_excess(low, 1.02 * high, rho)[0] > 0


@pytest.mark.parametrize(
    "budget",
    [GDP(0.1), GDP(1.0), GDP(30.0), ZCDP(1e-9), ZCDP(0.5), ZCDP(1e3), PureDP(1.0),
     ApproxDP(1.0, 1e-6)],
    ids=name,
)  # fmt: skip
def test_graded_votes_vary_less_than_three_values(budget: Budget) -> None:
    votes, three = graded_votes(budget), three_values(budget)
    before = float(_typical_sd(*three, GRADED_RATIO))
    assert votes.typical_sd(GRADED_RATIO) <= before * (1 + 1e-12)
    assert 2 * votes.low.sum() < 1
    assert votes.low.sum() + votes.high.sum() <= 1 + 1e-12
    if budget in (GDP(1.0), ZCDP(0.5)):
        ratio = votes.typical_sd(GRADED_RATIO) / before
        assert ratio == pytest.approx(0.79 if isinstance(budget, GDP) else 0.77, abs=0.005)
    if budget in (PureDP(1.0), ApproxDP(1.0, 1e-6)):
        assert votes.typical_sd(TYPICAL_RATIO) == pytest.approx(float(_typical_sd(*three)))


@pytest.mark.parametrize("budget", [GDP(1.0), ZCDP(0.5)], ids=name)
def test_a_mean_of_graded_votes(budget: Budget) -> None:
    """It is unbiased inside the clip, with the standard deviation of its votes."""
    n, trials = 10**6, 4000
    mean = est.LocalMean(k=3, scale=1, radius=0.5, mechanism="graded_votes")
    bound = 0.5 + mean.clipping_threshold(n, budget)
    assert (
        mean.clipping_threshold(n, budget)
        < est.LocalMean(k=3, scale=1, radius=0.5).clipping_threshold(n, budget) * 1.5
    )
    found = run(mean, CountedSample([0.25, 0.5], [[n // 2, n // 2]] * trials), budget).value
    sd = graded_votes(budget).typical_sd(0.375 / bound) * bound / math.sqrt(n)
    z = (found - 0.375) / sd
    assert abs(z.mean()) < 5 / math.sqrt(trials)
    assert z.std() == pytest.approx(1, abs=0.1)
