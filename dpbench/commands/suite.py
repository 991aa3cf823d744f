"""``suite TASK``: a benchmark to enter: frozen problems, scores over certified bounds."""

from __future__ import annotations

import string
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dpbench.commands.words import Task, run_task
from dpbench.output.files import atomic, check_writable
from dpbench.output.folder import only_writer
from dpbench.output.style import save, style
from dpbench.output.terminal import WIDTH, command_line, say
from dpbench.output.terminal import table as in_columns
from dpbench.output.verdicts import AUDIT
from dpbench.registry import ConfigError, validated
from dpbench.runner.origin import BLOCKS, Origin
from dpbench.runner.run import RunOptions
from dpbench.runner.settings import PathText, Processes, Seed
from dpbench.suite import checks, compare
from dpbench.suite.entries import Entry, entries, read_entry
from dpbench.suite.measure import measured
from dpbench.suite.problems import Suite, read_suite
from dpbench.suite.table import Scores, archive_path

__all__ = ["USAGE", "main"]

USAGE = """\
dpbench suite: score an estimator on frozen problems, over what no private estimator beats.

  suite list                       the problems
  suite run mine.py [key=value ..] check and audit the entry of a file, then score it
  suite compare mine.parquet ..    beside the archive: a profile, the best of each problem
  suite archive [key=value ..]     score the entries of dpbench itself

  problems=GLOB   those whose ids match, as 'gauss-*,binary-*'
  out=FILE        of run: by default mine.parquet; of compare: a folder, results/suite/compare

of run and archive:
  quick=true      fewer trials: within a minute
  seed=0          names every random stream
  n_jobs=-1       processes; -1 for all cores; changes no number

of compare:
  archive=FILE    by default results/archive/dpbench-mean-v1.parquet of the checkout

How to write an entry stands in CONTRIBUTING.md."""


@validated
class Choice:
    """The keys of ``list``, which every task has; see `USAGE`."""

    problems: str | None = None

    def suite(self) -> Suite:
        """Return the suite, with the problems that are chosen; ConfigError if there are none."""
        suite = read_suite()
        return suite if self.problems is None else suite.chosen(self.problems)


@validated
class Scoring(Choice):
    """The keys of ``run`` and ``archive``; see `USAGE`."""

    quick: bool = False
    out: PathText | None = None
    seed: Seed = 0
    n_jobs: Processes = -1


@validated
class Comparison(Choice):
    """The keys of ``compare``; see `USAGE`."""

    out: PathText = "results/suite/compare"
    archive: PathText | None = None


def main(words: Sequence[str]) -> int:
    """Run the command; the exit code is 1 if a promise is not kept or a claim is refuted.

    Raises
    ------
    ConfigError
        If a word, a file or an entry cannot be used.
    """
    if not words or words[0] == "help":
        say(USAGE)
        return 0
    return run_task("suite", words, TASKS)


def _list(_files: Sequence[str], options: Choice) -> int:
    suite = options.suite()
    title = f"{suite.name}: {len(suite.problems)} problems"
    say(in_columns(title, compare.problem_list(suite.problems)))
    say(compare.LEGENDS["problem_list"])
    return 0


def _run(files: Sequence[str], options: Scoring) -> int:
    suite, file = options.suite(), Path(files[0])
    entry, plugins = read_entry(file)
    name = file.stem
    out = _scores_file(options, Path(f"{name}.parquet"))
    audits, blocks = (
        Origin.of(work, names=[name], plugins=plugins) for work in (checks.WORK, BLOCKS)
    )
    if not any(entry.estimator(one) for one in suite.problems):
        raise ConfigError(f"{file.name}: entry: it answers none of the problems")
    try:
        checks.check(entry, suite.problems)
    except AssertionError as error:
        say(f"a promise is not kept: {error}")
        return 1
    say("check: all promises of estimators are kept")
    how: dict[str, Any] = {"seed": options.seed, "n_jobs": options.n_jobs}
    rows = checks.audited(entry, suite.problems, origin=audits, **how)
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
    folder = Path("results") / "suite" / name
    run = RunOptions(out=folder, origin=blocks, **how)
    with only_writer(folder):
        _scored(suite, [entry], run, out, quick=options.quick)
    say(f"next: {command_line(['suite', 'compare', str(out)])}")
    return 0


def _archive(_files: Sequence[str], options: Scoring) -> int:
    suite = options.suite()
    if options.out is None and (options.quick or options.problems):
        raise ConfigError("archive: of fewer trials or problems give out=FILE: the archive has all")
    out = _scores_file(options, archive_path(suite.name))
    folder = Path("results") / "suite" / "archive"
    run = RunOptions(out=folder, seed=options.seed, n_jobs=options.n_jobs)
    with only_writer(folder):
        _scored(suite, list(entries()), run, out, quick=options.quick)
    return 0


def _scores_file(options: Scoring, usual: Path) -> Path:
    """Where scores are stored, which nothing else is replaced by."""
    out = Path(options.out) if options.out else usual
    if out.suffix != ".parquet":
        raise ConfigError(f"out: '{out}': give a file that ends in .parquet")
    check_writable(out.parent)
    return out


def _scored(
    suite: Suite, known: Sequence[Entry], run: RunOptions, out: Path, *, quick: bool
) -> None:
    """Measure, store and print."""
    rows, failures = measured(known, suite.problems, run, say, quick=quick)
    cards = {one.card.name: one.card for one in known}
    about = {"suite": suite.name, "seed": run.seed, "quick": quick}
    origin = run.origin
    about |= {"source": origin.source, "machine": origin.machine}
    about |= {"versions": origin.about["versions"]}
    scores = Scores(rows, cards, about)
    scores.write(out)
    for text in failures:
        say(f"failed: {text}")
    _say_overview(rows, suite, scores)
    # by an interval of twice the width, as for claims: some numbers in 10,000 are so by chance
    below = rows[rows["score_high"] ** 2 < rows["score"]]
    for row in below.to_dict("records"):
        say(
            f"{row['entry']} on {row['problem']}: {row['score']:.3g} is below the bound of its "
            "class: it does better on this law than it can on all"
        )
    say(f"scores: {out}")


def _say_overview(rows: pd.DataFrame, suite: Suite, *scores: Scores) -> None:
    divisions = {name: one.division for found in scores for name, one in found.cards.items()}
    table = compare.overview(rows, len(suite.problems), divisions)
    if table:
        say(in_columns(f"\n{suite.name}: shares of {len(suite.problems)} problems", table))
        say(compare.LEGENDS["overview"])


def _say_problems(suite: str, table: Sequence[dict[str, str]], names: Sequence[str]) -> None:
    """The problems that are entered; several entries have letters."""
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
    suite = options.suite()
    path = Path(options.archive) if options.archive else archive_path(suite.name)
    if not path.exists():
        raise ConfigError(f"archive: '{path}': no such file; a checkout has it in results/archive")
    whole = read_suite()
    archive, *mine = [Scores.read(one, whole) for one in (path, *map(Path, files))]
    ids = [one.id for one in suite.problems]
    known, rows = (
        found[found["problem"].isin(ids)].reset_index(drop=True)
        for found in (archive.rows, pd.concat([one.rows for one in mine]))
    )
    doubled = [n for one in mine for n in one.cards if sum(n in other.cards for other in mine) > 1]
    if doubled:
        raise ConfigError(f"compare: {doubled[0]!r}: two files have an entry of this name")
    known = known[~known["entry"].isin(set(rows["entry"]))]
    out = Path(options.out)
    with style():
        save(compare.profile_figure(rows, known, suite.problems), out, "profile")
    table = compare.by_problem(rows, known, suite.problems)
    with atomic(out / "problems.csv") as temporary:
        pd.DataFrame(table).to_csv(temporary, index=False)
    _say_problems(suite.name, table, list(dict.fromkeys(rows["entry"])))
    _say_overview(pd.concat([rows, known]), suite, archive, *mine)
    quick = [one for one in mine if one.about["quick"]]
    if quick:
        say("of quick=true: fewer trials than the archive has, and wider intervals")
    say(f"figure: {out / 'profile.png'}, table: {out / 'problems.csv'}")
    return 0


TASKS = {
    "list": Task(_list, "", Choice),
    "run": Task(_run, "FILE", Scoring),
    "compare": Task(_compare, "FILE ...", Comparison),
    "archive": Task(_archive, "", Scoring),
}
