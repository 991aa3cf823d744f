"""Errors of a ratio of two noisy sums, `dpbench.estimators.add_remove`, at every n.

On [0, 1], n records of mean v. A release R exceeds r, 0 <= r < 1, if numerator - r denominator is
above 0, where both are what they should be: for S/(S + T) if (1-r) Z_S - r Z_T > n (r - v), for
1/2 + C/count if Z_C - (r - 1/2) Z_count > n (r - v). They are not where the noise of the count, or
of S or T, is below -n/2 or so: nothing is said unless that is negligible. R is clipped to [0, 1],
and moments are E|R - m|^j = int_0^inf j x^(j-1) P(|R - m| > x) dx.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from dpbench import distributions as dist
from dpbench.arrays import Floats
from dpbench.estimators import NormalizedSumMean, TransformedNoiseMean
from dpbench.privacy import Budget
from dpbench.theory.exact.averages import average, finite_atoms
from dpbench.theory.exact.choices import is_round
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for
from dpbench.theory.exact.noise import Gaussian, Laplace, Noise, additive

__all__ = ["laplaces_above", "ratio_error", "vector_rmse"]

NAN = float("nan")
NEGLIGIBLE = 1e-7
SMALL = 1e-3  # relative variance of a count
POINTS = 400  # of errors on a logarithmic scale, over so many powers of e
DECADES = 25.0


def laplaces_above(t: Floats, a: Floats, c: Floats) -> Floats:
    """P(X + Y > t) for independent Laplace X and Y of scales a, c >= 0, not both 0.

    (a^2 e^(-t/a) - c^2 e^(-t/c))/(2 (a^2 - c^2)) for t >= 0, in a form that keeps its digits at
    a = c: with a the larger, e^(-t/a)/2 (1 + c (1 - e^(-s t))/(s a (a + c))), s = 1/c - 1/a.
    """
    a, c = np.maximum(a, c), np.minimum(a, c)
    c = np.maximum(c, 1e-9 * a)
    s, away = np.maximum(1 / c - 1 / a, 1e-12 / a), np.abs(t)
    tail = np.exp(-away / a) / 2 * (1 - c * np.expm1(-s * away) / (s * a * (a + c)))
    return np.asarray(np.where(t < 0, 1 - tail, tail))


def ratio_error(
    metric: str, e: Any, means: tuple[Floats, Floats], target: float, n: int, budget: Budget
) -> float:
    """A column of a summary, in units of upper - lower.

    Parameters
    ----------
    metric : {'q50', 'q90', 'mean_error', 'rmse'}
        Others are not known, NaN.
    e : NormalizedSumMean or TransformedNoiseMean
    means : pair of (m,) arrays
        Means of the clipped records, on [0, 1], and their probabilities.
    target : float
        What the release is compared with, on that scale.
    """
    first, second = _noises(e, budget)
    known = type(first) is type(second) and isinstance(first, Gaussian | Laplace)
    if not known or max(one.cdf(np.array(-n / 2)) for one in (first, second)) > NEGLIGIBLE:
        return NAN
    values, weights = (one[:, None] for one in means)

    def beyond(x: Floats) -> Floats:
        """P(|R - target| > x)."""
        high, low = target + x, target - x
        above = np.where(high < 1, _above(e, values, high, n, first, second), 0.0)
        below = np.where(low > 0, 1 - _above(e, values, low, n, first, second), 0.0)
        return np.asarray((weights * (above + below)).sum(axis=0))

    most = max(target, 1 - target)
    if metric in ("q50", "q90"):
        missed = {"q50": 0.5, "q90": 0.1}[metric]
        found = brentq(lambda x: float(beyond(np.array([x]))[0]) - missed, 0.0, most, xtol=1e-16)
        return float(found)
    x = most * np.exp(-DECADES * (np.arange(POINTS) + 0.5) / POINTS)
    order = {"mean_error": 1, "rmse": 2}.get(metric, 0)
    return _moment(x, beyond(x), order) if order else NAN


def _moment(x: Floats, beyond: Floats, order: int) -> float:
    """By x = e^y, of which steps are equal."""
    step = DECADES / POINTS
    return float((order * np.sum(x**order * beyond) * step) ** (1 / order))


def _noises(e: Any, budget: Budget) -> tuple[Noise, Noise]:
    """Of S and T, or of C and the count."""
    if isinstance(e, TransformedNoiseMean):
        one = additive(budget, 1.0, 1.0)
        return one, one
    half = budget.fraction(0.5)
    return additive(half, 0.5, 0.5), additive(half, 1.0, 1.0)


def _above(e: Any, v: Floats, r: Floats, n: int, first: Any, second: Any) -> Floats:
    """P(R > r)."""
    transformed = isinstance(e, TransformedNoiseMean)
    a, c = (1 - r, np.abs(r)) if transformed else (np.ones_like(r), np.abs(r - 0.5))
    t = n * (r - v)
    if isinstance(first, Gaussian):
        sd = np.hypot(a * first.sd, c * second.sd)
        return 1 - Gaussian(1.0).cdf(t / sd)
    return laplaces_above(t, np.abs(a) * first.scale, c * second.scale)


def vector_rmse(e: Any, mean: Floats, spread: float, n: int, budget: Budget) -> float:
    """The root mean square norm of (Z - m Z_n)/n, in units of (upper - lower)/2.

    That is to first order in noise: relative to it the rest is of order Var(Z_n)/n^2.

    Parameters
    ----------
    e : NormalizedSumMean or TransformedNoiseMean
    mean : (d,) array
        m, of records on the scale where the region is the cube [-1, 1]^d or the unit ball.
    spread : float
        Their standard deviation in every direction; they are Gaussian.

    Returns
    -------
    float
        NaN where records or releases may be clipped, or the count's noise is not small.
    """
    d, box = mean.size, e.region == "box"
    length = float(np.abs(mean).max() if box else np.linalg.norm(mean))
    of_each, of_count = _variances(e, d, budget)
    sampling = d * spread**2 / n
    found = np.sqrt((d * of_each + float(mean @ mean) * of_count) / n**2 + sampling)
    away = 6 * spread if box else (np.sqrt(d) + 6) * spread
    moved = max(away, 5 * found / (np.sqrt(d) if box else 1.0))
    known = length + moved < 1 and of_count < SMALL * n**2
    return float(found) if known else NAN


def _variances(e: Any, d: int, budget: Budget) -> tuple[float, float]:
    """Of the noise of each coordinate of a sum, and of a count."""
    box = e.region == "box"
    l1, l2 = (float(d), float(np.sqrt(d))) if box else (float(np.sqrt(d)), 1.0)
    if not isinstance(e, TransformedNoiseMean):
        half = budget.fraction(0.5)
        return additive(half, l1, l2).variance, additive(half, 1.0, 1.0).variance
    # A radius of Gamma(d + 2) times a uniform point of a cube, or of a ball and an interval; or
    # Gaussian, with the count times w. Which it is rests on what they come to where |m| = l2.
    radius, root = (d + 2) * (d + 3), float(np.sqrt(d))
    each, count = radius / (3 if box else d + 2), radius / 3
    farthest = d * each + l2**2 * count
    noise = additive(budget, float(np.sqrt(farthest / 2)), l2 * (1 + root))
    if isinstance(noise, Gaussian):
        square = l2**2 / root
        each, count, farthest = l2**2 + square, l2**2 / square + 1, l2**2 * (1 + root) ** 2
    return noise.variance * each / farthest, noise.variance * count / farthest


@exact_for(NormalizedSumMean, TransformedNoiseMean)
def _of_two_sums(metric: str, e: Any, law: dist.Distribution, at: ReleaseSetting) -> float:
    """Of records that are clipped to [lower, upper], on a scale where that is [0, 1]."""
    if metric not in ("q90", "mean_error", "rmse"):
        return NAN
    width = float(e.upper - e.lower)
    if law.d > 1:
        if metric != "rmse" or not isinstance(law, dist.MultivariateGaussian) or not is_round(law):
            return NAN
        mean, half = law.mean - (e.lower + e.upper) / 2, width / 2
        return half * vector_rmse(e, mean / half, law.scale / half, int(at.n), at.budget)
    points = finite_atoms(law)
    if points is None:
        return NAN
    found = average((np.clip(points[0], e.lower, e.upper) - e.lower) / width, points[1], at.n, 0.0)
    if found is None:
        return NAN
    target = (law.target - e.lower) / width
    return width * ratio_error(metric, e, found, target, int(at.n), at.budget)
