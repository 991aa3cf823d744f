"""The pairs that a case audits."""

from __future__ import annotations

import pytest

from dpbench.audit.cases import AuditCase, AuditSettings, control_tasks, list_pairs
from dpbench.audit.controls import CONTROLS
from dpbench.estimators import KarwaVadhanMean
from dpbench.privacy import PureDP


def test_an_estimators_own_pairs_are_audited_beside_the_catalogue() -> None:
    one, budget = KarwaVadhanMean(radius=10.0, sigma=1), PureDP(1.0)
    own = {pair.name for pair in one.audit_pairs(60, None, budget)}
    assert own
    assert own <= {pair.name for pair in list_pairs(one, budget, 60, None, "here")}


def test_controls_that_runs_see_and_others_have_an_error_each() -> None:
    """A control that no run sees changes no bound of those that runs do see."""
    how = AuditSettings(cases={"numbers": AuditCase(n=20)}, failure_probability=1e-3)
    tasks = control_tasks(how, 0)
    assert len(tasks) == sum(len(one.budgets) for one in CONTROLS)
    for by_runs in (True, False):
        errors = [one.error for one in tasks if ("runs" in one.seen_by) == by_runs]
        assert errors == [pytest.approx(1e-3 / len(errors))] * len(errors)
        assert len(errors) >= 2
