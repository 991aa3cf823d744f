"""The noise of means that are clipped around private medians (HLY21, PLAN), without drawing.

Written from the sources' formulas, like `dpbench.theory.exact.value`, without calling an estimator.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtr, ndtr

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.theory.exact.choices import is_round
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for
from dpbench.theory.exact.clip_and_noise_oracle import gaussian_norm
from dpbench.theory.exact.noise import concentrated

__all__ = ["search_law"]

RARE = 1e-9  # what is left out of the law of a search
UNSURE = 0.5  # the most that medians may be off by, in standard deviations
SLOPE = 0.4287  # 2 m f(m) at the median m = 0.4549 of a chi-square of one degree, f its density
MEDIAN = 0.6745  # of the absolute value of a standard normal number


def search_law(up: Callable[[Floats], Floats], end: float, steps: int) -> tuple[Floats, Floats]:
    """Points that a binary search in [0, end] finds, and their probabilities.

    `up` is the probability that it goes on above points, whatever it was told before.
    """
    low, high, chance = np.zeros(1), np.array([end]), np.ones(1)
    for _ in range(steps):
        middle = (low + high) / 2
        above = up(middle)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        chance = np.concatenate([chance * (1 - above), chance * above])
        kept = chance > RARE
        low, high, chance = low[kept], high[kept], chance[kept]
    return (low + high) / 2, chance / chance.sum()


def _squares_cdf(weights: Floats, q: Floats) -> Floats:
    """P(sum of w_i z_i^2 <= q), z_i standard normal, by the chi-square with its three moments."""
    first, second, third = (float((weights**k).sum()) for k in (1, 2, 3))
    h = second**3 / third**2
    return np.asarray(chdtr(h, np.maximum(h + (q - first) * np.sqrt(h / second), 0)))


@exact_for(est.PlanMean, est.InstanceOptimalMean)
def _median_noise(
    metric: str,
    e: est.InstanceOptimalMean | est.PlanMean,
    law: dist.Distribution,
    at: ReleaseSetting,
) -> float:
    """The 0.9 quantile of the noise's norm on independent normal coordinates; else NaN.

    The ball's radius C has the law of its search, counts being off by sampling, too. Given C the
    noise is (2C/n)/sqrt(2 rho) times normal, in PLAN times sqrt(a). Offsets from the centre have in
    a coordinate the variance s^2 + v, v the centre's; a rotation makes the s alike (but for d small
    beside their ratios), and keeps norms.
    """
    s = _deviations(law)
    # In the range of the search: a rotation makes the mean's coordinates N(0, |mu|^2/d).
    room = e.radius * np.sqrt(at.d) if isinstance(e, est.PlanMean) else e.radius / 4
    if s is None or metric != "noise_q90" or np.linalg.norm(law.mean) > room:
        return np.nan
    plan, rho, n = isinstance(e, est.PlanMean), concentrated(at.budget).rho, at.n
    last, search = rho * 9 / 16, rho * 3 / 16
    alike = s if plan else np.full(at.d, np.sqrt((s**2).mean()))
    v = _centre_variance(e, alike, at, rho / 16 if plan else rho / 4)
    a, end = np.ones(at.d), e.radius
    rest = 2 * np.sqrt(at.d / (2 * last)) + np.sqrt(e.rounds / (2 * search))
    if isinstance(e, est.PlanMean):
        a = _scales(e, s, at, search)
        end = float(np.sqrt(a.sum())) * gaussian_norm(1, 1 / n)
        rest = np.sqrt(n) + np.sqrt(e.rounds * np.log(e.rounds / e.beta) / search)
    if n <= rest + 1 or np.any(v > (UNSURE * alike) ** 2) or not np.all(a > 0):
        return np.nan

    def up(points: Floats) -> Floats:
        share = _squares_cdf((s**2 + v) / a, points**2)
        sd = np.sqrt(e.rounds / (2 * search) + n * share * (1 - share))
        return np.asarray(ndtr((np.floor(n - rest) - n * share) / sd))

    radii, chances = search_law(up, end, e.rounds)
    unit = 2 / n / np.sqrt(2 * last) * radii

    def missing(x: float) -> float:
        return float(chances @ _squares_cdf(a, (x / unit) ** 2)) - 0.9

    return float(brentq(missing, 0.0, 10 * float(unit.max() * np.sqrt(a.sum())), rtol=1e-9))


def _deviations(law: dist.Distribution) -> Floats | None:
    """Of independent normal coordinates; None of others."""
    if isinstance(law, dist.PowerLawGaussian):
        return np.sqrt(np.diag(law.covariance))
    return np.full(law.d, law.scale) if is_round(law) else None


def _centre_variance(
    e: est.InstanceOptimalMean | est.PlanMean, s: Floats, at: ReleaseSetting, rho: float
) -> Floats:
    """Of the private median of every coordinate.

    That of a uniform law in a cell of the search, and of a rank that is off by the noise of one
    count and by sampling, of variance n/4, over the slope n/(s sqrt(2 pi)) of ranks.
    """
    size, reach = at.d, e.radius
    if isinstance(e, est.InstanceOptimalMean):
        size = 1 << (at.d - 1).bit_length()
        reach = e.radius / np.sqrt(size)
    rank = e.rounds * size / (2 * rho) + at.n / 4
    return np.asarray((2 * reach / 2**e.rounds) ** 2 / 12 + 2 * np.pi * rank * (s / at.n) ** 2)


def _scales(e: est.PlanMean, s: Floats, at: ReleaseSetting, rho: float) -> Floats:
    """PLAN's a, of standard deviations that its search is sure of; NaN of others."""
    half = at.n // 2
    count = np.sqrt(e.rounds * at.d / (2 * rho) + half / 4)
    known = count / (half * SLOPE) < UNSURE and np.all(
        (MEDIAN * s > e.sigma_low) & (s < e.sigma_high)
    )
    return MEDIAN * (s + s.mean()) if known else np.full(at.d, np.nan)
