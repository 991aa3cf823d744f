r"""The exponential mechanism on how many records have to change: L17, technique 4 (AD20).

len(t) is the least number of records to replace so that the statistic becomes t. One replaced
record moves it by at most one: a density prop. to e^(-epsilon len/2) is epsilon-DP, whatever the
statistic, and under zCDP and GDP costs what the exponential mechanism does. Its smoothed version
has the least len within a resolution h of t.

**The mean** of records in [a, b]: k replacements raise the sum by at most the k largest of b - x_i,
the smallest records first, and all that is less can be had, too. So len is k on the k-th of steps
up, (b - x_(k))/n long, and steps down, (x_(n+1-k) - a)/n long, from mean +- h on; on [mean - h,
mean + h] it is 0. Steps that are equal, of records that are, are chosen as one: their weights are a
geometric series. len is taken on [a - h, b + h], and what is released moved into [a, b].

It is capped where all beyond weighs below 2^-60 of the rest: the first step up or the first step
down is (b - a)/(2n) long or more.

What to expect. If all records are near c, steps up are u = (b - c)/n and steps down v = (c - a)/n
long, and |error| is near one of 2u/epsilon and 2v/epsilon times an exponential, with odds u to v:
at the middle the (b - a)/(n epsilon) of the Laplace mechanism, at an end twice that. So are data
half at a and half at b. Noise that knows the instance gains nothing under pure DP, for no instance
of the mean is easy. Under zCDP (epsilon/2 = sqrt(2 rho)) the 0.9 quantile at the middle is
ln(10)/2 = 1.151 times (b - a)/(n sqrt(2 rho)), that of Gaussian noise 1.645.

**The median**: `private_quantile`, whose score at q = 1/2 is 1/2 - len for odd n, where nothing is
within h, see there.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _Between
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.quantile import NEGLIGIBLE, audit_pairs, private_quantile
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["InverseSensitivity"]


@validated
class InverseSensitivity(_Between):
    """The exponential mechanism on how many records have to change; the module derives it.

    Parameters
    ----------
    lower, upper : float
        Public bounds, lower < upper; records are moved into them.
    statistic : {'mean', 'median'}
        A median is the mean of laws that are symmetric.
    resolution : float >= 0
        h; above 0 for a median.
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
        """How far from the mean to release."""
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
        with np.errstate(divide="ignore"):
            weight = np.log(length) + np.log(np.expm1(-half * count) / np.expm1(-half))
        chosen = ledger.exponential(-(before + 1), 1.0, weight)
        rows, chance = np.arange(sample.trials), ledger.rng.random((2, sample.trials))
        length, count, start = (part[rows, chosen] for part in (length, count, start))
        step = np.floor(np.log1p(chance[0] * np.expm1(-half * count)) / -half)
        away = start + self.resolution + length * (np.minimum(step, count - 1) + chance[1])
        return np.asarray(np.where(chosen > up[0].shape[1], -away, away))

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if self.statistic == "median":
            return audit_pairs(n, 0.5, self.lower, self.upper, self.resolution)
        # The mean moves by a step of the largest size, past which it is far.
        lows = np.where(np.arange(n) < n // 2, self.lower, self.upper)
        return [Pair.replacing("from_end_to_end", lows, 0, self.upper)]


def _steps(gaps: Floats, counts: Floats, whole: Floats, n: int) -> tuple[Floats, ...]:
    """Lengths of steps to one side, how many are alike, how many before, where they begin.

    From the records that are furthest from the bound on; the last one is what is left of `whole`.
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
