"""Estimators that are broken on purpose are refuted, and their honest twins are not."""

from __future__ import annotations

import pytest

from dpbench.audit.controls import CONTROLS, Control
from dpbench.audit.job import TELLING_RUNS
from dpbench.audit.task import COLUMNS
from dpbench.estimators import (
    BoundedContributionMean,
    ClippedMean,
    Estimator,
    KarwaVadhanMean,
    L2ClippedMean,
    TableMean,
    TransformedNoiseMean,
)
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from tests.audit.audits import list_pairs, only, rows_of, verdicts_of

PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
CLIPPED = ClippedMean(lower=-1, upper=1)


# The pair that shows each of them best.
BEST = {
    "radius_for_diameter": "ends_of_the_clip",
    "halved_sensitivity": "ends_of_the_clip", "halved_deviation": "two_far_clusters",
    "range_of_the_data": "all_equal_but_one", "empirical_quantiles": "at_the_quantile",
    "fails_on_spread": "one_to_the_far_end", "no_clipping": "one_to_the_far_end",
    "scale_as_location": "ends_of_the_clip", "add_remove_histogram": "two_far_clusters",
    "add_remove_median": "around_the_quantile",
    "noiseless_queries": "between_two_counts", "reused_noise": "two_clusters",
    "unsorted_sensitivity": "in_the_middle", "public_weights": "to_many_records",
    "ignored_cap": "alone_to_the_other_end",
    "add_remove_sum": "ends_of_the_clip", "replace_sum": "ends_of_the_clip_right",
    "slightly_small_sensitivity": "ends_of_the_clip", "two_looks_at_spread": "one_to_the_far_end",
}  # fmt: skip
CLAIMS = [(control, budget) for control in CONTROLS for budget in control.budgets]


@pytest.mark.parametrize(("control", "budget"), CLAIMS, ids=lambda one: one.label)
def test_a_control_is_refuted_at_its_size(control: Control, budget: Budget) -> None:
    one = only(list_pairs(control, control.n, control.d, budget), BEST[control.label])
    error = 1e-5 / len(CLAIMS)
    (row,) = rows_of(control, budget, one, runs=TELLING_RUNS, error=error, seen_by=control.seen_by)
    assert tuple(row) == COLUMNS
    assert row["verdict"] == "refuted", row
    # one that runs see, too, would need no replay
    assert (row["lower_bound"] > row["claimed"]) == ("runs" in control.seen_by)
    assert bool(row["refuted_by_replay"]) == ("replay" in control.seen_by)
    assert row["runs"] == TELLING_RUNS


# What a control would be without its mistake.
@pytest.mark.parametrize(
    ("estimator", "claim", "d"),
    [(CLIPPED, APPROX, None), (CLIPPED, RHO, 2), (CLIPPED, GDP(1.0), None),
     (L2ClippedMean(radius=1), PURE, 5),
     (BoundedContributionMean(lower=-1, upper=1, cap=8), PURE, 9),
     (BoundedContributionMean(lower=-1, upper=1, cap=8, clip=3.0), RHO, 9),
     (TableMean(columns={"x": TransformedNoiseMean(lower=-1, upper=1)}, cap=1), PURE, 9),
     (KarwaVadhanMean(radius=50, sigma=1), PURE, None), (KarwaVadhanMean(radius=50, sigma=1),
      APPROX, None)],
)  # fmt: skip
def test_what_has_no_mistake_is_not_refuted(
    estimator: Estimator, claim: Budget, d: int | None
) -> None:
    assert verdicts_of(estimator, claim, list_pairs(estimator, 50, d, claim)) == {"not refuted"}


def test_every_control_is_tested() -> None:
    assert set(BEST) == {control.label for control in CONTROLS} == set(Control._registry)
    assert not set(BEST) & set(Estimator._registry)  # no sweep can name them
