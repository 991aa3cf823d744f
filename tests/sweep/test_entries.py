"""Lists of values make a variant each."""

from __future__ import annotations

from typing import Any

import pytest

from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.privacy import GDP, ZCDP, ApproxDP, PureDP
from dpbench.registry import ConfigError
from dpbench.sweep.entries import expand_entry
from dpbench.sweep.selection import select_labels
from tests.sweeps import CLIP, COIN, sweep_of


def test_lists_are_expanded_where_one_value_is_taken() -> None:
    spec = {"kind": "student_t", "tail_index": [2.5, 3], "standardised_moment": [2, 2.2]}
    found = expand_entry("t", spec, [Distribution])
    assert [(one["tail_index"], one["standardised_moment"]) for one, _ in found] == [
        (2.5, 2), (2.5, 2.2), (3, 2), (3, 2.2),
    ]  # fmt: skip
    assert {swept for _, swept in found} == {("tail_index", "standardised_moment")}
    # A parameter that is a list is one value; an unknown one is left for its own message.
    pair = {"kind": "two_point_family", "k": 2, "c": [0, 1]}
    sweep = sweep_of(families={"f": pair, "coin": COIN}, budgets={"pure": PureDP(0.5)})
    assert list(sweep.families) == ["f", "coin"]
    assert expand_entry("e", {**CLIP, "nope": [1, 2]}, [Estimator])[0][1] == ()
    # What is made in Python is a variant, too; of a family of one the parameters are the law's.
    assert select_labels({"pure": {"epsilon": 0.5}}, sweep.budgets) == ["pure"]
    assert sweep.families["coin"].parameters["p"] == 0.5


def test_budgets_may_be_a_list_whose_parameters_give_the_notion() -> None:
    listed: Any = [
        {"epsilon": 1}, {"epsilon": [2, 3]}, {"epsilon": 1, "delta": 1e-6}, {"rho": 0.1},
        {"mu": 0.5}, {"kind": "pure_dp", "epsilon": 1, "neighbours": "add_remove"}, ZCDP(0.2),
    ]  # fmt: skip
    budgets = sweep_of(families={"coin": COIN}, budgets=listed).budgets
    assert {label: variant.value for label, variant in budgets.items()} == {
        "pure_epsilon1": PureDP(1.0), "pure_epsilon2": PureDP(2.0), "pure_epsilon3": PureDP(3.0),
        "approx_epsilon1_delta1e-06": ApproxDP(1.0, 1e-6), "zcdp_rho0.1": ZCDP(0.1),
        "gdp_mu0.5": GDP(0.5), "zcdp_rho0.2": ZCDP(0.2),
        "pure_epsilon1_neighbours_add_remove": PureDP(1.0, neighbours="add_remove"),
    }  # fmt: skip
    assert select_labels(["pure*"], budgets) == [name for name in budgets if name[0] == "p"]
    labelled = sweep_of(families={"coin": COIN}, budgets={"a": {"mu": 0.5}}).budgets
    assert labelled["a"].value == GDP(0.5)


@pytest.mark.parametrize(
    ("budgets", "lines"),
    [
        (
            [3, {"rho": 1, "epsilon": 2}, {"epsilom": 1}],
            ["budgets.1: 3: not a budget", "budgets.2: rho, epsilon: no notion of privacy has",
             "budgets.3: epsilom: no notion of privacy"],
        ),
        (
            [{"epsilon": "abc"}, {"rho": -1}],
            ["budgets.1.epsilon: 'abc': input should be a valid number",
             "budgets.2.rho: -1: input should be greater than"],
        ),
        ([{"epsilon": 1}, {"epsilon": 1.0}], ["budgets.2: pure_epsilon1: stands twice"]),
        ({"a": {}}, ["budgets.a: nothing: no notion of privacy has these parameters; give"]),
    ],
)  # fmt: skip
def test_each_entry_of_a_list_of_budgets_is_checked(budgets: Any, lines: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        sweep_of(families={"coin": COIN}, budgets=budgets)
    told = error.value.lines
    assert len(told) == len(lines)
    assert all(
        line.removeprefix("sweep.").startswith(start)
        for line, start in zip(told, lines, strict=True)
    ), told
