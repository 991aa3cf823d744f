"""Figures of a plan: the error and its parts against n and against the width of the clip."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpbench.planner.prediction import BoundedRecords, Clip, Error, Problem
from dpbench.privacy import Budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["against_n", "against_width", "write"]

SPAN, POINTS = 30.0, 7  # `against_n` draws POINTS numbers of records in [n/SPAN, n SPAN]
MIN_WIDTH_RATIO, MAX_WIDTH_RATIO = (
    0.05,
    20.0,
)  # range of the widths, as multiples of the planned width
NARROW_AXIS_RATIO = 100.0  # below this ratio of its ends an axis has ticks at 1, 2 and 5
PARTS = {"q90": "C0-", "sampling": "C2--", "bias": "C3-.", "noise": "C1:"}
LABELS = {"q90": "error (0.9 quantile)", "bias": "clip (bias)"}


def against_n(problem: Problem, n: int, budget: Budget, ax: Axes) -> Axes:
    """Draw the error and its parts (sampling, bias and noise) against the number of records.

    Each number of records has its best clip.

    Parameters
    ----------
    problem : Problem
        Public knowledge about the records.
    n : int
        Planned number of records; the axis is centred at it.
    budget : Budget
        Privacy budget.
    ax : Axes
        Axes to draw on.

    Returns
    -------
    Axes
    """
    sizes = np.unique(np.geomspace(max(n / SPAN, 10), n * SPAN, POINTS).astype(int))
    errors = [
        problem.error(problem.best_clip(int(size), budget), int(size), budget) for size in sizes
    ]
    return _draw_parts(ax, sizes.tolist(), errors, n, "records n, each with its best clip")


def against_width(problem: Problem, n: int, budget: Budget, clip: Clip, ax: Axes) -> Axes:
    """Draw the error and its parts (sampling, bias and noise) against the width of the clip.

    The method `scale_clip` of the problem gives the clip of each width.

    Parameters
    ----------
    problem : Problem
        Public knowledge about the records.
    n : int
        Number of records.
    budget : Budget
        Privacy budget.
    clip : pair of float
        Planned clip, which is marked.
    ax : Axes
        Axes to draw on.

    Returns
    -------
    Axes
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
    from matplotlib.ticker import LogLocator, NullLocator

    for name, look in PARTS.items():
        y = np.abs([getattr(error, name) for error in errors])
        y[~np.isfinite(y) | (y < 1e-6 * errors[0].q90)] = np.nan
        ax.plot(x, y, look, label=LABELS.get(name, name))
    ax.axvline(planned, color="0.7", linewidth=2.5, zorder=0, label="the plan")
    ax.set(xscale="log", yscale="log", xlabel=label)
    for axis, ends in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        narrow = ends[1] < ends[0] * NARROW_AXIS_RATIO
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    return ax


def write(problem: Problem, n: int, budget: Budget, clip: Clip, folder: Path) -> list[Path]:
    """Write the figure of a plan, ``plan.pdf`` and ``plan.png``.

    The left panel shows the error against the number of records (`against_n`). The right panel
    shows it against the width of the clip (`against_width`). If public bounds fix the clip, there
    is no right panel. A grey line in each panel marks the planned number or width.

    Parameters
    ----------
    problem : Problem
        Public knowledge about the records.
    n : int
        Number of records.
    budget : Budget
        Privacy budget.
    clip : pair of float
        Planned clip.
    folder : Path
        Existing folder to write to.

    Returns
    -------
    list of Path
        Written files.
    """
    import matplotlib as mpl

    from dpbench.output.style import SETTINGS, new_canvas, save

    with mpl.rc_context():
        mpl.rcdefaults()
        # No seaborn and no constrained layout, because both are slow.
        mpl.rcParams.update(SETTINGS | {"figure.constrained_layout.use": False})
        fixed_clip = isinstance(problem, BoundedRecords)
        canvas, [axes] = new_canvas(3.0, 1, 1 if fixed_clip else 2, sharey=True)
        against_n(problem, n, budget, axes[0]).set_ylabel("error, unit of the records")
        if not fixed_clip:
            against_width(problem, n, budget, clip, axes[1])
        canvas.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncols=5)
        canvas.subplots_adjust(left=0.1, right=0.98, bottom=0.25, top=0.96, wspace=0.08)
        return save(canvas, folder, "plan", ("pdf", "png"))
