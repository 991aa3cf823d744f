"""Axes of figures: ticks, shared scales, and wider lines for curves that others cover."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

from dpbench.arrays import Floats
from dpbench.output.style import Axes, Axis, is_beside, number_text, panel_width

__all__ = ["set_horizontal_ticks", "set_vertical_ticks", "share_axes", "widen_covered_curves"]

MAX_TICKS = 6  # largest number of values that may each have a tick
SHORT_AXIS_DECADES = 1.7  # a shorter logarithmic axis has ticks at 1, 2 and 5 times powers of ten
MINOR_TICK_DECADES = 4.5  # a longer axis has minor ticks at powers of ten only
LABEL_WIDTH = 0.33  # inches that the label of a tick needs
MAX_SHARED_RATIO = 1e12  # largest ratio of the ends of a logarithmic axis that panels share
# In points: curves closer than OVERLAP_POINTS overlap. The line of the lower curve is widened by
# EXTRA_WIDTH and its markers by EXTRA_MARKER_SIZE.
OVERLAP_POINTS, EXTRA_WIDTH, EXTRA_MARKER_SIZE = 1.2, 1.6, 2.0
MAX_WIDENINGS = 2  # largest number of times that a covered curve is widened
THIN_SPACE = "\N{THIN SPACE}"


def set_horizontal_ticks(ax: Axes, values: Iterable[float]) -> None:
    """Set the ticks of a logarithmic horizontal axis.

    An axis of 1.7 decades (`SHORT_AXIS_DECADES`) or more has ticks at powers of ten. A shorter axis
    has ticks at `values` if there are at most 6 (`MAX_TICKS`), else at 1, 2 and 5 times powers of
    ten. If the panel has no points, its horizontal and vertical axis become linear.

    Parameters
    ----------
    ax : Axes
        Axes to change.
    values : iterable of float
        Horizontal positions of the points.
    """
    if not np.all(np.isfinite(ax.dataLim.minpos)):  # a logarithmic axis could not be drawn
        ax.set(xscale="linear", yscale="linear")
        return
    if ax.get_xscale() != "log":
        return
    positions = np.unique(np.fromiter(values, float))
    is_short = bool(
        positions.size
        and positions[0] > 0
        and np.log10(positions[-1] / positions[0]) < SHORT_AXIS_DECADES
    )
    _set_log_ticks(ax.xaxis, between=is_short)
    if is_short and positions.size <= MAX_TICKS:
        ax.set_xticks(positions, _labels(ax, positions))


def _set_log_ticks(axis: Axis, *, between: bool) -> None:
    """Set the ticks of a logarithmic axis.

    Labelled ticks stand at powers of ten; if `between` is True, they also stand at 2 and 5 times
    powers of ten. Minor ticks have no label.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    if between:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda value, _: f"${number_text(value)}$")
    low, high = sorted(axis.get_view_interval())
    has_all_minor = np.log10(high / low) < MINOR_TICK_DECADES if low > 0 else False
    axis.set_minor_locator(LogLocator(subs=range(1, 10) if has_all_minor else (1,), numticks=99))
    axis.set_minor_formatter(NullFormatter())


def set_vertical_ticks(ax: Axes) -> None:
    """Set the ticks of a logarithmic vertical axis.

    They stand at powers of ten, and on a short axis also at 2 and 5 times powers of ten.
    """
    low, high = ax.get_ylim()
    if ax.get_yscale() == "log" and 0 < low < high:
        powers = np.floor(np.log10(high)) - np.ceil(np.log10(low)) + 1
        _set_log_ticks(ax.yaxis, between=high < low * 10**SHORT_AXIS_DECADES or powers < 2)


def share_axes(axes: Sequence[Axes]) -> None:
    """Give panels with equal vertical labels a common vertical range, and set all panels' ticks.

    Readers can then compare slopes and sizes by eye. Logarithmic panels keep their own ranges if
    the ends of the common range would have a ratio above 1e12 (`MAX_SHARED_RATIO`). Logarithmic and
    linear axes share no range.
    """
    groups: dict[tuple[str, str], list[Axes]] = {}
    for ax in axes:
        groups.setdefault((ax.get_ylabel(), ax.get_yscale()), []).append(ax)
    for (label, scale), group in groups.items():
        lows, highs = zip(*(ax.get_ylim() for ax in group), strict=True)
        low, high = min(lows), max(highs)
        if label and len(group) > 1 and (scale != "log" or high / low < MAX_SHARED_RATIO):
            for ax in group:
                ax.set_ylim(low, high)
            for left, right in itertools.pairwise(group):
                right.tick_params(labelleft=not is_beside(left, right))
    for ax in axes:
        set_vertical_ticks(ax)
        for axis in (ax.xaxis, ax.yaxis):
            if axis.get_scale() == "linear":
                _group_digits(axis)


def _group_digits(axis: Axis) -> None:
    """Insert thin spaces between groups of three digits in tick labels of five digits or more."""
    from matplotlib.ticker import ScalarFormatter

    class Grouped(ScalarFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            text = super().__call__(x, pos)
            long = len(re.sub(r"\D", "", text)) > 4 and "." not in text
            gap = r"\\," if "$" in text else THIN_SPACE
            return re.sub(r"(?<=\d)(?=(\d{3})+\b)", gap, text) if long else text

    if type(axis.get_major_formatter()) is ScalarFormatter:
        axis.set_major_formatter(Grouped())


def widen_covered_curves(ax: Axes) -> None:
    """Widen each curve that a curve drawn later covers.

    The wider curve then shows on both sides of the later curve.
    """
    from matplotlib.lines import Line2D

    handles = [h[0] if isinstance(h, tuple) else h for h in ax.get_legend_handles_labels()[0]]
    # In drawing order. Grey guides (zorder 0) and dotted theory (2.5) are left out.
    curves = [
        handle for handle in handles if isinstance(handle, Line2D) and 1 < handle.get_zorder() < 2.5
    ]
    curves = [handle for handle in curves if handle.get_drawstyle() == "default"]
    curves.sort(key=lambda line: line.get_zorder())
    with np.errstate(all="ignore"):
        places = [ax.transData.transform(line.get_xydata()) for line in curves]
    places = [place * 72 / ax.figure.dpi for place in places]
    depth = [0] * len(curves)  # number of curves that lie on top of each curve
    for i in reversed(range(len(curves))):
        joined = curves[i].get_linestyle() != "None"
        for j in range(i + 1, len(curves)):
            if _covers(places[j], places[i], joined=joined):
                depth[i] = min(max(depth[i], depth[j] + 1), MAX_WIDENINGS)
        curves[i].set_linewidth(curves[i].get_linewidth() + EXTRA_WIDTH * depth[i])
        curves[i].set_markersize(curves[i].get_markersize() + EXTRA_MARKER_SIZE * depth[i])


def _covers(upper: Floats, lower: Floats, *, joined: bool) -> bool:
    """Return whether the upper curve covers at least half of the points of the lower curve.

    If `joined` is True, lines join the points of the upper curve, and these lines also cover. If
    `joined` is False, the upper curve consists of markers only.
    """
    upper, lower = (points[np.all(np.isfinite(points), axis=1)] for points in (upper, lower))
    if not (len(upper) and len(lower)):
        return False
    if joined:
        upper = upper[np.argsort(upper[:, 0], kind="stable")]
        height = np.interp(lower[:, 0], upper[:, 0], upper[:, 1], left=np.inf, right=np.inf)
        gaps = np.abs(height - lower[:, 1])
    else:
        gaps = np.hypot(*(lower[:, None] - upper).T).min(axis=0)
    return bool(np.mean(gaps < OVERLAP_POINTS) >= 0.5)


def _labels(ax: Axes, values: Floats) -> list[str]:
    """Return the tick labels of a logarithmic axis, with empty texts where labels would overlap."""
    width = panel_width(ax)
    log_range = np.log(values[-1] / values[0]) or 1.0
    labels, last_labelled = [], -np.inf
    for value in values:
        place = np.log(value) / log_range * width
        labels.append(f"${number_text(value)}$" if place - last_labelled > LABEL_WIDTH else "")
        last_labelled = place if labels[-1] else last_labelled
    return labels
