"""Interval for the mean of Gaussian records that accounts for the clip (BB94, AW25).

**Setting.** The n records are N(mu, sigma^2), with mu in the public interval [a, b]. They are
clipped to [a, b], which moves their mean. Let M(mu, sigma) and T(mu, sigma) be the mean and the
standard deviation of a clipped record; `ParametricBootstrapInterval` has both in closed form. The
release A is the mean of clipped records plus noise. So A has the mean M(mu, sigma), and its
distribution is known for each mu and sigma: N(0, T^2/n) plus noise around M. An interval for the
parameter mu inverts this relation. In contrast, the parametric bootstrap (FWS22) subtracts the bias
at the released mean, which differs from the bias at mu.

**Known sigma.** Let q(p; mu, sigma) be the quantiles of A - M. The interval contains each mu for
which A - M is between q(beta/2) and q(1 - beta/2). By construction it misses mu with probability
beta, at every n and bias.

**Unknown sigma.** A share of the budget releases the mean V of m = floor(n/2) values
min((x - y)^2/2, c), for disjoint pairs of records x, y and c = (b - a)^2/2. The values have the
distribution of min(sigma^2 Z^2, c) with Z = N(0, 1), so V does not depend on mu.

1. Inverting V gives an interval [s, s'] for sigma, which misses with probability at most beta/10.
   The tests have level beta/20 on each side.
2. The interval for mu is the union of the intervals for all sigma in [s, s'], at the level
   0.9 beta. It misses with probability at most 0.1 beta + 0.9 beta (BB94).
3. For fixed mu, dM/dsigma = phi((a - mu)/sigma) - phi((b - mu)/sigma), where phi is the normal
   density. It has the sign of a + b - 2 mu for every sigma. So over [s, s'], M is between its
   values at s and s'. T grows with sigma (checked numerically, without proof). So the union is part
   of the set of all mu with

       min(M(mu, s), M(mu, s')) + q(low) <= A <= max(M(mu, s), M(mu, s')) + q(high),

   with quantiles q at (mu, s'). The code returns the hull of this set in [a, b].
4. If V is too near c, s' is infinite, and the interval is [a, b].

AW25 inverts such tests by simulation, for any private release (repro samples). Here the quantiles
are computed, because means of n clipped records are normal up to an error of order 1/sqrt(n). This
error, and records that are not Gaussian, are not covered. Zeros and ones in [0, 1] are an example:
with 1 in 50 records a one, n = 5000 and mu = 1 of Gaussian DP, every interval misses. The released
value is the estimate by indirect inference (WCA25): it solves M(mu, sigma) = A at the sigma that V
suggests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from scipy.special import erf, erfc, ndtr, ndtri

from dpbench.arrays import Bools, Floats
from dpbench.estimators.assumptions import Assumption, GaussianShape, GaussianSpread, MeanInBox
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _ClippingEstimator, noisy_clipped_mean
from dpbench.estimators.gaussian import Positive
from dpbench.estimators.intervals import End, clipped_normal_moments
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.noise_factor import current_noise_factor, noise_times
from dpbench.registry import Probability, validated
from dpbench.samples import Sample
from dpbench.samples.binned import MAX_WHOLE_RECORDS

__all__ = ["BergerBoosInterval"]

SPREAD_SHARE = 0.1  # of beta, for the interval of sigma
STRATA = 500  # values of the noise that are above 0
SCALES = 60  # standard deviations of the table of quantiles
STEPS = 40  # of bisection; the last is below 1e-12 of the first
RANGE = 1e6  # sigma is searched from (b - a)/RANGE to (b - a) RANGE


@validated
class BergerBoosInterval(_ClippingEstimator):
    """Confidence interval for a Gaussian mean by inverted tests of a clipped mean (BB94, AW25).

    The records must be Gaussian: on other records, intervals may always miss.
    `dpbench.estimators.berger_boos` derives the coverage; the docstring of
    `dpbench.estimators.intervals` has the sensitivities. The estimate is corrected for the bias of
    the clip.

    Parameters
    ----------
    lower, upper : float
        Public bounds, lower < upper, to which records are clipped, in the unit of the data. The
        mean lies between them.
    sigma : float > 0, optional
        Known standard deviation of a record; the mean then has the whole budget. By default the
        standard deviation is estimated.
    beta : float in (0, 1)
        Probability that the interval misses the mean of Gaussian records, up to the error of a
        normal approximation: exact for a known sigma, and an upper bound otherwise.
    share : float in (0, 1)
        Share of the budget for the mean if the standard deviation is estimated.
    """

    lower: End
    upper: End
    sigma: Positive | None = None
    beta: Probability = 0.1
    share: Probability = 0.8

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        """Return the assumptions on the mean, and on the spread or the shape of records."""
        known = GaussianShape() if self.sigma is None else GaussianSpread(self.sigma)
        return [MeanInBox(self.lower, self.upper), known]

    @property
    def most_at_once(self) -> int | None:
        return MAX_WHOLE_RECORDS if self.sigma is None else None  # because of the pairs of records

    def least_records(self, d: int, budget: Budget) -> int:
        return 1 if self.sigma is not None else 2

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        beta = self.beta
        if self.sigma is not None:
            scale = low_scale = high_scale = np.full(sample.trials, self.sigma)
        else:
            beta *= 1 - SPREAD_SHARE
            ledger, spread = ledger.split(self.share, 1 - self.share)
            low_scale, scale, high_scale = self._scales(sample, spread)
        half = self.upper / 2 - self.lower / 2
        release = noisy_clipped_mean(sample, self.lower + half, half, ledger)
        step, root = 2 * half / sample.n, float(np.sqrt(sample.n))
        quantile = _noisy_quantile(beta / 2, half / root, ledger.budget, step)

        def means(mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
            bias, record_sd = clipped_normal_moments(mean, sd, self.lower, self.upper)
            return mean + bias, record_sd / root

        def bound(mean: Floats, sign: int) -> Floats:
            """Return an end of the values of the release that are plausible for a mean."""
            (first, _), (second, error) = means(mean, low_scale), means(mean, high_scale)
            return np.maximum(sign * first, sign * second) + quantile(error)

        def solve(reached: Callable[[Floats], Bools]) -> Floats:
            return _first_reached(reached, self.lower, self.upper, sample.trials)

        value = solve(lambda mean: means(mean, scale)[0] >= release.value)
        low = solve(lambda mean: bound(mean, 1) >= release.value)
        high = solve(lambda mean: -bound(mean, -1) >= release.value)
        return Estimate(value, release.before_noise, interval=(low, high), miss=self.beta)

    def _scales(self, sample: Sample, ledger: Ledger) -> list[Floats]:
        """Return the lower end of an interval for sigma, an estimate, and the upper end."""
        if sample.n < 2:
            raise ValueError(f"n: {sample.n}: one record makes no pair; at least 2 are needed")
        squares = sample.half_squared_differences(ledger.rng)
        width = self.upper - self.lower
        middle = (width / 2) ** 2
        release = noisy_clipped_mean(squares, middle, middle, ledger).value
        step, root = 2 * middle / squares.n, float(np.sqrt(squares.n))
        quantile = _noisy_quantile(SPREAD_SHARE * self.beta / 2, middle / root, ledger.budget, step)

        def reaches(sign: int) -> Callable[[Floats], Bools]:
            def reached(log_scale: Floats) -> Bools:
                mean, sd = _clipped_square_moments(np.exp(log_scale), width / 2**0.5)
                return np.asarray(mean + sign * quantile(sd / root) >= release)

            return reached

        ends = float(np.log(width / RANGE)), float(np.log(width * RANGE)), sample.trials
        return [np.exp(_first_reached(reaches(sign), *ends)) for sign in (1, 0, -1)]


def _first_reached(
    reached: Callable[[Floats], Bools], low: float, high: float, trials: int
) -> Floats:
    """Return the smallest point in [low, high] at which a condition holds, for each trial.

    The condition is assumed to hold at all larger points. The result is `high` if it holds nowhere,
    and `low` if it holds everywhere, up to rounding.
    """
    below, above = np.full(trials, low), np.full(trials, high)
    for _ in range(STEPS):
        middle = below / 2 + above / 2
        holds = reached(middle)
        below, above = np.where(holds, below, middle), np.where(holds, middle, above)
    return np.where(reached(np.full(trials, low)), low, above)


def _clipped_square_moments(sd: Floats, root: float) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of min(sd |Z|, root)^2 for a standard normal Z.

    With r = root/sd, E[Z^2; |Z| < r] = erf(r/sqrt(2)) - 2 r phi(r), and
    E[Z^4; |Z| < r] = 3 erf(r/sqrt(2)) - 2 (r^3 + 3 r) phi(r).
    """
    r = root / sd
    near = np.minimum(r, 40.0)  # beyond, the normal density underflows
    inside, outside = erf(r / np.sqrt(2)), erfc(r / np.sqrt(2))
    density = np.exp(-(near**2) / 2) / np.sqrt(2 * np.pi)
    # in units of the smaller of sd and root, because r may be very small or large
    unit = np.minimum(sd, root)
    square, top = (sd / unit) ** 2, (root / unit) ** 2
    mean = square * (inside - 2 * near * density) + top * outside
    moment = square**2 * (3 * inside - 2 * (near**3 + 3 * near) * density) + top**2 * outside
    return unit**2 * mean, unit**2 * np.sqrt(np.maximum(moment - mean**2, 0.0))


def _noisy_quantile(
    upper: float, largest_sd: float, budget: Budget, step: float
) -> Callable[[Floats], Floats]:
    """Return a function that computes quantiles of N(0, sd^2) plus noise from sd.

    The quantile is exceeded with probability `upper`, and `step` is the sensitivity of the noise.
    Gaussian noise has a closed form. Otherwise the quantile is interpolated in a table of `SCALES`
    standard deviations up to `largest_sd`.
    """
    if budget.gaussian(step, step):
        noise_sd = float(budget.noise_tail(np.asarray(ndtr(-1.0)), step, step))
        return lambda sd: -float(ndtri(upper)) * np.hypot(sd, noise_sd)
    spread, table = _quantile_table(upper, largest_sd / step, budget, current_noise_factor())
    return lambda sd: np.asarray(step * np.interp(sd / step, spread, table))


@cache
def _quantile_table(
    upper: float, largest_sd: float, budget: Budget, noise_factor: float
) -> tuple[Floats, Floats]:
    """Return standard deviations, and the quantiles of `_noisy_quantile` for sensitivity 1.

    The noise is multiplied by `noise_factor`. It has `2 * STRATA` values with weights, and the
    values are dense in its tails.
    """
    t = (np.arange(STRATA) + 0.5) / STRATA
    with noise_times(noise_factor):
        tail = budget.noise_tail(t**2 / 2, 1.0, 1.0)
    noise, weights = np.concatenate([tail, -tail]), np.tile(t / STRATA, 2)
    spread = largest_sd * np.linspace(0.0, 1.0, SCALES) ** 2
    spread[0] = 1e-9 * spread[1]
    low = np.zeros(SCALES)
    high = noise.max() - float(ndtri(upper / 2)) * spread
    for _ in range(STEPS):
        middle = (low + high) / 2
        exceeded = ndtr((noise - middle[:, None]) / spread[:, None]) @ weights
        low = np.where(exceeded > upper, middle, low)
        high = np.where(exceeded > upper, high, middle)
    return spread, high
