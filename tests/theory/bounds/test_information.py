"""The bounds from Fisher information against information, densities and errors by other routes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import binom, hypsecant, laplace, logistic, norm

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.theory.bounds.bernoulli import bernoulli_chain_lower_bound
from dpbench.theory.bounds.information import (
    _normal_factor,
    _privacy_variance,
    bernoulli_information_bound,
    best_quantile,
    gaussian_information_bound,
)
from dpbench.theory.bounds.numbers import gaussian_lower_bound


@pytest.mark.parametrize("law", [norm, logistic, laplace, hypsecant])
@pytest.mark.parametrize("beta", [0.05, 0.1, 0.3])
def test_densities_have_tails(law: object, beta: float) -> None:
    """Every quantile times the root of the Fisher information is at least c."""

    def moved(x: float) -> float:
        step = 1e-4
        slope = (law.logpdf(x + step) - law.logpdf(x - step)) / (2 * step)  # type: ignore[attr-defined]
        return float(slope**2 * law.pdf(x))  # type: ignore[attr-defined]

    information = 2 * quad(moved, 1e-3, 30, limit=200)[0]
    quantile = law.isf(beta / 2)  # type: ignore[attr-defined]
    assert quantile * math.sqrt(information) >= best_quantile(beta) * 0.999


@pytest.mark.parametrize("beta", [0.05, 0.1, 0.3])
def test_the_density_that_attains_the_quantile(beta: float) -> None:
    """A cosine with exponential tails, squared; of all a the one with P(|e| >= 1) = beta."""

    def tail_and_information(a: float) -> tuple[float, float]:
        rate = a * math.tan(a)
        inner = 2 * quad(lambda e: math.cos(a * e) ** 2, 0, 1)[0]
        turned = 2 * quad(lambda e: (a * math.sin(a * e)) ** 2, 0, 1)[0]
        tail = math.cos(a) ** 2 / rate
        return tail / (inner + tail), 4 * (turned + rate**2 * tail) / (inner + tail)

    grid = np.linspace(0.3, 1.5, 2001)
    tails, information = np.array([tail_and_information(a) for a in grid]).T
    assert math.sqrt(np.interp(-beta, -tails, information)) == pytest.approx(
        best_quantile(beta), rel=1e-5
    )


def _largest_divergence(table: Floats) -> float:
    """Return the largest chi-square divergence between neighbouring rows."""
    one, other = table[1:], table[:-1]
    return float(
        max(((one - other) ** 2 / other).sum(1).max(), ((one - other) ** 2 / one).sum(1).max())
    )


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_information_of_any_release_of_a_count(n: int) -> None:
    rng, nearest = np.random.default_rng(n), 0.0
    counts = np.arange(n + 1)
    for trial in range(300):
        if trial % 3:
            table = rng.gamma(rng.choice([0.5, 20.0]), size=(n + 1, 4))
        else:  # a sign, with a bias that grows in the count
            bias = rng.uniform(0, 1) * (2 * counts - n) / n
            table = np.stack([1 + bias, 1 - bias], axis=1) + 1e-9
        table = np.asarray(table / table.sum(axis=1, keepdims=True))
        p = rng.uniform(0.1, 0.9)
        law = binom.pmf(counts, n, p)
        slope = (law * (counts - n * p) / (p * (1 - p))) @ table
        information = float((slope**2 / (law @ table)).sum())
        bound = p * (1 - p) / n + 1 / (n**2 * _largest_divergence(table))
        assert information * bound <= 1 + 1e-9
        usual = min(n, n**2 * _largest_divergence(table)) / (p * (1 - p))
        assert information <= usual * (1 + 1e-9)
        nearest = max(nearest, information * bound)
    assert nearest > 0.9


def test_the_information_of_any_view_of_a_normal_record() -> None:
    """Releases of one record; the nearest to the bound are noisy signs."""
    rng, nearest = np.random.default_rng(0), 0.0
    x = np.linspace(-6, 6, 241)
    law = norm.pdf(x) / norm.pdf(x).sum()
    for trial in range(100):
        slope = rng.uniform(0.3, 20) * x[:, None] * rng.normal(size=(1, 3))
        table = 1 + rng.choice([0.02, 0.3, 0.9]) * np.tanh(slope + rng.normal(size=3) * (trial % 2))
        table /= table.sum(axis=1, keepdims=True)
        moved = (law * x) @ table
        information = float((moved**2 / (law @ table)).sum())
        chi = max(float(((table - row) ** 2 / row).sum(axis=1).max()) for row in table)
        assert information * (1 + 1 / (_normal_factor() * chi)) <= 1
        nearest = max(nearest, information * (1 + 1 / (_normal_factor() * chi)))
    assert nearest > 0.8


def test_the_factor_of_normal_records() -> None:
    """z by bisection of sums over a grid."""
    x = (np.arange(200_000) + 0.5) * 5e-5
    weights = 2 * norm.pdf(x) * 5e-5
    low, high = 0.0, 1.0
    for _ in range(40):
        z = (low + high) / 2
        low, high = (z, high) if weights @ np.minimum(x, z) < norm.pdf(0) else (low, z)
    assert _normal_factor() == pytest.approx(weights @ np.minimum(x, low) ** 2, rel=1e-5)
    assert norm.pdf(0) ** 2 < _normal_factor() < 0.182


@pytest.mark.parametrize("n", [1, 4, 100, 10**6])
@pytest.mark.parametrize("budget", [ZCDP(1e-4), ZCDP(0.5), ZCDP(50.0), GDP(1.0)])
def test_the_best_prior_of_a_bernoulli_mean(n: int, budget: Budget) -> None:
    """The bound is within 2 per cent of the best over all widths A of the prior, by quadrature."""

    def total(width: float) -> float:
        def part(x: float) -> float:
            variance = (0.25 - (width * x) ** 2) / n + _privacy_variance(n, budget)
            return 2 * math.cos(math.pi * x / 2) ** 2 / variance

        return quad(part, 0, 1, limit=200)[0] + (math.pi / width) ** 2

    best = minimize_scalar(total, bounds=(1e-3, 0.5), method="bounded", options={"xatol": 1e-6}).fun
    largest = best_quantile() / math.sqrt(min(best, total(0.5)))
    bound = bernoulli_information_bound(n, budget)
    assert 0.98 * largest < bound < (1 + 1e-5) * largest


@pytest.mark.parametrize("budget", [ZCDP(5e-5), GDP(0.01)])
@pytest.mark.parametrize(("n", "factor"), [(10**4, 1.024), (10**5, 1.016), (10**8, 1.013)])
def test_binary_means_with_gaussian_noise_are_optimal(
    n: int, factor: float, budget: Budget
) -> None:
    """The error for p = 1/2 is near the 0.9 quantile of a normal number."""
    quantile = norm.isf(0.05) * math.sqrt(0.25 / n + 1 / (n * 0.01) ** 2)
    bound = bernoulli_information_bound(n, budget)
    assert bound < quantile < factor * bound


def test_the_page_compares_with_the_usual_van_trees_bound() -> None:
    """Of n = 1000 records with chi = e^(2 rho) - 1: the table has roots of ratios of variances."""
    n, rows = 1000, {"Bernoulli records, $p = 1/2$": (0.25, 1.0), "normal records": (1.0, 0.0)}
    page = (Path(__file__).parents[3] / "docs/theory/information.md").read_text("utf-8")
    for row, (variance, factor) in rows.items():
        ratios = []
        for share in (0.01, 0.1, 1, 10, 100):
            budget = ZCDP(math.log1p(share / n) / 2)
            ours = variance / n + _privacy_variance(n, budget, factor or _normal_factor())
            usual = variance * max(1 / n, _privacy_variance(n, budget))
            ratios.append(f"{math.sqrt(ours / usual):.2f}")
        assert f"| {row} | {' | '.join(ratios)} |" in page


def test_few_records() -> None:
    """Privacy hides everything, but the means have to be in [0, 1]."""
    assert bernoulli_information_bound(10, ZCDP(1e-9)) < 0.5
    assert bernoulli_information_bound(1, ZCDP(10)) < bernoulli_chain_lower_bound(1, ZCDP(10))


def test_normal_means() -> None:
    n, budget = 10**4, ZCDP(5e-5)
    bound = gaussian_information_bound(n, budget)
    sign = norm.isf(0.05) * math.sqrt(1 / n + 2 * math.pi / (n * 0.01) ** 2)  # of averaged signs
    assert gaussian_lower_bound(n, budget) < bound < sign < 1.08 * bound
    assert gaussian_information_bound(10**9, ZCDP(1)) == pytest.approx(
        best_quantile() / math.sqrt(1e9), rel=1e-6
    )


def test_where_they_are_known() -> None:
    for other in (PureDP(1), ApproxDP(1, 1e-6)):
        assert math.isnan(bernoulli_information_bound(100, other))
        assert math.isnan(gaussian_information_bound(100, other))
    assert _privacy_variance(10, ZCDP(0.5)) == pytest.approx(0.01 / math.expm1(1))
    assert _privacy_variance(10, GDP(2)) == pytest.approx(0.01 / math.expm1(4))
    assert _privacy_variance(10, ZCDP(1e6)) == 0
