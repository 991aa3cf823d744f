"""Estimators of vectors: what they pay, what noise they add, what a hostile row can do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from conftest import Step
from scipy import optimize, stats
from support import (
    FALSE_ALARM,
    Floats,
    assert_follows,
    buckets_of,
    middle,
    name,
    noise_law,
    row_norms,
    run,
    spreads,
)

from dpbench.distributions.sparse import SignedTwoPoint
from dpbench.estimators import (
    BoundedMean,
    ClippedMean,
    CoinPressCovariance,
    CoinPressMean,
    CoordinateWise,
    EmpiricalMean,
    Estimate,
    Estimator,
    FriendlyCoreMean,
    KarwaVadhanMean,
    KSU20BallMean,
    KSU20Mean,
    Median,
    SubsampleAggregate,
    WhitenedCoinPressMean,
    subsample,
)
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.friendly_core import friendly_mean
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, NonPrivate, PureDP
from dpbench.privacy.histogram import fullest_bin
from dpbench.privacy.quantile import private_quantile
from dpbench.registry import ConfigError
from dpbench.samples import DenseSample, Sample, SparseSample

BUDGETS: list[Budget] = [
    PureDP(0.5),
    ZCDP(0.1),
    ApproxDP(0.5, 1e-5),
    ApproxDP(0.5, 1e-5, "classical"),
    ApproxDP(0.5, 1e-5, "laplace"),
    NonPrivate(),
]


OUTPUTS: dict[str, Any] = {"buckets": 3, "lower": -4.0, "upper": 5.0}


# What must have vectors, and those that must have them one by one.
DENSE = [CoinPressCovariance(bound=4.0), WhitenedCoinPressMean(radius=3.0, bound=4.0)]


@pytest.mark.parametrize("estimator", [*DENSE, KSU20BallMean(k=2, radius=3.0)], ids=name)
def test_data_of_another_kind_are_refused(estimator: Estimator) -> None:
    kinds = {"vectors": DenseSample(np.zeros((2, 50)))}
    if estimator in DENSE:
        kinds["record by record"] = SparseSample(np.ones((2, 3)), np.array([1, 1]), 50)  # type: ignore[assignment]
    for message, sample in kinds.items():
        ledger = Ledger(ZCDP(0.1), np.random.default_rng(0))
        with pytest.raises(ValueError, match=message):
            estimator.run(sample, ledger)
        assert not any(ledger.spent)


# Noise, and what it is stated for.


class Spy(Ledger):
    """Keeps what is released and the sensitivities stated for it."""

    kind = ""

    def add_noise(
        self,
        values: Floats,
        sensitivity: float | Floats,
        *,
        l1: float | Floats | None = None,
        draws: int = 1,
    ) -> Floats:
        self.kind, self.values, self.l2, self.l1 = "additive", values, sensitivity, l1
        return super().add_noise(values, sensitivity, l1=l1, draws=draws)

    def add_l2_noise(self, values: Floats, sensitivity: float) -> Floats:
        self.kind, self.values, self.l2 = "l2", values, sensitivity
        return super().add_l2_noise(values, sensitivity)


@pytest.mark.parametrize("mechanism", ["additive", "l2"])
@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 2), (100, 3)])
@pytest.mark.parametrize("radius", [0.5, 1e200])
def test_the_sensitivity_of_the_bounded_mean(
    mechanism: Literal["additive", "l2"], n: int, d: int, radius: float
) -> None:
    """2L/n by brute force over neighbours, and attained; no row takes the others' digits."""
    rng = np.random.default_rng(6)
    poles = np.concatenate([np.eye(d), -np.eye(d), np.ones((1, d)), np.zeros((1, d))])
    wild = [size * poles for size in (0.3, 1e6, 1e150, 1e300)] + [rng.normal(0, 1, (20, d))]
    rows = np.concatenate(wild)
    estimator = BoundedMean(radius=radius, mechanism=mechanism)
    for base in (rng.normal(0, 1, (n, d)), 1e6 + rng.normal(0, 1, (n, d)), np.zeros((n, d))):
        for index in {0, n // 2, n - 1}:
            values = np.tile(base, (len(rows), 1, 1))
            values[:, index] = rows
            spy = Spy(PureDP(0.5), np.random.default_rng(0))
            found = estimator.run(DenseSample(values), spy)
            assert spy.kind == mechanism
            assert spy.l2 == pytest.approx(2 * radius / n, rel=1e-12)
            assert mechanism == "l2" or spy.l1 is None  # sqrt(d) times the other
            moves = row_norms(found.before_noise[:, None] - found.before_noise[None])
            assert moves.max() <= 2 * radius / n * (1 + 1e-12)
            if radius < 1:
                assert moves.max() == pytest.approx(2 * radius / n, rel=1e-12)


@pytest.mark.parametrize("budget", [*BUDGETS[:-1], ApproxDP(0.5, 1e-5, "ksu20")], ids=name)
@pytest.mark.parametrize("d", [4])
def test_additive_noise_of_the_bounded_mean(budget: Budget, d: int) -> None:
    """algorithms.md, sections 1 and 3: Delta_1 = 2L sqrt(d)/n, Delta_2 = 2L/n."""
    n, length = 5, 3.0
    values = np.tile(np.linspace(-1, 1, n * d).reshape(n, d), (4000, 1, 1))
    found = run(BoundedMean(radius=length), values, budget)
    noise = (found.value - found.before_noise).ravel()
    law = noise_law(budget, 2 * length * math.sqrt(d) / n, 2 * length / n)
    assert_follows(noise, law)
    if d > 1:  # z-test with false-alarm probability 1e-6: coordinates are independent
        z = noise.reshape(-1, d) / law.std()
        limit = stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(len(z))
        assert abs(float((z[:, 0] * z[:, 1]).mean())) <= limit


# Coordinate by coordinate.


@pytest.mark.parametrize(
    ("base", "budget"),
    [
        (ClippedMean(lower=-1.0, upper=2.0), PureDP(0.6)),
        (ClippedMean(lower=-1.0, upper=2.0), ApproxDP(0.6, 1e-4, "classical")),
        (CoinPressMean(radius=3.0), ZCDP(0.2)),
        (CoinPressMean(radius=3.0), ApproxDP(2.0, 1e-4)),
        (KarwaVadhanMean(radius=9.0), PureDP(30.0)),
    ],
    ids=name,
)
@pytest.mark.parametrize("d", [1, 5])
def test_coordinates_against_the_base_alone(base: Estimator, budget: Budget, d: int) -> None:
    values = np.random.default_rng(8).normal(1, 2, (7, 30, d))
    found = run(CoordinateWise(base=base), values, budget)
    share: Budget
    if isinstance(budget, PureDP):
        share = PureDP(budget.epsilon / d)
    elif isinstance(budget, ZCDP):
        share = ZCDP(budget.rho / d)
    else:
        assert isinstance(budget, ApproxDP)
        share = ApproxDP(budget.epsilon / d, budget.delta / d, budget.noise_by)
    # The same stream, for all coordinates of the first trial, then of the second, and so on.
    columns = np.array([row[:, j] for row in values for j in range(d)])
    alone = run(base, columns, share)
    np.testing.assert_allclose(found.value.ravel(), alone.value, rtol=1e-12)
    np.testing.assert_allclose(found.before_noise.ravel(), alone.before_noise, rtol=1e-12)


@pytest.mark.parametrize(
    "base", [EmpiricalMean(), "empirical_mean", "no_such_mean", 3, None, spreads, ClippedMean]
)
def test_other_bases_of_coordinates_are_refused(base: Any) -> None:
    with pytest.raises(ValueError, match=r"private estimator of scalars|choose from"):
        CoordinateWise(base=base)
    with pytest.raises(ConfigError, match=r"^estimator\.one\.base") as caught:
        Estimator.build({"kind": "coordinate_wise", "base": base}, "estimator.one")
    assert len(str(caught.value).splitlines()) == 1


# KSU20, Algorithm 3.

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
    rng = np.random.default_rng(9)
    values = rng.standard_t(2, (6, n, d)) + 1.5
    values[1, -1], values[2, -1] = 1e300, -1e150
    values[3] += 1e3  # nothing is inside
    values[4, n // 2 :: 2] += 50
    centre = rng.normal(1.5, 0.5, (6, d))
    seen = given_centre(monkeypatch, centre)
    estimator = KSU20BallMean(k=2, radius=9.0, outside=outside, alpha=0.8)
    ledger = Ledger(budget, np.random.default_rng(0))
    found = estimator.run(DenseSample(values), ledger)
    half = n // 2
    r = math.sqrt(d) * (1 + {"discard": 1 / 0.8, "project": 1 / 4 / 0.8}[outside])
    (first,) = seen
    assert isinstance(first, DenseSample)
    np.testing.assert_array_equal(first.values, values[:, : n - half])
    ((paid, before, sensitivity, released),) = of_vectors(steps)
    rho = budget.rho if isinstance(budget, ZCDP) else ZCDP.within(ApproxDP(2.0, 1e-5)).rho
    assert isinstance(paid, ZCDP)
    assert paid.rho == pytest.approx(rho, rel=1e-9)  # halves in parallel
    assert ledger.spent == pytest.approx(budget.amounts, rel=1e-9)
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


@pytest.mark.parametrize("constants", ["paper", "practical"])
@pytest.mark.parametrize("budget", ZCDP_OR_NOT, ids=name)
@pytest.mark.parametrize("radius", [9.0, None])
def test_the_centre_is_that_of_numbers(
    monkeypatch: pytest.MonkeyPatch,
    steps: list[Step],
    constants: Any,
    budget: Budget,
    radius: float | None,
) -> None:
    """KSU20's Algorithm 2 on every coordinate of one half: alpha = 1, beta = 0.1/d."""
    if radius is None and isinstance(budget, ZCDP):
        return
    d, seen = 2, []
    real = KSU20Mean.estimate

    def spy(self: KSU20Mean, sample: Sample, ledger: Ledger) -> Estimate:
        found = real(self, sample, ledger)
        seen.append((self, sample, ledger, found))
        return found

    monkeypatch.setattr(KSU20Mean, "estimate", spy)
    values = np.random.default_rng(10).standard_t(3, (3, 4001, d))
    ledger = Ledger(budget, np.random.default_rng(0))
    KSU20BallMean(k=3, radius=radius, constants=constants, alpha=0.5).run(
        DenseSample(values), ledger
    )
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
    assert ledger.spent == pytest.approx(budget.amounts, rel=1e-9)
    r = math.sqrt(d) * (4 * 0.5**-0.5 if constants == "paper" else 1 + 0.5**-0.5)
    for trial, rows in enumerate(values[:, 2001:]):
        centre = coarse.value.reshape(3, d)[trial]
        np.testing.assert_allclose(
            before[trial], near_mean(rows, centre, r, "discard"), rtol=1e-10, atol=1e-12
        )


@each_outside
@pytest.mark.parametrize(("half", "d"), [(1, 1), (2, 3), (3, 1), (4, 3), (12, 1), (30, 3)])
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
    rng = np.random.default_rng(11)
    axes = np.concatenate([np.eye(d), -np.eye(d)])
    inside = np.concatenate([0.999999 * r * axes, 0.5 * r * axes, np.zeros((1, d))])
    wild = np.concatenate([centre + inside, *(s * axes for s in (1e3, 1e150, 1e300, -1e300))])
    edges = {math.floor(0.75 * half), math.ceil(0.75 * half), half - 1, half, 0}
    counts = edges | {c + s for c in edges for s in (-1, 1)}
    largest = 0.0
    estimator = KSU20BallMean(k=2, radius=9.0, outside=outside)
    for count in {c for c in counts if 0 <= c < half}:
        poles = centre + 0.999999 * r * np.tile(axes[:1], (half, 1))
        mixed = centre + rng.uniform(-r, r, (half, d)) / math.sqrt(d)
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


def bias_on(
    monkeypatch: pytest.MonkeyPatch, rows: Floats, t: float, outside: Outside
) -> tuple[float, float]:
    """|mean that the estimator makes of equally likely rows - their mean|, and P(inside)."""
    mean = rows.mean(axis=0)
    r = math.sqrt(rows.shape[1]) * t
    with monkeypatch.context() as patch:
        given_centre(patch, mean)
        given_radius(patch, r)
        estimator = KSU20BallMean(k=2, radius=9.0, outside=outside)
        found = run(estimator, np.concatenate([rows, rows])[None], ZCDP(0.3)).before_noise[0]
    inside = float(np.mean(np.linalg.norm(rows - mean, axis=1) <= r))
    return float(np.linalg.norm(found - mean)), inside


def bounds_hold(
    monkeypatch: pytest.MonkeyPatch, rows: Floats, k: float, t: float
) -> tuple[float, float]:
    """The biases over their bounds, discarding and projecting."""
    discarded, inside = bias_on(monkeypatch, rows, t, "discard")
    projected, _ = bias_on(monkeypatch, rows, t, "project")
    # What is put at the mean is divided by P(inside), but by 3/4 at least.
    first = discarded * max(inside, 0.75) / t ** -(k - 1)
    second = projected / worst_clipping_bias(t, k)
    assert max(first, second) <= 1 + 1e-9
    return first, second


@pytest.mark.parametrize(("k", "d"), [(2, 5), (3, 1), (4, 2)])
def test_bias_on_signed_two_point_laws(monkeypatch: pytest.MonkeyPatch, k: float, d: int) -> None:
    """All sign patterns equally often: the exact law as a dataset."""
    signs = np.array([(1.0, *s) for s in itertools.product([-1.0, 1.0], repeat=d - 1)])
    best = np.zeros(2)
    for zeros in (1, 3, 9, 30, 100):
        p = 1 / (1 + zeros)
        law = SignedTwoPoint(d=d, p=p, k=k)
        rows = np.concatenate([law.tau * signs, np.zeros((zeros * len(signs), d))])
        np.testing.assert_allclose(rows.mean(axis=0), law.mean, atol=1e-12)
        for t in law.tau * np.array([0.3, 0.5, (k - 1) / k, 0.8, 0.95, 1.1]):
            best = np.maximum(best, bounds_hold(monkeypatch, rows, k, float(t)))
    assert np.all(best > 0.25)  # laws of this kind come near the bounds


@pytest.mark.parametrize(
    ("estimator", "budget"),
    [
        (BoundedMean(radius=2.0), PureDP(0.5)),
        (CoinPressMean(radius=3.0), ZCDP(0.1)),
        (CoordinateWise(base=ClippedMean(lower=-2.0, upper=3.0)), ApproxDP(0.5, 1e-5)),
        (FriendlyCoreMean(radius=3.0), ApproxDP(9.0, 1e-2)),
    ],
    ids=name,
)
def test_sparse_rows_are_records(estimator: Estimator, budget: Budget) -> None:
    rng, n, d = np.random.default_rng(14), 40, 3
    held = np.array([4, 0, 40])
    rows = rng.choice([-2.0, 0.5, 0.0, 3.0, 1e150], (44, d))
    dense = np.zeros((3, n, d))
    dense[0, :4], dense[2] = rows[:4], rows[4:]
    one, two = (
        estimator.run(x, Ledger(budget, np.random.default_rng(1)))
        for x in (SparseSample(rows, held, n), DenseSample(dense))
    )
    np.testing.assert_allclose(one.before_noise, two.before_noise, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(one.value, two.value, rtol=1e-9, atol=1e-12)


# Subsample and aggregate.


BASES: list[tuple[Any, Callable[[Floats], Floats]]] = [
    ("empirical_mean", lambda rows: np.array([sum(column) / len(rows) for column in rows.T])),
    (spreads, lambda rows: np.array([max(column) - min(column) for column in rows.T])),
]
each_base = pytest.mark.parametrize(("base", "alone"), BASES)
each_size = pytest.mark.parametrize(("n", "k", "d"), [(14, 4, 3), (23, 7, 1)])


@each_base
@each_size
def test_aggregates_of_vectors_against_a_loop(
    base: Any, alone: Callable[[Floats], Floats], n: int, k: int, d: int
) -> None:
    values, huge = np.random.default_rng(16).standard_t(2, (4, n, d)), PureDP(1e6)
    options: dict[str, Any] = {"buckets": k, "lower": -0.5, "upper": 1.25, "base": base}
    mean = run(SubsampleAggregate(**options, aggregate="mean"), values, PureDP(1.0))
    medians = run(SubsampleAggregate(**options, resolution=1e-3), values, huge)
    mode = run(SubsampleAggregate(**options, aggregate="mode", resolution=0.25), values, huge)
    for trial, rows in enumerate(values):
        outputs = np.array([alone(bucket) for bucket in buckets_of(rows, k)])
        capped = np.minimum(np.maximum(outputs, -0.5), 1.25)
        np.testing.assert_allclose(mean.before_noise[trial], capped.mean(axis=0), atol=1e-12)
        for j in range(d):
            one: list[float] = capped[:, j].tolist()
            assert medians.before_noise[trial, j] == pytest.approx(middle(capped[:, j]), abs=1e-12)
            low, high = sorted(one)[(k - 1) // 2], sorted(one)[k // 2]
            assert low - 1e-3 <= medians.value[trial, j] <= high + 1e-3
            # Bins of width 0.5 from -0.5; the last is cut at 1.25, and its middle is 1.25.
            bins = [min(math.floor((x + 0.5) / 0.5), 3) for x in one]
            fullest = [-0.25 + 0.5 * b for b in bins if bins.count(b) == max(map(bins.count, bins))]
            for value in (mode.value[trial, j], mode.before_noise[trial, j]):
                assert min(abs(value - at) for at in fullest) < 1e-12


@each_base
@each_size
def test_a_friendly_core_of_outputs(
    base: Any, alone: Callable[[Floats], Floats], n: int, k: int, d: int
) -> None:
    values, budget = np.random.default_rng(17).standard_t(3, (50, n, d)), ApproxDP(30.0, 1e-2)
    estimator = SubsampleAggregate(
        buckets=k, base=base, aggregate="friendly_core", friends_within=5.0
    )
    found = run(estimator, values, budget)
    outputs = np.array([[alone(bucket) for bucket in buckets_of(rows, k)] for rows in values])
    wanted = friendly_mean(outputs, 5.0, Ledger(budget, np.random.default_rng(0)))
    np.testing.assert_allclose(found.value, wanted.value, rtol=1e-9)
    np.testing.assert_allclose(found.before_noise, wanted.before_noise, rtol=1e-9, atol=1e-12)
    assert found.core is not None
    np.testing.assert_allclose(found.core, wanted.core)  # type: ignore[arg-type]
    if k > 5:
        assert np.isfinite(found.value).any()


@pytest.mark.parametrize("aggregate", ["median", "mean", "mode", "friendly_core"])
@pytest.mark.parametrize("d", [1, 3])
def test_what_each_aggregate_pays(monkeypatch: pytest.MonkeyPatch, aggregate: Any, d: int) -> None:
    """Median and mode: 1/d of the budget for each coordinate; the others all of it at once."""
    paid: list[Budget] = []

    def spy(real: Any, at: int) -> Any:
        def spied(*options: Any) -> Any:
            if not isinstance(options[at].budget, NonPrivate):
                paid.append(options[at].budget)
            return real(*options)

        return spied

    monkeypatch.setattr(subsample, "private_quantile", spy(private_quantile, 5))
    monkeypatch.setattr(subsample, "fullest_bin", spy(fullest_bin, 2))
    monkeypatch.setattr(subsample, "noisy_clipped_mean", spy(noisy_clipped_mean, 3))
    monkeypatch.setattr(subsample, "friendly_mean", spy(friendly_mean, 2))
    friendly = {"friends_within": 1.0} if aggregate == "friendly_core" else {}
    estimator = SubsampleAggregate(**OUTPUTS | friendly, aggregate=aggregate)
    for budget in (ApproxDP(0.6, 1e-4), ZCDP(0.3), PureDP(0.6)):
        if not estimator.supports(budget):
            assert aggregate == "friendly_core"
            continue
        paid.clear()
        run(estimator, np.zeros((2, 9, d)), budget)
        share = d if aggregate in {"median", "mode"} else 1
        (one,) = paid
        assert type(one) is type(budget)
        assert one.amounts == pytest.approx([a / share for a in budget.amounts], rel=1e-12)


def test_the_noise_of_a_mean_of_outputs() -> None:
    """l1 sensitivity d (upper - lower)/k, l2 sqrt(d) (upper - lower)/k."""
    estimator = SubsampleAggregate(buckets=5, lower=-1.0, upper=2.0, aggregate="mean")
    laws: list[tuple[Budget, Any]] = [
        (PureDP(0.7), stats.laplace(scale=4 * 3 / 5 / 0.7)),
        (ZCDP(0.3), stats.norm(scale=2 * 3 / 5 / math.sqrt(0.6))),
    ]
    for budget, law in laws:
        found = run(estimator, np.zeros((2000, 10, 4)), budget).value
        assert_follows(found, law)


@pytest.mark.parametrize("aggregate", ["median", "mean", "mode", "friendly_core"])
@pytest.mark.parametrize("extreme", [-math.inf, math.nan, 1e308])
@pytest.mark.parametrize("whole", [True, False])
def test_an_output_that_is_no_number_is_no_signal(
    aggregate: Any, extreme: float, whole: bool
) -> None:
    """In one coordinate or in all of them, in one bucket."""

    def wild(rows: Floats) -> Floats:
        means, hit = np.asarray(rows.mean(axis=1)), rows.max(axis=(1, 2)) > 100.0
        means[hit, : None if whole else 1] = extreme
        return means

    limits = {"friends_within": 1.0} if aggregate == "friendly_core" else {}
    bounds = {} if limits else {"lower": -1.0, "upper": 1.0}
    estimator = SubsampleAggregate(
        buckets=9, base=wild, aggregate=aggregate, resolution=0.1, **limits, **bounds
    )
    values = np.full((50, 18, 3), 0.25)
    values[:, 3] = 1e3
    budget = ApproxDP(40.0, 1e-2)
    found = run(estimator, values, budget)
    assert np.all(np.isfinite(found.value))
    end = 1.0 if extreme > 0 else -1.0
    wanted = {"median": 0.25, "mean": (8 * 0.25 + end) / 9, "mode": 0.3, "friendly_core": 0.25}
    at = np.full(3, wanted[aggregate])
    if not whole and aggregate == "mean":
        at[1:] = (8 * 0.25 + 1.0) / 9  # 500.125 counts as 1
    if aggregate == "friendly_core" and math.isnan(extreme) and whole:
        # NaN counts as 0, which is a friend of 1/4 in every coordinate.
        at = np.full(3, 8 * 0.25 / 9)
    np.testing.assert_allclose(found.before_noise, np.tile(at, (50, 1)), rtol=1e-12)


def test_aggregates_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="friends_within"):
        SubsampleAggregate(**OUTPUTS, friends_within=1.0)
    with pytest.raises(ValueError, match="friends_within"):
        SubsampleAggregate(**OUTPUTS, aggregate="friendly_core")
    for aggregate in ("median", "mean", "mode"):
        for bounds in ({}, {"lower": 0.0}, {"upper": 1.0}):
            options: dict[str, Any] = {"buckets": 3, "aggregate": aggregate, **bounds}
            with pytest.raises(
                ValueError, match=f"the aggregate {aggregate} needs lower and upper"
            ):
                SubsampleAggregate(**options)
    for budget in (PureDP(1.0), ZCDP(1.0)):
        core = SubsampleAggregate(buckets=3, aggregate="friendly_core", friends_within=1.0)
        assert not core.supports(budget)
    with pytest.raises(ValueError, match="takes scalar records"):
        run(SubsampleAggregate(**OUTPUTS, base=Median()), np.zeros((2, 9, 2)), PureDP(1.0))
    for wrong in (lambda rows: rows.mean(axis=(1, 2)), lambda rows: rows[:, 0, :1]):
        estimator = SubsampleAggregate(**OUTPUTS, base=wrong)
        with pytest.raises(ValueError, match="the base function returned"):
            run(estimator, np.zeros((2, 9, 2)), PureDP(1.0))
    with pytest.raises(ValueError, match="needs records"):
        SubsampleAggregate(**OUTPUTS, base=spreads).run(
            SparseSample(np.ones((1, 2)), np.array([1]), 9),
            Ledger(PureDP(1.0), np.random.default_rng(0)),
        )


@pytest.mark.parametrize("outside", ["discard", "project"])
def test_a_failed_coordinate_is_a_failed_trial(outside: Any) -> None:
    """A histogram that releases nothing in one coordinate leaves no number in any."""
    values = np.random.default_rng(0).normal(size=(200, 60, 3))
    estimator = KSU20BallMean(k=2, radius=None, outside=outside)
    ledger = Ledger(ApproxDP(3.0, 1e-2), np.random.default_rng(1))
    value = estimator.run(DenseSample(values), ledger).value
    missing = np.isnan(value)
    assert np.array_equal(missing.any(axis=1), missing.all(axis=1))
    assert 0 < missing.all(axis=1).sum() < 200
