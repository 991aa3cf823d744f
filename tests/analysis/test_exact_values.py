"""Exact values of rows of a summary."""

from __future__ import annotations

import numpy as np

from dpbench.analysis.exact_values import exact_values
from dpbench.analysis.result import Result
from dpbench.estimators import HeavyTailedMean
from dpbench.privacy import PureDP
from dpbench.theory.exact.value import exact
from dpbench.theory.families import TwoPointFamily


def test_each_row_has_the_exact_value_of_its_law_and_budget(regimes: Result) -> None:
    """Rows of no budget have none."""
    rows = regimes.summary.query("family == 'rare' and n == 100000").reset_index(drop=True)
    laws = TwoPointFamily(k=6, c=[1]).members("rare", 10**5, PureDP(0.01))
    wanted = [
        exact("q90", HeavyTailedMean(k=6), laws[name], 10**5, PureDP(0.01))
        for name in rows["distribution"]
    ]
    assert exact_values(rows, regimes.study, "q90").tolist() == wanted
    assert len(set(wanted)) > 1
    public = rows.assign(privacy="none", epsilon=np.nan)
    assert np.isnan(exact_values(public, regimes.study, "q90")).all()
