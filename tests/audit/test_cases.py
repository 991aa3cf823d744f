"""The pairs that a case audits."""

from __future__ import annotations

from dpbench.audit.cases import pairs_of
from dpbench.estimators import KarwaVadhanMean
from dpbench.privacy import PureDP


def test_an_estimators_own_pairs_are_audited_beside_the_catalogue() -> None:
    one, budget = KarwaVadhanMean(radius=10.0), PureDP(1.0)
    own = {pair.name for pair in one.audit_pairs(60, None, budget)}
    assert own
    assert own <= {pair.name for pair in pairs_of(one, budget, 60, None, "here")}
