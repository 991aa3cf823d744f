"""Exact limits of summary columns as the number of trials grows, computed without sampling.

Before its noise a clipped mean, less the target or the records' own mean, is an average V of
independent terms. V is a scaled binomial for records with two values, else normal by the central
limit theorem. With noise Z independent of V, P(|V + Z| <= x) = E[F(x - V) - F(-x - V)], where F is
the distribution function of Z.

`dpbench.theory.exact.clip_and_noise.step_for` registers clips with noise (`last_step`); `exact_for`
registers functions for all other estimators.

This package never calls an estimator, so that a fault in an estimator cannot move both sides of a
claim.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.privacy import ApproxDP, Budget, NonPrivate
from dpbench.theory.exact import (  # noqa: F401 (they register what they compute)
    instance,
    local,
    ratio,
    regression,
    score,
    searches,
)
from dpbench.theory.exact.averages import average, finite_atoms, median_quantile
from dpbench.theory.exact.choices import (
    RARE,
    core_noise_quantile,
    exact_miss,
    histogram_misses,
    is_near,
    is_round,
    overtaken,
)
from dpbench.theory.exact.clip_and_noise import EXACT, ClipAndNoise, ReleaseSetting
from dpbench.theory.exact.clip_and_noise_oracle import Histogram, histogram, ksu20_groups, last_step
from dpbench.theory.exact.intervals import exact_interval
from dpbench.theory.exact.noise import Gaussian as Normal
from dpbench.theory.exact.noise import additive
from dpbench.theory.exact.stated import STATED, exact_stated
from dpbench.theory.exact.vectors import ball_error

__all__ = ["exact", "exact_miss"]

ROUGH = 0.1  # largest relative noise of a learned variance that is treated as known
MOMENTS = ("bias", "rmse")
ERRORS = ("q90", "private_q90", "mean_error", *MOMENTS)
INTERVALS = ("miss_rate", "width_ratio_q50")
NAN = float("nan")


def exact(  # a case each
    metric: str, estimator: est.Estimator, law: dist.Distribution, n: int, budget: Budget
) -> float:
    """Return the limit of a summary column as trials grow.

    Parameters
    ----------
    metric : {'noise_q90', 'q90', 'private_q90', 'mean_error', 'bias', 'rmse', \
    'miss_rate', 'width_ratio_q50', 'width_q50', 'error_over_guarantee_q90', 'tv_q90'}
        Column, see `dpbench.sweep.metrics.METRICS`; others give NaN.
    estimator : Estimator
        Only its parameters are read.
    law : Distribution
        Distribution of the records.
    n : int
        Number of all records that the estimator gets.
    budget : Budget
        Privacy guarantee.

    Returns
    -------
    float
        Value in the unit of the records. If the estimator makes a private choice, the value assumes
        the right choice. NaN if the probability of a wrong choice (`exact_miss`, or a bound on it)
        is above 1e-3, or if the value is not known. Infinite if a core of buckets releases less
        than nine times in ten.
    """
    if isinstance(budget, NonPrivate) or not estimator.supports(budget):
        return NAN
    at = ReleaseSetting(n, law.d, budget)
    if type(estimator) in EXACT:  # all others are a clip with noise, or not known
        return EXACT[type(estimator)](metric, estimator, law, at)
    given, whole = estimator, at
    if isinstance(estimator, est.KarwaVadhanGaussian):
        estimator, at = _with_sigma(estimator, law, at)
    missed = exact_miss(estimator, law, n, at.budget)
    missed = _unknown_miss(estimator, law, at) if np.isnan(missed) else missed
    if missed > RARE:
        return NAN  # after a wrong choice the release may be anywhere
    if metric == "noise_q90":
        return _noise_quantile(estimator, law, at)
    if metric in (*INTERVALS, *STATED):
        errors = metric in ("error_over_guarantee_q90", "tv_q90") and law.d == 1
        q90 = _scalar_error("q90", estimator, law, at) if errors else NAN
        stated = exact_stated(metric, given, law, whole, q90)
        return exact_interval(metric, given, law, at) if np.isnan(stated) else stated
    find = _scalar_error if law.d == 1 else _vector_error
    return find(metric, estimator, law, at) if metric in ERRORS else NAN


def _unknown_miss(e: est.Estimator, law: dist.Distribution, at: ReleaseSetting) -> float:
    """Return a bound on the probability that a histogram picks no or an empty bin; 1 if unknown."""
    base = getattr(e, "base", e)
    by_histogram = isinstance(base, est.KarwaVadhanMean | est.KSU20Mean | est.UserLevelMean)
    by_histogram |= isinstance(base, est.KSU20BallMean) and base.radius is None
    if not by_histogram or (law.d > 1 and not isinstance(at.budget, ApproxDP)):
        return 0.0
    bins = histogram(base, at)
    if (
        isinstance(base, est.UserLevelMean) and bins and law.variance <= 1 / base.m
    ):  # by Chebyshev two bins hold half
        return histogram_misses(0.25, False, bins)
    found = _fullest(e, law, at)
    return 1.0 if found is None else histogram_misses(found[1], False, found[2])


def _clipped(
    e: Any, law: dist.Distribution, at: ReleaseSetting, step: ClipAndNoise
) -> tuple[float, float] | None:
    """Return the ends of the clip; None if they are not known."""
    centre = step.centre
    if isinstance(e, est.KSU20Mean | est.UserLevelMean):
        found = _fullest(e, law, at)
        centre = found[0] if found and overtaken(*found[1:]) < RARE else None
    elif centre is None:  # the clip hardly touches Gaussian records
        return (-np.inf, np.inf) if is_near(law, e) else None
    return None if centre is None else (centre - step.half_width, centre + step.half_width)


def _fullest(
    e: Any, law: dist.Distribution, at: ReleaseSetting
) -> tuple[float, float, Histogram] | None:
    """Return the middle of the likeliest bin, its probability, and the histogram."""
    bins, points = histogram(e, at), finite_atoms(law)
    if bins is None or points is None or bins.records < 1:
        return None
    numbers, place = np.unique(np.floor((points[0] - bins.start) / bins.width), return_inverse=True)
    held = np.bincount(place, points[1])
    middle = bins.start + (float(numbers[np.argmax(held)]) + 0.5) * bins.width
    return middle, min(1.0, float(held.max())), bins


def _scalar_error(metric: str, estimator: Any, law: dist.Distribution, at: ReleaseSetting) -> float:
    """Return the exact error metric of a clipped mean with additive noise, possibly in groups."""
    step, points = last_step(estimator, at), finite_atoms(law)
    other = isinstance(estimator, est.KSU20Mean | est.UserLevelMean | est.SubsampleAggregate)
    if step is None or points is None or isinstance(estimator, est.ShrinkingIntervals):
        return NAN
    # Rare misses of a private centre dominate means; `other` averages only a part of the records.
    means = metric == "mean_error" or metric in MOMENTS
    if (step.centre is None and means) or (other and metric in ("private_q90", *MOMENTS)):
        return NAN
    ends, (values, weights) = _clipped(estimator, law, at, step), points
    if isinstance(estimator, est.SubsampleAggregate):  # bucket means of Gaussians are Gaussian
        values = law.target + (values - law.target) / np.sqrt(at.n / estimator.buckets)
        if not isinstance(law, dist.Gaussian) or estimator.base != est.EmpiricalMean():
            ends = None
    if ends is None:
        return NAN
    compared = values if metric == "private_q90" else law.target
    away = np.clip(values, *ends) - compared
    if metric in MOMENTS:
        return _moment(metric, away, weights, step)
    found = average(away, weights, step.records, step.noise.variance)
    if found is None or metric == "mean_error":
        return float(found[1] @ step.noise.distance(found[0])) if found else NAN
    groups = ksu20_groups(estimator) if isinstance(estimator, est.KSU20Mean) else 1
    return median_quantile(*found, step.noise, groups)


def _moment(metric: str, away: Floats, weights: Floats, step: ClipAndNoise) -> float:
    """Return the bias of a clipped mean, or its root mean square error."""
    bias = float(weights @ away)
    spread = float(weights @ (away - bias) ** 2) / step.records + step.noise.variance
    return bias if metric == "bias" else float(np.sqrt(bias**2 + spread))


def _with_sigma(
    e: est.KarwaVadhanGaussian, law: dist.Distribution, at: ReleaseSetting
) -> tuple[est.Estimator, ReleaseSetting]:
    """Return `KarwaVadhanMean` with a known sigma, and its budget, for a `KarwaVadhanGaussian`.

    If sigma has to be learned, half of the budget is left. The half squared differences of m pairs
    are clipped at 8 sigma^2 ln(2m/beta), if the histogram finds the bin of sigma^2. The noise of
    their mean, at a quarter of the budget, must be small beside sigma^2.
    """
    sigma, pairs, interval = e.sigma, at.n // 2, isinstance(e, est.KarwaVadhanInterval)
    if sigma is None:
        if not isinstance(law, dist.Gaussian) or not pairs or interval:
            return e, at
        sigma = law._scale
        if not e.sigma_low <= sigma <= e.sigma_high:
            return e, at
        width = 8 * float(np.log(2 * pairs / e.beta)) / pairs
        if additive(at.budget.fraction(0.25), width, width).variance > ROUGH**2:
            return e, at
        at = at._replace(budget=at.budget.fraction(0.5))
    beta = e.beta / 4 if interval else e.beta
    return est.KarwaVadhanMean(radius=e.radius, sigma=sigma, beta=beta), at


def _by_coordinate(e: est.Estimator, at: ReleaseSetting) -> tuple[Any, ReleaseSetting]:
    """Return the estimator and budget of a single coordinate, for coordinate-wise estimators."""
    if not isinstance(e, est.CoordinateWise):
        return e, at
    return e.base, ReleaseSetting(at.n, 1, at.budget.fraction(1 / at.d))


def _noise_quantile(estimator: Any, law: dist.Distribution, at: ReleaseSetting) -> float:
    """Return the 0.9 quantile of the noise's norm."""
    estimator, own = _by_coordinate(estimator, at)
    if isinstance(estimator, est.KSU20Mean) and estimator.constants == "paper":
        return NAN  # the noise of a median of groups
    if isinstance(estimator, est.SubsampleAggregate) and estimator.aggregate == "friendly_core":
        return _core_of_buckets(estimator, law, at)
    if type(estimator) in EXACT:
        return EXACT[type(estimator)]("noise_q90", estimator, law, own) if law.d == 1 else NAN
    step = last_step(estimator, own)
    return NAN if step is None else step.noise.norm_quantile(law.d, 0.9)


def _core_of_buckets(
    e: est.SubsampleAggregate, law: dist.Distribution, at: ReleaseSetting
) -> float:
    """Return the noise quantile of a core of bucket means, in units of the records.

    A bucket of m records counts as an outlier if at least one of its records is an outlier.
    """
    if e.base != est.EmpiricalMean() or e.friends_within is None:
        return NAN
    size = at.n / e.buckets
    root = float(np.sqrt(size))
    if isinstance(law, dist.MultivariateContaminatedGaussian):
        law = replace(law, eta=1 - (1 - law.eta) ** size, gap=law.gap / root)
    core = est.FriendlyCoreMean(radius=e.friends_within * root)
    return core_noise_quantile(core, law, e.buckets, at.budget) / root


def _vector_error(metric: str, estimator: Any, law: dist.Distribution, at: ReleaseSetting) -> float:
    """Return the exact error metric of a vector.

    Known cases are fixed vectors that are not clipped, and Gaussian noise on N(mu, s^2 I), which is
    hardly clipped.
    """
    estimator, own = _by_coordinate(estimator, at)
    step = last_step(estimator, own)
    if step is None or metric in MOMENTS:
        return NAN
    noise = step.noise
    if isinstance(estimator, est.KSU20BallMean):
        if not isinstance(law, dist.SignedTwoPoint) or metric == "mean_error":
            return NAN
        return ball_error(metric, estimator, law, at, step)
    if isinstance(law, dist.MultivariateGaussian):
        found = is_round(law) and isinstance(noise, Normal) and is_near(law, estimator)
        # A rare miss of the ball dominates means.
        if not found or step.centre is not None or step.records != at.n or metric == "mean_error":
            return NAN
        sampling = 0.0 if metric == "private_q90" else law.scale**2 / at.n
        noise = Normal(float(np.sqrt(noise.variance + sampling)))
    elif not isinstance(law, dist.Hypercube) or step.centre != 0 or law.length > step.half_width:
        return NAN
    return noise.norm_mean(law.d) if metric == "mean_error" else noise.norm_quantile(law.d, 0.9)
