"""Variances: the Bezier mechanism against loops and closed forms, and pairs against their base."""

from __future__ import annotations

import numpy as np
import pytest

from dpbench.distributions import Bernoulli, Gaussian
from dpbench.estimators import BezierVariance, ClippedMean, PairVariance
from dpbench.estimators.estimands import VARIANCE
from dpbench.privacy import PureDP
from dpbench.samples import CountedSample, DenseSample
from tests.support import rng, run

PRIVATE_N = PureDP(0.1, neighbours="add_remove")


def contributions(u: np.ndarray) -> np.ndarray:
    return np.stack([(1 - u) ** 2, 2 * u * (1 - u), u**2])


def test_a_record_moves_the_sums_by_one() -> None:
    sums = contributions(np.linspace(0, 1, 10_001))
    assert sums.min() >= 0
    np.testing.assert_allclose(sums.sum(axis=0), 1.0, rtol=1e-12)
    norms = np.sqrt((sums**2).sum(axis=0))
    assert norms.max() == 1.0  # at both ends, and the l2 sensitivity


def test_the_mechanism_is_that_of_a_loop() -> None:
    """20,000 runs each: a 0.9 quantile is known to 0.7 per cent, and 8 of these are allowed."""
    x, n, epsilon = rng().random(500), 500, 0.1
    generator, errors = np.random.default_rng(3), []
    for _ in range(20_000):
        b = contributions(x).sum(axis=1) + generator.laplace(0, 1 / epsilon, 3)
        size = max(b.sum(), 1.0)
        variance = b[2] / size - ((b[1] / 2 + b[2]) / size) ** 2
        errors.append(abs(min(max(variance, 0.0), 0.25) - x.var()))
    sample = np.broadcast_to(3 * x - 1, (20_000, n))  # records in [-1, 2]
    release = run(BezierVariance(lower=-1, upper=2), sample, PRIVATE_N)
    assert release.before_noise == pytest.approx(9 * x.var())
    found = np.quantile(np.abs(release.value - 9 * x.var()), 0.9)
    assert found == pytest.approx(9 * np.quantile(errors, 0.9), rel=0.08)


def test_the_error_to_first_order() -> None:
    """For u uniform, m = 1/2 and s = 1/3: weights 1/6, -1/3, 1/6. 20,000 runs know the variance
    to 2 per cent, and 6 of these are allowed, for the second order too."""
    u = (np.arange(400) + 0.5) / 400
    counted = CountedSample(u, np.full((20_000, 400), 10))
    release = run(BezierVariance(), counted, PRIVATE_N)
    wanted = 2 / 0.1**2 * (2 / 36 + 1 / 9) / 4000**2
    assert np.mean((release.value - u.var()) ** 2) == pytest.approx(wanted, rel=0.12)


def test_counts_and_records_agree() -> None:
    counts, atoms = np.array([[5, 9, 2]]), np.array([0.0, 0.5, 2.0])
    counted, dense = CountedSample(atoms, counts), DenseSample(np.repeat(atoms, counts[0])[None])
    for clip in ((0, 1), (-np.inf, np.inf)):
        assert counted.clipped_square(*clip) == pytest.approx(dense.clipped_square(*clip))
    assert VARIANCE.empirical(counted) == pytest.approx([np.repeat(atoms, counts[0]).var()])
    assert VARIANCE.truth(Bernoulli(p=0.1), counted) == pytest.approx(0.09)


def test_pairs_have_the_variance_as_their_mean() -> None:
    """2,000 runs of 1,000 pairs: an average is known to 0.0011 sd, and 6 of these are allowed."""
    law = Gaussian(location=5.0, scale=0.1)
    estimator = PairVariance(base=ClippedMean(lower=0, upper=0.2))
    release = run(estimator, law.sample(rng(), 2000, 2000), PureDP(1e6))
    assert release.value.mean() == pytest.approx(0.01, rel=0.007)
    assert estimator.least_records(1, PureDP(1.0)) == 2
    assert estimator.most_records is None
    assert PairVariance(base="binary_minimax").most_records == 2001  # 1000 pairs, and one alone
    assert (run(estimator, np.zeros((50, 2)), PureDP(0.1)).value >= 0).all()
