"""Command ``benchmark``: score an estimator on frozen problems, over certified lower bounds.

A score is an error divided by a lower bound on the error of every private estimator.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import AfterValidator

from dpbench.audit.verdicts import AUDIT
from dpbench.benchmark import checks, compare
from dpbench.benchmark.entries import catalogue_entries
from dpbench.benchmark.leaderboard import standings
from dpbench.benchmark.measure import SCORING_ROOMS, run_entries, score_entry
from dpbench.benchmark.problems import BENCHMARKS, MEAN_BENCHMARK, Benchmark, read_benchmark
from dpbench.benchmark.reference import archive_path, divide_by_best
from dpbench.benchmark.remote import FileEntry, read_entry
from dpbench.benchmark.section import write_leaderboard
from dpbench.benchmark.table import COUNTED_LEVEL, ENTRY_LEVEL, ROW_LEVEL, Scores
from dpbench.benchmark.template import run_words, write_entry
from dpbench.errors import choose_from
from dpbench.output.command_line import NoKeys, Task, run_task
from dpbench.output.files import check_writable
from dpbench.output.names import as_text
from dpbench.output.run_folder import only_writer
from dpbench.output.terminal import command_line, fill, say
from dpbench.output.terminal import table as in_columns
from dpbench.package import checkout
from dpbench.registry import ConfigError, validated
from dpbench.report.drawing.style import save, style
from dpbench.runner.origin import Origin
from dpbench.runner.run import RunOptions
from dpbench.runner.settings import PathText, Processes, Seed

__all__ = ["main"]


def _check_benchmark(name: str) -> str:
    """Return the name of a benchmark unchanged; raise ValueError if no benchmark has it."""
    if name not in BENCHMARKS:
        raise ValueError(choose_from(name, BENCHMARKS))
    return name


@validated
class ProblemOptions:
    """Key ``problems`` of every task of the command ``benchmark``."""

    problems: str | None = None

    def read_problems(self, name: str = MEAN_BENCHMARK) -> Benchmark:
        """Read a benchmark, and keep only the problems that the key ``problems`` selects.

        The key holds patterns of the problems' ids. Without it all problems are kept. Raise
        ConfigError if a pattern matches no problem.
        """
        benchmark = read_benchmark(name)
        return benchmark if self.problems is None else benchmark.select(self.problems)


@validated
class ListOptions(ProblemOptions):
    """Keys of the task ``benchmark list``."""

    benchmark: Annotated[str, AfterValidator(_check_benchmark)] = MEAN_BENCHMARK


@validated
class ScoreOptions(ProblemOptions):
    """Keys of the tasks ``benchmark run`` and ``benchmark archive``."""

    benchmark: Annotated[str, AfterValidator(_check_benchmark)] = MEAN_BENCHMARK
    quick: bool = False
    out: PathText | None = None
    seed: Seed | None = None
    n_jobs: Processes = -1


@validated
class CompareOptions(ProblemOptions):
    """Keys of the task ``benchmark compare``."""

    benchmark: Annotated[str, AfterValidator(_check_benchmark)] = MEAN_BENCHMARK
    out: PathText = "results/benchmark/compare"
    archive: PathText | None = None


def main(words: Sequence[str]) -> int:
    """Run a task of the command ``benchmark``, which scores estimators on frozen problems.

    The exit code is 1 if an entry (an estimator to score) breaks a rule for estimators, fails an
    audit of its privacy, or scores significantly below a lower bound; else 0. A ConfigError says
    that a word, a file or an entry cannot be used.
    """
    return run_task("benchmark", words, TASKS)


def _list(_files: Sequence[str], options: ListOptions) -> int:
    """Print a table of the problems of a benchmark; return the exit code 0."""
    benchmark = options.read_problems(options.benchmark)
    title = f"{benchmark.name}: {len(benchmark.problems)} problems"
    say(in_columns(title, compare.problem_list(benchmark.problems)))
    say(compare.LEGENDS["problem_list"])
    relative = any(problem.relative for problem in benchmark.problems)
    say(compare.RELATIVE_NOTE if relative else compare.BOUND_NOTE)
    return 0


def _new(names: Sequence[str], _options: NoKeys) -> int:
    """Write the file of a new entry, print the next command, and return the exit code 0."""
    path = write_entry(names[0])
    say(f"wrote {path}; it says what an entry is told, and what it returns")
    say(f"next: {command_line(run_words(path))}")
    return 0


def _run(files: Sequence[str], options: ScoreOptions) -> int:
    """Check, audit and score the entry (an estimator) in a file; return the exit code.

    Stop after the first of these steps that finds a fault.
    """
    benchmark, file = options.read_problems(options.benchmark), Path(files[0])
    out = _scores_file(options, Path(f"{file.stem}.parquet"))
    entry = read_entry(file, benchmark.problems)
    if not entry.answers:
        raise ConfigError(f"{file.name}: entry: it answers none of the chosen problems")
    if broken := checks.find_broken_promise(entry, benchmark.problems):
        say(f"a promise is not kept: {broken}")
        return 1
    say("check: all promises of estimators are kept, by the word of the entry's own process")
    rows = checks.audit_entry(
        entry, benchmark.problems, n_jobs=options.n_jobs, origin=Origin.of(rooms=checks.AUDIT_ROOMS)
    )
    failing_rows = [row for row in rows if AUDIT[row["verdict"]].fails]
    for row in failing_rows:
        say(
            f"audit: {row['estimator']} under {row['notion']}: {row['verdict']}: claimed "
            f"{row['claimed']:g}, at least {row['lower_bound']:.3f}, on {row['pair']}"
            + (f"; {row['refuted_by_replay']}" if row["refuted_by_replay"] else "")
        )
    if failing_rows:
        return 1
    say(f"audit: none of {len(rows)} pairs refutes a claim, {checks.RUNS} runs a side")
    return _score(entry, file, benchmark, out, options)


def _seed(options: ScoreOptions) -> int:
    """Return the seed that the user gives, or a random seed, which no estimator can predict."""
    return secrets.randbits(48) if options.seed is None else options.seed


def _score(
    entry: FileEntry, file: Path, benchmark: Benchmark, out: Path, options: ScoreOptions
) -> int:
    """Score an entry (an estimator), audit its privacy, and return the exit code.

    The audit uses the datasets on which the entry is scored. The scores are stored only if the
    audit passes.
    """
    seed, origin = _seed(options), Origin.of(rooms=SCORING_ROOMS)
    located = benchmark.at_places(seed)
    if any(problem.unit != 1 for problem in located.problems):
        entry = read_entry(file, located.problems)  # public knowledge has the unit of this run
    run_options: dict[str, Any] = {"n_jobs": options.n_jobs, "quick": options.quick}
    rows, audits, failures = score_entry(entry, located.problems, origin=origin, **run_options)
    refuting = [audit for audit in audits if AUDIT[audit.bound.verdict].fails]
    for audit in refuting:
        say(
            f"audit on scored data: {audit.problem}: {audit.bound.verdict}: claimed "
            f"{audit.bound.claimed:g}, at least {audit.bound.lower_bound:.3f}, by releases on "
            f"datasets of the problem's n; changed records: {audit.pair}"
        )
    if refuting:
        say("no score is stored: the entry is not as private as it says on data that are scored")
        return 1
    audited = list(dict.fromkeys(audit.problem for audit in audits))
    say(
        f"audit on scored data: none of {len(audits)} pairs of {len(audited)} problems refutes a "
        "claim"
    )
    metadata = _scores_metadata(benchmark.name, seed, origin, options) | {"audited": audited}
    scores = Scores(rows, {entry.card.name: entry.card}, metadata)
    _store(scores, benchmark, out, failures)
    _say_quick(scores)
    other = [] if benchmark.name == MEAN_BENCHMARK else [f"benchmark={benchmark.name}"]
    say(f"next: {command_line(['benchmark', 'compare', str(out), *other])}")
    return _say_below(scores)


def _archive(_files: Sequence[str], options: ScoreOptions) -> int:
    """Score the estimators of dpbench itself, store the scores, and return the exit code."""
    benchmark = options.read_problems(options.benchmark)
    if options.out is None and (options.quick or options.problems):
        raise ConfigError(
            "archive: quick= and problems= score a part only, and the archive holds all; "
            "give out=FILE"
        )
    own = checkout()
    default = Path(f"{benchmark.name}.parquet") if own is None else archive_path(benchmark.name)
    out = _scores_file(options, default)
    folder = Path("results") / "benchmark" / "archive"
    seed = _seed(options)
    say(f"seed={seed} repeats this run, or takes it up again")
    run = RunOptions(out=folder, seed=seed, n_jobs=options.n_jobs)
    known_entries = list(catalogue_entries())
    with only_writer(folder):
        rows, failures = run_entries(
            known_entries, benchmark.at_places(seed).problems, run, say, quick=options.quick
        )
        if all(problem.relative for problem in benchmark.problems):
            rows = divide_by_best(rows)
            known_entries = [e for e in known_entries if (rows["entry"] == e.card.name).any()]
        cards = {entry.card.name: entry.card for entry in known_entries}
        scores = Scores(rows, cards, _scores_metadata(benchmark.name, seed, run.origin, options))
        _store(scores, benchmark, out, failures)
    return _say_below(scores)


def _scores_metadata(
    benchmark: str, seed: int, origin: Origin, options: ScoreOptions
) -> dict[str, Any]:
    """Return facts stored with scores: benchmark, seed, quick or not, source, machine, versions."""
    return {
        "benchmark": benchmark,
        "seed": seed,
        "drawn": options.seed is None,
        "quick": options.quick,
        "source": origin.source,
        "machine": origin.machine,
        "versions": origin.about["versions"],
    }


def _scores_file(options: ScoreOptions, default: Path) -> Path:
    """Return the path of the file of scores; raise ConfigError unless it ends in .parquet."""
    out = Path(options.out) if options.out else default
    if out.suffix != ".parquet":
        raise ConfigError(f"out: '{out}': give a file that ends in .parquet")
    check_writable(out.parent)
    return out


def _store(scores: Scores, benchmark: Benchmark, out: Path, failures: Sequence[str]) -> None:
    """Write the scores to a file; print the failures, an overview and the path of the file."""
    scores.write(out)
    for text in failures:
        say(f"failed: {text}")
    _say_overview(benchmark, scores)
    for text in compare.describe_infinite(scores.rows):
        say(text)
    say(f"scores: {out}")


def _say_quick(scores: Scores) -> None:
    """Print which scores of a quick run rest on audits."""
    if text := compare.describe_quick_audits(scores):
        say(fill(text, ""))


def _say_below(scores: Scores) -> int:
    """Print scores that are below the lower bound on private errors; return the exit code.

    The exit code is 1 if there are scores below the bound by more than chance explains, else 0.
    """
    below = scores.rows[scores.is_below]
    why = "prior knowledge or not private; left out of rankings and profiles"
    for name, rows in below.groupby("entry"):
        chance = scores.joint_chance[str(name)]
        if chance < ENTRY_LEVEL:
            count = (rows["chance"] < COUNTED_LEVEL).sum()
            say(
                f"{name}: {count} of {len(rows)} scores are below the bound at level "
                f"{COUNTED_LEVEL:g}, which chance does with probability {chance:.1g}: {why}"
            )
        for row in rows[rows["chance"] < ROW_LEVEL].to_dict("records"):
            say(
                f"{name} on {row['problem']}: {as_text(row['score'])} is below the bound, which "
                f"chance does with probability {row['chance']:.1g}: {why}"
            )
    return 1 if len(below) else 0


def _say_overview(
    benchmark: Benchmark, *scores: Scores, names: Sequence[str] = ()
) -> dict[str, pd.DataFrame]:
    """Print two tables of entries (estimators): shares of solved problems, and standings by class.

    A problem is solved within a factor if the error is at most this factor times the lower bound.
    The first table has several factors. If two files have an entry of one name, the later file says
    whether the entry competes in the declared or the open division. The second table shows the
    entries `names` beside the leader of each class of problems. Without names, it shows the leader.

    Return the tables of all entries, ``shares`` and ``standings``, in which `names` are marked.
    """
    divisions = {
        name: card.division
        for scores_of_file in scores
        for name, card in scores_of_file.cards.items()
    }
    rows = pd.concat([file_scores.ranked for file_scores in scores])
    rows = rows[rows["problem"].isin([problem.id for problem in benchmark.problems])]
    table = compare.overview(rows, len(benchmark.problems), divisions)
    if not table:
        return {}
    say(in_columns(f"\n{benchmark.name}: shares of {len(benchmark.problems)} problems", table))
    say(compare.LEGENDS["overview"])
    if any(problem.relative for problem in benchmark.problems):
        say(compare.RELATIVE_NOTE)
    classes = standings(rows, benchmark.problems, divisions)
    if lines := compare.tabulate_classes(classes, names):
        say(in_columns(f"\n{benchmark.name}: means in each class of problems", lines))
        say("\n".join(compare.LEGENDS[key] for key in ("by_class", *(["rank"] * bool(names)))))
    shares = pd.DataFrame(table)
    own = shares["estimator"].str.removesuffix(" (open)").isin(names)
    shares.insert(0, compare.OWN, np.where(own, compare.OWN, ""))
    return {"shares": shares, "standings": compare.tabulate_standings(classes, names)}


def _say_problems(benchmark: str, table: Sequence[dict[str, str]], names: Sequence[str]) -> None:
    """Print a table of the problems that have a score, with the scores of each entry.

    If there are several entries, letters stand for them, and a legend explains the letters.
    """
    letters = dict(zip(names, string.ascii_uppercase, strict=False))
    columns = letters if len(names) > 1 else {names[0]: "score, 95%"}
    entered = [
        {columns.get(key, key): text for key, text in row.items() if key != "bound"}
        for row in table
        if any(row[name] != "-" for name in names)
    ]
    say(in_columns(f"{benchmark}, {len(entered)} of {len(table)} problems are entered", entered))
    legend = [f"{head}: {name}" for name, head in columns.items()]
    say(fill("; ".join([compare.LEGENDS["by_problem"], *legend]), ""))


def _compare(files: Sequence[str], options: CompareOptions) -> int:
    """Compare files of scores with the archive, the stored scores of dpbench's own entries.

    Print overviews, write a page with a figure and the tables, and return the exit code 0.
    """
    benchmark = options.read_problems(options.benchmark)
    path = Path(options.archive) if options.archive else archive_path(benchmark.name)
    if not path.exists():
        raise ConfigError(f"archive: '{path}': no such file; omit it for the scores of dpbench")
    full_benchmark = read_benchmark(benchmark.name)
    archive, *mine = [Scores.read(file, full_benchmark) for file in (path, *map(Path, files))]
    repeated_names = [
        name
        for scores in mine
        for name in scores.cards
        if sum(name in other.cards for other in mine) > 1
    ]
    if repeated_names:
        raise ConfigError(f"compare: {repeated_names[0]!r}: two files have an entry of this name")
    entered = {name for scores in mine for name in scores.cards}
    archive_scores, *rows = [
        scores.select(benchmark) for scores in (archive.without(entered), *mine)
    ]
    all_rows, below = pd.concat([s.rows for s in rows]), pd.concat([s.is_below for s in rows])
    table = compare.tabulate_problems(all_rows, archive_scores.ranked, benchmark.problems, below)
    _say_problems(benchmark.name, table, list(dict.fromkeys(all_rows["entry"])))
    names = sorted(entered)
    tables = _say_overview(benchmark, archive_scores, *rows, names=names)
    tables["problems"] = pd.DataFrame(table)
    remarks = [text for text, applies in compare.NOTES.items() if any(map(applies, mine))]
    remarks += filter(None, map(compare.describe_quick_audits, mine))
    for text in remarks:
        say(fill(text, ""))
    ranked = pd.concat([scores.ranked for scores in rows])
    with style():
        figure = compare.profile_figure(ranked, archive_scores.ranked, benchmark.problems)
        save(figure, Path(options.out) / "figures", "profile")
    page = write_leaderboard(Path(options.out), benchmark.name, names, tables, remarks)
    say(f"page: {page}, with the figure and all tables")
    return 0


TASKS = {
    "list": Task(_list, "", ListOptions),
    "new": Task(_new, "NAME", NoKeys),
    "run": Task(_run, "FILE", ScoreOptions),
    "compare": Task(_compare, "FILE ...", CompareOptions),
    "archive": Task(_archive, "", ScoreOptions),
}
