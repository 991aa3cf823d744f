"""Base classes of the distributions that data are drawn from."""

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
    """Base class of distributions of numbers or vectors, with exact mean and moments."""

    # If True, samples hold counts of atoms or of zero vectors, so that n may reach 1e12.
    counted: ClassVar[bool] = False
    d: ClassVar[int] = 1  # coordinates of a record

    @property
    @abstractmethod
    def mean(self) -> float | Floats:
        """Exact mean of the distribution, a number or a (d,) array."""

    @property
    def target(self) -> float | Floats:
        """Value to estimate: the mean, unless the distribution is contaminated."""
        return self.mean

    def target_of(self, sample: Sample) -> float | Floats:
        """Return the value to estimate, or for a fixed dataset its own means, (trials, d)."""
        return self.target

    @property
    def whitening(self) -> Floats | None:
        """Matrix, (d, d), by which errors of means, as rows, are multiplied before norms are taken.

        None stands for the identity: errors are then l2 norms.
        """
        return None

    @property
    def variance(self) -> float:
        """E(X - mean)^2, or E ||X - mean||^2 of vectors; infinite if it does not exist."""
        return self.moment(2)

    @abstractmethod
    def moment(self, k: float) -> float:
        """Return E|X - mean|^k, infinite if it does not exist.

        For vectors it is E|<v, X - mean>|^k for the worst unit vector v, or an upper bound on it;
        NaN if neither is known.
        """

    @property
    def covariance(self) -> Floats:
        """Covariance matrix, (d, d); a ValueError if it is not known."""
        raise ValueError(f"the covariance of {type(self).__name__} is not known")

    def held(self, n: int) -> float:
        """Return about how many numbers a dataset of n records holds in memory."""
        return 1.0 if self.counted else float(n * self.d)

    def streams(self, n: int) -> bool:
        """Return True if n records exceed memory, so that every statistic draws them again."""
        return False

    @abstractmethod
    def sample(self, rng: np.random.Generator, trials: int, n: int) -> Sample:
        """Draw independent datasets.

        Parameters
        ----------
        rng : numpy.random.Generator
            Stream of the data.
        trials : int
            Number of datasets.
        n : int
            Number of records in each.

        Returns
        -------
        Sample
        """

    def distance_to_gaussian(self, mean: Floats, sd: Floats) -> Floats | None:
        """Return total-variation distances to Gaussians, if they are known.

        Parameters
        ----------
        mean, sd : ndarray of shape (trials,)
            Means and standard deviations of the Gaussians, in the unit of the data.

        Returns
        -------
        ndarray of shape (trials,) or None
        """
        return None


@validated
class LocationScale(Distribution):
    """Base class of X = location + scale (Z - centre), for a standard variable Z.

    Parameters
    ----------
    location : float
        Point to which the centre of Z is moved, in the unit of the data: the mean of X, or the mean
        of its clean part.
    scale : float > 0
        Factor by which Z is multiplied; the standard deviation of X only if Z has variance 1.
    unit_moment : float >= 2, optional
        Order k of the moment that is set to 1: the scale is chosen so that E|X - mean|^k = 1, and
        `scale` has to be left at 1.
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
        """Draw independent records.

        Parameters
        ----------
        rng : numpy.random.Generator
            Stream of the data.
        size : tuple of two int
            Shape of the result.

        Returns
        -------
        ndarray of shape `size`
        """
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
        """Mean of Z."""

    @property
    def _standard_centre(self) -> float:
        """Value of Z that is moved to `location`."""
        return self._standard_mean

    @abstractmethod
    def _standard_moment(self, k: float) -> float:
        """Return E|Z - E Z|^k."""

    @abstractmethod
    def _standard(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        """Draw Z."""
