"""Means of Gaussians with abs(mu) <= R (L15): a wide clip, a private median, shrinking intervals.

Let n be the number of records, sigma their standard deviation and beta a failure probability. With
probability 1 - beta all records are within t = sigma sqrt(2 ln(2n/beta)) of the mean
(`_GaussianMean.tail`).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import ndtri

from dpbench.estimators.base import Estimate, Estimator, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.quantile import private_quantile
from dpbench.registry import Probability, Radius, validated
from dpbench.samples import Sample

__all__ = ["MedianThenClippedMean", "NaiveGaussianMean", "ShrinkingIntervals"]

Positive = Annotated[float, Field(gt=0, le=1e300)]
Rounds = Annotated[int, Field(ge=1, le=1000)]


def gaussian_tail(n: float, beta: float) -> float:
    """Return t = sqrt(2 ln(2n/beta)), which bounds n standard Gaussians with probability 1 - beta.

    Parameters
    ----------
    n : float >= 1
        Number of Gaussians.
    beta : float in (0, 1)
        Probability that one of them is beyond +-t (union bound).

    Returns
    -------
    float
    """
    return float(np.sqrt(2 * np.log(2 * n / beta)))


@validated
class _GaussianMean(Estimator):
    """Base class of estimators of a Gaussian mean with known standard deviation.

    Parameters
    ----------
    radius : float >= 0
        R, a public bound on abs(mu), in the unit of the data.
    sigma : float > 0
        Known standard deviation of a record.
    beta : float in (0, 1)
        Probability that some record is clipped.
    """

    radius: Radius
    sigma: Positive = 1.0
    beta: Probability = 0.1

    def tail(self, n: float) -> float:
        """Return t, the distance from the mean that n records keep with probability 1 - beta."""
        return self.sigma * gaussian_tail(n, self.beta)


@validated
class NaiveGaussianMean(_GaussianMean):
    """Gaussian mean by one wide clip to +-(R + t), averaged with noise: L15, Theorem 1.

    t = sigma sqrt(2 ln(2n/beta)) bounds the deviations of all records with probability 1 - beta.
    Replacing one record moves the clipped mean by at most 2 (R + t)/n.
    """

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bound = self.radius + self.tail(sample.n)
        return noisy_clipped_mean(sample, 0.0, bound, ledger)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        unit = 2 * budget.noise_quantile(beta) / alpha
        return {"privacy": unit * self.tail(n), "range": unit * self.radius}


@validated
class MedianThenClippedMean(_GaussianMean):
    """Gaussian mean by a private median (exponential mechanism) and a clip around it: L15.

    This is the third proof of Theorem 2 that L15 names. Half of the budget pays for the median on
    +-(R + t) by the exponential mechanism, up to sigma. The other half pays for the mean of the
    records clipped to that median +- 2t, of sensitivity 4t/n. Here t = sigma sqrt(2 ln(2n/beta)).
    """

    stream_name: ClassVar[str] = "ExponentialCoarseMean"

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        coarse, fine = ledger.split(0.5, 0.5)
        t = self.tail(sample.n)
        bound = self.radius + t
        centre = private_quantile(sample, 0.5, -bound, bound, self.sigma, coarse)
        return noisy_clipped_mean(sample, centre, 2 * t, fine)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        # Points of the worst score, -n/2, fill +-(R + t); points of score 0 fill two sigma.
        half, t = budget.fraction(0.5), self.tail(n)
        log_ratio = float(np.log((self.radius + t) / (self.sigma * beta)))
        return {
            "privacy": 4 * t * half.noise_quantile(beta) / alpha,
            "range": 4 / half.exponential_epsilon * log_ratio,
        }


def shares(rounds: int) -> list[float]:
    """Return the shares of the budget by round: 1/4 over all rounds but the last, 3/4 on the last.

    These are the shares of BDKU20; a single round gets the whole budget.
    """
    return [1.0] if rounds == 1 else [1 / (4 * (rounds - 1))] * (rounds - 1) + [0.75]


@validated
class ShrinkingIntervals(_GaussianMean):
    """Gaussian mean by shrinking confidence intervals, round by round: L15, Claim 4.

    Each round starts from an interval c +- w that holds the mean. It clips records to
    c +- (w + t), t = sigma sqrt(2 ln(2n/beta)), and releases their mean with noise of sensitivity
    2 (w + t)/n: the new c. The new w is a bound on the sampling error plus a bound on the noise,
    each exceeded with probability beta/(2 rounds). So all intervals hold the mean with
    probability 1 - beta, provided that no record is clipped. If n is too small for a narrower
    interval, the old interval stays.

    Parameters
    ----------
    radius : float >= 0
        R, a public bound on abs(mu), in the unit of the data: the first interval is [-R, R].
    rounds : int, optional
        Number of rounds; default 2 + floor(ln(1 + R/sigma)), which is enough if every round but
        the last shrinks the interval e-fold.
    beta : float in (0, 1)
        Probability that an interval misses the mean; also that some record is clipped.
    reported_round : int, optional
        Round whose estimate is released, counted from 1; default: the last. The later rounds are
        paid for all the same.
    """

    first_names: ClassVar[dict[str, str]] = {"reported_round": "report"}

    rounds: Rounds | None = None
    reported_round: Rounds | None = None

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.reported_round is not None and self.reported_round > self.cuts:
            raise ValueError(
                f"reported_round is {self.reported_round}, and there are {self.cuts} rounds"
            )
        return self

    @property
    def cuts(self) -> int:
        """Number of rounds."""
        return self.rounds or 2 + int(np.log1p(min(self.radius / self.sigma, 1e300)))

    def half_widths(self, n: int, budget: Budget) -> list[float]:
        """Return w before the first round (R) and after every round; w never grows.

        Parameters
        ----------
        n : int
            Number of records.
        budget : Budget
            Budget of all rounds together.

        Returns
        -------
        list of float
            1 + rounds half-widths, in the unit of the data.
        """
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
        return found[(self.reported_round or self.cuts) - 1]

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        last = budget.fraction(shares(self.cuts)[-1])
        return {"privacy": 2 * self.tail(n) * last.noise_quantile(beta) / alpha}
