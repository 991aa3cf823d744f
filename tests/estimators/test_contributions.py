"""Tests of means of people with capped weights."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpbench import ZCDP, PureDP, release
from dpbench.estimators import BoundedContributionMean, ClippedMean
from dpbench.estimators.contributions import count_factor, joint_sensitivity, release_ratio
from dpbench.privacy import ApproxDP, Budget, Ledger
from dpbench.privacy.tape import Tape
from dpbench.samples import DenseSample, PeopleSample, person_rows
from dpbench.testing import check_estimator

ROWS = np.array([[3.0, 0.2, 0.6, 0.7], [1, 0.9, 0, 0], [2, 0.5, 0.7, 0]])
HUGE = PureDP(1e6)  # nearly without noise


@pytest.mark.parametrize(("cap", "reach"), [(1, 1.0), (4, 4.0), (4, 2.5), (9, 0.3), (9, 1.0)])
@pytest.mark.parametrize("factor", [0.05, 0.6, 1.0, 3**0.5])
def test_no_replaced_person_moves_the_sums_by_more(cap: int, reach: float, factor: float) -> None:
    """Search all pairs of weights, with contributions at both ends."""
    moves = [
        (min(reach, k) + min(reach, j), factor * abs(k - j))
        for k, j in itertools.product(range(1, cap + 1), repeat=2)
    ]
    l1, l2 = joint_sensitivity(reach, cap, factor)
    assert l1 == pytest.approx(max(a + b for a, b in moves))
    assert l2 == pytest.approx(max(np.hypot(a, b) for a, b in moves))


@pytest.mark.parametrize("cap", [1, 2, 5, 100])
def test_the_count_is_free_without_a_clip(cap: int) -> None:
    for gaussian, norm in ((False, 0), (True, 1)):
        factor = count_factor(cap, cap, gaussian=gaussian)
        assert factor == (3**0.5 if gaussian else 1)
        assert joint_sensitivity(cap, cap, factor)[norm] == pytest.approx(2 * cap)
    if cap > 1:  # a larger factor would cost Laplace noise
        assert joint_sensitivity(cap, cap, 1.01)[0] > 2.002 * cap


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize(("cap", "reach"), [(10, 3.0), (100, 40.0), (50, 2.0)])
def test_the_factor_is_best_for_its_worst_mean(cap: int, reach: float, gaussian: bool) -> None:
    def error(factor: float) -> float:
        spread = float(np.hypot(1, reach / cap / factor))
        return joint_sensitivity(reach, cap, factor)[gaussian] * spread

    best = count_factor(reach, cap, gaussian=gaussian)
    grid = best * np.geomspace(0.5, 2, 41)
    assert error(best) <= min(error(f) for f in grid if f <= (3**0.5 if gaussian else 1)) * 1.001


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"cap": 1}, (0.2 + 0.9 + 0.5) / 3),
        ({"cap": 2}, (0.8 + 0.9 + 1.2) / 5),
        ({"cap": 9}, (1.5 + 0.9 + 1.2) / 6),
        ({"cap": 2, "weights": "capped"}, (2 * 0.5 + 0.9 + 1.2) / 5),
        ({"cap": 2, "weights": "equal"}, (0.4 + 0.9 + 0.6) / 3),
        # contributions 0, 0.4 and 0.2 to a sum around 1/2, clipped to 0.25
        ({"cap": 9, "clip": 0.25}, 0.5 + (0.25 + 0.2) / 6),
    ],
)
def test_the_value_before_noise(options: dict[str, Any], expected: float) -> None:
    estimator = BoundedContributionMean.build(
        {"kind": "bounded_contribution_mean", "lower": 0, "upper": 1, **options}, ""
    )
    for sample in (
        DenseSample(ROWS[None]),
        PeopleSample([0.2, 0.6, 0.7, 0.9, 0.5, 0.7], [[3, 1, 2]]),
    ):
        estimate = estimator.run(sample, Ledger(HUGE, np.random.default_rng(0)))
        assert estimate.before_noise == pytest.approx([expected])
        assert estimate.value == pytest.approx([expected], abs=1e-3)


def test_numbers_are_people_of_equal_weight() -> None:
    x, budget = np.random.default_rng(0).normal(size=(3, 50)), PureDP(1.0)
    for clip, end in ((None, 2.0), (0.5, 0.5)):
        one = BoundedContributionMean(lower=-2, upper=2, cap=7, clip=clip)
        two = ClippedMean(lower=-end, upper=end)
        first, second = (
            e.run(DenseSample(x), Ledger(budget, np.random.default_rng(1))).value
            for e in (one, two)
        )
        assert first == pytest.approx(second)


@pytest.mark.parametrize("weights", ["records", "capped", "equal"])
@pytest.mark.parametrize("clip", [None, 0.5, 3.0])
def test_the_promises_hold(weights: str, clip: float | None) -> None:
    options = {"weights": weights, "clip": clip}
    check_estimator(BoundedContributionMean(lower=-1, upper=1, cap=2, **options))  # type: ignore[arg-type]
    check_estimator(BoundedContributionMean(lower=-1, upper=1, cap=8, **options), d=9)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)])
@pytest.mark.parametrize(("cap", "clip"), [(8, None), (8, 3.0), (4, 0.7), (1, None)])
def test_pairs_of_people_stay_within_the_stated_sensitivity(
    budget: Budget, cap: int, clip: float | None
) -> None:
    """The hardest pair attains the sensitivity; a part of it would let an error pass.

    For 1 < C < cap the worst weight lies between 1 and cap, and no pair has it.
    """
    estimator, moved = BoundedContributionMean(lower=-1, upper=1, cap=cap, clip=clip), 0.0
    for pair in estimator.audit_pairs(8, 9, budget):
        tapes = (Tape(), Tape())
        for side, tape in zip((pair.left, pair.right), tapes, strict=True):
            ledger = Ledger(budget, np.random.default_rng(0), tape=tape)
            estimator.run(DenseSample(side[None]), ledger)
        steps = [[s for s in tape.steps if s.mechanism == "add_noise"] for tape in tapes]
        (left,), (right,) = steps
        change = np.ravel(left.values - right.values)
        stated = {name: float(np.ravel(s)[0]) for name, s in left.sensitivity.items()}
        share = max(np.abs(change).sum() / stated["l1"], np.linalg.norm(change) / stated["l2"])
        assert share < 1 + 1e-9, pair.name
        moved = max(moved, share)
    assert moved > (0.75 if clip == 3.0 else 0.99)


def test_weights_of_one_are_equal_weights() -> None:
    """The count is public, so that one number is released, with noise that is for one number."""
    people, budget = DenseSample(np.tile(ROWS, (5, 1, 1))), PureDP(4.0, noise_by="staircase")
    first, second = (
        BoundedContributionMean(lower=0, upper=1, cap=1, weights=weights)
        .run(people, Ledger(budget, np.random.default_rng(0)))
        .value
        for weights in ("records", "equal")
    )
    np.testing.assert_array_equal(first, second)


def test_a_table_of_records_is_released() -> None:
    rng = np.random.default_rng(0)
    persons = rng.integers(500, size=3000)
    values = rng.uniform(size=3000)
    rows = person_rows(values, persons.tolist(), rng)
    estimator = BoundedContributionMean(lower=0, upper=1, cap=8)
    value = release(estimator, rows, PureDP(1.0), rng=rng)
    assert isinstance(value, float)
    assert abs(value - 0.5) < 0.1


def test_the_count_is_noisy() -> None:
    """At the end of the interval, the noises of sum and count are equal: the error is their sum."""
    trials, n, cap = 4000, 400, 4
    rows = np.tile(np.array([4.0, 1, 1, 1, 1]), (trials, n, 1))
    estimator = BoundedContributionMean(lower=-1, upper=1, cap=cap)
    for budget, sd in ((PureDP(1.0), 2 * cap * 2**0.5), (ZCDP(0.5), 2 * cap)):
        ledger = Ledger(budget, np.random.default_rng(0))
        error = n * cap * (estimator.run(DenseSample(rows), ledger).value - 1)
        expected = sd**2 * (2 if isinstance(budget, PureDP) else 4 / 3)
        # A noisy count above its largest value is replaced by it, which removes half of this noise.
        low, high = expected - sd**2 * (1 if isinstance(budget, PureDP) else 1 / 3), expected
        assert 1.05 * low < np.mean(error**2) < high


def test_a_noisy_count_is_replaced_by_the_nearest_possible_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five people have 5 to 15 records at a cap of 3; the noise of the count is chosen here."""
    noisy_counts = np.array([-7.0, 2.0, 5.5, 9.0, 15.5, 40.0])

    def choose_noise(_: Ledger, values: Any, *__: Any, **___: Any) -> Any:
        return values + values[:, 1:] * np.column_stack([0 * noisy_counts, noisy_counts / 10 - 1])

    monkeypatch.setattr(Ledger, "add_noise", choose_noise)
    means, weights = np.full((6, 5), 0.75), np.full((6, 5), 2.0)
    ledger = Ledger(PureDP(1.0), np.random.default_rng(0))
    noisy, exact = release_ratio(means, weights, 3.0, 3, ledger)
    np.testing.assert_allclose(noisy, 7.5 / np.array([5, 5, 5.5, 9, 15, 15]))
    np.testing.assert_allclose(exact, 0.75)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize(("cap", "reach"), [(3, 0.5), (9, 0.3)])
def test_the_factor_is_best_for_a_clip_below_one_record(
    cap: int, reach: float, gaussian: bool
) -> None:
    """On a fine grid; a person with one record is then at the bound, too."""
    grid = np.geomspace(0.01, 3**0.5 if gaussian else 1, 100_001)
    moved, counted = 2 * reach, grid * (cap - 1)
    noise = np.hypot(moved, counted) if gaussian else moved + counted
    best = grid[np.argmin(noise * np.hypot(1, reach / cap / grid))]
    assert count_factor(reach, cap, gaussian=gaussian) == pytest.approx(best, rel=1e-3)
