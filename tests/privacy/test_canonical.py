"""Canonical noise: its defining equation, and the trade-off function of zCDP."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, NonPrivate, PureDP
from dpbench.privacy.canonical import (
    TradeOff,
    concentrated_trade_off,
    trade_off_noise,
)
from dpbench.privacy.conversions import rho_of_pure
from dpbench.theory.exact.binary import tulap_or_gaussian
from tests.support import Floats, assert_follows, rng

X = np.linspace(-6, 6, 97)


def approx(epsilon: float, delta: float) -> TradeOff:
    def f(a: Floats) -> Floats:
        one = 1 - delta - np.exp(epsilon) * a
        return np.asarray(np.maximum(0.0, np.maximum(one, np.exp(-epsilon) * (1 - delta - a))))

    return f


def gaussian(mu: float) -> TradeOff:
    return lambda a: np.asarray(ndtr(ndtri(1 - a) - mu))


BUDGETS: list[tuple[Budget, TradeOff]] = [
    (PureDP(0.7), approx(0.7, 0.0)),
    (ApproxDP(1.0, 1e-3), approx(1.0, 1e-3)),
    (ApproxDP(0.2, 0.6), approx(0.2, 0.6)),
    (GDP(0.8), gaussian(0.8)),
]
each = pytest.mark.parametrize(("budget", "f"), BUDGETS, ids=[b.notion for b, _ in BUDGETS])


@each
def test_the_best_test_of_a_shift_by_one_has_the_trade_off(budget: Budget, f: TradeOff) -> None:
    """Check equation (1) for the noise of the budget, and for the general construction."""
    for noise in (budget.canonical_noise, trade_off_noise(f)):
        tail = noise.upper_tail(X)
        inside = tail < 1
        np.testing.assert_allclose(noise.upper_tail(X + 1)[inside], f(1 - tail[inside]), atol=1e-12)
        np.testing.assert_allclose(tail + noise.upper_tail(-X), 1, atol=1e-15)
        upper = np.array([0.5, 0.31, 0.1, 1e-3])
        np.testing.assert_allclose(noise.upper_tail(noise.upper_quantile(upper)), upper, rtol=1e-9)


@each
def test_draws_and_tails_follow_the_law(budget: Budget, f: TradeOff) -> None:
    """False alarm 1e-6. The law is computed without the module."""
    law, noise = tulap_or_gaussian(budget), budget.canonical_noise
    np.testing.assert_allclose(noise.upper_tail(X), law.cdf(-X), atol=1e-12)
    assert_follows(Ledger(budget, rng()).add_canonical_noise(np.zeros(20_000), 1.0), law)
    if noise.steps:  # the construction is unique for Tulap noise only
        assert_follows(trade_off_noise(f).draw(rng(), (20_000,)), law)


def test_the_end_is_the_largest_noise() -> None:
    noise = ApproxDP(0.5, 0.01).canonical_noise
    assert noise.upper_tail(np.array([noise.end - 1e-6]))[0] > 0
    assert noise.upper_tail(np.array([noise.end + 1e-6]))[0] == 0
    assert np.isinf(PureDP(0.5).canonical_noise.end)


def test_steps_are_flat() -> None:
    """Within (k - 1/2, k + 1/2) the tail of Tulap noise is linear."""
    for budget in (PureDP(0.3), ApproxDP(0.3, 1e-4)):
        tail = budget.canonical_noise.upper_tail(np.linspace(1.5, 2.5, 5))
        np.testing.assert_allclose(np.diff(tail, 2), 0, atol=1e-15)


@pytest.mark.parametrize("rho", [1e-4, 0.1, 2.0])
def test_every_concentrated_release_satisfies_the_trade_off(rho: float) -> None:
    """Compare with Gaussian noise and with the worst randomised response, which are rho-zCDP."""
    f, a = concentrated_trade_off(rho), np.array([1e-6, 0.01, 0.2, 0.5, 0.9])
    assert np.all(f(a) <= gaussian(np.sqrt(2 * rho))(a))
    np.testing.assert_allclose(f(f(a)), a, rtol=1e-6)  # symmetric
    assert f(np.zeros(1)) == 1
    assert f(np.ones(1)) == 0
    low, high = 1e-9, 10.0  # the epsilon of randomised response with rho-zCDP
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rho_of_pure(middle) < rho else (low, middle)
    wrong = 1 / (1 + np.exp(low))
    assert f(np.array([wrong]))[0] <= wrong * (1 + 1e-9)
    assert f(np.array([0.98 * wrong]))[0] > 0.98 * wrong  # not much smaller than allowed


def test_without_privacy_there_is_no_noise() -> None:
    with pytest.raises(ValueError, match="a none budget has no canonical noise"):
        _ = NonPrivate().canonical_noise
    assert ZCDP(0.5).canonical_noise.upper_tail(np.array([1.0])) == pytest.approx(ndtr(-1.0))
