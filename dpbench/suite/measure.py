"""Scores of entries: run entries on problems and summarise the errors of all trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import bdtr

from dpbench.analysis.resample import quantile_replicates
from dpbench.analysis.summary import ordered, quantile_interval, statistics
from dpbench.arrays import Floats
from dpbench.audit.releases import PrivacyBound
from dpbench.estimators import Estimator
from dpbench.output.terminal import progress
from dpbench.runner.cost import Cost
from dpbench.runner.execute import Runner, compute
from dpbench.runner.origin import Origin
from dpbench.runner.run import RunOptions, Say, run_cells
from dpbench.seeds import stream
from dpbench.suite.entries import Entry
from dpbench.suite.problems import Problem
from dpbench.suite.remote import FileEntry
from dpbench.suite.scoring import Scored, ScoreTask, score
from dpbench.sweep.block import Block, Setting
from dpbench.sweep.plan import Cell, cell_at

__all__ = ["DRAWS", "LEVELS", "SCORING", "Audited", "chance_of", "measured", "scored"]

# Levels of the stored error quantiles.
LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
# Bootstrap replicates of a score, for bands of profiles.
DRAWS = 200
SCORING = "dpbench.suite.scoring"  # the module that computes scores of a file's entry
# Audits on scored data. RUNS: releases on each dataset, without and with quick=true. ERROR:
# probability that any bound of an entry exceeds the true parameter. LEAST_AUDITED: fewest problems
# that quick=true audits.
RUNS, ERROR, LEAST_AUDITED = {False: 250, True: 100}, 1e-5, 4


class Audited(NamedTuple):
    """Result of an audit on a scored dataset: id of the problem, name of the pair, and bound."""

    problem: str
    pair: str
    bound: PrivacyBound


@dataclass
class _Timed(Cost):
    """Processor time of releases by problem and entry, and of drawing data by problem."""

    releases: dict[str, list[float]] = field(default_factory=dict)  # seconds, datasets
    drawing: dict[str, list[float]] = field(default_factory=dict)

    def add(self, block: Block, records: int) -> None:
        super().add(block, records)
        datasets = block.values["error"].size / len(block.seconds)
        problem = next(iter(block.seconds)).partition("=")[0]
        drawn = block.cpu_seconds - sum(block.seconds.values())
        for table, key, seconds in [
            (self.drawing, problem, drawn),
            *((self.releases, label, spent) for label, spent in block.seconds.items()),
        ]:
            before = table.get(key, [0.0, 0.0])
            table[key] = [before[0] + seconds, before[1] + datasets]


def measured(
    entries: Sequence[Entry],
    problems: Iterable[Problem],
    options: RunOptions,
    say: Say,
    *,
    quick: bool = False,
) -> tuple[pd.DataFrame, list[str]]:
    """Run entries on all problems that they answer.

    The data depend on the problem only, and the noise on problem and entry, so that the numbers of
    an entry do not depend on the other entries.

    Parameters
    ----------
    entries : sequence of Entry
        Entries to run.
    problems : iterable of Problem
        Problems of the suite.
    options : RunOptions
        Options of the runner.
    say : callable
        Function that prints a line of progress.
    quick : bool
        Whether to use the smaller number of trials of each problem; False by default.

    Returns
    -------
    table : DataFrame
        One row for each entry and problem that it answers, see `dpbench.suite.table`.
    failures : list of str
        One line for each error that was raised.
    """
    answered = list[tuple[Problem, dict[str, Estimator]]]()
    for problem in problems:
        chosen = {entry.card.name: entry.estimator(problem) for entry in entries}
        known = {name: one for name, one in chosen.items() if one is not None}
        answered += [(problem, known)] if known else []
    cells = [_cell(problem, known, quick=quick) for problem, known in answered]
    rows, failures, cost = dict[int, list[dict[str, Any]]](), dict[int, list[str]](), _Timed()
    for index, blocks in run_cells(cells, options, options.store(), cost, say):
        problem, known = answered[index]
        joined = np.concatenate([block.values["error"] for block in blocks], axis=1)
        errors = joined[:, : cells[index].trials].reshape(len(problem.members), len(known), -1)
        rows[index] = [
            {"entry": name, **_row(problem, name, errors[:, i])} for i, name in enumerate(known)
        ]
        failures[index] = sorted({text for b in blocks for text in _failures(cells[index], b)})
    table = pd.DataFrame([row for index in range(len(cells)) for row in rows[index]])
    told = [text for index in range(len(cells)) for text in failures[index]]
    return _with_times(table, cost), told


def scored(
    entry: FileEntry,
    problems: Sequence[Problem],
    *,
    n_jobs: int,
    origin: Origin,
    quick: bool = False,
) -> tuple[pd.DataFrame, list[Audited], list[str]]:
    """Run the entry of a file on all problems that it answers, and audit it on their data.

    Parameters
    ----------
    entry : FileEntry
        Entry to score.
    problems : sequence of Problem
        Problems with places from a seed that is drawn after the entry is loaded.
    n_jobs : int
        Number of parallel processes.
    origin : Origin
        Source, versions and machine of the computation.
    quick : bool
        Whether to use fewer trials and to audit only a random third of the problems (at least
        `LEAST_AUDITED`); False by default.

    Returns
    -------
    table : DataFrame
        One row for each problem that the entry answers, see `dpbench.suite.table`.
    audits : list of Audited
        Results of the audits.
    failures : list of str
        One line for each error that was raised.
    """
    answered = [one for one in problems if entry.estimator(one) is not None]
    tasks = _tasks(entry, answered, quick=quick)
    found = dict[str, Scored]()
    with progress("problems", len(tasks), "scored") as advance:
        for task, result in compute(score, tasks, Runner(), n_jobs, origin):
            found[task.problem.id] = result
            advance()
    name, rows = entry.card.name, []
    for problem in answered:
        one = found[problem.id]
        times = {"seconds": one.seconds, "drawing_seconds": one.drawing_seconds}
        rows.append({"entry": name, **_row(problem, name, one.errors), **times})
    audits = [
        Audited(problem.id, pair, bound)
        for problem in answered
        for pair, bound in found[problem.id].audits
    ]
    failures = [text for problem in answered for text in found[problem.id].failures]
    return pd.DataFrame(rows), audits, failures


def _tasks(entry: FileEntry, answered: Sequence[Problem], *, quick: bool) -> list[ScoreTask]:
    """Return one task for each problem; the audits share the error equally."""
    audited = {one.id for one in answered}
    if quick:
        rng = stream("audited", answered[0].seed)
        many = min(len(answered), max(LEAST_AUDITED, len(answered) // 3))
        audited = {answered[i].id for i in rng.choice(len(answered), many, replace=False)}
    return [
        ScoreTask(
            entry.answers[one.id],
            one,
            one.trials[quick],
            RUNS[quick] if one.id in audited else 0,
            ERROR / len(audited),
        )
        for one in answered
    ]


def _cell(problem: Problem, known: Mapping[str, Estimator], *, quick: bool) -> Cell:
    settings = tuple(
        Setting(f"{problem.id}={name}", one, problem.budget) for name, one in known.items()
    )
    return cell_at(problem.id, problem.family, problem.n, settings, problem.trials[quick])


def _failures(cell: Cell, block: Block) -> list[str]:
    labels = [setting.label for setting in cell.settings]
    return [f"{labels[row % len(labels)]}: {text}" for row, text in block.failures.items()]


def _row(problem: Problem, name: str, errors: Floats) -> dict[str, Any]:
    """Summarise the errors of an entry on a problem, an array of shape (members, trials).

    The ends of the score's interval are the largest ends over the members: the upper end misses
    the worst quantile with probability 2.5%, the lower end with 2.5% per equally bad member. A
    bootstrap replicate is the largest resampled quantile over the members.
    """
    found, trials = statistics({"error": errors}), errors.shape[1]
    at = int(np.argmax(found["q90"]))  # the first member if several are infinite
    bound, ascending = problem.bound, ordered(errors)
    known = np.array([quantile_interval(ascending[at], q) for q in LEVELS])
    rng = stream("suite", problem.id, problem.digest, name)
    draws = quantile_replicates(ascending, 0.9, rng, DRAWS).max(axis=0)
    return {
        "problem": problem.id,
        "digest": problem.digest,
        "trials": trials,
        "failure_rate": float(np.max(found["failure_rate"])),
        "score": float(found["q90"][at] / bound.value),
        "score_low": float(np.max(found["q90_low"]) / bound.value),
        "score_high": float(np.max(found["q90_high"]) / bound.value),
        "chance": chance_of(errors, bound.value),
        "bound": bound.value,
        "bound_name": bound.by,
        "member": list(problem.members)[at],
        "mean_error": float(found["mean_error"][at]),
        **dict(zip(("quantiles", "quantiles_low", "quantiles_high"), known.T.copy(), strict=True)),
        "draws": draws / bound.value,
    }


def chance_of(errors: Floats, bound: float) -> float:
    """Return the p-value of the number of errors above the bound, if the entry is private.

    Let k of T trials have an error above the lower bound. Under the worst distribution of the
    class an error exceeds the bound with probability at least 1/10, so at most k exceedances have
    probability at most P(Binomial(T, 1/10) <= k). The largest p-value over the members is
    returned, because any member may be the worst distribution.

    Parameters
    ----------
    errors : ndarray of shape (members, trials)
        Errors; NaN for a failure, which counts as above the bound.
    bound : float
        Lower bound on the 0.9 quantile.

    Returns
    -------
    float
    """
    above = np.count_nonzero(~(errors < bound), axis=1)
    return float(np.max(bdtr(above, errors.shape[1], 0.1)))


def _with_times(table: pd.DataFrame, cost: _Timed) -> pd.DataFrame:
    """Add the seconds of a release and of drawing a dataset; NaN if all blocks were cached."""

    def mean(found: dict[str, list[float]], key: str) -> float:
        seconds, datasets = found.get(key, (0.0, 0.0))
        return seconds / datasets if datasets else np.nan

    labels = [f"{row.problem}={row.entry}" for row in table.itertuples()]
    return table.assign(
        seconds=[mean(cost.releases, label) for label in labels],
        drawing_seconds=[mean(cost.drawing, one) for one in table.get("problem", [])],
    )
