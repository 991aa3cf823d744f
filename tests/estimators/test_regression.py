"""Tests of linear regression against loops and exact values, and on worst neighbours."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import optimize, stats

from dpbench.distributions import LinearModel, MultivariateGaussian
from dpbench.estimators import (
    AdaSSP,
    Estimator,
    GradientDescentMean,
    GradientDescentRegression,
    LeastSquares,
    SubsampleLeastSquares,
)
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, NonPrivate
from dpbench.samples import DenseSample
from dpbench.sweep.block import BlockTask, Setting, _measure_errors
from dpbench.theory.exact.value import exact
from tests.support import Floats, name, rng, run

SURE = ZCDP(1e6)  # almost no noise
LAW = LinearModel(d=4, norm=1.5, noise_sd=0.3)
RHO = ZCDP(0.5)


def clipped(x: Floats, length: float) -> Floats:
    return x * min(1.0, length / max(float(np.linalg.norm(x)), 1e-300))


def lstsq(rows: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0])


def test_the_error_is_the_root_of_the_excess_risk() -> None:
    matrix = [[2.0, 0.5, 0.7], [0.5, 1.0, -0.3], [0.7, -0.3, 1.5]]
    law = MultivariateGaussian(d=3, matrix=matrix)
    setting, sample = Setting("e", LeastSquares(), NonPrivate()), law.sample(rng(), 5, 40)
    task = BlockTask((("law", law),), 40, (setting,), 0, 0, "")
    measured = _measure_errors(setting, sample, law, task)

    def risk(theta: Floats) -> float:
        residual = np.append(theta, -1)
        return float(residual @ matrix @ residual)

    best = optimize.minimize(risk, np.zeros(2), tol=1e-12)
    for rows, error, sampling in zip(
        sample.values, measured["error"], measured["sampling"], strict=True
    ):
        assert error**2 == pytest.approx(risk(lstsq(rows)) - best.fun, rel=1e-6)
        assert sampling == error


def descent(x: Floats, y: Floats, clip: float, rate: float, steps: int) -> Floats:
    theta = np.zeros(x.shape[1])
    for t in range(1, steps + 1):
        gradients = [clipped((u @ theta - v) * u, clip) for u, v in zip(x, y, strict=True)]
        theta = theta - 2 / (t + 1) * rate * np.mean(gradients, axis=0)
    return theta


@pytest.mark.parametrize("clip", [0.1, 1.0, 100.0])
def test_descent_by_a_loop(clip: float) -> None:
    sample = LAW.sample(rng(), 2, 50)
    values = run(GradientDescentRegression(clip=clip, rate=4.0, steps=6), sample, SURE).value
    means = run(GradientDescentMean(clip=clip, steps=6), sample, SURE).value
    numbers = run(GradientDescentMean(clip=clip, steps=6), sample.values[..., -1], SURE).value
    for rows, theta, mean, number in zip(sample.values, values, means, numbers, strict=True):
        expected = descent(rows[:, :-1], rows[:, -1], clip, 4.0, 6)
        np.testing.assert_allclose(theta, expected, atol=0.05 * clip)
        at, scalar = np.zeros(4), 0.0
        for t in range(1, 7):
            at = at - 2 / (t + 1) * np.mean([clipped(at - row, clip) for row in rows], axis=0)
            scalar -= 2 / (t + 1) * float(np.clip(scalar - rows[:, -1], -clip, clip).mean())
        np.testing.assert_allclose(mean, at, atol=0.01 * clip)
        assert number == pytest.approx(scalar, abs=0.01 * clip)


def moments_of(rows: Floats) -> Floats:
    """Return the moments that `AdaSSP` releases at once for one dataset, times n; bounds are 1."""
    seen: list[Floats] = []

    def kept(self: Ledger, values: Floats, sensitivity: float, **_: Any) -> Floats:
        self.pay()
        seen.append(values)
        stated.append(sensitivity)
        return values

    stated: list[float] = []
    with mock.patch.object(Ledger, "add_noise", kept):
        run(AdaSSP(feature_bound=1, response_bound=1), rows[None], RHO)
    assert sorted(stated) == pytest.approx([1 / len(rows), 3 / math.sqrt(2) / len(rows)])
    return np.asarray(seen[0][0] * len(rows))


def test_no_neighbours_move_the_moments_further_and_some_do_as_far() -> None:
    draw, largest = rng(3), 0.0
    for _ in range(100):
        rows = draw.standard_normal((2, 3)) * draw.choice([0.3, 3.0], (2, 1))
        one, other = (moments_of(row[None]) for row in rows)
        largest = max(largest, float(np.linalg.norm(one - other)))
    assert 1.5 < largest <= 3 / math.sqrt(2)
    for angle in np.linspace(0, 3, 7):  # the worst pairs are 60 degrees apart, at any angle
        worst = [[math.cos(a), math.sin(a), y] for a, y in ((angle, 1), (angle + math.pi / 3, -1))]
        one, other = (moments_of(np.array([row])) for row in worst)
        assert np.linalg.norm(one - other) == pytest.approx(3 / math.sqrt(2), rel=1e-12)


def test_moments_by_a_loop() -> None:
    sample = LAW.sample(rng(), 3, 60)
    estimate = run(AdaSSP(feature_bound=0.7, response_bound=0.5), sample, ZCDP(1e6))
    for rows, theta, before in zip(
        sample.values, estimate.value, estimate.before_noise, strict=True
    ):
        x = [clipped(row[:-1], 0.7) for row in rows]
        expected = lstsq(np.column_stack([x, np.clip(rows[:, -1], -0.5, 0.5)]))
        np.testing.assert_allclose(theta, expected, atol=0.01)
        np.testing.assert_allclose(before, expected, rtol=1e-9)


def test_the_ridge_where_features_are_alike() -> None:
    """The smallest eigenvalue of A is 0, so its lower bound is 0 and the ridge G in 39 of 40."""
    n, d, rho = 50, 2, 0.5
    rows = np.tile([0.6, 0.6, 0.5], (2000, n, 1))
    estimate = run(AdaSSP(feature_bound=1, response_bound=1), rows, ZCDP(rho)).before_noise
    s = 3 / math.sqrt(2) / n / math.sqrt(2 * rho * 0.9)
    ridge = s * (math.sqrt(2 * d) + math.sqrt(2 * math.log(2 / 0.05)))
    a = np.full((d, d), 0.36) + ridge * np.eye(d)
    full = np.isclose(estimate, np.linalg.solve(a, [0.3, 0.3]), rtol=1e-9).all(axis=1)
    assert stats.binomtest(int(full.sum()), 2000, 0.975).pvalue > 1e-6


def test_buckets_by_a_loop() -> None:
    sample = LAW.sample(rng(), 2, 90)
    estimator = SubsampleLeastSquares(buckets=9, lower=-1.0, upper=1.2, aggregate="mean")
    estimate = run(estimator, sample, SURE)
    for rows, value in zip(sample.values, estimate.value, strict=True):
        outputs = [np.clip(lstsq(part), -1.0, 1.2) for part in np.split(rows, 9)]
        np.testing.assert_allclose(value, np.mean(outputs, axis=0), atol=0.01)
    two = run(LeastSquares(), np.array([[[0.0, 2.0, 6.0]]]), NonPrivate()).value
    np.testing.assert_allclose(two, [[0.0, 3.0]])  # the shortest of many solutions


Y = 1.5 + math.sqrt(3) * 0.3
EXACT: list[tuple[Estimator, int, Budget, str]] = [
    (AdaSSP(feature_bound=1, response_bound=Y), 2000, RHO, "noise_q90 q90"),
    (AdaSSP(feature_bound=1.3, response_bound=3), 4000, ApproxDP(1.0, 1e-6), "noise_q90 q90"),
    (GradientDescentRegression(clip=0.8, rate=5, steps=8), 1000, GDP(0.5), "noise_q90 q90"),
    (GradientDescentRegression(clip=0.05, rate=2, steps=3), 100, RHO, "noise_q90"),
    (
        SubsampleLeastSquares(buckets=10, lower=-3, upper=3, aggregate="mean"),
        100,
        RHO,
        "noise_q90",
    ),
]


@pytest.mark.parametrize(("estimator", "n", "budget", "metrics"), EXACT, ids=name)
def test_exact_values(estimator: Estimator, n: int, budget: Budget, metrics: str) -> None:
    """The share of errors beyond the exact 0.9 quantile is 0.1; false alarms 1e-6 in all."""
    trials = 600
    estimate = run(estimator, LAW.sample(rng(1), trials, n), budget, seed=2)
    parts = {"noise_q90": estimate.value - estimate.before_noise, "q90": estimate.value - LAW.theta}
    for metric in metrics.split():
        sizes = np.linalg.norm(parts[metric], axis=1) / math.sqrt(5)
        beyond = int(np.count_nonzero(sizes > exact(metric, estimator, LAW, n, budget)))
        assert stats.binomtest(beyond, trials, 0.1).pvalue > 1e-6 / 8, metric


@pytest.mark.parametrize(
    ("metric", "estimator", "n"),
    [
        ("q90", AdaSSP(feature_bound=0.9, response_bound=Y), 2000),  # clips
        ("q90", AdaSSP(feature_bound=1, response_bound=1), 2000),
        ("q90", AdaSSP(feature_bound=1, response_bound=Y), 150),  # a ridge
        ("q90", GradientDescentRegression(clip=0.5, rate=5), 2000),  # clips
        ("q90", GradientDescentRegression(clip=0.8, rate=3), 2000),  # other steps
        ("q90", SubsampleLeastSquares(buckets=10, lower=-3, upper=3), 100),
        ("mean_error", AdaSSP(feature_bound=1, response_bound=Y), 2000),
    ],
    ids=name,
)
def test_what_is_not_known(metric: str, estimator: Estimator, n: int) -> None:
    assert math.isnan(exact(metric, estimator, LAW, n, RHO))


def test_one_coordinate_is_refused() -> None:
    for estimator in (AdaSSP(feature_bound=1, response_bound=1), LeastSquares()):
        budget = RHO if isinstance(estimator, AdaSSP) else NonPrivate()
        with pytest.raises(ValueError, match="two coordinates or more"):
            run(estimator, DenseSample(np.zeros((2, 5, 1))), budget)
