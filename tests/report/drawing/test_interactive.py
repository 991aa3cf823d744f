"""Descriptions of finished figures, by figures whose data are known."""

# ruff: noqa: RUF001 (symbols, as they are printed)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.transforms import offset_copy

from dpbench.report.drawing.axes import share_axes
from dpbench.report.drawing.curves import draw_bound, draw_curve, draw_guide, mark_guide
from dpbench.report.drawing.interactive import describe
from dpbench.report.drawing.style import (
    THEORY,
    Axes,
    Canvas,
    legend,
    line_styles,
    panels,
    save,
    style,
)

N = np.array([100.0, 1000.0, 1e4, 1e5])
LOOKS = line_styles(["$T$ clip", "rate"])


def described(draw: Any, count: int = 1) -> dict[str, Any]:
    """The description of a figure that a function draws on axes, as it stands in the file."""
    with style():
        canvas, axes = panels(count)
        for ax in axes:
            draw(ax)
        share_axes(axes)
        legend(canvas)
        canvas.canvas.draw()
        found = describe(canvas)
    assert found is not None
    return dict(json.loads(json.dumps(found, allow_nan=False)))


def lines(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    (panel,) = found["panels"]
    return [line for line in panel["lines"] if line["name"] == name]


def draw_errors(ax: Axes) -> None:
    y = np.array([0.1, np.inf, 0.001, 0.0])
    low, high = y / 2, np.array([0.2, np.inf, np.nan, 1.0])
    draw_curve(ax, N, y, low, high, label="$T$ clip", look=LOOKS["$T$ clip"])
    draw_bound(ax, N, 1 / N, label="lower bound")
    ax.fill_between(N, 1 / N, 1e-9, color="black", alpha=0.08, linewidth=0)
    mark_guide(ax.axvline(3000, label="crossing", color="0.7"))
    ax.set(xscale="log", yscale="log", xlabel="$n$", ylabel=r"error at $\alpha$", title="$k = 2$")
    ax.set(ylim=(1e-6, 1))


def test_numbers_of_a_curve_and_of_its_intervals() -> None:
    """Infinite and missing values are gaps, and a value of 0 stays 0."""
    found = described(draw_errors)
    assert found["legend"] == ["T clip", "crossing", "lower bound"]
    (curve,) = lines(found, "T clip")
    assert (curve["role"], curve["marker"]) == ("curve", LOOKS["$T$ clip"]["marker"])
    assert curve["x"] == [100, 1000, 10000, 100000]
    assert curve["y"] == [0.1, None, 0.001, 0]
    assert curve["low"] == [0.05, None, None, 0]
    assert curve["high"] == [0.2, None, None, 1]
    (bound,) = lines(found, "lower bound")
    assert (bound["role"], bound["y"], "low" in bound) == ("bound", [0.01, 0.001, 1e-4, 1e-5], 0)
    (crossing,) = lines(found, "crossing")
    assert (crossing["role"], crossing["at_x"]) == ("guide", 3000)
    (panel,) = found["panels"]
    (area,) = panel["areas"]
    assert (area["high"], area["opacity"]) == (bound["y"], 0.08)
    assert panel["title"] == "k = 2"


def test_axes_have_the_ticks_of_the_still_figure() -> None:
    (panel,) = described(draw_errors)["panels"]
    x, y = panel["x"], panel["y"]
    assert (x["label"], x["scale"], y["label"], y["limits"]) == (
        "n",
        "log",
        "error at α",
        [1e-6, 1],
    )
    assert [100, "10²"] in x["ticks"]
    assert [1e-6, "10⁻⁶"] in y["ticks"]
    low, high = x["limits"]
    assert all(low <= place <= high for place, _ in x["ticks"])
    assert "names" not in x


def test_panels_stand_as_they_do_in_the_still_figure() -> None:
    found = described(draw_errors, 3)
    assert (found["columns"], len(found["panels"])) == (3, 3)
    assert [panel["y"]["label"] for panel in found["panels"]] == 3 * ["error at α"]
    assert len({str(panel["y"]["ticks"]) for panel in found["panels"]}) == 1


def test_values_beyond_the_frame_are_outside_of_the_limits() -> None:
    def draw(ax: Axes) -> None:
        y = np.array([0.1, 1.0, 5e9, 1e11])  # the last ones cut off by the caller
        draw_curve(ax, N, y, y / 2, 2 * y, label="rate", look=LOOKS["rate"])
        draw_bound(ax, N, [1, np.inf, 2, 3], label="bound")
        ax.set(xscale="log", yscale="log", ylim=(0.01, 1e9))

    found = described(draw)
    low, high = found["panels"][0]["y"]["limits"]
    (curve,) = lines(found, "rate")
    assert [low <= value <= high for value in curve["y"]] == [True, True, False, False]
    assert lines(found, "bound")[0]["y"] == [1, None, 2, 3]


def test_error_bars_and_points_side_by_side() -> None:
    """A point without an interval has none, and shifted points keep their positions."""

    def draw(ax: Axes) -> None:
        for i, shift in enumerate((-6.0, 6.0)):
            moved = offset_copy(ax.transData, ax.figure.figure, x=shift, units="points")
            look = LOOKS["rate"] | {"linestyle": "none", "transform": moved}
            ends = [2.5, np.nan], [4.0, np.nan]
            draw_curve(ax, [2, 3], [3, 5], *ends, label=f"a{i}", look=look, intervals="bars")
        ax.axhspan(-1, 1, color="black", alpha=0.1)
        mark_guide(ax.axhline(0, **THEORY))
        draw_guide(ax, [2, 3], [3, 3], label="theory", look=THEORY)

    found = described(draw)
    for i, shift in enumerate((-6, 6)):
        (curve,) = lines(found, f"a{i}")
        assert (curve["x"], curve["y"], curve["shift"]) == ([2, 3], [3, 5], [shift, 0])
        assert (curve["low"], curve["high"], curve["bars"]) == ([2.5, None], [4, None], True)
        assert curve["width"] == 0
    (level,) = lines(found, "")
    assert (level["at_y"], level["dashes"]) == (0, [1.1, 3.3])
    assert found["panels"][0]["spans"] == [{"y": [-1, 1], "color": "#000000", "opacity": 0.1}]
    assert found["legend"] == ["a0", "a1", "theory"]


def test_positions_that_ticks_name() -> None:
    """An axis may show logarithms or categories by other texts."""

    def draw(ax: Axes) -> None:
        draw_curve(ax, [0, 1.5], [0, 1], label="rate", look=LOOKS["rate"])
        ax.xaxis.set_major_formatter(lambda x, _: f"$10^{{{x:g}}}$")
        ax.set_yticks([0, 1], ["pure", "approx"])

    (panel,) = described(draw)["panels"]
    assert panel["x"]["names"] == [[0, "10⁰"], [1.5, "10^(1.5)"]]
    assert panel["y"]["names"] == [[0, "pure"], [1, "approx"]]


def test_texts_and_steps() -> None:
    def draw(ax: Axes) -> None:
        look = LOOKS["rate"] | {"drawstyle": "steps-post", "markevery": slice(1, -1)}
        draw_curve(ax, N, N, label="rate", look=look)
        ax.annotate(r"$\mu$", (0.25, 1), xycoords="axes fraction", ha="center", va="bottom")

    (panel,) = described(draw)["panels"]
    (line,), (text,) = panel["lines"], panel["texts"]
    assert (line["steps"], line["every"]) == ("step-after", [1, 1])
    assert (text["text"], text["align"], text["baseline"]) == ("μ", "center", "bottom")
    assert (text["x"], text["y"]) == (pytest.approx(0.25, abs=0.01), pytest.approx(1, abs=0.01))


def no_curve(ax: Axes) -> None:
    ax.plot(N, N)


def heat_map(ax: Axes) -> None:
    draw_curve(ax, N, N, label="rate", look=LOOKS["rate"])
    ax.pcolormesh(np.eye(3))


def other_scale(ax: Axes) -> None:
    draw_curve(ax, N, N, label="rate", look=LOOKS["rate"])
    ax.set_yscale("symlog")


def inset(ax: Axes) -> None:
    draw_curve(ax, N, N, label="rate", look=LOOKS["rate"])
    ax.inset_axes((0.5, 0.5, 0.4, 0.4))


def line_across(ax: Axes) -> None:
    draw_curve(ax, N, N, label="rate", look=LOOKS["rate"])
    ax.plot([0, 1], [0, 1], transform=ax.transAxes)


@pytest.mark.parametrize("draw", [no_curve, heat_map, other_scale, inset, line_across])
def test_no_description_is_better_than_half_of_one(draw: Any, tmp_path: Path) -> None:
    with style():
        canvas, (ax,) = panels(1)
        draw(ax)
        assert save(canvas, tmp_path, "figure", ["json"]) == []
    assert list(tmp_path.iterdir()) == []


def test_equal_figures_have_equal_files(tmp_path: Path) -> None:
    def figure() -> Canvas:
        canvas, (ax,) = panels(1)
        draw_errors(ax)
        return canvas

    with style():
        first, second = (save(figure(), tmp_path, name, ["json"])[0] for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes()) < 2500
