"""Exact limits of summary columns as the number of trials grows, computed without sampling.

Let V be the error of a clipped mean before its noise Z is added. The error is the difference from
the target, or from the mean of the records. V is an average of independent terms. It is a scaled
binomial for records with two values, and otherwise normal by the central limit theorem. Let F be
the distribution function of Z. Then P(|V + Z| <= x) = E[F(x - V) - F(-x - V)].

This formula needs the clip and the noise of an estimator, which `last_step` returns. Estimators of
other forms have their own functions, registered by `dpbench.theory.exact.clip_and_noise.exact_for`.

This package never calls an estimator. Therefore a fault in an estimator cannot move both sides of a
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
    ball_searches,
    balloon,
    binary,
    columns,
    instance_noise,
    local,
    people,
    ratio,
    regression,
    score,
    variances,
)
from dpbench.theory.exact.averages import average, finite_atoms, median_quantile
from dpbench.theory.exact.choices import (
    MAX_MISS_PROBABILITY,
    core_noise_quantile,
    declares_failure,
    exact_miss,
    histogram_miss_probability,
    is_isotropic,
    overtaking_probability,
    satisfies_assumptions,
)
from dpbench.theory.exact.clip_and_noise import EXACT, REDUCTIONS, ClipAndNoise, ReleaseSetting
from dpbench.theory.exact.clip_and_noise_oracle import Histogram, histogram, ksu20_groups, last_step
from dpbench.theory.exact.intervals import exact_interval
from dpbench.theory.exact.noise import GaussianNoise
from dpbench.theory.exact.reported_quantities import STATED, exact_stated
from dpbench.theory.exact.vectors import ball_error

__all__ = ["exact", "exact_miss"]

MOMENTS = ("bias", "rmse")
ERRORS = ("q90", "privacy_cost_q90", "mean_error", *MOMENTS)
INTERVALS = ("miss_rate", "width_ratio_q50")
NAN = float("nan")


def exact(
    metric: str, estimator: est.Estimator, law: dist.Distribution, n: int, budget: Budget
) -> float:
    """Return the exact value of a summary column, its limit as the number of trials grows.

    Parameters
    ----------
    metric : {'noise_q90', 'q90', 'privacy_cost_q90', 'mean_error', 'bias', 'rmse', \
    'miss_rate', 'width_ratio_q50', 'width_q50', 'error_over_guarantee_q90', 'tv_q90'}
        Column, see `dpbench.sweep.metrics.METRICS`; others give NaN.
    estimator : Estimator
        Only its parameters are read.
    law : Distribution
        Distribution of the records.
    n : int
        Number of all records that the estimator gets.
    budget : Budget
        Privacy budget.

    Returns
    -------
    float
        Value, in the unit of the records for errors and widths. If the estimator makes a private
        choice, the value assumes the right choice. NaN if the probability of a wrong choice
        (`exact_miss`, or a bound on it) is above 0.001, or if the value is not
        known. Infinite if FriendlyCore on bucket means releases a value at most nine times in ten.
        Infinite, too, if at least a tenth of the private centres of `GaussianScoreMean` are wrong.
    """
    original, original_setting = estimator, ReleaseSetting(n, law.d, budget)
    known = not isinstance(budget, NonPrivate) and estimator.supports(budget)
    known &= not (metric in (*INTERVALS, *STATED) and np.ndim(law.target))  # numbers only
    reduce = REDUCTIONS.get(type(estimator)) if known else None
    reduced = reduce(estimator, law, original_setting) if reduce else None
    estimator, setting = reduced or (estimator, original_setting)
    if not known or not estimator.supports(setting.budget):
        return NAN
    if type(estimator) in EXACT:  # all others are a clip with noise, or not known
        return EXACT[type(estimator)](metric, estimator, law, setting)
    miss = exact_miss(estimator, law, n, setting.budget)
    miss = _miss_bound(estimator, law, setting) if np.isnan(miss) else miss
    if miss > MAX_MISS_PROBABILITY:
        return NAN  # because the release may be anywhere after a wrong choice
    if metric == "noise_q90":
        return _noise_quantile(estimator, law, setting)
    if metric in (*INTERVALS, *STATED):
        needs_error = metric in ("error_over_guarantee_q90", "tv_q90") and law.d == 1
        q90 = _scalar_error("q90", estimator, law, setting) if needs_error else NAN
        stated = exact_stated(metric, original, law, original_setting, q90)
        return exact_interval(metric, original, law, setting) if np.isnan(stated) else stated
    numbers = law.d == 1 and not isinstance(law, dist.Hypercube)
    column_function = _scalar_error if numbers else _vector_error
    return column_function(metric, estimator, law, setting) if metric in ERRORS else NAN


def _miss_bound(e: est.Estimator, law: dist.Distribution, setting: ReleaseSetting) -> float:
    """Return a bound on the probability that a private histogram picks no bin or an empty bin.

    For an estimator without a histogram the bound is 0. It is 1 if the histogram declares failure
    from public numbers. Otherwise, for vectors the bound is 0, unless the
    budget is (epsilon, delta). If no bound can be computed, the result is 1.
    """
    one, coordinate_setting = _coordinate_problem(e, setting)
    bins = histogram(one, coordinate_setting)
    if bins and declares_failure(bins):
        return 1.0
    base = getattr(e, "base", e)
    if isinstance(base, est.UnbiasedMean) and bins:
        return _no_bin_bound(base, law, bins)
    by_histogram = isinstance(base, est.KarwaVadhanMean | est.KSU20Mean | est.UserLevelMean)
    by_histogram |= isinstance(base, est.KSU20BallMean) and base.radius is None
    if not by_histogram or (law.d > 1 and not isinstance(setting.budget, ApproxDP)):
        return 0.0
    bins = histogram(base, setting)
    # Two bins hold half of the records by Chebyshev's inequality, so one of them holds a quarter.
    if isinstance(base, est.UserLevelMean) and bins and law.variance <= base.scale**2 / base.m:
        return histogram_miss_probability(0.25, False, bins)
    likeliest = _likeliest_bin(e, law, setting)
    return (
        1.0 if likeliest is None else histogram_miss_probability(likeliest[1], False, likeliest[2])
    )


def _no_bin_bound(e: est.UnbiasedMean, law: dist.Distribution, bins: Histogram) -> float:
    """Return a bound on the probability that `UnbiasedMean` releases no bin; 1 if none is known.

    The bound is the probability that the likeliest bin does not pass the threshold. It is averaged
    over the place of the bins, unless the place is fixed.
    """
    points = finite_atoms(law)
    if points is None:
        return 1.0
    places = (np.arange(20) + 0.5) / 20 if e.random_bins else [0.5]
    indices = [np.unique(np.floor(points[0] / e.sigma + x), return_inverse=True)[1] for x in places]
    shares = [min(1.0, float(np.bincount(index, points[1]).max())) for index in indices]
    return float(np.mean([histogram_miss_probability(share, False, bins) for share in shares]))


def _clip_ends(
    e: Any, law: dist.Distribution, setting: ReleaseSetting, step: ClipAndNoise
) -> tuple[float, float] | None:
    """Return the two ends of the interval to which an estimator clips; None if they are not known.

    The ends are infinite for Gaussian records that are hardly ever clipped.
    """
    centre = step.centre
    if isinstance(e, est.KSU20Mean | est.UserLevelMean):
        likeliest = _likeliest_bin(e, law, setting)
        centre = (
            likeliest[0]
            if likeliest and overtaking_probability(*likeliest[1:]) < MAX_MISS_PROBABILITY
            else None
        )
    elif centre is None:  # the clip hardly touches Gaussian records
        noise_sd = float(np.sqrt(step.noise.variance))
        return (-np.inf, np.inf) if satisfies_assumptions(law, e, noise_sd) else None
    return None if centre is None else (centre - step.half_width, centre + step.half_width)


def _likeliest_bin(
    e: Any, law: dist.Distribution, setting: ReleaseSetting
) -> tuple[float, float, Histogram] | None:
    """Return the bin of an estimator's histogram that most likely holds a record.

    The result is the middle of the bin, its probability, and the histogram. None if the estimator
    has no histogram, or if the distribution of the records has no known points.
    """
    bins, points = histogram(e, setting), finite_atoms(law)
    if bins is None or points is None or bins.records < 1:
        return None
    numbers, indices = np.unique(
        np.floor((points[0] - bins.start) / bins.width), return_inverse=True
    )
    probabilities = np.bincount(indices, points[1])
    middle = bins.start + (float(numbers[np.argmax(probabilities)]) + 0.5) * bins.width
    return middle, min(1.0, float(probabilities.max())), bins


def _scalar_error(
    metric: str, estimator: Any, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return the exact value of an error column for a clipped mean of numbers with additive noise.

    The columns are those in `ERRORS`, for example ``q90``. The estimate may also be a median of
    such means of groups of records. NaN if the column is not known.
    """
    step, points = last_step(estimator, setting), finite_atoms(law)
    assumes_bin = isinstance(estimator, est.KSU20Mean | est.UserLevelMean | est.SubsampleAggregate)
    if step is None or points is None or isinstance(estimator, est.ShrinkingIntervals):
        return NAN
    # Rare misses of a private centre dominate means; `other` averages only a part of the records.
    means = metric == "mean_error" or metric in MOMENTS
    if (
        (step.centre is None and means)
        or (assumes_bin and metric in ("privacy_cost_q90", *MOMENTS))
        or (metric == "privacy_cost_q90" and step.records != setting.n)  # from all records' mean
    ):
        return NAN
    ends, (values, weights) = _clip_ends(estimator, law, setting, step), points
    if isinstance(estimator, est.SubsampleAggregate):  # bucket means of Gaussians are Gaussian
        values = law.target + (values - law.target) / np.sqrt(setting.n / estimator.buckets)
        if not isinstance(law, dist.Gaussian) or estimator.base != est.EmpiricalMean():
            ends = None
    if ends is None:
        return NAN
    reference = values if metric == "privacy_cost_q90" else law.target
    errors = np.clip(values, *ends) - reference
    if metric in MOMENTS:
        return _moment(metric, errors, weights, step)
    distribution = average(errors, weights, step.records, step.noise.variance)
    if distribution is None or metric == "mean_error":
        return (
            float(distribution[1] @ step.noise.distance(distribution[0])) if distribution else NAN
        )
    groups = ksu20_groups(estimator) if isinstance(estimator, est.KSU20Mean) else 1
    return median_quantile(*distribution, step.noise, groups)


def _moment(metric: str, errors: Floats, weights: Floats, step: ClipAndNoise) -> float:
    """Return the bias of a noisy clipped mean, or its root mean square error.

    `errors` are the values of a clipped record less the target, with the probabilities `weights`.
    `step` gives the noise and the number of averaged records.
    """
    bias = float(weights @ errors)
    spread = float(weights @ (errors - bias) ** 2) / step.records + step.noise.variance
    return bias if metric == "bias" else float(np.sqrt(bias**2 + spread))


def _coordinate_problem(e: est.Estimator, setting: ReleaseSetting) -> tuple[Any, ReleaseSetting]:
    """Return the one-dimensional estimator and setting that a coordinate-wise estimator runs.

    Each of the d coordinates has 1/d of the budget. Other estimators and their setting are returned
    unchanged.
    """
    if not isinstance(e, est.CoordinateWise):
        return e, setting
    return e.base, ReleaseSetting(setting.n, 1, setting.budget.fraction(1 / setting.d))


def _noise_quantile(estimator: Any, law: dist.Distribution, setting: ReleaseSetting) -> float:
    """Return ``noise_q90``, the 0.9 quantile of the norm of an estimator's noise.

    NaN if no formula is known, for example for the median of groups in `KSU20Mean`.
    """
    estimator, coordinate_setting = _coordinate_problem(estimator, setting)
    if isinstance(estimator, est.KSU20Mean) and estimator.constants == "paper":
        return NAN  # because the noise is that of a median of groups
    if isinstance(estimator, est.SubsampleAggregate) and estimator.aggregate == "friendly_core":
        return _bucket_core_quantile(estimator, law, setting)
    if type(estimator) in EXACT:
        return (
            EXACT[type(estimator)]("noise_q90", estimator, law, coordinate_setting)
            if law.d == 1
            else NAN
        )
    step = last_step(estimator, coordinate_setting)
    return NAN if step is None else step.noise.norm_quantile(law.d, 0.9)


def _bucket_core_quantile(
    e: est.SubsampleAggregate, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return the 0.9 quantile of the norm of the noise, for FriendlyCore on bucket means.

    The records are split into buckets, and FriendlyCore filters and averages the means of the
    buckets. A bucket counts as an outlier if at least one of its records is an outlier. The result
    is NaN if the estimator in the buckets is not the mean. It is NaN, too, if the estimator does
    not set the distance up to which two bucket means are friends (`friends_within`).
    """
    if e.base != est.EmpiricalMean() or e.friends_within is None:
        return NAN
    size = setting.n / e.buckets
    root = float(np.sqrt(size))
    if isinstance(law, dist.MultivariateContaminatedGaussian):
        law = replace(law, eta=1 - (1 - law.eta) ** size, gap=law.gap / root)
    core = est.FriendlyCoreMean(radius=e.friends_within * root)
    return core_noise_quantile(core, law, e.buckets, setting.budget) / root


def _vector_error(
    metric: str, estimator: Any, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return the exact value of an error column for a mean of vectors; NaN if it is not known.

    Three cases are known:

    - fixed vectors of one length that are not clipped;
    - Gaussian noise on records from N(mu, s^2 I) that are hardly ever clipped;
    - KSU20's Algorithm 3 on records from `SignedTwoPoint` (`ball_error`).
    """
    estimator, coordinate_setting = _coordinate_problem(estimator, setting)
    step = last_step(estimator, coordinate_setting)
    if step is None or metric == "bias":
        return NAN
    noise = step.noise
    if isinstance(estimator, est.KSU20BallMean):
        if not isinstance(law, dist.SignedTwoPoint) or metric in ("mean_error", "rmse"):
            return NAN
        return ball_error(metric, estimator, law, setting, step)
    if isinstance(law, dist.MultivariateGaussian):
        fits = (
            is_isotropic(law)
            and isinstance(noise, GaussianNoise)
            and satisfies_assumptions(law, estimator, noise.sd)
        )
        # A rare miss of the ball dominates means.
        if (
            not fits
            or step.centre is not None
            or step.records != setting.n
            or metric in ("mean_error", "rmse")
        ):
            return NAN
        sampling = 0.0 if metric == "privacy_cost_q90" else law.scale**2 / setting.n
        noise = GaussianNoise(float(np.sqrt(noise.variance + sampling)))
    elif not isinstance(law, dist.Hypercube) or step.centre != 0 or law.length > step.half_width:
        return NAN
    averages = {"rmse": noise.norm_rms, "mean_error": noise.norm_mean}
    return averages[metric](law.d) if metric in averages else noise.norm_quantile(law.d, 0.9)
