"""Distributions of dense vectors: covariances, moments of directions, samples."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from dpbench.distributions import (
    ContaminatedGaussian,
    Distribution,
    Hypercube,
    MultivariateContaminatedGaussian,
    MultivariateGaussian,
    MultivariateStudentT,
    Pareto,
    PowerLawGaussian,
    Product,
    StudentT,
)
from dpbench.samples import DenseSample
from tests.distributions.vectors import unit_vectors
from tests.support import Floats, assert_follows, assert_frequencies, assert_standard, rng

MATRIX = [[2.0, 0.5, -0.25], [0.5, 1.0, 0.125], [-0.25, 0.125, 4.0]]


def records(law: Distribution, seed: int) -> Floats:
    """Draw 20,000 records, minus the mean of the distribution."""
    sample = law.sample(rng(seed), 4, 5000)
    assert isinstance(sample, DenseSample)
    assert (sample.trials, sample.n, sample.d) == (4, 5000, law.d)
    return np.asarray(sample.values.reshape(-1, law.d) - law.mean)


# Gaussian vectors, Student's, and contaminated ones.


def cosines(d: int) -> Floats:
    """Return the vectors of the discrete cosine transform as rows."""
    places, waves = np.arange(d) + 0.5, np.arange(d)[:, None]
    rows = np.cos(math.pi * places * waves / d)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.mark.parametrize(("d", "condition"), [(1, 1e6), (3, 1.0), (3, 1e6), (50, 1e6)])
def test_the_covariance_of_a_condition(d: int, condition: float) -> None:
    law = MultivariateGaussian(d=d, condition=condition, scale=0.3)
    variances = 0.09 * condition ** (-np.arange(d) / max(1, d - 1))
    wanted = cosines(d).T * variances @ cosines(d)
    np.testing.assert_allclose(law.covariance, wanted, rtol=1e-11, atol=1e-14)
    assert law.variance == pytest.approx(sum(variances), rel=1e-11)
    for k, unit in ((2, 1.0), (3, 2 * math.sqrt(2 / math.pi)), (4, 3.0)):
        assert law.moment(k) == pytest.approx(0.3**k * unit, rel=1e-9)


Parts = Callable[[Floats], list[tuple[float, float, float]]]


def gaussian(law: Any, covariance: Any = None) -> tuple[Any, Parts]:
    """Return the distribution, and a function of a direction: weight, mean and sd of each part."""
    given = law.covariance if covariance is None else np.array(covariance)
    return law, lambda v: [(1.0, 0.0, math.sqrt(v @ given @ v))]


def contaminated(eta: float, **parameters: Any) -> tuple[Any, Parts]:
    law = MultivariateContaminatedGaussian(eta=eta, **parameters)
    away = law.gap / math.sqrt(law.d) * (-1.0) ** np.arange(law.d)

    def parts(v: Floats) -> list[tuple[float, float, float]]:
        at = float(v @ away)
        return [(1 - eta, -eta * at, 1.0), (eta, (1 - eta) * at, law.spread)]

    return law, parts


def mixed(t: Floats, parts: list[tuple[float, float, float]]) -> Any:
    return sum(p * stats.norm.cdf(t, mean, sd) for p, mean, sd in parts)


@pytest.mark.parametrize(
    ("law", "parts"),
    [
        gaussian(MultivariateGaussian(d=1, norm=2.0, scale=3.0)),
        gaussian(MultivariateGaussian(d=3, norm=5.0, condition=50.0, scale=0.1)),
        gaussian(MultivariateGaussian(d=5, condition=1e8)),
        gaussian(MultivariateGaussian(d=3, matrix=MATRIX, scale=0.5), 0.25 * np.array(MATRIX)),
        gaussian(PowerLawGaussian(d=3, power=2.0, norm=1.0), np.diag([9, 9 / 4, 1])),
        contaminated(0.2, d=4, norm=2.0, gap=6.0, spread=0.5),
        contaminated(0.1, d=1, norm=1.0, gap=3.0, spread=2.0),
        contaminated(0.5, d=3, gap=0.0, spread=3.0),
        contaminated(0.3, d=4, gap=1000.0),
    ],
)
def test_directions_of_samples(law: Any, parts: Parts) -> None:
    x = records(law, 4)
    np.testing.assert_allclose(law.target, np.full(law.d, law.norm / math.sqrt(law.d)))
    for v in unit_vectors(law.d, 6):
        own = parts(v)
        square = sum(p * (mean**2 + sd**2) for p, mean, sd in own)
        assert v @ law.covariance @ v == pytest.approx(square, rel=1e-9)
        assert_follows(x @ v, SimpleNamespace(cdf=lambda t, own=own: mixed(t, own)))
    assert law.variance == pytest.approx(np.trace(law.covariance))
    assert law.moment(2) == pytest.approx(np.linalg.norm(law.covariance, 2), rel=1e-9)
    if isinstance(law, MultivariateGaussian | PowerLawGaussian):
        assert_standard(np.linalg.solve(np.linalg.cholesky(law.covariance), x.T))
        assert law.moment(4) == pytest.approx(3 * law.moment(2) ** 2, rel=1e-9)
        return
    assert math.isnan(law.moment(3))
    if law.gap > 100:  # whole records are far
        assert np.all((np.abs(x + law.mean) > 250).sum(axis=1) % law.d == 0)


# At nu = 1.1 one chi-square of eleven is below 0.02: an error there shows.
@pytest.mark.parametrize(
    ("d", "nu", "unit"), [(1, 1.1, None), (4, 1.1, None), (2, 6.0, None), (4, 4.3, 3.0)]
)
def test_student_samples(d: int, nu: float, unit: float | None) -> None:
    law = MultivariateStudentT(d=d, norm=2.0, tail_index=nu, standardised_moment=unit)
    scale = 1.0 if unit is None else StudentT(tail_index=nu).moment(unit) ** (-1 / unit)
    x = records(law, 5)
    # Directions, the radius, and the direction of a record.
    for v in unit_vectors(d, 3):
        assert_follows(x @ v, stats.t(nu, scale=scale))
    square = (x**2).sum(axis=1)
    assert_follows(square / d, stats.f(d, nu, scale=scale**2))
    if d > 1:
        assert_follows(x[:, 0] ** 2 / square, stats.beta(0.5, (d - 1) / 2))


def test_student_moments() -> None:
    law = MultivariateStudentT(d=4, tail_index=6.0)
    assert law.variance == pytest.approx(6.0)
    assert law.moment(6.0) == math.inf
    assert law.moment(4) == pytest.approx(13.5)  # 3 nu^2/((nu-2)(nu-4))
    scaled = MultivariateStudentT(d=4, tail_index=6.0, standardised_moment=5.5)
    assert scaled.moment(5.5) == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(ValueError, match="the moment of order 3"):
        MultivariateStudentT(d=2, tail_index=2.5, standardised_moment=3.0).sample(rng(), 2, 3)


# Products.


def fourth_moment(v: Floats, m2: float, m3: float, m4: float) -> float:
    """Return E<v, Y>^4 of independent Y_i, term by term of the product."""
    m, places = [1.0, 0.0, m2, m3, m4], itertools.product(range(v.size), repeat=4)
    powers = [Counter(place).items() for place in places]
    return float(sum(math.prod(v[i] ** e * m[e] for i, e in terms) for terms in powers))


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize(
    "of",
    [
        StudentT(tail_index=6.0, scale=2.0),  # heavier than a Gaussian
        Pareto(tail_index=7.0),  # skewed
        ContaminatedGaussian(eta=0.5, gap=4.0),  # two clouds: lighter
    ],
    ids=lambda of: type(of).__name__,
)
def test_the_fourth_moment_of_a_product(d: int, of: Any) -> None:
    """Check that the formula is the maximum over directions, at an axis or at the diagonal."""
    law = Product(d=d, of=of)
    m2, m4 = of.variance, of.moment(4)
    m3 = 0.7  # it drops out
    found = [fourth_moment(v, m2, m3, m4) for v in unit_vectors(d, 20)]
    assert max(found) <= law.moment(4) * (1 + 1e-12)
    assert max(found[:2]) == pytest.approx(law.moment(4), rel=1e-12)
    assert law.moment(2) == pytest.approx(m2, rel=1e-14)
    assert law.variance == pytest.approx(d * m2, rel=1e-14)
    np.testing.assert_allclose(law.covariance, m2 * np.eye(d))
    for k in (2.0, 4.0):
        scaled = Product(d=d, of=of, standardised_moment=k)
        assert scaled.moment(k) == pytest.approx(1.0, rel=1e-12)
        ratio = scaled.moment(2) / law.moment(2)
        assert scaled.moment(4) / law.moment(4) == pytest.approx(ratio**2, rel=1e-12)


@pytest.mark.parametrize(("nu", "k"), [(8.0, 2.0), (8.0, 3.99), (40.0, 3.0), (12.0, 4.0)])
def test_moments_of_a_product_of_student_laws(nu: float, k: float) -> None:
    """Check that the bound holds in every direction of two dimensions, and is not far off.

    A direction is Gaussian given both chi-squares, over which Gauss-Laguerre quadrature integrates.
    """
    at, weight = special.roots_genlaguerre(120, nu / 2 - 1)
    weight = weight / weight.sum()
    gaussian = 2 ** (k / 2) * special.gamma((k + 1) / 2) / math.sqrt(math.pi)
    one, other = nu / 2 / at[:, None], nu / 2 / at
    found = [
        gaussian
        * (weight @ (math.cos(a) ** 2 * one + math.sin(a) ** 2 * other) ** (k / 2) @ weight)
        for a in np.linspace(0, math.pi / 4, 30)
    ]
    bound = Product(d=2, of=StudentT(tail_index=nu)).moment(k)
    assert found[0] == pytest.approx(StudentT(tail_index=nu).moment(k), rel=2e-3)
    assert max(found) <= bound * (1 + 2e-3)
    assert max(found) >= bound * (0.3 if k not in (2, 4) else 1 - 2e-3)
    scaled = Product(d=2, of=StudentT(tail_index=nu), standardised_moment=k)
    assert scaled.moment(k) == pytest.approx(1.0, rel=1e-12)


def test_orders_without_a_bound() -> None:
    for of in (Pareto(tail_index=6.0), ContaminatedGaussian(eta=0.1, gap=3.0)):
        assert math.isnan(Product(d=3, of=of).moment(3))
        with pytest.raises(ValueError, match="no finite moment of order 3 is known"):
            Product(d=3, of=of, standardised_moment=3)
    for tail, k in ((1.5, 2), (2.5, 3), (3.5, 4)):
        assert Product(d=3, of=StudentT(tail_index=tail)).moment(k) == math.inf
        with pytest.raises(ValueError, match=f"no finite moment of order {k} is known"):
            Product(d=3, of=StudentT(tail_index=tail), standardised_moment=k)


@pytest.mark.parametrize("unit", [None, 2.0])
def test_product_samples(unit: float | None) -> None:
    """Check coordinates that are independent and skewed, with a mean of 5 that is subtracted."""
    of = Pareto(tail_index=6.0, location=5.0)
    x = records(Product(d=3, norm=2.0, of=of, standardised_moment=unit), 6)
    scale = 1.0 if unit is None else 1 / stats.pareto(6.0).std()
    pareto = stats.pareto(6.0, loc=-scale * 6 / 5, scale=scale)
    quarter = (4 * pareto.cdf(x)).astype(int)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert_follows(x[:, j], pareto)
        assert_follows(x[:, i], pareto)
        cells = quarter[:, i] * 4 + quarter[:, j]
        assert_frequencies(np.bincount(cells, minlength=16), [1 / 16] * 16)


# A fixed dataset.


def test_vertices_of_a_hypercube() -> None:
    law = Hypercube(d=4, length=7.5)
    sample = law.sample(rng(9), 5, 16_000)
    np.testing.assert_allclose(np.abs(sample.values), 7.5 / 2, rtol=1e-15)
    # The same in all trials and whatever the seed and the length: nothing is sampled.
    assert sample.values.strides[0] == 0
    other = Hypercube(d=4, length=15).sample(rng(10), 2, 16_000)
    np.testing.assert_array_equal(other.values[0], 2 * sample.values[0])
    np.testing.assert_array_equal(law.target_of(sample), sample.mean())
    assert (law.variance, law.moment(2)) == (7.5**2, 7.5**2 / 4)
    assert np.all(law.mean == 0)
    # Uniform, and another for every n.
    code = (sample.values[0] > 0) @ np.array([8, 4, 2, 1])
    assert_frequencies(np.bincount(code, minlength=16), [1 / 16] * 16)
    second = law.sample(rng(9), 1, 16_001).values[0]
    assert not np.array_equal(sample.values[0, :100], second[:100])
