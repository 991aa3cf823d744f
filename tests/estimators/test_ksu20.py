"""Tests of the range and the mean of KSU20: algorithms, costs and guarantees."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import TwoPoint
from dpbench.estimators import (
    Estimate,
    KSU20Mean,
    KSU20RangeEstimate,
    TunedClippedMean,
    ksu20,
    moment_bins,
)
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.estimators.ksu20 import Constants
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.histogram import private_mode_bin
from dpbench.samples import Bins, DenseSample, Sample
from dpbench.theory.exact.value import exact
from dpbench.theory.families import TwoPointFamily
from tests.support import Floats, name, off_by, run

THREE: list[Budget] = [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)]
each_notion = pytest.mark.parametrize("budget", THREE, ids=name)
# r in units of alpha^(-1/(k-1)): 10 in Algorithm 1 of KSU20, 2 in the practical constants.
HALF_BIN: dict[Constants, float] = {"paper": 10.0, "practical": 2.0}


@dataclass
class Steps:
    """Record of all histograms and noisy means of a run, in order."""

    histograms: list[tuple[Any, Bins, Ledger, Floats]] = field(default_factory=list)
    means: list[tuple[Any, Floats, float, Ledger, Estimate]] = field(default_factory=list)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    recorded = Steps()

    def spy_fullest(sample: Sample, bins: Bins, ledger: Ledger, **public: float) -> Floats:
        left = private_mode_bin(sample, bins, ledger, **public)
        recorded.histograms.append((sample, bins, ledger, left))
        return left

    def spy_noisy(sample: Sample, centre: Floats, half: float, ledger: Ledger) -> Estimate:
        mean = noisy_clipped_mean(sample, centre, half, ledger)
        recorded.means.append((sample, centre, half, ledger, mean))
        return mean

    monkeypatch.setattr(moment_bins, "private_mode_bin", spy_fullest)
    monkeypatch.setattr(ksu20, "noisy_clipped_mean", spy_noisy)
    return recorded


@pytest.mark.parametrize(("k", "alpha", "radius"), [(2, 0.06, 0.0), (4.5, 1e-3, 1e9)])
@pytest.mark.parametrize("constants", ["paper", "practical"])
def test_bins_and_range(
    steps: Steps, k: float, alpha: float, radius: float, constants: Constants
) -> None:
    r = HALF_BIN[constants] / alpha ** (1 / (k - 1))
    estimator = KSU20RangeEstimate(k=k, scale=1, alpha=alpha, radius=radius, constants=constants)
    estimate = run(estimator, DenseSample([[0.5] * 40]), PureDP(10.0))
    ((_, bins, _, left),) = steps.histograms
    assert bins.width == pytest.approx(2 * r, rel=1e-12)
    assert bins.left(bins.first) == pytest.approx(-radius - 2 * r, rel=1e-12)
    assert bins.count == math.ceil((2 * radius + 4 * r) / (2 * r) * (1 - 1e-12))
    assert estimate.interval is not None
    low, high = estimate.interval
    assert low == pytest.approx(left - 2 * r, rel=1e-12)  # [a - 2r, b + 2r], b = a + 2r
    assert high == pytest.approx(left + 4 * r, rel=1e-12)
    assert estimate.value == pytest.approx((low + high) / 2, rel=1e-12, abs=1e-12 * r)


SETTINGS = [("paper", 1000), ("paper", 1131), ("practical", 40), ("practical", 41)]
SETTINGS += [("tuned", 41), ("tuned", 4000)]  # many of the records for the range, or a tenth
each_setting = pytest.mark.parametrize(("constants", "n"), SETTINGS)


@each_notion
@each_setting
def test_the_mean_to_the_letter(steps: Steps, constants: Any, n: int, budget: Budget) -> None:
    k, alpha, beta = 3, 0.04, 0.8
    values = 40 * np.random.default_rng(2).standard_cauchy((1, n))
    # The histogram of a group of three records may release nothing: delta is large.
    budget = ApproxDP(1.0, 0.4) if isinstance(budget, ApproxDP) else budget
    asked = None if constants == "tuned" else alpha
    estimator = KSU20Mean(k=k, scale=1, radius=9.0, alpha=asked, constants=constants, beta=beta)
    ledger = Ledger(budget, np.random.default_rng(3))
    estimate = estimator.run(DenseSample(values), ledger)

    m = math.ceil(200 * math.log(2 / beta)) if constants == "paper" else 1
    done: tuple[list[Any], ...] = (steps.histograms, steps.means)
    ranges, means = ([row for sample, *_ in part for row in sample.values] for part in done)
    assert len(ranges) == len(means) == m
    # Both halves and all groups are disjoint, and together all of the records.
    assert sorted(np.concatenate(ranges + means)) == sorted(values[0])
    located = n / 2
    if constants == "tuned":
        located = min(max(estimator.histogram_needs(1.0, budget), n / 10), n / 2)
    assert abs(sum(map(len, ranges)) - located) < 1
    for half in (ranges, means):
        sizes = {len(row) for row in half}
        assert max(sizes) - min(sizes) <= 1

    r = 2 ** (1 / k) if constants == "tuned" else HALF_BIN[constants] / math.sqrt(alpha)
    lefts = np.concatenate([left for *_, left in steps.histograms])
    expected, released = [], []
    i = 0
    for sample, centre, half_width, _, mean in steps.means:
        # The analogue of `minimax` for a mean within r + 4^(1/k) of the bin's middle.
        quantile = PureDP(1.0).noise_quantile(beta)
        if isinstance(budget, ZCDP):
            quantile = float(stats.norm.isf(beta / 2))  # sd 1 at rho = 1/2
        best = (k - 1) / k * (sample.n / (2 * quantile)) ** (1 / k)
        width = 3 * r if constants == "paper" else r + 4 ** (1 / k) + best
        if constants == "tuned":
            off, mean_budget = (
                r + 4 ** (1 / k),
                PureDP(1.0) if isinstance(budget, ApproxDP) else budget,
            )
            errors = [
                off_by(worst_clipping_bias(t, k), off + t, sample.n, beta, mean_budget)
                for t in (half_width - off) * np.array([1, 0.99, 1.01])
            ]
            assert errors[0] == min(errors)
            width = half_width
        assert half_width == pytest.approx(width, rel=1e-12)
        for row, middle, value in zip(sample.values, centre, mean.value, strict=True):
            np.testing.assert_allclose(middle, lefts[i] + r, rtol=1e-12, atol=1e-12)
            low, high = middle - width, middle + width
            clipped = [min(max(x, low), high) for x in row]
            expected.append(sum(clipped) / len(row) if np.isfinite(middle) else math.nan)
            released.append(value)
            i += 1
        np.testing.assert_allclose(mean.before_noise, expected[-len(centre) :], rtol=1e-12)
    failed = np.isnan(lefts)
    assert np.array_equal(failed, np.isnan(released))
    finite = np.median(np.where(failed, np.inf, released))
    assert estimate.value[0] == finite or (np.isinf(finite) and np.isnan(estimate.value[0]))
    assert constants == "tuned" or estimator.accuracy(n, budget) == alpha  # the error sought,
    assert estimate.accuracy is None  # and so few records have no promise

    # Groups are disjoint: every mechanism has the whole budget, and all cost it once.
    for _, _, paid, _ in steps.histograms:
        assert paid.budget == budget
    for *_, paid, _ in steps.means:
        assert paid.budget == (PureDP(1.0) if isinstance(budget, ApproxDP) else budget)
    assert ledger.spent == pytest.approx(budget.amounts, rel=1e-12)


@pytest.mark.parametrize("missing", [0, 69, 70])
def test_a_group_that_releases_nothing_is_infinitely_wrong(
    monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    estimator = KSU20Mean(k=2, scale=1, radius=0.0, alpha=0.05, constants="paper", beta=1 - 1e-9)
    m = estimator.groups
    assert m == 139
    left = np.where(np.arange(m) < missing, np.nan, -10 / 0.05)
    monkeypatch.setattr(
        moment_bins, "private_mode_bin", lambda sample, bins, ledger, **_: np.tile(left, 3)
    )
    values = np.concatenate([np.zeros((3, m)), np.tile(np.arange(m) + 0.0, (3, 1))], axis=1)
    estimate = run(estimator, DenseSample(values), PureDP(1e6))
    # The groups missing are those of the smallest means, and count as the largest.
    if 2 * missing > m:
        assert np.all(np.isnan(estimate.value))
        assert np.all(np.isnan(estimate.before_noise))
    else:
        np.testing.assert_allclose(estimate.before_noise, missing + (m - 1) / 2)
        np.testing.assert_allclose(estimate.value, missing + (m - 1) / 2, atol=0.5)


@pytest.mark.parametrize(("k", "alpha", "radius"), [(2, 0.06, 0.0), (3.5, 1e-2, 1e6)])
def test_records_for_an_error(k: float, alpha: float, radius: float) -> None:
    """The terms are those of KSU20, Theorems 3.5 and 3.7, with the constants of their proofs."""
    eps, rho, delta, n = 0.3, 0.02, 1e-7, 1e7
    power, sampling = alpha ** (-k / (k - 1)), 90 / alpha**2
    sd = 1 / math.sqrt(2 * rho)
    budgets: list[tuple[Budget, float]] = [  # and the 0.9 quantile of their noise
        (PureDP(eps), math.log(10) / eps),
        (ZCDP(rho), sd * stats.norm.isf(0.05)),
        (ApproxDP(eps, delta, "classical"), math.log(10) / eps),
    ]
    paper = KSU20Mean(k=k, scale=1, radius=radius, constants="paper")
    for budget, quantile in budgets:
        needed = sampling + 180 * quantile * power + paper.histogram_needs(alpha, budget)
        assert sum(paper.terms(alpha, n, budget)) == pytest.approx(needed, rel=1e-9)
    assert round(180 * math.log(10)) == 414  # over eps: the constant under pure DP

    practical = KSU20Mean(k=k, scale=1, radius=radius)
    basic, quantile = 1 / alpha**2, sd * stats.norm.isf(0.05) / math.log(10)
    for budget, private in (
        (PureDP(eps), power / eps + math.log(1 + radius) / eps),
        (ZCDP(rho), quantile * power + sd * stats.norm.isf(0.5 / (1 + radius))),
        (ApproxDP(eps, delta), power / eps + math.log(1 / delta) / eps),
    ):
        needed = sum(practical.terms(alpha, n, budget))
        assert needed == pytest.approx(basic + private, rel=1e-9)


@each_notion
@pytest.mark.parametrize(
    ("constants", "largest", "parts"), [("paper", 1 / 16, 2 * 600), ("practical", 1.0, 1)]
)
def test_accuracy_inverts_the_terms(
    budget: Budget, constants: Constants, largest: float, parts: int
) -> None:
    """At the accuracy the terms add up to n, the records of a group (``paper``) or all records."""
    for k, radius, n in ((2, 1e300, 1), (10, 0.0, 10**3), (2, 0.0, 10**9), (10, 1e300, 10**15)):
        estimator = KSU20Mean(k=k, scale=1, radius=radius, constants=constants)
        alpha = estimator.accuracy(n, budget)
        needed = parts * sum(estimator.terms(alpha, n / parts, budget))
        assert needed == pytest.approx(n, rel=1e-9) or (alpha == largest and needed > n)


def enough(estimator: KSU20Mean, alpha: float, budget: Budget) -> int:
    """Return a number of records that suffices for an error alpha, over all 2 m groups."""
    n = 1e3
    while sum(estimator.terms(alpha, n, budget)) > n:
        n = 1.01 * sum(estimator.terms(alpha, n, budget))
    return 2 * estimator.groups * math.ceil(sum(estimator.terms(alpha, n, budget)))


@each_notion
def test_what_theorem_3_5_promises(budget: Budget) -> None:
    """A promise needs an error below 1/16, constants of the paper, and the records of `terms`."""

    def made(alpha: float | None, constants: Constants = "paper") -> KSU20Mean:
        return KSU20Mean(k=2, scale=1, radius=50.0, beta=0.5, alpha=alpha, constants=constants)

    paper, default = made(0.01), made(None)
    n = enough(paper, 0.01, budget)
    assert paper.promise(n, budget) == paper.promise(10 * n, budget) == 0.01
    assert paper.promise(int(0.999 * n), budget) is None
    # A larger error is easier, but the lemmas are for alpha below 1/16 only.
    assert all(made(large).promise(n, budget) is None for large in (1 / 16, 0.07, 1.0))
    assert made(0.01, "practical").promise(10 * n, budget) is None
    # The default alpha is the smallest error for which n suffices; if 1/16 needs more, no promise.
    assert default.promise(n, budget) == default.accuracy(n, budget)
    assert default.accuracy(n, budget) == pytest.approx(0.01, rel=1e-2)
    few = 2 * default.groups * 100
    assert default.accuracy(few, budget) == 1 / 16
    assert default.promise(few, budget) is None
    for size, expected in ((n, 0.01), (n // 2, None)):
        sample = TwoPoint(p=0.5, k=2).sample(np.random.default_rng(0), 1, size)
        assert run(paper, sample, budget).accuracy == expected


@each_notion
def test_theorem_3_5_keeps_its_promise(budget: Budget) -> None:
    """The error is at most alpha with probability 0.9, at the smallest n that has the promise."""
    paper, trials = KSU20Mean(k=2, scale=1, radius=50.0, constants="paper", alpha=0.06), 30
    n = enough(paper, 0.06, budget)
    for p in (1e-6, 1e-3, 0.5):
        law = TwoPoint(p=p, k=2)
        estimate = run(paper, law.sample(np.random.default_rng(3), trials, n), budget)
        assert estimate.accuracy == 0.06
        # Binomial(30, 0.1) exceeds 15 with probability below 1e-8.
        assert np.count_nonzero(~(np.abs(estimate.value - law.mean) <= 0.06)) <= 15


def test_tuned_constants_take_no_alpha() -> None:
    with pytest.raises(ValueError, match=r"tuned constants depend on no alpha, got 0\.1"):
        KSU20Mean(k=2, scale=1, radius=1.0, alpha=0.1, constants="tuned")


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5)], ids=name)
@pytest.mark.parametrize(("k", "least"), [(2, 5.0), (3, 1.8), (4, 1.7)])
def test_tuned_constants_cost_little(k: float, least: float, budget: Budget) -> None:
    """Compare exact quantiles with those for a known mean, and with those of ``practical``."""
    n = 10**8
    tuned = KSU20Mean(k=k, scale=1, radius=1.0, constants="tuned")

    def worst(estimator: KSU20Mean | TunedClippedMean, location: float) -> float:
        laws = TwoPointFamily(k=k, c=[1, 3, 6], location=location).members("f", n, budget)
        return max(exact("q90", estimator, law, n, budget) for law in laws.values())

    known = worst(TunedClippedMean(k=k, scale=1), 0.0)
    assert worst(tuned, 0.33) < 1.1 * known
    assert worst(KSU20Mean(k=k, scale=1, radius=1.0), 0.33) > least * worst(tuned, 0.33)
    # Nine tenths of the records are averaged.
    needed = [
        e.private_terms(0.01, 0.1, n, budget)["privacy"]
        for e in (tuned, TunedClippedMean(k=k, scale=1))
    ]
    assert needed[0] == pytest.approx(needed[1] / 0.9, rel=1e-6)


def test_the_smallest_n_fills_two_halves_of_the_groups() -> None:
    for constants in ("paper", "practical", "tuned"):
        estimator = KSU20Mean(k=2, scale=1, radius=10, constants=constants)
        n = estimator.least_records(1, PureDP(1.0))
        assert n == 2 * estimator.groups
        assert estimator.count_averaged(n, PureDP(1.0)) >= estimator.groups
