"""Add/remove neighbours: budgets, the ledger, samples, plans and audits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpbench import release
from dpbench.audit import audit_pair, noise_times
from dpbench.audit.pairs import catalogue
from dpbench.distributions import Bernoulli
from dpbench.estimators import ClippedMean, Estimate, Estimator, NormalizedSumMean
from dpbench.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Budget,
    Ledger,
    NonPrivate,
    OverdraftError,
    PureDP,
)
from dpbench.privacy.budgets import Relation
from dpbench.privacy.conversions import gaussian_delta
from dpbench.privacy.neighbours import Pair, group_budget, removal_budget, replacement_budget
from dpbench.privacy.tape import Tape
from dpbench.registry import ConfigError, from_mapping
from dpbench.samples import CountedSample, DenseSample, Sample
from dpbench.samples.base import AddRemoveView
from dpbench.seeds import canonical
from dpbench.sweep.plan import Sweep, key_table, make_cells
from dpbench.testing import check_estimator
from dpbench.theory.bounds.class_bound import class_bound

AR: dict[str, Any] = {"neighbours": "add_remove"}
PURE = PureDP(1.0, **AR)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _step(probability: float, epsilon: float, delta: float) -> float:
    return math.exp(epsilon) * probability + delta


@pytest.mark.parametrize("amount", [0.01, 0.7, 3.0])
def test_what_is_implied_where_a_record_is_replaced_is_attained(amount: float) -> None:
    """Compare with a sum of records in [-1, 1], which removal moves by 1 and replacement by 2."""
    assert replacement_budget(PureDP(amount, **AR)) == PureDP(2 * amount)  # Lap(1/epsilon), moved
    sd = 1 / math.sqrt(2 * amount)  # N(0, sd^2) that moves by s is (s^2/(2 sd^2))-zCDP
    assert replacement_budget(ZCDP(amount, **AR)).amounts == pytest.approx((2**2 / (2 * sd**2),))
    assert replacement_budget(GDP(amount, **AR)) == GDP(2 * amount)
    for delta in (1e-9, 1e-3):
        found = replacement_budget(ApproxDP(amount, delta, **AR))
        # Steps a -> e^epsilon a + delta, twice, by two probabilities: slope and start.
        from_0, from_1 = (_step(_step(a, amount, delta), amount, delta) for a in (0.0, 1.0))
        assert found.amounts[1] == pytest.approx(from_0, rel=1e-12)
        assert math.exp(found.amounts[0]) == pytest.approx(from_1 - from_0)
        # The Gaussian mechanism needs more than 2 epsilon at delta, and no more than this.
        sd = ApproxDP(amount, delta, "analytic")._gaussian
        assert delta < gaussian_delta(sd / 2, 2 * amount) <= found.amounts[1]


@pytest.mark.parametrize("records", [1, 2, 7])
def test_what_a_group_is_promised_is_attained(records: int) -> None:
    """Compare with noise of sensitivity 1 on a sum that moves by the size of the group."""
    assert group_budget(PureDP(0.3, **AR), records) == PureDP(records * 0.3, **AR)
    sd = 2.0  # N(0, sd^2) that moves by s is (s^2/(2 sd^2))-zCDP, and (s/sd)-GDP
    zcdp = group_budget(ZCDP(1 / (2 * sd**2)), records)
    assert zcdp.amounts == pytest.approx((records**2 / (2 * sd**2),))
    assert group_budget(GDP(1 / sd), records) == GDP(records / sd)
    found, slope, start = group_budget(ApproxDP(0.3, 1e-4), records), 1.0, 0.0
    for _ in range(records):
        slope, start = math.exp(0.3) * slope, _step(start, 0.3, 1e-4)
    assert math.exp(found.amounts[0]) == pytest.approx(slope)
    assert found.amounts[1] == pytest.approx(start)


@pytest.mark.parametrize(
    "budget",
    [PureDP(0.6, "staircase"), ZCDP(0.1), GDP(0.7), ApproxDP(0.6, 1e-4), ApproxDP(30.0, 0.5)],
)
def test_a_replaced_record_is_removed_and_added(budget: Budget) -> None:
    part = removal_budget(budget)
    assert (part.neighbours, type(part)) == ("add_remove", type(budget))
    implied = replacement_budget(part)
    assert implied.amounts == pytest.approx(budget.amounts, rel=1e-12)
    assert implied.neighbours == "replace"


def test_a_removal_of_almost_no_delta_is_pure() -> None:
    assert removal_budget(ApproxDP(1e4, 1e-6)) == PureDP(5e3, neighbours="add_remove")
    tulap = ApproxDP(1e4, 1e-6, "tulap")
    assert removal_budget(tulap) == PureDP(5e3, "staircase", neighbours="add_remove")
    for wrong in (PURE, NonPrivate()):
        with pytest.raises(TypeError, match="expected a guarantee for replaced records"):
            removal_budget(wrong)


def test_the_ledger_converts_a_part_for_removed_records() -> None:
    """Two disjoint sets pay for one removal each, and a replaced record may be in both."""
    for budget in (PureDP(0.6), ZCDP(0.1), GDP(0.7), ApproxDP(0.6, 1e-4)):
        ledger = Ledger(budget, rng())
        (part,) = ledger.split(removal_budget(budget))
        for cell in part.parallel(2):
            cell.add_noise(np.zeros(3), {"add_remove": 1.0})
        assert ledger.spent == pytest.approx(budget.amounts, rel=1e-12)
        with pytest.raises(OverdraftError):
            Ledger(budget, rng()).split(replace(budget, neighbours="add_remove"))
    # The tape states the sensitivity for the two steps of a replacement.
    tape = Tape()
    ledger = Ledger(PureDP(1.0), rng(), tape=tape)
    inner = ledger.split(removal_budget(PureDP(1.0)))[0].split(1.0)[0]
    inner.add_noise(np.zeros(3), {"add_remove": 3.0})
    assert tape.steps[-1].sensitivity == {"l2": 6.0, "l1": 6.0}


def test_what_implies_nothing_and_what_is_there_already() -> None:
    for budget in (ApproxDP(20.0, 1e-6, **AR), ApproxDP(1e4, 1e-6, **AR), PureDP(6e5, **AR)):
        assert replacement_budget(budget) == NonPrivate()
        assert class_bound(Bernoulli(p=0.5), 50, NonPrivate()).by == "sampling"
    assert replacement_budget(ZCDP(0.5)) == ZCDP(0.5)


def test_streams_and_labels_of_old_budgets_stay_and_new_ones_differ() -> None:
    assert canonical(PureDP(1.0)) == 'PureDP{"epsilon": 1.0}'
    assert canonical(PURE) != canonical(PureDP(1.0))
    assert (PureDP(1.0).label, PURE.label) == ("pure", "pure_add_remove")
    assert PureDP(1.0, "staircase").label == "pure_staircase"
    assert PURE.fraction(0.5) == PureDP(0.5, **AR)
    assert ZCDP(0.5, **AR).to_approx(1e-6).neighbours == "add_remove"
    assert GDP(0.5, **AR).to_approx(1e-6).neighbours == "add_remove"
    assert ZCDP.within(ApproxDP(1.0, 1e-6, **AR)).neighbours == "add_remove"


def test_the_ledger_takes_a_sensitivity_for_each_relation() -> None:
    both: dict[Relation, float] = {"replace": 2.0, "add_remove": 1.0}
    zeros = np.zeros(5)
    one, other = (Ledger(b, rng()).add_noise(zeros, both) for b in (PureDP(1.0), PURE))
    np.testing.assert_allclose(one, 2 * other)
    asked: list[Callable[[Ledger], Any]] = [
        lambda ledger: ledger.add_noise(zeros, 1.0),
        lambda ledger: ledger.add_noise(zeros, both, l1=1.0),
        lambda ledger: ledger.add_l2_noise(zeros[:, None], 1.0),
        lambda ledger: ledger.add_geometric_noise(zeros, 1.0),
        lambda ledger: ledger.add_canonical_noise(zeros, 1.0),
        lambda ledger: ledger.exponential(zeros[None], 1.0),
    ]
    for ask in asked:
        with pytest.raises(ValueError, match="no sensitivity is stated for neighbours: add_remove"):
            ask(Ledger(PURE, rng()))
    with pytest.raises(ValueError, match="neighbours must be those of"):
        Ledger(PURE, rng()).split(PureDP(0.5))
    Ledger(ApproxDP(1.0, 1e-6, **AR), rng()).allow_failure(1e-7)


class _Reads(Estimator):
    """Mean with noise that claims to support both relations, and reads any statistic."""

    relations = ("replace", "add_remove")

    def __init__(self, what: str, sensitivity: float = 1.0) -> None:
        self.what = what
        self.stated: dict[Relation, float] = {"replace": 1.0, "add_remove": sensitivity}

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        getattr(sample, self.what)
        total = sample.count(-np.inf, np.inf) * sample.clipped_mean(-1.0, 1.0)
        return Estimate(ledger.add_noise(total, self.stated), total)


@pytest.mark.parametrize("what", ["n", "values", "groups", "split", "quantile", "mean", "records"])
def test_what_says_n_cannot_be_read(what: str) -> None:
    data = np.linspace(0, 1, 10)
    release(_Reads(what), data, PureDP(1.0), rng=rng())
    with pytest.raises(ValueError, match=f"^{what}: not readable .* n is private"):
        release(_Reads(what), data, PURE, rng=rng())
    release(_Reads("d"), data, PURE, rng=rng())


@pytest.mark.parametrize(
    "sample", [DenseSample([[0.0, 0, 2, 3]]), CountedSample([0.0, 2, 3], [[2, 1, 1]])]
)
def test_sums_and_counts_can_be(sample: Sample) -> None:
    seen: Any = AddRemoveView(sample)
    assert (seen.trials, seen.d, seen.vectors) == (1, 1, False)
    assert seen.count(-np.inf, np.inf) * seen.clipped_mean(0.0, 2.0) == 4


def test_a_stated_sensitivity_that_a_removed_record_exceeds_is_found() -> None:
    check_estimator(_Reads("d"), budgets=[PURE, ZCDP(0.5, **AR)])
    with pytest.raises(AssertionError, match="removing record 0 moves add_noise by 1, above"):
        check_estimator(_Reads("d", 0.9), budgets=[PURE])


SUMMED = {"kind": "normalized_sum_mean"}
CLIPPED = {"kind": "clipped_mean", "lower": 0, "upper": 1}


def _sweep(*budgets: Budget, **estimators: Any) -> Sweep:
    parts = {"all": {"n": [100], "trials": 5, "estimators": list(estimators)}}
    named = {f"b{i}": budget for i, budget in enumerate(budgets)}
    law = {"coin": {"kind": "bernoulli", "p": 0.5}}
    spec = {"families": law, "estimators": estimators, "budgets": named, "parts": parts}
    return from_mapping(Sweep, spec, "sweep")


def test_a_plan_gives_every_estimator_the_budgets_of_its_neighbours() -> None:
    budgets = PureDP(0.05, **AR), PureDP(0.05), PureDP(0.1)
    sweep = _sweep(*budgets, summed=SUMMED, clipped=CLIPPED)
    keys = key_table(sweep, make_cells(sweep))
    run = dict(zip(keys["estimator"] + keys["privacy"], keys["lower_bound"], strict=True))
    assert set(run) == {"summedpure_add_remove", "clippedpure"}
    # A bound for twice epsilon where a record is replaced, which is not by sampling.
    assert "sampling" not in set(keys["bound_name"])
    assert run["summedpure_add_remove"] == keys["lower_bound"][keys["epsilon"] == 0.1].item()


@pytest.mark.parametrize(("budget", "kind"), [(PURE, CLIPPED), (PureDP(1.0), SUMMED)])
def test_an_estimator_is_refused_for_other_neighbours(budget: Budget, kind: Any) -> None:
    words = rf"cannot honour .*'{budget.label}'; it supports: .* for neighbours: "
    with pytest.raises(ConfigError, match=words):
        make_cells(_sweep(budget, mine=kind))
    estimator = Estimator.build(kind, "")
    with pytest.raises(ValueError, match=words):
        release(estimator, np.zeros(9), budget, rng=rng())


def test_pairs_of_one_relation_make_pairs_of_the_other() -> None:
    pair = Pair.replacing("mine", np.array([[0.0, 1], [2, 3], [4, 5]]), 1, 7.0)
    assert (pair.relation, pair.record, pair.convert("replace")) == ("replace", 1, [pair])
    made = pair.convert("add_remove")
    assert [(one.name, one.relation, one.record) for one in made] == [
        ("mine_left", "add_remove", 1), ("mine_right", "add_remove", 1)
    ]  # fmt: skip
    for one, side in zip(made, (pair.left, pair.right), strict=True):
        np.testing.assert_array_equal(one.left, side)
        np.testing.assert_array_equal(one.right, [[0, 1], [4, 5]])
    assert Pair("last", np.array([1.0, 2]), np.array([1.0])).record == 1
    with pytest.raises(ValueError, match="mine_left: a pair of unequal sizes"):
        made[0].convert("replace")
    one, clipped = Pair("one", np.zeros(5), np.zeros(4)), ClippedMean(lower=0, upper=1)
    with pytest.raises(ValueError, match="one: these datasets are not neighbours under replace"):
        audit_pair(clipped, PureDP(1.0), one, rng=rng())


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_the_audit_removes_a_record(factor: float) -> None:
    """Check that half of the noise is refuted; a bound is wrong with probability 1e-6."""
    (pair,) = (p for p in catalogue(20) if p.name == "one_to_the_far_end")
    with noise_times(factor):
        bounds = [
            audit_pair(
                NormalizedSumMean(), PURE, one, runs=3000, failure_probability=1e-6, rng=rng()
            )
            for one in pair.convert("add_remove")
        ]
    refuted = [bound.verdict == "refuted" for bound in bounds]
    assert any(refuted) == (factor < 1)
