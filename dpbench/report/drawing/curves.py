"""Curves of figures: measured values with intervals, lower bounds, and lines of theory.

A line that is drawn here carries a `Curve` of `dpbench.report.drawing.interactive`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbench.report.drawing.interactive import Curve, mark, shown_by
from dpbench.report.drawing.style import BAND, BOUND, NOTE, Axes

__all__ = ["draw_below", "draw_bound", "draw_curve", "draw_guide", "mark_guide"]

MAX_MARKERS = 15  # markers on a curve
BAR_WIDTH = 1.0  # points


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


def draw_below(ax: Axes, x: ArrayLike, *, label: str, look: dict[str, Any]) -> None:
    """Mark points that lie below the frame, by triangles at its lower edge.

    All series share the label in the legend. The triangles have the colour of the series.
    """
    x = np.asarray(x, float)
    more: dict[str, Any] = {"marker": "v", "linestyle": "none", "markersize": 6}
    edge = ax.get_xaxis_transform()  # the vertical position is a share of the frame's height
    ax.plot(x, np.full(len(x), 0.03), transform=edge, color=look["color"], zorder=3, **more)
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


def _widen(look: dict[str, Any]) -> dict[str, Any]:
    """Return a look with a line as wide as the style asks for, if its curves are wide."""
    import matplotlib as mpl

    return look | {"linewidth": look["linewidth"] * max(1, mpl.rcParams["lines.linewidth"] / 1.3)}
