"""Estimators that apply are ranked, and no guess comes first."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy.special import ndtri

import dpbench
from dpbench.distributions import Gaussian
from dpbench.planner import ranking
from dpbench.privacy import PureDP


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ({"law": "gaussian", "lower": -50, "upper": 50}, "clipped_mean"),
        ({"k": 2, "scale": 3, "lower": -5, "upper": 5}, None),
        ({"law": "student_t", "neighbours": "add_remove"}, None),
    ],
)
def test_those_that_apply_are_ranked(question: dict[str, Any], first: str | None) -> None:
    if question.get("law") == "student_t":
        question = {**question, "law": {"kind": "student_t", "tail_index": 3}}
    made = dpbench.plan(n=200, epsilon=1, **question)
    table = made.ranking
    assert list(table["q90"]) == sorted(table["q90"])
    assert (table["low"] <= table["q90"]).all()
    assert (table["q90"] <= table["high"]).all()
    assert first in (None, table["estimator"][0])
    best, *others = (type(row.by.estimator).__name__ for row in made.rows)
    called = set(re.findall(r"\b(\w+)\(", made.code))
    assert best in called
    assert first is None or not called & set(others) - {best}
    bound, _ = made.limit
    assert bound.value > 0
    if "k" in question:
        # a class's worst case: 400 trials see the bound to a quarter
        minimax = next(row.q90 for row in made.rows if row.estimator == "clipped_mean")
        assert 0.75 * bound.value < minimax < 1.1 * made.expected.q90


@pytest.mark.parametrize("known", [{}, {"k": 2, "scale": 3}], ids=["bounds", "moments"])
def test_no_guess_is_ranked_first_of_a_class(known: dict[str, Any]) -> None:
    """Of bounds around 0 an estimator that releases 0 in doubt errs by an end."""
    made = dpbench.plan(n=50, epsilon=0.1, lower=-6, upper=6, **known)
    found = {row.estimator: row.q90 for row in made.rows}
    assert found["universal_mean"] == 6
    # 400 trials of a few laws see the bound of all of them to a quarter
    assert min(found.values()) > 0.75 * made.limit[0].value > 1


@pytest.mark.parametrize("law", ["gaussian", {"kind": "student_t", "tail_index": 3}])
def test_no_guess_is_ranked_first_of_a_law_around_0(law: Any) -> None:
    made = dpbench.plan(n=300, epsilon=0.3, law=law)
    found = {row.estimator: row.q90 for row in made.rows}
    assert found["universal_mean"] > made.expected.q90  # it is 0 in doubt
    # A trimmed mean has less sampling error for heavy tails, and guesses nothing.
    assert made.rows[0].estimator in ("clipped_mean", "smooth_sensitivity_polyplace")


# Estimators that round a radius or a bound to powers.
GRIDS = (
    "universal_mean",
    "approximate_bounds_mean",
    "exponential_histogram_mean",
    "quantile_clipped_mean",
)


def test_no_guess_is_ranked_first_of_a_fair_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The minimax estimator releases about 1/2 if in doubt, which another coin tells."""
    monkeypatch.setattr(ranking, "TRIALS", 100)
    made = dpbench.plan(n=20, epsilon=0.001, law={"kind": "bernoulli", "p": 0.5})
    found = {row.estimator: row.q90 for row in made.rows}
    assert found["binary_minimax"] > 0.39  # the other coin is 0.4 away


def test_a_slow_estimator_has_fewer_trials_and_one_with_too_few_records_no_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranking, "TRIALS", 100)
    monkeypatch.setattr(ranking, "SLOW_TRIALS", 20)
    # of records in all, as if n were large
    monkeypatch.setattr(ranking, "MAX_DRAWN_RECORDS", 1_000)
    question = {"epsilon": 1, "law": "gaussian", "lower": -5, "upper": 6}
    few, enough = (
        {row.estimator: row.trials for row in dpbench.plan(n=n, **question).rows} for n in (20, 40)
    )
    assert enough["clipped_mean"] == 0  # computed
    assert enough["median_of_buckets"] < enough["universal_mean"]
    assert "median_of_buckets" not in few  # of 30 buckets


def test_ranks_of_errors_are_those_of_a_naive_count() -> None:
    """400 releases err by 1 to 400 in another order, so that a rank is the error itself.

    The 0.9 quantile is the least error that 360 are at or below. A binomial count of 400 at 0.9 has
    the standard deviation 6, and 95% of a normal distribution lie within 1.95996 of its own.
    """

    class Errs:
        def run(self, sample: Any, ledger: Any) -> Any:
            return SimpleNamespace(value=np.random.default_rng(3).permutation(400) + 6.0)

    one = ranking.Candidate("it", None, "", Errs())  # type: ignore[arg-type]
    data = ranking._Datasets(np.zeros((400, 2)), None, 5.0)
    q90, low, high = ranking._simulate_error(one, data, PureDP(1.0))
    errors = np.arange(1, 401)
    assert q90 == min(e for e in errors if np.sum(errors <= e) >= 0.9 * 400)
    reach = ndtri(0.975) * np.sqrt(400 * 0.9 * 0.1)
    assert (low, high) == (np.ceil(360 - reach), np.ceil(360 + reach))


def test_a_class_of_moments_has_the_unit_of_its_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records ten times as large, and bounds: all errors and clips are ten times as large.

    But for those estimators that round a radius or a bound to a public grid.
    """
    monkeypatch.setattr(ranking, "TRIALS", 40)
    one, ten = (
        dpbench.plan(n=200, epsilon=0.5, k=3, scale=unit, lower=-3 * unit, upper=5 * unit)
        for unit in (1, 10)
    )
    assert ten.clip == pytest.approx(10 * np.array(one.clip))
    assert tuple(ten.expected) == pytest.approx(10 * np.array(one.expected))
    assert ten.limit[0].value == pytest.approx(10 * one.limit[0].value)
    assert ten.records(5.0) == one.records(0.5)
    found = [
        {row.estimator: (row.q90, row.low, row.high) for row in made.rows} for made in (one, ten)
    ]
    assert found[0].keys() == found[1].keys()
    for name, errors in found[0].items():
        if name not in GRIDS:
            assert found[1][name] == pytest.approx(tuple(10 * np.array(errors)), rel=1e-6), name


def test_a_mean_at_a_bound_is_within_the_radius() -> None:
    """In units of four digits, as a user writes the radius; it is no wider than by a thousandth."""
    rng = np.random.default_rng(6)
    for low, width, sd in zip(*np.exp(rng.normal(0, 4, (3, 500))), strict=True):
        problem = SimpleNamespace(low=low, high=low + width, sd=sd)
        (found,) = ranking._list_moment_knowledge(
            cast("Any", problem), None, lambda _, **known: cast("Any", SimpleNamespace(**known))
        )
        assert found.public.radius is not None
        reach = found.public.radius * found.unit / (problem.high - problem.low) * 2
        assert 1 - 1e-12 <= reach < 1.0011


def test_equal_rows_of_an_estimator_are_one_row_for_the_weaker_assumption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trimmed mean does not see a clip beyond the records that it trims."""
    monkeypatch.setattr(ranking, "TRIALS", 40)
    law = {"kind": "log_normal", "scale": 50, "sigma": 0.7}
    made = dpbench.plan(n=1000, epsilon=0.5, lower=0, upper=1000, law=law)
    found = [(row.estimator, row.q90, row.low, row.high) for row in made.rows]
    assert len(found) == len(set(found))
    (trimmed,) = [row for row in made.rows if row.estimator == "smooth_sensitivity_trimmed_mean"]
    assert trimmed.assumes == "records within the bounds"


def test_the_shape_of_gaussians_is_told_in_units_of_their_sd() -> None:
    """The centre is the middle of the bounds, and the radius half of their width."""
    problem = SimpleNamespace(low=-4.0, high=8.0, sd=3.0)
    moments, gaussian = ranking._list_moment_knowledge(
        cast("Any", problem),
        Gaussian(scale=3),
        lambda kind, **known: cast("Any", SimpleNamespace(kind=kind, **known)),
    )
    for found in (moments, gaussian):
        assert (found.centre, found.unit) == (2.0, 3.0)
        assert found.public.radius == pytest.approx(2.0, rel=1e-3)
    known: Any = moments.public, gaussian.public
    assert known[0].k == 2.0
    assert (known[1].kind, known[1].scale) == ("gaussian", 1.0)
