"""Lists of values make a variant each."""

from __future__ import annotations

from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.privacy import PureDP
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
