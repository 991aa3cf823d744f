"""Exact values of rows of a summary, and the n from which exact exponents are the theorem's."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dpbench.analysis.claim_kinds import Exponent, build_claim, slopes
from dpbench.analysis.exact_of_sweep import MAX_N, check_exact, exact_values, first_n
from dpbench.analysis.summary_table import worst_case
from dpbench.estimators import TunedClippedMean
from dpbench.jobs.composition import compose
from dpbench.privacy import PureDP
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.run_result import Result
from dpbench.report.study import Study
from dpbench.sweep.plan import key_table
from dpbench.theory.exact.value import exact
from dpbench.theory.families import TwoPointFamily
from tests.sweeps import Made


def test_the_first_n_is_that_of_the_first_grid_that_is_near_to_the_end() -> None:
    grid, seen = pd.Series([100, 1000, 300]), list[int]()

    def beyond(limit: float) -> float:
        def near(n: pd.Series[int]) -> bool:
            assert (n / grid == n[0] / grid[0]).all()  # of the grid's shape
            assert n.max() <= MAX_N
            seen.append(int(n.min()))
            return bool(n.min() >= limit)

        return first_n(grid, near)

    assert beyond(1000) == 1600
    assert seen == [100 * 2**39, 200, 400, 800, 1600]
    assert math.isnan(beyond(1e15))
    assert beyond(0) == 200  # the grid itself is not near, or nobody asks
    # near on the way to another limit is not near from there on
    assert math.isnan(first_n(grid, lambda n: bool(400 <= n.min() <= 1e6)))
    assert math.isnan(first_n(pd.Series([MAX_N]), lambda n: True))


def test_exact_values_are_of_each_row_and_unknown_without_privacy() -> None:
    made = Made(n=[100, 1000])
    found = exact_values(made.keys, made.sweep, "q90")
    private = (made.keys["privacy"] != "none").to_numpy()
    assert np.isfinite(found[private]).all()
    with pytest.raises(
        ConfigError, match=r"^here: no exact trimmed_mean_error is known for clip on"
    ):
        check_exact(made.keys[private], ["estimator"], made.sweep, "trimmed_mean_error", "here")


def test_exact_values_are_computed_once_for_each_row_and_metric() -> None:
    """Rows of several budgets, in another order the second time."""
    made = Made(n=[100, 1000], budgets={"one": PureDP(1.0), "two": PureDP(2.0)})
    rows = made.keys[made.keys["privacy"] != "none"]
    found = [exact_values(rows, made.sweep, metric) for metric in ("q90", "rmse")]
    calls = len(made.sweep.exact_values)
    assert calls == 2 * len(rows)
    assert len(np.unique(np.concatenate(found))) == calls
    again = exact_values(rows[::-1], made.sweep, "q90")
    np.testing.assert_array_equal(again[::-1], found[0])
    assert len(made.sweep.exact_values) == calls


def test_a_shipped_exponent_is_early_until_the_n_that_is_told() -> None:
    """Of AKMMSU24 in m: computed anew at this n, and at half of it, by another fit."""
    spec = compose(["sweep=person_level"])["sweep"]
    for part in (spec, *spec["parts"].values()):
        part.pop("figures", None)  # their kinds are no part of this room
    study = from_mapping(Study, spec, "sweep")
    keys = key_table(study, study.plan(None).cells, bounds=False)
    claim = study.all_claims["heavy_m"]
    assert isinstance(claim, Exponent)
    table = claim._add_names(keys[claim.rows(keys, study)].reset_index(drop=True), study)
    table = table[(table["law"] == "heavy_k4") & (table["epsilon"] == 0.1)].reset_index(drop=True)
    curve, _ = worst_case(table, np.zeros((len(table), 1)))
    found = claim._asymptotic_from(curve, table, study)

    def exponent(n: pd.Series[int]) -> float:
        grid = table.assign(n=n)
        grid["error"] = exact_values(grid, study, claim.statement.metric)
        worst = grid.groupby(["family", "n"])["error"].max().reset_index()
        m = [float(study.families[label].parameters["m"]) for label in worst["family"]]
        columns = [np.ones(len(m)), np.log(worst["n"]), np.log(m)]
        fit = np.linalg.lstsq(np.stack(columns, axis=1), np.log(worst["error"]), rcond=None)[0]
        return float(fit[2] / fit[1])

    own = table["n"].min()
    assert found == 2 * own == 2e8
    assert abs(exponent(table["n"]) - 1) > claim.tolerance > abs(exponent(2 * table["n"]) - 1)


def test_what_has_no_oracle_tells_no_n() -> None:
    made = Made(n=[100, 1000])
    for more in ({"exact_at_run_n": 0.9}, {"exact_at_run_n": False}):
        spec = {"theorem": "private_regime", "tolerance": 0.05, "reason": "test", **more}
        claim = build_claim(spec, "here")
        table = claim._add_names(made.keys, made.sweep)
        assert math.isnan(claim._asymptotic_from(table, table, made.sweep))
    assert slopes(np.array([[1.0], [2.0]]), np.array([1.0, 2.0]))[0] == pytest.approx(1)


def test_each_row_has_the_exact_value_of_its_law_and_budget(regimes: Result) -> None:
    """Rows of no budget have none."""
    rows = regimes.summary.query("family == 'rare' and n == 100000").reset_index(drop=True)
    laws = TwoPointFamily(k=6, c=[1]).members("rare", 10**5, PureDP(0.01))
    wanted = [
        exact("q90", TunedClippedMean(k=6, scale=1), laws[name], 10**5, PureDP(0.01))
        for name in rows["distribution"]
    ]
    assert exact_values(rows, regimes.study, "q90").tolist() == wanted
    assert len(set(wanted)) > 1
    public = rows.assign(privacy="none", epsilon=np.nan)
    assert np.isnan(exact_values(public, regimes.study, "q90")).all()
