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
from dpbench.privacy import Budget, NonPrivate
from dpbench.theory.exact_choices import (
    core_noise_quantile,
    exact_miss,
    histogram_misses,
    wrong_answers,
)
from dpbench.theory.exact_vectors import ball_error, covariance_quantile
from dpbench.theory.last_step import At, Step, ksu20_bin, ksu20_groups, last_step
from dpbench.theory.noise import MOST, Noise, additive, binomial, standard_normal
from dpbench.theory.noise import Gaussian as Normal

__all__ = ["exact", "exact_miss"]

Atoms = tuple[Floats, Floats]  # points and their probabilities

ROUGH = 0.1  # relative noise of a variance that still counts as known
RARE = 1e-3
ERRORS = ("q90", "private_q90", "mean_error")
CLEAR = 0.2  # by what share the fullest bin leads
MOST_SKEWED = 0.1  # and most kurtosis, of what passes for normal
NAN = float("nan")


def exact(  # a case each
    metric: str, estimator: est.Estimator, law: dist.Distribution, n: int, budget: Budget
) -> float:
    """What a column of a summary tends to as trials grow; NaN where it is not known.

    Parameters
    ----------
    metric : {'noise_q90', 'q90', 'private_q90', 'mean_error'}
        See `dpbench.metrics.METRICS`. Others are not known.
    estimator, budget
        Only their parameters are read.
    law : Distribution
    n : int
        Records, all that the estimator gets.

    Returns
    -------
    float
        In the unit of the records. Of what rests on a private choice it is for the right choice:
        it holds where that is nearly certain. NaN where `exact_miss` is above 1e-3, infinite
        where FriendlyCore releases less than nine in ten.
    """
    if isinstance(budget, NonPrivate) or not estimator.supports(budget):
        return NAN
    if isinstance(estimator, est.SubsampleTest):
        return wrong_answers(estimator, law, n, budget) if metric == "mean_error" else NAN
    if isinstance(estimator, est.CoinPressCovariance | est.WhitenedCoinPressMean):
        known = _is_isotropic(law) and law.variance == law.d
        return covariance_quantile(metric, estimator, At(n, law.d, budget)) if known else NAN
    if isinstance(estimator, est.LearnedGaussian):
        estimator, budget = _with_sigma(estimator, law, n, budget)
    missed = exact_miss(estimator, law, n, budget)
    if missed > RARE and not isinstance(estimator, est.FriendlyCoreMean):
        return NAN  # what is released then may be anywhere
    if metric == "noise_q90":
        return _noise_quantile(estimator, law, n, budget)
    find = _scalar_error if law.d == 1 else _vector_error
    return find(metric, estimator, law, n, budget) if metric in ERRORS else NAN


def _gaussian(law: dist.Gaussian) -> Atoms:
    z, weights = standard_normal()
    return law.location + np.sqrt(law.variance) * z, weights


def _contaminated(law: dist.ContaminatedGaussian) -> Atoms | None:
    if law.unit_moment is not None:
        return None
    z, weights = standard_normal()
    both = np.concatenate([z, law.gap + law.spread * z])
    shares = np.concatenate([(1 - law.eta) * weights, law.eta * weights])
    return law.location + law.scale * both, shares


def _student_t(law: dist.StudentT) -> Atoms | None:
    """In y, t = sinh(y): a density like e^(-nu |y|)."""
    nu = law.tail_index
    t = np.sinh(np.linspace(-40, 40, 4 * MOST))
    weights = np.exp(-(nu + 1) / 2 * np.log1p(t**2 / nu)) * np.sqrt(1 + t**2)
    scale = np.sqrt(law.variance * (nu - 2) / nu)
    return (law.location + scale * t, weights / weights.sum()) if nu > 2 else None


def _pareto(law: dist.Pareto) -> Atoms | None:
    """The logarithm of one that starts at 1 is exponential; it has mean a/(a-1)."""
    a = law.tail_index
    y = (np.arange(4 * MOST) + 0.5) * (10 / MOST)
    scale = (a - 1) * np.sqrt(law.variance * (a - 2) / a) if a > 2 else 0.0
    weights = np.exp(-y)
    x = law.location + scale * (np.exp(y / a) - a / (a - 1))
    return (x, weights / weights.sum()) if a > 2 else None


_ATOMS: dict[type[dist.Distribution], Callable[[Any], Atoms | None]] = {
    dist.Bernoulli: lambda law: (np.array([0.0, 1.0]), np.array([1 - law.p, law.p])),
    dist.TwoPoint: lambda law: (
        law.location + np.array([0.0, law.sign * law.tau]),
        np.array([1 - law.p, law.p]),
    ),
    dist.Empirical: lambda law: law._table,
    dist.Gaussian: _gaussian,
    dist.ContaminatedGaussian: _contaminated,
    dist.StudentT: _student_t,
    dist.Pareto: _pareto,
}


def _atoms(law: dist.Distribution) -> Atoms | None:
    """A law of numbers, a density on a fine grid; None where it is not known."""
    known = _ATOMS.get(type(law))
    return known(law) if known else None


def _average(values: Floats, weights: Floats, n: float, noise: float) -> Atoms | None:
    """The law of the average of n values, beside noise of this variance; None where not normal.

    By the Edgeworth expansion the skewness and the excess kurtosis of the sum say how normal it is.
    """
    mean = float(weights @ values)
    if len(values) == 2:
        s, shares = binomial(n, float(weights[1]))
        return mean + (s / n - weights[1]) * (values[1] - values[0]), shares
    sd = float(np.sqrt(weights @ (values - mean) ** 2 / n))
    away = (values - mean) / n / np.hypot(sd, np.sqrt(noise))  # of the sum's deviation
    variance, third, fourth = (float(weights @ away**j) for j in (2, 3, 4))
    if n * max(abs(third), abs(fourth - 3 * variance**2)) > MOST_SKEWED:
        return None
    z, shares = standard_normal()
    return mean + sd * z, shares


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


def _clipped(estimator: Any, law: dist.Distribution, n: int, step: Step, budget: Budget) -> Any:
    """The ends of the clip; None where they are not known."""
    centre = step.centre
    if isinstance(estimator, est.KSU20Mean):
        centre = _bin_middle(estimator, law, n, budget)
    elif centre is None:  # around Gaussian records, which the clip hardly touches
        reach = np.inf if estimator.radius is None else estimator.radius
        near = isinstance(law, dist.Gaussian) and abs(law.mean) <= reach
        return (-np.inf, np.inf) if near and law.variance <= estimator.sigma**2 else None
    return None if centre is None else (centre - step.half_width, centre + step.half_width)


def _bin_middle(e: est.KSU20Mean, law: dist.Distribution, n: int, budget: Budget) -> float | None:
    """The middle of the bin, of width 2r from -R - 2r on, that a group's histogram finds fullest.

    None where it does not nearly always.
    """
    values, weights = _atoms(law) or (np.zeros(1), np.zeros(1))
    r = ksu20_bin(e, n, budget)
    start, count = 0.0, np.inf
    if e.radius is not None:
        start = float(np.fmod(-e.radius - 2 * r, 2 * r))
        count = float(np.ceil((e.radius + 2 * r) / r))
    bins, place = np.unique(np.floor((values - start) / (2 * r)), return_inverse=True)
    held = np.bincount(place, weights)
    best, size = int(np.argmax(held)), (n - n // 2) // ksu20_groups(e)
    missed = histogram_misses(float(held[best]), False, count, size, budget)
    near = 2 * held[best] - 1 > CLEAR and missed < RARE
    return start + (2 * float(bins[best]) + 1) * r if near else None


def _scalar_error(
    metric: str, estimator: Any, law: dist.Distribution, n: int, budget: Budget
) -> float:
    """Of records that are clipped, averaged, released with noise, perhaps in groups."""
    step, points = last_step(estimator, n, 1, budget), _atoms(law)
    other = isinstance(estimator, est.KSU20Mean | est.SubsampleAggregate)
    misses = isinstance(estimator, est.ShrinkingIntervals) or (
        isinstance(estimator, est.CoinPressMean) and metric == "mean_error"
    )
    if step is None or points is None or misses or (other and metric == "private_q90"):
        return NAN  # rare misses count, or what is averaged is not the records, or not all
    ends = _clipped(estimator, law, n, step, budget)
    values, weights = points
    if isinstance(estimator, est.SubsampleAggregate):  # of Gaussians, buckets' means are, too
        values = law.target + (values - law.target) / np.sqrt(n / estimator.buckets)
        if not isinstance(law, dist.Gaussian) or estimator.base != est.EmpiricalMean():
            ends = None
    if ends is None:
        return NAN
    compared = values if metric == "private_q90" else law.target
    away = np.clip(values, *ends) - compared
    found = _average(away, weights, step.records, step.noise.variance)
    groups = ksu20_groups(estimator) if isinstance(estimator, est.KSU20Mean) else 1
    if found is None or (groups > 1 and metric != "q90"):
        return NAN
    if metric == "mean_error":
        return float(found[1] @ step.noise.distance(found[0]))
    return _median_quantile(*found, step.noise, groups)


def _with_sigma(
    e: est.LearnedGaussian, law: dist.Distribution, n: int, budget: Budget
) -> tuple[est.Estimator, Budget]:
    """The histogram's mean with the sigma that is known, or near the true one at half the budget.

    Half squared differences of m pairs are clipped at 8 sigma^2 ln(2m/beta), if the histogram
    finds sigma^2; the noise of their mean, at a quarter, is small beside sigma^2 or it is not near.
    """
    sigma = e.sigma
    if sigma is None:
        width = 8 * float(np.log(2 * (n // 2) / e.beta)) / (n // 2)
        noise = additive(budget.fraction(0.25), width, width)
        if not isinstance(law, dist.Gaussian) or noise.variance > ROUGH**2:
            return e, budget
        sigma, budget = float(law.variance**0.5), budget.fraction(0.5)
    return est.KarwaVadhanMean(radius=e.radius, sigma=sigma, beta=e.beta), budget


def _noise_quantile(estimator: Any, law: dist.Distribution, n: int, budget: Budget) -> float:
    d, copies = law.d, law.d
    if isinstance(estimator, est.CoordinateWise):  # independent, each at 1/d of the budget
        estimator, d, budget = estimator.base, 1, budget.fraction(1 / d)
    if isinstance(estimator, est.KSU20Mean):
        # The printed one's is a median's; that of a failure, or at 1e300, is none.
        found = _bin_middle(estimator, law, n, budget) if law.d == 1 else 0.0
        if found is None or estimator.constants == "paper":
            return NAN
    if isinstance(estimator, est.FriendlyCoreMean):
        return core_noise_quantile(estimator, law, n, budget)
    if isinstance(estimator, est.SubsampleAggregate) and estimator.aggregate == "friendly_core":
        if estimator.base != est.EmpiricalMean() or not isinstance(law, dist.MultivariateGaussian):
            return NAN
        of_means = replace(law, scale=law.scale * (estimator.buckets / n) ** 0.5)
        core = est.FriendlyCoreMean(radius=estimator.friends_within)
        return core_noise_quantile(core, of_means, estimator.buckets, budget)
    step = last_step(estimator, n, d, budget)
    return NAN if step is None else step.noise.norm_quantile(copies, 0.9)


def _is_isotropic(law: dist.Distribution) -> bool:
    return isinstance(law, dist.MultivariateGaussian) and law.condition == 1 and law.matrix is None


def _vector_error(
    metric: str, estimator: Any, law: dist.Distribution, n: int, budget: Budget
) -> float:
    """Of a fixed dataset that is not clipped; of Gaussian noise on N(mu, s^2 I), hardly clipped."""
    d = law.d
    if isinstance(estimator, est.CoordinateWise):
        estimator, d, budget = estimator.base, 1, budget.fraction(1 / d)
    step = last_step(estimator, n, d, budget)
    if step is None:
        return NAN
    noise = step.noise
    if isinstance(estimator, est.KSU20BallMean):
        if not isinstance(law, dist.SignedTwoPoint) or metric == "mean_error":
            return NAN
        return ball_error(metric, estimator, law, At(n, d, budget), step)
    if isinstance(law, dist.MultivariateGaussian):
        found = _is_isotropic(law) and isinstance(noise, Normal)
        found = found and step.centre is None and law.norm <= (estimator.radius or np.inf)
        found = found and metric != "mean_error"  # the rare miss of a ball shows in means
        if not found or step.half_width < np.sqrt(law.variance) or step.records != n:
            return NAN
        sampling = 0.0 if metric == "private_q90" else law.scale**2 / n
        noise = Normal(float(np.sqrt(noise.variance + sampling)))
    elif not isinstance(law, dist.Hypercube) or step.centre != 0 or law.length > step.half_width:
        return NAN
    return noise.norm_mean(law.d) if metric == "mean_error" else noise.norm_quantile(law.d, 0.9)
