"""Error of a clipped mean with noise on a known distribution, by numerical convolution.

Let X be a record with mean mu. The release is V + Z: V is the average of the n clipped records, Z
is the noise. V is binomial, normal, or an n-fold convolution (`dpbench.theory.exact.averages`), and
P(|V + Z - mu| <= x) is the mean over V of differences of the distribution function of Z. Under
add/remove the release is a ratio of two noisy sums (`dpbench.theory.exact.ratio`).

Choice of the clip [a, b]. The error alone is a bad criterion: for a symmetric distribution every
clip around the centre has no bias, so that the narrowest would win and would release the prior
guess. Therefore the biases of the two sides are added: the criterion
(`Error.q90_without_cancellation`) is the error at the bias E(X - b)+ + E(a - X)+. Among clips with
this bias the narrowest one, whose noise is smallest, has P(X > b) = P(X < a), by Lagrange's rule.
The search runs over this probability.
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
from dpbench.estimators import TransformedNoiseMean, TunedClippedMean
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.privacy import Budget
from dpbench.theory.exact.averages import Atoms, atoms, average_of_few
from dpbench.theory.exact.noise import Noise, additive, standard_normal
from dpbench.theory.exact.ratio import ratio_error

__all__ = ["BoundedMoment", "BoundedRecords", "Clip", "Error", "KnownDistribution", "Problem"]

Clip = tuple[float, float]
STEPS = 12  # grid of tail probabilities that is tried before the best one is refined
MOST_ATOMS = 2000  # neighbouring atoms are merged down to this number
UNSEEN = 1e-18  # atoms of at most this probability are dropped


class Error(NamedTuple):
    """Error of a release and its parts, in the unit of the records.

    Attributes
    ----------
    q50, q90 : float
        Quantiles of the absolute error.
    sampling : float
        0.9 quantile of the absolute deviation of the clipped average from its expectation.
    bias : float
        Mean of the clipped records minus the target.
    noise : float
        0.9 quantile of the absolute noise.
    careful : float
        0.9 quantile of the absolute error if the biases of the two sides are added instead of
        cancelling; the clip is chosen to minimise it.
    """

    q50: float
    q90: float
    sampling: float
    bias: float
    noise: float
    q90_without_cancellation: float


def _quantile(values: Floats, weights: Floats, noise: Noise | None, q: float) -> float:
    """Return the q quantile of |V + Z|, or of |V| if there is no noise."""
    if noise is None:
        order = np.argsort(np.abs(values))
        return float(np.abs(values)[order][np.searchsorted(np.cumsum(weights[order]), q)])

    def missing(x: float) -> float:
        return float(weights @ (noise.cdf(x - values) - noise.cdf(-x - values))) - q

    most = noise.above((1 - q) / 8) + float(np.max(np.abs(values)))
    return float(brentq(missing, 0.0, most, xtol=1e-12 * most, rtol=1e-6))


@dataclass(frozen=True)
class KnownDistribution:
    """Known distribution of a scalar record, given as atoms.

    Parameters
    ----------
    values, weights : ndarray of shape (m,)
        Increasing points and their probabilities.
    target : float
        Estimand: mean of the distribution, or of its uncontaminated part.
    sd : float
        Standard deviation of the distribution; may be infinite.
    low, high : float
        Bounds of every clip, in the unit of the records; unbounded by default.
    """

    values: Floats
    weights: Floats
    target: float
    sd: float
    low: float = -np.inf
    high: float = np.inf

    @classmethod
    def of(cls, law: Distribution, low: float = -np.inf, high: float = np.inf) -> KnownDistribution:
        """Discretise a distribution into at most `MOST_ATOMS` atoms by merging neighbours.

        Parameters
        ----------
        law : Distribution
            Scalar distribution.
        low, high : float
            Bounds of every clip.

        Returns
        -------
        KnownLaw
        """
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
        """P(X < x) + P(X = x)/2 at each atom x."""
        return np.asarray(np.cumsum(self.weights) - self.weights / 2)

    def clip_of(self, outside: float) -> Clip:
        """Return the clip with probability `outside` beyond each end, kept within the bounds."""
        a, b = np.interp([outside, 1 - outside], self._below, self.values)
        return max(float(a), self.low), min(float(b), self.high)

    def scaled(self, clip: Clip, share: float) -> Clip:
        """Return the clip of `clip_of` whose width is `share` times that of `clip`.

        Parameters
        ----------
        clip : pair of float
            Clip to compare with.
        share : float
            Factor of the width; if it is too large, the widest clip is returned.

        Returns
        -------
        pair of float
        """
        wanted = share * (clip[1] - clip[0])

        def excess(log_outside: float) -> float:
            a, b = self.clip_of(float(np.exp(log_outside)))
            return (b - a) / wanted - 1

        ends = -35.0, float(np.log(0.5))
        outside = ends[0] if excess(ends[0]) <= 0 else brentq(excess, *ends)
        return self.clip_of(float(np.exp(outside)))

    def _parts(self, clip: Clip, n: int, budget: Budget) -> tuple[Atoms, float, float]:
        """Return the distribution of V, the bias, and the sum of the biases' absolute values."""
        clipped, step = np.clip(self.values, *clip), (clip[1] - clip[0]) / n
        cut = float(self.weights @ np.abs(self.values - clipped))
        found = average_of_few(clipped, self.weights, n, additive(budget, step, step).variance)
        return found, float(self.weights @ clipped) - self.target, cut

    def error(self, clip: Clip, n: int, budget: Budget) -> Error:
        """Return the error of the noisy mean of n records clipped to [a, b].

        Parameters
        ----------
        clip : pair of float
            Ends a and b of the clip.
        n : int
            Number of records.
        budget : Budget
            Privacy budget.

        Returns
        -------
        Error
        """
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

    def q90_without_cancellation(self, clip: Clip, n: int, budget: Budget) -> float:
        """Return `Error.q90_without_cancellation` without computing the other fields.

        Parameters
        ----------
        clip : pair of float
            Ends a and b of the clip.
        n : int
            Number of records.
        budget : Budget
            Privacy budget.

        Returns
        -------
        float
        """
        (values, weights), bias, cut = self._parts(clip, n, budget)
        found = self._release(clip, n, budget)
        return found(0.9, values - self.target - bias, weights, cut if bias >= 0 else -cut)

    def _release(
        self, clip: Clip, n: int, budget: Budget
    ) -> Callable[[float, Floats, Floats, float], float]:
        """Return a function (q, v, weights, bias) -> q quantile of |v + bias + Z|.

        Here v are the values, and `weights` the probabilities, of V minus its expectation.
        """
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
        """Return the clip that minimises `q90_without_cancellation`.

        Parameters
        ----------
        n : int
            Number of records.
        budget : Budget
            Privacy budget.

        Returns
        -------
        pair of float
        """

        def cost(log_outside: float) -> float:
            clip = self.clip_of(float(np.exp(log_outside)))
            found = self.q90_without_cancellation(clip, n, budget) if clip[0] < clip[1] else np.nan
            return found if np.isfinite(found) else np.inf

        # If sampling error is negligible, the best tail probability is near the 0.95 quantile of
        # the noise at sensitivity 1/n.
        near = float(np.log(additive(budget, 1 / n, 1 / n).above(0.05)))
        tried = np.linspace(min(near, -3.0) - 7, float(np.log(0.49)), STEPS)
        costs = [cost(one) for one in tried]
        best = int(np.argmin(costs))
        ends = tried[max(best - 1, 0)], tried[min(best + 1, STEPS - 1)]
        found = minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": 0.01})
        return self.clip_of(float(np.exp(found.x if found.fun <= costs[best] else tried[best])))


@dataclass(frozen=True)
class BoundedRecords(KnownDistribution):
    """Arbitrary distribution on [low, high].

    It is represented by the worst case, a fair coin on the two ends. The clip is [low, high].
    """

    @classmethod
    def between(cls, low: float, high: float) -> BoundedRecords:
        """Return the problem for records between `low` and `high`.

        Parameters
        ----------
        low, high : float
            Public bounds of the records.

        Returns
        -------
        AnyLaw
        """
        return cls(
            np.array([low, high]), np.full(2, 0.5), (low + high) / 2, (high - low) / 2, low, high
        )

    def best_clip(self, n: int, budget: Budget) -> Clip:
        return self.low, self.high

    def scaled(self, clip: Clip, share: float) -> Clip:
        return clip


@dataclass(frozen=True)
class BoundedMoment:
    """Class of distributions with E|X - mu|^k <= scale^k and mu in [low, high].

    The clip is the one of `TunedClippedMean` (``minimax``). Its error is bounded by combining the
    worst bias, the largest variance scale^2 and the noise, which no single distribution attains;
    the average is taken as normal. If the noise is far below the sampling error (for k = 2 from
    about epsilon = 20), the clip keeps rare records that one dataset in ten contains, and errors
    may exceed the bound by half.

    Parameters
    ----------
    k : float
        Order of the moment.
    scale : float
        Bound on (E|X - mu|^k)^(1/k), in the unit of the records.
    low, high : float
        Public bounds on mu.
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
        """Largest distance of mu from the middle, in units of `scale`."""
        return (self.high - self.low) / (2 * self.scale)

    def best_clip(self, n: int, budget: Budget) -> Clip:
        one = TunedClippedMean(k=self.k, radius=self.radius)
        half = self.scale * (self.radius + one.clipping_threshold(n, budget))
        return self.middle - half, self.middle + half

    def scaled(self, clip: Clip, share: float) -> Clip:
        """Return the clip around the middle that is `share` times as wide as `clip`."""
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


Problem = KnownDistribution | BoundedMoment
