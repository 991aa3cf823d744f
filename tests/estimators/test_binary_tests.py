"""Exact tests of a proportion: size, unbiasedness, and power against linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from dpbench.estimators.binary_tests import LARGEST_N, binary_limit, binary_p_value
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.theory.exact.binary import count_tail, tulap_or_gaussian
from tests.support import Floats, hockey_stick

BUDGETS = [PureDP(0.6), ApproxDP(0.3, 0.05), ApproxDP(1.0, 1e-6), GDP(0.7), ZCDP(0.3)]
each = pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.notion)


def tails(x: float, n: int, p: Floats, budget: Budget) -> Floats:
    """Return P_p(T >= x), by scipy and the noise of the theory."""
    return count_tail(np.full(len(p), x), n, p, tulap_or_gaussian(budget))


def cuts(n: int, p: float, budget: Budget, alternative: Any, alpha: float) -> list[float]:
    """Return the noisy counts at which the p-value crosses alpha, by three nested searches."""
    points, found = np.linspace(-40, n + 40, 61), []

    def crossings(x: Floats) -> list[tuple[float, float]]:
        rejected = binary_p_value(x / n, n, p, budget, alternative) <= alpha
        return [(x[i], x[i + 1]) for i in np.flatnonzero(rejected[1:] != rejected[:-1])]

    for wide in crossings(points):
        for narrow in crossings(np.linspace(*wide, 61)):
            found += [sum(last) / 2 for last in crossings(np.linspace(*narrow, 61))]
    return found


@each
@pytest.mark.parametrize(("n", "p"), [(1, 0.5), (7, 0.1), (40, 0.37)])
def test_the_size_is_exact(budget: Budget, n: int, p: float) -> None:
    for alpha in (0.05, 0.3):
        (cut,) = cuts(n, p, budget, "greater", alpha)
        assert tails(cut, n, np.array([p]), budget) == pytest.approx(alpha, abs=1e-3)
        (cut,) = cuts(n, p, budget, "less", alpha)
        assert 1 - tails(cut, n, np.array([p]), budget) == pytest.approx(alpha, abs=1e-3)
        low, high = cuts(n, p, budget, "two_sided", alpha)
        near = p + np.array([-1e-3, 0.0, 1e-3])
        power = 1 - tails(low, n, near, budget) + tails(high, n, near, budget)
        assert power[1] == pytest.approx(alpha, abs=1e-3)
        grid = np.linspace(1e-3, 1 - 1e-3, 41)
        everywhere = 1 - tails(low, n, grid, budget) + tails(high, n, grid, budget)
        assert everywhere.min() >= power[1] - 1e-4  # unbiased


def best_power(
    budget: Budget, n: int, p: float, other: float, alpha: float, *, unbiased: bool
) -> float:
    """Return the largest power at `other` of private tests of size alpha at p.

    A linear program chooses the probability that a test rejects for each count. The test has two
    outcomes, so (epsilon, delta)-DP is four inequalities for each pair of neighbours. GDP is the
    same for many pairs of epsilon and delta, up to a small relaxation.
    """
    if isinstance(budget, GDP):
        epsilons = np.linspace(0, 6, 121)
        pairs = [(e, hockey_stick(1 / budget.mu, e)) for e in epsilons]
    else:
        assert isinstance(budget, PureDP | ApproxDP)
        pairs = [(budget.epsilon, getattr(budget, "delta", 0.0))]
    steps, rows, ends = np.eye(n + 1), [], []
    for epsilon, delta in pairs:
        for one, two in ((steps[:-1], steps[1:]), (steps[1:], steps[:-1])):
            rows += [one - np.exp(epsilon) * two, np.exp(epsilon) * one - two]
            ends += [np.full(n, delta), np.full(n, np.exp(epsilon) - 1 + delta)]
    s = np.arange(n + 1)
    null = binom.pmf(s, n, p)
    equal, level = [null], [alpha]
    if unbiased:
        equal, level = [null, null * (s - n * p)], [alpha, 0.0]
    solved = linprog(
        -binom.pmf(s, n, other), A_ub=np.vstack(rows), b_ub=np.concatenate(ends),
        A_eq=np.array(equal), b_eq=level, bounds=(0, 1), method="highs",
    )  # fmt: skip
    assert solved.fun is not None
    return float(-solved.fun)


@pytest.mark.parametrize("budget", BUDGETS[:4], ids=lambda b: b.notion)
def test_no_private_test_has_more_power(budget: Budget) -> None:
    n, p, other, alpha = 9, 0.3, 0.6, 0.1
    (cut,) = cuts(n, p, budget, "greater", alpha)
    best = best_power(budget, n, p, other, alpha, unbiased=False)
    assert tails(cut, n, np.array([other]), budget) == pytest.approx(best, abs=3e-3)
    low, high = cuts(n, p, budget, "two_sided", alpha)
    power = 1 - tails(low, n, np.array([other]), budget) + tails(high, n, np.array([other]), budget)
    best = best_power(budget, n, p, other, alpha, unbiased=True)
    assert 0.8 * best <= power <= best  # the best two-sided test serves one hypothesis only


@each
@pytest.mark.parametrize("n", [1, 12, 3000])
def test_limits_invert_the_tests(budget: Budget, n: int) -> None:
    x = np.linspace(-2, n + 2, 15)
    limits = binary_limit(x, n, 0.05, budget.canonical_noise)
    assert np.all(np.diff(limits) >= 0)
    tail = count_tail(x, n, np.clip(limits, 1e-300, 1), tulap_or_gaussian(budget))
    inside = (limits > 0) & (limits < 1)
    assert inside.any() or n == 1
    np.testing.assert_allclose(tail[inside], 0.05, rtol=1e-6)
    assert np.all(tail[limits == 0] >= 0.05)
    assert np.all(tail[limits == 1] <= 0.05)


def test_wrong_arguments_are_refused() -> None:
    for n, p in ((0, 0.5), (LARGEST_N + 1, 0.5), (5, 0.0), (5, 1.0)):
        with pytest.raises(ValueError, match="need 0 < p < 1 and 1 <= n <= 1000000"):
            binary_p_value(0.5, n, p, PureDP(1.0))
    with pytest.raises(ValueError, match="alternative: 'more'"):
        binary_p_value(0.5, 5, 0.5, PureDP(1.0), "more")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no canonical noise"):
        binary_p_value(0.5, 5, 0.5, NonPrivate())
    assert binary_p_value(0.5, 4, 0.5, PureDP(1.0)).shape == ()
