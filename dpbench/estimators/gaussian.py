"""Private means of Gaussian records by a wide clip, a private median or shrinking intervals (L15).

Let mu be the mean of the records, n their number, sigma their standard deviation, and beta a
failure probability. With probability at least 1 - beta all records are within
t = sigma sqrt(2 ln(2n/beta)) of mu (`_GaussianMean.tail`). R is a public bound on abs(mu).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import ndtri

from dpbench.estimators.assumptions import Assumption, GaussianSpread, MeanWithin
from dpbench.estimators.base import Estimate, Estimator, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.quantile import private_quantile
from dpbench.registry import Deviation, Probability, Radius, validated
from dpbench.samples import Sample

__all__ = ["MedianThenClippedMean", "NaiveGaussianMean", "ShrinkingIntervals"]

Positive = Annotated[float, Field(gt=0, le=1e300)]
Rounds = Annotated[int, Field(ge=1, le=1000)]


def gaussian_tail(n: float, beta: float) -> float:
    """Return a bound on the absolute values of n standard Gaussians, sqrt(2 ln(2n/beta)).

    By a union bound, all n absolute values are below the bound with probability 1 - beta.
    """
    return float(np.sqrt(2 * np.log(2 * n / beta)))


@validated
class _GaussianMean(Estimator):
    """Base class of estimators of a Gaussian mean with known standard deviation.

    Parameters
    ----------
    radius : float >= 0
        Public bound on the absolute value of the mean, in the unit of the data.
    sigma : float > 0
        Known standard deviation of a record, in the unit of the data.
    beta : float in (0, 1)
        Bound on the probability that some record is clipped.
    """

    radius: Radius
    sigma: Deviation
    beta: Probability = 0.1

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        spread = GaussianSpread(self.sigma)
        return spread, MeanWithin(self.radius, spread)

    def tail(self, n: float) -> float:
        """Return a distance t such that all n records are within t of the mean.

        The probability that all are within t is at least 1 - beta.
        """
        return self.sigma * gaussian_tail(n, self.beta)


@validated
class NaiveGaussianMean(_GaussianMean):
    """Gaussian mean with noise, after a clip that is wide enough for all records (L15, Theorem 1).

    R = `radius` is a public bound on the absolute value of the mean. With probability 1 - beta all
    n records are within t = sigma sqrt(2 ln(2n/beta)) of the mean. So records are clipped to
    +-(R + t). A replaced record moves the clipped mean by at most 2 (R + t)/n.
    """

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bound = self.radius + self.tail(sample.n)
        return noisy_clipped_mean(sample, 0.0, bound, ledger)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        unit = 2 * budget.noise_quantile(beta) / alpha
        return {"privacy": unit * self.tail(n), "range": unit * self.radius}


@validated
class MedianThenClippedMean(_GaussianMean):
    """Gaussian mean by a private median and a clip around it (L15, Theorem 2).

    L15 names this method as the third proof of Theorem 2. R = `radius` is a public bound on the
    absolute value of the mean, and n the number of records. With probability 1 - beta all records
    are within t = sigma sqrt(2 ln(2n/beta)) of the mean. Half of the budget pays for a median on
    +-(R + t) by the exponential mechanism, with resolution sigma (`private_quantile`). The other
    half pays for the mean of the records clipped to median +- 2t, of sensitivity 4t/n.
    """

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        coarse, fine = ledger.split(0.5, 0.5)
        t = self.tail(sample.n)
        bound = self.radius + t
        centre = private_quantile(sample, 0.5, -bound, bound, self.sigma, coarse)
        return noisy_clipped_mean(sample, centre, 2 * t, fine)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        # Points of the worst score, -n/2, fill +-(R + t); points of score 0 fill 2 sigma.
        half, t = budget.fraction(0.5), self.tail(n)
        log_ratio = float(np.log((self.radius + t) / (self.sigma * beta)))
        return {
            "privacy": 4 * t * half.noise_quantile(beta) / alpha,
            "range": 4 / half.exponential_epsilon * log_ratio,
        }


def shares(rounds: int) -> list[float]:
    """Return the share of the privacy budget that each round of an estimator gets, as in BDKU20.

    The last round gets 3/4; the other rounds share 1/4 equally. A single round gets all.
    """
    return [1.0] if rounds == 1 else [1 / (4 * (rounds - 1))] * (rounds - 1) + [0.75]


@validated
class ShrinkingIntervals(_GaussianMean):
    """Gaussian mean by shrinking confidence intervals, round by round (L15, Claim 4).

    With probability 1 - beta all n records are within t = sigma sqrt(2 ln(2n/beta)) of the mean.
    Each round starts from an interval c +- w that holds the mean. It clips records to c +- (w + t)
    and releases their mean with noise of sensitivity 2 (w + t)/n; this is the new c. The new w is a
    bound on the sampling error plus a bound on the noise. Each bound is exceeded with probability
    beta/(2 rounds). So all intervals hold the mean with probability 1 - beta, provided that no
    record is clipped. If n is too small for a narrower interval, the old interval stays, and the
    release is clipped to it.

    Parameters
    ----------
    radius : float >= 0
        Public bound R on the absolute value of the mean, in the unit of the data: the first
        interval is [-R, R].
    rounds : int, optional
        Number of rounds; default 2 + floor(ln(1 + R/sigma)), which is enough if every round but
        the last shrinks the interval e-fold.
    beta : float in (0, 1)
        Bound on the probability that an interval misses the mean; also on the probability that
        some record is clipped.
    reported_round : int, optional
        Round whose estimate is released, counted from 1; default: the last. Later rounds spend
        their budget, too.
    """

    rounds: Rounds | None = None
    reported_round: Rounds | None = None

    @model_validator(mode="after")
    def _check_reported_round(self) -> Self:
        if self.reported_round is not None and self.reported_round > self.cuts:
            raise ValueError(
                f"reported_round is {self.reported_round}, and there are {self.cuts} rounds"
            )
        return self

    @property
    def cuts(self) -> int:
        """Number of rounds, each of which may shrink the confidence interval."""
        return self.rounds or 2 + int(np.log1p(min(self.radius / self.sigma, 1e300)))

    def half_widths(self, n: int, budget: Budget) -> list[float]:
        """Return the half-widths of the confidence interval, before the first round and after each.

        The first half-width is `radius`. Half-widths never grow from round to round. They are in
        the unit of the data, and there is one more than there are rounds. The budget is that of all
        rounds together.
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
        releases = []
        for j, part in enumerate(ledger.split(*shares(self.cuts))):
            released = noisy_clipped_mean(sample, centre, widths[j] + t, part)
            if widths[j + 1] < widths[j]:
                centre = released.value
            interval = (centre - widths[j + 1], centre + widths[j + 1])
            value = np.clip(released.value, *interval)
            releases.append(Estimate(value, released.before_noise, interval))
        return releases[(self.reported_round or self.cuts) - 1]

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        last = budget.fraction(shares(self.cuts)[-1])
        return {"privacy": 2 * self.tail(n) * last.noise_quantile(beta) / alpha}
