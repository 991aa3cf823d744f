"""Exact errors of variances (`dpbench.estimators.variance`), to first order in the noise.

Let u be a record scaled to [0, 1], m and s the mean and the mean square of u, and v = s - m^2. A
release is v + V + W, clipped to the possible variances.

**V** is the sampling error: up to a term of order 1/n, the average of (u - m)^2 - v over the
records. If u has two values, V is a function of a binomial count. Through pairs, V is the average
of (u - u')^2/2 - v over n/2 pairs. Its variance is (q + v^2)/n in place of (q - v^2)/n, where q is
the fourth central moment of u.

**W** is a sum of independent noises with weights, the derivatives of the released variance in the
noises:

- noise on the variance itself, and the mean of pairs: one noise of weight 1;
- Bezier mechanism: with w = 2 m^2 - s, the sums of (1 - u)^2, 2 u (1 - u) and u^2 have the weights
  w/n, (w - m)/n and (w - 2m + 1)/n;
- three sums about c: with the mean m' and mean square s' of u - c, the count and the sums of u - c
  and of (u - c)^2 have the weights (2 m'^2 - s')/n, -2 m'/n and 1/n.

Terms of second order are the same if all noises change their signs. So they move P(W > x) and
P(W < -x) by opposite numbers, and the sum of both by a term of third order, except where the clip
cuts one of them off. Errors are NaN if the noise of the number of records is not small.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.privacy import Budget
from dpbench.theory.exact.averages import Atoms, average, finite_atoms
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for
from dpbench.theory.exact.clip_and_noise_oracle import last_step
from dpbench.theory.exact.noise import GaussianNoise, Laplace, LaplaceSum, Noise, additive
from dpbench.theory.exact.ratio import MAX_COUNT_VARIANCE

__all__ = ["variance_noise"]

NAN = float("nan")


@exact_for(est.BezierVariance, est.ClippedVariance, est.PairVariance, est.ThreeSumsVariance)
def _variance_error(metric: str, e: Any, law: dist.Distribution, setting: ReleaseSetting) -> float:
    """Return ``noise_q90`` or ``q90`` of a variance of numbers; NaN if it is not known.

    The target of ``noise_q90`` is v + V, the variance of the clipped records. Points and noises are
    on the scale where [lower, upper] is [0, 1]; pairs have no scale.
    """
    points = finite_atoms(law) if law.d == 1 and metric in ("noise_q90", "q90") else None
    if points is None:
        return NAN
    (u, weights), pairs, width, top = points, isinstance(e, est.PairVariance), 1.0, np.inf
    if not pairs:
        width, top = float(e.upper - e.lower), 0.25
        u = (np.clip(u, e.lower, e.upper) - e.lower) / width
    n, budget = setting.n, setting.budget
    noise = _pair_noise(e, u, setting) if pairs else variance_noise(e, u, weights, n, budget)
    if noise is None:
        return NAN
    errors = _sampling_errors(u, weights, n, noise.variance, pairs=pairs)
    if errors is None:
        return NAN
    before_noise = float(weights @ u**2 - (weights @ u) ** 2) + errors[0]
    target = before_noise if metric == "noise_q90" else float(law.variance) / width**2

    def excess(x: float) -> float:
        above = noise.cdf(before_noise - target - x) * (target + x < top)
        below = noise.cdf(target - x - before_noise) * (x < target)
        below = np.where(target - x > top, 1.0, below)
        return float(errors[1] @ (above + below)) - 0.1

    end = max(float(np.max(target)), float(np.ptp(u)) ** 2) + 20 * float(np.sqrt(noise.variance))
    return width**2 * float(brentq(excess, 0.0, end, xtol=1e-16 * end, rtol=1e-10))


def _pair_noise(e: est.PairVariance, u: Floats, setting: ReleaseSetting) -> Noise | None:
    """Return the noise of a mean of pairs; None if it is not known, or if pairs may be clipped."""
    step = last_step(e.base, setting._replace(n=setting.n // 2))
    if step is None or step.centre is None:
        return None
    low, high = step.centre - step.half_width, step.centre + step.half_width
    return step.noise if low <= 0 and float(np.ptp(u)) ** 2 / 2 <= high else None


def variance_noise(
    e: est.Estimator, u: Floats, weights: Floats, n: int, budget: Budget
) -> Noise | None:
    """Return the noise W of an estimator; None if it is not known, or if the count is too noisy.

    `u` are the values of a clipped record on [0, 1], and `weights` their probabilities.
    """
    if isinstance(e, est.ClippedVariance):
        sensitivity = (n - 1) / n**2
        return additive(budget, sensitivity, sensitivity)
    c = 0.5 if isinstance(e, est.ThreeSumsVariance) and e.centred else 0.0
    m, s = float(weights @ (u - c)), float(weights @ (u - c) ** 2)
    w = 2 * m**2 - s
    if isinstance(e, est.BezierVariance):
        l1, l2 = (2.0, 2**0.5) if budget.neighbours == "replace" else (1.0, 1.0)
        factors, noises = (w, w - m, w - 2 * m + 1), [additive(budget, l1, l2)] * 3
        count_variance = 3 * noises[0].variance
    else:
        third, factors = budget.fraction(1 / 3), (w, -2 * m, 1.0)
        noises = [additive(third, (1 - c) ** j, (1 - c) ** j) for j in range(3)]
        count_variance = noises[0].variance
    if count_variance > MAX_COUNT_VARIANCE * n**2:
        return None
    sds = np.abs(factors) / n * np.sqrt([noise.variance for noise in noises])
    if all(isinstance(noise, GaussianNoise) for noise in noises):
        return GaussianNoise(float(np.linalg.norm(sds)))
    if not all(isinstance(noise, Laplace) for noise in noises):
        return None
    return LaplaceSum(tuple(float(sd) / 2**0.5 for sd in sds if sd > 0))


def _sampling_errors(
    u: Floats, weights: Floats, n: int, noise: float, *, pairs: bool
) -> Atoms | None:
    """Return the distribution of V; None if it is neither binomial nor nearly normal.

    `u` and `weights` are the values of a record and their probabilities, and `noise` is the
    variance of W. If `pairs`, V comes from n // 2 pairs of records.
    """
    m = float(weights @ u)
    squares = (u - m) ** 2
    v = float(weights @ squares)
    if len(u) == 2 and pairs:
        unequal = 2 * weights[0] * weights[1]
        halves = np.array([0.0, np.ptp(u) ** 2 / 2])
        means = average(halves, np.array([1 - unequal, unequal]), n // 2, noise)
        return means and (means[0] - v, means[1])
    if len(u) == 2:
        means = average(u, weights, n, noise)
        return means and ((means[0] - u[0]) * (u[1] - means[0]) - v, means[1])
    order, fourth = np.argsort(squares), float(weights @ squares**2)
    means = average(squares[order], weights[order], n, noise)
    factor = float(np.sqrt((fourth + v**2) / (fourth - v**2))) if pairs and fourth > v**2 else 1.0
    return means and (factor * (means[0] - v), means[1])
