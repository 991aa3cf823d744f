"""Estimators that apply are ranked, and no guess comes first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import dpbench
from dpbench.planner import ranking


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
    assert made.rows[0].estimator == "clipped_mean"


def test_no_guess_is_ranked_first_of_a_fair_coin() -> None:
    """The minimax estimator releases about 1/2 if in doubt, which another coin tells."""
    made = dpbench.plan(n=20, epsilon=0.05, law={"kind": "bernoulli", "p": 0.5})
    found = {row.estimator: row.q90 for row in made.rows}
    assert found["binary_minimax"] > 0.3


def test_a_slow_estimator_has_fewer_trials_and_one_with_too_few_records_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranking, "MOST_DRAWN", 4_000)  # of records in all, as if n were large
    made = dpbench.plan(n=20, epsilon=1, law="gaussian", lower=-5, upper=6)
    trials = {row.estimator: row.trials for row in made.rows}
    assert trials["clipped_mean"] == 0  # computed
    assert trials["median_of_buckets"] < trials["universal_mean"]
    found = {row.estimator: row.q90 for row in made.rows}
    assert np.isinf(found["median_of_buckets"])  # of 30 buckets
    assert found["median_of_buckets"] > found["private_median"]


def test_a_mean_at_a_bound_is_within_the_radius() -> None:
    """In units of four digits, as a user writes the radius; it is no wider than by a thousandth."""
    rng = np.random.default_rng(6)
    for low, width, sd in zip(*np.exp(rng.normal(0, 4, (3, 500))), strict=True):
        problem = SimpleNamespace(low=low, high=low + width, sd=sd)
        (found,) = ranking._by_moments(
            cast("Any", problem), None, lambda _, **known: cast("Any", SimpleNamespace(**known))
        )
        assert found.public.radius is not None
        reach = found.public.radius * found.unit / (problem.high - problem.low) * 2
        assert 1 - 1e-12 <= reach < 1.0011
