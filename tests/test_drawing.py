"""How figures look: whatever was drawn before, and on whose axes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from dpbench.drawing import (
    GUIDE,
    THEORY,
    divided,
    legend,
    line_styles,
    panels,
    save,
    style,
    ticks,
    two_rows,
)


def _draw(width: Literal["page", "column"], folder: Path, *kinds: str) -> dict[str, bytes]:
    with style(width):
        canvas, axes = panels(2)
        for ax, look in zip(axes, line_styles("ab").values(), strict=True):
            ax.plot([1, 10, 1000], [1, 2, 3], label="line", **look)
            ax.set(xscale="log", yscale="log", xlabel="$n$", ylabel="error", title="title")
            ticks(ax, [1, 10, 1000])
        legend(canvas)
        return {
            path.suffix: path.read_bytes()
            for path in save(canvas, folder, width, kinds or ("pdf", "svg", "png"))
        }


def test_bytes_do_not_depend_on_what_was_drawn_before(tmp_path: Path) -> None:
    page, column = (_draw(width, tmp_path / "first") for width in ("page", "column"))
    assert page.keys() == {".pdf", ".svg", ".png"}
    assert page[".png"] != column[".png"]
    with mpl.rc_context({"lines.linewidth": 9, "axes.labelpad": 30, "figure.figsize": (1, 1)}):
        assert _draw("page", tmp_path / "again") == page
        assert _draw("column", tmp_path / "again") == column


def _settings() -> dict[str, Any]:
    return {key: mpl.rcParams[key] for key in mpl.rcParams if key != "backend"}


def test_a_callers_settings_stay(tmp_path: Path) -> None:
    with mpl.rc_context({"lines.linewidth": 9, "font.family": "serif"}):
        before, blue, figures = _settings(), to_rgb("b"), plt.get_fignums()
        with pytest.raises(KeyError), style("column"):
            raise KeyError(mpl.rcParams["lines.linewidth"])
        _draw("page", tmp_path, "png")
        assert _settings() == before
        assert to_rgb("b") == blue
        assert plt.get_fignums() == figures


@pytest.mark.parametrize("name", ["agg", "svg"])
def test_a_callers_backend_stays(name: str, tmp_path: Path) -> None:
    before = mpl.get_backend()
    mpl.use(name)
    try:
        _draw("page", tmp_path, "png")
        assert mpl.get_backend() == name
    finally:
        mpl.use(before)


def test_line_styles_do_not_depend_on_the_order() -> None:
    assert line_styles(["b", "a", "c"]) == line_styles(["c", "b", "a", "a"])
    assert len({str(look) for look in line_styles("abcdef").values()}) == 6


def _figure(width: float, **more: Any) -> Figure:
    figure = Figure((width, 4.0), **more)
    FigureCanvasAgg(figure)
    return figure


def _boxes(axes: list[Axes]) -> list[Any]:
    axes[0].figure.canvas.draw()
    return [ax.get_window_extent() for ax in axes]


# A page, half of one, and less than a panel is wide.
@pytest.mark.parametrize("width", [7.0, 3.4, 1.2])
@pytest.mark.parametrize("count", range(1, 8))
def test_a_callers_axes_are_divided(count: int, width: float) -> None:
    ax = _figure(width).add_axes((0.0, 0.0, 1.0, 1.0))
    found = divided(ax, count)
    assert len(found) == count
    assert (found == [ax]) == ax.axison == (count == 1)
    whole, boxes = ax.get_window_extent(), _boxes(found)
    for box in boxes:
        assert whole.x0 - 1 <= box.x0 < box.x1 <= whole.x1 + 1
        assert whole.y0 - 1 <= box.y0 < box.y1 <= whole.y1 + 1
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    # Row by row from the top, as many beside each other as a canvas of that width has.
    order = [(-round(box.y0), round(box.x0)) for box in boxes]
    assert order == sorted(order)
    with style(), mpl.rc_context({"figure.figsize": (width, 3)}):
        canvas, _ = panels(count)
        columns = canvas.axes[0].get_gridspec().ncols  # type: ignore[union-attr]
    assert len({left for _, left in order}) == min(columns, count)


def test_two_rows_on_a_callers_axes() -> None:
    ax = _figure(7.0).add_subplot()
    canvas, above, below = two_rows(2, on=ax)
    assert canvas is ax.figure
    above[1].set_xlim(3, 4)
    assert below[1].get_xlim() == (3, 4)
    assert below[0].get_xlim() != (3, 4)
    top, _, bottom, _ = _boxes([*above, *below])
    assert top.height == pytest.approx(2 * bottom.height)
    assert [one.xaxis.get_tick_params()["labelbottom"] for one in above] == [False, False]


@pytest.mark.parametrize("layout", [None, "constrained"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_legend_of_a_callers_axes(count: int, layout: Any) -> None:
    figure = _figure(7.0, layout=layout)
    other, ax = figure.subplots(1, 2)
    other.plot([1, 2], label="not mine")
    canvas, axes = panels(count, on=ax)
    assert canvas is figure
    for i, panel in enumerate(axes):
        panel.plot([1, 2], label="theory", **THEORY)
        panel.plot([1, 2], label="term", **GUIDE)
        panel.plot([1, 2], label="n = 10", color="blue")
        panel.plot([1, 2], label=f"n = {i + 2}", color="red")
        panel.set(xlabel="x", ylabel="error", title="a long title in front of a comma, and more")
    legend(canvas, on=ax)
    figure.canvas.draw()
    assert not figure.legends
    assert other.get_legend() is None
    shown = ax.get_legend()
    assert shown is not None
    numbers = [f"n = {i}" for i in (*range(2, 2 + count), 10)]
    assert [text.get_text() for text in shown.get_texts()] == [*numbers, "term", "theory"]
    mine = ax.child_axes or [ax]
    labels = [panel.xaxis.label.get_window_extent().y0 for panel in mine]
    assert shown.get_window_extent().y1 <= min(labels) + 1
    assert figure.get_figheight() == 4.0
    said = [panel.yaxis.label.get_visible() for panel in mine]
    assert said == {1: [True], 3: [True, True, True]}[count]  # one below the other
    if layout is not None:  # all of it is on the page
        assert shown.get_window_extent().y0 >= 0


def test_an_empty_legend_and_few_numbers_are_no_error() -> None:
    with style():
        canvas, axes = panels(3)
        first = next(axes)
        first.plot([2.0, 2.2, 20.0], [2.0, 2.2, 20.0], label="_none")
        first.set(xscale="log", yscale="log", xlim=(1, 30), ylim=(1, 30))
        ticks(first, [2.0, 2.2, 20.0])
        legend(canvas)
        canvas.canvas.draw()
        written = [re.sub(r"\D", "", label.get_text()) for label in first.get_xticklabels()]
    np.testing.assert_array_equal(written, ["2", "", "20"])


def test_axes_on_which_nothing_was_measured_can_be_drawn() -> None:
    """Every estimator failed: all is NaN, which has no place on a logarithmic axis."""
    with style():
        canvas, axes = panels(1)
        ax = next(axes)
        ax.plot([10, 100], [np.nan, np.nan], label="failed")
        ax.set(xscale="log", yscale="log")
        ticks(ax, [10, 100])
        legend(canvas)
        canvas.canvas.draw()
