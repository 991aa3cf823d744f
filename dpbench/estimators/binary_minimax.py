"""Minimax mean of binary records under epsilon-DP, by the geometric mechanism."""

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
    """Minimax mean of binary records under epsilon-DP, by geometric noise (GRS09, GS10).

    The number of ones gets two-sided geometric noise (one record moves it by at most 1), and a
    fixed rule maps the noisy count to the estimate. `dpbench.estimators.binary_risk` proves that
    the worst-case squared error is minimal, and computes the rule. A record of 1/2 or more counts
    as a one, any other as a zero; so the estimate is of the mean of the rounded records. At most
    1000 records. Under (epsilon, delta) it is epsilon-DP, and other noise may have a smaller error.
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
        # All records are zeros, and the replacement makes the first a one.
        return [Pair.replacing("about_to_round", np.full(n, 0.25), 0, 0.5)]
