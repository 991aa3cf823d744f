"""Intervals for a Gaussian mean: moments, coverage, and an interval that ignores the noise."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import integrate, special, stats

import dpbench
from dpbench.audit import noise_times
from dpbench.distributions import Gaussian
from dpbench.estimators import (
    BergerBoosInterval,
    Estimate,
    HuberInterval,
    KarwaVadhanInterval,
    NoisyvarInterval,
    ParametricBootstrapInterval,
    PrivateBootstrapInterval,
)
from dpbench.jobs.composition import compose
from dpbench.privacy import GDP, ZCDP, Budget, Ledger, PureDP
from dpbench.registry import validated
from dpbench.samples import DenseSample, Sample
from dpbench.theory.exact.clip_and_noise import ReleaseSetting
from dpbench.theory.exact.intervals import _moments, _scales
from dpbench.theory.exact.value import exact
from tests.support import run

LAW = Gaussian(location=0.3)
KNOWN = KarwaVadhanInterval(radius=100, sigma=1)
NOISY = NoisyvarInterval(lower=-6, upper=6, draws=399)
TIGHT = ParametricBootstrapInterval(lower=-1, upper=6, sigma=1, draws=399)


@pytest.mark.parametrize(("mean", "sd"), [(0.3, 1.0), (-4.0, 2.0), (9.0, 0.5), (1.0, 30.0)])
def test_moments_of_clipped_gaussians(mean: float, sd: float) -> None:
    """Compare the closed form of the estimator, and the sums of `exact`, with quadrature."""
    places = [mean - 12 * sd, *sorted({-1.0, 6.0, mean}), mean + 12 * sd]

    def moment(power: int) -> float:
        ends = [p for p in places if abs(p - mean) <= 12 * sd]
        density = lambda x: np.clip(x, -1, 6) ** power * stats.norm.pdf(x, mean, sd)  # noqa: E731
        return sum(integrate.quad(density, *two)[0] for two in itertools.pairwise(ends))

    centre = moment(1)
    spread = math.sqrt(moment(2) - centre**2)
    bias, record_sd = TIGHT._moments(np.array([mean]), np.array([sd]))
    assert (bias[0] + mean, record_sd[0]) == pytest.approx((centre, spread), abs=1e-7)
    (exact_mean,), (variance,) = _moments(np.array([mean]), sd, -1.0, 6.0)
    assert (exact_mean, math.sqrt(max(variance, 0.0))) == pytest.approx((centre, spread), abs=1e-4)


def test_moments_far_away() -> None:
    """Moments stay finite for extreme values and scales."""
    moments = np.array([-1e150, 1e150, 0.0, -1.0]), np.array([0.0, 1.0, 0.0, 1e-300])
    bias, sd = TIGHT._moments(*moments)
    np.testing.assert_allclose(moments[0] + bias, [-1, 6, 0, -1], atol=1e135)
    np.testing.assert_allclose(sd, 0.0, atol=1e-6)


def _missed(estimator: Any, budget: Budget, n: int, seed: int = 0) -> tuple[float, float]:
    """Return the share of 4000 intervals that miss, and the median width over the usual width."""
    rng, missed, widths = np.random.default_rng(seed), [], []
    for _ in range(4):
        estimate = estimator.run(LAW.sample(rng, 1000, n), Ledger(budget, rng))
        low, high = estimate.interval
        missed.append((low > LAW.mean) | (high < LAW.mean))
        widths.append(high - low)
    usual_width = 2 * stats.norm.isf(estimate.miss / 2) / math.sqrt(n)
    return float(np.mean(missed)), float(np.median(widths)) / usual_width


CASES = [
    (KNOWN, PureDP(0.1), 1000),
    (NOISY, PureDP(1.0), 1000),
    (replace(NOISY, share=0.3), ZCDP(0.5), 200),
    (TIGHT, PureDP(1.0), 300),
]


def _as_exact(estimator: Any, budget: Budget, n: int) -> bool:
    """Return True if 4000 intervals have the exact miss rate and width.

    The tolerance is five standard deviations, for a false-alarm probability of 1e-6. Medians of
    widths vary by 0.4 per cent; with 399 simulations they are half a per cent too wide.
    """
    missed, width = _missed(estimator, budget, n)
    p, ratio = (exact(m, estimator, LAW, n, budget) for m in ("miss_rate", "width_ratio_q50"))
    assert 0 < p < 1
    return abs(missed - p) < 5 * math.sqrt(p * (1 - p) / 4000) and abs(width / ratio - 1) < 0.02


def test_an_interval_misses_as_often_as_computed_if_noise_leaves_the_bounds() -> None:
    """Simulated records are clipped around the noisy mean, although the true ones are not."""
    wide, budget = ParametricBootstrapInterval(lower=-6, upper=6, draws=399), GDP(0.1)
    missed, p = _missed(wide, budget, 20)[0], exact("miss_rate", wide, LAW, 20, budget)
    assert p > 0.2
    assert abs(missed - p) < 5 * math.sqrt(p * (1 - p) / 4000)


@pytest.mark.parametrize(("estimator", "budget", "n"), CASES)
def test_intervals_miss_as_often_as_computed(estimator: Any, budget: Budget, n: int) -> None:
    assert _as_exact(estimator, budget, n)
    with noise_times(0.5):  # simulated noise and tails are halved, too, so widths change
        assert not _as_exact(estimator, budget, n)
    add = Ledger.add_noise
    for factor in (0.5, 2.0):

        def wrong(self: Ledger, values: Any, *args: Any, by: float = factor, **options: Any) -> Any:
            return values + by * (add(self, values, *args, **options) - values)

        with mock.patch.object(Ledger, "add_noise", wrong):
            assert not _as_exact(estimator, budget, n)


NEARLY_EQUAL: list[Any] = [
    replace(KNOWN, radius=1e-8, sigma=1e-9), NOISY, replace(NOISY, sigma=1e-9),
    replace(TIGHT, lower=-6, sigma=None), replace(TIGHT, sigma=1e-9),
    BergerBoosInterval(lower=-6, upper=6), BergerBoosInterval(lower=-6, upper=6, sigma=1e-9),
    PrivateBootstrapInterval(lower=-6, upper=6, weights="halves", resamples=20),
    HuberInterval(scale=1),
]  # fmt: skip


@pytest.mark.parametrize("estimator", NEARLY_EQUAL, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("budget", [PureDP(0.5), ZCDP(0.1)])
def test_intervals_of_equal_records_are_as_wide_as_the_noise(
    estimator: Any, budget: Budget
) -> None:
    """An audit's doubled noise doubles the smallest width, but for small parts of other origin."""
    if not estimator.supports(budget):
        return
    data = DenseSample(np.zeros((40, 400)))

    def width(factor: float) -> float:
        ledger = Ledger(budget, np.random.default_rng(0), noise_factor=factor)
        low, high = estimator.run(data, ledger).interval
        return float((high - low).min())

    assert 1.8 < width(2.0) / width(1.0) < 2.001


def test_with_the_true_variance_a_tenth_misses() -> None:
    """Intervals of known variance miss in 10 per cent; with little noise their width is usual."""
    known, clipped = replace(NOISY, sigma=1.0), replace(TIGHT, lower=-6.0)
    for estimator, budget in itertools.product((known, clipped), (PureDP(0.1), ZCDP(0.5))):
        assert exact("miss_rate", estimator, LAW, 500, budget) == pytest.approx(0.1, abs=1e-4)
    for estimator in (known, clipped, NOISY):
        assert exact("width_ratio_q50", estimator, LAW, 500, ZCDP(100)) == pytest.approx(
            1, abs=3e-3
        )
    # Half-widths add normal quantiles at beta/2 and beta/4. The error is normal, with rho = 1/4.
    n, t = 500, math.sqrt(2 * math.log(8 * 500 / 0.1))
    half = stats.norm.isf(0.025) + stats.norm.isf(0.0125) * 6 * t / math.sqrt(n * 0.5)
    missed = 2 * stats.norm.sf(half / math.hypot(1, 6 * t / math.sqrt(n * 0.5)))
    usual = half / stats.norm.isf(0.05)
    assert exact("width_ratio_q50", KNOWN, LAW, n, ZCDP(0.5)) == pytest.approx(usual, rel=1e-9)
    assert exact("miss_rate", KNOWN, LAW, n, ZCDP(0.5)) == pytest.approx(missed, rel=1e-4)
    assert math.isnan(exact("miss_rate", KarwaVadhanInterval(radius=1), LAW, 500, ZCDP(1.0)))
    assert math.isnan(exact("miss_rate", replace(TIGHT, sigma=None), LAW, 500, ZCDP(1.0)))


@pytest.mark.parametrize("n", [8, 21])
def test_without_noise_the_width_is_the_median_of_a_chi_number(n: int) -> None:
    """The standard deviation from m pairs is sigma sqrt(chi2_m/m)."""
    pairs = n // 2
    expected = math.sqrt(stats.chi2(pairs).median() / pairs)
    ratio = exact("width_ratio_q50", NOISY, LAW, n, PureDP(1e6))
    assert ratio == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_noise_of_the_variance(factor: float) -> None:
    """Equal records leave Laplace noise of scale w^2/(2 m epsilon), above ln 5 scales in a tenth.

    Five standard deviations of a count in 4000: false-alarm probability 1e-6.
    """
    data = DenseSample(np.zeros((4000, 7)))
    with noise_times(factor):
        sd = NOISY._scale(data, Ledger(PureDP(2.0), np.random.default_rng(0)))
    above = np.count_nonzero(sd**2 > 12**2 / (2 * 3 * 2) * math.log(5))
    assert (abs(above - 400) < 95) == (factor == 1)


@pytest.mark.parametrize("budget", [PureDP(2.0), PureDP(1e4)])
def test_the_bound_on_the_standard_deviation_holds(budget: Budget) -> None:
    """It may be too low in beta/8 of trials for noise and chi-square each, here 50 of 2000.

    100 or more of 2000 have probability below 1e-9. Without the quantile of the noise, half of the
    trials would be too low at the first budget; without the quantile of chi-square, at the second.
    """
    data = Gaussian(scale=0.83).sample(np.random.default_rng(0), 2000, 2000)
    bounds, _ = KarwaVadhanInterval(radius=10)._sigma_bound(
        data, Ledger(budget, np.random.default_rng(1))
    )
    assert np.count_nonzero(bounds < 0.83) < 100
    assert np.median(bounds) < 2 * 0.83


def test_the_width_that_the_sweep_claims_of_an_unknown_variance() -> None:
    """Half widths over 1.645/sqrt(n) at n = 30,000, rho = 1/2, sigma = 1 and beta = 0.1.

    Each of four steps has rho = 1/8, and twice its sensitivity for a standard deviation. The
    fullest bin of half squared differences is [1/2, 1) or [1, 2): 16.2 and 16.0 per cent.
    """
    n, m, z = 30_000, 15_000, float(stats.norm.isf(0.0125))
    widths = []
    for power in (0.5, 1.0):
        step = 8 * power * math.log(2 * m / 0.0125) / m
        s = math.sqrt((1 + z * 2 * step) * m / special.chdtri(m, 1 - 0.0125))
        t = s * math.sqrt(2 * math.log(2 * n / 0.0125))
        widths.append(z * s / math.sqrt(n) + z * 2 * 6 * t / n)
    claim = compose(["sweep=intervals"])["sweep"]["claims"]["kv_width"]
    assert claim["n_min"] == n
    expected = np.mean(widths) * math.sqrt(n) / stats.norm.isf(0.05)
    assert claim["exact"] == pytest.approx(expected, rel=0.25 * claim["tolerance"])


@validated
class IgnoresNoise(NoisyvarInterval, kind="ignores_noise"):
    """An interval of +- z sigma/sqrt(n) around a noisy mean."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        release = super().estimate(sample, ledger)
        half = stats.norm.isf(self.beta / 2) / math.sqrt(sample.n)
        return replace(release, interval=(release.value - half, release.value + half))


def test_claims_see_an_interval_that_ignores_the_noise() -> None:
    tolerances = {"tolerance": 0.25, "reason": "finite trials"}
    parameters = {"lower": -6, "upper": 6, "sigma": 1, "draws": 199}
    spec = {
        "families": {"gaussian": {"kind": "gaussian", "location": 0.3}},
        "estimators": {
            "right": {"kind": "noisyvar_interval", **parameters},
            "wrong": {"kind": "ignores_noise", **parameters},
        },
        "budgets": {"zcdp": {"kind": "zcdp", "rho": 0.05}},
        "parts": {"all": {"n": [300, 1000], "trials": 1000}},
        "claims": {"misses": {"theorem": "exact_miss", "exact": 0.1, **tolerances}},
    }
    claims = dpbench.run(spec, n_jobs=1).claims.set_index("estimator")
    assert claims["verdict"].to_dict() == {"right": "consistent", "wrong": "inconsistent"}
    # The interval has the sampling error 1/sqrt(n) only, and the noise has sd 12/(n sqrt(0.1)).
    noise = [12 / math.sqrt(0.1 * n) for n in (300, 1000)]
    missed = [2 * stats.norm.sf(stats.norm.isf(0.05) / math.hypot(1, sd)) / 0.1 for sd in noise]
    assert claims["measured"]["wrong"] == pytest.approx(math.sqrt(math.prod(missed)), rel=0.1)


def test_one_record_and_many_releases() -> None:
    with pytest.raises(ValueError, match="one record makes no pair"):
        run(NOISY, np.zeros((3, 1)), PureDP(1.0))
    with pytest.raises(ValueError, match="upper must exceed lower"):
        NoisyvarInterval(lower=1, upper=1)
    many = DenseSample(np.broadcast_to(np.zeros(4), (6000, 4)))  # in three pieces
    estimate = NOISY.run(many, Ledger(PureDP(1.0), np.random.default_rng(0)))
    assert estimate.interval is not None
    low, high = estimate.interval
    assert (low <= estimate.value).all()
    assert (estimate.value <= high).all()


def test_the_noise_of_a_variance_has_its_sensitivity() -> None:
    """Equal records leave noise alone: 50 half squares are up to 72, and have a fifth of rho."""
    setting = ReleaseSetting(100, 1, ZCDP(0.5))
    sd = 72 / 50 / np.sqrt(2 * 0.5 * 0.2)
    scales = _scales(NOISY, 1e-9, setting)
    assert np.quantile(scales, 0.9) == pytest.approx(np.sqrt(sd * stats.norm.ppf(0.9)), rel=0.01)
    assert np.mean(scales == 0) == pytest.approx(0.5)  # where the noise is below 0


@pytest.mark.parametrize(
    ("kind", "budget", "n", "stated"),
    [
        (NoisyvarInterval, GDP(1.0), 500, "8.9"),
        (NoisyvarInterval, PureDP(1.0), 500, "6.9"),
        (ParametricBootstrapInterval, PureDP(0.1), 10, "19"),
        (ParametricBootstrapInterval, PureDP(0.1), 50, "11"),
    ],
)
def test_docstrings_state_how_often_intervals_miss(
    kind: Any, budget: Budget, n: int, stated: str
) -> None:
    """At the stated rate, 4000 intervals miss so rarely or often with probability 1e-6."""
    assert re.search(rf"\b{stated}\s+per\s+cent", kind.__doc__)
    rate, _ = _missed(kind(lower=-6, upper=6, beta=0.05, draws=399), budget, n, seed=8)
    assert stats.binomtest(round(4000 * rate), 4000, float(stated) / 100).pvalue > 1e-6
