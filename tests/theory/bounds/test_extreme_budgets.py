"""Bounds at budgets from 1e-12 to 40, and n to 1e15, at a constant product of n and the budget."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.theory.bounds.bernoulli import rare_bernoulli_chain_lower_bound
from dpbench.theory.bounds.fingerprinting import (
    _tilts,
    fingerprinting_bound,
    gaussian_fingerprinting_bound,
    record_correlation,
)
from dpbench.theory.bounds.information import (
    bernoulli_information_bound,
    gaussian_information_bound,
)
from dpbench.theory.bounds.local import local_distance, local_lower_bound
from dpbench.theory.bounds.multi_hypothesis import multi_hypothesis_lower_bound
from dpbench.theory.bounds.numbers import largest_untestable_difference, two_point_lower_bound
from dpbench.theory.bounds.record_information import record_information
from dpbench.theory.bounds.sphere import hidden_directions
from dpbench.theory.bounds.vectors import moments_lower_bound

Bound = Callable[[int, Budget], float]
# With n: bounds whose time grows like sqrt(n), because they sum over a binomial distribution.
BOUNDS: list[tuple[str, Bound, int]] = [
    ("two_laws", lambda n, b: two_point_lower_bound(n, 2, b).alpha, 10**6),
    ("packing", lambda n, b: moments_lower_bound(n, 16, 2, b).alpha, 10**6),
    ("several_laws", lambda n, b: multi_hypothesis_lower_bound(n, 6, b), 10**15),
    ("fingerprinting", lambda n, b: fingerprinting_bound(n, 16, 2, b), 10**15),
    ("joint_fingerprinting", lambda n, b: fingerprinting_bound(n, 16, 2, b, rare=1.0), 10**15),
    ("normal_fingerprinting", lambda n, b: gaussian_fingerprinting_bound(n, 16, b), 10**15),
    ("bernoulli_information", bernoulli_information_bound, 10**15),
    ("normal_information", gaussian_information_bound, 10**15),
    ("subsets", lambda n, b: largest_untestable_difference(n, b) / n, 10**15),
]
RATES = [b[1:] for b in BOUNDS[:-1]]  # without the last, which counts whole records


def budgets(x: float) -> list[Budget]:
    """Budgets that scale with x, where x is n times epsilon or mu, or n^2 times 2 rho, over n."""
    concentrated = [ZCDP(x**2 / 2)] if 1e-12 <= x**2 / 2 <= 40 else []
    return [PureDP(x), ApproxDP(x, 1e-6 * x), GDP(x), *concentrated]


@pytest.mark.parametrize(("bound", "most"), [b[1:] for b in BOUNDS], ids=[b[0] for b in BOUNDS])
def test_bounds_have_their_scale_free_value(bound: Bound, most: int) -> None:
    """Where n times the budget is constant, they change by less than 1% from n = 1e8 on."""
    found: dict[type[Budget], list[float]] = {}
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        for n in (25, 1000, 10**5, 10**6, 10**8, 10**11, 10**15):
            for budget in budgets(1000 / n) if n <= most else []:
                value = bound(n, budget)
                if n >= min(10**8, most / 10) and not math.isnan(value):
                    found.setdefault(type(budget), []).append(value)
    assert found
    for values in found.values():
        assert values[0] > 0
        np.testing.assert_allclose(values, values[0], rtol=0.01)


@pytest.mark.parametrize(("bound", "most"), RATES, ids=[b[0] for b in BOUNDS[:-1]])
def test_bounds_never_grow_with_n(bound: Bound, most: int) -> None:
    """An estimator may ignore records, whatever the budget."""
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        for x in (1e-6, 0.01, 1.0, 9.0, 40.0):
            for budget in budgets(x)[::2]:
                sizes = [n for n in (1, 2, 3, 10, 100, 10**4, 10**8, 10**15) if n <= most]
                values = [v for n in sizes if not math.isnan(v := bound(n, budget))]
                pairs = itertools.pairwise(values)
                assert all(after <= before * (1 + 1e-9) for before, after in pairs)


@pytest.mark.parametrize("k", [2.0000001, 600.0, 1e6, 1e12])
def test_bounds_at_extreme_moments(k: float) -> None:
    """As k grows, a k-th root of a moment tends to the largest deviation, and its bound falls."""
    bounds: list[Callable[[int, Budget], float]] = [
        lambda n, b: two_point_lower_bound(n, k, b).alpha,
        lambda n, b: moments_lower_bound(n, 16, k, b).alpha,
        lambda n, b: multi_hypothesis_lower_bound(n, k, b),
        lambda n, b: fingerprinting_bound(n, 16, k, b),
        lambda n, b: local_lower_bound(n, k, b).alpha,
        lambda n, b: rare_bernoulli_chain_lower_bound(n, k, b, 0.01),
    ]
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        for budget in budgets(0.1):
            for bound in bounds:
                value = bound(1000, budget)
                assert math.isnan(value) or 0 <= value < np.inf
        # n epsilon = 100: p is some 0.03, and |X - mean| has the two values tau p and tau (1 - p).
        alpha, p = two_point_lower_bound(1000, k, PureDP(0.1))
        log_moment = np.logaddexp(
            math.log(p) + k * math.log1p(-p), math.log1p(-p) + k * math.log(p)
        )
        assert math.log(alpha) == pytest.approx(math.log(p) - log_moment / k, abs=1e-9)


def test_scale_free_values_have_their_closed_form() -> None:
    """A test of datasets s apart has error Phi(-s mu/2), e^(-epsilon s/2)/2."""
    for n in (10**6, 10**12):
        share = largest_untestable_difference(n, GDP(1000 / n)) / n
        assert share == pytest.approx(-2 * norm.ppf(0.1) / 1000, rel=1e-3)
        share = largest_untestable_difference(n, PureDP(1000 / n)) / n
        assert share == pytest.approx(2 * math.log(5) / 1000, rel=1e-3)
        # As mu falls, Gaussian DP and zCDP have the information mu^2 and 2 rho.
        bound = fingerprinting_bound(n, 16, 2, GDP(1000 / n), rare=1.0)
        allowed = record_correlation(16, GDP(1000 / n)) * (n / 1000) ** 2
        assert allowed == pytest.approx(0.25, rel=2e-3)
        assert bound == pytest.approx(
            fingerprinting_bound(10**4, 16, 2, GDP(0.1), rare=1.0), rel=0.05
        )


@pytest.mark.parametrize("mu", [*10.0 ** np.arange(-12, 2), 3.0, 20.0, 26.0])
def test_the_information_of_gaussian_dp_by_adaptive_quadrature(mu: float) -> None:
    def integrand(x: float) -> float:
        return math.expm1(-mu * x) ** 2 * float(norm.pdf(x - 1.5 * mu))

    ends = sorted({max(0.0, 1.5 * mu + shift) for shift in (-12, -6, -2, 0, 2, 6, 12)})
    parts = [quad(integrand, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in itertools.pairwise(ends)]
    log_value = math.log(2 * math.fsum(parts)) + mu**2
    assert math.log(record_information(GDP(mu))) == pytest.approx(log_value, abs=1e-11)


def test_information_and_local_bounds_at_all_budgets() -> None:
    amounts = [1e-12, 1e-9, 1e-6, 1e-4, 0.1**2 / 2, 0.5, 9.0, 27.0, 40.0]
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        for notion in (PureDP, GDP, ZCDP):
            found = [record_information(notion(x)) for x in amounts]
            small = [2 * x if notion is ZCDP else x**2 for x in amounts]
            np.testing.assert_allclose(found[:3], small[:3], rtol=0.02)
            assert all(b >= a for a, b in itertools.pairwise(found))
            for x in amounts:
                distances = [local_distance(n, notion(x)) for n in (1, 2, 5, 1000, 10**15)]
                assert all(b <= a for a, b in itertools.pairwise(distances))
                assert all(0 < t <= 1 for t in distances)
        # Without privacy a test errs only if all n records agree.
        for mu in (27.0, 40.0):
            assert local_lower_bound(1000, 2, GDP(mu)).p_star == pytest.approx(
                1 - 0.2 ** (1 / 1000), rel=1e-3
            )
        product = [local_distance(int(1e4 / x**2), GDP(x)) for x in (1e-2, 1e-3, 1e-5)]
        np.testing.assert_allclose(product, product[0], rtol=0.02)


@pytest.mark.parametrize(
    "budget", [PureDP(40.0), GDP(9.0), ZCDP(40.0), ApproxDP(8.0, 1e-6)], ids=str
)
def test_one_record_has_no_smaller_bound_than_two(budget: Budget) -> None:
    one, two = (fingerprinting_bound(n, 16, 2, budget, rare=1.0) for n in (1, 2))
    assert one >= two > 0.5
    one, two = (gaussian_fingerprinting_bound(n, 16, budget) for n in (1, 2))
    assert one >= two > 0.5


@pytest.mark.parametrize("delta", [1e-6, 1e-3, 1e-2])
@pytest.mark.parametrize("rare", [0.0, 1.0])
def test_the_best_probability_under_delta_by_a_grid(delta: float, rare: float) -> None:
    """Try all P: the bound on J, plus what delta adds, must be allowed."""
    n, d, budget = 10**4, 16, ApproxDP(0.1, delta)
    hidden, tilts = hidden_directions(d, 0.1), _tilts(d, 2)
    j = record_correlation(d, budget)
    best = 0.0
    for p in np.geomspace(1e-6, 0.5, 1000):
        for sampling in {0.0, rare}:
            cost = 1 / ((n * p) ** 2 * j * tilts.fisher)
            cost += bool(sampling) * (1 - 1 / n) / (n * p * (d - 1) * tilts.fisher)
            leak = (
                4
                * (2 if sampling else 1)
                * np.outer(hidden.steepness, n * p * delta * tilts.longest)
            )
            allowed = 1 / cost + leak <= hidden.information[:, None]
            spread = np.maximum(p * (tilts.along**2 - p * tilts.mean**2), p * tilts.across)
            error = p * tilts.mean / np.sqrt(spread) * np.sin(hidden.angle)[:, None]
            best = max(best, float(np.max(error * allowed)))
    assert best <= fingerprinting_bound(n, d, 2, budget, rare=rare) * (1 + 1e-9)
    assert fingerprinting_bound(n, d, 2, budget, rare=rare) == pytest.approx(best, rel=0.02)
