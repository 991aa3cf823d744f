"""The clipped mean: public bounds, one noisy average."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator, Terms
from dpbench.privacy import Budget, Ledger
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["BinaryMean", "ClippedMean", "noisy_clipped_mean"]

Bound = Annotated[float, Field(ge=-1e300, le=1e300)] | None


def noisy_clipped_mean(
    sample: Sample, centre: float | Floats, half_width: float | Floats, ledger: Ledger
) -> Estimate:
    """Clip to centre +- half_width, average, add noise.

    Replacing one record moves one clipped record by at most 2 half_width in each
    coordinate, so the mean has l1 sensitivity 2 d half_width/n and l2 sensitivity
    2 sqrt(d) half_width/n. Centre and half width, numbers or (trials,) arrays, are public or
    released before; NaN as a centre gives NaN.
    """
    clipped = sample.clipped_mean(centre - half_width, centre + half_width)
    step = 2 * half_width / sample.n
    l1, l2 = sample.d * step, float(np.sqrt(sample.d)) * step
    return Estimate(ledger.add_noise(clipped, l2, l1=l1), clipped)


@validated
class ClippedMean(Estimator):
    """The mean of the records clipped to a public interval, with noise.

    L15, 'Unbounded data'. Of vectors every coordinate is clipped.

    Parameters
    ----------
    lower, upper : float or None
        Bounds that do not depend on the data. Without one of them (None) the mean has no
        finite sensitivity: nothing is released or spent, and every trial is a failure.
    """

    lower: Bound
    upper: Bound
    multivariate: ClassVar[bool] = True

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise ValueError(f"upper must exceed lower, got [{self.lower}, {self.upper}]")
        return self

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if self.lower is None or self.upper is None:
            nothing = np.full_like(sample.mean(), np.nan)
            return Estimate(nothing, nothing)
        centre, half_width = self.lower / 2 + self.upper / 2, self.upper / 2 - self.lower / 2
        return noisy_clipped_mean(sample, centre, half_width, ledger)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        if self.lower is None or self.upper is None:
            return {}
        return {"privacy": (self.upper - self.lower) * budget.noise_quantile(beta) / alpha}


@validated
class BinaryMean(Estimator):
    """The mean of records in {0, 1} with noise of sensitivity 1/n.

    L15, 'Binary Mean Estimation'. Other records are clipped to [0, 1].
    """

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return noisy_clipped_mean(sample, 0.5, 0.5, ledger)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        return {"privacy": budget.noise_quantile(beta) / alpha}
