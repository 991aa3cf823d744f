"""Style of all figures: widths, fonts, colours, panels and legends.

Drawing libraries are imported with the first figure. Their global state does not change, because
each figure has its own canvas and settings apply only inside the context `style`.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dpbench.output.files import Checksums, atomic
from dpbench.output.names import Font, Width, natural_sort_key
from dpbench.report.drawing.theme import COLOURS, THEME

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas
else:  # drawing libraries are imported with the first figure
    Axes = Axis = Canvas = Any

__all__ = [
    "BAND", "BOUND", "COLOUR_BAR", "GUIDE", "GUIDE_DASHES", "NOTE", "PRINT", "SCREEN",
    "THEORY", "THEORY_AT_N", "Axes", "Axis", "Canvas", "is_beside", "legend",
    "line_styles", "new_canvas", "panel_width", "panels", "save",
    "style",
]  # fmt: skip

# Lengths in inches, sizes in points, as on paper: printed figures are not scaled. Hinting is off,
# because hinted text would be wider in print than in the layout.
SETTINGS: dict[Any, Any] = {
    "axes.formatter.use_mathtext": True, "axes.grid": True, "axes.titlesize": 9,
    "figure.constrained_layout.use": True,
    "figure.dpi": 100, "figure.figsize": (7.0, 3.2), "font.family": "DejaVu Sans", "font.size": 8,
    "grid.alpha": 0.4, "grid.linewidth": 0.4, "legend.fontsize": 8, "lines.linewidth": 1.3,
    "lines.markersize": 3.5, "pdf.fonttype": 42, "svg.hashsalt": "dpbench", "text.hinting": "none",
    **{f"{x}tick.minor.{name}": size for x in "xy" for name, size in
       {"size": 2, "width": 0.6}.items()},
}  # fmt: skip
IN_COLUMN: dict[Any, Any] = {
    "axes.labelpad": 2, "axes.labelsize": 8, "axes.linewidth": 0.8, "axes.titlepad": 3,
    "axes.titlesize": 8, "figure.figsize": (3.4, 3.2), "legend.columnspacing": 1.0,
    "legend.handlelength": 2.2, "legend.labelspacing": 0.3, "lines.linewidth": 1.1,
    "lines.markersize": 3,
    **{f"{x}tick.{name}": size for x in "xy" for name, size in
       {"labelsize": 7.5, "major.pad": 2, "major.size": 3, "major.width": 0.8}.items()},
}  # fmt: skip
# 16:9; shown full screen, the type is as large as that of a page with 7 inches at 16 points.
ON_SLIDE: dict[Any, Any] = {
    "axes.labelsize": 16, "axes.linewidth": 1.2, "axes.titlesize": 16,
    "figure.figsize": (13.33, 7.5), "font.size": 16, "grid.linewidth": 0.8,
    "legend.fontsize": 15, "lines.linewidth": 2.4, "lines.markersize": 7,
    **{f"{x}tick.{name}": size for x in "xy" for name, size in
       {"labelsize": 14, "major.size": 6, "major.width": 1.2, "minor.size": 3}.items()},
}  # fmt: skip
IN_SIZE: dict[Width, dict[Any, Any]] = {"page": {}, "column": IN_COLUMN, "slide": ON_SLIDE}
SLIDE_SCALE = 2.0  # type on a slide is about twice as large as on a page
SERIF: dict[Any, Any] = {"font.family": "STIXGeneral", "mathtext.fontset": "stix"}
SCREEN = ("svg", "json")  # formats of figures that the report page shows
PRINT = ("pdf", *SCREEN, "png")  # formats of figures for papers and slides
COLOUR_BAR = "colour bar"  # label of the axes of a colour bar, which is no panel
MARKERS = "osD^PX<>hp*"  # without "v", which marks points below the frame
DASHES = ("-", "--", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MIN_TITLE_SCALE = 0.8  # titles that need a smaller scale are broken into two lines
# Lengths in inches.
MIN_PANEL_WIDTH = 1.6
LEGEND_ROW_HEIGHT = 0.14
SPACE_BESIDE = 0.5  # width of the labels beside a panel
SPACE_ABOVE = 0.6  # height of labels and title between two rows of insets
# THEORY: predicted values, dotted so that measured curves show between the dots. THEORY_AT_N:
# values that are predicted at the n of a run, and no limits, dashed and dotted. BOUND: lower
# bounds for every private estimator, drawn below the measured curves. GUIDE: formulas for
# comparison (terms of a theorem, or rates without their constants).
DOTS = (0, (1, 3))
THEORY: dict[str, Any] = {"color": "black", "linestyle": DOTS, "linewidth": 1.1, "zorder": 2.5}
THEORY_AT_N: dict[str, Any] = {**THEORY, "linestyle": (0, (4, 2, 1, 2))}
BOUND: dict[str, Any] = {"color": "black", "linewidth": 1.2, "zorder": 1.8}
GUIDE: dict[str, Any] = {"color": "0.7", "linewidth": 2.5, "zorder": 0}
BAND: dict[str, Any] = {"alpha": 0.2, "linewidth": 0}  # intervals around a curve, in its colour
NOTE = "0.3"  # colour of a mark in the legend that stands for several series
FREE = "0.45"  # colour of curves without privacy
GUIDE_DASHES = ("-", (0, (4, 1)), (0, (1, 1)))


@contextlib.contextmanager
def style(width: Width = "page", font: Font = "sans") -> Iterator[None]:
    """Apply dpbench's style of figures inside this context; restore the caller's settings after.

    A figure is 7 inches wide, or 3.4 inches for a column of a page. A slide has 13.33 by
    7.5 inches (16:9) and large type.
    """
    import matplotlib as mpl
    from matplotlib.rcsetup import cycler

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(THEME | {"axes.prop_cycle": cycler(color=COLOURS)})
        mpl.rcParams.update(SETTINGS | IN_SIZE[width])
        mpl.rcParams.update(SERIF if font == "serif" else {})
        yield


def save(
    figure: Canvas,
    folder: Path,
    name: str,
    kinds: Iterable[str] = SCREEN,
    checksums: Checksums | None = None,
) -> list[Path]:
    """Save a figure in several formats; call it inside `style`.

    The files contain no dates or versions, because equal figures should have equal bytes. The
    format ``json`` is a description of the figure by `dpbench.report.drawing.interactive.describe`.
    A figure without a description has no such file.

    The files have the name `name`, without the extension. If `checksums` is given, it receives the
    checksum of each file under its path. Return the paths in the order of `kinds`.
    """
    from dpbench.report.drawing.interactive import describe, write_description

    if layout := figure.get_layout_engine():  # lay out once, not once per format
        layout.execute(figure)
        figure.set_layout_engine("none")
    undated: dict[str, dict[str, Any]] = {
        "pdf": {"metadata": {"CreationDate": None}},
        "svg": {"metadata": {"Date": None}},
        "png": {"metadata": {"Software": None}, "dpi": 200},
    }
    paths = []
    for kind in kinds:
        description = describe(figure) if kind == "json" else None
        if kind == "json" and description is None:
            continue
        paths.append(folder / f"{name}.{kind}")
        with atomic(paths[-1], checksums) as temporary:
            if description:
                write_description(description, temporary)
            else:
                figure.savefig(temporary, format=kind, **undated[kind])
    return paths


def line_styles(labels: Iterable[str], free: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
    """Return the look of the curve with each label: colour, marker and dashes.

    The order of the labels does not change the result. Curves may coincide. Therefore dashes
    differ, and the markers of every second curve are hollow. Widths and sizes are equal, because a
    wider curve would look more important. The curves with the labels `free` are without privacy,
    and grey.
    """
    from matplotlib.colors import to_rgb

    ordered, grey = sorted(set(labels), key=natural_sort_key), set(free)
    colours = itertools.cycle(map(to_rgb, COLOURS))
    looks = zip(ordered, colours, itertools.cycle(MARKERS), itertools.cycle(DASHES), strict=False)
    return {
        label: {
            "color": FREE if label in grey else c, "marker": m, "linestyle": dash,
            **({"markerfacecolor": "none"} if i % 2 else {}),
        }
        for i, (label, c, m, dash) in enumerate(looks)
    }  # fmt: skip


def new_canvas(
    height: float, rows: int = 1, columns: int = 1, **more: Any
) -> tuple[Canvas, list[list[Axes]]]:
    """Create a canvas with rows of axes; the current style determines its width.

    The height is in inches. `more` are arguments of `matplotlib.figure.Figure.subplots`. Return the
    canvas, and the axes of each row.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(mpl.rcParams["figure.figsize"][0], height))
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(rows, columns, squeeze=False, **more)
    return canvas, [list(row) for row in axes]


def panels(
    count: int, on: Axes | None = None, ratios: Sequence[float] = (), across: int = 0
) -> tuple[Canvas, list[Axes]]:
    """Create the panels of a figure: rows of axes on a canvas.

    A figure as wide as a page has at most three panels in a row. A figure as wide as a column of
    the page has at most two. A row has `across` panels, if it is given, however
    narrow they are.

    A single panel uses the caller's axes `on` themselves. Several panels are inset axes on top, and
    the caller's axes are hidden. By default the panels are on a new canvas. `ratios` are relative
    heights of the rows, by default all equal. If given, panels in one column share their horizontal
    axis.
    """
    import matplotlib as mpl

    width = mpl.rcParams["figure.figsize"][0] if on is None else panel_width(on)
    slide = on is None and _is_slide()
    most = int(width / MIN_PANEL_WIDTH / (SLIDE_SCALE if slide else 1))
    columns = max(1, min(count, 2 if count == 4 else 3, most))
    columns = across or columns
    heights = ratios or (1,) * max(1, -(-count // columns))
    if ratios:
        columns, height = count // len(ratios), min(4.4, width)
    elif count <= 1:  # the height follows the width, up to 3.2 inches
        height = min(3.2, 0.72 * width)
    else:
        height = len(heights) * min(2.4, width / columns + 0.4)
    if on is not None:
        insets = [on] if count <= 1 else _insets(on, count, columns, heights, share=bool(ratios))
        return on.figure.figure, insets
    height = mpl.rcParams["figure.figsize"][1] if slide else height
    sharex: Any = "col" if ratios else False
    canvas, _ = new_canvas(height, len(heights), columns, height_ratios=heights, sharex=sharex)
    for spare in canvas.axes[max(count, 1) :]:
        spare.remove()
    return canvas, canvas.axes


def make_higher(ax: Axes, height: float) -> None:
    """Make the canvas of axes at least `height` inches high, except on a slide."""
    canvas = ax.get_figure(root=True)
    if canvas is not None and not _is_slide():
        canvas.set_figheight(max(canvas.get_figheight(), height))


def _is_slide() -> bool:
    """Return whether the current style is that of slides, whose height is fixed."""
    import matplotlib as mpl

    return list(mpl.rcParams["figure.figsize"]) == list(ON_SLIDE["figure.figsize"])


def _insets(
    ax: Axes, count: int, columns: int, heights: Sequence[float], *, share: bool
) -> list[Axes]:
    """Switch off axes and create insets on them, in rows of the relative heights `heights`.

    If `share` is True, the insets in one column share their horizontal axis.
    """
    ax.set_axis_off()
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    # Labels keep their size but take at most half of small axes.
    across = min(SPACE_BESIDE * dpi / box.width, 0.5 / columns)
    between = min(SPACE_ABOVE * dpi / box.height, 0.5 / len(heights))
    width = (1 + across) / columns - across
    unit = (1 - between * (len(heights) - 1)) / sum(heights)
    insets: list[Axes] = []
    for i in range(count):
        row, column = divmod(i, columns)
        bottom = 1 - unit * sum(heights[: row + 1]) - between * row
        position = ((width + across) * column, bottom, width, unit * heights[row])
        insets.append(ax.inset_axes(position, sharex=insets[column] if share and row else None))
    for panel in insets[:-columns] if share else ():
        panel.tick_params(labelbottom=False)
    return insets


def panel_width(ax: Axes) -> float:
    """Return the approximate width of a panel in inches, without the labels beside it.

    The width is approximate because matplotlib computes the layout later.
    """
    spot = ax.get_subplotspec()
    if spot is None:  # the position of an inset is fixed
        return ax.get_window_extent().width / ax.figure.dpi
    return ax.figure.bbox.width / ax.figure.dpi / spot.get_gridspec().ncols - SPACE_BESIDE


def legend(canvas: Canvas, on: Axes | None = None, without: Iterable[str] = ()) -> None:
    """Draw one legend below all panels: measured curves first, then theory and bounds.

    The legend leaves out the labels `without`, which stand at the ends of their lines.

    Titles are fitted to their panels. If panels side by side have equal vertical labels, only the
    left label is drawn. If the caller gave axes `on` to `panels`, only these axes or their insets
    get the legend.
    """
    insets = [] if on is None else [ax for ax in on.child_axes if ax.get_label() != COLOUR_BAR]
    axes = canvas.axes if on is None else cast("list[Axes]", insets) or [on]
    entries: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        entries |= {label: h for h, label in zip(handles, labels, strict=True)}
    for label in without:
        entries.pop(label, None)

    def order(label: str) -> tuple[bool, list[str | float]]:
        # Theory, bounds, guides and notes are black or grey; measured curves have other colours.
        colour = getattr(entries[label], "get_color", str)()
        return colour in {"black", GUIDE["color"], NOTE}, natural_sort_key(label)

    ordered = sorted(entries, key=order)
    owner, place, columns = canvas if on is None else on, _legend_position(on, axes), 1
    handles = [entries[label] for label in ordered]
    for columns in range(len(ordered), 0, -1):
        drawn = owner.legend(handles, ordered, ncols=columns, frameon=False, **place)
        if columns == 1 or drawn.get_window_extent().width <= owner.bbox.width:
            break
        drawn.remove()
    if on is None and not _is_slide():
        # A legend of more than two rows makes the canvas higher, so that panels keep their height.
        extra_rows = max(0, -(-len(ordered) // columns) - 2)
        canvas.set_figheight(canvas.get_figheight() + LEGEND_ROW_HEIGHT * extra_rows)
    _fit_titles(axes)
    _fit_labels(axes)
    for left, right in itertools.pairwise(axes):
        if is_beside(left, right) and left.get_ylabel() == right.get_ylabel():
            right.yaxis.label.set_visible(False)


def is_beside(left: Axes, right: Axes) -> bool:
    """Return whether two consecutive panels stand in one row, or `right` begins a new row."""
    return bool(right.get_position().x0 > left.get_position().x0)


def _legend_position(on: Axes | None, axes: Iterable[Axes]) -> dict[str, Any]:
    """Return the position of a legend, as keywords of matplotlib's ``legend``.

    The legend stands below the canvas, or below the panels on the axes `on` if these are given.
    """
    from matplotlib.transforms import ScaledTranslation

    if on is None:
        return {"loc": "outside lower center"}
    lowest = min(box.y0 for ax in axes if (box := ax.get_tightbbox()))
    offset = (lowest - on.bbox.y0) / on.figure.dpi
    below = on.transAxes + ScaledTranslation(0, offset, on.figure.dpi_scale_trans)
    return {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below}


def _fit_titles(axes: Sequence[Axes]) -> None:
    """Break long titles into two lines, then shrink all titles until each fits its panel."""

    def width(ax: Axes, title: str) -> float:
        ax.title.set_text(title)
        return float(ax.title.get_window_extent().width / (panel_width(ax) * ax.figure.dpi))

    if max(width(ax, ax.get_title()) for ax in axes) > 1 / MIN_TITLE_SCALE:
        for ax in axes:
            title = ax.get_title()
            cuts = [m.start() + 1 for m in re.finditer(", ", title)]
            if width(ax, title) > 1 and cuts:
                lines = [f"{title[:cut]}\n{title[cut + 1 :]}" for cut in cuts]
                title = min(lines, key=lambda candidate, ax=ax: width(ax, candidate))  # type: ignore[misc]
            ax.title.set_text(title)
    if (widest := max(width(ax, ax.get_title()) for ax in axes)) > 1:
        for ax in axes:
            ax.title.set_fontsize(float(ax.title.get_fontsize()) / widest)


def _fit_labels(axes: Sequence[Axes]) -> None:
    """Break each vertical label that is longer than its axis into two lines, near its middle."""
    for ax in axes:
        text, label = ax.get_ylabel(), ax.yaxis.label
        room = 0.8 * ax.get_window_extent().height  # ticks and legend will take about a fifth
        spaces = [
            m.start() for m in re.finditer(" ", text) if text[: m.start()].count("$") % 2 == 0
        ]
        if spaces and "\n" not in text and label.get_window_extent().height > room:
            middle = min(spaces, key=lambda cut: abs(cut - len(text) / 2))
            ax.set_ylabel(f"{text[:middle]}\n{text[middle + 1 :]}")
