from __future__ import annotations

from typing import Any

import pytest

from dpbench.registry import ConfigError
from dpbench.runner.block import BLOCK_TRIALS
from dpbench.runner.plan import Cell, Grid, Part, Sweep, make_cells, pick

LABELS = ["ab_1", "ab_2", "c"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (None, LABELS),
        (["c", "ab_1"], ["ab_1", "c"]),
        (["ab_*"], ["ab_1", "ab_2"]),
        (["!ab_*"], ["c"]),
        (["ab_*", "!ab_2"], ["ab_1"]),
        (["!ab_2", "ab_*"], ["ab_1"]),
    ],
)
def test_pick(patterns: list[str] | None, expected: list[str]) -> None:
    assert pick(patterns, LABELS, "here") == expected


@pytest.mark.parametrize("pattern", ["d", "d*", "!d"])
def test_pick_names_a_pattern_without_match(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"^here: '!?d\*?': no such label; choose from ab_1"):
        pick([pattern], LABELS, "here")


def test_grid_is_logarithmic() -> None:
    part = Part(n=Grid(low=1000, high=10**6, points=4), trials=1)
    assert part.sizes == [1000, 10_000, 100_000, 1_000_000]
    assert Part(n=[30, 10, 10], trials=1).sizes == [10, 30]


def _spec(**changes: Any) -> dict[str, Any]:
    return {
        "families": {
            "pair": {"kind": "two_point_family", "k": [2, 3], "c": [0, 1]},
            "t": {"kind": "student_t", "tail_index": 2.5, "unit_moment": 2},
        },
        "estimators": {
            "minimax": {"kind": "heavy_tailed_mean"},
            "mean": {"kind": "empirical_mean"},
        },
        "budgets": {"pure": {"kind": "pure_dp", "epsilon": [0.1, 1.0]}},
        "parts": {"all": {"n": [1000], "trials": 250}},
    } | changes


def _cells(**changes: Any) -> list[Cell]:
    return make_cells(Sweep.build(_spec(**changes)))


def test_families_that_follow_the_budget_get_a_cell_for_each() -> None:
    cells = _cells()
    assert [cell.family_label for cell in cells] == ["pair_k2"] * 2 + ["pair_k3"] * 2 + ["t"]
    assert {len(cell.settings) for cell in cells[:4]} == {1}
    assert sorted(s.label for s in cells[-1].settings) == ["mean", "minimax", "minimax"]


def test_an_estimator_takes_the_moment_order_of_its_family() -> None:
    orders = {
        cell.family_label: getattr(cell.settings[0].estimator, "k", None) for cell in _cells()
    }
    assert orders["pair_k2"] == 2
    assert orders["pair_k3"] == 3


def test_parts_that_meet_share_one_draw() -> None:
    parts = {
        "a": {"n": [1000], "trials": 10, "families": ["t"], "estimators": ["mean"]},
        "b": {"n": [1000], "trials": 30, "families": ["t"], "estimators": ["minimax"]},
    }
    (cell,) = _cells(parts=parts)
    assert sorted(s.label for s in cell.settings) == ["mean", "minimax", "minimax"]
    assert cell.trials == 30


def test_blocks_do_not_depend_on_trials() -> None:
    sweep = Sweep.build(_spec())
    few = make_cells(sweep, trials=10)[-1].tasks(0)
    many = make_cells(sweep, trials=1000)[-1].tasks(0)
    assert len(few) == 1
    assert len(many) == 1000 // BLOCK_TRIALS
    assert few[0] == many[0]


def test_order_of_estimators_does_not_matter() -> None:
    turned = dict(reversed(list(_spec()["estimators"].items())))
    assert [c.tasks(0) for c in _cells()] == [c.tasks(0) for c in _cells(estimators=turned)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimators": {"m": {"kind": "x"}}}, r"sweep\.estimators\.m\.kind: 'x': choose from"),
        ({"estimators": {}}, r"sweep\.estimators: \{\}: at least one entry"),
        (
            {"budgets": {"b": {"kind": "zcdp", "rho": []}}},
            r"sweep\.budgets\.b\.rho: \[\]: an empty",
        ),
        ({"parts": {"p": {"n": [0], "trials": 1}}}, r"sweep\.parts\.p\.n"),
        ({"parts": {"p": {"n": [10**9], "trials": 1}}}, r"sweep\.parts\.p\.n: 1000000000: t draws"),
        ({"families": {"g": {"kind": "gaussian"}}}, r"sweep\.estimators\.minimax\.k: .*required"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _cells(**changes)


def test_an_estimator_that_nothing_runs_is_refused() -> None:
    parts = {"p": {"n": [1000], "trials": 1, "families": ["pair_k2"]}}
    with pytest.raises(ConfigError, match=r"sweep\.estimators\.mean: no part .* supports: none"):
        _cells(parts=parts)
