"""Confidence intervals that shrink: clip, average, draw a new interval, repeat.

References
----------
.. [1] G. Kamath, lecture 15 of CS 860, 'Shrinking Confidence Intervals', Claim 4.
.. [2] S. Biswas, Y. Dong, G. Kamath, J. Ullman, "CoinPress: practical private mean and
   covariance estimation", NeurIPS 2020 (BDKU20).
"""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import ndtri

from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.gaussian import Positive, gaussian_tail
from dpbench.privacy import Budget, Ledger
from dpbench.registry import Probability, Radius, validated
from dpbench.samples import Sample

__all__ = ["Rounds", "ShrinkingIntervals", "shares"]

Rounds = Annotated[int, Field(ge=1, le=1000)]


def shares(rounds: int) -> list[float]:
    """What each round spends: a quarter over all but the last, the rest on the last [2]_."""
    return [1.0] if rounds == 1 else [1 / (4 * (rounds - 1))] * (rounds - 1) + [0.75]


@validated
class ShrinkingIntervals(Estimator):
    """Rounds of a naive Gaussian mean, each within the interval of the one before.

    A round knows that the mean is in c +- w. It clips to c +- (w + t), with
    t = sigma sqrt(2 ln(2n/beta)), and adds noise of sensitivity 2 (w + t)/n to the mean:
    the new c. The new w is a bound on the sampling error plus one on the noise, each
    exceeded with probability beta/(2 rounds), so that all intervals hold the mean with
    probability 1 - beta as long as no record is clipped. Where n is too small for a
    narrower interval the old one stays. The budget is cut as in `shares`.

    Parameters
    ----------
    radius : float >= 0
        R: the first interval is [-R, R].
    rounds : int, optional
        By default 2 + floor(ln(1 + R/sigma)): if every round but the last shrinks the
        interval by a factor e, these are enough.
    sigma : float > 0
        Standard deviation of a record.
    beta : float in (0, 1)
        Probability that an interval misses, and that a record is clipped.
    report : int, optional
        Report the mean and the interval of this round instead of the last; the later
        rounds are paid for all the same.
    """

    radius: Radius
    rounds: Rounds | None = None
    sigma: Positive = 1.0
    beta: Probability = 0.1
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
        """The w of every round, the first of which is R and none wider than before.

        No data enter.
        """
        t = self.sigma * gaussian_tail(n, self.beta)
        miss = self.beta / (2 * self.cuts)
        sampling = -float(ndtri(miss / 2)) * self.sigma / float(np.sqrt(n))
        widths = [self.radius]
        for share in shares(self.cuts):
            noise = budget.fraction(share).noise_quantile(miss)
            widths.append(min(widths[-1], sampling + 2 * (widths[-1] + t) / n * noise))
        return widths

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        t = self.sigma * gaussian_tail(sample.n, self.beta)
        widths = self.half_widths(sample.n, ledger.budget)
        centre = np.zeros(sample.trials)
        found = []
        for j, part in enumerate(ledger.split(*shares(self.cuts))):
            released = noisy_clipped_mean(sample, centre, widths[j] + t, part)
            if widths[j + 1] < widths[j]:
                centre = released.value
            interval = (centre - widths[j + 1], centre + widths[j + 1])
            found.append(
                Estimate(np.clip(released.value, *interval), released.before_noise, interval)
            )
        return found[(self.report or self.cuts) - 1]

    def private_terms(
        self, alpha: float, beta: float, n: float, budget: Budget
    ) -> dict[str, float]:
        t = self.sigma * gaussian_tail(n, self.beta)
        last = budget.fraction(shares(self.cuts)[-1])
        return {"privacy": 2 * t * last.noise_quantile(beta) / alpha}
