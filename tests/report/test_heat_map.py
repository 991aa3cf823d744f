"""A cell for each family, budget and n."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pandas as pd

from dpbench.analysis.factors import BY_TRIALS, EXACT
from dpbench.report.heat_map import BETWEEN, factor_text
from dpbench.report.labels import Labels
from dpbench.report.run_result import Result
from dpbench.sweep.selection import BUDGET
from tests.report.conftest import drawn


def _by_notion(result: Result) -> list[tuple[str, pd.DataFrame]]:
    """The factors of each notion, in the order of the configuration."""
    groups = dict(iter(result.factors.groupby("privacy")))
    return [(name, groups[name]) for name in ("pure", "zcdp", "approx") if name in groups]


def test_a_cell_for_each_family_budget_and_n(numbers: Result) -> None:
    axes = drawn(numbers, {"kind": "factors"})
    families = list(numbers.factors["distribution"].unique())
    labels = [t.get_text() for t in axes[0].get_yticklabels()]
    assert labels == [Labels(numbers.study).family(one) for one in families]
    for ax, (_, found) in zip(axes, _by_notion(numbers), strict=True):
        columns = found[[*BUDGET, "n"]].drop_duplicates()
        mesh = np.ma.filled(np.asarray(ax.collections[0].get_array(), dtype=float), np.nan)
        assert mesh.shape == (len(families), len(columns))
        drawn_factors = mesh[~np.isnan(mesh)]
        assert sorted(drawn_factors) == sorted(found["error_over_bound"])
        for family, row in zip(families, mesh, strict=True):
            own = found.loc[found["distribution"] == family, "error_over_bound"]
            assert sorted(row[~np.isnan(row)]) == sorted(own)
        texts = [text.get_text() for text in ax.texts]
        bold = [text for text in texts if "bf" in text]
        assert len(bold) == (found["verdict"] == "optimal").sum()
        # A number is exact; of others both ends are printed.
        ends = [text for text in texts if BETWEEN in text]
        assert len(ends) == (found["error_over_bound_from"] == BY_TRIALS).sum()


def test_factors_by_trials_are_printed_as_intervals() -> None:
    row: dict[Hashable, object] = {
        "error_over_bound": 0.94,
        "error_over_bound_low": 0.9,
        "error_over_bound_high": 1.04,
        "verdict": "optimal",
    }
    bold = [r"$\bf{0.90}$", r"$\bf{1.04}$"]
    assert factor_text({**row, "error_over_bound_from": BY_TRIALS}) == BETWEEN.join(bold)
    assert factor_text({**row, "error_over_bound_from": EXACT, "verdict": "open"}) == "0.94"
    for factor, text in ((1.104, "1.104"), (1.1001, "1.101"), (1.106, "1.11"), (1.096, "1.10")):
        found = factor_text(
            {**row, "error_over_bound": factor, "error_over_bound_from": EXACT, "verdict": "open"}
        )
        assert found == text  # a plain 1.10 would look like a bold one
    row |= {"error_over_bound_low": 1.0, "error_over_bound_high": 1.104, "verdict": "open"}
    found = factor_text({**row, "error_over_bound_from": BY_TRIALS})
    assert found == f"1.00{BETWEEN}1.104"
    assert (
        factor_text(
            {**row, "error_over_bound": 4.54, "error_over_bound_from": EXACT, "verdict": "open"}
        )
        == "4.5"
    )
    assert (
        factor_text(
            {**row, "error_over_bound": 1.54, "error_over_bound_from": EXACT, "verdict": "open"}
        )
        == "1.54"
    )


def test_a_bar_explains_the_colours(numbers: Result) -> None:
    axes = drawn(numbers, {"kind": "factors"})
    bars = [ax for panel in axes for ax in panel.child_axes]
    assert [ax.get_ylabel() for ax in bars] == ["error over the lower bound"]
    assert [text.get_text() for text in bars[0].get_yticklabels()] == ["1", "1.5", "2", "3", "5"]
