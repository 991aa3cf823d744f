"""Tests of means without bounds against their definitions and exact laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

from dpbench.estimators import ApproximateBoundsMean, UniversalMean, unbounded
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.package import conf_folder
from dpbench.privacy import Ledger, PureDP
from dpbench.privacy.tape import Tape
from dpbench.samples import DenseSample
from tests.support import assert_frequencies, rng, run

Floats = NDArray[np.float64]


def declared(claim: str) -> float:
    """Return the exact value of a claim of the shipped sweep ``no_bounds``."""
    sweep = yaml.safe_load((conf_folder() / "sweep" / "no_bounds.yaml").read_text())
    return float(sweep["claims"][claim]["exact"])


@pytest.mark.parametrize(
    ("records", "low", "high"),
    [
        ([3.0, 5.0, 8.0], 2, 8),
        ([-3.0, 0.1, 900.0], -4, 1024),
        ([-5.0, -6.0], -8, -4),
        ([1000.0], 512, 1024),
        ([0.0, 1.0], 0, 1),
    ],
)
def test_bounds_are_powers_of_two_that_hold_records(
    records: list[float], low: float, high: float
) -> None:
    """The bounds are the powers of two around the records, without the single record at 1e9."""
    x = np.append(np.tile(records, 3000), 1e9)
    estimate = run(ApproximateBoundsMean(), x[None], PureDP(1.0))
    assert estimate.before_noise == pytest.approx(np.clip(x, low, high).mean(), rel=1e-12)
    noise = abs(estimate.value - estimate.before_noise)  # its scale is 2 (high - low)/n
    assert noise < 40 * (high - low) / len(x)  # false alarms e^-20 = 2e-9


def test_a_library_needs_enough_records() -> None:
    """Noise of scale 4 in 4002 bins is below 4 ln(2001/1e-9) = 113 with probability 1 - 1e-9."""
    few, enough = (run(ApproximateBoundsMean(), np.ones((200, n)), PureDP(1.0)) for n in (30, 200))
    assert np.isnan(few.value).all()  # false alarms 200 e^(-83/4)/2 = 1e-7
    assert np.isfinite(enough.value).all()


def test_the_noise_of_a_library_is_that_of_its_bin() -> None:
    """The Laplace noise has scale 512/(n/2), n = 5000, because 768 is in (512, 1024]."""
    assert declared("noise_library") == pytest.approx(512 / 2500 * np.log(10), rel=1e-4)


def radius_law(
    n: int,
    powers: Floats,
    beta: float = 0.1,
    epsilon: float = 1.0,
    within: Floats | None = None,
) -> Floats:
    """Return the probabilities of the last radius, integrated over the noise of the threshold.

    By default the records are N(mu, 1), and the centre is mu.
    """
    scale = 2 / (epsilon / 8)
    threshold = n - 2 * scale * np.log(1 / beta)
    within = n * (2 * stats.norm.cdf(powers) - 1) if within is None else within
    noise, t = stats.laplace(scale=scale), np.linspace(-12 * scale, 12 * scale, 20_001)
    passed = noise.sf(threshold + t[:, None] - within)
    before = np.cumprod(np.hstack([np.ones((len(t), 1)), 1 - passed[:, :-1]]), axis=1)
    return np.asarray((t[1] - t[0]) * noise.pdf(t) @ (before * passed))


def test_the_noise_of_a_search_is_that_of_its_radius() -> None:
    """Compute the 0.9 quantile of Laplace noise of scale 2 radius/(n/2), for a random radius."""
    n, powers = 5000, np.exp2(np.arange(-5.0, 40.0))
    chances = radius_law(n, powers)
    scales = 2 * powers / (n / 2)
    quantile = brentq(lambda x: chances @ np.exp(-x / scales) - 0.1 * chances.sum(), 1e-9, 1.0)
    assert chances.sum() == pytest.approx(1, abs=1e-3)
    assert declared("noise_universal") == pytest.approx(quantile, rel=2e-3)


@pytest.mark.parametrize("location", [0.0, -1e6, 1e-9])
def test_a_search_finds_records_anywhere(location: float) -> None:
    """At least eight of ten trials find the records.

    Each radius is too large, or too small, with probability 0.02, so 11 of 50 trials fail with
    probability 1e-8.
    """
    scale = max(abs(location) / 1e3, 1e-12)
    x = rng(3).normal(location, scale, (50, 2000))
    estimate = run(UniversalMean(), x, PureDP(1.0))
    off = np.abs(estimate.before_noise - x.mean(axis=1)) / scale
    assert np.quantile(off, 0.8) < 0.2
    assert np.quantile(abs(estimate.value - estimate.before_noise), 0.8) < 0.05 * scale


def test_the_last_radius_falls_as_its_threshold_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integrate over the noise of the threshold, and compare 5000 radii by a chi-square test.

    The records are quantiles of a normal distribution, so that all counts are known. The threshold
    leaves out s = 2 b ln(1/beta) records: noise of scale b exceeds s/2 with probability beta/2. The
    false-alarm probability is 1e-6. A threshold that leaves out s/2 moves the radii from 2 to 4.
    """
    n, trials, radii = 400, 5000, list[Any]()

    def centre(sample: Any, *arguments: Any) -> Floats:
        arguments[-1].pay()
        return np.zeros(sample.trials)

    def clipped(sample: Any, middle: Any, radius: Floats, ledger: Any) -> Any:
        radii.append(radius)
        return noisy_clipped_mean(sample, middle, radius, ledger)

    monkeypatch.setattr(unbounded, "private_quantile", centre)
    monkeypatch.setattr(unbounded, "noisy_clipped_mean", clipped)
    records, most = stats.norm.ppf((np.arange(n) + 0.5) / n), 9
    run(UniversalMean(max_power=most), np.broadcast_to(records, (trials, n)), PureDP(1.0))
    powers = np.exp2(np.arange(-most, most + 1.0))
    within = np.array([float(np.sum(np.abs(records) <= power)) for power in powers])
    chances = radius_law(n, powers, within=within)
    chances[-1] += 1 - chances.sum()  # the last power is released if no count passes
    assert_frequencies([np.sum(radii[0] == power) for power in powers], chances)


def test_what_each_step_of_a_search_pays() -> None:
    """Radius, median, second radius and mean pay 1/8, 1/4, 1/8 and 1/2 of the budget."""
    tape = Tape()
    ledger = Ledger(PureDP(8.0), rng(), tape=tape)
    UniversalMean().run(DenseSample(rng(1).standard_normal((1, 200))), ledger)
    mechanisms = [step.mechanism for step in tape.steps if step.mechanism != "pay"]
    assert mechanisms == ["above_threshold", "exponential", "above_threshold", "add_noise"]
    paid = [float(line.split()[2].rstrip(":")) for line in ledger.receipt().splitlines()[1:-1]]
    assert paid == [1.0, 2.0, 1.0, 4.0]


def test_a_small_probability_of_success_takes_the_median_of_the_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 2 bins the noise of a bin may exceed the threshold with probability 0.9, above 1/2."""
    asked, tail = list[float](), PureDP.noise_tail

    def spy(self: PureDP, upper: Floats, l1: float, l2: float) -> Floats:
        asked.append(float(upper))
        return tail(self, upper, l1, l2)

    monkeypatch.setattr(PureDP, "noise_tail", spy)
    run(ApproximateBoundsMean(max_power=1, min_power=1, success=0.01), np.ones((1, 9)), PureDP(1.0))
    assert asked == [0.5]
