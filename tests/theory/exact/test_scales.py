"""Tests that exact values follow the scale that an estimator assumes."""

import numpy as np
import pytest

from dpbench.distributions import Gaussian, MultivariateGaussian
from dpbench.estimators import (
    Estimator,
    KSU20BallMean,
    KSU20Mean,
    KSU20RangeEstimate,
    LocalMean,
    TunedClippedMean,
    UserLevelMean,
)
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from dpbench.theory.exact.value import exact
from tests.estimators.test_scales import scaled

PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
NOISE, WIDTH = "noise_q90", "width_q50"
CASES: list[tuple[str, Estimator, int, Budget]] = [
    (NOISE, TunedClippedMean(k=3, scale=1, radius=2), 400, PURE),
    (NOISE, TunedClippedMean(k=3, scale=1, radius=2, policy="ksu20_order"), 400, RHO),
    (NOISE, TunedClippedMean(k=3, scale=1, policy="keep_all"), 400, PURE),
    (NOISE, TunedClippedMean(k=3, scale=1, radius=2, threshold=5.0), 400, PURE),
    (NOISE, LocalMean(k=3, scale=1, radius=2), 4000, PURE),
    (NOISE, LocalMean(k=3, scale=1, policy="ksu20_order", mechanism="randomised_response"), 4000,
     PURE),
    (NOISE, KSU20Mean(k=3, scale=1, radius=5), 4000, PURE),
    (NOISE, KSU20Mean(k=3, scale=1, radius=5, constants="tuned"), 4000, RHO),
    (NOISE, KSU20Mean(k=2, scale=1, radius=None, constants="tuned"), 4000, APPROX),
    (NOISE, UserLevelMean(k=3, scale=1, m=4, radius=5), 4000, PURE),
    (NOISE, KSU20BallMean(k=3, scale=1, radius=5), 4000, RHO),
    (NOISE, KSU20BallMean(k=3, scale=1, radius=5, constants="tuned", outside="project"), 4000,
     PURE),
    (NOISE, KSU20BallMean(k=3, scale=1, radius=0.5, constants="tuned"), 4000, RHO),
    (WIDTH, KSU20RangeEstimate(k=3, scale=1, alpha=0.1, radius=5), 4000, PURE),
    ("error_over_guarantee_q90", KSU20RangeEstimate(k=3, scale=1, alpha=0.1, radius=5), 4000, PURE),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "estimator", "n", "budget"), CASES)
@pytest.mark.parametrize("factor", [0.25, 30.0])
def test_exact_values_follow_the_scale(
    metric: str, estimator: Estimator, n: int, budget: Budget, factor: float
) -> None:
    def value(one: Estimator, s: float) -> float:
        vectors = isinstance(one, KSU20BallMean)
        small = 0.4 if isinstance(one, UserLevelMean) else 0.9  # the mean of 4 records
        law = (
            MultivariateGaussian(d=3, scale=0.9 * s)
            if vectors
            else Gaussian(location=0.2 * s, scale=small * s)
        )
        return exact(metric, one, law, n, budget)

    once = value(estimator, 1.0)
    unit = 1.0 if metric.startswith("error_over") else factor
    assert np.isfinite(once)
    assert value(scaled(estimator, factor), factor) == pytest.approx(unit * once, rel=1e-9)
