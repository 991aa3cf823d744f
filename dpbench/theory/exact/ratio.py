"""Exact errors of ratios of two noisy sums (`dpbench.estimators.add_remove`), for every n.

Let u be a record scaled to [0, 1], and v the mean of the n scaled records. Let S, T and C be the
sums of u, 1 - u and u - 1/2 over the records. The count is n. Z_S, Z_T, Z_C and Z_n are the noises
of the sums and of the count, and R is the released ratio. Let 0 <= r < 1. If the noisy denominator
is positive, R exceeds r under these conditions:

- for R = S/(S + T) with noisy sums: (1-r) Z_S - r Z_T > n (r - v);
- for R = 1/2 + C/count with a noisy sum and a noisy count: Z_C - (r - 1/2) Z_n > n (r - v).

Z_S and Z_T are independent, except for hourglass noise (`Hourglass`). The conditions may fail if a
noise is below about -n/2. Errors are NaN unless such a noise has a negligible probability. R is
clipped to [0, 1]. Moments of the error are E|R - target|^j = int_0^inf j x^(j-1)
P(|R - target| > x) dx.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq

from dpbench import distributions as dist
from dpbench.arrays import Floats
from dpbench.estimators import HourglassMean, NormalizedSumMean, TransformedNoiseMean
from dpbench.privacy import Budget
from dpbench.theory.exact.averages import average, finite_atoms
from dpbench.theory.exact.choices import is_isotropic
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for
from dpbench.theory.exact.noise import GaussianNoise, Laplace, Noise, additive

__all__ = ["Hourglass", "laplaces_above", "ratio_error", "vector_rmse"]

NAN = float("nan")
MAX_FAILURE_PROBABILITY = 1e-7  # largest probability, for either sum, of noise below -n/2
MAX_COUNT_VARIANCE = 1e-3  # largest variance of the noise of a count, in units of n^2
POINTS = 400  # number of errors x in an integral, equally spaced in ln(x)
LOG_RANGE = 25.0  # range of ln(x)
MIN_HOURGLASS_EPSILON = 0.05  # below, the noise of the count takes too many values
NEGLIGIBLE = 1e-18  # relative probability of a value of the count's noise that is left out


@dataclass(frozen=True)
class Hourglass:
    """Hourglass noise (Kulesza, Suresh and Wang, KSW23; theorem number not checked).

    Let Z be the noise of the sum of records in [-1, 1], and J the noise of their number. The
    density at (z, j) is proportional to e^(-epsilon L). L is the least integer l >= |j| of the
    parity of j with |z| <= 2g + l. The width g of Geng and Viswanath (GV14, theorem number not
    checked) minimises the variance of the staircase noise (Z + J)/2.

    Parameters
    ----------
    epsilon : float > 0
        Privacy parameter.
    """

    epsilon: float

    @cached_property
    def _width(self) -> float:
        """Width g of the first step of the staircase noise."""
        b = np.exp(-self.epsilon)
        cube = b - 2 * b**2 + 2 * b**4 - b**5
        return float(-b / (1 - b) + np.cbrt(cube / 2) / (1 - b) ** 2)

    def cdf(self, x: Floats) -> Floats:
        """Return P((Z + J)/2 <= x), the distribution function of the noise of S, and of T."""
        g, b = self._width, np.exp(-self.epsilon)
        steps = np.maximum(np.ceil(np.abs(x) - g), 0.0)
        rest = np.where(steps > 0, b**steps * (g + steps - np.abs(x)), g - np.abs(x))
        rest += b ** (steps + 1) / (1 - b)
        tail = rest / (2 * g + 2 * b / (1 - b))
        return np.asarray(np.where(x < 0, tail, 1 - tail))

    def above(self, t: Floats, r: Floats) -> Floats:
        """Return P((1 - r) Z_S - r Z_T > t), where Z_S = (J + Z)/2 and Z_T = (J - Z)/2.

        The condition is Z > 2t - (1 - 2r) J.
        """
        largest = int(np.log(1 / NEGLIGIBLE) / self.epsilon) + 2
        g, b = self._width, np.exp(-self.epsilon)
        beyond_shells = 2 * b**2 / (1 - b**2)  # integral of b^(L - |j|) over z > 2g + |j|
        probability, total = np.zeros(np.broadcast(t, r).shape), 0.0
        for j in range(-largest, largest + 1):
            h, z = 2 * g + abs(j), 2 * t - (1 - 2 * r) * j
            # Of z > h, `shells` is the number of whole shells of length 2 between h and z.
            shells = np.floor(np.maximum(np.abs(z) - h, 0.0) / 2)
            far = b ** (2 * shells) * (
                (2 + h + 2 * shells - np.abs(z)) * b**2 + beyond_shells * b**2
            )
            upper = np.where(np.abs(z) <= h, h - np.abs(z) + beyond_shells, far)
            whole = 2 * (h + beyond_shells)
            probability += b ** abs(j) * np.where(z < 0, whole - upper, upper)
            total += b ** abs(j) * whole
        return np.asarray(probability / total)


def laplaces_above(t: Floats, a: Floats, c: Floats) -> Floats:
    """Return P(X + Y > t) for independent Laplace variables X and Y of scales a and c.

    For t >= 0 it is (a^2 e^(-t/a) - c^2 e^(-t/c))/(2 (a^2 - c^2)). This formula loses digits if a
    and c are nearly equal. So the code uses an equivalent formula. With a >= c and s = 1/c - 1/a it
    is e^(-t/a)/2 (1 + c (1 - e^(-s t))/(s a (a + c))).

    Parameters
    ----------
    t : ndarray
        Points.
    a, c : ndarray
        Scales, not negative, and not both 0; they broadcast with t.

    Returns
    -------
    ndarray
        Probabilities.
    """
    a, c = np.maximum(a, c), np.minimum(a, c)
    c = np.maximum(c, 1e-9 * a)
    s, distance = np.maximum(1 / c - 1 / a, 1e-12 / a), np.abs(t)
    tail = np.exp(-distance / a) / 2 * (1 - c * np.expm1(-s * distance) / (s * a * (a + c)))
    return np.asarray(np.where(t < 0, 1 - tail, tail))


def ratio_error(
    metric: str, e: Any, means: tuple[Floats, Floats], target: float, n: int, budget: Budget
) -> float:
    """Return the exact value of a summary column for a ratio of two noisy sums.

    Parameters
    ----------
    metric : {'q50', 'q90', 'mean_error', 'rmse'}
        Column; others give NaN.
    e : HourglassMean, NormalizedSumMean or TransformedNoiseMean
        Only its class is read.
    means : pair of ndarray of shape (m,)
        Possible means of the n clipped records, and their probabilities. Records are scaled from
        [lower, upper] to [0, 1].
    target : float
        Number that the release is compared with, on the scale of [0, 1].
    n : int
        Number of records.
    budget : Budget
        Privacy budget.

    Returns
    -------
    float
        Value on the scale of [0, 1]; NaN if it is not known.
    """
    if isinstance(e, HourglassMean) and budget.pure_epsilon < MIN_HOURGLASS_EPSILON:
        return NAN
    first, second = _noises(e, budget)
    supported = type(first) is type(second) and isinstance(
        first, GaussianNoise | Laplace | Hourglass
    )
    if (
        not supported
        or max(sum_noise.cdf(np.array(-n / 2)) for sum_noise in (first, second))
        > MAX_FAILURE_PROBABILITY
    ):
        return NAN
    values, weights = (sum_noise[:, None] for sum_noise in means)

    def beyond(x: Floats) -> Floats:
        """Return the probability that the released ratio is more than x off the target."""
        high, low = target + x, target - x
        above = np.where(high < 1, _exceedance(e, values, high, n, first, second), 0.0)
        below = np.where(low > 0, 1 - _exceedance(e, values, low, n, first, second), 0.0)
        return np.asarray((weights * (above + below)).sum(axis=0))

    largest_error = max(target, 1 - target)
    if metric in ("q50", "q90"):
        tail = {"q50": 0.5, "q90": 0.1}[metric]
        quantile = brentq(
            lambda x: float(beyond(np.array([x]))[0]) - tail, 0.0, largest_error, xtol=1e-16
        )
        return float(quantile)
    x = largest_error * np.exp(-LOG_RANGE * (np.arange(POINTS) + 0.5) / POINTS)
    order = {"mean_error": 1, "rmse": 2}.get(metric, 0)
    return _moment(x, beyond(x), order) if order else NAN


def _moment(x: Floats, beyond: Floats, order: int) -> float:
    """Return (E |error|^order)^(1/order), from the probabilities `beyond` that the error exceeds x.

    The points x are equally spaced in ln(x).
    """
    step = LOG_RANGE / POINTS
    return float((order * np.sum(x**order * beyond) * step) ** (1 / order))


def _noises(e: Any, budget: Budget) -> tuple[Noise, Noise] | tuple[Hourglass, Hourglass]:
    """Return the noises of the two quantities that an estimator releases.

    Let u be a record scaled to [0, 1]. `TransformedNoiseMean` and `HourglassMean` release the sums
    of u and of 1 - u. `NormalizedSumMean` releases the sum of u - 1/2 and the number of records.
    """
    if isinstance(e, HourglassMean):
        noise_of_both = Hourglass(budget.pure_epsilon)
        return noise_of_both, noise_of_both
    if isinstance(e, TransformedNoiseMean):
        noise = additive(budget, 1.0, 1.0)
        return noise, noise
    half = budget.fraction(0.5)
    return additive(half, 0.5, 0.5), additive(half, 1.0, 1.0)


def _exceedance(e: Any, v: Floats, r: Floats, n: int, first: Any, second: Any) -> Floats:
    """Return the probability that the released ratio exceeds r, for records with the mean v.

    The ratio has two noisy quantities, and `first` and `second` are their noises (`_noises`).
    """
    if isinstance(first, Hourglass):
        return first.above(n * (r - v), r)
    transformed = isinstance(e, TransformedNoiseMean)
    a, c = (1 - r, np.abs(r)) if transformed else (np.ones_like(r), np.abs(r - 0.5))
    t = n * (r - v)
    if isinstance(first, GaussianNoise):
        sd = np.hypot(a * first.sd, c * second.sd)
        return 1 - GaussianNoise(1.0).cdf(t / sd)
    return laplaces_above(t, np.abs(a) * first.scale, c * second.scale)


def vector_rmse(e: Any, mean: Floats, spread: float, n: int, budget: Budget) -> float:
    """Return the root mean square error of a vector mean that divides a noisy sum by a noisy count.

    The unit is (upper - lower)/2. Let m be the mean of the records, Z the noise of the sum, and Z_n
    the noise of the count. To first order the noise adds the error (Z - m Z_n)/n. The rest is
    smaller by a factor of the order of Var(Z_n)/n^2.

    Parameters
    ----------
    e : NormalizedSumMean or TransformedNoiseMean
        Estimator; its class and region (``box`` or ball) are read.
    mean : ndarray of shape (d,)
        Mean m of the records, on the scale where the region is the cube [-1, 1]^d or the unit ball.
    spread : float
        Standard deviation of the Gaussian records in every direction, on this scale.
    n : int
        Number of records.
    budget : Budget
        Privacy budget.

    Returns
    -------
    float
        Error. NaN if records or releases may be clipped, or if the noise of the count is not small.
    """
    d, box = mean.size, e.region == "box"
    length = float(np.abs(mean).max() if box else np.linalg.norm(mean))
    coordinate_variance, count_variance = _variances(e, d, budget)
    sampling = d * spread**2 / n
    rmse = np.sqrt(
        (d * coordinate_variance + float(mean @ mean) * count_variance) / n**2 + sampling
    )
    spread_bound = 6 * spread if box else (np.sqrt(d) + 6) * spread
    deviation = max(spread_bound, 5 * rmse / (np.sqrt(d) if box else 1.0))
    reliable = length + deviation < 1 and count_variance < MAX_COUNT_VARIANCE * n**2
    return float(rmse) if reliable else NAN


def _variances(e: Any, d: int, budget: Budget) -> tuple[float, float]:
    """Return the noise variances of each coordinate of a released vector sum, and of the count."""
    box = e.region == "box"
    l1, l2 = (float(d), float(np.sqrt(d))) if box else (float(np.sqrt(d)), 1.0)
    if not isinstance(e, TransformedNoiseMean):
        half = budget.fraction(0.5)
        return additive(half, l1, l2).variance, additive(half, 1.0, 1.0).variance
    # The joint noise has a radius of Gamma(d + 2) times a uniform point of a cube, or of a ball and
    # an interval. Gaussian noise is used, with the count times w, if it is smaller at |m| = l2.
    radius, root = (d + 2) * (d + 3), float(np.sqrt(d))
    coordinate_moment, count_moment = radius / (3 if box else d + 2), radius / 3
    largest_moment = d * coordinate_moment + l2**2 * count_moment
    noise = additive(budget, float(np.sqrt(largest_moment / 2)), l2 * (1 + root))
    if isinstance(noise, GaussianNoise):
        square = l2**2 / root
        coordinate_moment, count_moment, largest_moment = (
            l2**2 + square,
            l2**2 / square + 1,
            l2**2 * (1 + root) ** 2,
        )
    return (
        noise.variance * coordinate_moment / largest_moment,
        noise.variance * count_moment / largest_moment,
    )


@exact_for(HourglassMean, NormalizedSumMean, TransformedNoiseMean)
def _clipped_ratio_error(
    metric: str, e: Any, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return the exact value of a summary column for a ratio of noisy sums; NaN if not known.

    Records are clipped to [lower, upper]. If the records are numbers, the known columns are
    ``q90``, ``mean_error`` and ``rmse``. They are computed on a scale where [lower, upper] is [0,
    1]. If the records are vectors, only ``rmse`` is known.
    """
    if metric not in ("q90", "mean_error", "rmse"):
        return NAN
    width = float(e.upper - e.lower)
    if law.d > 1:
        if (
            isinstance(e, HourglassMean)
            or metric != "rmse"
            or not isinstance(law, dist.MultivariateGaussian)
            or not is_isotropic(law)
        ):
            return NAN
        mean, half_width = law.mean - (e.lower + e.upper) / 2, width / 2
        return half_width * vector_rmse(
            e, mean / half_width, law.scale / half_width, int(setting.n), setting.budget
        )
    points = finite_atoms(law)
    if points is None:
        return NAN
    distribution = average(
        (np.clip(points[0], e.lower, e.upper) - e.lower) / width, points[1], setting.n, 0.0
    )
    if distribution is None:
        return NAN
    target = (law.target - e.lower) / width
    return width * ratio_error(metric, e, distribution, target, int(setting.n), setting.budget)
