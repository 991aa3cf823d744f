"""Minimax mean of binary records under epsilon-DP, from a count with geometric noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from dpbench.estimators.assumptions import Assumption, RecordsInBox
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

    GRS09 and GS10, theorem numbers not checked. A record of 1/2 or more counts as a one, any other
    as a zero. So the estimand is the mean of the rounded records. Replacing one record changes the
    number of ones by at most 1. This number gets two-sided geometric noise with sensitivity 1, and
    a fixed rule maps the noisy count to the estimate. `dpbench.estimators.binary_risk` computes the
    rule; its worst-case squared error exceeds the smallest possible one by at most 0.3 per cent. At
    most 1000 records are accepted. Under (epsilon, delta) the release is epsilon-DP, and other
    noise may have a smaller error.
    """

    notions: ClassVar[tuple[type[Budget], ...]] = (PureDP, ApproxDP)

    @property
    def most_records(self) -> int:
        return LARGEST_N

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (RecordsInBox(0.0, 1.0),)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        rule = binary_minimax(sample.n, ledger.budget.pure_epsilon).rule
        ones = sample.count(0.5, np.inf)
        noisy = ledger.add_geometric_noise(ones, 1)
        return Estimate(rule[np.clip(noisy, 0, sample.n).astype(int)], rule[ones.astype(int)])

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # All records count as zeros, and the replacement makes the first a one.
        return [Pair.replacing("about_to_round", np.full(n, 0.25), 0, 0.5)]
