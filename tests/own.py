"""A run of classes of one's own."""

from __future__ import annotations

from typing import Any

from dpbench import Estimate, Estimator, Ledger, PureDP, validated
from dpbench.distributions import Gaussian
from dpbench.estimators import ClippedMean, EmpiricalMean
from dpbench.samples import Sample

KNOWN = dict(Estimator._registry)


@validated
class Shifted(Estimator):
    """An estimator that workers get by name."""

    shift: float = 0.0

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(-4, 4)
        return Estimate(ledger.add_noise(clipped, 8 / sample.n) + self.shift, clipped)


Estimator._registry = dict(KNOWN)  # what all kinds are asked about is about ours


def spec_of(estimators: dict[Any, Any], **more: Any) -> dict[str, Any]:
    """A small sweep of Gaussian data and epsilon = 1, but for what is given."""
    return {
        "families": {"gaussian": Gaussian()},
        "estimators": estimators,
        "budgets": {"pure": PureDP(1.0)},
        "parts": {"all": {"n": [100], "trials": 4}},
        **more,
    }


SAMPLING = {"theorem": "sampling", "estimators": "mean", "tolerance": 1, "reason": "few trials"}
ERRORS = {"kind": "error_against_n", "budgets": "pure", "caption": "E"}
PART: dict[str, Any] = {"n": [100, 400], "trials": 40, "figures": {"errors": ERRORS}}
OWN: dict[str, Any] = spec_of(
    {
        "clipped": ClippedMean(lower=-4, upper=4),
        "mine": Shifted(shift=0.5),
        "mean": EmpiricalMean(),
    },
    families={"gaussian": Gaussian(location=1), "tails": {"kind": "student_t", "tail_index": 3}},
    budgets={"pure": PureDP(1.0), "more": {"kind": "zcdp", "rho": [0.1, 1]}},
    parts={"all": {**PART, "claims": {"rate": {**SAMPLING, "families": "gaussian"}}}},
)
