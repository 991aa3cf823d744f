"""Means of bounded records where one is added or removed, and n is private.

Records are clipped to [a, b] and scaled, u = (x - a)/(b - a). The mean is a ratio of two sums, and
both have noise. To first order in noise, with m the mean of the u, the error in units of b - a is
1/n times a linear form of the two noises.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import Bound, _Between
from dpbench.privacy import Ledger
from dpbench.privacy.budgets import Relation
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["SumAndCountMean", "TransformedNoiseMean"]


@validated
class _Bounded(_Between):
    """Records clipped to an interval, on a scale where that is [0, 1]."""

    lower: Bound = 0.0
    upper: Bound = 1.0
    relations: ClassVar[tuple[Relation, ...]] = ("add_remove",)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(self.lower, self.upper)
        half = self.upper / 2 - self.lower / 2
        centred = np.clip((clipped - (self.lower / 2 + self.upper / 2)) / half, -1.0, 1.0)
        noisy = self._noisy(centred, sample.count(-np.inf, np.inf), ledger)
        return Estimate(self.lower / 2 + self.upper / 2 + half * noisy, clipped)

    @abstractmethod
    def _noisy(self, centred: Floats, count: Floats, ledger: Ledger) -> Floats:
        """The mean of so many records of [-1, 1], in [-1, 1], with noise."""


@validated
class TransformedNoiseMean(_Bounded):
    """Noise on the sum S of u and on that of 1 - u, T; the mean is S/(S + T): KSW23.

    One record moves (S, T) by (u, 1 - u): by 1 in l1 and, at the ends, in l2. So each has noise of
    the whole budget, Laplace of scale 1/epsilon under pure DP. What is below 0 is taken for 0,
    which is to clip the ratio to [0, 1]; where both are, the middle is released.

    The error is ((1 - m) Z_S - m Z_T)/n + O(1/n^2): with noise of variance v, n^2 MSE tends to
    v (m^2 + (1-m)^2), under pure DP (n epsilon)^2 MSE to 2 (m^2 + (1-m)^2).
    """

    def _noisy(self, centred: Floats, count: Floats, ledger: Ledger) -> Floats:
        sums = (count * np.stack([1 + centred, 1 - centred]) / 2).T
        one: dict[Relation, float] = {"add_remove": 1.0}
        above, below = np.maximum(ledger.add_noise(sums, one, l1=one), 0.0).T
        size = above + below
        return np.asarray((above - below) / np.where(size > 0, size, 1.0))


@validated
class SumAndCountMean(_Bounded):
    """A normalised sum over a count, half of the budget each, as libraries in use have it: G20.

    One record moves the sum C of u - 1/2 by at most 1/2, and the count by 1. The mean is
    1/2 + C/count, clipped to [0, 1], the count at least 1.

    The error is (Z_C - (m - 1/2) Z_count)/n + O(1/n^2), under pure DP with Laplace noise of scales
    1/epsilon and 2/epsilon: (n epsilon)^2 MSE tends to 2 + 8 (m - 1/2)^2, exactly twice that of
    `TransformedNoiseMean`. With Gaussian noise there is no such loss: half of rho each is standard
    deviations 1/(2 sqrt(rho)) for C = (S - T)/2 and 1/sqrt(rho) for the count, and to turn
    (C, count/2) by 45 degrees gives S and T with the independent noises that they have there.
    """

    def _noisy(self, centred: Floats, count: Floats, ledger: Ledger) -> Floats:
        first, second = ledger.split(0.5, 0.5)
        total = first.add_noise(count * centred / 2, {"add_remove": 0.5})
        noisy_count = np.maximum(second.add_noise(count, {"add_remove": 1.0}), 1.0)
        return np.clip(2 * total / noisy_count, -1.0, 1.0)
