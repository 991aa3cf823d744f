"""Sample and aggregate: any estimator on disjoint buckets, and a private aggregate of its outputs.

Sources: NRS07 (theorem number not checked) and L17, section 2. The base estimator runs on every
bucket. A record is in one bucket, so replacing a record changes one output. An aggregate that is
private for the outputs is therefore private for the records, whatever the base estimator returns.
The release is not private if the base estimator raises an error on some records, because the error
itself depends on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, MeanInBox
from dpbench.estimators.base import Estimate, Estimator, as_estimator
from dpbench.estimators.clipped import ErrorBound, noisy_clipped_mean
from dpbench.estimators.estimands import MEAN
from dpbench.estimators.friendly_core import FriendlyCoreMean, friendly_mean
from dpbench.privacy import ApproxDP, Budget, Ledger, NonPrivate
from dpbench.privacy.histogram import private_mode_bin
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.quantile import audit_pairs, private_quantile
from dpbench.registry import validated
from dpbench.samples import Bins, DenseSample, Sample
from dpbench.samples.binned import MAX_WHOLE_RECORDS

__all__ = ["SubsampleAggregate", "SubsampleTest"]

Buckets = Annotated[int, Field(ge=1)]
MAX_OUTPUT = 1e300  # bound on the absolute outputs if no bounds are given


@validated
class SubsampleAggregate(Estimator):
    """Sample and aggregate: a non-private estimator on every bucket, aggregated privately (NRS07).

    With base ``empirical_mean`` and aggregate ``median`` this is the private median of means. If
    outputs have d coordinates, the aggregates ``median`` and ``mode`` release each with 1/d of the
    budget; ``mean`` and ``friendly_core`` release all coordinates at once.
    `dpbench.estimators.subsample` shows that a private aggregate makes the release private.

    Parameters
    ----------
    buckets : int >= 1
        Number of disjoint buckets. More buckets mean less noise, but fewer records for each output.
    lower, upper : float, optional
        Public bounds on the outputs, in the unit of the data. Outputs outside of the bounds are
        moved to the bounds, and NaN to `lower`. Only ``friendly_core`` can do without bounds; NaN
        then becomes 0.
    base : str, mapping, Estimator or callable
        Estimator without privacy, its kind or its configuration; or a function of a (buckets, size)
        or (buckets, size, d) array. The function returns a number or d numbers for each bucket. The
        release is private only if the output for a bucket depends on no other bucket.
    aggregate : {'median', 'mean', 'mode', 'friendly_core'}
        ``median``: `private_quantile` of the outputs. ``mean``: the mean of the outputs, clipped to
        the bounds, with noise of sensitivity (upper - lower)/buckets in every coordinate. ``mode``:
        the middle of the fullest bin, of width 2 resolution, of a private histogram.
        No bin is wrong without an assumption on the outputs, so no failure is declared. If one bin
        has c outputs more than any other bin, another bin is released with probability at most
        `dpbench.privacy.histogram.wrong_bin_probability` at the lead c. With few buckets it may be
        any bin between the bounds. ``friendly_core``, under (epsilon, delta) only: `friendly_mean`,
        a private mean in which an output with more friends has more weight.
    resolution : float in [1e-100, 1e100]
        Accuracy, in the unit of the outputs, to which median and mode are released. A smaller value
        needs more buckets.
    friends_within : float > 0, optional
        Distance up to which two outputs are friends; required for ``friendly_core``, and not
        allowed otherwise.
    """

    buckets: Buckets
    lower: ErrorBound | None = None
    upper: ErrorBound | None = None
    base: Any = Field(default="empirical_mean", validate_default=True)
    aggregate: Literal["median", "mean", "mode", "friendly_core"] = "median"
    resolution: Annotated[float, Field(ge=1e-100, le=1e100)] = 0.01
    friends_within: Annotated[float, Field(gt=0, le=1e150)] | None = None
    multivariate: ClassVar[bool] = True
    narrowed_by: ClassVar[tuple[str, ...]] = ("aggregate",)

    @field_validator("base")
    @classmethod
    def _check_base(cls, base: Any) -> Estimator | Callable[[Floats], Floats]:
        estimator: Any = as_estimator(base)
        if isinstance(estimator, Estimator):
            if not estimator.supports(NonPrivate()):
                raise ValueError(
                    f"take an estimator without privacy, not {type(estimator).__name__}"
                )
        elif not callable(estimator) or isinstance(estimator, type):
            raise ValueError("give an estimator without privacy or a function of a batch")
        return estimator  # type: ignore[no-any-return]

    @model_validator(mode="after")
    def _check_aggregate(self) -> Self:
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
        low = -MAX_OUTPUT if self.lower is None else self.lower
        return low, MAX_OUTPUT if self.upper is None else self.upper

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return (ApproxDP,) if self.aggregate == "friendly_core" else self.notions

    @property
    def most_at_once(self) -> int | None:
        if not isinstance(self.base, Estimator):
            return MAX_WHOLE_RECORDS
        limit = self.base.most_at_once
        return None if limit is None else limit * self.buckets

    def least_records(self, d: int, budget: Budget) -> int:
        base = self.base.least_records(d, NonPrivate()) if isinstance(self.base, Estimator) else 1
        return self.buckets * base

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        bounded = self.lower is not None and self.upper is not None
        of_means = isinstance(self.base, Estimator) and self.estimand is MEAN
        return (MeanInBox(*self._bounds),) if bounded and of_means else ()

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
        """Return a sample whose records are the base estimator's outputs, one for each bucket.

        Outputs are clipped to [`lower`, `upper`]; a missing bound is replaced by -`MAX_OUTPUT` or
        `MAX_OUTPUT`. NaN becomes `lower`, or 0 if `lower` is None.
        """
        outputs = sample.by_group(self.buckets, rng, lambda rows: self._output(rows, rng))
        # An output that is NaN or infinite must not stop the release: that would reveal a record.
        outputs = np.where(np.isnan(outputs), 0.0 if self.lower is None else self.lower, outputs)
        return DenseSample(np.clip(outputs, *self._bounds))

    def _middle(self, outputs: DenseSample, ledger: Ledger) -> tuple[Floats, Floats]:
        """Return the private median or mode of scalar outputs, and the value without noise.

        Each output is the value of the base estimator on one bucket.
        """
        low, high = self._bounds
        if self.aggregate == "median":
            value = private_quantile(outputs, 0.5, low, high, self.resolution, ledger)
            return value, np.median(outputs.values, axis=1)
        bins = Bins(2 * self.resolution, low, high)
        plain = Ledger(NonPrivate(), ledger.rng)
        lefts = [private_mode_bin(outputs, bins, account) for account in (ledger, plain)]
        value, before = (np.clip(left + self.resolution, low, high) for left in lefts)
        return value, before

    def _output(self, rows: Sample, rng: np.random.Generator) -> Floats:
        """Return the base estimator's outputs for a sample in which each trial is a bucket."""
        if isinstance(self.base, Estimator):
            return self.base.run(rows, Ledger(NonPrivate(), rng)).value
        if not isinstance(rows, DenseSample):
            raise ValueError("the base function needs records in memory; take fewer of them")
        # A warning that depends on the records would stop the release under ``python -W error``.
        with np.errstate(all="ignore"):
            outputs = np.asarray(self.base(rows.values), dtype=float)
        if outputs.shape != rows.mean().shape:
            raise ValueError(
                f"the base function returned {outputs.shape} for {rows.trials} buckets"
            )
        return outputs


@validated
class SubsampleTest(Estimator):
    """Sample and aggregate test of N(0, s^2) against N(1, s^2), which releases 0 or 1 (NRS07; L17).

    Theorem numbers were not checked. Every bucket of records votes for the mean with the larger
    likelihood: 1 if the mean of its records exceeds 1/2, and else 0. A replaced record changes one
    vote, so the number of votes for 1 has sensitivity 1. The release is the mean of the chosen
    distribution, so the average error is the probability of a wrong decision.

    Parameters
    ----------
    buckets : int >= 1
        Number of disjoint buckets, one vote each. More buckets mean less noise and weaker votes.
    aggregate : {'count', 'exponential', 'histogram'}
        ``count``: compare the noisy number of votes for 1 with half of the buckets.
        ``exponential``: choose by the exponential mechanism on the numbers of votes. ``histogram``:
        choose the fuller of two noisy bins. No aggregate declares failure for few buckets, because
        the error is the probability of a wrong decision at every number of buckets.
    """

    buckets: Buckets
    aggregate: Literal["count", "exponential", "histogram"] = "count"
    bounded_in: ClassVar[None] = None  # no bound applies, because the mean has to be 0 or 1

    def least_records(self, d: int, budget: Budget) -> int:
        return self.buckets

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
            return Estimate(
                private_mode_bin(DenseSample(votes), Bins(1.0, 0.0, 2.0), ledger), majority
            )
        return Estimate(chosen.astype(float), majority)
