"""Application ``paper``: the command ``paper``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpbench.app import App, Command
from dpbench.package import conf_folder

USAGE = """\
Draw the figures of a paper, a lecture or a post: run its sweeps where they are not finished, and
draw their figures at the width of a column, with captions and a table of claims in LaTeX.

usage: python -m dpbench paper [SOURCE ...] [key=value ...]

SOURCE: {sources}; without one, all.
Overrides such as trials=50, seed=1 or n_jobs=1 go to every sweep. Results are in results/SWEEP
below the working folder, figures in results/paper/SOURCE."""


def _names() -> Iterable[str]:
    return sorted(path.stem for path in (conf_folder() / "papers").glob("*.yaml"))


def _main(words: Sequence[str]) -> int:
    from dpbench.paper.command import main

    return main(words)


class _Paper(App):
    def commands(self) -> Sequence[Command]:
        names = _names()
        summary = "draw the figures of a paper, a lecture or a post"
        usage = USAGE.format(sources=", ".join(names))
        return (Command("paper [SOURCE ...]", summary, usage, _main, {"": names}),)


APP = _Paper()
