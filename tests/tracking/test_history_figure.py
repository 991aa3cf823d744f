"""Points, levels and triangles of a history, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dpbench.tracking.history_figure import _draw_rows

KEY = {"estimator": "e", "distribution": "d", "privacy": "pure", "epsilon": 1.0, "n": 10}


def test_levels_span_their_commits_and_triangles_point_the_way() -> None:
    """Five commits, of which the row lacks the second; it changes at the last but one."""
    points = pd.DataFrame({
        **KEY, "label": "x", "commit": ["a", "c", "d", "e"],
        "trimmed_mean_error": [1.0, 1.2, 3.0, 3.2],
        "trimmed_mean_error_low": [0.9, 1.1, 2.0, 3.3],
        "trimmed_mean_error_high": [1.5, 1.3, 3.5, 3.3],
    })  # fmt: skip
    for ratio, marker in ((2.0, "^"), (0.5, "v")):
        levels = pd.DataFrame({
            **KEY, "label": "x", "points": [2, 2], "level": [1.1, 3.1], "ratio": [np.nan, ratio],
        })  # fmt: skip
        ax = Figure().gca()
        _draw_rows(ax, points, levels, list("abcde"), {"x": "C1"})
        dots, triangle = (
            np.array([np.asarray(x, dtype=float) for x in line.get_data()]).T
            for line in ax.get_lines()
        )
        np.testing.assert_allclose(dots, [(0, 1), (2, 1.2), (3, 3), (4, 3.2)])
        np.testing.assert_allclose(triangle, [(2.5, 3.1)])
        assert ax.get_lines()[1].get_marker() == marker
        parts: Any = ax.collections
        bars, first, second = (np.array(part.get_segments()) for part in parts)
        np.testing.assert_allclose(first, [[(-0.5, 1.1), (2.5, 1.1)]])
        np.testing.assert_allclose(second, [[(2.5, 3.1), (4.5, 3.1)]])
        np.testing.assert_allclose(bars[:, :, 1], [(0.9, 1.5), (1.1, 1.3), (2, 3.5), (3.2, 3.3)])
