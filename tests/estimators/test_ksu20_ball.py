"""Tests of the ball of KSU20: the mean against a loop, its sensitivity and its radius."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from scipy import stats

from dpbench.estimators import CoordinateWise, Estimate, Estimator, KSU20BallMean, KSU20Mean
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.samples import DenseSample, Sample
from dpbench.theory.bounds.numbers import two_point_lower_bound
from dpbench.theory.families import SignedTwoPointFamily
from tests.conftest import Step
from tests.support import Floats, name, rng, row_norms, run

ZCDP_OR_NOT: list[Budget] = [ZCDP(0.3), ApproxDP(2.0, 1e-5)]
Outside = Literal["discard", "project"]
each_outside = pytest.mark.parametrize("outside", ["discard", "project"])


def near_mean(rows: Floats, centre: Floats, r: float, outside: str) -> Floats:
    """Return the mean of Algorithm 3: discard, subtract c, divide by l, add c; or project."""
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
    ("constants", "budget", "radius", "n", "d"),
    [
        ("practical", ZCDP(0.3), 9.0, 5, 2),
        ("practical", ApproxDP(2.0, 1e-5), 9.0, 201, 5),
        ("paper", ZCDP(0.3), 9.0, 4001, 2),
        ("paper", ApproxDP(2.0, 1e-5), None, 4001, 2),
        ("practical", PureDP(1.0), 9.0, 5, 2),
        ("tuned", PureDP(1.0), 9.0, 201, 5),  # half of the records for the centre, or fewer
        ("tuned", ZCDP(300.0), 9.0, 8000, 2),
    ],
)
def test_the_ball_against_a_loop(
    monkeypatch: pytest.MonkeyPatch,
    steps: list[Step],
    outside: Outside,
    constants: Any,
    budget: Budget,
    radius: float | None,
    n: int,
    d: int,
) -> None:
    """The centre is Algorithm 2 on every coordinate of one half, at alpha = 1 and beta = 0.1/d."""
    coarse, real = [], KSU20Mean.estimate

    def spy(self: KSU20Mean, sample: Sample, ledger: Ledger) -> Estimate:
        coarse.append((self, sample, ledger.budget, real(self, sample, ledger)))
        return coarse[-1][3]

    monkeypatch.setattr(KSU20Mean, "estimate", spy)
    half = n - n // 50 if n == 8000 else n // 2
    values = rng(9).standard_t(3, (5, n, d)) + 1.5
    values[1, -1], values[2, -1] = 1e300, -1e150
    values[3, n - half :] += 1e3  # no record is inside the ball
    values[4, n - half :: 2] += 50
    estimator = KSU20BallMean(
        k=3, scale=1, radius=radius, outside=outside, constants=constants, alpha=0.5
    )
    estimate = run(estimator, values, budget)

    ((coordinate, columns, paid, centres),) = coarse
    alpha = None if constants == "tuned" else 1.0
    assert coordinate == KSU20Mean(
        k=3, scale=1, radius=radius, alpha=alpha, beta=0.1 / d, constants=constants
    )
    assert isinstance(columns, DenseSample)
    first = [row[: n - half, j] for row in values for j in range(d)]
    np.testing.assert_array_equal(columns.values, first)
    (last,) = [step for step in steps if step.values.ndim == 2]
    whole, before = last.budget, last.values
    if isinstance(budget, PureDP):
        assert whole == budget
    elif radius is None:
        assert isinstance(budget, ApproxDP)
        assert whole == replace(budget, noise_by="analytic")
    else:
        amount = budget.rho if isinstance(budget, ZCDP) else GDP.within(ApproxDP(2.0, 1e-5)).mu
        assert whole.amounts == pytest.approx((amount,), rel=1e-9)
    assert paid.cost == pytest.approx([a / d for a in whole.cost], rel=1e-9)  # in parallel
    bias = 1.0 if outside == "discard" else 4 / 27
    r = math.sqrt(d) * (4 * 0.5**-0.5 if constants == "paper" else 1 + (bias / 0.5) ** 0.5)
    # Algorithm 3 has the variance 32 r^2/(9 rho n^2) for discarding.
    step = {"discard": 8 * r / (3 * half), "project": 2 * r / half}[outside]
    assert last.sensitivity == pytest.approx(step, rel=1e-12)
    middle = centres.value.reshape(5, d)  # the last step releases the distance from it
    np.testing.assert_array_equal(estimate.value, middle + last.released)
    np.testing.assert_array_equal(estimate.before_noise, middle + before)
    for rows, centre, mean in zip(values, middle, estimate.before_noise, strict=True):
        expected = near_mean(rows[n - half :], centre, r, outside)
        np.testing.assert_allclose(mean, expected, rtol=1e-10, atol=1e-12 * r)


@each_outside
@pytest.mark.parametrize("radius", [0.5, 1.0, 1.001])
def test_a_mean_within_one_needs_no_centre(
    steps: list[Step], outside: Outside, radius: float
) -> None:
    """For R <= 1 all records are averaged around 0, with the whole budget."""
    n, d, budget = 40, 3, PureDP(2.0)
    values = 5 * rng(3).standard_t(2, (4, n, d))
    estimator = KSU20BallMean(k=2, scale=1, radius=radius, outside=outside, constants="tuned")
    estimate = run(estimator, values, budget)
    if radius > 1:
        assert len(steps) > 1
        assert estimator.count_averaged(n, d, budget) < n
        return
    (step,) = steps
    r = estimator.ball_radius(n, d, budget)
    assert step.budget == budget
    assert step.sensitivity == pytest.approx((8 / 3 if outside == "discard" else 2) * r / n)
    for rows, mean in zip(values, estimate.before_noise, strict=True):
        np.testing.assert_allclose(mean, near_mean(rows, np.zeros(d), r, outside), rtol=1e-10)


@each_outside
@pytest.mark.parametrize(("half", "d"), [(1, 1), (2, 3), (3, 1), (4, 3), (30, 3)])
def test_sensitivity_in_the_ball_by_brute_force(
    monkeypatch: pytest.MonkeyPatch, steps: list[Step], outside: Outside, half: int, d: int
) -> None:
    """Discarding has sensitivity 8r/(3n), attained if 3n/4 is whole; projecting attains 2r/n."""
    r, centre = 2.0, np.full(d, 5.0)
    monkeypatch.setattr(KSU20BallMean, "ball_radius", lambda self, n, d, budget: r)
    given = lambda _, sample, ledger: ledger.pay() or np.tile(centre, (sample.trials, 1))  # noqa: E731
    monkeypatch.setattr(KSU20BallMean, "_centre", given)
    draw = rng(11)
    axes = np.concatenate([np.eye(d), -np.eye(d)])
    inside = np.concatenate([0.999999 * r * axes, 0.5 * r * axes, np.zeros((1, d))])
    wild = np.concatenate([centre + inside, *(s * axes for s in (1e3, 1e150, 1e300, -1e300))])
    edges = {math.floor(0.75 * half), math.ceil(0.75 * half), half - 1, half, 0}
    counts = edges | {c + s for c in edges for s in (-1, 1)}
    largest = 0.0
    estimator = KSU20BallMean(k=2, scale=1, radius=9.0, outside=outside)
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
            before = run(estimator, values, ZCDP(0.3)).before_noise
            stated = steps[-1].sensitivity
            assert stated == pytest.approx(r * (8 / 3 if outside == "discard" else 2) / half)
            moves = row_norms(before[:, None] - before[None])
            largest = max(largest, float(moves.max()) / stated)
    assert largest <= 1 + 1e-9
    if outside == "project" or half % 4 == 0:
        assert largest == pytest.approx(1, rel=1e-5)


@each_outside
@pytest.mark.parametrize("budget", [*ZCDP_OR_NOT, PureDP(0.3)], ids=name)
@pytest.mark.parametrize(("k", "n", "d"), [(2, 1000, 3), (2.5, 10**9, 45), (6, 1000, 45)])
@pytest.mark.parametrize("constants", ["practical", "tuned"])
def test_the_ball_balances_bias_and_noise(
    constants: Any, outside: Outside, budget: Budget, k: float, n: int, d: int
) -> None:
    """T minimises bias plus noise quantile, or the root of the sum of their squares (``tuned``)."""
    beta = 0.05
    estimator = KSU20BallMean(
        k=k, scale=1, radius=1.0, outside=outside, beta=beta, constants=constants
    )
    radius = estimator.ball_radius(n, d, budget)
    if isinstance(budget, ApproxDP):
        budget = replace(budget, noise_by="analytic")
    sd = budget.noise_quantile(2 * float(stats.norm.sf(1)))
    quantile = sd * math.sqrt(float(stats.chi2(d).isf(beta)))
    if isinstance(budget, PureDP):
        quantile = float(stats.gamma(d).isf(beta)) / budget.epsilon

    def bound(t: float) -> float:
        bias = t ** -(k - 1) if outside == "discard" else worst_clipping_bias(t, k)
        step = 8 / (3 * n) if outside == "discard" else 2 / n
        if constants == "tuned":
            return math.hypot(bias, step * math.sqrt(d) * t * quantile)
        return bias + step * math.sqrt(d) * (1 + t) * quantile

    at = radius / math.sqrt(d) - 1
    assert bound(at) < min(bound(f * at) for f in (0.1, 0.5, 0.999, 1.001, 2.0, 10.0))
    # With alpha given, the bias at T is alpha.
    for alpha in (1.0, 0.01):
        fixed = KSU20BallMean(k=k, scale=1, radius=1.0, outside=outside, alpha=alpha)
        t = fixed.ball_radius(n, d, budget) / math.sqrt(d) - 1
        bias = t ** -(k - 1) if outside == "discard" else worst_clipping_bias(t, k)
        assert bias == pytest.approx(alpha, rel=1e-9)


@pytest.mark.parametrize(("k", "d"), [(2, 45), (6, 1)])
def test_the_radius_of_the_paper(k: float, d: int) -> None:
    """r = 4 sqrt(d)/alpha^(1/(k-1)); by default Theorem 4.6 needs n records for alpha."""
    options: dict[str, Any] = {"k": k, "scale": 1.0, "radius": 1.0, "constants": "paper"}
    for alpha in (1.0, 0.05, 1e-6):
        ball_radius = KSU20BallMean(**options, alpha=alpha).ball_radius(100, d, ZCDP(0.5))
        assert ball_radius == pytest.approx(4 * math.sqrt(d) / alpha ** (1 / (k - 1)), rel=1e-12)
    rho = 0.02
    for n in (10, 10**7, 10**10):
        r = KSU20BallMean(**options).ball_radius(n, d, ZCDP(rho))
        alpha = (r / (4 * math.sqrt(d))) ** -(k - 1)
        needed = 16 * d / (math.sqrt(2 * rho) * alpha ** (k / (k - 1))) * math.sqrt(2 / 3)
        assert needed == pytest.approx(n, rel=1e-9) or (
            needed > n and alpha == pytest.approx(1 / 16)
        )


def test_a_failed_coordinate_is_a_failed_trial() -> None:
    """If the histogram of one coordinate releases nothing, all coordinates are NaN."""
    values = rng(0).normal(size=(200, 60, 3))
    estimator = KSU20BallMean(k=2, scale=1, radius=None)
    value = run(estimator, values, ApproxDP(3.0, 1e-2), seed=1).value
    missing = np.isnan(value)
    assert np.array_equal(missing.any(axis=1), missing.all(axis=1))
    assert 0 < missing.all(axis=1).sum() < 200


def test_the_ball_under_pure_dp_beats_coordinates() -> None:
    """The ball has a factor sqrt(d) where coordinates have d, and nearly the same constants."""
    d, n, budget = 16, 10**7, PureDP(1.0)
    tuned: dict[str, Any] = {"k": 2, "scale": 1.0, "radius": 1.0, "constants": "tuned"}
    ball = KSU20BallMean(**tuned, outside="project")
    laws = SignedTwoPointFamily(d=d, k=2, c=[2.7, 5]).members("f", n, budget).values()

    def worst(estimator: Estimator) -> float:
        values = [run(estimator, law.sample(rng(5), 100, n), budget).value for law in laws]
        norms = [row_norms(one - law.target) for one, law in zip(values, laws, strict=True)]
        return max(float(np.quantile(one, 0.9)) for one in norms)

    best = worst(ball)
    # Quantiles of 100 trials are within 10 per cent with probability above 1 - 1e-6.
    assert best < 6 * two_point_lower_bound(n, 2, budget).alpha
    assert worst(CoordinateWise(base=KSU20Mean(k=2, scale=1, radius=1.0))) > 20 * best
    assert worst(CoordinateWise(base=KSU20Mean(**tuned))) > 1.3 * best
    assert not KSU20BallMean(k=2, scale=1, radius=1.0, constants="paper").supports(budget)
