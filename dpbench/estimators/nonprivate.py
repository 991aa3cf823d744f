"""Estimators without privacy: the reference for what privacy costs."""

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
    notions: ClassVar[tuple[type[Budget], ...]] = (NonPrivate,)
    multivariate: ClassVar[bool] = True


@validated
class EmpiricalMean(_NonPrivateEstimator):
    """The mean of the records."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        mean = sample.mean()
        return Estimate(mean, mean)


@validated
class Median(_NonPrivateEstimator):
    """The middle record, or the mean of the middle two; scalar records only."""

    multivariate: ClassVar[bool] = False

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        values, counts = sample.ranked((sample.n - 1) // 2, sample.n // 2)
        middle = (values * (counts / counts.sum(axis=1, keepdims=True))).sum(axis=1)
        return Estimate(middle, middle)


@validated
class MedianOfMeans(_NonPrivateEstimator):
    """The median of the means of disjoint groups, of one record at least, in each coordinate.

    Parameters
    ----------
    groups : int
    """

    groups: Annotated[int, Field(ge=1)] = 10

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        groups = min(self.groups, sample.n)
        means = sample.by_group(groups, ledger.rng, lambda rows: rows.mean())
        middle = 2 * np.median(means / 2, axis=1)  # the sum of the middle two may overflow
        return Estimate(middle, middle)


@validated
class TrimmedMean(_NonPrivateEstimator):
    """The mean without the floor(fraction n) smallest and as many largest records.

    Parameters
    ----------
    fraction : float in [0, 0.5)
        Share of the records cut from each end.
    """

    fraction: Annotated[float, Field(ge=0, lt=0.5)] = 0.05

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        kept = sample.trimmed_mean(self.fraction)
        return Estimate(kept, kept)
