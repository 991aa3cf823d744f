"""Mean of Gaussians in the local model, from one randomised bit per record (KS25).

**Question.** A step asks each of m records for the sign of X - c. The sign is released by
randomised response: with probability (1 + t)/2, t = tanh(epsilon/2), as it is, and otherwise
flipped. Both answers have probabilities (1 - t)/2 or (1 + t)/2, whose ratio is e^epsilon, so a step
is epsilon-DP. Let s be the share of answers "above" and u = (mu - c)/sigma. Then

    E s = (1 + t (2 Phi(u) - 1))/2,   so that   c + sigma Phi^-1((1 + (2s - 1)/t)/2)

is a consistent estimate of mu. To first order its variance is sigma^2 s (1-s)/(m t^2 phi(u)^2),
which is (pi/2) sigma^2/(m t^2) at u = 0. No local estimator has a smaller variance as n grows if
epsilon <= 1.04 (KS25; theorem number not checked).

**Steps.** c has to be near mu. Each step has its own records, and a question depends on the answers
of earlier records only. So replacing a record changes the distribution of its own answer and no
other (parallel composition).

1. Halve [-R, R] ceil(log2(R/sigma)) times, by the majority of m answers around the middle. If mu is
   at least sigma/2 to one side of the middle, the mean of an answer is at least
   g = t (Phi(1/2) - 1/2) to that side of 1/2. By Hoeffding's inequality the majority is wrong with
   probability at most e^(-2 m g^2), which is beta/10 over all halvings for
   m = ln(10 halvings/beta)/(2 g^2). If mu is nearer to the middle, a wrong answer leaves c within
   1.5 sigma.
2. Make a first estimate from r records. In units of sigma^2 its variance is v = (pi/2)/(r t^2). It
   increases the variance of the next estimate by the factor 1/((2 pi) phi(u)^2) = e^(u^2), whose
   mean is about 1 + v; having r records less increases it by 1 + r/n. The sum of both losses is
   least at r = sqrt(pi n/2)/t.
3. Make the last estimate from all other records.

All halvings together have at most half of the records, the first estimate at most a quarter. With m
answers, the score (2s - 1)/t is clipped to +-(1 - 1/m), because they cannot resolve more. The value
before noise is the median of the records, to which the method converges without noise.
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

    Records have to be Gaussian with known standard deviation `sigma`. Under zCDP, GDP and (epsilon,
    delta) it runs at the epsilon that the budget pays for. The module docstring of
    `dpbench.estimators.randomized_response_sign` derives the estimate.

    Parameters
    ----------
    beta : float in (0, 1)
        Ten times the probability that a halving step goes wrong. A smaller value spends more
        records on halving.
    """

    stream_name: ClassVar[str] = "LocalSignMean"

    bounded_in: ClassVar[Literal["local"]] = "local"

    def sizes(self, n: int, budget: Budget) -> tuple[list[int], int]:
        """Return the numbers of records of the halving steps and of the first estimate.

        Parameters
        ----------
        n : int
            Number of records.
        budget : Budget
            Privacy budget of a record.

        Returns
        -------
        tuple of list of int and int
            The list is empty if n is too small for halving.
        """
        lean = _lean(budget)
        halvings = int(np.ceil(np.log2(max(self.radius / self.sigma, 1.0))))
        gap = lean * (ndtr(0.5) - 0.5)
        needed = np.log(10 * max(halvings, 1) / self.beta) / (2 * gap**2)
        each = int(min(np.ceil(needed), n // (2 * max(halvings, 1))))
        first = int(min(np.ceil(np.sqrt(np.pi / 2 * n) / lean), n // 4))
        return [each] * halvings if each else [], first

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        lean = _lean(ledger.pay_for_custom_mechanism("randomised response of every record's sign"))
        halvings, first = self.sizes(sample.n, ledger.budget)
        estimates = [one for one in (first, sample.n - first - sum(halvings)) if one]
        parts = iter(sample.split([*halvings, *estimates], ledger.rng))
        centre, half_width = np.zeros(sample.trials), self.radius
        for m in halvings:
            half_width /= 2
            told = _told(next(parts), centre, lean, ledger.rng)
            centre = centre + np.where(2 * told > m, half_width, -half_width)
        for m in estimates:
            told = _told(next(parts), centre, lean, ledger.rng)
            score = np.clip((2 * told / m - 1) / lean, 1 / m - 1, 1 - 1 / m)
            centre = centre + self.sigma * ndtri((1 + score) / 2)
        return Estimate(centre, sample.quantile(0.5))


def _lean(budget: Budget) -> float:
    """Return t = tanh(epsilon/2), the bias of randomised response."""
    return float(np.tanh(budget.pure_epsilon / 2))


def _told(sample: Sample, centre: Floats, lean: float, rng: np.random.Generator) -> Floats:
    """Draw the number of records, (trials,), that answer "at or above the centre"."""
    above = sample.count(centre, np.inf).astype(np.int64)
    true = rng.binomial(above, (1 + lean) / 2)
    return np.asarray(true + rng.binomial(sample.n - above, (1 - lean) / 2), dtype=float)
