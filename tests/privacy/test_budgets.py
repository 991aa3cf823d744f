"""Noise that a budget buys, and what one notion implies about another."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from support import FALSE_ALARM, assert_follows, name, noise_law

from dpbench.privacy import ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.privacy.analytic_gaussian import analytic_sd, gaussian_delta

EPSILONS = [1e-3, 0.1, 1.0, 10.0, 50.0]
DELTAS = [1e-12, 1e-6, 0.1]
PRIVATE: list[Budget] = [
    PureDP(0.3),
    PureDP(2.0),
    ZCDP(0.05),
    ApproxDP(0.7, 1e-6),
    ApproxDP(0.7, 1e-6, "classical"),
    ApproxDP(0.7, 1e-6, "ksu20"),
    ApproxDP(0.7, 1e-6, "laplace"),
]
each = pytest.mark.parametrize("budget", PRIVATE, ids=name)


def sd_of(budget: Budget) -> float:
    """The standard deviation of Gaussian noise, from its quantile at one of them."""
    return budget.noise_quantile(2 * float(stats.norm.sf(1)))


def hockey_stick(sd: float, epsilon: float) -> float:
    """The integral of (p - e^epsilon q)_+ for p, q = N(1, sd^2), N(0, sd^2)."""

    def excess(x: float) -> float:
        gap = epsilon - (x - 0.5) / sd**2
        return float(-np.expm1(gap) * stats.norm.pdf(x, 1.0, sd))

    start = sd**2 * epsilon + 0.5
    ends = sorted({start, max(start, 1.0), max(start, 1.0) + 12 * sd})
    # Steps in units of sd keep the quadrature on scale for far tails.
    grid = np.unique(np.concatenate([np.linspace(a, b, 13) for a, b in itertools.pairwise(ends)]))
    pieces = itertools.pairwise(grid)
    return sum(integrate.quad(excess, a, b, epsabs=0, epsrel=1e-10)[0] for a, b in pieces)


def test_the_analytic_gaussian_at_a_known_point() -> None:
    assert analytic_sd(1.0, 1e-6) == pytest.approx(4.224679, abs=5e-7)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_analytic_gaussian_meets_its_delta(epsilon: float, delta: float) -> None:
    sd = analytic_sd(epsilon, delta)
    assert gaussian_delta(sd, epsilon) == pytest.approx(delta, rel=1e-8, abs=0)
    assert hockey_stick(sd, epsilon) == pytest.approx(delta, rel=1e-7, abs=0)
    assert gaussian_delta(sd * 1.001, epsilon) < delta < gaussian_delta(sd * 0.999, epsilon)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-12), (1e3, 1e-6), (1.0, 0.99)])
def test_the_analytic_gaussian_far_out(epsilon: float, delta: float) -> None:
    assert gaussian_delta(analytic_sd(epsilon, delta), epsilon) == pytest.approx(
        delta, rel=1e-5, abs=0
    )


@pytest.mark.parametrize("noise_by", ["classical", "ksu20"])
@pytest.mark.parametrize("delta", DELTAS)
def test_the_classical_gaussians_are_private_up_to_one(noise_by: Any, delta: float) -> None:
    for epsilon in (1e-3, 0.1, 0.5, 1.0):
        sd = sd_of(ApproxDP(epsilon, delta, noise_by))
        assert gaussian_delta(sd, epsilon) <= delta
        assert sd >= analytic_sd(epsilon, delta)


@pytest.mark.parametrize("noise_by", ["classical", "ksu20"])
def test_the_classical_gaussians_are_refused_above_one(noise_by: Any) -> None:
    with pytest.raises(ValueError, match="epsilon <= 1 only"):
        ApproxDP(1.0001, 1e-6, noise_by)
    with pytest.raises(ValueError, match="epsilon <= 1 only"):
        ApproxDP(50.0, 1e-6, noise_by)


def test_the_classical_gaussian_at_fifty_would_not_be_private() -> None:
    for factor in (1.25, 2.0):
        sd = math.sqrt(2 * math.log(factor / 1e-6)) / 50
        assert gaussian_delta(sd, 50.0) > 100 * 1e-6


@pytest.mark.parametrize("epsilon", [1e-4, 0.3, 5.0])
def test_pure_to_zcdp(epsilon: float) -> None:
    assert PureDP(epsilon).to_zcdp().rho == pytest.approx(epsilon**2 / 2, rel=1e-15, abs=0)
    assert PureDP(epsilon).to_zcdp().pure_epsilon == pytest.approx(epsilon)


def test_zcdp_to_approx_at_a_known_point() -> None:
    found = ZCDP(0.1).to_approx(1e-6)
    assert found.epsilon == pytest.approx(2.1419, abs=5e-5)
    assert found.delta == 1e-6


@pytest.mark.parametrize("rho", [1e-8, 0.01, 1.0, 1e4])
@pytest.mark.parametrize("delta", [1e-12, 1e-3, 0.5])
def test_zcdp_to_approx_is_the_minimum_over_orders(rho: float, delta: float) -> None:
    a = 1 + np.exp(np.linspace(-15, 25, 40_001))
    grid = rho * a - (np.log(a) + math.log(delta)) / (a - 1) + np.log1p(-1 / a)
    found = ZCDP(rho).to_approx(delta).epsilon
    # The grid's step is 1e-3 in log(a - 1): its minimum is within 1e-5 of the true one.
    assert found == pytest.approx(max(float(grid.min()), 1e-9), rel=1e-5, abs=0)
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    # No conversion can promise less than the Gaussian mechanism of that rho needs.
    assert gaussian_delta(1 / math.sqrt(2 * rho), found) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [*DELTAS, 0.5])
def test_the_largest_rho_within_a_budget(epsilon: float, delta: float) -> None:
    rho = ZCDP.within(ApproxDP(epsilon, delta)).rho
    assert ZCDP(rho).to_approx(delta).epsilon <= epsilon * (1 + 1e-6)
    assert ZCDP(rho * 1.001).to_approx(delta).epsilon > epsilon


@pytest.mark.parametrize("epsilon", [1e-12, 1e-7, 3e-6, 3e-5])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 0.1])
def test_a_budget_too_small_for_any_rho_is_refused(epsilon: float, delta: float) -> None:
    """A rho is at least 1e-12: refused if and only if even that costs more than the budget."""
    a = 1 + np.exp(np.linspace(-15, 35, 5001))
    least = float((1e-12 * a - (np.log(a) + math.log(delta)) / (a - 1) + np.log1p(-1 / a)).min())
    if least <= epsilon and epsilon >= 1e-9:
        rho = ZCDP.within(ApproxDP(epsilon, delta)).rho
        assert rho >= 1e-12
        assert ZCDP(rho).to_approx(delta).epsilon <= epsilon * (1 + 1e-6)
    else:
        with pytest.raises(ValueError, match=r"^no rho >= 1e-12 is within ApproxDP") as caught:
            ZCDP.within(ApproxDP(epsilon, delta))
        assert len(str(caught.value).splitlines()) == 1
        assert str(epsilon) in str(caught.value)


@each
@pytest.mark.parametrize("beta", [0.5, 1e-9])
def test_noise_quantiles(budget: Budget, beta: float) -> None:
    law = noise_law(budget, 1.0, 1.0)
    assert 2 * law.sf(budget.noise_quantile(beta)) == pytest.approx(beta, rel=1e-6, abs=0)


@each
def test_the_tail_of_the_noise(budget: Budget) -> None:
    l1, l2 = 2.0, math.sqrt(2)
    upper = np.array([0.5, 0.4, 1e-3, 1e-9, 1e-17, 1e-100, 1e-300])
    found = budget.noise_tail(upper, l1, l2)
    assert found.shape == upper.shape
    assert found[0] == 0.0
    # A tail is off by its relative slope, up to x^2 = 1400 for a Gaussian, times 1e-14.
    np.testing.assert_allclose(noise_law(budget, l1, l2).sf(found), upper, rtol=1e-10)
    grid = budget.noise_tail(upper.reshape(-1, 1), l1, l2)
    np.testing.assert_array_equal(grid[:, 0], found)


@each
def test_the_tail_of_the_noise_at_its_ends(budget: Budget) -> None:
    ends = budget.noise_tail(np.array([5e-324, 1e-310, 0.5]), 1.0, 1.0)
    assert np.all(np.isfinite(ends))
    assert np.all(np.diff(ends) < 0)
    # One number's quantile of the absolute noise is half of its probability on each side.
    assert budget.noise_tail(np.array(0.05), 1.0, 1.0) == budget.noise_quantile(0.1)


@each
def test_noise_takes_its_own_sensitivity(budget: Budget) -> None:
    l1, l2 = 0.7, 0.4
    for shape in ((30_000,), (10_000, 3)):
        noise = budget.noise(np.random.default_rng(1), shape, l1, l2)
        assert noise.shape == shape
        assert_follows(noise, noise_law(budget, l1, l2))


@each
@pytest.mark.parametrize("draws", [3])
def test_averages_of_draws_against_explicit_ones(budget: Budget, draws: int) -> None:
    found = budget.noise(np.random.default_rng(2), (30_000,), 0.7, 0.4, draws)
    law = noise_law(budget, 0.7, 0.4)
    explicit = law.rvs((30_000, draws), random_state=3).mean(axis=1)
    # Two-sample Kolmogorov-Smirnov test with false-alarm probability 1e-6.
    assert stats.ks_2samp(found, explicit).pvalue > FALSE_ALARM


@each
def test_averages_of_very_many_draws_are_normal(budget: Budget) -> None:
    draws = 10**12
    found = budget.noise(np.random.default_rng(4), (30_000,), 0.7, 0.4, draws)
    sd = noise_law(budget, 0.7, 0.4).std() / math.sqrt(draws)
    assert_follows(found, stats.norm(scale=sd))  # at a distance of order 1e-12


def test_which_notion_implies_which() -> None:
    pure, zcdp, approx, none = PureDP(0.5), ZCDP(0.3), ApproxDP(0.4, 1e-5), NonPrivate()
    assert PureDP(1.0).cost_of(pure) == (0.5,)
    assert ZCDP(1.0).cost_of(pure) == (0.125,)
    assert ZCDP(1.0).cost_of(zcdp) == (0.3,)
    assert ApproxDP(1.0, 1e-3).cost_of(pure) == (0.5, 0.0)
    assert ApproxDP(1.0, 1e-3).cost_of(approx) == (0.4, 1e-5)
    assert [none.cost_of(b) for b in (pure, zcdp, approx, none)] == [()] * 4


@pytest.mark.parametrize(
    ("budget", "other"),
    [
        (PureDP(1.0), ZCDP(0.1)),
        (PureDP(1.0), ApproxDP(0.1, 1e-6)),
        (PureDP(1.0), NonPrivate()),
        (ZCDP(1.0), ApproxDP(0.1, 1e-6)),
        (ZCDP(1.0), NonPrivate()),
        (ApproxDP(1.0, 1e-3), NonPrivate()),
    ],
)
def test_implications_that_do_not_hold_are_refused(budget: Budget, other: Budget) -> None:
    with pytest.raises(ValueError, match=f"{other.notion} implies no {budget.notion}"):
        budget.cost_of(other)


def test_fractions() -> None:
    assert PureDP(1.0).fraction(0.25) == PureDP(0.25)
    assert ZCDP(1.0).fraction(0.25) == ZCDP(0.25)
    assert ApproxDP(1.0, 0.5, "ksu20").fraction(0.25) == ApproxDP(0.25, 0.125, "ksu20")
    assert NonPrivate().fraction(0.25) == NonPrivate()


def test_the_exponential_mechanism_under_each_notion() -> None:
    assert PureDP(0.3).exponential_epsilon == 0.3
    assert ZCDP(0.02).exponential_epsilon == pytest.approx(0.4)
    assert ApproxDP(0.3, 1e-6).exponential_epsilon == 0.3
    with pytest.raises(ValueError, match="none"):
        _ = NonPrivate().exponential_epsilon


def test_no_privacy_is_no_noise() -> None:
    noise = NonPrivate().noise(np.random.default_rng(0), (3, 2), 1.0, 1.0)
    assert noise.tolist() == [[0.0, 0.0]] * 3
    assert NonPrivate().noise_quantile(0.1) == 0.0
    assert NonPrivate().noise_tail(np.array([1e-9, 0.5]), 2.0, 1.0).tolist() == [0.0, 0.0]


def test_labels_name_a_mechanism_that_is_not_the_default() -> None:
    labels = [budget.label for budget in PRIVATE]
    assert labels == ["pure"] * 2 + ["zcdp", "approx"] + [
        f"approx_{by}" for by in ("classical", "ksu20", "laplace")
    ]


@pytest.mark.parametrize(
    ("notion", "amounts"),
    [
        (PureDP, (0.0,)),
        (PureDP, (-1.0,)),
        (PureDP, (math.inf,)),
        (PureDP, (math.nan,)),
        (ZCDP, (0.0,)),
        (ZCDP, (math.nan,)),
        (ApproxDP, (1.0, 0.0)),
        (ApproxDP, (1.0, 1.0)),
        (ApproxDP, (0.0, 1e-6)),
        (ApproxDP, (1.0,)),
        (ApproxDP, (1.0, 1e-6, "uniform")),
    ],
)
def test_amounts_that_are_no_guarantee_are_refused(notion: Any, amounts: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=notion.__name__):
        notion(*amounts)
