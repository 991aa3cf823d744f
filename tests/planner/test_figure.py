"""A plan's figure on a caller's axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import dpbench
from dpbench.output.names import Width
from dpbench.planner import figure
from dpbench.report.drawing.style import GUIDE, line_styles


def test_a_plan_draws_on_given_axes() -> None:
    made = dpbench.plan(n=500, epsilon=1, k=3, scale=1, lower=0, upper=1)
    ax = Figure().gca()
    assert made.plot(ax, "width") is ax
    assert [line.get_label() for line in ax.lines][:2] == ["0.9 quantile of the error", "sampling"]


@pytest.mark.parametrize(("width", "inches"), [("page", 7.0), ("column", 3.4)])
def test_the_figure_has_the_style_of_all_figures(
    width: Width, inches: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = dpbench.plan(n=500, epsilon=1, law="log_normal", lower=0, upper=30)
    canvases = []
    monkeypatch.setattr(figure, "save", lambda canvas, *_: canvases.append(canvas))
    figure.write(made.problem, made.n, made.budget, made.clip, tmp_path, width)
    (canvas,) = canvases
    assert canvas.get_figwidth() == inches
    styles = line_styles(figure.PARTS.values())
    for ax, planned in zip(canvas.axes, (500, np.diff(made.clip)[0]), strict=True):
        *curves, mark = ax.lines
        assert {str(line.get_label()) for line in curves} == set(figure.PARTS.values())
        assert all(line.get_color() == styles[line.get_label()]["color"] for line in curves)
        assert (mark.get_color(), mark.get_xdata()[0]) == (GUIDE["color"], planned)
    assert [text.get_text() for text in canvas.legends[0].get_texts()][-1] == "this plan"
    left, right = canvas.axes
    assert left.get_ylim() == right.get_ylim()


def test_a_part_that_is_zero_everywhere_has_no_entry_in_the_legend() -> None:
    ax = dpbench.plan(n=500, epsilon=1, lower=0, upper=1).plot(Figure().gca())
    assert "bias of the clip" not in ax.get_legend_handles_labels()[1]
