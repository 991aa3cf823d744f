"""Noise of budgets, implications between notions, and labels."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from dpbench.errors import ConfigError
from dpbench.privacy import AMOUNTS, GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.privacy.conversions import (
    analytic_sd,
    approx_of_rho,
    gaussian_delta,
    mu_of_pure,
    rho_of_pure,
)  # fmt: skip
from tests.support import assert_follows, name, noise_law, rng

PRIVATE: list[Budget] = [
    PureDP(0.3),
    PureDP(2.0),
    ZCDP(0.05),
    GDP(0.6),
    ApproxDP(0.7, 1e-6),
    ApproxDP(0.7, 0.1),
    ApproxDP(0.7, 1e-6, "analytic"),
    ApproxDP(0.7, 1e-6, "classical"),
    ApproxDP(0.7, 1e-6, "ksu20"),
    ApproxDP(0.7, 1e-6, "laplace"),
]
each = pytest.mark.parametrize("budget", PRIVATE, ids=name)


def sd_of(budget: Budget) -> float:
    """Return the standard deviation of Gaussian noise, from its quantile at one sd."""
    return budget.noise_quantile(2 * float(stats.norm.sf(1)))


def hockey_stick(sd: float, epsilon: float) -> float:
    """Return the integral of (p - e^epsilon q)_+ for p, q = N(1, sd^2), N(0, sd^2).

    The integral is in units of sd, from the point at which the integrand begins.
    """
    start = epsilon * sd - 0.5 / sd
    ends = itertools.pairwise(np.linspace(0, max(0, -start) + 12, 40))
    return sum(
        integrate.quad(
            lambda u: -np.expm1(-u / sd) * stats.norm.pdf(start + u), *piece, epsabs=0, epsrel=1e-10
        )[0]
        for piece in ends
    )


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        *itertools.product([1e-3, 0.1, 1.0, 10.0, 50.0], [1e-12, 1e-6, 0.1]),
        *((1e-6, 1e-12), (1e3, 1e-6), (1.0, 0.99)),  # cancellation loses digits here
    ],
)
def test_the_gaussians_meet_their_delta(epsilon: float, delta: float) -> None:
    sd = analytic_sd(epsilon, delta)
    wanted = pytest.approx(delta, rel=1e-7 if 1e-3 <= epsilon <= 50 else 1e-5, abs=0)
    assert gaussian_delta(sd, epsilon) == wanted
    assert hockey_stick(sd, epsilon) == wanted
    for noise_by in ("classical", "ksu20"):
        if epsilon <= 1:
            assert gaussian_delta(sd_of(ApproxDP(epsilon, delta, noise_by)), epsilon) <= delta
        else:
            with pytest.raises(ValueError, match="epsilon <= 1 only"):
                ApproxDP(epsilon, delta, noise_by)


@each
def test_tails_and_quantiles_of_the_noise(budget: Budget) -> None:
    l1, l2 = 2.0, math.sqrt(2)
    upper = np.array([0.5, 0.4, 1e-3, 1e-9, 1e-17, 1e-100, 1e-300])
    found = budget.noise_tail(upper, l1, l2)
    # A tail is off by its relative slope, up to x^2 = 1400 for a Gaussian, times 1e-14.
    np.testing.assert_allclose(noise_law(budget, l1, l2).sf(found), upper, rtol=1e-10)
    ends = budget.noise_tail(np.array([5e-324, 1e-310, 0.5]), 1.0, 1.0)
    assert np.all(np.isfinite(ends))
    assert np.all(np.diff(ends) < 0)
    # One number's quantile of the absolute noise is half of its probability on each side.
    assert budget.noise_tail(np.array(0.05), 1.0, 1.0) == budget.noise_quantile(0.1)


@each
def test_the_noise_takes_its_own_sensitivity(budget: Budget) -> None:
    law = noise_law(budget, 0.7, 0.4)
    for shape in ((20_000,), (5_000, 3)):
        noise = budget.noise(rng(1), shape, 0.7, 0.4)
        assert noise.shape == shape
        assert_follows(noise, law)
    # The average of a few draws, and of so many that it is normal but for 1e-12.
    explicit = law.rvs((20_000, 3), random_state=3).mean(axis=1)
    assert stats.ks_2samp(budget.noise(rng(2), (20_000,), 0.7, 0.4, 3), explicit).pvalue > 1e-6
    many = budget.noise(rng(4), (20_000,), 0.7, 0.4, 10**12)
    assert_follows(many, stats.norm(scale=law.std() / 1e6))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 2.525e-4), (1.0, 0.03963), (2.0, 0.11452)])
def test_the_quieter_noise_is_the_default(epsilon: float, delta: float) -> None:
    """Check that Laplace noise is chosen below the break-even delta, and Gaussian noise above."""
    below, above = (ApproxDP(epsilon, delta * (1 + off)) for off in (-1e-3, 1e-3))
    assert below.noise_quantile(0.1) == PureDP(epsilon).noise_quantile(0.1)
    assert above.noise_quantile(0.1) == pytest.approx(stats.norm.isf(0.05) * sd_of(above))
    for budget in (below, above):
        assert budget.label == "approx"
        assert sd_of(replace(budget, noise_by="analytic")) == pytest.approx(
            math.sqrt(2) / epsilon, rel=2e-3
        )
    # With both sensitivities: sqrt(2) l1/epsilon against s l2.
    for budget, l1 in itertools.product((below, above), (0.9, 1.1)):
        noise = budget.noise(rng(), (3,), l1, 1.0)
        pure = PureDP(epsilon).noise(rng(), (3,), l1, 1.0)
        assert np.array_equal(noise, pure) == (l1 < 1)


@pytest.mark.parametrize("d", [1, 8, 9, 30])
def test_the_quieter_noise_of_vectors(d: int) -> None:
    """Check the break-even of mean squares 2 d l1^2 = 2 d^2 and d 4.2247^2, at d = 8.92."""
    budget, l1 = ApproxDP(1.0, 1e-6), np.full((2, 1), math.sqrt(d))
    noise = budget.noise(rng(), (2, d), l1, np.ones((2, 1)))
    pure = PureDP(1.0).noise(rng(), (2, d), l1, 1.0)
    assert np.array_equal(noise, pure) == (d <= 8)


PURE, ZERO, MU, APPROX, NONE = PureDP(0.5), ZCDP(0.3), GDP(0.6), ApproxDP(0.4, 1e-5), NonPrivate()
ALL = (PURE, ZERO, MU, APPROX, NONE)
IMPLIED = [one.to_approx(1e-3).amounts for one in (ZERO, MU)]
COSTS: list[tuple[Budget, list[tuple[float, ...] | None]]] = [  # costs in the notions of ALL
    (PureDP(1.0), [(0.5,), None, None, None, None]),
    (ZCDP(1.0), [(rho_of_pure(0.5),), (0.3,), (0.18,), None, None]),  # mu^2/2
    (GDP(1.0), [(mu_of_pure(0.5) ** 2,), None, (0.36,), None, None]),
    (ApproxDP(1.0, 1e-3), [(0.5, 0.0), *IMPLIED, (0.4, 1e-5), None]),
    (NONE, [(), (), (), (), ()]),
]


@pytest.mark.parametrize(("budget", "costs"), COSTS, ids=name)
def test_which_notion_implies_which(budget: Budget, costs: list[tuple[float, ...] | None]) -> None:
    for other, cost in zip(ALL, costs, strict=True):
        if cost is not None:
            assert budget.cost_of(other) == cost
            continue
        with pytest.raises(ValueError, match=f"{other.notion} implies no {budget.notion}"):
            budget.cost_of(other)


def test_fractions() -> None:
    for budget, quarter in (
        (PureDP(1.0), PureDP(0.25)),
        (ZCDP(1.0), ZCDP(0.25)),
        (GDP(1.0), GDP(0.5)),
        (ApproxDP(1.0, 0.5, "ksu20"), ApproxDP(0.25, 0.125, "ksu20")),
        (NONE, NONE),
    ):
        budget.noise(rng(), (1,), 1.0, 1.0)  # its cache is not inherited
        part = budget.fraction(0.25)
        assert part == quarter
        drawn = [one.noise(rng(), (3,), 1.0, 1.0).tolist() for one in (part, quarter)]
        assert drawn[0] == drawn[1]


def test_no_privacy_is_no_noise() -> None:
    assert NONE.noise(rng(), (3, 2), 1.0, 1.0).tolist() == [[0.0, 0.0]] * 3
    assert NONE.noise_quantile(0.1) == 0.0


@pytest.mark.parametrize(
    ("notion", "amounts"),
    [(PureDP, (0.0,)), (PureDP, (math.inf,)), (ZCDP, (-1.0,)), (ZCDP, (math.nan,))]
    + [
        (ApproxDP, (1.0, *rest))
        for rest in ((0.0,), (1.0,), (), (1e-6, "uniform"), (5e-324,), (2.2e-308,))
    ],
)
def test_amounts_that_are_no_guarantee_are_refused(notion: Any, amounts: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError, match=r"^(epsilon|rho|delta|noise_by): "):
        notion(*amounts)


@pytest.mark.parametrize("noise", ["best", "analytic", "classical", "laplace", "tulap"])
def test_the_smallest_delta_has_finite_noise(noise: Any) -> None:
    budget = ApproxDP(1.0, float(np.finfo(float).tiny), noise)
    assert np.isfinite(budget.noise(rng(), (5,), 1.0, 1.0)).all()


@pytest.mark.parametrize(
    ("budget", "label", "wanted"),
    [
        (PureDP(1), "pure", (1, None, None, None)),
        (ZCDP(0.25), "zcdp", (None, None, 0.25, None)),
        (GDP(2), "gdp", (None, None, None, 2)),
        (ApproxDP(2, 1e-5), "approx", (2, 1e-5, None, None)),
        (ApproxDP(1, 1e-5, noise_by="analytic"), "approx_analytic", (1, 1e-5, None, None)),
        (ApproxDP(1, 1e-5, noise_by="ksu20"), "approx_ksu20", (1, 1e-5, None, None)),
        (NonPrivate(), "none", (None, None, None, None)),
    ],
)
def test_a_budget_in_columns(budget: Budget, label: str, wanted: tuple[Any, ...]) -> None:
    names = ["privacy", "epsilon", "delta", "rho", "mu"]
    assert list(budget.columns) == ["privacy", *AMOUNTS] == names
    privacy, *found = budget.columns.values()
    assert privacy == budget.label == label
    assert all(type(amount) is float for amount in found)  # for integers, too
    np.testing.assert_array_equal(found, np.array(wanted, dtype=float))
    assert budget.amounts == tuple(amount for amount in wanted if amount is not None)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_what_the_exponential_mechanism_may_choose_by_under_gdp(mu: float) -> None:
    """Check that odds times e^epsilon shift a normal quantile by at most mu, at even odds."""
    half, x = GDP(mu).exponential_epsilon / 2, np.linspace(-8, 8, 16_001)
    after, before = (stats.norm.ppf(special.expit(x + sign * half)) for sign in (1, -1))
    assert np.max(after - before) == pytest.approx(mu, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5, 1 - 2.0**-53])
def test_a_large_epsilon_has_a_rho_within_its_range(delta: float) -> None:
    """The largest rho of a budget is 1e6, and the search for it does not leave this range."""
    rho = ZCDP.within(ApproxDP(1e6, delta)).rho
    assert 9e5 < rho <= 1e6
    assert approx_of_rho(rho, delta) <= 1e6 * (1 + 1e-9)


@pytest.mark.parametrize("budget", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5), GDP(1)])
def test_a_budget_can_be_sent_after_use(budget: Budget) -> None:
    """Cached noise has functions that no pickle holds."""
    quantile = budget.canonical_noise.upper_quantile(np.full(1, 0.1))
    sent = pickle.loads(pickle.dumps(budget))
    assert sent == budget
    assert sent.canonical_noise.upper_quantile(np.full(1, 0.1)) == quantile
