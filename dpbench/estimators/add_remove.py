"""Means of bounded records where one is added or removed, and n is private.

Records are clipped to [a, b] and scaled, u = (x - a)/(b - a). The mean is a ratio of two sums, and
both have noise. To first order in noise, with m the mean of the u, the error in units of b - a is
1/n times a linear form of the two noises.

Vectors are clipped to the box [a, b]^d or to the largest ball in it, and scaled to c = 2u - 1, in
the cube [-1, 1]^d or the unit ball B. To remove one moves (sum, count) by (c, 1), whose norms are

- max(|c|, 1) = 1, with |c| the norm of which the cube, or B, is the unit ball;
- in l2, with the count times w: sqrt(|c|_2^2 + w^2) <= sqrt(r^2 + w^2), r = sqrt(d), or 1 in B;
- of the sum alone: r in l2, and d, or sqrt(d) in B, in l1: the diagonal has them.

All of them are attained. With noises Z of the sum and Z_n of the count, and m the mean of the c,
the ratio errs by (Z - m Z_n)/n + O(1/n^2), in units of (b - a)/2. Under replacement n is public and
c - c' is up to twice as far: neither of these says anything of the other.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import Bound, _Between
from dpbench.privacy import Ledger
from dpbench.privacy.budgets import Relation
from dpbench.registry import validated
from dpbench.samples import Sample
from dpbench.samples.rows import norms

__all__ = ["SumAndCountMean", "TransformedNoiseMean"]

Sensitivity = dict[Relation, float]


@validated
class _Bounded(_Between):
    """Records clipped to an interval, on a scale where that is [0, 1]; vectors as in the module.

    Parameters
    ----------
    lower, upper : float
        Bounds that do not depend on the data, lower < upper.
    region : {'box', 'ball'}
        What vectors are clipped to: [lower, upper]^d, or the largest ball in it, which projects
        them. Of numbers both are the interval.
    """

    lower: Bound = 0.0
    upper: Bound = 1.0
    region: Literal["box", "ball"] = "box"
    relations: ClassVar[tuple[Relation, ...]] = ("add_remove",)
    multivariate: ClassVar[bool] = True
    added_parameters: ClassVar[dict[str, Any]] = {"region": "box"}

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        centre, half = self.lower / 2 + self.upper / 2, self.upper / 2 - self.lower / 2
        if self.region == "ball":
            clipped = sample.projected_mean(centre, half)
        else:
            clipped = sample.clipped_mean(self.lower, self.upper)
        centred = np.clip((clipped - centre) / half, -1.0, 1.0)
        size = sample.size()
        noisy = self._noisy(centred, size if centred.ndim == 1 else size[:, None], ledger)
        if self.region == "box" or noisy.ndim == 1:
            noisy = np.clip(noisy, -1.0, 1.0)
        else:
            noisy = noisy / np.maximum(norms(noisy), 1.0)[:, None]
        return Estimate(centre + half * noisy, clipped)

    @abstractmethod
    def _noisy(self, centred: Floats, size: Floats, ledger: Ledger) -> Floats:
        """The mean of so many records of [-1, 1], of the cube or of B, with noise."""

    def _reach(self, d: int) -> tuple[float, float]:
        """The largest l1 and l2 norms of a scaled record."""
        root = float(np.sqrt(d))
        return (float(d), root) if self.region == "box" else (root, 1.0)


@validated
class TransformedNoiseMean(_Bounded):
    """Noise on the sum S of u and on that of 1 - u, T; the mean is S/(S + T): KSW23.

    One record moves (S, T) by (u, 1 - u): by 1 in l1 and, at the ends, in l2. So each has noise of
    the whole budget, Laplace of scale 1/epsilon under pure DP. What is below 0 is taken for 0,
    which is to clip the ratio to [0, 1]; where both are, the middle is released.

    The error is ((1 - m) Z_S - m Z_T)/n + O(1/n^2): with noise of variance v, n^2 MSE tends to
    v (m^2 + (1-m)^2), under pure DP (n epsilon)^2 MSE to 2 (m^2 + (1-m)^2).

    Of vectors: as |S| + |T| = max(|S - T|, |S + T|), the two Laplace noises are one of density
    prop. to exp(-epsilon max(|z|, |z_n|)) on the sum of c and the count, and so it is for d > 1,
    with |z| the norm of the module: `Ledger.add_joint_noise`. With v' = (d+2)(d+3)/epsilon^2, the
    second moment of its radius, n^2 MSE tends to v' (d + |m|^2)/3 in the cube, and in B to
    v' (d/(d+2) + |m|^2/3). Gaussian noise of variance v at l2 sensitivity 1 has
    v (r^2 + w^2)(d + |m|^2/w^2). The largest |m| is r, for which w^2 = r^2/sqrt(d) is best, and is
    taken: v (1 + sqrt(d))(r^2 sqrt(d) + |m|^2). For d = 1 all of these are those of numbers.
    """

    def _noisy(self, centred: Floats, size: Floats, ledger: Ledger) -> Floats:
        if centred.ndim > 1:
            noisy = self._jointly(np.concatenate([size * centred, size], axis=1), ledger)
            return np.asarray(noisy[:, :-1] / np.maximum(noisy[:, -1:], 1.0))
        sums = (size * np.stack([1 + centred, 1 - centred]) / 2).T
        one: Sensitivity = {"add_remove": 1.0}
        above, below = np.maximum(ledger.add_noise(sums, one, l1=one), 0.0).T
        total = above + below
        return np.asarray((above - below) / np.where(total > 0, total, 1.0))

    def _jointly(self, values: Floats, ledger: Ledger) -> Floats:
        """Sums and a count of vectors, (trials, d + 1), with noise."""
        d = values.shape[1] - 1
        root, (_, reach) = float(np.sqrt(d)), self._reach(d)
        # Of what has the lesser error where |m| = r: in units of l2 noise it is r (1 + root).
        joint = (d + 2) * (d + 3) * (2 * d / 3 if self.region == "box" else d / (d + 2) + 1 / 3)
        if not ledger.budget.gaussian(float(np.sqrt(joint / 2)), reach * (1 + root)):
            return ledger.add_joint_noise(values, {"add_remove": 1.0}, base=self.region)
        scale = np.append(np.ones(d), reach / np.sqrt(root))
        most: Sensitivity = {"add_remove": float(np.hypot(reach, scale[-1]))}
        return np.asarray(ledger.add_noise(values * scale, most) / scale)


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

    Of vectors, C the sum of c/2: with l1 and l2 norms of c as in the module, Laplace noise has
    (n epsilon)^2 MSE 8 (d l1^2 + |m|^2) in units of (b - a)/2, and Gaussian noise, of variance v at
    l2 sensitivity 1 and half of the budget, has n^2 MSE v (d r^2 + |m|^2).
    """

    def _noisy(self, centred: Floats, size: Floats, ledger: Ledger) -> Floats:
        first, second = ledger.split(0.5, 0.5)
        l1, l2 = self._reach(1 if centred.ndim == 1 else centred.shape[1])
        half: list[Sensitivity] = [{"add_remove": norm / 2} for norm in (l1, l2)]
        total = first.add_noise(size * centred / 2, half[1], l1=half[0])
        noisy_size = np.maximum(second.add_noise(size, {"add_remove": 1.0}), 1.0)
        return np.asarray(2 * total / noisy_size)
