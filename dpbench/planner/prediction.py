"""The error of a clipped mean with noise on a known law, by numerical convolution.

The release is the average V of the clipped records plus noise Z; V is a binomial, normal, or an
n-fold convolution (`dpbench.theory.exact.averages`), and P(|V + Z - mu| <= x) is a mean over V of
the noise's distribution function. Where records are added or removed it is the ratio of two noisy
sums (`dpbench.theory.exact.ratio`).

Which clip is best? The law is no guide by itself: of a symmetric law any clip around its middle is
without bias, and the narrowest has no noise. It releases what one believed before. So a clip [a, b]
is judged as if what it cuts off on the two sides did not cancel: by the error at the bias
E(X - b)+ + E(a - X)+. Of all clips with no more of that the narrowest, with the least noise, has
P(X > b) = P(X < a), by Lagrange's rule: the search is for that probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from dpbench.arrays import Floats
from dpbench.distributions import Distribution
from dpbench.estimators import HeavyTailedMean, TransformedNoiseMean
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.privacy import Budget
from dpbench.theory.exact.averages import Atoms, atoms, average_of_few
from dpbench.theory.exact.noise import Noise, additive, standard_normal
from dpbench.theory.exact.ratio import ratio_error

__all__ = ["AnyLaw", "Clip", "Error", "KnownLaw", "Moments", "Problem"]

Clip = tuple[float, float]
STEPS = 12  # of probabilities that are tried before the best is refined
MOST_ATOMS = 2000
UNSEEN = 1e-18  # the probability of an atom that counts nowhere


class Error(NamedTuple):
    """What a release errs by, in the unit of the records.

    Attributes
    ----------
    q50, q90 : float
        Quantiles of the absolute error.
    sampling, noise : float
        The 0.9 quantile of what the average of the clipped records, and the noise, contribute.
    bias : float
        What the clip moves the mean by.
    careful : float
        The 0.9 quantile if what is cut off on the two sides did not cancel: what a clip is chosen
        by.
    """

    q50: float
    q90: float
    sampling: float
    bias: float
    noise: float
    careful: float


def _quantile(values: Floats, weights: Floats, noise: Noise | None, q: float) -> float:
    """The q quantile of |V + Z|, or of |V|."""
    if noise is None:
        order = np.argsort(np.abs(values))
        return float(np.abs(values)[order][np.searchsorted(np.cumsum(weights[order]), q)])

    def missing(x: float) -> float:
        return float(weights @ (noise.cdf(x - values) - noise.cdf(-x - values))) - q

    most = noise.above((1 - q) / 8) + float(np.max(np.abs(values)))
    return float(brentq(missing, 0.0, most, xtol=1e-12 * most, rtol=1e-6))


@dataclass(frozen=True)
class KnownLaw:
    """Records from a law of numbers, given as atoms.

    Parameters
    ----------
    values, weights : (m,) arrays
        Points, increasing, and their probabilities.
    target : float
        What is estimated, the law's mean, or the mean of what is not contaminated.
    sd : float
        The law's standard deviation, infinite if it has none.
    low, high : float
        Ends that a clip may not pass.
    """

    values: Floats
    weights: Floats
    target: float
    sd: float
    low: float = -np.inf
    high: float = np.inf

    @classmethod
    def of(cls, law: Distribution, low: float = -np.inf, high: float = np.inf) -> KnownLaw:
        """That of a distribution whose atoms are known, or of many atoms, neighbours together."""
        found = atoms(law)
        assert found is not None
        seen = found[1] > UNSEEN
        order = np.argsort(found[0][seen], kind="stable")
        values, weights = (one[seen][order] for one in found)
        starts = np.arange(0, values.size, -(-values.size // MOST_ATOMS))
        whole = np.add.reduceat(weights, starts)
        values = np.add.reduceat(values * weights, starts) / whole
        sd = float(np.sqrt(law.variance))
        return cls(values, whole / whole.sum(), float(law.mean), sd, low, high)

    @cached_property
    def _below(self) -> Floats:
        """P(X < x) + P(X = x)/2 at the atoms."""
        return np.asarray(np.cumsum(self.weights) - self.weights / 2)

    def clip_of(self, outside: float) -> Clip:
        """The clip that so much of the law is beyond, on either side."""
        a, b = np.interp([outside, 1 - outside], self._below, self.values)
        return max(float(a), self.low), min(float(b), self.high)

    def scaled(self, clip: Clip, share: float) -> Clip:
        """That of those clips which is `share` times as wide as this one, or as may be."""
        wanted = share * (clip[1] - clip[0])

        def excess(log_outside: float) -> float:
            a, b = self.clip_of(float(np.exp(log_outside)))
            return (b - a) / wanted - 1

        ends = -35.0, float(np.log(0.5))
        outside = ends[0] if excess(ends[0]) <= 0 else brentq(excess, *ends)
        return self.clip_of(float(np.exp(outside)))

    def _parts(self, clip: Clip, n: int, budget: Budget) -> tuple[Atoms, float, float]:
        """The average of n clipped records, the bias, and what is cut off on both sides."""
        clipped, step = np.clip(self.values, *clip), (clip[1] - clip[0]) / n
        cut = float(self.weights @ np.abs(self.values - clipped))
        found = average_of_few(clipped, self.weights, n, additive(budget, step, step).variance)
        return found, float(self.weights @ clipped) - self.target, cut

    def error(self, clip: Clip, n: int, budget: Budget) -> Error:
        """Of n records clipped to [a, b]."""
        (values, weights), bias, cut = self._parts(clip, n, budget)
        centred, sign = values - self.target - bias, 1 if bias >= 0 else -1
        found = self._release(clip, n, budget)
        return Error(
            found(0.5, centred, weights, bias),
            found(0.9, centred, weights, bias),
            _quantile(centred, weights, None, 0.9),
            bias,
            found(0.9, np.zeros(1), np.ones(1), 0.0),
            found(0.9, centred, weights, sign * cut),
        )

    def careful(self, clip: Clip, n: int, budget: Budget) -> float:
        """That part of the error alone."""
        (values, weights), bias, cut = self._parts(clip, n, budget)
        found = self._release(clip, n, budget)
        return found(0.9, values - self.target - bias, weights, cut if bias >= 0 else -cut)

    def _release(
        self, clip: Clip, n: int, budget: Budget
    ) -> Callable[[float, Floats, Floats, float], float]:
        """What gives quantiles of |V + bias + noise|, V the average less what it is on average."""
        a, b = clip
        noise = additive(budget, (b - a) / n, (b - a) / n)
        if budget.neighbours == "replace":
            return lambda q, v, weights, bias: _quantile(v + bias, weights, noise, q)
        centre = float(self.weights @ np.clip(self.values, a, b))
        estimator = TransformedNoiseMean(lower=a, upper=b)

        def ratio(q: float, v: Floats, weights: Floats, bias: float) -> float:
            means, target = (v + centre - a) / (b - a), (centre - bias - a) / (b - a)
            metric = f"q{100 * q:.0f}"
            found = ratio_error(metric, estimator, (means, weights), target, n, budget)
            return (b - a) * found

        return ratio

    def best_clip(self, n: int, budget: Budget) -> Clip:
        """The one whose error is least if what it cuts off on the two sides did not cancel."""

        def cost(log_outside: float) -> float:
            clip = self.clip_of(float(np.exp(log_outside)))
            found = self.careful(clip, n, budget) if clip[0] < clip[1] else np.nan
            return found if np.isfinite(found) else np.inf

        # Where noise and bias alone count, this is the noise at sensitivity 1/n.
        near = float(np.log(additive(budget, 1 / n, 1 / n).above(0.05)))
        tried = np.linspace(min(near, -3.0) - 7, float(np.log(0.49)), STEPS)
        costs = [cost(one) for one in tried]
        best = int(np.argmin(costs))
        ends = tried[max(best - 1, 0)], tried[min(best + 1, STEPS - 1)]
        found = minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": 0.01})
        return self.clip_of(float(np.exp(found.x if found.fun <= costs[best] else tried[best])))


@dataclass(frozen=True)
class AnyLaw(KnownLaw):
    """Any law on [low, high]: that of a fair coin on its ends, the worst, which nothing clips."""

    @classmethod
    def between(cls, low: float, high: float) -> AnyLaw:
        """Of records between `low` and `high`."""
        return cls(
            np.array([low, high]), np.full(2, 0.5), (low + high) / 2, (high - low) / 2, low, high
        )

    def best_clip(self, n: int, budget: Budget) -> Clip:
        return self.low, self.high

    def scaled(self, clip: Clip, share: float) -> Clip:
        return clip


@dataclass(frozen=True)
class Moments:
    """The worst law of those with E|X - mu|^k <= scale^k and mu in [low, high].

    The clip is that of `HeavyTailedMean`, ``minimax``. Its error is at most that of the worst bias,
    of records of the largest variance, scale^2, and of noise together; no law has all of these.
    Their average is taken as normal. Where noise is far below what sampling costs (for k = 2 from
    epsilon = 20 or so) a clip keeps records that one dataset in ten has, and errors may be half as
    much again.
    """

    k: float
    scale: float
    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def radius(self) -> float:
        """How far mu is from the middle at most, in units of `scale`."""
        return (self.high - self.low) / (2 * self.scale)

    def best_clip(self, n: int, budget: Budget) -> Clip:
        one = HeavyTailedMean(k=self.k, radius=self.radius)
        half = self.scale * (self.radius + one.clipping_threshold(n, budget))
        return self.middle - half, self.middle + half

    def scaled(self, clip: Clip, share: float) -> Clip:
        """The clip around the middle that is `share` times as wide."""
        half = share * (clip[1] - clip[0]) / 2
        return self.middle - half, self.middle + half

    def error(self, clip: Clip, n: int, budget: Budget) -> Error:
        step, z = (clip[1] - clip[0]) / n, standard_normal()
        threshold = min(self.low - clip[0], clip[1] - self.high) / self.scale
        bias = self.scale * worst_clipping_bias(threshold, self.k) if threshold > 0 else np.inf
        noise, sd = additive(budget, step, step), self.scale / float(np.sqrt(n))
        if not np.isfinite(bias):
            return Error(np.inf, np.inf, sd, np.inf, noise.above(0.05), np.inf)
        q50, q90 = (_quantile(bias + sd * z[0], z[1], noise, q) for q in (0.5, 0.9))
        return Error(q50, q90, _quantile(sd * z[0], z[1], None, 0.9), bias, noise.above(0.05), q90)


Problem = KnownLaw | Moments
