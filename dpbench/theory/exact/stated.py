"""Compute without drawing what estimators state: intervals by rounds, ranges, Gaussians.

Written from the definitions, like `dpbench.theory.exact.value`, without calling an estimator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.theory.exact.choices import RARE, count_noise, is_near, levels, overtaken
from dpbench.theory.exact.clip_and_noise import ReleaseSetting
from dpbench.theory.exact.clip_and_noise_oracle import (
    Histogram,
    coinpress_round,
    gaussian_norm,
    histogram,
    ksu20_alpha,
    last_step,
    round_shares,
    shrunk,
)
from dpbench.theory.exact.intervals import below
from dpbench.theory.exact.noise import additive

__all__ = ["STATED", "exact_stated"]

STATED = ("width_q50", "miss_rate", "error_over_guarantee_q90", "tv_q90")
NAN = float("nan")
POINTS = 200  # equally likely values of a variance, and of each of its two parts


def exact_stated(
    metric: str, e: Any, law: dist.Distribution, at: ReleaseSetting, q90: float
) -> float:
    """Return one of `STATED`, NaN if it is not known; `q90` is the exact 0.9 quantile of errors."""
    if isinstance(e, est.ShrinkingIntervals | est.CoinPressMean) and law.d == 1:
        return _by_rounds(metric, e, law, at)
    if isinstance(e, est.KSU20RangeEstimate):
        return _range(metric, e, law, at)
    if (
        isinstance(e, est.KSU20Mean)
        and e.constants == "paper"
        and metric == "error_over_guarantee_q90"
    ):
        alpha = ksu20_alpha(e, at.n, at.budget)
        return q90 / alpha if alpha < 1 / 16 else NAN
    if (
        isinstance(e, est.KarwaVadhanGaussian)
        and metric == "tv_q90"
        and isinstance(law, dist.Gaussian)
    ):
        return _distance(e, law, at, q90)
    return NAN


def _by_rounds(metric: str, e: Any, law: dist.Distribution, at: ReleaseSetting) -> float:
    """Return the width of an interval by rounds, or the probability that the first one misses.

    The first interval is V + Z -+ w, V of N(mu, sigma^2/n), because no record is clipped.

    L15's w is the sum of the quantiles of |V - mu| and |Z|; BDKU20's is the bound `gaussian_norm`
    times the deviation of their sum. Later rounds have widths of the same form, but miss more
    often: records are clipped after an interval that missed.
    """
    if not is_near(law, e) or law.variance < e.sigma**2 * (1 - 1e-9):
        return NAN
    root = float(np.sqrt(at.n))
    if isinstance(e, est.CoinPressMean):
        shares = round_shares(e.rounds)[: e.reported_round]
        sd, _ = coinpress_round(e.radius / e.sigma, shares, e.b, at)
        gamma = gaussian_norm(1, e.b)
        missed, half = 2 * float(ndtr(-gamma)), gamma * e.sigma * float(np.hypot(1 / root, sd))
    else:
        step, half, narrowed = shrunk(e, at)
        if not narrowed:
            return NAN
        low, high = below(np.array([-half, half]), 0.0, e.sigma / root, step.noise)
        missed = float(1 - high + low)
    if metric == "miss_rate":
        return missed if 1 in (e.rounds, e.reported_round) else NAN
    return 2 * half if metric == "width_q50" else NAN


def _range(
    metric: str, e: est.KSU20RangeEstimate, law: dist.Distribution, at: ReleaseSetting
) -> float:
    """Return the width of KSU20's range, or the distance of the mean from its middle over 2r.

    The range is a bin of width 2r with one more to each side, 6r wide. The mean is as far from the
    middle of its bin, in units of 2r, as its place in it from 1/2. The
    bin is that of the mean if Chebyshev's inequality leaves too few records for another, or one of
    two that are alike if the mean is where they meet.
    """
    bins = histogram(e, at)
    if bins is None or metric not in ("width_q50", "error_over_guarantee_q90"):
        return NAN
    if metric == "width_q50":
        return 3 * bins.width
    place = float((law.mean - bins.start) / bins.width % 1)
    edge = min(place, 1 - place)
    if edge < 1e-9:
        return 0.5
    far = float(law.variance) / (edge * bins.width) ** 2
    certain = far < 0.5 and _is_certain(1 - far, bins)
    return abs(place - 0.5) if certain and abs(place - 0.5) > 1e-9 else NAN


def _is_certain(share: float, bins: Histogram) -> bool:
    """Return whether a bin of this share hardly ever counts fewer than one with the others."""
    return overtaken(share, bins) < RARE


def _distance(
    e: est.KarwaVadhanGaussian, law: dist.Gaussian, at: ReleaseSetting, q90: float
) -> float:
    """Return the 0.9 quantile of the distance of N(V + Z, S^2) from the law.

    With a known sigma the quantile is 2 Phi(|error|/(2 sigma)) - 1, which grows with the
    error. Otherwise S^2 is sigma^2 chi2_m/m plus noise, independent of V, and the noise of the mean
    scales with S.
    For every S the distance grows with |V + Z - mu|, so that its law is a mean over S.
    """
    scale = float(np.sqrt(law.variance))
    if e.sigma is not None:
        return 2 * float(ndtr(q90 / (2 * scale))) - 1 if abs(e.sigma - scale) < 1e-9 else NAN
    if at.n < 2 or not np.isfinite(q90):
        return NAN
    known = est.KarwaVadhanMean(radius=e.radius, sigma=scale, beta=e.beta)
    step = last_step(known, at._replace(budget=at.budget.fraction(0.5)))
    assert step is not None
    branches = _variances(e, scale, at)
    likely = np.concatenate([found for _, found in branches])
    weight = np.concatenate([np.full(len(found), share / len(found)) for share, found in branches])
    sd = np.sqrt(np.maximum(likely, 1e-12 * scale**2))
    sampling = scale**2 / (sd * np.sqrt(at.n))[:, None]

    def above(distance: float) -> float:
        within = _reached(law, distance, sd) * scale / sd
        inside = below(within, 0.0, sampling, step.noise) - below(
            -within, 0.0, sampling, step.noise
        )
        return float(weight @ np.where(within > 0, inside, 0.0)) - 0.9

    return float(brentq(above, 1e-12, 1 - 1e-9, rtol=1e-6))


def _reached(law: dist.Gaussian, distance: float, sd: Floats) -> Floats:
    """Return the errors that leave N(mean + error, sd^2) so far from the law; 0 if none does."""
    low, high = np.zeros(len(sd)), np.full(len(sd), 20.0) * np.maximum(sd, np.sqrt(law.variance))
    for _ in range(50):
        middle = (low + high) / 2
        near = law.distance_to_gaussian(law.location + middle, sd) <= distance
        low, high = np.where(near, middle, low), np.where(near, high, middle)
    return np.where(
        law.distance_to_gaussian(np.full(len(sd), law.location), sd) <= distance, low, 0.0
    )


def _variances(
    e: est.KarwaVadhanGaussian, scale: float, at: ReleaseSetting
) -> list[tuple[float, Floats]]:
    """Return the likely values of S^2 by the fullest bin [2^j, 2^(j+1)), and its probability.

    A quarter of the budget each for the bin and the mean of m half squared differences, clipped to
    [0, 2^(j+3) ln(2m/beta)]. The two fullest bins hold p and q of sigma^2 chi2_1: the difference of
    their counts is nearly normal, of variance m (p + q - (p - q)^2), beside its noise.
    """
    pairs, quarter = at.n // 2, at.budget.fraction(0.25)
    powers = np.floor(2 * np.log2(scale)) + np.arange(-6, 3)
    ends = np.exp2(np.append(powers, powers[-1] + 1) / 2) / scale
    held = 2 * np.diff(ndtr(ends))
    second, first = np.argsort(held)[-2:]
    p, q = held[first], held[second]
    spread = pairs * (p + q - (p - q) ** 2) + 2 * count_noise(quarter).variance
    leads = float(ndtr(pairs * (p - q) / np.sqrt(spread)))
    upper = (np.arange(POINTS) + 0.5) / POINTS
    found = []
    for share, power in ((leads, powers[first]), (1 - leads, powers[second])):
        step = float(np.exp2(power + 3) * np.log(2 * pairs / e.beta) / pairs)
        noise = levels(additive(quarter, step, step), POINTS)
        both = np.sort(np.add.outer(scale**2 * chdtri(pairs, upper) / pairs, noise).ravel())
        kept = np.clip(both, np.exp2(power - 2), np.exp2(power + 3))
        found.append((share, kept.reshape(POINTS, -1).mean(axis=1)))
    return found
