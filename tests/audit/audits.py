"""What tests of audits share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpbench.audit.pairs import catalogue
from dpbench.audit.task import AuditTask, Way, audit
from dpbench.estimators import Estimator
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair

# That of one pair: the default error over as many pairs as the shipped audit has.
ERROR = 1e-5 / 1250


def rows_of(
    estimator: Estimator, budget: Budget, pairs: Sequence[Pair], *,
    runs: int = 1000, error: float = ERROR, seen_by: tuple[Way, ...] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    return audit(AuditTask("it", estimator, budget, tuple(pairs), runs, error, 0, seen_by))


def verdicts_of(estimator: Estimator, budget: Budget, pairs: Sequence[Pair]) -> set[object]:
    return {row["verdict"] for row in rows_of(estimator, budget, pairs, runs=500)}


def only(pairs: Sequence[Pair], *names: str) -> list[Pair]:
    found = [pair for pair in pairs if pair.name in names]
    assert len(found) == len(names)
    return found


def list_pairs(estimator: Estimator, n: int, d: int | None, budget: Budget) -> list[Pair]:
    pairs = [*catalogue(n, d), *estimator.audit_pairs(n, d, budget)]
    return [one for pair in pairs for one in pair.convert(budget.neighbours)]
