"""Radii of the balloon mean, against a simulation of the sparse vector technique alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbench.arrays import Floats
from dpbench.distributions import MultivariateGaussian
from dpbench.estimators import BalloonMean
from dpbench.privacy import ZCDP, Ledger
from dpbench.theory.exact.balloon import _radii, radius_distribution
from dpbench.theory.exact.value import exact


@pytest.mark.parametrize(("scale", "share"), [(2.0, 0.9), (20.0, 0.5)])
def test_the_distribution_of_the_radius(scale: float, share: float) -> None:
    """The standard error of a probability over 20,000 searches is at most 0.0035."""
    rng, n, trials = np.random.default_rng(0), 400, 20_000
    inside = stats.chi2(5).cdf(1.1 ** (2 * np.arange(20)))
    lengths = rng.multinomial(n, np.diff(inside, prepend=0, append=1), trials)
    counts = np.cumsum(lengths, axis=1)[:, :-1]
    noisy = counts + rng.exponential(scale, counts.shape)
    passed = noisy >= share * n + rng.exponential(scale, (trials, 1))
    passed[:, -1] = True
    measured = np.bincount(passed.argmax(axis=1), minlength=20) / trials
    found = radius_distribution(inside, share, n, scale)
    assert found.sum() == pytest.approx(1)
    np.testing.assert_allclose(found, measured, atol=0.025)
    assert np.cumsum(found) == pytest.approx(np.cumsum(measured), abs=0.03)


@pytest.mark.parametrize("growth", [1.001, 1.01, 2.0, 10.0])
def test_the_radii_are_those_of_the_estimator(growth: float) -> None:
    estimator = BalloonMean(radius=30.0, sigma=0.7, growth=growth)
    np.testing.assert_allclose(_radii(estimator), estimator.radii(), rtol=1e-9)


def test_the_noise_of_the_search_is_that_of_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count below the threshold by the scale b passes with probability 1/(2e).

    Each of 3 searches has 0.15 of rho. Five standard deviations of 20,000 searches are 0.014.
    """
    scales = []

    def record(inside: Floats, share: float, n: int, scale: float) -> Floats:
        scales.append(scale)
        return radius_distribution(inside, share, n, scale)

    monkeypatch.setattr("dpbench.theory.exact.balloon.radius_distribution", record)
    law, estimator = MultivariateGaussian(d=3), BalloonMean(radius=20.0, sigma=1.0)
    assert np.isfinite(exact("noise_q90", estimator, law, 1234, ZCDP(0.4)))
    assert len(set(scales)) == 1
    counts = np.tile([1000 - scales[0], 1e9], (20_000, 1))
    ledger = Ledger(ZCDP(0.15 * 0.4), np.random.default_rng(0))
    chosen = ledger.above_threshold(counts, 1.0, 1000.0, noise="exponential")
    assert np.mean(chosen == 0) == pytest.approx(np.exp(-1) / 2, abs=0.014)
