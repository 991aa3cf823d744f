"""Application ``tracking``: the key ``track``, and commands that compare errors of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpbench.app import App, Command

COMPARE = """\
usage: python -m dpbench compare A B [out=DIR] [config_dir=DIR]

A and B are folders of finished runs, or baselines. Prints how many rows became worse or better, and
the ratios B/A of the errors of these rows, the largest change first. Trials are compared one by one
if both runs drew from the same streams. Writes compare.csv and a figure to out=DIR
(results/compare). config_dir=DIR is the folder of plug-ins."""

HISTORY = """\
usage: python -m dpbench history add RUN [to=FILE] [commit=NAME] [date=DATE] [config_dir=DIR]
       python -m dpbench history show FILE [out=DIR]

add: append the errors of a run's folder, or of a baseline, to FILE (history.parquet). They are
stored under the commit of the plug-ins or, without plug-ins, of dpbench. To add them again changes
nothing. show: print every row with the commits at which its error changes by more than 2%, and draw
it, to out=DIR (results/history). In a history without a change, a false one is shown with
probability 1% at most."""

INIT_CI = """\
usage: python -m dpbench init-ci [DIR]

Writes into a repository (by default the working folder) a sweep and a plug-in below its folder of
tests, and a workflow. The test fails if the library's mean becomes less accurate. Adds the table
[tool.dpbench] to pyproject.toml, which plain pytest reads. Replaces no file."""


def _compare(words: Sequence[str]) -> int:
    from dpbench.tracking.command_compare import main

    return main(words)


def _history(words: Sequence[str]) -> int:
    from dpbench.tracking.command_history import main

    return main(words)


def _init_ci(words: Sequence[str]) -> int:
    from dpbench.tracking.command_init_ci import main

    return main(words)


class _Tracking(App):
    key = "track"
    noun = "a comparison with a baseline"
    always_runs = True

    def job(self) -> type[Any]:
        from dpbench.tracking.job import TrackingJob

        return TrackingJob

    def commands(self) -> Sequence[Command]:
        summaries = (
            "compare two runs or baselines row by row, in a table and a figure",
            "errors over commits, and where they change",
            "write a sweep, a plug-in and a CI workflow that test a library's accuracy",
        )
        return (
            Command("compare A B", summaries[0], COMPARE, _compare),
            Command("history add|show", summaries[1], HISTORY, _history),
            Command("init-ci [DIR]", summaries[2], INIT_CI, _init_ci),
        )

    def sections(self) -> Sequence[Any]:
        from dpbench.tracking.section import build_baseline

        return (build_baseline,)

    def verdicts(self) -> Sequence[Mapping[str, Any]]:
        from dpbench.tracking.verdicts import TRACKING

        return (TRACKING,)


APP = _Tracking()
