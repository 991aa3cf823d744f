"""Curves of figures: measured values with intervals, lower bounds, and lines of theory.

Every line has a tag, matplotlib's group id ``gid``, from which a program can tell what the line
shows. ``curve:7`` is a measured curve, ``bound:8`` a lower bound, and ``guide:9`` a theory or
another line for comparison. ``band:7`` holds the intervals of ``curve:7``, as an area or as error
bars. The number is unique in the figure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbench.output.style import BAND, BOUND, Axes

__all__ = ["draw_bound", "draw_curve", "draw_guide", "mark_guide"]

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

    Parameters
    ----------
    ax : Axes
        Axes to draw on.
    x, y : array_like, shape (points,)
        Positions and values. A NaN or an infinite value leaves a gap.
    low, high : array_like, shape (points,), optional
        Ends of the intervals; a NaN draws none.
    label : str
        Text in the legend.
    look : dict
        Colour, marker and dashes of the series, from `dpbench.output.style.line_styles`, and
        further properties of a line. The entry ``order``, the number of the series, spreads the
        markers of curves with many points.
    intervals : {"band", "bars"}
        An area (default) or an error bar for each point.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    y = np.where(np.isfinite(y), y, np.nan)
    index, more = _next_index(ax), dict(look)
    order, step = more.pop("order", 0), -(-len(x) // MAX_MARKERS)
    more = {"markevery": (order % step if step else 0, step or 1)} | more
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


def draw_bound(ax: Axes, x: ArrayLike, y: ArrayLike, *, label: str) -> None:
    """Draw a lower bound as a black line through the points (x, y)."""
    (line,) = ax.plot(x, y, label=label, **BOUND)
    line.set_gid(f"bound:{_next_index(ax)}")


def draw_guide(ax: Axes, x: ArrayLike, y: ArrayLike, *, label: str, look: dict[str, Any]) -> None:
    """Draw a line of theory, or another line for comparison, through the points (x, y)."""
    (line,) = ax.plot(x, y, label=label, **look)
    mark_guide(ax, line)


def mark_guide(ax: Axes, line: Any) -> None:
    """Give the tag of a guide to a line that is already on the axes."""
    line.set_gid(f"guide:{_next_index(ax)}")


def _next_index(ax: Axes) -> int:
    """Return the number of lines in the figure that have a tag."""
    axes = itertools.chain.from_iterable(_with_insets(one) for one in ax.figure.figure.axes)
    return sum(":" in str(line.get_gid()) for one in axes for line in one.lines)


def _with_insets(ax: Any) -> Iterator[Any]:
    """Yield axes and the axes inset into them."""
    yield ax
    for inset in ax.child_axes:
        yield from _with_insets(inset)
