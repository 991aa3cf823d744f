"""Subsample and aggregate: any estimator on disjoint buckets, a private step on top.

NRS07; L17, section 2. A record sits in one bucket, so replacing it changes one of the outputs: an
aggregator that is private for the outputs is private for the records, whatever the base returns;
one that stops the release, by an error, on some records is not covered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator, made
from dpbench.estimators.clipped import Bound, noisy_clipped_mean
from dpbench.estimators.friendly_core import FriendlyCoreMean, friendly_mean
from dpbench.privacy import ApproxDP, Budget, Ledger, NonPrivate
from dpbench.privacy.histogram import fullest_bin
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.quantile import audit_pairs, private_quantile
from dpbench.registry import validated
from dpbench.samples import Bins, DenseSample, Sample
from dpbench.samples.streamed import MOST_WHOLE

__all__ = ["SubsampleAggregate", "SubsampleTest"]

Buckets = Annotated[int, Field(ge=1)]
LARGEST = 1e300


@validated
class SubsampleAggregate(Estimator):
    """An estimator without privacy on every bucket, and a private average of the outputs.

    With base ``empirical_mean`` and aggregate ``median`` it is the private median of means.
    Outputs that are vectors are aggregated coordinate by coordinate, each with 1/d of the
    budget, but for ``mean``, whose noise is for all of them, and ``friendly_core``.

    Parameters
    ----------
    buckets : int
    lower, upper : float, optional
        Public bounds on the outputs; those outside count at the ends, NaN at the lower.
        ``friendly_core`` needs none: without them, NaN counts as 0.
    base : estimator without privacy, its name or its configuration, or a function
        A function takes a (buckets, size) or (buckets, size, d) array; what it returns for a
        bucket, a number or (d,), depends on that bucket's row alone: privacy rests on it.
    aggregate : {'median', 'mean', 'mode', 'friendly_core'}
        ``median``: `private_quantile`. ``mean``: the outputs clipped to the bounds, with noise of
        sensitivity (upper - lower)/buckets in every coordinate. ``mode``: the middle of the fullest
        of private bins of width 2 resolution. ``friendly_core``, under (epsilon, delta) only:
        `friendly_mean`.
    resolution : float > 0
        To what accuracy an output is wanted, for median and mode.
    friends_within : float > 0, optional
        For ``friendly_core``: the distance of outputs that are friends.
    """

    buckets: Buckets
    lower: Bound | None = None
    upper: Bound | None = None
    base: Any = Field(default="empirical_mean", validate_default=True)
    aggregate: Literal["median", "mean", "mode", "friendly_core"] = "median"
    resolution: Annotated[float, Field(ge=1e-100, le=1e100)] = 0.01
    friends_within: Annotated[float, Field(gt=0, le=1e150)] | None = None
    multivariate: ClassVar[bool] = True

    @field_validator("base")
    @classmethod
    def _known_base(cls, base: Any) -> Estimator | Callable[[Floats], Floats]:
        found: Any = made(base)
        if isinstance(found, Estimator):
            if not found.supports(NonPrivate()):
                raise ValueError(f"take an estimator without privacy, not {type(found).__name__}")
        elif not callable(found) or isinstance(found, type):
            raise ValueError("give an estimator without privacy or a function of a batch")
        return found  # type: ignore[no-any-return]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        friendly = self.aggregate == "friendly_core"
        if friendly and self.friends_within is None:
            raise ValueError("the aggregate friendly_core needs friends_within")
        if not friendly and self.friends_within is not None:
            raise ValueError(f"the aggregate {self.aggregate} takes no friends_within")
        if not friendly and (self.lower is None or self.upper is None):
            raise ValueError(f"the aggregate {self.aggregate} needs lower and upper")
        if not self._bounds[0] < self._bounds[1]:
            raise ValueError("upper must exceed lower, got [{:g}, {:g}]".format(*self._bounds))
        return self

    @property
    def _bounds(self) -> tuple[float, float]:
        low = -LARGEST if self.lower is None else self.lower
        return low, LARGEST if self.upper is None else self.upper

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return (ApproxDP,) if self.aggregate == "friendly_core" else self.notions

    @property
    def most_at_once(self) -> int | None:
        if not isinstance(self.base, Estimator):
            return MOST_WHOLE
        most = self.base.most_at_once
        return None if most is None else most * self.buckets

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        outputs = self._outputs(sample, ledger.rng)
        shape = outputs.mean().shape
        if self.aggregate == "mean":
            low, high = self._bounds
            return noisy_clipped_mean(outputs, low / 2 + high / 2, high / 2 - low / 2, ledger)
        if self.aggregate == "friendly_core":
            assert self.friends_within is not None
            rows = outputs.values.reshape(sample.trials, self.buckets, -1)
            return friendly_mean(rows, self.friends_within, ledger).reshaped(shape)
        if len(shape) > 1:
            outputs, ledger = outputs.columns(), ledger.repeated(outputs.d)
        return Estimate(*self._middle(outputs, ledger)).reshaped(shape)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if self.aggregate == "friendly_core":
            return FriendlyCoreMean(radius=self.friends_within).audit_pairs(n, d, budget)
        if self.aggregate != "median" or self.buckets != n:
            return []
        pairs = audit_pairs(n, 0.5, *self._bounds, self.resolution)
        return pairs if d is None else [pair.along(np.ones(d)) for pair in pairs]

    def _outputs(self, sample: Sample, rng: np.random.Generator) -> DenseSample:
        """What the base estimator says of each bucket, made finite and put within bounds."""
        found = sample.by_group(self.buckets, rng, lambda rows: self._output(rows, rng))
        # Nothing that one bucket returns may stop the release.
        found = np.where(np.isnan(found), 0.0 if self.lower is None else self.lower, found)
        return DenseSample(np.clip(found, *self._bounds))

    def _middle(self, outputs: DenseSample, ledger: Ledger) -> tuple[Floats, Floats]:
        """The private median or mode of scalar outputs, and the one without noise."""
        low, high = self._bounds
        if self.aggregate == "median":
            value = private_quantile(outputs, 0.5, low, high, self.resolution, ledger)
            return value, np.median(outputs.values, axis=1)
        bins = Bins(2 * self.resolution, low, high)
        plain = Ledger(NonPrivate(), ledger.rng)
        lefts = [fullest_bin(outputs, bins, account) for account in (ledger, plain)]
        value, before = (np.clip(left + self.resolution, low, high) for left in lefts)
        return value, before

    def _output(self, rows: Sample, rng: np.random.Generator) -> Floats:
        if isinstance(self.base, Estimator):
            return self.base.run(rows, Ledger(NonPrivate(), rng)).value
        if not isinstance(rows, DenseSample):
            raise ValueError("a function of a batch needs records, and these are not held")
        with np.errstate(all="ignore"):  # where warnings are errors, records would stop the release
            found = np.asarray(self.base(rows.values), dtype=float)
        if found.shape != rows.mean().shape:
            raise ValueError(f"the base function returned {found.shape} for {rows.trials} buckets")
        return found


@validated
class SubsampleTest(Estimator):
    """Which of N(0, s^2) and N(1, s^2) the records come from: the index, 0 or 1.

    Each bucket votes by the likelihood ratio, which is whether its mean exceeds 1/2. The index is
    the mean of the law: the average error is the probability of a wrong decision.

    Parameters
    ----------
    buckets : int
    aggregate : {'count', 'exponential', 'histogram'}
        ``count``: the votes for 1, with noise, against half of the buckets. ``exponential``: the
        exponential mechanism on the votes for each. ``histogram``: the fuller of two noisy bins.
    """

    buckets: Buckets
    aggregate: Literal["count", "exponential", "histogram"] = "count"
    bounded_in: ClassVar[None] = None  # of two laws it is told

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        means = sample.by_group(self.buckets, ledger.rng, lambda rows: rows.mean())
        votes = (means > 0.5).astype(float)
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
