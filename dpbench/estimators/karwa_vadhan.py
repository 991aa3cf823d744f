"""Means and confidence intervals of Gaussians by a private histogram (KV18, Algorithms 1 to 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import chdtri, ndtri

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, GaussianSpread, MeanWithin
from dpbench.estimators.base import Estimate, NeedsRadius, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.gaussian import Positive, gaussian_tail
from dpbench.estimators.variance_bins import FULLEST, PowersOfTwo, spare_powers
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.histogram import (
    audit_pairs,
    failure_probability,
    noise_on_all_bins,
    private_mode_bin,
    smallest_passing,
    wrong_bin_probability,
)
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Deviation, Probability, validated
from dpbench.samples import Bins, Sample
from dpbench.samples.binned import MAX_WHOLE_RECORDS

__all__ = ["KarwaVadhanGaussian", "KarwaVadhanInterval", "KarwaVadhanMean", "PowersOfTwo"]

MAX_BINS = 1e300  # upper limit of radius/t, so that the number of bins stays finite
BELOW = 8  # powers of two below sigma_low^2 that the histogram of the variance covers
Sigma = Annotated[float, Field(ge=1e-150, le=1e150)]


def _histogram_mean(
    sample: Sample,
    radius: float | None,
    sigma: float | Floats,
    beta: float,
    ledger: Ledger,
    *,
    miss: float,
    share: float = 1 / 2,
) -> Estimate:
    """Return the estimate of `KarwaVadhanMean` for a known or a released standard deviation.

    `sigma` is a number, or an array (trials,) of deviations that were released before. A bin with
    records holds at least the `share` of them. Where an empty bin may be released with a
    probability above `miss`, the estimate is NaN.
    """
    coarse, fine = ledger.split(0.5, 0.5)
    bins, t = _bins(sample.n, radius, sigma, beta)
    held = np.ceil(share * sample.n)
    centre = private_mode_bin(sample, bins, coarse, held=held, miss=miss) + t
    return noisy_clipped_mean(sample, centre, 3 * t, fine)


def _empty_bin_probability(budget: Budget, number: Floats, n: int, miss: float) -> Floats:
    """Return a bound on the probability that `_histogram_mean` picks an empty bin, (trials,).

    All records are in two bins, of which the fuller one holds ceil(n/2). A stability-based
    histogram picks no empty bin.
    """
    held = np.ceil(n / 2)
    on_all = noise_on_all_bins(budget, number, held, miss)
    return np.where(on_all, wrong_bin_probability(budget, number - 1, held), 0.0)


def _bins(
    n: int, radius: float | None, sigma: float | Floats, beta: float
) -> tuple[Bins, float | Floats]:
    """Return the histogram bins of `KarwaVadhanMean`, and t, half the width of a bin."""
    t = sigma * gaussian_tail(n, beta)
    if radius is not None:
        t = np.maximum(t, radius / MAX_BINS)
    reach = np.inf if radius is None else radius + t
    return Bins(2 * t, -reach, reach, aligned=0.0), t


def _working_records(
    radius: float | None, sigma: float, beta: float, budget: Budget, miss: float
) -> int:
    """Return the smallest n at which the histogram of a mean fails with at most `miss`."""

    def fails(n: int) -> bool:
        number = _bins(n, radius, sigma, beta)[0].count
        return bool(failure_probability(budget.fraction(0.5), number, np.ceil(n / 2)) > miss)

    return smallest_passing(fails)


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
       `noise_on_all_bins` chooses the kind of histogram. If all n records are within t of the
       mean, they are in at most two adjacent bins, and the fuller one holds n/2 of them. If one of
       the two is released, all records lie in [a - 2t, b + 2t].
    2. With the other half, clip the records to [a - 2t, b + 2t], average them, and add noise. The
       sensitivity is 6t/n, the length of the interval divided by n.

    An empty bin would give a value that is wrong by up to 2R. n, the number of bins and the budget
    are public, and `wrong_bin_probability` bounds the probability of an empty bin by them. If the
    bound exceeds beta, the estimator declares failure (NaN). Without a radius no empty bin can be
    released, at any n. Then too few records give NaN with a high probability, never a wrong bin.

    Parameters
    ----------
    radius : float >= 0 or None
        Public bound R on abs(mu), in the unit of the data. None, without a bound, is possible under
        (epsilon, delta) only, by a stability-based histogram.
    sigma : float > 0
        Known standard deviation of a record, in the unit of the data.
    beta : float in (0, 1)
        Probability that some record is farther than t from the mean; a smaller value makes the
        clip wider. Also the largest acceptable probability of an empty bin.
    """

    sigma: Deviation
    beta: Probability = 0.1

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return _gaussian_assumptions(GaussianSpread(self.sigma), self.radius)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        beta = self.beta
        return _histogram_mean(sample, self.radius, self.sigma, beta, ledger, miss=beta)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        bins, _ = _bins(n, self.radius, self.sigma, self.beta)
        return audit_pairs(n, bins, budget.fraction(0.5))

    def working_records(self, d: int, budget: Budget) -> int:
        return _working_records(self.radius, self.sigma, self.beta, budget, self.beta)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        half = budget.fraction(0.5)
        t = self.sigma * gaussian_tail(n, self.beta)
        located = _working_records(self.radius, self.sigma, self.beta, budget, beta)
        return {"privacy": 6 * t * half.noise_quantile(beta) / alpha, "range": float(located)}


@validated
class KarwaVadhanGaussian(NeedsRadius):
    """Karwa-Vadhan mean and standard deviation of a Gaussian, with unknown sigma (KV18).

    Theorem numbers of KV18 were not checked. sigma is the standard deviation of a record. The n
    records form m = floor(n/2) disjoint pairs (x_i, x_j). The half squared differences
    y = (x_i - x_j)^2/2 have the mean sigma^2, whatever the mean of the records is.

    1. With 1/4 of the budget, release the fullest bin [2^j, 2^(j+1)) of a histogram of y. The
       density of ln y is largest at y = sigma^2, so 2^(j-2) <= sigma^2 <= 2^(j+2+s) with high
       probability. Here s >= 0 is the smallest whole number for which `wrong_power_probability`
       bounds the probability of any other j by beta. It is 0 if there are many records.
    2. With 1/4, release the variance: the mean of y clipped to [0, w], with noise for the
       sensitivity w/m. Here w = 2^(j+2+s) 2 ln(2m/beta). Each y exceeds w with probability at most
       beta/m. The released variance is then moved into [2^(j-2), 2^(j+3+s)].
    3. With 1/2, release the mean by `KarwaVadhanMean`, with the root of that variance as sigma.
       The variance may be somewhat below sigma^2. So the records may be in three bins, and the
       fullest holds n/3 of them.

    If sigma is given, steps 1 and 2 are left out and the mean has the whole budget. The estimator
    declares failure (NaN) if no s up to 8 is enough, if the lowest bin of step 1 is released, or if
    step 3 fails. Records may be in the lowest bin because more than half of all pairs are equal.
    Without a radius step 3 picks no empty bin at any n, but step 1 needs the same n.

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
            mean = _histogram_mean(
                sample, self.radius, self.sigma, self.beta, ledger, miss=self.beta
            )
            return replace(mean, scale=np.full(sample.trials, self.sigma))
        spread, ledger = ledger.split(0.5, 0.5)
        scale = np.sqrt(self._variance(sample, spread)[0])
        failed = np.isnan(scale)
        sigma = np.where(failed, 1.0, scale)
        mean = _histogram_mean(
            sample, self.radius, sigma, self.beta, ledger, miss=self.beta, share=1 / 3
        )
        value, before = (np.where(failed, np.nan, v) for v in (mean.value, mean.before_noise))
        return Estimate(value, before, scale=scale)

    def least_records(self, d: int, budget: Budget) -> int:
        return 1 if self.sigma is not None else 2  # a pair

    @property
    def _allowed(self) -> float:
        """Largest acceptable probability that one histogram releases a wrong bin."""
        return self.beta

    def working_records(self, d: int, budget: Budget) -> int:
        sigma, clipped, miss = self.sigma or self.sigma_high, self._clip_probability, self._allowed
        if self.sigma is not None:
            return _working_records(self.radius, sigma, clipped, budget, miss)
        number, quarter = float(self._powers.count), budget.fraction(0.25)

        def fails(n: int) -> bool:
            pairs = n // 2
            lost = failure_probability(quarter, number, FULLEST * pairs) > miss
            return bool(lost) or spare_powers(quarter, pairs, number, miss)[1] > miss

        # The mean needs more records, the smaller the released sigma is.
        located = _working_records(self.radius, sigma, clipped, budget.fraction(0.5), miss)
        return max(located, smallest_passing(fails))

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

    @property
    def _powers(self) -> PowersOfTwo:
        """Bins for the variance; the lowest one holds few records at every sigma in the range."""
        low, high = 2 * np.log2(self.sigma_low), 2 * np.log2(self.sigma_high)
        return PowersOfTwo(1.0, np.floor(low) - 1 - BELOW, np.ceil(high) + 1)

    def _variance(self, sample: Sample, ledger: Ledger) -> tuple[Floats, Floats]:
        """Return the private variance of the records and the sensitivity of its noise, (trials,).

        The variance is NaN if no bin of the histogram is released, if the lowest bin is released,
        or if a wrong bin may be released with a probability above `_allowed`.
        """
        miss = self._allowed
        coarse, fine = ledger.split(0.5, 0.5)
        squares, bins = sample.half_squared_differences(ledger.rng), self._powers
        held = FULLEST * squares.n
        power = private_mode_bin(squares, bins, coarse, held=held, miss=miss)
        spare, wrong = spare_powers(coarse.budget, squares.n, float(bins.count), miss)
        power = np.where((power > bins.lower) & (wrong <= miss), power, np.nan)
        unit = np.exp2(np.where(np.isnan(power), 0.0, power))
        widened = unit * 2.0**spare
        half_width = 4 * widened * np.log(2 * squares.n / self._clip_probability)
        variance = noisy_clipped_mean(squares, half_width, half_width, fine).value
        released = np.where(np.isnan(power), np.nan, np.clip(variance, unit / 4, 8 * widened))
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
    - A histogram may release a wrong bin. `wrong_bin_probability` and `wrong_power_probability`
      bound the probability p of this by public numbers and S. The parts of the noise and of the
      sampling error above are reduced by p together, in proportion. So beta covers p, too. p
      vanishes as n grows.

    If p exceeds beta/4 (beta/8 for each of two histograms), or if a histogram fails, the interval
    is [-R, R]. It contains the mean because R bounds the mean, and its value is NaN. So the promise
    holds at every n. Without a radius, possible under (epsilon, delta) only, a failure is NaN.

    The errors are rarely large together, so intervals usually miss the mean with a probability
    below beta. (KV18
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

    @property
    def _allowed(self) -> float:
        return self._clip_probability  # as much as any other cause of a miss, or less

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bound, wrong, parts = np.full(sample.trials, self.sigma), 0.0, (1 / 4, 1 / 2)
        if self.sigma is None:
            spread, ledger = ledger.split(0.5, 0.5)
            parts = (1 / 4, 1 / 4)
            bound, wrong = self._sigma_bound(sample, spread)
        sigma = np.where(np.isnan(bound), 1.0, bound)
        clipped, half = self._clip_probability, ledger.budget.fraction(0.5)
        mean = _histogram_mean(sample, self.radius, sigma, clipped, ledger, miss=self._allowed)
        bins, t = _bins(sample.n, self.radius, sigma, clipped)
        p = wrong + _empty_bin_probability(half, bins.count, sample.n, self._allowed)
        p = np.minimum(p, self.beta / 4)  # a larger p has no value
        noise_miss, sampling_miss = (part * (self.beta - p / sum(parts)) for part in parts)
        noise = 6 * t / sample.n * half.noise_tail(noise_miss / 2, 1.0, 1.0)
        half_width = -ndtri(sampling_miss / 2) * sigma / np.sqrt(sample.n) + noise
        failed = np.isnan(bound) | np.isnan(mean.value)
        value, before = (np.where(failed, np.nan, v) for v in (mean.value, mean.before_noise))
        reach = np.nan if self.radius is None else self.radius
        low = np.where(failed, -reach, value - half_width)
        return Estimate(
            value, before, (low, np.where(failed, reach, value + half_width)), self.beta
        )

    def _sigma_bound(self, sample: Sample, ledger: Ledger) -> tuple[Floats, float]:
        """Return a private upper bound on the standard deviation of the records, (trials,).

        The bound is NaN if the variance is. The second number bounds the probability that it
        rests on a wrong bin.
        """
        variance, step = self._variance(sample, ledger)
        pairs, half = sample.n // 2, ledger.budget.fraction(0.5)
        noise = step * half.noise_quantile(self.beta / 4)
        bound = np.sqrt((variance + noise) * pairs / chdtri(pairs, 1 - self.beta / 8))
        _, wrong = spare_powers(half, pairs, float(self._powers.count), self._allowed)
        return np.asarray(bound), min(wrong, self._allowed)
