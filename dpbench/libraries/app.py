"""Application ``libraries``: the sweep, the command, and ``library_mean`` and ``_variance``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpbench.app import App, Command

REQUIREMENTS = Path(__file__).parent / "means" / "requirements.json"
NAMES = tuple(json.loads(REQUIREMENTS.read_text("utf-8")))

USAGE = f"""\
usage: python -m dpbench libraries [NAME ...]

Installs libraries for sweep=libraries, by default all, each into an environment of its own. The
environments are below .libraries of the checkout or, without a checkout, below the user's folder
for caches. The environment variable DPBENCH_LIBRARIES names another folder.

libraries: {", ".join(NAMES)}"""


def _main(words: Sequence[str]) -> int:
    from dpbench.libraries.command import main

    return main(words)


class _Libraries(App):
    key = "sweep.libraries"
    noun = "libraries"

    def job(self) -> type[Any]:
        from dpbench.libraries.job import LibrariesJob

        return LibrariesJob

    def commands(self) -> Sequence[Command]:
        summary = "install other libraries of private means, for sweep=libraries"
        return (Command("libraries [NAME]", summary, USAGE, _main, {"": NAMES}),)

    def sections(self) -> Sequence[Any]:
        from dpbench.libraries.section import build_libraries, build_replay, build_verdicts

        return build_verdicts, build_libraries, build_replay

    def draw_paper(self, folder: Path, target: Path) -> Mapping[str, str]:
        from dpbench.libraries.paper import draw_libraries

        return draw_libraries(folder, target)

    def kinds(self) -> Sequence[type[Any]]:
        from dpbench.libraries.means.mean import LibraryMean, LibraryVariance

        return LibraryMean, LibraryVariance


APP = _Libraries()
