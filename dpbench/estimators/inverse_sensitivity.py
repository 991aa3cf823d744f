"""Inverse sensitivity mechanism for a mean or a median (AD20; L17, technique 4).

**Mechanism.** For a statistic of the records, len(t) is the least number of records to replace so
that the statistic becomes t. One replaced record changes len(t) by at most one, so the exponential
mechanism with density proportional to e^(-epsilon len/2) is epsilon-DP for every statistic. Under
zCDP and GDP it costs as much as any exponential mechanism of sensitivity 1. The smoothed version
replaces len(t) by the least len within a resolution h of t.

**Mean of records in [a, b].** To raise the sum by replacing k records, replace the k smallest: the
gain is at most the sum of the k largest b - x_i, and every smaller gain is possible, too. Let
x_(1) <= ... <= x_(n) be the records in order. On [mean - h, mean + h] len is 0. Above mean + h the
line is cut into steps, the k-th of which is (b - x_(k))/n long and has len = k. Below mean - h the
k-th step down is (x_(n+1-k) - a)/n long. Consecutive steps of equal length, from equal records, are
drawn together: their weights are a geometric series. len is taken on [a - h, b + h], and the
release is clipped to [a, b].

**Cap.** At most M steps are listed on either side, and the rest of a side has len = M + 1. Because
min(len, M + 1) changes by at most one if len does, this costs no privacy. M is the least number
with 2n e^(-epsilon M/2) <= 2^-60, that is M >= (ln(2n) + 60 ln 2)/(epsilon/2): the total weight
beyond is then below 2^-60 of the rest, because the first step up or the first step down is at least
(b - a)/(2n) long.

**Error.** If all records are near c, steps up have length u = (b - c)/n and steps down have length
v = (c - a)/n. Then |error| is about an exponential variable times 2u/epsilon or 2v/epsilon, with
odds u to v. For c in the middle this is (b - a)/(n epsilon), as for the Laplace mechanism; for c at
an end, or with half of the records at a and half at b, it is twice as large. So adapting to the
instance gains nothing under pure DP, because no instance of the mean is easy. Under zCDP
(epsilon/2 = sqrt(2 rho)) with c in the middle, the 0.9 quantile is ln(10)/2 = 1.151 times
(b - a)/(n sqrt(2 rho)); Gaussian noise has 1.645.

**Median.** `private_quantile` at q = 1/2. For odd n and no other record within h, its score is
1/2 - len.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _ClippingEstimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.quantile import NEGLIGIBLE, audit_pairs, private_quantile
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["InverseSensitivity"]


@validated
class InverseSensitivity(_ClippingEstimator):
    """Inverse sensitivity mechanism for the mean or the median (exponential mechanism, AD20).

    The score of t is the number of records that have to be replaced so that the statistic becomes
    t. The module docstring of `dpbench.estimators.inverse_sensitivity` derives sensitivity and
    error.

    Parameters
    ----------
    lower, upper : float
        Public bounds, lower < upper, to which records are clipped, in the unit of the data.
    statistic : {'mean', 'median'}
        Statistic to release. The median estimates the mean if the distribution is symmetric.
    resolution : float >= 0
        Distance h, in the unit of the data, within which two values count as equal. It has to be
        above 0 for a median; too large a value costs accuracy.
    """

    statistic: Literal["mean", "median"] = "mean"
    resolution: Annotated[float, Field(ge=0, le=1e300)] = 0.0

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.statistic == "median" and self.resolution == 0:
            raise ValueError("a median needs a resolution above 0")
        return self

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if self.statistic == "mean":
            mean = sample.clipped_mean(self.lower, self.upper)
            value = np.clip(mean + self._noise(sample, mean, ledger), self.lower, self.upper)
            return Estimate(value, mean)
        value = private_quantile(sample, 0.5, self.lower, self.upper, self.resolution, ledger)
        return Estimate(value, np.clip(sample.quantile(0.5), self.lower, self.upper))

    def _noise(self, sample: Sample, mean: Floats, ledger: Ledger) -> Floats:
        """Draw the difference between the release and the clipped mean, (trials,)."""
        n, half = sample.n, ledger.budget.exponential_epsilon / 2
        most = int(min(n, np.ceil((np.log(2 * n) + NEGLIGIBLE) / half)))
        x, counts = sample.ranked(0, most - 1)
        up = _steps(self.upper - np.clip(x, self.lower, self.upper), counts, self.upper - mean, n)
        x, counts = (part[:, ::-1] for part in sample.ranked(n - most, n - 1))
        down = _steps(np.clip(x, self.lower, self.upper) - self.lower, counts, mean - self.lower, n)
        middle = np.full((sample.trials, 1), 2 * self.resolution), np.ones((sample.trials, 1))
        length, count, before, start = (
            np.concatenate(parts, axis=1)
            for parts in zip((*middle, 0 * middle[0] - 1, -middle[0]), up, down, strict=True)
        )
        # The centre has before = -1, so that len = before + 1 is 0 there.
        with np.errstate(divide="ignore"):
            weight = np.log(length) + np.log(np.expm1(-half * count) / np.expm1(-half))
        chosen = ledger.exponential(-(before + 1), 1.0, weight)
        rows, chance = np.arange(sample.trials), ledger.rng.random((2, sample.trials))
        length, count, start = (part[rows, chosen] for part in (length, count, start))
        step = np.floor(np.log1p(chance[0] * np.expm1(-half * count)) / -half)
        away = start + self.resolution + length * (np.minimum(step, count - 1) + chance[1])
        # The choices are the centre, then all steps up, then all steps down.
        return np.asarray(np.where(chosen > up[0].shape[1], -away, away))

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if self.statistic == "median":
            return audit_pairs(n, 0.5, self.lower, self.upper, self.resolution)
        # Moving a record from end to end moves the mean by the largest possible step.
        lows = np.where(np.arange(n) < n // 2, self.lower, self.upper)
        return [Pair.replacing("from_end_to_end", lows, 0, self.upper)]


def _steps(gaps: Floats, counts: Floats, whole: Floats, n: int) -> tuple[Floats, ...]:
    """Return (length, count, before, start) of the steps to one side, each (trials, steps).

    `length` is the length of a step, `count` how many consecutive steps have it, `before` how many
    steps come before, and `start` the distance from the centre at which the first begins. The last
    entry is the capped rest of `whole`, the distance to the bound; its length is 0 if no record is
    left.
    """
    length = gaps / n
    upto = np.cumsum(length * counts, axis=1)
    left = np.maximum(whole[:, None] - upto[:, -1:], 0.0)
    begin = np.concatenate([np.zeros_like(left), upto], axis=1)
    before = np.cumsum(counts, axis=1)
    return (
        np.concatenate([length, left * (before[:, -1:] < n)], axis=1),
        np.concatenate([counts, np.ones_like(left)], axis=1),
        np.concatenate([before - counts, before[:, -1:]], axis=1),
        begin,
    )
