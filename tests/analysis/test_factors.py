"""Factors over lower bounds, of the best estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpbench.analysis.factors import factors
from dpbench.analysis.result import Result
from dpbench.theory.bounds.of_class import OF_VIEWS


def test_factors_are_of_the_best_estimator_and_of_finite_bounds(regimes: Result) -> None:
    assert regimes.claims["measured"].isna().all()  # over all n, the infinite bound among them
    assert set(regimes.claims["verdict"]) == {"inconclusive"}
    summary = regimes.summary
    assert set(regimes.factors["n"]) == set(summary["n"]) - {100}
    better = summary.assign(estimator="better", q90=summary["q90"] / 2, q90_high=0.0)
    found = factors(pd.concat([summary, better[better["n"] == 1e5]]))
    for one in found.to_dict("records"):
        at = summary.query(f"family == '{one['distribution']}' and n == {one['n']}")
        worst = at[["q90", "q90_high"]].max() / at["lower_bound"].max()
        halved = one["n"] == 1e5
        assert one["estimator"] == ("better" if halved else "minimax")
        assert one["factor"] == worst["q90"] / (2 if halved else 1)
        assert one["factor_high"] == (0 if halved else worst["q90_high"])
        verdict = "optimal" if worst["q90_high"] <= 1.1 else "open"
        assert one["verdict"] == ("below" if halved else verdict)
    one = summary[summary["distribution"] == summary["distribution"].iloc[0]]
    assert factors(one).empty  # of its class one law of bounded moments says nothing
    local = summary.assign(
        estimator="local", bound_by=OF_VIEWS, lower_bound=99 * summary["lower_bound"]
    )
    pd.testing.assert_frame_equal(factors(pd.concat([summary, local])), factors(summary))
    assert set(factors(local)["bound_by"]) == {OF_VIEWS}
    alone = summary.assign(k=np.nan).query(f"distribution == '{summary['distribution'].iloc[0]}'")
    assert set(factors(alone.assign(q90_high=1e9))["verdict"]) == {"one law"}
    assert np.isinf(factors(summary.assign(q90=np.nan))["factor"]).all()
    for high, verdict in ((0.99, "below"), (1.09, "optimal"), (1.11, "open")):
        bound = summary["lower_bound"]
        near = summary.assign(q90=0.98 * bound, q90_high=high * bound)
        assert set(factors(near)["verdict"]) == {verdict}
    for family, at in regimes.factors.groupby("distribution"):
        (printed,) = [
            row
            for row in regimes.scoreboard.splitlines()
            if row.startswith(f"{family} ") and " eps=" in row
        ]
        assert f" {at['factor'].max():.3g} " in printed
