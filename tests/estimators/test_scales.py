"""Tests that estimators follow the assumed scale: s times the data give s times the release."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from dpbench import estimators as est
from dpbench.errors import ConfigError
from dpbench.estimators import Estimator
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.samples import DenseSample

PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
# Estimators at scale 1, a budget, and the coordinates of a record; 0 stands for numbers.
CASES: list[tuple[Estimator, Budget, int]] = [
    (est.KSU20RangeEstimate(k=3, scale=1, alpha=0.3, radius=20), PURE, 0),
    (est.KSU20RangeEstimate(k=2, scale=1, alpha=0.3, radius=None), APPROX, 0),
    (est.KSU20Mean(k=2, scale=1, radius=20), PURE, 0),
    (est.KSU20Mean(k=3, scale=1, radius=20, alpha=0.2), RHO, 0),
    (est.KSU20Mean(k=3, scale=1, radius=20, constants="tuned"), PURE, 0),
    (est.KSU20Mean(k=2, scale=1, radius=None, constants="tuned"), APPROX, 0),
    (est.KSU20Mean(k=2, scale=1, radius=9, constants="paper", beta=0.99), PURE, 0),
    (est.TunedClippedMean(k=3, scale=1, radius=6), PURE, 0),
    (est.TunedClippedMean(k=3, scale=1, radius=6, policy="ksu20_order"), RHO, 0),
    (est.TunedClippedMean(k=3, scale=1, radius=6, policy="keep_all"), PURE, 0),
    (est.TunedClippedMean(k=3, scale=1, radius=6, threshold=4.0), PURE, 0),
    (est.LocalMean(k=3, scale=1, radius=6), PURE, 0),
    (est.LocalMean(k=3, scale=1, radius=6, policy="ksu20_order"), PURE, 0),
    (est.LocalMean(k=3, scale=1, radius=6, mechanism="randomised_response"), PURE, 0),
    (est.LocalMean(k=3, scale=1, radius=6, mechanism="three_values"), RHO, 0),
    (est.UserLevelMean(k=3, scale=1, m=4, radius=20), PURE, 0),
    (est.KSU20BallMean(k=3, scale=1, radius=20), RHO, 3),
    (est.KSU20BallMean(k=3, scale=1, radius=20, outside="project", constants="tuned"), PURE, 3),
    (est.KSU20BallMean(k=3, scale=1, radius=0.9, constants="tuned"), RHO, 3),
    (est.KSU20BallMean(k=3, scale=1, radius=20, constants="paper"), RHO, 3),
    (est.KSU20TournamentMean(k=3, scale=1, radius=20, alpha=0.5), PURE, 2),
    (est.KSU20TournamentMean(k=2, scale=1, radius=20), PureDP(50.0), 2),
    (est.NaiveGaussianMean(radius=6, sigma=1), PURE, 0),
    (est.MedianThenClippedMean(radius=20, sigma=1), PURE, 0),
    (est.GaussianScoreMean(radius=20, sigma=1), PURE, 0),
    (est.ShrinkingIntervals(radius=20, sigma=1), PURE, 0),
    (est.RandomizedResponseSignMean(radius=20, sigma=1), PURE, 0),
    (est.KarwaVadhanMean(radius=20, sigma=1), PURE, 0),
    (est.KarwaVadhanMean(radius=None, sigma=1), APPROX, 0),
    (est.KarwaVadhanGaussian(radius=20, sigma=1, sigma_low=0.1, sigma_high=10), PURE, 0),
    (est.KarwaVadhanInterval(radius=20, sigma=1, sigma_low=0.1, sigma_high=10), PURE, 0),
    (est.UnbiasedMean(sigma=1), APPROX, 0),
    (est.CoinPressMean(radius=20, sigma=1), RHO, 3),
    (est.FriendlyCoreMean(sigma=1), APPROX, 3),
    (est.BalloonMean(radius=20, sigma=1, inside=[0.5, 0.5]), RHO, 3),
    (est.HuberInterval(scale=1), RHO, 0),
    (est.PublicRecordMean(sigma=1), PURE, 0),
    (est.PublicRecordMean(sigma=1, rounds=2), RHO, 3),
    (est.PlanMean(radius=20, sigma_low=0.1, sigma_high=10), RHO, 3),
]
LENGTHS = ("radius", "sigma", "scale", "threshold", "sigma_low", "sigma_high")


def scaled(estimator: Estimator, factor: float) -> Estimator:
    """Return the estimator for records that are `factor` times as large."""
    lengths: dict[str, Any] = {
        field.name: factor * getattr(estimator, field.name)
        for field in fields(estimator)  # type: ignore[arg-type]
        if field.name in LENGTHS and getattr(estimator, field.name) is not None
    }
    if isinstance(estimator, est.FriendlyCoreMean):  # its threshold is a share of the records
        lengths.pop("threshold", None)
    return replace(estimator, **lengths)  # type: ignore[type-var]


@pytest.mark.parametrize(("estimator", "budget", "d"), CASES, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("factor", [2.0**-30, 2.0**14, 1 / 3, 31_000.0])
def test_releases_follow_the_scale(
    estimator: Estimator, budget: Budget, d: int, factor: float
) -> None:
    n = 2000 if "paper" in str(estimator) or budget.notion == "approx" else 600
    n = max(n, estimator.working_records(max(d, 1), budget))  # with fewer it declares failure
    shape = (3, n, d) if d else (3, n)
    records = 0.7 + np.random.default_rng(3).standard_t(5, shape) * np.sqrt(0.6)
    releases = []
    for one, s in ((estimator, 1.0), (scaled(estimator, factor), factor)):
        ledger = Ledger(budget, np.random.default_rng(7))
        estimate = one.run(DenseSample(s * records), ledger)
        releases.append([estimate.value, estimate.before_noise, *(estimate.interval or ())])
        accuracy = estimate.accuracy or np.nan
        releases[-1].append(np.asarray(accuracy))
    exact = np.log2(factor) % 1 == 0
    for before, after in zip(*releases, strict=True):
        assert np.isfinite(before).all() or before.ndim == 0
        if exact and not isinstance(estimator, est.PlanMean):  # it searches logarithms
            np.testing.assert_array_equal(factor * before, after)
        else:
            np.testing.assert_allclose(after, factor * before, rtol=1e-6, atol=1e-9 * factor)


@pytest.mark.parametrize(("estimator", "budget", "d"), CASES, ids=lambda v: type(v).__name__)
def test_records_needed_follow_the_scale(estimator: Estimator, budget: Budget, d: int) -> None:
    """A target error in the unit of the data needs the same records at every scale."""
    once = estimator.private_terms(0.03, 0.1, 1e5, budget)
    assert scaled(estimator, 40.0).private_terms(1.2, 0.1, 1e5, budget) == pytest.approx(once)


def test_every_kind_with_a_scale_is_tested() -> None:
    tested = {type(estimator) for estimator, _, _ in CASES}
    needing = {
        kind
        for kind in Estimator.kinds().values()
        for field in fields(kind)  # type: ignore[arg-type]
        if field.name in ("scale", "sigma", "sigma_high") and kind.__module__.startswith("dpbench")
    }
    known_or_estimated = {
        est.BergerBoosInterval,
        est.NoisyvarInterval,
        est.ParametricBootstrapInterval,
    }
    assert needing - known_or_estimated == tested


@pytest.mark.parametrize(("estimator", "budget", "d"), CASES, ids=lambda v: type(v).__name__)
def test_the_scale_has_no_default(estimator: Estimator, budget: Budget, d: int) -> None:
    given = {
        field.name: getattr(estimator, field.name)
        for field in fields(estimator)  # type: ignore[arg-type]
    }
    name = "scale" if "scale" in given else "sigma"
    if isinstance(estimator, est.KarwaVadhanGaussian):  # it estimates sigma if none is given
        return
    if isinstance(estimator, est.PlanMean):
        name = "sigma_high"
    del given[name]
    with pytest.raises(ConfigError, match=f"{name}.*in the unit of the data") as raised:
        type(estimator)(**given)
    assert "\n" not in str(raised.value)


def test_a_configuration_learns_what_the_scale_means() -> None:
    with pytest.raises(ConfigError) as raised:
        Estimator.build({"kind": "ksu20_mean", "k": 2, "radius": 1}, "sweep.estimators.mine")
    assert str(raised.value) == (
        "sweep.estimators.mine.scale: this key is required: E|X - mean|^k is at most scale^k, in "
        "the unit of the data; state it from public knowledge"
    )
