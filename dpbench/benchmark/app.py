"""Application and command ``benchmark``: a benchmark that is open to entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpbench.app import App, Command
from dpbench.output.help_page import help_page

USAGE = """\
dpbench benchmark: score an estimator on frozen problems. A score is its error over a lower bound.

  benchmark list                       the problems
  benchmark new mine                   write mine.py, an entry to change
  benchmark run mine.py [key=value ..] check, audit and score an entry
  benchmark compare mine.parquet ..    a page of your ranks and profile beside the archive
  benchmark archive [key=value ..]     score the entries of dpbench itself

  problems=GLOB   problems with matching ids, as 'gauss-*,binary-*'
  benchmark=NAME  dpbench-real-v2: real columns, scores over the archive's best
  out=FILE        of run: by default mine.parquet; of compare: a folder

of run and archive:
  quick=true      fewer trials and audits: a few minutes
  seed=NUMBER     repeats a run; by default drawn after the entry is loaded
  n_jobs=-1       processes; -1 for all cores; changes no number

of compare:
  archive=FILE    by default the scores that dpbench comes with

docs/howto/benchmark.md says how to write an entry.
For a leaderboard with yours: python -m dpbench site archive=mine.parquet"""


def _main(words: Sequence[str]) -> int:
    if not words or words[0] == "help":
        print(help_page(USAGE))
        return 0
    from dpbench.benchmark.command import main

    return main(words)


class _Benchmark(App):
    def commands(self) -> Sequence[Command]:
        summary = "score an estimator on frozen problems, over certified lower bounds"
        return (Command("benchmark TASK", summary, USAGE, _main),)

    def sections(self) -> Sequence[Any]:
        from dpbench.benchmark.section import build_problems, build_shares, build_standings

        return build_standings, build_shares, build_problems


APP = _Benchmark()
