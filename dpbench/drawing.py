"""How all figures look: widths, fonts, colours, panels, ticks and legends.

Colour-blind safe, and legible in grey. Drawing libraries load with the first figure, and none of
their global state is touched: a figure has a canvas of its own, and settings hold inside `style`.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbench.output import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.transforms import Transform

__all__ = [
    "BOUND", "COLUMN", "GUIDE", "GUIDE_DASHES", "NOTIONS", "PAGE", "THEORY", "band", "divided",
    "legend", "line_styles", "natural", "new_canvas", "number_text", "panels", "power_text", "save",
    "style", "ticks", "two_rows",
]  # fmt: skip

# Widths in inches: both columns of a page with two, and one of them.
PAGE, COLUMN = 7.0, 3.4
# Points; the printed figure is not scaled, so that these are the sizes on paper.
SIZES: dict[float, dict[Any, float]] = {
    PAGE: {"axes.titlesize": 9, "lines.linewidth": 1.3, "lines.markersize": 3.5},
    COLUMN: {
        "axes.labelsize": 8,
        "axes.labelpad": 2,
        "axes.linewidth": 0.8,
        "axes.titlesize": 8,
        "axes.titlepad": 3,
        "legend.columnspacing": 1.0,
        "legend.handlelength": 2.2,
        "legend.labelspacing": 0.3,
        "lines.linewidth": 1.1,
        "lines.markersize": 3,
        "xtick.labelsize": 7.5,
        "xtick.major.pad": 2,
        "xtick.major.size": 3,
        "xtick.major.width": 0.8,
        "ytick.labelsize": 7.5,
        "ytick.major.pad": 2,
        "ytick.major.size": 3,
        "ytick.major.width": 0.8,
    },
}
MARKERS = "osD^vPX<>hp*"
DASHES = ("-", "--", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MOST_TICKS = 6
FEW_DECADES = 1.7
# Inches.
NARROWEST = 1.6
LABEL_WIDTH = 0.33
LEGEND_ROW = 0.14
BESIDE = 0.5  # what labels take of a panel's width
ABOVE = 0.6  # and what they and a title take between two insets
# One style each in all figures: what theory predicts, seen on top of what agrees with it; what
# no private estimator can beat; and formulas to compare with, terms of a theorem or rates
# without their constants.
THEORY: dict[str, Any] = {"color": "black", "linestyle": ":", "linewidth": 0.9, "zorder": 2.5}
BOUND: dict[str, Any] = {"color": "black", "linewidth": 1.2, "zorder": 3}
GUIDE: dict[str, Any] = {"color": "0.7", "linewidth": 2.5, "zorder": 0}
GUIDE_DASHES = ("-", (0, (4, 1)), (0, (1, 1)))
NOTIONS = {"pure": "pure DP", "zcdp": "zCDP", "approx": "approximate DP"}


@contextlib.contextmanager
def style(width: Literal["page", "column"] = "page") -> Iterator[None]:
    """Draw and save at this width, whatever the caller's settings are; they are kept."""
    import matplotlib as mpl
    import seaborn as sns

    inches = PAGE if width == "page" else COLUMN
    with mpl.rc_context():
        mpl.rcdefaults()
        # Colour codes are no settings: to change what "b" means would outlast this.
        sns.set_theme(context="paper", style="ticks", palette="colorblind", color_codes=False)
        mpl.rcParams.update(
            {
                "axes.grid": True,
                "figure.constrained_layout.use": True,
                "figure.dpi": 100,
                "figure.figsize": (inches, 3.2),
                "font.family": "DejaVu Sans",
                "font.size": 8,
                "grid.alpha": 0.4,
                "grid.linewidth": 0.4,
                "legend.fontsize": 8,
                "pdf.fonttype": 42,
                "svg.hashsalt": "dpbench",
                "text.hinting": "none",  # else text is wider in print than it is laid out for
                **SIZES[inches],
            }
        )
        yield


def save(
    figure: Canvas, folder: Path, name: str, kinds: Iterable[str] = ("pdf", "svg", "png")
) -> list[Path]:
    """Write files whose bytes depend on what is drawn alone; inside `style`, as drawing is."""
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
        paths.append(folder / f"{name}.{kind}")
        with atomic(paths[-1]) as temporary:
            figure.savefig(temporary, format=kind, **undated[kind])
    return paths


def natural(label: str) -> list[str | float]:
    """A key that sorts the numbers in labels, those of mathematical text too, by their size."""
    power = r"(?:(\d[\d.]*) \\times )?10\^\{(-?\d+)\}"
    plain = re.sub(power, lambda found: f"{found[1] or 1}e{found[2]}", label)
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", plain)
    return [float(part) if i % 2 else part for i, part in enumerate(parts)]


def line_styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A colour, marker and dash for each label, whatever order they come in."""
    import seaborn as sns

    known = sorted(set(labels), key=natural)
    colours = sns.color_palette("colorblind", max(len(known), 1))
    return {
        label: {
            "color": colours[i],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i % len(DASHES)],
        }
        for i, label in enumerate(known)
    }


def number_text(value: float) -> str:
    """A number for mathematical text: four digits as they are, more as powers of ten."""
    if 1000 <= value < 10000 and value == round(value):
        return f"{value:.0f}"
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    if not exponent:
        return mantissa
    power = f"10^{{{int(exponent)}}}"
    return power if mantissa == "1" else rf"{mantissa} \times {power}"


def power_text(n: float) -> str:
    """A size for mathematical text: powers of ten as such."""
    exponent = round(np.log10(n))
    return f"10^{{{exponent}}}" if 10.0**exponent == n else f"{n:g}"


def _width() -> float:
    """The width of a canvas in inches, as the style says."""
    import matplotlib as mpl

    return float(mpl.rcParams["figure.figsize"][0])


def new_canvas(
    height: float, rows: int = 1, columns: int = 1, **more: Any
) -> tuple[Canvas, list[list[Axes]]]:
    """A canvas as wide as the style says, so many inches high, and rows of axes on it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(_width(), height))
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(rows, columns, squeeze=False, **more)
    return canvas, [list(row) for row in axes]


def panels(
    count: int, height: float = 2.4, on: Axes | None = None
) -> tuple[Canvas, Iterator[Axes]]:
    """`count` panels, up to three beside each other, two in a narrow column.

    They are on a canvas of their own, or take the place of a caller's axes, `on`.
    """
    count = max(count, 1)
    if on is not None:
        return on.figure.figure, iter(divided(on, count))
    width = _width()
    rows, columns = _grid(count, width)
    # a wide panel needs to be higher, a narrow one must not be
    height = min(3.2, 0.72 * width) if count == 1 else min(height, width / columns + 0.4)
    canvas, axes = new_canvas(height * rows, rows, columns)
    every = list(itertools.chain(*axes))
    for spare in every[count:]:
        spare.set_visible(False)
    return canvas, iter(every)


def _grid(count: int, width: float) -> tuple[int, int]:
    """Rows and columns for so many panels."""
    most = max(1, min(3, int(width / NARROWEST)))
    columns = min(count, 2 if count == 4 else 3, most)
    return -(-count // columns), columns


def two_rows(columns: int, on: Axes | None = None) -> tuple[Canvas, list[Axes], list[Axes]]:
    """Panels above smaller ones that share their horizontal axes."""
    ratios = (2, 1)
    if on is not None:
        above, below = _insets(on, columns, ratios, share=True)
        return on.figure.figure, above, below
    canvas, (above, below) = new_canvas(
        min(4.4, _width()), 2, columns, height_ratios=ratios, sharex="col"
    )
    return canvas, above, below


def divided(ax: Axes, count: int) -> list[Axes]:
    """As many axes as asked for in the place of one: itself, or insets that stand in a grid."""
    if count == 1:
        return [ax]
    rows, columns = _grid(count, _inches(ax))
    return list(itertools.chain(*_insets(ax, columns, (1,) * rows)))[:count]


def _insets(
    ax: Axes, columns: int, ratios: Sequence[float], *, share: bool = False
) -> list[list[Axes]]:
    """Rows of insets whose heights have these ratios, on axes that are switched off."""
    ax.set_axis_off()
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    # labels keep their size, but take no more than half of small axes
    across = min(BESIDE * dpi / box.width, 0.5 / columns)
    between = min(ABOVE * dpi / box.height, 0.5 / len(ratios))
    width = (1 + across) / columns - across
    unit = (1 - between * (len(ratios) - 1)) / sum(ratios)
    found: list[list[Axes]] = []
    top = 1.0
    for ratio in ratios:
        top -= unit * ratio
        above = found[0] if share and found else [None] * columns
        boxes = [((width + across) * j, top, width, unit * ratio) for j in range(columns)]
        found.append(
            [ax.inset_axes(box, sharex=one) for box, one in zip(boxes, above, strict=True)]
        )
        top -= between
    for panel in itertools.chain(*found[:-1]) if share else ():
        panel.tick_params(labelbottom=False)
    return found


def _inches(ax: Axes) -> float:
    """The width of a panel without its labels, before it is laid out."""
    spot = ax.get_subplotspec()
    if spot is None:  # an inset has its place
        return ax.get_window_extent().width / ax.figure.dpi
    return ax.figure.bbox.width / ax.figure.dpi / spot.get_gridspec().ncols - BESIDE


def ticks(ax: Axes, values: Iterable[float]) -> None:
    """Ticks of logarithmic axes: powers of ten, and where few of them fit other numbers.

    On the horizontal axis those are `values`, the places of points, if they are few; else, and
    on the vertical one, 1, 2 and 5 times powers of ten. Axes without a point are linear.
    """
    from matplotlib.ticker import LogLocator

    if not np.all(np.isfinite(ax.dataLim.minpos)):  # a logarithmic axis could not be drawn
        ax.set(xscale="linear", yscale="linear")
        return
    known = np.unique(np.fromiter(values, float))
    plain: list[Any] = []
    if known.size and known[0] > 0 and np.log10(known[-1] / known[0]) < FEW_DECADES:
        if known.size <= MOST_TICKS:
            ax.set_xticks(known, _labels(ax, known))
        else:
            plain.append(ax.xaxis)
    low, high = ax.get_ylim()
    if ax.get_yscale() == "log" and 0 < low < high:
        powers = np.floor(np.log10(high)) - np.ceil(np.log10(low)) + 1
        plain += [ax.yaxis] if high < low * 10**FEW_DECADES or powers < 2 else []
    for axis in plain:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda value, _: f"${number_text(value)}$")
    ax.minorticks_off()


def _labels(ax: Axes, values: NDArray[np.float64]) -> list[str]:
    """Numbers below the ticks of a logarithmic axis; blank where they would run together."""
    inches = _inches(ax)
    whole = np.log(values[-1] / values[0]) or 1.0
    labels, last = [], -np.inf
    for value in values:
        place = np.log(value) / whole * inches
        labels.append(f"${number_text(value)}$" if place - last > LABEL_WIDTH else "")
        last = place if labels[-1] else last
    return labels


def band(ax: Axes, rows: pd.DataFrame, across: str, color: Any) -> None:
    """Draw the intervals from ``low`` to ``high`` against a column, if there are any."""
    if rows["low"].notna().any():  # else an axis without points would have a range
        ax.fill_between(
            rows[across], rows["low"], rows["high"], color=color, alpha=0.2, linewidth=0
        )


def legend(canvas: Canvas, on: Axes | None = None) -> None:
    """One legend for all panels, below them; a label that neighbours share is written once.

    What is measured comes first, then theory and bounds. Of a caller's axes, `on`, the panels
    are those that stand in its place.
    """
    axes: list[Axes] = canvas.axes
    if on is not None:
        axes = cast("list[Axes]", on.child_axes) or [on]
    entries: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        entries |= {label: h for h, label in zip(handles, labels, strict=True)}
    known = sorted(entries, key=lambda label: (_is_theory(entries[label]), natural(label)))
    place: dict[str, Any] = {"loc": "outside lower center"}
    if on is not None:
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0)}
        place["bbox_transform"] = on.transAxes + _below(on, axes)
    owner, columns = canvas if on is None else on, 1
    for columns in range(len(known), 0, -1):
        shown = owner.legend(
            [entries[label] for label in known], known, ncols=columns, frameon=False, **place
        )
        if columns == 1 or shown.get_window_extent().width <= owner.bbox.width:
            break
        shown.remove()
    if on is None:
        # what a long legend takes is given back to the panels
        more = max(0, -(-len(known) // columns) - 2)
        canvas.set_figheight(canvas.get_figheight() + LEGEND_ROW * more)
    _tidy(axes)


def _below(on: Axes, axes: Iterable[Axes]) -> Transform:
    """From the bottom of a caller's axes to below the labels of the panels in its place."""
    from matplotlib.transforms import ScaledTranslation

    lowest = min(box.y0 for ax in axes if (box := ax.get_tightbbox()))
    inches = (lowest - on.bbox.y0) / on.figure.dpi
    return ScaledTranslation(0, inches, on.figure.dpi_scale_trans)


def _tidy(axes: Sequence[Axes]) -> None:
    """Titles as wide as their panels, and no label that the panel to the left has, too."""
    for ax in axes:
        _fit_title(ax)
    for left, right in itertools.pairwise(axes):
        beside = right.get_position().x0 > left.get_position().x0
        if beside and _said(left) == _said(right):
            right.yaxis.label.set_visible(False)


def _fit_title(ax: Axes) -> None:
    """Break a title in two that is wider than its panel."""
    head, _, tail = ax.get_title().rpartition(", ")
    if head and ax.title.get_window_extent().width > _inches(ax) * ax.figure.dpi:
        ax.set_title(f"{head},\n{tail}")


def _is_theory(handle: Any) -> bool:
    """Whether a line is drawn in one of the styles that nothing measured has."""
    return getattr(handle, "get_color", str)() in {"black", GUIDE["color"]}


def _said(ax: Axes) -> str:
    return ax.get_ylabel() if ax.get_visible() else ""
