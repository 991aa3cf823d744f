"""Exact errors of vector means and of covariances, up to the order that each function states.

The formulas follow the sources, and no estimator is called. In formulas n and d are the numbers of
records and coordinates.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtr, chdtri, chndtrix

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.privacy import ApproxDP, PureDP
from dpbench.theory.exact.choices import is_isotropic
from dpbench.theory.exact.clip_and_noise import ClipAndNoise, ReleaseSetting, exact_for
from dpbench.theory.exact.clip_and_noise_oracle import (
    coinpress_round,
    gaussian_norm_bound,
    round_shares,
)
from dpbench.theory.exact.noise import GaussianNoise, additive, concentrated

__all__ = ["ball_error", "chi_sum_quantile"]

Q = 0.9  # probability of all quantiles
MAX_COUNT_VARIANCE = 0.2  # times 1/d this is a tenth of the relative variance 2/d of a chi-square
# Values of `min_ratio` in `_input_variance`, from which on formulas are accurate: to 2 per cent for
# the covariance, and to 7 per cent for the whitened mean with a slack of at most MAX_SLACK.
MIN_COVARIANCE_RATIO = 0.75
MIN_WHITENED_RATIO = 0.15
MAX_SLACK = 1.5
AFFINE = ("q90", "noise_q90", "privacy_cost_q90")  # known columns of the affine-invariant mean
# Noise of an entry off the diagonal, relative to the diagonal, by the estimator's `entry_noise`.
OFF_DIAGONAL = {"equal": 1.0, "frobenius": 2**-0.5}
COVARIANCE_B = 0.1  # b of gamma for the covariance of a whitened mean, from the authors' code


def ball_error(
    metric: str,
    e: est.KSU20BallMean,
    law: dist.SignedTwoPoint,
    setting: ReleaseSetting,
    step: ClipAndNoise,
) -> float:
    """Return an exact error quantile of KSU20, Algorithm 3, on records from `SignedTwoPoint`.

    A record is 0, or with probability p a rare vector with d coordinates +-tau. The first
    coordinate of all rare vectors has the same sign, so the mean lies on the first axis and has the
    norm p tau. The algorithm averages a share f of the n records in a ball of radius r. The centre
    of the ball is off 0 by far less than tau sqrt(d), and hardly any record 0 is discarded.

    1. The average contains s times each rare vector. If the vector is in the ball, s = 1. Otherwise
       s is r/(tau sqrt(d)) if vectors are projected, and 0 if they are discarded.
    2. By the central limit theorem the error is normal. Its mean is (s - 1) p tau in the first
       coordinate. Its variance in every coordinate is p tau^2 s^2/(f n) plus the variance of the
       noise.
    3. ``privacy_cost_q90`` compares the release with the mean of all records instead. Then
       p tau^2 ((s - f)^2 + f (1-f))/(f n) replaces the term p tau^2 s^2/(f n).
    4. So the norm of the error has a scaled non-central chi distribution if the noise is Gaussian.
       Other noise gives NaN.
    5. The number m of averaged rare vectors varies. Let h be their share of the total variance. The
       variation of m adds h^2/m to the relative variance of the squared norm. The result is NaN
       unless h^2/m is small compared with 2/d, the relative variance of a chi-square.

    Parameters
    ----------
    metric : {'q90', 'privacy_cost_q90'}
        Column.
    e : KSU20BallMean
        Only its parameters are read.
    law : SignedTwoPoint
        Distribution of the records.
    setting : ReleaseSetting
        Numbers of records and coordinates, and budget.
    step : ClipAndNoise
        Ball, noise and number of averaged records.

    Returns
    -------
    float
        0.9 quantile of the norm, in the unit of the records; NaN if it is not known.
    """
    if not isinstance(step.noise, GaussianNoise):
        return np.nan
    averaged, norm = step.records, law.tau * np.sqrt(setting.d)
    f = averaged / setting.n
    s = 1.0
    if norm > step.half_width:
        s = step.half_width / norm if e.outside == "project" else 0.0
    share = s**2 if metric == "q90" else (s - f) ** 2 + f * (1 - f)
    sampling = law.p * law.tau**2 * share / averaged
    variance = sampling + step.noise.variance
    if setting.d * (sampling / variance) ** 2 > MAX_COUNT_VARIANCE * law.p * averaged:
        return np.nan
    shift = ((s - 1) * law.p * law.tau) ** 2 / variance
    norm_square = chndtrix(Q, setting.d, shift) if shift else chdtri(setting.d, 1 - Q)
    return float(np.sqrt(variance * norm_square))


@exact_for(est.CoinPressCovariance, est.WhitenedCoinPressMean)
def _covariance_quantile(
    metric: str,
    e: est.CoinPressCovariance | est.WhitenedCoinPressMean,
    law: dist.Distribution,
    setting: ReleaseSetting,
) -> float:
    """Return an exact 0.9 quantile for CoinPress's covariance, or for a mean that it whitens.

    Whitening multiplies the records by a root of the inverse covariance. For the covariance of N(0,
    I), the known columns are ``q90`` (error) and ``noise_q90`` (noise). For the whitened mean of
    N(mu, I), the only known column is ``noise_q90``. NaN in all other cases.
    """
    if not isinstance(law, dist.MultivariateGaussian) or not is_isotropic(law) or law.scale != 1:
        return np.nan
    if isinstance(e, est.WhitenedCoinPressMean):
        return _whitened_noise(e, setting) if metric == "noise_q90" and setting.n > 1 else np.nan
    return np.nan if law.norm else _covariance_error(metric, e, setting)


def _input_variance(
    bound: float, rounds: int, b: float, setting: ReleaseSetting, min_ratio: float, noise: str
) -> float:
    """Return the variance v of rescaled N(0, I) records before CoinPress's last covariance round.

    Each round rescales the records by its estimate of the covariance. Before the first round the
    records are scaled to the variance 1/bound.

    1. If there is a single round, v is 1/bound. Otherwise v is close to 1/(1 + eta), where eta
       bounds the relative sampling error (`_eta`).
    2. The result is NaN for a bound below 1, because records are then clipped.
    3. Noise may leave a smaller variance in some direction. The smallest variance is computed as
       if the noise added 2 sqrt(d) times its standard deviation to the covariance, which is that of
       the entries off the diagonal. The result is NaN unless the smallest variance is above
       `min_ratio` times 1/(1 + eta).

    `noise` is the estimator's `entry_noise`.
    """
    eta, v = _eta(setting), 1 / bound
    if bound < 1 or rounds == 1:
        return v if bound >= 1 else np.nan
    for share in round_shares(rounds)[:-1]:
        sd = _noise_sd(b, share, setting) * OFF_DIAGONAL[noise]
        v /= v + eta + 2 * np.sqrt(setting.d) * sd
    return 1 / (1 + eta) if v * (1 + eta) > min_ratio else np.nan


def _covariance_error(metric: str, e: est.CoinPressCovariance, setting: ReleaseSetting) -> float:
    """Return the 0.9 quantile of the error, or of the noise, of CoinPress's covariance of N(0, I).

    The error is the Frobenius norm relative to the covariance. Let v be the variance of the input
    of the last round.

    1. Each entry of the upper triangle gets noise of standard deviation sqrt(2) gamma^2/(n sqrt(2
       rho)). Here gamma is `gaussian_norm_bound`, and rho the budget of the round. Divided by v,
       this standard deviation is relative to the covariance. Off the diagonal it is smaller by
       sqrt(2) if the estimator's `entry_noise` is ``frobenius``.
    2. The sampling error of an entry has variance 2/n on the diagonal and 1/n off the diagonal.
    3. In the squared norm every entry off the diagonal counts twice. So the squared norm is a sum
       of two scaled chi-squares.
    """
    if metric not in ("q90", "noise_q90"):
        return np.nan
    sampling = 1 / setting.n if metric == "q90" else 0.0
    sd = _noise_sd(e.b, round_shares(e.rounds)[-1], setting) / _input_variance(
        e.bound, e.rounds, e.b, setting, MIN_COVARIANCE_RATIO, e.entry_noise
    )
    off_diagonal = sd * OFF_DIAGONAL[e.entry_noise]
    pairs = setting.d * (setting.d - 1) // 2
    return chi_sum_quantile(
        setting.d, 2 * sampling + sd**2, pairs, 2 * (sampling + off_diagonal**2)
    )


def _eta(setting: ReleaseSetting) -> float:
    """Return CoinPress's bound eta on the relative sampling error of a covariance."""
    return float(np.sqrt(setting.d / setting.n) + setting.d / setting.n / 2)


def _noise_sd(b: float, share: float, setting: ReleaseSetting) -> float:
    """Return the standard deviation of the noise of one round of CoinPress's covariance.

    `share` is the round's share of the budget. Each entry of the upper triangle gets this noise.
    """
    sensitivity = np.sqrt(2) * gaussian_norm_bound(setting.d, b) ** 2 / setting.n
    return float(sensitivity / np.sqrt(2 * concentrated(setting.budget).rho * share))


def chi_sum_quantile(count: int, variance: float, other_count: int, other_variance: float) -> float:
    """Return the 0.9 quantile of the norm of a vector x of independent normal numbers of mean 0.

    Every coordinate of x has one of two variances.

    Parameters
    ----------
    count : int
        Number of coordinates with the first variance.
    variance : float
        First variance. If it is NaN or infinite, the result is NaN.
    other_count : int
        Number of coordinates with the second variance.
    other_variance : float
        Second variance.

    Returns
    -------
    float
        Quantile.
    """
    if not np.isfinite(variance):
        return np.nan
    if other_count == 0:
        return float(np.sqrt(variance * chdtri(count, 1 - Q)))
    grid = chdtri(other_count, (np.arange(4000) + 0.5) / 4000) * other_variance

    def excess(x: float) -> float:
        return float(chdtr(count, np.maximum(x - grid, 0) / variance).mean() - Q)

    upper_end = float(grid.max() + 100 * count * variance)
    return float(np.sqrt(brentq(excess, 0.0, upper_end, xtol=1e-12 * upper_end)))


def _whitened_noise(e: est.WhitenedCoinPressMean, setting: ReleaseSetting) -> float:
    """Return the 0.9 quantile of the noise of a mean that CoinPress whitens, for N(mu, I) records.

    Whitening multiplies the records by a matrix B, and the mean is transformed back at the end.

    1. CoinPress fits the covariance to n/2 pairs. In its last round the pairs are scaled by a
       matrix A near sqrt(v) I, and the round's noisy covariance Z is near v I. `_input_variance`
       gives v.
    2. A slack is added to Z, so B = A (Z + slack)^(-1/2). B is near I/sqrt(1 + slack/v). The slack
       is eta + 2 sd (sqrt(d) + sqrt(ln 100)). Here eta bounds the relative sampling error, and sd
       is the standard deviation of the noise of Z off the diagonal.
    3. CoinPress then estimates the mean of the multiplied records, in rounds of its own. The first
       of these rounds starts from a ball of radius R |B|. Here R (`e.radius`) bounds the norm of
       the original mean, and |B| is the spectral norm of B. The result is the noise of the last of
       these rounds times 1/|B|, because the mean is transformed back.
    """
    rho, rounds = concentrated(setting.budget), e.covariance_rounds
    pair_setting = ReleaseSetting(setting.n // 2, setting.d, rho.fraction(e.covariance_share))
    sd = _noise_sd(COVARIANCE_B, round_shares(rounds)[-1], pair_setting)
    sd *= OFF_DIAGONAL[e.entry_noise]
    slack = _eta(pair_setting) + 2 * sd * (np.sqrt(setting.d) + np.sqrt(np.log(100)))
    slack /= _input_variance(
        e.bound, rounds, COVARIANCE_B, pair_setting, MIN_WHITENED_RATIO, e.entry_noise
    )
    if not slack <= MAX_SLACK:
        return np.nan
    stretch = float(np.sqrt(1 + slack))
    mean_setting = ReleaseSetting(setting.n, setting.d, rho.fraction(1 - e.covariance_share))
    sd, _ = coinpress_round(e.radius / stretch, round_shares(e.rounds), e.b, mean_setting)
    return GaussianNoise(sd * stretch).norm_quantile(setting.d, Q)


@exact_for(est.AffineInvariantMean)
def _affine_error(
    metric: str, e: est.AffineInvariantMean, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return a 0.9 quantile of the affine-invariant mean on Gaussian records.

    ``q90`` is a quantile of the error; ``noise_q90`` and ``privacy_cost_q90`` are quantiles of the
    noise alone. An error x is measured by |C^(-1/2) x|, where C is the covariance of the records
    over the squared `scale` of their distribution. The estimator gives nearly all records the
    weight 1, so every weight is treated as 1.

    1. The estimator first tests privately that few records have a large leverage.
    2. The noise is Gaussian with the covariance sd^2 V. V is the scatter matrix, which is n times
       the covariance of the records. Here sd is the standard deviation that the budget
       `mean_epsilon` needs for the sensitivity `step`.
    3. The test gets a part of the budget, and `shape_epsilon` pays for the dependence of V on the
       records. `mean_epsilon` is the rest.

    Symbols and proof are in `dpbench.estimators.affine_invariant`: in the code `max_score` is K,
    `inverse` is M, and `mass` is s.
    """
    supported = isinstance(law, dist.MultivariateGaussian) and (is_isotropic(law) or law.relative)
    if not (supported or isinstance(law, dist.Gaussian)) or e.leverage or metric not in AFFINE:
        return np.nan
    assert isinstance(setting.budget, ApproxDP)
    n, epsilon, delta = setting.n, setting.budget.epsilon, setting.budget.delta
    max_score = np.ceil(2 * additive(PureDP(e.share * epsilon), 1.0, 1.0).isf(delta / 4))
    inverse = n / (1 + float(chdtri(setting.d, e.beta / n)))
    ramp = max(
        1.0, (np.sqrt(max(0.0, max_score * (8 * inverse - 7 * max_score))) - 3 * max_score) / 2
    )
    mass, inverse_leverage = 1 + max_score / ramp, inverse - 2 * max_score - ramp
    if inverse_leverage <= mass:
        return np.nan
    t = mass / inverse_leverage
    shape_epsilon = (t / (1 - t) * gaussian_norm_bound(1, delta / 4) ** 2 - np.log(1 - t)) / 2
    mean_epsilon = (1 - e.share) * epsilon - shape_epsilon
    if mean_epsilon < shape_epsilon:
        return np.nan
    step = (
        mass
        * np.sqrt(1 / inverse_leverage - 1 / n)
        / (n - max_score - mass)
        * (1 + (1 - t) ** -0.5)
    )
    sd = (
        additive(
            ApproxDP(mean_epsilon, delta / 2 * np.exp(-shape_epsilon), "analytic"), step, step
        ).variance
        ** 0.5
    )
    assert isinstance(law, dist.MultivariateGaussian | dist.Gaussian)
    sampling = 1 / n if metric == "q90" else 0.0
    noise = GaussianNoise(law.scale * float(np.sqrt(sd**2 * n + sampling)))
    return noise.norm_quantile(setting.d, Q)
