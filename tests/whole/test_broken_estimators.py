"""Estimators that are wrong on purpose, and the claims that catch them."""

from __future__ import annotations

import pytest

import dpbench
from dpbench import Estimate, Ledger, PureDP, validated
from dpbench.estimators import TunedClippedMean
from dpbench.privacy import ApproxDP, Budget
from dpbench.samples import Sample


@validated
class _HalvedNoise(TunedClippedMean):
    """Half the noise that its privacy needs."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        found = super().estimate(sample, ledger)
        return Estimate((found.value + found.before_noise) / 2, found.before_noise)


@validated
class _NeverClips(TunedClippedMean):
    """A threshold that no record reaches, with noise for one that does."""

    def clipping_threshold(self, n: int, budget: Budget) -> float:
        return float(10.0 * n ** (1 / self.k))


@validated
class _Thrifty(TunedClippedMean):
    """Spends a part of the budget, of epsilon and of delta, on the first of two steps."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        first, _ = ledger.split(0.4, 0.6)
        return super().estimate(sample, first)


def test_a_budget_that_is_not_wholly_spent_is_named() -> None:
    """But not one that buys nothing: where nothing is released, or there is none."""
    spec = {
        "families": {"gaussian": {"kind": "gaussian"}},
        "estimators": {
            "thrifty": _Thrifty(k=2, scale=1), "whole": TunedClippedMean(k=2, scale=1),
            "mean": {"kind": "empirical_mean"},
            "nothing": {"kind": "clipped_mean", "lower": None, "upper": 1},
        },
        "budgets": {"pure": PureDP(1.0), "approx": ApproxDP(1.0, 1e-6)},
        "parts": {"all": {"n": [50, 100], "trials": 3}},
    }  # fmt: skip
    found = dpbench.run(spec, n_jobs=1)
    lines = [line for line in str(found).splitlines() if "spends" in line]
    named = ["eps=1", "eps=1 delta=1e-06"]
    assert sorted(lines) == sorted(f"thrifty spends 0.4 of {budget}" for budget in named)
    told = found.summary["budget_fraction_spent"].notna()
    assert (told == (found.summary["estimator"] == "thrifty")).all()


@pytest.mark.parametrize(
    ("near", "slope", "caught"),
    [(TunedClippedMean, TunedClippedMean, False), (_HalvedNoise, _NeverClips, True)],
)
def test_claims_catch_broken_estimators(
    near: type[TunedClippedMean], slope: type[TunedClippedMean], *, caught: bool
) -> None:
    """One by a claim about the error, the other by one about its exponent in epsilon."""
    about = {"tolerance": 0.05, "reason": "as in the shipped sweep"}
    part = {
        "n": {"low": 1e5, "high": 1e12, "points": 4},
        # the upper end of a largest factor is that of the worst of 36 numbers
        "trials": 1000,
        "claims": {
            "near": {"theorem": "near_optimal", "estimators": "near", **about},
            "slope": {"theorem": "heavy_tail_epsilon", "estimators": "slope", **about},
        },
    }
    members = [0, 0.1, 0.3, 1, 2, 3, 10, 30, 100]
    spec = {
        "families": {"two_point": {"kind": "two_point_family", "k": 2, "c": members}},
        "estimators": {"near": near(k=2, scale=1), "slope": slope(k=2, scale=1)},
        "budgets": {"low": PureDP(0.001), "high": PureDP(0.01)},
        "parts": {"all": part},
    }
    found = dpbench.run(spec, n_jobs=1).claims
    verdicts = found.groupby("estimator")["verdict"].unique()
    assert set(verdicts.index) == {"near", "slope"}
    for verdict in verdicts:
        assert set(verdict) == {"inconsistent"} if caught else "inconsistent" not in verdict


@validated
class _Shouting(TunedClippedMean):
    """Fails with text that means something to a terminal, and to what prints tables."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        raise ArithmeticError("[/x] :smile:\n\x1b[31m$\\frac$ =cmd")


def test_the_text_of_a_failure_is_text() -> None:
    spec = {
        "families": {"gaussian": {"kind": "gaussian"}},
        "estimators": {"shouting": _Shouting(k=2, scale=1)},
        "budgets": {"pure": PureDP(1.0)},
        "parts": {"all": {"n": [50], "trials": 3}},
    }
    told = str(dpbench.run(spec, n_jobs=1))
    assert "ArithmeticError: [/x] :smile: ?[31m$\\frac$ =cmd (rerun=" in told
