"""Means of bounded records under add/remove neighbours, where n is private.

Notation. Records x are clipped to [a, b] = [`lower`, `upper`] and scaled, u = (x - a)/(b - a). The
mean is a ratio of two sums, and both have noise. To first order, the error in units of b - a is 1/n
times a linear form of the two noises, whose coefficients depend on m, the mean of the u.

Vectors are clipped to the box [a, b]^d or to the largest ball in it, and scaled to c = 2u - 1,
which is in the cube [-1, 1]^d or in the unit ball B. Removing a record moves (sum, count) by (c,
1). Let |c| be the norm whose unit ball is the cube, or B. The sensitivities are, all of them
attained:

- max(|c|, 1) = 1 of (sum, count), in the norm max(|.|, |.|);
- sqrt(r^2 + w^2) of (sum, w count) in l2, where r = sqrt(d) for the cube and 1 for B;
- of the sum alone, r in l2, and in l1 d for the cube or sqrt(d) for B (at the diagonal).

With noises Z of the sum and Z_n of the count, and m the mean of the c, the ratio errs by
(Z - m Z_n)/n + O(1/n^2), in units of (b - a)/2. Under replacement n is public, and c - c' may be
twice as long as c: results for one relation say nothing about the other.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import ErrorBound, _ClippingEstimator
from dpbench.privacy import Ledger
from dpbench.privacy.budgets import Relation
from dpbench.registry import validated
from dpbench.samples import Sample
from dpbench.samples.rows import norms

__all__ = ["NormalizedSumMean", "TransformedNoiseMean"]

Sensitivity = dict[Relation, float]


@validated
class _Bounded(_ClippingEstimator):
    """Base class of means of records clipped to a public interval, box or ball, under add/remove.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval, lower < upper, in the unit of the data. Choose them without looking
        at the data.
    region : {'box', 'ball'}
        Set that vectors are clipped to: the box [lower, upper]^d, coordinate by coordinate, or the
        largest ball in it, by projection. For numbers both are the interval.
    """

    lower: ErrorBound = 0.0
    upper: ErrorBound = 1.0
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
        """Return the mean of `size` scaled records with mean `centred`, with noise."""

    def _reach(self, d: int) -> tuple[float, float]:
        """Return the largest l1 and l2 norms of a scaled record."""
        root = float(np.sqrt(d))
        return (float(d), root) if self.region == "box" else (root, 1.0)


@validated
class TransformedNoiseMean(_Bounded):
    """Add/remove mean by the transformed-noise mechanism, noise on S and on n - S: KSW23.

    Numbers. S is the sum of u and T = n - S that of 1 - u; the estimate is S/(S + T). One record
    moves (S, T) by (u, 1 - u), by 1 in l1 and at most 1 in l2, so each sum has noise of the whole
    budget (Laplace of scale 1/epsilon under pure DP). A negative sum is set to 0, which clips the
    ratio to [0, 1]; if both are negative the middle of the interval is released.

    The error is ((1 - m) Z_S - m Z_T)/n + O(1/n^2): with noise of variance v, n^2 MSE tends to
    v (m^2 + (1-m)^2), and under pure DP (n epsilon)^2 MSE to 2 (m^2 + (1-m)^2).

    Vectors, d > 1. As |S| + |T| = max(|S - T|, |S + T|), the two Laplace noises are one noise of
    density proportional to exp(-epsilon max(|z|, |z_n|)) on the sum of c and the count. This noise
    is used for vectors as well, with the norm |z| of the cube or of B (`Ledger.add_joint_noise`).
    With v' = (d+2)(d+3)/epsilon^2, the second moment of its radius, n^2 MSE tends to
    v' (d + |m|^2)/3 in the cube, and to v' (d/(d+2) + |m|^2/3) in B, |m| in l2. Gaussian noise of
    variance v at l2 sensitivity 1 has n^2 MSE v (r^2 + w^2)(d + |m|^2/w^2). It uses the w that is
    best at the largest |m|, which is r: w^2 = r^2/sqrt(d), with n^2 MSE
    v (1 + sqrt(d))(r^2 sqrt(d) + |m|^2). For d = 1 these formulas are those for numbers.
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
        """Return sums and a count of vectors, (trials, d + 1), with noise."""
        d = values.shape[1] - 1
        root, (_, reach) = float(np.sqrt(d)), self._reach(d)
        # Use the noise with the smaller error at |m| = r; that of l2 noise is r (1 + root) there.
        joint = (d + 2) * (d + 3) * (2 * d / 3 if self.region == "box" else d / (d + 2) + 1 / 3)
        if not ledger.budget.gaussian(float(np.sqrt(joint / 2)), reach * (1 + root)):
            return ledger.add_joint_noise(values, {"add_remove": 1.0}, base=self.region)
        scale = np.append(np.ones(d), reach / np.sqrt(root))
        most: Sensitivity = {"add_remove": float(np.hypot(reach, scale[-1]))}
        return np.asarray(ledger.add_noise(values * scale, most) / scale)


@validated
class NormalizedSumMean(_Bounded):
    """Add/remove mean as a normalised noisy sum over a noisy count, as in Google's library: G20.

    Half of the budget pays for each. One record moves the sum C of u - 1/2 by at most 1/2, and the
    count by 1. The estimate is 1/2 + C/count, clipped to [0, 1], with a count of at least 1.

    The error is (Z_C - (m - 1/2) Z_count)/n + O(1/n^2). Under pure DP, with Laplace noise of scales
    1/epsilon and 2/epsilon, (n epsilon)^2 MSE tends to 2 + 8 (m - 1/2)^2, exactly twice that of
    `TransformedNoiseMean`. Gaussian noise has no such loss: half of rho for each gives standard
    deviations 1/(2 sqrt(rho)) for C = (S - T)/2 and 1/sqrt(rho) for the count. Rotating (C,
    count/2) by 45 degrees gives S and T with independent noises, as in `TransformedNoiseMean`.

    Vectors, with C the sum of c/2, and l1 and l2 the largest norms of c: Laplace noise has
    (n epsilon)^2 MSE 8 (d l1^2 + |m|^2) in units of (b - a)/2. Gaussian noise, of variance v at l2
    sensitivity 1 and half of the budget, has n^2 MSE v (d r^2 + |m|^2).
    """

    stream_name: ClassVar[str] = "SumAndCountMean"

    def _noisy(self, centred: Floats, size: Floats, ledger: Ledger) -> Floats:
        first, second = ledger.split(0.5, 0.5)
        l1, l2 = self._reach(1 if centred.ndim == 1 else centred.shape[1])
        half: list[Sensitivity] = [{"add_remove": norm / 2} for norm in (l1, l2)]
        total = first.add_noise(size * centred / 2, half[1], l1=half[0])
        noisy_size = np.maximum(second.add_noise(size, {"add_remove": 1.0}), 1.0)
        return np.asarray(2 * total / noisy_size)
