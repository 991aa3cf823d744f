"""Replays: what they refute, what they cannot compare, and what they cost."""

from __future__ import annotations

import doctest
from typing import Any, ClassVar

import numpy as np
import pytest

from dpbench import Estimate, Ledger, NonPrivate, validated
from dpbench.audit import Replay, audit_replay, replay
from dpbench.audit.controls import CONTROLS, Control
from dpbench.audit.pairs import catalogue
from dpbench.audit.replay import first_reason, largest_ratio
from dpbench.audit.verdicts import AUDIT
from dpbench.estimators import (
    ClippedMean,
    CoinPressMean,
    EmpiricalMean,
    Estimator,
    KarwaVadhanMean,
    LocalMean,
    SmoothSensitivityTrimmedMean,
)
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.samples import Sample
from tests.audit.audits import list_pairs

PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
CLIPPED = ClippedMean(lower=-1, upper=1)


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))


def replays_of(estimator: Estimator, budget: Budget, n: int, d: int | None = None) -> list[Replay]:
    pairs = list_pairs(estimator, n, d, budget)
    return [audit_replay(estimator, budget, p, rng=np.random.default_rng(0)) for p in pairs]


def test_the_example() -> None:
    result = doctest.testmod(replay)
    assert result.attempted > 5
    assert result.failed == 0


# The ratio of each control by arithmetic, or the reason; None where runs alone can see it.
RATIOS: dict[str, float | str | None] = {
    "halved_sensitivity": 2.0, "halved_deviation": 2.0, "radius_for_diameter": 2.0,
    "no_clipping": 1e6,
    "range_of_the_data": np.inf, "empirical_quantiles": np.inf,
    "fails_on_spread": "the final output",
    "scale_as_location": None, "add_remove_histogram": 2.0, "add_remove_median": 2.0,
    "add_remove_sum": 2.0, "replace_sum": 3.0, "reused_noise": None, "unsorted_sensitivity": None,
    "noiseless_queries": "the final output", "slightly_small_sensitivity": 1 / 0.95,
    "two_looks_at_spread": "which mechanisms it runs",
    "public_weights": "the sensitivity of add_noise", "ignored_cap": 4.0,
}  # fmt: skip
CLAIMS = [(control, budget) for control in CONTROLS for budget in control.budgets]


@pytest.mark.parametrize(("control", "budget"), CLAIMS, ids=lambda one: one.label)
def test_controls_are_refuted_by_replay_as_they_say(control: Control, budget: Budget) -> None:
    found, wanted = replays_of(control, budget, control.n, control.d), RATIOS[control.label]
    refuted = {one.verdict for one in found} >= {"refuted"}
    assert refuted == ("replay" in control.seen_by) == (wanted is not None)
    if isinstance(wanted, float):
        assert largest_ratio(found) == pytest.approx(wanted)
    elif wanted:
        assert first_reason(found).startswith(f"{wanted} depends on the record of ")
    assert {one.verdict for one in found} <= {*AUDIT, "nothing compared"}


HONEST: list[tuple[Estimator, Budget, int, int | None, int, int]] = [
    (CLIPPED, PURE, 20, None, 1, 0),
    (CLIPPED, RHO, 20, 3, 1, 0),
    (KarwaVadhanMean(radius=50, sigma=1), PURE, 60, None, 1, 1),
    (KarwaVadhanMean(radius=None, sigma=1), APPROX, 60, None, 1, 1),
    (CoinPressMean(radius=50, sigma=1, rounds=3), RHO, 60, 3, 3, 0),
]


@pytest.mark.parametrize(("estimator", "budget", "n", "d", "compared", "skipped"), HONEST)
def test_noise_for_exactly_what_moves_is_not_refuted(
    estimator: Estimator, budget: Budget, n: int, d: int | None, compared: int, skipped: int
) -> None:
    """A pair of the catalogue moves each of them by all that it states."""
    found = replays_of(estimator, budget, n, d)
    assert {(one.compared, one.not_compared) for one in found} == {(compared, skipped)}
    assert largest_ratio(found) == pytest.approx(1.0)
    assert {one.verdict for one in found} == {"not refuted"}
    assert not first_reason(found)


@pytest.mark.parametrize(
    ("estimator", "budget"),
    [(LocalMean(k=2, scale=1, mechanism="three_values"), PURE),
     (SmoothSensitivityTrimmedMean(lower=-1, upper=1, trimmed_records=5, smoothness_share=0.05),
      PURE)],
)  # fmt: skip
def test_what_cannot_be_compared_is_counted(estimator: Estimator, budget: Budget) -> None:
    found = replays_of(estimator, budget, 20)
    assert np.isnan(largest_ratio(found))
    assert {(one.compared, one.not_compared, one.verdict) for one in found} == {
        (0, 1, "nothing compared")
    }
    told = str(found[0])
    assert told.startswith("nothing compared: largest move over stated sensitivity - (mechanisms: ")
    output = "not compared" if isinstance(estimator, LocalMean) else "compared"
    assert told.endswith(f"0 compared, 1 not; output {output})")


@validated
class _Raises(ClippedMean):
    """Raises by chance, or where records spread, before or after a noise that is its own."""

    chance: float = 0.0
    at_spread: float = np.finfo(float).max
    own: bool = False
    files: ClassVar[tuple[str, ...]] = ()

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        first, second = ledger.split(0.5, 0.5)
        if self.own:
            first.pay()
        if (ledger.rng.random(sample.trials) < self.chance).any():
            raise np.linalg.LinAlgError("by chance")
        if np.ptp(np.asarray(sample.values)) >= self.at_spread:  # type: ignore[attr-defined]
            raise ValueError("spread")
        return super().estimate(sample, second)


def test_to_raise_on_one_dataset_only_refutes() -> None:
    """An error by chance is on both; behind a noise that is not frozen none is judged."""
    far = np.zeros(20), np.append(np.zeros(19), 1e6)
    for more, reason in (
        ({"at_spread": 1e5}, "whether it raises depends on the record of pair"),
        ({"at_spread": 1e5, "own": True}, ""),
        ({"chance": 0.1}, ""),
        ({"chance": 1.0}, ""),
    ):
        estimator = _Raises(lower=-1, upper=1, **more)  # type: ignore[arg-type]
        found = audit_replay(estimator, PURE, far, rng=np.random.default_rng(0))
        assert found.reason == reason
        assert found.same_flow == (not reason)


def test_a_replay_is_of_its_generator_alone_and_writes_nothing() -> None:
    (pair,) = (one for one in catalogue(60) if one.name == "far_outlier")
    before = pair.left.copy(), pair.right.copy()
    estimator = KarwaVadhanMean(radius=50, sigma=1)
    found = [audit_replay(estimator, RHO, pair, rng=np.random.default_rng(3)) for _ in range(2)]
    assert found[0] == found[1]
    for side, copy in zip((pair.left, pair.right), before, strict=True):
        np.testing.assert_array_equal(side, copy)


def test_the_worst_of_several_pairs() -> None:
    nothing = Replay(np.nan, "", "", 0, 1, "a")
    fine, far = Replay(0.5, "add_noise", "", 1, 0, "b"), Replay(3.0, "add_noise", "", 1, 0, "c")
    flow = Replay(0.25, "add_noise", "which mechanisms it runs", 1, 0, "d")
    assert np.isnan(largest_ratio([nothing]))
    assert np.isnan(largest_ratio([]))
    assert largest_ratio([nothing, fine, flow]) == 0.5
    assert first_reason([nothing, fine]) == ""
    assert first_reason([flow, far]) == "add_noise moves by 3 times its stated sensitivity on c"
    assert first_reason([fine, flow]) == "which mechanisms it runs depends on the record of d"
    assert Replay(1 + 1e-10, "add_noise", "", 1, 0).verdict == "not refuted"
    assert str(far).startswith("refuted: add_noise moves by 3 times its")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"pair": (np.zeros(4), np.ones(4))}, "4 records differ; neighbours differ in one"),
    ({"pair": Pair("one_less", np.zeros(4), np.zeros(3))}, "are not neighbours under replace"),
    ({"budget": NonPrivate()}, "ClippedMean claims nothing .* 'none'"),
    ({"estimator": EmpiricalMean()}, "EmpiricalMean claims nothing .* 'pure'"),
    (
        {"estimator": KarwaVadhanMean(radius=50, sigma=1), "pair": ([[0.0]], [[1.0]])},
        "scalar records",
    ),
]


@pytest.mark.parametrize(("change", "told"), BAD)
def test_what_cannot_be_replayed(change: dict[str, Any], told: str) -> None:
    asked = {"estimator": CLIPPED, "budget": PURE, "pair": (np.zeros(4), np.eye(4)[0]), **change}
    with pytest.raises(ValueError, match=told):
        audit_replay(**asked, rng=np.random.default_rng(0))
    with pytest.raises(TypeError, match="rng: 7: not a generator"):
        audit_replay(**asked, rng=7)  # type: ignore[arg-type]
