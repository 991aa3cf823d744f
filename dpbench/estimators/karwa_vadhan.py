"""Private histogram, then a clipped mean: KV18, Algorithms 1 to 4, with confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import chdtri, ndtri

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, NeedsRadius, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.gaussian import Positive, gaussian_tail
from dpbench.privacy import ApproxDP, Budget, Ledger
from dpbench.privacy.histogram import L1, L2, audit_pairs, private_mode_bin, stability_threshold
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Probability, validated
from dpbench.samples import Bins, Sample

__all__ = ["KarwaVadhanGaussian", "KarwaVadhanInterval", "KarwaVadhanMean", "PowersOfTwo"]

MOST_BINS = 1e300  # radius/t at most, so that the number of bins stays finite
Sigma = Annotated[float, Field(ge=1e-150, le=1e150)]


def _histogram_mean(
    sample: Sample, radius: float | None, sigma: float | Floats, beta: float, ledger: Ledger
) -> Estimate:
    """Estimate as `KarwaVadhanMean`; sigma may be (trials,), one released value for every trial."""
    coarse, fine = ledger.split(0.5, 0.5)
    bins, t = _bins(sample.n, radius, sigma, beta)
    centre = private_mode_bin(sample, bins, coarse) + t
    return noisy_clipped_mean(sample, centre, 3 * t, fine)


def _bins(
    n: int, radius: float | None, sigma: float | Floats, beta: float
) -> tuple[Bins, float | Floats]:
    """Return the bins, and half of their width, t."""
    t = sigma * gaussian_tail(n, beta)
    if radius is not None:
        t = np.maximum(t, radius / MOST_BINS)
    reach = np.inf if radius is None else radius + t
    return Bins(2 * t, -reach, reach, aligned=0.0), t


@validated
class KarwaVadhanMean(NeedsRadius):
    """Karwa-Vadhan mean: locate a Gaussian by a private histogram, then clip and average (KV18).

    L15, Theorem 2. Let t = sigma sqrt(2 ln(2n/beta)): with probability 1 - beta all n records are
    within t of the mean.

    1. With half of the budget, release the fullest bin [a, b] of a histogram with bins of width 2t.
       The bins cover +-(R + t), and one of them starts at 0. With high probability all records lie
       in [a - 2t, b + 2t].
    2. With the other half, clip the records to that interval, average them, and add noise of
       sensitivity 6t/n.

    Parameters
    ----------
    radius : float >= 0 or None
        Public bound R on abs(mu), in the unit of the data. None, without a bound, is possible under
        (epsilon, delta) only, by a stability-based histogram.
    sigma : float > 0
        Known standard deviation of a record, in the unit of the data.
    beta : float in (0, 1)
        Probability that some record is clipped; a smaller value makes the clip wider.
    """

    sigma: Positive = 1.0
    beta: Probability = 0.1

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return _histogram_mean(sample, self.radius, self.sigma, self.beta, ledger)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        bins, _ = _bins(n, self.radius, self.sigma, self.beta)
        return audit_pairs(n, bins, budget.fraction(0.5))

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        # About half of the records are in the fullest bin: this count has to exceed the noise.
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
    """Bins [2^j, 2^(j+1)) of non-negative numbers; bounds are base-2 logarithms, the width is 1."""

    def index(self, values: Floats) -> Floats:
        return super().index(np.log2(np.maximum(values, np.finfo(float).tiny)))


@validated
class KarwaVadhanGaussian(NeedsRadius):
    """Karwa-Vadhan mean and standard deviation of a Gaussian, with unknown sigma (KV18).

    Half squared differences y = (x_i - x_j)^2/2 of m = floor(n/2) disjoint pairs of records have
    mean sigma^2, whatever the mean of the records is.

    1. With 1/4 of the budget, release the fullest bin [2^j, 2^(j+1)) of a histogram of y. The
       density of ln y peaks at sigma^2, so sigma^2 < 2^(j+2) with high probability.
    2. With 1/4, release the variance: the mean of y clipped to [0, w], w = 2^(j+2) 2 ln(2m/beta),
       with noise of sensitivity w/m. Each y exceeds w with probability at most beta/m. The result
       is moved into [2^(j-2), 2^(j+3)].
    3. With 1/2, release the mean by `KarwaVadhanMean` with that sigma.

    If sigma is given, steps 1 and 2 are left out and the mean has the whole budget.

    Parameters
    ----------
    sigma : float > 0, optional
        Known standard deviation of a record, in the unit of the data; by default it is estimated.
    sigma_low, sigma_high : float
        Public bounds on the standard deviation if it is estimated, within [1e-150, 1e150]. They
        cost accuracy only by their logarithm.
    beta : float in (0, 1)
        Probability that a step clips some record; a smaller value makes the clips wider.
    """

    stream_name: ClassVar[str] = "LearnedGaussian"

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
        # If sigma is private, half of the pairs differ by 1 and the others by 2, so that it is
        # about 1 and the two bins of half squared differences are equally full.
        bins, _ = _bins(n, self.radius, self.sigma or 1.0, self._clipped)
        apart = np.where(np.arange(n) % 2, np.where(np.arange(n) % 4 == 1, 1.0, 2.0), 0.0)
        found = audit_pairs(n, bins, budget.fraction(0.5 if self.sigma else 0.25))
        return [*found, Pair.replacing("across_a_power_of_two", apart, 1, 2.0)]

    @property
    def _clipped(self) -> float:
        """Probability that a step clips some record."""
        return self.beta

    def _variance(self, sample: Sample, ledger: Ledger) -> tuple[Floats, Floats]:
        """Return the private variance and its sensitivity, (trials,); NaN if no bin is released."""
        coarse, fine = ledger.split(0.5, 0.5)
        squares = sample.half_squared_differences(ledger.rng)
        low, high = 2 * np.log2(self.sigma_low), 2 * np.log2(self.sigma_high)
        bins = PowersOfTwo(1.0, np.floor(low) - 1, np.ceil(high) + 1)
        power = private_mode_bin(squares, bins, coarse)
        unit = np.exp2(np.where(np.isnan(power), 0.0, power))
        half_width = 4 * unit * np.log(2 * squares.n / self._clipped)
        variance = noisy_clipped_mean(squares, half_width, half_width, fine).value
        found = np.where(np.isnan(power), np.nan, np.clip(variance, unit / 4, 8 * unit))
        return found, 2 * half_width / squares.n


@validated
class KarwaVadhanInterval(KarwaVadhanGaussian):
    """Confidence interval for the mean of a Gaussian, valid at every finite n (KV18).

    The interval is the `KarwaVadhanMean`, computed with a bound S on the standard deviation, plus
    and minus z S/sqrt(n) + (a quantile of the noise), z a normal quantile. It misses the mean with
    probability at most beta, by a union bound:

    - Known sigma: S = sigma. A record is clipped with probability beta/4, the noise exceeds its
      quantile with beta/4, and the sampling error exceeds z sigma/sqrt(n) with beta/2.
    - Unknown sigma: half of the budget goes to S. Let v be the private variance of
      `KarwaVadhanGaussian`. Unclipped, the mean of m half squared differences is sigma^2 chi2_m/m.
       So
          S^2 = (v + a quantile of the noise) m/(the beta/8 quantile of chi2_m)

      is above sigma^2 except with probability beta/8 each for that quantile, the noise and a clip.
      The mean adds beta/8 for a clip, and beta/4 each for noise and sampling error.

    This holds for every n at which the histograms locate the data. Because the errors are rarely
    large together, intervals miss less often than beta. (KV18 instead use the variance of all
    records, clipped around the private mean, plus a quantile of its noise, and Student's t for z.
    With pairs no clip depends on that mean, and the noise follows the scale of the differences.)

    The other parameters are those of `KarwaVadhanGaussian`.

    Parameters
    ----------
    beta : float in (0, 1)
        Probability that the interval misses the mean, at most.
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
        """Return the bound S on the standard deviation, (trials,); NaN if no bin is released."""
        variance, step = self._variance(sample, ledger)
        pairs = sample.n // 2
        noise = step * ledger.budget.fraction(0.5).noise_quantile(self.beta / 4)
        return np.asarray(np.sqrt((variance + noise) * pairs / chdtri(pairs, 1 - self.beta / 8)))
