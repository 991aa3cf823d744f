"""Bounds against direct formulas, and their coverage by exact enumeration: nothing is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from math import comb, fsum

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from scipy.stats import binomtest

from dpbench.audit.bounds import (
    ORDERS,
    event_bound,
    guess_bound,
    highest,
    lowest,
    parameter_of_event,
)
from dpbench.privacy import ZCDP, ApproxDP, Budget, NonPrivate, PureDP

Floats = NDArray[np.float64]

PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
ROUNDING = 1 + 1e-9
PROBABILITIES = [1e-3, 0.02, 0.1, 0.3, 0.5, 0.77, 0.99, 0.999]


def _pmf(n: int, p: float) -> Floats:
    return np.array([comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])


@pytest.mark.parametrize("error", [0.3, 1e-2, 1e-5])
@pytest.mark.parametrize("runs", [1, 2, 9, 60, 800])
def test_clopper_pearson_is_that_of_scipy(runs: int, error: float) -> None:
    for hits in {0, 1, runs // 3, runs - 1, runs}:
        # Two-sided, with `error` on each side.
        known = binomtest(hits, runs).proportion_ci(1 - 2 * error, method="exact")
        assert lowest(hits, runs, error) == pytest.approx(known.low, rel=1e-7)
        assert highest(hits, runs, error) == pytest.approx(known.high, rel=1e-7)


@pytest.mark.parametrize("error", [0.2, 1e-3, 1e-9])
@pytest.mark.parametrize("runs", [1, 5, 40, 300])
def test_at_the_bound_the_tail_beyond_the_count_is_the_error(runs: int, error: float) -> None:
    for hits in {0, 1, runs // 2, runs - 1, runs}:
        low, high = float(lowest(hits, runs, error)), float(highest(hits, runs, error))
        if hits > 0:
            assert fsum(_pmf(runs, low)[hits:]) == pytest.approx(error, rel=1e-6)
        if hits < runs:
            assert fsum(_pmf(runs, high)[: hits + 1]) == pytest.approx(error, rel=1e-6)
    assert lowest(0, runs, error) == 0
    assert highest(runs, runs, error) == 1


def test_ends_that_have_a_closed_form_at_many_runs() -> None:
    # p^m = error, and (1 - p)^m = error.
    for runs, error in product([10**3, 10**6, 10**8], [1e-3, 1e-12]):
        assert lowest(runs, runs, error) == pytest.approx(error ** (1 / runs), rel=1e-12)
        missed = -np.expm1(np.log(error) / runs)
        assert highest(0, runs, error) == pytest.approx(missed, rel=1e-6)


@pytest.mark.parametrize("error", [0.2, 0.01, 1e-5])
@pytest.mark.parametrize("runs", [1, 3, 10, 45])
def test_ends_exceed_the_truth_no_oftener_than_the_error(runs: int, error: float) -> None:
    low, high = lowest(np.arange(runs + 1), runs, error), highest(np.arange(runs + 1), runs, error)
    # The hardest truths are just below an end that may be seen.
    hardest = [float(end) * (1 - 1e-12) for end in low[1:]]
    missed = [_pmf(runs, p)[low > p].sum() for p in (*PROBABILITIES, *hardest)]
    assert max(missed) <= error * ROUNDING
    assert max(missed) > 0.999 * error  # and the error is used up
    hardest = [float(end) + 1e-13 for end in high[:-1]]
    missed = [_pmf(runs, p)[high < p].sum() for p in (*PROBABILITIES, *hardest)]
    assert max(missed) <= error * (1 + 1e-6)


@pytest.mark.parametrize("budget", [PURE, RHO, APPROX, ApproxDP(1.0, 0.1)])
def test_an_event_shows_too_much_no_oftener_than_the_error(budget: Budget) -> None:
    m, k, error = 14, 11, 0.1
    hits = np.arange(m + 1)[:, None], np.arange(k + 1)
    found = event_bound(hits[0], m, hits[1], k, budget, error)
    assert found.max() > 0
    # Also where both ends miss their truths at once: just below and above what may be seen.
    ends = lowest(np.arange(1, m + 1), m, error / 2), highest(np.arange(k), k, error / 2)
    for p in (*PROBABILITIES, *ends[0] * (1 - 1e-12)):
        for q in (*PROBABILITIES, *np.minimum(ends[1] * (1 + 1e-12), 1)):
            truth = parameter_of_event(p, q, budget) * (1 + 1e-12)
            likely = np.outer(_pmf(m, p), _pmf(k, q))
            assert likely[found > truth].sum() <= error * ROUNDING


def _naive_rho(p: float, q: float, orders: Iterable[float]) -> float:
    return max(
        float(np.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a))) / (a - 1) / a
        for a in orders
    )


def test_the_parameter_of_an_event_by_its_formula() -> None:
    for p, q in product(PROBABILITIES, PROBABILITIES):
        pure, rho, approx = (float(parameter_of_event(p, q, b)) for b in (PURE, RHO, APPROX))
        if p <= q:
            assert pure == rho == approx == 0
            continue
        assert pure == pytest.approx(np.log(p / q))
        assert approx == pytest.approx(max(0.0, np.log(max(p - 1e-6, 1e-300) / q)))
        assert rho == pytest.approx(_naive_rho(p, q, ORDERS), rel=1e-6)
        # Orders of our own: little is lost between those that are tried.
        assert rho >= 0.98 * _naive_rho(p, q, np.linspace(1.01, 40, 300))
    assert ORDERS.min() > 1


@pytest.mark.parametrize("budget", [PURE, RHO, APPROX])
def test_the_parameter_grows_with_p_and_falls_with_q(budget: Budget) -> None:
    grid = np.linspace(0, 1, 201)
    found = parameter_of_event(grid[:, None], grid, budget)
    assert not np.isnan(found).any()
    assert found.min() == 0
    assert np.isinf(found[1:, 0]).all()  # what never happened on the other
    with np.errstate(invalid="ignore"):  # infinite less infinite
        assert np.nanmin(np.diff(found, axis=0)) >= -1e-12
        assert np.nanmax(np.diff(found, axis=1)) <= 1e-12


def test_no_parameter_without_a_claim() -> None:
    with pytest.raises(ValueError, match="nothing is claimed"):
        parameter_of_event(0.5, 0.1, NonPrivate())


POINTS = np.linspace(-8, 8, 3201)


def _largest(above: Callable[[Floats], Floats], shift: float, budget: Budget) -> float:
    """What half-lines show of symmetric noise around 0 and `shift`, each way round."""
    sides = (above(POINTS), above(POINTS - shift)), (above(-POINTS), above(shift - POINTS))
    found = [parameter_of_event(p, q, budget) for a, b in sides for p, q in ((a, b), (b, a))]
    return float(np.max(found))


def _above_gaussian(at: Floats) -> Floats:
    return np.asarray(ndtr(-at))


def _above_laplace(at: Floats) -> Floats:
    tail = np.exp(-np.abs(at)) / 2
    return np.where(at > 0, tail, 1 - tail)


@pytest.mark.parametrize("rho", [0.005, 0.1, 0.5, 2.0])
def test_gaussian_noise_shows_no_more_than_its_rho(rho: float) -> None:
    shown = _largest(_above_gaussian, float(np.sqrt(2 * rho)), ZCDP(rho))
    assert 0.6 * rho < shown <= rho * ROUNDING


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_laplace_noise_shows_its_epsilon(epsilon: float) -> None:
    assert _largest(_above_laplace, epsilon, PureDP(epsilon)) == pytest.approx(epsilon, rel=1e-9)
    # Which is (epsilon^2/2)-zCDP.
    assert _largest(_above_laplace, epsilon, RHO) <= epsilon**2 / 2


@pytest.mark.parametrize("delta", [1e-6, 1e-2])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_analytic_gaussian_noise_shows_its_epsilon(epsilon: float, delta: float) -> None:
    budget = ApproxDP(epsilon, delta)
    sd = float(budget.noise_tail(ndtr(np.array(-1.0)), 1.0, 1.0))
    shown = _largest(_above_gaussian, 1 / sd, budget)
    # The noise is the least that satisfies its claim: a half-line attains it.
    assert (1 - 1e-3) * epsilon < shown <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize("error", [0.2, 0.01, 1e-5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
def test_guesses_show_too_much_no_oftener_than_the_error(epsilon: float, error: float) -> None:
    odds = float(expit(epsilon))
    for guesses in (1, 4, 30):
        found = np.array([guess_bound(r, guesses, error) for r in range(guesses + 1)])
        assert (np.diff(found) >= 0).all()
        too_much = found > epsilon
        assert _pmf(guesses, odds)[too_much].sum() <= error * ROUNDING
        # Some guesses that are right less often only help.
        mixed = np.ones(1)
        for p in np.linspace(1 - odds, odds, guesses):
            mixed = np.convolve(mixed, [1 - p, p])
        assert mixed[too_much].sum() <= error * ROUNDING


def test_abstaining_keeps_the_bound_valid() -> None:
    runs, epsilon, error = 30, 1.0, 0.05
    odds = float(expit(epsilon))
    wrong = 0.0
    for guesses, likely in enumerate(_pmf(runs, 0.4)):
        found = np.array([guess_bound(r, guesses, error) for r in range(guesses + 1)])
        wrong += likely * _pmf(guesses, odds)[found > epsilon].sum()
    assert 0 < wrong <= error
    assert guess_bound(0, 0, error) == 0


def test_guesses_that_are_worse_than_a_coin_show_nothing() -> None:
    assert guess_bound(500, 1000, 0.4) == 0
    assert guess_bound(3, 1000, 0.4) == 0
    assert guess_bound(1000, 1000, 1e-5) == pytest.approx(np.log(1 / (1e5 ** (1e-3) - 1)))
