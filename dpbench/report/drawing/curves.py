"""Curves of figures: measured values with intervals, lower bounds, and lines of theory.

Every line has a tag, matplotlib's group id ``gid``, from which a program can tell what the line
shows. ``curve:7`` is a measured curve, ``bound:8`` a lower bound, and ``guide:9`` a theory or
another line for comparison. ``band:7`` holds the intervals of ``curve:7``, as an area or as error
bars. ``below:10`` marks points below the frame; its vertical positions are no values. The number
is unique in the figure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

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
    index, step = _next_index(ax), max(1, -(-len(x) // MAX_MARKERS))
    # The markers of curves with many points stand at different places, if curves coincide.
    more: dict[str, Any] = {"markevery": (_count_tags([ax], "curve:") % step, step)} | look
    more = {"zorder": 2.1 if look.get("markerfacecolor") == "none" else 2.0} | more
    ends = None if low is None or high is None else np.array([low, high], float)
    if ends is not None and intervals == "bars":
        lengths = np.abs(ends - y)
        lengths[np.isnan(lengths)] = 0
        line, _, (bars,) = ax.errorbar(
            x, y, yerr=lengths, label=label, elinewidth=BAR_WIDTH, **more
        )
        bars.set_gid(f"band:{index}")
    else:
        (line,) = ax.plot(x, y, label=label, **more)
        if ends is not None and not np.all(np.isnan(ends)):  # an empty area would give a range
            area = ax.fill_between(x, *ends, color=look["color"], **BAND)
            area.set_gid(f"band:{index}")
    line.set_gid(f"curve:{index}")


def draw_below(ax: Axes, x: ArrayLike, *, label: str, look: dict[str, Any]) -> None:
    """Mark points that lie below the frame, by triangles at its lower edge.

    All series share the label in the legend. The triangles have the colour of the series.
    """
    x = np.asarray(x, float)
    more: dict[str, Any] = {"marker": "v", "linestyle": "none", "markersize": 6}
    edge = ax.get_xaxis_transform()  # the vertical position is a share of the frame's height
    (marks,) = ax.plot(
        x, np.full(len(x), 0.03), transform=edge, color=look["color"], zorder=3, **more
    )
    marks.set_gid(f"below:{_next_index(ax)}")
    ax.plot([], [], color=NOTE, label=label, **more)


def draw_bound(ax: Axes, x: ArrayLike, y: ArrayLike, *, label: str) -> None:
    """Draw a lower bound as a black line."""
    (line,) = ax.plot(x, y, label=label, **_widen(BOUND))
    line.set_gid(f"bound:{_next_index(ax)}")


def draw_guide(ax: Axes, x: ArrayLike, y: ArrayLike, *, label: str, look: dict[str, Any]) -> None:
    """Draw a line of theory, or another line for comparison, in its own look."""
    (line,) = ax.plot(x, y, label=label, **_widen(look))
    mark_guide(ax, line)


def mark_guide(ax: Axes, line: Any) -> None:
    """Tag a line as a guide: a line of theory, or one drawn for comparison."""
    line.set_gid(f"guide:{_next_index(ax)}")


def _widen(look: dict[str, Any]) -> dict[str, Any]:
    """Return a look with a line as wide as the style asks for, if its curves are wide."""
    import matplotlib as mpl

    return look | {"linewidth": look["linewidth"] * max(1, mpl.rcParams["lines.linewidth"] / 1.3)}


def _next_index(ax: Axes) -> int:
    """Return the number of lines in the figure that have a tag."""
    shown = itertools.chain.from_iterable(_with_insets(one) for one in ax.figure.figure.axes)
    return _count_tags(shown, ":")


def _count_tags(axes: Iterable[Axes], part: str) -> int:
    """Return the number of lines on some axes whose tag contains `part`."""
    return sum(part in str(line.get_gid()) for ax in axes for line in ax.lines)


def _with_insets(ax: Any) -> Iterator[Any]:
    """Yield axes and the axes inset into them."""
    yield ax
    for inset in ax.child_axes:
        yield from _with_insets(inset)
