"""Lines of figures: what they show, gaps and intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpbench.report.drawing.curves import (
    draw_bound,
    draw_curve,
    draw_guide,
    mark_guide,
)
from dpbench.report.drawing.interactive import shown_by
from dpbench.report.drawing.style import THEORY, line_styles, panels, style

X = np.geomspace(1, 1e4, 40)


def test_a_line_says_what_it_shows_with_its_intervals() -> None:
    looks, ends = line_styles("ab"), np.array([0.9 / X, 1.1 / X])
    with style():
        _, (ax,) = panels(1)
        draw_curve(ax, X, 1 / X, *ends, label="a", look=looks["a"])
        draw_curve(ax, X, 1 / X, *ends, label="b", look=looks["b"], intervals="bars")
        draw_bound(ax, X, X / 2, label="bound")
        draw_guide(ax, X, X, label="theory", look=THEORY)
        mark_guide(ax.axhline(1))
    shown = [one for line in ax.lines if (one := shown_by(line))]
    assert [one.role for one in shown] == ["curve", "curve", "bound", "guide", "guide"]
    assert [one.bars for one in shown[:2]] == [False, True]
    assert [one.band for one in shown[:2]] == [*ax.collections]
    for one in shown[:2]:
        np.testing.assert_array_equal(one.ends, ends)


@pytest.mark.parametrize("ends", [(None, None), (np.full(40, np.nan), np.full(40, np.nan))])
def test_unknown_intervals_are_not_drawn(ends: Any) -> None:
    with style():
        _, (ax,) = panels(1)
        draw_curve(ax, X, np.where(X > 10, np.inf, X), *ends, label="a", look=line_styles("a")["a"])
    assert not ax.collections
    assert np.isnan(np.asarray(ax.lines[0].get_ydata(), float)[-1])  # a gap, not a line upwards
