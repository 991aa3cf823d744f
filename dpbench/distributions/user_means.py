"""Data of people with several records each, reduced to one mean per person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, field_validator
from scipy.special import bdtrc, gammaln, xlog1py, xlogy

from dpbench.arrays import Floats
from dpbench.distributions.base import Distribution, LocationScale
from dpbench.distributions.continuous import Gaussian
from dpbench.distributions.discrete import Bernoulli, TwoPoint
from dpbench.registry import validated
from dpbench.samples import CountedSample, DenseSample, Sample

__all__ = ["UserMeans"]

MAX_NUMBERS_AT_ONCE = 1 << 20  # numbers drawn at once


@validated
class UserMeans(Distribution):
    """Person-level data: the mean of m independent records for each of n people.

    An estimator gets one mean per person as a record. So a privacy guarantee for a record protects
    a person with all their m records. If a person's records have two possible values, the number
    with the upper value is binomial. Samples then store the number of people with each possible
    mean. Means of Gaussian records are drawn as Gaussians. Other records are drawn one by one and
    averaged.

    Parameters
    ----------
    of : distribution of numbers, or its configuration
        Distribution of one record: on two values, or continuous.
    m : int in [1, 1e6]
        Number of records of each person.
    """

    stream_name: ClassVar[str] = "People"

    of: Any
    m: Annotated[int, Field(ge=1, le=10**6)]

    @field_validator("of")
    @classmethod
    def _build_record_law(cls, of: Any) -> Distribution:
        law = Distribution.build(of, "") if isinstance(of, Mapping) else of
        if not isinstance(law, LocationScale | Bernoulli | TwoPoint):
            raise ValueError("give a continuous law of numbers, or one of two values")
        return law

    @property
    def counted(self) -> bool:  # type: ignore[override]
        """True if samples store the number of people with each possible mean."""
        return bool(self.of.counted)

    @property
    def mean(self) -> float:
        return float(self.of.mean)

    @property
    def target(self) -> float:
        return float(self.of.target)

    def moment(self, k: float) -> float:
        """Return the moment E|X - E X|^k of a person's mean X, or NaN if it is not known."""
        if self.counted:
            values, shares, _ = self.table
            return float(shares @ np.abs(values - self.mean) ** k)
        if isinstance(self.of, Gaussian):
            return float(self.m ** (-k / 2) * self.of.moment(k))
        return float(self.of.moment(2) / self.m) if k == 2 else float("nan")

    def held(self, n: int) -> float:
        return float(len(self.table[0]) if self.counted else n)

    @property
    def table(self) -> tuple[Floats, Floats, Floats]:
        """Possible values v of a person's mean X, increasing, with P(X = v) and P(X >= v).

        The table exists only if a record has two possible values. Let J be the number of a person's
        records with the upper value. A value of J is left out if it differs from E J by more than
        12 standard deviations of J plus 50. By Bennett's inequality, the probability that any of
        10^15 people has a left-out value of J is below 1e-15.
        """
        low, high, p = _two_values(self.of)
        reach = 12 * float(np.sqrt(self.m * p * (1 - p))) + 50
        first, last = max(0.0, np.floor(self.m * p - reach)), min(self.m, self.m * p + reach)
        j = np.arange(first, np.floor(last) + 1)
        logs = gammaln(self.m + 1) - gammaln(j + 1) - gammaln(self.m - j + 1)
        shares = np.exp(logs + xlogy(j, p) + xlog1py(self.m - j, -p))
        upper = np.where(j > 0, bdtrc(np.maximum(j - 1, 0), self.m, p), 1.0)
        # Normalise, because rounding errors of the large logarithms are common to all shares.
        return low + (high - low) * (j / self.m), shares / shares.sum(), upper

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> Sample:
        if self.counted:
            return self._draw_counts(rng, trials, n)
        if isinstance(self.of, Gaussian):
            mean_law = Gaussian(location=self.of.location, scale=self.of._scale / np.sqrt(self.m))
            return DenseSample(mean_law.draw_records(rng, (trials, n)))
        total, step = np.zeros((trials, n)), max(1, MAX_NUMBERS_AT_ONCE // (trials * n))
        for first in range(0, self.m, step):
            records = min(step, self.m - first)
            total += (
                self.of.draw_records(rng, (trials, n * records))
                .reshape(trials, n, records)
                .sum(axis=2)
            )
        return DenseSample(total / self.m)

    def _draw_counts(self, rng: np.random.Generator, trials: int, n: int) -> CountedSample:
        """Draw `trials` datasets of n people, stored as the number of people with each mean.

        The numbers are drawn one after the other, from the smallest mean to the largest. Each
        number is binomial, and counts among the people who do not have a smaller mean.
        """
        values, shares, upper = self.table
        counts, people_left = np.zeros((trials, len(values)), dtype=np.int64), np.full(trials, n)
        chances = np.divide(shares, upper, out=np.ones_like(shares), where=upper > shares)
        for j, chance in enumerate(chances):
            counts[:, j] = rng.binomial(people_left, chance if j < len(values) - 1 else 1.0)
            people_left = people_left - counts[:, j]
            if not people_left.any():
                break
        occurring = counts.any(axis=0)
        return CountedSample(values[occurring], counts[:, occurring])


def _two_values(law: Bernoulli | TwoPoint) -> tuple[float, float, float]:
    """Return the two values of a distribution, in increasing order, and P(upper value)."""
    if isinstance(law, Bernoulli):
        return 0.0, 1.0, law.p
    ends = (law.location, law.location + law.sign * law.tau)
    return (*ends, law.p) if law.sign > 0 else (*ends[::-1], 1 - law.p)
