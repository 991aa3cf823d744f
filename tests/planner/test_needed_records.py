"""Searches for the number of records of one estimator, against exact errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dpbench
from dpbench.errors import ConfigError
from dpbench.planner import needed_records
from dpbench.planner.needed_records import (
    EstimatorPlan,
    ReachedError,
    SearchedRecords,
    error_lines,
    records_lines,
    round_records,
)
from dpbench.registry import from_mapping
from dpbench.runner import execute
from dpbench.runner.run import RunOptions
from dpbench.sweep.plan import Sweep

BIT = {"kind": "bernoulli", "p": 0.5}
CLIP = {"kind": "clipped_mean", "lower": 0, "upper": 1}


def made(
    law: Any = BIT, estimator: Any = CLIP, budget: Any = None, report: Any = print, **options: Any
) -> EstimatorPlan:
    spec = {
        "families": {"law": law},
        "estimators": {"mine": estimator},
        "budgets": {"budget": budget or {"kind": "pure_dp", "epsilon": 1}},
        "parts": {"plan": {"n": [1], "trials": 1, "estimators": ["mine"]}},
    }
    sweep = from_mapping(Sweep, spec, "sweep")
    run_options = RunOptions(seed=options.pop("seed", 0), n_jobs=1)
    return EstimatorPlan(
        sweep, run_options, options.pop("trials", None), options.pop("n_max", None), report
    )


def text(plan: EstimatorPlan, alpha: float) -> str:
    return " ".join(records_lines(plan, alpha, plan.find_records(alpha)))


def test_the_number_is_that_of_exact_errors() -> None:
    """The interval of 3 seeds covers the exact n, widened by half of its width for chance."""
    alpha = 0.05
    exact = dpbench.plan(n=100, epsilon=1, lower=0, upper=1).records(alpha)
    for seed in range(3):
        found = made(seed=seed).find_records(alpha)
        assert found.trials == needed_records.MAX_TRIALS
        spare = (found.high - found.low) / 2
        assert found.low - spare < exact < found.high + spare
        assert found.high / found.low < 1.12


def test_the_error_at_n_is_the_exact_one() -> None:
    exact = dpbench.plan(n=300, epsilon=1, lower=0, upper=1).expected.q90
    reached = made().error_at(300)
    assert reached.low < reached.q90 < reached.high
    # five times the distance of an end of a 95% interval
    assert abs(reached.q90 - exact) < 2.5 * (reached.high - reached.low)
    (line,) = [" ".join(error_lines(reached))]
    assert line.startswith("300 records give an error of at most 0.0")
    assert line.endswith("4,000 simulated releases).")


def test_a_curve_that_does_not_cross_is_extended() -> None:
    plan = made()
    exact = plan.find_records(0.05).n
    for low, high in ((2 * exact, 3 * exact), (exact / 3, exact / 2)):
        found = plan._read_off_curve(0.05, round(low), round(high), 1000)
        assert found.n == pytest.approx(exact, rel=0.15)


def test_a_bias_that_no_n_removes_is_named() -> None:
    narrow = {**CLIP, "upper": 0.5}
    told = text(made(estimator=narrow, n_max=100_000), 0.05)
    assert re.match(r"No n up to 100,000 gives an error of at most 0.05 in 9 of 10 rel", told)
    assert "At n = 100,000 it is 0.25" in told
    assert "a bias remains" in told


def test_a_larger_n_is_proposed_where_the_error_still_falls() -> None:
    told = text(made(n_max=1000), 0.001)
    assert "No n up to 1,000 gives" in told
    assert told.endswith("To try larger n write n_max=4000.")


def test_one_record_may_do() -> None:
    constant = {"kind": "bernoulli", "p": 0.5}
    told = text(made(law=constant, budget={"kind": "pure_dp", "epsilon": 100}), 0.9)
    assert told.startswith("1 record, the smallest possible n, already gives an error of at most")


def test_assumptions_fit_a_terminal_and_name_what_is_assumed() -> None:
    family = {"kind": "two_point_family", "k": 2, "c": [0, 1, 3]}
    plan = made(law=family, estimator={"kind": "tuned_clipped_mean", "scale": 1})
    lines = "\n".join(plan.assumptions()).splitlines()
    assert max(map(len, lines)) <= 80
    page = "\n".join(lines)
    assert "TunedClippedMean(k=2.0" in page  # k of the family
    assert "the worst of " in page
    assert "epsilon = 1; neighbours: one record is replaced" in page
    vectors = made(
        law={"kind": "multivariate_gaussian", "d": 3}, estimator={"kind": "empirical_mean"}
    )
    page = "\n".join(vectors.assumptions())
    assert "not private" in page
    assert "l2 norm" in page


def test_an_exception_of_the_estimator_is_an_error_in_a_line() -> None:
    budget = {"kind": "approx_dp", "epsilon": 1, "delta": 1e-6}
    vectors = {"kind": "multivariate_gaussian", "d": 3}
    plan = made(
        law=vectors,
        estimator={"kind": "gaussian_score_mean", "radius": 10, "sigma": 1},
        budget=budget,
    )
    with pytest.raises(ConfigError, match=r"estimator: 'mine': at n = \d+: .*; mend the estimator"):
        plan.error_at(100)
    with pytest.raises(ConfigError, match=r"n: \d+: this estimator and law need n from 1 to "):
        made().error_at(10**16)


def test_progress_is_reported_after_two_seconds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    plan = made(report=lines.append)
    plan.error_at(100)
    assert lines == []
    monkeypatch.setattr(needed_records, "SECONDS_BETWEEN_LINES", 0.0)
    plan.next_report = 0.0
    plan.error_at(100)
    assert re.fullmatch(r"\d s: 50% of 4,000 releases at n = 100", lines[0])


def test_numbers_of_records_are_rounded_up() -> None:
    assert [round_records(n) for n in (3.2, 999, 999.5, 1000, 1001, 12340, 12301, 1e9 + 1)] == [
        4, 999, 1000, 1000, 1010, 12400, 12400, 1_010_000_000,
    ]  # fmt: skip
    assert np.all([round_records(float(f"{n}e6")) == n * 10**6 for n in range(100, 1000)])


def test_other_processes_change_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    here = made().error_at(100)
    used: list[int] = []

    def counted(*words: Any) -> Any:
        used.append(1)
        return execute.compute(*words)

    monkeypatch.setattr(needed_records, "compute", counted)
    plan = made()
    plan.seconds_per_value = 1e9
    assert plan.error_at(100) == here
    assert used


def test_the_plan_says_from_which_n_a_histogram_works() -> None:
    tuned = {"kind": "ksu20_mean", "k": 2, "scale": 1, "radius": 1e4, "constants": "tuned"}
    plan = made({"kind": "gaussian"}, tuned, trials=200)
    assert 150 < plan.working < 400
    line = " ".join(" ".join(error_lines(plan.error_at(plan.working - 1), plan.working)).split())
    assert f"{plan.working - 1} records: too few" in line
    assert f"it works from n = {plan.working}." in line
    assert "an error of at most" in " ".join(error_lines(plan.error_at(plan.working), plan.working))
    few = made({"kind": "gaussian"}, tuned, trials=200, n_max=100)
    assert f"it works from n = {plan.working}." in " ".join(text(few, 0.5).split())


@pytest.mark.parametrize(("alpha", "said"), [(0.1, False), (0.19, False), (0.2, True), (0.3, True)])
def test_the_smallest_n_is_enough_only_if_its_error_is(alpha: float, said: bool) -> None:
    """The error is the estimate 0.2 of the quantile, and not an end of its interval."""
    plan = made(n_max=10)
    plan.tried = {1: ReachedError(1, 0.2, 0.05, 0.4, 4000), 10: ReachedError(10, 1.0, 1, 1, 4000)}
    nothing = SearchedRecords(np.nan, np.nan, np.nan, 4000)
    told = " ".join(records_lines(plan, alpha, nothing))
    assert ("already gives" in told) == said


def test_the_error_of_a_family_is_that_of_its_worst_member() -> None:
    """Members at p = 1e-6 hardly vary; a fair coin, the second, errs by about 1/sqrt(n)."""
    rare, alone = {"kind": "bernoulli", "p": 1e-6}, made(trials=400).error_at(300)
    for laws in ({"a": rare, "b": BIT}, {"a": BIT, "b": rare}):
        many = made(law={"kind": "laws", "laws": laws}, trials=400).error_at(300)
        assert many.q90 == pytest.approx(alone.q90, rel=0.2)
        assert (many.low, many.high) == pytest.approx((alone.low, alone.high), rel=0.3)
