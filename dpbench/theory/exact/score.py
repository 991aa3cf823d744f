"""Exact error of the debiased clipped score around a private median (`GaussianScoreMean`).

The formulas follow docs/theory/gaussian_score.md; no estimator is called. Lengths are in units of
sigma, the standard deviation of the records.

1. A private median is the centre. Let y be the mean less the centre. The score of a record is the
   record less the centre, clipped to +-t.
2. Let h(y) be the mean score, which is the mean of N(y, 1) clipped to +-t.
3. Let V be the average of the scores, normal by the central limit theorem, and Z its noise. The
   estimate of y is h^-1(V + Z).
4. The estimate is at most y + x if and only if V + Z <= h(y + x), because h increases. So no
   expansion is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.privacy import Budget
from dpbench.theory.exact.choices import exponential_epsilon, median_law, satisfies_assumptions
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for, gaussian_tail
from dpbench.theory.exact.noise import additive, standard_normal

__all__: list[str] = []  # because the functions are registered

POINTS_PER_CELL = 80  # points of the centre's distribution that are averaged to one


def _score_moments(y: Floats, t: float) -> tuple[Floats, Floats]:
    """Return the mean and the variance of N(y, 1) clipped to [-t, t], for every y.

    Both arrays have the shape of `y`, (m,).
    """
    z, weights = standard_normal()
    scores = np.clip(y[:, None] + z, -t, t)
    mean = scores @ weights
    return mean, np.square(scores - mean[:, None]) @ weights


def _mean_score(y: Floats, t: float) -> Floats:
    """Return the mean h(y) of N(y, 1) clipped to [-t, t], for every y.

    For X with distribution N(y, 1) it is t - E(t - X)_+ + E(-t - X)_+, where (.)_+ is the positive
    part. Each expectation is an integral of a distribution function: E(t - X)_+ = int_-inf^t P(X <
    u) du.
    """

    def cdf_integral(u: Floats) -> Floats:  # the integral of Phi over (-inf, u]
        return np.asarray(u * ndtr(u) + np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi))

    return np.asarray(t - cdf_integral(t - y) + cdf_integral(-t - y))


def _centre_share(e: est.GaussianScoreMean, setting: ReleaseSetting, reach: float) -> float:
    """Return the share of the budget for the private median that centres the clip.

    The share is the smallest of 200 values at which the median is rarely far off. If none suffices,
    it is 0.5. The values are in geometric progression from 0.001 to 0.5.

    1. The exponential mechanism chooses the median in +-reach. For each share of the budget it has
       a privacy parameter epsilon (`exponential_epsilon`).
    2. The share suffices if 2 reach e^(-n epsilon/4) <= (beta/10) 0.2 sigma. Then all wrong answers
       together have at most beta/10 of the weight of an interval of width 0.2 sigma.
    3. For n above 200,000 the condition uses n = 200,000.
    """
    needed = 4 * float(np.log(100 * reach / (e.sigma * e.beta))) / min(setting.n, 200_000)
    for i in range(200):
        share = 0.001 * 500 ** (i / 199)
        if exponential_epsilon(setting.budget.fraction(share)) >= needed:
            return float(share)
    return 0.5


def _half_width(n: int, beta: float, budget: Budget) -> float:
    """Return the half-width t >= 0.1 of the clip with the smallest error, in units of sigma.

    1. The score of a record is the record less the centre, clipped to +-t. The average score has a
       sampling error and noise, and `budget` pays for the noise.
    2. The 1 - beta quantiles of |sampling error| and |noise| are squared and added. The root of the
       sum is the error of the average score.
    3. Dividing by h'(0) turns this error into an error of the mean. Here h(y) is the mean of N(y,
       1) clipped to +-t.
    """
    unit_quantile, largest_t = (
        additive(budget, 1.0, 1.0).isf(beta / 2),
        2 * np.sqrt(2 * np.log(2 * n / beta)),
    )
    smallest_error, best_t = np.inf, 0.0
    for t in np.exp(np.linspace(np.log(0.1), np.log(largest_t), 300)):
        (_,), (variance,) = _score_moments(np.zeros(1), t)
        slope = float(ndtr(t) - ndtr(-t))
        error = (
            np.hypot(ndtri(1 - beta / 2) * np.sqrt(variance / n), 2 * t / n * unit_quantile) / slope
        )
        if error < smallest_error:
            smallest_error, best_t = float(error), float(t)
    return best_t


@exact_for(est.GaussianScoreMean)
def _score_error(
    metric: str, estimator: Any, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return ``q90``, the 0.9 quantile of |error|, of `GaussianScoreMean`.

    The result is NaN for other columns. It is NaN, too, unless the records are Gaussian numbers of
    the standard deviation sigma that the estimator assumes. It is infinite if at least a tenth of
    the private medians, which centre the clip, are wrong.
    """
    e = estimator
    applies = metric == "q90" and law.d == 1 and satisfies_assumptions(law, e)
    if not applies or not np.isclose(law.variance, e.sigma**2):
        return float("nan")
    reach = e.radius + gaussian_tail(e, setting.n)
    share = e.share or _centre_share(e, setting, reach)
    score_budget = setting.budget.fraction(1 - share)
    distances, weights, miss = median_law(
        law, setting.n, setting.budget.fraction(share), 0.1 * e.sigma, reach
    )
    y = distances.reshape(-1, POINTS_PER_CELL).mean(axis=1) / e.sigma
    weights = weights.reshape(-1, POINTS_PER_CELL).sum(axis=1) * (1 - miss)
    y, weights = y[weights > 1e-7], weights[weights > 1e-7]
    t = _half_width(setting.n, e.beta, score_budget)
    bound, noise = (
        t + gaussian_tail(e, setting.n) / e.sigma,
        additive(score_budget, 2 * t / setting.n, 2 * t / setting.n),
    )
    z, shares = standard_normal()
    grid = slice(800, 3201, 4)  # -6 to 6 in steps of 0.02; within half a per cent without noise
    mean, variance = _score_moments(y, t)
    scores = mean[:, None] + np.sqrt(variance / setting.n)[:, None] * z[grid]

    def below(x: Floats) -> float:
        """Return the probability that the estimate of y is at most x, for a random centre.

        y is the mean less the private centre, and x has one entry for each possible y. The estimate
        is h^-1(V + Z), clipped to +-bound. V is the average of the scores, which are records less
        the centre, clipped to +-t. Z is the noise of V, and h(y) is the mean score.
        """
        inside = noise.cdf(_mean_score(x, t)[:, None] - scores) @ (
            shares[grid] / shares[grid].sum()
        )
        # y is above 0, so that no x of `excess` is below -bound.
        return float(weights @ np.where(x >= bound, 1.0, inside))

    def excess(x: float) -> float:
        return below(y + x) - below(y - x) - 0.9

    if excess(bound) < 0:
        return float("inf")
    return float(e.sigma * brentq(excess, 0.0, bound, xtol=1e-10))
