"""Laws of vectors: means, covariances, moments of directions, and samples of them."""

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
    Product,
    ProductTwoPoint,
    SignedTwoPoint,
    StretchedGaussian,
    StudentT,
)
from dpbench.distributions.sparse import code_word
from dpbench.registry import ConfigError
from dpbench.samples import DenseSample, SparseSample
from tests.support import (
    BIG,
    FALSE_ALARM,
    Floats,
    assert_follows,
    assert_frequencies,
    assert_standard,
    rng,
)

MATRIX = [[2.0, 0.5, -0.25], [0.5, 1.0, 0.125], [-0.25, 0.125, 4.0]]


def unit_vectors(d: int, many: int, seed: int = 0) -> Floats:
    """The first axis, the diagonal, an alternating one, and random ones, (3 + many, d)."""
    drawn = rng(seed).normal(size=(many, d))
    given = [np.eye(d)[:1], np.ones((1, d)), (-1.0) ** np.arange(d)[None], drawn]
    rows = np.concatenate(given)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def records(law: Distribution, seed: int) -> Floats:
    """20,000 of them, off the mean of the law."""
    sample = law.sample(rng(seed), 4, 5000)
    assert isinstance(sample, DenseSample)
    assert (sample.trials, sample.n, sample.d) == (4, 5000, law.d)
    return np.asarray(sample.values.reshape(-1, law.d) - law.mean)


@pytest.mark.parametrize(
    ("law", "n", "held"),
    [
        (Product(d=5, of=Pareto(tail_index=6.0)), 100, 500),
        (Hypercube(d=6), 1, 6),
        (Hypercube(d=6), 10**6, 6e6 / 50),
        (ProductTwoPoint(d=6, p=1e-15), 10**18, 6 * 3001),
        (ProductTwoPoint(d=6, p=0.001), 1000, 6 * (1 + 1000 * (1 - 0.999**3))),
        (SignedTwoPoint(d=6, p=0.001, k=3), 1000, 12),
    ],
)
def test_numbers_held(law: Distribution, n: int, held: float) -> None:
    assert law.held(n) == pytest.approx(held)


# Gaussian vectors, Student's, and contaminated ones.


def cosines(d: int) -> Floats:
    """The vectors of the discrete cosine transform, row by row."""
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
    """The law, and weight, mean and standard deviation of the parts of a direction."""
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
        gaussian(StretchedGaussian(d=3, power=2.0, norm=1.0), np.diag([9, 9 / 4, 1])),
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
    if isinstance(law, MultivariateGaussian | StretchedGaussian):
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
    law = MultivariateStudentT(d=d, norm=2.0, tail_index=nu, unit_moment=unit)
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
    scaled = MultivariateStudentT(d=4, tail_index=6.0, unit_moment=5.5)
    assert scaled.moment(5.5) == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(ValueError, match="the moment of order 3"):
        MultivariateStudentT(d=2, tail_index=2.5, unit_moment=3.0).sample(rng(), 2, 3)


# Products.


def fourth_moment(v: Floats, m2: float, m3: float, m4: float) -> float:
    """E<v, Y>^4 of independent Y_i, term by term of the product."""
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
    """The formula is the largest over directions, at an axis or at the diagonal."""
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
        scaled = Product(d=d, of=of, unit_moment=k)
        assert scaled.moment(k) == pytest.approx(1.0, rel=1e-12)
        ratio = scaled.moment(2) / law.moment(2)
        assert scaled.moment(4) / law.moment(4) == pytest.approx(ratio**2, rel=1e-12)


@pytest.mark.parametrize(("nu", "k"), [(8.0, 2.0), (8.0, 3.99), (40.0, 3.0), (12.0, 4.0)])
def test_moments_of_a_product_of_student_laws(nu: float, k: float) -> None:
    """The bound holds in every direction of two dimensions, and is not far off.

    A direction is Gaussian given both chi-squares: Gauss-Laguerre quadrature over these.
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
    scaled = Product(d=2, of=StudentT(tail_index=nu), unit_moment=k)
    assert scaled.moment(k) == pytest.approx(1.0, rel=1e-12)


def test_orders_without_a_bound() -> None:
    for of in (Pareto(tail_index=6.0), ContaminatedGaussian(eta=0.1, gap=3.0)):
        assert math.isnan(Product(d=3, of=of).moment(3))
        with pytest.raises(ValueError, match="no finite moment of order 3 is known"):
            Product(d=3, of=of, unit_moment=3)
    for tail, k in ((1.5, 2), (2.5, 3), (3.5, 4)):
        assert Product(d=3, of=StudentT(tail_index=tail)).moment(k) == math.inf
        with pytest.raises(ValueError, match=f"no finite moment of order {k} is known"):
            Product(d=3, of=StudentT(tail_index=tail), unit_moment=k)


@pytest.mark.parametrize("unit", [None, 2.0])
def test_product_samples(unit: float | None) -> None:
    """Skewed coordinates of mean 5, which is taken away; independent of each other."""
    of = Pareto(tail_index=6.0, location=5.0)
    x = records(Product(d=3, norm=2.0, of=of, unit_moment=unit), 6)
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


# Sparse laws.


@pytest.mark.parametrize(("d", "many"), [(1, 1), (2, 2), (5, 8), (10, 12), (16, 20), (200, 8)])
def test_code_words(d: int, many: int) -> None:
    """As many as there are, or so many that the first ones drawn are too near."""
    words = [code_word(d, i) for i in range(many)]
    for word in words:
        assert list(word) == sorted(set(word) & set(range(d)))
        assert len(word) == max(1, d // 2)
    for one, other in itertools.combinations(words, 2):
        assert 4 * len(set(one) ^ set(other)) >= d
    if d == 1:
        with pytest.raises(ValueError, match="no code word 1 for d = 1: there are too few"):
            code_word(1, 1)


Sparse = ProductTwoPoint | SignedTwoPoint


def enumerated(law: Sparse) -> tuple[Floats, Floats]:
    """All vectors but zero, (m, d), and their probabilities, (m,)."""
    if isinstance(law, SignedTwoPoint):
        signs = [(law.sign, *rest) for rest in itertools.product((-1, 1), repeat=law.d - 1)]
        return law.tau * np.array(signs, float), np.full(len(signs), law.p / len(signs))
    ones = list(code_word(law.d, law.word))
    bits = np.array(list(itertools.product((0, 1), repeat=len(ones))))[1:]
    rows = np.zeros((len(bits), law.d))
    rows[:, ones] = bits * law.p**-0.5
    return rows, np.where(bits, law.p, 1 - law.p).prod(axis=1)


@pytest.mark.parametrize(
    "law",
    [ProductTwoPoint(d=d, p=p) for d, p in ((1, 0.3), (4, 0.02), (7, 0.3), (7, 0.9))]
    + [SignedTwoPoint(d=5, p=0.2, k=3, sign=-1), SignedTwoPoint(d=5, p=0.2, k=3)],
)
def test_rows_of_sparse_laws(law: Sparse) -> None:
    """All vectors but zero, enumerated; how many rows are not zero is binomial."""
    trials, n = 4000, 20
    sample = law.sample(rng(11), trials, n)
    assert isinstance(sample, SparseSample)
    rows, chance = enumerated(law)
    seen, which, found = np.unique(
        np.sign(sample.rows_held), axis=0, return_inverse=True, return_counts=True
    )
    place = {tuple(row): i for i, row in enumerate(np.sign(rows).tolist())}
    order = [place[tuple(row)] for row in seen.tolist()]
    np.testing.assert_allclose(sample.rows_held, rows[order][which.ravel()], rtol=1e-15)
    cells = np.zeros(len(rows))
    cells[order] = found
    assert_frequencies(cells, chance / chance.sum())
    number = np.bincount(sample.held, minlength=n + 1)
    assert_frequencies(number, stats.binom.pmf(np.arange(n + 1), n, chance.sum()))


def test_rare_rows_have_their_one_anywhere() -> None:
    """p = 1e-12 and 1e12 records: the place of the one is uniform over the word."""
    sample = ProductTwoPoint(d=20, p=1e-12).sample(rng(12), 2000, BIG)
    assert np.all((sample.rows_held != 0).sum(axis=1) == 1)
    wanted = 2000 * 10
    # Poisson: z-test with false-alarm probability 1e-6.
    gap = abs(len(sample.rows_held) - wanted)
    assert gap <= stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(wanted) + 1
    found = (sample.rows_held != 0).sum(axis=0)[list(code_word(20, 0))]
    assert_frequencies(found, [0.1] * 10)


@pytest.mark.parametrize(
    "law",
    [ProductTwoPoint(d=d, p=p) for d, p in ((1, 0.3), (2, 0.8), (6, 1e-9), (6, 0.3))]
    + [
        SignedTwoPoint(d=d, p=p, k=k)
        for d, k in ((1, 3.0), (2, 2.5), (3, 6.0), (8, 2.0), (8, 4.0))
        for p in (1e-9, 0.1, 0.9)
    ],
)
def test_moments_of_sparse_laws(law: Sparse) -> None:
    """By enumeration: of signed ones E|<v, X - mean>|^k is at most 1 for many v."""
    rows, chance = enumerated(law)
    mean = chance @ rows
    np.testing.assert_allclose(law.mean, mean, rtol=1e-12, atol=1e-15)
    covariance = rows.T * chance @ rows - np.outer(mean, mean)
    assert law.moment(2) == pytest.approx(np.linalg.eigvalsh(covariance)[-1], rel=1e-9)
    assert law.moment(2) <= 1
    assert law.variance == pytest.approx(np.trace(covariance), rel=1e-9)
    if isinstance(law, ProductTwoPoint):
        assert math.isnan(law.moment(3))
        return
    k = law.k
    assert k == 2 or law.moment(k) == 1
    assert math.isnan(law.moment(k + 0.5))
    v = unit_vectors(law.d, 200, 13)
    near = np.eye(law.d)[0] + 0.3 * v
    v = np.concatenate([v, near / np.linalg.norm(near, axis=1, keepdims=True)])
    found = (1 - law.p) * np.abs(v @ mean) ** k + np.abs((rows - mean) @ v.T).T ** k @ chance
    assert max(found) <= 1 + 1e-12
    if law.d == 8 and law.p <= 0.1:  # and not far from it
        assert max(found) >= 0.6


@pytest.mark.parametrize(
    "law", [ProductTwoPoint(d=6, p=0.0), SignedTwoPoint(d=6, p=0.0, k=3, sign=-1)]
)
def test_laws_that_are_a_point(law: Sparse) -> None:
    assert law.sample(rng(16), 4, BIG).columns().counts.tolist() == [[BIG]] * 24
    assert np.all(law.mean == 0)
    assert (law.variance, law.moment(2)) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("multivariate_gaussian", {"d": 0}, r"^here\.d: 0: "),
        ("multivariate_gaussian", {"condition": 3, "matrix": [[1, 0], [0, 1]]}, "^here: give cond"),
        ("multivariate_gaussian", {"matrix": [[1, 0], [0, 1, 2]]}, "^here: matrix must have 2 row"),
        ("multivariate_gaussian", {"matrix": [[1, 0.5], [0, 1]]}, "^here: matrix must be symm"),
        ("multivariate_gaussian", {"matrix": [[1, 2], [2, 1]]}, "^here: matrix must be symm"),
        ("product", {}, r"^here\.of: this key is required"),
        ("product", {"of": {"kind": "bernoulli", "p": 0.5}}, r"^here\.of: "),
        ("product", {"of": {"kind": "pareto"}}, r"^here\.of\.tail_index: this key is required"),
        ("product_two_point", {"p": 0.1, "word": 64}, r"^here\.word: 64: "),
        ("signed_two_point", {"p": 0.1, "k": 2, "sign": 0}, r"^here\.sign: 0: "),
    ],
)
def test_refusals_name_the_key(kind: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Distribution.build({"kind": kind, "d": 2, **parameters}, "here")
