"""Clipped-score (Huber-type) mean of a Gaussian around a private median, with the bias inverted.

Lengths are in units of sigma. For a half-width T let

    psi(x) = clip(x, -T, T),   h(y) = E psi(N(y, 1)) = g(y + T) - g(y - T) - T,

with g(z) = z Phi(z) + phi(z). Around a private centre c, the mean of psi(x_i - c) has expectation
h(mu - c), so c + h^-1 of the mean score is a consistent estimate of mu. One replaced record moves
the mean score by at most 2T/n.

T minimises sqrt(z^2 v(T)/n + (2Tq/n)^2)/h'(0), with z and q the two-sided 1 - beta quantiles of a
normal distribution and of noise at sensitivity 1, and

    h'(0) = 2 Phi(T) - 1,   v(T) = h'(0) - 2T phi(T) + 2T^2 Phi(-T).

The centre is a median by the exponential mechanism, up to sigma/10, on +-(R + t) with the t of
`dpbench.estimators.gaussian`. It is far off with probability at most f if
n epsilon/4 >= ln(10 (R + t)/(sigma f)). The centre gets the share of the budget that makes f a
tenth of beta, at most a half, and at least an epsilon of ln(...)/50,000, so that it reads no more
than a million records. Derivation: docs/theory/gaussian_score.md.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate
from dpbench.estimators.gaussian import _GaussianMean, gaussian_tail
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.quantile import audit_pairs, private_quantile
from dpbench.registry import Probability, validated
from dpbench.samples import Sample

__all__ = ["GaussianScoreMean", "mean_score", "shift_of"]

RESOLUTION = 0.1  # resolution of the centre, in sigma
NARROWEST = 0.1  # smallest T, in sigma
LEAST_SHARE, MOST_SHARE = 1e-3, 0.5  # bounds on the centre's share of the budget
FEWEST = 200_000  # above this n the epsilon of the centre falls no further
HALVINGS = 60  # bisection steps of `shift_of`


def _density(z: Floats) -> Floats:
    return np.asarray(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))


def mean_score(y: Floats, t: float) -> Floats:
    """Return h(y) = E clip(N(y, 1), -t, t).

    Parameters
    ----------
    y : array
        Means of the normal distribution, in sigma.
    t : float > 0
        Half-width T of the clip, in sigma.

    Returns
    -------
    array of the same shape
    """
    above, below = y + t, y - t
    return np.asarray(
        above * ndtr(above) + _density(above) - below * ndtr(below) - _density(below) - t
    )


def shift_of(score: Floats, t: float, most: float) -> Floats:
    """Return h^-1(score): the y in [-most, most] where h(y) is nearest to the score.

    Parameters
    ----------
    score : array
        Mean scores; NaN gives NaN.
    t : float > 0
        Half-width T of the clip, in sigma.
    most : float > 0
        Bound on |y|; y is accurate to 2^-60 of it.

    Returns
    -------
    array of the same shape
    """
    low, high = np.full_like(score, -most), np.full_like(score, most)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        less = mean_score(middle, t) < score
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.where(np.isnan(score), np.nan, (low + high) / 2)


@validated
class GaussianScoreMean(_GaussianMean):
    """Debiased clipped (Huber-type) mean of a Gaussian around a private median.

    Records are clipped to a narrow interval around the median and averaged with noise; then the
    clipping bias is inverted. Records must be Gaussian with standard deviation `sigma`. For other
    distributions the inversion is wrong: the estimate is biased, for a small T towards the median.
    Derivation: docs/theory/gaussian_score.md.

    Parameters
    ----------
    beta : float in (0, 1)
        Probability that some record is beyond t = sigma sqrt(2 ln(2n/beta)) from the mean; the
        clip is chosen for the 1 - beta quantile of the error.
    share : float in (0, 1), optional
        Share of the budget for the centre (the median). Default: the smallest share that makes
        the centre wrong with probability at most beta/10, at most 1/2.
    """

    share: Probability | None = None

    def _reach(self, n: int) -> float:
        """Return R + t, a bound on the absolute values of all records with probability 1 - beta."""
        return self.radius + self.tail(n)

    def _log_ratio(self, n: int) -> float:
        """Return ln(10 (R + t)/(sigma f)) at f = beta/10, a lower bound for n epsilon/4."""
        unit = np.log(self.sigma) + np.log(RESOLUTION * self.beta / 10)
        return float(np.log(self._reach(n)) - unit)

    def centre_share(self, n: int, budget: Budget) -> float:
        """Return the share of the budget for the centre.

        Parameters
        ----------
        n : int
            Number of records.
        budget : Budget
            Budget of the whole release.

        Returns
        -------
        float in (0, 1)
        """
        if self.share is not None:
            return self.share
        needed = 4 * self._log_ratio(n) / min(n, FEWEST)
        shares = np.geomspace(LEAST_SHARE, MOST_SHARE, 200)
        enough = [budget.fraction(one).exponential_epsilon >= needed for one in shares]
        return float(shares[np.argmax(enough)]) if any(enough) else MOST_SHARE

    def half_width(self, n: int, budget: Budget) -> float:
        """Return the half-width T of the clip.

        Parameters
        ----------
        n : int
            Number of records.
        budget : Budget
            Budget of the score.

        Returns
        -------
        float
            T, in sigma.
        """
        q, z = budget.noise_quantile(self.beta), ndtri(self.beta / 2)
        t = np.geomspace(NARROWEST, 2 * gaussian_tail(n, self.beta), 1000)
        slope = 2 * ndtr(t) - 1
        variance = slope - 2 * t * _density(t) + 2 * t**2 * ndtr(-t)
        error = np.sqrt(z**2 * variance / n + (2 * t * q / n) ** 2) / slope
        return float(t[np.argmin(error)])

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        n, reach = sample.n, self._reach(sample.n)
        share = self.centre_share(n, ledger.budget)
        coarse, fine = ledger.split(share, 1 - share)
        centre = private_quantile(sample, 0.5, -reach, reach, RESOLUTION * self.sigma, coarse)
        t = self.half_width(n, fine.budget)
        width = t * self.sigma
        score = (sample.clipped_mean(centre - width, centre + width) - centre) / self.sigma
        most = t + gaussian_tail(n, self.beta)
        released = fine.add_noise(score, 2 * t / n)
        value, before = (centre + self.sigma * shift_of(one, t, most) for one in (released, score))
        return Estimate(value, before)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # The record crosses the whole clip; the centre is at the other records.
        records = np.where(np.arange(n) > 0, 0.0, -100.0 * self.sigma)
        own = Pair.replacing("across_the_clip", records, 0, 100.0 * self.sigma)
        reach = self._reach(n)
        return [own, *audit_pairs(n, 0.5, -reach, reach, RESOLUTION * self.sigma)]
