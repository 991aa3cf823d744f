"""How figures look: whatever was drawn before, and on whose axes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from dpbench.output.names import Width, display_name
from dpbench.report.drawing.axes import set_horizontal_ticks
from dpbench.report.drawing.style import (
    GUIDE,
    PRINT,
    THEORY,
    legend,
    line_styles,
    panels,
    save,
    style,
)


def test_a_callers_settings_stay() -> None:
    with mpl.rc_context({"lines.linewidth": 9, "font.family": "serif"}):
        before, blue = dict(mpl.rcParams), to_rgb("b")
        with pytest.raises(KeyError), style("column"):
            raise KeyError(mpl.rcParams["lines.linewidth"])
        assert (dict(mpl.rcParams), to_rgb("b")) == (before, blue)


def test_line_styles_do_not_depend_on_the_order() -> None:
    assert line_styles(["b", "a", "c"]) == line_styles(["c", "b", "a", "a"])
    assert len({str(look) for look in line_styles("abcdef").values()}) == 6


def _figure(width: float, **more: Any) -> Figure:
    figure = Figure((width, 4.0), **more)
    FigureCanvasAgg(figure)
    return figure


# On a page, half of one, and less than a panel is wide.
@pytest.mark.parametrize(("count", "width"), [(1, 7.0), (7, 7.0), (5, 3.4), (3, 1.2)])
def test_a_callers_axes_are_divided(count: int, width: float) -> None:
    ax = _figure(width).add_axes((0.0, 0.0, 1.0, 1.0))
    _, found = panels(count, ax)
    assert len(found) == len(ax.child_axes or [ax]) == count
    assert (found == [ax]) == ax.axison == (count == 1)
    ax.figure.canvas.draw()
    whole, boxes = ax.get_window_extent(), [one.get_window_extent() for one in found]
    for box in boxes:
        assert whole.x0 - 1 <= box.x0 < box.x1 <= whole.x1 + 1
        assert whole.y0 - 1 <= box.y0 < box.y1 <= whole.y1 + 1
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    order = [(-round(box.y0), round(box.x0)) for box in boxes]
    assert order == sorted(order)  # row by row from the top
    assert len({left for _, left in order}) == min(
        count, 3 if width == 7 else int(width / 1.6) or 1
    )


def test_two_rows_on_a_callers_axes_share_what_is_across() -> None:
    _, (*above, left, right) = panels(4, _figure(7.0).add_subplot(), ratios=(2, 1))
    above[1].set_xlim(3, 4)
    assert right.get_xlim() == (3, 4) != left.get_xlim()
    left.figure.canvas.draw()
    heights = [one.get_window_extent().height for one in (above[0], left)]
    assert heights[0] == pytest.approx(2 * heights[1])
    assert [one.xaxis.get_tick_params()["labelbottom"] for one in above] == [False, False]


@pytest.mark.parametrize(("count", "layout"), [(1, None), (3, "constrained")])
def test_a_legend_of_a_callers_axes(count: int, layout: Any) -> None:
    figure = _figure(7.0, layout=layout)
    other, ax = figure.subplots(1, 2)
    other.plot([1, 2], label="not mine")
    canvas, axes = panels(count, on=ax)
    for i, panel in enumerate(axes):
        panel.plot([1, 2], label="theory", **THEORY)
        panel.plot([1, 2], label="term", **GUIDE)
        panel.plot([1, 2], label="n = 10", color="blue")
        panel.plot([1, 2], label=f"n = {i + 2}", color="red")
        panel.set(xlabel="x", ylabel="error")
    legend(canvas, on=ax)
    figure.canvas.draw()
    shown = ax.get_legend()
    assert shown is not None
    assert (canvas, figure.legends, other.get_legend()) == (figure, [], None)
    numbers = [f"n = {i}" for i in (*range(2, 2 + count), 10)]
    assert [text.get_text() for text in shown.get_texts()] == [*numbers, "term", "theory"]
    labels = [panel.xaxis.label.get_window_extent().y0 for panel in axes]
    assert shown.get_window_extent().y1 <= min(labels) + 1
    assert figure.get_figheight() == 4.0
    if layout is not None:  # all of it is on the page
        assert shown.get_window_extent().y0 >= 0


def test_an_empty_legend_and_few_numbers_are_no_error() -> None:
    with style():
        canvas, (first, *_) = panels(3)
        first.plot([2.0, 2.2, 20.0], [2.0, 2.2, 20.0], label="_none")
        first.set(xscale="log", yscale="log", xlim=(1, 30), ylim=(1, 30))
        set_horizontal_ticks(first, [2.0, 2.2, 20.0])
        legend(canvas)
        canvas.canvas.draw()
        written = [re.sub(r"\D", "", label.get_text()) for label in first.get_xticklabels()]
    np.testing.assert_array_equal(written, ["2", "", "20"])


def test_a_grid_keeps_its_rows_at_the_width_of_a_column() -> None:
    with style("column"):
        canvas, axes = panels(6, across=3)
        canvas.draw_without_rendering()
    heights = [round(ax.get_position().y0, 6) for ax in axes]
    assert heights == [heights[0]] * 3 + [heights[3]] * 3
    assert heights[0] > heights[3]


def test_titles_fit_their_panels() -> None:
    """In smaller letters, or in two lines where these would be too small."""
    title = r"approximate DP, $\varepsilon = 1$, $\delta = 10^{-6}$"
    cases: list[tuple[int, Width]] = [(1, "page"), (3, "page"), (2, "column")]
    found = []
    for count, width in cases:
        with style(width):
            canvas, axes = panels(count)
            axes[0].set_title(title)
            legend(canvas)
        found.append((axes[0].get_title().count("\n"), float(axes[0].title.get_fontsize())))
    assert found == [(0, 9), (0, pytest.approx(8.3, abs=0.5)), (1, 8)]


def test_a_long_title_breaks_where_both_lines_fit() -> None:
    """Not at its last comma, which left the rest outside the figure."""
    with style("column"):
        canvas, axes = panels(2)
        axes[1].set_title(r"approximate DP, analytic, $\varepsilon = 1$, $\delta = 10^{-6}$")
        legend(canvas)
        canvas.canvas.draw()
        title, panel = axes[1].title.get_window_extent(), axes[1].get_window_extent()
    assert title.width <= panel.width * 1.001


def test_names_in_print() -> None:
    assert display_name("karwa_vadhan_anywhere") == "Karwa-Vadhan anywhere"
    assert display_name("coinpress_d2") == "CoinPress d2"
    assert display_name("explanation") == "explanation"


def test_formats_for_print(tmp_path: Path) -> None:
    """A figure without curves has no numbers to write."""
    found = save(_figure(1.0), tmp_path, "empty", PRINT)
    assert [path.suffix for path in found] == [".pdf", ".svg", ".png"]
    assert sorted(found) == sorted(tmp_path.iterdir())
