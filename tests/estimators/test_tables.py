"""Tables of means: costs of columns and groups, moved records, and mistakes that audits find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpbench.audit import audit_pair, audit_replay
from dpbench.audit.controls import IgnoredCap
from dpbench.estimators import (
    ClippedMean,
    Estimate,
    Estimator,
    KarwaVadhanMean,
    NormalizedSumMean,
    ParametricBootstrapInterval,
    TableMean,
    TransformedNoiseMean,
)
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
from dpbench.privacy.account import Account
from dpbench.privacy.neighbours import Pair, removal_budget
from dpbench.registry import ConfigError
from dpbench.samples import DenseSample, Sample
from dpbench.testing import check_estimator
from tests.support import Floats, name, rng

BUDGETS: list[Budget] = [PureDP(1.0), ZCDP(0.5), GDP(1.0), ApproxDP(1.0, 1e-5)]
ADD_REMOVE: list[Budget] = [replace(b, neighbours="add_remove") for b in BUDGETS]  # type: ignore[type-var]
SUMS = TransformedNoiseMean(lower=0.0, upper=200.0)
COUNTS = NormalizedSumMean(lower=20.0, upper=100.0)
PRIVATE = TableMean(columns={"income": SUMS, "age": COUNTS}, groups=["a", "b", "c"])
CLIP, WIDE = ClippedMean(lower=0.0, upper=1.0), ClippedMean(lower=0.0, upper=8.0)
PUBLIC = TableMean(columns={"x": CLIP, "y": WIDE}, groups=["a", "b", "c"], labels=[0, 2] * 30)


def records(labels: Sequence[float], d: int = 2) -> Floats:
    return np.column_stack([labels, *[np.linspace(0, 90, len(labels))] * d])


def ran(table: TableMean, data: Floats, budget: Budget, trials: int = 2) -> tuple[Estimate, Ledger]:
    ledger = Ledger(budget, rng())
    sample = DenseSample(np.broadcast_to(data, (trials, *data.shape)))
    return table.run(sample, ledger), ledger


def test_the_check_of_estimators() -> None:
    check_estimator(PUBLIC, d=2, budgets=[*BUDGETS, ADD_REMOVE[0]])
    check_estimator(PRIVATE, d=3, budgets=[BUDGETS[3], ADD_REMOVE[1], NonPrivate()])


@pytest.mark.parametrize("budget", [*BUDGETS, *ADD_REMOVE], ids=name)
def test_the_receipt_adds_up_to_the_budget(budget: Budget) -> None:
    """Costs of the columns add up, groups pay in parallel, and a moved record counts twice."""
    released, ledger = ran(PRIVATE, records([0, 0, 2, 0, 2, 2]), budget)
    assert released.value.shape == (2, 6)
    assert np.isfinite(released.value).all()  # group b is empty, and is released like others
    assert ledger.spent == pytest.approx(budget.amounts, rel=1e-12)
    assert ledger.share == pytest.approx(1.0)
    part = budget if budget.neighbours == "add_remove" else removal_budget(budget)
    half = ", ".join(f"{k} {v:.6g}" for k, v in part.fraction(0.5).named_amounts.items())
    receipt = ledger.receipt()
    assert [receipt.count(f"  {column}: {part.label} {half}") for column in ("income", "age")] == [
        1,
        1,
    ]
    assert [receipt.count(f"in parallel: {group}: ") for group in "abc"] == [2, 2, 2]
    with pytest.raises(OverdraftError):
        ledger.split(1e-6)


def test_each_cell_is_the_release_of_its_records() -> None:
    data = records([0, 1, 2, 0, 1, 1.9, -5, 7])
    assert ran(PRIVATE, data, ADD_REMOVE[0])[0].before_noise[0] == pytest.approx(
        [
            np.clip(data[chosen, 1], lower, upper).mean()
            for chosen in ([0, 3, 6], [1, 4, 5], [2, 7])
            for lower, upper in ((0, 200), (20, 100))
        ]
    )
    values = rng(1).normal(0.5, 1, (60, 2))
    found = ran(PUBLIC, values, BUDGETS[0])[0]
    groups = values.reshape(30, 2, 2)
    expected = [np.clip(groups[:, i], 0, [1, 8]).mean(axis=0) for i in (0, 1)]
    assert found.before_noise[0] == pytest.approx(
        [*expected[0], np.nan, np.nan, *expected[1]], nan_ok=True
    )
    np.testing.assert_array_equal(
        np.isnan(found.value[0]), [False, False, True, True, False, False]
    )


def test_trials_may_have_other_groups() -> None:
    data = np.stack([records([0, 1, 2, 0]), records([1, 1, 1, 1])])
    found = PRIVATE.run(DenseSample(data), Ledger(PureDP(1e6, neighbours="add_remove"), rng()))
    for trial, labels in enumerate(([0, 1, 2, 0], [1, 1, 1, 1])):
        alone = ran(PRIVATE, records(labels), PureDP(1e6, neighbours="add_remove"), 1)[0]
        np.testing.assert_allclose(found.before_noise[trial], alone.before_noise[0])


@pytest.mark.parametrize("budget", [BUDGETS[0], BUDGETS[1]], ids=name)
def test_shares_of_the_columns(budget: Budget) -> None:
    columns = {"x": CLIP, "y": WIDE}  # widths 1 and 8

    def shares(**more: Any) -> list[float]:
        return list(TableMean(columns=columns, labels=[0], **more).shares(budget))

    assert shares() == [0.5, 0.5]
    best = [1 / 5, 4 / 5] if budget.notion == "pure" else [1 / 9, 8 / 9]
    assert shares(split="sensitivity") == pytest.approx(best)
    assert shares(split="sensitivity", units={"y": 8.0}) == pytest.approx([0.5, 0.5])
    assert shares(split={"y": 30.0, "x": 10.0}) == pytest.approx([0.25, 0.75])
    table = TableMean(columns=columns, labels=[0] * 6, split={"x": 1.0, "y": 3.0})
    _, ledger = ran(table, np.zeros((6, 2)), budget)
    amount = budget.fraction(0.75).amounts[0]
    assert f"  y: {budget.label} {next(iter(budget.named_amounts))} {amount:.6g}" in str(ledger)


def test_a_column_may_be_an_interval() -> None:
    interval = ParametricBootstrapInterval(lower=0.0, upper=1.0, draws=19)
    table = TableMean(columns={"x": interval}, groups=["a", "b"], labels=[0, 0, 0, 1, 1, 1])
    ledger = Ledger(PureDP(1.0), rng())
    cells = table.release_cells(DenseSample(np.ones((1, 6, 1))), ledger)
    assert [cells[group, "x"].interval is not None for group in (0, 1)] == [True, True]
    assert ledger.spent == pytest.approx((1.0,))


# Neighbours and refusals.


@pytest.mark.parametrize(
    ("table", "budget", "reason"),
    [
        (PUBLIC, ADD_REMOVE[0], "labels are public, but neighbours: add_remove"),
        (replace(PUBLIC, labels=None), ADD_REMOVE[0], "x: ClippedMean does not support pure_add"),
        # a replaced record may move to another group, whose size is then private
        (replace(PUBLIC, labels=None), BUDGETS[0], "take one that keeps n private"),
        (replace(PRIVATE, labels=[0]), BUDGETS[0], "income: TransformedNoiseMean does not support"),
        (PRIVATE, NonPrivate(), "a table needs a private budget"),
    ],
)
def test_estimators_of_other_neighbours_are_refused(
    table: TableMean, budget: Budget, reason: str
) -> None:
    assert reason in table.refusal(budget)
    assert not table.supports(budget)
    with pytest.raises(ValueError, match="cannot honour a budget"):
        ran(table, records([0, 1]), budget)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"columns": {}}, "columns"),
        ({"columns": {"x": "empirical_mean"}}, "give a private estimator of scalars"),
        ({"labels": [0, 3]}, "labels: 3: there are 3 groups"),
        ({"labels": [-1]}, "labels"),
        ({"split": {"x": 1.0}}, "split: give a weight for each column: x, y"),
        ({"split": {"x": 1.0, "y": 0.0}}, "split"),
        ({"units": {"z": 1.0}}, "units: 'z': no such column"),
        (
            {
                "split": "sensitivity",
                "columns": {"x": {"kind": "karwa_vadhan_mean", "radius": 1, "sigma": 1}},
            },
            r"x \(KarwaVadhanMean\) lacks; give a mapping",
        ),
    ],
)
def test_parameters_that_do_not_fit(changed: dict[str, Any], text: str) -> None:
    columns = {"x": CLIP, "y": WIDE}
    with pytest.raises(ConfigError, match=text):
        TableMean(**{"columns": columns, "groups": ["a", "b", "c"], **changed})


def test_records_that_do_not_fit() -> None:
    for table, data, text in (
        (PUBLIC, np.zeros((60, 3)), r"expected 2 coordinates \(x, y\), got 3"),
        (PRIVATE, np.zeros((60, 2)), r"expected 3 coordinates \(group, income, age\), got 2"),
        (PUBLIC, np.zeros((59, 2)), "labels: 60, but there are 59 records"),
        (PUBLIC, np.zeros(60), "needs vectors"),
    ):
        with pytest.raises(ValueError, match=text):
            ran(table, data, BUDGETS[0])


# Mistakes that the ledger, the replay and the audit by runs find.

TWO: dict[str, Any] = {"columns": {"x": SUMS, "y": SUMS, "z": SUMS}, "groups": ["a", "b"]}
PURE, PURE_ADD_REMOVE = PureDP(1.0), PureDP(1.0, neighbours="add_remove")


class _Unchecked(Ledger):
    """Ledger that lets its parts cost more than it has."""

    def _reserve(self, *budgets: Budget) -> None:
        pass


class _Wrong(TableMean):
    """Table that claims to spend its budget, and releases from a ledger that checks no cost."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        Account.pay(ledger)
        budget = self._claimed(ledger.budget)
        return super().estimate(sample, _Unchecked(budget, ledger.rng, tape=ledger.tape))

    def _claimed(self, budget: Budget) -> Budget:
        return budget


class _WholeBudgetForEachColumn(_Wrong):
    def shares(self, budget: Budget) -> Floats:
        return np.ones(len(self.columns))


class _MovedRecordChargedOnce(_Wrong):
    """Groups in parallel at the whole budget, although a replaced record may be in two of them."""

    def _claimed(self, budget: Budget) -> Budget:
        return replace(budget, neighbours="add_remove")  # type: ignore[type-var]


class _PublicSizesOfPrivateGroups(_Wrong):
    """Groups by the records' own labels, with noise for a sensitivity of width/n."""

    def supports(self, budget: Budget) -> bool:
        return True

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        assert isinstance(sample, DenseSample)
        labels = sample.values[0, :, 0].astype(int).tolist()
        fixed = TableMean(columns=self.columns, groups=self.groups, labels=labels)
        return fixed.estimate(DenseSample(sample.values[..., 1:]), ledger)


def test_the_ledger_refuses_to_pay_for_too_much() -> None:
    class _Overdrawn(TableMean):
        def shares(self, budget: Budget) -> Floats:
            return np.ones(len(self.columns))

    class _ChargedOnce(TableMean):
        def _group_budget(self, budget: Budget) -> Budget:
            return replace(budget, neighbours="add_remove")  # type: ignore[type-var]

    for wrong in (_Overdrawn(**TWO), _ChargedOnce(**TWO)):
        with pytest.raises(OverdraftError, match="exceeds what is left"):
            ran(wrong, records([0, 1, 0], 3), PURE)


def test_the_replay_sees_a_moved_record() -> None:
    """A record that changes its numbers takes two steps, and public sizes show a moved one."""
    stays = records([0.0] * 8, 3)
    pairs = [
        Pair.replacing("stays", stays, 0, np.array([0.0, 500, 500, 500])),
        Pair.replacing("moves", stays, 0, np.array([1.0, 500, 500, 500])),
    ]
    for pair in pairs:
        for budget in (PURE, ZCDP(0.5)):
            right = audit_replay(TableMean(**TWO), budget, pair, rng=rng())
            assert (right.verdict, right.compared, right.not_compared) == ("not refuted", 6, 0)
    found = audit_replay(_MovedRecordChargedOnce(**TWO), PURE, pairs[0], rng=rng())
    assert found.verdict == "refuted"
    assert found.move_over_sensitivity == pytest.approx(2 * 200 / 200)
    clipped: dict[str, Any] = {"columns": {"x": CLIP, "y": CLIP, "z": CLIP}, "groups": ["a", "b"]}
    both = records([0.0] * 4 + [1.0] * 4, 3)
    pair = Pair.replacing("moves", both, 0, np.append(1.0, both[0, 1:]))
    found = audit_replay(_PublicSizesOfPrivateGroups(**clipped), PURE, pair, rng=rng())
    assert found.difference == "the sensitivity of add_noise"


class _NoisySum(Estimator):
    """Noisy sum of records clipped to [0, 1]: unlike a ratio of sums, it shows all of its cost."""

    relations = ("add_remove",)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        total = sample.size() * sample.clipped_mean(0.0, 1.0)
        return Estimate(ledger.add_noise(total, {"add_remove": 1.0}), total)


@pytest.mark.parametrize(
    ("kind", "budget", "columns"),
    [(_WholeBudgetForEachColumn, PURE_ADD_REMOVE, 3), (_MovedRecordChargedOnce, PURE, 1)],
    ids=["columns", "groups"],
)
def test_the_audit_by_runs_refutes_what_costs_too_much(
    kind: Any, budget: Budget, columns: int
) -> None:
    """A record of ones is in group 0 on the left, and nowhere or in group 1 on the right."""
    left = np.vstack([np.append(0.0, np.ones(columns)), np.zeros((3, columns + 1))])
    right = left.copy()
    right[0, 0] = 1.0
    pair = Pair("moved", left, right if budget is PURE else left[1:])
    parts: Any = {"columns": {f"x{j}": _NoisySum() for j in range(columns)}, "groups": ["a", "b"]}
    verdicts = [
        audit_pair(
            one(**parts), budget, pair, runs=4000, failure_probability=1e-6, rng=rng(1)
        ).verdict
        for one in (TableMean, kind)
    ]
    assert verdicts == ["not refuted", "refuted"]


def test_pairs_of_the_table_are_neighbours_of_either_relation() -> None:
    for table, d in ((PRIVATE, 3), (PUBLIC, 2)):
        for budget in BUDGETS[:1] if table is PUBLIC else (BUDGETS[0], ADD_REMOVE[0]):
            pairs = table.audit_pairs(60, d, budget)
            assert all(pair.left.shape == (60, d) for pair in pairs)
            for pair in pairs:
                assert audit_replay(table, budget, pair.convert(budget.neighbours)[0],
                                    rng=rng()).verdict == "not refuted"  # fmt: skip


@pytest.mark.parametrize("labels", [None, [0] * 60])
def test_a_pair_of_the_table_moves_every_column(labels: list[int] | None) -> None:
    """Columns without bounds move, too."""
    columns = {"x": CLIP, "y": KarwaVadhanMean(radius=5, sigma=1)}
    table = TableMean(columns=columns, groups=["a", "b"], labels=labels)
    pairs = table.audit_pairs(60, 2 + (labels is None), BUDGETS[0])
    (moved,) = (pair.right - pair.left for pair in pairs if pair.name == "to_the_other_end")
    assert np.all(moved[0, -2:] > 0)
    assert not moved[1:].any()


PEOPLE = TableMean(columns={"x": SUMS, "y": COUNTS}, groups=["a", "b", "c"], cap=2)


def test_the_first_rows_of_people_are_kept() -> None:
    """A person has up to 3 rows of a group and two numbers; the third row is dropped."""
    check_estimator(PEOPLE, d=10, budgets=[BUDGETS[0], ADD_REMOVE[1]])
    padding = [0.0] * 3
    people = np.array(
        [
            [3, *(0, 10, 30), *(1, 20, 40), *(0, 90, 90)],
            [1, *(0, 30, 50), *padding, *padding],
            [9, *(1, 40, 60), *(1, 60, 80), *(1, 1, 1)],
            [0, *(2, 50, 70), *padding, *padding],
        ]
    )
    huge = PureDP(1e6, neighbours="add_remove")
    expected = [20, 40, 40, 60, 50, 70]
    assert ran(PEOPLE, people, huge)[0].before_noise[0] == pytest.approx(expected)
    alone = records([0, 1, 0, 1, 1, 2])
    alone[:, 1:] = [[10, 30], [20, 40], [30, 50], [40, 60], [60, 80], [50, 70]]
    assert ran(PRIVATE, alone, huge)[0].before_noise[0] == pytest.approx(expected)
    for d in (1, 3, 11):
        with pytest.raises(
            ValueError, match=r"expected 1 for the number of rows, and for each row"
        ):
            ran(PEOPLE, np.ones((4, d)), huge)
    with pytest.raises(ConfigError, match="labels: the groups of a person's rows are private"):
        TableMean(columns={"x": CLIP}, labels=[0], cap=1)


@pytest.mark.parametrize("budget", [*BUDGETS, *ADD_REMOVE], ids=name)
def test_the_replay_sees_all_rows_of_a_person(budget: Budget) -> None:
    """The hardest pair attains the stated sensitivity, and a cap that is ignored exceeds it."""
    found = [
        audit_replay(table, budget, converted, rng=rng())
        for table in (TableMean(columns={"x": SUMS}, groups=["a", "b"], cap=2), IgnoredCap())
        for pair in table.audit_pairs(8, 7 if isinstance(table, TableMean) else 9, budget)
        for converted in pair.convert(budget.neighbours)
    ]
    right, wrong = found[: len(found) // 2], found[len(found) // 2 :]
    assert {one.verdict for one in right} == {"not refuted"}
    assert max(one.move_over_sensitivity for one in right) == pytest.approx(1.0)
    assert max(one.move_over_sensitivity for one in wrong) == pytest.approx(4.0)
    assert "refuted" in {one.verdict for one in wrong}
