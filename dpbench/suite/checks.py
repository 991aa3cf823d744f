"""Checks of an external entry before it is scored: promises of its estimators, and an audit.

The promises are checked inside the entry's process. They help an honest author and prove nothing
about a dishonest one. The audit uses the pairs of every audit and sees only the releases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpbench.audit.cases import pairs_of
from dpbench.audit.task import AuditTask, audit
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair
from dpbench.runner.execute import Runner, compute
from dpbench.runner.origin import Origin
from dpbench.seeds import stream
from dpbench.suite.problems import Problem
from dpbench.suite.remote import FileEntry, RemoteMean
from dpbench.testing import NOTIONS

__all__ = ["WORK", "audited", "broken_promise"]

WORK = "dpbench.audit.task"  # the module that computes an audit
RECORDS = 60  # records of a checked dataset, unless the estimator needs more
# Runs on each dataset, and probability that any bound of an entry exceeds the true parameter.
RUNS, ERROR = 1000, 1e-5


def _kinds(entry: FileEntry, problems: Sequence[Problem]) -> Iterator[tuple[Problem, RemoteMean]]:
    """Yield one estimator per class that the entry uses, for scalars and for vectors."""
    seen = set()
    for problem in sorted(problems, key=lambda one: one.n * one.d):
        found = entry.estimator(problem)
        if found is not None and (found.name, problem.d) not in seen:
            seen.add((found.name, problem.d))
            yield problem, found


def _records(estimator: RemoteMean) -> int:
    return max(RECORDS, estimator.least)


def broken_promise(entry: FileEntry, problems: Sequence[Problem]) -> str:
    """Return the first promise that an estimator of the entry breaks; empty if there is none.

    Parameters
    ----------
    entry : FileEntry
        Entry to check with `check_estimator`.
    problems : sequence of Problem
        Problems whose distributions the records are drawn from.

    Returns
    -------
    str
    """
    for problem, estimator in _kinds(entry, problems):
        law = next(iter(problem.members.values()))
        rng = stream("suite", "check", problem.id)
        broken = estimator.broken_promise(law.sample(rng, 1, _records(estimator)).records(0, rng))
        if broken:
            return broken
    return ""


def audited(
    entry: FileEntry,
    problems: Sequence[Problem],
    *,
    seed: int = 0,
    n_jobs: int = 1,
    origin: Origin,
) -> list[Mapping[str, Any]]:
    """Audit the estimators of an entry under every notion and relation on its card.

    Parameters
    ----------
    entry : FileEntry
        Entry to audit.
    problems : sequence of Problem
        Problems that the entry may answer; one estimator per class is audited.
    seed : int
        Seed of the audit, 0 by default.
    n_jobs : int
        Number of parallel processes, 1 by default.
    origin : Origin
        Source, versions and machine of the computation.

    Returns
    -------
    list of mapping
        Rows as of `dpbench.audit.task.audit`.

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
        name = f"{entry.card.name}-{found.name}{vectors}"
        pairs = _pairs(found, problem.d, budget)
        tasks.append(AuditTask(name, found, budget, pairs, RUNS, ERROR / len(asked), seed))
    rows = {task.name: rows for task, rows in compute(audit, tasks, Runner(), n_jobs, origin)}
    return [row for task in tasks for row in rows[task.name]]


def _pairs(estimator: RemoteMean, d: int, budget: Budget) -> tuple[Pair, ...]:
    n, of = _records(estimator), d if d > 1 else None
    return pairs_of(estimator, budget, n, of, estimator.name)
