"""Keys and selections: how rows are named, and how they are chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.privacy import ApproxDP, Budget, NonPrivate, PureDP
from dpbench.registry import ConfigError, from_mapping
from dpbench.sweep.selection import KEY, Selection, Variant, rows_of_budget, select_labels
from tests.sweeps import Made

SECTION = {
    f"{name}_k{k:g}": Variant(name, None, {"k": k, "mode": mode}, ("k",))
    for name, mode in (("ab", "x"), ("abc", "y"))
    for k in (1.0, 2.0, 10.0)
} | {"c": Variant("c", None, {"radius": None})}
AB, ABC = ["ab_k1", "ab_k2", "ab_k10"], ["abc_k1", "abc_k2", "abc_k10"]


@pytest.mark.parametrize(
    ("choice", "labels"),
    [
        (None, [*AB, *ABC, "c"]),
        (["c", "ab"], [*AB, "c"]),  # in the section's order; a name is no prefix
        (["!ab*"], ["c"]),
        (["!abc", "*"], [*AB, "c"]),  # what is left out stays out, whatever comes first
        (["ab*", "!abc"], AB),
        ({"ab": {"k": [1, 10]}, "c": None}, ["ab_k1", "ab_k10", "c"]),
        ({"ab*": {"k": {"low": 2, "high": 10}, "mode": "y"}}, ABC[1:]),
        ({"ab": {"k": [{"high": 1}, 10]}}, ["ab_k1", "ab_k10"]),
        ({"c": {"radius": None}}, ["c"]),
    ],
)
def test_what_a_choice_means(choice: Any, labels: list[str]) -> None:
    assert select_labels(choice, SECTION, "here") == labels


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        (["ab", "!d*"], "here: 'd*': no such name; choose from ab, abc, c"),
        ({"ab_k1": {}}, "here: 'ab_k1': no such name; choose from ab, abc, c"),  # a label
        ({"ab": {"k": [1, 3]}}, "here.ab.k: 3: no such value; choose from 1, 2, 10"),
        ({"ab": {"k": {"at": 1}}}, "here.ab.k: {'at': 1}: no such value; choose from 1, 2, 10"),
        ({"ab": {"r": 3}}, "here.ab.r: no such parameter; choose from k, mode"),
        # Of those that the values before have left.
        ({"ab*": {"mode": "x", "k": 1}, "abc": {"mode": "x"}},
         "here.abc.mode: 'x': no such value; choose from y"),
    ],
)  # fmt: skip
def test_what_matches_nothing_is_refused(choice: Any, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        select_labels(choice, SECTION, "here")
    assert str(caught.value) == line


def test_labels_show_what_is_swept() -> None:
    values = {"k": 2, "d": 1e6, "mode": "x", "fixed": 3}
    one = Variant("name", None, values, ("k", "mode", "d"))
    assert one.label() == "name_k2_mode_x_d1e+06"
    assert one.label("mode", "d") == "name_k2"
    assert Variant("name", None, values).label() == "name"


def test_rows_under_a_budget() -> None:
    budgets: list[Budget] = [
        PureDP(1.0), PureDP(0.1), ApproxDP(1.0, 1e-6), ApproxDP(1.0, 1e-7),
        ApproxDP(1.0, 1e-6, "classical"), NonPrivate(),
    ]  # fmt: skip
    table = pd.DataFrame([budget.columns for budget in budgets])
    for i, budget in enumerate(budgets):
        assert np.flatnonzero(rows_of_budget(table, budget)).tolist() == [i]


ESTIMATORS = {
    "minimax": {"kind": "tuned_clipped_mean", "scale": 1, "k": [2, 3], "policy": "minimax"},
    "naive": {"kind": "naive_gaussian_mean", "sigma": 1, "radius": [10, 1e6]},
    "mean": {"kind": "empirical_mean"},
}
FAMILIES = {"coin": {"kind": "bernoulli", "p": [0.5, 0.1]}, "numbers": {"kind": "gaussian"}}
BUDGETS = {"pure": {"kind": "pure_dp", "epsilon": [0.1, 1]}, "zcdp": {"kind": "zcdp", "rho": 0.5}}


def test_swept_parameters_are_the_last_columns() -> None:
    made = Made(bounds=True, families=FAMILIES, estimators=ESTIMATORS, budgets=BUDGETS)
    keys = made.keys
    # k is the family's column; an estimator's own is told apart from it.
    assert list(keys) == [*KEY, "lower_bound", "bound_name", "p", "estimator_k", "radius"]
    assert len(keys) == 3 * 2 * (4 * 3 + 1)
    row = keys[(keys["estimator"] == "minimax_k3") & (keys["family"] == "coin_p0.1")].iloc[0]
    assert (row["p"], row["estimator_k"], row["d"]) == (0.1, 3, 1)
    assert np.isnan(row["k"])
    assert row["radius"] == 0.0  # by default
    numbers = keys[(keys["family"] == "numbers") & (keys["estimator"] == "naive_radius1e+06")]
    assert set(numbers["radius"]) == {1e6}
    assert numbers["p"].isna().all()
    assert numbers["epsilon"].tolist() == pytest.approx([0.1, 1.0, np.nan] * 2, nan_ok=True)
    # Rows are in the order of the tasks' keys.
    told = [(label, one.label, one.budget.label)
            for cell in made.cells for label, _, one in cell.tasks(0)[0].keys]  # fmt: skip
    assert told == list(keys[["distribution", "estimator", "privacy"]].itertuples(index=False))


def test_what_a_selection_is_about() -> None:
    made = Made(families=FAMILIES, estimators=ESTIMATORS, budgets=BUDGETS)

    def about(**what: Any) -> pd.DataFrame:
        chosen = from_mapping(Selection, what, "s")
        return made.keys[made.sweep.select_rows(chosen, made.keys, "s")]

    found = about(families=["coin"], budgets={"pure": {"epsilon": 0.1}})
    assert set(found["family"]) == {"coin_p0.5", "coin_p0.1"}
    # Without privacy there is no budget to leave out.
    assert set(found["privacy"]) == {"pure", "none"}
    assert set(found.loc[found["privacy"] == "pure", "epsilon"]) == {0.1}
    assert set(about(estimators={"minimax": {"k": 3}})["estimator"]) == {"minimax_k3"}
    assert set(about(estimators=["!mean"], budgets=["!pure"])["rho"]) == {0.5}
    assert len(about()) == len(made.keys)
    for section in ("families", "estimators", "budgets"):
        with pytest.raises(ConfigError, match=rf"^s\.{section}: 'x': no such name"):
            about(**{section: ["x"]})
