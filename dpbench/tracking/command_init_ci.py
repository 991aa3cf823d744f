"""Command ``init-ci``: write a sweep, a plug-in and a CI workflow that test a library's accuracy.

The command writes these three files into the repository of the library. They form a test for
continuous integration, which fails if the library's private mean has become less accurate.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.command_line import NoKeys, read_words
from dpbench.output.files import atomic
from dpbench.output.new_files import check_new_files, write_new_files
from dpbench.output.terminal import say
from dpbench.runner.origin import git

__all__ = ["main"]

TEMPLATES = Path(__file__).parent / "templates"
# Path in the user's repository for each template; @FOLDER@ is the folder of the accuracy test.
FILES = {
    "accuracy.yaml": "@FOLDER@/sweep/accuracy.yaml",
    "my_mean.txt": "@FOLDER@/my_mean.py",
    "accuracy.yml": ".github/workflows/accuracy.yml",
}
PROJECT = "pyproject.toml"
SETTINGS = """\
[tool.dpbench] # the accuracy test, which pytest runs
baseline = "@FOLDER@/baseline.parquet"
plugins = ["my_mean"]
"""
# Folders of tests that no build tool takes for a package, the preferred one first.
TEST_FOLDERS = ("tests", "test")
UNKNOWN_ADDRESS = "https://github.com/OWNER/dpbench"
NEXT_STEPS = """\
1. Put your library's call into @FOLDER@/my_mean.py. Now it computes a mean
   itself.
2. Store its errors: python -m pytest @FOLDER@ --dpbench-update
3. `pytest` then tests them, a test for each row. Commit these files. Without a
   committed baseline, the workflow keeps that of its first run.
A loss of 5% fails the test, with probability 0.9, even if the library draws its
own randomness (seeded = False): this takes the 70,000 trials of the sweep. If
all randomness comes from `rng`, 1,000 trials show any loss of more than 2%."""


def main(words: Sequence[str]) -> int:
    """Write a sweep, a plug-in and a workflow into the user's repository, and print the next steps.

    The workflow tests the accuracy of the repository's private mean. A ConfigError says that the
    folder does not exist or cannot be written to, that it already has one of these files, or that
    its ``pyproject.toml`` cannot take the settings.
    """
    places, _ = read_words("init-ci", words, "[DIR]", NoKeys)
    root = Path(places[0] if places else ".")
    source, folder = _source(), _test_folder(root)

    def fill(text: str) -> str:
        return text.replace("@FOLDER@", folder).replace("@SOURCE@", source)

    files = {
        fill(path): fill((TEMPLATES / name).read_text("utf-8")) for name, path in FILES.items()
    }
    check_new_files("init-ci", root, files)
    project = _add_settings(root / PROJECT, fill(SETTINGS))
    write_new_files("init-ci", root, files)
    with atomic(root / PROJECT) as temporary:
        temporary.write_text(project, encoding="utf-8")
    for path in files:
        say(f"wrote {root / path}")
    say(f"added [tool.dpbench] to {root / PROJECT}")
    if source == UNKNOWN_ADDRESS:
        say(
            f"in {root / FILES['accuracy.yml']}: "
            f"replace {UNKNOWN_ADDRESS} by the address of dpbench"
        )
    say(fill(NEXT_STEPS))
    return 0


def _test_folder(root: Path) -> str:
    """Return the folder for the accuracy test, relative to the repository.

    It lies below a folder of tests, because a further folder at the top would be a second package
    for setuptools: its automatic discovery then refuses to build the project. The folder of tests
    is the first one that pytest's ``testpaths`` names, else ``tests`` or ``test``.
    """
    named = _read_project(root / PROJECT).get("tool", {}).get("pytest", {})
    paths = named.get("ini_options", {}).get("testpaths", [])
    candidates = [*(paths.split() if isinstance(paths, str) else paths), *TEST_FOLDERS]
    found = [name for name in candidates if (root / name).is_dir() and name not in ("", ".")]
    return f"{(found or TEST_FOLDERS)[0].rstrip('/')}/accuracy"


def _read_project(path: Path) -> dict[str, Any]:
    """Return the contents of ``pyproject.toml``; empty if there is no such file."""
    try:
        return tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"init-ci: '{path}': not valid TOML: {error}; repair it") from error


def _add_settings(path: Path, settings: str) -> str:
    """Return the text of ``pyproject.toml`` with the settings of the accuracy test at its end."""
    if "dpbench" in _read_project(path).get("tool", {}):
        raise ConfigError(f"init-ci: '{path}': has a table [tool.dpbench] already; remove it")
    before = path.read_text("utf-8") if path.exists() else ""
    text = f"{before.rstrip()}\n\n{settings}" if before.strip() else settings
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:  # for example `tool = {...}` in one line
        raise ConfigError(
            f"init-ci: '{path}': no table can be added at its end; write [tool] as tables"
        ) from error
    return text


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
