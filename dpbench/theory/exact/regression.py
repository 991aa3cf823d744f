"""Exact errors of private regressions on a linear model, to first order in noise and sampling.

No estimator is called, and the formulas are not taken from the code of the estimators. A record has
d features x with E x x' = h I, where x' is the transpose, and a residual of standard deviation s.
If an estimate differs from the coefficients theta by v, its error is sqrt(h) |v|. This is the root
of the excess risk.

Least squares has errors v of covariance s^2/(n h) I, so its mean squared error is d s^2/n. Noise of
order d/(n sqrt(rho)) adds a mean squared error of order d^2/(n^2 rho).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for
from dpbench.theory.exact.clip_and_noise_oracle import gradient_descent_sd
from dpbench.theory.exact.noise import GaussianNoise, box_noise, concentrated
from dpbench.theory.exact.vectors import chi_sum_quantile

__all__: list[str] = []  # because the functions are registered

RIDGE_SHARE = 0.1  # share of the budget for the smallest eigenvalue, as in AdaSSP
MAX_RELATIVE_NOISE = 0.25  # noise of the moments over their smallest eigenvalue, for first order
TAIL_DEVIATIONS = 5.0  # standard deviations that the noise of this eigenvalue never exceeds


@exact_for(est.AdaSSP, est.GradientDescentRegression, est.SubsampleLeastSquares)
def _regression_error(
    metric: str, e: Any, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return an exact error statistic of a private linear regression; NaN if no formula is known.

    The error is the root of the excess risk. ``q90`` is its 0.9 quantile, and ``rmse`` its root
    mean square. Both count errors by noise and by sampling. ``noise_q90`` is the 0.9 quantile of
    the errors by noise alone.
    """
    if not isinstance(law, dist.LinearModel) or metric not in ("q90", "noise_q90", "rmse"):
        return np.nan
    d, h = law.features, 1 / (law.features + 2)
    if isinstance(e, est.AdaSSP):
        variances = _adassp_variances(e, law, setting)
    elif isinstance(e, est.GradientDescentRegression):
        sd = gradient_descent_sd(e.rate * e.clip, e.steps, setting)
        converges = abs(e.rate * h - 1) < 1e-3 and e.clip >= np.sqrt(3) * law.noise_sd
        variances = (h * sd**2, 0.0) if converges or metric == "noise_q90" else None
    else:
        variances = _bucket_variances(e, h, setting) if metric == "noise_q90" else None
    if variances is None:
        return np.nan
    variance, extra_variance = variances
    variance += 0.0 if metric == "noise_q90" else law.noise_sd**2 / setting.n
    if metric == "rmse":
        return float(np.sqrt(d * variance + extra_variance))
    return chi_sum_quantile(1, variance + extra_variance, d - 1, variance)


def _adassp_variances(
    e: est.AdaSSP, law: dist.LinearModel, setting: ReleaseSetting
) -> tuple[float, float] | None:
    """Return two variances of the errors that noise causes in AdaSSP, each multiplied by h.

    The features x have E x x' = h I, where x' is the transpose. Errors are those of the estimated
    coefficients theta. The first variance is that of the error in any direction at a right angle to
    theta. In the direction of theta, the unit vector w, the second variance is added to the first.

    1. Let B and Y bound the features x and the response y. Let u = x/B and z = y/Y. AdaSSP releases
       the means A of u u' and b of z u.
    2. Their noises N_A and N_b have the standard deviation s = (3/sqrt(2))/(n sqrt(2 rho 0.9)),
       because AdaSSP spends 0.9 of the budget rho on them.
    3. The error is (B Y N_b - B^2 N_A theta)/h, to first order. B Y N_b has the variance (s B Y)^2
       in every direction. B^2 N_A theta has the covariance (s B^2 |theta|)^2 (I + w w')/2.

    None if records are clipped, if AdaSSP may add a ridge, or if s is too large for the first
    order.
    """
    b, y, d, h = e.feature_bound, e.response_bound, law.features, 1 / (law.features + 2)
    if b < 1 or y < law.norm + np.sqrt(3) * law.noise_sd:
        return None
    rho = concentrated(setting.budget).rho
    s = 3 / np.sqrt(2) / setting.n / np.sqrt(2 * rho * (1 - RIDGE_SHARE))
    noise_bound = s * (np.sqrt(2 * d) + np.sqrt(2 * np.log(2 / e.beta)))
    eigenvalue_noise = TAIL_DEVIATIONS * 2 / setting.n / np.sqrt(2 * rho * RIDGE_SHARE)
    smallest = h / b**2 * (1 - TAIL_DEVIATIONS * np.sqrt(d / setting.n))
    if (
        eigenvalue_noise + noise_bound > smallest
        or s * np.sqrt(2 * d) > MAX_RELATIVE_NOISE * h / b**2
    ):
        return None
    quadratic = (s * b**2 * law.norm) ** 2 / 2
    return float(((s * b * y) ** 2 + quadratic) / h), float(quadratic / h)


def _bucket_variances(
    e: est.SubsampleLeastSquares, h: float, setting: ReleaseSetting
) -> tuple[float, float] | None:
    """Return two noise variances of averaged regressions on buckets, each multiplied by h.

    The features x have E x x' = h I, where x' is the transpose. The first variance is that of the
    noise in every direction. The second is always 0; it stands for additional noise in the
    direction of the true coefficients.

    The estimator clips the coefficients of every bucket to a box, and averages them. So the
    sensitivity of the average is the diagonal of the box over the number of buckets. None if the
    aggregate is not the mean, if it has no bounds, or if the noise is not Gaussian.
    """
    if e.aggregate != "mean" or e.lower is None or e.upper is None:
        return None
    noise = box_noise(setting.budget, setting.d - 1, (e.upper - e.lower) / e.buckets)
    return (h * noise.variance, 0.0) if isinstance(noise, GaussianNoise) else None
