"""Tasks of an audit: what they run, what is visible, and their rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from dpbench import validated
from dpbench.audit import PrivacyBound, noise_times, task
from dpbench.audit.attack import PairReleases
from dpbench.audit.pairs import catalogue
from dpbench.audit.replay import Replay
from dpbench.audit.task import AUDITED_PAIRS, FACTORS, AuditTask, Way, audit
from dpbench.estimators import (
    ClippedMean,
    Estimator,
    OneDataset,
)
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from dpbench.privacy.neighbours import Pair
from tests.audit.audits import only, rows_of

Floats = NDArray[np.float64]
PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
CLIPPED = ClippedMean(lower=-1, upper=1)


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))


def test_what_always_raises_with_less_noise_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is visible of it; but what is refuted is, and one pair that tells is enough."""
    pairs = only(catalogue(20), "two_clusters", "ends_of_the_clip")
    bounds = [PrivacyBound(1.0, 0.5, 100), PrivacyBound(1.0, 2.0, 100)]
    monkeypatch.setattr(AuditTask, "visible_factor", lambda *_: np.nan)
    for first, verdicts in ((-1.0, ["failed", "refuted"]), (0.1, ["not refuted", "refuted"])):
        promises, found = iter([first, -1.0]), iter(bounds)
        monkeypatch.setattr(AuditTask, "expected_bound", lambda *_, of=promises: next(of))
        monkeypatch.setattr(AuditTask, "bound", lambda *_, of=found: next(of))
        assert [row["verdict"] for row in rows_of(CLIPPED, PURE, pairs, runs=100)] == verdicts


def test_a_bound_depends_on_its_name_and_seed_only() -> None:
    pairs = catalogue(30)
    before = [(pair.left.copy(), pair.right.copy()) for pair in pairs]
    task = AuditTask("a", CLIPPED, PURE, tuple(pairs), 200, 1e-3, 5)
    rows = audit(task)
    assert [row["pairs"] for row in rows] == [len(pairs)] * 2
    by_name = {pair.name: pair for pair in pairs}
    for row in rows:
        (alone,) = audit(replace(task, label="b", pairs=(by_name[row["pair"]],)))
        assert alone["lower_bound"] == row["lower_bound"]
    assert rows != audit(replace(task, seed=6))
    for pair, (left, right) in zip(pairs, before, strict=True):  # records are not written to
        np.testing.assert_array_equal(pair.left, left)
        np.testing.assert_array_equal(pair.right, right)


def test_audits_in_threads_do_not_share_their_noise() -> None:
    """Of one process, as a dask worker may have them: the pilot of one halves it."""
    task = AuditTask("a", CLIPPED, PURE, tuple(catalogue(30)[:4]), 200, 1e-3, 0)
    tasks = [replace(task, seed=seed) for seed in range(4)]

    def bounds(rows: list[dict[str, Any]]) -> list[Any]:
        return [(row["pair"], row["lower_bound"], row["detectable_noise"]) for row in rows]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(audit, tasks))
    assert [bounds(rows) for rows in found] == [bounds(audit(one)) for one in tasks]


def test_the_pairs_that_promise_most_are_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    far = only(catalogue(20), "all_low_but_one", "ends_of_the_clip")
    same = [Pair.replacing(f"inside_{i}", np.zeros(20), 0, 0.01 * i) for i in (1, 2, 3)]
    errors = []

    def spy(*given: Any) -> PrivacyBound:
        errors.append(given[4])
        return PrivacyBound(1.0, 0.0, 1000)

    monkeypatch.setattr(task, "bound_privacy", spy)
    rows = rows_of(CLIPPED, PURE, [*same, *far], runs=1000, error=1e-5)
    assert {row["pair"] for row in rows} == {pair.name for pair in far}
    assert errors[:2] == [1e-5 / 2] * 2  # all hold together


@pytest.mark.parametrize("budget", [PURE, RHO])
def test_what_is_visible_is_refuted_in_95_of_100_audits(budget: Budget) -> None:
    (pair,) = only(catalogue(20), "ends_of_the_clip")
    task = AuditTask("it", CLIPPED, budget, (pair,), 1000, 1e-5, 0)
    visible = task.visible_factor(pair)
    assert 0.3 < visible < 1
    above = FACTORS[FACTORS.index(visible) - 1]

    def refuted(factor: float, seed: int) -> bool:
        with noise_times(factor):
            return replace(task, seed=seed).bound(pair).verdict == "refuted"

    # fewer of 40 have a chance of 1e-6 at 95%
    assert sum(refuted(visible, seed) for seed in range(40)) >= 30
    assert not all(refuted(above, seed) for seed in range(40))


def test_what_is_visible_reaches_its_claim_by_deviations(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the error of a bound and the 0.05 quantile of a normal law further out."""
    errors = []

    def spy(task: AuditTask, pair: Pair, factor: float, error: float) -> PrivacyBound:
        errors.append(error)
        return PrivacyBound(1.0, 0.0, 1000)

    monkeypatch.setattr(AuditTask, "bound", spy)
    (pair,) = only(catalogue(20), "ends_of_the_clip")
    assert np.isnan(AuditTask("it", CLIPPED, PURE, (pair,), 1000, 1e-5, 0).visible_factor(pair))
    further = norm.isf(errors[0]) - norm.isf(1e-5 / AUDITED_PAIRS)
    assert further == pytest.approx(norm.isf(0.05))


def test_what_one_of_the_pairs_shows_is_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the noise as it is, another pair may show more."""
    inside = Pair.replacing("inside", np.zeros(20), 0, 0.01)
    far = only(catalogue(20), "ends_of_the_clip")
    monkeypatch.setattr(AuditTask, "expected_bound", lambda *_: 0.0)
    for pairs in ([inside, *far], [*far, inside]):
        assert {row["detectable_noise"] for row in rows_of(CLIPPED, PURE, pairs)} == {
            rows_of(CLIPPED, PURE, far)[0]["detectable_noise"]
        }
    assert np.isnan(rows_of(CLIPPED, PURE, [inside])[0]["detectable_noise"])


def test_noise_that_is_drawn_elsewhere_is_not_known_to_be_visible() -> None:
    @validated
    class Outside(OneDataset):
        def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float:
            return float(np.clip(x, -1, 1).mean() + rng.laplace(0, 2 / len(x)))

    (row,) = rows_of(Outside(), PURE, only(catalogue(20), "two_clusters"), runs=100)
    assert np.isnan(row["detectable_noise"])


def test_a_task_s_name_tells_all_of_it() -> None:
    pair = Pair.replacing("p", np.zeros(9), 0, 1.0)
    task = AuditTask("a", CLIPPED, PURE, (pair,), 200, 1e-3, 5)
    elsewhere = Pair.replacing("p", np.zeros(9), 1, 1.0)
    changes: list[dict[str, Any]] = [
        {"label": "b"}, {"estimator": ClippedMean(lower=-1, upper=2)}, {"budget": PureDP(2.0)},
        {"pairs": (elsewhere,)}, {"pairs": (Pair("q", pair.left, pair.right),)}, {"runs": 201},
        {"error": 1e-4}, {"seed": 6}, {"seen_by": ("replay",)},
    ]  # fmt: skip
    names = {task.name, *(replace(task, **change).name for change in changes)}
    assert len(names) == len(changes) + 1
    assert replace(task, seed=5).name == task.name


JUDGED: list[tuple[tuple[Way, ...], str]] = [
    ((), "nrrr"), (("runs",), "nnrr"), (("replay",), "nrnr"), (("runs", "replay"), "nnnr"),
]  # fmt: skip


@pytest.mark.parametrize(("seen_by", "wanted"), JUDGED)
def test_every_way_that_must_see_a_control_refutes_it(
    seen_by: tuple[Way, ...], wanted: str
) -> None:
    """Of no control, one way is enough. In turn: none refutes, a replay, runs, both."""
    task = AuditTask("it", CLIPPED, PURE, (), 100, 1e-3, 0, seen_by)
    bounds, moves = [PrivacyBound(1.0, 0.5, 100), PrivacyBound(1.0, 2.0, 100)], [0.5, 2.0]
    ways = [(bound, [Replay(move, "a", "", 1, 0)]) for bound in bounds for move in moves]
    found = [task.judge(*way, blind=False)[0] for way in ways]
    assert "".join(found) == wanted
    blind = task.judge(PrivacyBound(1.0, np.nan, 100), [], blind=False)
    assert blind == task.judge(bounds[0], [], blind=True) == "failed"


def test_the_share_of_failed_releases_is_that_of_the_better_pair() -> None:
    """One of eight releases is not finite on the first pair; on the second all of them raise."""
    left, right = np.array([[1.0], [np.nan], [2.0]]), np.ones((5, 1))
    found = [PairReleases(left, right), None]
    one: Any = SimpleNamespace(estimator=None, budget=None, streams=lambda *_: None)
    with mock.patch.object(task, "release_both_sides", side_effect=found):
        share = AuditTask._failed_share(one, [one, one])
    assert share == 1 / 8
