"""Distributions of vectors, whose samples are held record by record."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, field_validator, model_validator
from scipy.fft import dct

from dpbench.arrays import Floats
from dpbench.distributions.base import Distribution, LocationScale
from dpbench.distributions.continuous import Gaussian, StudentT
from dpbench.registry import MomentOrder, validated
from dpbench.samples import DenseSample, Sample
from dpbench.seeds import stream

__all__ = [
    "Dimension",
    "Hypercube",
    "MultivariateContaminatedGaussian",
    "MultivariateGaussian",
    "MultivariateStudentT",
    "PowerLawGaussian",
    "Product",
]

Dimension = Annotated[int, Field(ge=1, le=100_000)]
Positive = Annotated[float, Field(gt=0, le=1e150)]


@validated
class _Vectors(Distribution):
    """Base class of distributions of vectors around a mean of a given norm.

    Parameters
    ----------
    d : int in [1, 100000]
        Number of coordinates.
    norm : float >= 0
        l2 norm of the mean, which is parallel to (1, ..., 1), in the unit of the data.
    """

    d: Dimension = Field()  # type: ignore[misc]  # scalar laws have no such parameter
    norm: Annotated[float, Field(ge=0, le=1e150)] = 0.0

    @property
    def _diagonal(self) -> Floats:
        return np.full(self.d, self.d**-0.5)

    @property
    def mean(self) -> Floats:
        return self.norm * self._diagonal

    @property
    def variance(self) -> float:
        return self.d * self.moment(2)  # for distributions with equal variance in all directions

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> DenseSample:
        x = self._centred(rng, (trials, n, self.d))
        if self.norm:
            x += self.target
        return DenseSample(x)

    @abstractmethod
    def _centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        """Draw X - target, an array of shape `size`."""


@validated
class MultivariateGaussian(_Vectors):
    """Multivariate Gaussian N(mean, covariance), isotropic by default.

    Parameters
    ----------
    scale : float > 0
        Standard deviation in the direction where it is largest, in the unit of the data. If
        `matrix` is given, a factor: the covariance is scale^2 times the matrix.
    condition : float in [1, 1e12]
        Condition number of the covariance, its largest eigenvalue over the smallest. The
        eigenvalues are spaced geometrically along the vectors of the discrete cosine transform, so
        that no axis is special.
    matrix : list of d lists of d numbers, optional
        Covariance at scale 1, symmetric and positive definite; not together with `condition`.
    relative : bool
        If True, errors are Mahalanobis norms |S^(-1/2) x|, with S the covariance over scale^2; if
        False, they are l2 norms.
    """

    scale: Positive = 1.0
    condition: Annotated[float, Field(ge=1, le=1e12)] = 1.0
    matrix: list[list[float]] | None = None
    relative: bool = False
    added_parameters: ClassVar[dict[str, Any]] = {"relative": False}

    @model_validator(mode="after")
    def _one_covariance(self) -> Self:
        if self.matrix is None:
            return self
        if self.condition != 1:
            raise ValueError("give condition or matrix, not both")
        if {len(self.matrix), *map(len, self.matrix)} != {self.d}:
            raise ValueError(f"matrix must have {self.d} rows of {self.d} numbers")
        given = np.asarray(self.matrix)
        if not np.array_equal(given, given.T) or np.linalg.eigvalsh(given)[0] <= 0:
            raise ValueError("matrix must be symmetric and positive definite")
        return self

    @cached_property
    def _unit_covariance(self) -> Floats | None:
        """Covariance at scale 1, (d, d); None for the identity."""
        if self.matrix is not None:
            return np.asarray(self.matrix)
        if self.condition == 1 or self.d == 1:
            return None
        variances = np.geomspace(1, 1 / self.condition, self.d)
        directions = dct(np.eye(self.d), norm="ortho", axis=0)
        return np.asarray(directions.T * variances @ directions)

    @property
    def whitening(self) -> Floats | None:
        unit = self._unit_covariance
        if unit is None or not self.relative:
            return None
        return np.asarray(np.linalg.inv(np.linalg.cholesky(unit)).T)

    @property
    def covariance(self) -> Floats:
        unit = self._unit_covariance
        return np.asarray(self.scale**2 * (np.eye(self.d) if unit is None else unit))

    @property
    def variance(self) -> float:
        return float(np.trace(self.covariance))

    def moment(self, k: float) -> float:
        unit = self._unit_covariance
        largest = 1.0 if unit is None else float(np.linalg.eigvalsh(unit)[-1])
        return float((self.scale**2 * largest) ** (k / 2) * Gaussian().moment(k))

    def _centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        x = rng.standard_normal(size)
        if self._unit_covariance is not None:
            x = x @ np.linalg.cholesky(self._unit_covariance).T
        if self.scale != 1:
            x *= self.scale
        return np.asarray(x)


@validated
class PowerLawGaussian(_Vectors):
    """Gaussian with independent coordinates of unequal variances, as in PLAN's figures.

    Coordinate i, from 1 to d, has the variance (d/i)^power.

    Parameters
    ----------
    power : float in [0, 10]
        Exponent of the variances: 0 for N(mean, I); larger values make the coordinates more
        unequal.
    """

    stream_name: ClassVar[str] = "StretchedGaussian"

    power: Annotated[float, Field(ge=0, le=10)] = 0.0

    @cached_property
    def _deviations(self) -> Floats:
        return np.asarray((self.d / np.arange(1.0, self.d + 1)) ** (self.power / 2))

    @property
    def covariance(self) -> Floats:
        return np.diag(self._deviations**2)

    @property
    def variance(self) -> float:
        return float((self._deviations**2).sum())

    def moment(self, k: float) -> float:
        return float(self._deviations[0] ** k * Gaussian().moment(k))

    def _centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        return np.asarray(rng.standard_normal(size) * self._deviations)


@validated
class MultivariateStudentT(_Vectors):
    """Multivariate Student's t: a Gaussian vector over the root of an independent chi-square.

    Every direction has Student's t distribution.

    Parameters
    ----------
    tail_index : float > 1
        Degrees of freedom nu; moments of order below it exist.
    unit_moment : float >= 2, optional
        Order k of the moment that is set to 1: X is scaled so that E|<v, X - mean>|^k = 1 for every
        unit vector v.
    """

    tail_index: Annotated[float, Field(gt=1)]
    unit_moment: MomentOrder | None = None

    @cached_property
    def _direction(self) -> StudentT:
        return StudentT(tail_index=self.tail_index, unit_moment=self.unit_moment)

    def moment(self, k: float) -> float:
        return self._direction.moment(k)

    def _centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        x = rng.standard_normal(size)
        chi = rng.chisquare(self.tail_index, size[:2])
        x *= (self._direction._scale * np.sqrt(self.tail_index / chi))[..., None]
        return x


@validated
class Product(_Vectors):
    """Product distribution: independent coordinates, identically distributed about the mean.

    Let v be a unit vector, and let the coordinates Y_i of Y have mean 0, variance s^2 and k-th
    absolute moment m_k. The k-th moment of <v, Y> is s^2 for k = 2 and at most max(m_4, 3 s^4 +
    (m_4 - 3 s^4)/d) for k = 4. For symmetric distributions and 2 <= k <= 4 it is at most m_k +
    (k-1) s^k. This follows coordinate by coordinate from

        (|a+b|^k + |a-b|^k)/2 <= |a|^k + |b|^k + k(k-1)/2 |a|^(k-2) b^2,   2 <= k <= 4:

    with S_j the partial sums and V_j their variances, E|S_j|^k is at most E|S_(j-1)|^k + E|v_j
    Y_j|^k + k(k-1)/2 (V_j - V_(j-1)) V_(j-1)^((k-2)/2). The sum of the last terms is at most
    k(k-1)/2 times the integral of t^((k-2)/2) from 0 to s^2.

    Parameters
    ----------
    of : distribution of numbers, its configuration
        Distribution of every coordinate, a continuous one; its mean is subtracted.
    unit_moment : float in [2, 4], optional
        Order k of the moment whose bound above is set to 1, by scaling: 2, 4 or, for Student's t,
        any number between.
    """

    of: Any
    unit_moment: Annotated[float, Field(ge=2, le=4)] | None = None

    @field_validator("of")
    @classmethod
    def _known_law(cls, of: Any) -> Distribution:
        made = Distribution.build(of, "") if isinstance(of, Mapping) else of
        if not isinstance(made, LocationScale):
            raise ValueError("give a continuous law of numbers")
        return made

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.unit_moment is not None and not np.isfinite(self._bound(self.unit_moment)):
            raise ValueError(f"no finite moment of order {self.unit_moment:g} is known")
        return self

    def _bound(self, k: float) -> float:
        """Return the bound on the unscaled k-th moment of a direction; NaN if none is known."""
        square, moment = self.of.variance, self.of.moment(k)
        if k == 2:
            return float(square)
        if k == 4:
            excess = moment - 3 * square**2
            return float(max(moment, 3 * square**2 + excess / self.d))
        if k > 4 or not isinstance(self.of, StudentT):
            return float("nan")
        return float(moment + (k - 1) * square ** (k / 2))

    @cached_property
    def _scale(self) -> float:
        k = self.unit_moment
        return 1.0 if k is None else self._bound(k) ** (-1 / k)

    def moment(self, k: float) -> float:
        return float(self._scale**k * self._bound(k))

    @property
    def covariance(self) -> Floats:
        return self.moment(2) * np.eye(self.d)

    def _centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        trials, n, d = size
        drawn = self.of.drawn(rng, (trials, n * d)).reshape(size)
        return np.asarray(self._scale * (drawn - self.of.mean))


@validated
class MultivariateContaminatedGaussian(_Vectors):
    """Contaminated Gaussian vectors: (1 - eta) N(m, I) + eta N(m + gap u, spread^2 I).

    u = (1, -1, 1, ...)/sqrt(d). The value to estimate is the clean mean m, which has the given
    norm; mean and variance are those of the mixture.

    Parameters
    ----------
    eta : float in [0, 1]
        Probability that a record is an outlier.
    gap : float >= 0
        Distance from m to the mean of the outliers; clean records have standard deviation 1.
    spread : float > 0
        Standard deviation of the outliers in every coordinate.
    """

    eta: Annotated[float, Field(ge=0, le=1)]
    gap: Annotated[float, Field(ge=0, le=1e150)]
    spread: Positive = 1.0

    @property
    def _away(self) -> Floats:
        return np.asarray(self.gap * self._diagonal * (-1.0) ** np.arange(self.d))

    @property
    def target(self) -> Floats:
        return self.norm * self._diagonal

    @property
    def mean(self) -> Floats:
        return self.target + self.eta * self._away

    @property
    def variance(self) -> float:
        return float(np.trace(self.covariance))

    @property
    def covariance(self) -> Floats:
        width = 1 - self.eta + self.eta * self.spread**2
        between = self.eta * (1 - self.eta) * np.outer(self._away, self._away)
        return np.asarray(width * np.eye(self.d) + between)

    def moment(self, k: float) -> float:
        return float(np.linalg.eigvalsh(self.covariance)[-1]) if k == 2 else float("nan")

    def _centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        x = rng.standard_normal(size)
        outlier = rng.random(size[:2]) < self.eta
        x[outlier] = self._away + self.spread * x[outlier]
        return x


@validated
class Hypercube(Distribution):
    """One fixed dataset of vertices of {+-L/sqrt(d)}^d for each n (Z24): only the noise is random.

    The value to estimate is the mean of the dataset.

    Parameters
    ----------
    d : int in [1, 100000]
        Number of coordinates.
    length : float > 0
        Norm L of every record, in the unit of the data.
    """

    d: Dimension = Field()  # type: ignore[misc]  # scalar laws have no such parameter
    length: Positive = 1.0

    @property
    def mean(self) -> Floats:
        return np.zeros(self.d)  # the mean of a uniform vertex

    def target_of(self, sample: Sample) -> Floats:
        return sample.mean()

    @property
    def variance(self) -> float:
        return self.length**2

    def moment(self, k: float) -> float:
        return self.length**2 / self.d if k == 2 else float("nan")

    def held(self, n: int) -> float:
        # All trials of a block share one dataset; a trial adds temporary arrays.
        return max(self.d, n * self.d / 50)

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> DenseSample:
        side = self.length / np.sqrt(self.d)
        signs = stream("hypercube", self.d, n).integers(0, 2, (n, self.d), dtype=np.int8)
        vertices = side * (2.0 * signs - 1)
        return DenseSample(np.broadcast_to(vertices, (trials, n, self.d)))
