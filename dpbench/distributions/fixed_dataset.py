"""One fixed dataset of numbers, the same in every trial."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from dpbench.arrays import Floats
from dpbench.distributions.base import Distribution
from dpbench.registry import validated
from dpbench.samples import DenseSample, Sample
from dpbench.seeds import canonical, stream

__all__ = ["FixedDataset"]

MAX_FIXED_RECORDS = 10**7


@validated
class FixedDataset(Distribution):
    """Fixed datasets of numbers: one dataset for each n, drawn once, the same in every trial.

    The value to estimate is the mean of the dataset, so only the noise of an estimator is random.
    The error is compared with a lower bound for this dataset (`dpbench.theory.bounds.subsets`).

    Parameters
    ----------
    of : distribution of numbers, or its configuration
        Distribution from which the dataset is drawn.
    number : int >= 0
        Number of the dataset: another number gives another dataset, independent of the first.
    """

    of: Any
    number: Annotated[int, Field(ge=0, le=10**9)] = 0

    @field_validator("of")
    @classmethod
    def _build_numbers(cls, of: Any) -> Distribution:
        law = Distribution.build(of, "") if isinstance(of, Mapping) else of
        if not isinstance(law, Distribution) or np.ndim(law.target) != 0:
            raise ValueError("give a distribution of numbers")
        return law

    def records(self, n: int) -> Floats:
        """Return the dataset of n records, (n,), read-only.

        A ValueError is raised if n exceeds 10^7.
        """
        if n > MAX_FIXED_RECORDS:
            raise ValueError(f"n: {n}: a fixed dataset has at most {MAX_FIXED_RECORDS} records")
        return _draw(self.of, self.number, n)

    @property
    def mean(self) -> float:
        return float(self.of.mean)

    def target_of(self, sample: Sample) -> Floats:
        return sample.mean()

    def moment(self, k: float) -> float:
        return float(self.of.moment(k))

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> DenseSample:
        return DenseSample(np.broadcast_to(self.records(n), (trials, n)))


@lru_cache(4)
def _draw(law: Distribution, number: int, n: int) -> Floats:
    rng = stream("fixed_dataset", canonical(law), number, n)
    records = law.sample(rng, 1, n).records(0, rng)
    records.flags.writeable = False
    return records
