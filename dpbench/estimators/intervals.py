"""Confidence intervals by simulation around a clipped mean: NOISYVAR and the parametric bootstrap.

Records are clipped to a public interval [a, b] of width w. A share of the budget releases the mean
of the n records, with noise of sensitivity w/n. The rest of the budget releases a variance: the
mean of (x - y)^2/2 over m = floor(n/2) disjoint pairs x, y of records. The terms (x - y)^2/2 are
clipped to [0, w^2/2]. A record is in one pair at most, so the mean has sensitivity w^2/(2m). (The
sources use a statistic of all records: DFMBG20 the sample variance, of sensitivity w^2/n; FWS22 the
mean absolute deviation.) Then the release of the mean is simulated many times. The simulated
records are normal, with the released mean and the released variance. The simulation uses no record,
so it costs no privacy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import ndtr

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, GaussianShape, GaussianSpread
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _ClippingEstimator, noisy_clipped_mean
from dpbench.estimators.gaussian import Positive
from dpbench.privacy import Budget, Ledger
from dpbench.registry import Probability, validated
from dpbench.samples import Sample
from dpbench.samples.binned import MAX_WHOLE_RECORDS

__all__ = ["NoisyvarInterval", "ParametricBootstrapInterval", "clipped_normal_moments"]

End = Annotated[float, Field(ge=-1e150, le=1e150)]  # squares do not overflow
Draws = Annotated[int, Field(ge=1, le=10**5)]
MAX_SIMULATED = 10**6  # simulated numbers held in memory at once
MAX_DEVIATIONS = 40.0  # in standard deviations; beyond, Gaussian probabilities underflow


@validated
class _SimulatedInterval(_ClippingEstimator):
    """Base class of intervals from simulated errors of a clipped mean.

    The release of the mean is simulated B times, and each simulation has an error. Let v be the
    released mean, and k = (B + 1) beta/2. The lower end of the interval is v minus the k-th largest
    simulated error. The upper end is v minus the k-th smallest simulated error. Suppose that the
    real error has the distribution of the simulated errors. Then all ranks of the real error among
    the B + 1 errors are equally likely. So the interval misses the mean with probability beta if k
    is a whole number. Otherwise k is rounded down, but not below 1.

    Parameters
    ----------
    lower, upper : float
        Public bounds, lower < upper, to which records are clipped, in the unit of the data.
    sigma : float > 0, optional
        Known standard deviation of a record; the mean then has the whole budget. By default the
        standard deviation is estimated.
    beta : float in (0, 1)
        Nominal probability that the interval misses the mean of Gaussian records. The true
        probability may be larger: the docstrings of the derived classes have measured rates.
    share : float in (0, 1)
        Share of the budget for the mean if the standard deviation is estimated; DFMBG20 found 0.8
        best.
    draws : int in [1, 1e5]
        Number B of simulated releases.
    """

    lower: End
    upper: End
    sigma: Positive | None = None
    beta: Probability = 0.1
    share: Probability = 0.8
    draws: Draws = 999

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        known = GaussianShape() if self.sigma is None else GaussianSpread(self.sigma)
        return [*super().assumptions(n, d), known]

    @abstractmethod
    def _moments(self, mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
        """Return the bias and the standard deviation of simulated clipped records, each (trials,).

        Before the clip, simulated records are normal with mean `mean` and standard deviation `sd`.
        """

    @property
    def most_at_once(self) -> int | None:
        return MAX_WHOLE_RECORDS if self.sigma is None else None  # because of the pairs of records

    def least_records(self, d: int, budget: Budget) -> int:
        return 1 if self.sigma is not None else 2  # a pair

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        scale = np.full(sample.trials, self.sigma or 0.0)
        if self.sigma is None:
            ledger, spread = ledger.split(self.share, 1 - self.share)
            scale = self._scale(sample, spread)
        centre, half = self.lower / 2 + self.upper / 2, self.upper / 2 - self.lower / 2
        release = noisy_clipped_mean(sample, centre, half, ledger)
        bias, sd = self._moments(release.value, scale)
        step, rank = 2 * half / sample.n, max(1, int((self.draws + 1) * self.beta / 2 + 1e-9)) - 1
        low, high = np.empty((2, sample.trials))
        pieces = 1 + sample.trials * self.draws // MAX_SIMULATED
        for rows in np.array_split(np.arange(sample.trials), pieces):
            shape = len(rows), self.draws
            errors = ledger.budget.noise(ledger.rng, shape, step, step, single=True)
            errors *= ledger.noise_factor
            errors += (sd[rows] / np.sqrt(sample.n))[:, None] * ledger.rng.standard_normal(shape)
            errors.partition([rank, self.draws - 1 - rank], axis=1)
            low[rows], high[rows] = errors[:, -1 - rank], errors[:, rank]
        middle = release.value - bias
        return replace(release, interval=(middle - low, middle - high), miss=self.beta)

    def _scale(self, sample: Sample, ledger: Ledger) -> Floats:
        """Release the standard deviation of the records, shape (trials,).

        The released standard deviation is 0 where the noisy variance is negative.
        """
        if sample.n < 2:
            raise ValueError("one record makes no pair")
        squares = sample.half_squared_differences(ledger.rng)
        middle = (self.upper / 2 - self.lower / 2) ** 2
        variance = noisy_clipped_mean(squares, middle, middle, ledger).value
        return np.sqrt(np.maximum(variance, 0.0))


@validated
class NoisyvarInterval(_SimulatedInterval):
    """NOISYVAR confidence interval: noisy clipped mean and variance, with simulation (DFMBG20).

    DFMBG20, Algorithms 2 and 3; the docstring of `dpbench.estimators.intervals` has the
    sensitivities. Let s be the released (or known) standard deviation, and n the number of records.
    Simulated errors are N(0, s^2/n) plus the noise of the mean; clipping is not simulated.

    Intervals miss more often than beta where the error of s counts: s is a noisy estimate, and the
    simulation takes it for sigma. In 10,000 simulations of N(0.3, 1) with [a, b] = [-6, 6],
    beta = 0.05 and n = 500, 8.9 per cent of the intervals missed at mu = 1 of Gaussian DP, and 6.9
    per cent at epsilon = 1. With a known sigma the probability is beta if the clip has no bias.
    """

    def _moments(self, mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
        return np.zeros_like(mean), sd


@validated
class ParametricBootstrapInterval(_SimulatedInterval):
    """Parametric bootstrap confidence interval for a noisy clipped mean (FWS22).

    This is FWS22's pivotal interval, algorithm number not checked. The docstring of
    `dpbench.estimators.intervals` has the sensitivities. The whole release is simulated, including
    the clip to [a, b] = [`lower`, `upper`]. The interval is corrected for the clipping bias. This
    bias is computed at the released mean, and may differ from the bias at the true mean. The mean
    of n clipped Gaussians is drawn from a normal distribution with its exact mean and variance.

    At small n epsilon the released mean may lie outside of [a, b], and its correction is wrong. In
    10,000 simulations of N(0.3, 1) with [a, b] = [-6, 6], beta = 0.05 and epsilon = 0.1,
    19 per cent of the intervals missed at n = 10, and 11 per cent at n = 50. Where the clip
    has no bias, `NoisyvarInterval` has the rates of this class. `BergerBoosInterval` has a bound.

    Let simulated records have mean `mean` and standard deviation sd before the clip. Let
    u = (a - mean)/sd and v = (b - mean)/sd, and let phi and Phi be the standard normal density and
    distribution function. In units of sd, a clipped record has the bias

        m = u Phi(u) + v Phi(-v) + phi(u) - phi(v)

    and the variance

        u^2 Phi(u) + v^2 Phi(-v) + Phi(v) - Phi(u) + u phi(u) - v phi(v) - m^2.

    The terms come from the integrals of z phi(z) and z^2 phi(z) between u and v. The records
    clipped to a and to b have the probabilities Phi(u) and Phi(-v).
    """

    def _moments(self, mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
        return clipped_normal_moments(mean, sd, self.lower, self.upper)


def clipped_normal_moments(
    mean: Floats, sd: Floats, lower: float, upper: float
) -> tuple[Floats, Floats]:
    """Return the bias and the standard deviation of clipped normal variables.

    `ParametricBootstrapInterval` has the formulas. `mean` and `sd` are those before the clip to
    [lower, upper]. The bias is the mean after the clip minus the mean before.
    """
    sd = np.maximum(sd, 1e-150)
    near = np.clip(mean, lower - MAX_DEVIATIONS * sd, upper + MAX_DEVIATIONS * sd)
    u, v = (np.clip((end - near) / sd, -MAX_DEVIATIONS, MAX_DEVIATIONS) for end in (lower, upper))
    below, above = ndtr(u), ndtr(-v)
    at_u, at_v = (np.exp(-(end**2) / 2) / np.sqrt(2 * np.pi) for end in (u, v))
    bias = u * below + v * above + at_u - at_v
    square = u**2 * below + v**2 * above + (1 - above - below) + u * at_u - v * at_v
    variance = np.maximum(square - bias**2, 0.0)
    return near - mean + sd * bias, sd * np.sqrt(variance)
