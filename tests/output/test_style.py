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

from dpbench.output.scales import share, ticks, uncover
from dpbench.output.style import (
    BOUND,
    GUIDE,
    THEORY,
    Width,
    legend,
    line_styles,
    number_text,
    panels,
    save,
    spaced,
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
        ticks(first, [2.0, 2.2, 20.0])
        legend(canvas)
        canvas.canvas.draw()
        written = [re.sub(r"\D", "", label.get_text()) for label in first.get_xticklabels()]
    np.testing.assert_array_equal(written, ["2", "", "20"])


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
    assert spaced("karwa_vadhan_anywhere") == "Karwa-Vadhan anywhere"
    assert spaced("coinpress_d2") == "CoinPress d2"
    assert spaced("explanation") == "explanation"


def test_axes_on_which_nothing_was_measured_can_be_drawn() -> None:
    """Every estimator failed: all is NaN, which has no place on a logarithmic axis."""
    with style():
        canvas, (ax,) = panels(1)
        ax.plot([10, 100], [np.nan, np.nan], label="failed")
        ax.set(xscale="log", yscale="log")
        ticks(ax, [10, 100])
        legend(canvas)
        canvas.canvas.draw()


def test_a_covered_curve_is_seen_on_both_sides_of_what_covers_it() -> None:
    """On paper, whatever the order: a bound that is reached, and marks that are not joined."""
    n = np.geomspace(10, 1e6, 6)
    with style():
        _, (ax, other) = panels(2)
        for factor, label in ((1.001, "reached"), (1.002, "alike"), (9.0, "far")):
            ax.plot(n, factor / n, label=label)
        ax.plot(n, 1 / n, label="bound", **BOUND)
        ax.plot(n, 1 / n, label="theory", **THEORY)
        ax.set(xscale="log", yscale="log")
        for place, label in ((1.0, "hidden"), (1.0, "shown"), (1.5, "between")):
            other.plot([place, place + 1], [2, 2], "o", label=label)
        widths: dict[str, float] = {}
        sizes: dict[str, float] = {}
        for panel in (ax, other):
            uncover(panel)
            widths |= {str(line.get_label()): line.get_linewidth() for line in panel.get_lines()}
            sizes |= {str(line.get_label()): line.get_markersize() for line in panel.get_lines()}
    assert widths["bound"] > widths["reached"] + 1 > widths["alike"] + 2
    assert widths["far"] == widths["alike"]
    assert widths["theory"] == THEORY["linewidth"] < widths["alike"]
    assert sizes["hidden"] > sizes["shown"] + 1 == sizes["between"] + 1


def test_three_formats_by_default(three_formats: None, tmp_path: Path) -> None:
    """The other tests' runs draw one of them."""
    found = save(_figure(1.0), tmp_path, "empty")
    assert [path.suffix for path in found] == [".pdf", ".svg", ".png"]
    assert sorted(found) == sorted(tmp_path.iterdir())


def test_panels_of_one_quantity_share_a_scale() -> None:
    with style():
        canvas, axes = panels(4)
        for i, ax in enumerate(axes):
            ax.plot([1, 10], [10.0 ** -(i + 1), 1e-2], label="one")
            ax.set(xscale="log", yscale="log", ylabel="other" if i == 3 else "error")
        share(axes)
        legend(canvas)
    limits = [ax.get_ylim() for ax in axes]
    assert limits[0] == limits[1] == limits[2] != limits[3]
    assert limits[0][0] < 1e-3
    assert limits[0][1] > 1e-1
    assert [ax.yaxis.get_tick_params()["labelleft"] for ax in axes] == [True, False, True, True]
    with style():
        for ax in axes:
            ticks(ax, [])
            for axis in (ax.xaxis, ax.yaxis):
                assert len(axis.get_minorticklocs()) >= 7
                assert set(axis.get_minor_formatter().format_ticks([2, 3])) == {""}


@pytest.mark.parametrize("font", ["sans", "serif"])
def test_numbers_of_all_sizes_are_written_alike(font: Any, tmp_path: Path) -> None:
    """True minus signs, thin spaces, no 1e+05; in both fonts, of which a file holds a copy."""
    written = [number_text(x) for x in (8.5e-4, 0.001, 0.25, 1, 1234, 12345, 1e5, -3e-7)]
    assert written[:5] == [r"8.5 \times 10^{-4}", "0.001", "0.25", "1", "1234"]
    assert written[5:] == [r"1.23 \times 10^{4}", "10^{5}", r"-3 \times 10^{-7}"]
    with style("column", font):
        canvas, (ax, other) = panels(2)
        ax.plot([0, 1], [-60000, 20000], label="a \N{MINUS SIGN}\N{THIN SPACE}b")
        other.plot([0, 1], [-6e9, 2e9])
        share([ax, other])
        (path,) = save(canvas, tmp_path, font, ["pdf"])
        labels = ax.yaxis.get_major_formatter().format_ticks([-60000.0, 2000.0, 20000.0])
        offset = other.yaxis.get_offset_text().get_text()
    numbers = ["\N{MINUS SIGN}60\\,000", "2000", "20\\,000"]
    assert labels == [rf"$\mathdefault{{{one}}}$" for one in numbers]
    assert "e" not in offset.replace("times", "").replace("mathdefault", "")
    text = path.read_bytes()
    assert (b"/FontFile2" in text, b"/Type3" in text) == (True, False)
    assert (b"STIX" in text) == (font == "serif")
