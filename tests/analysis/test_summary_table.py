"""From blocks to a table, and the worst of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.analysis import summary_table
from dpbench.analysis.summary_table import (
    CURVE,
    SORT_COLUMNS,
    Results,
    collect,
    select_held_out,
    worst_case,
)
from dpbench.analysis.trial_statistics import quantile, statistics
from dpbench.sweep.block import Block, failure_name
from dpbench.sweep.metrics import ERRORS, EXTRAS, METRICS
from dpbench.sweep.selection import BUDGET, KEY
from tests.sweeps import CLIP, COIN, Made

MADE = Made(
    families={
        "pair": {"kind": "two_point_family", "k": [2, 3], "c": [1, 3]},
        "coin": COIN,
    },
    estimators={"clip": {**CLIP, "upper": [1, 2]}, "mean": {"kind": "empirical_mean"}},
    budgets={"pure": {"kind": "pure_dp", "epsilon": [0.1, 1]}, "zcdp": {"kind": "zcdp", "rho": 1}},
    parts={
        "pairs": {"n": [1000, 100], "trials": 300, "families": ["pair"]},
        "coins": {"n": [1000, 100], "trials": 230, "families": ["coin"]},
    },
)


def _blocks(index: int) -> list[Block]:
    """The blocks of a cell, of numbers that no other has; the last lacks `width`."""
    tasks = MADE.cells[index].tasks(0)
    found = []
    for i, task in enumerate(tasks):
        rng = np.random.default_rng([index, i])
        names = (*ERRORS, "width") if i < len(tasks) - 1 else ERRORS
        values = {n: rng.standard_exponential((len(task.keys), task.trials)) for n in names}
        found.append(Block(values, {1: f"RuntimeError: {index}"} if i else {}))
    return found


def _collected(order: list[int], *keep: str) -> Results:
    found = ((i, _blocks(i)) for i in order)
    return collect(MADE.sweep, MADE.cells, found, dict.fromkeys(keep, True))


@pytest.fixture(scope="module")
def results() -> Results:
    return _collected(list(range(len(MADE.cells))), "error", "bias", "width", "core")


def test_rows_are_sorted_whatever_the_order_of_cells(results: Results) -> None:
    table = results.summary
    columns = list(table)
    first = [name for name in KEY if name != "mu"]
    assert columns[: len(KEY) + 2] == [*first, "trials", "failures", "failure_rate"]
    assert columns[-15:-13] + columns[-3:] == [
        "width_q50",
        "miss_rate",
        "mu",
        "bound_name",
        "upper",
    ]
    assert columns[-6:-3] == ["bias", "bias_se", "signed_sd"]
    assert columns.index("lower_bound") == columns.index("privacy_cost_q90") + 1
    about = ["family", "distribution", "estimator", "privacy", "epsilon", "delta", "rho", "n"]
    pd.testing.assert_frame_equal(table, table.sort_values(about).reset_index(drop=True))
    order = np.random.default_rng(0).permutation(len(MADE.cells)).tolist()
    other = _collected(order, "error")
    pd.testing.assert_frame_equal(other.summary, table)
    np.testing.assert_array_equal(
        np.concatenate(other.values["error"]), np.concatenate(results.values["error"])
    )
    assert other.failures == results.failures


def test_rows_hold_what_blocks_say_of_their_keys(results: Results) -> None:
    at = ["distribution", "estimator", "privacy", "epsilon", "rho", "n"]
    rows = {tuple(map(str, row)): i for i, row in enumerate(results.summary[at].to_numpy())}
    for index, cell in enumerate(MADE.cells):
        blocks = _blocks(index)
        for key, (member, _, one) in enumerate(cell.tasks(0)[0].keys):
            b = one.budget.columns
            row = rows[tuple(map(str, (member, one.label, *(b[x] for x in at[2:5]), cell.n)))]
            for name in ("error", "bias"):
                wanted = np.concatenate([block.values[name][key] for block in blocks])
                # Cut to the trials that are asked for, the last block is larger.
                np.testing.assert_array_equal(results.values[name][row], wanted[: cell.trials])
            said = results.summary.iloc[row]
            errors = results.values["error"][row]
            assert said["trials"] == cell.trials == len(errors)
            assert said["q90"] == np.quantile(errors, 0.9, method="inverted_cdf")
            assert said["clipping_q90"] == quantile(results.values["bias"][row], 0.9)
            # A block without widths counts as infinite; NaN where there are none at all.
            width = results.values["width"][row]
            assert np.isnan(width[200:]).all()
            assert said["width_q50"] == quantile(width, 0.5)
            assert np.isnan(results.values["core"][row]).all()
            assert np.isnan(said["core_fraction_q50"])
            upper = {"clip_upper1": 1, "clip_upper2": 2}.get(one.label, np.nan)
            assert said["upper"] == pytest.approx(upper, nan_ok=True)


@pytest.mark.parametrize("at_once", [1, 1000, 10**9])
def test_cells_together_are_summarised_as_each_alone(
    results: Results, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """To the last bit; and of what is kept of few rows, the others are empty."""
    monkeypatch.setattr(summary_table, "MAX_BATCH_ERRORS", at_once)
    kept = np.arange(len(MADE.keys)) % 3 == 0
    found = ((i, _blocks(i)) for i in range(len(MADE.cells)))
    other = collect(MADE.sweep, MADE.cells, found, {"error": kept})
    pd.testing.assert_frame_equal(other.summary, results.summary, check_exact=True)
    alone = pd.concat(
        pd.DataFrame(statistics({
            name: np.concatenate([b.values[name] for b in _blocks(i)], axis=1)[:, : cell.trials]
            for name in ERRORS
        })) for i, cell in enumerate(MADE.cells)
    )  # fmt: skip
    table = pd.concat([MADE.keys.assign(kept=kept), alone.reset_index(drop=True)], axis=1)
    table = table.sort_values(SORT_COLUMNS, kind="stable", ignore_index=True)
    errors = [name for name in alone if name not in METRICS or METRICS[name].of not in EXTRAS]
    pd.testing.assert_frame_equal(other.summary[errors], table[errors], check_exact=True)
    for row, wanted in enumerate(table["kept"]):
        assert len(other.values["error"][row]) == (table["trials"][row] if wanted else 0)
        if wanted:
            np.testing.assert_array_equal(other.values["error"][row], results.values["error"][row])


def test_failures_say_where_and_how_to_see_them_again(results: Results) -> None:
    assert len(results.failures) == len(MADE.cells)  # of one key, in the second block
    index = next(i for i, cell in enumerate(MADE.cells) if cell.family_label == "coin")
    cell = MADE.cells[index]
    setting = cell.settings[1]
    (found,) = (f for f in results.failures if f.text.endswith(f"RuntimeError: {index}"))
    assert found.text == (
        f"{setting.label} on coin at n = {cell.n}, {setting.budget}, block 1: RuntimeError: {index}"
    )
    assert found.rerun == failure_name("coin", cell.n, setting, 1)


# The worst.


def test_the_worst_case_is_taken_anew_in_every_replicate(results: Results) -> None:
    draws = np.random.default_rng(1).random((len(results.summary), 7))
    curves, worst = worst_case(results.summary, draws)
    at = [*CURVE, "n"]
    groups = results.summary.groupby(at, dropna=False)
    assert len(curves) == len(worst) == groups.ngroups < len(results.summary)
    for (_, rows), found, maxima in zip(groups, curves.to_dict("records"), worst, strict=True):
        assert [str(found[name]) for name in at] == [str(rows.iloc[0][name]) for name in at]
        np.testing.assert_array_equal(maxima, draws[rows.index].max(axis=0))


SIZES = [100, 1000, 10_000]
MANY = Made(
    families={"pair": {"kind": "two_point_family", "k": 2, "c": [1, 2, 3], "scaling": "local"}},
    n=SIZES, trials=81, estimators={"clip": {**CLIP, "upper": [1, 2]}},
)  # fmt: skip
MEMBER = [*CURVE, "distribution"]


@pytest.mark.parametrize(
    ("first", "worst"),
    [
        # By the geometric mean over n, where each is the largest somewhere.
        ([[9, 1, 1], [1, 5, 5], [4, 4, 1]], 2),
        ([[1, np.nan, 1], [9, 9, 9], [4, 4, 1]], 1),
        ([[0, 0, 1], [0, 9, 9], [1e-9, 1e-9, 1e-9]], 3),
        # A failure is not made up for by an error of zero elsewhere.
        ([[0, np.inf, 1], [2, 2, 2], [1, 1, 1]], 1),
    ],
)
def test_a_member_is_chosen_on_one_half_and_measured_on_the_other(
    first: list[list[float]], worst: int
) -> None:
    def halves(row: Any) -> list[float]:
        member, at = int(row.distribution[-1]), SIZES.index(row.n)
        return [first[member - 1][at]] * 41 + [7.0 * at + member] * 40

    results = MANY.results(halves, "error")
    kept = select_held_out(results, "q90", CURVE, MEMBER)
    assert set(kept.summary["distribution"]) == {f"pair/c={worst}"}
    assert len(kept.summary) == 2 * 3  # of every estimator and n
    for row, values in zip(kept.summary.to_dict("records"), kept.values["error"], strict=True):
        wanted = 7.0 * SIZES.index(row["n"]) + worst
        assert [row["q90"]] * 40 == values.tolist() == [wanted] * 40
    # Chosen among those that are there at every n.
    there = (results.summary["distribution"] != f"pair/c={worst}") | (results.summary["n"] != 100)
    kept = select_held_out(results.select(there), "q90", CURVE, MEMBER)
    assert f"pair/c={worst}" not in set(kept.summary["distribution"])


@pytest.mark.parametrize("column", ["miss_rate", "error_over_guarantee_q90"])
def test_a_row_is_chosen_on_one_half_under_each_budget(column: str) -> None:
    made = Made(budgets={"pure": {"kind": "pure_dp", "epsilon": [0.1, 1]}}, trials=81,
                estimators={"clip": {**CLIP, "upper": [1, 2]}})  # fmt: skip
    of = {"miss_rate": "missed", "error_over_guarantee_q90": "promise"}[column]

    def halves(row: Any) -> list[float]:
        worst = (row.n, row.upper) == ((100, 2) if row.epsilon == 1 else (1000, 1))
        return [0.75 if worst else 0.5] * 41 + [0.1 if worst else 1.0] * 40

    kept = select_held_out(made.results(halves, of), column, BUDGET, [*MEMBER, "n"])
    found = kept.summary.set_index("epsilon")
    assert found[["n", "upper"]].to_numpy().tolist() == [[1000, 1], [100, 2]]
    assert found[column].tolist() == pytest.approx([0.1, 0.1])
    assert [len(one) for one in kept.values[of]] == [40, 40]

    # A row that is not all known is chosen before others.
    def unknown(row: Any) -> Any:
        odd = (row.n, row.upper) == (100, 1)
        return np.where((np.arange(81) == 5) & odd, np.nan, halves(row))

    kept = select_held_out(made.results(unknown, of), column, BUDGET, [*MEMBER, "n"])
    assert kept.summary["trials"].tolist() == [40, 40]
    assert kept.summary[["n", "upper"]].to_numpy().tolist() == [[100, 1]] * 2


def test_a_root_mean_square_is_measured_as_one() -> None:
    """Not as the quantile of its errors: of 40 errors 3 and 4 in turn, the quantile is 4."""

    def halves(row: Any) -> list[float]:
        return [float(row.distribution[-1])] * 41 + [3.0, 4.0] * 20

    kept = select_held_out(MANY.results(halves, "error"), "rmse", CURVE, MEMBER)
    assert kept.summary["rmse"].tolist() == pytest.approx([np.sqrt(12.5)] * len(kept.summary))
