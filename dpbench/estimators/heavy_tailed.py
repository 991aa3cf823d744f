"""Means of heavy-tailed data: clip where clipping bias and noise balance.

The class is E|X - mu|^k <= 1 with mu known to lie in [-R, R]; R = 0 stands for a mean
known up to the error that is sought. Clipping to +-(R + T) biases the mean by at most
E(|X - mu| - T)_+. Since (x - T)_+ <= b x^k with equality at x = kT/(k-1) for
b = (k-1)^(k-1)/(k^k T^(k-1)), that is at most b, which the bias of two-point laws
approaches as T grows. See KSU20, section 3 and Theorem 3.5.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from dpbench.estimators.base import Estimate, Estimator, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.privacy import Budget, Ledger
from dpbench.registry import MomentOrder, Probability, Radius, validated
from dpbench.samples import Sample

__all__ = ["HeavyTailedMean", "LocalMean", "worst_clipping_bias"]


def worst_clipping_bias(threshold: float, k: float) -> float:
    """The largest E(|X - mu| - T)_+ over E|X - mu|^k <= 1: the module's b."""
    return float(((k - 1) / k) ** (k - 1) / k * threshold ** -(k - 1))  # k^k may overflow


@validated
class _Clipped(Estimator):
    """To +-(R + T), where T depends on public numbers only: n, the budget and the parameters.

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment.
    radius : float >= 0
        R, a bound on abs(mu).
    beta : float in (0, 1)
        Failure probability that T is tuned for.
    """

    k: MomentOrder
    radius: Radius = 0.0
    beta: Probability = 0.1


@validated
class HeavyTailedMean(_Clipped):
    """Clip to +-(R + T), average, add noise of sensitivity 2 (R + T)/n.

    Parameters
    ----------
    policy : {'minimax', 'rate', 'all'}
        How T is chosen. With q the 1 - beta quantile of the budget's noise at
        sensitivity 1 (``ln(1/beta)/epsilon`` for pure DP):

        - ``minimax``: T = ((k-1)/k) (n/(2q))^(1/k), which minimises the worst bias plus the
          noise quantile, b(T) + 2 (R + T) q/n.
        - ``rate``: T = c (n ln(1/beta)/q)^(1/k), that of KSU20 up to its constant.
        - ``all``: T = (n/beta)^(1/k), which keeps every record with probability 1 - beta by
          Markov's inequality and a union bound; tau = sqrt(n) of L15.
    c : float > 0
        The constant of ``rate``.
    clip_at : float > 0, optional
        This T, whatever the policy says.
    """

    policy: Literal["minimax", "rate", "all"] = "minimax"
    c: Annotated[float, Field(gt=0)] = 0.7
    clip_at: Annotated[float, Field(gt=0)] | None = None

    def clipping_threshold(self, n: int, budget: Budget) -> float:
        """The T of n records."""
        if self.clip_at is not None:
            return self.clip_at
        if self.policy == "all":
            return float((n / self.beta) ** (1 / self.k))
        effective = n / budget.noise_quantile(self.beta)
        if self.policy == "rate":
            return float(self.c * (effective * np.log(1 / self.beta)) ** (1 / self.k))
        return float((self.k - 1) / self.k * (effective / 2) ** (1 / self.k))

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bound = self.radius + self.clipping_threshold(sample.n, ledger.budget)
        return noisy_clipped_mean(sample, 0.0, bound, ledger)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        # At the T of `minimax` b(T) + 2Tq/n is (n/(2q))^(-(k-1)/k).
        if self.policy != "minimax" or self.radius or self.clip_at is not None:
            return {}
        return {"privacy": 2 * budget.noise_quantile(beta) * alpha ** (-self.k / (self.k - 1))}


@validated
class LocalMean(_Clipped):
    """Each record clipped to +-(R + T) and released with its own noise; their average.

    The local model (DJW13, Corollary 1; KSU20, section 1.2). Every record pays the whole budget,
    in parallel. A clipped record has sensitivity 2 (R + T). With q as in `HeavyTailedMean`,
    T = (n (ln(1/beta)/q)^2)^(1/(2k)), (n epsilon^2)^(1/(2k)) for pure DP.
    """

    def clipping_threshold(self, n: int, budget: Budget) -> float:
        """The T of n records."""
        epsilon = np.log(1 / self.beta) / budget.noise_quantile(self.beta)
        return float((n * epsilon**2) ** (1 / (2 * self.k)))

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bound = self.radius + self.clipping_threshold(sample.n, ledger.budget)
        clipped = sample.clipped_mean(-bound, bound)
        return Estimate(ledger.add_noise(clipped, 2 * bound, draws=sample.n), clipped)
