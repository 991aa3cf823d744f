"""What data are drawn from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats
from dpbench.registry import MomentOrder, Registered, validated
from dpbench.samples import DenseSample, Sample, Stream, StreamedSample
from dpbench.samples.streamed import HELD, MOST_WHOLE

__all__ = ["Distribution", "LocationScale"]


class Distribution(Registered, ABC):
    """A law of numbers or vectors, with its exact mean and moments."""

    # Whether samples hold counts, of atoms or of zero vectors, so that n may reach 1e12.
    counted: ClassVar[bool] = False
    d: ClassVar[int] = 1  # coordinates of a record

    @property
    @abstractmethod
    def mean(self) -> float | Floats:
        """The exact mean of the law that is drawn from, a number or a (d,) array."""

    @property
    def target(self) -> float | Floats:
        """What an estimator is asked for: the mean, unless the law is contaminated."""
        return self.mean

    def target_of(self, sample: Sample) -> float | Floats:
        """`target`, or for a fixed dataset, which has no sampling error, its own means."""
        return self.target

    @property
    def whitening(self) -> Floats | None:
        """What errors of means, rows, are multiplied by before their norms are taken."""
        return None

    @property
    def variance(self) -> float:
        """E(X - mean)^2, infinite where it does not exist; of vectors E ||X - mean||^2."""
        return self.moment(2)

    @abstractmethod
    def moment(self, k: float) -> float:
        """E|X - mean|^k, infinite where it does not exist.

        Of vectors E|<v, X - mean>|^k for the worst unit vector v, or a bound; NaN if none is known.
        """

    @property
    def covariance(self) -> Floats:
        """The (d, d) covariance matrix; a ValueError where it is not known."""
        raise ValueError(f"the covariance of {type(self).__name__} is not known")

    def held(self, n: int) -> float:
        """How many numbers a dataset of n records holds, about."""
        return 1.0 if self.counted else float(n * self.d)

    def streams(self, n: int) -> bool:
        """Whether n records are too many to hold, and are drawn again for every question."""
        return False

    @abstractmethod
    def sample(self, rng: np.random.Generator, trials: int, n: int) -> Sample:
        """Draw `trials` independent datasets of `n` records."""

    def distance_to_gaussian(self, mean: Floats, sd: Floats) -> Floats | None:
        """Total-variation distances to N(mean, sd^2), (trials,); None where not known."""
        return None


@validated
class LocationScale(Distribution):
    """X = location + scale (Z - centre) for a standard law Z that a subclass draws.

    Parameters
    ----------
    location : float
        Where the centre of Z goes: the mean of X, or of its clean part.
    scale : float, positive
    unit_moment : float >= 2, optional
        Choose the scale so that E|X - mean|^k = 1 for this k; `scale` must then be 1.
    """

    location: float = 0.0
    scale: Annotated[float, Field(gt=0)] = 1.0
    unit_moment: MomentOrder | None = None

    @model_validator(mode="after")
    def _one_scale(self) -> Self:
        if self.unit_moment is not None:
            if self.scale != 1.0:
                raise ValueError("give scale or unit_moment, not both")
            if not np.isfinite(self._standard_moment(self.unit_moment)):
                raise ValueError(f"the moment of order {self.unit_moment} is infinite")
        return self

    @cached_property
    def _scale(self) -> float:
        k = self.unit_moment
        return self.scale if k is None else float(self._standard_moment(k) ** (-1 / k))

    @property
    def mean(self) -> float:
        return self.location + self._scale * (self._standard_mean - self._standard_centre)

    @property
    def target(self) -> float:
        return self.location

    def moment(self, k: float) -> float:
        return float(self._scale**k * self._standard_moment(k))

    def streams(self, n: int) -> bool:
        return n > MOST_WHOLE

    def held(self, n: int) -> float:
        return float(HELD if self.streams(n) else n)

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> Sample:
        if not self.streams(n):
            return DenseSample(self.drawn(rng, (trials, n)))
        stream = Stream(lambda rng, m: self.drawn(rng, (1, m)).ravel(), rng)
        return StreamedSample(stream, n * np.arange(trials), n)

    def drawn(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        """Independent records, an array of this size."""
        z = self._standard(rng, size)
        if self._scale != 1.0:
            z *= self._scale
        shift = self.location - self._scale * self._standard_centre
        if shift != 0.0:
            z += shift
        return z

    @property
    @abstractmethod
    def _standard_mean(self) -> float:
        """E Z."""

    @property
    def _standard_centre(self) -> float:
        """The point of Z that goes to `location`."""
        return self._standard_mean

    @abstractmethod
    def _standard_moment(self, k: float) -> float:
        """E|Z - E Z|^k."""

    @abstractmethod
    def _standard(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        """Draw Z."""
