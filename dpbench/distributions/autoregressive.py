"""Records that depend on each other: a stationary autoregression of order one."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.distributions.base import LocationScale
from dpbench.distributions.continuous import Gaussian
from dpbench.registry import validated

__all__ = ["AutoregressiveGaussian"]


@validated
class AutoregressiveGaussian(LocationScale):
    """Gaussian records, each correlated with the next: a stationary autoregression of order one.

    Z_1 is N(0, 1), and Z_i = c Z_(i-1) + sqrt(1 - c^2) W_i for i > 1, with independent W_i from
    N(0, 1). So every Z_i is N(0, 1), and Z_i and Z_j have the correlation c^|i - j|. The mean of n
    records has the variance

        scale^2/n (1 + 2 sum over h = 1, ..., n - 1 of (1 - h/n) c^h),

    because 2 (n - h) of the n (n - 1) pairs of records have the lag h. For large n it is the
    variance of the mean of n (1 - c)/(1 + c) independent records. RA25 studies private means of
    dependent records. The guarantee of an estimator does not depend on the distribution, so it
    holds for these, too.

    Parameters
    ----------
    correlation : float in (-1, 1)
        Correlation c of a record and the next.
    """

    correlation: Annotated[float, Field(gt=-1, lt=1)] = 0.5

    @property
    def _standard_mean(self) -> float:
        return 0.0

    def _standard_moment(self, k: float) -> float:
        return float(Gaussian().moment(k))

    def _standard(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        from scipy.signal import lfilter  # slow to import

        steps = rng.standard_normal(size)
        steps[:, 1:] *= np.sqrt(1 - self.correlation**2)
        return np.asarray(lfilter([1.0], [1.0, -self.correlation], steps, axis=1))
