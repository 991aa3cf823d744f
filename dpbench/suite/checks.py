"""Whether the estimators of an entry are what they say: its promises, and a quick audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpbench.audit.cases import pairs_of
from dpbench.audit.releases import AuditTask, audit
from dpbench.estimators import Estimator
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair
from dpbench.runner.execute import Runner, compute
from dpbench.runner.origin import Origin
from dpbench.seeds import stream
from dpbench.suite.entries import Entry
from dpbench.suite.problems import Problem
from dpbench.testing import NOTIONS, check_estimator

__all__ = ["WORK", "audited", "check"]

WORK = "dpbench.audit.releases"  # the module that computes an audit
RECORDS = 60
# Runs on each dataset, and the probability that any bound of an entry is wrong.
RUNS, ERROR = 1000, 1e-5


def _kinds(entry: Entry, problems: Sequence[Problem]) -> Iterator[tuple[Problem, Estimator]]:
    """Of every class of estimator that the entry uses, one on numbers and one on vectors."""
    seen = set()
    for problem in sorted(problems, key=lambda one: one.n * one.d):
        found = entry.estimator(problem)
        if found is not None and (type(found), problem.d) not in seen:
            seen.add((type(found), problem.d))
            yield problem, found


def _records(estimator: Estimator, d: int, budget: Budget) -> int:
    return max(RECORDS, estimator.least_records(d, budget))


def check(entry: Entry, problems: Sequence[Problem]) -> None:
    """`check_estimator` on records of the problems' laws; AssertionError says what is not kept."""
    for problem, estimator in _kinds(entry, problems):
        law = next(iter(problem.members.values()))
        rng = stream("suite", "check", problem.id)
        n = _records(estimator, problem.d, problem.budget)
        check_estimator(estimator, records=law.sample(rng, 1, n).records(0, rng))


def audited(
    entry: Entry,
    problems: Sequence[Problem],
    *,
    seed: int = 0,
    n_jobs: int = 1,
    origin: Origin,
) -> list[Mapping[str, Any]]:
    """Attack them under every notion and relation on the card that they support: rows of an audit.

    Raises
    ------
    ConfigError
        If an estimator's audit pairs cannot be used.
    """
    asked = [
        (problem, found, budget)
        for problem, found in _kinds(entry, problems)
        for budget in NOTIONS
        if budget.notion in entry.card.notions
        and budget.neighbours in entry.card.relations
        and found.supports(budget)
    ]
    tasks = []
    for problem, found, budget in asked:
        vectors = f"-{problem.d}d" if problem.d > 1 else ""
        name = f"{entry.card.name}-{type(found).__name__}{vectors}"
        pairs = _pairs(found, problem.d, budget)
        tasks.append(AuditTask(name, found, budget, pairs, RUNS, ERROR / len(asked), seed))
    rows = {task.name: rows for task, rows in compute(audit, tasks, Runner(), n_jobs, origin)}
    return [row for task in tasks for row in rows[task.name]]


def _pairs(estimator: Estimator, d: int, budget: Budget) -> tuple[Pair, ...]:
    n, of = _records(estimator, d, budget), d if d > 1 else None
    return pairs_of(estimator, budget, n, of, type(estimator).__name__)
