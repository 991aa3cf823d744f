"""Exact values of regressions on a linear model, to the first order in noise and sampling errors.

Written from the formulas, like `dpbench.theory.exact.value`, without calling an estimator. With
S = h I an error e of theta counts sqrt(h) |e|, the root of its excess risk. Least squares has
errors of covariance s^2/(n h) I, s the deviation of the response: they count as N(0, s^2/n I),
whose mean square is the rate d/n; noise of deviation of order d/(n sqrt(rho)) has d^2/(n^2 rho).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for
from dpbench.theory.exact.clip_and_noise_oracle import descended
from dpbench.theory.exact.noise import concentrated
from dpbench.theory.exact.vectors import sum_quantile

__all__: list[str] = []  # it registers

RIDGE_SHARE = 0.1
SMALL = 0.25  # noise of the moments, over their least eigenvalue, that counts as first order
TAIL = 5.0  # deviations within which the noise of that eigenvalue is for sure


@exact_for(est.AdaSSP, est.GradientDescentRegression, est.SubsampleLeastSquares)
def _regression_error(metric: str, e: Any, law: dist.Distribution, at: ReleaseSetting) -> float:
    """A column of a summary, for vectors of noise (``noise_q90``), and of all errors; else NaN."""
    if not isinstance(law, dist.LinearModel) or metric not in ("q90", "noise_q90", "rmse"):
        return np.nan
    d, h = law.features, 1 / (law.features + 2)
    if isinstance(e, est.AdaSSP):
        found = _moments(e, law, at)
    elif isinstance(e, est.GradientDescentRegression):
        sd = descended(e.rate * e.clip, e.steps, at)
        settled = abs(e.rate * h - 1) < 1e-3 and e.clip >= np.sqrt(3) * law.deviation
        found = (h * sd**2, 0.0) if settled or metric == "noise_q90" else None
    else:
        found = _buckets(e, h, at) if metric == "noise_q90" else None
    if found is None:
        return np.nan
    every, along = found
    every += 0.0 if metric == "noise_q90" else law.deviation**2 / at.n
    if metric == "rmse":
        return float(np.sqrt(d * every + along))
    return sum_quantile(1, every + along, d - 1, every)


def _moments(
    e: est.AdaSSP, law: dist.LinearModel, at: ReleaseSetting
) -> tuple[float, float] | None:
    """Variances of errors (N_b - N_A theta)/h, times h: of all directions, and more along theta.

    Of u = x/B and y/Y the noise of (A, b) has s = (3/sqrt 2)/(n sqrt(2 rho 0.9)), so that N_b has
    the variance (s B Y)^2 in every direction, and N_A theta (s B^2 |theta|)^2 (I + vv')/2, v along
    theta. None if records are clipped, if there may be a ridge, or if s is too large.
    """
    b, y, d, h = e.feature_bound, e.response_bound, law.features, 1 / (law.features + 2)
    if b < 1 or y < law.norm + np.sqrt(3) * law.deviation:
        return None
    rho = concentrated(at.budget).rho
    s = 3 / np.sqrt(2) / at.n / np.sqrt(2 * rho * (1 - RIDGE_SHARE))
    widest = s * (np.sqrt(2 * d) + np.sqrt(2 * np.log(2 / e.beta)))
    known = TAIL * 2 / at.n / np.sqrt(2 * rho * RIDGE_SHARE)
    least = h / b**2 * (1 - TAIL * np.sqrt(d / at.n))
    if known + widest > least or s * np.sqrt(2 * d) > SMALL * h / b**2:
        return None
    quadratic = (s * b**2 * law.norm) ** 2 / 2
    return float(((s * b * y) ** 2 + quadratic) / h), float(quadratic / h)


def _buckets(
    e: est.SubsampleLeastSquares, h: float, at: ReleaseSetting
) -> tuple[float, float] | None:
    """Of an average of outputs in a box: its diagonal over the number of buckets is sensitivity."""
    if e.aggregate != "mean" or e.lower is None or e.upper is None:
        return None
    step = np.sqrt(at.d - 1) * (e.upper - e.lower) / e.buckets
    return float(h * step**2 / (2 * concentrated(at.budget).rho)), 0.0
