"""One look for all figures: a page's or a column's width, colour-blind safe, legible in grey."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from dpbench.files import atomic

__all__ = ["COLUMN", "PAGE", "looks", "natural", "save", "use_style"]

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


def use_style(width: Literal["page", "column"] = "page") -> None:
    """Set width, fonts, sizes and colours; nothing is drawn on a screen."""
    inches = PAGE if width == "page" else COLUMN
    mpl.use("agg")
    sns.set_theme(context="paper", style="ticks", palette="colorblind")
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


def natural(label: str) -> list[str | float]:
    """A key that sorts the numbers in labels, those of mathematical text too, by their size."""
    power = r"(?:(\d[\d.]*) \\times )?10\^\{(-?\d+)\}"
    plain = re.sub(power, lambda found: f"{found[1] or 1}e{found[2]}", label)
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", plain)
    return [float(part) if i % 2 else part for i, part in enumerate(parts)]


def looks(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A colour, marker and dash for each label, whatever order they come in."""
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


def save(
    figure: Figure, folder: Path, name: str, kinds: Iterable[str] = ("pdf", "svg", "png")
) -> list[Path]:
    """Write files whose bytes depend on what is drawn alone."""
    layout = figure.get_layout_engine()
    if layout is not None:  # lay out once, not once per format
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
    plt.close(figure)
    return paths
