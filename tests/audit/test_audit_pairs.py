"""Pairs are neighbours, and each strains what its name says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

import dpbench
from dpbench import release
from dpbench.audit.pairs import FAR, catalogue
from dpbench.config import conf_folder
from dpbench.estimators import (
    CoordinateWise,
    Estimator,
    FriendlyCoreMean,
    KarwaVadhanMean,
    KSU20BallMean,
    KSU20Mean,
    KSU20Range,
    LearnedGaussian,
    karwa_vadhan,
    ksu20,
)
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from dpbench.privacy.histogram import audit_pairs, stability_threshold
from dpbench.privacy.neighbours import Pair
from dpbench.runner.plan import section
from dpbench.samples import Bins, DenseSample

Floats = NDArray[np.float64]
BUDGETS: tuple[Budget, ...] = (
    PureDP(1.0),
    PureDP(0.01),
    ZCDP(0.5),
    ZCDP(1e-4),
    ApproxDP(1.0, 1e-6),
    ApproxDP(0.1, 1e-12),
    ApproxDP(4.0, 1e-3),
)
APPROX = ApproxDP(1.0, 1e-6)


def _check(pairs: list[Pair], n: int, d: int | None) -> None:
    shape = (n,) if d is None else (n, d)
    for pair in pairs:
        assert pair.left.shape == pair.right.shape == shape, pair.name
        assert np.isfinite(pair.left).all()
        assert np.isfinite(pair.right).all()
        different = (pair.left != pair.right).reshape(n, -1).any(axis=1)
        assert different.sum() == 1, pair.name
        assert not np.shares_memory(pair.left, pair.right)
    names = [pair.name for pair in pairs]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("d", [None, 1, 2, 7])
@pytest.mark.parametrize("n", [4, 5, 60])
def test_the_catalogue_holds_neighbours(n: int, d: int | None) -> None:
    pairs = catalogue(n, d)
    _check(pairs, n, d)
    assert len(pairs) == (18 if d is not None and d > 1 else 9)


def test_the_catalogue_along_an_axis_and_the_diagonal() -> None:
    numbers = {pair.name: pair for pair in catalogue(6)}
    for pair in catalogue(6, 4):
        name = pair.name.removesuffix("_diagonal")
        direction = np.full(4, 0.5) if name != pair.name else np.array([1.0, 0, 0, 0])
        np.testing.assert_array_equal(pair.left, np.outer(numbers[name].left, direction))
        np.testing.assert_array_equal(pair.right, np.outer(numbers[name].right, direction))


def test_the_catalogues_pairs_are_what_they_are_called() -> None:
    pairs = {pair.name: pair for pair in catalogue(10)}

    def changed(name: str) -> tuple[float, float]:
        pair = pairs[name]
        (at,) = np.flatnonzero(pair.left != pair.right)
        return pair.left[at], pair.right[at]

    assert changed("ends_of_the_clip") == (-FAR, FAR)
    assert changed("one_to_the_far_end") == (0, FAR)
    assert changed("all_low_but_one") == (-FAR, FAR)
    assert np.ptp(pairs["all_equal_but_one"].left) == 0
    assert np.ptp(pairs["all_low_but_one"].left) == 0
    assert 0 < np.ptp(pairs["almost_constant"].left) < 1e-8
    for name, size in (("two_clusters", 1.0), ("two_far_clusters", FAR)):
        assert sorted(set(pairs[name].left)) == [-size, size]
        assert sum(pairs[name].left > 0) == 5
        assert sum(pairs[name].right > 0) == 6
    assert (pairs["outlier_in_both"].left == FAR).sum() == 1
    assert (pairs["outlier_in_both"].right == FAR).sum() == 1
    assert changed("far_outlier") == (-FAR, FAR)
    others = pairs["far_outlier"].left[:-1]
    assert 1 < np.abs(others).max() < 2
    assert len(set(others)) == 9


def _shipped() -> dict[str, Estimator]:
    spec = yaml.safe_load((Path(conf_folder()) / "sweep" / "audit.yaml").read_text())
    return section(spec["estimators"], "sweep.estimators", Estimator.build, Estimator)


@pytest.mark.parametrize(("label", "estimator"), _shipped().items(), ids=lambda one: str(one)[:40])
def test_the_pairs_of_every_estimator_are_neighbours(label: str, estimator: Estimator) -> None:
    shapes: list[tuple[int, int | None]] = [(n, None) for n in (20, 61, 400, 2400)]
    if estimator.multivariate:
        shapes += [(n, d) for n in (20, 61, 400) for d in (1, 2, 5)]
    for budget in BUDGETS:
        for n, d in shapes if estimator.supports(budget) else ():
            own = estimator.audit_pairs(n, d, budget)
            _check([*catalogue(n, d), *own], n, d)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([1.0, 2], [1.0, 2]),
        ([1.0, 2], [2.0, 1]),
        ([1.0, 2], [1.0]),
        ([[1.0, 2], [3, 4]], [[2.0, 2], [3, 5]]),
        ([1.0, np.nan], [1.0, 2]),
        ([1.0, 2], [1.0, np.inf]),
        ([[[1.0]]], [[[2.0]]]),
    ],
)
def test_what_is_no_pair_of_neighbours(left: Any, right: Any) -> None:
    with pytest.raises(ValueError, match="mine: "):
        Pair("mine", np.array(left), np.array(right))


def test_a_pair_of_vectors_may_differ_in_every_coordinate_of_one_record() -> None:
    pair = Pair("mine", np.zeros((3, 2)), np.array([[0.0, 0], [1, 2], [0, 0]]))
    assert pair.right[1, 1] == 2
    ours = np.zeros(3)
    Pair.replacing("mine", ours, 1, 5.0)
    assert not ours.any()


def _bins_of(estimator: Estimator, n: int, budget: Budget) -> Bins:
    if isinstance(estimator, KSU20Range):
        r = ksu20._half_bin(estimator.alpha, estimator.k, estimator.constants)
        return ksu20._bins(estimator.radius, r)
    if isinstance(estimator, KSU20Mean):
        r = ksu20._half_bin(estimator.accuracy(n, budget), estimator.k, estimator.constants)
        return ksu20._bins(estimator.radius, r)
    assert isinstance(estimator, KarwaVadhanMean | LearnedGaussian)
    return karwa_vadhan._bins(n, estimator.radius, estimator.sigma or 1.0, estimator.beta)[0]


@pytest.mark.parametrize(
    "estimator",
    [
        KarwaVadhanMean(radius=50),
        KarwaVadhanMean(radius=None, sigma=3.0),
        LearnedGaussian(radius=50),
        LearnedGaussian(radius=None, sigma=2.0),
        KSU20Range(k=2, alpha=0.5, radius=50, constants="practical"),
        KSU20Range(k=3, alpha=0.05, radius=None),
        KSU20Mean(k=2, radius=50),
        KSU20Mean(k=2, radius=None),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5), APPROX], ids=lambda one: one.label)
def test_a_record_goes_across_a_bin_edge(estimator: Estimator, budget: Budget) -> None:
    if not estimator.supports(budget):
        return
    n = 400
    own = {pair.name: pair for pair in estimator.audit_pairs(n, None, budget)}
    bins = _bins_of(estimator, n, budget)
    pair = own["across_a_bin_edge"]
    left, right = (np.ravel(bins.index(side[None])) for side in (pair.left, pair.right))
    # Two bins side by side share the records, and one goes over.
    assert np.ptp(left) == np.ptp(right) == 1
    assert (left != right).sum() == 1
    assert (left == left.min()).sum() == n // 2
    assert (right == left.min()).sum() == n // 2 - 1
    assert ("at_the_threshold" in own) == isinstance(budget, ApproxDP)


@pytest.mark.parametrize("budget", [APPROX, ApproxDP(0.5, 1e-9), ApproxDP(3.0, 1e-3)])
@pytest.mark.parametrize("bins", [Bins(2.0), Bins(3.0, -1e6, 1e6), Bins(1.0, -500, 500, 0.0)])
def test_a_bin_holds_the_threshold(bins: Bins, budget: ApproxDP) -> None:
    _, pair = audit_pairs(200, bins, budget)
    assert pair.name == "at_the_threshold"
    threshold = stability_threshold(budget)
    odds = []
    for side, expected in ((pair.left, round(threshold)), (pair.right, round(threshold) - 1)):
        _, counts = np.unique(bins.index(side[None]), return_counts=True)
        assert counts.max() == expected
        assert sorted(counts)[-2] == 1  # the others are alone
        # P(count + Laplace(2/epsilon) > threshold)
        away = (threshold - expected) * budget.epsilon / 2
        odds.append(np.exp(-away) / 2 if away > 0 else 1 - np.exp(away) / 2)
    assert 0.05 < odds[1] < odds[0] < 0.8
    assert odds[0] / odds[1] > 1.1


def test_other_bins_stay_below_the_threshold_where_there_are_few() -> None:
    # Bins end at 50; what lies beyond counts in the last.
    for estimator in (
        KSU20Range(k=2, alpha=0.5, radius=50, constants="practical"),
        KarwaVadhanMean(radius=50),
    ):
        own = {pair.name: pair for pair in estimator.audit_pairs(100, None, APPROX)}
        pair, bins = own["at_the_threshold"], _bins_of(estimator, 100, APPROX)
        for side in (pair.left, pair.right):
            counts = np.sort(np.unique(bins.index(side[None]), return_counts=True)[1])
            assert counts[-2] <= counts[-1] / 2


def test_the_threshold_of_an_estimator_is_that_of_its_part_of_the_budget() -> None:
    """Nothing is released about as often as something, on both datasets."""
    for estimator in (KarwaVadhanMean(radius=None), KSU20Range(k=2, alpha=0.5, radius=None)):
        own = {pair.name: pair for pair in estimator.audit_pairs(100, None, APPROX)}
        pair = own["at_the_threshold"]
        rng = np.random.default_rng(0)
        found = [
            np.isnan(release(estimator, side, APPROX, rng=rng, repeats=1000)).mean()
            for side in (pair.left, pair.right)
        ]
        assert 0.25 < found[0] < found[1] < 0.75, estimator


def test_half_squared_differences_cross_a_power_of_two() -> None:
    own = {pair.name: pair for pair in LearnedGaussian(radius=50).audit_pairs(60, None, APPROX)}
    pair = own["across_a_power_of_two"]
    bins = karwa_vadhan.PowersOfTwo(1.0, -10.0, 10.0)
    rng = np.random.default_rng(0)
    left, right = (
        bins.index(DenseSample(side[None]).half_squared_differences(rng).values)[0]
        for side in (pair.left, pair.right)
    )
    assert set(left) == set(right) == {-1.0, 1.0}  # 1/2 and 2
    assert (left != right).sum() == 1
    assert (left == 1).sum() == 15


@pytest.mark.parametrize("composition", ["basic", "zcdp"])
@pytest.mark.parametrize("d", [None, 2])
def test_the_threshold_of_a_core(composition: Any, d: int | None) -> None:
    estimator = FriendlyCoreMean(composition=composition, radius=1.0)
    pairs = {pair.name: pair for pair in estimator.audit_pairs(200, d, APPROX)}
    assert set(pairs) == {"at_the_threshold", "across_the_core", "two_camps"}
    rng = np.random.default_rng(0)
    found = {}
    for name, pair in pairs.items():
        values = [
            release(estimator, side, APPROX, rng=rng, repeats=300)
            for side in (pair.left, pair.right)
        ]
        found[name] = [np.isnan(np.reshape(v, (300, -1))[:, 0]).mean() for v in values]
    assert 0.05 < found["at_the_threshold"][0] < 0.95
    assert 0.05 < found["at_the_threshold"][1] < 0.95
    assert max(found["across_the_core"]) < 0.05  # friends, all of them
    record = pairs["two_camps"]
    assert np.unique(record.left, axis=0).shape[0] == 2


@pytest.mark.parametrize("outside", ["discard", "project"])
@pytest.mark.parametrize("budget", [ZCDP(0.5), APPROX], ids=lambda one: one.label)
@pytest.mark.parametrize("n", [60, 61])
def test_a_record_on_either_side_of_a_ball(outside: Any, budget: Budget, n: int) -> None:
    estimator, half = KSU20BallMean(outside=outside, k=2, radius=50), n // 2
    surface, into = estimator.audit_pairs(n, 3, budget)
    spent = ZCDP.within(budget) if isinstance(budget, ApproxDP) else budget
    r = estimator.ball_radius(half, 3, spent)
    assert (surface.name, into.name) == ("across_the_surface", "into_the_ball")
    for pair in (surface, into):
        # The record is one of the half that is averaged.
        (at,) = np.flatnonzero((pair.left != pair.right).any(axis=1))
        assert at >= n - half
    norms = np.linalg.norm(surface.right, axis=1)
    assert not surface.left.any()
    assert norms.max() == pytest.approx(1.1 * r)
    inside_left, inside_right = (
        (np.linalg.norm(side[n - half :], axis=1) < r).sum() for side in (into.left, into.right)
    )
    assert inside_right == inside_left + 1
    assert inside_left == np.ceil(0.75 * half)
    assert KSU20BallMean(outside=outside, k=2, radius=50).audit_pairs(n, None, budget) == []


def test_the_radius_of_a_ball_is_the_one_that_it_uses() -> None:
    """With its centre known, what is averaged changes as the pair says."""
    estimator = KSU20BallMean(outside="discard", k=2, radius=50)
    budget = ZCDP(1e6)  # so that noise and centre do not matter
    surface, into = estimator.audit_pairs(4000, 3, budget)
    moved = {}
    for pair in (surface, into):
        rng = np.random.default_rng(0)
        left, right = (
            np.asarray(release(estimator, side, budget, rng=rng, repeats=50))[:, 0].mean()
            for side in (pair.left, pair.right)
        )
        moved[pair.name] = (right - left) * 2000
    r = estimator.ball_radius(2000, 3, budget)
    assert moved["across_the_surface"] == pytest.approx(0, abs=0.05 * r)
    assert moved["into_the_ball"] > 1.0 * r


def test_coordinates_are_strained_all_at_once() -> None:
    base = KarwaVadhanMean(radius=50)
    budget = ApproxDP(2.0, 1e-5)
    pairs = CoordinateWise(base=base).audit_pairs(90, 2, budget)
    numbers = base.audit_pairs(90, None, budget.fraction(0.5))
    assert [pair.name for pair in pairs] == [pair.name for pair in numbers]
    for pair, one in zip(pairs, numbers, strict=True):
        np.testing.assert_array_equal(pair.left, np.stack([one.left, one.left], axis=1))


def test_an_estimator_without_pairs_of_its_own_has_none() -> None:
    assert dpbench.estimators.ClippedMean(lower=0, upper=1).audit_pairs(9, None, APPROX) == []
