"""Distributions of numbers, shifted and multiplied by a factor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import field_validator

from dpbench.distributions.base import Distribution
from dpbench.registry import validated
from dpbench.samples import CountedSample, DenseSample

__all__ = ["Rescaled"]


@validated
class Rescaled(Distribution):
    """Distribution of numbers location + factor (x - mean), for x drawn from `of` with this mean.

    A negative factor gives a mirror image. Multiplication by a power of two is exact.

    Parameters
    ----------
    of : distribution of numbers, or its configuration
        Distribution of x.
    location : float
        Mean of the new distribution, in the unit of the data.
    factor : float, not 0
        Factor of the distances from the mean.
    """

    of: Any
    location: float
    factor: float

    @field_validator("of")
    @classmethod
    def _build_numbers(cls, of: Any) -> Distribution:
        law = Distribution.build(of, "") if isinstance(of, Mapping) else of
        if not isinstance(law, Distribution) or np.ndim(law.target) or law.target != law.mean:
            raise ValueError("give a law of numbers whose mean is the value to estimate")
        return law

    @field_validator("factor")
    @classmethod
    def _check_factor(cls, factor: float) -> float:
        if not factor or not np.isfinite(factor):
            raise ValueError("give a finite number other than 0")
        return factor

    @property
    def counted(self) -> bool:  # type: ignore[override]
        return bool(self.of.counted)

    @property
    def mean(self) -> float:
        return self.location

    def moment(self, k: float) -> float:
        return float(abs(self.factor) ** k * self.of.moment(k))

    def held(self, n: int) -> float:
        return float(n if self.of.bins(n) else self.of.held(n))  # records of cells are listed

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> CountedSample | DenseSample:
        still = self.of.sample(rng, trials, n)
        shift = self.location - self.factor * self.of.mean
        if isinstance(still, CountedSample):
            turn = 1 if self.factor > 0 else -1
            return CountedSample(shift + self.factor * still.atoms[::turn], still.counts[:, ::turn])
        if isinstance(still, DenseSample):
            return DenseSample(shift + self.factor * still.values)
        records = np.stack([still.records(trial, rng) for trial in range(trials)])
        return DenseSample(shift + self.factor * records)
