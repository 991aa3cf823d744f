"""The mean of a Gaussian in [-R, R] (L15): clip all of it, find it first, or shrink an interval.

With probability 1 - beta all n records are within t = sigma sqrt(2 ln(2n/beta)) of the mean.
"""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import ndtri

from dpbench.estimators.base import Estimate, Estimator, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.quantile import private_quantile
from dpbench.registry import Probability, Radius, validated
from dpbench.samples import Sample

__all__ = ["ExponentialCoarseMean", "NaiveGaussianMean", "ShrinkingIntervals"]

Positive = Annotated[float, Field(gt=0, le=1e300)]
Rounds = Annotated[int, Field(ge=1, le=1000)]


def gaussian_tail(n: float, beta: float) -> float:
    """The t that n standard Gaussians all keep within, with probability 1 - beta."""
    return float(np.sqrt(2 * np.log(2 * n / beta)))


@validated
class _GaussianMean(Estimator):
    """Of Gaussian records.

    Parameters
    ----------
    radius : float >= 0
        R, a bound on abs(mu).
    sigma : float > 0
        Standard deviation of a record.
    beta : float in (0, 1)
        Probability that a record is clipped.
    """

    radius: Radius
    sigma: Positive = 1.0
    beta: Probability = 0.1

    def tail(self, n: float) -> float:
        """The t of the module."""
        return self.sigma * gaussian_tail(n, self.beta)


@validated
class NaiveGaussianMean(_GaussianMean):
    """Clip to +-(R + t), average, add noise of sensitivity 2 (R + t)/n: L15, Theorem 1."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bound = self.radius + self.tail(sample.n)
        return noisy_clipped_mean(sample, 0.0, bound, ledger)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        unit = 2 * budget.noise_quantile(beta) / alpha
        return {"privacy": unit * self.tail(n), "range": unit * self.radius}


@validated
class ExponentialCoarseMean(_GaussianMean):
    """A private median finds the data, a clipped mean around it is released.

    The third proof of Theorem 2 that L15 names. Half of the budget: the median on +-(R + t) by the
    exponential mechanism, up to sigma. The other half: clip to that median +- 2t and add noise of
    sensitivity 4t/n.
    """

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        coarse, fine = ledger.split(0.5, 0.5)
        t = self.tail(sample.n)
        bound = self.radius + t
        centre = private_quantile(sample, 0.5, -bound, bound, self.sigma, coarse)
        return noisy_clipped_mean(sample, centre, 2 * t, fine)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        # Points of score -n/2 fill +-(R + t), those of score 0 two sigma.
        half, t = budget.fraction(0.5), self.tail(n)
        log_ratio = float(np.log((self.radius + t) / (self.sigma * beta)))
        return {
            "privacy": 4 * t * half.noise_quantile(beta) / alpha,
            "range": 4 / half.exponential_epsilon * log_ratio,
        }


def shares(rounds: int) -> list[float]:
    """What each round spends: a quarter over all but the last, the rest on the last (BDKU20)."""
    return [1.0] if rounds == 1 else [1 / (4 * (rounds - 1))] * (rounds - 1) + [0.75]


@validated
class ShrinkingIntervals(_GaussianMean):
    """Rounds of a naive Gaussian mean, each within the interval of the one before.

    L15, 'Shrinking Confidence Intervals', Claim 4. A round knows that the mean is in c +- w. It
    clips to c +- (w + t) and adds noise of sensitivity 2 (w + t)/n to the mean: the new c. The new
    w is a bound on the sampling error plus one on the noise, each exceeded with probability
    beta/(2 rounds), so that all intervals hold the mean with probability 1 - beta as long as no
    record is clipped. Where n is too small for a narrower interval the old one stays.

    Parameters
    ----------
    radius : float >= 0
        R: the first interval is [-R, R].
    rounds : int, optional
        By default 2 + floor(ln(1 + R/sigma)), enough if all but the last shrink it e-fold.
    beta : float in (0, 1)
        Probability that an interval misses, and that a record is clipped.
    report : int, optional
        Report this round instead of the last; the later rounds are paid for all the same.
    """

    rounds: Rounds | None = None
    report: Rounds | None = None

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.report is not None and self.report > self.cuts:
            raise ValueError(f"report is {self.report}, and there are {self.cuts} rounds")
        return self

    @property
    def cuts(self) -> int:
        """The number of rounds."""
        return self.rounds or 2 + int(np.log1p(min(self.radius / self.sigma, 1e300)))

    def half_widths(self, n: int, budget: Budget) -> list[float]:
        """The w of every round, the first of which is R and none wider than before."""
        t = self.tail(n)
        miss = self.beta / (2 * self.cuts)
        sampling = -float(ndtri(miss / 2)) * self.sigma / float(np.sqrt(n))
        widths = [self.radius]
        for share in shares(self.cuts):
            noise = budget.fraction(share).noise_quantile(miss)
            widths.append(min(widths[-1], sampling + 2 * (widths[-1] + t) / n * noise))
        return widths

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        t = self.tail(sample.n)
        widths = self.half_widths(sample.n, ledger.budget)
        centre = np.zeros(sample.trials)
        found = []
        for j, part in enumerate(ledger.split(*shares(self.cuts))):
            released = noisy_clipped_mean(sample, centre, widths[j] + t, part)
            if widths[j + 1] < widths[j]:
                centre = released.value
            interval = (centre - widths[j + 1], centre + widths[j + 1])
            value = np.clip(released.value, *interval)
            found.append(Estimate(value, released.before_noise, interval))
        return found[(self.report or self.cuts) - 1]

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        last = budget.fraction(shares(self.cuts)[-1])
        return {"privacy": 2 * self.tail(n) * last.noise_quantile(beta) / alpha}
