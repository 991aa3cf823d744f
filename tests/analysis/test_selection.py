"""What of a sweep a claim is about, and claims that nothing speaks about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.analysis.claims import Claim
from dpbench.registry import ConfigError
from dpbench.runner.plan import Sweep, make_cells
from dpbench.selection import check_claim, with_parameters

SPEC: dict[str, Any] = {
    "families": {
        "cube": {"kind": "hypercube", "d": [4, 16]},
        "gaussian": {"kind": "multivariate_gaussian", "d": [2, 20], "norm": [0.5, 1e6]},
        "one": {"kind": "multivariate_gaussian", "d": 7},
        "numbers": {"kind": "gaussian", "location": 1},
        "signed": {"kind": "signed_two_point_family", "d": [4, 16], "k": [2, 3], "c": [0, 1]},
    },
    "estimators": {
        "additive": {"kind": "bounded_mean", "radius": 1},
        "scaled": {"kind": "bounded_mean", "radius": [1, 1e6]},
        "l2": {"kind": "bounded_mean", "radius": 1, "mechanism": "l2"},
        "mean": {"kind": "empirical_mean"},
    },
    "budgets": {"pure": {"kind": "pure_dp", "epsilon": 1}, "zcdp": {"kind": "zcdp", "rho": 0.5}},
    "parts": {"all": {"n": [100, 1000], "trials": 10}},
}
CLAIM: dict[str, Any] = {
    "theorem": "pure_dimension",
    "families": ["cube_*"],
    "estimators": ["additive"],
    "budgets": ["pure"],
    "tolerance": 0.1,
    "reason": "test",
}


def _check(spec: dict[str, Any] | None = None, **changes: Any) -> None:
    sweep = Sweep.build({**SPEC, **(spec or {})})
    check_claim(sweep, make_cells(sweep), Claim(**{**CLAIM, **changes}), "sweep.claims.c")


@pytest.mark.parametrize(
    ("label", "law", "d", "norm"),
    [
        ("cube_d4", "cube", 4, None),
        ("gaussian_d2_norm0.5", "gaussian", 2, 0.5),
        ("gaussian_d20_norm1e+06", "gaussian", 20, 1e6),
        ("one", "one", 7, 0.0),
        ("numbers", "numbers", None, None),
        ("signed_d16_k3", "signed_k3", 16, None),
    ],
)
def test_the_law_of_a_family(label: str, law: str, d: int | None, norm: float | None) -> None:
    sweep = Sweep.build(SPEC)
    assert sweep.law(label, "d", "norm") == law
    assert sweep.law(label) == label
    assert sweep.family_value(label, "d") == d
    assert sweep.family_value(label, "norm") == norm
    assert sweep.family_value(label, "nope") is None


def test_one_parameter_is_taken_from_a_label_at_a_time() -> None:
    sweep = Sweep.build(SPEC)
    assert sweep.law("gaussian_d20_norm1e+06", "norm") == "gaussian_d20"
    assert sweep.law("gaussian_d20_norm1e+06", "d") == "gaussian_norm1e+06"
    assert sweep.law("signed_d16_k3", "k") == "signed_d16"
    assert sweep.family_value("signed_d16_k3", "k") == 3


def test_the_parameters_beside_a_summary() -> None:
    sweep = Sweep.build(SPEC)
    at = [
        ("additive", "cube_d4", "additive", 1.0, "cube", np.nan),
        ("scaled_radius1e+06", "gaussian_d2_norm1e+06", "scaled", 1e6, "gaussian", 1e6),
        ("scaled_radius1", "gaussian_d20_norm0.5", "scaled", 1.0, "gaussian", 0.5),
        ("mean", "one", "mean", np.nan, "one", 0.0),
        ("l2", "signed_d4_k2", "l2", 1.0, "signed_k2", np.nan),
    ]
    columns = ["estimator", "family", "series", "radius", "law", "norm"]
    wanted = pd.DataFrame(at, columns=columns)
    found = with_parameters(wanted[["estimator", "family"]], sweep)
    pd.testing.assert_frame_equal(found[columns], wanted)
    assert found["norm"].dtype == found["radius"].dtype == float


def test_claims_that_can_be_tested_are_let_pass() -> None:
    _check()
    _check(theorem="ball_dimension")
    _check(theorem="core_norm", families=["gaussian_*"])
    _check(theorem="pure_dimension", families=["signed_*"])
    ratio: dict[str, Any] = {
        "theorem": "noise_ratio",
        "limit": 1.4,
        "estimators": ["additive", "l2"],
    }
    _check(**ratio, over="l2")
    _check(**ratio, over="additive", families=["one"], n_min=1000)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"families": ["cube_d4"]}, ["fewer than two values of d on cube_d4", "additive"]),
        ({"families": ["cube_d4", "one"]}, ["fewer than two values of d"]),
        ({"theorem": "core_norm"}, ["fewer than two values of norm on cube_d"]),
        ({"theorem": "core_norm", "families": ["gaussian_*_norm0.5"]}, ["two values of norm"]),
        ({"theorem": "core_norm", "families": ["one"]}, ["a norm that is not above 0"]),
        ({"theorem": "ball_dimension", "n_min": 500}, ["one n in the claim's regime"]),
    ],
)
def test_an_exponent_needs_two_values(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        _check(**changes)
    (line,) = str(caught.value).splitlines()
    assert line.startswith("sweep.claims.c: ")
    for word in words:
        assert word in line


def test_a_budget_that_is_run_at_one_dimension_only_is_refused() -> None:
    part = {"n": [100], "trials": 10, "estimators": ["additive"]}
    parts = {
        "a": {**part, "families": ["cube_*"], "budgets": ["zcdp"]},
        "b": {**part, "families": ["cube_d4"], "budgets": ["pure"]},
        "c": {**SPEC["parts"]["all"], "families": ["numbers"]},
    }
    estimators = {name: SPEC["estimators"][name] for name in ("additive", "mean")}
    spec = {"parts": parts, "estimators": estimators}
    _check(spec, theorem="gaussian_dimension", budgets=["zcdp"])
    with pytest.raises(ConfigError, match="fewer than two values of d on cube_d4"):
        _check(spec, theorem="gaussian_dimension", budgets=["zcdp", "pure"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"over": "nope"}, ["over: 'nope'", "not among"]),
        ({"over": "scaled_radius1"}, ["over: 'scaled_radius1'"]),  # it runs, but not here
        ({"over": "l2", "budgets": ["zcdp"]}, ["over: 'l2'"]),  # of pure budgets alone
        ({"over": "mean"}, ["over: 'mean'"]),
    ],
)
def test_a_ratio_without_its_denominator_is_refused(
    changes: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        _check(theorem="noise_ratio", limit=1.4, estimators=["additive", "l2"], **changes)
    (line,) = str(caught.value).splitlines()
    assert line.startswith("sweep.claims.c.over: ")
    for word in words:
        assert word in line


@pytest.mark.parametrize("case", ["alone", "other n", "one budget"])
def test_a_ratio_that_nothing_is_a_pair_of_is_refused(case: str) -> None:
    options: dict[str, Any] = {"theorem": "noise_ratio", "limit": 1.4, "over": "l2"}
    spec: dict[str, Any] = {}
    estimators = ["additive", "l2"]
    budgets = ["pure"]
    if case == "alone":
        estimators = ["l2"]
    elif case == "other n":
        part = {"trials": 10, "families": ["cube_*"], "budgets": ["pure"]}
        spec["estimators"] = {name: SPEC["estimators"][name] for name in estimators}
        spec["parts"] = {
            "a": {**part, "n": [100], "estimators": ["additive"]},
            "b": {**part, "n": [300], "estimators": ["l2"]},
        }
    else:
        budgets = ["pure", "zcdp"]  # there is no l2 mechanism for the second
    with pytest.raises(ConfigError):
        _check(spec, estimators=estimators, budgets=budgets, **options)


@pytest.mark.parametrize("theorem", ["pure_dimension", "ball_dimension"])
def test_a_dimension_that_goes_with_n_is_refused(theorem: str) -> None:
    """d = 4 at n = 100 and d = 16 at n = 1000: no fit can tell one from the other."""
    part = {"trials": 10, "estimators": ["additive"], "budgets": ["pure"]}
    spec = {
        "estimators": {"additive": SPEC["estimators"]["additive"]},
        "parts": {
            "a": {**part, "families": ["cube_d4"], "n": [100]},
            "b": {**part, "families": ["cube_d16"], "n": [1000]},
        },
    }
    with pytest.raises(ConfigError):
        _check(spec, theorem=theorem)


def test_a_smallest_n_needs_two_sizes_of_every_curve() -> None:
    part = {"trials": 10, "families": ["numbers"], "budgets": ["pure"]}
    spec = {
        "estimators": {"naive": {"kind": "naive_gaussian_mean", "radius": [10, 1000]}},
        "parts": {
            "a": {**part, "estimators": ["naive_radius10"], "n": [100]},
            "b": {**part, "estimators": ["naive_radius1000"], "n": [100, 1000]},
        },
    }
    with pytest.raises(ConfigError):
        _check(spec, theorem="naive_radius", families=["numbers"], estimators=["naive_*"], alpha=1)
