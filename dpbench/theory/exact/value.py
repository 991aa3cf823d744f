"""Compute the limits of a summary's columns as trials grow, without drawing anything.

A clipped mean before its noise is the average V of independent records, clipped and less what they
are compared with, the target or their own mean. Of two different values V is a scaled binomial,
else it is normal by the central limit theorem. With noise Z independent of V,
P(|V + Z| <= x) = E[F(x - V) - F(-x - V)].

Clips with noise are registered by `dpbench.theory.exact.step.step_for`, in `last_step`; whatever
else is known by `exact_for`, where it is computed.

Nothing here calls an estimator: an error in one must not move both sides of a claim.
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
from dpbench.theory.exact.intervals import exact_interval
from dpbench.theory.exact.last_step import Histogram, histogram, ksu20_groups, last_step
from dpbench.theory.exact.noise import Gaussian as Normal
from dpbench.theory.exact.noise import additive
from dpbench.theory.exact.stated import STATED, exact_stated
from dpbench.theory.exact.step import EXACT, At, Step
from dpbench.theory.exact.vectors import ball_error

__all__ = ["exact", "exact_miss"]

ROUGH = 0.1  # relative noise of a variance that still counts as known
MOMENTS = ("signed_mean", "rmse")
ERRORS = ("q90", "private_q90", "mean_error", *MOMENTS)
INTERVALS = ("miss_rate", "width_ratio_q50")
NAN = float("nan")


def exact(  # a case each
    metric: str, estimator: est.Estimator, law: dist.Distribution, n: int, budget: Budget
) -> float:
    """Return the limit of a column of a summary as trials grow; NaN where it is not known.

    Parameters
    ----------
    metric : {'noise_q90', 'q90', 'private_q90', 'mean_error', 'signed_mean', 'rmse', \
'miss_rate', 'width_ratio_q50', 'width_q50', 'promise_q90', 'tv_q90'}
        See `dpbench.sweep.metrics.METRICS`. Others are not known.
    estimator, budget
        Only their parameters are read.
    law : Distribution
    n : int
        Records, all that the estimator gets.

    Returns
    -------
    float
        In the unit of the records. Of what rests on a private choice it is for the right choice:
        it holds where that is nearly certain. NaN where `exact_miss`, or a bound on it where it is
        not known, is above 1e-3; infinite where a core of buckets releases less than nine in ten.
    """
    if isinstance(budget, NonPrivate) or not estimator.supports(budget):
        return NAN
    at = At(n, law.d, budget)
    if type(estimator) in EXACT:  # else it is a clip with noise, or not known
        return EXACT[type(estimator)](metric, estimator, law, at)
    given, whole = estimator, at
    if isinstance(estimator, est.LearnedGaussian):
        estimator, at = _with_sigma(estimator, law, at)
    missed = exact_miss(estimator, law, n, at.budget)
    missed = _unknown_miss(estimator, law, at) if np.isnan(missed) else missed
    if missed > RARE:
        return NAN  # what is released then may be anywhere
    if metric == "noise_q90":
        return _noise_quantile(estimator, law, at)
    if metric in (*INTERVALS, *STATED):
        errors = metric in ("promise_q90", "tv_q90") and law.d == 1
        q90 = _scalar_error("q90", estimator, law, at) if errors else NAN
        stated = exact_stated(metric, given, law, whole, q90)
        return exact_interval(metric, given, law, at) if np.isnan(stated) else stated
    find = _scalar_error if law.d == 1 else _vector_error
    return find(metric, estimator, law, at) if metric in ERRORS else NAN


def _unknown_miss(e: est.Estimator, law: dist.Distribution, at: At) -> float:
    """A bound on the probability that a histogram says nothing, or an empty bin; 1 if unknown."""
    base = getattr(e, "base", e)
    by_histogram = isinstance(base, est.KarwaVadhanMean | est.KSU20Mean | est.PersonMean)
    by_histogram |= isinstance(base, est.KSU20BallMean) and base.radius is None
    if not by_histogram or (law.d > 1 and not isinstance(at.budget, ApproxDP)):
        return 0.0
    bins = histogram(base, at)
    if (
        isinstance(base, est.PersonMean) and bins and law.variance <= 1 / base.m
    ):  # by Chebyshev two bins hold half
        return histogram_misses(0.25, False, bins)
    found = _fullest(e, law, at)
    return 1.0 if found is None else histogram_misses(found[1], False, found[2])


def _clipped(e: Any, law: dist.Distribution, at: At, step: Step) -> tuple[float, float] | None:
    """The ends of the clip; None where they are not known."""
    centre = step.centre
    if isinstance(e, est.KSU20Mean | est.PersonMean):
        found = _fullest(e, law, at)
        centre = found[0] if found and overtaken(*found[1:]) < RARE else None
    elif centre is None:  # around Gaussian records, which the clip hardly touches
        return (-np.inf, np.inf) if is_near(law, e) else None
    return None if centre is None else (centre - step.half_width, centre + step.half_width)


def _fullest(e: Any, law: dist.Distribution, at: At) -> tuple[float, float, Histogram] | None:
    """The middle of the bin that is likeliest, its probability, and the bins."""
    bins, points = histogram(e, at), finite_atoms(law)
    if bins is None or points is None or bins.records < 1:
        return None
    numbers, place = np.unique(np.floor((points[0] - bins.start) / bins.width), return_inverse=True)
    held = np.bincount(place, points[1])
    middle = bins.start + (float(numbers[np.argmax(held)]) + 0.5) * bins.width
    return middle, min(1.0, float(held.max())), bins


def _scalar_error(metric: str, estimator: Any, law: dist.Distribution, at: At) -> float:
    """Of records that are clipped, averaged, released with noise, perhaps in groups."""
    step, points = last_step(estimator, at), finite_atoms(law)
    other = isinstance(estimator, est.KSU20Mean | est.PersonMean | est.SubsampleAggregate)
    if step is None or points is None or isinstance(estimator, est.ShrinkingIntervals):
        return NAN
    # Rare misses of a private centre count in means; an average may not be that of all records.
    means = metric == "mean_error" or metric in MOMENTS
    if (step.centre is None and means) or (other and metric in ("private_q90", *MOMENTS)):
        return NAN
    ends, (values, weights) = _clipped(estimator, law, at, step), points
    if isinstance(estimator, est.SubsampleAggregate):  # of Gaussians, buckets' means are, too
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


def _moment(metric: str, away: Floats, weights: Floats, step: Step) -> float:
    """The bias, or the root of its square and of the variances of an average and of noise."""
    bias = float(weights @ away)
    spread = float(weights @ (away - bias) ** 2) / step.records + step.noise.variance
    return bias if metric == "signed_mean" else float(np.sqrt(bias**2 + spread))


def _with_sigma(e: est.LearnedGaussian, law: dist.Distribution, at: At) -> tuple[est.Estimator, At]:
    """The histogram's mean with the sigma that is known, or near the true one at half the budget.

    Half squared differences of m pairs are clipped at 8 sigma^2 ln(2m/beta), if the histogram
    finds sigma^2; the noise of their mean, at a quarter, is small beside sigma^2 or it is not near.
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


def _by_coordinate(e: est.Estimator, at: At) -> tuple[Any, At]:
    """The estimator of one coordinate, each at 1/d of the budget, if it is of those."""
    if not isinstance(e, est.CoordinateWise):
        return e, at
    return e.base, At(at.n, 1, at.budget.fraction(1 / at.d))


def _noise_quantile(estimator: Any, law: dist.Distribution, at: At) -> float:
    estimator, own = _by_coordinate(estimator, at)
    if isinstance(estimator, est.KSU20Mean) and estimator.constants == "paper":
        return NAN  # that of a median
    if isinstance(estimator, est.SubsampleAggregate) and estimator.aggregate == "friendly_core":
        return _core_of_buckets(estimator, law, at)
    if type(estimator) in EXACT:
        return EXACT[type(estimator)]("noise_q90", estimator, law, own) if law.d == 1 else NAN
    step = last_step(estimator, own)
    return NAN if step is None else step.noise.norm_quantile(law.d, 0.9)


def _core_of_buckets(e: est.SubsampleAggregate, law: dist.Distribution, at: At) -> float:
    """In standard deviations of means of m records, of which none is an outlier."""
    if e.base != est.EmpiricalMean() or e.friends_within is None:
        return NAN
    size = at.n / e.buckets
    root = float(np.sqrt(size))
    if isinstance(law, dist.MultivariateContaminatedGaussian):
        law = replace(law, eta=1 - (1 - law.eta) ** size, gap=law.gap / root)
    core = est.FriendlyCoreMean(radius=e.friends_within * root)
    return core_noise_quantile(core, law, e.buckets, at.budget) / root


def _vector_error(metric: str, estimator: Any, law: dist.Distribution, at: At) -> float:
    """Of a fixed dataset that is not clipped; of Gaussian noise on N(mu, s^2 I), hardly clipped."""
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
        # The rare miss of a ball shows in means.
        if not found or step.centre is not None or step.records != at.n or metric == "mean_error":
            return NAN
        sampling = 0.0 if metric == "private_q90" else law.scale**2 / at.n
        noise = Normal(float(np.sqrt(noise.variance + sampling)))
    elif not isinstance(law, dist.Hypercube) or step.centre != 0 or law.length > step.half_width:
        return NAN
    return noise.norm_mean(law.d) if metric == "mean_error" else noise.norm_quantile(law.d, 0.9)
