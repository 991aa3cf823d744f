"""Theme of all figures: seaborn's style "ticks" for papers, with its palette "colorblind".

The values are written out, because loading seaborn takes as long as drawing a figure.
"""

from __future__ import annotations

from typing import Any

__all__ = ["COLOURS", "THEME"]

COLOURS = (
    "#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc",
    "#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9",
)  # fmt: skip
DARK_GREY, PAPER = ".15", 0.8  # PAPER: size of type and lines, relative to seaborn's notebooks
# Settings of matplotlib; sizes in points.
THEME: dict[Any, Any] = {
    "axes.axisbelow": True, "axes.edgecolor": DARK_GREY, "axes.labelcolor": DARK_GREY,
    "font.sans-serif": ["Arial", "DejaVu Sans", "Liberation Sans", "Bitstream Vera Sans",
                        "sans-serif"],
    "grid.color": ".8", "lines.solid_capstyle": "round", "patch.edgecolor": "w",
    "patch.force_edgecolor": True, "text.color": DARK_GREY,
    "xtick.color": DARK_GREY, "ytick.color": DARK_GREY,
    **{name: PAPER * size for name, size in {
        "axes.labelsize": 12, "axes.linewidth": 1.25, "axes.titlesize": 12, "font.size": 12,
        "legend.fontsize": 11, "legend.title_fontsize": 12, "lines.linewidth": 1.5,
        "lines.markersize": 6, "patch.linewidth": 1,
        **{f"{x}tick.{name}": size for x in "xy" for name, size in
           {"labelsize": 11, "major.size": 6, "major.width": 1.25, "minor.size": 4,
            "minor.width": 1}.items()},
    }.items()},
}  # fmt: skip
