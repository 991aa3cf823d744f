"""Figures of an audit: lower bounds beside what is claimed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpbench.report.audit_text import strongest
from dpbench.report.figures import NOTIONS, legend

if TYPE_CHECKING:  # drawing libraries load when the first figure is drawn
    from matplotlib.figure import Figure as Canvas

__all__ = ["bounds_figure", "spaced"]

# Inches for a row, and for everything else.
ROW, FRAME = 0.155, 0.95


def spaced(label: str) -> str:
    """A label in print."""
    return label.replace("_", " ")


def bounds_figure(table: pd.DataFrame, names: Callable[[str], str] = spaced) -> Canvas:
    """The strongest pair of every estimator and notion: its lower bound over the claim.

    Parameters
    ----------
    table : DataFrame
        Of ``audit.csv`` or ``controls.csv``. Notions with another mechanism than the default
        (``approx_laplace``) share the mark of their notion, the strongest of them.
    names : callable
        What to write for an estimator's label.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    from dpbench.report.style import looks

    best = strongest(table)
    best["share"] = best["lower_bound"] / best["claimed"]
    best["notion"] = best["notion"].str.split("_").str[0]
    best = best.groupby(["estimator", "notion"], sort=False)["share"].max().reset_index()
    order = best.groupby("estimator", sort=False)["share"].max().sort_values(kind="stable").index
    width = mpl.rcParams["figure.figsize"][0]
    canvas, ax = plt.subplots(figsize=(width, FRAME + ROW * len(order)))
    ax.axvspan(0, 1, color="0.92", zorder=0)
    ax.axvline(1, color="black", linewidth=1.2, label="claimed")
    style = looks(NOTIONS)
    for notion, words in NOTIONS.items():
        rows = best[best["notion"] == notion]
        look = {**style[notion], "linestyle": "none", "markersize": 4, "clip_on": False}
        at = order.get_indexer(pd.Index(rows["estimator"]))
        if at.size:
            ax.plot(rows["share"], at, label=words, zorder=3, **look)
    ax.set_yticks(np.arange(len(order)), [names(label) for label in order])
    ax.set_ylim(-0.7, len(order) - 0.3)
    ax.set_xlim(0, max(1.1, 1.05 * best["share"].max()))
    ax.set_xlabel("lower bound over the claim")
    ax.grid(visible=False, axis="x")
    legend(canvas)
    return canvas
