"""Bounds in many dimensions against linear programs, quadrature and what mechanisms reach."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, linprog
from scipy.special import betainc, chdtri, gammaincinv, xlogy
from scipy.stats import binom, norm

from dpbench.distributions import TwoPoint
from dpbench.privacy import ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.theory.fingerprinting import fingerprinting_lower_bound
from dpbench.theory.lower_bounds import two_point_lower_bound
from dpbench.theory.vector_bounds import (
    ANGLES,
    _greedy,
    _hidden,
    ball_lower_bound,
    gaussian_lower_bound,
    moments_lower_bound,
)


def best_naming(many: int, t: float, n: int, epsilon: float, delta: float) -> float:
    """The probability with which an (epsilon, delta)-DP procedure names every law from n records.

    Record j with probability t, else 0, is law j. By linear programming; a dataset is its sorted
    records, and answers are constrained in all sets of them.
    """
    datasets = list(itertools.combinations_with_replacement(range(many + 1), n))
    index = {data: i for i, data in enumerate(datasets)}
    units, rows, right = np.eye(len(datasets) * many + 1), [], []
    sets = [s for k in range(1, many) for s in itertools.combinations(range(many), k)]
    for data, i, letter in itertools.product(datasets, range(n), range(many + 1)):
        other = tuple(sorted((*data[:i], *data[i + 1 :], letter)))
        for answers in sets if other != data else ():
            mine, theirs = ([index[d] * many + a for a in answers] for d in (data, other))
            rows.append(units[mine].sum(axis=0) - math.exp(epsilon) * units[theirs].sum(axis=0))
            right.append(delta)
    for j in range(many):
        law = {(0,) * (n - s) + (j + 1,) * s: binom.pmf(s, n, t) for s in range(n + 1)}
        rows.append(
            units[-1] - sum(chance * units[index[d] * many + j] for d, chance in law.items())
        )
        right.append(0.0)
    one = np.hstack([np.kron(np.eye(len(datasets)), np.ones(many)), np.zeros((len(datasets), 1))])
    found = linprog(
        -units[-1], A_ub=np.array(rows), b_ub=right, A_eq=one, b_eq=np.ones(len(datasets)),
        bounds=(0, 1), method="highs",
    )  # fmt: skip
    assert found.fun is not None
    return -float(found.fun)


@pytest.mark.parametrize("delta", [0.0, 0.05])
@pytest.mark.parametrize(("many", "n", "epsilon"), [(2, 3, 0.4), (3, 2, 0.9), (4, 2, 1.5)])
def test_what_cannot_be_named(many: int, n: int, epsilon: float, delta: float) -> None:
    budget = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
    told = 0
    for beta in (0.1, 0.25, 0.4, 0.45):
        t = float(_hidden(n, budget, np.log([many - 1.0]), beta)[0])
        if t < 1:
            told += t > 0
            assert best_naming(many, t, n, epsilon, delta) <= 1 - beta + 1e-9
        else:
            assert best_naming(many, 1 - 1e-9, n, epsilon, delta) <= 1 - beta + 1e-6
    assert told


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.1])
def test_what_is_hidden_meets_the_inequality_of_one_s(delta: float) -> None:
    """And those of all others: P(S <= s) <= beta + e^(epsilon s) (beta/(M-1) + D), summed up."""
    epsilon, beta, n = 0.7, 0.1, 60
    for others in (3.0, 1e6, 1e12):
        budget = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
        t = float(_hidden(n, budget, np.log([others]), beta)[0])
        s, spare = np.arange(n), delta / math.expm1(epsilon)
        room = beta + np.exp(epsilon * s) * (beta / others + spare) - binom.cdf(s, n, t)
        assert min(room) == pytest.approx(0, abs=1e-9)


def test_at_one_the_limit_is_group_privacy() -> None:
    """(M-1) e^(-epsilon n) (1-beta) = beta: with t = 1 all n records differ."""
    limit = 0.5 * 7 - math.log(9)
    below, above = _hidden(7, PureDP(0.5), np.array([limit - 1e-6, limit + 1e-6]), 0.1)
    assert 0.5 < below < 1 == above


@pytest.mark.parametrize("t", [0.05, 0.4])
def test_the_divergence_under_zcdp(t: float) -> None:
    """By quadrature: n records are 1 (or -1) w.p. t, else 0; their sum with Gaussian noise."""
    n, sd = 4, 3.0
    rho = 2**2 / (2 * sd**2)  # a record replaced moves the sum by at most 2
    x = np.linspace(-40, 40, 20_001)
    weights = binom.pmf(np.arange(n + 1), n, t)
    p, q = (weights @ norm.pdf(x, sign * np.arange(n + 1)[:, None], sd) for sign in (1, -1))
    divergence = np.trapezoid(xlogy(p, p / q), x)
    limit = rho * (n * t * (1 - t) + n**2 * t**2)
    assert 0.5 * limit * t < divergence <= limit
    # That is what `_hidden` spends: at its t it is what naming needs.
    log_others = np.log([63.0, 1e9])
    hidden = _hidden(500, ZCDP(1e-3), log_others, 0.1)
    entropy = -0.1 * math.log(0.1) - 0.9 * math.log(0.9)
    needed = np.log1p(np.exp(log_others)) - entropy - 0.1 * log_others
    np.testing.assert_allclose(1e-3 * (500 * hidden * (1 - hidden) + 500**2 * hidden**2), needed)


@pytest.mark.parametrize("d", [2, 3, 10, 200])
def test_greedy_codes_by_the_share_of_a_cap(d: int) -> None:
    """Exactly by the incomplete beta function; on the circle M = floor(2 pi/a)."""
    log_others, s = _greedy(d)
    angles = ANGLES[-len(s) :] if s[-1] == 2 * np.sin(ANGLES[-1] / 2) else ANGLES[: len(s)]
    np.testing.assert_allclose(s, 2 * np.sin(angles / 2))
    share = betainc((d - 1) / 2, 0.5, np.sin(angles) ** 2) / 2
    size = np.logaddexp(0, log_others)
    size, share, angles = size[share > 0], share[share > 0], angles[share > 0]
    assert np.all(size <= -np.log(share) + 1e-9)
    narrow = angles < 0.3  # where what the bound loses is little
    np.testing.assert_allclose(size[narrow], -np.log(share[narrow]), atol=0.06)
    if d == 2:
        assert np.all(size <= np.log(np.floor(2 * np.pi / angles)))


@pytest.mark.parametrize("k", [2, 3.5])
def test_the_laws_are_in_the_class(k: float) -> None:
    budget, d, n = PureDP(0.5), 300, 2000
    bound = moments_lower_bound(n, d, k, budget)
    log_others, s = _greedy(d)
    t = _hidden(n, budget, log_others, 0.1)
    found = [
        min(x, 0.5) * TwoPoint(p=min(float(x), 0.5), k=k).tau * c / 2
        for x, c in zip(t, s, strict=True)
    ]
    assert bound.alpha == pytest.approx(max(found))
    assert bound.code == "greedy"
    assert TwoPoint(p=float(t[-20]), k=k).moment(k) == pytest.approx(1)  # along u; less elsewhere
    # Of N(R u, I) and N(-R u, I), the farthest.
    far = brentq(lambda r: 2 * norm.cdf(r) - 1 - t[-20], 1e-9, 9)
    assert gaussian_lower_bound(n, d, budget).alpha >= far * s[-20] / 2 * (1 - 1e-9)


BUDGETS: list[Budget] = [PureDP(0.1), PureDP(2.0), ZCDP(0.01), ApproxDP(0.5, 1e-6)]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("d", [1, 2, 30, 2000])
def test_no_bound_is_above_what_mechanisms_reach(budget: Budget, d: int) -> None:
    """The 0.9 quantile of noise in l2 or Gaussian noise, of records in the unit ball, one law."""
    n = 10**7
    quantile: float = 2 / n * math.sqrt(chdtri(d, 0.1)) * (budget._sd(1e9, 1.0) or 0)  # not Laplace
    if isinstance(budget, PureDP):
        quantile = 2 / (n * budget.epsilon) * float(gammaincinv(d, 0.9))
    sampled = math.sqrt(10 / n)  # Chebyshev: E|mean - mu|^2 <= 1/n
    bound = ball_lower_bound(n, d, budget)
    assert 0 < bound.alpha <= quantile + sampled
    if isinstance(budget, PureDP | ZCDP):
        assert bound.alpha >= quantile / 14
    pair = two_point_lower_bound(n, 2, budget)
    assert bound.alpha >= pair.p_star
    assert moments_lower_bound(n, d, 2, budget).alpha >= pair.alpha * (1 - 1e-12)


def test_where_nothing_can_be_told() -> None:
    few: dict[str, Any] = {"n": 3, "d": 10, "budget": PureDP(0.01)}
    assert moments_lower_bound(k=3, **few) == (1.0, "pair")
    assert gaussian_lower_bound(**few) == (1.0, "pair")
    assert ball_lower_bound(**few) == (1.0, "pair")
    unknown = ball_lower_bound(100, 5, NonPrivate())
    assert math.isnan(unknown.alpha)
    assert unknown.code == ""


# Fingerprinting.


def test_each_record_shows_by_enumeration() -> None:
    """The identity that the proof begins with, of any release from n = 3 signs."""
    n, s = 3, 1.5
    signs = np.array(list(itertools.product((-1, 1), repeat=n)))
    release = np.random.default_rng(0).normal(size=len(signs))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    weights = weights * (1 - nodes**2) ** s
    weights /= weights.sum()
    assert weights @ nodes**2 == pytest.approx(1 / (2 * s + 3))
    law = np.prod((1 + signs * nodes[:, None, None]) / 2, axis=2)  # (200, 8)
    correlated = (law * release * (signs.sum(axis=1) - n * nodes[:, None])).sum(axis=1)
    assert weights @ correlated == pytest.approx(2 * (s + 1) * weights @ (nodes * (law @ release)))


@pytest.mark.parametrize("rho", [1e-4, 0.5, 3.0])
def test_fingerprinting_against_the_gaussian_mechanism(rho: float) -> None:
    for n, d in ((10, 1), (1000, 5), (1000, 400), (10**6, 50)):
        bound = fingerprinting_lower_bound(n, d, rho)
        noise, sampled = 2 * d / (n * math.sqrt(2 * rho)), math.sqrt(d / n)
        assert bound <= min(math.hypot(noise, sampled), math.sqrt(d))
        if rho < 0.1 and noise < 0.05 * math.sqrt(d):
            assert noise / bound == pytest.approx(2, rel=0.6)


def test_fingerprinting_against_the_best_of_one_sign() -> None:
    """n = 1, d = 1: randomised response of epsilon = sqrt(2 rho), for every prior's best rule."""
    for rho in (0.05, 0.5, 2.0):
        keep = math.tanh(math.sqrt(2 * rho) / 2)
        s = np.linspace(-0.9, 20, 400)
        v = 1 / (2 * s + 3)
        risk = np.sqrt(v - keep**2 * v**2)  # of the best multiple of the sign
        assert fingerprinting_lower_bound(1, 1, rho) <= risk.max()
