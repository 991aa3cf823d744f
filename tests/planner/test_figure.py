"""A plan's figure on a caller's axes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from matplotlib.figure import Figure

import dpbench
from dpbench.arrays import Floats
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


def drawn(question: Mapping[str, object], against: Literal["n", "width"]) -> dict[str, Floats]:
    """The lines of a plan's figure, by label, as rows (x, y)."""
    made = dpbench.plan(n=500, epsilon=1, **question)
    ax = made.plot(Figure().gca(), against)
    return {str(one.get_label()): np.array(one.get_data(), dtype=float).T for one in ax.get_lines()}


def test_the_points_are_errors_at_the_best_clip_of_each_n() -> None:
    known = {"k": 3, "scale": 3, "lower": -1, "upper": 3}
    lines = drawn(known, "n")
    assert len(lines["sampling"]) == 7
    for i, n in enumerate(lines["sampling"][:, 0].astype(int)):
        other = dpbench.plan(n=int(n), epsilon=1, **known)
        error = other.error(*other.problem.best_clip(int(n), other.budget))
        for name, part in figure.PARTS.items():
            assert lines[part][i] == pytest.approx((n, abs(getattr(error, name)))), name
    assert lines["sampling"][[0, -1], 0].tolist() == [500 // 30, 500 * 30]


def test_the_points_are_errors_at_clips_of_each_width() -> None:
    """Of a class of moments around the middle 1 of its bounds; too narrow a clip has no error."""
    known = {"k": 2, "scale": 3, "lower": -1, "upper": 3}
    lines = drawn(known, "width")
    made = dpbench.plan(n=500, epsilon=1, **known)
    width, q90 = lines[figure.PARTS["q90"]].T
    planned = made.clip[1] - made.clip[0]
    assert (width.min(), width.max()) == pytest.approx((planned / 20, 20 * planned))
    for x, y in zip(width, q90, strict=True):
        error = made.error(1 - x / 2, 1 + x / 2)
        assert y == pytest.approx(error.q90) if np.isfinite(error.q90) else np.isnan(y)
    assert np.isnan(q90).any()
