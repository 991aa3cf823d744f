"""Releases on both datasets of a pair, and what their bounds refute."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbench import Estimate, Ledger, NonPrivate, validated
from dpbench.audit import PrivacyBound, audit_pair, noise_times, releases
from dpbench.audit.attack import Attack, PairReleases
from dpbench.audit.pairs import catalogue
from dpbench.audit.releases import PILOT_SHARE
from dpbench.audit.task import AuditTask
from dpbench.estimators import (
    ClippedMean,
    EmpiricalMean,
    Estimator,
    KarwaVadhanMean,
    KSU20RangeEstimate,
    L2ClippedMean,
    LocalMean,
    PrivUnitMean,
    RandomizedResponseSignMean,
    SubsampleAggregate,
)
from dpbench.estimators.moment_bins import MomentBins
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, histogram
from dpbench.privacy.neighbours import Pair
from dpbench.samples import Sample
from tests.audit.audits import ERROR, list_pairs, only, rows_of, verdicts_of

Floats = NDArray[np.float64]
PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
CLIPPED = ClippedMean(lower=-1, upper=1)


@pytest.mark.parametrize(("d", "budget"), [(None, PURE), (2, RHO), (2, GDP(1.0))])
def test_a_pair_refutes_half_of_the_noise(budget: Budget, d: int | None) -> None:
    left, right = np.zeros((2, 50) if d is None else (2, 50, d))
    left[7], right[7] = -5, 5  # along the diagonal of vectors, which moves a box most

    def found(pair: Any) -> PrivacyBound:
        rng = np.random.default_rng(0)
        return audit_pair(CLIPPED, budget, pair, runs=2000, failure_probability=ERROR, rng=rng)

    bound = found((left.tolist(), right.tolist()))
    assert bound == found(Pair("mine", left, right))
    assert bound.verdict == "not refuted"
    assert bound.claimed / 10 < bound.lower_bound < bound.claimed == budget.amounts[0]
    with noise_times(0.5):
        bound = found((left, right))
    assert bound.verdict == "refuted"
    told = f"refuted: claimed {bound.claimed:g}, lower bound {bound.lower_bound:.3f}"
    assert str(bound) == f"{told} (2000 runs on each dataset)"


def test_a_threshold_of_zero_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bin that one record fills is released on one dataset, at any distance."""
    pairs = [Pair.replacing("alone", 1000.0 * np.arange(4), 0, -1e6)]
    estimator = KSU20RangeEstimate(k=2, scale=1, alpha=0.5, constants="practical", radius=None)
    assert verdicts_of(estimator, APPROX, pairs) == {"not refuted"}
    monkeypatch.setattr(histogram, "stability_threshold", lambda _: 0.0)
    monkeypatch.setattr(MomentBins, "_wrong_passes", lambda *_: 0.0)  # nothing is refused
    assert verdicts_of(estimator, APPROX, pairs) == {"refuted"}


MEDIAN = SubsampleAggregate(aggregate="median", buckets=20, lower=-1, upper=1, resolution=0.1)
L2 = L2ClippedMean(mechanism="l2", radius=1)
AGAIN: list[tuple[Estimator, Budget, str, int | None, int, int]] = [
    (CLIPPED, RHO, "ends_of_the_clip", None, 40, 100),
    (KarwaVadhanMean(radius=50, sigma=1), PURE, "across_a_bin_edge", None, 40, 100),
    (MEDIAN, PURE, "two_far_clusters", None, 40, 100),
    # Its score is constant beyond both medians, but for the last digits: refuted by them at 0, 1.
    (L2, PURE, "two_clusters_diagonal", 3, 2, 10_000),
    (L2, PURE, "far_outlier", 3, 2, 10_000),
]


@pytest.mark.parametrize(("estimator", "budget", "name", "d", "seeds", "runs"), AGAIN)
def test_no_correct_mechanism_is_refuted(
    estimator: Estimator, budget: Budget, name: str, d: int | None, seeds: int, runs: int
) -> None:
    """A false alarm in any of 40 has probability 40 * 2e-5 = 8e-4 at most."""
    (pair,) = only(list_pairs(estimator, 20 if d is None else 60, d, budget), name)
    for seed in range(seeds):
        found = AuditTask("it", estimator, budget, (pair,), runs, 2e-5, seed).bound(pair)
        assert found.verdict == "not refuted", found


@validated
class _Raises(ClippedMean):
    """Raises where records spread, with this chance elsewhere, or always."""

    chance: float = 0.0
    at_spread: float = np.finfo(float).max

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        values = np.asarray(sample.values)  # type: ignore[attr-defined]
        if np.ptp(values) >= self.at_spread:
            raise ValueError("spread")
        found = super().estimate(sample, ledger)
        if (ledger.rng.random(sample.trials) < self.chance).any():
            raise np.linalg.LinAlgError("by chance")
        return found


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))


def test_to_raise_on_one_dataset_only_tells_it() -> None:
    estimator = _Raises(lower=-1, upper=1, at_spread=1e5)
    pairs = only(catalogue(50), "one_to_the_far_end", "two_far_clusters")
    first, second = rows_of(estimator, APPROX, pairs, runs=300)
    assert (first["lower_bound"] > 1, np.isnan(second["lower_bound"])) == (True, True)
    # The replay is of all pairs, and says so in all rows.
    assert {first["verdict"], second["verdict"]} == {"refuted"}
    told = "whether it raises depends on the record of one_to_the_far_end"
    assert {first["refuted_by_replay"], second["refuted_by_replay"]} == {told}


@pytest.mark.parametrize("chance", [5e-2, 1.0])
def test_to_raise_by_chance_tells_nothing(chance: float) -> None:
    """An exception ends a batch of releases, of which only one need have failed."""
    estimator = _Raises(lower=-1, upper=1, chance=chance)
    (pair,) = only(catalogue(50), "two_clusters")
    (row,) = rows_of(estimator, PURE, [pair], runs=100)
    found = audit_pair(
        estimator, PURE, pair, runs=100, failure_probability=ERROR, rng=np.random.default_rng(0)
    )
    assert {row["verdict"], found.verdict} == {"failed" if chance == 1 else "not refuted"}
    assert np.isnan(row["lower_bound"]) == np.isnan(found.lower_bound) == (chance == 1)


def test_the_example() -> None:
    result = doctest.testmod(releases)
    assert result.attempted > 5
    assert result.failed == 0


def test_a_coin_deals_out_the_runs_and_no_run_of_the_pilot_is_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []

    def judge(rest: PairReleases, error: float) -> float:
        told.extend([rest, error])
        return 0.0

    def spy(pilot: PairReleases, direction: Floats, budget: Budget, runs: int, error: float) -> Any:
        told.extend([pilot, runs, error])
        return [(Attack(0.0, judge), 0.25)]

    monkeypatch.setattr(releases, "choose_attacks", spy)
    data = np.zeros(9), np.append(np.zeros(8), 1.0)
    rng = np.random.default_rng(3)
    found = audit_pair(CLIPPED, PureDP(1e6), data, runs=500, failure_probability=1e-3, rng=rng)
    assert found == PrivacyBound(1e6, 0.0, 500)
    pilot, runs, error, rest, share = told
    coins = np.random.default_rng(3).random(1000) < 0.5
    early = coins[: int(PILOT_SHARE * 1000)]
    assert [len(side) for side in pilot] == [early.sum(), (~early).sum()]
    assert [len(pilot[i]) + len(rest[i]) for i in (0, 1)] == [coins.sum(), (~coins).sum()]
    for i, mean in enumerate((0, 1 / 9)):
        assert np.abs(np.concatenate([pilot[i], rest[i]]) - mean).max() < 1e-3
        assert not set(pilot[i].ravel()) & set(rest[i].ravel())
    assert runs == min(len(rest.left), len(rest.right))
    assert error == 1e-3 / 2  # releases that failed are tried again
    assert share == error / 4


@pytest.mark.parametrize(
    ("budget", "larger"),
    [(PURE, PureDP(2.0)), (RHO, ZCDP(2.0)), (GDP(1.0), GDP(2.0)),
     (ApproxDP(1.0, 0.1, "laplace"), ApproxDP(2.0, 0.1, "laplace"))],
)  # fmt: skip
def test_half_of_the_noise_is_that_of_a_larger_budget(budget: Budget, larger: Budget) -> None:
    assert larger.noise_quantile(0.1) == pytest.approx(budget.noise_quantile(0.1) / 2)
    ledger = Ledger(budget, np.random.default_rng(0), noise_factor=0.5)
    assert ledger.pay_for_custom_mechanism("coins").amounts == larger.amounts
    assert ledger.spent == pytest.approx(budget.amounts)  # as before


@pytest.mark.parametrize("noise_by", ["classical", "ksu20"])
def test_coins_run_at_an_epsilon_that_such_gaussians_may_not_have(noise_by: Any) -> None:
    ledger = Ledger(ApproxDP(1.0, 0.1, noise_by), np.random.default_rng(0), noise_factor=0.5)
    assert ledger.pay_for_custom_mechanism("coins") == ApproxDP(2.0, 0.1)


LOCAL: list[tuple[Estimator, int | None]] = [
    (LocalMean(k=2, scale=1, mechanism="randomised_response"), None),
    (LocalMean(k=2, scale=1, mechanism="three_values"), None),
    (RandomizedResponseSignMean(radius=0, sigma=1), None),
    (PrivUnitMean(), 3),
]


@pytest.mark.parametrize(("estimator", "d"), LOCAL)
def test_half_of_the_noise_of_coins_is_refuted(estimator: Estimator, d: int | None) -> None:
    """Without it a false alarm has probability `ERROR` at most."""
    (pair,) = only(catalogue(2, d), "two_clusters")  # others' chance hides a record
    found = []
    for factor in (1.0, 0.5):
        rng = np.random.default_rng(0)
        with noise_times(factor):
            found.append(
                audit_pair(
                    estimator, PureDP(2.0), pair, runs=4000, failure_probability=ERROR, rng=rng
                )
            )
    assert [one.verdict for one in found] == ["not refuted", "refuted"]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"pair": (np.zeros(4), np.ones(4))}, "4 records differ; neighbours differ in one"),
    ({"budget": NonPrivate()}, "ClippedMean claims nothing .* 'none'"),
    ({"estimator": EmpiricalMean()}, "EmpiricalMean claims nothing .* 'pure'"),
    (
        {"estimator": KarwaVadhanMean(radius=50, sigma=1), "pair": ([[0.0]], [[1.0]])},
        "scalar records",
    ),
    ({"runs": 99}, "runs: 99"),
    ({"failure_probability": 0.0}, "failure_probability: 0"),
]


@pytest.mark.parametrize(("change", "told"), BAD)
def test_what_cannot_be_audited(change: dict[str, Any], told: str) -> None:
    asked = {"estimator": CLIPPED, "budget": PURE, "pair": (np.zeros(4), np.eye(4)[0]), **change}
    with pytest.raises(ValueError, match=told):
        audit_pair(**asked, rng=np.random.default_rng(0))


def test_a_seed_is_no_generator() -> None:
    pair: Any = np.zeros(4), np.eye(4)[0]
    with pytest.raises(TypeError, match="rng: 7: not a generator"):
        audit_pair(CLIPPED, PURE, pair, rng=7)  # type: ignore[arg-type]
