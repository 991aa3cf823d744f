r"""The mean of a Gaussian by a bounded score around a private centre, debiased.

A clip that keeps all records is 2 sqrt(2 ln n) sigma wide, and noise is as wide as the clip. A
narrow one loses no more than the law can restore. In units of sigma let

    psi(x) = clip(x, -T, T),   h(y) = E psi(N(y, 1)) = g(y + T) - g(y - T) - T,

where g(z) = E(N(z, 1))_+ = z Phi(z) + phi(z), as psi(x) = (x + T)_+ - (x - T)_+ - T. h grows from
-T to T, with h'(y) = P(|N(y, 1)| < T). Around a centre c the mean psi(x_i - c) has expectation
h(mu - c), so that c + h^-1 of it is consistent wherever c is. One replaced record moves it by at
most 2T/n. This is an M-estimator (Huber 1964) with one step of noise.

What T costs. Near c = mu the error is (S + N)/h'(0), S the deviation of a mean of n scores, of
variance v(T)/n, and N noise of sensitivity 2T/n. With z and q the 1 - beta quantiles of a normal
law and of unit noise, both two-sided, T minimises

    ((z^2 v(T)/n + (2Tq/n)^2)^(1/2))/h'(0),   h'(0) = 2 Phi(T) - 1,
    v(T) = h'(0) - 2T phi(T) + 2T^2 Phi(-T),

which is the quantile of the error if noise is Gaussian, and right at both ends if not. As T grows
this is the mean. As T falls it is the sign of x - c: under pure DP noise of quantile
sqrt(2 pi) ln(1/beta)/(n epsilon), which is just what testing a chain of laws asks for where
n epsilon is large (`dpbench.theory.bounds.numbers`), and so under GDP. T is at least 0.1, where
noise is 0.2 per cent above that.

The centre. A median by the exponential mechanism up to sigma/10 on +-(R + t), t as in
`dpbench.estimators.gaussian`. Points of score 0 fill at least sigma/5, those of score -n/2 at most
2(R + t): it is far off with probability at most f if n epsilon/4 >= ln(10 (R + t)/(sigma f)). That
asks for little of a budget whose n epsilon is large: the centre has the share that makes f a tenth
of beta, at most a half. At least, its epsilon is ln(...)/50,000, or it would look at more than a
million records. The score has the rest: two steps on the same records (`Ledger.split`).

The centre rests on the same records. Let G(c) be the mean score around c less its expectation. The
score moves by at most |c - mu| if c does, so G(c) - G(mu) has a standard deviation of at most
|c - mu|/sqrt(n); the largest of |G(c) - G(mu)| on an interval of that length around mu is of the
same order (it is Lipschitz in c), so a c that is chosen by the records changes the error by no
more. With |c - mu| near sigma/10 that is small beside sampling; `dpbench.theory.exact.score`
leaves it out, and simulations do not see it.

What cannot be inverted. The average with noise may leave (-T, T): c + h^-1 is kept within T + t of
c, where h is within sigma beta/n of its end. All of that is post-processing.
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

RESOLUTION = 0.1  # of the centre, in sigma
NARROWEST = 0.1  # T, in sigma
LEAST_SHARE, MOST_SHARE = 1e-3, 0.5  # of the budget, for the centre
FEWEST = 200_000  # records from which on a centre takes no less of epsilon
HALVINGS = 60


def _density(z: Floats) -> Floats:
    return np.asarray(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))


def mean_score(y: Floats, t: float) -> Floats:
    """The h(y) of the module, at a clip of +-t."""
    above, below = y + t, y - t
    return np.asarray(
        above * ndtr(above) + _density(above) - below * ndtr(below) - _density(below) - t
    )


def shift_of(score: Floats, t: float, most: float) -> Floats:
    """The y in [-most, most] where h(y) is nearest to the score, up to 2^-60 of that."""
    low, high = np.full_like(score, -most), np.full_like(score, most)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        less = mean_score(middle, t) < score
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.where(np.isnan(score), np.nan, (low + high) / 2)


@validated
class GaussianScoreMean(_GaussianMean):
    """A narrow clip around a private median, averaged with noise, and what it hides put back.

    The module derives it. It needs Gaussian records of standard deviation `sigma`: of others
    c + h^-1 is biased, towards their median where T is small.

    Parameters
    ----------
    beta : float in (0, 1)
        Probability that a record is beyond t; T is chosen for the error's 1 - beta quantile.
    share : float in (0, 1), optional
        Of the budget, for the centre; by default what makes it wrong with probability beta/10.
    """

    share: Probability | None = None

    def _reach(self, n: int) -> float:
        """R + t, which all records keep within."""
        return self.radius + self.tail(n)

    def _log_ratio(self, n: int) -> float:
        """The logarithm that n epsilon/4 of a centre has to exceed."""
        unit = np.log(self.sigma) + np.log(RESOLUTION * self.beta / 10)
        return float(np.log(self._reach(n)) - unit)

    def centre_share(self, n: int, budget: Budget) -> float:
        """The share of the budget for the centre."""
        if self.share is not None:
            return self.share
        needed = 4 * self._log_ratio(n) / min(n, FEWEST)
        shares = np.geomspace(LEAST_SHARE, MOST_SHARE, 200)
        enough = [budget.fraction(one).exponential_epsilon >= needed for one in shares]
        return float(shares[np.argmax(enough)]) if any(enough) else MOST_SHARE

    def half_width(self, n: int, budget: Budget) -> float:
        """T, in sigma, where `budget` is that of the score."""
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
        # A record from one end of the clip to the other, past a centre that is among the rest.
        records = np.where(np.arange(n) > 0, 0.0, -100.0 * self.sigma)
        own = Pair.replacing("across_the_clip", records, 0, 100.0 * self.sigma)
        reach = self._reach(n)
        return [own, *audit_pairs(n, 0.5, -reach, reach, RESOLUTION * self.sigma)]
