"""Subsample and aggregate: any estimator on disjoint buckets, a private step on top.

A record sits in one bucket, so replacing it changes one of the buckets' outputs: an
aggregator that is private for the outputs is private for the records, whatever the base
estimator returns; one that stops the release, by an error, on some records is not covered.
Buckets differ in size by at most one.

References
----------
.. [1] G. Brown, lecture 17, section 2.
.. [2] K. Nissim, S. Raskhodnikova, A. Smith, "Smooth sensitivity and sampling in private
   data analysis", STOC 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.parameters import validated
from dpbench.privacy import Ledger, NonPrivate
from dpbench.privacy.histogram import fullest_bin
from dpbench.privacy.quantile import private_quantile
from dpbench.samples import Bins, DenseSample, Sample

__all__ = ["SubsampleAggregate", "SubsampleTest"]

Floats = NDArray[np.float64]
Bound = Annotated[float, Field(ge=-1e300, le=1e300)]
Buckets = Annotated[int, Field(ge=1)]


@validated
class SubsampleAggregate(Estimator):
    """An estimator without privacy on every bucket, and a private average of the outputs.

    With base ``empirical_mean`` and aggregate ``median`` it is the private median of means.

    Parameters
    ----------
    buckets : int
    lower, upper : float
        Public bounds on the outputs; those outside count at the ends, NaN at the lower.
    base : estimator without privacy, its name or its configuration, or a function
        A function takes a (buckets, size) array and returns a number per bucket, which
        depends on that bucket's row alone: the privacy rests on it.
    aggregate : {'median', 'mean', 'mode'}
        ``median``: `private_quantile`. ``mean``: the outputs clipped to the bounds, with
        noise of sensitivity (upper - lower)/buckets. ``mode``: the middle of the fullest
        bin of a private histogram with bins of width 2 resolution.
    resolution : float > 0
        To what accuracy an output is wanted, for median and mode.
    """

    buckets: Buckets
    lower: Bound
    upper: Bound
    base: Any = Field(default="empirical_mean", validate_default=True)
    aggregate: Literal["median", "mean", "mode"] = "median"
    resolution: Annotated[float, Field(ge=1e-100, le=1e100)] = 0.01

    @field_validator("base")
    @classmethod
    def _known_base(cls, base: Any) -> Estimator | Callable[[Floats], Floats]:
        spec = {"kind": base} if isinstance(base, str) else base
        made = Estimator.build(spec, "base") if isinstance(spec, Mapping) else spec
        if isinstance(made, Estimator):
            if not made.supports(NonPrivate()):
                raise ValueError(f"take an estimator without privacy, not {type(made).__name__}")
        elif not callable(made) or isinstance(made, type):
            raise ValueError("give an estimator without privacy or a function of a batch")
        return made

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError(f"upper must exceed lower, got [{self.lower}, {self.upper}]")
        return self

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        found = sample.by_group(
            self.buckets, ledger.rng, lambda rows: self._output(rows, ledger.rng)
        )
        # Nothing that one bucket returns may stop the release.
        found = np.where(np.isnan(found), self.lower, found)
        outputs = DenseSample(np.clip(found, self.lower, self.upper))
        if self.aggregate == "mean":
            centre = self.lower / 2 + self.upper / 2
            return noisy_clipped_mean(outputs, centre, self.upper / 2 - self.lower / 2, ledger)
        if self.aggregate == "median":
            bounds = (self.lower, self.upper)
            value = private_quantile(outputs, 0.5, *bounds, self.resolution, ledger)
            return Estimate(value, np.median(outputs.values, axis=1))
        bins = Bins(2 * self.resolution, self.lower, self.upper)
        left = fullest_bin(outputs, bins, ledger)
        before = fullest_bin(outputs, bins, Ledger(NonPrivate(), ledger.rng))
        value, before = (
            np.clip(bin_ + self.resolution, self.lower, self.upper) for bin_ in (left, before)
        )
        return Estimate(value, before)

    def _output(self, rows: Sample, rng: np.random.Generator) -> Floats:
        if isinstance(self.base, Estimator):
            return self.base.run(rows, Ledger(NonPrivate(), rng)).value
        if not isinstance(rows, DenseSample):
            raise ValueError("a function of a batch needs records, and these are counts")
        found = np.asarray(self.base(rows.values), dtype=float)
        if found.shape != (rows.trials,):
            raise ValueError(f"the base function returned {found.shape} for {rows.trials} buckets")
        return found


@validated
class SubsampleTest(Estimator):
    """Which of N(0, s^2) and N(1, s^2) the records come from: the index, 0 or 1.

    Each bucket votes by the likelihood ratio, which is whether its mean exceeds 1/2. The
    index is the mean of the law, so that the absolute error is 0 or 1, and its average
    the probability of a wrong decision. Two Gaussians whose means are g standard
    deviations apart are the case s = 1/g.

    Parameters
    ----------
    buckets : int
    aggregate : {'count', 'exponential', 'histogram'}
        ``count``: the votes for 1, of sensitivity 1, with noise, against half of the buckets.
        ``exponential``: the exponential mechanism on the votes for each, of sensitivity
        1. ``histogram``: the fuller of two noisy bins.
    """

    buckets: Buckets
    aggregate: Literal["count", "exponential", "histogram"] = "count"

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        votes = (sample.by_group(self.buckets, ledger.rng, lambda rows: rows.mean()) > 0.5).astype(
            float
        )
        for_one = votes.sum(axis=1)
        majority = (for_one > self.buckets / 2).astype(float)
        if self.aggregate == "count":
            chosen = ledger.add_noise(for_one, 1.0) > self.buckets / 2
        elif self.aggregate == "exponential":
            scores = np.stack([self.buckets - for_one, for_one], axis=1)
            chosen = ledger.exponential(scores, 1.0) == 1
        else:
            return Estimate(fullest_bin(DenseSample(votes), Bins(1.0, 0.0, 2.0), ledger), majority)
        return Estimate(chosen.astype(float), majority)
