"""Distributions of whole numbers from 1 on, for example of the number of records of a person."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from scipy.special import gammaln

from dpbench.arrays import Floats
from dpbench.distributions.base import Distribution
from dpbench.registry import validated
from dpbench.samples import CountedSample

__all__ = ["BoundedZipf", "ZeroTruncatedPoisson"]


@validated
class _Count(Distribution):
    """Base class of distributions of whole numbers 1, 2, ..., M with known probabilities."""

    counted: ClassVar[bool] = True

    @property
    @abstractmethod
    def _log_weights(self) -> Floats:
        """Logarithms of the probabilities of 1, ..., M, up to a common constant."""

    @cached_property
    def table(self) -> tuple[Floats, Floats]:
        """Numbers 1, ..., M and their probabilities."""
        logs = self._log_weights
        weights = np.exp(logs - logs.max())
        return np.arange(1.0, logs.size + 1), weights / weights.sum()

    @property
    def mean(self) -> float:
        numbers, probabilities = self.table
        return float(probabilities @ numbers)

    def moment(self, k: float) -> float:
        numbers, probabilities = self.table
        return float(probabilities @ np.abs(numbers - self.mean) ** k)

    def held(self, n: int) -> float:
        return float(self.table[0].size)

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> CountedSample:
        numbers, probabilities = self.table
        return CountedSample(numbers, rng.multinomial(n, probabilities, size=trials))


@validated
class ZeroTruncatedPoisson(_Count):
    """Poisson distribution, conditioned on at least 1: P(m) is proportional to rate^m/m!.

    Numbers above rate + 12 sqrt(rate) + 50 are left out. By Bennett's inequality their probability
    is below 1e-30.

    Parameters
    ----------
    rate : float in (0, 10000]
        Mean of the Poisson distribution before the conditioning.
    """

    rate: Annotated[float, Field(gt=0, le=1e4)]

    @property
    def _log_weights(self) -> Floats:
        largest = int(self.rate + 12 * np.sqrt(self.rate) + 50)
        numbers = np.arange(1.0, largest + 1)
        return np.asarray(numbers * np.log(self.rate) - gammaln(numbers + 1))


@validated
class BoundedZipf(_Count):
    """Zipf's law on 1, ..., M: P(m) is proportional to m^(-exponent).

    Parameters
    ----------
    exponent : float in [0, 20]
        Exponent of the power law. Near 2, few people have most of the records; 0 is uniform.
    largest : int in [1, 100000]
        Largest number M.
    """

    exponent: Annotated[float, Field(ge=0, le=20)]
    largest: Annotated[int, Field(ge=1, le=10**5)]

    @property
    def _log_weights(self) -> Floats:
        return np.asarray(-self.exponent * np.log(np.arange(1.0, self.largest + 1)))
