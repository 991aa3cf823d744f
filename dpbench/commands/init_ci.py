"""``init-ci [DIR]``: write a sweep, a plug-in and a CI workflow that test a library's accuracy.

The command writes these three files into the repository of the library. They form a test for
continuous integration, which fails if the library's private mean has become less accurate.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from dpbench.commands.command_line import NoKeys, read_words
from dpbench.errors import ConfigError
from dpbench.output.files import atomic, check_writable
from dpbench.output.terminal import say
from dpbench.runner.origin import git

__all__ = ["main"]

USAGE = """\
usage: python -m dpbench init-ci [DIR]

Writes into a repository (by default the working folder) a sweep, a plug-in and a workflow, which
fail a test where the library's mean has become less accurate. Replaces no file."""

TEMPLATES = Path(__file__).parents[1] / "templates"
# Path in the user's repository for each template.
FILES = {
    "accuracy.yaml": "accuracy/sweep/accuracy.yaml",
    "my_mean.py": "accuracy/my_mean.py",
    "accuracy.yml": ".github/workflows/accuracy.yml",
}
UNKNOWN_ADDRESS = "https://github.com/OWNER/dpbench"
COMMAND = "python -m pytest accuracy --dpbench-baseline accuracy/baseline.parquet"
NEXT_STEPS = f"""\
1. Put your library's call into accuracy/my_mean.py; as it is, it is a mean by hand.
2. Store what it errs by now, here and whenever a change is meant:
   {COMMAND} --dpbench-plugins my_mean --dpbench-update
3. The same without --dpbench-update is the test, one for each row. Commit these files; if not the
   baseline, the workflow keeps that of its first run.
A loss of 5% fails it, with probability 0.9, even if the library draws entropy of its own (seeded =
False): that takes 70000 trials a row. If all of it comes from `rng`, trials are compared one by
one, and 1000 show any loss of more than 2%."""


def main(words: Sequence[str]) -> int:
    """Write a sweep, a plug-in and a workflow into the user's repository, and print the next steps.

    The workflow tests the accuracy of the repository's private mean.

    Raises
    ------
    ConfigError
        If the folder does not exist or cannot be written to, or already has one of these files.
    """
    places, _ = read_words("init-ci", words, "[DIR]", NoKeys)
    root = Path(places[0] if places else ".")
    if not root.is_dir():
        raise ConfigError(f"init-ci: '{root}': no such folder")
    existing = [path for path in FILES.values() if (root / path).exists()]
    if existing:
        raise ConfigError(f"init-ci: '{root / existing[0]}': exists, and is not replaced; move it")
    check_writable(root, "init-ci")
    source = _source()
    for name, path in FILES.items():
        text = (TEMPLATES / name).read_text("utf-8").replace("@SOURCE@", source)
        with atomic(root / path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        say(f"wrote {root / path}")
    if source == UNKNOWN_ADDRESS:
        say(
            f"in {root / FILES['accuracy.yml']}: "
            f"replace {UNKNOWN_ADDRESS} by the address of dpbench"
        )
    say(NEXT_STEPS)
    return 0


def _source() -> str:
    """Return "URL@COMMIT" of the installed dpbench.

    Return `UNKNOWN_ADDRESS`, an address for the user to replace, if dpbench's source is not public.
    """
    try:
        record = json.loads(distribution("dpbench-mean").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        record = {}
    url, commit = record.get("url", ""), record.get("vcs_info", {}).get("commit_id", "")
    if url.startswith("file:"):
        url = git(TEMPLATES, "remote", "get-url", "origin") or ""
        commit = git(TEMPLATES, "rev-parse", "HEAD")
    return f"{url}@{commit}" if url.startswith("https://") and commit else UNKNOWN_ADDRESS
