"""Score an entry's file on a problem, and audit it on the datasets that are scored.

Every release is a call of its own (`dpbench.suite.worker`) on one dataset. Some calls are scored.
Others release the mean of one scored dataset, and of a neighbour of it, again and again. All calls
stand in a random order, so that an entry cannot tell an audit from a score: a release that has no
noise, or too little, on the data of a problem is refuted on just these data.

One neighbour differs in an extreme record, which lies far beyond all others. Another differs in
typical records: the lowest along a random direction are replaced by the highest of another dataset.
These are as many as `GROUP` allows by group privacy, because one record shows little where epsilon
is small, and nothing where a release is rounded. An estimator whose error is far below the lower
bound gives away groups: so lower bounds are proved. Under ``add_remove`` typical records are
removed, and an extreme one is added.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpbench.arrays import Floats
from dpbench.audit.attack import Released
from dpbench.audit.releases import Bound, Split, judged
from dpbench.privacy import Budget
from dpbench.privacy.budgets import Relation
from dpbench.privacy.neighbours import of_group
from dpbench.registry import ConfigError
from dpbench.samples import Sample
from dpbench.seeds import digest, stream
from dpbench.suite.problems import Problem
from dpbench.suite.remote import RemoteMean
from dpbench.sweep.block import steady

__all__ = ["ScoreTask", "Scored", "score"]

# An extreme record, over the largest one of its dataset and 1.
FAR = 1e6
# Loss that a group of typical records may have, by notion; or one record, if that may have more.
GROUP = {"pure": 1.0, "approx": 1.0, "gdp": 1.0, "zcdp": 0.5}


@dataclass(frozen=True)
class ScoreTask:
    """A problem at its places, and how often the entry is asked about it.

    Attributes
    ----------
    estimator : RemoteMean
    problem : Problem
    trials : int
        Scored datasets of each member.
    runs : int
        Releases on each dataset of an audited pair, on average; 0 to audit none.
    error : float
        Probability that any bound of the audits is wrong.
    """

    estimator: RemoteMean
    problem: Problem
    trials: int
    runs: int
    error: float

    @property
    def name(self) -> str:
        """A digest of all of it."""
        one = self.problem
        return digest(self.estimator.text, one.id, one.digest, one.seed, self.trials, self.runs)


@dataclass
class Scored:
    """Hold the errors and the audits of an entry on a problem.

    Attributes
    ----------
    errors : (members, trials) array
        NaN where it released nothing.
    audits : list of (str, Bound)
        By the name of the pair.
    failures : list of str
        Why calls released nothing, each reason once.
    seconds, drawing_seconds : float
        Processor time of a call, and of drawing a dataset, on average.
    """

    errors: Floats
    audits: list[tuple[str, Bound]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    drawing_seconds: float = 0.0


class _Call(NamedTuple):
    """The place of a release among the results, and its dataset: a pair's, or a scored one."""

    rows: Floats
    at: tuple[int, ...]
    records: Floats | None = None
    scored: tuple[int, int] = (0, 0)


def score(task: ScoreTask) -> Scored:
    """Release on the datasets of a problem and of its audits, in a random order."""
    problem = task.problem
    # No name of a stream is known to the entry: the seed is drawn after it is loaded.
    rng = stream("calls", problem.seed, problem.id)
    started = time.thread_time()
    with steady():
        samples = [
            law.sample(stream("records", problem.seed, label), task.trials, problem.n)
            for label, law in problem.members.items()
        ]
    drawing = (time.thread_time() - started) / (task.trials * len(samples))
    d = () if not samples[0].vectors else (samples[0].d,)
    values = np.full((len(samples), task.trials, *d), np.nan)
    calls = [_Call(values, at, None, at) for at in np.ndindex(values.shape[:2])]
    audits = list(_audits(task, samples, rng)) if task.runs else []
    calls += [call for audit in audits for call in audit.calls()]
    failures, seconds = dict[str, None](), 0.0
    for index in rng.permutation(len(calls)):
        call = calls[index]
        records = call.records
        if records is None:
            member, trial = call.scored
            records = samples[member].records(trial, rng)
        try:
            value, spent = task.estimator.released(records[None], problem.budget, rng)
            call.rows[call.at] = value[0]
            seconds += spent
        except ConfigError as error:
            failures[f"{problem.id}: {error}"] = None
    targets = [law.target for law in problem.members.values()]
    return Scored(
        _errors(values, targets),
        [(audit.name, audit.bound(task.error / len(audits))) for audit in audits],
        list(failures),
        seconds / len(calls),
        drawing,
    )


def _errors(values: Floats, targets: list[Any]) -> Floats:
    """Return the distances of (members, trials[, d]) releases from their targets."""
    if values.ndim == 2:
        return np.asarray(np.abs(values - np.array(targets)[:, None]))
    return np.asarray(np.linalg.norm(values - np.stack(targets)[:, None], axis=-1))


@dataclass(frozen=True)
class _Audit:
    """Releases on a scored dataset and on a neighbour of it, or of some neighbours in a row.

    Attributes
    ----------
    name : str
    data : (left, right)
        Records of both.
    budget : Budget
        What is promised of these datasets.
    split : Split
    left, right : (runs, numbers of a release) array
        The releases, filled in call by call.
    """

    name: str
    data: tuple[Floats, Floats]
    budget: Budget
    split: Split
    left: Floats
    right: Floats

    def calls(self) -> Iterator[_Call]:
        """Yield the calls that fill `left` and `right`."""
        for rows, records in zip((self.left, self.right), self.data, strict=True):
            for i in range(len(rows)):
                yield _Call(rows[:, 0] if records.ndim == 1 else rows, (i,), records)

    def bound(self, error: float) -> Bound:
        """Bound the loss of privacy that the releases show."""
        both = Released(self.left, self.right)
        before, after = (records.mean(axis=0) for records in self.data)
        with steady():
            return judged(both, self.split, np.atleast_1d(after - before), self.budget, error)


def _audits(task: ScoreTask, samples: list[Sample], rng: np.random.Generator) -> Iterator[_Audit]:
    """Yield audits of a random scored dataset: of typical records, and of an extreme one."""
    sample, budget = samples[rng.integers(len(samples))], task.problem.budget
    trial, other = rng.choice(sample.trials, 2, replace=False)
    records, others = sample.records(trial, rng), sample.records(other, rng)
    many = min(_group(budget), len(records) - 1)
    for name, data, promised in (
        (f"{many} typical", _typical(records, others, many, budget.neighbours, rng), many),
        ("1 extreme", _extreme(records, budget.neighbours, rng), 1),
    ):
        split = Split.drawn(task.runs, rng)
        left, right = (np.full((runs, sample.d), np.nan) for runs in split.counts)
        yield _Audit(name, data, of_group(budget, promised), split, left, right)


def _group(budget: Budget) -> int:
    """Return how many records may lose `GROUP` together, 1 at least."""
    share = GROUP[budget.notion] / budget.amounts[0]
    return max(1, int((np.sqrt(share) if budget.notion == "zcdp" else share) + 1e-9))


def _typical(
    records: Floats, others: Floats, many: int, relation: Relation, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return a dataset, and one with other typical records in place of some, or without these.

    Of nearly constant data these may be the same: then they are moved by one.
    """
    along = rng.standard_normal(records.shape[1:])
    axes = np.ndim(along)
    places = np.argsort(np.tensordot(records, along, axes), kind="stable")[:many]
    if relation == "add_remove":
        return records, np.delete(records, places, axis=0)
    top = np.argsort(np.tensordot(others, along, axes), kind="stable")[-many:]
    changed = records.copy()
    changed[places] = others[top]
    if np.array_equal(changed, records):
        changed[places] += 1.0
    return records, changed


def _extreme(
    records: Floats, relation: Relation, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return a dataset with and without a record far beyond all others.

    The record is in place of one on the other side of the mean, or is one more.
    """
    along, place = rng.standard_normal(records.shape[1:]), int(rng.integers(len(records)))
    if np.sum(along * (records[place] - records.mean(axis=0))) > 0:
        along = -along
    far = FAR * max(1.0, float(np.abs(records).max())) * along / np.linalg.norm(along)
    if relation == "add_remove":
        return np.insert(records, place, far, axis=0), records
    changed = records.copy()
    changed[place] = far
    return records, changed
