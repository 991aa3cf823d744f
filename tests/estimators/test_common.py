"""Every estimator keeps the promises of its base class, and `check_estimator` sees if not."""

from __future__ import annotations

import doctest
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from support import spreads

from dpbench import testing, validated
from dpbench.estimators import (
    BinaryMean,
    BoundedMean,
    ClippedMean,
    CoinPressCovariance,
    CoinPressMean,
    CoordinateWise,
    EmpiricalMean,
    Estimate,
    Estimator,
    ExponentialCoarseMean,
    FriendlyCoreMean,
    HeavyTailedMean,
    KarwaVadhanMean,
    KSU20BallMean,
    KSU20CoverMean,
    KSU20Mean,
    KSU20Range,
    LearnedGaussian,
    LocalMean,
    Median,
    MedianOfMeans,
    NaiveGaussianMean,
    ShrinkingIntervals,
    SubsampleAggregate,
    SubsampleTest,
    TrimmedMean,
    WhitenedCoinPressMean,
)
from dpbench.privacy import ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.histogram import fullest_bin
from dpbench.samples import Bins, DenseSample, Sample
from dpbench.testing import check_estimator

Floats = NDArray[np.float64]


@dataclass
class Row:
    """An estimator, the notions it is for (algorithms.md, sections 2 to 4), how it is checked."""

    estimator: Estimator
    notions: str  # p(ure), z(cdp), a(pprox) or n(one)
    options: dict[str, Any] = field(default_factory=dict)


OUTPUTS: dict[str, Any] = {"buckets": 3, "lower": -4.0, "upper": 5.0}
VECTORS = {"d": 3}
ROWS = [
    Row(BinaryMean(), "pza"),
    Row(BoundedMean(radius=2.5), "pza"),
    Row(BoundedMean(radius=2.5, mechanism="l2"), "p"),
    Row(ClippedMean(lower=-2.0, upper=3.0), "pza"),
    Row(ClippedMean(lower=None, upper=3.0), "pza"),
    Row(CoinPressCovariance(bound=4.0), "za", VECTORS),
    Row(CoinPressMean(radius=3.0), "za"),
    Row(CoinPressMean(radius=3.0, rounds=1, sigma=0.5), "za"),
    Row(CoinPressMean(radius=1e300, rounds=3, report=2), "za"),
    Row(CoordinateWise(base=ClippedMean(lower=-2.0, upper=3.0)), "pza"),
    Row(CoordinateWise(base={"kind": "coinpress_mean", "radius": 3.0}), "za"),
    Row(CoordinateWise(base=KarwaVadhanMean(radius=2.0)), "pza"),
    Row(CoordinateWise(base=KSU20Mean(k=2, radius=None)), "a"),
    Row(EmpiricalMean(), "n", {"translation": True, "scale": True}),
    Row(ExponentialCoarseMean(radius=2.0), "pza"),
    Row(ExponentialCoarseMean(radius=1e300, sigma=0.5), "pza"),
    Row(FriendlyCoreMean(radius=3.0), "a", {"translation": True}),
    Row(FriendlyCoreMean(sigma=0.5, composition="zcdp", threshold=0.1), "a"),
    Row(HeavyTailedMean(k=2), "pza"),
    Row(HeavyTailedMean(k=3, policy="rate", radius=1.5), "pza"),
    Row(HeavyTailedMean(k=2.5, policy="all", beta=0.05), "pza"),
    Row(KSU20BallMean(k=2, radius=3.0), "za", VECTORS),
    Row(KSU20BallMean(k=3, radius=1e300, outside="project"), "za", VECTORS),
    Row(KSU20BallMean(k=2, radius=None), "a", VECTORS),
    Row(
        KSU20CoverMean(k=2, radius=3.0, alpha=0.5),
        "p",
        {"records": np.random.default_rng(0).standard_normal((30, 2))},
    ),
    Row(KSU20Mean(k=2, radius=1.5), "pza"),
    Row(KSU20Mean(k=3, radius=None, alpha=0.3), "a"),
    Row(
        KSU20Mean(k=2.5, radius=1e300, constants="paper", beta=0.99),
        "pza",
        {"records": np.random.default_rng(1).standard_t(3, 1201)},
    ),
    Row(KSU20Range(k=2, alpha=0.05, radius=1.5), "pza"),
    Row(KSU20Range(k=3, alpha=0.3, radius=None, constants="practical"), "a"),
    Row(KarwaVadhanMean(radius=2.0), "pza"),
    Row(KarwaVadhanMean(radius=None, sigma=0.5), "a"),
    Row(LearnedGaussian(radius=2.0, sigma=1.5), "pza"),
    Row(LearnedGaussian(radius=2.0), "pza"),
    Row(LearnedGaussian(radius=1e300, sigma_low=0.5, sigma_high=2.0), "pza"),
    Row(LearnedGaussian(radius=None, sigma_low=0.1, sigma_high=10.0), "a"),
    Row(LocalMean(k=2), "pza"),
    Row(LocalMean(k=3, radius=1.5, beta=0.01), "pza"),
    Row(Median(), "n", {"translation": True, "scale": True}),
    Row(MedianOfMeans(groups=7), "n", {"translation": True, "scale": True}),
    Row(NaiveGaussianMean(radius=1.5), "pza"),
    Row(ShrinkingIntervals(radius=3.0), "pza"),
    Row(ShrinkingIntervals(radius=1e280, rounds=3, report=2), "pza"),
    Row(SubsampleAggregate(**OUTPUTS), "pza"),
    Row(SubsampleAggregate(**OUTPUTS, aggregate="mean", base=spreads), "pza"),
    Row(SubsampleAggregate(**OUTPUTS, aggregate="mode", base=MedianOfMeans(groups=2)), "pza"),
    Row(SubsampleAggregate(buckets=9, aggregate="friendly_core", friends_within=2.0), "a"),
    Row(SubsampleTest(buckets=3), "pza"),
    Row(SubsampleTest(buckets=4, aggregate="exponential"), "pza"),
    Row(SubsampleTest(buckets=3, aggregate="histogram"), "pza"),
    Row(TrimmedMean(fraction=0.2), "n", {"translation": True, "scale": True}),
    Row(WhitenedCoinPressMean(radius=3.0, bound=4.0), "za", VECTORS),
]


def test_no_estimator_is_left_out() -> None:
    known = {c for c in Estimator.kinds().values() if c.__module__.startswith("dpbench.")}
    assert {type(row.estimator) for row in ROWS} == known


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row.estimator).__name__)
def test_every_estimator(row: Row) -> None:
    supported = [b.notion[0] for b in testing.NOTIONS if row.estimator.supports(b)]
    assert sorted(supported) == sorted(row.notions)
    check_estimator(row.estimator, **row.options)


def test_the_example_of_the_check_runs() -> None:
    assert doctest.testmod(testing) == (0, 5)


# Estimators that are wrong in one way each: what is said of each is what the check must find.


@validated
class _Wrong(Estimator):
    """The mean of numbers clipped to [0, 1]; every error is one of its subclasses."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(0.0, 1.0)
        return Estimate(ledger.add_noise(clipped, 1.0 / sample.n), clipped)


class _HalvedSensitivity(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(0.0, 1.0)
        return Estimate(ledger.add_noise(clipped, 0.5 / sample.n), clipped)


class _HalvedL1(_Wrong):
    multivariate: ClassVar[bool] = True

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(0.0, 1.0)
        step = sample.d**0.5 / sample.n
        return Estimate(ledger.add_noise(clipped, step, l1=step), clipped)


class _HalvedInTheBall(_Wrong):
    notions: ClassVar[tuple[type[Budget], ...]] = (PureDP,)
    multivariate: ClassVar[bool] = True

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(0.0, 1.0)
        rows = clipped.reshape(sample.trials, -1)
        return Estimate(ledger.add_l2_noise(rows, 0.4 / sample.n).reshape(clipped.shape), clipped)


class _HalvedScores(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        above = sample.count(0.5, np.inf)
        scores = np.stack([sample.n - above, above], axis=1)
        return Estimate(ledger.exponential(scores, 0.5).astype(float), above / sample.n)


class _SecondStepHalved(_Wrong):
    """Around a private bin: only the step after it is wrong."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        coarse, fine = ledger.split(0.5, 0.5)
        left = fullest_bin(sample, Bins(4.0, -8.0, 8.0), coarse)
        clipped = sample.clipped_mean(left - 1.0, left + 5.0)
        return Estimate(fine.add_noise(clipped, 3.0 / sample.n), clipped)


class _NeverClips(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return Estimate(ledger.add_noise(sample.mean(), 1.0 / sample.n), sample.mean())


class _ScaleFromTheData(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        widest = np.maximum(abs(sample.quantile(1.0)), abs(sample.quantile(1e-9)))
        return Estimate(ledger.add_noise(sample.mean(), 2 * widest / sample.n), sample.mean())


class _NoNoise(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(0.0, 1.0)
        ledger.add_noise(clipped, 1.0 / sample.n)
        return Estimate(clipped, clipped)


class _Underspends(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        (part,) = ledger.split(0.9)
        return super().estimate(sample, part)


class _Overdraws(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        super().estimate(sample, ledger)
        return super().estimate(sample, ledger)


class _WritesToTheCaller(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        assert isinstance(sample, DenseSample)
        owner = sample.values.base
        if owner is not None and owner.flags.writeable:
            owner[...] = np.clip(owner, 0.0, 1.0)
        return super().estimate(sample, ledger)


class _MixesTrials(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = np.full(sample.trials, sample.clipped_mean(0.0, 1.0).mean())
        return Estimate(ledger.add_noise(clipped, 1.0 / sample.n), clipped)


class _KnowsItsBatch(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(0.0, 1.0) / sample.trials
        return Estimate(ledger.add_noise(clipped, 1.0 / sample.n), clipped)


class _OwnRandomness(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        found = super().estimate(sample, ledger)
        own = np.random.default_rng().normal(size=sample.trials)
        return Estimate(found.value + own, found.before_noise)


class _FailureIsZero(_Wrong):
    notions: ClassVar[tuple[type[Budget], ...]] = (ApproxDP,)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        found = KarwaVadhanMean(radius=None).estimate(sample, ledger)
        return Estimate(np.nan_to_num(found.value), found.before_noise)


class _Infinite(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        found = super().estimate(sample, ledger)
        lost = np.abs(sample.mean()) > 1e200
        return Estimate(np.where(lost, np.inf, found.value), found.before_noise)


class _RaisesOnTheData(_Wrong):
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if np.any(sample.mean() > 1e100):
            raise ArithmeticError("too far")
        return super().estimate(sample, ledger)


class _OneShape(_Wrong):
    multivariate: ClassVar[bool] = True

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        found = super().estimate(sample, ledger)
        return Estimate(found.value[:, :1] if sample.d > 1 else found.value, found.before_noise)


class _TakesEverything(_Wrong):
    notions: ClassVar[tuple[type[Budget], ...]] = (PureDP,)

    def run(self, sample: Sample, ledger: Ledger) -> Estimate:
        return self.estimate(sample, ledger)


class _SpendsAndRefuses(_Wrong):
    notions: ClassVar[tuple[type[Budget], ...]] = (PureDP,)

    def run(self, sample: Sample, ledger: Ledger) -> Estimate:
        if not self.supports(ledger.budget):
            ledger.pay()
        return super().run(sample, ledger)


WRONG = [
    (_HalvedSensitivity, r"moves add_noise by 0\.0166667, above its l2 sensitivity 0\.00833"),
    (_HalvedL1, "on vectors: .*above its l1 sensitivity"),
    (_HalvedInTheBall, "moves add_l2_noise by .*, above its l2 sensitivity"),
    (_HalvedScores, "moves exponential by 1, above its max sensitivity 0.5"),
    (_SecondStepHalved, "moves add_noise by 0.1, above its l2 sensitivity 0.05"),
    (_NeverClips, "moves add_noise by .*, above its l2 sensitivity"),
    (_ScaleFromTheData, "the sensitivity of add_noise depends on record 0"),
    (_NoNoise, "there is no noise"),
    (_Underspends, r"spends \(0.9,\) of a budget of \(1.0,\)"),
    (_Overdraws, "a run raised OverdraftError: PureDP.*exceeds what is left"),
    (_WritesToTheCaller, "the caller's array is written to"),
    (_MixesTrials, "the records of one trial change the value of another"),
    (_KnowsItsBatch, "a trial has another value in a batch than alone"),
    (_OwnRandomness, "the same stream gives other bits"),
    (_FailureIsZero, "a number is released where the value before noise is NaN"),
    (_Infinite, "an estimate of far records is infinite"),
    (_RaisesOnTheData, "a run raised ArithmeticError: too far"),
    (_OneShape, "a run raised ValueError: _OneShape returned shapes"),
    (_TakesEverything, "under none on numbers: a notion that it does not support is not refused"),
    (_SpendsAndRefuses, "under zcdp on numbers: spends before it refuses a notion"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=lambda v: getattr(v, "__name__", ""))
def test_errors_are_found(wrong: type[Estimator], said: str) -> None:
    with pytest.raises(AssertionError, match=said) as caught:
        check_estimator(wrong())
    assert str(caught.value).startswith(f"{wrong.__name__} under ")
    assert len(str(caught.value).splitlines()) == 1


def test_what_is_right_passes() -> None:
    check_estimator(_Wrong())


@pytest.mark.parametrize("how", ["translation", "scale"])
def test_claims_that_are_not_kept_are_found(how: str) -> None:
    said = {"translation": "move", "scale": "grow"}[how]
    with pytest.raises(AssertionError, match=f"the estimate does not {said} with the records"):
        check_estimator(ClippedMean(lower=-1.0, upper=1.0), **{how: True})  # type: ignore[arg-type]
    check_estimator(EmpiricalMean(), **{how: True})  # type: ignore[arg-type]


def test_no_notion_is_an_error() -> None:
    with pytest.raises(AssertionError, match="EmpiricalMean honours none of the notions"):
        check_estimator(EmpiricalMean(), budgets=[PureDP(1.0)])
