"""Error of a private variance of records in an interval, on a known distribution.

Let c be a record clipped to [a, b], w = b - a, and m and v the mean and the variance of c. The
variance of the clipped data is the average of the (c_i - m)^2 less (c_mean - m)^2. The average is a
binomial, normal, or an n-fold convolution (`dpbench.theory.exact.averages`). Its expectation is v,
and the subtracted square is replaced by its expectation v/n. If c has two values, a and b, nothing
is replaced: the variance of the data is (c_mean - a)(b - c_mean).

The noise is that of the best estimator of `dpbench.estimators.variance`. If one record is replaced,
it is added to the variance (`ClippedVariance`). If one is added or removed, the release is
`BezierVariance`, whose noise is taken to first order (`dpbench.theory.exact.variances`). Both
estimators clip a release to [0, w^2/4]. The error is NaN if the noise of a private n is not small.

Clipping can only reduce the variance, at either end. So the biases at the two ends do not cancel.
The search over clips with equal tail probabilities, which is exact for a mean, is a restriction
here. On skewed distributions no other clip had a q90 smaller by 0.3 per cent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy.optimize import brentq

from dpbench.arrays import Floats
from dpbench.distributions import Distribution
from dpbench.estimators import BezierVariance, ClippedVariance
from dpbench.estimators.estimands import VARIANCE, Estimand
from dpbench.planner.prediction import BoundedRecords, Clip, Error, KnownDistribution
from dpbench.privacy import Budget
from dpbench.theory.exact.averages import Atoms, average_of_few
from dpbench.theory.exact.noise import Noise
from dpbench.theory.exact.variances import variance_noise

__all__ = ["HARDEST_COIN", "HARD_COINS", "BoundedVariance", "KnownVariance"]

# A coin of probability p has the sampling variance (1 - 2p)^2 p(1 - p)/n of its variance p(1 - p).
# It is largest, 1/(16 n), where p(1 - p) = 1/8. No distribution on [0, 1] has a larger one.
HARDEST_COIN = (1 - 0.5**0.5) / 2
HARD_COINS = (HARDEST_COIN, 0.3, 0.5)


@dataclass(frozen=True)
class KnownVariance(KnownDistribution):
    """Known distribution of a scalar record, whose variance is the target."""

    estimand: ClassVar[Estimand] = VARIANCE
    least_n: ClassVar[int] = 2

    @classmethod
    def discretise(
        cls, law: Distribution, low: float = -np.inf, high: float = np.inf
    ) -> KnownVariance:
        known = KnownDistribution.discretise(law, low, high)
        return cls(known.values, known.weights, float(law.variance), known.sd, low, high)

    def noise(self, clip: Clip, n: int, budget: Budget) -> Noise | None:
        """Return the noise of the variance of records on [0, 1], into which the clip is scaled.

        The result is None if the noise of a private number of records is not small.
        """
        kind = BezierVariance if budget.neighbours == "add_remove" else ClippedVariance
        u = (np.clip(self.values, *clip) - clip[0]) / (clip[1] - clip[0])
        return variance_noise(kind(lower=0.0, upper=1.0), u, self.weights, n, budget)

    def error(self, clip: Clip, n: int, budget: Budget) -> Error:
        noise, unit = self.noise(clip, n, budget), (clip[1] - clip[0]) ** 2
        alone = unit * noise.isf(0.05) if noise else np.nan
        return super().error(clip, n, budget)._replace(noise=alone)

    def _parts(self, clip: Clip, n: int, budget: Budget) -> tuple[Atoms, float, float]:
        clipped = np.clip(self.values, *clip)
        mean = float(self.weights @ clipped)
        squares, noise = (clipped - mean) ** 2, self.noise(clip, n, budget)
        variance = float(self.weights @ squares)
        bias = variance * (1 - 1 / n) - self.target
        if len(ends := np.unique(clipped)) == 2:
            shares = np.array([self.weights @ (clipped == end) for end in ends])
            means, weights = average_of_few(ends, shares, n, 0.0)
            return ((means - ends[0]) * (ends[1] - means), weights), bias, abs(bias)
        order = np.argsort(squares, kind="stable")
        spread = (clip[1] - clip[0]) ** 4 * noise.variance if noise else 0.0
        values, weights = average_of_few(squares[order], self.weights[order], n, spread)
        return (values - variance / n, weights), bias, abs(bias)

    def root_q90(self, clip: Clip, n: int, budget: Budget) -> float:
        """Return the 0.9 quantile of the error of a release's root, the standard deviation."""
        (values, weights), bias, _ = self._parts(clip, n, budget)
        quantile = self._release(clip, n, budget, root=True)
        return quantile(0.9, values - self.target - bias, weights, bias)

    def _release(
        self, clip: Clip, n: int, budget: Budget, *, root: bool = False
    ) -> Callable[[float, Floats, Floats, float], float]:
        noise, unit = self.noise(clip, n, budget), (clip[1] - clip[0]) ** 2
        if noise is None:
            return lambda *_: np.nan
        largest = unit / 4

        def quantile(q: float, v: Floats, weights: Floats, bias: float) -> float:
            centre = self.target + bias + v

            def below(x: float) -> float:
                """P(release < x), where a release is clipped to [0, largest]."""
                if x <= 0 or x > largest:
                    return float(x > 0)
                return float(weights @ noise.cdf((x - centre) / unit))

            def excess(x: float) -> float:
                low, high = true - x, true + x
                if root:
                    low, high = max(low, 0.0) ** 2, high**2
                return below(np.nextafter(high, np.inf)) - below(low) - q

            most, true = max(self.target, largest), self.target
            if root:
                most, true = most**0.5, true**0.5
            return float(brentq(excess, 0.0, most, xtol=1e-15 * most, rtol=1e-6))

        return quantile


@dataclass(frozen=True)
class BoundedVariance(KnownVariance, BoundedRecords):
    """Class of all distributions of a record on [low, high], whose variance is the target.

    Three coins represent the class: the one whose variance has the largest sampling error, and two
    with larger variances, whose releases err by more if the noise is as large as the variance. The
    error is the largest of theirs. The clip is [low, high].
    """

    def error(self, clip: Clip, n: int, budget: Budget) -> Error:
        errors = []
        for p in HARD_COINS:
            target = p * (1 - p) * (self.high - self.low) ** 2
            coin = replace(self, weights=np.array([1 - p, p]), target=target)
            errors.append(KnownVariance.error(coin, clip, n, budget))
        return max(errors, key=lambda error: error.q90)

    def root_q90(self, clip: Clip, n: int, budget: Budget) -> float:
        # |sqrt(a) - sqrt(b)| <= sqrt(|a - b|), nearly with equality if all records are alike.
        return float(np.sqrt(self.error(clip, n, budget).q90))

    @classmethod
    def between(cls, low: float, high: float) -> Self:
        """Return the problem with arbitrary records between the public bounds `low` and `high`."""
        ends, weights = np.array([low, high]), np.array([1 - HARDEST_COIN, HARDEST_COIN])
        variance = (high - low) ** 2 / 8
        return cls(ends, weights, variance, float(np.sqrt(variance)), low, high)
