"""Figure of the errors of a sweep over commits, with change points and levels between them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbench.output.names import display_name
from dpbench.privacy.symbols import budget_text
from dpbench.report.drawing.axes import set_vertical_ticks
from dpbench.report.drawing.style import Axes, legend, line_styles, panels, save, style
from dpbench.tracking.comparison import KEY

__all__ = ["draw"]

GREY = "0.6"
MAX_COMMIT_TICKS = 6
MAX_COLOURED_ROWS = 6  # with more rows, rows without a change are grey


def draw(history: pd.DataFrame, segments: pd.DataFrame, out: Path) -> None:
    """Draw a panel for each distribution, with the errors of its rows over the commits.

    A row is an estimator at one budget and n. Dots are trimmed means of the errors with their
    intervals. Lines are the levels of the errors between changes. A triangle marks a change and
    points in its direction. The segments come from `dpbench.tracking.command_history.find_changes`.
    The folder `out` receives ``history.svg``.
    """
    commits = list(dict.fromkeys(history["commit"]))
    laws = list(dict.fromkeys(history["distribution"]))
    rows = history.assign(label=[_row_label(row) for row in history.to_dict("records")])
    segments = segments.assign(label=[_row_label(row) for row in segments.to_dict("records")])
    shown = (
        rows
        if len(rows[list(KEY)].drop_duplicates()) <= MAX_COLOURED_ROWS
        else segments.dropna(subset="ratio")
    )
    colours = {label: look["color"] for label, look in line_styles(shown["label"]).items()}
    with style("page"):
        canvas, axes = panels(len(laws))
        for ax, law in zip(axes, laws, strict=True):
            in_panel = segments["distribution"] == law
            _draw_rows(ax, rows[rows["distribution"] == law], segments[in_panel], commits, colours)
            ax.set(title=display_name(law), yscale="log", xlim=(-0.5, len(commits) - 0.5))
            step = -(-len(commits) // MAX_COMMIT_TICKS)
            ax.set_xticks(range(len(commits))[::step], [name[:7] for name in commits[::step]])
            ax.tick_params(axis="x", labelrotation=45)
            set_vertical_ticks(ax)
            ax.set_ylabel("error")
        legend(canvas)
        save(canvas, out, "history")


def _row_label(row: Mapping[Hashable, Any]) -> str:
    """Return the name of a row in its panel: its estimator, budget and n."""
    return f"{budget_text(row, label=display_name(row['estimator']))} n={row['n']}"


def _draw_rows(
    ax: Axes,
    points: pd.DataFrame,
    segments: pd.DataFrame,
    commits: Sequence[str],
    colours: Mapping[Any, Any],
) -> None:
    """Draw the errors of all rows of one distribution; rows without a colour are grey."""
    place = {commit: i for i, commit in enumerate(commits)}
    for label, row in points.groupby("label", sort=False):
        levels = segments[segments["label"] == label]
        changes = levels["ratio"].notna().any()
        look: dict[str, Any] = {"color": GREY, "zorder": 1}
        if label in colours and (changes or len(colours) <= MAX_COLOURED_ROWS):
            look = {"color": colours[label], "label": label}
        places, middle = row["commit"].map(place).to_numpy(), row["trimmed_mean_error"]
        ends = [middle - row["trimmed_mean_error_low"], row["trimmed_mean_error_high"] - middle]
        ax.errorbar(places, middle, np.maximum(ends, 0), fmt=".", elinewidth=0.5, **look)
        _draw_levels(ax, places, levels, look["color"])


def _draw_levels(ax: Axes, places: Any, levels: pd.DataFrame, colour: str) -> None:
    """Draw the levels of a row's errors between changes, and a triangle at each change.

    The points of the row are at the horizontal positions `places`.
    """
    first = 0
    for level in levels.to_dict("records"):
        last = first + level["points"] - 1
        ax.hlines(
            level["level"], places[first] - 0.5, places[last] + 0.5, color=colour, linewidth=1
        )
        if np.isfinite(level["ratio"]):
            marker = "^" if level["ratio"] > 1 else "v"
            ax.plot([places[first] - 0.5], [level["level"]], marker, color=colour, markersize=6)
        first = last + 1
