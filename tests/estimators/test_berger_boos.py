"""Intervals by inverted tests: moments of clipped squares, exact coverage under a clip, bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from dpbench.audit import noise_times
from dpbench.distributions import Gaussian
from dpbench.estimators import BergerBoosInterval, ParametricBootstrapInterval
from dpbench.estimators.berger_boos import _clipped_square_moments, _noisy_quantile
from dpbench.estimators.intervals import clipped_normal_moments
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.theory.exact.value import exact
from tests.support import run

LAW = Gaussian(location=0.3)
TIGHT = BergerBoosInterval(lower=-1, upper=6, sigma=1)


def missed(estimator: Any, law: Gaussian, budget: Budget, n: int) -> tuple[float, float, float]:
    """Return the share of 2000 intervals that miss, the median width, and the mean estimate."""
    generator = np.random.default_rng(1)
    estimate = estimator.run(law.sample(generator, 2000, n), Ledger(budget, generator))
    low, high = estimate.interval
    misses = np.mean((low > law.mean) | (high < law.mean))
    return float(misses), float(np.median(high - low)), float(np.mean(estimate.value))


@pytest.mark.parametrize(("budget", "n"), [(PureDP(1.0), 300), (ZCDP(0.5), 2000)])
def test_with_a_known_sigma_a_tenth_misses_under_a_clip(budget: Budget, n: int) -> None:
    """Five standard deviations of 2000 trials; the parametric bootstrap misses more often."""
    rate, width, value = missed(TIGHT, LAW, budget, n)
    usual = 2 * stats.norm.isf(0.05) / math.sqrt(n)
    assert exact("miss_rate", TIGHT, LAW, n, budget) == pytest.approx(0.1, abs=1e-4)
    assert abs(rate - 0.1) < 5 * math.sqrt(0.09 / 2000)
    assert width / usual == pytest.approx(exact("width_ratio_q50", TIGHT, LAW, n, budget), rel=0.01)
    assert value == pytest.approx(LAW.mean, abs=5 * width / 3 / math.sqrt(2000))


def test_it_survives_a_clip_at_which_the_parametric_bootstrap_always_misses() -> None:
    """N(0.8, 1) clipped to [0, 1] has the mean 0.61 and a smaller variance."""
    law = Gaussian(location=0.8)
    rate, width, value = missed(BergerBoosInterval(lower=0, upper=1), law, GDP(1.0), 1000)
    assert rate <= 0.1
    assert width < 0.25
    assert value == pytest.approx(0.8, abs=0.01)
    bootstrap = ParametricBootstrapInterval(lower=0, upper=1, draws=99)
    assert missed(bootstrap, law, GDP(1.0), 1000)[0] == 1.0


@pytest.mark.parametrize("sigma", [None, 1.0])
def test_halved_noise_is_seen(sigma: float | None) -> None:
    """Quantiles follow the noise that is drawn, so the width falls with it."""
    estimator = BergerBoosInterval(lower=-6, upper=6, sigma=sigma)
    width = missed(estimator, LAW, PureDP(0.1), 1000)[1]
    with noise_times(0.5):
        rate, half, _ = missed(estimator, LAW, PureDP(0.1), 1000)
    assert rate < 0.13
    assert half < 0.7 * width


@pytest.mark.parametrize("sd", [1e-3, 0.3, 1.0, 20.0, 1e3])
def test_moments_of_clipped_squares(sd: float) -> None:
    mean, spread = _clipped_square_moments(np.array([sd]), math.sqrt(0.5))
    edge = min(math.sqrt(0.5) / sd, 38.0)

    def moment(power: int) -> float:
        inside = integrate.quad(
            lambda z: (sd * z) ** (2 * power) * 2 * stats.norm.pdf(z), 0, min(edge, 12)
        )[0]
        return float(inside + 0.5**power * 2 * stats.norm.sf(edge))

    variance = moment(2) - moment(1) ** 2
    assert mean[0] == pytest.approx(moment(1), rel=1e-6)
    assert spread[0] == pytest.approx(math.sqrt(max(variance, 0.0)), rel=1e-3, abs=1e-4 * mean[0])


def test_the_clipped_spread_grows_with_sigma() -> None:
    """Step 3 of the derivation; it is checked for means in the bounds."""
    sigmas = np.geomspace(1e-3, 1e3, 400)
    for mean in np.linspace(0, 1, 21):
        spread = clipped_normal_moments(np.full(400, mean), sigmas, 0.0, 1.0)[1]
        assert np.diff(spread).min() > -1e-9


@pytest.mark.parametrize("budget", [PureDP(1.0), PureDP(4.0, noise_by="staircase")])
@pytest.mark.parametrize("upper", [0.05, 0.005])
def test_quantiles_of_a_normal_variable_and_noise(budget: Budget, upper: float) -> None:
    """The share above a quantile, by quadrature over the noise; 2 per cent of it."""
    quantile = _noisy_quantile(upper, 4.0, budget, 0.5)
    shares = (np.arange(200_000) + 0.5) / 400_000
    tail = budget.noise_tail(shares, 0.5, 0.5)
    for sd in (0.02, 0.3, 2.5):
        x = float(quantile(np.array([sd]))[0])
        above = (stats.norm.sf((x - tail) / sd).mean() + stats.norm.sf((x + tail) / sd).mean()) / 2
        assert above == pytest.approx(upper, rel=0.02)


def test_ends_stay_within_the_bounds() -> None:
    """Under a tiny budget nothing is known, so the interval is [lower, upper]."""
    estimate = run(BergerBoosInterval(lower=-1, upper=6), np.zeros((50, 20)), ApproxDP(1e-6, 1e-9))
    assert estimate.interval is not None
    low, high = estimate.interval
    inside = (np.abs(estimate.before_noise) < 1e-9) & (low == -1)
    assert inside.mean() > 0.8
    assert (high <= 6).all()
    assert (low <= estimate.value).all()
    assert (estimate.value <= high).all()


def test_one_record_makes_no_pair() -> None:
    with pytest.raises(ValueError, match=r"^n: 1: one record makes no pair"):
        run(BergerBoosInterval(lower=0, upper=1), np.zeros((2, 1)), PureDP(1.0))
    assert run(TIGHT, np.zeros((2, 1)), PureDP(1.0)).interval is not None


@pytest.mark.parametrize("beta", [0.1, 0.9])
def test_a_tenth_of_beta_is_for_sigma_and_the_rest_for_the_mean(beta: float) -> None:
    """Nearly without noise and clipping: sigma from chi-square errors, the mean from normal ones.

    For n = 4000 records sigma has m = 2000 squares, so its ends are sqrt(1 +- z sqrt(2/m)) apart.
    """
    e = BergerBoosInterval(lower=-50, upper=50, beta=beta)
    sample, budget = LAW.sample(np.random.default_rng(3), 8, 4000), PureDP(1e6)
    low, middle, high = e._scales(sample, Ledger(budget, np.random.default_rng(0)))
    z = stats.norm.isf(0.1 * beta / 2) * math.sqrt(2 / 2000)
    np.testing.assert_allclose(high / low, math.sqrt((1 + z) / (1 - z)), rtol=2e-3)
    estimate = run(e, sample, budget)
    assert estimate.interval is not None
    width = (estimate.interval[1] - estimate.interval[0]) / np.median(high)
    usual = 2 * stats.norm.isf(0.9 * beta / 2) / math.sqrt(4000)
    # The pairs are drawn anew, which moves sigma by about a 60th.
    assert np.median(width) == pytest.approx(usual, rel=0.015)
    assert np.median(middle) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("mu", [0.5, 100.0])
def test_the_interval_for_sigma_allows_for_the_noise_of_the_squares(mu: float) -> None:
    """Both ends explain one released V: low^2 plus, and high^2 minus, a quantile of its error.

    V is the mean of m = 2000 squares in [0, 72], so its noise has the deviation 72/(m mu). A mean
    of unclipped squares of N(0, s^2) has the deviation s^2 sqrt(2/m).
    """
    e = BergerBoosInterval(lower=-6, upper=6)
    sample = LAW.sample(np.random.default_rng(3), 4, 4000)
    low, _, high = e._scales(sample, Ledger(GDP(mu), np.random.default_rng(0)))
    reach = stats.norm.isf(0.005)
    first, second = (
        end**2 + sign * reach * np.hypot(end**2 * math.sqrt(2 / 2000), 72 / 2000 / mu)
        for end, sign in ((low, 1), (high, -1))
    )
    np.testing.assert_allclose(first, second, rtol=1e-6)
