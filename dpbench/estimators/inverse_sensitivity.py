"""Inverse sensitivity mechanism for a mean or a median (AD20; L17, technique 4).

**Mechanism.** For a statistic of n records, let len(t) be the least number of replaced records
after which the statistic equals t. One replaced record changes len(t) by at most 1. So the
exponential mechanism with density proportional to e^(-epsilon len/2) is epsilon-DP for every
statistic. Under zCDP and GDP it costs as much as any exponential mechanism of sensitivity 1. The
smoothed version replaces len(t) by the least len within a resolution h of t.

**Mean of records in [a, b].** Let x_(1) <= ... <= x_(n) be the records in order. Replacing k
records raises the sum by at most the sum of the k largest differences b - x_i. Replacing the k
smallest records by b attains this gain, and every smaller gain is possible, too. On
[mean - h, mean + h] len is 0. Above mean + h the line is cut into steps: the k-th step up is
(b - x_(k))/n long and has len = k. Below mean - h the k-th step down is (x_(n+1-k) - a)/n long.
Consecutive steps of equal length, from equal records, are drawn together, because their weights are
a geometric series. The mechanism draws t from [a - h, b + h], and the release is clipped to [a, b].

**Cap.** At most M steps are listed on either side, and the rest of a side has len = M + 1. This
costs no privacy, because min(len, M + 1) changes by at most 1 if len does. M (`cap`) is the least
integer with 2n e^(-epsilon M/2) <= 2^-60, that is M >= (ln(2n) + 60 ln 2)/(epsilon/2), but at most
n. The total weight beyond the cap is then below 2^-60 of the rest, for two reasons. The part beyond
the cap is at most b - a long, and has len = M + 1. The longer of the first steps up and down is at
least (b - a)/(2n) long, and has len = 1.

**Error.** If all records are near c, steps up have length u = (b - c)/n and steps down have length
v = (c - a)/n. Let E be a standard exponential variable. Then |error| is about 2u E/epsilon with
probability u/(u + v), and 2v E/epsilon otherwise. For c in the middle the mean of |error| is
(b - a)/(n epsilon), as for the Laplace mechanism. The mean of |error| is twice as large for c at an
end, or if half of the records are at a and half at b. So adapting to the dataset gains nothing
under pure DP, because no dataset is easy for the mean. Under rho-zCDP epsilon/2 is replaced by
sqrt(2 rho). With c in the middle, the 0.9 quantile of |error| is then ln(10)/2 = 1.151 times
(b - a)/(n sqrt(2 rho)). For Gaussian noise this factor is 1.645.

**Median.** The release is `private_quantile` at q = 1/2. For odd n the score of this mechanism is
1/2 - len where the smoothed len is at least 1, and 0 where it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, MedianInBox
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _ClippingEstimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.quantile import LOG_CAP_ODDS, audit_pairs, private_quantile
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["InverseSensitivity"]


@validated
class InverseSensitivity(_ClippingEstimator):
    """Inverse sensitivity mechanism for the mean or the median (exponential mechanism, AD20).

    AD20, theorem number not checked; L17, technique 4. The score of a number t is minus the number
    of records that have to be replaced to make the statistic equal to t. Its sensitivity is 1. The
    docstring of `dpbench.estimators.inverse_sensitivity` derives sensitivity and error.

    Parameters
    ----------
    lower, upper : float
        Public bounds, lower < upper, to which records are clipped, in the unit of the data.
    statistic : {'mean', 'median'}
        Statistic to release. The median estimates the mean if the distribution is symmetric.
    resolution : float >= 0
        Distance, in the unit of the data, within which two values count as equal. A median needs a
        resolution above 0; a large resolution costs accuracy.
    """

    statistic: Literal["mean", "median"] = "mean"
    resolution: Annotated[float, Field(ge=0, le=1e300)] = 0.0

    @model_validator(mode="after")
    def _check_resolution(self) -> Self:
        if self.statistic == "median" and self.resolution == 0:
            raise ValueError("a median needs a resolution above 0")
        return self

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        if self.statistic == "median":
            return (MedianInBox(self.lower, self.upper),)
        return super().assumptions(n, d)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if self.statistic == "mean":
            # Offsets from the middle, because the mean of large records would lose digits.
            centre, half = self.lower / 2 + self.upper / 2, self.upper / 2 - self.lower / 2
            offset = sample.centred_mean(centre, half)
            drawn = offset + self._draw_noise(sample, half - offset, half + offset, ledger)
            return Estimate(np.clip(centre + drawn, self.lower, self.upper), centre + offset)
        value = private_quantile(sample, 0.5, self.lower, self.upper, self.resolution, ledger)
        return Estimate(value, np.clip(sample.quantile(0.5), self.lower, self.upper))

    def _draw_noise(self, sample: Sample, above: Floats, below: Floats, ledger: Ledger) -> Floats:
        """Draw the error of the mechanism for the mean: the draw minus the clipped mean, (trials,).

        The clipped mean is at the distance `above` from the upper bound, and `below` from the lower
        one. The draw is not yet clipped to the bounds.
        """
        n, half = sample.n, ledger.budget.exponential_epsilon / 2
        cap = int(min(n, np.ceil((np.log(2 * n) + LOG_CAP_ODDS) / half)))
        x, counts = sample.ranked(0, cap - 1)
        up = _group_steps(self.upper - np.clip(x, self.lower, self.upper), counts, above, n)
        x, counts = (part[:, ::-1] for part in sample.ranked(n - cap, n - 1))
        down = _group_steps(np.clip(x, self.lower, self.upper) - self.lower, counts, below, n)
        middle = np.full((sample.trials, 1), 2 * self.resolution), np.ones((sample.trials, 1))
        length, count, before, start = (
            np.concatenate(parts, axis=1)
            for parts in zip((*middle, 0 * middle[0] - 1, -middle[0]), up, down, strict=True)
        )
        # The middle piece, around the mean, has before = -1, so that len = before + 1 is 0 there.
        with np.errstate(divide="ignore"):
            weight = np.log(length) + np.log(np.expm1(-half * count) / np.expm1(-half))
        chosen = ledger.exponential(-(before + 1), 1.0, weight)
        rows, chance = np.arange(sample.trials), ledger.rng.random((2, sample.trials))
        length, count, start = (part[rows, chosen] for part in (length, count, start))
        step = np.floor(np.log1p(chance[0] * np.expm1(-half * count)) / -half)
        distance = start + self.resolution + length * (np.minimum(step, count - 1) + chance[1])
        # The choices are the middle piece, then all steps up, then all steps down.
        return np.asarray(np.where(chosen > up[0].shape[1], -distance, distance))

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if self.statistic == "median":
            return audit_pairs(n, 0.5, self.lower, self.upper, self.resolution)
        # A record that moves from end to end moves the mean by the largest possible step.
        records = np.where(np.arange(n) < n // 2, self.lower, self.upper)
        return [Pair.replacing("from_end_to_end", records, 0, self.upper)]


def _group_steps(gaps: Floats, counts: Floats, whole: Floats, n: int) -> tuple[Floats, ...]:
    """Return the steps of the mechanism's density to one side of the mean.

    Consecutive steps of equal length are a group. The density is a step function around the mean of
    n records. If k records have to be replaced to move the mean to t, then t is in the k-th step.
    The length of the k-th step is 1/n times the k-th largest distance of a record from the bound on
    this side.

    `gaps` are the (trials, m) distances of the records from the bound, in the order of the steps: n
    times step lengths. `counts` are their multiplicities, and `whole` is the (trials,) distance of
    the mean from the bound.

    Four arrays of shape (trials, m + 1) describe each group: the length of a step, the number of
    steps, the number of steps before it, and the distance of its start from the beginning of the
    first step. The first step begins at the mean +- the resolution. The last length is the rest of
    `whole` after the listed steps, or 0 if no record is left.
    """
    length = gaps / n
    upto = np.cumsum(length * counts, axis=1)
    rest = np.maximum(whole[:, None] - upto[:, -1:], 0.0)
    begin = np.concatenate([np.zeros_like(rest), upto], axis=1)
    before = np.cumsum(counts, axis=1)
    return (
        np.concatenate([length, rest * (before[:, -1:] < n)], axis=1),
        np.concatenate([counts, np.ones_like(rest)], axis=1),
        np.concatenate([before - counts, before[:, -1:]], axis=1),
        begin,
    )
