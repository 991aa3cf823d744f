"""Errors of noise that knows the instance, without drawing: smooth and inverse sensitivity.

Written from the definitions, like `dpbench.theory.exact.value`, without calling an estimator.
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

__all__ = ["Steps"]

NAN = float("nan")


@dataclass(frozen=True)
class Steps(Noise):
    """Not symmetric: uniform on each of the pieces between `edges`, to each side of 0."""

    edges: Floats
    below: Floats  # probabilities, of each edge

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(np.interp(x, self.edges, self.below, 0.0, 1.0))

    def above(self, upper: float) -> float:
        return float(np.interp(1 - upper, self.below, self.edges))

    @property
    def variance(self) -> float:
        """Around 0."""
        a, b = self.edges[:-1], self.edges[1:]
        return float(np.diff(self.below) @ (a * a + a * b + b * b) / 3)

    def distance(self, c: Floats) -> Floats:
        """E|c + Z|, by the integral of P(|Z + c| > x)."""
        a, b = self.edges[:-1] + c[:, None], self.edges[1:] + c[:, None]
        width = np.maximum(b - a, np.finfo(float).tiny)
        means = (b * np.abs(b) - a * np.abs(a)) / (2 * width)
        return np.asarray(means @ np.diff(self.below))

    def norm_quantile(self, d: int, q: float) -> float:
        missing = lambda x: float(self.cdf(np.asarray(x)) - self.cdf(np.asarray(-x)) - q)  # noqa: E731
        return float(brentq(missing, 0.0, np.abs(self.edges).max()))


def _inverse_steps(
    e: est.InverseSensitivity, points: tuple[Floats, Floats], at: ReleaseSetting
) -> Steps:
    """On records that have these values as often as they should.

    The k-th step up replaces the k-th smallest record by the upper bound; down it is alike. What
    is beyond as many as weigh e^-40 of the first is left out.
    """
    order = np.argsort(points[0])
    values, upto = np.clip(points[0][order], e.lower, e.upper), np.cumsum(points[1][order])
    half = exponential_epsilon(at.budget) / 2
    k = np.arange(min(at.n, int(40 / half) + 2))
    low = values[np.minimum(np.searchsorted(upto, (k + 0.5) / at.n), len(values) - 1)]
    high = values[np.minimum(np.searchsorted(upto, 1 - (k + 0.5) / at.n), len(values) - 1)]
    up, down = (e.upper - low) / at.n, (high - e.lower) / at.n
    lengths = np.concatenate([down[::-1], [2 * e.resolution], up])
    fall = np.exp(-half * (k + 1))
    weights = lengths * np.concatenate([fall[::-1], [1.0], fall])
    edges = np.concatenate([[0.0], np.cumsum(lengths)]) - down.sum() - e.resolution
    return Steps(edges, np.concatenate([[0.0], np.cumsum(weights)]) / weights.sum())


@dataclass(frozen=True)
class _Student:
    """With 3 degrees of freedom, over s."""

    s: float

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(stdtr(3, x * self.s))

    @property
    def most(self) -> float:
        return float(stdtrit(3, 1 - 1e-6)) / self.s


@dataclass(frozen=True)
class _LaplaceLogNormal:
    """X e^(sigma Y) over s."""

    sigma: float
    s: float

    def cdf(self, x: Floats) -> Floats:
        z = np.linspace(-8, 8, 41)
        weights = np.diff(ndtr(np.append(z - 0.2, 8.2)))
        tail = 0.5 * np.exp(-np.abs(x)[..., None] * self.s * np.exp(-self.sigma * z)) @ weights
        return np.where(x < 0, tail, 1 - tail)

    @property
    def most(self) -> float:
        return float(20 * np.exp(5 * self.sigma)) / self.s


def _unit_noise(dilation: float, at: ReleaseSetting) -> tuple[float, _Student | _LaplaceLogNormal]:
    """t, and the noise at a smooth sensitivity of 1: BS19 with the constants of our proof."""
    if isinstance(at.budget, ZCDP):
        root = float(np.sqrt(2 * at.budget.rho))
        return dilation * root, _LaplaceLogNormal(1.05 * dilation, root * _shift(dilation))
    epsilon = at.budget.pure_epsilon
    return dilation * epsilon / 3, _Student((1 - dilation) * epsilon * np.sqrt(3) / 2)


@cache
def _shift(x: float) -> float:
    """The largest g with E exp(c x A) cosh(c g B) <= e^(c^2/2); see `dpbench.privacy.smooth`.

    The density of Z is a sum over Y, of which A and B are differences; c up to 20.
    """
    y = np.linspace(-12, 30, 1501) * 1.05 * x
    z = np.exp(np.linspace(-25, 25 * 1.05 * x + 5, 1501))
    joint = np.exp(-y - z[:, None] * np.exp(-y) - (y / (1.05 * x)) ** 2 / 2)
    p = joint.sum(axis=1)
    b = -np.gradient(np.log(p), z, edge_order=2)
    a, weights = z * b - 1, p * np.gradient(z)
    a, b, weights = (part[weights > 1e-250] for part in (a, b, weights / weights.sum()))
    c = np.concatenate([-np.geomspace(0.05, 20, 60), np.geomspace(0.05, 20, 60)])[:, None]

    def excess(g: float) -> float:
        k = np.log(np.exp(c * x * a) * np.cosh(c * g * b) @ weights)
        return float(np.max(k / c[:, 0] ** 2) - 0.5)

    return float(brentq(excess, 0.01, 1.0, xtol=1e-6))


def _trimmed_error(
    metric: str,
    e: est.SmoothSensitivityTrimmedMean,
    points: tuple[Floats, Floats],
    mean: float,
    at: ReleaseSetting,
) -> float:
    """``q90`` and ``noise_q90`` where records have one of two values, both within the bounds.

    Of n records S, binomial, have the higher one: x_(i) for i > n - S.
    """
    (low, high), n = np.sort(points[0]), at.n
    t, noise = _unit_noise(e.smoothness_share, at)
    m = (
        min(int(np.ceil(np.log(n) / t)), (n - 1) // 2)
        if e.trimmed_records is None
        else e.trimmed_records
    )
    s, weights = binomial(n, float(points[1][np.argmax(points[0])]))
    kept = np.clip(s - m, 0, n - 2 * m)
    value = low + (high - low) * kept / (n - 2 * m)
    never = np.inf
    tops = [  # values, and how many ranks above n - m + 1 the first of each is
        (low, np.where(s <= m, -1, never)),
        (high, np.where(s > 0, np.maximum(-1, m - s), never)),
        (e.upper, np.full_like(s, m)),
    ]
    tails = [
        (high, np.where(s >= n - m, 0, never)),
        (low, np.where(s < n, np.maximum(0, m + 1 - n + s), never)),
        (e.lower, np.full_like(s, m + 1)),
    ]
    gaps = [
        np.exp(-t * np.maximum(up + down, 0)) * (top - bottom)
        for (top, up), (bottom, down) in itertools.product(tops, tails)
    ]
    scale = np.maximum(np.max(gaps, axis=0) / (n - 2 * m), np.finfo(float).tiny)
    off = value - mean if metric == "q90" else np.zeros_like(value)

    def missing(x: float) -> float:
        return float(weights @ (noise.cdf((x - off) / scale) - noise.cdf((-x - off) / scale)) - 0.9)

    most = float(np.max(np.abs(off)) + noise.most * np.max(scale))
    return float(brentq(missing, 0.0, most, xtol=1e-12 * most, rtol=1e-8))


@exact_for(est.SmoothSensitivityTrimmedMean, est.InverseSensitivity)
def _instance_error(
    metric: str, estimator: Any, law: dist.Distribution, at: ReleaseSetting
) -> float:
    """Of a smooth sensitivity on two values, or an inverse one on records near what is expected."""
    e, points = estimator, finite_atoms(law) if law.d == 1 else None
    if points is None or metric not in ("q90", "noise_q90"):
        return NAN
    if isinstance(e, est.SmoothSensitivityTrimmedMean):
        inside = len(points[0]) == 2 and np.all(np.clip(points[0], e.lower, e.upper) == points[0])
        return _trimmed_error(metric, e, points, float(law.target), at) if inside else NAN
    if e.statistic == "median":
        return NAN
    steps = _inverse_steps(e, points, at)
    if metric == "noise_q90":
        return steps.norm_quantile(1, 0.9)
    away = np.clip(points[0], e.lower, e.upper) - law.target
    found = average(away, points[1], at.n, steps.variance)
    return NAN if found is None else median_quantile(*found, steps, 1)
