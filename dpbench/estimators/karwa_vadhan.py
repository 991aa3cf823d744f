"""A private histogram finds a Gaussian: KV18, Algorithms 1 to 4; intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import chdtri, ndtri

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, NeedsRadius, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.gaussian import Positive, gaussian_tail
from dpbench.privacy import ApproxDP, Budget, Ledger
from dpbench.privacy.histogram import L1, L2, audit_pairs, fullest_bin, stability_threshold
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Probability, validated
from dpbench.samples import Bins, Sample

__all__ = ["KarwaVadhanInterval", "KarwaVadhanMean", "LearnedGaussian", "PowersOfTwo"]

MOST_BINS = 1e300
Sigma = Annotated[float, Field(ge=1e-150, le=1e150)]


def _histogram_mean(
    sample: Sample, radius: float | None, sigma: float | Floats, beta: float, ledger: Ledger
) -> Estimate:
    """`KarwaVadhanMean`; sigma may have been released for every trial."""
    coarse, fine = ledger.split(0.5, 0.5)
    bins, t = _bins(sample.n, radius, sigma, beta)
    centre = fullest_bin(sample, bins, coarse) + t
    return noisy_clipped_mean(sample, centre, 3 * t, fine)


def _bins(
    n: int, radius: float | None, sigma: float | Floats, beta: float
) -> tuple[Bins, float | Floats]:
    """The bins, and half of their width."""
    t = sigma * gaussian_tail(n, beta)
    if radius is not None:
        t = np.maximum(t, radius / MOST_BINS)
    reach = np.inf if radius is None else radius + t
    return Bins(2 * t, -reach, reach, aligned=0.0), t


@validated
class KarwaVadhanMean(NeedsRadius):
    """The fullest bin of a private histogram, then a clipped mean around it.

    L15, Theorem 2. Half of the budget: a histogram over bins of width 2t that cover +-(R + t), one
    of which starts at 0, with t as in `dpbench.estimators.gaussian`. If [a, b] is the fullest, all
    records lie in [a - 2t, b + 2t] with high probability. The other half: clip to that, and add
    noise of sensitivity 6t/n.

    Parameters
    ----------
    sigma : float > 0
        Standard deviation of a record.
    beta : float in (0, 1)
        Probability that a record is clipped.
    """

    sigma: Positive = 1.0
    beta: Probability = 0.1

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return _histogram_mean(sample, self.radius, self.sigma, self.beta, ledger)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        bins, _ = _bins(n, self.radius, self.sigma, self.beta)
        return audit_pairs(n, bins, budget.fraction(0.5))

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        # The fullest bin holds about half of the records, and must beat the noise.
        half = budget.fraction(0.5)
        t = self.sigma * gaussian_tail(n, self.beta)
        if isinstance(half, ApproxDP):
            reach = stability_threshold(half) + L1 / half.epsilon * float(np.log(1 / (2 * beta)))
        else:
            assert self.radius is not None
            share = beta * t / (self.radius + t)
            reach = float(half.noise_tail(np.asarray(share / 2), L1, L2))
        return {"privacy": 6 * t * half.noise_quantile(beta) / alpha, "range": 2 * reach}


@dataclass(frozen=True)
class PowersOfTwo(Bins):
    """Bins [2^j, 2^(j+1)) of non-negative numbers; bounds are logarithms, the width is 1."""

    def index(self, values: Floats) -> Floats:
        return super().index(np.log2(np.maximum(values, np.finfo(float).tiny)))


@validated
class LearnedGaussian(NeedsRadius):
    """A Gaussian: a private mean, and a standard deviation that is known or private.

    Half squared differences y of disjoint pairs have mean sigma^2, whatever the mean is. A quarter
    of the budget: a histogram of y over powers of two, [2^j, 2^(j+1)) the fullest; the density of
    ln y peaks at sigma^2, so sigma^2 < 2^(j+2) with high probability. A quarter: the mean of the m
    values y clipped to [0, 2^(j+2) 2 ln(2m/beta)], which each exceeds with probability beta/m,
    with noise of that width over m; it is kept within [2^(j-2), 2^(j+3)]. Half: `KarwaVadhanMean`
    with that sigma. A known sigma leaves all of the budget to the mean.

    Parameters
    ----------
    sigma : float > 0, optional
        The standard deviation where it is known.
    sigma_low, sigma_high : float
        Bounds on it where it is not, within [1e-150, 1e150].
    beta : float in (0, 1)
        Probability that a record is clipped.
    """

    sigma: Positive | None = None
    sigma_low: Sigma = 1e-150
    sigma_high: Sigma = 1e150
    beta: Probability = 0.1

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.sigma_low > self.sigma_high:
            raise ValueError(f"sigma_low is {self.sigma_low}, above sigma_high {self.sigma_high}")
        return self

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if self.sigma is not None:
            found = _histogram_mean(sample, self.radius, self.sigma, self.beta, ledger)
            return replace(found, scale=np.full(sample.trials, self.sigma))
        spread, ledger = ledger.split(0.5, 0.5)
        scale = np.sqrt(self._variance(sample, spread)[0])
        failed = np.isnan(scale)
        sigma = np.where(failed, 1.0, scale)
        found = _histogram_mean(sample, self.radius, sigma, self.beta, ledger)
        value, before = (np.where(failed, np.nan, v) for v in (found.value, found.before_noise))
        return Estimate(value, before, scale=scale)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # With a private sigma: at 1, where half of the pairs differ by 1 and the others by 2.
        bins, _ = _bins(n, self.radius, self.sigma or 1.0, self._clipped)
        apart = np.where(np.arange(n) % 2, np.where(np.arange(n) % 4 == 1, 1.0, 2.0), 0.0)
        found = audit_pairs(n, bins, budget.fraction(0.5 if self.sigma else 0.25))
        return [*found, Pair.replacing("across_a_power_of_two", apart, 1, 2.0)]

    @property
    def _clipped(self) -> float:
        """The probability that a step clips a record."""
        return self.beta

    def _variance(self, sample: Sample, ledger: Ledger) -> tuple[Floats, Floats]:
        """The private variance, NaN where the histogram releases nothing; its sensitivity."""
        coarse, fine = ledger.split(0.5, 0.5)
        squares = sample.half_squared_differences(ledger.rng)
        low, high = 2 * np.log2(self.sigma_low), 2 * np.log2(self.sigma_high)
        bins = PowersOfTwo(1.0, np.floor(low) - 1, np.ceil(high) + 1)
        power = fullest_bin(squares, bins, coarse)
        unit = np.exp2(np.where(np.isnan(power), 0.0, power))
        half_width = 4 * unit * np.log(2 * squares.n / self._clipped)
        variance = noisy_clipped_mean(squares, half_width, half_width, fine).value
        found = np.where(np.isnan(power), np.nan, np.clip(variance, unit / 4, 8 * unit))
        return found, 2 * half_width / squares.n


@validated
class KarwaVadhanInterval(LearnedGaussian):
    """An interval that holds a Gaussian's mean with probability 1 - beta, at finite n (KV18).

    `KarwaVadhanMean` with a bound S on the standard deviation, plus and minus

        z S/sqrt(n) + a quantile of the noise.

    A known sigma is S, and misses are: a clipped record with probability beta/4, noise above its
    quantile beta/4, a sampling error above z sigma/sqrt(n) beta/2. An unknown one is bounded at
    half of the budget: for v the private variance of `LearnedGaussian`, without clipping the mean
    of m half squared differences, sigma^2 chi2_m/m, plus noise,

        S^2 = (v + a quantile of the noise) m/(the beta/8 quantile of chi2_m)

    is above sigma^2 but with probability beta/8 for that quantile, beta/8 for the noise and beta/8
    for a clip. The mean then has beta/8 for a clip, and beta/4 each for noise and sampling error:
    beta in all, for every n at which the histograms find the data. It is a union bound over errors
    that are rarely large together, and intervals miss far less often. (KV18 has the variance of all
    records, clipped around the private mean, plus a quantile of its noise, and Student's t for z.
    Of pairs no clip rests on that mean, and the noise is for their own scale.)

    Other parameters are those of `LearnedGaussian`.

    Parameters
    ----------
    beta : float in (0, 1)
        Probability that the interval misses.
    """

    @property
    def _clipped(self) -> float:
        return self.beta / 4 if self.sigma is not None else self.beta / 8

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if self.sigma is None:
            spread, ledger = ledger.split(0.5, 0.5)
            found, lost = self._above(sample, spread), self.beta / 4
        else:
            found, lost = np.full(sample.trials, self.sigma), self.beta / 2
        sigma = np.where(np.isnan(found), 1.0, found)
        mean = _histogram_mean(sample, self.radius, sigma, self._clipped, ledger)
        _, t = _bins(sample.n, self.radius, sigma, self._clipped)
        noise = 6 * t / sample.n * ledger.budget.fraction(0.5).noise_quantile(self.beta / 4)
        half = -ndtri(lost / 2) * sigma / np.sqrt(sample.n) + noise
        value, before = (
            np.where(np.isnan(found), np.nan, v) for v in (mean.value, mean.before_noise)
        )
        return Estimate(value, before, (value - half, value + half), self.beta)

    def _above(self, sample: Sample, ledger: Ledger) -> Floats:
        """S; NaN where the histogram releases nothing."""
        variance, step = self._variance(sample, ledger)
        pairs = sample.n // 2
        noise = step * ledger.budget.fraction(0.5).noise_quantile(self.beta / 4)
        return np.asarray(np.sqrt((variance + noise) * pairs / chdtri(pairs, 1 - self.beta / 8)))
