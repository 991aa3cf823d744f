"""Base classes of distributions of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats
from dpbench.registry import MomentOrder, Registered, validated
from dpbench.samples import BinnedSample, DenseSample, Sample
from dpbench.samples.binned import HELD_NUMBERS, MAX_WHOLE_RECORDS
from dpbench.samples.quantile_grid import quantile_grid

__all__ = ["Continuous", "Distribution", "LocationScale"]


class Distribution(Registered, ABC):
    """Base class of distributions of numbers or vectors, with exact mean and moments."""

    # If True, samples store counts of values or of zero vectors, so that n may reach 1e12.
    counted: ClassVar[bool] = False
    d: ClassVar[int] = 1  # coordinates of a record

    @property
    @abstractmethod
    def mean(self) -> float | Floats:
        """Exact mean of the distribution, a number or an array of d coordinates."""

    @property
    def target(self) -> float | Floats:
        """Value to estimate: the mean, or the mean of the clean part of contaminated records."""
        return self.mean

    def target_of(self, sample: Sample) -> float | Floats:
        """Return the value that an estimator should estimate from `sample`.

        By default return the attribute `target`. A distribution with one fixed dataset returns the
        mean of the dataset, repeated for each trial: an array (trials, d).
        """
        return self.target

    @property
    def whitening(self) -> Floats | None:
        """Matrix W of shape (d, d) that defines the size ||e W||_2 of an error e.

        The row vector e is an estimate minus the value to estimate. None stands for the identity,
        so that the size is the l2 norm of e.
        """
        return None

    @property
    def variance(self) -> float:
        """Variance E(X - mean)^2 of a record X, or E ||X - mean||_2^2 for vectors.

        It is infinite if it does not exist.
        """
        return self.moment(2)

    @abstractmethod
    def moment(self, k: float) -> float:
        """Return the k-th absolute moment E|X - mean|^k of a record X about the mean.

        It is infinite if it does not exist. For vectors return the largest E|<v, X - mean>|^k over
        unit vectors v, or an upper bound on it; NaN if neither is known.
        """

    @property
    def covariance(self) -> Floats:
        """Covariance matrix of a record, (d, d); raises ValueError if it is not known."""
        raise ValueError(f"the covariance of {type(self).__name__} is not known")

    def held(self, n: int) -> float:
        """Return the approximate count of numbers that one dataset of n records keeps in memory."""
        return 1.0 if self.counted else float(n * self.d)

    def bins(self, n: int) -> bool:
        """Return True if datasets of n records are stored as counts on cells (`BinnedSample`)."""
        return False

    @abstractmethod
    def sample(self, rng: np.random.Generator, trials: int, n: int) -> Sample:
        """Draw independent datasets.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the records.
        trials : int
            Number of datasets.
        n : int
            Number of records in each dataset.

        Returns
        -------
        Sample
        """

    def distance_to_gaussian(self, mean: Floats, sd: Floats) -> Floats | None:
        """Return the distribution's total-variation distances to Gaussians, or None if unknown.

        Parameters
        ----------
        mean, sd : ndarray of shape (trials,)
            Means and standard deviations of the Gaussians, in the unit of the data.

        Returns
        -------
        ndarray of shape (trials,), or None
        """
        return None


@validated
class LocationScale(Distribution):
    """Base class of distributions of X = location + scale (Z - centre), for a standard variable Z.

    The centre is the mean of Z, unless a subclass sets another value.

    Parameters
    ----------
    location : float
        Point to which the centre of Z is moved, in the unit of the data: the mean of X, or the mean
        of its clean part.
    scale : float > 0
        Factor of Z; the standard deviation of X only if Z has variance 1.
    standardised_moment : float >= 2, optional
        Order k of the moment that is set to 1. The scale is then chosen to make E|X - mean|^k = 1,
        and the parameter `scale` has to be left at 1.
    """

    location: float = 0.0
    scale: Annotated[float, Field(gt=0)] = 1.0
    standardised_moment: MomentOrder | None = None

    @model_validator(mode="after")
    def _check_scale(self) -> Self:
        if self.standardised_moment is not None:
            if self.scale != 1.0:
                raise ValueError("give scale or standardised_moment, not both")
            if not np.isfinite(self._standard_moment(self.standardised_moment)):
                raise ValueError(f"the moment of order {self.standardised_moment} is infinite")
        return self

    @cached_property
    def _scale(self) -> float:
        k = self.standardised_moment
        return self.scale if k is None else float(self._standard_moment(k) ** (-1 / k))

    @property
    def mean(self) -> float:
        return self.location + self._scale * (self._standard_mean - self._standard_centre)

    @property
    def target(self) -> float:
        return self.location

    def moment(self, k: float) -> float:
        return float(self._scale**k * self._standard_moment(k))

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> Sample:
        return DenseSample(self.draw_records(rng, (trials, n)))

    def draw_records(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        """Draw independent records.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the records.
        size : tuple of two int
            Shape (trials, n) of the result.

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
        """Mean of the standard variable Z, which is moved and scaled to give a record."""

    @property
    def _standard_centre(self) -> float:
        """Value of the standard variable Z for which a record equals `location`."""
        return self._standard_mean

    @abstractmethod
    def _standard_moment(self, k: float) -> float:
        """Return the moment E|Z - E Z|^k of the standard variable Z about its mean."""

    @abstractmethod
    def _standard(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        """Draw independent values of the standard variable Z, an array of shape `size`."""


@validated
class Continuous(LocationScale):
    """Base class of continuous distributions of X = location + scale (Z - centre).

    A subclass knows the distribution function of Z and its inverse. So datasets of more than
    `MAX_WHOLE_RECORDS` (300,000) records are drawn as counts on cells, and n may reach 1e12.
    """

    def bins(self, n: int) -> bool:
        return n > MAX_WHOLE_RECORDS

    def held(self, n: int) -> float:
        return float(HELD_NUMBERS if self.bins(n) else n)

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> Sample:
        if self.bins(n):
            return BinnedSample.draw(quantile_grid(self, n), rng, trials, n)
        return super().sample(rng, trials, n)

    def tail_quantile(self, t: Floats, *, upper: bool) -> Floats:
        """Return numbers x with P(X > x) = t for a record X if `upper`, else with P(X < x) = t."""
        z = self._standard_tail_quantile(t, upper=upper)
        return np.asarray(self.location + self._scale * (z - self._standard_centre))

    def tail(self, x: Floats, *, upper: bool) -> Floats:
        """Return P(X > x) for a record X if `upper`, else P(X < x); x may be infinite."""
        z = (x - self.location) / self._scale + self._standard_centre
        return np.asarray(self._standard_tail(z, upper=upper))

    @abstractmethod
    def _standard_tail_quantile(self, t: Floats, *, upper: bool) -> Floats:
        """Return the quantiles of Z that belong to the tail probabilities `t`, any shape."""

    @abstractmethod
    def _standard_tail(self, z: Floats, *, upper: bool) -> Floats:
        """Return P(Z > z) if `upper`, else P(Z < z), for an array of any shape."""
