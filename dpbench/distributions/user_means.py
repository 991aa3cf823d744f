"""Datasets of people with several records each, reduced to the mean of every person's records."""

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

AT_ONCE = 1 << 20  # numbers drawn at once


@validated
class UserMeans(Distribution):
    """Person-level data: the mean of m independent records for each of n people.

    Replacing a mean replaces a person with all their records. If records have two values, a person
    has a binomial number of the second value, and equal means are counted. Means of Gaussian
    records are drawn as Gaussians. Records of other distributions are drawn one by one and
    averaged.

    Parameters
    ----------
    of : distribution of numbers, its configuration
        Distribution of one record: on two values, or continuous.
    m : int in [1, 1e6]
        Number of records of each person.
    """

    stream_name: ClassVar[str] = "People"

    of: Any
    m: Annotated[int, Field(ge=1, le=10**6)]

    @field_validator("of")
    @classmethod
    def _known_law(cls, of: Any) -> Distribution:
        made = Distribution.build(of, "") if isinstance(of, Mapping) else of
        if not isinstance(made, LocationScale | Bernoulli | TwoPoint):
            raise ValueError("give a continuous law of numbers, or one of two values")
        return made

    @property
    def counted(self) -> bool:  # type: ignore[override]
        """True if samples hold counts."""
        return bool(self.of.counted)

    @property
    def mean(self) -> float:
        return float(self.of.mean)

    @property
    def target(self) -> float:
        return float(self.of.target)

    def moment(self, k: float) -> float:
        """Return E|X - mean|^k of a person's mean; NaN if it is not known."""
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
        """Increasing means of people, their probabilities, and those of at least each mean.

        Three arrays, for records of two values only. Counts farther from their mean than 12
        standard deviations plus 50 are left out: by Bennett's inequality, the probability that any
        of 10^15 people has such a count is below 1e-15.
        """
        low, high, p = _two_values(self.of)
        reach = 12 * float(np.sqrt(self.m * p * (1 - p))) + 50
        first, last = max(0.0, np.floor(self.m * p - reach)), min(self.m, self.m * p + reach)
        j = np.arange(first, np.floor(last) + 1)
        logs = gammaln(self.m + 1) - gammaln(j + 1) - gammaln(self.m - j + 1)
        shares = np.exp(logs + xlogy(j, p) + xlog1py(self.m - j, -p))
        upper = np.where(j > 0, bdtrc(np.maximum(j - 1, 0), self.m, p), 1.0)
        # Rounding errors of the large logarithms are common to all shares: normalise them.
        return low + (high - low) * (j / self.m), shares / shares.sum(), upper

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> Sample:
        if self.counted:
            return self._counted(rng, trials, n)
        if isinstance(self.of, Gaussian):
            own = Gaussian(location=self.of.location, scale=self.of._scale / np.sqrt(self.m))
            return DenseSample(own.drawn(rng, (trials, n)))
        total, step = np.zeros((trials, n)), max(1, AT_ONCE // (trials * n))
        for first in range(0, self.m, step):
            some = min(step, self.m - first)
            total += self.of.drawn(rng, (trials, n * some)).reshape(trials, n, some).sum(axis=2)
        return DenseSample(total / self.m)

    def _counted(self, rng: np.random.Generator, trials: int, n: int) -> CountedSample:
        """Draw the counts of the means in order, as binomial numbers of the people left."""
        values, shares, upper = self.table
        counts, rest = np.zeros((trials, len(values)), dtype=np.int64), np.full(trials, n)
        chances = np.divide(shares, upper, out=np.ones_like(shares), where=upper > shares)
        for j, chance in enumerate(chances):
            counts[:, j] = rng.binomial(rest, chance if j < len(values) - 1 else 1.0)
            rest = rest - counts[:, j]
            if not rest.any():
                break
        held = counts.any(axis=0)
        return CountedSample(values[held], counts[:, held])


def _two_values(law: Bernoulli | TwoPoint) -> tuple[float, float, float]:
    """Return the lower value, the upper value, and the probability of the upper."""
    if isinstance(law, Bernoulli):
        return 0.0, 1.0, law.p
    ends = (law.location, law.location + law.sign * law.tau)
    return (*ends, law.p) if law.sign > 0 else (*ends[::-1], 1 - law.p)
