"""The bound of two coins against linear programs, the majority, and the bounds it joins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.theory.coins import coins_lower_bound, error_of_coins
from dpbench.theory.lower_bounds import bernoulli_lower_bound, fair_lower_bound


@pytest.mark.parametrize("n", [7, 30])
@pytest.mark.parametrize("h", [0.05, 0.2])
@pytest.mark.parametrize("budget", [PureDP(0.1), PureDP(1.0), ApproxDP(0.3, 0.05)])
def test_no_private_test_of_counts_is_better_and_the_best_is_near(
    budget: PureDP | ApproxDP, h: float, n: int
) -> None:
    """The best chances to say "leans to heads" at every number of heads, by linear programming."""
    grown, delta = math.exp(budget.epsilon), getattr(budget, "delta", 0.0)
    steps = np.vstack([np.eye(n + 1)[1:] - grown * np.eye(n + 1)[:-1]])
    steps = np.vstack([steps, np.eye(n + 1)[:-1] - grown * np.eye(n + 1)[1:]])
    limits = np.concatenate([np.full(2 * n, delta), np.full(2 * n, delta + grown - 1)])
    up, down = (binom.pmf(np.arange(n + 1), n, 0.5 + sign * h) for sign in (1, -1))
    found = linprog((down - up) / 2, A_ub=np.vstack([steps, -steps]), b_ub=limits, bounds=(0, 1))
    best = 0.5 + float(found.fun or 0.0)
    assert best * 0.999 <= error_of_coins(h, n, budget) * 1.001 <= best * 1.002


@pytest.mark.parametrize("budget", [GDP(0.3), ZCDP(0.045)])
def test_a_test_with_gaussian_noise_is_no_better(budget: Budget) -> None:
    n, h = 60, 0.1
    heads = np.arange(n + 1)
    wrong = binom.pmf(heads, n, 0.5 + h) @ norm.cdf((n / 2 - heads) * 0.3)
    assert 0.84 * wrong <= error_of_coins(h, n, budget) <= wrong + 1e-12


def test_it_joins_the_bounds_of_privacy_and_of_sampling() -> None:
    for n in (50, 51, 10**4):
        assert coins_lower_bound(n, PureDP(100.0)) == pytest.approx(fair_lower_bound(n), rel=1e-9)
    both = coins_lower_bound(10**5, PureDP(0.01))
    privacy, sampling = bernoulli_lower_bound(10**5, PureDP(0.01)), fair_lower_bound(10**5)
    assert 1.25 * max(privacy, sampling) < both < privacy + sampling
    assert error_of_coins(both, 10**5, PureDP(0.01)) == pytest.approx(0.1, rel=1e-6)
    assert coins_lower_bound(10, PureDP(0.01)) == 0.5
    assert math.isnan(coins_lower_bound(10**7, PureDP(0.01)))
    assert math.isnan(coins_lower_bound(10, NonPrivate()))
