"""Tests that exact values follow the scale that an estimator assumes."""

from typing import Any

import numpy as np
import pytest

from dpbench.distributions import (
    Beta,
    BoundedZipf,
    Gaussian,
    MultivariateGaussian,
    UserLevelData,
)
from dpbench.estimators import (
    BalloonMean,
    BoundedContributionMean,
    ClippedMean,
    Estimator,
    InstanceOptimalMean,
    InverseSensitivity,
    KSU20BallMean,
    KSU20Mean,
    KSU20RangeEstimate,
    LocalMean,
    PairVariance,
    PlanMean,
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
@pytest.mark.parametrize("factor", [0.25, 30.0, 1e-9])
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
    assert value(scaled(estimator, factor), factor) / unit == pytest.approx(once, rel=1e-9)


@pytest.mark.parametrize("case", range(6))
def test_exact_values_of_records_in_tiny_units(case: int) -> None:
    """The value at the scale 1e-9 is that at 1, times 1e-9, or times 1e-18 for a variance."""

    def value(s: float) -> float:
        vectors, zipf = MultivariateGaussian(d=3, scale=s), BoundedZipf(exponent=1.5, largest=9)
        people = UserLevelData(of=Gaussian(location=0.8 * s, scale=1e-3 * s), m=zipf)
        half = Beta(a=2, b=8, scale=s)
        cases: list[tuple[Estimator, Any, Budget]] = [
            (BalloonMean(radius=20 * s, sigma=s, inside=[0.6]), vectors, ZCDP(0.5)),
            (InstanceOptimalMean(radius=60 * s), vectors, ZCDP(2.0)),
            (PlanMean(radius=20 * s, sigma_low=1e-3 * s, sigma_high=1e3 * s, rounds=8), vectors,
             ZCDP(0.5)),
            (BoundedContributionMean(lower=0, upper=s, cap=8), people, PURE),
            (PairVariance(base=ClippedMean(lower=0, upper=s**2 / 2)), half, PURE),
            (InverseSensitivity(lower=0, upper=s), half, PureDP(0.1)),
        ]  # fmt: skip
        estimator, law, budget = cases[case]
        return exact(NOISE, estimator, law, 2000, budget)

    once, unit = value(1.0), 1e-18 if case == 4 else 1e-9
    assert np.isfinite(once)
    assert value(1e-9) / unit == pytest.approx(once, rel=1e-7)
