"""Describe a finished figure by numbers and plain text, for a page that draws it interactively.

The description of a figure is a mapping that JSON can hold. It is read from matplotlib's axes, so
that no kind of figure has code of its own. `dpbench.report.drawing.curves` marks lines
with what they show.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpbench.arrays import Floats
from dpbench.report.drawing.unicode_math import unicode_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text
else:  # drawing libraries are imported with the first figure
    Axes = Axis = Collection = Figure = Line2D = Patch = Text = Any

__all__ = ["Curve", "describe", "mark", "shown_by", "write_description"]

# Significant digits: of the points of lines, and of axes. A page shows four digits of a point, and
# with 7 hardly any number is rounded twice in the wrong direction.
POINT_DIGITS, AXIS_DIGITS = 7, 9


class _CannotDescribeError(Exception):
    """A figure contains something that has no description."""


@dataclass(frozen=True)
class Curve:
    """Meaning of a line: measured values, a lower bound, or a theory or other line to compare.

    The name at the end of a line has the role ``name``; a description leaves it out, because the
    interactive legend has it.

    `ends` are the ends of the intervals of its points, (2, points), which `band` draws as an area,
    or as bars if `bars` is True. Both are None without intervals.
    """

    role: Literal["curve", "bound", "guide", "name"]
    ends: Floats | None = None
    band: Any = None
    bars: bool = False


def shown_by(line: Any) -> Curve | None:
    """Return what a line of matplotlib shows; None if the line is not marked."""
    shown: Curve | None = vars(line).get("shows")
    return shown


def mark(line: Any, curve: Curve) -> None:
    """Let a line of matplotlib carry what it shows."""
    vars(line)["shows"] = curve


def describe(canvas: Figure) -> dict[str, Any] | None:
    """Describe the panels and the legend of a figure that shows curves; its layout is finished.

    Return None if the figure has no measured curve, or contains something that has no description,
    for example a heat map. Otherwise the description has these keys. ``columns`` is the number of
    panels side by side. ``legend`` lists the names of the lines in the legend. ``panels`` lists the
    panels. Each has a ``title``, its ``height`` over its width, the axes ``x`` and ``y`` (label,
    scale, limits, ticks), its ``lines``, and ``areas``, ``spans`` and ``texts`` without names.

    A line has a name, a colour, and positions ``x`` and ``y``; ``low`` and ``high`` are the ends of
    its intervals. Missing and infinite numbers are None. Numbers outside of an axis' limits say
    only where a line leaves the frame, because a figure may clip them.
    """
    axes = [ax for ax in canvas.axes if ax.get_visible() and ax.axison]
    try:
        panels = [_describe_panel(ax) for ax in axes]
    except _CannotDescribeError:
        return None
    lines = [line for panel in panels for line in panel["lines"]]
    if not any(line["role"] == "curve" for line in lines):
        return None
    named = dict.fromkeys(line["name"] for line in lines if line["name"])
    drawn = [unicode_text(text) for text in _legend_texts(canvas)]
    rows = [round(ax.get_position().y1, 2) for ax in axes]
    return {
        "columns": max(rows.count(row) for row in rows),
        "legend": list(dict.fromkeys([*(name for name in drawn if name in named), *named])),
        "panels": panels,
    }


def write_description(description: Mapping[str, Any], path: Path) -> None:
    """Write the description of a figure as a JSON file, which is replaced."""
    text = json.dumps(description, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _legend_texts(canvas: Figure) -> Iterator[str]:
    own = [legend for ax in canvas.axes if (legend := ax.get_legend())]
    for legend in [*canvas.legends, *own]:
        yield from (text.get_text() for text in legend.get_texts())


def _describe_panel(ax: Axes) -> dict[str, Any]:
    from matplotlib.collections import PolyCollection
    from matplotlib.container import ErrorbarContainer

    if ax.child_axes or ax.images or ax.tables or ax.artists:
        raise _CannotDescribeError
    bands = {id(curve.band) for line in ax.lines if (curve := shown_by(line))}
    # The label of points with error bars is that of all their parts; the caps are lines, too.
    bars = [one for one in ax.containers if isinstance(one, ErrorbarContainer)]
    caps = {id(cap) for one in bars for cap in one[1]}
    labels = {id(one[0]): str(one.get_label()) for one in bars}
    lines = [
        _describe_line(ax, line, labels.get(id(line), str(line.get_label())))
        for line in ax.lines
        if id(line) not in caps
    ]
    others = [one for one in ax.collections if id(one) not in bands]
    if not all(isinstance(one, PolyCollection) for one in others):
        raise _CannotDescribeError
    box = ax.get_window_extent()
    return {
        "title": unicode_text(ax.get_title()),
        "height": _round(box.height / box.width),
        "x": _describe_axis(ax.xaxis, [line["x"] for line in lines if "x" in line]),
        "y": _describe_axis(ax.yaxis, [line["y"] for line in lines if "y" in line]),
        "lines": lines,
        "areas": [area for one in others for area in _describe_areas(one)],
        "spans": [_describe_span(ax, patch) for patch in ax.patches],
        "texts": [
            _describe_text(ax, text)
            for text in ax.texts
            if text.get_visible() and not shown_by(text)
        ],
    }


def _describe_axis(axis: Axis, values: Iterable[list[float | None]]) -> dict[str, Any]:
    """Describe an axis; `values` are the positions of all lines on it."""
    scale, limits = axis.get_scale(), [float(end) for end in axis.get_view_interval()]
    if scale not in {"linear", "log"}:
        raise _CannotDescribeError
    formatter, (low, high) = axis.get_major_formatter(), sorted(limits)
    places = [float(place) for place in axis.get_majorticklocs() if low <= place <= high]
    labels = formatter.format_ticks(places)
    ticks = [
        [_round(place), unicode_text(text)] for place, text in zip(places, labels, strict=True)
    ]
    minor = [_round(place) for place in axis.get_minorticklocs() if low <= place <= high]
    offset = unicode_text(formatter.get_offset())
    described = {
        "label": unicode_text(axis.label.get_text()) + (f" ({offset})" if offset else ""),
        "scale": scale,
        "limits": [_round(end) for end in limits],
        "ticks": ticks,
        "minor": minor,
        "grid": bool(axis.get_gridlines() and axis.get_gridlines()[0].get_visible()),
    }
    names = _position_names(axis, values) if scale == "linear" else []
    return described | ({"names": names} if names else {})


def _position_names(axis: Axis, values: Iterable[list[float | None]]) -> list[list[Any]]:
    """Return the positions that have a name, and the names.

    A linear axis may show categories, or the logarithm of the number that its ticks print.
    """
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    formatter = axis.get_major_formatter()
    if isinstance(formatter, FixedFormatter):
        ticks = axis.get_majorticklocs()
        labels = zip(_list(ticks), formatter.format_ticks(list(ticks)), strict=True)
        return [[place, unicode_text(text)] for place, text in labels if text]
    if isinstance(formatter, FuncFormatter):
        places = sorted({value for group in values for value in group if value is not None})
        return [[place, unicode_text(formatter(place, None))] for place in places]
    return []


def _describe_line(ax: Axes, line: Line2D, label: str) -> dict[str, Any]:
    curve = shown_by(line)
    x, y = (np.asarray(data, float) for data in line.get_data(orig=False))
    described: dict[str, Any] = {"name": "" if label.startswith("_") else unicode_text(label)}
    described |= {"role": curve.role if curve else "", **_describe_look(line)}
    if line.get_transform() == ax.get_xaxis_transform(which="grid"):
        return described | {"at_x": _round(x[0])}
    if line.get_transform() == ax.get_yaxis_transform(which="grid"):
        return described | {"at_y": _round(y[0])}
    described |= {"x": _list(x), "y": _list(y), **_describe_shift(ax, line)}
    if curve is None or curve.ends is None:
        return described
    low, high = np.where(np.isfinite(curve.ends).all(axis=0), curve.ends, np.nan)
    shape = {"bars": True} if curve.bars else {}
    return described | {"low": _list(low), "high": _list(high), **shape}


def _describe_shift(ax: Axes, line: Line2D) -> dict[str, Any]:
    """Describe by how many points a line is shifted to the right and up, if it is."""
    transform = line.get_transform()
    if transform == ax.transData:
        return {}
    corners = ax.bbox.get_points()
    moved = transform.transform(ax.transData.inverted().transform(corners)) - corners
    if not np.allclose(moved[0], moved[1], atol=0.01):
        raise _CannotDescribeError
    return {"shift": [round(float(length) * 72 / ax.figure.dpi, 2) for length in moved[0]]}


def _describe_look(line: Line2D) -> dict[str, Any]:
    from matplotlib.colors import to_hex

    drawn = line.get_linestyle() != "None"
    _, dashes = line._dash_pattern if drawn else (0, None)  # type: ignore[attr-defined]
    look: dict[str, Any] = {
        "color": to_hex(line.get_color()),
        "width": _round(line.get_linewidth() if drawn else 0.0),
        "order": _round(line.get_zorder()),
    }
    if dashes is not None:
        look["dashes"] = [_round(length) for length in dashes]
    if line.get_drawstyle().startswith("steps"):
        steps = {"steps-post": "step-after", "steps-mid": "step"}
        look["steps"] = steps.get(line.get_drawstyle(), "step-before")
    if (marker := line.get_marker()) not in {"", " ", "None", "none", None}:
        hollow = str(line.get_markerfacecolor()) == "none"
        look |= {"marker": str(marker), "size": _round(line.get_markersize())}
        look |= {"hollow": True} if hollow else {}
        look["every"] = _marker_steps(line.get_markevery())
    return look


def _marker_steps(every: Any) -> list[int]:
    """Return the index of the first marker, and the number of points from marker to marker."""
    if isinstance(every, slice):
        return [every.start or 0, every.step or 1]
    return list(every) if isinstance(every, tuple) else [0, every or 1]


def _split_area(vertices: Any) -> tuple[Floats, Floats, Floats]:
    """Return the positions and both edges of an area that `Axes.fill_between` has drawn.

    The outline begins and ends on the second edge. In between it follows the first edge, and then
    the second edge backwards.
    """
    count = (len(vertices) - 3) // 2
    points = np.asarray(vertices, float)
    first, second = points[1 : 1 + count], points[2 + count : 2 + 2 * count][::-1]
    if count < 1 or not np.array_equal(first[:, 0], second[:, 0]):
        raise _CannotDescribeError
    return first[:, 0], first[:, 1], second[:, 1]


def _describe_areas(area: Collection) -> Iterator[dict[str, Any]]:
    for path in area.get_paths():
        x, first, second = _split_area(path.vertices)
        yield {"x": _list(x), "low": _list(np.fmin(first, second)),
               "high": _list(np.fmax(first, second)), **_describe_fill(area)}  # fmt: skip


def _describe_span(ax: Axes, patch: Patch) -> dict[str, Any]:
    """Describe a strip across the panel, from `Axes.axvspan` or `Axes.axhspan`."""
    box = patch.get_path().transformed(patch.get_patch_transform()).get_extents()
    if patch.get_data_transform() == ax.get_xaxis_transform(which="grid"):
        ends = {"x": [_round(box.x0), _round(box.x1)]}
    elif patch.get_data_transform() == ax.get_yaxis_transform(which="grid"):
        ends = {"y": [_round(box.y0), _round(box.y1)]}
    else:
        raise _CannotDescribeError
    return {**ends, **_describe_fill(patch)}


def _describe_fill(artist: Any) -> dict[str, Any]:
    from matplotlib.colors import to_hex, to_rgba

    red, green, blue, alpha = to_rgba(np.asarray(artist.get_facecolor()).reshape(-1, 4)[0])
    return {"color": to_hex((red, green, blue)), "opacity": _round(alpha)}


def _describe_text(ax: Axes, text: Text) -> dict[str, Any]:
    """Describe a text by its anchor, as shares of the panel's width and height."""
    from matplotlib.colors import to_hex

    box, across, up = (
        text.get_window_extent(),
        text.get_horizontalalignment(),
        text.get_verticalalignment(),
    )
    x = {"left": box.x0, "right": box.x1}.get(across, (box.x0 + box.x1) / 2)
    y = {"bottom": box.y0, "baseline": box.y0, "top": box.y1}.get(up, (box.y0 + box.y1) / 2)
    x, y = ax.transAxes.inverted().transform((x, y))
    return {
        "text": unicode_text(text.get_text()), "x": _round(x), "y": _round(y), "align": across,
        "baseline": {"bottom": "bottom", "baseline": "bottom", "top": "top"}.get(up, "middle"),
        "color": to_hex(text.get_color()),
    }  # fmt: skip


def _list(values: Floats) -> list[float | None]:
    return [_round(value, POINT_DIGITS) for value in values]


def _round(value: float, digits: int = AXIS_DIGITS) -> float | None:
    if not np.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
