"""Noise that a budget buys, and what one notion implies about another."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ndtri_exp

from dpbench.errors import ConfigError
from dpbench.privacy import AMOUNTS, GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.privacy.conversions import (
    analytic_sd,
    gaussian_delta,
    mu_of_pure,
    pure_of_mu,
    pure_of_rho,
    rho_of_pure,
)  # fmt: skip
from tests.support import Floats, assert_follows, name, noise_law, rng

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
    """The standard deviation of Gaussian noise, from its quantile at one of them."""
    return budget.noise_quantile(2 * float(stats.norm.sf(1)))


def hockey_stick(sd: float, epsilon: float) -> float:
    """The integral of (p - e^epsilon q)_+ for p, q = N(1, sd^2), N(0, sd^2).

    In units of sd from the point where it begins.
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
        *((1e-6, 1e-12), (1e3, 1e-6), (1.0, 0.99)),  # where digits are lost
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


def phi(x: Decimal) -> Decimal:
    """Phi to 60 digits, by its series."""
    z = x / Decimal(2).sqrt()
    term, total, k = z, z, 0
    while abs(term) > Decimal(10) ** -60:
        k += 1
        term = -term * z * z / k
        total += term / (2 * k + 1)
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
    return Decimal("0.5") + total / pi.sqrt()


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-12, 1e-12), (1e-12, 1e-6), (1e-9, 1e-9), (1e-8, 1e-14)]
)
def test_a_tiny_budget_needs_just_so_much_noise(epsilon: float, delta: float) -> None:
    with localcontext(prec=70):
        sd, e = Decimal(analytic_sd(epsilon, delta)), Decimal(epsilon)
        found = phi(1 / (2 * sd) - e * sd) - e.exp() * phi(-1 / (2 * sd) - e * sd)
    assert float(found) == pytest.approx(delta, rel=1e-10)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-10, 1e-8])
@pytest.mark.parametrize("delta", [1e-300, 1e-250, 1e-200])
def test_a_tiny_budget_of_a_delta_next_to_none(epsilon: float, delta: float) -> None:
    """In place of digits the asymptotic series of 1 - z (1 - Phi(z))/phi(z), at z = epsilon sd.

    As e^epsilon phi(b) = phi(a), delta is phi(a) times its integral from -a to -b, of length 1/sd.
    """
    sd = analytic_sd(epsilon, delta)
    z = epsilon * sd
    series = sum((-1) ** k * math.prod(range(1, 2 * k + 2, 2)) / z ** (2 * k + 2) for k in range(8))
    log_phi = -(z**2) / 2 - math.log(2 * math.pi) / 2
    found = math.exp(log_phi - math.log(delta)) * series / sd
    assert found == pytest.approx(1, rel=1e-7)


def smallest_epsilon(rho: float, delta: float) -> float:
    """That rho-zCDP implies, over orders a; the step 1e-3 in log(a - 1) is worth 1e-5 of it."""
    a = 1 + np.exp(np.linspace(-15, 35, 50_001))
    return float((rho * a - (np.log(a) + math.log(delta)) / (a - 1) + np.log1p(-1 / a)).min())


@pytest.mark.parametrize("rho", [1e-8, 0.01, 1.0, 1e4])
@pytest.mark.parametrize("delta", [1e-12, 0.5])
def test_zcdp_to_approx_is_the_minimum_over_orders(rho: float, delta: float) -> None:
    found = ZCDP(rho).to_approx(delta).epsilon
    assert found == pytest.approx(max(smallest_epsilon(rho, delta), 1e-9), rel=1e-5, abs=0)
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    # No conversion can promise less than the Gaussian mechanism of that rho needs.
    assert gaussian_delta(1 / math.sqrt(2 * rho), found) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1e-12, 3e-6, 3e-5, 1.0, 50.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 0.1, 0.5])
def test_the_largest_rho_within_a_budget(epsilon: float, delta: float) -> None:
    """A rho is at least 1e-12: refused if and only if even that costs more than the budget."""
    budget = ApproxDP(epsilon, delta)
    if smallest_epsilon(1e-12, delta) <= epsilon and epsilon >= 1e-9:
        rho = ZCDP.within(budget).rho
        assert ZCDP(rho).to_approx(delta).epsilon <= epsilon * (1 + 1e-6)
        assert ZCDP(rho * 1.001).to_approx(delta).epsilon > epsilon
        return
    with pytest.raises(ValueError, match=r"^no rho >= 1e-12 is within ApproxDP\(epsilon=.*, .*$"):
        ZCDP.within(budget)


LEVELS = np.concatenate([np.geomspace(1e-12, 0.5, 400), 1 - np.geomspace(1e-12, 0.5, 400)])


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.01, 0.5, 0.999, 1.001, 3.0, 30.0, 700.0])
def test_a_pure_step_under_gaussian_privacy(epsilon: float) -> None:
    """The smallest mu whose trade-off is below that of pure DP at all type I errors."""
    mu = mu_of_pure(epsilon)
    assert pure_of_mu(mu) == pytest.approx(epsilon, rel=1e-10, abs=0)
    meet = 1 / (1 + np.exp(epsilon))
    # Points of the two segments, beside where they meet too.
    a = np.concatenate([LEVELS, meet * np.geomspace(0.5, 1, 99), meet * np.geomspace(1, 1.9, 99)])
    a = a[a < 1]
    pure = np.maximum(1 - np.exp(epsilon) * a, np.exp(-epsilon) * (1 - a))

    def gaussian(mu: float) -> Floats:
        return np.asarray(stats.norm.cdf(stats.norm.isf(a) - mu))

    assert np.all(gaussian(mu) <= pure * (1 + 1e-9) + 1e-15)
    if epsilon >= 1e-6:
        assert np.any(gaussian(mu * (1 - 1e-6)) > pure)
    if epsilon < 1e-5:  # Phi(mu/2) - 1/2 is mu phi(0)/2, and epsilon/4
        assert mu == pytest.approx(epsilon * math.sqrt(math.pi / 2), rel=1e-8)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 3.0, 30.0, 1e4])
def test_a_pure_step_under_zcdp(epsilon: float) -> None:
    """The largest D_a/a of a bit that is kept with odds e^epsilon."""
    a = 1 + np.geomspace(1e-3, 1e5, 3000)
    kept, flipped = -np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)
    one, other = a * kept + (1 - a) * flipped, a * flipped + (1 - a) * kept
    renyi = np.logaddexp(one, other) / (a - 1) / a
    rho = rho_of_pure(epsilon)
    if epsilon >= 0.01:  # where rounding hides nothing
        assert renyi.max() <= rho * (1 + 1e-9)
        assert renyi.max() == pytest.approx(rho, rel=2e-3)
    assert rho <= epsilon**2 / 2
    assert pure_of_rho(rho) == pytest.approx(epsilon, rel=1e-12)
    assert pure_of_rho(0.5) == pytest.approx(1.0437, abs=1e-4)


@pytest.mark.parametrize("mu", [1e-6, 0.1, 1.0, 3.0, 20.0])
def test_the_exponential_mechanism_under_gaussian_privacy(mu: float) -> None:
    """Ratios in [e^(t - epsilon), e^t]: the largest Phi^-1(p) - Phi^-1(q) over t is mu."""
    epsilon = GDP(mu).exponential_epsilon
    assert epsilon == 2 * GDP(mu).pure_epsilon
    t = np.linspace(0, epsilon, 2001)[1:-1]
    log_q = np.log(-np.expm1(t - epsilon)) - t - np.log(-np.expm1(-epsilon))
    log_p = log_q + t
    small = log_p < math.log(0.5)
    p = np.where(small, ndtri_exp(np.where(small, log_p, -1.0)), 0.0)
    rest = np.log(-np.expm1(-t)) + t - epsilon - np.log(-np.expm1(-epsilon))  # ln(1 - p)
    p = np.where(small, p, -ndtri_exp(np.where(small, -1.0, rest)))
    needed = p - ndtri_exp(log_q)
    assert needed.max() == pytest.approx(mu, rel=1e-9 if mu > 0.01 else 1e-6)


@pytest.mark.parametrize("mu", [1e-3, 0.6, 5.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_gaussian_privacy_to_approx(mu: float, delta: float) -> None:
    epsilon = GDP(mu).to_approx(delta).epsilon
    if epsilon > 1e-9:
        assert analytic_sd(epsilon, delta) == pytest.approx(1 / mu, rel=1e-9)
        # It costs less than what it implies of zCDP.
        assert epsilon < ZCDP(mu**2 / 2).to_approx(delta).epsilon
    else:
        assert 2 * stats.norm.cdf(mu / 2) - 1 <= delta


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
    """They break even near this delta: Laplace noise below it, Gaussian above."""
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
    """The mean square of 2 d l1^2 = 2 d^2 against d 4.2247^2: even at d = 8.92."""
    budget, l1 = ApproxDP(1.0, 1e-6), np.full((2, 1), math.sqrt(d))
    noise = budget.noise(rng(), (2, d), l1, np.ones((2, 1)))
    pure = PureDP(1.0).noise(rng(), (2, d), l1, 1.0)
    assert np.array_equal(noise, pure) == (d <= 8)


PURE, ZERO, MU, APPROX, NONE = PureDP(0.5), ZCDP(0.3), GDP(0.6), ApproxDP(0.4, 1e-5), NonPrivate()
ALL = (PURE, ZERO, MU, APPROX, NONE)
IMPLIED = [one.to_approx(1e-3).amounts for one in (ZERO, MU)]
COSTS: list[tuple[Budget, list[tuple[float, ...] | None]]] = [  # of ALL
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
        budget.noise(rng(), (1,), 1.0, 1.0)  # what it remembers is not handed on
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
    + [(ApproxDP, (1.0, *rest)) for rest in ((0.0,), (1.0,), (), (1e-6, "uniform"))],
)
def test_amounts_that_are_no_guarantee_are_refused(notion: Any, amounts: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError, match=r"^(epsilon|rho|delta|noise_by): "):
        notion(*amounts)


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
    assert all(type(amount) is float for amount in found)  # of integers, too
    np.testing.assert_array_equal(found, np.array(wanted, dtype=float))
    assert budget.amounts == tuple(amount for amount in wanted if amount is not None)
