"""Lines of figures: their tags, gaps and intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpbench.report.drawing.curves import draw_bound, draw_curve, draw_guide, mark_guide
from dpbench.report.drawing.style import THEORY, line_styles, panels, style

X = np.geomspace(1, 1e4, 40)


def test_a_line_and_its_intervals_share_a_number_that_is_unique_in_the_figure() -> None:
    looks = line_styles("ab")
    with style():
        canvas, axes = panels(2)
        inset = axes[1].inset_axes((0.5, 0.5, 0.4, 0.4))
        every: list[Any] = [*axes, inset]
        for ax in every:
            draw_curve(ax, X, 1 / X, 0.9 / X, 1.1 / X, label="a", look=looks["a"])
            draw_curve(ax, X, X, X, X, label="b", look=looks["b"], intervals="bars")
            draw_bound(ax, X, X / 2, label="bound")
            draw_guide(ax, X, X, label="theory", look=THEORY)
            mark_guide(ax, ax.axhline(1))
    shown = [ax for top in canvas.axes for ax in (top, *top.child_axes)]
    tags = [str(line.get_gid()) for ax in shown for line in ax.lines if ":" in str(line.get_gid())]
    kinds = [tag.split(":")[0] for tag in tags]
    assert kinds == 3 * ["curve", "curve", "bound", "guide", "guide"]
    assert len(set(tags)) == 15
    for ax in shown:
        band, bars = (one for one in ax.collections if one.get_gid())
        numbers = [str(line.get_gid()).split(":")[1] for line in ax.lines if line.get_gid()][:2]
        assert [band.get_gid(), bars.get_gid()] == [f"band:{number}" for number in numbers]


@pytest.mark.parametrize("ends", [(None, None), (np.full(40, np.nan), np.full(40, np.nan))])
def test_unknown_intervals_are_not_drawn(ends: Any) -> None:
    with style():
        _, (ax,) = panels(1)
        draw_curve(ax, X, np.where(X > 10, np.inf, X), *ends, label="a", look=line_styles("a")["a"])
    assert not ax.collections
    assert np.isnan(np.asarray(ax.lines[0].get_ydata(), float)[-1])  # a gap, not a line upwards
