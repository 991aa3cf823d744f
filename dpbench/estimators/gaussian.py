"""The mean of a Gaussian in [-R, R]: clip all of it at once, or find it first.

With t = sigma sqrt(2 ln(2n/beta)) all n records are within t of the mean with probability
1 - beta.

References
----------
.. [1] G. Kamath, lecture 15 of CS 860, Theorems 1 and 2.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.quantile import private_quantile
from dpbench.registry import Probability, Radius, validated
from dpbench.samples import Sample

__all__ = ["ExponentialCoarseMean", "NaiveGaussianMean", "gaussian_tail"]

Positive = Annotated[float, Field(gt=0, le=1e300)]


def gaussian_tail(n: float, beta: float) -> float:
    """The t that n standard Gaussians all keep within, with probability 1 - beta."""
    return float(np.sqrt(2 * np.log(2 * n / beta)))


@validated
class NaiveGaussianMean(Estimator):
    """Clip to +-(R + t), average, add noise: Theorem 1 of [1]_.

    The sensitivity is 2 (R + t)/n.

    Parameters
    ----------
    radius : float >= 0
        R, a bound on the mean's absolute value.
    sigma : float > 0
        Standard deviation of a record.
    beta : float in (0, 1)
        Probability that a record is clipped.
    """

    radius: Radius
    sigma: Positive = 1.0
    beta: Probability = 0.1

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bound = self.radius + self.sigma * gaussian_tail(sample.n, self.beta)
        return noisy_clipped_mean(sample, 0.0, bound, ledger)

    def private_terms(
        self, alpha: float, beta: float, n: float, budget: Budget
    ) -> dict[str, float]:
        t = self.sigma * gaussian_tail(n, self.beta)
        unit = 2 * budget.noise_quantile(beta) / alpha
        return {"privacy": unit * t, "range": unit * self.radius}


@validated
class ExponentialCoarseMean(Estimator):
    """A private median finds the data, a clipped mean around it is released.

    The third proof of Theorem 2 that [1]_ names. Half of the budget: the median on
    +-(R + t) by the exponential mechanism, up to sigma. The other half: clip to that
    median +- 2t and add noise of sensitivity 4t/n.

    Parameters
    ----------
    radius, sigma, beta
        As for `NaiveGaussianMean`.
    """

    radius: Radius
    sigma: Positive = 1.0
    beta: Probability = 0.1

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        coarse, fine = ledger.split(0.5, 0.5)
        t = self.sigma * gaussian_tail(sample.n, self.beta)
        bound = self.radius + t
        centre = private_quantile(sample, 0.5, -bound, bound, self.sigma, coarse)
        return noisy_clipped_mean(sample, centre, 2 * t, fine)

    def private_terms(
        self, alpha: float, beta: float, n: float, budget: Budget
    ) -> dict[str, float]:
        # Points of score -n/2 fill +-(R + t), those of score 0 two sigma.
        half = budget.fraction(0.5)
        t = self.sigma * gaussian_tail(n, self.beta)
        log_ratio = float(np.log((self.radius + t) / (self.sigma * beta)))
        return {
            "privacy": 4 * t * half.noise_quantile(beta) / alpha,
            "range": 4 / half.exponential_epsilon * log_ratio,
        }
