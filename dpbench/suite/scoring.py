"""Scores of an external file on a problem, with audits on the scored datasets.

Every release is a separate call (`dpbench.suite.worker`) on one dataset. Some calls are scored.
Others release the mean of one scored dataset and of a neighbour repeatedly, for an audit. All calls
are made in random order, so that an entry cannot distinguish an audit from a score: an entry with
too little noise on the data of a problem is refuted on exactly these data.

Two neighbours are audited. One differs in an extreme record, far beyond all others. The other
differs in a group of typical records: the lowest along a random direction are replaced by the
highest of another dataset. The group is as large as `GROUP` allows by group privacy, because a
single record has little effect if epsilon is small, and none if the release is rounded. Lower
bounds are proved by such groups, so an estimator far below the bound is refuted by them. Under
``add_remove`` typical records are removed, and an extreme record is added.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpbench.arrays import Floats
from dpbench.audit.attack import Released
from dpbench.audit.releases import PrivacyBound, Split, judged
from dpbench.privacy import Budget
from dpbench.privacy.budgets import Relation
from dpbench.privacy.neighbours import of_group
from dpbench.registry import ConfigError
from dpbench.samples import Sample
from dpbench.seeds import digest, stream
from dpbench.suite.problems import Problem
from dpbench.suite.remote import RemoteMean
from dpbench.sweep.block import single_threaded_blas

__all__ = ["ScoreTask", "Scored", "score"]

# Size of an extreme record relative to the largest record of its dataset, or to 1 if larger.
FAR = 1e6
# Privacy parameter of a group of typical records, by notion; a group has at least one record.
GROUP = {"pure": 1.0, "approx": 1.0, "gdp": 1.0, "zcdp": 0.5}


@dataclass(frozen=True)
class ScoreTask:
    """Task to score an estimator on one problem, and to audit it.

    Attributes
    ----------
    estimator : RemoteMean
        Estimator of the entry.
    problem : Problem
        Problem at its places.
    trials : int
        Scored datasets of each member of the family.
    runs : int
        Average number of releases on each dataset of an audited pair; 0 for no audit.
    error : float
        Probability that any bound of the audits exceeds the true parameter.
    """

    estimator: RemoteMean
    problem: Problem
    trials: int
    runs: int
    error: float

    @property
    def name(self) -> str:
        """Digest of the task."""
        one = self.problem
        return digest(self.estimator.text, one.id, one.digest, one.seed, self.trials, self.runs)


@dataclass
class Scored:
    """Errors and audits of an entry on a problem.

    Attributes
    ----------
    errors : ndarray of shape (members, trials)
        Distances of releases from the target; NaN for a call that released nothing.
    audits : list of (str, Bound)
        Name of the pair, and bound.
    failures : list of str
        Distinct reasons for calls that released nothing.
    seconds, drawing_seconds : float
        Mean processor time of a call, and of drawing a dataset.
    """

    errors: Floats
    audits: list[tuple[str, PrivacyBound]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    drawing_seconds: float = 0.0


class _Call(NamedTuple):
    """Call of an entry: index of its result, and its dataset (of a pair, or a scored dataset)."""

    rows: Floats
    at: tuple[int, ...]
    records: Floats | None = None
    scored: tuple[int, int] = (0, 0)


def score(task: ScoreTask) -> Scored:
    """Release on the scored datasets of a problem and for its audits, in random order."""
    problem = task.problem
    # The entry cannot reproduce the streams, because the seed is drawn after it is loaded.
    rng = stream("calls", problem.seed, problem.id)
    started = time.thread_time()
    with single_threaded_blas():
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
    """Releases on a scored dataset, and on a dataset that differs in one record or in a group.

    Attributes
    ----------
    name : str
        Name of the pair.
    data : pair of ndarray
        Left and right dataset.
    budget : Budget
        Guarantee for this pair, by group privacy.
    split : Split
        Assignment of the releases to the datasets.
    left, right : ndarray of shape (runs, d)
        Releases, filled call by call.
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

    def bound(self, error: float) -> PrivacyBound:
        """Return the lower bound on the privacy parameter from the releases."""
        both = Released(self.left, self.right)
        before, after = (records.mean(axis=0) for records in self.data)
        with single_threaded_blas():
            return judged(both, self.split, np.atleast_1d(after - before), self.budget, error)


def _audits(task: ScoreTask, samples: list[Sample], rng: np.random.Generator) -> Iterator[_Audit]:
    """Yield audits of a random scored dataset: a group of typical records, an extreme record."""
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
    """Return the largest group size, at least 1, for which group privacy gives `GROUP`."""
    share = GROUP[budget.notion] / budget.amounts[0]
    return max(1, int((np.sqrt(share) if budget.notion == "zcdp" else share) + 1e-9))


def _typical(
    records: Floats, others: Floats, many: int, relation: Relation, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return a dataset, and the dataset with `many` typical records replaced or removed.

    If the replaced records are equal to the old ones (nearly constant data), they are shifted by 1.
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
    """Return two neighbouring datasets that differ in a record far beyond all others.

    Under replacement it replaces a record on the opposite side of the mean. Under add/remove it is
    added to the left dataset.
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
