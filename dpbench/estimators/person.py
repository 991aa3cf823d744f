"""Means of people's means: person-level privacy (AKMMSU24).

n people have m records each, E|X - mu|^k <= 1, mu in [-R, R], and a person with all their records
is replaced: a dataset of the n means Y (`dpbench.distributions.People`), of which one is replaced.

Where people are. The variance of Y is at most 1/m, by Lyapunov's inequality. By Chebyshev's half of
all people are within r = sqrt(2/m) of mu, and fill at most two bins of width 2r, of which one has a
quarter. A bin with a quarter has its middle within r + 2/sqrt(m) of mu.

How wide. Around that middle means are clipped to +-(r + 2/sqrt(m) + T), and those within T of mu
are not moved. One person moves the average of n' by at most 2 (r + 2/sqrt(m) + T)/n'. With
q the 1 - beta quantile of unit noise, T is the larger one of

- sqrt(2 ln(n'/q)/m): the average of m records is nearly N(mu, s^2/m), s <= 1, whose part beyond T
  has at a = T sqrt(m) a mean of at most phi(a)/(a^2 sqrt(m)) <= 0.4 q/(n' a^2 sqrt(m)), below
  the noise of 2 q T/n' from a = 1 on;
- T'/m, where T' is the clip of n' m records one by one, `best_clip` at R = 0: a mean that is
  farther off has one large record Z in it, in the main, and (|Z|/m - T)_+ = (|Z| - T')_+/m, with
  probability m, makes a bias of b(T'). As T' ~ (n' m/q)^(1/k), T ~ (n'/q)^(1/k) m^-((k-1)/k).

So the error is some q sqrt(ln(n/q)/m)/n + (q/(n m))^((k-1)/k) + 1/sqrt(n m): up to logarithms

    n ~ 1/(alpha^2 m) + 1/(epsilon alpha sqrt(m)) + 1/(epsilon alpha^(k/(k-1)) m)
        + ln(R sqrt(m))/epsilon,

as AKMMSU24 have it. Of T only the accuracy depends on the law, and not the privacy.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.heavy_tailed import best_clip
from dpbench.estimators.ksu20 import KSU20Mean
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.histogram import audit_pairs, fullest_bin
from dpbench.privacy.neighbours import Pair
from dpbench.registry import MomentOrder, Probability, Radius, validated
from dpbench.samples import Bins, Sample

__all__ = ["PersonMean"]


@validated
class PersonMean(Estimator):
    """People's means around a private bin, clipped and averaged with noise.

    The module derives it. A tenth of the people find the bin, or as many as leave it wrong with
    probability 0.1 at most, up to a half; the others are averaged. Each has the whole budget.

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment of single records.
    m : int
        Records of each person.
    radius : float >= 0
        R, a bound on abs(mu).
    beta : float in (0, 1)
        Failure probability that T is tuned for.
    """

    k: MomentOrder
    m: Annotated[int, Field(ge=1, le=10**6)]
    radius: Radius
    beta: Probability = 0.1

    @property
    def _half_bin(self) -> float:
        """Half the width of a bin, r."""
        return float(np.sqrt(2 / self.m))

    @property
    def _bins(self) -> Bins:
        """One of them is around 0."""
        r = self._half_bin
        return Bins(2 * r, -self.radius - r, self.radius + r, aligned=-r)

    def averaged(self, n: int, budget: Budget) -> int:
        """The people whose means are averaged, n'."""
        # In units of 1/sqrt(m) means have a second moment of 1.
        radius = min(self.radius * np.sqrt(self.m), 1e300)
        return KSU20Mean(k=2, radius=radius, constants="tuned").averaged(n, budget)

    def half_width(self, n: int, budget: Budget) -> float:
        """Of the clip of n people's means."""
        effective = n / budget.noise_quantile(self.beta)
        light = np.sqrt(2 * np.log(max(effective, float(np.exp(1)))) / self.m)
        heavy, _ = best_clip(self.k, 0.0, self.beta, effective * self.m, budget)
        off = self._half_bin + 2 / np.sqrt(self.m)
        return float(off + max(light, heavy / self.m))

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        n = self.averaged(sample.n, ledger.budget)
        coarse, fine = ledger.parallel(2)
        first, rest = sample.split([sample.n - n, n], ledger.rng)
        middle = fullest_bin(first, self._bins, coarse) + self._half_bin
        return noisy_clipped_mean(rest, middle, self.half_width(n, ledger.budget), fine)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        return audit_pairs(n, self._bins, budget)
