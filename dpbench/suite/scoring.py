"""Score an entry's file on a problem, and audit it on the datasets that are scored.

Every release is a call of its own (`dpbench.suite.worker`) on one dataset. Some calls are scored.
Others release the mean of one scored dataset, and of a neighbour of it, again and again. All calls
stand in a random order, so that an entry cannot tell an audit from a score: a release that has no
noise, or too little, on the data of a problem is refuted on just these data.

A neighbour differs in one record: a typical one, which is replaced by a record of another dataset,
or an extreme one, which lies far beyond all others. Under ``add_remove`` a typical record is
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
from dpbench.audit.releases import Bound, Split, direction, judged
from dpbench.privacy.budgets import Relation
from dpbench.privacy.neighbours import Pair
from dpbench.registry import ConfigError
from dpbench.samples import Sample
from dpbench.seeds import digest, stream
from dpbench.suite.problems import Problem
from dpbench.suite.remote import RemoteMean
from dpbench.sweep.block import steady

__all__ = ["ScoreTask", "Scored", "score"]

# An extreme record, over the largest one of its dataset and 1.
FAR = 1e6


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
    """What an entry released on a problem.

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
        [(audit.pair.name, audit.bound(task)) for audit in audits],
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
    """Releases on a scored dataset and on a neighbour of it.

    Attributes
    ----------
    split : Split
    left, right : (runs, numbers of a release) array
        The releases, filled in call by call.
    """

    pair: Pair
    split: Split
    left: Floats
    right: Floats

    def calls(self) -> Iterator[_Call]:
        """Yield the calls that fill `left` and `right`."""
        for rows, records in ((self.left, self.pair.left), (self.right, self.pair.right)):
            for i in range(len(rows)):
                yield _Call(rows[:, 0] if records.ndim == 1 else rows, (i,), records)

    def bound(self, task: ScoreTask) -> Bound:
        """Bound the loss of privacy that the releases show."""
        both = Released(self.left, self.right)
        along, budget = direction("mean", self.pair), task.problem.budget
        with steady():
            return judged(both, self.split, along, budget, task.error / 2)


def _audits(task: ScoreTask, samples: list[Sample], rng: np.random.Generator) -> Iterator[_Audit]:
    """Yield audits of a random scored dataset: of a typical neighbour, and of an extreme one."""
    sample = samples[rng.integers(len(samples))]
    trial, other = rng.choice(sample.trials, 2, replace=False)
    records, others = sample.records(trial, rng), sample.records(other, rng)
    for pair in _pairs(records, others, task.problem.budget.neighbours, rng):
        split = Split.drawn(task.runs, rng)
        left, right = (np.full((runs, sample.d), np.nan) for runs in split.counts)
        yield _Audit(pair, split, left, right)


def _pairs(
    records: Floats, others: Floats, relation: Relation, rng: np.random.Generator
) -> tuple[Pair, Pair]:
    """Return pairs of a dataset and of its neighbours, by a typical and by an extreme record."""
    place, typical = _typical(records, others, rng)
    extreme = _extreme(records, place, rng)
    if relation == "replace":
        return (
            Pair.replacing("typical", records, place, typical),
            Pair.replacing("extreme", records, place, extreme),
        )
    return (
        Pair("typical", records, np.delete(records, place, axis=0)),
        Pair("extreme", np.insert(records, place, extreme, axis=0), records),
    )


def _typical(
    records: Floats, others: Floats, rng: np.random.Generator
) -> tuple[int, float | Floats]:
    """Return the place of a record, and one of another dataset that may stand there.

    Of nearly constant data the two datasets may be the same: then a record one further on.
    """
    differs = np.flatnonzero((records != others).reshape(len(records), -1).any(axis=1))
    if not differs.size:
        place = int(rng.integers(len(records)))
        return place, records[place] + 1.0
    place = int(rng.choice(differs))
    return place, others[place]


def _extreme(records: Floats, place: int, rng: np.random.Generator) -> float | Floats:
    """Return a record far beyond all others, on the other side of the mean than that of a place."""
    along = rng.standard_normal(records.shape[1:])
    if np.sum(along * (records[place] - records.mean(axis=0))) > 0:
        along = -along
    size = FAR * max(1.0, float(np.abs(records).max()))
    return np.asarray(size * along / np.linalg.norm(along))
