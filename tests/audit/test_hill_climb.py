"""Climbs over neighbouring datasets, compared with moves that arithmetic gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from docs import generate
from dpbench.audit.controls import CONTROLS
from dpbench.audit.hill_climb import climb, score
from dpbench.audit.replay import replay
from dpbench.estimators import ClippedMean, NormalizedSumMean, PublicRecordMean
from dpbench.estimators.regression import AdaSSP
from dpbench.privacy import ZCDP, PureDP
from dpbench.privacy.neighbours import Pair
from tests.support import rng

DOCS = Path(generate.__file__).parent
PURE = PureDP(1.0)
HARMLESS = Pair.replacing("harmless", np.zeros(50), 0, 0.25)


def test_climbs_from_one_harmless_pair_refute_controls_as_the_page_says() -> None:
    page = " ".join((DOCS / "howto" / "audit.md").read_text("utf-8").split())
    rows = [(c, budget) for c in CONTROLS if "replay" in c.seen_by for budget in c.budgets]
    at_once = refuted = 0
    for control, budget in rows:
        zeros = np.zeros((control.n,) if control.d is None else (control.n, control.d))
        start = Pair.replacing("harmless", zeros, 0, zeros[0] + 0.25).convert(budget.neighbours)[0]
        before = replay(control, budget, start, rng())
        pair, found = climb(control, budget, start, 100, rng())
        at_once += before.verdict == "refuted"
        refuted += found.verdict == "refuted"
        assert replay(control, budget, pair, rng(5)).verdict == found.verdict  # other releases
    assert f"refutes {refuted} of {len(rows)} controls" in page
    assert f"refutes {at_once} of the controls" in page


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_a_climb_reaches_the_whole_sensitivity_and_no_more(relation: str) -> None:
    """A clipped mean moves by (upper - lower)/n; a sum of [-1, 1] by 1 if a record is removed."""
    adds = relation == "add_remove"
    budget = PureDP(1.0, neighbours="add_remove") if adds else PURE
    estimator = NormalizedSumMean(lower=-1, upper=1) if adds else ClippedMean(lower=-1, upper=1)
    (pair,) = HARMLESS.convert(budget.neighbours)[:1]
    _, found = climb(estimator, budget, pair, 100, rng())
    assert score(found) == pytest.approx(1.0, abs=1e-9)


def test_a_climb_finds_the_worst_records_of_a_regression() -> None:
    """The hand-made pair moves the moments by 4/n, the derived bound is sqrt(18)/n."""
    estimator, budget = AdaSSP(feature_bound=1, response_bound=1), ZCDP(0.5)
    (pair,) = estimator.audit_pairs(60, 3, budget)
    assert score(replay(estimator, budget, pair, rng())) == pytest.approx(4 / 18**0.5)
    _, found = climb(estimator, budget, pair, 40, rng())
    assert 0.99 < score(found) <= 1 + 1e-9


def test_public_records_stay() -> None:
    estimator = PublicRecordMean(sigma=1)
    assert estimator.first_private == 1
    start = Pair.replacing("last", np.zeros(9), 8, 0.25)
    pair, _ = climb(estimator, PURE, start, 30, rng())
    assert pair.left[0] == pair.right[0] == 0
    assert not np.array_equal(pair.left, start.left)
