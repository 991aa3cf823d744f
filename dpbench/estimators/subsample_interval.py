"""Confidence interval from any estimator of the mean, run on disjoint parts of the records.

**Setting.** The n records are independent, with mean mu. They are cut by index into k parts of
nearly equal size, and a base estimator gives an output Y for each part. So the outputs are
independent. Let D be a bound on the median bias of the outputs: P(Y < mu) and P(Y > mu) are at
most 1/2 + D. Noise of the base counts as part of Y. Let Y_(1) <= ... <= Y_(k) be the sorted
outputs.

**Coverage.** For a rank j <= k/2 let

    g(p) = P(Bin(k, p) <= j - 1) + P(Bin(k, 1 - p) <= j - 1).

The interval [Y_(j), Y_(k+1-j)] misses mu with probability at most g(1/2 + D), at every n:

1. Call an output low if it is below mu, and high if it is above mu. Call an output equal to mu low
   with such a probability that P(low) is in [1/2 - D, 1/2 + D]. Let S be the number of low outputs.
   If Y_(j) > mu, at most j - 1 outputs are <= mu, so S <= j - 1. If Y_(k+1-j) < mu, then
   S >= k - j + 1. So a miss implies the event S <= j - 1 or S >= k - j + 1.
2. The probability of the event is linear in each output's p = P(low). So it is largest if each p is
   u = 1/2 + D or 1 - u. Its derivative in one p is P(S' = k - j) - P(S' = j - 1), where S' is the
   number of low outputs among the others.
3. Suppose that at least half of the others have p = u. Then S' = T + E. T is the sum over pairs
   with p = u and p = 1 - u, so it is symmetric about its centre c, and unimodal. E is Bin(r, u),
   so P(E = e) >= P(E = r - e) for e >= r/2. Compare the terms of e and r - e in the derivative. As
   |k - j - e - c| <= |j - 1 - e - c| for e >= r/2, the derivative is at least 0.
4. So if at least half of all p are u, the probability does not fall when all become u. If at most
   half are u, low and high change roles. Hence it is at most g(u).

For j = 1 this is the HulC (KBW24), whose interval is the hull of the outputs. The source of the
black box (SSVL25) draws overlapping subsamples, and rescales the distribution of their outputs.
Its coverage is asymptotic, while disjoint parts give a bound at every n.

**Private base.** Each part is released with the whole budget. Replacing a record changes one part,
so the release of all outputs has the privacy of one output (parallel composition). The ends of the
interval are functions of the outputs, and cost nothing more.

**Base without privacy.** Replacing a record changes one output, so it changes each count of
outputs by at most 1, whatever the base computes. Let the outputs be clipped to a public interval
[L, U] that contains mu; this keeps their order relative to mu. Each end is a private quantile
(`dpbench.privacy.quantile`) of the k outputs with half of the budget. It has target rank m and
resolution h.

1. Let e be the epsilon of the exponential mechanism. A point t has the density proportional to
   exp(-e s/2), where -s is its score. Points of score 0 have a length of at least h, because
   h <= U - L. So the released point T has s >= r with probability at most ((U - L)/h) exp(-e r/2).
   This is at most beta/4 for r = ceil((2/e) ln(4 (U - L)/(h beta))).
2. Otherwise at most m + r - 1 outputs are below T - h, because scores are whole numbers. If also
   T - h > mu, at most m + r - 1 outputs are <= mu. This is the event of the rank j = m + r.
3. So m is j - r, for the largest j with g(1/2 + D) <= beta/2. The upper end is T' + h, for the
   private quantile T' of rank k - m. All errors together have probability at most beta.
4. If m < 1, the interval is [L, U], and the whole budget releases the median of the outputs.

**Limits.** D is an assumption on the base. Clipping at fixed bounds moves outputs by a constant b.
The outputs have a standard deviation of the order of sqrt(k/n), so D exceeds every bound below 1/2
as n grows. The interval survives a clipping bias that is small against the spread of one output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np
from pydantic import Field, field_validator, model_validator
from scipy.special import bdtr

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, MeanInBox
from dpbench.estimators.base import Estimate, Estimator, as_estimator
from dpbench.estimators.clipped import ErrorBound
from dpbench.estimators.estimands import MEAN
from dpbench.privacy import Budget, Ledger, NonPrivate
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.quantile import private_quantile
from dpbench.registry import Probability, validated
from dpbench.samples import DenseSample, Sample

__all__ = ["SubsampleInterval"]

MAX_PARTS = 10**5
FAR = 1e6  # records of audited datasets, outside of the bounds of audited estimators


@validated
class SubsampleInterval(Estimator):
    """Confidence interval from outputs of any estimator on disjoint parts (SSVL25, KBW24).

    The interval is an order statistic of the outputs and its mirror image.
    `dpbench.estimators.subsample_interval` derives privacy and coverage. The estimate is the median
    of the outputs, or the middle of the interval if the base is not private.

    Parameters
    ----------
    parts : int in [2, 1e5]
        Number of disjoint parts. More parts give narrower ranks, but fewer records and more noise
        for each output. A private base needs few parts: 5 for beta = 0.1 and median_bias = 0.
    base : str, mapping or Estimator
        Estimator of the mean, its kind or its configuration, private or not. A private base has the
        whole budget on each part.
    beta : float in (0, 1)
        Largest probability that the interval misses the mean, if `median_bias` is a bound.
    median_bias : float in [0, 0.5)
        Bound D: an output is below the mean with a probability of at most 1/2 + D, and above it
        too. A larger D allows for clipping and skewness, but needs more parts.
    lower, upper : float, optional
        Public bounds on the mean, in the unit of the data. They are required for a base without
        privacy, and not allowed otherwise.
    resolution : float in [1e-100, 1e100]
        Accuracy, in the unit of the data, to which the ends are released if the base is not
        private; at most upper - lower.
    """

    parts: Annotated[int, Field(ge=2, le=MAX_PARTS)]
    base: Any
    beta: Probability = 0.1
    median_bias: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    lower: ErrorBound | None = None
    upper: ErrorBound | None = None
    resolution: Annotated[float, Field(ge=1e-100, le=1e100)] = 0.01
    bounded_in: ClassVar[None] = None  # the bounds and the median bias may tell more of the mean
    narrowed_by: ClassVar[tuple[str, ...]] = ("base",)

    @field_validator("base")
    @classmethod
    def _check_base(cls, base: Any) -> Estimator:
        estimator = as_estimator(base)
        if not isinstance(estimator, Estimator) or estimator.estimand is not MEAN:
            raise ValueError("not an estimator of the mean; give one, such as clipped_mean")
        return estimator

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if self._base_is_private:
            if not (self.lower is None and self.upper is None):
                raise ValueError("a private base takes no lower and upper; leave them out")
            if self._rank(self.beta) < 1:
                raise ValueError(
                    f"{self.parts} parts are too few for beta {self.beta:g} and median_bias "
                    f"{self.median_bias:g}; take {self._least_parts} or more"
                )
        elif self.lower is None or self.upper is None:
            raise ValueError("a base without privacy needs lower and upper; give public bounds")
        elif not self.resolution <= self.upper - self.lower:
            raise ValueError("upper must exceed lower by the resolution or more")
        return self

    @property
    def _base_is_private(self) -> bool:
        return not self.base.supports(NonPrivate())

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        private = cast("tuple[type[Budget], ...]", self.base.honoured)
        return private if self._base_is_private else self.notions

    @property
    def seeded(self) -> bool:  # type: ignore[override]  # an attribute of the base
        return bool(self.base.seeded)

    @property
    def most_at_once(self) -> int | None:
        limit = self.base.most_at_once
        return None if limit is None else limit * self.parts

    @property
    def most_records(self) -> int | None:
        limit = self.base.most_records
        return None if limit is None else limit * self.parts

    def least_records(self, d: int, budget: Budget) -> int:
        part = budget if self._base_is_private else NonPrivate()
        return int(self.parts * self.base.least_records(d, part))

    def working_records(self, d: int, budget: Budget) -> int:
        part = budget if self._base_is_private else NonPrivate()
        return int(self.parts * self.base.working_records(d, part))

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        assumed = list(self.base.assumptions(max(1, n // self.parts), d))
        if self.lower is not None and self.upper is not None:
            assumed.append(MeanInBox(self.lower, self.upper))
        return assumed

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if not self._base_is_private:
            return self._between_quantiles(sample, ledger)
        ledgers = iter(ledger.parallel(2 if sample.n % self.parts else 1))  # one for each size
        outputs = self._outputs(sample, lambda: next(ledgers), ledger.rng)
        values, before = outputs[..., 0], outputs[..., 1]
        failed = np.isnan(values)  # a failure could be on either side of the mean
        rank = self._rank(self.beta) - 1
        low = np.sort(np.where(failed, -np.inf, values), axis=1)[:, rank]
        high = np.sort(np.where(failed, np.inf, values), axis=1)[:, -1 - rank]
        middles = _median(values), _median(before)
        return Estimate(*middles, interval=(low, high), miss=self.beta)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        """Return a pair in which one record moves the median of the outputs of a private base.

        The first part has records on both sides. Outputs of the other parts are far below and far
        above its output, so its output is the median if the number of parts is odd.
        """
        if d is not None or not self._base_is_private:
            return []
        size = -(-n // self.parts)
        below = min(size * (self.parts // 2), n - size)
        low, high = size // 2, size - size // 2
        records = np.repeat([-FAR, FAR, -FAR, FAR], [low, high, below, n - size - below])
        return [Pair.replacing("middle_part", records, 0, -records[0])]

    def _outputs(self, sample: Sample, ledger: Any, rng: np.random.Generator) -> Floats:
        """Return outputs of the base and their values before noise, (trials, parts, 2).

        The function `ledger` returns a ledger for all parts of one size.
        """

        def run_base(rows: Sample) -> Floats:
            estimate = self.base.run(rows, ledger())
            return np.stack([estimate.value, estimate.before_noise], axis=1)

        return sample.by_group(self.parts, rng, run_base)

    def _between_quantiles(self, sample: Sample, ledger: Ledger) -> Estimate:
        """Return the interval between two private quantiles of outputs without privacy."""
        assert self.lower is not None
        assert self.upper is not None
        target = self._target_rank(ledger.budget.fraction(0.5))
        rng = ledger.rng
        outputs = self._outputs(sample, lambda: Ledger(NonPrivate(), rng), rng)[..., 0]
        before = _median(outputs)
        if target < 1:  # no rank is far enough from the ends, but the bounds hold the mean
            middle = self._quantile(outputs, self.parts / 2, ledger)
            ends = np.full(sample.trials, self.lower), np.full(sample.trials, self.upper)
            return Estimate(middle, before, interval=ends, miss=self.beta)
        below, above = ledger.split(0.5, 0.5)
        # Noise may swap the ends. The interval between them is never worse than the empty interval.
        low, high = np.sort(
            [
                self._quantile(outputs, target, below) - self.resolution,
                self._quantile(outputs, self.parts - target, above) + self.resolution,
            ],
            axis=0,
        )
        return Estimate(low / 2 + high / 2, before, interval=(low, high), miss=self.beta)

    def _quantile(self, outputs: Floats, rank: float, ledger: Ledger) -> Floats:
        """Release the output of a rank among the parts by a private quantile, (trials,).

        `outputs` has shape (trials, parts). A failed output is NaN; it counts as the bound that
        widens the interval.
        """
        assert self.lower is not None
        assert self.upper is not None
        failed = self.lower if 2 * rank <= self.parts else self.upper
        values = np.clip(np.where(np.isnan(outputs), failed, outputs), self.lower, self.upper)
        q = rank / self.parts
        return private_quantile(
            DenseSample(values), q, self.lower, self.upper, self.resolution, ledger
        )

    def _rank(self, beta: float) -> int:
        """Return the largest rank j <= parts/2 with g(1/2 + D) <= beta; 0 if there is none."""
        below = np.arange(self.parts // 2)
        miss = sum(bdtr(below, self.parts, 0.5 + sign * self.median_bias) for sign in (1, -1))
        return int(np.count_nonzero(miss <= beta * (1 + 1e-12)))

    @property
    def _least_parts(self) -> int:
        """Smallest number of parts for which the hull of all outputs misses with at most beta."""
        parts = np.arange(2, MAX_PARTS)
        miss = (0.5 + self.median_bias) ** parts + (0.5 - self.median_bias) ** parts
        return int(parts[np.argmax(miss <= self.beta)])

    def _target_rank(self, budget: Budget) -> int:
        """Return the rank m at which the lower end is released with `budget`.

        It is below 1 if there are too few parts for the rank error at this budget.
        """
        assert self.lower is not None
        assert self.upper is not None
        odds = 4 * ((self.upper - self.lower) / self.resolution) / self.beta
        error = int(np.ceil(2 / budget.exponential_epsilon * np.log(odds)))
        return self._rank(self.beta / 2) - error


def _median(outputs: Floats) -> Floats:
    """Return the median of each row of outputs, (trials,)."""
    return np.asarray(2 * np.median(outputs / 2, axis=1))  # the sum of two outputs may overflow
