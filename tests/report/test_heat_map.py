"""A cell for each family, budget and n."""

from __future__ import annotations

import numpy as np

from dpbench.analysis.result import Result
from dpbench.report.words import Words
from dpbench.sweep.selection import BUDGET
from tests.report.conftest import drawn


def test_a_cell_for_each_family_budget_and_n(numbers: Result) -> None:
    axes = drawn(numbers, {"kind": "factors"})
    families = list(numbers.factors["distribution"].unique())
    labels = [t.get_text() for t in axes[0].get_yticklabels()]
    assert labels == [Words(numbers.study).family(one) for one in families]
    for ax, (_, found) in zip(axes, numbers.factors.groupby("privacy", sort=False), strict=True):
        columns = found[[*BUDGET, "n"]].drop_duplicates()
        mesh = np.ma.filled(np.asarray(ax.collections[0].get_array(), dtype=float), np.nan)
        assert mesh.shape == (len(families), len(columns))
        drawn_factors = mesh[~np.isnan(mesh)]
        assert sorted(drawn_factors) == sorted(found["factor"])
        for family, row in zip(families, mesh, strict=True):
            own = found.loc[found["distribution"] == family, "factor"]
            assert sorted(row[~np.isnan(row)]) == sorted(own)
        bold = [text.get_text() for text in ax.texts if "bf" in text.get_text()]
        assert len(bold) == (found["verdict"] == "optimal").sum()
