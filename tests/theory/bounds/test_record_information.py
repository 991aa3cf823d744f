"""The information about one record against searches, the simplex and quadrature."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import xlogy
from scipy.stats import norm

from dpbench.arrays import Floats
from dpbench.estimators.local_votes import graded_votes
from dpbench.privacy import GDP, ZCDP, Budget, NonPrivate, PureDP
from dpbench.theory.bounds import record_information as module
from dpbench.theory.bounds.numbers import entropy_logit
from dpbench.theory.bounds.record_information import record_information


def information(a: Floats, b: Floats, c: Floats) -> float:
    """I of three distributions on a finite set."""
    return float(np.sum((a - b) ** 2 / c))


@pytest.mark.parametrize("epsilon", [0.1, 0.6, 1.0, 3.0])
def test_pure_dp_by_linear_programming(epsilon: float) -> None:
    """All likelihoods that differ by a factor of e^epsilon, as mixtures of corners."""
    corners = np.array(list(itertools.product((1.0, math.exp(epsilon)), repeat=3)))[1:-1]
    gain = (corners[:, 0] - corners[:, 1]) ** 2 / corners[:, 2]
    found = linprog(-gain, A_eq=corners.T, b_eq=np.ones(3), bounds=(0, None), method="highs")
    assert found.fun is not None
    assert record_information(PureDP(epsilon)) == pytest.approx(-found.fun)


@pytest.mark.parametrize("mu", [0.1, 1.0, 2.5])
def test_gaussian_dp_by_quadrature(mu: float) -> None:
    x = np.linspace(0, 12 + 2 * mu, 200_001)
    whole = 2 * np.trapezoid(np.expm1(mu * x) ** 2 * norm.pdf(x + mu / 2), x)
    assert record_information(GDP(mu)) == pytest.approx(whole, rel=1e-6)


BUDGETS: list[Budget] = [GDP(0.1), GDP(1.0), ZCDP(5e-5), ZCDP(0.5)]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_no_release_tells_more_and_votes_tell_nearly_as_much(budget: Budget) -> None:
    """Gaussian noise on -1, 0 and 1, on the corners of a triangle, and votes."""
    rho = budget.mu**2 / 2 if isinstance(budget, GDP) else budget.named_amounts["rho"]
    line = 2 * (math.exp(rho / 2) - math.exp(-rho / 2))
    triangle = 2 * (math.exp(2 * rho) - math.exp(rho))
    low, high, _ = graded_votes(budget)
    votes = 2 * float(np.sum((high - low) ** 2 / low))
    bound = record_information(budget)
    assert max(line, triangle, votes) <= bound <= votes / 0.93


@pytest.mark.parametrize("rho", [0.05, 0.5])
def test_no_random_release_tells_more_than_the_program(rho: float) -> None:
    """Three random distributions at the rho of their worst pair, by a grid of orders."""
    rng, orders = np.random.default_rng(0), np.concatenate([[1 + 1e-9], np.geomspace(1.02, 50, 40)])
    largest = 0.0
    for _ in range(120):
        size = int(rng.integers(2, 5))
        logs = np.log(rng.dirichlet(np.full(size, 2.0)))
        moves = rng.normal(size=(3, size)) * rng.uniform(0.2, 2) * math.sqrt(rho)
        laws = np.exp(logs + moves)
        laws /= laws.sum(axis=1, keepdims=True)

        def worst(strength: float, laws: Floats = laws) -> tuple[float, Floats]:
            """Pull the three towards their mean, and return the rho of the worst pair."""
            mixed = (1 - strength) * laws.mean(axis=0) + strength * laws
            log = np.log(mixed)
            q = orders[:, None]
            divergences = [
                np.log(np.exp(q * log[i] + (1 - q) * log[j]).sum(axis=1)) / (orders - 1) / orders
                for i, j in itertools.permutations(range(3), 2)
            ]
            return float(np.max(divergences)), mixed

        low, high = 0.0, 1.0
        for _ in range(15):
            middle = (low + high) / 2
            low, high = (middle, high) if worst(middle)[0] <= rho else (low, middle)
        largest = max(largest, information(*worst(low)[1]))
    assert 0.3 * record_information(ZCDP(rho)) < largest <= record_information(ZCDP(rho))


def test_the_parts_of_the_bound_agree() -> None:
    """The program is between the closed bounds; mass inside a cell only gains on its corners."""
    for rho in (0.5,):
        assert 2 * rho < module._program_bound(rho) < module._closed_bound(rho)
    assert module._bound_for_small_rho(1e-10) == pytest.approx(2e-10, rel=1e-3)
    assert record_information(ZCDP(1e-10)) < 1.01 * 2e-10
    for q, step in ((2.0, 0.15), (7.0, 0.05), (1.25, 0.4)):
        t = np.linspace(1, math.exp(step), 100_001)
        for power in (q, 1 - q):
            chord = np.interp(t, t[[0, -1]], t[[0, -1]] ** power)
            assert module._chord_ratio(q, step) == pytest.approx((chord / t**power).max())
    grid = module._grid(0.02)
    assert grid.outside < 1e-8
    # A Gaussian pair at rho = 0.02: the moments of the constraints, and what is outside.
    x = np.linspace(-12, 12, 100_001)
    ratio = np.exp(0.2 * x - 0.02)
    density = norm.pdf(x)
    assert np.trapezoid(ratio**3 * density, x) == pytest.approx(math.exp(6 * 0.02))
    out = (np.log(ratio) < grid.log_a.min()) | (np.log(ratio) > grid.log_a.max())
    assert 2 * np.trapezoid(density * out, x) <= grid.outside


def test_pairs_that_are_near_have_at_least_the_affinity_of_coins() -> None:
    """Any two laws, of relative entropies of at most rho; coins themselves have no more."""
    rng = np.random.default_rng(1)
    for _ in range(2000):
        a, b = rng.dirichlet(np.full(rng.integers(2, 5), 0.7), 2)
        rho = max(float(np.sum(xlogy(a, a / b))), float(np.sum(xlogy(b, b / a))))
        x = 1 / (1 + math.exp(entropy_logit(rho)))
        assert np.sum(np.sqrt(a * b)) >= 2 * math.sqrt(x * (1 - x)) - 1e-12
    coin = np.array([0.2, 0.8])
    entropy = float(np.sum(xlogy(coin, coin / coin[::-1])))
    assert entropy_logit(entropy) == pytest.approx(math.log(4))


def test_where_no_bound_is_known() -> None:
    assert math.isnan(record_information(NonPrivate()))
    assert record_information(PureDP(1e6)) == math.inf
    assert record_information(ZCDP(1e6)) == math.inf


def test_the_constant_of_the_tail() -> None:
    """The tail is sqrt(E (a-b)^4 P(event)), and both inequalities for E (a-b)^4, on a grid.

    (a-b)^4 is at most 8 times (a-1)^4 + (b-1)^4. (a-1)^4 is at most a^4 - 1 - 4 (a-1), whose mean
    is at most K_4 - 1 = e^(12 rho) - 1.
    """
    x = np.linspace(-1, 4, 501)
    pairs = (x[:, None] - x) ** 4 / np.maximum(x[:, None] ** 4 + x**4, 1e-300)
    assert pairs.max() == pytest.approx(8)
    assert np.all(x**4 <= (1 + x) ** 4 - 1 - 4 * x + 1e-12)
    for rho, outside in ((0.01, 1e-6), (0.5, 0.02)):
        fourth = pairs.max() * 2 * math.expm1(12 * rho)
        assert module._tail(rho, outside) == pytest.approx(math.sqrt(fourth * outside))


@pytest.mark.parametrize("rho", [1e-8, 1e-4, 0.01])
def test_the_bound_for_a_small_rho_by_a_loop(rho: float) -> None:
    """Inside |ln a|, |ln b| <= L s, I is at most 2 rho e^(L s); outside, the tail.

    P(|ln a| > L s) is at most e^(-(L s + rho)^2/(4 rho)), by moments of all orders, and so is that
    of b. The moment of order q gives e^(q (q-1) rho - q L s), which is least at the q tried here.
    """
    unit, best = math.sqrt(2 * rho), math.inf
    for reach in np.linspace(1, 30, 300):
        orders = np.geomspace(1, 1e3 / unit, 4001)
        one = math.exp(np.min(orders * (orders - 1) * rho - orders * reach * unit))
        tail = math.sqrt(16 * math.expm1(12 * rho) * 2 * one)
        best = min(best, 2 * rho * math.exp(reach * unit) + tail)
    assert module._bound_for_small_rho(rho) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("rho", [0.05, 0.5])
def test_the_program_by_a_primal_program_on_a_coarse_grid(
    rho: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masses at the vertices (a, b), a >= b, of a grid of half units s from -4 s to 3.5 s.

    So much is outside that all constraints count. A mass loses at most P(outside), and a mean at
    most P(outside) + sqrt((K_2 - 1) P(outside)). Moments are at most 2 K_q for a and b together,
    times the largest quotient of a chord and the power.
    """
    for name, value in (("LOWEST", 8), ("HIGHEST", 7), ("STEP", 0.5)):
        monkeypatch.setattr(module, name, value)
    s, orders = math.sqrt(2 * rho), 1 + module.ORDERS / math.sqrt(2 * rho)
    points = 0.5 * s * np.arange(-8, 8)
    x, y = np.array([(u, v) for u in points for v in points if u >= v]).T
    q = np.linspace(1, 200, 200_001)
    outside = 2 * sum(
        math.exp(np.min(q * (q - 1) * rho + slope))
        for slope in ((q - 1) * points[0], -q * points[-1])
    )
    mean, ones = (np.exp(x) + np.exp(y)) / 2, np.ones_like(x)
    lost = outside + math.sqrt(math.expm1(2 * rho) * outside)
    rows, right = [ones, -ones, mean, -mean], [1, outside - 1, 1, lost - 1]
    t = np.linspace(1, math.exp(0.5 * s), 20_001)
    for order in orders:
        chord = np.interp(t, t[[0, -1]], t[[0, -1]] ** order) / t**order
        limit = math.log(2 * chord.max()) + order * (order - 1) * rho
        one = 1 - order
        for u, v in ((order * x, order * y), (one * x, one * y),
                     (order * x + one * y, order * y + one * x)):  # fmt: skip
            rows.append(np.exp(u - limit) + np.exp(v - limit))
            right.append(1)
    scale = np.abs(rows).max(axis=0)
    gain = (np.exp(x) - np.exp(y)) ** 2
    found = linprog(-gain / scale, A_ub=rows / scale, b_ub=right, bounds=(0, None), method="highs")
    assert found.fun is not None
    wanted = -found.fun + math.sqrt(16 * math.expm1(12 * rho) * outside)
    bound = module._program_bound.__wrapped__(rho)
    assert bound == pytest.approx(wanted, rel=1e-6)
    assert -found.fun > 0.1 * wanted
