"""Curves of figures: measured values with intervals, lower bounds, and lines of theory.

A line that is drawn here carries a `Curve` of `dpbench.report.drawing.interactive`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbench.report.drawing.interactive import Curve, mark, shown_by
from dpbench.report.drawing.style import BAND, BOUND, NOTE, Axes, is_beside

__all__ = ["draw_bound", "draw_curve", "draw_guide", "draw_outside", "label_ends", "mark_guide"]

MAX_MARKERS = 15  # markers on a curve
BAR_WIDTH = 1.0  # points
MIN_NAMED_WIDTH = 1.3  # inches, least width of a panel in a row with names beside it
NAME_SPACE = 0.08  # width between a panel and the names of its lines, as a share of the panel
LINE_SPACING = 1.5  # height of a line of text, with the space below it, over the size of the type


def draw_curve(
    ax: Axes,
    x: ArrayLike,
    y: ArrayLike,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    *,
    label: str,
    look: dict[str, Any],
    intervals: Literal["band", "bars"] = "band",
) -> None:
    """Draw measured values as a curve or as points, with their intervals.

    The positions `x`, the values `y` and the ends of the intervals have one entry a point. A NaN or
    an infinite value leaves a gap. A NaN as an end draws no interval. Intervals are an area, or an
    error bar for each point. The look comes from `dpbench.report.drawing.style.line_styles`, and
    may have further properties of a line. Hollow markers lie above filled ones.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    y = np.where(np.isfinite(y), y, np.nan)
    step = max(1, -(-len(x) // MAX_MARKERS))
    drawn = sum(one.role == "curve" for line in ax.lines if (one := shown_by(line)))
    # The markers of curves with many points stand at different places, if curves coincide.
    more: dict[str, Any] = {"markevery": (drawn % step, step)} | look
    more = {"zorder": 2.1 if look.get("markerfacecolor") == "none" else 2.0} | more
    ends = None if low is None or high is None else np.array([low, high], float)
    band, bars = None, ends is not None and intervals == "bars"
    if ends is not None and bars:
        lengths = np.abs(ends - y)
        lengths[np.isnan(lengths)] = 0
        line, _, (band,) = ax.errorbar(
            x, y, yerr=lengths, label=label, elinewidth=BAR_WIDTH, **more
        )
    else:
        (line,) = ax.plot(x, y, label=label, **more)
        if ends is not None and not np.all(np.isnan(ends)):  # an empty area would give a range
            band = ax.fill_between(x, *ends, color=look["color"], **BAND)
    mark(line, Curve("curve", ends if band else None, band, bars))


def draw_outside(
    ax: Axes, x: ArrayLike, *, label: str, look: dict[str, Any], above: bool = False
) -> None:
    """Mark points that lie below the frame, or `above` it, by triangles at its edge.

    All series share the label in the legend. The triangles have the colour of the series.
    """
    x = np.asarray(x, float)
    marker, height = ("^", 0.97) if above else ("v", 0.03)
    more: dict[str, Any] = {"marker": marker, "linestyle": "none", "markersize": 6}
    edge = ax.get_xaxis_transform()  # the vertical position is a share of the frame's height
    ax.plot(x, np.full(len(x), height), transform=edge, color=look["color"], zorder=3, **more)
    ax.plot([], [], color=NOTE, label=label, **more)


def draw_bound(ax: Axes, x: ArrayLike, y: ArrayLike, *, label: str) -> None:
    """Draw a lower bound as a black line."""
    (line,) = ax.plot(x, y, label=label, **_widen(BOUND))
    mark(line, Curve("bound"))


def draw_guide(ax: Axes, x: ArrayLike, y: ArrayLike, *, label: str, look: dict[str, Any]) -> None:
    """Draw a line of theory, or another line for comparison, in its own look."""
    (line,) = ax.plot(x, y, label=label, **_widen(look))
    mark_guide(line)


def mark_guide(line: Any) -> None:
    """Mark a line as a theory, or as another line for comparison."""
    mark(line, Curve("guide"))


def label_ends(axes: Sequence[Axes]) -> set[str]:
    """Write the names of curves and bounds at their right ends, beside the last panel of each row.

    Names have the colours of their lines, and do not overlap. Return the names that need no legend,
    because they stand in every row with their line. If the last panel of a row lacks a curve, or
    panels would become too narrow, nothing is written.
    """
    from matplotlib.text import Text

    starts = [0, *(i for i in range(1, len(axes)) if not is_beside(axes[i - 1], axes[i]))]
    rows = [axes[i:j] for i, j in itertools.pairwise([*starts, len(axes)])]
    named = [[_named_lines(ax) for ax in row] for row in rows]
    curves = {name for row in named for lines in row for name, line in lines.items()
              if (one := shown_by(line)) and one.role == "curve"}  # fmt: skip
    missing = {name for row in named for lines in row for name in lines.keys() - row[-1].keys()}
    if curves & missing:
        return set()
    texts = [text for row, lines in zip(rows, named, strict=True)
             for text in _write_names(row[-1], lines[-1])]  # fmt: skip
    canvas = axes[0].figure.figure
    widths = [Text.get_window_extent(text).width for text in texts]  # without the lines to names
    widest = max(widths, default=0.0)
    room = (canvas.bbox.width - widest) / canvas.dpi / max(map(len, rows))
    if room < MIN_NAMED_WIDTH:
        for text in texts:
            text.remove()
        return set()
    return {name for row in named for name in row[-1]} - missing


def _named_lines(ax: Axes) -> dict[str, Any]:
    """Return the lines of measured values and bounds by their names, without empty lines."""
    found = {str(line.get_label()): line for line in ax.lines
             if (one := shown_by(line)) and one.role in {"curve", "bound"}}  # fmt: skip
    return {
        name: line
        for name, line in found.items()
        if not name.startswith("_") and np.isfinite(line.get_ydata(orig=False)).any()
    }


def _write_names(ax: Axes, lines: dict[str, Any]) -> list[Any]:
    """Write names beside a panel, each as near to the end of its line as the others allow."""
    import matplotlib as mpl
    from scipy.optimize import isotonic_regression

    ends = {}
    for name, line in lines.items():
        x, y = (np.asarray(data, float) for data in line.get_data(orig=False))
        last = np.flatnonzero(np.isfinite(y))[-1]
        place = ax.transAxes.inverted().transform(ax.transData.transform((x[last], y[last])))
        ends[name] = (float(place[0]), float(np.clip(place[1], 0, 1)))
    order = sorted(ends, key=lambda name: ends[name][1])
    texts = [name.replace(", ", ",\n", 1) for name in order]
    size = mpl.rcParams["legend.fontsize"]
    line_height = LINE_SPACING * size / 72 * ax.figure.dpi / ax.get_window_extent().height
    heights = [line_height * (1 + text.count("\n")) for text in texts]
    # Least squares under the constraint that the centres of neighbours keep their distance.
    below = np.cumsum([0.0, *((a + b) / 2 for a, b in itertools.pairwise(heights))])
    places = isotonic_regression([ends[name][1] for name in order] - below).x + below
    written = []
    for name, text, y in zip(order, texts, places, strict=True):
        colour = lines[name].get_color()
        spot: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "axes fraction"}
        spot |= {
            "arrowprops": {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "relpos": (0, 0.5)}
        }
        spot |= {"color": colour, "fontsize": size, "va": "center", "linespacing": 1.0}
        written.append(ax.annotate(text, ends[name], (1 + NAME_SPACE, float(y)), **spot))
        mark(written[-1], Curve("name"))
    return written


def _widen(look: dict[str, Any]) -> dict[str, Any]:
    """Return a look with a line as wide as the style asks for, if its curves are wide."""
    import matplotlib as mpl

    return look | {"linewidth": look["linewidth"] * max(1, mpl.rcParams["lines.linewidth"] / 1.3)}
