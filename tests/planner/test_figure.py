"""A plan's figure on a caller's axes."""

from __future__ import annotations

from matplotlib.figure import Figure

import dpbench


def test_a_plan_draws_on_given_axes() -> None:
    made = dpbench.plan(n=500, epsilon=1, k=3, lower=0, upper=1)
    ax = Figure().gca()
    assert made.plot(ax, "width") is ax
    assert [line.get_label() for line in ax.lines][:2] == ["error (0.9 quantile)", "sampling"]
