"""The variance of numbers in a public interval: directly, from noisy sums, and through pairs.

Let u in [0, 1] be a scaled record, and n the number of records.

**Directly.** The variance of the data is (1/n^2) times the sum of (u_i - u_j)^2 over i < j. A
replaced record changes n - 1 of these squares, each by at most 1. So it moves the variance by at
most (n - 1)/n^2, with equality if all others are equal and it moves from them to the far end.

**Bezier mechanism** (TLH25), for a private number of records. The contribution of u to the sums

    B_0 = sum of (1 - u)^2,   B_1 = sum of 2 u (1 - u),   B_2 = sum of u^2

is not negative and adds up to (1 - u + u)^2 = 1. So an added or removed record moves the vector of
sums by 1 in l1, and by at most 1 in l2, with equality at u = 0 and 1. A replaced record moves it by
at most 2 in l1 and sqrt(2) in l2, by the triangle inequality and because contributions have no
negative product, with equality from u = 0 to 1. Each noisy sum has noise for the whole budget. The
number of records is N = B_0 + B_1 + B_2, and the sum of the u is B_1/2 + B_2. The variance is
B_2/N - ((B_1/2 + B_2)/N)^2.

`dpbench.theory.exact.variances` derives the errors of a release to first order in the noises.

**Three sums**, for a private number of records, with a third of the budget each: the number, and
the sums of u - c and (u - c)^2. An added or removed record moves them by at most 1, 1 - c and
(1 - c)^2, for c = 1/2 (WZLDSG20, and Google's Go library, G20) as for plain sums, c = 0.

**Pairs.** Var X = E (X - Y)^2/2 for independent X and Y of one distribution. On floor(n/2) disjoint
pairs of records, one record moves one pair. So every private mean of the (X - Y)^2/2 is a private
variance, with the same guarantee, from half as many records.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _ClippingEstimator, _OnNumbers
from dpbench.estimators.estimands import VARIANCE, Estimand
from dpbench.estimators.intervals import End
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.budgets import Relation
from dpbench.registry import validated
from dpbench.samples import Sample
from dpbench.samples.binned import MAX_WHOLE_RECORDS

__all__ = ["BezierVariance", "ClippedVariance", "PairVariance", "ThreeSumsVariance"]


@validated
class PairVariance(_OnNumbers):
    """Variance through half squared differences of disjoint pairs of records.

    The docstring of `dpbench.estimators.variance` has the privacy of pairs. The pairs are drawn at
    random. A released variance below 0 is set to 0.

    Parameters
    ----------
    base : estimator of numbers, its registered name or its configuration
        The private mean that is run on the (X - Y)^2/2, in the squared unit of the data. Records in
        an interval of width w have (X - Y)^2/2 in [0, w^2/2].
    """

    estimand: ClassVar[Estimand] = VARIANCE
    bounded_in: ClassVar[None] = None

    @property
    def most_records(self) -> int | None:
        limit = self.base.most_records  # of pairs
        return None if limit is None else 2 * limit + 1

    @property
    def most_at_once(self) -> int | None:
        return self.base.most_at_once or MAX_WHOLE_RECORDS  # because of the pairs of records

    def least_records(self, d: int, budget: Budget) -> int:
        return 2 * self.base.least_records(1, budget)  # type: ignore[no-any-return]

    def working_records(self, d: int, budget: Budget) -> int:
        return 2 * self.base.working_records(1, budget)  # type: ignore[no-any-return]

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        release = self.base.run(sample.half_squared_differences(ledger.rng), ledger)
        return Estimate(np.maximum(release.value, 0.0), release.before_noise)


@validated
class _MomentVariance(_ClippingEstimator):
    """Base class of variances from the mean and the mean square of clipped records.

    A release is clipped to [0, (upper - lower)^2/4], the possible variances.
    """

    lower: End = 0.0
    upper: End = 1.0
    estimand: ClassVar[Estimand] = VARIANCE
    bounded_in: ClassVar[None] = None

    @abstractmethod
    def _release(self, size: Floats, mean: Floats, square: Floats, ledger: Ledger) -> Floats:
        """Release the variance of scaled records u in [0, 1] with this mean and mean square."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        width, half = self.upper - self.lower, self.upper / 2 - self.lower / 2
        # Subtract the middle before adding, because a sum of large records would lose digits.
        mean = (1 + sample.centred_mean(self.lower / 2 + self.upper / 2, half) / half) / 2
        square = sample.clipped_square(self.lower, self.upper, self.lower) / width**2
        released = self._release(sample.size(), mean, square, ledger)
        exact = width**2 * np.maximum(square - mean**2, 0.0)
        return Estimate(width**2 * np.clip(released, 0.0, 0.25), exact)


@validated
class ClippedVariance(_MomentVariance):
    """Variance of records in an interval with noise, for a public n.

    HT10, number of the theorem not checked; the docstring of `dpbench.estimators.variance` has the
    sensitivity. A release is clipped to [0, (upper - lower)^2/4], the possible variances.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval to which records are clipped, lower < upper, in the unit of the data.
        Choose them without looking at the data.
    """

    def _release(self, size: Floats, mean: Floats, square: Floats, ledger: Ledger) -> Floats:
        return ledger.add_noise(square - mean**2, (size - 1) / size**2)


@validated
class BezierVariance(_MomentVariance):
    """Bezier mechanism for the variance of records in an interval, with a private n (TLH25).

    TLH25, number of the theorem not checked; the docstring of `dpbench.estimators.variance` has the
    sums and their sensitivity. A release is clipped to [0, (upper - lower)^2/4], the possible
    variances.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval to which records are clipped, lower < upper, in the unit of the data.
        Choose them without looking at the data.
    """

    relations: ClassVar[tuple[Relation, ...]] = ("replace", "add_remove")

    def _release(self, size: Floats, mean: Floats, square: Floats, ledger: Ledger) -> Floats:
        sums = size * np.stack([1 - 2 * mean + square, 2 * (mean - square), square])
        l1: dict[Relation, float] = {"replace": 2.0, "add_remove": 1.0}
        l2: dict[Relation, float] = {"replace": 2**0.5, "add_remove": 1.0}
        low, middle, high = ledger.add_noise(sums.T, l2, l1=l1).T
        noisy_size = np.maximum(low + middle + high, 1.0)
        return np.asarray(high / noisy_size - ((middle / 2 + high) / noisy_size) ** 2)


@validated
class ThreeSumsVariance(_MomentVariance):
    """Variance from three noisy sums, as in Google's Go library, with a private n (WZLDSG20).

    The number of records, the sum of the records and the sum of their squares get a third of the
    budget each. The docstring of `dpbench.estimators.variance` has their sensitivities. A release
    is clipped to [0, (upper - lower)^2/4], the possible variances.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval to which records are clipped, lower < upper, in the unit of the data.
        Choose them without looking at the data.
    centred : bool
        Whether sums are of distances from the middle and their squares, which have one half and a
        quarter of the noise, or plain.
    """

    centred: bool = True
    relations: ClassVar[tuple[Relation, ...]] = ("add_remove",)

    def _release(self, size: Floats, mean: Floats, square: Floats, ledger: Ledger) -> Floats:
        centre = 0.5 if self.centred else 0.0
        powers = [np.ones_like(mean), mean - centre, square - 2 * centre * mean + centre**2]
        noisy = []
        for degree, part in enumerate(ledger.split(1 / 3, 1 / 3, 1 / 3)):
            sensitivity: dict[Relation, float] = {"add_remove": (1 - centre) ** degree}
            noisy.append(part.add_noise(size * powers[degree], sensitivity))
        noisy_size = np.maximum(noisy[0], 1.0)
        return np.asarray(noisy[2] / noisy_size - (noisy[1] / noisy_size) ** 2)
