"""Mean of a Gaussian by a clipped (Huber-type) score around a private median, corrected for bias.

Let x_i be the n records, of mean mu and known standard deviation sigma. Lengths are in units of
sigma; phi and Phi are the standard normal density and distribution. For a half-width T let

    psi(x) = clip(x, -T, T),   h(y) = E psi(N(y, 1)) = g(y + T) - g(y - T) - T,

with g(z) = z Phi(z) + phi(z). In the code h is `mean_score`, and its inverse h^-1 is `shift_of`.
The score of a record is psi(x_i - c), where c is a private centre. The mean score has expectation
h(mu - c). So c + h^-1(mean score) is a consistent estimate of mu. One replaced record moves the
mean score by at most 2T/n.

Let beta be a failure probability. Let z and q be two 1 - beta quantiles: z of |N(0, 1)|, and q of
the absolute noise at sensitivity 1. T minimises an approximate quantile of the error,
sqrt(z^2 v(T)/n + (2Tq/n)^2)/h'(0), where

    h'(0) = 2 Phi(T) - 1,   v(T) = h'(0) - 2T phi(T) + 2T^2 Phi(-T).

The centre is a median by the exponential mechanism on +-(R + t), with resolution sigma/10. R is a
public bound on abs(mu), and all records are within t of mu with probability 1 - beta. The centre is
far from mu with probability at most f if n epsilon/4 >= ln(10 (R + t)/(sigma f)), where epsilon is
for the exponential mechanism. The centre gets the smallest share of the budget that makes f at most
beta/10, but no more than half. The epsilon of the centre is at least
ln(10 (R + t)/(sigma f))/50,000. So the median reads no more than a million records. Derivation:
docs/theory/gaussian_score.md.
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
MIN_SHARE, MAX_SHARE = 1e-3, 0.5  # bounds on the centre's share of the budget
MAX_N_OF_SHARE = 200_000  # for larger n the centre's epsilon stays as at this n
HALVINGS = 60  # bisection steps of `shift_of`


def _density(z: Floats) -> Floats:
    """Return the standard normal density at each point z."""
    return np.asarray(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))


def mean_score(y: Floats, t: float) -> Floats:
    """Return the mean of an N(y, 1) variable that is clipped to [-t, t]."""
    above, below = y + t, y - t
    return np.asarray(
        above * ndtr(above) + _density(above) - below * ndtr(below) - _density(below) - t
    )


def shift_of(score: Floats, t: float, bound: float) -> Floats:
    """Return the mean y of a normal variable, given its mean after a clip: invert `mean_score`.

    Where no y in [-bound, bound] has the given mean after the clip, the nearer end is returned. The
    score is a mean after the clip to [-t, t]; NaN gives NaN. The error of y is at most 2^-60 times
    the bound.
    """
    low, high = np.full_like(score, -bound), np.full_like(score, bound)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        less = mean_score(middle, t) < score
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.where(np.isnan(score), np.nan, (low + high) / 2)


@validated
class GaussianScoreMean(_GaussianMean):
    """Debiased clipped (Huber-type) mean of a Gaussian around a private median; not published.

    Records are clipped to a narrow interval around a private median. The clipped records are
    averaged with noise of sensitivity 2h/n, where h is the half-width and n the number of records.
    Then the clipping bias is inverted. Records must be Gaussian with standard deviation `sigma`.
    For other distributions the inversion is wrong: the estimate is biased, for a small h towards
    the median. Derivation: docs/theory/gaussian_score.md.

    Parameters
    ----------
    beta : float in (0, 1)
        Bound on the probability that some record is beyond t = sigma sqrt(2 ln(2n/beta)) from the
        mean. The half-width h minimises the 1 - beta quantile of the error.
    share : float in (0, 1), optional
        Share of the budget for the centre (the median). Default: the smallest share in
        [1/1000, 1/2] for which the centre is far from the mean with probability at most beta/10. If
        there is no such share, the default is 1/2.
    """

    share: Probability | None = None

    def _record_bound(self, n: int) -> float:
        """Return a bound on the absolute values of all n records, valid with probability 1 - beta.

        The result is `radius`, the public bound on the mean, plus `tail`, the bound on deviations
        from the mean.
        """
        return self.radius + self.tail(n)

    def _log_ratio(self, n: int) -> float:
        """Return the least n epsilon/4 at which the private median is accurate enough.

        Here epsilon is the budget of the private median of the n records. The result is
        ln(10 B/(sigma f)). B bounds the absolute values of all records (`_record_bound`), and
        f = beta/10. If n epsilon/4 is at least the result, the private median is far from the mean
        with probability at most f.
        """
        unit = np.log(self.sigma) + np.log(RESOLUTION * self.beta / 10)
        return float(np.log(self._record_bound(n)) - unit)

    def centre_share(self, n: int, budget: Budget) -> float:
        """Return the share of the budget for the centre of the clip, which is a private median.

        The budget is that of the whole release, and the share is in (0, 1).
        """
        if self.share is not None:
            return self.share
        needed = 4 * self._log_ratio(n) / min(n, MAX_N_OF_SHARE)
        shares = np.geomspace(MIN_SHARE, MAX_SHARE, 200)
        enough = [budget.fraction(share).exponential_epsilon >= needed for share in shares]
        return float(shares[np.argmax(enough)]) if any(enough) else MAX_SHARE

    def half_width(self, n: int, budget: Budget) -> float:
        """Return the half-width of the clip around the private median.

        It is in standard deviations of a record. The budget is that of the mean of the clipped
        records.
        """
        q, z = budget.noise_quantile(self.beta), ndtri(self.beta / 2)
        t = np.geomspace(NARROWEST, 2 * gaussian_tail(n, self.beta), 1000)
        slope = 2 * ndtr(t) - 1
        variance = slope - 2 * t * _density(t) + 2 * t**2 * ndtr(-t)
        error = np.sqrt(z**2 * variance / n + (2 * t * q / n) ** 2) / slope
        return float(t[np.argmin(error)])

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        n, reach = sample.n, self._record_bound(sample.n)
        share = self.centre_share(n, ledger.budget)
        coarse, fine = ledger.split(share, 1 - share)
        centre = private_quantile(sample, 0.5, -reach, reach, RESOLUTION * self.sigma, coarse)
        t = self.half_width(n, fine.budget)
        width = t * self.sigma
        score = sample.centred_mean(centre, width) / self.sigma
        bound = t + gaussian_tail(n, self.beta)
        released = fine.add_noise(score, 2 * t / n)
        value, before = (
            centre + self.sigma * shift_of(mean, t, bound) for mean in (released, score)
        )
        return Estimate(value, before)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # The replaced record crosses the whole clip, because the centre is at the other records.
        records = np.where(np.arange(n) > 0, 0.0, -100.0 * self.sigma)
        pair = Pair.replacing("across_the_clip", records, 0, 100.0 * self.sigma)
        reach = self._record_bound(n)
        return [pair, *audit_pairs(n, 0.5, -reach, reach, RESOLUTION * self.sigma)]
