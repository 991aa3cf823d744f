"""From a sweep to cells and keys."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np
import pytest

import dpbench
from dpbench.arrays import Floats
from dpbench.estimators import EmpiricalMean, OneDataset
from dpbench.privacy import ZCDP, Budget, NonPrivate, PureDP
from dpbench.registry import MAX_RECORDS, ConfigError, from_mapping, validated
from dpbench.samples.base import MAX_LISTED_NUMBERS
from dpbench.samples.binned import MAX_BINNED_RECORDS
from dpbench.sweep.block import FEW_TRIALS, MANY_TRIALS, Setting
from dpbench.sweep.plan import (
    MAX_DENSE_NUMBERS,
    Cell,
    Grid,
    Part,
    Sweep,
    key_table,
    largest_n,
    lower_bound,
    make_cells,
)
from dpbench.theory import families
from dpbench.theory.bounds.class_bound import ErrorBound
from dpbench.theory.bounds.numbers import two_point_lower_bound
from dpbench.theory.families import build_family
from tests.support import spreads
from tests.sweeps import CLIP, COIN, PURE, sweep_of

PAIR = {"kind": "two_point_family", "k": [2, 2.5], "c": [0, 1]}
T = {"kind": "student_t", "tail_index": 2.5, "standardised_moment": 2}
NUMBERS = {"kind": "bounded_zipf", "exponent": 0, "largest": 1000}  # mean 500.5
SPEC: dict[str, Any] = {
    "families": {"pair": PAIR, "t": T},
    "estimators": {
        "minimax": {"kind": "tuned_clipped_mean", "scale": 1},
        "mean": {"kind": "empirical_mean"},
    },
    "budgets": {"pure": {"kind": "pure_dp", "epsilon": [0.1, 1.0]}},
    "parts": {"all": {"n": [1000], "trials": 250}},
}


def _cells(**changes: Any) -> list[Cell]:
    return make_cells(sweep_of(**{**SPEC, **changes}))


def test_sizes_of_a_part() -> None:
    part = Part(n=Grid(low=1000, high=10**6, points=4), trials=1)
    assert part.sizes == [1000, 10_000, 100_000, 1_000_000]
    assert Part(n=[30, 10, 10], trials=1).sizes == [10, 30]


def test_families_that_follow_the_budget_get_a_cell_for_each() -> None:
    cells = _cells()
    assert [cell.family_label for cell in cells] == ["pair_k2"] * 2 + ["pair_k2.5"] * 2 + ["t"]
    for cell, epsilon in zip(cells[:4], [0.1, 1.0] * 2, strict=True):
        (setting,) = cell.settings
        assert setting.budget == PureDP(epsilon)
        assert len(cell.members) == 6  # 0, 1, and the worst ones of both signs
        # An estimator takes the moment order of its family.
        assert getattr(setting.estimator, "k", None) == cell.family.moment_order
    # On data that follow no budget all run together, and without privacy once.
    assert [s.label for s in cells[-1].settings] == ["mean", "minimax", "minimax"]
    # Data that follow a budget are named by it.
    followed = [cell.tasks(0)[0].followed for cell in cells]
    assert [bool(name) for name in followed] == [True] * 4 + [False]
    assert followed[0] != followed[1]


def test_the_keys_of_families_with_a_lower_bound() -> None:
    sweep = sweep_of(**SPEC)
    cells = make_cells(sweep)
    keys = key_table(sweep, cells)
    pair = keys[keys["family"] == "pair_k2.5"]
    wanted = {e: two_point_lower_bound(1000, 2.5, PureDP(e)).alpha for e in (0.1, 1.0)}
    assert pair["lower_bound"].tolist() == [wanted[e] for e in pair["epsilon"]]
    assert set(pair["k"]) == {2.5}
    alone = keys[keys["family"] == "t"]
    private = alone["privacy"] == "pure"
    assert set(alone["bound_name"][~private]) == {"sampling"}
    assert (alone["lower_bound"] > 0).all()
    assert set(alone["k"]) == {2.0}


def test_the_model_of_an_estimator_says_which_bound_holds() -> None:
    made = sweep_of(
        families={"plane": {"kind": "multivariate_gaussian", "d": 2}, "coin": COIN},
        estimators={
            "covariance": {"kind": "coinpress_covariance", "bound": 2},
            "mean": {"kind": "coinpress_mean", "sigma": 1, "radius": 1},
            "local": {"kind": "local_mean", "scale": 1, "k": 2},
        },
        budgets={"zcdp": {"kind": "zcdp", "rho": 1e-4}},
        parts={
            "vectors": {
                "families": "plane",
                "estimators": ["covariance", "mean"],
                "n": [100],
                "trials": 1,
            },
            "coins": {
                "families": "coin",
                "estimators": ["mean", "local"],
                "n": [10**4],
                "trials": 1,
            },
        },
    )
    table = key_table(made, make_cells(made))
    at = zip(table["family"], table["estimator"], strict=True)
    found = dict(zip(at, zip(table["lower_bound"], table["bound_name"], strict=True), strict=True))
    bound, by = found["plane", "covariance"]
    assert np.isnan(bound)
    assert by == ""
    assert found["plane", "mean"][1] == "two-point"
    assert found["coin", "local"][0] > 2 * found["coin", "mean"][0]
    assert found["coin", "local"][1] == "local two-point"
    alone = [lower_bound(made, row) for row in table.to_dict("records")]
    np.testing.assert_array_equal(alone, table["lower_bound"])


def test_a_row_s_bound_is_that_of_its_budget() -> None:
    made = sweep_of(**SPEC)
    table = key_table(made, make_cells(made))
    found = [lower_bound(made, row) for row in table.to_dict("records")]
    assert found == table["lower_bound"].tolist()
    assert table.groupby("family")["lower_bound"].nunique().tolist() == [2, 2, 3]


def test_bounds_wait_until_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One takes up to 0.2 s: a plan, and what is read again, needs few or none."""
    asked = list[object]()

    def nothing(*at: object, **_: object) -> ErrorBound:
        asked.append(at)
        return ErrorBound()

    monkeypatch.setattr(families, "class_bound", nothing)
    spec = {**SPEC, "families": {"t": T}}
    dpbench.run(spec, n_jobs=1).errors()
    assert len(asked) == 3  # settings
    asked.clear()
    factor = {"theorem": "near_optimal", "tolerance": 0.1, "reason": "finite trials"}
    with pytest.raises(ConfigError, match="no lower bound is known"):
        dpbench.run({**spec, "claims": {"factor": factor}}, n_jobs=1)
    assert len(asked) == 1  # of which none is known


def test_parts_that_meet_share_one_draw() -> None:
    two = {"mean": {"kind": "empirical_mean"}, "clip": CLIP}
    parts = {
        "a": {"n": [1000, 10], "trials": 10, "estimators": ["mean"]},
        "b": {"n": [1000], "trials": 30, "estimators": ["clip"]},
        "c": {"n": [1000], "trials": 20},
    }
    small, cell = _cells(families={"coin": COIN}, estimators=two, parts=parts)
    assert (small.n, small.trials) == (10, 10)
    assert [s.label for s in cell.settings] == ["clip", "clip", "mean"]
    assert (cell.n, cell.trials) == (1000, 30)
    # Budgets apart stay apart where the family follows them.
    part = {"n": [1000], "trials": 1}
    parts = {str(e): {**part, "budgets": {"pure": {"epsilon": e}}} for e in (1.0, 0.1)}
    minimax = {"minimax": SPEC["estimators"]["minimax"]}
    cells = _cells(parts=parts, estimators=minimax, families={"pair": {**PAIR, "k": 2}})
    assert [cell.settings[0].budget for cell in cells] == [PureDP(0.1), PureDP(1.0)]
    # One budget under two names runs once.
    (cell,) = _cells(families={"t": T}, budgets={"a": PURE, "b": PURE}, estimators={"clip": CLIP})
    assert len(cell.settings) == 1


def test_blocks_do_not_depend_on_trials_or_on_order() -> None:
    few, many = (make_cells(sweep_of(**SPEC), trials=t)[-1].tasks(0) for t in (10, 1001))
    assert len(few) == 1
    assert len(many) == -(-1001 // FEW_TRIALS)
    assert few[0] == many[0]
    most = make_cells(sweep_of(**SPEC), trials=MANY_TRIALS)[-1].tasks(0)
    assert (len(most), most[0].trials) == (1, MANY_TRIALS)
    assert most[0].name != few[0].name
    assert len({task.name for task in many}) == 1
    turned = dict(reversed(list(SPEC["estimators"].items())))
    assert [c.tasks(0) for c in _cells()] == [c.tasks(0) for c in _cells(estimators=turned)]
    # A block's name is of all that its numbers depend on.
    other = _cells(estimators={**SPEC["estimators"], "clip": CLIP})
    names = {c.tasks(seed)[0].name for c in (*_cells(), *other) for seed in (0, 1)}
    assert len(names) == 20


def test_an_estimator_that_a_pattern_matches_runs_where_it_can() -> None:
    two = {"clip_all": CLIP, "clip_l2": {"kind": "l2_clipped_mean", "radius": 1, "mechanism": "l2"}}
    budgets = {"pure": PURE, "zcdp": {"kind": "zcdp", "rho": 0.5}}

    def cells(chosen: Any) -> list[Cell]:
        parts = {"p": {"n": [10], "trials": 1, "estimators": chosen}}
        cube = {"cube": {"kind": "hypercube", "d": 4}}
        return _cells(families=cube, estimators=two, budgets=budgets, parts=parts)

    chosen: Any
    for chosen in (None, ["clip_*"]):
        (cell,) = cells(chosen)
        assert [s.label for s in cell.settings] == ["clip_all", "clip_all", "clip_l2"]
    for chosen in (["clip_all", "clip_l2"], {"clip_l2": {}, "clip_all": {}}):
        with pytest.raises(ConfigError) as caught:
            cells(chosen)
        assert str(caught.value) == (
            "sweep.parts.p.budgets: ZCDP(rho=0.5, neighbours='replace'): the estimator clip_l2 "
            "cannot honour the notion 'zcdp'; it supports: pure, for neighbours: replace; "
            "mechanism='l2': not available under zcdp, gdp, approx"
        )


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"families": {"g": {"kind": "gaussian"}}},
         r"sweep\.estimators\.minimax\.k: this key is required: the family g has no moment order"),
        ({"families": {"f": {**PAIR, "k": 2, "c": [1], "scaling": "local"}},
          "parts": {"p": {"n": [1], "trials": 1}}},
         r"sweep\.parts\.p\.n: 1: the family f has no member at this n"),
        ({"parts": {"p": {"n": [1000], "trials": 1, "families": {"pair": {"k": 2}}}}},
         r"sweep\.estimators\.mean: no part of the sweep runs it; it supports: none; "
         "a part that chooses its estimators has to name it"),
        ({"families": {"v": {"kind": "multivariate_student_t", "d": 3, "tail_index": 3}},
          "estimators": {"c": {"kind": "coinpress_covariance", "bound": 1}},
          "budgets": {"z": {"kind": "zcdp", "rho": 1}}},
         r"sweep\.parts\.all\.families: 'v': c needs vectors of mean 0 and a known covariance"),
    ],
)  # fmt: skip
def test_refusals(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _cells(**changes)
    assert re.fullmatch(line, str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    ("family", "fits", "large"),
    [
        ({"kind": "multivariate_gaussian", "d": 1000}, 10**5, 10**6),
        ({"kind": "signed_two_point", "d": 1000, "p": 1e-6, "k": 2}, 10**10, 10**12),
        ({"kind": "product_two_point", "d": 1000, "p": 1e-9}, 10**10, 10**12),
        ({"kind": "hypercube", "d": 1000}, 10**4, 10**6),
        ({"kind": "user_level_data", "of": T, "m": NUMBERS}, 10**4, 10**6),
    ],
)
def test_data_beyond_memory_are_refused(family: dict[str, Any], fits: int, large: int) -> None:
    mean = {"mean": {"kind": "empirical_mean"}}
    (cell,) = make_cells(sweep_of(families={"f": family}, estimators=mean, n=[fits]))
    assert fits < largest_n(cell.family, fits, MEAN) < large
    with pytest.raises(ConfigError, match=rf"^sweep\.parts\.all\.n: {large}: f draws every"):
        make_cells(sweep_of(families={"f": family}, estimators=mean, n=[large]))


MEAN = Setting("mean", EmpiricalMean(), ZCDP(0.5))


@validated
class _Outside(OneDataset):
    notions: ClassVar[tuple[type[Budget], ...]] = (NonPrivate,)

    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float:
        return float(x.mean())


def _large(n: int, estimators: dict[str, Any]) -> list[Cell]:
    budgets = {"approx": {"kind": "approx_dp", "epsilon": 1, "delta": 1e-6}}
    return make_cells(sweep_of(families={"t": T}, estimators=estimators, budgets=budgets, n=[n]))


def test_continuous_data_may_be_large_but_not_held() -> None:
    mean, median = {"kind": "empirical_mean"}, {"kind": "median"}
    (cell,) = _large(10**12, {"mean": mean, "median": median})
    assert [task.trials for task in cell.tasks(0)] == [200]
    assert largest_n(cell.family, 10, MEAN) == MAX_BINNED_RECORDS
    function = {"kind": "subsample_aggregate", "buckets": 9, "lower": 0, "upper": 1}
    friendly = {"kind": "friendly_core_mean", "sigma": 1}
    held = "t: e takes all records at once; give an n of at most"
    for n, estimator, line in (
        (10**12 + 1, mean, "t: a dataset is too large; give an n of at most 1,000,000,000,000"),
        (1001, {"kind": "binary_minimax"}, "e takes at most 1,000 records"),
        (10**9, _Outside(), f"{held} 100,000,000"),
        (10**8, friendly, f"{held} 300,000"),
        (10**8, {"kind": "coordinate_wise", "base": friendly}, f"{held} 300,000"),
        (10**8, {**function, "base": spreads}, f"{held} 300,000"),
        (10**9, {**function, "base": _Outside()}, f"{held} 900,000,000"),
    ):
        with pytest.raises(ConfigError) as caught:
            _large(n, {"e": estimator})
        assert str(caught.value) == f"sweep.parts.all.n: {n}: {line}"
    outside = Setting("e", _Outside(), NonPrivate())
    assert largest_n(cell.family, 10, outside) == MAX_LISTED_NUMBERS  # for a direct search, too


def test_the_largest_n() -> None:
    n = largest_n(build_family({"kind": "multivariate_gaussian", "d": 7}, "f"), 10, MEAN)
    assert n * 7 <= MAX_DENSE_NUMBERS < (n + 1) * 7
    spec = {"kind": "signed_two_point_family", "d": 16, "k": 2, "c": [0, 1, 5]}
    for one in (spec, COIN, {**PAIR, "k": 2}):  # as many records other than zero at any n
        assert largest_n(build_family(one, "f"), 1000, MEAN) == MAX_RECORDS


def test_a_table_of_groups_has_no_error_to_measure() -> None:
    sums = {"kind": "transformed_noise_mean"}
    spec = {
        "families": {"gaussian": {"kind": "multivariate_gaussian", "d": 2}},
        "estimators": {"mine": {"kind": "table_mean", "columns": {"x": sums}}},
        "budgets": {"pure": {"kind": "pure_dp", "epsilon": 1}},
        "parts": {"all": {"n": [100], "trials": 5}},
    }
    with pytest.raises(ConfigError, match="mine: releases a table, which has no error on a dist"):
        make_cells(from_mapping(Sweep, spec, "sweep"))
