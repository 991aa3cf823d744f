"""Exact confidence interval for the mean of binary records, from a count with canonical noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from dpbench.estimators.assumptions import Assumption, RecordsInBox
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.binary_tests import LARGEST_N, binary_limit
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Probability, validated
from dpbench.samples import Sample

__all__ = ["BinaryInterval"]


@validated
class BinaryInterval(Estimator):
    """Exact confidence interval for the mean of binary records, by canonical noise (AS20, AV23).

    AS20 and AV23, theorem numbers not checked. A record of 1/2 or more counts as a one, any other
    as a zero. So the estimand is the mean of the rounded records. Replacing one record changes the
    number of ones by at most 1. This number gets canonical noise of sensitivity 1: Tulap noise
    under pure and (epsilon, delta)-DP, Gaussian noise under Gaussian DP and zCDP. The limits invert
    one-sided tests (`dpbench.estimators.binary_tests`). The interval misses a mean in (0, 1) with
    probability `beta` exactly, at every n. The estimate is the noisy count over n. It is unbiased,
    may lie outside of [0, 1], and is the input of `binary_p_value`. At most 1e6 records are
    accepted.

    Parameters
    ----------
    beta : float in (0, 1)
        Probability that the interval misses the mean. If the mean is 0 or 1, an interval with two
        limits misses it with probability beta/2, and one with one limit with probability beta or 0.
    side : {'both', 'lower', 'upper'}
        Limits of the interval. The interval ends at 1 if there is only a lower limit, and at 0 if
        there is only an upper limit. Two limits miss with probability beta/2 each.
    """

    beta: Probability = 0.1
    side: Literal["both", "lower", "upper"] = "both"

    @property
    def most_records(self) -> int:
        return LARGEST_N

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (RecordsInBox(0.0, 1.0),)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        ones, n = sample.count(0.5, np.inf), sample.n
        noisy = ledger.add_canonical_noise(ones, 1)
        noise, factor = ledger.budget.canonical_noise, ledger.noise_factor
        beta = self.beta / 2 if self.side == "both" else self.beta
        low, high = np.zeros_like(noisy), np.ones_like(noisy)
        if self.side != "upper":
            low = binary_limit(noisy, n, beta, noise, factor)
        if self.side != "lower":
            high = 1 - binary_limit(n - noisy, n, beta, noise, factor)
        return Estimate(noisy / n, ones / n, interval=(low, high), miss=self.beta)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # All records count as zeros, and the replacement makes the first a one.
        return [Pair.replacing("about_to_round", np.full(n, 0.25), 0, 0.5)]
