"""Exact noise of means that are clipped to a private ball around private medians (HLY21, PLAN).

HLY21 is by Huang, Liang and Yi; PLAN is by Aumueller, Lebeda, Nelson and Pagh. The formulas follow
these papers, and no estimator is called. Medians and radii are found by noisy binary searches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtr, ndtr

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.theory.exact.choices import is_isotropic
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for
from dpbench.theory.exact.clip_and_noise_oracle import gaussian_norm_bound
from dpbench.theory.exact.noise import concentrated

__all__ = ["search_distribution"]

MIN_PATH_PROBABILITY = 1e-9  # less likely paths of a search are left out
MAX_MEDIAN_ERROR = 0.5  # largest error of a median, in standard deviations of the coordinate
# 2 m f(m) for the median m = 0.4549 and the density f of a chi-square of one degree of freedom.
SQUARE_MEDIAN_SLOPE = 0.4287
NORMAL_MEDIAN = 0.6745  # median of |N(0, 1)|


def search_distribution(
    up: Callable[[Floats], Floats], end: float, steps: int
) -> tuple[Floats, Floats]:
    """Return the distribution of the points that a noisy binary search in [0, end] finds.

    Parameters
    ----------
    up : callable
        Function from m points to m probabilities. Each is the probability that the search goes on
        above the point. It does not depend on earlier steps.
    end : float > 0
        Upper end of the range of the search.
    steps : int
        Number of steps, each of which halves the range.

    Returns
    -------
    points, weights : ndarray of shape (k,)
        Middles of the last ranges, in the unit of `end`, and their probabilities.
    """
    low, high, chance = np.zeros(1), np.array([end]), np.ones(1)
    for _ in range(steps):
        middle = (low + high) / 2
        above = up(middle)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        chance = np.concatenate([chance * (1 - above), chance * above])
        likely = chance > MIN_PATH_PROBABILITY
        low, high, chance = low[likely], high[likely], chance[likely]
    return (low + high) / 2, chance / chance.sum()


def _squares_cdf(weights: Floats, q: Floats) -> Floats:
    """Return P(sum of w_i z_i^2 <= q) for standard normal z_i and weights w_i.

    The sum is approximated by a shifted and scaled chi-square with the same first three moments.
    """
    first, second, third = (float((weights**k).sum()) for k in (1, 2, 3))
    h = second**3 / third**2
    return np.asarray(chdtr(h, np.maximum(h + (q - first) * np.sqrt(h / second), 0)))


@exact_for(est.PlanMean, est.InstanceOptimalMean)
def _median_noise(
    metric: str,
    e: est.InstanceOptimalMean | est.PlanMean,
    law: dist.Distribution,
    setting: ReleaseSetting,
) -> float:
    """Return ``noise_q90``, the 0.9 quantile of the norm of the noise, of HLY21's or PLAN's mean.

    Records have independent normal coordinates with standard deviations s. The result is NaN for
    other columns and records. It is NaN, too, if the mean is out of range, or if the private
    medians are not accurate enough.

    1. The private medians of all coordinates form the centre. Let v be the variance of a median's
       error. Then the record less the centre has the variance s^2 + v in this coordinate.
    2. HLY21 first rotates the records. The rotation keeps norms, and makes all s nearly equal
       unless few coordinates dominate. PLAN divides each coordinate by sqrt(a), where a is its
       private scale.
    3. The differences between records and centre are clipped to a ball of radius C. A noisy binary
       search finds C. The distribution of C accounts for the noise and for the sampling of records.
    4. Given C, the noise is (2C/n)/sqrt(2 rho') times a standard normal vector, where rho' is the
       budget of the mean. PLAN multiplies the coordinates of the mean by sqrt(a) again.
    """
    s = _deviations(law)
    # The mean must be in the range of the search; a rotation makes its coordinates N(0, |mu|^2/d).
    mean_range = e.radius * np.sqrt(setting.d) if isinstance(e, est.PlanMean) else e.radius / 4
    if s is None or metric != "noise_q90" or np.linalg.norm(law.mean) > mean_range:
        return np.nan
    plan, rho, n = isinstance(e, est.PlanMean), concentrated(setting.budget).rho, setting.n
    mean_rho, radius_rho = rho * 9 / 16, rho * 3 / 16
    rotated_s = s if plan else np.full(setting.d, np.sqrt((s**2).mean()))
    v = _centre_variance(e, rotated_s, setting, rho / 16 if plan else rho / 4)
    a, end = np.ones(setting.d), e.radius
    excluded = 2 * np.sqrt(setting.d / (2 * mean_rho)) + np.sqrt(e.rounds / (2 * radius_rho))
    if isinstance(e, est.PlanMean):
        a = _scales(e, s, setting, radius_rho)
        end = float(np.sqrt(a.sum())) * gaussian_norm_bound(1, 1 / n)
        excluded = np.sqrt(n) + np.sqrt(e.rounds * np.log(e.rounds / e.beta) / radius_rho)
    if n <= excluded + 1 or np.any(v > (MAX_MEDIAN_ERROR * rotated_s) ** 2) or not np.all(a > 0):
        return np.nan

    def up(points: Floats) -> Floats:
        share = _squares_cdf((s**2 + v) / a, points**2)
        sd = np.sqrt(e.rounds / (2 * radius_rho) + n * share * (1 - share))
        return np.asarray(ndtr((np.floor(n - excluded) - n * share) / sd))

    radii, chances = search_distribution(up, end, e.rounds)
    unit = 2 / n / np.sqrt(2 * mean_rho) * radii

    def excess(x: float) -> float:
        return float(chances @ _squares_cdf(a, (x / unit) ** 2)) - 0.9

    upper_end = 10 * float(unit.max() * np.sqrt(a.sum()))
    return float(brentq(excess, 0.0, upper_end, xtol=1e-12 * upper_end, rtol=1e-9))


def _deviations(law: dist.Distribution) -> Floats | None:
    """Return the standard deviation of every coordinate of a vector distribution.

    The coordinates have to be independent and normal; otherwise the result is None.
    """
    if isinstance(law, dist.PowerLawGaussian):
        return np.sqrt(np.diag(law.covariance))
    return np.full(law.d, law.scale) if is_isotropic(law) else None


def _centre_variance(
    e: est.InstanceOptimalMean | est.PlanMean, s: Floats, setting: ReleaseSetting, rho: float
) -> Floats:
    """Return the variance of the error of the private median, for every coordinate.

    `rho` pays for all medians. The variance is the sum of two parts:

    1. A noisy search finds a cell, and the median is taken as uniform in this cell.
    2. The rank of the found point is wrong by the noise of one count, and by sampling with variance
       n/4. Dividing by the slope n/(s sqrt(2 pi)) turns an error of the rank into an error of the
       point. Here s is the standard deviation of the coordinate.
    """
    size, reach = setting.d, e.radius
    if isinstance(e, est.InstanceOptimalMean):
        size = 1 << (setting.d - 1).bit_length()
        reach = e.radius / np.sqrt(size)
    rank = e.rounds * size / (2 * rho) + setting.n / 4
    return np.asarray((2 * reach / 2**e.rounds) ** 2 / 12 + 2 * np.pi * rank * (s / setting.n) ** 2)


def _scales(e: est.PlanMean, s: Floats, setting: ReleaseSetting, rho: float) -> Floats:
    """Return PLAN's private scale of every coordinate; NaN if its search may miss the scales.

    PLAN divides coordinates by the roots of their scales. `rho` pays for the search.
    """
    pairs = setting.n // 2
    rank_sd = np.sqrt(e.rounds * setting.d / (2 * rho) + pairs / 4)
    reliable = rank_sd / (pairs * SQUARE_MEDIAN_SLOPE) < MAX_MEDIAN_ERROR and np.all(
        (NORMAL_MEDIAN * s > e.sigma_low) & (s < e.sigma_high)
    )
    return NORMAL_MEDIAN * (s + s.mean()) if reliable else np.full(setting.d, np.nan)
