"""Estimators without privacy, the baseline for the cost of privacy."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from dpbench.estimators.base import Estimate, Estimator
from dpbench.privacy import Budget, Ledger, NonPrivate
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["EmpiricalMean", "Median", "MedianOfMeans", "TrimmedMean"]


class _NonPrivateEstimator(Estimator):
    """Base class of estimators without privacy, for scalars and vectors."""

    notions: ClassVar[tuple[type[Budget], ...]] = (NonPrivate,)
    multivariate: ClassVar[bool] = True


@validated
class EmpiricalMean(_NonPrivateEstimator):
    """Empirical mean of the records, without privacy."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        mean = sample.mean()
        return Estimate(mean, mean)


@validated
class Median(_NonPrivateEstimator):
    """Sample median, without privacy; scalar records only.

    For even n the median is the mean of the two middle records.
    """

    multivariate: ClassVar[bool] = False

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        values, counts = sample.ranked((sample.n - 1) // 2, sample.n // 2)
        middle = (values * (counts / counts.sum(axis=1, keepdims=True))).sum(axis=1)
        return Estimate(middle, middle)


@validated
class MedianOfMeans(_NonPrivateEstimator):
    """Median of means, without privacy: the median of the means of disjoint groups.

    The median of vectors is taken in each coordinate.

    Parameters
    ----------
    groups : int >= 1
        Number of groups. At most n are used, because a group must not be empty. More groups resist
        outliers better, and fewer groups follow the mean of skewed records more closely.
    """

    groups: Annotated[int, Field(ge=1)] = 10

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        groups = min(self.groups, sample.n)
        means = sample.by_group(groups, ledger.rng, lambda rows: rows.mean())
        middle = 2 * np.median(means / 2, axis=1)  # the sum of the middle two may overflow
        return Estimate(middle, middle)


@validated
class TrimmedMean(_NonPrivateEstimator):
    """Trimmed mean, without privacy: drop floor(fraction n) records at each end, average the rest.

    Parameters
    ----------
    fraction : float in [0, 0.5)
        Share of the records dropped from each end. A larger share resists outliers better and
        follows the mean of skewed records less closely.
    """

    fraction: Annotated[float, Field(ge=0, lt=0.5)] = 0.05

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        mean = sample.trimmed_mean(self.fraction)
        return Estimate(mean, mean)
