"""Exact values for the interval of a binary mean, from the binomial and the noise distribution.

`BinaryInterval` releases T = S + N, where S is binomial and N is Tulap or Gaussian noise. Its lower
limit L(T) solves P_p(S + N >= T) = b for p, where b is half of beta, or beta if there is one limit
only. The upper limit is 1 - L(n - T).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtri

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.privacy import ApproxDP, Budget, PureDP
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for
from dpbench.theory.exact.noise import Noise, Tulap, additive, binomial

__all__ = ["count_tail", "tulap_or_gaussian"]

NAN = float("nan")
GRID_POINTS = 60  # noisy counts at which limits are computed
QUANTILES = 2000  # equally likely noisy counts
PURE_DELTA = 1e-15  # stands for delta = 0


def tulap_or_gaussian(budget: Budget) -> Noise:
    """Return the canonical noise of a budget for a count: Tulap noise, or Gaussian noise."""
    if isinstance(budget, PureDP | ApproxDP):
        return Tulap(budget.epsilon, getattr(budget, "delta", PURE_DELTA), 1.0)
    return additive(budget, 1.0, 1.0)


def count_tail(x: Floats, n: int, p: Floats, noise: Noise) -> Floats:
    """Return P(S + N >= x) for a binomial count S of n records and symmetric noise N.

    Parameters
    ----------
    x, p : ndarray of shape (m,)
        Points, and probabilities of a one.
    n : int
        Number of records.
    noise : Noise
        N, independent of S.

    Returns
    -------
    ndarray of shape (m,)
        Probabilities.
    """
    from scipy.stats import binom

    s = np.arange(n + 1)
    return np.asarray(np.sum(binom.pmf(s, n, p[:, None]) * noise.cdf(s - x[:, None]), axis=1))


@exact_for(est.BinaryInterval)
def _binary_interval(
    metric: str, e: est.BinaryInterval, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return the exact value of a summary column for the interval of a binary mean.

    Columns are the miss rate, the median relative width, and the moments of the error. Other
    columns, and other records than zeros and ones, give NaN. So do widths for n above 2000.
    """
    if not isinstance(law, dist.Bernoulli):
        return NAN
    n, p, noise = setting.n, float(law.mean), tulap_or_gaussian(setting.budget)
    if metric in ("bias", "rmse"):
        sd = float(np.sqrt(law.variance / n + noise.variance / n**2))
        return 0.0 if metric == "bias" else sd
    if metric == "noise_q90":
        return noise.isf(0.05) / n
    if metric == "miss_rate":
        at_end = {"both": (0.5, 0.5), "lower": (1.0, 0.0), "upper": (0.0, 1.0)}[e.side]
        return e.beta * (at_end[int(p)] if p in (0, 1) else 1.0)
    if metric == "width_ratio_q50" and n <= 2000 and 0 < p < 1:
        usual = -2 * float(ndtri(e.beta / 2)) * float(np.sqrt(law.variance / n))
        return _median_width(e.beta, e.side, n, p, noise) / usual
    return NAN


@cache
def _median_width(beta: float, side: str, n: int, p: float, noise: Noise) -> float:
    """Return the median width of the interval, from `GRID_POINTS` noisy counts."""
    counts, weights = binomial(n, p)
    reach = noise.isf(1e-4) + 4 * float(np.sqrt(n * p * (1 - p))) + 1
    points = n * p + np.linspace(-reach, reach, 40 * GRID_POINTS)
    below = noise.cdf(points[:, None] - counts) @ weights
    x = np.linspace(points[0], points[-1], GRID_POINTS)
    tail = beta / 2 if side == "both" else beta
    low = _limit(x, tail, n, noise) if side != "upper" else np.zeros_like(x)
    high = 1 - _limit(n - x, tail, n, noise) if side != "lower" else np.ones_like(x)
    likely = np.interp((np.arange(QUANTILES) + 0.5) / QUANTILES, below, points)
    return float(np.median(np.interp(likely, x, high - low)))


def _limit(x: Floats, tail: float, n: int, noise: Noise) -> Floats:
    """Return the p with P(S + N >= x) = tail, or the nearest end of [0, 1], by bisection."""
    low, high = np.zeros_like(x), np.ones_like(x)
    for _ in range(40):
        middle = (low + high) / 2
        too_low = count_tail(x, n, middle, noise) < tail
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    return (low + high) / 2
