"""Application ``site``: the page ``report=all`` of several runs, and the command ``site``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpbench.app import App, Command

USAGE = """\
Build the documentation, with the leaderboard of the benchmark and a page for each entry.
The pages are read from disk, and have a search.

  python -m dpbench site
  python -m dpbench site archive=mine.parquet out=/tmp/site

  archive=FILE  scores of your entries (benchmark run makes them), which are marked as yours beside
                the entries of results/archive; an entry of equal name is replaced
  out=DIR       by default site

The command needs a checkout with the extra docs, which bash dev.sh docs installs."""


def _main(words: Sequence[str]) -> int:
    from dpbench.site.command import main

    return main(words)


class _Site(App):
    key = "report"
    noun = "report=all, which runs nothing"
    always_runs = True

    def job(self) -> type[Any]:
        from dpbench.site.job import ReportJob

        return ReportJob

    def commands(self) -> Sequence[Command]:
        summary = "the documentation, with the leaderboard and pages of the benchmark"
        return (Command("site [key=value]", summary, USAGE, _main),)


APP = _Site()
