"""Compute without drawing how often intervals for a Gaussian's mean miss, and their widths.

Written from the definitions, like `dpbench.theory.exact.value`, without calling an estimator. Let V
be a clipped mean, normal, and Z its noise. An interval that is made of the value V + Z and of a
scale s, independent of it, holds the mean if V + Z is between two points, which depend on s.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.special import chdtri, erf, ndtri

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.theory.exact.clip_and_noise import ReleaseSetting
from dpbench.theory.exact.noise import Noise, additive, standard_normal

__all__ = ["below", "exact_interval"]

LEVELS = 200  # equally likely values of a law
NAN = float("nan")


def exact_interval(metric: str, e: Any, law: dist.Distribution, at: ReleaseSetting) -> float:
    """``miss_rate`` or ``width_ratio_q50``; NaN of other estimators or laws than these."""
    found: tuple[float, float] | None = None
    mean, sd = float(law.mean), float(np.sqrt(law.variance))
    if isinstance(law, dist.Gaussian) and isinstance(e, est.KarwaVadhanInterval):
        found = _by_quantiles(e, sd, at)
    simulated = isinstance(e, est.NoisyvarInterval | est.ParametricBootstrapInterval)
    if isinstance(law, dist.Gaussian) and simulated:
        found = _by_simulation(e, mean, sd, at)
    if found is None:
        return NAN
    missed, half = found
    usual = -float(ndtri(e.beta / 2)) * sd / float(np.sqrt(at.n))
    return missed if metric == "miss_rate" else half / usual


def below(x: Floats, mean: float, sd: float | Floats, noise: Noise) -> Floats:
    """Return P(V + Z <= x) for V of N(mean, sd^2), x of shape (m,), sd a number or (m, 1)."""
    z, weights = standard_normal()
    few = slice(800, 3201, 4)  # +-6, by 0.02
    found = noise.cdf(x[:, None] - mean - sd * z[few]) @ weights[few]
    return np.asarray(found / weights[few].sum())


def _by_quantiles(
    e: est.KarwaVadhanInterval, sd: float, at: ReleaseSetting
) -> tuple[float, float] | None:
    """Return the probability of a miss, and half of the width, for a known sigma.

    A clip to 3t, t = sigma sqrt(2 ln(2n/(beta/4))), is hardly felt. Half of the width is the beta/2
    tail of the sampling error and the beta/4 tail of the noise.
    """
    if e.sigma is None or sd > e.sigma:
        return None
    t = e.sigma * float(np.sqrt(2 * np.log(8 * at.n / e.beta)))
    noise = additive(at.budget.fraction(0.5), 6 * t / at.n, 6 * t / at.n)
    half = noise.above(e.beta / 8) - float(ndtri(e.beta / 4)) * e.sigma / float(np.sqrt(at.n))
    low, high = below(np.array([-half, half]), 0.0, sd / float(np.sqrt(at.n)), noise)
    return float(1 - high + low), half


def _scales(e: Any, sd: float, at: ReleaseSetting) -> Floats:
    """Equally likely values of the scale: of sigma^2 chi2_m/m and noise, in m pairs."""
    if e.sigma is not None:
        return np.array([e.sigma])
    pairs, upper = at.n // 2, (np.arange(LEVELS) + 0.5) / LEVELS
    step = (e.upper - e.lower) ** 2 / 2 / pairs
    noise = additive(at.budget.fraction(1 - e.share), step, step)
    tails = np.array([noise.above(one) for one in upper[: LEVELS // 2]])
    both = np.add.outer(sd**2 * chdtri(pairs, upper) / pairs, np.concatenate([tails, -tails]))
    means = np.sort(both.ravel()).reshape(LEVELS, -1).mean(axis=1)
    return np.asarray(np.sqrt(np.maximum(means, 0.0)))


def _moments(mean: Floats, sd: float, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the mean and variance of N(mean, sd^2) clipped to [low, high]: sums of tails.

    E T = high - int F and E (high - T)^2 = 2 int (high - x) F(x) dx, over [low, high].
    """
    x, step = np.linspace(low, high, 4001, retstep=True)
    weights = np.full(x.size, step)
    weights[[0, -1]] /= 2
    under = (1 + erf((x - mean[:, None]) / (np.sqrt(2) * max(sd, 1e-9 * (high - low))))) / 2
    short = under @ weights
    return high - short, 2 * (under @ (weights * (high - x))) - short**2


@cache
def _by_simulation(
    e: Any, mean: float, sd: float, at: ReleaseSetting
) -> tuple[float, float] | None:
    """Return the probability of a miss, and half of the width, with infinitely many simulations.

    The interval is value - bias -+ q for q the quantile of |N(0, variance/n) + Z|. Bias and
    variance are those of simulated records, at the value and the scale.
    """
    main = at.budget if e.sigma is not None else at.budget.fraction(e.share)
    step, root = (e.upper - e.lower) / at.n, float(np.sqrt(at.n))
    noise = additive(main, step, step)
    (centre,), (variance,) = _moments(np.array([mean]), sd, e.lower, e.upper)
    inside = abs(centre - mean) < 1e-3 * sd and abs(variance - sd**2) < 1e-3 * sd**2
    if e.sigma is None and not (inside and at.n > 1):
        return None  # then mean and variance of clipped records are not independent
    away = 8 * float(np.sqrt(variance)) / root + 2 * noise.above(1e-7)
    values = centre + away * np.linspace(-1, 1, 401)
    scales = _scales(e, sd, at)
    spread, q = _quantiles(max(scales.max(), 1e-9 * sd) / root, noise, e.beta)
    bias, each = np.zeros_like(values), np.ones_like(values)
    clipped = isinstance(e, est.ParametricBootstrapInterval) and not inside
    missed, halves = [], []
    for scale in scales:
        if clipped:
            to, squares = _moments(values, scale, e.lower, e.upper)
            bias, each = to - values, np.sqrt(np.maximum(squares, 0.0)) / scale
        half = np.interp(each * scale / root, spread, q)
        ends = (np.interp(mean, values - bias + sign * half, values) for sign in (1, -1))
        low, high = below(np.array(list(ends)), centre, float(np.sqrt(variance)) / root, noise)
        missed.append(1 - high + low)
        halves.append(float(np.interp(centre, values, half)))
    return float(np.mean(missed)), float(np.median(halves))


def _quantiles(most: float, noise: Noise, beta: float) -> tuple[Floats, Floats]:
    """Standard deviations up to `most`, and the 1 - beta quantile of |N(0, sd^2) + Z| for each."""
    spread = np.linspace(0.0, most, 60)
    z, weights = standard_normal()
    few = slice(800, 3201, 4)
    shares = weights[few] / weights[few].sum()
    low, high = np.zeros(60), np.full(60, noise.above(beta / 4) - most * float(ndtri(beta / 8)))
    for _ in range(40):
        middle = (low + high) / 2
        # for a symmetric sum P(|N + Z| > x) = 2 P(N + Z > x)
        above = 1 - noise.cdf(middle[:, None] - spread[:, None] * z[few]) @ shares
        more = 2 * above > beta
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return spread, (low + high) / 2
