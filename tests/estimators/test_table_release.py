"""Released tables: a data frame and a receipt; what is public, and what is refused."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpbench
from dpbench.errors import AssumptionWarning
from dpbench.estimators import (
    ClippedMean,
    KarwaVadhanInterval,
    TableRelease,
    TransformedNoiseMean,
    release,
    table_release,
)
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from dpbench.registry import ConfigError
from tests.support import rng

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
    taken = {"age": columns["age"], "age_low": ClippedMean(lower=0, upper=1)}
    with pytest.raises(ConfigError, match="columns: 'age_low': this is an end of an interval"):
        table(PEOPLE.assign(age_low=0.0), columns=taken)


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
        (PEOPLE, {"columns": {"region": PUBLIC["age"]}}, "columns: 'region': its values are not"),
        (PEOPLE, {"group_sizes": None}, "group_sizes: a replaced record may change its group"),
        (PEOPLE, {"group_sizes": "known"}, "group_sizes: 'known': give 'public' or 'private'"),
        (PEOPLE, {"budget": ADD_REMOVE}, "group_sizes: 'public': neighbours: add_remove changes"),
        (
            PEOPLE,
            {"budget": ADD_REMOVE, "group_sizes": None},
            "income: ClippedMean does not support",
        ),
        (PEOPLE, {"group_sizes": "private"}, "take one that keeps n private, such as Transformed"),
        (PEOPLE, {"columns": PRIVATE}, "columns: income: TransformedNoiseMean does not support"),
        (PEOPLE, {"split": {"age": 1}}, "split: give a weight for each column"),
        (MISSING, {}, "age: 3 of 80 values are missing or infinite; fill them with a public"),
        (PEOPLE.assign(income=np.inf), {}, "income: 80 of 80 values are missing or infinite"),
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
        ({"frame": {"age": [1.0]}}, "frame: expected a pandas DataFrame, got dict"),
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
