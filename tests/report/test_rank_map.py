"""Ranks of estimators by family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.registry import ConfigError
from dpbench.report.rank_map import _worst_errors
from dpbench.report.run_result import Result
from tests.report.conftest import drawn

SPEC: dict[str, Any] = {
    "kind": "estimator_ranks", "families": ["gaussian", "student"], "targets": "gaussian",
    "budgets": {"pure": {"epsilon": 1}}, "n": 1000, "metrics": ["q90", "rmse"],
    "headings": ["simulated", "real"],
}  # fmt: skip


def test_cells_show_ranks_and_ratios(numbers: Result) -> None:
    panels = drawn(numbers, SPEC)
    rows = numbers.summary.query("family in ['gaussian', 'student'] and n == 1000")
    rows = rows[(rows["privacy"] == "pure") & (rows["epsilon"] == 1)]
    for ax, metric in zip(panels, SPEC["metrics"], strict=True):
        table = rows.pivot_table(metric, "estimator", "family")[["student", "gaussian"]]
        if metric == "q90":
            order = table["student"].sort_values(kind="stable").index
        table = table.loc[order]
        shape = table.shape
        texts = [text.get_text() for text in ax.texts]
        assert texts[-2:] == ["simulated", "real"]
        ranks = np.array([int(text) for text in texts[:-2]]).reshape(shape)
        assert ranks.tolist() == table.rank(method="min").to_numpy(int).tolist()
        colours = np.asarray(ax.collections[0].get_array(), dtype=float).reshape(shape)
        np.testing.assert_allclose(colours, np.minimum(table / table.min(), 100))
    assert panels[1].child_axes[0].get_ylabel() == "error over the smallest"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"n": 7}, "figure.n: 7: no private estimator runs at this n"),
        ({"budgets": "pure"}, "figure.budgets: ranks need one budget; select one"),
        ({"targets": "none"}, "figure.targets: 'none'"),
    ],
)
def test_maps_that_cannot_be_drawn(numbers: Result, change: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        drawn(numbers, {**SPEC, **change})
    assert str(caught.value).startswith(line)


def test_the_worst_error_of_a_family_counts_and_a_failure_is_infinite() -> None:
    """An rmse is over the trials with a release, so that one failure makes it infinite."""
    rows = pd.DataFrame(
        [
            {"estimator": e, "family": f, "q90": q90, "rmse": rmse, "failure_rate": rate}
            for e, f, q90, rmse, rate in (
                ("a", "x", 1.0, 5.0, 0.0), ("a", "x", 3.0, 4.0, 0.0), ("a", "y", 2.0, 9.0, 0.01),
                ("b", "x", np.nan, 1.0, 0.0),
            )
        ]
    )  # fmt: skip
    inf = np.inf
    assert _worst_errors(rows, "q90").to_numpy().tolist() == [[3, 2], [inf, inf]]
    assert _worst_errors(rows, "rmse").to_numpy().tolist() == [[5, inf], [1, inf]]
