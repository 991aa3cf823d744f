"""Private bootstrap: resamples, sensitivities, coverage, and the public results of its authors.

tests/data/private_bootstrap.csv holds 28 rows of the public results of WCA22: 2000 datasets of
N(0.5, 1) clipped to [0, 1], and 90% intervals for the mean 0.5. They are from the folder
results_clamp_normal_mean of github.com/Zhanyu-Wang/Differentially_Private_Bootstrap at commit
fd00156, under the Apache Licence 2.0. Columns and rows are selected, and numbers are unchanged.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpbench.audit import noise_times
from dpbench.distributions import Gaussian
from dpbench.estimators import PrivateBootstrapInterval, private_bootstrap
from dpbench.estimators.intervals import clipped_normal_moments
from dpbench.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpbench.privacy.resampling import resampled_sd
from dpbench.samples import DenseSample
from tests.support import Floats, rng, run

PUBLIC = pd.read_csv(Path(__file__).parents[1] / "data" / "private_bootstrap.csv")
APPROX = ApproxDP(1.0, 1e-5)
BOOTSTRAP = PrivateBootstrapInterval(lower=-1, upper=2, resamples=20)
HALVES = replace(BOOTSTRAP, weights="halves")
SD = float(clipped_normal_moments(np.array([0.5]), np.array([1.0]), 0.0, 1.0)[1][0])


@pytest.mark.parametrize("estimator", [BOOTSTRAP, HALVES])
def test_means_of_resamples_have_the_variance_of_a_mean(estimator: Any) -> None:
    """Given the records, their variance is s^2/n. 400 trials of 20: 1.1 per cent, five times."""
    records = np.clip(rng().normal(0.3, 1, 41), -1, 2)
    sample = DenseSample(np.broadcast_to(records, (400, 41)))
    resample = estimator._resample if estimator is BOOTSTRAP else estimator._halve
    offsets, noisy, sd = resample(sample, Ledger(APPROX, rng()))
    assert noisy.shape == offsets.shape == (400, 20)
    means = offsets + 0.5  # the middle of the bounds
    pairs = records[:40].reshape(20, 2)
    n, variance = 41, records.var() / 41
    if estimator is HALVES:
        variance = np.square(np.diff(pairs, axis=1)).sum() / n**2
        np.testing.assert_allclose(means.mean(axis=1), records.mean(), atol=1e-12)
        assert len(np.unique(np.round(means, 12))) > 1000
    assert means.mean() == pytest.approx(records.mean(), abs=5 * math.sqrt(variance / 8000))
    assert means.var() == pytest.approx(variance, rel=0.08)
    assert (noisy - means).std() == pytest.approx(sd, rel=0.04)


def test_noise_has_its_size() -> None:
    """Resamples have the noise that the privacy bound demands, halves the noise of their norms."""
    sample = DenseSample(rng().normal(size=(3, 50)))
    assert BOOTSTRAP._resample(sample, Ledger(APPROX, rng()))[2] == pytest.approx(
        3 / 50 * resampled_sd(1.0, 1e-5, 50, 20)
    )
    sizes = {
        ZCDP(0.5): math.sqrt(40) * 3 / 50,
        GDP(2.0): math.sqrt(40) * 3 / 50 / 2,
        PureDP(2.0): math.sqrt(2) * 20 * 3 / 50 / 2,
    }
    for budget, size in sizes.items():
        for factor in (1.0, 0.5):
            with noise_times(factor):
                _, _, sd = HALVES._halve(sample, Ledger(budget, rng()))
            assert sd == pytest.approx(factor * size)


@pytest.mark.parametrize("position", [0, 7, 40])
def test_a_record_moves_halves_by_their_sensitivity(position: int) -> None:
    """A replaced record, also the last without a pair, moves them by at most sqrt(2 B) w/n."""
    records = np.zeros((1, 41))
    other = records.copy()
    other[0, position] = 1.0
    halves = PrivateBootstrapInterval(lower=0, upper=1, resamples=20, weights="halves")
    moves = [halves._halve(DenseSample(x), Ledger(APPROX, rng()))[0] for x in (records, other)]
    gap = np.abs(moves[1] - moves[0])
    last = position == 40
    assert gap.sum() == pytest.approx(20 / 41)
    assert np.linalg.norm(gap) == pytest.approx(math.sqrt(20 if last else 40) / 41)


@pytest.mark.parametrize("noise", [1e-6, 0.02, 0.5])
@pytest.mark.parametrize("weights", ["multinomial", "halves"])
def test_intervals_miss_at_most_as_often_as_stated(weights: Any, noise: float) -> None:
    """Noise is far below, near and far above the spread 0.012 of means of 1000 records.

    The means are normal. With 4000 trials and beta = 0.1, five standard deviations are 0.024.
    """
    b, n, root = 30, 1000, SD / math.sqrt(1000)
    estimator = PrivateBootstrapInterval(lower=0, upper=1, resamples=b, weights=weights)
    z = rng().standard_normal((4000, b))
    if weights == "halves":
        z -= z.mean(axis=1, keepdims=True)
        z *= math.sqrt(b / (b - 1))
    centre = 0.5 + root * rng(1).standard_normal((4000, 1))
    noisy = centre + root * z + noise * rng(2).standard_normal(z.shape)
    low, high = estimator.ends(noisy, noise, n)
    assert np.mean((low > 0.5) | (high < 0.5)) < 0.124
    usual = 2 * stats.norm.isf(0.05) * math.hypot(root, noise / math.sqrt(b))
    assert usual < np.median(high - low) < (1.7 if noise < root else 6) * usual


@pytest.mark.parametrize(
    ("p", "n", "mu", "stated"), [(0.001, 2000, 10.0, "7.8"), (0.02, 50, 1000.0, "35")]
)
def test_the_stated_shares_of_rare_events_are_missed(
    p: float, n: int, mu: float, stated: str
) -> None:
    """At the stated share, 500 intervals miss so rarely or often with probability 1e-6."""
    assert f"{stated} per cent" in private_bootstrap.__doc__
    estimator = PrivateBootstrapInterval(lower=0, upper=1, beta=0.05, weights="halves")
    sample = DenseSample((rng().random((500, n)) < p).astype(float))
    interval = estimator.run(sample, Ledger(GDP(mu), rng())).interval
    assert interval is not None
    low, high = interval
    missed = int(((low > p) | (high < p)).sum())
    assert stats.binomtest(missed, 500, float(stated) / 100).pvalue > 1e-6


@pytest.mark.parametrize("estimator", [BOOTSTRAP, HALVES])
def test_half_widths_by_hand(estimator: Any) -> None:
    """Equal noisy means leave the noise of their average, which is N(0, s^2/B).

    Otherwise the squares are divided by the 0.01 quantile of chi-squared, of 19 degrees.
    """
    z = stats.norm.isf(0.045)
    low, high = estimator.ends(np.full((1, 20), 0.3), 0.2, 50)
    assert (low[0], high[0]) == pytest.approx((0.3 - 0.2 * z / 20**0.5, 0.3 + 0.2 * z / 20**0.5))
    low, high = estimator.ends(np.tile([[1.0, -1.0]], 10), 0.2, 50)
    excess = 20 / stats.chi2.ppf(0.01, 19) - 0.04
    scale = 50 / 49 * 21 / 20 if estimator is BOOTSTRAP else 19 / 20
    assert high[0] == pytest.approx(z * math.sqrt(excess * scale + 0.04 / 20))


def test_the_interval_is_for_the_mean_of_clipped_records() -> None:
    """N(0.8, 1) clipped to [0, 1] has the mean 0.61: the interval contains it, and misses 0.8."""
    estimator = PrivateBootstrapInterval(lower=0, upper=1, resamples=20)
    sample = Gaussian(location=0.8).sample(rng(), 100, 1000)
    low, high = estimator.run(sample, Ledger(APPROX, rng())).interval  # type: ignore[misc]
    bias = clipped_normal_moments(np.array([0.8]), np.array([1.0]), 0.0, 1.0)[0][0]
    assert np.mean((low < 0.8 + bias) & (0.8 + bias < high)) > 0.85
    assert (high < 0.8).all()


def test_only_halves_serve_other_notions() -> None:
    assert [BOOTSTRAP.supports(budget) for budget in (APPROX, GDP(1.0), PureDP(1.0))] == [
        True,
        False,
        False,
    ]
    with pytest.raises(ValueError, match="resamples: 21: must be even for weights: halves"):
        replace(HALVES, resamples=21)
    with pytest.raises(ValueError, match=r"^n: 1: one record has no variance"):
        run(BOOTSTRAP, np.zeros((2, 1)), APPROX)


# Public results.


def simulated(n: int, b: int, mu: float, trials: int) -> Floats:
    """Return noisy means of resamples at the noise of WCA22, as normal variables, (trials, B)."""
    draws = rng(n + b).standard_normal((trials, 2 * b + 1))
    noise = 1.125 * math.sqrt(b) / n / mu * draws[:, 1 : b + 1]
    return 0.5 + SD / math.sqrt(n) * (draws[:, :1] + draws[:, b + 1 :]) + noise


@pytest.mark.parametrize(("n", "b", "mu"), [(1000, 100, 1.0), (1000, 10, 0.1)])
def test_deconvolved_intervals_are_those_of_the_authors(n: int, b: int, mu: float) -> None:
    """Mean widths and coverages agree within four standard errors of both simulations."""
    row = PUBLIC.query("method == 'deconvolveR' and n == @n and resamples == @b and mu == @mu")
    (public,) = row.to_dict("records")
    estimator = PrivateBootstrapInterval(lower=0, upper=1, resamples=b, method="deconvolution")
    noise = 1.125 * math.sqrt(b) / n / mu
    low, high = estimator.ends(simulated(n, b, mu, 60), noise, n)
    error = math.hypot((high - low).std() / math.sqrt(60), public["se_width"])
    assert abs((high - low).mean() - public["mean_width"]) < 4 * error
    covered = np.mean((low <= 0.5) & (high >= 0.5))
    assert abs(covered - public["coverage"]) < 4 * math.sqrt(0.09 / 60)


def test_the_bootstrap_without_privacy_is_that_of_the_authors() -> None:
    """Their coverage counts B/20 to 19B/20 means below 0.5; their width is between quantiles.

    So coverage and width are those of two intervals. With B = 10 the interval of the first is the
    hull of all ten means, and the second lies within it.
    """
    for public in PUBLIC.query("method == 'clean_bootstrap'").to_dict("records"):
        n, b = public["n"], public["resamples"]
        means = simulated(n, b, 1e12, 3000)
        below = (means <= 0.5).mean(axis=1)
        covered = np.mean((below > 0.0499) & (below < 0.9501))
        assert covered == pytest.approx(public["coverage"], abs=0.04)
        low, high = np.quantile(means, [0.05, 0.95], axis=1)
        assert (high - low).mean() == pytest.approx(public["mean_width"], rel=0.02)
        assert np.mean((low <= 0.5) & (high >= 0.5)) < covered - (0.04 if b == 10 else 0.0)


def test_noisyvar_of_the_authors_clips_twice() -> None:
    """Their NOISYVAR simulates N(mean, variance of clipped records), and clips again.

    DFMBG20 does not clip simulated records. The second clip shrinks the standard deviation from
    0.40 to 0.32. So 90% intervals cover in 80 per cent. Widths agree
    within half a per cent, because quantiles of 1000 simulations are a little too close.
    """
    z, weights = np.polynomial.hermite_e.hermegauss(101)
    weights /= weights.sum()
    for public in PUBLIC.query("method == 'NoisyVar'").to_dict("records"):
        n = public["n"]
        noise = math.sqrt(2) / n / public["mu"]
        variance = np.maximum(SD**2 + noise * z, 1e-10 * n)
        twice = clipped_normal_moments(np.full(101, 0.5), np.sqrt(variance), 0.0, 1.0)[1]
        half = stats.norm.isf(0.05) * np.hypot(twice / math.sqrt(n), noise)
        assert 2 * weights @ half == pytest.approx(public["mean_width"], rel=0.005)
        covered = weights @ stats.norm.cdf(half / math.hypot(SD / math.sqrt(n), noise)) * 2 - 1
        assert covered == pytest.approx(public["coverage"], abs=5 * math.sqrt(0.16 / 2000))
        once = 2 * stats.norm.isf(0.05) * math.hypot(SD / math.sqrt(n), noise)
        assert once > 1.05 * public["mean_width"]
