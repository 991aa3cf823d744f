"""Figure of a history: errors over commits, their levels, and the change points."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbench.output.axes import vertical_ticks
from dpbench.output.style import Axes, legend, line_styles, panels, save, spaced, style
from dpbench.privacy.symbols import budget_text
from dpbench.tracking.comparison import KEY

__all__ = ["draw"]

GREY = "0.6"
MOST_TICKS = 6
MOST_COLOURED = 6  # up to this number of rows, rows without a change have colours, too


def draw(history: pd.DataFrame, segments: pd.DataFrame, out: Path) -> None:
    """Draw a panel per distribution: errors with intervals, levels as steps, changes as marks.

    Parameters
    ----------
    history, segments : DataFrame
        Tables of `dpbench.commands.history.changes`.
    out : Path
        Folder for ``history.pdf`` and the other formats.
    """
    commits = list(dict.fromkeys(history["commit"]))
    laws = list(dict.fromkeys(history["distribution"]))
    rows = history.assign(label=[_label(row) for row in history.to_dict("records")])
    segments = segments.assign(label=[_label(row) for row in segments.to_dict("records")])
    shown = (
        rows
        if len(rows[list(KEY)].drop_duplicates()) <= MOST_COLOURED
        else segments.dropna(subset="ratio")
    )
    colours = {label: look["color"] for label, look in line_styles(shown["label"]).items()}
    with style("page"):
        canvas, axes = panels(len(laws))
        for ax, law in zip(axes, laws, strict=True):
            here = segments["distribution"] == law
            _panel(ax, rows[rows["distribution"] == law], segments[here], commits, colours)
            ax.set(title=spaced(law), yscale="log", xlim=(-0.5, len(commits) - 0.5))
            every = -(-len(commits) // MOST_TICKS)
            ax.set_xticks(range(len(commits))[::every], [name[:7] for name in commits[::every]])
            ax.tick_params(axis="x", labelrotation=45)
            vertical_ticks(ax)
            ax.set_ylabel("error")
        legend(canvas)
        save(canvas, out, "history")


def _label(row: Mapping[Hashable, Any]) -> str:
    """Return a row's name without its distribution."""
    return f"{budget_text(row, label=spaced(row['estimator']))} n={row['n']}"


def _panel(
    ax: Axes,
    points: pd.DataFrame,
    segments: pd.DataFrame,
    commits: Sequence[str],
    colours: Mapping[Any, Any],
) -> None:
    """Draw the rows of one distribution; rows without a colour are grey."""
    place = {commit: i for i, commit in enumerate(commits)}
    for label, row in points.groupby("label", sort=False):
        levels = segments[segments["label"] == label]
        changes = levels["ratio"].notna().any()
        look: dict[str, Any] = {"color": GREY, "zorder": 1}
        if label in colours and (changes or len(colours) <= MOST_COLOURED):
            look = {"color": colours[label], "label": label}
        at, middle = row["commit"].map(place).to_numpy(), row["trimmed_mean"]
        ends = [middle - row["trimmed_mean_low"], row["trimmed_mean_high"] - middle]
        ax.errorbar(at, middle, np.maximum(ends, 0), fmt=".", elinewidth=0.5, **look)
        _steps(ax, at, levels, look["color"])


def _steps(ax: Axes, at: Any, levels: pd.DataFrame, colour: str) -> None:
    """Draw the levels of a series whose points are at the places `at`."""
    first = 0
    for level in levels.to_dict("records"):
        last = first + level["points"] - 1
        ax.hlines(level["level"], at[first] - 0.5, at[last] + 0.5, color=colour, linewidth=1)
        if np.isfinite(level["ratio"]):
            marker = "^" if level["ratio"] > 1 else "v"
            ax.plot([at[first] - 0.5], [level["level"]], marker, color=colour, markersize=6)
        first = last + 1
