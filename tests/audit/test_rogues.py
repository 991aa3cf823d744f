"""Estimators that leak a record in a way of their own: the replay refutes each, or names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest

from dpbench import Estimate, Ledger, validated
from dpbench.audit import Replay, audit_replay
from dpbench.audit.replay import first_reason
from dpbench.estimators import Estimator
from dpbench.privacy import ApproxDP, Budget, PureDP
from dpbench.privacy.budgets import Relation
from dpbench.privacy.neighbours import Pair
from dpbench.samples import DenseSample, Sample
from dpbench.testing import check_estimator
from tests.audit.audits import list_pairs

PURE = PureDP(1.0)
Rule = Callable[[Sample, Ledger], Estimate]
RULES: dict[str, Rule] = {}


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))


def rogue(rule: Rule) -> Rule:
    RULES[rule.__name__] = rule
    return rule


def estimator_of(name: str) -> Estimator:
    @validated
    class Rogue(Estimator):
        rule: str
        multivariate: ClassVar[bool] = name.startswith("coordinates") or name.endswith("vector")
        relations: ClassVar[tuple[Relation, ...]] = ("replace", "add_remove")

        def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
            return RULES[self.rule](sample, ledger)

    return Rogue(rule=name)


def replays(name: str, n: int, d: int | None, budget: Budget = PURE) -> list[Replay]:
    estimator = estimator_of(name)
    return [
        audit_replay(estimator, budget, pair, rng=np.random.default_rng(0))
        for pair in list_pairs(estimator, n, d, budget)
    ]


def mean_of(sample: Sample) -> np.ndarray:
    return sample.clipped_mean(-1.0, 1.0)


def values_of(sample: Sample) -> np.ndarray:
    assert isinstance(sample, DenseSample)
    return sample.values


def noisy(sample: Sample, ledger: Ledger) -> np.ndarray:
    return ledger.add_noise(mean_of(sample), 2 / sample.n)


@rogue
def returns_data(sample: Sample, ledger: Ledger) -> Estimate:
    noisy(sample, ledger)
    return Estimate(mean_of(sample), mean_of(sample))


@rogue
def noise_of_its_own(sample: Sample, ledger: Ledger) -> Estimate:
    """Add noise from the ledger's generator, and pay by noise on zeros."""
    ledger.add_noise(np.zeros(sample.trials), 2 / sample.n)
    return Estimate(mean_of(sample) + ledger.rng.laplace(size=sample.trials), mean_of(sample))


@rogue
def ledger_of_its_own(sample: Sample, ledger: Ledger) -> Estimate:
    ledger.add_noise(np.zeros(sample.trials), 2 / sample.n)
    return Estimate(noisy(sample, Ledger(PureDP(100.0), ledger.rng)), mean_of(sample))


@rogue
def interval_of_data(sample: Sample, ledger: Ledger) -> Estimate:
    ends = mean_of(sample) - 1, mean_of(sample) + 1
    return Estimate(noisy(sample, ledger), mean_of(sample), interval=ends, miss=0.1)


@rogue
def interval_if_wide(sample: Sample, ledger: Ledger) -> Estimate:
    value = noisy(sample, ledger)
    ends = (value - 1, value + 1) if np.ptp(values_of(sample)) > 10 else None
    return Estimate(value, mean_of(sample), interval=ends, miss=0.1)


@rogue
def scale_of_data(sample: Sample, ledger: Ledger) -> Estimate:
    scale = values_of(sample).std(axis=1)
    return Estimate(noisy(sample, ledger), mean_of(sample), scale=scale)


@rogue
def nominal_miss_of_data(sample: Sample, ledger: Ledger) -> Estimate:
    value = noisy(sample, ledger)
    miss = 0.1 if np.ptp(values_of(sample)) > 10 else 0.05
    return Estimate(value, mean_of(sample), interval=(value - 1, value + 1), miss=miss)


@rogue
def noise_of_data(sample: Sample, ledger: Ledger) -> Estimate:
    """State another noise in the estimate if the records spread."""
    value, budget = noisy(sample, ledger), PureDP(1.0 + (np.ptp(values_of(sample)) > 10))
    return Estimate(value, mean_of(sample), noise=(np.full(sample.trials, 2 / sample.n), budget))


@rogue
def fails_on_spread(sample: Sample, ledger: Ledger) -> Estimate:
    value = noisy(sample, ledger)
    return Estimate(
        np.where(np.ptp(values_of(sample), axis=1) > 10, np.nan, value), mean_of(sample)
    )


@rogue
def sign_of_zero(sample: Sample, ledger: Ledger) -> Estimate:
    """Write the sign of the mean into the sign of a zero, which numpy compares as equal."""
    noisy(sample, ledger)
    return Estimate(np.copysign(0.0, mean_of(sample) - 1e-9), mean_of(sample))


@rogue
def raises_on_spread(sample: Sample, ledger: Ledger) -> Estimate:
    value = noisy(sample, ledger)
    if np.ptp(values_of(sample)) > 10:
        raise ValueError("spread")
    return Estimate(value, mean_of(sample))


@rogue
def both_parts_hold_all(sample: Sample, ledger: Ledger) -> Estimate:
    parts = [noisy(sample, part) for part in ledger.parallel(2)]
    return Estimate(np.mean(parts, axis=0), mean_of(sample))


@rogue
def parts_by_value(sample: Sample, ledger: Ledger) -> Estimate:
    """Cut the records at 0, so that a replaced record leaves one part and enters the other."""
    x = values_of(sample)
    sides = np.clip(np.where(x < 0, x, 0), -1, 1), np.clip(np.where(x < 0, 0, x), -1, 1)
    means = [side.mean(axis=1) for side in sides]
    pairs = zip(means, ledger.parallel(2), strict=True)
    total = np.sum([part.add_noise(mean, 1 / sample.n) for mean, part in pairs], axis=0)
    return Estimate(total, np.sum(means, axis=0))


@rogue
def parts_of_smaller_steps(sample: Sample, ledger: Ledger) -> Estimate:
    """Pay both parts by a budget for added or removed records, between which two parts differ."""
    budget = PureDP(0.5, neighbours="add_remove")
    parts = [part.split(budget)[0] for part in ledger.parallel(2)]
    stated: dict[Relation, float] = {"add_remove": 2 / sample.n}
    total = np.sum([part.add_noise(mean_of(sample), stated) for part in parts], axis=0)
    return Estimate(total / 2, mean_of(sample))


@rogue
def coordinates_paid_once(sample: Sample, ledger: Ledger) -> Estimate:
    value = noisy(sample.columns(), ledger).reshape(sample.trials, -1)
    return Estimate(value, mean_of(sample))


@rogue
def coordinates_paid_twice(sample: Sample, ledger: Ledger) -> Estimate:
    value = noisy(sample.columns(), ledger.repeated(2)).reshape(sample.trials, -1)
    return Estimate(value, mean_of(sample))


@rogue
def share_of_data(sample: Sample, ledger: Ledger) -> Estimate:
    share = 0.9 if np.ptp(values_of(sample)) > 10 else 0.1
    first, second = ledger.split(share, 1 - share)
    return Estimate((noisy(sample, first) + noisy(sample, second)) / 2, mean_of(sample))


@rogue
def threshold_of_data(sample: Sample, ledger: Ledger) -> Estimate:
    counts = np.tile(np.arange(9.0), (sample.trials, 1))
    chosen = ledger.above_threshold(counts, 1.0, 9 * float(mean_of(sample)[0]))
    return Estimate(chosen.astype(float), chosen.astype(float))


@rogue
def shape_of_data(sample: Sample, ledger: Ledger) -> Estimate:
    distinct = len(np.unique(values_of(sample)))
    released = ledger.add_noise(np.zeros((sample.trials, distinct)), 1.0)
    return Estimate(np.full(sample.trials, float(released.shape[1])), mean_of(sample))


@rogue
def beside_a_huge_constant(sample: Sample, ledger: Ledger) -> Estimate:
    """State a millionth of the sensitivity, beside a constant of 1e20 that nothing moves."""
    values = np.stack([np.full(sample.trials, 1e20), mean_of(sample)], axis=1)
    released = ledger.add_noise(values, 1e-6 / sample.n)[:, 1]
    return Estimate(released, mean_of(sample))


@rogue
def beside_a_huge_score(sample: Sample, ledger: Ledger) -> Estimate:
    scores = np.stack([np.full(sample.trials, -1e300), 1e3 * mean_of(sample)], axis=1)
    chosen = ledger.exponential(np.c_[scores, np.zeros(sample.trials)], 1 / sample.n)
    return Estimate(chosen.astype(float), chosen.astype(float))


REFUTED = {
    **dict.fromkeys(
        ("returns_data", "noise_of_its_own", "ledger_of_its_own", "interval_of_data",
         "interval_if_wide", "scale_of_data", "nominal_miss_of_data", "noise_of_data",
         "fails_on_spread", "sign_of_zero"),
        "the final output depends",
    ),
    "raises_on_spread": "whether it raises depends",
    "both_parts_hold_all": "more than 1 of the parts that pay in parallel depends",
    "parts_by_value": "more than 1 of the parts that pay in parallel depends",
    "parts_of_smaller_steps": "more than 1 of the parts that pay in parallel depends",
    "coordinates_paid_once": "more than 1 row of add_noise depends",
    "coordinates_paid_twice": "more than 2 rows of add_noise depends",
    "share_of_data": "the budget or a setting of additive noise depends",
    "threshold_of_data": "the budget or a setting of above_threshold depends",
    "shape_of_data": "the shape of the release of add_noise depends",
    "beside_a_huge_constant": "add_noise moves by 2e+06 times",
    "beside_a_huge_score": "exponential moves by 2000 times",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUTED)
def test_a_leak_is_refuted(name: str) -> None:
    """A pair of the catalogue shows each leak, and `check_estimator` refuses the estimator."""
    d = 3 if name.startswith("coordinates") else None
    assert first_reason(replays(name, 60, d)).startswith(REFUTED[name])
    if name != "sign_of_zero":  # the check's records never change the sign of the mean
        with pytest.raises(AssertionError, match=r" depends on record | moves | raised | no noise"):
            check_estimator(estimator_of(name), d=d, budgets=[PURE])


@rogue
def always_raises(sample: Sample, ledger: Ledger) -> Estimate:
    raise ValueError("never")


@rogue
def pays_and_returns_data(sample: Sample, ledger: Ledger) -> Estimate:
    ledger.pay("a mechanism that adds no noise")
    return Estimate(mean_of(sample), mean_of(sample))


@rogue
def pays_before_a_mechanism(sample: Sample, ledger: Ledger) -> Estimate:
    first, second = ledger.split(0.5, 0.5)
    first.pay("a mechanism that adds no noise")
    return Estimate(mean_of(sample) + noisy(sample, second), mean_of(sample))


@rogue
def records_data(sample: Sample, ledger: Ledger) -> Estimate:
    ledger.pay("a mechanism that adds no noise")
    return Estimate(ledger.record_output(mean_of(sample)), mean_of(sample))


@rogue
def canonical_noise_on_a_vector(sample: Sample, ledger: Ledger) -> Estimate:
    counts = (values_of(sample) > 0).sum(axis=1).astype(float)
    return Estimate(ledger.add_canonical_noise(counts, 1.0), counts)


@rogue
def smooth_noise_on_a_vector(sample: Sample, ledger: Ledger) -> Estimate:
    return Estimate(ledger.add_smooth_noise(mean_of(sample), 2 / sample.n, 0.05), mean_of(sample))


@rogue
def below_rounding(sample: Sample, ledger: Ledger) -> Estimate:
    """State nearly nothing for a move below the rounding of the values."""
    return Estimate(ledger.add_noise(1e9 + 1e-5 * mean_of(sample), 1e-20), mean_of(sample))


NAMED = {
    "always_raises": 0, "pays_and_returns_data": 1, "pays_before_a_mechanism": 2,
    "records_data": 1, "canonical_noise_on_a_vector": 0, "smooth_noise_on_a_vector": 0,
    "below_rounding": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_a_leak_that_a_replay_cannot_see_is_named(name: str) -> None:
    found = replays(name, 60, 3 if name.endswith("vector") else None)
    assert {replay.not_compared for replay in found} <= {0, NAMED[name]}
    hidden = [replay for replay in found if replay.verdict == "nothing compared"]
    assert hidden
    assert {replay.verdict for replay in found} <= {"nothing compared", "not refuted"}
    if name == "below_rounding":  # where the record moves nothing, the values are equal
        assert {replay.not_compared for replay in hidden} == {1}
    else:
        assert len(hidden) == len(found)


@pytest.mark.parametrize("budget", [PURE, ApproxDP(1.0, 1e-6)])
def test_noise_for_numbers_refuses_vectors_before_it_pays(budget: Budget) -> None:
    ledger = Ledger(budget, np.random.default_rng(0))
    for release in (
        lambda: ledger.add_canonical_noise(np.zeros((5, 2)), 1.0),
        lambda: ledger.add_smooth_noise(np.zeros((5, 2)), 1.0, 0.01),
        lambda: ledger.add_noise(np.zeros((5, 2, 2)), 1.0),
        lambda: ledger.add_geometric_noise(np.zeros((5, 2, 2)), 1.0),
        lambda: ledger.exponential(np.zeros(5), 1.0),
        lambda: ledger.above_threshold(np.zeros(5), 1.0, 1.0),
    ):
        with pytest.raises(ValueError, match=r"values of shape \(5,.*expected (numbers|vectors)"):
            release()
    assert not any(ledger.spent)


def test_hourglass_noise_is_for_a_count_that_moves_by_one() -> None:
    """Check the number of removals that a move of (sum, count) takes, in `hourglass`'s proof."""

    @rogue
    def hourglass(sample: Sample, ledger: Ledger) -> Estimate:
        sums, size = sample.n * mean_of(sample), np.full(sample.trials, 60.0)
        sums, _ = ledger.add_hourglass_noise(np.stack([sums, size], axis=1)).T
        return Estimate(sums, sums)

    left = np.append(np.zeros(59), 0.5)
    pair = Pair("removed", left, left[:-1])
    budget = PureDP(1.0, neighbours="add_remove")
    RULES["hourglass"] = lambda sample, ledger: hourglass(sample.whole, ledger)  # type: ignore[attr-defined]
    found = audit_replay(estimator_of("hourglass"), budget, pair, rng=np.random.default_rng(0))
    assert found.reason == "add_hourglass_noise moves by 2 times its stated sensitivity on removed"
