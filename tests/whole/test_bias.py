"""The mean signed error: from records to a claim that it is 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import dpbench
from dpbench.distributions import Gaussian, MultivariateGaussian
from dpbench.estimators import ClippedMean, EmpiricalMean


def _sweep() -> Any:
    claim = {"theorem": "unbiased", "tolerance": 0.1, "reason": "a mean of 200 errors"}
    return dpbench.run(
        {
            "families": {
                "near": Gaussian(), "far": Gaussian(location=1.5), "below": Gaussian(location=-1.5),
                "vectors": MultivariateGaussian(d=2),
            },
            "estimators": {
                "narrow": ClippedMean(lower=-1, upper=1), "wide": ClippedMean(lower=-6, upper=6),
                "mean": EmpiricalMean(),
            },
            "budgets": {"pure": dpbench.PureDP(1.0)},
            "parts": {"all": {"n": [100], "trials": 400}},
            "claims": {
                "wide": {**claim, "families": ["!vectors"], "estimators": "wide"},
                "narrow": {**claim, "families": ["near", "below"], "estimators": "narrow"},
            },
        }
    )  # fmt: skip


def test_a_bias_is_measured_and_a_biased_estimator_is_found_out() -> None:
    """Of N(m, 1), clipped to [-1, 1]; false alarms: 5 standard errors are 6e-7, on either side."""
    result = _sweep()
    rows = result.summary.set_index(["distribution", "estimator"])
    errors = result.errors(distribution="below", estimator="narrow")
    row = rows.loc["below", "narrow"]
    signed = errors["sign"] * errors["error"]
    assert row["bias"] == pytest.approx(signed.mean())
    assert row["rmse"] ** 2 == pytest.approx(row["bias"] ** 2 + signed.var(ddof=0))
    # E max(-1, min(1, X)) of X = m + Z by parts: 1 - int_-1^1 P(X <= x) dx
    for name, m in (("near", 0.0), ("far", 1.5), ("below", -1.5)):
        x = np.linspace(-1, 1, 2001)
        bias = 1 - np.trapezoid(stats.norm.cdf(x - m), x) - m
        row = rows.loc[name, "narrow"]
        assert abs(row["bias"] - bias) < 5 * row["bias_se"]
    assert rows.loc["vectors"]["bias"].isna().all()
    verdicts = result.claims.set_index("claim")
    assert verdicts.loc["wide", "verdict"] == "consistent"
    # The worst place is where the bias is farthest from 0, and it keeps its sign: 0.67 at -1.5.
    assert verdicts.loc["narrow", "verdict"] == "inconsistent"
    assert verdicts.loc["narrow", "measured"] == pytest.approx(0.67, abs=0.05)
    half = (verdicts.loc["narrow", "high"] - verdicts.loc["narrow", "low"]) / 2
    assert half == pytest.approx(1.96 * row["signed_sd"] / np.sqrt(200), rel=0.2)
