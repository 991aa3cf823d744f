"""Panels of a figure: rows and columns, and at most six curves by default."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dpbench.report.drawing.interactive import shown_by
from dpbench.report.drawing.style import FREE
from dpbench.report.panel_split import MAX_CURVES, PanelRows, _share_out
from dpbench.report.run_result import Result
from tests.report.conftest import curves, drawn
from tests.report.specs import ERROR

SPEC: dict[str, Any] = {
    **ERROR, "metric": "mean_error", "estimators": {"naive": {}, "mean": {}},
    "budgets": {"pure": {}},
}  # fmt: skip
HALF, ONE = (rf"pure DP, $\varepsilon = {epsilon}$" for epsilon in (0.5, 1))


@pytest.mark.parametrize(("private", "free"), [(12, 0), (12, 2), (7, 5), (2, 9), (0, 8)])
def test_curves_are_shared_out_and_free_ones_are_in_every_panel(private: int, free: int) -> None:
    lines = [f"private {i}" for i in range(private)], [f"free {i}" for i in range(free)]
    rows = pd.DataFrame(
        {"line": [*lines[0], *lines[1]], "privacy": private * ["pure"] + free * ["none"]}
    )
    panels = [set(part.rows["line"]) for part in _share_out(PanelRows("", rows))]
    assert all(panel >= set(lines[1]) for panel in panels)
    paid = [panel - set(lines[1]) for panel in panels]
    assert sorted(line for one in paid for line in one) == sorted(lines[0])
    assert max(map(len, panels)) <= max(MAX_CURVES, free + MAX_CURVES // 2)


def test_rows_and_columns_make_a_grid(numbers: Result) -> None:
    axes = drawn(numbers, {**SPEC, "rows": "budget", "columns": "family"})
    titles = [f"{law}, {budget}" for budget in (HALF, ONE) for law in ("Gaussian", "student")]
    assert [ax.get_title() for ax in axes] == titles
    grid = axes[0].get_subplotspec().get_gridspec()  # type: ignore[union-attr]
    assert (grid.nrows, grid.ncols) == (2, 2)
    assert len({ax.get_ylim() for ax in axes}) == 1
    for ax in axes:
        assert list(curves(ax)) == ["mean, without privacy", "naive, $R = 10$", "naive, $R = 1000$"]
    tall = drawn(numbers, {**SPEC, "rows": "budget"})
    assert tall[0].get_subplotspec().get_gridspec().ncols == 1  # type: ignore[union-attr]


def test_a_parameter_of_estimators_is_in_no_legend_beside_its_panels(numbers: Result) -> None:
    spec = {**SPEC, "families": "gaussian", "budgets": {"pure": {"epsilon": 1}}}
    axes = drawn(numbers, {**spec, "columns": "radius"})
    assert [ax.get_title() for ax in axes] == ["$R = 10$", "$R = 1000$"]
    assert all(set(curves(ax)) == {"mean, without privacy", "naive"} for ax in axes)
    (ax,) = drawn(numbers, {**spec, "columns": "k"})
    (free,) = [line for line in ax.get_lines() if line.get_color() == FREE]
    assert free.get_label() == "mean, without privacy"


def test_no_panel_has_more_than_six_curves_by_default(numbers: Result) -> None:
    everything = {**SPEC, "estimators": None}
    axes = drawn(numbers, everything)
    assert len(axes) > 4
    assert max(len(curves(ax)) for ax in axes) <= MAX_CURVES
    shown = {(ax.get_title(), label) for ax in axes for label in curves(ax)}
    for title in {title for title, _ in shown}:  # none is lost
        assert len({label for other, label in shown if other == title}) == 9
    widths = {line.get_linewidth() for ax in axes for line in ax.get_lines() if shown_by(line)}
    assert len(widths) == 1


def test_what_makes_no_fewer_curves_splits_no_figure(numbers: Result) -> None:
    """With one family and one budget, panels have nothing to say in their titles."""
    one = {"families": "gaussian", "budgets": {"pure": {"epsilon": 1}}}
    axes = drawn(numbers, {**SPEC, **one, "estimators": None})
    assert len(axes) > 1
    assert [ax.get_title() for ax in axes] == [""] * len(axes)


@pytest.mark.parametrize("panel", [0, 3])
def test_a_panel_alone_is_that_of_the_grid(numbers: Result, panel: int) -> None:
    import matplotlib.pyplot as plt

    spec = {**SPEC, "rows": "budget", "columns": "family"}
    figure, ax = plt.subplots()
    numbers.plot(spec, ax, panel=panel)
    assert curves(ax) == curves(drawn(numbers, spec)[panel])
    plt.close(figure)
