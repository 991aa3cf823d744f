"""Bound on the probability of a wrong histogram bin for records with a bounded moment.

Records X have the mean mu and E|X - mu|^k <= scale^k. Histogram bins have the width 2r. A bin is
right if some of its points are within D of mu. Its middle is then within r + D of mu. Let a be the
largest count of a right bin.

1. A record is farther than D from mu with probability at most p = (scale/D)^k, by Markov's
   inequality. The number N of strays, the records farther than D from mu, is at most a binomial
   number with n and p. Let b be the 1 - miss/2 quantile of this number, with linear interpolation
   rounded up. N exceeds b with probability at most miss/2. If n p is below miss/2, b is 0 instead.
   N exceeds 0 with probability at most n p.
2. The interval [mu - D, mu + D] touches at most J bins of width 2r. J is 2 for D <= r, and 3 for
   r < D <= 2r. The touched bins are right and hold n - N records, so a >= (n - N)/J.
3. Wrong bins hold strays only. If wrong bin j holds N_j records, the N_j sum to at most N. Let g(v)
   be the probability that two noises differ by v or more. Bin j beats the fullest right bin with
   probability at most g(a - N_j).
4. g is convex on v >= 0. So the sum of g(a - N_j) is largest if one wrong bin holds all strays. For
   M bins it is at most M g((n - b)/J) + g((n - b)/J - b).
5. The probability of a wrong bin is at most miss/2 (or n p) plus the bound of step 4.

In a stability-based histogram only the occupied wrong bins count, at most b. The fullest right bin
also has to pass the threshold t. This is what holds without a bound on mu.

6. A bin with c <= t records passes the threshold with probability e^(-(t - c)/scale)/2. This is
   convex in c, and at most delta for c = 1. N <= t strays occupy at most N wrong bins. So some
   wrong bin passes with probability at most N delta + e^(-(t - N)/scale)/2.
7. Let h(N) be the smaller of this bound and of step 4 with b = N, and 1 if N exceeds t and
   (n - N)/J. h grows with N. Let b_i be a quantile that N exceeds with probability at most t_i, for
   1 = t_0 > t_1 > ... > t_l. Then E h(N) <= sum over i >= 1 of (t_(i-1) - t_i) h(b_i), plus t_l.

With fewer records than `MomentBins.records`, no right bin may pass the threshold. Nothing is
released either if the bound of step 7 is too large, because delta or epsilon is large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np
from scipy.special import bdtrik

from dpbench.arrays import Floats
from dpbench.privacy import ApproxDP, Budget, Ledger
from dpbench.privacy.histogram import (
    L1,
    no_bin_probability,
    noise_on_all_bins,
    noise_scale,
    private_mode_bin,
    stability_threshold,
    wrong_bin_probability,
)
from dpbench.samples import Bins, Sample

__all__ = ["MISS", "Lead", "MomentBins"]

MISS = 0.1  # largest probability of a wrong bin, unless an estimator has another one
TAILS = 0.95 ** np.arange(500)  # probabilities t_i of step 7
MAX_RECORDS = 1e18  # upper end of the search for a number of records


class Lead(NamedTuple):
    """Public bounds on what the bins of n records hold."""

    held: float  # Lower bound (n - b)/J on the count of the fullest right bin.
    strays: float  # Upper bound b on the number of records in wrong bins.
    # Rest of the allowed probability for the bins without strays; negative if it is spent.
    miss: float


@dataclass(frozen=True)
class MomentBins:
    """Histogram of records with a bounded moment.

    `dpbench.estimators.moment_bins` has the proof.
    """

    number: float  # Number M of bins; may be infinite.
    stray: float  # Bound p on the probability that a record is farther than D from the mean.
    touched: int  # Largest number J of bins within D of the mean.

    @classmethod
    def within(cls, near: float, k: float, r: float, number: float) -> Self:
        """Return bins of width 2r for D = `near` <= 2r, a moment of order k, and scale 1."""
        return cls(number, float(near**-k), 2 if near <= r * (1 + 1e-9) else 3)

    def lead(self, n: float, budget: Budget, miss: float) -> Lead:
        """Return bounds that hold with n records, if a wrong bin has at most probability `miss`."""
        return self._lead(n, budget, miss, few=n * self.stray <= miss / 2)

    def _lead(self, n: float, budget: Budget, miss: float, few: bool) -> Lead:
        """Return the bounds with no stray (`few`), or with a binomial number of strays."""
        if self.number <= 1:  # the only bin is right
            return Lead(n, 0.0, miss)
        if few:
            return Lead(n / self.touched, 0.0, miss - n * self.stray)
        strays = min(max(float(bdtrik(1 - miss / 2, n, self.stray)), 0.0) + 1, n)
        held = (n - strays) / self.touched
        one = float(wrong_bin_probability(budget, 1, max(held - strays, 0.0)))
        return Lead(held, strays, miss / 2 - one)

    def fullest(self, sample: Sample, bins: Bins, ledger: Ledger, miss: float) -> Floats:
        """Release the left end of the fullest of some bins, (trials,); spend the ledger.

        The left end is NaN if a wrong bin might be released with a probability above `miss`.
        """
        budget = ledger.budget
        held, strays, left_over = self.lead(sample.n, budget, miss)
        left = private_mode_bin(sample, bins, ledger, held=held, miss=left_over)
        if noise_on_all_bins(budget, self.number, held, left_over):
            return left  # NaN already, if a wrong bin is too likely
        assert isinstance(budget, ApproxDP)
        wrong = wrong_bin_probability(budget, min(strays, self.number - 1), held)
        if wrong <= left_over or self._wrong_passes(sample.n, budget) <= miss:
            return left
        return np.full_like(left, np.nan)

    def _wrong_passes(self, n: int, budget: ApproxDP) -> float:
        """Return the bound of step 7 on a wrong bin from a stability-based histogram."""
        from scipy.stats import binom

        strays = binom.ppf(1 - TAILS[1:], n, self.stray)
        held = (n - strays) / self.touched
        beaten = wrong_bin_probability(budget, np.minimum(strays, self.number - 1), held)
        beaten = beaten + wrong_bin_probability(budget, 1, held - strays)
        beaten = np.where(held < strays, 1.0, beaten)
        passing = strays * budget.delta + 1 - no_bin_probability(budget, strays)
        passing = np.where(strays > stability_threshold(budget), 1.0, passing)
        each = np.where(strays > 0, np.minimum(np.minimum(beaten, passing), 1.0), 0.0)
        return float(-np.diff(TAILS) @ each + TAILS[-1])

    def works(self, lead: Lead, budget: Budget) -> bool:
        """Return whether a right bin is released, except with the allowed probability."""
        held, strays, miss = lead
        if noise_on_all_bins(budget, self.number, held, miss):
            return bool(wrong_bin_probability(budget, self.number - 1, held) <= miss)
        assert isinstance(budget, ApproxDP)
        missing = max(held - stability_threshold(budget), 0.0) * budget.pure_epsilon / L1
        wrong = float(wrong_bin_probability(budget, min(strays, self.number - 1), held))
        return wrong + float(np.exp(-missing)) / 2 <= miss

    def records(self, budget: Budget, miss: float) -> float:
        """Return the number of records from which on a wrong bin has at most probability `miss`.

        Under (epsilon, delta) a right bin is also released, except with this probability.
        """
        return _search_records(self, budget, miss, noise_scale(budget))


@lru_cache(maxsize=10_000)  # because exact values of many rows share a histogram
def _search_records(bins: MomentBins, budget: Budget, miss: float, _: object) -> float:
    """Return `MomentBins.records`; the last argument is the noise that a factor may change."""

    def first(few: bool) -> float:
        return _smallest(lambda n: bins.works(bins._lead(n, budget, miss, few), budget))

    # Without a stray the bound is smaller. It applies to n p <= miss/2 only.
    needed = first(few=False)
    return needed if needed * bins.stray > miss / 2 else first(few=True)


def _smallest(works: Callable[[float], bool]) -> float:
    """Return the smallest number from which on `works` holds, to a relative error of 1e-12."""
    low, high = 0.0, 1.0
    while not works(high) and high < MAX_RECORDS:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high
