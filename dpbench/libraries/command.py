"""Command ``libraries``: install other libraries of private means, for sweep=libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from dpbench.errors import ConfigError, choose_from
from dpbench.libraries.means.process import REQUIREMENTS, folder, python
from dpbench.output.command_line import NoKeys, read_words

__all__ = ["main"]


def main(words: Sequence[str]) -> int:
    """Install each named library, by default all, into a new virtual environment of its own.

    The environment variable ``PYTHON`` names the Python interpreter of these environments. By
    default the running interpreter is used. The exit code is 1 if an installation failed, else 0.
    If there is no library of a given name, a ConfigError is raised.
    """
    names, _ = read_words("libraries", words, "[NAME ...]", NoKeys)
    unknown = sorted(set(names) - set(REQUIREMENTS))
    if unknown:
        choices = choose_from(unknown[0], REQUIREMENTS)
        raise ConfigError(f"libraries: {unknown[0]!r}: no such library; {choices}")
    failed = 0
    for name in names or REQUIREMENTS:
        print(f"{name}: {', '.join(REQUIREMENTS[name])} in {folder(name)}", flush=True)
        make = [os.environ.get("PYTHON", sys.executable), "-m", "venv", "--clear"]
        pip = [str(python(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for command in ([*make, str(folder(name))], [*pip, *REQUIREMENTS[name]]):
            if subprocess.run(command, check=False).returncode:  # noqa: S603
                print(f"{name}: not installed, see above")
                # An environment counts as installed if it has a Python.
                python(name).unlink(missing_ok=True)
                failed = 1
                break
    return failed
