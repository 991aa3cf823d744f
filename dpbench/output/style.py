"""Style of all figures: widths, fonts, colours, panels and legends.

Drawing libraries are imported with the first figure. Their global state does not change: each
figure has its own canvas, and settings apply only inside the context `style`.
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
else:  # drawing libraries are imported with the first figure
    Axes = Axis = Canvas = Any

__all__ = [
    "BOUND", "GUIDE", "GUIDE_DASHES", "NOTIONS", "THEORY", "Axes", "Axis", "Canvas", "Font",
    "Width", "beside", "inches", "legend", "line_styles", "natural", "new_canvas", "number_text",
    "panels", "save", "spaced", "style",
]  # fmt: skip

# Width of a figure: the page, or one of its two columns.
Width = Literal["page", "column"]
Font = Literal["sans", "serif"]
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
SERIF: dict[Any, Any] = {"font.family": "STIXGeneral", "mathtext.fontset": "stix"}
MARKERS = "osD^vPX<>hp*"
DASHES = ("-", "--", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
SMALLEST = 0.8  # scale of a title's font below which the title is broken into two lines
# Lengths in inches.
NARROWEST = 1.6  # width of a panel
LEGEND_ROW = 0.14  # height
BESIDE = 0.5  # width of the labels beside a panel
ABOVE = 0.6  # height of labels and title between two rows of insets
# THEORY: predicted values, dotted so that measured curves show between the dots. BOUND: lower
# bounds for every private estimator, drawn below the measured curves. GUIDE: formulas for
# comparison (terms of a theorem, or rates without their constants).
DOTS = (0, (1, 3))
THEORY: dict[str, Any] = {"color": "black", "linestyle": DOTS, "linewidth": 1.1, "zorder": 2.5}
BOUND: dict[str, Any] = {"color": "black", "linewidth": 1.2, "zorder": 1.8}
GUIDE: dict[str, Any] = {"color": "0.7", "linewidth": 2.5, "zorder": 0}
GUIDE_DASHES = ("-", (0, (4, 1)), (0, (1, 1)))
# Printed names by their spelling in labels.
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
    """Apply the style inside the context; the caller's settings are restored at its end.

    Parameters
    ----------
    width : {"page", "column"}
        Width of figures: 7 inches (default) or 3.4.
    font : {"sans", "serif"}
        Font of all text. ``"sans"`` by default.
    """
    import matplotlib as mpl
    import seaborn as sns

    with mpl.rc_context():
        mpl.rcdefaults()
        # Colour codes are global: a new meaning of "b" would outlast this context.
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
    """Save a figure in several formats; call it inside `style`.

    The files contain no dates or versions, so that equal figures have equal bytes.

    Parameters
    ----------
    figure : Figure
        Figure to save.
    folder : Path
        Folder to write to.
    name : str
        Stem of the files.
    kinds : iterable of str
        Formats. ``pdf``, ``svg`` and ``png`` by default.
    stamps : dict of Path to list of int, optional
        Mapping that receives the stamps of the files.

    Returns
    -------
    list of Path
        Files in the order of `kinds`.
    """
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
    """Return a sort key that orders labels by the size of the numbers in them."""
    power = r"(?:(\d[\d.]*) \\times )?10\^\{(-?\d+)\}"
    plain = re.sub(power, lambda found: f"{found[1] or 1}e{found[2]}", label)
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", plain)
    return [float(part) if i % 2 else part for i, part in enumerate(parts)]


def line_styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return colour, marker and line style of each label, independent of the labels' order."""
    import seaborn as sns

    known = sorted(set(labels), key=natural)
    colours = sns.color_palette("colorblind", max(len(known), 1))
    looks = zip(known, colours, itertools.cycle(MARKERS), itertools.cycle(DASHES), strict=False)
    return {label: {"color": c, "marker": m, "linestyle": dash} for label, c, m, dash in looks}


def spaced(label: str) -> str:
    """Return a label for print: with spaces, and with names spelled as in their papers."""
    return PROPER.sub(lambda name: NAMES[name[0]], label.replace("_", " "))


def number_text(value: float) -> str:
    """Format a number for LaTeX: three digits and a power of ten; integers up to 9999 as is."""
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
    """Create a canvas of the width of the style, with rows of axes.

    Parameters
    ----------
    height : float
        Height in inches.
    rows, columns : int
        Numbers of rows and columns of axes. 1 by default.
    **more
        Further arguments of `matplotlib.figure.Figure.subplots`.

    Returns
    -------
    canvas : Figure
    axes : list of list of Axes
        Axes by row.
    """
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
    """Create panels, at most three in a row on a page and two in a column of a page.

    Parameters
    ----------
    count : int
        Number of panels.
    on : Axes, optional
        Axes of the caller, which the panels replace: a single panel is these axes, several are
        insets. By default the panels are on a new canvas.
    ratios : sequence of float, optional
        Relative heights of the rows. With `ratios` the panels of a column share their horizontal
        axis. By default all rows are equally high.

    Returns
    -------
    canvas : Figure
    axes : list of Axes
    """
    import matplotlib as mpl

    width = mpl.rcParams["figure.figsize"][0] if on is None else inches(on)
    columns = max(1, min(count, 2 if count == 4 else 3, int(width / NARROWEST)))
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
    sharex: Any = "col" if ratios else False
    canvas, _ = new_canvas(height, len(heights), columns, height_ratios=heights, sharex=sharex)
    for spare in canvas.axes[max(count, 1) :]:
        spare.remove()
    return canvas, canvas.axes


def _insets(
    ax: Axes, count: int, columns: int, heights: Sequence[float], *, share: bool
) -> list[Axes]:
    """Create insets in rows of these relative heights, on axes that are switched off."""
    ax.set_axis_off()
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    # Labels keep their size but take at most half of small axes.
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
    """Return the width of a panel in inches, without its labels, before the layout."""
    spot = ax.get_subplotspec()
    if spot is None:  # the position of an inset is fixed
        return ax.get_window_extent().width / ax.figure.dpi
    return ax.figure.bbox.width / ax.figure.dpi / spot.get_gridspec().ncols - BESIDE


def legend(canvas: Canvas, on: Axes | None = None) -> None:
    """Draw one legend below all panels: measured curves first, then theory and bounds.

    Titles are fitted to their panels, and a vertical label that neighbours share is drawn once.

    Parameters
    ----------
    canvas : Figure
        Canvas of the panels.
    on : Axes, optional
        Axes of the caller, given to `panels`; then only these axes or their insets are treated.
    """
    axes = canvas.axes if on is None else cast("list[Axes]", on.child_axes) or [on]
    entries: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        entries |= {label: h for h, label in zip(handles, labels, strict=True)}

    def order(label: str) -> tuple[bool, list[str | float]]:
        # Theory, bounds and guides are black or grey; measured curves have colours.
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
        # A legend of more than two rows makes the canvas higher, so that panels keep their height.
        more = max(0, -(-len(known) // columns) - 2)
        canvas.set_figheight(canvas.get_figheight() + LEGEND_ROW * more)
    _fit_titles(axes)
    _fit_labels(axes)
    for left, right in itertools.pairwise(axes):
        if beside(left, right) and left.get_ylabel() == right.get_ylabel():
            right.yaxis.label.set_visible(False)


def beside(left: Axes, right: Axes) -> bool:
    """Return whether the panel `left` stands to the left of `right`, its successor.

    Parameters
    ----------
    left, right : Axes
        Consecutive panels, in rows from left to right.

    Returns
    -------
    bool
        False if `right` begins a new row.
    """
    return bool(right.get_position().x0 > left.get_position().x0)


def _place(on: Axes | None, axes: Iterable[Axes]) -> dict[str, Any]:
    """Return the position of a legend: outside a canvas, or below the panels on given axes."""
    from matplotlib.transforms import ScaledTranslation

    if on is None:
        return {"loc": "outside lower center"}
    lowest = min(box.y0 for ax in axes if (box := ax.get_tightbbox()))
    inches = (lowest - on.bbox.y0) / on.figure.dpi
    below = on.transAxes + ScaledTranslation(0, inches, on.figure.dpi_scale_trans)
    return {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below}


def _fit_titles(axes: Sequence[Axes]) -> None:
    """Fit titles to their panels: shrink all of them; break long titles into two lines first."""

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
    """Break vertical labels that are longer than their axis, at the space next to the middle."""
    for ax in axes:
        text, label = ax.get_ylabel(), ax.yaxis.label
        room = 0.8 * ax.get_window_extent().height  # ticks and legend will take about a fifth
        spaces = [
            m.start() for m in re.finditer(" ", text) if text[: m.start()].count("$") % 2 == 0
        ]
        if spaces and "\n" not in text and label.get_window_extent().height > room:
            middle = min(spaces, key=lambda at: abs(at - len(text) / 2))
            ax.set_ylabel(f"{text[:middle]}\n{text[middle + 1 :]}")
