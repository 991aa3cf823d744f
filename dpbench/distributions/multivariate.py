"""Distributions of vectors whose samples are stored record by record."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Self

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
        x = self._draw_centred(rng, (trials, n, self.d))
        if self.norm:
            x += self.target
        return DenseSample(x)

    @abstractmethod
    def _draw_centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        """Draw records minus the value to estimate, an array of shape `size`."""


@validated
class MultivariateGaussian(_Vectors):
    """Multivariate Gaussian N(mean, covariance), isotropic by default.

    Parameters
    ----------
    scale : float > 0
        Largest standard deviation over all directions, in the unit of the data. If `matrix` is
        given, the covariance is scale^2 times the matrix instead.
    condition : float in [1, 1e12]
        Condition number of the covariance, its largest eigenvalue over the smallest. Eigenvalues
        are spaced geometrically. Eigenvectors are the vectors of the discrete cosine transform,
        because they favour no axis.
    matrix : list of d lists of d numbers, optional
        Covariance at scale 1, symmetric and positive definite; not together with `condition`.
    relative : bool
        If True, the error of an estimate is the Mahalanobis norm |S^(-1/2) x|, where x is the
        estimate minus the mean and S is the covariance over scale^2. If False, it is the l2 norm.
    """

    scale: Positive = 1.0
    condition: Annotated[float, Field(ge=1, le=1e12)] = 1.0
    matrix: list[list[float]] | None = None
    relative: bool = False

    @model_validator(mode="after")
    def _check_matrix(self) -> Self:
        if self.matrix is None:
            return self
        if self.condition != 1:
            raise ValueError("give condition or matrix, not both")
        if {len(self.matrix), *map(len, self.matrix)} != {self.d}:
            raise ValueError(f"matrix must have {self.d} rows of {self.d} numbers")
        matrix = np.asarray(self.matrix)
        if not np.array_equal(matrix, matrix.T) or np.linalg.eigvalsh(matrix)[0] <= 0:
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

    def _draw_centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        x = rng.standard_normal(size)
        if self._unit_covariance is not None:
            x = x @ np.linalg.cholesky(self._unit_covariance).T
        if self.scale != 1:
            x *= self.scale
        return np.asarray(x)


@validated
class PowerLawGaussian(_Vectors):
    """Gaussian vectors with independent coordinates, whose variances follow a power law.

    Coordinate i, from 1 to d, has the variance (d/i)^power. The figures of the paper PLAN (see the
    bibliography) use this distribution.

    Parameters
    ----------
    power : float in [0, 10]
        Exponent of the variances: 0 for N(mean, I). Larger values make variances more unequal.
    """

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

    def _draw_centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        return np.asarray(rng.standard_normal(size) * self._deviations)


@validated
class MultivariateStudentT(_Vectors):
    """Multivariate Student's t distribution: Gaussian vectors divided by sqrt(C/nu).

    Here C is an independent chi-square variable with nu degrees of freedom. In every direction the
    vectors have Student's t distribution.

    Parameters
    ----------
    tail_index : float > 1
        Degrees of freedom nu; moments of order below it exist.
    standardised_moment : float >= 2, optional
        Order k of the moment that is set to 1. Vectors X are scaled to make
        E|<v, X - mean>|^k = 1 for every unit vector v.
    """

    tail_index: Annotated[float, Field(gt=1)]
    standardised_moment: MomentOrder | None = None

    @cached_property
    def _direction(self) -> StudentT:
        return StudentT(tail_index=self.tail_index, standardised_moment=self.standardised_moment)

    def moment(self, k: float) -> float:
        return self._direction.moment(k)

    def _draw_centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        x = rng.standard_normal(size)
        chi = rng.chisquare(self.tail_index, size[:2])
        x *= (self._direction._scale * np.sqrt(self.tail_index / chi))[..., None]
        return x


@validated
class Product(_Vectors):
    """Distribution of vectors with independent coordinates that differ only in their means.

    Let v be a unit vector, and let Y be a record minus its mean. Every coordinate Y_i of Y has
    variance s^2 and k-th absolute moment m_k = E|Y_i|^k. The moment E|<v, Y>|^k has these values
    and bounds:

    - k = 2: equal to s^2.
    - k = 4: at most max(m_4, 3 s^4 + (m_4 - 3 s^4)/d).
    - 2 <= k <= 4, symmetric distributions: at most m_k + (k-1) s^k.

    The last bound follows coordinate by coordinate from the inequality

        (|a+b|^k + |a-b|^k)/2 <= |a|^k + |b|^k + k(k-1)/2 |a|^(k-2) b^2,   2 <= k <= 4.

    Let S_j = v_1 Y_1 + ... + v_j Y_j, with variance V_j. Then E|S_j|^k is at most E|S_(j-1)|^k +
    E|v_j Y_j|^k + R_j with R_j = k(k-1)/2 (V_j - V_(j-1)) V_(j-1)^((k-2)/2). The sum of all R_j is
    at most k(k-1)/2 times the integral of t^((k-2)/2) from 0 to s^2, which is (k-1) s^k.

    Parameters
    ----------
    of : distribution of numbers, or its configuration
        Continuous distribution of every coordinate; its mean is subtracted.
    standardised_moment : float in [2, 4], optional
        Order k of a moment. Records are scaled so that the value or bound listed above for
        E|<v, Y>|^k becomes 1. k is 2, 4 or, for Student's t, any number between 2 and 4.
    """

    of: Any
    standardised_moment: Annotated[float, Field(ge=2, le=4)] | None = None

    @field_validator("of")
    @classmethod
    def _build_record_law(cls, of: Any) -> Distribution:
        law = Distribution.build(of, "") if isinstance(of, Mapping) else of
        if not isinstance(law, LocationScale):
            raise ValueError("give a continuous law of numbers")
        return law

    @model_validator(mode="after")
    def _check_unit_moment(self) -> Self:
        if self.standardised_moment is not None and not np.isfinite(
            self._bound(self.standardised_moment)
        ):
            raise ValueError(f"no finite moment of order {self.standardised_moment:g} is known")
        return self

    def _bound(self, k: float) -> float:
        """Return a bound on E|<v, Y>|^k for every unit vector v; NaN if no bound is known.

        Y is a record minus its mean, before records are scaled to a moment of 1.
        """
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
        k = self.standardised_moment
        return 1.0 if k is None else self._bound(k) ** (-1 / k)

    def moment(self, k: float) -> float:
        return float(self._scale**k * self._bound(k))

    @property
    def covariance(self) -> Floats:
        return self.moment(2) * np.eye(self.d)

    def _draw_centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        trials, n, d = size
        values = self.of.draw_records(rng, (trials, n * d)).reshape(size)
        return np.asarray(self._scale * (values - self.of.mean))


@validated
class MultivariateContaminatedGaussian(_Vectors):
    """Contaminated Gaussian vectors: a mixture of clean records and Gaussian outliers.

    A record is N(m, I) with probability 1 - eta, and otherwise an outlier, N(m + gap u, spread^2 I)
    with u = (1, -1, 1, ...)/sqrt(d). The value to estimate is the clean mean m, with l2 norm
    `norm`. The properties `mean` and `variance` describe the mixture.

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
    def _outlier_shift(self) -> Floats:
        return np.asarray(self.gap * self._diagonal * (-1.0) ** np.arange(self.d))

    @property
    def target(self) -> Floats:
        return self.norm * self._diagonal

    @property
    def mean(self) -> Floats:
        return self.target + self.eta * self._outlier_shift

    @property
    def variance(self) -> float:
        return float(np.trace(self.covariance))

    @property
    def covariance(self) -> Floats:
        width = 1 - self.eta + self.eta * self.spread**2
        between = self.eta * (1 - self.eta) * np.outer(self._outlier_shift, self._outlier_shift)
        return np.asarray(width * np.eye(self.d) + between)

    def moment(self, k: float) -> float:
        return float(np.linalg.eigvalsh(self.covariance)[-1]) if k == 2 else float("nan")

    def _draw_centred(self, rng: np.random.Generator, size: tuple[int, int, int]) -> Floats:
        x = rng.standard_normal(size)
        outlier = rng.random(size[:2]) < self.eta
        x[outlier] = self._outlier_shift + self.spread * x[outlier]
        return x


@validated
class Hypercube(Distribution):
    """Fixed datasets of vertices of a hypercube, one dataset for each n, as in the paper Z24.

    Every coordinate of a vertex is L/sqrt(d) or -L/sqrt(d). The value to estimate is the mean of
    the dataset, so only the noise of an estimator is random.

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
