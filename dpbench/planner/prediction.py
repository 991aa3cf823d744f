"""Error of a clipped mean with noise on a known distribution, by numerical convolution.

Let X be a record with mean mu. The release is V + Z, where V is the average of the n clipped
records and Z is the noise. V is binomial, normal, or an n-fold convolution
(`dpbench.theory.exact.averages`). Let x be a number. Then P(|V + Z - mu| <= x) is the mean over V
of differences of the distribution function of Z. Under add/remove the release is a ratio of two
noisy sums (`dpbench.theory.exact.ratio`).

Choice of the clip [a, b]. The 0.9 quantile of the error alone is a bad criterion. For a symmetric
distribution every clip around the centre has no bias, because the biases from clipping at the two
ends cancel. The narrowest clip would then have the smallest error, and the release would not depend
on the data. Therefore the absolute values of the two biases, E max(X - b, 0) and E max(a - X, 0),
are added. The criterion `Error.q90_without_cancellation` is the 0.9 quantile that the error would
have if this sum were the bias. Among all clips with equal sums, the narrowest clip has the least
noise. It has equal tail probabilities, P(X > b) = P(X < a), by Lagrange's rule. The search runs
over this probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from dpbench.arrays import Floats
from dpbench.distributions import Distribution
from dpbench.estimators import TransformedNoiseMean, TunedClippedMean
from dpbench.estimators.estimands import MEAN, Estimand
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.privacy import Budget
from dpbench.theory.exact.averages import Atoms, atoms, average_of_few
from dpbench.theory.exact.noise import Noise, additive, standard_normal
from dpbench.theory.exact.ratio import ratio_error

__all__ = ["BoundedMoment", "BoundedRecords", "Clip", "Error", "KnownDistribution", "Problem"]

Clip = tuple[float, float]
GRID_POINTS = 12  # tail probabilities that are tried; the search then refines the best
MAX_MERGED_ATOMS = 2000  # neighbouring atoms are merged down to this number
MIN_ATOM_PROBABILITY = 1e-18  # atoms of this or a smaller probability are dropped


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
    q90_without_cancellation : float
        0.9 quantile of the absolute error, if the biases from clipping at the two ends are added
        instead of cancelling; the clip is chosen to minimise it.
    """

    q50: float
    q90: float
    sampling: float
    bias: float
    noise: float
    q90_without_cancellation: float


def _quantile(values: Floats, weights: Floats, noise: Noise | None, q: float) -> float:
    """Return the q quantile of |V + Z|, or of |V| without noise Z.

    V takes the `values` with the probabilities `weights`. Z is independent noise.
    """
    if noise is None:
        order = np.argsort(np.abs(values))
        return float(np.abs(values)[order][np.searchsorted(np.cumsum(weights[order]), q)])

    def excess(x: float) -> float:
        return float(weights @ (noise.cdf(x - values) - noise.cdf(-x - values))) - q

    upper = noise.isf((1 - q) / 8) + float(np.max(np.abs(values)))
    return float(brentq(excess, 0.0, upper, xtol=1e-12 * upper, rtol=1e-6))


@dataclass(frozen=True)
class KnownDistribution:
    """Known distribution of a scalar record, given as atoms.

    The estimand is the mean of the distribution, or of its uncontaminated part. The bounds `low`
    and `high` hold for every clip.
    """

    values: Floats  # increasing points, shape (m,)
    weights: Floats  # their probabilities
    target: float
    sd: float  # may be infinite
    low: float = -np.inf
    high: float = np.inf
    estimand: ClassVar[Estimand] = MEAN
    least_n: ClassVar[int] = 1  # records of which the target can be released

    @classmethod
    def discretise(
        cls, law: Distribution, low: float = -np.inf, high: float = np.inf
    ) -> KnownDistribution:
        """Discretise a distribution into at most `MAX_MERGED_ATOMS` atoms by merging neighbours."""
        atoms_of_law = atoms(law)
        assert atoms_of_law is not None
        likely = atoms_of_law[1] > MIN_ATOM_PROBABILITY
        order = np.argsort(atoms_of_law[0][likely], kind="stable")
        values, weights = (array[likely][order] for array in atoms_of_law)
        starts = np.arange(0, values.size, -(-values.size // MAX_MERGED_ATOMS))
        merged_weights = np.add.reduceat(weights, starts)
        values = np.add.reduceat(values * weights, starts) / merged_weights
        sd = float(np.sqrt(law.variance))
        return cls(values, merged_weights / merged_weights.sum(), float(law.mean), sd, low, high)

    @cached_property
    def _below(self) -> Floats:
        """P(X < x) + P(X = x)/2 for a record X, at each atom x of its distribution."""
        return np.asarray(np.cumsum(self.weights) - self.weights / 2)

    def clip_at_tail(self, outside: float) -> Clip:
        """Return the clip with probability `outside` beyond each end, moved into the bounds."""
        a, b = np.interp([outside, 1 - outside], self._below, self.values)
        return max(float(a), self.low), min(float(b), self.high)

    def scale_clip(self, clip: Clip, share: float) -> Clip:
        """Return a clip that is `share` times as wide as `clip`.

        The returned clip has equal probabilities beyond its two ends. An end that would lie outside
        the bounds `low` and `high` is moved to the bound. If `share` is too large, the widest clip
        is returned.
        """
        width = share * (clip[1] - clip[0])

        def excess(log_outside: float) -> float:
            a, b = self.clip_at_tail(float(np.exp(log_outside)))
            return (b - a) / width - 1

        ends = -35.0, float(np.log(0.5))
        outside = ends[0] if excess(ends[0]) <= 0 else brentq(excess, *ends)
        return self.clip_at_tail(float(np.exp(outside)))

    def _parts(self, clip: Clip, n: int, budget: Budget) -> tuple[Atoms, float, float]:
        """Return the distribution of the average of n clipped records, and two clipping biases.

        The first bias is the mean of a clipped record minus the target. The second bias is the sum
        of the absolute biases at the two ends of the clip.
        """
        clipped, step = np.clip(self.values, *clip), (clip[1] - clip[0]) / n
        added_bias = float(self.weights @ np.abs(self.values - clipped))
        average = average_of_few(clipped, self.weights, n, additive(budget, step, step).variance)
        return average, float(self.weights @ clipped) - self.target, added_bias

    def error(self, clip: Clip, n: int, budget: Budget) -> Error:
        """Return the error of the noisy mean of n records clipped to [a, b], the ends of `clip`."""
        (values, weights), bias, added_bias = self._parts(clip, n, budget)
        centred, sign = values - self.target - bias, 1 if bias >= 0 else -1
        quantile = self._release(clip, n, budget)
        return Error(
            quantile(0.5, centred, weights, bias),
            quantile(0.9, centred, weights, bias),
            _quantile(centred, weights, None, 0.9),
            bias,
            quantile(0.9, np.zeros(1), np.ones(1), 0.0),
            quantile(0.9, centred, weights, sign * added_bias),
        )

    def q90_without_cancellation(self, clip: Clip, n: int, budget: Budget) -> float:
        """Return the 0.9 quantile of the absolute error without cancellation of biases.

        Clipping biases the mean at both ends of the clip. The two biases are added here, although
        they have opposite signs. The result is the field `q90_without_cancellation` of `Error`.
        """
        (values, weights), bias, added_bias = self._parts(clip, n, budget)
        quantile = self._release(clip, n, budget)
        return quantile(
            0.9, values - self.target - bias, weights, added_bias if bias >= 0 else -added_bias
        )

    def _release(
        self, clip: Clip, n: int, budget: Budget
    ) -> Callable[[float, Floats, Floats, float], float]:
        """Return a function (q, v, weights, bias) that computes a quantile of the absolute error.

        The function returns the q quantile of |v + bias + noise|. Here v is the average of the
        clipped records minus its expectation. The arguments `v` and `weights` hold the values of v
        and their probabilities. Under add/remove the release is a ratio of two noisy sums. The
        function then returns the q quantile of its absolute error.
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
            relative_error = ratio_error(metric, estimator, (means, weights), target, n, budget)
            return (b - a) * relative_error

        return ratio

    def best_clip(self, n: int, budget: Budget) -> Clip:
        """Return the clip that minimises the 0.9 quantile of the error with added biases.

        The biases at the two ends are added, see `q90_without_cancellation`.
        """

        def cost(log_outside: float) -> float:
            clip = self.clip_at_tail(float(np.exp(log_outside)))
            q90 = self.q90_without_cancellation(clip, n, budget) if clip[0] < clip[1] else np.nan
            return q90 if np.isfinite(q90) else np.inf

        # If sampling error is negligible, the best tail probability is near the 0.95 quantile of
        # the noise at sensitivity 1/n.
        log_small_tail = float(np.log(additive(budget, 1 / n, 1 / n).isf(0.05)))
        log_tails = np.linspace(min(log_small_tail, -3.0) - 7, float(np.log(0.49)), GRID_POINTS)
        costs = [cost(log_tail) for log_tail in log_tails]
        best = int(np.argmin(costs))
        ends = log_tails[max(best - 1, 0)], log_tails[min(best + 1, GRID_POINTS - 1)]
        optimum = minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": 0.001})
        return self.clip_at_tail(
            float(np.exp(optimum.x if optimum.fun <= costs[best] else log_tails[best]))
        )


@dataclass(frozen=True)
class BoundedRecords(KnownDistribution):
    """Class of all distributions of a record on [low, high].

    The distribution with probability 1/2 at each end represents the class, because the error is
    largest for it. The clip is [low, high].
    """

    @classmethod
    def between(cls, low: float, high: float) -> BoundedRecords:
        """Return the problem with arbitrary records between the public bounds `low` and `high`."""
        return cls(
            np.array([low, high]), np.full(2, 0.5), (low + high) / 2, (high - low) / 2, low, high
        )

    def best_clip(self, n: int, budget: Budget) -> Clip:
        return self.low, self.high

    def scale_clip(self, clip: Clip, share: float) -> Clip:
        return clip


@dataclass(frozen=True)
class BoundedMoment:
    """Class of distributions of a record X with mean mu in [low, high] and E|X - mu|^k <= scale^k.

    The clip is chosen by `TunedClippedMean` with the policy ``minimax``. The bound on the error
    combines the worst bias, the largest variance scale^2 and the noise. No single distribution
    attains all of them. The average of the clipped records is taken as normal. If the noise is far
    below the sampling error (for k = 2 from about epsilon = 20), the clip keeps rare records that
    one dataset in ten contains. Errors may then reach 1.6 times the bound.
    """

    k: float
    scale: float  # in the unit of the records
    low: float  # public bounds on mu
    high: float
    estimand: ClassVar[Estimand] = MEAN
    least_n: ClassVar[int] = 1

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def radius(self) -> float:
        """Largest distance of the mean from the middle of its bounds, in units of `scale`."""
        return (self.high - self.low) / (2 * self.scale)

    def best_clip(self, n: int, budget: Budget) -> Clip:
        estimator = TunedClippedMean(k=self.k, scale=1, radius=self.radius)
        half = self.scale * (self.radius + estimator.clipping_threshold(n, budget))
        return self.middle - half, self.middle + half

    def scale_clip(self, clip: Clip, share: float) -> Clip:
        """Return the clip around the bounds' middle that is `share` times as wide as `clip`."""
        half = share * (clip[1] - clip[0]) / 2
        return self.middle - half, self.middle + half

    def error(self, clip: Clip, n: int, budget: Budget) -> Error:
        step, z = (clip[1] - clip[0]) / n, standard_normal()
        threshold = min(self.low - clip[0], clip[1] - self.high) / self.scale
        bias = self.scale * worst_clipping_bias(threshold, self.k) if threshold > 0 else np.inf
        noise, sd = additive(budget, step, step), self.scale / float(np.sqrt(n))
        sampling = _quantile(sd * z[0], z[1], None, 0.9)
        if not np.isfinite(bias):
            return Error(np.inf, np.inf, sampling, np.inf, noise.isf(0.05), np.inf)
        q50, q90 = (_quantile(bias + sd * z[0], z[1], noise, q) for q in (0.5, 0.9))
        return Error(q50, q90, sampling, bias, noise.isf(0.05), q90)


Problem = KnownDistribution | BoundedMoment
