"""How all figures look: widths, fonts, colours, panels and legends.

Drawing libraries load with the first figure, and none of their global state is touched: a figure
has a canvas of its own, and settings hold inside `style`.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from dpbench.output.files import Stamps, atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas
else:  # drawing libraries load when the first figure is drawn
    Axes = Axis = Canvas = Any

__all__ = [
    "BOUND", "GUIDE", "GUIDE_DASHES", "NOTIONS", "THEORY", "Axes", "Axis", "Canvas", "Font",
    "Width", "beside", "inches", "legend", "line_styles", "natural", "new_canvas", "number_text",
    "panels", "save", "spaced", "style",
]  # fmt: skip

# Both columns of a page with two, or one of them.
Width = Literal["page", "column"]
Font = Literal["sans", "serif"]
# Inches and points; the printed figure is not scaled, so that these are the sizes on paper. Without
# hinting, as text is else wider in print than it is laid out for.
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
SERIF: dict[Any, Any] = {"font.family": "STIXGeneral", "mathtext.fontset": "stix"}
MARKERS = "osD^vPX<>hp*"
DASHES = ("-", "--", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
# Of the letters of a title, before it takes two lines instead.
SMALLEST = 0.8
# Inches.
NARROWEST = 1.6
LEGEND_ROW = 0.14
BESIDE = 0.5  # what labels take of a panel's width
ABOVE = 0.6  # and what they and a title take between two insets
# What theory predicts, in dots so far apart that what agrees with it is seen between them; what no
# private estimator can beat, below what nearly does; and formulas to compare with, terms of a
# theorem or rates without their constants.
DOTS = (0, (1, 3))
THEORY: dict[str, Any] = {"color": "black", "linestyle": DOTS, "linewidth": 1.1, "zorder": 2.5}
BOUND: dict[str, Any] = {"color": "black", "linewidth": 1.2, "zorder": 1.8}
GUIDE: dict[str, Any] = {"color": "0.7", "linewidth": 2.5, "zorder": 0}
GUIDE_DASHES = ("-", (0, (4, 1)), (0, (1, 1)))
# Names in print, by how labels spell them.
NAMES = {
    "adassp": "AdaSSP", "bernoulli": "Bernoulli", "coinpress": "CoinPress",
    "friendly core": "FriendlyCore", "galton": "Galton", "gaussian": "Gaussian",
    "karwa vadhan": "Karwa-Vadhan", "ksu20": "KSU20", "laplace": "Laplace", "noisyvar": "NOISYVAR",
    "numpy": "NumPy", "opendp": "OpenDP", "pareto": "Pareto", "pipeline dp": "PipelineDP",
    "plan": "PLAN", "priv unit": "PrivUnit", "student t": "Student's t", "tumult": "Tumult",
    "zcdp": "zCDP",
}  # fmt: skip
PROPER = re.compile(rf"\b(?:{'|'.join(NAMES)})\b")
NOTIONS = {"pure": "pure DP", "zcdp": "zCDP", "gdp": "Gaussian DP", "approx": "approximate DP"}


@contextlib.contextmanager
def style(width: Width = "page", font: Font = "sans") -> Iterator[None]:
    """Draw and save at this width and in this font; the caller's settings are kept."""
    import matplotlib as mpl
    import seaborn as sns

    with mpl.rc_context():
        mpl.rcdefaults()
        # Colour codes are no settings: to change what "b" means would outlast this.
        sns.set_theme(context="paper", style="ticks", palette="colorblind", color_codes=False)
        mpl.rcParams.update(SETTINGS | (IN_COLUMN if width == "column" else {}))
        mpl.rcParams.update(SERIF if font == "serif" else {})
        yield


def save(
    figure: Canvas,
    folder: Path,
    name: str,
    kinds: Iterable[str] = ("pdf", "svg", "png"),
    stamps: Stamps | None = None,
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
        with atomic(paths[-1], stamps) as temporary:
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
    looks = zip(known, colours, itertools.cycle(MARKERS), itertools.cycle(DASHES), strict=False)
    return {label: {"color": c, "marker": m, "linestyle": dash} for label, c, m, dash in looks}


def spaced(label: str) -> str:
    """A label in print: with spaces, names as their papers have them."""
    return PROPER.sub(lambda name: NAMES[name[0]], label.replace("_", " "))


def number_text(value: float) -> str:
    """A number for mathematical text: of four digits as it is, others with powers of ten."""
    if 1000 <= value < 10000 and value == round(value):
        return f"{value:.0f}"
    text = f"{value:.2e}" if 0 < abs(value) < 1e-3 else f"{value:.3g}"
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return mantissa
    mantissa = f"{float(mantissa):g}"
    power = f"10^{{{int(exponent)}}}"
    return power if mantissa == "1" else rf"{mantissa} \times {power}"


def new_canvas(
    height: float, rows: int = 1, columns: int = 1, **more: Any
) -> tuple[Canvas, list[list[Axes]]]:
    """A canvas as wide as the style says, so many inches high, and rows of axes on it."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(mpl.rcParams["figure.figsize"][0], height))
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(rows, columns, squeeze=False, **more)
    return canvas, [list(row) for row in axes]


def panels(
    count: int, on: Axes | None = None, ratios: Sequence[float] = ()
) -> tuple[Canvas, list[Axes]]:
    """`count` panels, up to three beside each other, two in a narrow column.

    They are on a canvas of their own, or take the place of a caller's axes, `on`: one is these
    axes, several are insets. With `ratios` there are rows of these heights, and the panels of a
    column share their horizontal axis.
    """
    import matplotlib as mpl

    width = mpl.rcParams["figure.figsize"][0] if on is None else inches(on)
    columns = max(1, min(count, 2 if count == 4 else 3, int(width / NARROWEST)))
    heights = ratios or (1,) * max(1, -(-count // columns))
    if ratios:
        columns, height = count // len(ratios), min(4.4, width)
    elif count <= 1:  # a wide panel needs to be higher, a narrow one must not be
        height = min(3.2, 0.72 * width)
    else:
        height = len(heights) * min(2.4, width / columns + 0.4)
    if on is not None:
        insets = [on] if count <= 1 else _insets(on, count, columns, heights, share=bool(ratios))
        return on.figure.figure, insets
    sharex: Any = "col" if ratios else False
    canvas, _ = new_canvas(height, len(heights), columns, height_ratios=heights, sharex=sharex)
    for spare in canvas.axes[max(count, 1) :]:
        spare.remove()
    return canvas, canvas.axes


def _insets(
    ax: Axes, count: int, columns: int, heights: Sequence[float], *, share: bool
) -> list[Axes]:
    """Insets in rows of these heights, on axes that are switched off."""
    ax.set_axis_off()
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    # labels keep their size, but take no more than half of small axes
    across = min(BESIDE * dpi / box.width, 0.5 / columns)
    between = min(ABOVE * dpi / box.height, 0.5 / len(heights))
    width = (1 + across) / columns - across
    unit = (1 - between * (len(heights) - 1)) / sum(heights)
    found: list[Axes] = []
    for i in range(count):
        row, column = divmod(i, columns)
        bottom = 1 - unit * sum(heights[: row + 1]) - between * row
        place = ((width + across) * column, bottom, width, unit * heights[row])
        found.append(ax.inset_axes(place, sharex=found[column] if share and row else None))
    for panel in found[:-columns] if share else ():
        panel.tick_params(labelbottom=False)
    return found


def inches(ax: Axes) -> float:
    """The width of a panel without its labels, before it is laid out."""
    spot = ax.get_subplotspec()
    if spot is None:  # an inset has its place
        return ax.get_window_extent().width / ax.figure.dpi
    return ax.figure.bbox.width / ax.figure.dpi / spot.get_gridspec().ncols - BESIDE


def legend(canvas: Canvas, on: Axes | None = None) -> None:
    """One legend for all panels, below them: what is measured, then theory and bounds.

    Titles are fitted, and a label that neighbours share is written once. Of a caller's axes, `on`,
    the panels are those that stand in its place.
    """
    axes = canvas.axes if on is None else cast("list[Axes]", on.child_axes) or [on]
    entries: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        entries |= {label: h for h, label in zip(handles, labels, strict=True)}

    def order(label: str) -> tuple[bool, list[str | float]]:
        # black and grey is what nothing measured has
        colour = getattr(entries[label], "get_color", str)()
        return colour in {"black", GUIDE["color"]}, natural(label)

    known = sorted(entries, key=order)
    owner, place, columns = canvas if on is None else on, _place(on, axes), 1
    handles = [entries[label] for label in known]
    for columns in range(len(known), 0, -1):
        shown = owner.legend(handles, known, ncols=columns, frameon=False, **place)
        if columns == 1 or shown.get_window_extent().width <= owner.bbox.width:
            break
        shown.remove()
    if on is None:
        # what a long legend takes is given back to the panels
        more = max(0, -(-len(known) // columns) - 2)
        canvas.set_figheight(canvas.get_figheight() + LEGEND_ROW * more)
    _fit_titles(axes)
    _fit_labels(axes)
    for left, right in itertools.pairwise(axes):
        if beside(left, right) and left.get_ylabel() == right.get_ylabel():
            right.yaxis.label.set_visible(False)


def beside(left: Axes, right: Axes) -> bool:
    """Whether one panel stands to the left of the other, in its row."""
    return bool(right.get_position().x0 > left.get_position().x0)


def _place(on: Axes | None, axes: Iterable[Axes]) -> dict[str, Any]:
    """Where a legend stands: on a canvas, or below all panels in the place of a caller's axes."""
    from matplotlib.transforms import ScaledTranslation

    if on is None:
        return {"loc": "outside lower center"}
    lowest = min(box.y0 for ax in axes if (box := ax.get_tightbbox()))
    inches = (lowest - on.bbox.y0) / on.figure.dpi
    below = on.transAxes + ScaledTranslation(0, inches, on.figure.dpi_scale_trans)
    return {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below}


def _fit_titles(axes: Sequence[Axes]) -> None:
    """Make titles fit above their panels: all of them smaller, or in two lines where too small."""

    def width(ax: Axes, title: str) -> float:
        ax.title.set_text(title)
        return float(ax.title.get_window_extent().width / (inches(ax) * ax.figure.dpi))

    if max(width(ax, ax.get_title()) for ax in axes) > 1 / SMALLEST:
        for ax in axes:
            title = ax.get_title()
            cuts = [m.start() + 1 for m in re.finditer(", ", title)]
            if width(ax, title) > 1 and cuts:
                lines = [f"{title[:cut]}\n{title[cut + 1 :]}" for cut in cuts]
                title = min(lines, key=lambda one, ax=ax: width(ax, one))  # type: ignore[misc]
            ax.title.set_text(title)
    if (widest := max(width(ax, ax.get_title()) for ax in axes)) > 1:
        for ax in axes:
            ax.title.set_fontsize(float(ax.title.get_fontsize()) / widest)


def _fit_labels(axes: Sequence[Axes]) -> None:
    """Break a label of a vertical axis that is longer than the axis at the space in its middle."""
    for ax in axes:
        text, label = ax.get_ylabel(), ax.yaxis.label
        room = 0.8 * ax.get_window_extent().height  # before ticks and legend have theirs
        spaces = [
            m.start() for m in re.finditer(" ", text) if text[: m.start()].count("$") % 2 == 0
        ]
        if spaces and "\n" not in text and label.get_window_extent().height > room:
            middle = min(spaces, key=lambda at: abs(at - len(text) / 2))
            ax.set_ylabel(f"{text[:middle]}\n{text[middle + 1 :]}")
