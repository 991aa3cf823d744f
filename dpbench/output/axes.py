"""Axes of panels: ticks, shared scales, and wider lines for curves that others cover."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

from dpbench.arrays import Floats
from dpbench.output.style import Axes, Axis, beside, inches, number_text

__all__ = ["share_axes", "ticks", "vertical_ticks", "widen_covered_curves"]

MOST_TICKS = 6  # values that may each have a tick of their own
FEW_DECADES = 1.7  # a shorter logarithmic axis has ticks at 1, 2 and 5 times powers of ten
MINOR_DECADES = 4.5  # a longer axis has minor ticks at powers of ten only
LABEL_WIDTH = 0.33  # inches
SHARED = 1e12  # largest ratio of the ends of a logarithmic axis that panels share
# In points: curves closer than NEAR overlap; the lower one is drawn WIDER, its markers LARGER.
NEAR, WIDER, LARGER = 1.2, 1.6, 2.0
MOST_BELOW = 2  # times that a covered curve is widened at most
THIN = "\N{THIN SPACE}"


def ticks(ax: Axes, values: Iterable[float]) -> None:
    """Set the ticks of a logarithmic horizontal axis.

    An axis of `FEW_DECADES` or more has ticks at powers of ten. A shorter one has ticks at
    `values` if these are few, else at 1, 2 and 5 times powers of ten. Axes without a point become
    linear.

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
    known = np.unique(np.fromiter(values, float))
    few = bool(known.size and known[0] > 0 and np.log10(known[-1] / known[0]) < FEW_DECADES)
    _log_ticks(ax.xaxis, between=few)
    if few and known.size <= MOST_TICKS:
        ax.set_xticks(known, _labels(ax, known))


def _log_ticks(axis: Axis, *, between: bool) -> None:
    """Set ticks at powers of ten, with `between` at 2 and 5 times them too, and minor ticks."""
    from matplotlib.ticker import LogLocator, NullFormatter

    if between:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda value, _: f"${number_text(value)}$")
    low, high = sorted(axis.get_view_interval())
    some = np.log10(high / low) < MINOR_DECADES if low > 0 else False
    axis.set_minor_locator(LogLocator(subs=range(1, 10) if some else (1,), numticks=99))
    axis.set_minor_formatter(NullFormatter())


def vertical_ticks(ax: Axes) -> None:
    """Set the ticks of a logarithmic vertical axis: powers of ten, on short axes more."""
    low, high = ax.get_ylim()
    if ax.get_yscale() == "log" and 0 < low < high:
        powers = np.floor(np.log10(high)) - np.ceil(np.log10(low)) + 1
        _log_ticks(ax.yaxis, between=high < low * 10**FEW_DECADES or powers < 2)


def share_axes(axes: Sequence[Axes]) -> None:
    """Give panels with equal vertical labels one range, and set the ticks of all panels.

    Equal ranges let the reader compare slopes and sizes by eye. Panels keep their own ranges if the
    common one would exceed a factor `SHARED`, or if one axis is logarithmic and another linear.
    """
    groups: dict[tuple[str, str], list[Axes]] = {}
    for ax in axes:
        groups.setdefault((ax.get_ylabel(), ax.get_yscale()), []).append(ax)
    for (label, scale), group in groups.items():
        lows, highs = zip(*(ax.get_ylim() for ax in group), strict=True)
        low, high = min(lows), max(highs)
        if label and len(group) > 1 and (scale != "log" or high / low < SHARED):
            for ax in group:
                ax.set_ylim(low, high)
            for left, right in itertools.pairwise(group):
                right.tick_params(labelleft=not beside(left, right))
    for ax in axes:
        vertical_ticks(ax)
        for axis in (ax.xaxis, ax.yaxis):
            if axis.get_scale() == "linear":
                _group_digits(axis)


def _group_digits(axis: Axis) -> None:
    """Group the digits of an axis' numbers by thin spaces, from five digits on."""
    from matplotlib.ticker import ScalarFormatter

    class Grouped(ScalarFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            text = super().__call__(x, pos)
            long = len(re.sub(r"\D", "", text)) > 4 and "." not in text
            gap = r"\\," if "$" in text else THIN
            return re.sub(r"(?<=\d)(?=(\d{3})+\b)", gap, text) if long else text

    if type(axis.get_major_formatter()) is ScalarFormatter:
        axis.set_major_formatter(Grouped())


def widen_covered_curves(ax: Axes) -> None:
    """Widen each curve that a later one covers, so that it shows on both sides of that curve."""
    from matplotlib.lines import Line2D

    handles = [h[0] if isinstance(h, tuple) else h for h in ax.get_legend_handles_labels()[0]]
    # In drawing order. Grey guides (zorder 0) and dotted theory (2.5) are left out.
    known = [one for one in handles if isinstance(one, Line2D) and 1 < one.get_zorder() < 2.5]
    known = [one for one in known if one.get_drawstyle() == "default"]
    known.sort(key=lambda line: line.get_zorder())
    with np.errstate(all="ignore"):
        places = [ax.transData.transform(line.get_xydata()) for line in known]
    places = [place * 72 / ax.figure.dpi for place in places]
    depth = [0] * len(known)  # number of curves stacked on top of each
    for i in reversed(range(len(known))):
        joined = known[i].get_linestyle() != "None"
        for j in range(i + 1, len(known)):
            if _covers(places[j], places[i], joined=joined):
                depth[i] = min(max(depth[i], depth[j] + 1), MOST_BELOW)
        known[i].set_linewidth(known[i].get_linewidth() + WIDER * depth[i])
        known[i].set_markersize(known[i].get_markersize() + LARGER * depth[i])


def _covers(upper: Floats, lower: Floats, *, joined: bool) -> bool:
    """Return whether a curve covers at least half of the points of another.

    If not `joined`, the upper curve consists of markers only.
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
    return bool(np.mean(gaps < NEAR) >= 0.5)


def _labels(ax: Axes, values: Floats) -> list[str]:
    """Return the tick labels of a logarithmic axis, blank where they would overlap."""
    width = inches(ax)
    whole = np.log(values[-1] / values[0]) or 1.0
    labels, last = [], -np.inf
    for value in values:
        place = np.log(value) / whole * width
        labels.append(f"${number_text(value)}$" if place - last > LABEL_WIDTH else "")
        last = place if labels[-1] else last
    return labels
