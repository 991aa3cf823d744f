"""Figures of a plan: the error and its parts against n and against the width of the clip."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dpbench.output.names import Width
from dpbench.planner.prediction import BoundedRecords, Clip, Error, Problem
from dpbench.privacy import Budget
from dpbench.report.drawing.axes import set_horizontal_ticks, share_axes
from dpbench.report.drawing.curves import draw_curve, label_ends, mark_guide
from dpbench.report.drawing.style import GUIDE, Axes, legend, line_styles, panels, save, style

__all__ = ["against_n", "against_width", "write"]

SPAN, POINTS = 30.0, 7  # `against_n` draws POINTS numbers of records in [n/SPAN, n SPAN]
# Range of the widths, as multiples of the planned width.
MIN_WIDTH_RATIO, MAX_WIDTH_RATIO = 0.05, 20.0
MIN_PART_RATIO = 1e-6  # a part that is a smaller share of the error is rounding
PARTS = {
    "q90": "0.9 quantile of the error",
    "sampling": "sampling",
    "bias": "bias of the clip",
    "noise": "noise",
}


def against_n(problem: Problem, n: int, budget: Budget, ax: Axes) -> Axes:
    """Draw the error and its parts (sampling, bias and noise) against the number of records.

    Each number of records has its best clip. The axis is centred at the planned number `n`.
    """
    sizes = np.unique(np.geomspace(max(n / SPAN, 10), n * SPAN, POINTS).astype(int))
    errors = [
        problem.error(problem.best_clip(int(size), budget), int(size), budget) for size in sizes
    ]
    return _draw_parts(ax, sizes.tolist(), errors, n, "number of records $n$")


def against_width(problem: Problem, n: int, budget: Budget, clip: Clip, ax: Axes) -> Axes:
    """Draw the error and its parts (sampling, bias and noise) against the width of the clip.

    The method `scale_clip` of the problem gives the clip of each width. The planned `clip` is
    marked.
    """
    shares = np.geomspace(MIN_WIDTH_RATIO, MAX_WIDTH_RATIO, 3 * POINTS)
    clips = {problem.scale_clip(clip, float(share)) for share in shares}
    valid_clips = sorted(
        {candidate for candidate in clips if candidate[0] < candidate[1]}, key=_width
    )
    errors = [problem.error(candidate, n, budget) for candidate in valid_clips]
    return _draw_parts(
        ax,
        [_width(candidate) for candidate in valid_clips],
        errors,
        _width(clip),
        "width of the clip",
    )


def _width(clip: Clip) -> float:
    return clip[1] - clip[0]


def _draw_parts(
    ax: Axes, x: Sequence[float], errors: list[Error], planned: float, label: str
) -> Axes:
    """Draw the error of a release and its parts (sampling, bias and noise) as curves.

    The horizontal axis is the number of records or the width of the clip. `x` holds its values, and
    `errors` the error at each value. A grey vertical line marks the value `planned`.
    """
    styles = line_styles(PARTS.values())
    # The error is infinite where a clip may exclude the mean of a distribution of the class.
    largest = max((error.q90 for error in errors if np.isfinite(error.q90)), default=0.0)
    for name, part in PARTS.items():
        y = np.abs([getattr(error, name) for error in errors])
        y[~np.isfinite(y) | (y < MIN_PART_RATIO * largest)] = np.nan
        if np.any(np.isfinite(y)):
            # No markers, because the curves are computed and not measured at points.
            draw_curve(ax, x, y, label=part, look=styles[part] | {"marker": ""})
    mark_guide(ax.axvline(planned, label="this plan", **GUIDE))
    ax.set(xscale="log", yscale="log", xlabel=label, ylabel="error")
    set_horizontal_ticks(ax, x)
    return ax


def write(
    problem: Problem, n: int, budget: Budget, clip: Clip, folder: Path, width: Width = "page"
) -> list[Path]:
    """Write the figure of a plan, ``plan.pdf`` and ``plan.png``, and return the written files.

    The left panel shows the error against the number of records (`against_n`). The right panel
    shows it against the width of the clip (`against_width`). If public bounds fix the clip, there
    is no right panel. A grey line in each panel marks the planned number or width. The folder must
    exist.
    """
    with style(width):
        fixed_clip = isinstance(problem, BoundedRecords)
        canvas, axes = panels(1 if fixed_clip else 2)
        against_n(problem, n, budget, axes[0])
        if not fixed_clip:
            against_width(problem, n, budget, clip, axes[1])
        share_axes(axes)
        legend(canvas, without=label_ends(axes))
        return save(canvas, folder, "plan", ("pdf", "png"))
