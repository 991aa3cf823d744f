"""Intervals by simulation around a clipped mean: NOISYVAR, and the parametric bootstrap.

Data are in a public [a, b], of width w. A share of the budget is for the mean, with noise of
sensitivity w/n. The rest is for the variance: half squared differences of m = floor(n/2) disjoint
pairs are in [0, w^2/2] and one record is in one pair, so their mean has sensitivity w^2/(2m). (The
sources have a statistic of all records, DFMBG20 the sample variance, of sensitivity w^2/n, FWS22
the mean absolute deviation.) Then the release of the mean is simulated, for records of the law
N(value, scale^2) that was released: that sees no record, and costs nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import ndtr

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _Between, noisy_clipped_mean
from dpbench.estimators.gaussian import Positive
from dpbench.privacy import Ledger
from dpbench.registry import Probability, validated
from dpbench.samples import Sample

__all__ = ["BootstrapInterval", "NoisyVarianceInterval"]

End = Annotated[float, Field(ge=-1e150, le=1e150)]  # squares do not overflow
Draws = Annotated[int, Field(ge=1, le=10**5)]
HELD = 10**6  # simulated numbers at once
FAR = 40.0  # standard deviations, beyond which a Gaussian weighs nothing


@validated
class _SimulatedInterval(_Between):
    """A clipped mean and a noisy variance, and the errors of simulated ones.

    Of B + 1 errors of one law the real one is equally likely to have any rank. So with simulations
    of the true law, and a whole k = (B + 1) beta/2, the interval from the value less the k-th
    largest simulated error to the value less the k-th smallest misses with probability beta.

    Parameters
    ----------
    lower, upper : float
        a and b; records are clipped to these.
    sigma : float > 0, optional
        The standard deviation where it is known: all of the budget is for the mean.
    beta : float in (0, 1)
        How often the interval is to miss.
    share : float in (0, 1)
        Of the budget, for the mean if sigma is not known; DFMBG20 found 0.8 best.
    draws : int
        B.
    """

    lower: End
    upper: End
    sigma: Positive | None = None
    beta: Probability = 0.1
    share: Probability = 0.8
    draws: Draws = 999

    @abstractmethod
    def _moments(self, mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
        """The bias and the standard deviation of simulated records of N(mean, sd^2)."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        scale = np.full(sample.trials, self.sigma or 0.0)
        if self.sigma is None:
            ledger, spread = ledger.split(self.share, 1 - self.share)
            scale = self._scale(sample, spread)
        centre, half = self.lower / 2 + self.upper / 2, self.upper / 2 - self.lower / 2
        found = noisy_clipped_mean(sample, centre, half, ledger)
        bias, sd = self._moments(found.value, scale)
        step, rank = 2 * half / sample.n, max(1, int((self.draws + 1) * self.beta / 2 + 1e-9)) - 1
        low, high = np.empty((2, sample.trials))
        pieces = 1 + sample.trials * self.draws // HELD
        for rows in np.array_split(np.arange(sample.trials), pieces):
            shape = len(rows), self.draws
            errors = ledger.budget.noise(ledger.rng, shape, step, step, single=True)
            errors *= ledger.noise_factor
            errors += (sd[rows] / np.sqrt(sample.n))[:, None] * ledger.rng.standard_normal(shape)
            errors.partition([rank, self.draws - 1 - rank], axis=1)
            low[rows], high[rows] = errors[:, -1 - rank], errors[:, rank]
        middle = found.value - bias
        return replace(found, interval=(middle - low, middle - high), miss=self.beta)

    def _scale(self, sample: Sample, ledger: Ledger) -> Floats:
        """The root of the noisy variance, 0 where that is negative."""
        if sample.n < 2:
            raise ValueError("one record makes no pair")
        squares = sample.half_squared_differences(ledger.rng)
        middle = (self.upper / 2 - self.lower / 2) ** 2
        variance = noisy_clipped_mean(squares, middle, middle, ledger).value
        return np.sqrt(np.maximum(variance, 0.0))


@validated
class NoisyVarianceInterval(_SimulatedInterval):
    """NOISYVAR with simulation, Algorithms 2 and 3 of DFMBG20: clipping is not simulated.

    Simulated errors are N(0, scale^2/n) plus noise. That the scale is not the true one makes the
    intervals miss a little more than they should, where it is least certain: at small n epsilon.
    """

    def _moments(self, mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
        return np.zeros_like(mean), sd


@validated
class BootstrapInterval(_SimulatedInterval):
    """The parametric bootstrap of FWS22: the whole release is simulated, with its clip.

    Simulated records are clipped to [a, b], too, so that the bias of clipping is subtracted as
    far as that of records around the value is that of records around the mean: FWS22's pivotal
    interval. Means of n clipped Gaussians are drawn from the normal law of their mean and variance,
    with u = (a - mean)/sd and v = (b - mean)/sd in units of sd

        m = u Phi(u) + v Phi(-v) + phi(u) - phi(v)    away from the mean, and
        u^2 Phi(u) + v^2 Phi(-v) + Phi(v) - Phi(u) + u phi(u) - v phi(v) - m^2,

    the integrals of z and z^2 between u and v, and what is clipped to either.
    """

    def _moments(self, mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
        sd = np.maximum(sd, 1e-150)
        near = np.clip(mean, self.lower - FAR * sd, self.upper + FAR * sd)
        u, v = (np.clip((end - near) / sd, -FAR, FAR) for end in (self.lower, self.upper))
        below, above = ndtr(u), ndtr(-v)
        at_u, at_v = (np.exp(-(end**2) / 2) / np.sqrt(2 * np.pi) for end in (u, v))
        bias = u * below + v * above + at_u - at_v
        square = u**2 * below + v**2 * above + (1 - above - below) + u * at_u - v * at_v
        variance = np.maximum(square - bias**2, 0.0)
        return near - mean + sd * bias, sd * np.sqrt(variance)
