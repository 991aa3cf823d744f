"""The binary mean with the smallest worst squared error that epsilon-DP allows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.binary_risk import LARGEST_N, binary_minimax
from dpbench.privacy import ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["BinaryMinimax"]


@validated
class BinaryMinimax(Estimator):
    """Count the ones, add geometric noise, look the answer up: minimax under epsilon-DP.

    GRS09, GS10; see `dpbench.estimators.binary_risk`. A record of 1/2 or more is a one, any other
    a zero: of records in between, the mean of what they are rounded to is estimated. One record
    moves the count by at most 1. At most 1000 records; (epsilon, delta) pays for epsilon-DP, where
    other noise may do better.
    """

    notions: ClassVar[tuple[type[Budget], ...]] = (PureDP, ApproxDP)

    @property
    def most_records(self) -> int:
        return LARGEST_N

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        rule = binary_minimax(sample.n, ledger.budget.pure_epsilon).rule
        ones = sample.count(0.5, np.inf)
        noisy = ledger.add_geometric_noise(ones, 1)
        return Estimate(rule[np.clip(noisy, 0, sample.n).astype(int)], rule[ones.astype(int)])

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # One one among zeros: the noise that a release says most of.
        return [Pair.replacing("about_to_round", np.full(n, 0.25), 0, 0.5)]
