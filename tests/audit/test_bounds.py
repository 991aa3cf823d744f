"""Bounds against direct formulas, and their coverage by exact enumeration: nothing is drawn."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binomtest, norm

from dpbench.audit.bounds import (
    ORDERS,
    RenyiTest,
    event_bound,
    guess_bound,
    lower_limit,
    parameter_of_event,
    upper_limit,
)
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP

Floats = NDArray[np.float64]

PURE, RHO, MU, APPROX = PureDP(1.0), ZCDP(0.5), GDP(1.0), ApproxDP(1.0, 1e-6)
ROUNDING = 1 + 1e-9
PROBABILITIES = [1e-3, 0.02, 0.1, 0.3, 0.5, 0.77, 0.99, 0.999]


def _pmf(n: int, p: float) -> Floats:
    return np.array([comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])


@pytest.mark.parametrize("error", [0.3, 1e-5])
def test_clopper_pearson_is_that_of_scipy(error: float) -> None:
    for runs in (1, 2, 9, 60, 800):
        for hits in {0, 1, runs // 3, runs - 1, runs}:
            # Two-sided, with `error` on each side.
            known = binomtest(hits, runs).proportion_ci(1 - 2 * error, method="exact")
            assert lower_limit(hits, runs, error) == pytest.approx(known.low, rel=1e-7)
            assert upper_limit(hits, runs, error) == pytest.approx(known.high, rel=1e-7)


def test_ends_that_have_a_closed_form_at_many_runs() -> None:
    # p^m = error, and (1 - p)^m = error.
    for runs, error in ((10**3, 1e-3), (10**8, 1e-12)):
        assert lower_limit(runs, runs, error) == pytest.approx(error ** (1 / runs), rel=1e-12)
        missed = -np.expm1(np.log(error) / runs)
        assert upper_limit(0, runs, error) == pytest.approx(missed, rel=1e-6)
        assert lower_limit(0, runs, error) == 0
        assert upper_limit(runs, runs, error) == 1


@pytest.mark.parametrize("budget", [PURE, RHO, MU, APPROX, ApproxDP(1.0, 0.1)])
def test_an_event_shows_too_much_no_oftener_than_the_error(budget: Budget) -> None:
    m, k, error = 14, 11, 0.1
    hits = np.arange(m + 1)[:, None], np.arange(k + 1)
    found = event_bound(hits[0], m, hits[1], k, budget, error)
    assert found.max() > 0
    # Also where both ends miss their truths at once: just below and above what may be seen.
    ends = lower_limit(np.arange(1, m + 1), m, error / 2), upper_limit(np.arange(k), k, error / 2)
    worst = 0.0
    for p in (*PROBABILITIES, *ends[0] * (1 - 1e-12)):
        for q in (*PROBABILITIES, *np.minimum(ends[1] * (1 + 1e-12), 1)):
            truth = parameter_of_event(p, q, budget) * (1 + 1e-12)
            worst = max(worst, np.outer(_pmf(m, p), _pmf(k, q))[found > truth].sum())
    assert 0.0 < worst <= error * ROUNDING


def test_an_event_that_never_happened_on_the_other_side() -> None:
    """The error is divided over two ends that are known: p^m and (1 - q)^k are half of it."""
    m, k, error = 20, 30, 0.1
    p, q = 0.05 ** (1 / m), 1 - 0.05 ** (1 / k)
    assert event_bound(m, m, 0, k, PURE, error) == pytest.approx(np.log(p / q))
    assert event_bound(0, m, k, k, PURE, error) == 0


def _naive_rho(p: float, q: float, orders: Floats) -> float:
    logs = [np.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) for a in orders]
    return float(np.max(np.array(logs) / (orders - 1) / orders))


def test_the_parameter_of_an_event_by_its_formula() -> None:
    for p, q in product(PROBABILITIES, PROBABILITIES):
        pure, rho, mu, approx = (
            float(parameter_of_event(p, q, b)) for b in (PURE, RHO, MU, APPROX)
        )
        if p <= q:
            assert pure == rho == mu == approx == 0
            continue
        # N(mu, 1) is above the point that N(0, 1) is above with probability q.
        assert norm.sf(norm.isf(q) - mu) == pytest.approx(p)
        assert pure == pytest.approx(np.log(p / q))
        assert approx == pytest.approx(max(0.0, np.log(max(p - 1e-6, 1e-300) / q)))
        assert rho == pytest.approx(_naive_rho(p, q, ORDERS), rel=1e-6)
        # Orders of our own: little is lost between those that are tried.
        assert rho >= 0.98 * _naive_rho(p, q, np.linspace(1.01, 40, 300))
    assert ORDERS.min() > 1
    with pytest.raises(ValueError, match="gives no privacy to bound"):
        parameter_of_event(0.5, 0.1, NonPrivate())


@pytest.mark.parametrize("budget", [PURE, RHO, MU, APPROX])
def test_the_parameter_grows_with_p_and_falls_with_q(budget: Budget) -> None:
    grid = np.linspace(0, 1, 201)
    found = parameter_of_event(grid[:, None], grid, budget)
    assert not np.isnan(found).any()
    assert found.min() == 0
    assert np.isinf(found[1:, 0]).all()  # what never happened on the other
    with np.errstate(invalid="ignore"):  # infinite less infinite
        assert np.nanmin(np.diff(found, axis=0)) >= -1e-12
        assert np.nanmax(np.diff(found, axis=1)) <= 1e-12


@pytest.mark.parametrize("error", [0.2, 1e-5])
@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_guesses_show_too_much_no_oftener_than_the_error(epsilon: float, error: float) -> None:
    odds = float(expit(epsilon))
    bounds = [[guess_bound(r, g, error) for r in range(g + 1)] for g in range(31)]
    too_much = [np.array(found) > epsilon for found in bounds]
    for guesses in (1, 4, 30):
        assert (np.diff(bounds[guesses]) >= 0).all()
        assert _pmf(guesses, odds)[too_much[guesses]].sum() <= error * ROUNDING
        # Some guesses that are right less often only help.
        mixed = np.ones(1)
        for p in np.linspace(1 - odds, odds, guesses):
            mixed = np.convolve(mixed, [1 - p, p])
        assert mixed[too_much[guesses]].sum() <= error * ROUNDING
    # A rule may abstain.
    wrong = [p * _pmf(g, odds)[too_much[g]].sum() for g, p in enumerate(_pmf(30, 0.4))]
    assert sum(wrong) <= error


def test_guesses_that_are_worse_than_a_coin_show_nothing() -> None:
    assert guess_bound(0, 0, 0.4) == guess_bound(500, 1000, 0.4) == guess_bound(3, 1000, 0.4) == 0
    assert guess_bound(1000, 1000, 1e-5) == pytest.approx(np.log(1 / (1e5 ** (1e-3) - 1)))


@pytest.mark.parametrize("clip", [0.7, 1.0])
@pytest.mark.parametrize("order", [1.1, 1.5])
def test_a_divergence_is_bounded_by_bets_that_lose_at_the_ends(order: float, clip: float) -> None:
    """At both ends of what is left of the means, the product of the bets is 2/error."""
    error, one = 0.01, np.repeat([clip, -clip], [450, 50])
    bets, promise = RenyiTest.choose_bets(one, -one, order, clip, 500, error)
    assert 0 < promise < 2
    p, q = np.exp((order - 1) * one), np.exp(-order * one)
    low = brentq(lambda m: np.prod(1 + bets.low * (p - m)) - 2 / error, 0, p.mean())
    high = brentq(
        lambda m: np.prod(1 - bets.high * (q - m)) - 2 / error, q.mean(), np.exp(order * clip)
    )
    wanted = np.log(low) / (order - 1) - np.log(high) / order
    assert wanted > 0
    assert bets.bound(one, -one, error) == pytest.approx(wanted, rel=1e-6)
    assert promise == pytest.approx(wanted, rel=0.04)  # of runs like those of the pilot
    assert bets.bound(one, one, error) == 0
    assert bets.bound(one, -one, 1e-40) == 0


def test_a_divergence_shows_too_much_no_oftener_than_the_error() -> None:
    """A bit that is kept with probability p, exactly: g = ln(p/(1 - p)) attains the divergence."""
    m, p, error = 30, 0.75, 0.2
    g = float(np.log(p / (1 - p)))
    truth = _naive_rho(p, 1 - p, np.array([1.5]))
    bits = [np.repeat([g, -g], [k, m - k]) for k in range(m + 1)]
    bets, _ = RenyiTest.choose_bets(bits[22], bits[8], 1.5, g, m, error)
    bounds = np.array([[bets.bound(one, other, error) for other in bits] for one in bits])
    wrong = np.outer(_pmf(m, p), _pmf(m, 1 - p))[bounds > truth].sum()
    assert 0 < wrong <= error


def test_no_bet_loses_more_than_is_owned() -> None:
    """Whatever the pilot's values: 1 - high x > 0 for all x = e^(a g), |g| at the clip at most."""
    for order, clip in product((1.1, 1.5), (0.5, 4.0)):
        for g in (np.zeros(50), np.full(50, clip), np.repeat([clip, -clip], 25)):
            bets, _ = RenyiTest.choose_bets(g, -g, order, clip, 60, 1e-3)
            assert 0 < bets.high * np.exp(order * clip) < 1
            assert bets.low > 0
