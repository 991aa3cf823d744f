"""``suite TASK``: a benchmark to enter: frozen problems, scores over certified bounds."""

from __future__ import annotations

import secrets
import string
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import AfterValidator

from dpbench.commands.command_line import Task, run_task
from dpbench.errors import choose_from
from dpbench.output.files import atomic, check_writable
from dpbench.output.run_folder import only_writer
from dpbench.output.style import save, style
from dpbench.output.terminal import WIDTH, command_line, say
from dpbench.output.terminal import table as in_columns
from dpbench.output.verdicts import AUDIT
from dpbench.registry import ConfigError, validated
from dpbench.runner.origin import Origin
from dpbench.runner.run import RunOptions
from dpbench.runner.settings import PathText, Processes, Seed
from dpbench.suite import checks, compare
from dpbench.suite.entries import entries
from dpbench.suite.measure import SCORING, measured, scored
from dpbench.suite.problems import LEFT, SUITE, Suite, read_suite
from dpbench.suite.remote import FileEntry, read_entry
from dpbench.suite.table import ENTRY, LOW, ROW, Scores, archive_path

__all__ = ["USAGE", "main"]


USAGE = """\
dpbench suite: score an estimator on frozen problems, over what no private estimator beats.

  suite list                       the problems
  suite run mine.py [key=value ..] check and audit the entry of a file, and score it
  suite compare mine.parquet ..    beside the archive: a profile, the best of each problem
  suite archive [key=value ..]     score the entries of dpbench itself

  problems=GLOB   those whose ids match, as 'gauss-*,binary-*'
  suite=NAME      of list and compare: an earlier suite, as dpbench-mean-v1
  out=FILE        of run: by default mine.parquet; of compare: a folder, results/suite/compare

of run and archive:
  quick=true      fewer trials and audits: a few minutes
  seed=NUMBER     repeats a run; by default drawn after the entry is loaded
  n_jobs=-1       processes; -1 for all cores; changes no number

of compare:
  archive=FILE    by default the suite's in results/archive of the checkout

How to write an entry: docs/howto/benchmark.md."""


def _known(name: str) -> str:
    """Return the name of a suite; ValueError if there is none of that name."""
    if name not in (SUITE, *LEFT):
        raise ValueError(choose_from(name, (SUITE, *LEFT)))
    return name


@validated
class Choice:
    """The keys that every task has; see `USAGE`."""

    problems: str | None = None

    def chosen(self, name: str = SUITE) -> Suite:
        """Return the suite restricted to the chosen problems; ConfigError if none match."""
        suite = read_suite(name)
        return suite if self.problems is None else suite.chosen(self.problems)


@validated
class Listing(Choice):
    """The keys of ``list``; see `USAGE`."""

    suite: Annotated[str, AfterValidator(_known)] = SUITE


@validated
class Scoring(Choice):
    """The keys of ``run`` and ``archive``; see `USAGE`."""

    quick: bool = False
    out: PathText | None = None
    seed: Seed | None = None
    n_jobs: Processes = -1


@validated
class Comparison(Choice):
    """The keys of ``compare``; see `USAGE`."""

    suite: Annotated[str, AfterValidator(_known)] = SUITE
    out: PathText = "results/suite/compare"
    archive: PathText | None = None


def main(words: Sequence[str]) -> int:
    """Run a task of ``suite``.

    Returns
    -------
    int
        Exit code: 1 if an entry fails `check_estimator` or the audit, or scores below a lower
        bound; else 0.

    Raises
    ------
    ConfigError
        If a word, a file or an entry cannot be used.
    """
    if not words or words[0] == "help":
        say(USAGE)
        return 0
    return run_task("suite", words, TASKS)


def _list(_files: Sequence[str], options: Listing) -> int:
    """Print the problems of a suite."""
    suite = options.chosen(options.suite)
    title = f"{suite.name}: {len(suite.problems)} problems"
    say(in_columns(title, compare.problem_list(suite.problems)))
    say(compare.LEGENDS["problem_list"])
    if suite.name in LEFT:
        say(f"{suite.name} was left, because {LEFT[suite.name]}")
    return 0


def _run(files: Sequence[str], options: Scoring) -> int:
    suite, file = options.chosen(), Path(files[0])
    out = _scores_file(options, Path(f"{file.stem}.parquet"))
    entry = read_entry(file, suite.problems)
    if not entry.answers:
        raise ConfigError(f"{file.name}: entry: it answers none of the chosen problems")
    if broken := checks.broken_promise(entry, suite.problems):
        say(f"a promise is not kept: {broken}")
        return 1
    say("check: all promises of estimators are kept, by the word of the entry's own process")
    rows = checks.audited(
        entry, suite.problems, n_jobs=options.n_jobs, origin=Origin.of(checks.WORK)
    )
    bad = [row for row in rows if AUDIT[row["verdict"]].fails]
    for row in bad:
        say(
            f"audit: {row['estimator']} under {row['notion']}: {row['verdict']}: claimed "
            f"{row['claimed']:g}, at least {row['lower_bound']:.3f}, on {row['pair']}"
            + (f"; {row['refuted_by_replay']}" if row["refuted_by_replay"] else "")
        )
    if bad:
        return 1
    say(f"audit: none of {len(rows)} pairs refutes a claim, {checks.RUNS} runs a side")
    return _score(entry, suite, out, options)


def _seed(options: Scoring) -> int:
    """Return the given seed, or a random one that no entry can predict."""
    return secrets.randbits(48) if options.seed is None else options.seed


def _score(entry: FileEntry, suite: Suite, out: Path, options: Scoring) -> int:
    """Score a loaded entry, and audit it on the scored datasets; store scores if it passes."""
    seed, origin = _seed(options), Origin.of(SCORING)
    placed = suite.at(seed)
    how: dict[str, Any] = {"n_jobs": options.n_jobs, "quick": options.quick}
    rows, audits, failures = scored(entry, placed.problems, origin=origin, **how)
    bad = [one for one in audits if AUDIT[one.bound.verdict].fails]
    for one in bad:
        say(
            f"audit on scored data: {one.problem}: {one.bound.verdict}: claimed "
            f"{one.bound.claimed:g}, at least {one.bound.lower_bound:.3f}, by releases on a scored "
            f"dataset and on one that differs in {one.pair} records"
        )
    if bad:
        say("no score is stored: the entry is not as private as it says on data that are scored")
        return 1
    many = len({one.problem for one in audits})
    say(f"audit on scored data: none of {len(audits)} pairs of {many} problems refutes a claim")
    scores = Scores(rows, {entry.card.name: entry.card}, _about(suite.name, seed, origin, options))
    _store(scores, suite, out, failures)
    say(f"next: {command_line(['suite', 'compare', str(out)])}")
    return _say_below(scores)


def _archive(_files: Sequence[str], options: Scoring) -> int:
    suite = options.chosen()
    if options.out is None and (options.quick or options.problems):
        raise ConfigError(
            "archive: quick= and problems= score a part only, and the archive holds all; "
            "give out=FILE"
        )
    out = _scores_file(options, archive_path(suite.name))
    folder = Path("results") / "suite" / "archive"
    seed = _seed(options)
    say(f"seed={seed} repeats this run, or takes it up again")
    run = RunOptions(out=folder, seed=seed, n_jobs=options.n_jobs)
    known = list(entries())
    with only_writer(folder):
        rows, failures = measured(known, suite.at(seed).problems, run, say, quick=options.quick)
        cards = {one.card.name: one.card for one in known}
        scores = Scores(rows, cards, _about(suite.name, seed, run.origin, options))
        _store(scores, suite, out, failures)
    return _say_below(scores)


def _about(suite: str, seed: int, origin: Origin, options: Scoring) -> dict[str, Any]:
    """Return the metadata that is stored with a file of scores."""
    return {
        "suite": suite,
        "seed": seed,
        "drawn": options.seed is None,
        "quick": options.quick,
        "source": origin.source,
        "machine": origin.machine,
        "versions": origin.about["versions"],
    }


def _scores_file(options: Scoring, usual: Path) -> Path:
    """Return the checked path for the scores; ConfigError unless it ends in .parquet."""
    out = Path(options.out) if options.out else usual
    if out.suffix != ".parquet":
        raise ConfigError(f"out: '{out}': give a file that ends in .parquet")
    check_writable(out.parent)
    return out


def _store(scores: Scores, suite: Suite, out: Path, failures: Sequence[str]) -> None:
    """Write the scores, and print them."""
    scores.write(out)
    for text in failures:
        say(f"failed: {text}")
    _say_overview(suite, scores)
    say(f"scores: {out}")


def _say_below(scores: Scores) -> int:
    """Print the scores below the lower bound; return the exit code, 1 if there are any."""
    below = scores.rows[scores.is_below]
    why = "prior knowledge or not private; left out of rankings and profiles"
    for name, rows in below.groupby("entry"):
        chance = scores.joint_chance[str(name)]
        if chance < ENTRY:
            many = (rows["chance"] < LOW).sum()
            say(
                f"{name}: {many} of {len(rows)} scores are below the bound at level {LOW:g}, which "
                f"chance does with probability {chance:.1g}: {why}"
            )
        for row in rows[rows["chance"] < ROW].to_dict("records"):
            say(
                f"{name} on {row['problem']}: {row['score']:.3g} is below the bound, which chance "
                f"does with probability {row['chance']:.1g}: {why}"
            )
    return 1 if len(below) else 0


def _say_overview(suite: Suite, *scores: Scores) -> None:
    """Print the share of the problems that each entry solves within each factor of the bound.

    The division of an entry that stands in two files is taken from the later file.
    """
    divisions = {name: one.division for found in scores for name, one in found.cards.items()}
    rows = pd.concat([one.ranked for one in scores])
    rows = rows[rows["problem"].isin([one.id for one in suite.problems])]
    table = compare.overview(rows, len(suite.problems), divisions)
    if table:
        say(in_columns(f"\n{suite.name}: shares of {len(suite.problems)} problems", table))
        say(compare.LEGENDS["overview"])


def _say_problems(suite: str, table: Sequence[dict[str, str]], names: Sequence[str]) -> None:
    """Print the problems that have a score; if there are several entries, letters name them."""
    letters = dict(zip(names, string.ascii_uppercase, strict=False))
    heads = letters if len(names) > 1 else {names[0]: "score, 95%"}
    entered = [
        {heads.get(key, key): text for key, text in row.items() if key != "bound"}
        for row in table
        if any(row[name] != "-" for name in names)
    ]
    say(in_columns(f"{suite}, {len(entered)} of {len(table)} problems are entered", entered))
    told = [f"{head}: {name}" for name, head in heads.items()]
    say(textwrap.fill("; ".join([compare.LEGENDS["by_problem"], *told]), WIDTH))


def _compare(files: Sequence[str], options: Comparison) -> int:
    """Compare files of scores with the archive: a figure, a table and printed overviews."""
    suite = options.chosen(options.suite)
    path = Path(options.archive) if options.archive else archive_path(suite.name)
    if not path.exists():
        raise ConfigError(f"archive: '{path}': no such file; a checkout has it in results/archive")
    whole = read_suite(suite.name)
    archive, *mine = [Scores.read(one, whole) for one in (path, *map(Path, files))]
    doubled = [n for one in mine for n in one.cards if sum(n in other.cards for other in mine) > 1]
    if doubled:
        raise ConfigError(f"compare: {doubled[0]!r}: two files have an entry of this name")
    entered = {name for one in mine for name in one.cards}
    archive = replace(archive, rows=archive.rows[~archive.rows["entry"].isin(entered)])
    known, *rows = [one.of(suite) for one in (archive, *mine)]
    ranked = pd.concat([one.ranked for one in rows])
    out = Path(options.out)
    with style():
        save(compare.profile_figure(ranked, known.ranked, suite.problems), out, "profile")
    given, below = pd.concat([o.rows for o in rows]), pd.concat([o.is_below for o in rows])
    table = compare.by_problem(given, known.ranked, suite.problems, below)
    with atomic(out / "problems.csv") as temporary:
        pd.DataFrame(table).to_csv(temporary, index=False)
    _say_problems(suite.name, table, list(dict.fromkeys(given["entry"])))
    _say_overview(suite, known, *rows)
    for text, about in NOTES.items():
        if any(about(one) for one in mine):
            say(text)
    say(f"figure: {out / 'profile.png'}, table: {out / 'problems.csv'}")
    return 0


# Notes printed below a comparison, each with the condition on the compared scores.
NOTES: dict[str, Callable[[Scores], Any]] = {
    f"{compare.LEGENDS['below']}": lambda one: one.is_below.any(),
    "of quick=true: fewer trials than the archive has, and wider intervals": lambda one: one.about[
        "quick"
    ],
    "of a seed that was given: an entry may have known the places of the laws": lambda one: (
        not one.about.get("drawn", True)
    ),
}
TASKS = {
    "list": Task(_list, "", Listing),
    "run": Task(_run, "FILE", Scoring),
    "compare": Task(_compare, "FILE ...", Comparison),
    "archive": Task(_archive, "", Scoring),
}
