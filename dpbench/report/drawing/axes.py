"""Axes of figures: ticks and shared scales."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

from dpbench.arrays import Floats
from dpbench.output.names import number_text
from dpbench.report.drawing.style import COLOUR_BAR, Axes, Axis, is_beside, panel_width

__all__ = ["colour_bar", "set_horizontal_ticks", "set_vertical_ticks", "share_axes"]

MAX_TICKS = 6  # largest number of values that may each have a tick
SHORT_AXIS_DECADES = 1.7  # a shorter logarithmic axis has ticks at 1, 2 and 5 times powers of ten
SHORT_VERTICAL_DECADES = 2.5  # as above for vertical axes, whose labels need less room
MINOR_TICK_DECADES = 4.5  # a longer axis has minor ticks at powers of ten only
LABEL_WIDTH = 0.33  # inches that the label of a tick needs
MAX_SHARED_RATIO = 1e12  # largest ratio of the ends of a logarithmic axis that panels share
MAX_IN_FULL = 1e5  # from here on, tick labels are powers of ten
THIN_SPACE = "\N{THIN SPACE}"


def colour_bar(ax: Axes, ticks: Sequence[float], label: str) -> None:
    """Draw the scale of a heat map's colours, with words, beside its panel.

    The heat map is the first collection of the panel. `ticks` are the values to mark.
    """
    bar_axes = ax.inset_axes((1.03, 0, 0.04, 1))
    bar_axes.set_label(COLOUR_BAR)
    bar = ax.figure.figure.colorbar(ax.collections[0], cax=bar_axes, extend="max", ticks=ticks)
    bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks], fontsize="small")
    bar.minorticks_off()
    bar.set_label(label, fontsize="small")


def set_horizontal_ticks(ax: Axes, values: Iterable[float]) -> None:
    """Set the ticks of a logarithmic horizontal axis, whose points are at `values`.

    An axis of 1.7 decades (`SHORT_AXIS_DECADES`) or more has ticks at powers of ten. A shorter axis
    has ticks at `values` if there are at most 6 (`MAX_TICKS`), else at 1, 2 and 5 times powers of
    ten. If the panel has no points, its horizontal and vertical axis become linear.
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
        _set_log_ticks(ax.yaxis, between=high < low * 10**SHORT_VERTICAL_DECADES or powers < 2)


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


def _labels(ax: Axes, values: Floats) -> list[str]:
    """Return the tick labels of a logarithmic axis, with empty texts where labels would overlap.

    Whole numbers are written in full if all are below 100,000 (`MAX_IN_FULL`).
    """
    width, in_full = panel_width(ax), bool(np.all(values % 1 == 0) and values[-1] < MAX_IN_FULL)
    log_range = np.log(values[-1] / values[0]) or 1.0
    labels, last_labelled = [], -np.inf
    for value in values:
        place = np.log(value) / log_range * width
        grouped = in_full and value >= 1e4
        text = f"{value:,.0f}".replace(",", r"\,") if grouped else number_text(value)
        labels.append(f"${text}$" if place - last_labelled > LABEL_WIDTH else "")
        last_labelled = place if labels[-1] else last_labelled
    return labels
