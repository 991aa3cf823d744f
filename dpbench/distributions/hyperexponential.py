"""Hyperexponential distribution: a mixture of two exponential distributions."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import gamma, hyp1f1

from dpbench.arrays import Floats
from dpbench.distributions.base import Continuous
from dpbench.distributions.continuous import mixture_quantile
from dpbench.registry import validated

__all__ = ["Hyperexponential"]


@validated
class Hyperexponential(Continuous):
    """Hyperexponential distribution: a mixture of two exponential distributions, moved to a mean.

    The standard variable is exponential with mean 1 or, with probability `p`, with mean `ratio`. It
    describes costs and waiting times of which a few are much larger than the others. All moments
    exist.

    Parameters
    ----------
    p : float in (0, 1)
        Probability of a record from the long component.
    ratio : float in (1, 1e6]
        Mean of the long component, divided by the mean of the short component.
    """

    p: Annotated[float, Field(gt=0, lt=1)]
    ratio: Annotated[float, Field(gt=1, le=1e6)]

    @property
    def _standard_mean(self) -> float:
        return 1 - self.p + self.p * self.ratio

    def _standard_moment(self, k: float) -> float:
        """Return the moment E|Z - m|^k about the mean m = E Z, in closed form.

        Let Y be exponential with mean t. Above m its part of the moment is exp(-m/t) t^k
        Gamma(k+1). Below m it is the integral of (m - y)^k exp(-y/t)/t over [0, m], which equals

            m^(k+1)/(t (k+1)) 1F1(1; k+2; -m/t),

        with Kummer's function 1F1 (DLMF, equation 13.4.1). The moment of Z is the weighted sum over
        t = 1 and t = `ratio`.
        """
        m = self._standard_mean

        def part(t: float) -> float:
            above = np.exp(-m / t) * t**k * gamma(k + 1)
            below = m ** (k + 1) / (t * (k + 1)) * hyp1f1(1, k + 2, -m / t)
            return float(above + below)

        return (1 - self.p) * part(1.0) + self.p * part(self.ratio)

    def _standard(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        z = rng.standard_exponential(size)
        z[rng.random(size) < self.p] *= self.ratio
        return z

    def _standard_tail_quantile(self, t: Floats, *, upper: bool) -> Floats:
        with np.errstate(divide="ignore"):
            z = -(np.log(t) if upper else np.log1p(-t))
        return mixture_quantile(self._standard_tail, t, z, self.ratio * z, upper=upper)

    def _standard_tail(self, z: Floats, *, upper: bool) -> Floats:
        z = np.maximum(z, 0.0)
        if upper:
            return (1 - self.p) * np.exp(-z) + self.p * np.exp(-z / self.ratio)
        return -(1 - self.p) * np.expm1(-z) - self.p * np.expm1(-z / self.ratio)
