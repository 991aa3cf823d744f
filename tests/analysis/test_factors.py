"""Factors over lower bounds, of the best estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpbench.analysis.exact_of_sweep import exact_values
from dpbench.analysis.factors import BY_TRIALS, ENDS, EXACT, factors
from dpbench.analysis.largest_of_noisy import largest
from dpbench.arrays import Floats
from dpbench.report.run_result import Result
from dpbench.report.scoreboard import render
from dpbench.theory.bounds.class_bound import LOCAL_BOUND_NAME


def test_factors_are_of_the_best_estimator_and_of_finite_bounds(regimes: Result) -> None:
    assert regimes.claims["measured"].isna().all()  # over all n, the infinite bound among them
    assert set(regimes.claims["verdict"]) == {"inconclusive"}
    summary = regimes.summary
    assert set(regimes.factors["n"]) == set(summary["n"]) - {100}
    better = summary.assign(
        estimator="better", q90=summary["q90"] / 2, q90_low=0.0, q90_high=summary["q90"] / 1.9
    )
    found = factors(pd.concat([summary, better[better["n"] == 1e5]]))
    for one in found.to_dict("records"):
        at = summary.query(f"family == '{one['distribution']}' and n == {one['n']}")
        halved = one["n"] == 1e5
        at = better.loc[at.index] if halved else at
        over = (at[["q90", "q90_low", "q90_high"]] / at["lower_bound"].max()).to_numpy()
        assert one["estimator"] == ("better" if halved else "minimax")
        wanted = largest(*over.T, candidates=2 if halved else 1)
        assert [one[name] for name in ENDS] == [*wanted]
        assert one["error_over_bound"] <= over[:, 0].max()
        verdict = "optimal" if wanted.high <= 1.1 else "open"
        assert one["verdict"] == ("below" if wanted.high < 1 else verdict)
        assert one["error_over_bound_from"] == BY_TRIALS
    one = summary[summary["distribution"] == summary["distribution"].iloc[0]]
    assert factors(one).empty  # of its class one law of bounded moments says nothing
    local = summary.assign(
        estimator="local", bound_name=LOCAL_BOUND_NAME, lower_bound=99 * summary["lower_bound"]
    )
    pd.testing.assert_frame_equal(factors(pd.concat([summary, local])), factors(summary))
    assert set(factors(local)["bound_name"]) == {LOCAL_BOUND_NAME}
    assert np.isinf(factors(summary.assign(q90=np.nan))["error_over_bound"]).all()


@pytest.mark.parametrize(
    ("high", "verdict"),
    [(0.99, "below"), (1.0, "optimal"), (1.09, "optimal"), (1.11, "open")],
)
def test_verdicts_follow_from_the_upper_end_or_the_exact_number(
    regimes: Result, high: float, verdict: str
) -> None:
    summary, bound = regimes.summary, regimes.summary["lower_bound"]
    near = summary.assign(q90=0.98 * bound, q90_low=0.97 * bound, q90_high=high * bound)
    assert set(factors(near)["verdict"]) == {verdict}

    def exact(rows: pd.DataFrame) -> Floats:
        return high * rows["lower_bound"].to_numpy()

    wide = summary.assign(q90=1.2 * bound, q90_low=0.5 * bound, q90_high=2 * bound)
    found = factors(wide, exact)
    assert set(found["verdict"]) == {verdict}
    assert set(found["error_over_bound_from"]) == {EXACT}
    for name in ("error_over_bound", "error_over_bound_low", "error_over_bound_high"):
        assert found[name].to_numpy() == pytest.approx(high)


@pytest.mark.parametrize("over", [0.5, 1.05, 1.2])
def test_one_law_is_called_neither_optimal_nor_open(regimes: Result, over: float) -> None:
    """A family of one member is easier than its class, whose bound it has."""
    summary = regimes.summary
    alone = summary.assign(k=np.nan).query(f"distribution == '{summary['distribution'].iloc[0]}'")
    alone = alone.assign(q90_high=over * alone["lower_bound"], q90=alone["lower_bound"] / 3)
    assert set(factors(alone)["verdict"]) == {"below" if over < 1 else "one distribution"}


def test_factors_are_exact_where_every_member_of_a_contender_is(regimes: Result) -> None:
    summary = regimes.summary
    far = summary.assign(
        estimator="far", **{name: 9 * summary[name] for name in ("q90", "q90_low", "q90_high")}
    )
    asked: list[str] = []

    def exact(rows: pd.DataFrame) -> Floats:
        asked.extend(rows["estimator"])
        assert set(rows["distribution"]) <= set(summary["distribution"])
        values = 1.5 * rows["lower_bound"].to_numpy()
        values[(rows["n"] == rows["n"].max()) & ~rows["distribution"].duplicated(keep="last")] *= 2
        unknown = rows["n"] == rows["n"].min()
        return np.where(unknown & ~rows["family"].duplicated(), np.nan, values)

    both = pd.concat([summary, far])
    found, plain = factors(both, exact), factors(both)
    assert set(asked) == {"minimax"}  # the other cannot be the best
    # Where one member is not known, the number is by trials; elsewhere that of the worst member.
    last, first = found["n"] == found["n"].max(), found["n"] == found["n"].min()
    names = [
        "error_over_bound",
        "error_over_bound_low",
        "error_over_bound_high",
        "error_over_bound_from",
    ]
    some = first & (found["error_over_bound_from"] == BY_TRIALS)
    assert some.any()
    pd.testing.assert_frame_equal(found[names][some], plain[names][some])
    assert set(found["error_over_bound"][last]) == {3.0}
    assert found["error_over_bound"][~first & ~last].to_numpy() == pytest.approx(1.5)
    assert set(found["error_over_bound_from"][~first]) == {EXACT}


def test_factors_of_a_run_are_exact_and_trials_agree(regimes: Result) -> None:
    """By trials alone intervals cover the exact factors."""
    found, plain = regimes.factors, factors(regimes.summary)
    exact = found["error_over_bound_from"] == EXACT
    assert exact.any()
    at = regimes.summary[regimes.summary["n"] > 100]
    over = exact_values(at, regimes.study, "q90") / at["lower_bound"]
    worst = over.groupby([at["family"], at["n"]]).max()
    for row in found[exact].to_dict("records"):
        assert row["error_over_bound"] == pytest.approx(worst[row["distribution"], row["n"]])
    covered = plain["error_over_bound_low"] <= found["error_over_bound"]
    covered &= found["error_over_bound"] <= plain["error_over_bound_high"]
    # At 95% fewer than this have probability below 1e-6.
    assert covered[exact].sum() >= stats.binom.ppf(1e-6, exact.sum(), 0.95)


def test_the_largest_over_n_is_printed(regimes: Result) -> None:
    """Exact ones as a number, others with their interval, which allows for the choice of n."""
    for family, at in regimes.factors.groupby("distribution"):
        (printed,) = [
            row
            for row in regimes.scoreboard.splitlines()
            if row.startswith(f"{family} ") and " eps=" in row
        ]
        assert f" {at['error_over_bound'].max():.3g} " in printed
    by_trials = factors(regimes.summary)
    board = render(
        regimes.study, summary=regimes.summary, claims=regimes.claims, factors=by_trials,
        samples=regimes.samples, failures=[],
    )  # fmt: skip
    for family, at in by_trials.groupby("distribution"):
        (printed,) = [
            row for row in board.splitlines() if row.startswith(f"{family} ") and "(" in row
        ]
        ends = (
            at[["error_over_bound", "error_over_bound_low", "error_over_bound_high"]].to_numpy().T
        )
        number, low, high = largest(*ends)
        assert f" {number:.3f} ({low:.3f}, {high:.3f}) " in printed
