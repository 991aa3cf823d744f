r"""The mean of Gaussians in the local model, by one bit of every record (KS25).

One step asks m records for the sign of X - c, and every sign is told by randomised response: as it
is with probability (1 + t)/2, t = tanh(epsilon/2). Both answers of a record have chances
(1 - t)/2 or (1 + t)/2, whose ratio is e^epsilon: epsilon-DP. Of a share s of answers "above",
with u = (mu - c)/sigma,

    E s = (1 + t (2 Phi(u) - 1))/2,   so that   c + sigma Phi^-1((1 + (2s - 1)/t)/2)

is consistent, and has to first order the variance sigma^2 s (1-s)/(m t^2 phi(u)^2): at u = 0
(pi/2) sigma^2/(m t^2). No local estimator has less as n grows if epsilon <= 1.04 (KS25).

So c has to be near mu. Three steps, each on records of its own; a question depends on answers of
earlier records only, so a replaced record changes its own answer and nothing else (`parallel`):

- ceil(log2(R/sigma)) halvings of [-R, R], by the majority of m answers around the middle. If mu is
  sigma/2 or more to one side of it, the mean of an answer is g = t (Phi(1/2) - 1/2) or more to that
  side of 1/2, and the majority is wrong with probability at most e^(-2 m g^2) (Hoeffding): beta/10
  in all for m = ln(10 rounds/beta)/(2 g^2). Wrong nearer to mu, c stays within 1.5 sigma.
- r records for a first estimate. Its variance v = (pi/2)/(r t^2), in sigma^2, makes that of the
  next larger by 1/(2 pi phi(u)^2) = e^(u^2), of mean 1 + v, and r records less by 1 + r/n: the sum
  of both losses is least at r = sqrt(pi n/2)/t.
- all others for the last.

All halvings have half of the records at most, the first estimate a quarter. m answers tell no more
than 1 - 1/m of a score (2s - 1)/t. Before noise stands the median: the c that sees half above it.
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

__all__ = ["LocalSignMean"]


@validated
class LocalSignMean(_GaussianMean):
    """Randomised response on the side of a centre that each record is on.

    The module derives it. It needs Gaussian records of standard deviation `sigma`, and runs at the
    epsilon that the budget pays for.

    Parameters
    ----------
    beta : float in (0, 1)
        The halvings go wrong with probability beta/10 at most.
    """

    bounded_in: ClassVar[Literal["local"]] = "local"

    def sizes(self, n: int, budget: Budget) -> tuple[list[int], int]:
        """The records of every halving, and of the first estimate; none where there are few."""
        lean = _lean(budget)
        halvings = int(np.ceil(np.log2(max(self.radius / self.sigma, 1.0))))
        gap = lean * (ndtr(0.5) - 0.5)
        needed = np.log(10 * max(halvings, 1) / self.beta) / (2 * gap**2)
        each = int(min(np.ceil(needed), n // (2 * max(halvings, 1))))
        first = int(min(np.ceil(np.sqrt(np.pi / 2 * n) / lean), n // 4))
        return [each] * halvings if each else [], first

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        lean = _lean(ledger.own_chance("randomised response of every record's sign"))
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
    """The t of the module."""
    return float(np.tanh(budget.pure_epsilon / 2))


def _told(sample: Sample, centre: Floats, lean: float, rng: np.random.Generator) -> Floats:
    """How many records are told to be at or above the centre."""
    above = sample.count(centre, np.inf).astype(np.int64)
    true = rng.binomial(above, (1 + lean) / 2)
    return np.asarray(true + rng.binomial(sample.n - above, (1 - lean) / 2), dtype=float)
