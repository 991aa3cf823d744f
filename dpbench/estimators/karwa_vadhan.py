"""Means and confidence intervals of Gaussians by a private histogram (KV18, Algorithms 1 to 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import chdtri, ndtri

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, GaussianSpread, MeanWithin
from dpbench.estimators.base import Estimate, NeedsRadius, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.gaussian import Positive, gaussian_tail
from dpbench.privacy import ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.histogram import (
    L1,
    L2,
    audit_pairs,
    noise_on_all_bins,
    private_mode_bin,
    stability_threshold,
)
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Deviation, Probability, validated
from dpbench.samples import Bins, Sample
from dpbench.samples.binned import MAX_WHOLE_RECORDS

__all__ = ["KarwaVadhanGaussian", "KarwaVadhanInterval", "KarwaVadhanMean", "PowersOfTwo"]

MAX_BINS = 1e300  # upper limit of radius/t, so that the number of bins stays finite
Sigma = Annotated[float, Field(ge=1e-150, le=1e150)]


def _histogram_mean(
    sample: Sample, radius: float | None, sigma: float | Floats, beta: float, ledger: Ledger
) -> Estimate:
    """Return the estimate of `KarwaVadhanMean` for a known or a released standard deviation.

    `sigma` is a number, or an array (trials,) of deviations that were released before.
    """
    coarse, fine = ledger.split(0.5, 0.5)
    bins, t = _bins(sample.n, radius, sigma, beta)
    centre = private_mode_bin(sample, bins, coarse) + t
    return noisy_clipped_mean(sample, centre, 3 * t, fine)


def _bins(
    n: int, radius: float | None, sigma: float | Floats, beta: float
) -> tuple[Bins, float | Floats]:
    """Return the histogram bins of `KarwaVadhanMean`, and t, half the width of a bin."""
    t = sigma * gaussian_tail(n, beta)
    if radius is not None:
        t = np.maximum(t, radius / MAX_BINS)
    reach = np.inf if radius is None else radius + t
    return Bins(2 * t, -reach, reach, aligned=0.0), t


def _gaussian_assumptions(spread: GaussianSpread, radius: float | None) -> list[Assumption]:
    """Return the assumptions of Gaussian records whose mean may have a bound."""
    return [spread] if radius is None else [spread, MeanWithin(radius, spread)]


@validated
class KarwaVadhanMean(NeedsRadius):
    """Karwa-Vadhan mean: locate a Gaussian by a private histogram, then clip and average (KV18).

    The records are normal with the unknown mean mu and the known standard deviation sigma. The
    constants are those of L15, Theorem 2. Let t = sigma sqrt(2 ln(2n/beta)). With probability
    1 - beta all n records are within t of the mean.

    1. With half of the budget, release the fullest bin [a, b] of a histogram with bins of width 2t.
       The bins cover [-R - t, R + t], and one of them starts at 0. Under (epsilon, delta)
       `noise_on_all_bins` chooses the kind of histogram. With high probability all
       records lie in [a - 2t, b + 2t].
    2. With the other half, clip the records to [a - 2t, b + 2t], average them, and add noise. The
       sensitivity is 6t/n, the length of the interval divided by n.

    Parameters
    ----------
    radius : float >= 0 or None
        Public bound R on abs(mu), in the unit of the data. None, without a bound, is possible under
        (epsilon, delta) only, by a stability-based histogram.
    sigma : float > 0
        Known standard deviation of a record, in the unit of the data.
    beta : float in (0, 1)
        Probability that some record is farther than t from the mean; a smaller value makes the
        clip wider.
    """

    sigma: Deviation
    beta: Probability = 0.1

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return _gaussian_assumptions(GaussianSpread(self.sigma), self.radius)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return _histogram_mean(sample, self.radius, self.sigma, self.beta, ledger)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        bins, _ = _bins(n, self.radius, self.sigma, self.beta)
        return audit_pairs(n, bins, budget.fraction(0.5))

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        # About half of the records are in the fullest bin, and their count has to exceed the noise.
        half = budget.fraction(0.5)
        t = self.sigma * gaussian_tail(n, self.beta)
        reach = np.inf
        if self.radius is not None:
            noise = PureDP(half.epsilon) if isinstance(half, ApproxDP) else half
            share = beta * t / (self.radius + t)
            reach = float(noise.noise_tail(np.asarray(share / 2), L1, L2))
        number = float(_bins(int(n), self.radius, self.sigma, self.beta)[0].count)
        if isinstance(half, ApproxDP) and not noise_on_all_bins(half, number, 2 * reach):
            reach = stability_threshold(half) + L1 / half.epsilon * float(np.log(1 / (2 * beta)))
        return {"privacy": 6 * t * half.noise_quantile(beta) / alpha, "range": 2 * reach}


@dataclass(frozen=True)
class PowersOfTwo(Bins):
    """Histogram bins [2^j, 2^(j+1)) of non-negative numbers.

    The attributes `lower` and `upper` of `Bins` are base-2 logarithms here, and `width` is 1.
    """

    def index(self, values: Floats) -> Floats:
        return super().index(np.log2(np.maximum(values, np.finfo(float).tiny)))


@validated
class KarwaVadhanGaussian(NeedsRadius):
    """Karwa-Vadhan mean and standard deviation of a Gaussian, with unknown sigma (KV18).

    Theorem numbers of KV18 were not checked. sigma is the standard deviation of a record. The n
    records form m = floor(n/2) disjoint pairs (x_i, x_j). The half squared differences
    y = (x_i - x_j)^2/2 have the mean sigma^2, whatever the mean of the records is.

    1. With 1/4 of the budget, release the fullest bin [2^j, 2^(j+1)) of a histogram of y. The
       density of ln y is largest at y = sigma^2, so sigma^2 < 2^(j+2) with high probability.
    2. With 1/4, release the variance: the mean of y clipped to [0, w], with noise for the
       sensitivity w/m. Here w = 2^(j+2) 2 ln(2m/beta). Each y exceeds w with probability at most
       beta/m. The released variance is then moved into [2^(j-2), 2^(j+3)].
    3. With 1/2, release the mean by `KarwaVadhanMean`, with the root of that variance as sigma.

    If sigma is given, steps 1 and 2 are left out and the mean has the whole budget.

    Parameters
    ----------
    sigma : float > 0, optional
        Known standard deviation of a record, in the unit of the data; by default it is estimated.
    sigma_low, sigma_high : float
        Public bounds on the standard deviation if it is estimated, within [1e-150, 1e150]. The
        error grows only with the logarithm of their ratio.
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

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        known = GaussianSpread(self.sigma_high, "sigma_high")
        if self.sigma is not None:
            known = GaussianSpread(self.sigma)
        return _gaussian_assumptions(known, self.radius)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if self.sigma is not None:
            mean = _histogram_mean(sample, self.radius, self.sigma, self.beta, ledger)
            return replace(mean, scale=np.full(sample.trials, self.sigma))
        spread, ledger = ledger.split(0.5, 0.5)
        scale = np.sqrt(self._variance(sample, spread)[0])
        failed = np.isnan(scale)
        sigma = np.where(failed, 1.0, scale)
        mean = _histogram_mean(sample, self.radius, sigma, self.beta, ledger)
        value, before = (np.where(failed, np.nan, v) for v in (mean.value, mean.before_noise))
        return Estimate(value, before, scale=scale)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # If sigma is private, half of the pairs differ by 1 and the others by 2. Then sigma is
        # about 1, and two bins of half squared differences are equally full.
        bins, _ = _bins(n, self.radius, self.sigma or 1.0, self._clip_probability)
        alternating = np.where(np.arange(n) % 2, np.where(np.arange(n) % 4 == 1, 1.0, 2.0), 0.0)
        pairs = audit_pairs(n, bins, budget.fraction(0.5 if self.sigma else 0.25))
        return [*pairs, Pair.replacing("across_a_power_of_two", alternating, 1, 2.0)]

    @property
    def most_at_once(self) -> int:
        return MAX_WHOLE_RECORDS  # because of the pairs of records

    @property
    def _clip_probability(self) -> float:
        """Probability that a step clips some record, which sets the widths of the clips."""
        return self.beta

    def _variance(self, sample: Sample, ledger: Ledger) -> tuple[Floats, Floats]:
        """Return the private variance of the records and the sensitivity of its noise, (trials,).

        The variance is NaN if no bin of the histogram is released.
        """
        coarse, fine = ledger.split(0.5, 0.5)
        squares = sample.half_squared_differences(ledger.rng)
        low, high = 2 * np.log2(self.sigma_low), 2 * np.log2(self.sigma_high)
        bins = PowersOfTwo(1.0, np.floor(low) - 1, np.ceil(high) + 1)
        power = private_mode_bin(squares, bins, coarse)
        unit = np.exp2(np.where(np.isnan(power), 0.0, power))
        half_width = 4 * unit * np.log(2 * squares.n / self._clip_probability)
        variance = noisy_clipped_mean(squares, half_width, half_width, fine).value
        released = np.where(np.isnan(power), np.nan, np.clip(variance, unit / 4, 8 * unit))
        return released, 2 * half_width / squares.n


@validated
class KarwaVadhanInterval(KarwaVadhanGaussian):
    """Karwa-Vadhan confidence interval for the mean of a Gaussian, not asymptotic in n (KV18).

    Theorem numbers of KV18 were not checked. The interval is c +- (z S/sqrt(n) + q), where c is the
    `KarwaVadhanMean` computed with S, an upper bound on the standard deviation sigma. z is a
    quantile of the standard normal distribution, and q is a quantile of the absolute noise of c.
    The interval misses the mean with probability at most beta, by a union bound:

    - Known sigma: S = sigma. Some record is clipped with probability at most beta/4. The noise
      exceeds q with probability beta/4. The sampling error exceeds z sigma/sqrt(n) with
      probability beta/2.
    - Unknown sigma: half of the budget goes to S. Let v be the private variance of
      `KarwaVadhanGaussian`, and q_v the 1 - beta/4 quantile of its absolute noise. Before clipping
      and noise, v is the mean of m = floor(n/2) half squared differences. This mean is distributed
      as sigma^2 chi2_m/m. So

          S^2 = (v + q_v) m/(the beta/8 quantile of chi2_m)

      is below sigma^2 with probability at most 3 beta/8. The causes are a small chi2_m, a low
      noise and a clipped difference, each with probability beta/8. For the mean, a clipped
      record adds beta/8. Noise beyond q and a large sampling error add beta/4 each.

    The union bound leaves out the probability that a histogram locates a wrong bin. The errors are
    rarely large together, so intervals usually miss the mean with a probability below beta. (KV18
    use the variance of all records, clipped around the private mean, and Student's t for z. Here
    the variance comes from differences of records, so its clip does not depend on the private
    mean.)

    The parameters radius, sigma, sigma_low and sigma_high are those of `KarwaVadhanGaussian`.

    Parameters
    ----------
    beta : float in (0, 1)
        Largest probability that the interval misses the mean; a smaller value makes it wider.
    """

    @property
    def _clip_probability(self) -> float:
        return self.beta / 4 if self.sigma is not None else self.beta / 8

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if self.sigma is None:
            spread, ledger = ledger.split(0.5, 0.5)
            bound, sampling_miss = self._sigma_bound(sample, spread), self.beta / 4
        else:
            bound, sampling_miss = np.full(sample.trials, self.sigma), self.beta / 2
        sigma = np.where(np.isnan(bound), 1.0, bound)
        mean = _histogram_mean(sample, self.radius, sigma, self._clip_probability, ledger)
        _, t = _bins(sample.n, self.radius, sigma, self._clip_probability)
        noise = 6 * t / sample.n * ledger.budget.fraction(0.5).noise_quantile(self.beta / 4)
        half_width = -ndtri(sampling_miss / 2) * sigma / np.sqrt(sample.n) + noise
        value, before = (
            np.where(np.isnan(bound), np.nan, v) for v in (mean.value, mean.before_noise)
        )
        return Estimate(value, before, (value - half_width, value + half_width), self.beta)

    def _sigma_bound(self, sample: Sample, ledger: Ledger) -> Floats:
        """Return a private upper bound on the standard deviation of the records, (trials,).

        The bound is NaN if no bin of the histogram is released.
        """
        variance, step = self._variance(sample, ledger)
        pairs = sample.n // 2
        noise = step * ledger.budget.fraction(0.5).noise_quantile(self.beta / 4)
        return np.asarray(np.sqrt((variance + noise) * pairs / chdtri(pairs, 1 - self.beta / 8)))
