"""Scores of entries: run entries on problems and summarise the errors of all trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import bdtr

from dpbench.analysis.resample import quantile_replicates
from dpbench.analysis.trial_statistics import quantile_interval, sort_errors, statistics
from dpbench.arrays import Floats
from dpbench.audit.releases import PrivacyBound
from dpbench.benchmark.entries import Entry
from dpbench.benchmark.problems import Problem
from dpbench.benchmark.remote import FileEntry
from dpbench.benchmark.scoring import ScoreResult, ScoreTask, score
from dpbench.estimators import Estimator
from dpbench.output.terminal import progress
from dpbench.runner.cost import Cost
from dpbench.runner.execute import Runner, compute
from dpbench.runner.origin import Origin
from dpbench.runner.run import RunOptions, Say, run_cells
from dpbench.seeds import stream
from dpbench.sweep.block import Block, Setting
from dpbench.sweep.plan import Cell, cell_at

__all__ = [
    "DRAWS",
    "LEVELS",
    "SCORING_ROOMS",
    "AuditResult",
    "exceedance_p_value",
    "run_entries",
    "score_entry",
]

# Levels of the stored error quantiles.
LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
# Bootstrap replicates of a score, for bands of profiles.
DRAWS = 200
# Rooms of the modules that compute the scores of an entry in a file.
SCORING_ROOMS = ("audit", "output", "runner", "signals", "benchmark", "testing", "theory")
# Audits on scored data. RUNS: most releases on each dataset, without and with quick=true. ERROR:
# probability that any bound of an entry exceeds the true parameter. MIN_AUDITED_PROBLEMS: smallest
# number of problems that quick=true audits.
RUNS, ERROR, MIN_AUDITED_PROBLEMS = {False: 750, True: 100}, 1e-5, 4


class AuditResult(NamedTuple):
    """Result of one audit: id of the problem, name of the pair of datasets, and lower bound.

    The pair is one of `dpbench.benchmark.neighbours`. The bound is a lower bound on the privacy
    parameter.
    """

    problem: str
    pair: str
    bound: PrivacyBound


@dataclass
class _ReleaseTimes(Cost):
    """Processor times of a run: of releases, and of drawing the datasets.

    Release times are totals per problem and entry. Drawing times are totals per problem.
    """

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


def run_entries(
    entries: Sequence[Entry],
    problems: Iterable[Problem],
    options: RunOptions,
    say: Say,
    *,
    quick: bool = False,
) -> tuple[pd.DataFrame, list[str]]:
    """Run entries on all problems that they answer.

    The data depend on the problem only. The noise depends on the problem and the entry. The results
    of an entry therefore do not depend on the other entries. If `quick` is True, the smaller number
    of trials of each problem is used.

    The table has a row for each entry and problem that it answers, see `dpbench.benchmark.table`.
    The list has a line for each error that was raised.
    """
    answered = list[tuple[Problem, dict[str, Estimator]]]()
    for problem in problems:
        estimators = {entry.card.name: entry.estimator(problem) for entry in entries}
        answering = {
            name: estimator for name, estimator in estimators.items() if estimator is not None
        }
        answered += [(problem, answering)] if answering else []
    cells = [_build_cell(problem, answering, quick=quick) for problem, answering in answered]
    rows, failures, cost = (
        dict[int, list[dict[str, Any]]](),
        dict[int, list[str]](),
        _ReleaseTimes(),
    )
    for index, blocks in run_cells(cells, options, options.store(), cost, say):
        problem, answering = answered[index]
        all_errors = np.concatenate([block.values["error"] for block in blocks], axis=1)
        errors = all_errors[:, : cells[index].trials].reshape(
            len(problem.members), len(answering), -1
        )
        rows[index] = [
            {"entry": name, **_summarise_errors(problem, name, errors[:, i])}
            for i, name in enumerate(answering)
        ]
        failures[index] = sorted(
            {text for b in blocks for text in _format_failures(cells[index], b)}
        )
    table = pd.DataFrame([row for index in range(len(cells)) for row in rows[index]])
    messages = [text for index in range(len(cells)) for text in failures[index]]
    return _add_times(table, cost), messages


def score_entry(
    entry: FileEntry,
    problems: Sequence[Problem],
    *,
    n_jobs: int,
    origin: Origin,
    quick: bool = False,
) -> tuple[pd.DataFrame, list[AuditResult], list[str]]:
    """Run an entry of an external file on all problems that it answers, and audit it on their data.

    The distributions of the problems have random locations. The seed of the locations was drawn
    after the entry was loaded. If `quick` is True, there are fewer trials, and only a random third
    of the problems (at least `MIN_AUDITED_PROBLEMS`, if there are so many) is audited.

    The table has a row for each problem that the entry answers, see `dpbench.benchmark.table`. The
    results of the audits follow, and a line for each error that was raised.
    """
    answered = [problem for problem in problems if entry.estimator(problem) is not None]
    tasks = _make_score_tasks(entry, answered, quick=quick)
    results = dict[str, ScoreResult]()
    with progress("problems", len(tasks), "scored") as advance:
        for task, result in compute(score, tasks, Runner(), n_jobs, origin):
            results[task.problem.id] = result
            advance()
    name, rows = entry.card.name, []
    for problem in answered:
        scores = results[problem.id]
        times = {"seconds": scores.seconds, "drawing_seconds": scores.drawing_seconds}
        rows.append({"entry": name, **_summarise_errors(problem, name, scores.errors), **times})
    audits = [
        AuditResult(problem.id, pair, bound)
        for problem in answered
        for pair, bound in results[problem.id].audits
    ]
    failures = [text for problem in answered for text in results[problem.id].failures]
    return pd.DataFrame(rows), audits, failures


def _make_score_tasks(
    entry: FileEntry, answered: Sequence[Problem], *, quick: bool
) -> list[ScoreTask]:
    """Return one task for each problem, to score the entry on the problem and perhaps to audit it.

    `ERROR` bounds the probability that any audit's lower bound is wrong. The audited problems share
    this probability equally.
    """
    audited_ids = {problem.id for problem in answered}
    if quick:
        rng = stream("audited", answered[0].seed)
        audits = min(len(answered), max(MIN_AUDITED_PROBLEMS, len(answered) // 3))
        audited_ids = {answered[i].id for i in rng.choice(len(answered), audits, replace=False)}
    return [
        ScoreTask(
            entry.answers[problem.id],
            problem,
            problem.trials[quick],
            RUNS[quick] if problem.id in audited_ids else 0,
            ERROR / len(audited_ids),
        )
        for problem in answered
    ]


def _build_cell(problem: Problem, estimators: Mapping[str, Estimator], *, quick: bool) -> Cell:
    settings = tuple(
        Setting(f"{problem.id}={name}", estimator, problem.budget)
        for name, estimator in estimators.items()
    )
    return cell_at(problem.id, problem.family, problem.n, settings, problem.trials[quick])


def _format_failures(cell: Cell, block: Block) -> list[str]:
    labels = [setting.label for setting in cell.settings]
    return [f"{labels[row % len(labels)]}: {text}" for row, text in block.failures.items()]


def _summarise_errors(problem: Problem, name: str, errors: Floats) -> dict[str, Any]:
    """Summarise the errors of an entry on a problem by a score, its interval, and other statistics.

    The errors have the shape (members, trials), where members are the distributions of the problem.
    The score is the largest 0.9 quantile over the members, divided by the problem's lower bound.

    Each member has a 95% interval for its 0.9 quantile. The largest upper end over the members,
    divided by the lower bound, is the upper end of the score's interval. This end is below the true
    score with probability at most 2.5%. The largest lower end, divided by the lower bound, is the
    lower end of the score's interval. If m members share the largest true quantile, this end
    exceeds the true score with probability up to about 2.5% m.

    A bootstrap replicate of the score is the largest resampled quantile over the members, divided
    by the lower bound.
    """
    errors = errors / problem.unit
    summary, trials = statistics({"error": errors}), errors.shape[1]
    worst = int(np.argmax(summary["q90"]))  # the first member if several are infinite
    bound, ascending = problem.bound, sort_errors(errors)
    quantiles = np.array([quantile_interval(ascending[worst], q) for q in LEVELS])
    # The word "suite" stays, because another name of the stream would move the stored scores.
    rng = stream("suite", problem.id, problem.digest, name)
    draws = quantile_replicates(ascending, 0.9, rng, DRAWS).max(axis=0)
    return {
        "problem": problem.id,
        "digest": problem.digest,
        "trials": trials,
        "failure_rate": float(np.max(summary["failure_rate"])),
        "score": float(summary["q90"][worst] / bound.value),
        "score_low": float(np.max(summary["q90_low"]) / bound.value),
        "score_high": float(np.max(summary["q90_high"]) / bound.value),
        # An error below the archive's is no sign of a violation, unlike one below a lower bound.
        "chance": np.nan if problem.relative else exceedance_p_value(errors, bound.value),
        "bound": bound.value,
        "bound_name": bound.by,
        "member": list(problem.members)[worst],
        "mean_error": float(summary["mean_error"][worst]),
        **dict(
            zip(("quantiles", "quantiles_low", "quantiles_high"), quantiles.T.copy(), strict=True)
        ),
        "draws": draws / bound.value,
    }


def exceedance_p_value(errors: Floats, bound: float) -> float:
    """Return the p-value of the hypothesis that an entry is private, from its errors.

    The members are the distributions of the problem. Let k of a member's T trials have an error
    above the lower bound `bound`. The bound holds for the 0.9 quantile of every private entry,
    under the worst distribution of the class. An error under this distribution therefore exceeds
    the bound with probability at least 1/10. Hence k or fewer such errors occur with probability at
    most P(Binomial(T, 1/10) <= k), the p-value of the member. The function returns the largest
    p-value over the members, because any member may be the worst distribution. The errors have the
    shape (members, trials); NaN stands for a failure, which counts as above the bound.
    """
    above = np.count_nonzero(~(errors < bound), axis=1)
    return float(np.max(bdtr(above, errors.shape[1], 0.1)))


def _add_times(table: pd.DataFrame, cost: _ReleaseTimes) -> pd.DataFrame:
    """Return the table of scores with two more columns, the mean times of computation.

    The times are the processor seconds of a release, and of drawing a dataset. A time is NaN if no
    trial of the row was computed in this run, because stored trials have no times.
    """

    def mean(times: dict[str, list[float]], key: str) -> float:
        seconds, datasets = times.get(key, (0.0, 0.0))
        return seconds / datasets if datasets else np.nan

    labels = [f"{row.problem}={row.entry}" for row in table.itertuples()]
    return table.assign(
        seconds=[mean(cost.releases, label) for label in labels],
        drawing_seconds=[mean(cost.drawing, problem) for problem in table.get("problem", [])],
    )
