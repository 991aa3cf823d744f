"""What must be refuted is, and what is correct is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from dpbench import Estimate, Ledger, validated
from dpbench.audit.controls import CONTROLS, Control
from dpbench.audit.pairs import catalogue
from dpbench.audit.releases import COLUMNS, AuditTask, audit
from dpbench.estimators import (
    BoundedMean,
    ClippedMean,
    Estimator,
    KarwaVadhanMean,
    KSU20Range,
    SubsampleAggregate,
)
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP, budgets, histogram
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Registered
from dpbench.samples import Sample

# That of one pair: the default error over as many pairs as the shipped audit has.
ERROR = 1e-5 / 1250
PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
CLIPPED = ClippedMean(lower=-1, upper=1)


def _rows(
    estimator: Estimator,
    budget: Budget,
    pairs: Sequence[Pair],
    *,
    runs: int = 1000,
    error: float = ERROR,
    seed: int = 0,
) -> list[dict[str, object]]:
    return audit(AuditTask("it", estimator, budget, tuple(pairs), runs, error, seed))


def _verdicts(*args: object, **more: object) -> set[object]:
    return {row["verdict"] for row in _rows(*args, **more)}  # type: ignore[arg-type]


def _some(pairs: Sequence[Pair], *names: str) -> list[Pair]:
    found = [pair for pair in pairs if pair.name in names]
    assert len(found) == len(names)
    return found


# The pair that shows each of them best.
BEST = {
    "halved_sensitivity": "ends_of_the_clip",
    "halved_deviation": "two_far_clusters",
    "range_of_the_data": "all_equal_but_one",
    "empirical_quantiles": "at_the_quantile",
    "fails_on_spread": "one_to_the_far_end",
    "no_clipping": "one_to_the_far_end",
    "scale_as_location": "ends_of_the_clip",
    "add_remove_histogram": "two_far_clusters",
    "reused_noise": "two_clusters",
}
CLAIMS = [(control, budget) for control in CONTROLS for budget in control.budgets]


@pytest.mark.parametrize(
    ("control", "budget"), CLAIMS, ids=[f"{c.label}-{b.label}" for c, b in CLAIMS]
)
def test_a_control_is_refuted_at_its_size(control: Control, budget: Budget) -> None:
    pairs = [*catalogue(control.n, control.d), *control.audit_pairs(control.n, control.d, budget)]
    one = _some(pairs, BEST[control.label])
    (row,) = _rows(control, budget, one, runs=control.runs, error=1e-5 / 200)
    assert tuple(row) == COLUMNS
    assert row["verdict"] == "refuted", row
    assert row["runs"] == control.runs


def test_every_control_is_tested() -> None:
    assert set(BEST) == {control.label for control in CONTROLS} == set(Control._registry)
    assert issubclass(Control, Registered)
    assert not set(BEST) & set(Estimator._registry)  # no sweep can name them


# What each control would be without its mistake.
TWINS: dict[str, tuple[Estimator, tuple[Budget, ...], int, int | None]] = {
    "clipped": (CLIPPED, (PURE, RHO, APPROX), 50, None),
    "clipped_vectors": (CLIPPED, (PURE, RHO), 50, 2),
    "bounded_vectors": (BoundedMean(radius=1), (PURE,), 50, 5),
    "histogram": (KarwaVadhanMean(radius=50), (PURE, RHO, APPROX), 50, None),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_control_without_its_mistake_is_not_refuted(name: str) -> None:
    estimator, claims, n, d = TWINS[name]
    for budget in claims:
        pairs = [*catalogue(n, d), *estimator.audit_pairs(n, d, budget)]
        assert _verdicts(estimator, budget, pairs) == {"not refuted"}


# Mistakes in the source.


def _halve_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = budgets.Budget.noise

    def halved(self: Budget, *args: object, **more: object) -> object:
        return noise(self, *args, **more) / 2  # type: ignore[arg-type]

    monkeypatch.setattr(budgets.Budget, "noise", halved)


@pytest.mark.parametrize("budget", [PURE, RHO])
def test_half_of_the_noise(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = _some(catalogue(50), "ends_of_the_clip", "two_far_clusters", "all_low_but_one")
    assert _verdicts(CLIPPED, budget, pairs) == {"not refuted"}
    _halve_the_noise(monkeypatch)
    assert "refuted" in _verdicts(CLIPPED, budget, pairs)


def test_half_of_the_sensitivity_of_a_histogram(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a choice among bins a factor 2 takes 10,000 runs: at 4000 the bound is below 1."""
    estimator = KSU20Range(k=2, alpha=0.5, radius=50, constants="practical")
    pairs = _some(estimator.audit_pairs(20, None, PURE), "across_a_bin_edge")
    assert _verdicts(estimator, PURE, pairs, runs=20_000) == {"not refuted"}
    monkeypatch.setattr(histogram, "L1", 1.0)
    assert _verdicts(estimator, PURE, pairs, runs=20_000) == {"refuted"}


def test_no_threshold_for_bins_that_one_record_fills(monkeypatch: pytest.MonkeyPatch) -> None:
    # Such a bin is released on one dataset and never on the other, at any distance.
    estimator = KSU20Range(k=2, alpha=0.5, radius=None, constants="practical")
    alone = [Pair.replacing("alone", 1000.0 * np.arange(4), 0, -1e6)]
    assert _verdicts(estimator, APPROX, alone) == {"not refuted"}
    monkeypatch.setattr(histogram, "stability_threshold", lambda budget: 0.0)
    assert _verdicts(estimator, APPROX, alone) == {"refuted"}


# The same mechanism on both sides of its claim, many times.

MEDIAN = SubsampleAggregate(aggregate="median", buckets=20, lower=-1, upper=1, resolution=0.1)
AGAIN: dict[str, tuple[Estimator, Budget, str]] = {
    "clipped_pure": (CLIPPED, PURE, "ends_of_the_clip"),
    "clipped_zcdp": (CLIPPED, RHO, "ends_of_the_clip"),
    "histogram_pure": (KarwaVadhanMean(radius=50), PURE, "across_a_bin_edge"),
    "median_pure": (MEDIAN, PURE, "two_far_clusters"),
}


@pytest.mark.parametrize("name", AGAIN)
def test_no_correct_mechanism_is_refuted_in_200_seeds(name: str) -> None:
    """At the default error a false alarm in any of 200 has probability 200e-5 = 2e-3 at most."""
    estimator, budget, pair = AGAIN[name]
    one = _some([*catalogue(20), *estimator.audit_pairs(20, None, budget)], pair)
    for seed in range(200):
        (row,) = _rows(estimator, budget, one, runs=100, error=1e-5, seed=seed)
        assert row["verdict"] == "not refuted", row


# Failures.


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


@pytest.mark.parametrize("budget", [PURE, RHO, APPROX])
def test_to_raise_on_one_dataset_only_tells_it(budget: Budget) -> None:
    estimator = _Raises(lower=-1, upper=1, at_spread=1e5)
    pairs = _some(catalogue(50), "one_to_the_far_end", "two_far_clusters")
    first, second = _rows(estimator, budget, pairs)
    assert {first["verdict"], second["verdict"]} == {"refuted", "failed"}


@pytest.mark.parametrize("chance", [2e-3, 0.3])
def test_to_raise_by_chance_tells_nothing(chance: float) -> None:
    """An exception ends a batch of releases, of which only one need have failed."""
    estimator = _Raises(lower=-1, upper=1, chance=chance)
    pair = _some(catalogue(50), "two_clusters")
    for seed in range(6):
        assert _verdicts(estimator, PURE, pair, runs=500, seed=seed) == {"not refuted"}


def test_to_raise_always_is_a_failure() -> None:
    estimator = _Raises(lower=-1, upper=1, chance=1.0)
    (row,) = _rows(estimator, PURE, _some(catalogue(50), "two_clusters"), runs=100)
    assert row["verdict"] == "failed"
    assert np.isnan(row["lower_bound"])  # type: ignore[call-overload]


# Numbers.


def test_a_bound_depends_on_its_name_and_seed_only() -> None:
    pairs = catalogue(30)
    task = AuditTask("a", CLIPPED, PURE, tuple(pairs), 200, 1e-3, 5)
    bounds = [row["lower_bound"] for row in audit(task)]
    alone = [audit(replace(task, label="b", pairs=(p,)))[0]["lower_bound"] for p in reversed(pairs)]
    assert bounds == alone[::-1]
    assert bounds != [row["lower_bound"] for row in audit(replace(task, seed=6))]


def test_a_task_s_name_tells_all_of_it() -> None:
    pair = Pair.replacing("p", np.zeros(9), 0, 1.0)
    task = AuditTask("a", CLIPPED, PURE, (pair,), 200, 1e-3, 5)
    other = Pair.replacing("p", np.zeros(9), 1, 1.0)
    others = [
        replace(task, label="b"),
        replace(task, estimator=ClippedMean(lower=-1, upper=2)),
        replace(task, budget=PureDP(2.0)),
        replace(task, pairs=(other,)),
        replace(task, pairs=(Pair("q", pair.left, pair.right),)),
        replace(task, runs=201),
        replace(task, error=1e-4),
        replace(task, seed=6),
    ]
    assert len({task.name, *(one.name for one in others)}) == len(others) + 1
    assert replace(task, seed=5).name == task.name


def test_records_are_not_written_to() -> None:
    pairs = catalogue(20)
    before = [(pair.left.copy(), pair.right.copy()) for pair in pairs]
    _rows(CLIPPED, PURE, pairs, runs=100)
    for pair, (left, right) in zip(pairs, before, strict=True):
        np.testing.assert_array_equal(pair.left, left)
        np.testing.assert_array_equal(pair.right, right)
