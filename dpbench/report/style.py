"""One look for all figures: column width, colour-blind safe, legible in grey."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from dpbench.files import atomic

__all__ = ["WIDTH", "looks", "save", "use_style"]

WIDTH = 7.0  # inches: a text column's double width
MARKERS = "osD^vPX<>hp*"
DASHES = ("-", "--", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


def use_style() -> None:
    """Set fonts, sizes and colours; nothing is drawn on a screen."""
    mpl.use("agg")
    sns.set_theme(context="paper", style="ticks", palette="colorblind")
    mpl.rcParams.update(
        {
            "axes.grid": True,
            "axes.titlesize": 9,
            "figure.constrained_layout.use": True,
            "figure.dpi": 100,
            "font.family": "DejaVu Sans",
            "font.size": 8,
            "grid.alpha": 0.4,
            "grid.linewidth": 0.4,
            "legend.fontsize": 8,
            "lines.linewidth": 1.3,
            "lines.markersize": 3.5,
            "pdf.fonttype": 42,
            "svg.hashsalt": "dpbench",
        }
    )


def looks(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A colour, marker and dash for each label, whatever order they come in."""
    known = sorted(set(labels))
    colours = sns.color_palette("colorblind", max(len(known), 1))
    return {
        label: {
            "color": colours[i],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i % len(DASHES)],
        }
        for i, label in enumerate(known)
    }


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write PDF, SVG and PNG whose bytes depend on what is drawn alone."""
    layout = figure.get_layout_engine()
    if layout is not None:  # lay out once, not once per format
        layout.execute(figure)
        figure.set_layout_engine("none")
    undated: dict[str, dict[str, Any]] = {
        "pdf": {"metadata": {"CreationDate": None}},
        "svg": {"metadata": {"Date": None}},
        "png": {"metadata": {"Software": None}, "dpi": 200},
    }
    paths = [folder / f"{name}.{kind}" for kind in undated]
    for path, (kind, options) in zip(paths, undated.items(), strict=True):
        with atomic(path) as temporary:
            figure.savefig(temporary, format=kind, **options)
    plt.close(figure)
    return paths
