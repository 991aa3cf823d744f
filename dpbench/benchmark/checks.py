"""Checks of an external entry before it is scored: promises of its estimators, and an audit.

The promises are the rules for estimators that `dpbench.testing.check_estimator` tests. They are
checked inside the entry's process. The checks help an honest author and prove nothing about a
dishonest author. The audit uses the pairs of neighbouring datasets in `dpbench.audit.pairs`. It
sees only the releases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpbench.audit.cases import list_pairs
from dpbench.audit.task import AuditTask, audit
from dpbench.benchmark.problems import Problem
from dpbench.benchmark.remote import FileEntry, RemoteMean
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair
from dpbench.runner.execute import Runner, compute
from dpbench.runner.origin import Origin
from dpbench.seeds import stream
from dpbench.testing import NOTIONS

__all__ = ["AUDIT_ROOMS", "audit_entry", "find_broken_promise"]

AUDIT_ROOMS = ("audit",)  # rooms of the modules that compute an audit
FINITE_RELEASES = 8  # releases of which at least one must be finite
RECORDS = 60  # records of a checked dataset, unless the estimator needs more
# Runs on each dataset, and probability that any bound of an entry exceeds the true parameter.
RUNS, ERROR = 1000, 1e-5


def _distinct_estimators(
    entry: FileEntry, problems: Sequence[Problem]
) -> Iterator[tuple[Problem, RemoteMean]]:
    """Yield pairs of a problem and the entry's estimator for it, without similar estimators.

    Two estimators are similar if their class and the dimension d of the records agree. Among the
    problems of similar estimators, the problem with the smallest n d is used, for n records.
    """
    seen = set()
    for problem in sorted(problems, key=lambda candidate: candidate.n * candidate.d):
        estimator = entry.estimator(problem)
        if estimator is not None and (estimator.name, problem.d) not in seen:
            seen.add((estimator.name, problem.d))
            yield problem, estimator


def _count_records(estimator: RemoteMean) -> int:
    return max(RECORDS, estimator.least)


def find_broken_promise(entry: FileEntry, problems: Sequence[Problem]) -> str:
    """Check an entry's estimators, and return the first rule that an estimator breaks, as text.

    The rules are those of `check_estimator`, on records from the distributions of the problems. An
    estimator may fail at times and release NaN, but not always. The text is empty if no rule is
    broken.
    """
    for problem, estimator in _distinct_estimators(entry, problems):
        law = next(iter(problem.members.values()))
        # The word "suite" stays, as in the stream of `measure`.
        rng = stream("suite", "check", problem.id)
        promise = estimator.broken_promise(
            law.sample(rng, 1, _count_records(estimator)).records(0, rng)
        )
        if promise:
            return promise
        records = law.sample(rng, FINITE_RELEASES, _count_records(estimator))
        batch = np.stack([records.records(trial, rng) for trial in range(records.trials)])
        values, _ = estimator.released(batch, problem.budget, rng)
        if not np.isfinite(values).any():
            return (
                f"{estimator.name} on {problem.id}: all of {FINITE_RELEASES} releases are "
                f"{values.ravel()[0]:g}; return finite numbers"
            )
    return ""


def audit_entry(
    entry: FileEntry,
    problems: Sequence[Problem],
    *,
    n_jobs: int = 1,
    origin: Origin,
) -> list[Mapping[str, Any]]:
    """Audit the estimators of an entry under all notions and neighbouring relations that it claims.

    The entry's card states the notions and relations. One estimator is audited for each class and
    dimension of the problems. The result has the rows of `dpbench.audit.task.audit`. A ConfigError
    says that an estimator's own pairs of neighbouring datasets cannot be used.
    """
    audits = [
        (problem, estimator, budget)
        for problem, estimator in _distinct_estimators(entry, problems)
        for budget in NOTIONS
        if budget.notion in entry.card.notions
        and budget.neighbours in entry.card.relations
        and estimator.supports(budget)
    ]
    tasks = []
    for problem, estimator, budget in audits:
        vectors = f"-{problem.d}d" if problem.d > 1 else ""
        name = f"{entry.card.name}-{estimator.name}{vectors}"
        pairs = _list_entry_pairs(estimator, problem.d, budget)
        tasks.append(AuditTask(name, estimator, budget, pairs, RUNS, ERROR / len(audits), seed=0))
    rows = {task.name: rows for task, rows in compute(audit, tasks, Runner(), n_jobs, origin)}
    return [row for task in tasks for row in rows[task.name]]


def _list_entry_pairs(estimator: RemoteMean, d: int, budget: Budget) -> tuple[Pair, ...]:
    n, dimension = _count_records(estimator), d if d > 1 else None
    return list_pairs(estimator, budget, n, dimension, estimator.name)
