"""The minimax risk of a binary mean against linear programs over all private mechanisms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from dpbench.estimators.binary_risk import GAP, LARGEST_N, binary_minimax

ORACLES = [  # bounds on the minimax risk, computed by two independent programs
    (20, 1.0, 0.011310, 0.011323), (1000, 0.03, 0.002278, 0.002281),
]  # fmt: skip


def best_mechanism(n: int, epsilon: float, p: list[float], weights: list[float] | None) -> float:
    """Return the least squared risk at these p, weighted or worst, of all epsilon-DP mechanisms.

    A linear program chooses the probability of every release for each number of ones. Releases are
    on a grid with the values of the rule.
    """
    minimax = binary_minimax(n, epsilon)
    grid = np.union1d(np.linspace(0, 1, 41), minimax.rule)
    cost = np.array([
        np.outer(binom.pmf(np.arange(n + 1), n, mean), (grid - mean) ** 2).ravel() for mean in p
    ])  # fmt: skip
    size, steps = (n + 1) * len(grid), np.eye(n + 1)
    up, down = (
        steps[:-1] - math.exp(epsilon) * steps[1:],
        steps[1:] - math.exp(epsilon) * steps[:-1],
    )
    private = np.kron(np.vstack([up, down]), np.eye(len(grid)))
    totals = np.kron(np.eye(n + 1), np.ones(len(grid)))
    if weights is None:  # the last variable is above every risk
        private = np.vstack([np.pad(private, [(0, 0), (0, 1)]), np.pad(cost, [(0, 0), (0, 1)])])
        private[-len(p) :, -1] = -1
        totals, goal = np.pad(totals, [(0, 0), (0, 1)]), np.eye(size + 1)[-1]
    else:
        goal = np.array(weights) @ cost
    solved = linprog(
        goal, A_ub=private, b_ub=np.zeros(len(private)), A_eq=totals, b_eq=np.ones(n + 1),
        bounds=(0, None), method="highs",
    )  # fmt: skip
    assert solved.fun is not None
    return float(solved.fun)


@pytest.mark.parametrize(("n", "epsilon"), [(1, 0.5), (4, 0.3), (5, 1.5)])
def test_no_mechanism_has_a_smaller_average_risk(n: int, epsilon: float) -> None:
    """Under the prior of the rule, the geometric mechanism has the least Bayes risk (theorem)."""
    minimax = binary_minimax(n, epsilon)
    best = best_mechanism(n, epsilon, list(minimax.points), list(minimax.weights))
    assert best == pytest.approx(minimax.lower, rel=1e-6)


@pytest.mark.parametrize(("n", "epsilon"), [(4, 0.5), (6, 1.0)])
def test_no_mechanism_has_a_smaller_worst_risk(n: int, epsilon: float) -> None:
    minimax = binary_minimax(n, epsilon)
    assert minimax.lower * (1 - 1e-6) <= best_mechanism(n, epsilon, list(minimax.points), None)
    assert best_mechanism(n, epsilon, list(minimax.points), None) <= minimax.upper


@pytest.mark.parametrize(("n", "epsilon", "low", "high"), ORACLES)
def test_oracles(n: int, epsilon: float, low: float, high: float) -> None:
    minimax = binary_minimax(n, epsilon)
    assert low <= minimax.lower < minimax.upper <= high


@pytest.mark.parametrize("n", [1, 2, 20, 400])
def test_without_privacy_it_is_the_textbooks(n: int) -> None:
    """The risk is 1/(4 (1 + sqrt(n))^2) (Hodges and Lehmann 1950); without information, 1/4."""
    minimax = binary_minimax(n, 50.0)
    assert minimax.lower <= 1 / (4 * (1 + math.sqrt(n)) ** 2) <= minimax.upper
    none = binary_minimax(n, 1e-9)
    assert none.lower <= 0.25 <= none.upper * (1 + 1e-9)


@pytest.mark.parametrize(("n", "epsilon"), [(1, 3.0), (3, 0.01), (20, 1.0), (150, 0.1)])
def test_the_upper_bound_is_above_every_risk(n: int, epsilon: float) -> None:
    """Compare with the double sum over S and Z, at p that are not on the grid of the code."""
    minimax = binary_minimax(n, epsilon)
    assert minimax.upper <= minimax.lower * (1 + 3 * GAP)
    far = int(40 / epsilon) + 1
    s, z = np.arange(n + 1)[:, None], np.arange(-far, far + 1)
    noise = np.exp(-epsilon * abs(z)) * math.tanh(epsilon / 2)
    assert noise.sum() == pytest.approx(1)
    release = minimax.rule[np.clip(s + z, 0, n)]
    for p in np.append(np.linspace(0, 1, 399), 0.5):
        risk = binom.pmf(s[:, 0], n, p) @ ((release - p) ** 2 @ noise)
        assert risk <= minimax.upper
    np.testing.assert_allclose(minimax.rule + minimax.rule[::-1], 1, atol=1e-9)


def test_what_the_sweep_compares_with() -> None:
    """The sweep claims the root of the minimax risk, which the risk at 1/2 nearly attains."""
    for n, epsilon, exact in [(20, 1.0, 0.10638), (1000, 0.01, 0.12275), (1000, 0.1, 0.020565)]:
        minimax = binary_minimax(n, epsilon)
        middle = (minimax.lower + minimax.upper) / 2
        assert math.sqrt(middle) == pytest.approx(exact, rel=1e-4)
        assert minimax.upper < 1.003 * minimax.lower


def test_too_many_records_are_refused() -> None:
    with pytest.raises(ValueError, match="up to 1000 records, got 1001"):
        binary_minimax(LARGEST_N + 1, 1.0)
