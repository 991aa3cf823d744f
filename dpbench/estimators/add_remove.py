"""Means of bounded records under add/remove neighbours, where the number n of records is private.

Numbers. A record x is clipped to [a, b] = [`lower`, `upper`] and scaled to u = (x - a)/(b - a). Let
m be the mean of the scaled records u. Every estimate is a ratio of two noisy sums. To first order
its error, in units of b - a, is (p Z_1 + q Z_2)/n. Here Z_1 and Z_2 are the noises of the two sums;
p and q depend on m.

Vectors. A record of d coordinates is clipped to the box [a, b]^d, or projected on the largest ball
in the box. It is then scaled to a vector c in the cube [-1, 1]^d or in the unit ball B: every
coordinate c_i is 2 u_i - 1. Let mu be the mean of the vectors c, and |.| the l2 norm. Let ||.|| be
the norm whose unit ball is the cube, or B. Removing a record moves (sum of the c, count) by (c, 1).
The following sensitivities are attained:

- of (sum, count): 1, in the norm that takes the larger of ||sum|| and |count|;
- of (sum, w count) for a weight w > 0: sqrt(r^2 + w^2) in l2, where r is the largest |c|, that is
  sqrt(d) for the cube and 1 for B;
- of the sum alone: r in l2. In l1 it is d for the cube, and sqrt(d) for B, attained at
  c = (1, ..., 1)/sqrt(d).

Let Z be the noise of the sum and Z_n the noise of the count. The ratio errs by
(Z - mu Z_n)/n + O(1/n^2), in units of (b - a)/2.

Under replacement neighbours n is public, and replacing c by c' moves the sum by c' - c. This vector
may be twice as long as c. So results for one neighbouring relation imply nothing for the other.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import ErrorBound, _ClippingEstimator
from dpbench.privacy import Ledger
from dpbench.privacy.budgets import Relation
from dpbench.registry import validated
from dpbench.samples import Sample
from dpbench.samples.rows import norms

__all__ = ["HourglassMean", "NormalizedSumMean", "TransformedNoiseMean"]

Sensitivity = dict[Relation, float]


@validated
class _PrivateSizeMean(_ClippingEstimator):
    """Base class of add/remove means of records clipped to a public interval.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval, lower < upper, in the unit of the data. Choose them without looking
        at the data.
    """

    lower: ErrorBound = 0.0
    upper: ErrorBound = 1.0
    relations: ClassVar[tuple[Relation, ...]] = ("add_remove",)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        centre, half = self.lower / 2 + self.upper / 2, self.upper / 2 - self.lower / 2
        offset = self._average_offsets(sample, centre, half)
        centred = np.clip(offset / half, -1.0, 1.0)
        size = sample.size()
        noisy = self._release_mean(centred, size if centred.ndim == 1 else size[:, None], ledger)
        return Estimate(centre + half * self._project(noisy), centre + offset)

    def _average_offsets(self, sample: Sample, centre: float, half: float) -> Floats:
        """Return the mean of x - centre over the records x, moved to the interval centre +- half.

        The centre is subtracted before records are added. Otherwise a sum of n records would round
        at n times the size of the centre, and would move by more than its sensitivity.
        """
        return sample.centred_mean(centre, half)

    def _project(self, mean: Floats) -> Floats:
        """Move released means to [-1, 1], where they are on the scale of `_release_mean`."""
        return np.clip(mean, -1.0, 1.0)

    @abstractmethod
    def _release_mean(self, centred: Floats, size: Floats, ledger: Ledger) -> Floats:
        """Release the mean of the scaled records, without clipping the result.

        A record is scaled so that [lower, upper] becomes [-1, 1] in every coordinate. `centred`
        holds the exact means of the scaled records, of shape (trials,) or (trials, d). `size` is
        the private number of records, of shape (trials,) or (trials, 1). The noise spends the whole
        ledger.
        """


@validated
class _Bounded(_PrivateSizeMean):
    """Base class of add/remove means of records clipped to a public interval, box or ball.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval, lower < upper, in the unit of the data. Choose them without looking
        at the data.
    region : {'box', 'ball'}
        Set to which vectors of d coordinates are moved. ``box``: [lower, upper]^d, by clipping
        every coordinate. ``ball``: the largest ball in the box, by projection. Numbers are clipped
        to [lower, upper] in either case.
    """

    region: Literal["box", "ball"] = "box"
    multivariate: ClassVar[bool] = True

    def _average_offsets(self, sample: Sample, centre: float, half: float) -> Floats:
        if self.region == "ball":
            return sample.projected_mean(centre, half, relative=True)
        return super()._average_offsets(sample, centre, half)

    def _project(self, mean: Floats) -> Floats:
        if self.region == "box" or mean.ndim == 1:
            return super()._project(mean)
        return np.asarray(mean / np.maximum(norms(mean), 1.0)[:, None])

    def _largest_norms(self, d: int) -> tuple[float, float]:
        """Return the largest l1 norm and the largest l2 norm of a scaled record of d coordinates.

        A scaled record is in the cube [-1, 1]^d or in the unit ball, as `region` says.
        """
        root = float(np.sqrt(d))
        return (float(d), root) if self.region == "box" else (root, 1.0)


@validated
class TransformedNoiseMean(_Bounded):
    """Transformed-noise mechanism for the add/remove mean, with noise on two sums (KSW23).

    KSW23, theorem number not checked. Let n be the private number of records, and [a, b] the
    interval.

    Numbers. A record x is scaled to u = (x - a)/(b - a), and m is the mean of the numbers u. S is
    the sum of the numbers u, and T = n - S is the sum of the numbers 1 - u. Removing a record moves
    (S, T) by (u, 1 - u), a vector of l1 norm 1 and l2 norm at most 1. So each sum gets noise for
    the whole budget (Laplace of scale 1/epsilon under pure DP). The estimate is the ratio S/(S + T)
    of the noisy sums, scaled back to [a, b]. A negative noisy sum is set to 0, which clips the
    ratio to [0, 1]. If both sums are negative, the middle of the interval is released.

    Let Z_S and Z_T be the noises of the sums. The error, in units of b - a, is
    ((1 - m) Z_S - m Z_T)/n + O(1/n^2). If both noises have variance v, n^2 MSE tends to
    v (m^2 + (1-m)^2). Under pure DP (n epsilon)^2 MSE tends to 2 (m^2 + (1-m)^2).

    Vectors. A record is scaled to a vector c of d coordinates in the cube [-1, 1]^d, or in the unit
    ball B. Let mu be the mean of the vectors c, and r the largest l2 norm |c|. Let ||.|| be the
    norm whose unit ball is the cube, or B. So r is sqrt(d) for the cube and 1 for B. Errors are in
    units of (b - a)/2.

    For d = 1 the sum of the numbers c is S - T. The two Laplace noises change it by z = Z_S - Z_T,
    and the count by z_n = Z_S + Z_T. Because |Z_S| + |Z_T| = max(|z|, |z_n|), the density of
    (z, z_n) is proportional to exp(-epsilon max(|z|, |z_n|)). Vectors get noise of this form, too,
    with ||z|| in place of |z| (`Ledger.add_joint_noise`). It is a radius times a uniform point of
    the set max(||z||, |z_n|) <= 1. The second moment of the radius is v' = (d+2)(d+3)/epsilon^2. So
    n^2 MSE tends to v' (d + |mu|^2)/3 in the cube, and to v' (d/(d+2) + |mu|^2/3) in B.

    Gaussian noise is added to (sum of the c, w count) for a weight w, with l2 sensitivity
    sqrt(r^2 + w^2). Let v be its variance at sensitivity 1. Then n^2 MSE is
    v (r^2 + w^2)(d + |mu|^2/w^2). The weight w^2 = r^2/sqrt(d) minimises it at |mu| = r, the
    largest |mu|; then n^2 MSE is v (1 + sqrt(d))(r^2 sqrt(d) + |mu|^2). The noise with the smaller
    MSE at |mu| = r is used. For d = 1 these formulas agree with the formulas for numbers.
    """

    def _release_mean(self, centred: Floats, size: Floats, ledger: Ledger) -> Floats:
        if centred.ndim > 1:
            noisy = self._release_jointly(np.concatenate([size * centred, size], axis=1), ledger)
            return np.asarray(noisy[:, :-1] / np.maximum(noisy[:, -1:], 1.0))
        sums = (size * np.stack([1 + centred, 1 - centred]) / 2).T
        unit_sensitivity: Sensitivity = {"add_remove": 1.0}
        return _mean_of_sums(ledger.add_noise(sums, unit_sensitivity, l1=unit_sensitivity))

    def _release_jointly(self, values: Floats, ledger: Ledger) -> Floats:
        """Return noisy sums of the coordinates of vectors, and the noisy number of vectors.

        `values` of shape (trials, d + 1) holds the sum of each of the d coordinates, then the
        count.
        """
        d = values.shape[1] - 1
        root, (_, reach) = float(np.sqrt(d)), self._largest_norms(d)
        # Use the noise with the smaller error at |mu| = r, where l2 noise errs by r (1 + sqrt(d)).
        joint_error = (
            (d + 2) * (d + 3) * (2 * d / 3 if self.region == "box" else d / (d + 2) + 1 / 3)
        )
        if not ledger.budget.gaussian(float(np.sqrt(joint_error / 2)), reach * (1 + root)):
            return ledger.add_joint_noise(values, {"add_remove": 1.0}, base=self.region)
        scale = np.append(np.ones(d), reach / np.sqrt(root))
        sensitivity: Sensitivity = {"add_remove": float(np.hypot(reach, scale[-1]))}
        return np.asarray(ledger.add_noise(values * scale, sensitivity) / scale)


@validated
class HourglassMean(_PrivateSizeMean):
    """Hourglass mechanism for the add/remove mean, with the least worst-case noise (KSW23).

    KSW23, theorem number not checked. A record x is clipped to [a, b] and scaled to
    u = (x - a)/(b - a); m is the mean of the n numbers u. S is the sum of the numbers u, and
    T = n - S is the sum of the numbers 1 - u. Sum and count get hourglass noise for the whole
    budget (`dpbench.privacy.hourglass` proves privacy). The estimate is the ratio S/(S + T) of the
    noisy sums, as in `TransformedNoiseMean`.

    The noises of S and T are uncorrelated, and each is staircase noise of variance V, the smallest
    for one number (GV14). So n^2 MSE tends to V (m^2 + (1-m)^2), in units of b - a, and its largest
    value is V. By KSW23, no epsilon-DP mean has a smaller largest limit. The best additive noise
    has the same V under replaced records and public n. Compared with
    `TransformedNoiseMean`, V replaces the variance 2/epsilon^2 of Laplace noise. V epsilon^2/2 is
    0.96 at epsilon = 1, 0.69 at 3 and 0.042 at 10.

    Under zCDP, GDP and (epsilon, delta)-DP the noise is that of the largest epsilon that the
    budget pays for. `TransformedNoiseMean` has Gaussian noise there, which may be smaller.
    """

    def _release_mean(self, centred: Floats, size: Floats, ledger: Ledger) -> Floats:
        noisy_sum, noisy_size = ledger.add_hourglass_noise(np.stack([size * centred, size], 1)).T
        return _mean_of_sums(np.stack([noisy_size + noisy_sum, noisy_size - noisy_sum], 1) / 2)


def _mean_of_sums(sums: Floats) -> Floats:
    """Return the mean of records c in [-1, 1] from two noisy sums, shape (trials,).

    The columns of `sums`, shape (trials, 2), are the noisy sums of (1 + c)/2 and of (1 - c)/2.
    Negative sums are set to 0. If both sums are 0 then, the result is 0.
    """
    above, below = np.maximum(sums, 0.0).T
    total = above + below
    return np.asarray((above - below) / np.where(total > 0, total, 1.0))


@validated
class NormalizedSumMean(_Bounded):
    """Normalised noisy sum over a noisy count, the add/remove mean of Google's library (G20).

    Let n be the private number of records, and [a, b] the interval. The sum and the count get half
    of the budget each.

    Numbers. A record x is scaled to u = (x - a)/(b - a), and m is the mean of the numbers u. C is
    the sum of the numbers u - 1/2. Removing a record moves C by at most 1/2, and it
    moves the count by one. The estimate is 1/2 + C/count for the noisy C and count, clipped to
    [0, 1] and scaled back to [a, b]. A noisy count below 1 is set to 1.

    Let Z_C and Z_n be the noises of C and of the count. The error, in units of b - a, is
    (Z_C - (m - 1/2) Z_n)/n + O(1/n^2). Under pure DP the Laplace noises have scales 1/epsilon and
    2/epsilon. Then (n epsilon)^2 MSE tends to 2 + 8 (m - 1/2)^2. This limit is twice the limit for
    `TransformedNoiseMean`. That estimator adds noise to S and T, the sums of the numbers u and of
    the numbers 1 - u. Gaussian noise has no such loss. Under rho-zCDP C = (S - T)/2 has noise of
    standard deviation 1/(2 sqrt(rho)), and the count has noise of standard deviation 1/sqrt(rho).
    Rotating (C, count/2) by 45 degrees gives S and T, up to a factor, with independent noises as in
    `TransformedNoiseMean`.

    Vectors. A record is scaled to a vector c of d coordinates in the cube [-1, 1]^d or in the unit
    ball. C is the sum of the vectors c/2, and mu the mean of the vectors c. Let l1 and l2 be the
    largest l1 and l2 norms of a vector c. In units of (b - a)/2, Laplace noise has (n epsilon)^2
    MSE 8 (d l1^2 + |mu|^2), where |mu| is the l2 norm. Let v be the variance of Gaussian noise at
    l2 sensitivity 1 with half of the budget. Then n^2 MSE is v (d l2^2 + |mu|^2).
    """

    def _release_mean(self, centred: Floats, size: Floats, ledger: Ledger) -> Floats:
        first, second = ledger.split(0.5, 0.5)
        l1, l2 = self._largest_norms(1 if centred.ndim == 1 else centred.shape[1])
        half_norms: list[Sensitivity] = [{"add_remove": norm / 2} for norm in (l1, l2)]
        total = first.add_noise(size * centred / 2, half_norms[1], l1=half_norms[0])
        noisy_size = np.maximum(second.add_noise(size, {"add_remove": 1.0}), 1.0)
        return np.asarray(2 * total / noisy_size)
