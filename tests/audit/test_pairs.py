"""Pairs are neighbours, and each strains what its name says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from dpbench import release
from dpbench.audit.cases import AuditSweep, list_pairs
from dpbench.audit.pairs import FAR_RECORD, catalogue, check_pair
from dpbench.estimators import (
    CoordinateWise,
    Estimator,
    FriendlyCoreMean,
    KarwaVadhanGaussian,
    KarwaVadhanMean,
    KSU20BallMean,
    KSU20RangeEstimate,
    PublicRecordMean,
    karwa_vadhan,
)
from dpbench.package import conf_folder
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from dpbench.privacy.histogram import audit_pairs, stability_threshold
from dpbench.privacy.neighbours import Pair
from dpbench.registry import from_mapping
from dpbench.samples import Bins

# These data contradict assumptions on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::dpbench.errors.AssumptionWarning")

Floats = NDArray[np.float64]
APPROX = ApproxDP(1.0, 1e-6)
BUDGETS = (PureDP(0.01), ZCDP(0.5), ZCDP(1e-4), APPROX, ApproxDP(0.1, 1e-12), ApproxDP(4.0, 1e-3))


def _own(estimator: Estimator, n: int, d: int | None, budget: Budget) -> dict[str, Pair]:
    return {pair.name: pair for pair in estimator.audit_pairs(n, d, budget)}


@pytest.mark.parametrize(("n", "d"), [(4, None), (5, 1), (60, 2), (5, 7)])
def test_the_catalogue_along_an_axis_and_the_diagonal(n: int, d: int | None) -> None:
    pairs = catalogue(n, d)
    numbers = {pair.name: pair for pair in catalogue(n)}
    assert len(pairs) == (19 if d is not None and d > 1 else 9)
    if d is None:
        return
    if d > 1:  # a record goes from one axis to the next
        corner = pairs.pop()
        assert (corner.left[0, 0], corner.right[0, 1]) == (FAR_RECORD, FAR_RECORD)
        assert np.abs(corner.left).sum() == np.abs(corner.right).sum() == FAR_RECORD
    for pair in pairs:
        name = pair.name.removesuffix("_diagonal")
        direction = np.full(d, d**-0.5) if name != pair.name else np.eye(d)[0]
        np.testing.assert_allclose(pair.left, np.outer(numbers[name].left, direction))
        np.testing.assert_allclose(pair.right, np.outer(numbers[name].right, direction))


def test_the_catalogues_pairs_are_what_they_are_called() -> None:
    pairs = {pair.name: pair for pair in catalogue(10)}
    low = {
        "one_to_the_far_end": 0,
        **dict.fromkeys(("ends_of_the_clip", "far_outlier"), -FAR_RECORD),
    }
    for name, before in low.items():
        (at,) = np.flatnonzero(pairs[name].left != pairs[name].right)
        assert (pairs[name].left[at], pairs[name].right[at]) == (before, FAR_RECORD)
    assert np.ptp(pairs["all_equal_but_one"].left) == np.ptp(pairs["all_low_but_one"].left) == 0
    assert 0 < np.ptp(pairs["almost_constant"].left) < 1e-8
    for name, size in (("two_clusters", 1.0), ("two_far_clusters", FAR_RECORD)):
        assert sorted(set(pairs[name].left)) == [-size, size]
        assert [(side > 0).sum() for side in (pairs[name].left, pairs[name].right)] == [5, 6]
    both = pairs["outlier_in_both"]
    assert [(side == FAR_RECORD).sum() for side in (both.left, both.right)] == [1, 1]
    others = pairs["far_outlier"].left[:-1]
    assert 1 < np.abs(others).max() < 2
    assert len(set(others)) == 9


SPEC = yaml.safe_load((conf_folder() / "sweep" / "audit.yaml").read_text())
SHIPPED = from_mapping(AuditSweep, SPEC, "sweep").estimators


@pytest.mark.parametrize("label", SHIPPED)
def test_the_pairs_of_every_estimator(label: str) -> None:
    """Which are neighbours, or no `Pair`."""
    estimator = Estimator.build(SHIPPED[label].value, label)
    shapes: list[tuple[int, int | None]] = [(n, None) for n in (20, 61, 2400)]
    if estimator.multivariate:
        shapes += [(20, 1), (61, 2), (400, 5), (400, 1), (20, 5)]
    for budget in BUDGETS:
        for n, d in shapes if estimator.supports(budget) else ():
            pairs = [*catalogue(n, d), *estimator.audit_pairs(n, d, budget)]
            assert {pair.left.shape for pair in pairs} == {(n,) if d is None else (n, d)}
            assert len({pair.name for pair in pairs}) == len(pairs)


def test_public_records_are_equal_in_every_pair() -> None:
    estimator = PublicRecordMean(sigma=1, public_records=2)
    for d in (None, 3):
        pairs = list_pairs(estimator, ZCDP(0.5), 10, d, "mine")
        assert len(pairs) == len(catalogue(10, d))
        for pair, before in zip(pairs, catalogue(10, d), strict=True):
            assert pair.record >= 2
            for side, original in ((pair.left, before.left), (pair.right, before.right)):
                np.testing.assert_array_equal(np.sort(side, axis=0), np.sort(original, axis=0))
    public = Pair.replacing("mine", np.zeros(5), 1, 1.0)
    with pytest.raises(ValueError, match="mine: record 1 is public for PublicRecordMean; replace"):
        check_pair(estimator, ZCDP(0.5), public, np.random.default_rng(0))
    assert (
        check_pair(estimator, ZCDP(0.5), public.keep_first(2), np.random.default_rng(0)).record == 4
    )
    for pair, many in ((public, 5), (Pair("one", np.zeros(5), np.zeros(4)), 5)):
        with pytest.raises(ValueError, match=f"no record after the first {many} can be replaced"):
            pair.keep_first(many)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([1.0, 2], [1.0, 2]), ([1.0, 2], [2.0, 1]), ([1.0, 2], [3.0]), ([1.0, np.nan], [1.0, 2]),
        ([[1.0, 2], [3, 4]], [[2.0, 2], [3, 5]]), ([1.0, 2], [1.0, np.inf]), ([[[1.0]]], [[[2.0]]]),
        ([1.0], [1.0, 2]), ([1.0, 2, 3], [2.0, 1]), ([1.0, 2, 3], [1.0]), ([1.0], []),
    ],
)  # fmt: skip
def test_what_is_no_pair_of_neighbours(left: Any, right: Any) -> None:
    with pytest.raises(ValueError, match="mine: "):
        Pair("mine", np.array(left), np.array(right))
    Pair("mine", np.zeros((3, 2)), np.array([[0.0, 0], [1, 2], [0, 0]]))  # one record, all of it


RANGE = KSU20RangeEstimate(k=3, scale=1, alpha=0.5, radius=50)
BY_BINS: list[tuple[Estimator, Bins]] = [
    (KarwaVadhanMean(radius=50, sigma=3.0), karwa_vadhan._bins(400, 50, 3.0, 0.1)[0]),
    (KarwaVadhanGaussian(radius=50, sigma=2.0), karwa_vadhan._bins(400, 50, 2.0, 0.1)[0]),
    (RANGE, RANGE.bins(0.5)[0]),
]


@pytest.mark.parametrize(("estimator", "bins"), BY_BINS)
def test_a_record_goes_across_a_bin_edge(estimator: Estimator, bins: Bins) -> None:
    n = 400
    for budget in (PureDP(1.0), ZCDP(0.5), APPROX):
        own = _own(estimator, n, None, budget)
        pair = own["across_a_bin_edge"]
        left, right = (np.ravel(bins.index(side[None])) for side in (pair.left, pair.right))
        # Two bins side by side share the records, and one goes over.
        assert np.ptp(left) == np.ptp(right) == 1
        assert (left != right).sum() == 1
        assert [(side == left.min()).sum() for side in (left, right)] == [n // 2, n // 2 - 1]
        stable = estimator is RANGE  # with the whole budget, n = 400 is many records
        assert ("at_the_threshold" in own) == (stable and isinstance(budget, ApproxDP))


@pytest.mark.parametrize(
    ("bins", "budget"),
    [(Bins(2.0), APPROX), (Bins(3.0, -1e10, 1e10), ApproxDP(0.5, 1e-9)),
     (Bins(1.0, -500, 500, 0.0), ApproxDP(3.0, 1e-3))],
)  # fmt: skip
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


def _nothing(estimator: Estimator, pair: Pair, repeats: int) -> list[float]:
    """How often nothing is released, on either side."""
    rng, found = np.random.default_rng(0), []
    for side in (pair.left, pair.right):
        values = release(estimator, side, APPROX, rng=rng, repeats=repeats)
        found.append(float(np.isnan(np.reshape(values, (repeats, -1))[:, 0]).mean()))
    return found


def test_the_threshold_of_an_estimator_is_that_of_its_part_of_the_budget() -> None:
    """Nothing is released about as often as something, on both datasets."""
    for estimator in (
        KarwaVadhanMean(radius=None, sigma=1),
        KSU20RangeEstimate(k=2, scale=1, alpha=0.5, radius=None),
    ):
        pair = _own(estimator, 100, None, APPROX)["at_the_threshold"]
        left, right = _nothing(estimator, pair, 1000)
        assert 0.25 < left < right < 0.75, estimator


@pytest.mark.parametrize(
    ("composition", "d"), [("basic", None), ("basic", 2), ("zcdp", 2), ("gdp", 2)]
)
def test_the_threshold_of_a_core(composition: Any, d: int | None) -> None:
    estimator = FriendlyCoreMean(composition=composition, radius=1.0, sigma=1)
    pairs = _own(estimator, 200, d, APPROX)
    assert set(pairs) == {"at_the_threshold", "across_the_core", "two_camps"}
    assert all(0.05 < share < 0.95 for share in _nothing(estimator, pairs["at_the_threshold"], 300))
    assert max(_nothing(estimator, pairs["across_the_core"], 300)) < 0.05  # friends, all of them
    assert np.unique(pairs["two_camps"].left, axis=0).shape[0] == 2


def test_the_radius_of_a_ball_is_the_one_that_it_uses() -> None:
    """With its centre known, what is averaged changes as the pair says."""
    estimator = KSU20BallMean(outside="discard", k=2, scale=1, radius=50)
    budget = ZCDP(1e6)  # so that noise and centre do not matter
    moved = {}
    for name, pair in _own(estimator, 4000, 3, budget).items():
        rng = np.random.default_rng(0)
        left, right = (
            np.asarray(release(estimator, side, budget, rng=rng, repeats=50))[:, 0].mean()
            for side in (pair.left, pair.right)
        )
        moved[name] = (right - left) * 2000
    r = estimator.ball_radius(2000, 3, budget)
    assert moved["across_the_surface"] == pytest.approx(0, abs=0.05 * r)
    assert moved["into_the_ball"] > 1.0 * r


def test_coordinates_are_strained_all_at_once() -> None:
    base, budget = KarwaVadhanMean(radius=50, sigma=1), ApproxDP(2.0, 1e-5)
    pairs = _own(CoordinateWise(base=base), 90, 2, budget)
    numbers = _own(base, 90, None, budget.fraction(0.5))
    assert list(pairs) == list(numbers)
    for name, one in numbers.items():
        np.testing.assert_array_equal(pairs[name].left, np.stack([one.left, one.left], axis=1))
