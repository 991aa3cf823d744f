"""Data of people with several records each, of equal or of different numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, field_validator, model_validator
from scipy.special import bdtrc, gammaln, xlog1py, xlogy

from dpbench.arrays import Floats
from dpbench.distributions.base import Distribution, LocationScale
from dpbench.distributions.continuous import Gaussian
from dpbench.distributions.counts import BoundedZipf, ZeroTruncatedPoisson
from dpbench.distributions.discrete import Bernoulli, TwoPoint
from dpbench.distributions.empirical import Empirical
from dpbench.registry import validated
from dpbench.samples import CountedSample, DenseSample, PeopleSample, Sample

__all__ = ["UserLevelData"]

MAX_NUMBERS_AT_ONCE = 1 << 20  # numbers drawn at once
MAX_PERSON_RECORDS = 10**6  # records of a person
NUMBER_LAWS = (
    "give a whole number from 1 to 1e6, or a law of such numbers: zero_truncated_poisson, "
    "bounded_zipf, or empirical with a column of them"
)


@validated
class UserLevelData(Distribution):
    """Person-level data: n people with m independent records each, where m may differ.

    An estimator of numbers gets the mean of each person's records as a record. So a privacy
    guarantee for a record protects a person with all their records.

    If all people have m records without effects, only their means are drawn. If a record has two
    possible values, the number of a person's records with the upper value is binomial. Samples then
    store the number of people with each possible mean. Means of Gaussian records are drawn as
    Gaussians. Other records are drawn one by one and averaged. If the numbers differ, or people
    have effects, samples hold all records (`dpbench.samples.PeopleSample`).

    The number of records of a person is independent of the values. Therefore the mean over all
    records and the mean over people of their means have one expectation, which is the target: the
    mean of `of` plus the mean of `between`. If frequent contributors had other values, these two
    means would differ, and an estimator would have to choose one of them.

    Parameters
    ----------
    of : distribution of numbers, or its configuration
        Distribution of one record: on two values, or continuous.
    m : int in [1, 1e6], or distribution of whole numbers
        Number of records of each person, or its law: ``zero_truncated_poisson``, ``bounded_zipf``,
        or ``empirical`` with a column of whole numbers from 1 to 1e6.
    between : continuous distribution of numbers, or its configuration, optional
        Law of an effect that is added to all records of a person, drawn once for each person. None
        (the default): all people have the same distribution. Only for continuous records.
    """

    of: Any
    m: Annotated[int, Field(ge=1, le=MAX_PERSON_RECORDS)] | Any
    between: Any = None

    @field_validator("of")
    @classmethod
    def _build_record_law(cls, of: Any) -> Distribution:
        law = Distribution.build(of, "") if isinstance(of, Mapping) else of
        if not isinstance(law, LocationScale | Bernoulli | TwoPoint):
            raise ValueError("give a continuous law of numbers, or one of two values")
        return law

    @field_validator("m", mode="before")
    @classmethod
    def _build_number_law(cls, m: Any) -> Any:
        law = Distribution.build(m, "") if isinstance(m, Mapping) else m
        if isinstance(law, Distribution):
            numbers = _number_table(law)[0]
            whole = numbers.size and np.array_equal(numbers, np.round(numbers))
            if not whole or numbers.min() < 1 or numbers.max() > MAX_PERSON_RECORDS:
                raise ValueError(NUMBER_LAWS)
            return law
        if isinstance(law, bool) or not isinstance(law, int | np.integer | float):
            raise ValueError(NUMBER_LAWS)
        if law != int(law) or not 1 <= law <= MAX_PERSON_RECORDS:
            raise ValueError(NUMBER_LAWS)
        return int(law)

    @field_validator("between")
    @classmethod
    def _build_effects(cls, between: Any) -> Distribution | None:
        law = Distribution.build(between, "") if isinstance(between, Mapping) else between
        if law is not None and not isinstance(law, LocationScale):
            raise ValueError("give a continuous law of numbers, or leave it out")
        return law

    @model_validator(mode="after")
    def _check_effects(self) -> Self:
        if self.between is not None and not isinstance(self.of, LocationScale):
            raise ValueError("between: effects of people need continuous records in `of`")
        return self

    @property
    def has_rows(self) -> bool:
        """True if samples hold all records, because the numbers differ or people have effects."""
        return not isinstance(self.m, int) or self.between is not None

    @property
    def numbers(self) -> tuple[Floats, Floats]:
        """Possible numbers of records of a person, increasing, and their probabilities."""
        if isinstance(self.m, int):
            return np.array([float(self.m)]), np.ones(1)
        return _number_table(self.m)

    @property
    def counted(self) -> bool:  # type: ignore[override]
        """True if samples store the number of people with each possible mean."""
        return bool(self.of.counted) and not self.has_rows

    @property
    def mean(self) -> float:
        return float(self.of.mean) + float(self.between.mean if self.between else 0.0)

    @property
    def target(self) -> float:
        return float(self.of.target) + float(self.between.target if self.between else 0.0)

    def moment(self, k: float) -> float:
        """Return the moment E|X - E X|^k of a person's mean X, or NaN if it is not known."""
        if self.counted:
            values, shares, _ = self.table
            return float(shares @ np.abs(values - self.mean) ** k)
        if self.has_rows:
            numbers, probabilities = self.numbers
            effects = self.between.moment(2) if self.between else 0.0
            within = self.of.moment(2) * float(probabilities @ (1 / numbers))
            return float(effects + within) if k == 2 else float("nan")
        if isinstance(self.of, Gaussian):
            return float(self.m ** (-k / 2) * self.of.moment(k))
        return float(self.of.moment(2) / self.m) if k == 2 else float("nan")

    def held(self, n: int) -> float:
        if self.has_rows:
            numbers, probabilities = self.numbers
            return n * (2 + float(probabilities @ numbers))
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
        if self.has_rows:
            return self._draw_people(rng, trials, n)
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

    def _draw_people(self, rng: np.random.Generator, trials: int, n: int) -> PeopleSample:
        """Draw `trials` datasets of n people with all their records."""
        numbers, probabilities = self.numbers
        place = np.searchsorted(np.cumsum(probabilities), rng.random((trials, n)), side="right")
        sizes = numbers[np.minimum(place, numbers.size - 1)].astype(np.int64)
        total = int(sizes.sum())
        if isinstance(self.of, LocationScale):
            records = self.of.draw_records(rng, (1, total)).ravel()
        else:
            low, high, p = _two_values(self.of)
            records = np.where(rng.random(total) < p, high, low)
        if self.between is not None:
            effects = self.between.draw_records(rng, (trials, n))
            records += np.repeat(effects.ravel(), sizes.ravel())
        return PeopleSample(records, sizes)

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


def _number_table(law: Distribution) -> tuple[Floats, Floats]:
    """Return the values of a law of whole numbers, increasing, and their probabilities.

    The arrays are empty if the law is not on finitely many known values.
    """
    if isinstance(law, BoundedZipf | ZeroTruncatedPoisson):
        return law.table
    if isinstance(law, Empirical) and law.columns is None:
        return law._table.values, law._table.weights
    return np.zeros(0), np.zeros(0)


def _two_values(law: Bernoulli | TwoPoint) -> tuple[float, float, float]:
    """Return the two values of a distribution, in increasing order, and P(upper value)."""
    if isinstance(law, Bernoulli):
        return 0.0, 1.0, law.p
    ends = (law.location, law.location + law.sign * law.tau)
    return (*ends, law.p) if law.sign > 0 else (*ends[::-1], 1 - law.p)
