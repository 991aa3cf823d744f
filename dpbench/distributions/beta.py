"""Beta distribution, on an interval; the uniform distribution is one of them."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field
from scipy import special

from dpbench.arrays import Floats
from dpbench.distributions.base import Continuous
from dpbench.registry import validated

__all__ = ["Beta"]

# Beyond, terms of 2F1 cancel; within, moments are right to 1e-11.
Shape = Annotated[float, Field(ge=0.01, le=15)]


@validated
class Beta(Continuous):
    """Beta distribution on the interval [location, location + scale], by default [0, 1].

    The density at z in [0, 1] is proportional to z^(a-1) (1-z)^(b-1). With ``a = b = 1`` the
    distribution is uniform.

    Parameters
    ----------
    a, b : float in [0.01, 15]
        Exponents of the density plus 1. The mean on [0, 1] is a/(a + b).
    """

    a: Shape
    b: Shape

    @property
    def target(self) -> float:
        return self.mean

    @property
    def _standard_mean(self) -> float:
        return self.a / (self.a + self.b)

    @property
    def _standard_centre(self) -> float:
        return 0.0

    def _standard_moment(self, k: float) -> float:
        """Return the moment E|Z - m|^k about the mean m, in closed form.

        With z = m t, the part below m is

            int_0^m (m-z)^k z^(a-1) (1-z)^(b-1) dz = m^(a+k) B(a, k+1) 2F1(1-b, a; a+k+1; m)

        by Euler's integral (DLMF, equation 15.6.1), divided by B(a, b). The part above m is that
        below 1 - m of the mirrored variable 1 - Z, which has a and b exchanged.
        """

        def part(a: float, b: float, m: float) -> float:
            log_factor = (a + k) * np.log(m) + special.betaln(a, k + 1) - special.betaln(a, b)
            return float(np.exp(log_factor) * special.hyp2f1(1 - b, a, a + k + 1, m))

        m = self._standard_mean
        return part(self.a, self.b, m) + part(self.b, self.a, 1 - m)

    def _standard(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        return rng.random(size) if self.a == self.b == 1 else rng.beta(self.a, self.b, size)

    def _standard_tail_quantile(self, t: Floats, *, upper: bool) -> Floats:
        inverse = special.betainccinv if upper else special.betaincinv
        return np.asarray(inverse(self.a, self.b, t))

    def _standard_tail(self, z: Floats, *, upper: bool) -> Floats:
        tail = special.betaincc if upper else special.betainc
        return np.asarray(tail(self.a, self.b, np.clip(z, 0.0, 1.0)))
