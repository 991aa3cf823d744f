"""Scores of an entry in an external file on a problem, with audits on the scored datasets.

Every release is a separate call (`dpbench.benchmark.worker`) on one dataset. Some calls are scored.
For an audit, other calls release the mean of a scored dataset and of a neighbour repeatedly. All
calls are made in random order, so that an entry cannot distinguish an audit from a score. Hence an
entry with too little noise on the data of a problem is refuted on exactly these data.

`dpbench.benchmark.neighbours` draws the pairs. A single record has little effect if epsilon is
small, and no effect if the release is rounded. So most pairs differ in a group of records.

In the local model a call has one record of each of many datasets at a time (`OneRecord`). The audit
compares reports of a single record, because every report has to be private alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpbench.arrays import Floats
from dpbench.audit.attack import PairReleases
from dpbench.audit.releases import PrivacyBound, Split, bound_from_releases
from dpbench.benchmark.neighbours import draw_local_pairs, draw_pairs
from dpbench.benchmark.problems import Problem
from dpbench.benchmark.remote import RemoteMean
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import group_budget
from dpbench.registry import ConfigError
from dpbench.samples import Sample
from dpbench.seeds import digest, stream
from dpbench.sweep.block import single_threaded_blas

__all__ = ["ScoreResult", "ScoreTask", "score"]

# Largest number of runs of a pair, by its name; few runs show what the other pairs are made for.
MAX_RUNS = {"equal": 750, "one-sided": 400, "typical": 250}
MAX_OTHER_RUNS = 150
MAX_CALL_NUMBERS = 3_000_000  # records of a call in the local model, which takes seconds


@dataclass(frozen=True)
class ScoreTask:
    """Task to score an estimator on one problem, and to audit it.

    Attributes
    ----------
    estimator : RemoteMean
        Estimator of the entry.
    problem : Problem
        Problem, with its distributions at their random locations.
    trials : int
        Number of scored datasets for each distribution of the problem's family.
    runs : int
        Average number of releases on each dataset of an audited pair, at most; 0 for no audit.
    error : float
        Largest allowed probability that any lower bound of the task's audits exceeds the true
        privacy parameter.
    """

    estimator: RemoteMean
    problem: Problem
    trials: int
    runs: int
    error: float

    @property
    def name(self) -> str:
        """Digest that identifies the task."""
        problem = self.problem
        return digest(
            self.estimator.text, problem.id, problem.digest, problem.seed, self.trials, self.runs
        )


@dataclass
class ScoreResult:
    """Errors of an entry on a problem, and results of its audits.

    Attributes
    ----------
    errors : ndarray of shape (members, trials)
        Distances of releases from the true mean; NaN for a call that released nothing. The members
        are the distributions of the problem.
    audits : list of (str, PrivacyBound)
        Name of the pair of datasets, and lower bound on the privacy parameter, for each audit.
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
    """One call of an entry's estimator: the dataset, and the place for the released mean.

    The mean is written to the array `rows` at the index `at`. In a call for an audit, `records` is
    the dataset, and in the local model the report of a record takes the place of the mean. In a
    call for the score, `records` is None. Then `scored` names a dataset that has been drawn, by the
    index of its distribution and the index of its trial.
    """

    rows: Floats
    at: tuple[int, ...]
    records: Floats | None = None
    scored: tuple[int, int] = (0, 0)


def score(task: ScoreTask) -> ScoreResult:
    """Score an estimator on a problem, and audit it on a scored dataset.

    The releases for the score and for the audits are made in random order, so the entry cannot
    distinguish them.
    """
    problem = task.problem
    # The entry cannot reproduce the streams, because the seed is drawn after it is loaded.
    rng = stream("calls", problem.seed, problem.id)
    started = time.thread_time()
    with single_threaded_blas():
        samples = [
            law.sample(stream("records", problem.seed, label), task.trials, problem.n)
            for label, law in problem.members.items()
        ]
    drawing_seconds = (time.thread_time() - started) / (task.trials * len(samples))
    record_shape = () if not samples[0].vectors else (samples[0].d,)
    values = np.full((len(samples), task.trials, *record_shape), np.nan)
    calls = [_Call(values, at, None, at) for at in np.ndindex(values.shape[:2])]
    audits = list(_draw_audits(task, samples, rng)) if task.runs else []
    calls += [call for audit in audits for call in audit.calls()]
    failures, seconds = _run_calls(
        task, [calls[i] for i in rng.permutation(len(calls))], samples, rng
    )
    targets = [law.target for law in problem.members.values()]
    return ScoreResult(
        _target_distances(values, targets),
        [(audit.name, audit.bound(task.error / len(audits))) for audit in audits],
        list(failures),
        seconds / len(calls),
        drawing_seconds,
    )


def _run_calls(
    task: ScoreTask, calls: list[_Call], samples: list[Sample], rng: np.random.Generator
) -> tuple[dict[str, None], float]:
    """Make all calls in their order; return reasons of failures, and processor seconds."""
    problem, failures, seconds = task.problem, dict[str, None](), 0.0
    size, options = 1, dict[str, int]()
    if problem.local:
        size, options = max(1, MAX_CALL_NUMBERS // problem.n), {"place": _place(task)}
    for batch in (calls[i : i + size] for i in range(0, len(calls), size)):
        records = [
            samples[call.scored[0]].records(call.scored[1], rng)
            if call.records is None
            else call.records
            for call in batch
        ]
        try:
            released, call_seconds = task.estimator.released(
                np.stack(records), problem.budget, rng, **options
            )
        except ConfigError as error:
            failures[f"{problem.id}: {error}"] = None
            continue
        seconds += call_seconds
        for call, value in zip(batch, released, strict=True):
            mean, report = value if problem.local else (value, value)
            call.rows[call.at] = mean if call.records is None else report
    return failures, seconds


def _target_distances(values: Floats, targets: list[Any]) -> Floats:
    """Return the distance of each release from the true mean of its distribution.

    The releases have the shape (members, trials) or (members, trials, d). There is one target, the
    true mean, for each member (distribution).
    """
    if values.ndim == 2:
        return np.asarray(np.abs(values - np.array(targets)[:, None]))
    return np.asarray(np.linalg.norm(values - np.stack(targets)[:, None], axis=-1))


@dataclass(frozen=True)
class _Audit:
    """Releases on a scored dataset, and on a dataset that differs in one record or in several.

    Attributes
    ----------
    name : str
        Name of the pair.
    data : pair of ndarray
        Left and right dataset.
    budget : Budget
        Guarantee that the claimed budget implies for this pair, by group privacy.
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
        """Yield the calls of the entry that fill the arrays of releases on both datasets."""
        for rows, records in zip((self.left, self.right), self.data, strict=True):
            for i in range(len(rows)):
                yield _Call(rows[:, 0] if records.ndim == 1 else rows, (i,), records)

    def bound(self, error: float) -> PrivacyBound:
        """Return the lower bound on the privacy parameter from the releases on both datasets.

        The bound exceeds the true parameter with probability at most `error`.
        """
        releases = PairReleases(self.left, self.right)
        before, after = (records.mean(axis=0) for records in self.data)
        with single_threaded_blas():
            return bound_from_releases(
                releases, self.split, np.atleast_1d(after - before), self.budget, error
            )


def _place(task: ScoreTask) -> int:
    """Return the index of the record whose report is audited in the local model."""
    return int(stream("place", task.problem.seed, task.problem.id).integers(task.problem.n))


def _draw_audits(
    task: ScoreTask, samples: list[Sample], rng: np.random.Generator
) -> Iterator[_Audit]:
    """Yield an audit for each pair that is made of two randomly chosen scored datasets."""
    sample, budget = samples[rng.integers(len(samples))], task.problem.budget
    records, others = (
        sample.records(trial, rng) for trial in rng.choice(sample.trials, 2, replace=False)
    )
    pairs = draw_pairs(records, others, budget, rng)
    if task.problem.local:
        pairs = draw_local_pairs(records, _place(task))
    for name, *data, changed in pairs:
        most = MAX_RUNS.get(name.partition(" ")[2], MAX_OTHER_RUNS)
        split = Split.draw(min(task.runs, most), rng)
        left, right = (np.full((runs, sample.d), np.nan) for runs in split.counts)
        yield _Audit(name, (data[0], data[1]), group_budget(budget, changed), split, left, right)
