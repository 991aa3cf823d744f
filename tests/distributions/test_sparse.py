"""Vectors that are nearly always zero, by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import ProductTwoPoint, SignedTwoPoint
from dpbench.distributions.sparse import code_word
from dpbench.samples import SparseSample
from tests.distributions.vectors import unit_vectors
from tests.support import BIG, FALSE_ALARM, Floats, assert_frequencies, rng

# Sparse laws.


@pytest.mark.parametrize(("d", "many"), [(1, 1), (2, 2), (5, 8), (10, 12), (16, 20), (200, 8)])
def test_code_words(d: int, many: int) -> None:
    """Check all words of small d, and so many of larger d that some first draws are rejected."""
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
    """Return all nonzero vectors, (m, d), and their probabilities, (m,)."""
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
    """Compare with the enumerated nonzero vectors, of which a sample has a binomial number."""
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
    """Check that the position of a single one is uniform, for p = 1e-12 and 1e12 records."""
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
    """Compare with enumeration; for signed vectors E|<v, X - mean>|^k <= 1 for many v."""
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
