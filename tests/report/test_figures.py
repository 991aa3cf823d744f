"""What all figures keep to, on a canvas and on a caller's axes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Canvas
from matplotlib.image import imread
from matplotlib.lines import Line2D

import dpbench
from dpbench.registry import ConfigError
from dpbench.report.drawing.style import save, style
from dpbench.report.run_result import Result
from tests.report.conftest import assert_refused, curves, drawn, lines
from tests.report.specs import ACCURACY, CLIP, ERROR, PAID, THRESHOLD
from tests.report.test_error_figures import ROUNDS


def looks(ax: Axes) -> dict[str, tuple[Any, ...]]:
    """Colour, marker and dash of every line of a legend."""
    return {
        label: (to_rgb(line.get_color()), line.get_marker(), line.get_linestyle())
        for line, label in zip(*ax.get_legend_handles_labels(), strict=True)
        if isinstance(line, Line2D)
    }


@pytest.mark.parametrize("by", ["k", "budget"])
def test_two_laws_never_look_alike(numbers: Result, by: str) -> None:
    """Of one estimator in one panel; where every panel has one law it is not written."""
    spec = {**ERROR, "estimators": {"naive": {"radius": 10}}, "metric": "mean_error"}
    (ax,) = drawn(numbers, {**spec, "columns": by})
    name = "naive, $R = 10$"
    assert set(curves(ax)) == {f"{name}, Gaussian", f"{name}, student"}
    assert len(set(looks(ax).values())) == 2
    one, other = drawn(numbers, {**spec, "columns": "family"})
    assert set(curves(one)) == set(curves(other)) == {name}
    (ax,) = drawn(numbers, {"kind": "thresholds", "request": "deltas", "against": "delta"})
    assert {label for label, _, _ in lines(ax)} == {"free, Gaussian", "free, student"}


def test_no_hyphen_stands_for_a_minus(numbers: Result) -> None:
    above, below = drawn(numbers, "exponents")
    assert below.get_ylabel().replace("\n", " ") == "measured $-$ theory"
    for ax in (above, below):  # points that would coincide are set apart in print only
        assert {x for label, xs, _ in lines(ax) if label != "theory" for x in xs} == {2, 3}
    assert "-" not in "".join(text.get_text() for text in below.get_yticklabels())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {**ERROR, "budgets": "pure", "columns": "k"},
            ["figure.budgets", "2 budgets", "columns: budget"],
        ),
        ({**ERROR, "budgets": {"pure": {"epsilon": 7}}}, ["figure.budgets.pure.epsilon", "0.5, 1"]),
        ({**ERROR, "families": "student", "estimators": "minimax"}, ["figure: the sweep runs no"]),
        ({**ERROR, "columns": "x"}, ["figure.columns", "'x'", "family"]),
        ({**ERROR, "rows": "k", "columns": ["family", "k"]}, ["figure.rows", "'k'", "remove one"]),
        ({**ERROR, "metric": "x"}, ["figure.metric", "'x'", "q90"]),
        ({**CLIP, "n": 7}, ["figure.n", "7"]),
        ({**CLIP, "budgets": "pure"}, ["figure.budgets", "2 budgets"]),
        ({**CLIP, "estimators": "minimax"}, ["figure.estimators", "no list of threshold"]),
        ({**CLIP, "chosen": "mean"}, ["figure.chosen", "'mean'", "no threshold"]),
        ({"kind": "exponents", "claims": "x"}, ["figure.claims", "'x'", "rate, near, limit"]),
        ({"kind": "exponents", "claims": "near"}, ["figure.claims", "'near'", "no exponent"]),
        ({"kind": "exponents", "claims": "limit"}, ["figure.claims", "'limit'", "moment order"]),
        ({**ACCURACY, "request": "*"}, ["figure.request", "'*'", "accuracy, threshold, deltas"]),
        ({**ACCURACY, "estimators": "free"}, ["figure: the sweep runs nothing"]),
        ({**THRESHOLD, "leave": "x"}, ["figure.leave", "'x'"]),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    numbers: Result, spec: dict[str, Any], words: list[str]
) -> None:
    assert_refused(numbers, spec, words)


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
    spec = {**ERROR, "families": "gaussian", "estimators": "naive", "ylabel": "error (cm)"}
    assert numbers.plot(spec) is ax
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


def test_a_slide_has_a_fixed_shape_and_large_type(numbers: Result, tmp_path: Path) -> None:
    for spec in ("worst", "exponents", {**ERROR, "columns": "family"}):
        with style("slide"):
            canvas = numbers.figure(spec, width="slide")
        page = numbers.figure(spec)
        assert len(page.axes) == len(canvas.axes)
        sizes = [float(one.axes[0].xaxis.label.get_fontsize()) for one in (page, canvas)]
        assert sizes[1] > 1.5 * sizes[0]
    with style("slide"):
        (path,) = save(numbers.figure("worst", width="slide"), tmp_path, "slide", ["png"])
    assert imread(path).shape[:2] == (1500, 2666)


def test_printed_names_replace_labels_and_an_argument_replaces_both(numbers: Result) -> None:
    names = {"naive": "clipped, $R$ known", "pure": "pure"}
    study = dataclasses.replace(numbers.study, names=names)
    named = dataclasses.replace(numbers, study=study)
    spec = {**ERROR, "families": "gaussian", "estimators": {"naive": {"radius": 10}}}
    (ax,) = drawn(named, spec)
    assert list(curves(ax)) == ["clipped, $R$ known, $R = 10$"]
    figure = named._figure(spec)
    with style():
        canvas = figure.figure(named, {"naive": "other"})
    assert list(curves(canvas.axes[0])) == ["other, $R = 10$"]
    for wrong, words in (({"nave": "x"}, "sweep.names.nave: .*naive"), ({"naive": "$x"}, "sweep")):
        with pytest.raises(ConfigError, match=words):
            dataclasses.replace(numbers.study, names=wrong).plan()
