"""What columns of a summary tend to as trials grow, computed without drawing anything.

A clipped mean before its noise is the average V of independent records, clipped and less what they
are compared with, the target or their own mean. Of two different values V is a scaled binomial,
else it is normal by the central limit theorem. With noise Z independent of V,
P(|V + Z| <= x) = E[F(x - V) - F(-x - V)].

Nothing here calls an estimator: an error in one must not move both sides of a claim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.privacy import ApproxDP, Budget, NonPrivate
from dpbench.theory.exact.averages import Atoms, atoms, average
from dpbench.theory.exact.choices import (
    core_noise_quantile,
    exact_miss,
    histogram_misses,
    is_near,
    is_round,
    overtaken,
    wrong_answers,
)
from dpbench.theory.exact.instance import inverse_steps, trimmed_error
from dpbench.theory.exact.intervals import exact_interval
from dpbench.theory.exact.last_step import Histogram, histogram, ksu20_groups, last_step
from dpbench.theory.exact.local import sign_error, unit_error
from dpbench.theory.exact.noise import Gaussian as Normal
from dpbench.theory.exact.noise import Noise, additive
from dpbench.theory.exact.ratio import ratio_error, vector_rmse
from dpbench.theory.exact.regression import regression_error
from dpbench.theory.exact.score import score_error
from dpbench.theory.exact.searches import median_noise
from dpbench.theory.exact.step import At, Step
from dpbench.theory.exact.vectors import affine_error, ball_error, covariance_quantile

__all__ = ["exact", "exact_miss"]

ROUGH = 0.1  # relative noise of a variance that still counts as known
RARE = 1e-3
MOMENTS = ("signed_mean", "rmse")
ERRORS = ("q90", "private_q90", "mean_error", *MOMENTS)
INTERVALS = ("miss_rate", "width_ratio_q50")
NAN = float("nan")
# What is no clip with noise.
_OWN: dict[type[est.Estimator], Callable[[str, Any, dist.Distribution, At], float]] = {
    est.CoinPressCovariance: covariance_quantile,
    est.WhitenedCoinPressMean: covariance_quantile,
    est.LocalSignMean: sign_error,
    est.PrivUnitMean: unit_error,
    est.AffineInvariantMean: affine_error,
    est.PlanMean: median_noise,
    est.AdaSSP: regression_error,
    est.GradientDescentRegression: regression_error,
    est.SubsampleLeastSquares: regression_error,
    est.ShiftedClippedMean: median_noise,
}


def exact(  # a case each
    metric: str, estimator: est.Estimator, law: dist.Distribution, n: int, budget: Budget
) -> float:
    """What a column of a summary tends to as trials grow; NaN where it is not known.

    Parameters
    ----------
    metric : {'noise_q90', 'q90', 'private_q90', 'mean_error', 'signed_mean', 'rmse', \
'miss_rate', 'width_ratio_q50'}
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
    if isinstance(estimator, est.SubsampleTest):
        return wrong_answers(estimator, law, n, budget) if metric == "mean_error" else NAN
    at = At(n, law.d, budget)
    if type(estimator) in _OWN:
        return _OWN[type(estimator)](metric, estimator, law, at)
    given = estimator
    if isinstance(estimator, est.LearnedGaussian):
        estimator, at = _with_sigma(estimator, law, at)
    missed = exact_miss(estimator, law, n, at.budget)
    missed = _unknown_miss(estimator, law, at) if np.isnan(missed) else missed
    if missed > RARE:
        return NAN  # what is released then may be anywhere
    if metric == "noise_q90":
        return _noise_quantile(estimator, law, at)
    find: Callable[[str, Any, dist.Distribution, At], float]
    known: tuple[str, ...] = ERRORS
    find = _scalar_error if law.d == 1 else _vector_error
    if metric in INTERVALS:
        find, estimator, known = exact_interval, given, INTERVALS
    if isinstance(estimator, est.GaussianScoreMean):
        find = score_error
    if isinstance(estimator, est.SmoothTrimmedMean | est.InverseSensitivity):
        find = _instance_error
    if isinstance(estimator, est.SumAndCountMean | est.TransformedNoiseMean):
        find, known = _of_two_sums, ("q90", "mean_error", "rmse")
    return find(metric, estimator, law, at) if metric in known else NAN


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


def _atoms(law: dist.Distribution) -> Atoms | None:
    """Those of a law of finite variance; None where they are not known."""
    return atoms(law) if getattr(law, "tail_index", np.inf) > 2 else None


def _median_quantile(values: Floats, weights: Floats, noise: Noise, groups: int) -> float:
    """The 0.9 quantile of |V + Z|, or of the |median| of many of them.

    The median of m is below x if more than half are, with probability I_F(x)((m+1)/2, (m+1)/2) for
    odd m; for m = 1 that is F. The mean of the middle two of an even m has it but for order 1/m.
    """
    half = (groups + 1) / 2

    def missing(x: float) -> float:
        # Sums of weights may pass 1 by rounding.
        high, low = (min(1.0, float(weights @ noise.cdf(end - values))) for end in (x, -x))
        return float(betainc(half, half, high) - betainc(half, half, low) - 0.9)

    most = noise.above(0.02) + float(np.max(np.abs(values)))
    return float(brentq(missing, 0.0, most, xtol=1e-12 * most, rtol=1e-7))


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
    bins, points = histogram(e, at), _atoms(law)
    if bins is None or points is None or bins.records < 1:
        return None
    numbers, place = np.unique(np.floor((points[0] - bins.start) / bins.width), return_inverse=True)
    held = np.bincount(place, points[1])
    middle = bins.start + (float(numbers[np.argmax(held)]) + 0.5) * bins.width
    return middle, min(1.0, float(held.max())), bins


def _scalar_error(metric: str, estimator: Any, law: dist.Distribution, at: At) -> float:
    """Of records that are clipped, averaged, released with noise, perhaps in groups."""
    step, points = last_step(estimator, at), _atoms(law)
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
    return _median_quantile(*found, step.noise, groups)


def _instance_error(metric: str, estimator: Any, law: dist.Distribution, at: At) -> float:
    """Of a smooth sensitivity on two values, or an inverse one on records near what is expected."""
    e, points = estimator, _atoms(law)
    if points is None or metric not in ("q90", "noise_q90"):
        return NAN
    if isinstance(e, est.SmoothTrimmedMean):
        inside = len(points[0]) == 2 and np.all(np.clip(points[0], e.lower, e.upper) == points[0])
        return trimmed_error(metric, e, points, float(law.target), at) if inside else NAN
    if e.statistic == "median":
        return NAN
    steps = inverse_steps(e, points, at)
    if metric == "noise_q90":
        return steps.norm_quantile(1, 0.9)
    away = np.clip(points[0], e.lower, e.upper) - law.target
    found = average(away, points[1], at.n, steps.variance)
    return NAN if found is None else _median_quantile(*found, steps, 1)


def _of_two_sums(metric: str, e: Any, law: dist.Distribution, at: At) -> float:
    """Of records that are clipped to [lower, upper], on a scale where that is [0, 1]."""
    width = float(e.upper - e.lower)
    if law.d > 1:
        if metric != "rmse" or not isinstance(law, dist.MultivariateGaussian) or not is_round(law):
            return NAN
        mean, half = law.mean - (e.lower + e.upper) / 2, width / 2
        return half * vector_rmse(e, mean / half, law.scale / half, int(at.n), at.budget)
    points = _atoms(law)
    if points is None:
        return NAN
    found = average((np.clip(points[0], e.lower, e.upper) - e.lower) / width, points[1], at.n, 0.0)
    if found is None:
        return NAN
    target = (law.target - e.lower) / width
    return width * ratio_error(metric, e, found, target, int(at.n), at.budget)


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
    if isinstance(estimator, est.SmoothTrimmedMean | est.InverseSensitivity):
        return _instance_error("noise_q90", estimator, law, at) if law.d == 1 else NAN
    if isinstance(estimator, est.KSU20Mean) and estimator.constants == "paper":
        return NAN  # that of a median
    if isinstance(estimator, est.FriendlyCoreMean):
        return core_noise_quantile(estimator, law, at.n, at.budget)
    if isinstance(estimator, est.SubsampleAggregate) and estimator.aggregate == "friendly_core":
        return _core_of_buckets(estimator, law, at)
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
