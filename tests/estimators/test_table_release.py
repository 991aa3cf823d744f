"""Released tables: a data frame and a receipt; what is public, and what is refused."""

from __future__ import annotations

import doctest
import pickle
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

import dpbench
from dpbench.errors import AssumptionWarning
from dpbench.estimators import (
    ClippedMean,
    KarwaVadhanInterval,
    KarwaVadhanMean,
    SubsampleAggregate,
    TableRelease,
    TransformedNoiseMean,
    release,
    table_release,
)
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.tape import Tape
from dpbench.registry import ConfigError
from dpbench.theory.exact.noise import additive
from tests.support import name, rng

# These data contradict assumptions on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::dpbench.errors.AssumptionWarning")

REGIONS = ["north", "south", "west"]
PEOPLE = pd.DataFrame(
    {
        "region": ["north", "south"] * 40,
        "income": np.linspace(10.0, 90.0, 80),
        "age": np.arange(20, 100),
    }
)
PUBLIC = {"income": ClippedMean(lower=0, upper=100), "age": ClippedMean(lower=0, upper=50)}
PRIVATE = {
    "income": TransformedNoiseMean(lower=0, upper=100),
    "age": TransformedNoiseMean(lower=0, upper=50),
}
ADD_REMOVE = PureDP(1e6, neighbours="add_remove")


PURE = PureDP(1e6)


def table(
    frame: Any = PEOPLE, columns: Any = PUBLIC, budget: Any = PURE, **options: Any
) -> TableRelease:
    given = {"by": "region", "groups": REGIONS, "group_sizes": "public", "rng": rng(), **options}
    return dpbench.release_table(frame, columns, budget, **given)


def means(upper: float = 50) -> pd.DataFrame:
    clipped = PEOPLE.assign(age=PEOPLE["age"].clip(0, upper))
    return clipped.groupby("region")[["income", "age"]].mean()


def test_the_example_runs() -> None:
    assert doctest.testmod(table_release) == (0, 7)


def test_group_sizes_are_public() -> None:
    released = table()
    pd.testing.assert_frame_equal(
        released.estimates.loc[["north", "south"]], means(), atol=1e-3, check_names=False
    )
    assert released.estimates.index.tolist() == REGIONS
    assert released.estimates.index.name == "region"
    assert released.estimates.loc["west"].isna().all()  # it has no record, which is public
    assert "west" not in released.receipt
    assert released.spent == pytest.approx((1e6,))
    assert repr(released).endswith("spent in total: pure epsilon 1e+06")


@pytest.mark.parametrize("budget", [ADD_REMOVE, PureDP(1e6)])
def test_group_sizes_are_private(budget: Budget) -> None:
    """An empty group has a release like others; a replaced record costs twice."""
    sizes = None if budget is ADD_REMOVE else "private"
    released = table(columns=PRIVATE, budget=budget, group_sizes=sizes)
    pd.testing.assert_frame_equal(
        released.estimates.loc[["north", "south"]], means(), atol=1e-2, check_names=False
    )
    assert np.all(np.abs(released.estimates.loc["west"].to_numpy(float) - 50) <= 50)
    assert released.spent == pytest.approx((1e6,))
    half = "250000" if sizes else "500000"
    assert f"in parallel: west: pure_add_remove epsilon {half}: additive" in released.receipt


def test_without_groups_all_records_are_one() -> None:
    for budget, columns in ((PureDP(1e6), PUBLIC), (ADD_REMOVE, PRIVATE)):
        released = table(columns=columns, budget=budget, by=None, groups=None, group_sizes=None)
        expected = [PEOPLE["income"].mean(), PEOPLE["age"].clip(0, 50).mean()]
        assert released.estimates.loc["all"].to_numpy() == pytest.approx(expected, abs=1e-2)
    one = table(columns={"age": PUBLIC["age"]}, budget=ZCDP(0.5), by=None, groups=None)
    alone = release(PUBLIC["age"], PEOPLE["age"], ZCDP(0.5), rng=rng())
    assert one.estimates.loc["all", "age"] == alone


def test_categories_are_public_groups() -> None:
    labels = pd.Categorical(PEOPLE["region"], categories=["south", "north", "east"])
    released = table(PEOPLE.assign(region=labels), groups=None)
    assert released.estimates.index.tolist() == ["south", "north", "east"]
    numbers = table(PEOPLE.assign(region=[1, 2] * 40), groups=[2, 1])
    assert numbers.estimates.loc[1, "income"] == pytest.approx(
        means().loc["north", "income"], abs=0.1
    )


def test_an_interval_has_columns_for_its_ends() -> None:
    columns = {"age": KarwaVadhanInterval(radius=100, sigma=30), "income": PUBLIC["income"]}
    released = table(columns=columns, split={"age": 3, "income": 1})
    frame = released.estimates
    assert list(frame) == ["age", "age_low", "age_high", "income"]
    assert (frame["age_low"] < frame["age"])[:2].all()
    assert (frame["age"] < frame["age_high"])[:2].all()


@pytest.mark.parametrize("by", ["region", "age_low"])
def test_a_name_of_an_end_is_refused_before_noise(by: str) -> None:
    """The column of groups becomes a column, too, if the index is reset."""
    clipped = ClippedMean(lower=0, upper=100)
    frame = PEOPLE.assign(age_low=PEOPLE["age"] if by == "region" else PEOPLE["region"])
    columns: dict[str, Any] = {"age": KarwaVadhanInterval(radius=100, sigma=30)}
    columns |= {"age_low": clipped} if by == "region" else {}
    state = rng()
    before = state.bit_generator.state
    with pytest.raises(ConfigError, match="columns: 'age_low': this is an end of an interval"):
        table(frame, columns, by=by, rng=state)
    assert state.bit_generator.state == before
    # Without an interval the names are free, and the check moves no stream.
    both = table(PEOPLE.assign(age_low=PEOPLE["age"]), {"age": clipped, "age_low": clipped})
    other = table(PEOPLE.assign(old=PEOPLE["age"]), {"age": clipped, "old": clipped})
    assert both.estimates.to_numpy().tolist()[:2] == other.estimates.to_numpy().tolist()[:2]


def test_shares_by_sensitivity_need_units() -> None:
    with pytest.raises(ConfigError, match="units: split='sensitivity' compares errors of"):
        table(budget=ZCDP(0.3), split="sensitivity")


def test_shares_of_the_budget() -> None:
    receipt = table(budget=ZCDP(0.3), split="sensitivity", units={}).receipt  # widths 100 and 50
    assert "  income: zcdp rho 0.2\n" in receipt
    assert "  age: zcdp rho 0.1\n" in receipt
    same = table(budget=ZCDP(0.3), split="sensitivity", units={"income": 2.0, "age": 1.0}).receipt
    assert "  income: zcdp rho 0.15\n" in same
    both = table(budget=ApproxDP(0.3, 1e-6), split={"income": 2, "age": 1})
    assert both.spent == pytest.approx((0.3, 1e-6))


MISSING = PEOPLE.assign(age=PEOPLE["age"].where(PEOPLE["age"] > 22))


@pytest.mark.parametrize(
    ("frame", "options", "text"),
    [
        (PEOPLE, {"groups": None}, "groups: the values of 'region' would show which groups have"),
        (PEOPLE, {"groups": []}, "list at least one group"),
        (PEOPLE, {"groups": ["north", "north"]}, "each group once"),
        (PEOPLE, {"groups": ["north"]}, "by: 40 of 80 records have no group or one that is not in"),
        (PEOPLE, {"by": None}, "groups: give the column of the groups, too, as by"),
        (PEOPLE, {"by": "regions"}, "by: 'regions': no such column; did you mean 'region'"),
        (PEOPLE, {"columns": {"ages": PUBLIC["age"]}}, "columns: 'ages': no such column"),
        (PEOPLE, {"columns": {"region": PUBLIC["age"]}}, "columns: 'region': its values are of"),
        (PEOPLE, {"group_sizes": None}, "group_sizes: a replaced record may change its group"),
        (PEOPLE, {"group_sizes": "known"}, "group_sizes: 'known': give 'public' or 'private'"),
        (PEOPLE, {"budget": ADD_REMOVE}, "group_sizes: 'public': neighbours: add_remove changes"),
        (
            PEOPLE,
            {"budget": ADD_REMOVE, "group_sizes": None},
            "income: ClippedMean does not support",
        ),
        (
            PEOPLE,
            {"group_sizes": "private"},
            "pure_add_remove: n is private, because a replaced record may change its group; take",
        ),
        (PEOPLE, {"columns": PRIVATE}, "columns: income: TransformedNoiseMean does not support"),
        (PEOPLE, {"split": {"age": 1}}, "split: give a weight for each column"),
        (MISSING, {}, "columns: 'age': 3 of 80 values are missing; fill them with a public"),
        (PEOPLE.assign(income=np.inf), {}, "'income': 80 of 80 values are infinite or"),
        (PEOPLE.assign(region=None), {}, "by: 80 of 80 records have no group"),
        (PEOPLE[:0], {}, "frame: the table has no record"),
        (PEOPLE, {"bye": "region"}, "bye"),
    ],
)
def test_tables_that_are_refused(frame: Any, options: dict[str, Any], text: str) -> None:
    state = rng()
    before = state.bit_generator.state
    with pytest.raises((ConfigError, ValueError), match=text):
        table(frame, rng=state, **options)
    assert state.bit_generator.state == before  # nothing is released


def test_types_that_are_refused() -> None:
    for options, text in (
        ({"frame": {"age": [1.0]}}, "frame: expected a table of pandas, .* got dict; .* to_pandas"),
        ({"budget": 1.0}, r"budget: 1\.0: not a budget; write PureDP"),
        ({"rng": 0}, "rng: 0: not a generator"),
    ):
        with pytest.raises(TypeError, match=text):
            table(**options)


def test_columns_that_contradict_their_estimator_are_named() -> None:
    """Ages up to 100 contradict the bound 50; incomes satisfy theirs."""
    with pytest.warns(AssumptionWarning) as warned:
        table()
    assert [str(warning.message).split(", but")[0] for warning in warned] == [
        f"age, {region}: ClippedMean: it assumes records in [0, 50]" for region in REGIONS[:2]
    ]


def test_only_groups_that_contradict_are_named() -> None:
    ages = np.where(PEOPLE["region"] == "north", 90.0, 20.0)
    with pytest.warns(AssumptionWarning) as warned:
        table(PEOPLE.assign(age=ages))
    assert [str(warning.message).split(":")[0] for warning in warned] == ["age, north"]


def test_too_few_records_are_named_once() -> None:
    """40 records a group are too few at this budget, as `release` says; empty groups are not."""
    mean = KarwaVadhanMean(radius=1e6, sigma=1)
    columns, frame = {"x": mean, "y": mean}, PEOPLE.assign(x=0.0, y=0.0)
    least = mean.working_records(1, PureDP(0.1))
    assert least > 40
    with pytest.warns(AssumptionWarning, match="works from n") as warned:
        table(frame, columns, PureDP(0.2))
    text = "x, north: n: 40: too few records for KarwaVadhanMean at its share of pure, which "
    (found,) = [str(w.message) for w in warned if "too few" in str(w.message)]
    assert found.startswith(text)
    assert found.endswith(f"it works from n = {least:,} (4 cells have too few records)")
    assert {w.filename for w in warned if "too few" in str(w.message)} == {__file__}
    with warnings.catch_warnings(record=True) as none:
        warnings.simplefilter("always")
        table(frame, columns, PureDP(1e6))
        enough = pd.DataFrame({"region": ["north"] * least, "x": 0.0})
        table(enough, {"x": mean}, PureDP(0.1), groups=["north"])
    assert not [w for w in none if "too few" in str(w.message)]


PAIRS = [("north", "f"), ("north", "m"), ("south", "f")]


def test_groups_that_are_pairs() -> None:
    frame = pd.DataFrame({"region": PAIRS * 20, "age": [10.0, 20.0, 30.0] * 20})
    columns, budget = {"age": PRIVATE["age"]}, ADD_REMOVE
    released = table(frame, columns, budget, groups=PAIRS, group_sizes=None)
    assert released.estimates.index.tolist() == PAIRS
    assert released.estimates["age"].tolist() == pytest.approx([10, 20, 30], abs=0.1)
    assert "in parallel: ('north', 'm'): " in released.receipt


def test_groups_are_equal_in_value_and_type() -> None:
    """Groups 1 and "1" have a row and a line of the receipt each; 1 and True are refused."""
    frame = pd.DataFrame({"region": [1, "1", 2.5] * 20, "age": [10.0, 20.0, 30.0] * 20})
    options: dict[str, Any] = {"columns": {"age": PRIVATE["age"]}, "budget": ADD_REMOVE}
    released = table(frame, groups=["1", 1, 2.5], group_sizes=None, **options)
    assert [*map(repr, released.estimates.index)] == ["'1'", "1", "2.5"]
    assert released.estimates["age"].tolist() == pytest.approx([20, 10, 30], abs=0.1)
    assert "parallel: '1': " in released.receipt
    assert "parallel: 1: " in released.receipt


NUMBERED = PEOPLE.assign(region=[1, 2] * 40)


@pytest.mark.parametrize(
    ("frame", "groups", "text"),
    [
        (PEOPLE, {"north", "south"}, "groups: a set has no order; give a list"),
        (PEOPLE, "north", "groups: of type str: not a list; give a list"),
        (PEOPLE, ["north", "south", None], "groups: some labels are missing"),
        (PEOPLE, [["north"], ["south"]], "groups: some labels are list"),
        (NUMBERED, ["1", "2"], r"by: 80 of 80 .*\(their types: int; groups: str\)"),
        (NUMBERED, [1, 2, True], "groups: labels of the types bool and int are equal in value"),
        (NUMBERED, [1.0, 2.0], "by: labels of the types int and float are equal in value"),
        (pd.concat([PEOPLE, PEOPLE[["region"]]], axis=1), REGIONS, "by: 'region': 2 columns have"),
        (pd.concat([PEOPLE, PEOPLE[["age"]]], axis=1), REGIONS, "columns: 'age': 2 columns have"),
    ],
)
def test_groups_that_are_refused(frame: Any, groups: Any, text: str) -> None:
    state = rng()
    before = state.bit_generator.state
    with pytest.raises(ValueError, match=text):
        table(frame, groups=groups, rng=state)
    assert state.bit_generator.state == before


def test_tables_of_other_libraries() -> None:
    wanted = table().estimates
    for frame in (pl.from_pandas(PEOPLE), pa.Table.from_pandas(PEOPLE)):
        pd.testing.assert_frame_equal(table(frame).estimates, wanted)
    with pytest.raises(TypeError, match=r"got polars\..*LazyFrame; convert it"):
        table(pl.from_pandas(PEOPLE).lazy())
    for hidden in (pl.from_pandas(MISSING), pa.Table.from_pandas(MISSING)):
        with pytest.raises(ValueError, match="columns: 'age': 3 of 80 values are missing"):
            table(hidden)
    doubled = pa.table([pa.array([1.0]), pa.array([2.0])], names=["age", "age"])
    with pytest.raises(ConfigError, match="columns: 'age': 2 columns have this name; rename them"):
        table(doubled, {"age": PUBLIC["age"]}, by=None, groups=None)


def test_private_sizes_are_not_printed() -> None:
    options: dict[str, Any] = {"columns": PRIVATE, "budget": ADD_REMOVE, "group_sizes": None}
    for frame, groups in ((PEOPLE, ["north"]), (MISSING, REGIONS)):
        with pytest.raises(ValueError, match=r"some (records|values)") as caught:
            table(frame, groups=groups, **options)
        assert not any(character.isdigit() for character in str(caught.value))


def test_a_table_holds_no_generator_and_no_value_before_noise() -> None:
    """A generator's state undoes the noise, so that no attribute may lead to one."""
    released = table(budget=PureDP(1.0))
    seen: list[Any] = []

    def walk(value: Any) -> None:
        if any(value is other for other in seen):
            return
        seen.append(value)
        assert not isinstance(value, np.random.Generator | np.random.BitGenerator | Ledger | Tape)
        parts = value.values() if isinstance(value, dict) else value
        for part in parts if isinstance(value, dict | list | tuple) else ():
            walk(part)
        for part in getattr(value, "__dict__", {}).values():
            walk(part)

    walk(released)
    again = pickle.loads(pickle.dumps(released))
    walk(again)
    assert (again.receipt, again.spent) == (released.receipt, released.spent)


# Accuracy, where n is public.

NOISES: list[Budget] = [
    PureDP(1.0), PureDP(6.0, noise_by="staircase"), ZCDP(0.5), GDP(1.0), ApproxDP(1.0, 1e-6),
    ApproxDP(6.0, 0.1, noise_by="tulap"), ApproxDP(0.5, 0.01, noise_by="analytic"),
]  # fmt: skip


@pytest.mark.parametrize("budget", NOISES, ids=name)
def test_the_accuracy_of_a_cell_is_that_of_its_noise(budget: Budget) -> None:
    """Compare with exact laws, and with 20,000 releases; false alarms have probability 1e-6."""
    accuracy: Any = table(budget=budget, split={"income": 3, "age": 1}).accuracy
    assert accuracy.index.tolist() == REGIONS
    for column, share, width in (("income", 0.75, 100), ("age", 0.25, 50)):
        part, step = budget.fraction(share), width / 40
        found: Any = accuracy.loc["north", column]
        law = additive(part, step, step)
        assert found["noise_sd"] == pytest.approx(np.sqrt(law.variance), rel=1e-4)
        assert found["noise_q90"] == pytest.approx(law.isf(0.05), rel=1e-6)
        assert found["unknown"] == ""
        data = PEOPLE.loc[PEOPLE["region"] == "north", column]
        released = np.asarray(release(PUBLIC[column], data, part, rng=rng(), repeats=20_000))
        exact = np.clip(data, 0, width).mean()
        within = int((np.abs(released - exact) <= found["noise_q90"]).sum())
        assert stats.binomtest(within, 20_000, 0.9).pvalue > 1e-6 / 2
    west: Any = accuracy.loc["west", "age"]
    assert np.isnan([west["noise_sd"], west["noise_q90"]]).all()
    assert west["unknown"] == "the group is empty"


def test_an_unknown_accuracy_has_a_reason() -> None:
    columns: dict[str, Any] = {
        "income": KarwaVadhanInterval(radius=100, sigma=30),
        "age": SubsampleAggregate(lower=0, upper=100, resolution=1, buckets=5),
    }
    found = table(columns=columns).accuracy.loc["north"]
    assert found["income", "unknown"] == "the interval states the error"
    assert found["age", "unknown"].startswith("SubsampleAggregate does not add noise of a public")
    for budget, options in (
        (ADD_REMOVE, {"group_sizes": None}),
        (PURE, {"group_sizes": "private"}),
    ):
        found = table(columns=PRIVATE, budget=budget, **options).accuracy.loc["north"]
        assert (
            found["age", "unknown"]
            == "n is private, and the noise of a mean is proportional to 1/n"
        )
        assert np.isnan(found["age", "noise_sd"])
    failing = {"age": KarwaVadhanMean(radius=None, sigma=1e-3)}
    found = table(columns=failing, budget=ApproxDP(0.01, 1e-9)).accuracy.loc["north"]
    assert found["age", "unknown"] == "the estimator declares failure"


# People with several rows.

VISITS = pd.DataFrame(
    {
        "who": ["a"] * 5 + ["b"] * 2 + ["c"],
        "region": ["north", "south", "north", "south", "south", "north", "north", "south"],
        "age": [10.0, 20, 10, 20, 20, 30, 30, 40],
    }
)
AGES = {"age": TransformedNoiseMean(lower=0, upper=50)}
HUGE = PureDP(1e6, neighbours="add_remove")


def visits(budget: Budget = HUGE, seed: int = 0, **options: Any) -> TableRelease:
    given: dict[str, Any] = {"by": "region", "groups": REGIONS, "person": "who", "cap": 5}
    given |= options
    return dpbench.release_table(VISITS, AGES, budget, rng=rng(seed), **given)


def test_rows_of_people() -> None:
    """All rows are kept at cap 5; at cap 1, one row of each person, in one of two groups."""
    every = visits().estimates["age"]
    assert every["north"] == pytest.approx((10 + 10 + 30 + 30) / 4, abs=1e-2)
    assert every["south"] == pytest.approx((20 + 20 + 20 + 40) / 4, abs=1e-2)
    together = visits(by=None, groups=None, cap=2).estimates["age"]["all"]
    kept = [(first + second + 60 + 40) / 5 for first, second in ((10, 10), (10, 20), (20, 20))]
    assert min(abs(together - mean) for mean in kept) < 1e-2
    norths = [visits(cap=1, seed=seed).estimates["age"]["north"] < 25 for seed in range(300)]
    # a is drawn in the north with probability 2/5
    assert stats.binomtest(sum(norths), 300, 0.4).pvalue > 1e-6


def test_memory_does_not_depend_on_the_rows_of_one_person() -> None:
    """One of 3000 people has 3000 of 5999 rows; padded to them, a table would take 144 MB."""
    who = np.append(np.zeros(2999, int), np.arange(3000))
    frame = pd.DataFrame({"who": who, "age": who % 50})
    tracemalloc.start()
    released = dpbench.release_table(frame, AGES, HUGE, person="who", cap=3000, rng=rng())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert released.estimates["age"]["all"] == pytest.approx(frame["age"].mean(), abs=0.5)
    assert peak < 10e6


@pytest.mark.parametrize(("relation", "steps"), [("add_remove", 1), ("replace", 2)])
def test_rows_of_a_person_share_the_budget(relation: Any, steps: int) -> None:
    for budget, part in (
        (PureDP(1.0, neighbours=relation), f"epsilon {1 / (4 * steps):.6g}"),
        (ZCDP(0.5, neighbours=relation), f"rho {0.5 / (4 * steps) ** 2:.6g}"),
        (GDP(1.0, neighbours=relation), f"mu {1 / (4 * steps):.6g}"),
    ):
        released = visits(budget, cap=4)
        line = f"age: {budget.notion}_add_remove {part}\n"
        assert line in released.receipt
        assert released.spent[0] <= budget.amounts[0]
        assert released.spent == pytest.approx(budget.amounts, rel=1e-9)
        assert released.accuracy["age", "unknown"].str.startswith("n is private").all()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cap": None}, "cap: with the column person, give the number of rows to keep"),
        ({"person": None}, "cap: 5: it bounds the rows of a person; give the column of persons"),
        ({"cap": 0}, "cap"),
        ({"person": "whom"}, "person: 'whom': no such column"),
        ({"group_sizes": "public"}, "group_sizes: 'public': the number of rows of a person"),
        (
            {"columns": PUBLIC},
            "pure_add_remove: n is private, because a person has several rows; take one that keeps",
        ),
    ],
)
def test_people_that_are_refused(options: dict[str, Any], text: str) -> None:
    state = rng()
    before = state.bit_generator.state
    given: dict[str, Any] = {"by": "region", "groups": REGIONS, "person": "who", "cap": 5}
    given |= options
    columns = {"age": given.pop("columns", AGES)["age"]}
    with pytest.raises(ConfigError, match=text):
        dpbench.release_table(VISITS, columns, PureDP(1.0), rng=state, **given)
    assert state.bit_generator.state == before
