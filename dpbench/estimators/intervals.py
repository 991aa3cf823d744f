"""Confidence intervals by simulation around a clipped mean: NOISYVAR and the parametric bootstrap.

Records are clipped to a public [a, b] of width w. A share of the budget releases the mean, with
noise of sensitivity w/n. The rest releases the variance: half squared differences of m = floor(n/2)
disjoint pairs are in [0, w^2/2], and one record is in one pair, so their mean has sensitivity
w^2/(2m). (The sources use a statistic of all records: DFMBG20 the sample variance, of sensitivity
w^2/n; FWS22 the mean absolute deviation.) Then the release of the mean is simulated for records of
the released distribution N(value, scale^2). The simulation uses no record, so it costs no privacy.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from scipy.special import ndtr

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _ClippingEstimator, noisy_clipped_mean
from dpbench.estimators.gaussian import Positive
from dpbench.privacy import Ledger
from dpbench.registry import Probability, validated
from dpbench.samples import Sample

__all__ = ["NoisyvarInterval", "ParametricBootstrapInterval"]

End = Annotated[float, Field(ge=-1e150, le=1e150)]  # squares do not overflow
Draws = Annotated[int, Field(ge=1, le=10**5)]
HELD = 10**6  # simulated numbers held at once
FAR = 40.0  # in standard deviations: the Gaussian probability beyond underflows


@validated
class _SimulatedInterval(_ClippingEstimator):
    """Base class of intervals from simulated errors of a clipped mean.

    Let the real error and B simulated errors have one distribution. Then every rank of the real
    error among the B + 1 is equally likely. So with simulations of the true distribution, and a
    whole number k = (B + 1) beta/2, the interval from the value minus the k-th largest simulated
    error to the value minus the k-th smallest misses the mean with probability beta.

    Parameters
    ----------
    lower, upper : float
        Public bounds a < b to which records are clipped, in the unit of the data.
    sigma : float > 0, optional
        Known standard deviation of a record; the mean then has the whole budget. By default it is
        estimated.
    beta : float in (0, 1)
        Probability with which the interval is meant to miss the mean.
    share : float in (0, 1)
        Share of the budget for the mean if sigma is estimated; DFMBG20 found 0.8 best.
    draws : int in [1, 1e5]
        Number B of simulated releases.
    """

    lower: End
    upper: End
    sigma: Positive | None = None
    beta: Probability = 0.1
    share: Probability = 0.8
    draws: Draws = 999

    @abstractmethod
    def _moments(self, mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
        """Return bias and standard deviation, (trials,), of simulated records of N(mean, sd^2)."""

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
        """Return the root of the noisy variance, (trials,), or 0 if it is negative."""
        if sample.n < 2:
            raise ValueError("one record makes no pair")
        squares = sample.half_squared_differences(ledger.rng)
        middle = (self.upper / 2 - self.lower / 2) ** 2
        variance = noisy_clipped_mean(squares, middle, middle, ledger).value
        return np.sqrt(np.maximum(variance, 0.0))


@validated
class NoisyvarInterval(_SimulatedInterval):
    """NOISYVAR confidence interval: noisy clipped mean and variance, with simulation (DFMBG20).

    DFMBG20, Algorithms 2 and 3. Simulated errors are N(0, scale^2/n) plus the noise of the mean;
    clipping is not simulated. Because `scale` is an estimate, intervals miss a little more often
    than beta, mostly at small n epsilon.
    """

    stream_name: ClassVar[str] = "NoisyVarianceInterval"

    def _moments(self, mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
        return np.zeros_like(mean), sd


@validated
class ParametricBootstrapInterval(_SimulatedInterval):
    """Parametric bootstrap confidence interval for a noisy clipped mean (FWS22).

    The whole release is simulated, including the clip to [a, b]: FWS22's pivotal interval. It
    subtracts the bias of clipping, so far as records around the value have the same bias as records
    around the mean. The mean of n clipped Gaussians is drawn from a normal distribution with its
    mean and variance. With u = (a - mean)/sd, v = (b - mean)/sd, a clipped record has, in units of
    sd, the bias

        m = u Phi(u) + v Phi(-v) + phi(u) - phi(v)

    and the variance

        u^2 Phi(u) + v^2 Phi(-v) + Phi(v) - Phi(u) + u phi(u) - v phi(v) - m^2,

    from the integrals of z and z^2 between u and v, plus the records clipped to either bound.
    """

    stream_name: ClassVar[str] = "BootstrapInterval"

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
