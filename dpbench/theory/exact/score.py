"""The error of a debiased score around a private median, without drawing: `GaussianScoreMean`.

Written from its derivation, like `dpbench.theory.exact.value`, without calling it. Let the
centre be off by y, V the average of the scores, normal by the central limit theorem, and Z its
noise. What is restored, h^-1(V + Z), is at most y + x if and only if V + Z <= h(y + x), as h grows:
no expansion.
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
from dpbench.theory.exact.choices import exponential_epsilon, is_near, median_law
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for, gaussian_tail
from dpbench.theory.exact.noise import additive, standard_normal

__all__: list[str] = []  # it registers

EVERY = 80  # so many points of the centre's law are one


def _moments(y: Floats, t: float) -> tuple[Floats, Floats]:
    """The mean and the variance of clip(N(y, 1), -t, t), for each y."""
    z, weights = standard_normal()
    scores = np.clip(y[:, None] + z, -t, t)
    mean = scores @ weights
    return mean, np.square(scores - mean[:, None]) @ weights


def _mean(y: Floats, t: float) -> Floats:
    """T less what is lost below t, and above -t: by E(t - X)_+ = int_-inf^t P(X < u) du."""

    def integral(u: Floats) -> Floats:  # of Phi, up to u
        return np.asarray(u * ndtr(u) + np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi))

    return np.asarray(t - integral(t - y) + integral(-t - y))


def _share(e: est.GaussianScoreMean, at: ReleaseSetting, reach: float) -> float:
    """Where e^(-n epsilon/4) over all of +-reach is beta/10 of what 0.2 sigma weigh.

    Rounded up to 199 equal steps of the logarithm from 0.001 to 0.5; epsilon is at least that of
    200,000 records.
    """
    least = 4 * float(np.log(100 * reach / (e.sigma * e.beta))) / min(at.n, 200_000)
    for i in range(200):
        share = 0.001 * 500 ** (i / 199)
        if exponential_epsilon(at.budget.fraction(share)) >= least:
            return float(share)
    return 0.5


def _half_width(n: int, beta: float, rest: Budget) -> float:
    """The T >= 0.1 with the least quantile of sampling and noise, taken for normal, over slope."""
    unit, widest = additive(rest, 1.0, 1.0).above(beta / 2), 2 * np.sqrt(2 * np.log(2 * n / beta))
    best, found = np.inf, 0.0
    for t in np.exp(np.linspace(np.log(0.1), np.log(widest), 300)):
        (_,), (variance,) = _moments(np.zeros(1), t)
        slope = float(ndtr(t) - ndtr(-t))
        error = np.hypot(ndtri(1 - beta / 2) * np.sqrt(variance / n), 2 * t / n * unit) / slope
        if error < best:
            best, found = float(error), float(t)
    return found


@exact_for(est.GaussianScoreMean)
def _score_error(metric: str, estimator: Any, law: dist.Distribution, at: ReleaseSetting) -> float:
    """``q90``, for Gaussian records as wide as `sigma`; NaN for others.

    Infinite where a tenth of the centres are wrong.
    """
    e = estimator
    known = metric == "q90" and law.d == 1 and is_near(law, e)
    if not known or not np.isclose(law.variance, e.sigma**2):
        return float("nan")
    reach = e.radius + gaussian_tail(e, at.n)
    share = e.share or _share(e, at, reach)
    rest = at.budget.fraction(1 - share)
    places, weights, missed = median_law(law, at.n, at.budget.fraction(share), 0.1 * e.sigma, reach)
    y = places.reshape(-1, EVERY).mean(axis=1) / e.sigma
    weights = weights.reshape(-1, EVERY).sum(axis=1) * (1 - missed)
    y, weights = y[weights > 1e-7], weights[weights > 1e-7]
    t = _half_width(at.n, e.beta, rest)
    most, noise = t + gaussian_tail(e, at.n) / e.sigma, additive(rest, 2 * t / at.n, 2 * t / at.n)
    z, shares = standard_normal()
    few = slice(800, 3201, 4)  # +-6, by 0.02: a half per cent where there is no noise
    mean, variance = _moments(y, t)
    scores = mean[:, None] + np.sqrt(variance / at.n)[:, None] * z[few]

    def below(x: Floats) -> float:
        """The mean of P(h^-1(V + Z) <= x), which is kept within `most`."""
        inside = noise.cdf(_mean(x, t)[:, None] - scores) @ (shares[few] / shares[few].sum())
        return float(weights @ np.where(x >= most, 1.0, np.where(x < -most, 0.0, inside)))

    def missing(x: float) -> float:
        return below(y + x) - below(y - x) - 0.9

    if missing(most) < 0:
        return float("inf")
    return float(e.sigma * brentq(missing, 0.0, most, xtol=1e-10))
