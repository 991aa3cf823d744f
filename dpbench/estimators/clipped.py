"""The clipped mean: public bounds, one noisy average."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from pydantic import model_validator

from dpbench.estimators.base import Estimate, Estimator
from dpbench.parameters import validated
from dpbench.privacy import Ledger
from dpbench.samples import Sample

__all__ = ["ClippedMean", "noisy_clipped_mean"]


def noisy_clipped_mean(sample: Sample, lower: float, upper: float, ledger: Ledger) -> Estimate:
    """Clip to [lower, upper], average, add noise.

    Replacing one record moves one clipped record by at most upper - lower in each
    coordinate, so the mean has l1 sensitivity d (upper - lower)/n and l2 sensitivity
    sqrt(d) (upper - lower)/n.
    """
    clipped = sample.clipped_mean(lower, upper)
    step = (upper - lower) / sample.n
    l1, l2 = sample.d * step, float(np.sqrt(sample.d)) * step
    return Estimate(ledger.add_noise(clipped, l2, l1=l1), clipped)


@validated
class ClippedMean(Estimator):
    """The mean of the records clipped to a public interval, with noise.

    Kamath, lecture 15, 'Unbounded data'. With d-dimensional records the interval
    holds for every coordinate.

    Parameters
    ----------
    lower, upper : float
        Public bounds, ``lower < upper``; they may not depend on the data.
    """

    lower: float
    upper: float
    multivariate: ClassVar[bool] = True

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError(f"upper must exceed lower, got [{self.lower}, {self.upper}]")
        return self

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return noisy_clipped_mean(sample, self.lower, self.upper, ledger)
