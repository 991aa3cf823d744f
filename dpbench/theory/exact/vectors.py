"""Exact values of errors of vectors and of covariances, up to the order that each states.

Written from the sources' formulas, like `dpbench.theory.exact.value`, without calling an estimator.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtr, chdtri, chndtrix

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.privacy import ApproxDP, PureDP
from dpbench.theory.exact.choices import is_round
from dpbench.theory.exact.clip_and_noise import ClipAndNoise, ReleaseSetting, exact_for
from dpbench.theory.exact.clip_and_noise_oracle import coinpress_round, gaussian_norm, round_shares
from dpbench.theory.exact.noise import Gaussian, additive, concentrated

__all__ = ["ball_error", "sum_quantile"]

Q = 0.9
UNSURE = 0.2  # over d: a tenth of the relative variance of a chi-square
SETTLED = 0.75  # from here on the covariance's formula is within 2 per cent,
WHITE = 0.15  # and from here on, up to that slack, the whitened mean's within 7
MOST_SLACK = 1.5
AFFINE = ("q90", "noise_q90", "private_q90")
COVARIANCE_B = 0.1  # of the covariance within a whitened mean: the authors'


def ball_error(
    metric: str,
    e: est.KSU20BallMean,
    law: dist.SignedTwoPoint,
    at: ReleaseSetting,
    step: ClipAndNoise,
) -> float:
    """Of KSU20, Algorithm 3, on vectors 0 and, with probability p, tau (+-1, ..., +-1).

    The centre is off by far less than tau sqrt(d). A rare vector that is longer than the ball's
    radius r counts r/(tau sqrt(d)) of it, or nothing if it is discarded, others fully: s. A share
    f of the n records is averaged, and hardly any are discarded. So the error has
    in the first coordinate the mean (s - 1) p tau, and in every one the variance p tau^2 s^2/(f n)
    by the central limit, and that of the noise. (The number of rare ones, about m, makes the square
    of the norm vary by (their share of the variance)^2/m, little beside 2/d of a chi-square.) Less
    the mean of all records it has p tau^2 ((s - f)^2 + f (1-f))/(f n). The norm is non-central chi
    for Gaussian noise; NaN for other.
    """
    if not isinstance(step.noise, Gaussian):
        return np.nan
    averaged, norm = step.records, law.tau * np.sqrt(at.d)
    f = averaged / at.n
    s = 1.0
    if norm > step.half_width:
        s = step.half_width / norm if e.outside == "project" else 0.0
    share = s**2 if metric == "q90" else (s - f) ** 2 + f * (1 - f)
    sampling = law.p * law.tau**2 * share / averaged
    variance = sampling + step.noise.variance
    if at.d * (sampling / variance) ** 2 > UNSURE * law.p * averaged:
        return np.nan
    shift = ((s - 1) * law.p * law.tau) ** 2 / variance
    norm2 = chndtrix(Q, at.d, shift) if shift else chdtri(at.d, 1 - Q)
    return float(np.sqrt(variance * norm2))


@exact_for(est.CoinPressCovariance, est.WhitenedCoinPressMean)
def _covariance_quantile(
    metric: str,
    e: est.CoinPressCovariance | est.WhitenedCoinPressMean,
    law: dist.Distribution,
    at: ReleaseSetting,
) -> float:
    """Of CoinPress's covariance of N(0, I), or the noise of a mean that it whitens; else NaN."""
    if not isinstance(law, dist.MultivariateGaussian) or not is_round(law) or law.scale != 1:
        return np.nan
    if isinstance(e, est.WhitenedCoinPressMean):
        return _whitened_noise(e, at) if metric == "noise_q90" and at.n > 1 else np.nan
    return np.nan if law.norm else _covariance_error(metric, e, at)


def _seen(bound: float, rounds: int, b: float, at: ReleaseSetting, least: float) -> float:
    """The variance v that the last round sees of N(0, I): 1/bound in the first, later 1/(1 + eta).

    NaN unless the worst direction has this share of it: those that noise hides, up to 2 sqrt(d) of
    its standard deviation, are stretched less. NaN for a bound below 1, which clips the records.
    """
    eta, v = _eta(at), 1 / bound
    if bound < 1 or rounds == 1:
        return v if bound >= 1 else np.nan
    for share in round_shares(rounds)[:-1]:
        v /= v + eta + 2 * np.sqrt(at.d) * _noise_sd(b, share, at)
    return 1 / (1 + eta) if v * (1 + eta) > least else np.nan


def _covariance_error(metric: str, e: est.CoinPressCovariance, at: ReleaseSetting) -> float:
    """Of a last round that sees v I.

    Noise of standard deviation sd = sqrt(2) gamma^2/(n sqrt(2 rho)) on the upper triangle becomes
    sd/v, relative to the covariance. Sampling errors have variances 2/n on the diagonal and 1/n
    beside it, which counts twice: the square of the norm is a sum of two scaled chi-squares.
    """
    if metric not in ("q90", "noise_q90"):
        return np.nan
    sampling = 1 / at.n if metric == "q90" else 0.0
    sd = _noise_sd(e.b, round_shares(e.rounds)[-1], at) / _seen(e.bound, e.rounds, e.b, at, SETTLED)
    pairs = at.d * (at.d - 1) // 2
    return sum_quantile(at.d, 2 * sampling + sd**2, pairs, 2 * (sampling + sd**2))


def _eta(at: ReleaseSetting) -> float:
    return float(np.sqrt(at.d / at.n) + at.d / at.n / 2)


def _noise_sd(b: float, share: float, at: ReleaseSetting) -> float:
    """Of a round that has this share of the budget."""
    sensitivity = np.sqrt(2) * gaussian_norm(at.d, b) ** 2 / at.n
    return float(sensitivity / np.sqrt(2 * concentrated(at.budget).rho * share))


def sum_quantile(few: int, variance: float, many: int, other: float) -> float:
    """The 0.9 quantile of |x|, x of `few` normal numbers of a variance and `many` of another."""
    if not np.isfinite(variance):
        return np.nan
    if many == 0:
        return float(np.sqrt(variance * chdtri(few, 1 - Q)))
    grid = chdtri(many, (np.arange(4000) + 0.5) / 4000) * other

    def missing(x: float) -> float:
        return float(chdtr(few, np.maximum(x - grid, 0) / variance).mean() - Q)

    return float(np.sqrt(brentq(missing, 0.0, grid.max() + 100 * few * variance)))


def _whitened_noise(e: est.WhitenedCoinPressMean, at: ReleaseSetting) -> float:
    """The noise of a whitened mean of N(mu, I).

    Of n/2 pairs the covariance has A near sqrt(v) I and Z near v I, so that B = A (Z + s)^(-1/2) is
    near I/sqrt(1 + s/v), where the slack s is eta plus 2 sd (sqrt(d) + sqrt(ln 100)), sd the noise
    of Z. The mean of the records times B has noise of its own last round, from the radius R |B|.
    """
    rho, rounds = concentrated(at.budget), e.covariance_rounds
    pairs = ReleaseSetting(at.n // 2, at.d, rho.fraction(e.covariance_share))
    sd = _noise_sd(COVARIANCE_B, round_shares(rounds)[-1], pairs)
    slack = _eta(pairs) + 2 * sd * (np.sqrt(at.d) + np.sqrt(np.log(100)))
    slack /= _seen(e.bound, rounds, COVARIANCE_B, pairs, WHITE)
    if not slack <= MOST_SLACK:
        return np.nan
    back = float(np.sqrt(1 + slack))
    fine = ReleaseSetting(at.n, at.d, rho.fraction(1 - e.covariance_share))
    sd, _ = coinpress_round(e.radius / back, round_shares(e.rounds), e.b, fine)
    return Gaussian(sd * back).norm_quantile(at.d, Q)


@exact_for(est.AffineInvariantMean)
def _affine_error(
    metric: str, e: est.AffineInvariantMean, law: dist.Distribution, at: ReleaseSetting
) -> float:
    """Of Gaussian records, which nearly all have weight 1, relative to their covariance.

    (g) to (d) of `dpbench.estimators.affine_invariant`: the noise is sd(eps_m, delta_m) step times
    the root of V, which is n times the covariance.
    """
    one = isinstance(law, dist.MultivariateGaussian) and (is_round(law) or law.relative)
    if not (one or isinstance(law, dist.Gaussian)) or e.leverage or metric not in AFFINE:
        return np.nan
    assert isinstance(at.budget, ApproxDP)
    n, epsilon, delta = at.n, at.budget.epsilon, at.budget.delta
    most = np.ceil(2 * additive(PureDP(e.share * epsilon), 1.0, 1.0).above(delta / 4))
    good = n / (1 + float(chdtri(at.d, e.beta / n)))
    ramp = max(1.0, (np.sqrt(max(0.0, most * (8 * good - 7 * most))) - 3 * most) / 2)
    mass, left = 1 + most / ramp, good - 2 * most - ramp
    if left <= mass:
        return np.nan
    t = mass / left
    shape = (t / (1 - t) * gaussian_norm(1, delta / 4) ** 2 - np.log(1 - t)) / 2
    fine = (1 - e.share) * epsilon - shape
    if fine < shape:
        return np.nan
    step = mass * np.sqrt(1 / left - 1 / n) / (n - most - mass) * (1 + (1 - t) ** -0.5)
    sd = (
        additive(ApproxDP(fine, delta / 2 * np.exp(-shape), "analytic"), step, step).variance ** 0.5
    )
    assert isinstance(law, dist.MultivariateGaussian | dist.Gaussian)
    sampling = 1 / n if metric == "q90" else 0.0
    noise = Gaussian(law.scale * float(np.sqrt(sd**2 * n + sampling)))
    return noise.norm_quantile(at.d, Q)
