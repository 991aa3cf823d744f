"""Confidence interval around Huber's location, by noisy gradient descent (YRZ24).

The n records have a standard deviation of at most s (`scale`). The budget is mu-GDP, or pays for
the Gaussian noise of mu-GDP. It is divided equally over T gradient steps and the variance, so that
each of the T + 1 parts is (mu/sqrt(T + 1))-GDP.

1. Mean. Step t ends at m_t + Z_t. Here m_t is the mean of the records, each clipped to the distance
   tau from m_(t-1) + Z_(t-1), and m_0 + Z_0 = 0. A replaced record moves m_t by at most 2 tau/n,
   given the start of the step. YRZ24 takes T = floor(ln n) and

       tau = (s/2) (mu n/sqrt(n (1 + ln n)))^(1/2).

2. Variance. V is the noisy mean of (x - y)^2/2 over m = floor(n/2) disjoint pairs of records,
   each term clipped to [0, xi] with xi = 10 s^2 sqrt(n/ln n). A record is in one pair at most, so
   the mean has sensitivity xi/m. (YRZ24 takes squared distances of all records from the released
   mean, clipped at xi, with half of the sensitivity.)
3. Interval. Let q be the share of the records farther than tau from the start of a step. A start
   that is off by e moves the end of its step by q e. So the error of the last step is that of m_T
   plus Z_T, up to q times the error before. For small q it is nearly normal with the variance
   Var(x)/n plus the variance v of Z_T. The interval is the end of step T, -+ the 1 - beta/2 normal
   quantile times sqrt(V/n + v). It does not correct the bias of the clip.

Only the noise of the last gradient step reaches the release, and this step has a share 1/(T + 1)
of the budget. `GradientDescentMean` averages its steps. For the same clip and T, its noise is
smaller by the factor sqrt(4/(3T)) at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from scipy.special import ndtri

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, MomentSpread
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.coinpress import rho_of, to_gdp
from dpbench.estimators.gradient_descent import Steps
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger
from dpbench.registry import Deviation, Probability, validated
from dpbench.samples import Sample
from dpbench.samples.binned import MAX_WHOLE_RECORDS

__all__ = ["HuberInterval"]


@validated
class HuberInterval(Estimator):
    """Mean by noisy gradient descent on Huber's loss, with a confidence interval (YRZ24).

    YRZ24, the noisy Huber mean and its private interval (numbers of the algorithms not checked).
    The docstring of `dpbench.estimators.huber_interval` has the steps and their sensitivities.
    YRZ24 also estimates the scale from a histogram of the records; its public code does so without
    protection (ERRATA.md), and the scale is public here.

    The descent starts at 0, and a step has length tau at most. So a mean farther from 0 than about
    T tau is not reached. Where n is small, tau grows with the budget only as its square root: the
    bias of the clip may exceed the width of the interval for skewed records.

    Parameters
    ----------
    scale : float > 0
        Public bound s on the standard deviation of a record, in the unit of the data.
    beta : float in (0, 1)
        Nominal probability that the interval misses the mean. It is not a bound.
    steps : int, optional
        Number T of gradient steps; floor(ln n), at least 1, by default.
    """

    scale: Annotated[Deviation, Field(le=1e140)]  # squares do not overflow
    beta: Probability = 0.1
    steps: Steps | None = None
    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    fewest_records: ClassVar[int] = 2  # one record makes no pair

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (MomentSpread(2.0, self.scale),)

    @property
    def most_at_once(self) -> int | None:
        return MAX_WHOLE_RECORDS  # because of the pairs of records

    def clip(self, n: int, ledger: Ledger) -> float:
        """Return tau for n records and the whole budget of a GDP or zCDP ledger."""
        mu = np.sqrt(2 * rho_of(ledger.budget))
        return float(self.scale / 2 * np.sqrt(mu * np.sqrt(n / (1 + np.log(n)))))

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        n, ledger = sample.n, to_gdp(ledger)
        tau = self.clip(n, ledger)
        steps = self.steps or max(1, int(np.log(n)))
        *parts, last = ledger.split(*[1 / (steps + 1)] * (steps + 1))
        release = Estimate(np.zeros(sample.trials), np.zeros(sample.trials))
        for part in parts:
            release = noisy_clipped_mean(sample, release.value, tau, part)
        squares = sample.half_squared_differences(ledger.rng)
        half = 5 * self.scale**2 * np.sqrt(n / np.log(n))  # xi/2
        variance = noisy_clipped_mean(squares, half, half, last).value
        noise = (ledger.noise_factor * 2 * tau / n) ** 2 / (2 * rho_of(parts[-1].budget))
        width = -ndtri(self.beta / 2) * np.sqrt(np.maximum(variance, 0.0) / n + noise)
        ends: tuple[Floats, Floats] = (release.value - width, release.value + width)
        return Estimate(release.value, release.before_noise, interval=ends, miss=self.beta)
