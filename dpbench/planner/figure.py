"""The error of a plan and its parts, against the number of records and against the clip's width."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpbench.planner.prediction import AnyLaw, Clip, Error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpbench.planner.answer import Plan

__all__ = ["against_n", "against_width", "write"]

SPAN, POINTS = 30.0, 7  # how far from n, and how many numbers of records
LEAST, MOST = 0.05, 20.0  # of the best width
FEW = 100.0  # times the least: an axis with ticks at 1, 2 and 5
PARTS = {"q90": "C0-", "sampling": "C2--", "bias": "C3-.", "noise": "C1:"}
LABELS = {"q90": "error (0.9 quantile)", "bias": "clip (bias)"}


def against_n(plan: Plan, ax: Axes) -> Axes:
    """Draw the error against n, each n at its best clip."""
    sizes = np.unique(np.geomspace(max(plan.n / SPAN, 10), plan.n * SPAN, POINTS).astype(int))
    problem, budget = plan.problem, plan.budget
    found = [problem.error(problem.best_clip(int(n), budget), int(n), budget) for n in sizes]
    return _drawn(ax, sizes.tolist(), found, plan.n, "records n, each with its best clip")


def against_width(plan: Plan, ax: Axes) -> Axes:
    """Draw the error against the width of clips of the kind that the best one is of."""
    shares = np.geomspace(LEAST, MOST, 3 * POINTS)
    clips = {plan.problem.scaled(plan.clip, float(share)) for share in shares}
    known = sorted({clip for clip in clips if clip[0] < clip[1]}, key=_width)
    found = [plan.error(*clip) for clip in known]
    return _drawn(ax, [_width(c) for c in known], found, _width(plan.clip), "width of the clip")


def _width(clip: Clip) -> float:
    return clip[1] - clip[0]


def _drawn(ax: Axes, x: Sequence[float], errors: list[Error], here: float, label: str) -> Axes:
    """The error and its parts at every x, and where the plan is."""
    from matplotlib.ticker import LogLocator, NullLocator

    for name, look in PARTS.items():
        y = np.abs([getattr(error, name) for error in errors])
        y[~np.isfinite(y) | (y < 1e-6 * errors[0].q90)] = np.nan
        ax.plot(x, y, look, label=LABELS.get(name, name))
    ax.axvline(here, color="0.7", linewidth=2.5, zorder=0, label="the plan")
    ax.set(xscale="log", yscale="log", xlabel=label)
    for axis, ends in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        few = ends[1] < ends[0] * FEW
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    return ax


def write(plan: Plan, folder: Path) -> list[Path]:
    """Write ``plan.pdf`` and ``plan.png``."""
    import matplotlib as mpl

    from dpbench.drawing import SETTINGS, new_canvas, save

    with mpl.rc_context():
        mpl.rcdefaults()
        # Without seaborn, which is slow to load, and layouts, which are slow to find.
        mpl.rcParams.update(SETTINGS | {"figure.constrained_layout.use": False})
        one = isinstance(plan.problem, AnyLaw)
        canvas, [axes] = new_canvas(3.0, 1, 1 if one else 2, sharey=True)
        against_n(plan, axes[0]).set_ylabel("error, unit of the records")
        if not one:
            against_width(plan, axes[1])
        canvas.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncols=5)
        canvas.subplots_adjust(left=0.1, right=0.98, bottom=0.25, top=0.96, wspace=0.08)
        return save(canvas, folder, "plan", ("pdf", "png"))
