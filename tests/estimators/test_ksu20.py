"""KSU20's range and mean: the letter of the algorithms, their cost, and their guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpbench.distributions import TwoPoint
from dpbench.estimators import Estimate, Estimator, KSU20Mean, KSU20Range, ksu20
from dpbench.estimators.ksu20 import accuracy_for, samples_for
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.samples import Bins, CountedSample, DenseSample, Sample

Floats = NDArray[np.float64]
FALSE_ALARM = 1e-6
THREE: list[Budget] = [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)]
each_notion = pytest.mark.parametrize("budget", THREE, ids=lambda b: b.label)


def run(estimator: Estimator, sample: Sample, budget: Budget, seed: int = 0) -> Estimate:
    return estimator.run(sample, Ledger(budget, np.random.default_rng(seed)))


class Step:
    """A histogram or a noisy mean: what it saw, and what it paid."""

    def __init__(self, ledger: Ledger, sample: Sample | None, **seen: Any) -> None:
        self.ledger, self.sample, self.seen = ledger, sample, seen


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Step]]:
    """All histograms and noisy means of a run."""
    found: dict[str, list[Step]] = {"bins": [], "means": []}
    fullest, noisy = ksu20.fullest_bin, ksu20.noisy_clipped_mean

    def spy_bins(sample: Sample, bins: Bins, ledger: Ledger) -> Floats:
        left = fullest(sample, bins, ledger)
        found["bins"].append(Step(ledger, sample, bins=bins, left=left))
        return left

    def spy_means(sample: Sample, centre: Any, half_width: Any, ledger: Ledger) -> Estimate:
        mean = noisy(sample, centre, half_width, ledger)
        found["means"].append(Step(ledger, sample, centre=centre, width=half_width, mean=mean))
        return mean

    monkeypatch.setattr(ksu20, "fullest_bin", spy_bins)
    monkeypatch.setattr(ksu20, "noisy_clipped_mean", spy_means)
    return found


@pytest.mark.parametrize("k", [2, 3, 4.5])
@pytest.mark.parametrize("alpha", [0.06, 1e-3])
@pytest.mark.parametrize("radius", [0.0, 7.0, 1e9])
def test_the_bins_of_the_range(
    steps: dict[str, list[Step]], k: float, alpha: float, radius: float
) -> None:
    for constants, c in (("paper", 10.0), ("practical", 2.0)):
        estimator = KSU20Range.build(
            {"kind": "ksu20_range", "k": k, "alpha": alpha, "radius": radius, "constants": constants}
            if False
            else {},
            "",
        ) if False else None
