"""Scores over what is possible, and the share of problems that are solved within each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpbench.analysis.factors import scores
from dpbench.report.profiles import OUTSIDE, shares
from dpbench.report.run_result import Result
from tests.report.conftest import assert_refused, curves, drawn

PURE = {"privacy": "pure", "epsilon": 1.0, "delta": np.nan, "rho": np.nan, "mu": np.nan}
FREE = {**dict.fromkeys(PURE, np.nan), "privacy": "none"}


def row(family: str, law: str, estimator: str, q90: float, bound: float, **more: object) -> object:
    fixed = {"k": np.nan, "n": 100, "d": 1, "bound_name": "two-point", **PURE}
    known = {"family": family, "distribution": law, "estimator": estimator, "q90": q90}
    return {**fixed, **known, "q90_high": 1.5 * q90, "lower_bound": bound, **more}


@pytest.fixture
def summary() -> pd.DataFrame:
    """A class with its bound, a law with moments, a law without either, and one out of reach."""
    free = {**FREE, "bound_name": np.nan}
    nan, inf = np.nan, np.inf
    return pd.DataFrame(
        [
            row("class", "a", "good", 2.0, 1.0, k=2.0), row("class", "b", "good", 3.0, 1.0, k=2.0),
            row("class", "a", "bad", 40.0, 1.0, k=2.0), row("class", "b", "bad", inf, 1.0, k=2.0),
            row("law", "law", "good", 8.0, 6.0, k=2.0), row("law", "law", "bad", 20.0, 6.0, k=2.0),
            row("law", "law", "mean", 4.0, nan, k=2.0, **free),
            row("law", "law", "median", 2.0, nan, k=2.0, **free),
            row("alone", "alone", "bad", 5.0, nan),
            row("few", "few", "good", 5.0, inf),
        ]
    )  # fmt: skip


def test_scores_are_over_the_bound_or_over_no_privacy(summary: pd.DataFrame) -> None:
    found = scores(summary).set_index(["distribution", "estimator"])
    wanted = {
        ("class", "good"): (3.0, 4.5, "lower bound"),
        ("class", "bad"): (np.inf, np.inf, "lower bound"),
        ("law", "good"): (4.0, 6.0, "no privacy"),  # over the median, which is the better one
        ("law", "bad"): (10.0, 15.0, "no privacy"),
    }
    told = found[["score", "score_high", "over"]].itertuples(name=None)
    assert {one: values for one, *values in told} == {k: list(v) for k, v in wanted.items()}


def test_what_an_estimator_fails_at_or_is_not_run_on_it_never_solves(summary: pd.DataFrame) -> None:
    solved = shares(scores(summary[summary["estimator"] != "good"]))
    reached, share = solved["bad"]
    assert (reached.tolist(), share.tolist()) == ([10.0], [0.5])
    solved = shares(scores(summary))
    reached, share = solved["good"]
    assert (reached.tolist(), share.tolist()) == ([3.0, 4.0], [0.5, 1.0])
    # who else takes part does not matter
    alone = shares(scores(summary[~summary["estimator"].isin(["bad"])]))["good"]
    assert [v.tolist() for v in alone] == [[3.0, 4.0], [0.5, 1.0]]


def test_the_figure_steps_from_none_to_what_is_solved(numbers: Result) -> None:
    found = scores(numbers.summary)
    for ax, (_, about) in zip(
        drawn(numbers, {"kind": "profile"}), found.groupby("privacy", sort=False), strict=True
    ):
        solved, lines = shares(about), curves(ax)
        assert len(lines) == len(solved)
        ends = sorted((x[1:-1], y[1:-1]) for x, y in lines.values())
        assert ends == sorted(
            (np.minimum(x, OUTSIDE).tolist(), y.tolist()) for x, y in solved.values()
        )
        assert all(y[-1] == max(y) <= 1 and y[0] == 0 for _, y in lines.values())
    spec = {"kind": "profile", "estimators": "mean"}
    assert_refused(numbers, spec, ["it selects no private estimator"])


def test_a_problem_that_an_estimator_was_not_run_on_counts(summary: pd.DataFrame) -> None:
    bad = summary["estimator"] == "bad"
    solved = shares(scores(summary[~(bad & (summary["family"] == "class"))]))
    reached, share = solved["bad"]
    assert (reached.tolist(), share.tolist()) == ([10.0], [0.5])
