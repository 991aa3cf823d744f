"""Command ``site``: the documentation, with the leaderboard and pages of the benchmark.

One build of Sphinx makes all pages. Therefore they share style and search, and can link to each
other. ``docs/conf.py``, which only a checkout has, generates pages from classes and from the
archive. The archive is a file with the scores of dpbench's own estimators, called entries. Entries
of another file of scores are shown beside them, and marked.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from dpbench.benchmark.problems import MEAN_BENCHMARK, read_benchmark
from dpbench.benchmark.table import Scores, archive_path
from dpbench.output.command_line import read_words
from dpbench.output.files import check_writable
from dpbench.output.terminal import say
from dpbench.package import checkout
from dpbench.registry import ConfigError, validated
from dpbench.runner.settings import PathText

__all__ = ["main"]


@validated
class SiteOptions:
    """Keys ``archive`` and ``out`` of the command ``site``."""

    archive: PathText | None = None
    out: PathText = "site"


def main(words: Sequence[str]) -> int:
    """Build the documentation; return the exit code of Sphinx, which treats warnings as errors.

    A ConfigError is raised if a word cannot be used, or if the archive of scores, the folder
    ``docs/`` or the extra ``docs`` is missing.
    """
    _, options = read_words("site", words, "", SiteOptions)
    root, out = checkout(), Path(options.out)
    if root is None:
        raise ConfigError(
            "site: the sources of its pages are in a checkout alone; run it there: bash "
            + shlex.join(["dev.sh", "bench", "site", *words])
        )
    docs = root / "docs"
    if any(
        find_spec(name) is None
        for name in ("sphinx", "numpydoc", "myst_parser", "furo", "latex2mathml")
    ):
        raise ConfigError("site: the extra docs is not installed: pip install -e '.[docs]'")
    home = archive_path(MEAN_BENCHMARK)
    archive = Path(options.archive) if options.archive else home
    for path in (archive, home):
        if not path.is_file():
            raise ConfigError(f"archive: '{path}': no such file; benchmark run makes one")
        Scores.read(path, read_benchmark())  # raises ConfigError before Sphinx starts
    check_writable(out)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    command += ["-d", str(out / ".doctrees"), f"-Darchive={archive.absolute()}"]
    command += [str(docs), str(out)]
    code = subprocess.run(command, check=False).returncode  # noqa: S603 (Sphinx, as it is here)
    if code == 0:
        say(f"site: {out / 'index.html'}")
        say(f"leaderboard: {out / 'benchmark' / 'leaderboard.html'}")
    return code
