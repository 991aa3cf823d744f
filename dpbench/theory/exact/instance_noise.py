"""Exact errors of noise that depends on the records: smooth and inverse sensitivity.

The formulas follow the definitions of the mechanisms, and no estimator is called. The definitions
of smooth sensitivity are in `dpbench.privacy.smooth`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, stdtr, stdtrit

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.privacy import ZCDP
from dpbench.theory.exact.averages import average, finite_atoms, median_quantile
from dpbench.theory.exact.choices import exponential_epsilon
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for
from dpbench.theory.exact.noise import Noise, binomial

__all__ = ["PiecewiseUniform"]

NAN = float("nan")


@dataclass(frozen=True)
class PiecewiseUniform(Noise):
    """Noise with a constant density between neighbouring edges; in general it is not symmetric.

    Parameters
    ----------
    edges : ndarray of shape (m,)
        Edges in increasing order, in the unit of the noise.
    below : ndarray of shape (m,)
        Probability of a value below each edge.
    """

    edges: Floats
    below: Floats

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(np.interp(x, self.edges, self.below, 0.0, 1.0))

    def isf(self, upper: float) -> float:
        return float(np.interp(1 - upper, self.below, self.edges))

    @property
    def variance(self) -> float:
        """Second moment E Z^2 of the noise Z around 0."""
        a, b = self.edges[:-1], self.edges[1:]
        return float(np.diff(self.below) @ (a * a + a * b + b * b) / 3)

    def distance(self, c: Floats) -> Floats:
        """Return E|c + Z| for the noise Z and every shift c.

        Each piece between two edges contributes its probability times its mean of |c + Z|.
        """
        a, b = self.edges[:-1] + c[:, None], self.edges[1:] + c[:, None]
        width = np.maximum(b - a, np.finfo(float).tiny)
        means = (b * np.abs(b) - a * np.abs(a)) / (2 * width)
        return np.asarray(means @ np.diff(self.below))

    def norm_quantile(self, d: int, q: float) -> float:
        excess = lambda x: float(self.cdf(np.asarray(x)) - self.cdf(np.asarray(-x)) - q)  # noqa: E731
        upper_end = float(np.abs(self.edges).max())
        return float(brentq(excess, 0.0, upper_end, xtol=1e-12 * upper_end))


def _inverse_sensitivity_noise(
    e: est.InverseSensitivity, points: tuple[Floats, Floats], setting: ReleaseSetting
) -> PiecewiseUniform:
    """Return the noise of the inverse sensitivity mechanism for a mean of clipped records.

    Each answer has a score, the number of records that have to be replaced to move the mean to this
    answer. The mechanism prefers answers of low score. The noise is computed for a data set in
    which every value occurs as often as expected.

    1. Moving the mean up takes replaced records: the k-th step replaces the k-th smallest record by
       the upper bound.
    2. Moving the mean down also takes replaced records: the k-th step replaces the k-th largest
       record by the lower bound.
    3. Answers with a density below e^-40 times the largest density are left out.
    """
    order = np.argsort(points[0])
    values, cumulative = np.clip(points[0][order], e.lower, e.upper), np.cumsum(points[1][order])
    half = exponential_epsilon(setting.budget) / 2
    k = np.arange(min(setting.n, int(40 / half) + 2))
    low = values[np.minimum(np.searchsorted(cumulative, (k + 0.5) / setting.n), len(values) - 1)]
    high = values[
        np.minimum(np.searchsorted(cumulative, 1 - (k + 0.5) / setting.n), len(values) - 1)
    ]
    up, down = (e.upper - low) / setting.n, (high - e.lower) / setting.n
    lengths = np.concatenate([down[::-1], [2 * e.resolution], up])
    decay = np.exp(-half * (k + 1))
    weights = lengths * np.concatenate([decay[::-1], [1.0], decay])
    edges = np.concatenate([[0.0], np.cumsum(lengths)]) - down.sum() - e.resolution
    return PiecewiseUniform(edges, np.concatenate([[0.0], np.cumsum(weights)]) / weights.sum())


def _is_stable(weights: Floats, setting: ReleaseSetting) -> bool:
    """Return whether the noise of inverse sensitivity is nearly that of expected data.

    There are 30 records or more. Of two values both are frequent, or replacing all records of the
    rare one changes the density little.
    """
    rare = setting.n * float(np.min(weights)) if len(weights) == 2 else np.inf
    frequent = rare >= 10 or rare * exponential_epsilon(setting.budget) <= 1
    return bool(setting.n >= 30 and frequent)


@dataclass(frozen=True)
class _StudentNoise:
    """Noise T/s for s > 0, where T has Student's t distribution with 3 degrees of freedom."""

    s: float

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(stdtr(3, x * self.s))

    @property
    def upper_end(self) -> float:
        """Point that the noise exceeds with probability 1e-6."""
        return float(stdtrit(3, 1 - 1e-6)) / self.s


@dataclass(frozen=True)
class _LogNormalNoise:
    """Laplace log-normal noise X e^(sigma Y)/s, for positive numbers sigma and s.

    X is a Laplace variable of scale 1, and Y is standard normal and independent of X.
    """

    sigma: float
    s: float

    def cdf(self, x: Floats) -> Floats:
        z = np.linspace(-8, 8, 41)
        weights = np.diff(ndtr(np.append(z - 0.2, 8.2)))
        tail = 0.5 * np.exp(-np.abs(x)[..., None] * self.s * np.exp(-self.sigma * z)) @ weights
        return np.where(x < 0, tail, 1 - tail)

    @property
    def upper_end(self) -> float:
        """Point that the noise hardly ever exceeds."""
        return float(20 * np.exp(5 * self.sigma)) / self.s


@dataclass(frozen=True)
class _PolyPlaceNoise:
    """PolyPlace noise X/t (HT25) for an epsilon of pure DP and a t-smooth sensitivity of 1.

    With a = epsilon/t, the density of X at x is proportional to (1 - |x|)^(a-1) for |x| <= 1/a. For
    larger |x| it is proportional to (1 + |x|)^(-a-1), and it is continuous.
    """

    epsilon: float
    t: float

    def cdf(self, x: Floats) -> Floats:
        a, y = self.epsilon / self.t, np.abs(x) * self.t
        edge = 1 / a
        near = (1 - (1 - np.minimum(y, edge)) ** a) / a
        height = (1 - edge) ** (a - 1)  # density at the edge, relative to the centre
        far = height * (1 + edge) / a
        beyond = far * ((1 + edge) / (1 + np.maximum(y, edge))) ** a
        half = (1 - (1 - edge) ** a) / a + far
        tail = 0.5 * (half - near - far + beyond) / half
        return np.asarray(np.where(x < 0, tail, 1 - tail))

    @property
    def upper_end(self) -> float:
        """Point that the noise exceeds with probability below 1e-6."""
        return float(np.expm1(2 + 15 * self.t / self.epsilon)) / self.t


def _unit_noise(
    smoothness_share: float, setting: ReleaseSetting, noise: str = "by_budget"
) -> tuple[float, _StudentNoise | _LogNormalNoise | _PolyPlaceNoise]:
    """Return the smoothing rate t of a smooth sensitivity, and the noise for a sensitivity of 1.

    A t-smooth sensitivity changes by a factor of at most e^t between neighbouring data sets. If
    `noise` is ``polyplace``, the noise is PolyPlace noise. Otherwise the distributions are from Bun
    and Steinke (BS19): Laplace log-normal under zCDP, Student's t otherwise. The modules
    `dpbench.privacy.smooth` and `dpbench.privacy.polyplace` prove the constants. `smoothness_share`
    is t divided by its largest value.
    """
    if noise == "polyplace":
        largest = setting.budget.pure_epsilon
        return smoothness_share * largest, _PolyPlaceNoise(largest, smoothness_share * largest)
    if isinstance(setting.budget, ZCDP):
        root = float(np.sqrt(2 * setting.budget.rho))
        return smoothness_share * root, _LogNormalNoise(
            1.05 * smoothness_share, root * _shift(smoothness_share)
        )
    epsilon = setting.budget.pure_epsilon
    return smoothness_share * epsilon / 3, _StudentNoise(
        (1 - smoothness_share) * epsilon * np.sqrt(3) / 2
    )


@cache
def _shift(tau: float) -> float:
    """Return the largest g for which Laplace log-normal noise S Z/(g sqrt(2 rho)) is rho-zCDP.

    S is a t-smooth sensitivity, and `tau` is t/sqrt(2 rho).

    1. Z is X e^(sigma Y) with sigma = 1.05 tau, for a Laplace variable X of scale 1 and a standard
       normal variable Y.
    2. Let p be the density of Z. Let B be the derivative of -ln p at |Z|, and A = |Z| B - 1.
    3. The noise is rho-zCDP if E exp(c tau A) cosh(c g B) <= e^(c^2/2) for all c.
       `dpbench.privacy.smooth` proves this condition. Here it is checked for 0.05 <= |c| <= 20.
    4. The code computes p as a sum over values of Y, and B as a difference quotient.
    """
    y = np.linspace(-12, 30, 1501) * 1.05 * tau
    z = np.exp(np.linspace(-25, 25 * 1.05 * tau + 5, 1501))
    joint = np.exp(-y - z[:, None] * np.exp(-y) - (y / (1.05 * tau)) ** 2 / 2)
    p = joint.sum(axis=1)
    b = -np.gradient(np.log(p), z, edge_order=2)
    a, weights = z * b - 1, p * np.gradient(z)
    a, b, weights = (part[weights > 1e-250] for part in (a, b, weights / weights.sum()))
    c = np.concatenate([-np.geomspace(0.05, 20, 60), np.geomspace(0.05, 20, 60)])[:, None]

    def excess(g: float) -> float:
        k = np.log(np.exp(c * tau * a) * np.cosh(c * g * b) @ weights)
        return float(np.max(k / c[:, 0] ** 2) - 0.5)

    return float(brentq(excess, 0.01, 1.0, xtol=1e-6))


def _trimmed_error(
    metric: str,
    e: est.SmoothSensitivityTrimmedMean,
    points: tuple[Floats, Floats],
    mean: float,
    setting: ReleaseSetting,
) -> float:
    """Return an error quantile of a trimmed mean with smooth sensitivity, for two-valued records.

    ``q90`` is the 0.9 quantile of |error|, and ``noise_q90`` is the 0.9 quantile of |noise|. The
    records take two values within the clipping bounds.

    1. The number S of records with the higher value is binomial.
    2. Let x_(i) be the i-th smallest of the n records. It has the higher value if i > n - S. For i
       = 0 it is the lower clipping bound, and for i = n + 1 the upper one.
    3. The estimator trims the m smallest and the m largest records.
    4. The smooth sensitivity is the largest value of e^(-t max(0, u + l)) (x_(n-m+1+u) -
       x_(m+1-l))/(n - 2m) over integers u >= -1 and l >= 0. Here t is the smoothing rate.
    """
    (low, high), n = np.sort(points[0]), setting.n
    t, noise = _unit_noise(e.smoothness_share, setting, e.noise)
    m = (
        min(int(np.ceil(np.log(n) / t)), (n - 1) // 2)
        if e.trimmed_records is None
        else e.trimmed_records
    )
    s, weights = binomial(n, float(points[1][np.argmax(points[0])]))
    high_records = np.clip(s - m, 0, n - 2 * m)
    value = low + (high - low) * high_records / (n - 2 * m)
    impossible = np.inf
    tops = [  # values of x_(n-m+1+u), each with its smallest u
        (low, np.where(s <= m, -1, impossible)),
        (high, np.where(s > 0, np.maximum(-1, m - s), impossible)),
        (e.upper, np.full_like(s, m)),
    ]
    tails = [  # values of x_(m+1-l), each with its smallest l
        (high, np.where(s >= n - m, 0, impossible)),
        (low, np.where(s < n, np.maximum(0, m + 1 - n + s), impossible)),
        (e.lower, np.full_like(s, m + 1)),
    ]
    gaps = [
        np.exp(-t * np.maximum(up + down, 0)) * (top - bottom)
        for (top, up), (bottom, down) in itertools.product(tops, tails)
    ]
    scale = np.maximum(np.max(gaps, axis=0) / (n - 2 * m), np.finfo(float).tiny)
    sampling_error = value - mean if metric == "q90" else np.zeros_like(value)

    def excess(x: float) -> float:
        return float(
            weights
            @ (noise.cdf((x - sampling_error) / scale) - noise.cdf((-x - sampling_error) / scale))
            - 0.9
        )

    upper_end = float(np.max(np.abs(sampling_error)) + noise.upper_end * np.max(scale))
    return float(brentq(excess, 0.0, upper_end, xtol=1e-12 * upper_end, rtol=1e-8))


@exact_for(est.SmoothSensitivityTrimmedMean, est.InverseSensitivity)
def _instance_error(
    metric: str, estimator: Any, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return an error quantile of an estimator with smooth or inverse sensitivity.

    ``q90`` is the 0.9 quantile of |error|, and ``noise_q90`` is the 0.9 quantile of |noise|. The
    result is NaN for other columns, and if no formula is known.

    - The formula for smooth sensitivity needs records with two values.
    - For inverse sensitivity of a mean, the noise is computed for a data set in which every value
      occurs as often as expected. The result is NaN for too few records (`_is_stable`).
    """
    e, points = estimator, finite_atoms(law) if law.d == 1 else None
    if points is None or metric not in ("q90", "noise_q90"):
        return NAN
    if isinstance(e, est.SmoothSensitivityTrimmedMean):
        two_values_inside = len(points[0]) == 2 and np.all(
            np.clip(points[0], e.lower, e.upper) == points[0]
        )
        return (
            _trimmed_error(metric, e, points, float(law.target), setting)
            if two_values_inside
            else NAN
        )
    if e.statistic == "median" or not _is_stable(points[1], setting):
        return NAN
    noise = _inverse_sensitivity_noise(e, points, setting)
    if metric == "noise_q90":
        return noise.norm_quantile(1, 0.9)
    errors = np.clip(points[0], e.lower, e.upper) - law.target
    distribution = average(errors, points[1], setting.n, noise.variance)
    return NAN if distribution is None else median_quantile(*distribution, noise, 1)
