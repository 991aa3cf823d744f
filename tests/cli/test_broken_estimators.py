"""Estimators that are wrong on purpose, and the claims that catch them."""

from __future__ import annotations

import pytest

import dpbench
from dpbench import Estimate, Ledger, PureDP, validated
from dpbench.estimators import HeavyTailedMean
from dpbench.privacy import Budget
from dpbench.samples import Sample


@validated
class _HalvedNoise(HeavyTailedMean):
    """Half the noise that its privacy needs."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        found = super().estimate(sample, ledger)
        return Estimate((found.value + found.before_noise) / 2, found.before_noise)


@validated
class _NeverClips(HeavyTailedMean):
    """A threshold that no record reaches, with noise for one that does."""

    def clipping_threshold(self, n: int, budget: Budget) -> float:
        return float(10.0 * n ** (1 / self.k))


@pytest.mark.parametrize(
    ("near", "slope", "caught"),
    [(HeavyTailedMean, HeavyTailedMean, False), (_HalvedNoise, _NeverClips, True)],
)
def test_claims_catch_broken_estimators(
    near: type[HeavyTailedMean], slope: type[HeavyTailedMean], *, caught: bool
) -> None:
    """One by a claim about the error, the other by one about its exponent in epsilon."""
    about = {"tolerance": 0.05, "reason": "as in the shipped sweep"}
    part = {
        "n": {"low": 1e5, "high": 1e12, "points": 4},
        "trials": 400,
        "claims": {
            "near": {"theorem": "near_optimal", "estimators": "near", **about},
            "slope": {"theorem": "heavy_tail_epsilon", "estimators": "slope", **about},
        },
    }
    members = [0, 0.1, 0.3, 1, 2, 3, 10, 30, 100]
    spec = {
        "families": {"two_point": {"kind": "two_point_family", "k": 2, "c": members}},
        "estimators": {"near": near(k=2), "slope": slope(k=2)},
        "budgets": {"low": PureDP(0.001), "high": PureDP(0.01)},
        "parts": {"all": part},
    }
    found = dpbench.run(spec, n_jobs=1).claims
    verdicts = found.groupby("estimator")["verdict"].unique()
    assert set(verdicts.index) == {"near", "slope"}
    for verdict in verdicts:
        assert set(verdict) == {"inconsistent"} if caught else "inconsistent" not in verdict
