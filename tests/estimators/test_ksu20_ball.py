"""KSU20's ball: the mean against a loop, its sensitivity, its radius."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
from conftest import Step
from scipy import optimize, stats
from support import Floats, name, rng, row_norms, run

from dpbench.estimators import Estimate, KSU20BallMean, KSU20Mean
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger
from dpbench.samples import DenseSample, Sample

ZCDP_OR_NOT: list[Budget] = [ZCDP(0.3), ApproxDP(2.0, 1e-5)]
Outside = Literal["discard", "project"]
each_outside = pytest.mark.parametrize("outside", ["discard", "project"])


def of_vectors(steps: list[Step]) -> list[tuple[Budget, Floats, Any, Floats]]:
    """Budget, values, sensitivity and release of every noisy vector."""
    return [(s.budget, s.values, s.sensitivity, s.released) for s in steps if s.values.ndim == 2]


def given_centre(monkeypatch: pytest.MonkeyPatch, centre: Floats) -> list[Sample]:
    """Let the centre be this; what it would have been made of is kept."""
    seen: list[Sample] = []

    def spy(self: KSU20BallMean, sample: Sample, ledger: Ledger) -> Floats:
        ledger.pay()
        seen.append(sample)
        return np.broadcast_to(centre, (sample.trials, sample.d))

    monkeypatch.setattr(KSU20BallMean, "_centre", spy)
    return seen


def given_radius(monkeypatch: pytest.MonkeyPatch, r: float) -> None:
    monkeypatch.setattr(KSU20BallMean, "ball_radius", lambda self, n, d, budget: r)


def near_mean(rows: Floats, centre: Floats, r: float, outside: str) -> Floats:
    """Algorithm 3 to the letter: discard, subtract c, divide by l, add c; or project."""
    n, total, count = len(rows), np.zeros(len(centre)), 0
    for row in rows:
        off = row - centre
        size = float(row_norms(off[None])[0])
        if outside == "project":
            total += off if size <= r else off / size * r
        elif size <= r:
            total += off
            count += 1
    size_of = n if outside == "project" else max(count, 3 * n / 4)
    return np.asarray(centre + total / size_of)


@each_outside
@pytest.mark.parametrize(
    ("budget", "n", "d"),
    [(ZCDP_OR_NOT[0], 3, 2), (ZCDP_OR_NOT[1], 4, 1), (ZCDP_OR_NOT[0], 201, 5)],
)
def test_the_ball_against_a_loop(
    monkeypatch: pytest.MonkeyPatch,
    steps: list[Step],
    outside: Outside,
    budget: Budget,
    n: int,
    d: int,
) -> None:
    draw = rng(9)
    values = draw.standard_t(2, (6, n, d)) + 1.5
    values[1, -1], values[2, -1] = 1e300, -1e150
    values[3] += 1e3  # nothing is inside
    values[4, n // 2 :: 2] += 50
    centre = draw.normal(1.5, 0.5, (6, d))
    seen = given_centre(monkeypatch, centre)
    estimator = KSU20BallMean(k=2, radius=9.0, outside=outside, alpha=0.8)
    found = run(estimator, values, budget)
    half = n // 2
    r = math.sqrt(d) * (1 + {"discard": 1 / 0.8, "project": 1 / 4 / 0.8}[outside])
    (first,) = seen
    assert isinstance(first, DenseSample)
    np.testing.assert_array_equal(first.values, values[:, : n - half])
    ((paid, before, sensitivity, released),) = of_vectors(steps)
    rho = budget.rho if isinstance(budget, ZCDP) else ZCDP.within(ApproxDP(2.0, 1e-5)).rho
    assert isinstance(paid, ZCDP)
    assert paid.rho == pytest.approx(rho, rel=1e-9)  # halves in parallel
    step = {"discard": 8 * r / (3 * half), "project": 2 * r / half}[outside]
    assert sensitivity == pytest.approx(step, rel=1e-12)
    if outside == "discard":  # Algorithm 3: variance 32 r^2/(9 rho n^2)
        variance = 32 * r**2 / (9 * rho * half**2)
        assert sensitivity**2 / (2 * paid.rho) == pytest.approx(variance, rel=1e-9)
    np.testing.assert_array_equal(found.value, released)
    np.testing.assert_array_equal(found.before_noise, before)
    for trial, rows in enumerate(values[:, n - half :]):
        wanted = near_mean(rows, centre[trial], r, outside)
        np.testing.assert_allclose(before[trial], wanted, rtol=1e-12, atol=1e-12 * r)


@pytest.mark.parametrize(
    ("constants", "budget", "radius"),
    [
        ("paper", ZCDP(0.3), 9.0),
        ("practical", ApproxDP(2.0, 1e-5), 9.0),
        ("paper", ApproxDP(2.0, 1e-5), None),
    ],
)
def test_the_centre_is_that_of_numbers(
    monkeypatch: pytest.MonkeyPatch,
    steps: list[Step],
    constants: Any,
    budget: Budget,
    radius: float | None,
) -> None:
    """KSU20's Algorithm 2 on every coordinate of one half: alpha = 1, beta = 0.1/d."""
    d, seen = 2, []
    real = KSU20Mean.estimate

    def spy(self: KSU20Mean, sample: Sample, ledger: Ledger) -> Estimate:
        found = real(self, sample, ledger)
        seen.append((self, sample, ledger, found))
        return found

    monkeypatch.setattr(KSU20Mean, "estimate", spy)
    values = rng(10).standard_t(3, (3, 4001, d))
    run(KSU20BallMean(k=3, radius=radius, constants=constants, alpha=0.5), values, budget)
    ((one, columns, paid, coarse),) = seen
    wanted = KSU20Mean(k=3, radius=radius, alpha=1.0, beta=0.1 / d, constants=constants)
    assert one == wanted
    assert isinstance(columns, DenseSample)
    halves = [row[:2001, j] for row in values for j in range(d)]
    np.testing.assert_array_equal(columns.values, halves)
    amounts = paid.budget.amounts
    ((fine, before, _, _),) = of_vectors(steps)
    if radius is None:
        assert amounts == pytest.approx((1.0, 5e-6), rel=1e-9)
        assert fine == budget
    else:
        whole = budget if isinstance(budget, ZCDP) else ZCDP.within(ApproxDP(2.0, 1e-5))
        assert amounts == pytest.approx((whole.amounts[0] / d,), rel=1e-9)
        assert fine.amounts == pytest.approx(whole.amounts, rel=1e-9)
    r = math.sqrt(d) * (4 * 0.5**-0.5 if constants == "paper" else 1 + 0.5**-0.5)
    for trial, rows in enumerate(values[:, 2001:]):
        centre = coarse.value.reshape(3, d)[trial]
        np.testing.assert_allclose(
            before[trial], near_mean(rows, centre, r, "discard"), rtol=1e-10, atol=1e-12
        )


@each_outside
@pytest.mark.parametrize(("half", "d"), [(1, 1), (2, 3), (3, 1), (4, 3), (30, 3)])
def test_sensitivity_in_the_ball_by_brute_force(
    monkeypatch: pytest.MonkeyPatch,
    steps: list[Step],
    outside: Outside,
    half: int,
    d: int,
) -> None:
    """Of discarding 8r/(3n), attained if 3n/4 is whole; of projecting 2r/n, attained."""
    r, centre = 2.0, np.full(d, 5.0)
    given_centre(monkeypatch, centre)
    given_radius(monkeypatch, r)
    draw = rng(11)
    axes = np.concatenate([np.eye(d), -np.eye(d)])
    inside = np.concatenate([0.999999 * r * axes, 0.5 * r * axes, np.zeros((1, d))])
    wild = np.concatenate([centre + inside, *(s * axes for s in (1e3, 1e150, 1e300, -1e300))])
    edges = {math.floor(0.75 * half), math.ceil(0.75 * half), half - 1, half, 0}
    counts = edges | {c + s for c in edges for s in (-1, 1)}
    largest = 0.0
    estimator = KSU20BallMean(k=2, radius=9.0, outside=outside)
    for count in {c for c in counts if 0 <= c < half}:
        poles = centre + 0.999999 * r * np.tile(axes[:1], (half, 1))
        mixed = centre + draw.uniform(-r, r, (half, d)) / math.sqrt(d)
        for base in (poles, mixed):
            base[count:] = 1e3  # outside; the last row is replaced
            base[count + 1 :: 2] = -1e300
            second = np.tile(base, (len(wild), 1, 1))
            second[:, -1] = wild
            values = np.concatenate([np.zeros_like(second), second], axis=1)
            steps.clear()
            run(estimator, values, ZCDP(0.3))
            ((_, before, sensitivity, _),) = of_vectors(steps)
            stated = {"discard": 8 * r / (3 * half), "project": 2 * r / half}[outside]
            assert sensitivity == pytest.approx(stated, rel=1e-12)
            moves = row_norms(before[:, None] - before[None])
            largest = max(largest, float(moves.max()) / stated)
    assert largest <= 1 + 1e-9
    if outside == "project" or half % 4 == 0:
        assert largest == pytest.approx(1, rel=1e-5)


@each_outside
@pytest.mark.parametrize("budget", ZCDP_OR_NOT, ids=name)
@pytest.mark.parametrize(("k", "n", "d"), [(2, 1000, 3), (2.5, 10**9, 45), (6, 1000, 45)])
def test_the_ball_balances_bias_and_noise(
    outside: Outside, budget: Budget, k: float, n: int, d: int
) -> None:
    """T minimises the bias bound plus the 1 - beta quantile of the noise's norm."""
    beta = 0.05
    estimator = KSU20BallMean(k=k, radius=1.0, outside=outside, beta=beta)
    found = estimator.ball_radius(n, d, budget)
    sd = budget.noise_quantile(2 * float(stats.norm.sf(1)))
    quantile = sd * math.sqrt(float(stats.chi2(d).isf(beta)))

    def bound(log_t: float) -> float:
        t = math.exp(log_t)
        r = math.sqrt(d) * (1 + t)
        if outside == "discard":
            return float(t ** -(k - 1) + 8 * r / (3 * n) * quantile)
        return float(worst_clipping_bias(t, k) + 2 * r / n * quantile)

    at = math.log(found / math.sqrt(d) - 1)
    best = optimize.minimize_scalar(
        bound, bounds=(at - 3, at + 3), method="bounded", options={"xatol": 1e-9}
    )
    assert best.x == pytest.approx(at, abs=1e-5)
    assert bound(at) <= best.fun * (1 + 1e-12)
    # With alpha given, the bias at T is alpha.
    for alpha in (1.0, 0.01):
        fixed = KSU20BallMean(k=k, radius=1.0, outside=outside, alpha=alpha)
        t = fixed.ball_radius(n, d, budget) / math.sqrt(d) - 1
        bias = t ** -(k - 1) if outside == "discard" else worst_clipping_bias(t, k)
        assert bias == pytest.approx(alpha, rel=1e-9)


@pytest.mark.parametrize(("k", "d"), [(2, 45), (6, 1)])
def test_the_radius_of_the_paper(k: float, d: int) -> None:
    """r = 4 sqrt(d)/alpha^(1/(k-1)); by default alpha is what Theorem 4.6 needs n for."""
    options: dict[str, Any] = {"k": k, "radius": 1.0, "constants": "paper"}
    for alpha in (1.0, 0.05, 1e-6):
        found = KSU20BallMean(**options, alpha=alpha).ball_radius(100, d, ZCDP(0.5))
        assert found == pytest.approx(4 * math.sqrt(d) / alpha ** (1 / (k - 1)), rel=1e-12)
    rho = 0.02
    for n in (10, 10**7, 10**10):
        r = KSU20BallMean(**options).ball_radius(n, d, ZCDP(rho))
        alpha = (r / (4 * math.sqrt(d))) ** -(k - 1)
        needed = 16 * d / (math.sqrt(2 * rho) * alpha ** (k / (k - 1))) * math.sqrt(2 / 3)
        assert needed == pytest.approx(n, rel=1e-9) or (
            needed > n and alpha == pytest.approx(1 / 16)
        )


@each_outside
def test_a_failed_coordinate_is_a_failed_trial(outside: Outside) -> None:
    """A histogram that releases nothing in one coordinate leaves no number in any."""
    values = rng(0).normal(size=(200, 60, 3))
    estimator = KSU20BallMean(k=2, radius=None, outside=outside)
    value = run(estimator, values, ApproxDP(3.0, 1e-2), seed=1).value
    missing = np.isnan(value)
    assert np.array_equal(missing.any(axis=1), missing.all(axis=1))
    assert 0 < missing.all(axis=1).sum() < 200
