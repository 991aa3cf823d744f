"""Linear regression data: features, and a response that is linear in the features plus noise."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.distributions.base import Distribution
from dpbench.registry import validated
from dpbench.samples import DenseSample

__all__ = ["LinearModel"]


@validated
class LinearModel(Distribution):
    """Linear model: records (x, y) with x uniform in the unit ball and y = <x, theta> + z.

    The noise z is uniform and independent of x. So E x x^T = I/(d + 1), and theta is the vector of
    least-squares coefficients of the distribution. Because |x| <= 1 and
    |y| <= norm + sqrt(3) noise_sd, an estimator with these bounds clips no record.

    Parameters
    ----------
    d : int in [2, 10000]
        Number of coordinates of a record: d - 1 features x, and y.
    norm : float >= 0
        Norm of theta, which is parallel to (1, ..., 1).
    noise_sd : float > 0
        Standard deviation of z, in the unit of y.
    """

    d: Annotated[int, Field(ge=2, le=10_000)] = Field()  # type: ignore[misc]
    norm: Annotated[float, Field(ge=0, le=1e100)] = 1.0
    noise_sd: Annotated[float, Field(gt=0, le=1e100)] = 0.5

    @property
    def features(self) -> int:
        """Number of features, the coordinates of x."""
        return self.d - 1

    @property
    def theta(self) -> Floats:
        """Coefficients theta of the linear model, one for each feature."""
        return np.full(self.features, self.norm * self.features**-0.5)

    @property
    def mean(self) -> Floats:
        return np.zeros(self.d)

    @property
    def covariance(self) -> Floats:
        spread = 1 / (self.features + 2)
        beside = spread * self.theta
        last = spread * self.norm**2 + self.noise_sd**2
        return np.block([[spread * np.eye(self.features), beside[:, None]], [beside, last]])

    @property
    def variance(self) -> float:
        return float(np.trace(self.covariance))

    def moment(self, k: float) -> float:
        return float(np.linalg.eigvalsh(self.covariance)[-1]) if k == 2 else float("nan")

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> DenseSample:
        records = np.empty((trials, n, self.d))
        x = rng.standard_normal((trials, n, self.features))
        radius = rng.random((trials, n)) ** (1 / self.features)
        records[..., :-1] = x * (radius / np.linalg.norm(x, axis=2))[..., None]
        noise = rng.uniform(-(3**0.5), 3**0.5, (trials, n))
        records[..., -1] = records[..., :-1] @ self.theta + self.noise_sd * noise
        return DenseSample(records)
