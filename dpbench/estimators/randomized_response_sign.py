"""Mean of Gaussians in the local model, from one randomised bit per record (KS25).

**Question.** Records X are N(mu, sigma^2). A step asks each of m records for the sign of X - c, for
a released centre c. Randomised response releases the sign: as it is with probability (1 + t)/2,
t = tanh(epsilon/2), and otherwise flipped. Both answers have probabilities (1 - t)/2 or (1 + t)/2,
whose ratio is e^epsilon, so a step is epsilon-DP. Let s be the share of answers "above" and
u = (mu - c)/sigma. Then

    E s = (1 + t (2 Phi(u) - 1))/2,   so that   c + sigma Phi^-1((1 + (2s - 1)/t)/2)

is a consistent estimate of mu, where Phi and phi are the normal distribution function and density.
To first order the variance of this estimate is sigma^2 s (1-s)/(m t^2 phi(u)^2), which is (pi/2)
sigma^2/(m t^2) at u = 0. For epsilon <= 1.04 no local estimator has a smaller variance in the limit
of large n (KS25; theorem number not checked).

**Steps.** The centre c has to be near mu. Each step has its own records, and a question depends on
the answers of earlier records only. So replacing a record changes the distribution of one answer
only (parallel composition).

1. Start with the public range [-R, R] of mu. Halve it ceil(log2(R/sigma)) times, by the majority of
   m answers around the middle. Let mu be at least sigma/2 from the middle. An answer names the side
   of mu with probability at least 1/2 + g, where g = t (Phi(1/2) - 1/2). By Hoeffding's inequality
   the majority is wrong with probability at most e^(-2 m g^2), which is beta/10 over all halvings
   for m = ln(10 halvings/beta)/(2 g^2). If mu is nearer to the middle, a wrong majority leaves c
   within 1.5 sigma of mu.
2. Make a first estimate from r records. In units of sigma^2 its variance is v = (pi/2)/(r t^2).
3. Make the last estimate from all other records, with the first estimate as the centre.

**Choice of r.** Let u be the error of the first estimate, in units of sigma. It multiplies the
variance of the last estimate by 1/((2 pi) phi(u)^2) = e^(u^2). The mean of this factor is about
1 + v. The last estimate lacks r records, which multiplies its variance by about 1 + r/n. The sum
v + r/n is smallest at r = sqrt(pi n/2)/t.

All halvings together have at most half of the records, the first estimate at most a quarter. The
score (2s - 1)/t is clipped to +-(1 - 1/m), because m answers cannot resolve more. The value
before noise, which is reported next to the release, is the median of the records. Without
randomised response the method converges to this median.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate
from dpbench.estimators.gaussian import _GaussianMean
from dpbench.privacy import Budget, Ledger
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["RandomizedResponseSignMean"]


@validated
class RandomizedResponseSignMean(_GaussianMean):
    """One-bit local mean of a Gaussian: randomised response on the sign of X - c (KS25).

    The theorem number of KS25 was not checked. Each record X releases one randomised bit: the sign
    of X - c, for a centre c that earlier bits determine. A part of the records moves c near the
    mean by repeated halving of a range. Records have to be Gaussian with known standard deviation
    `sigma`. Under zCDP, GDP and (epsilon, delta) the release of a record is pure DP, at the largest
    epsilon that the budget allows. `dpbench.estimators.randomized_response_sign` derives privacy
    and variance.

    Parameters
    ----------
    beta : float in (0, 1)
        Ten times the largest probability that some halving step keeps a wrong half. A smaller value
        spends more records on halving.
    """

    bounded_in: ClassVar[Literal["local"]] = "local"

    def sizes(self, n: int, budget: Budget) -> tuple[list[int], int]:
        """Return the numbers of records for the halvings and for the first estimate.

        The halvings narrow the range of the mean. The first estimate follows them. All other
        records are for the last estimate. The list has the number of records of each halving. It is
        empty if no halving is needed, or if n is too small. The budget is that of a record.
        """
        bias = _sign_bias(budget)
        halvings = int(np.ceil(np.log2(max(self.radius / self.sigma, 1.0))))
        gap = bias * (ndtr(0.5) - 0.5)
        needed = np.log(10 * max(halvings, 1) / self.beta) / (2 * gap**2)
        per_halving = int(min(np.ceil(needed), n // (2 * max(halvings, 1))))
        first = int(min(np.ceil(np.sqrt(np.pi / 2 * n) / bias), n // 4))
        return [per_halving] * halvings if per_halving else [], first

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bias = _sign_bias(
            ledger.pay_for_custom_mechanism("randomised response of every record's sign")
        )
        halvings, first = self.sizes(sample.n, ledger.budget)
        estimates = [size for size in (first, sample.n - first - sum(halvings)) if size]
        parts = iter(sample.split([*halvings, *estimates], ledger.rng))
        centre, half_width = np.zeros(sample.trials), self.radius
        for m in halvings:
            half_width /= 2
            answers = _draw_answers_above(next(parts), centre, bias, ledger.rng)
            centre = centre + np.where(2 * answers > m, half_width, -half_width)
        for m in estimates:
            answers = _draw_answers_above(next(parts), centre, bias, ledger.rng)
            score = np.clip((2 * answers / m - 1) / bias, 1 / m - 1, 1 - 1 / m)
            centre = centre + self.sigma * ndtri((1 + score) / 2)
        return Estimate(centre, sample.quantile(0.5))


def _sign_bias(budget: Budget) -> float:
    """Return t = tanh(epsilon/2), the bias of randomised response.

    Randomised response tells the truth with probability (1 + t)/2.
    """
    return float(np.tanh(budget.pure_epsilon / 2))


def _draw_answers_above(
    sample: Sample, centre: Floats, bias: float, rng: np.random.Generator
) -> Floats:
    """Draw how many records answer "at or above the centre" under randomised response, (trials,).

    A record answers truthfully with probability (1 + t)/2, where t is `bias`.
    """
    above = sample.count(centre, np.inf).astype(np.int64)
    truthful = rng.binomial(above, (1 + bias) / 2)
    return np.asarray(truthful + rng.binomial(sample.n - above, (1 - bias) / 2), dtype=float)
