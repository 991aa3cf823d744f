"""Private bootstrap: noisy means of resamples, and an interval from their spread (WCA22).

**Release.** The n records are clipped to a public interval [a, b] of width w. Each of B resamples
weights the records, and its mean is released with noise.

- Multinomial weights: a resample draws n records with replacement. `dpbench.privacy.resampling`
  bounds the privacy at every n and B, and proves the bound. WCA22 has it for B to infinity only.
- Halves: records are paired by index, and a resample has one record of each pair, with weight 2 (a
  last record without a pair has weight 1). Weights are random, but do not depend on the records.
  For each pair, exactly B/2 resamples have its first record. So a replaced record moves B/2 of the
  B means by at most 2w/n, given the weights. The vector of means has l2 sensitivity
  sqrt(2B) w/n and l1 sensitivity B w/n. This holds under every notion of privacy.

For B = 100, epsilon = 1 and delta = 1e-6, the noise of multinomial weights is 1.17 times the
Gaussian noise of B releases of the mean; that of halves is sqrt(2) times this noise.

**Interval.** Let v be the variance of the mean of n clipped records, and s^2 the variance of the
noise. Given the records, means of resamples have variance v, up to the error of the n records, and
nearly normal errors. Let C be the average of the B noisy means, and S the sum of their squared
distances from C.

1. S is w^2 times a chi-squared variable of B - 1 degrees of freedom, where w^2 = v + s^2. (For
   halves, w^2 = v B/(B - 1) + s^2, because deviations of the B means add up to 0 without noise.)
   So S over the beta/10 quantile of chi-squared is below w^2 with probability beta/10. This gives
   an upper bound on v.
2. The error of C has variance v (1 + 1/B) + s^2/B for multinomial weights, and v + s^2/B for
   halves. It is nearly normal. The half-width is the 1 - 0.9 beta/2 quantile, at the bound on v.
3. Hence C -+ the half-width misses the mean of clipped records with probability at most beta, up
   to the two approximations by normal distributions.

**Where it holds.** The approximations are good if the noise is larger than the spread of the mean,
or if n is large. They fail for rare events with little noise: records without an event tell nothing
of its frequency, and the error of the mean is skewed. In 4,000 simulations of zeros and ones, with
halves and beta = 0.05, 7.8 per cent of the intervals missed at n = 2000, 1 in 1000 records a one
and mu = 10 of Gaussian DP. At n = 50, 1 in 50 records a one and mu = 1000, 35 per cent missed. An
`AssumptionWarning` is given if too few records differ. Skewed records at small n give no warning.

WCA22 plugs in an estimate of v, and deconvolves the noisy means. Its interval lies between two
quantiles of the deconvolved distribution, which does not include the noise of C.

**Limits.** The intervals are for the mean of clipped records. Neither corrects the bias of the
clip, and no resampling of clipped records can: they do not show what was clipped. WCA22's example,
N(1/2, 1) clipped to [0, 1], has no bias, because it is symmetric.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import chdtri, ndtr, ndtri

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, ManyDifferences
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _ClippingEstimator
from dpbench.estimators.deconvolution import deconvolve
from dpbench.estimators.intervals import End
from dpbench.privacy import ApproxDP, Budget, Ledger
from dpbench.privacy.resampling import resampled_sd
from dpbench.registry import Probability, validated
from dpbench.samples import Sample
from dpbench.samples.binned import MAX_WHOLE_RECORDS

__all__ = ["PrivateBootstrapInterval"]

VARIANCE_SHARE = 0.1  # of beta, for the bound on the variance
ROOT2 = float(np.sqrt(2))


@validated
class PrivateBootstrapInterval(_ClippingEstimator):
    """Confidence interval from noisy means of bootstrap resamples (WCA22).

    The interval is for the mean of clipped records. Its coverage is approximate, and fails for rare
    events with little noise: `dpbench.estimators.private_bootstrap` derives privacy and coverage,
    and has measured rates. The estimate is the average of the noisy means.

    Parameters
    ----------
    lower, upper : float
        Public bounds, lower < upper, to which records are clipped, in the unit of the data.
    resamples : int in [2, 1000]
        Number B of resamples. Each has noise in proportion to sqrt(B), but the variance is
        estimated from B numbers.
    beta : float in (0, 1)
        Nominal probability that the interval misses the mean of clipped records, up to the
        approximations.
    weights : {'multinomial', 'halves'}
        Weights of records in a resample. ``multinomial``: draws with replacement, under
        (epsilon, delta)-DP only, with delta >= 1e-8. ``halves``: one record of each pair, under
        every notion, with an even B.
    method : {'normal', 'deconvolution'}
        ``normal``: the average of the noisy means, plus and minus a half-width. ``deconvolution``:
        quantiles of the distribution that g-modelling finds behind the noisy means (E16, NE20).
        This needs Gaussian noise.
    """

    lower: End
    upper: End
    resamples: Annotated[int, Field(ge=2, le=1000)] = 100
    beta: Probability = 0.1
    weights: Literal["multinomial", "halves"] = "multinomial"
    method: Literal["normal", "deconvolution"] = "normal"
    narrowed_by: ClassVar[tuple[str, ...]] = ("weights",)
    fewest_records: ClassVar[int] = 2

    @model_validator(mode="after")
    def _check_halves(self) -> Self:
        if self.weights == "halves" and self.resamples % 2:
            raise ValueError(
                f"resamples: {self.resamples}: must be even for weights: halves; add one"
            )
        return self

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return [*super().assumptions(n, d), ManyDifferences(n)]

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return (ApproxDP,) if self.weights == "multinomial" else self.notions

    @property
    def most_at_once(self) -> int | None:
        return MAX_WHOLE_RECORDS  # resamples draw from all records

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if sample.n < 2:
            raise ValueError(f"n: {sample.n}: one record has no variance; at least 2 are needed")
        if self.weights == "multinomial":
            means, noisy, sd = self._resample(sample, ledger)
        else:
            means, noisy, sd = self._halve(sample, ledger)
        low, high = self.ends(noisy, sd, sample.n)
        centre = self._centre
        return Estimate(
            centre + noisy.mean(axis=1),
            centre + means.mean(axis=1),
            interval=(centre + low, centre + high),
            miss=self.beta,
        )

    def ends(self, noisy: Floats, sd: float, n: int) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of the interval of each trial.

        `noisy` holds the means of B resamples in each trial, with noise of standard deviation `sd`.
        """
        b = self.resamples
        if self.method == "deconvolution":
            low, high = np.transpose([deconvolve(row / sd, self.beta) for row in noisy])
            return sd * low, sd * high
        centre = noisy.mean(axis=1)
        squares = np.square(noisy - centre[:, None]).sum(axis=1)
        bound = squares / chdtri(b - 1, 1 - VARIANCE_SHARE * self.beta)
        variance = np.maximum(bound - sd**2, 0.0)
        if self.weights == "multinomial":  # n records have n - 1 degrees of freedom
            error = variance * n / (n - 1) * (1 + 1 / b) + sd**2 / b
        else:
            error = variance * (b - 1) / b + sd**2 / b
        half = -ndtri((1 - VARIANCE_SHARE) * self.beta / 2) * np.sqrt(error)
        return centre - half, centre + half

    def _resample(self, sample: Sample, ledger: Ledger) -> tuple[Floats, Floats, float]:
        """Return means of resamples with replacement, these means with noise, and its size.

        The means are distances from the middle of the bounds, as in `_halve`.
        """
        budget, b, n = ledger.budget, self.resamples, sample.n
        assert isinstance(budget, ApproxDP)
        unit = resampled_sd(budget.epsilon, budget.delta, n, b)
        sd = ledger.noise_factor * unit * (self.upper / n - self.lower / n)
        means = np.empty((sample.trials, b))
        for trial in range(sample.trials):
            records = self._clipped(sample, trial, ledger.rng)
            for number in range(b):
                drawn = ledger.rng.integers(n, size=n, dtype=np.uint32)  # twice as fast as int64
                means[trial, number] = records[drawn].mean()
        ledger.pay(f"noisy means of {b} resamples with replacement")
        noise = sd * ledger.rng.standard_normal(means.shape)
        return means, ledger.record_output(means + noise), sd

    def _halve(self, sample: Sample, ledger: Ledger) -> tuple[Floats, Floats, float]:
        """Return means of random halves, these means with noise, and its standard deviation."""
        b, pairs = self.resamples, sample.n // 2
        signs = np.tile(np.repeat([1.0, -1.0], b // 2), (pairs, 1))
        means = np.empty((sample.trials, b))
        for trial in range(sample.trials):
            records = self._clipped(sample, trial, ledger.rng)
            differences = records[: 2 * pairs : 2] - records[1::2]
            ledger.rng.permuted(signs, axis=1, out=signs)
            means[trial] = records.mean() + differences / sample.n @ signs
        width = self.upper / sample.n - self.lower / sample.n
        l2, l1 = float(np.sqrt(2 * b)) * width, b * width
        noisy = ledger.add_noise(means, l2, l1=l1)
        if ledger.budget.gaussian(l1, l2):
            return means, noisy, float(ledger.budget.noise_tail(np.asarray(ndtr(-1.0)), l1, l2))
        return means, noisy, ROOT2 * ledger.noise_factor * l1 / ledger.budget.pure_epsilon

    @property
    def _centre(self) -> float:
        return self.lower / 2 + self.upper / 2

    def _clipped(self, sample: Sample, trial: int, rng: np.random.Generator) -> Floats:
        """Return one dataset's clipped records as distances from the middle of the bounds."""
        return np.clip(sample.records(trial, rng), self.lower, self.upper) - self._centre
