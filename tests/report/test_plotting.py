"""Figures on a caller's axes, of a run that was loaded, and what they write."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.image import imread

import dpbench
from dpbench.analysis.result import Result
from dpbench.output.style import save, style
from dpbench.registry import ConfigError
from tests.report.test_error_figures import ROUNDS
from tests.report.test_figures import ACCURACY, CLIP, ERROR, PAID, THRESHOLD

ONE_CURVE = {"estimators": {"histogram": {}}, "budgets": PAID}
# Of every kind, with one panel or several.
CASES: list[tuple[str | dict[str, Any], int]] = [
    ("worst", 3),
    (CLIP, 2),
    ("exponents", 2),  # one above the other
    ({**ACCURACY, **ONE_CURVE}, 1),
    (THRESHOLD, 3),
    ({**ROUNDS, "families": "student"}, 1),
]


def shown(ax: Axes) -> dict[str, Any]:
    """What a panel says and draws, but for how it looks."""
    data = [np.asarray(line.get_xydata(), dtype=float).tolist() for line in ax.get_lines()]
    data += [np.asarray(c.get_paths()[0].vertices).tolist() for c in ax.collections]
    words = (ax.get_title(), ax.get_xlabel(), ax.get_ylabel())
    return {
        "data": repr(data),
        "words": [text.replace("\n", " ") for text in words],
        "scales": (ax.get_xscale(), ax.get_yscale()),
    }


def axes_of(figure: Canvas) -> Axes:
    FigureCanvasAgg(figure)
    return figure.add_subplot()


@pytest.mark.parametrize(("spec", "count"), CASES)
def test_a_callers_axes_hold_what_a_canvas_does(
    numbers: Result, spec: str | dict[str, Any], count: int
) -> None:
    canvas = numbers.figure(spec)
    wanted = [shown(ax) for ax in canvas.axes]
    assert len(wanted) == count
    mine = plt.figure()
    with mpl.rc_context({"lines.linewidth": 9, "font.family": "serif"}):
        before = dict(mpl.rcParams)
        ax, last = axes_of(Canvas((7, 5))), axes_of(Canvas((7, 5)))
        assert numbers.plot(spec, ax) is ax
        assert numbers.plot(spec, last, panel=count - 1) is last
        assert dict(mpl.rcParams) == before
    assert (plt.get_fignums(), mine.axes) == ([mine.number], [])
    plt.close(mine)
    panels = cast("list[Axes]", ax.child_axes) or [ax]
    assert [shown(one) for one in panels] == wanted
    assert (last.child_axes, shown(last)) == ([], wanted[-1])
    legend = ax.get_legend()
    assert legend is not None
    texts = [text.get_text() for one in canvas.legends for text in one.get_texts()]
    assert [text.get_text() for text in legend.get_texts()] == texts
    ax.figure.figure.canvas.draw()  # warnings are errors here


def test_axes_and_panels_by_default(numbers: Result) -> None:
    _, (_, ax) = plt.subplots(1, 2)
    assert numbers.plot({**ERROR, "families": "gaussian", "ylabel": "error (cm)"}) is ax
    assert ax.get_ylabel() == "error (cm)"
    for panel in (-1, 3):
        with pytest.raises(ConfigError, match=f"panel: {panel}: .* panels 0 to 2"):
            numbers.plot("worst", ax, panel=panel)
    plt.close("all")


def test_a_loaded_run_draws_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    """Whatever was drawn before, at which width and in which style."""
    loaded = dpbench.load(folder)
    with mpl.rc_context({"lines.linewidth": 9}):
        with style("column"):
            (narrow,) = save(
                loaded.figure("exponents", width="column"), tmp_path, "narrow", ["png"]
            )
        with style("page"):
            wide = save(loaded.figure("exponents"), tmp_path, "exponents", ["pdf", "png"])
            (worst,) = save(loaded.figure("worst"), tmp_path, "worst", ["svg"])
    assert (imread(narrow).shape[1], imread(wide[1]).shape[1]) == (680, 1400)
    assert worst.read_bytes() == (folder / "figures" / "worst.svg").read_bytes()
    pdf = wide[0].read_bytes()
    assert (b"/FontFile2" in pdf, b"/Type3" in pdf, b"CreationDate" in pdf) == (True, False, False)
