"""Commands of ``python -m dpbench`` other than running a sweep, each in its own file.

The file ``init_ci.py`` implements the command ``init-ci``. Every such file defines ``USAGE``, the
text of ``--help``, and ``main(words)``, which returns the exit code. The docstring of the file
begins with the line that ``python -m dpbench --help`` shows: "``init-ci [DIR]``: a summary.".
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

__all__ = ["command", "commands"]
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API

FIRST_LINE = re.compile(r'"""``(?P<usage>(?P<name>[a-z-]+)[^`]*)``: (?P<summary>.*?)\.?(""")?\n')


def commands() -> dict[str, str]:
    """Return the line that ``--help`` shows for each command, keyed by name of the command.

    The lines are read from the source files, because importing every command would be slow.
    """
    lines = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        with path.open(encoding="utf-8") as file:
            match = FIRST_LINE.fullmatch(file.readline())
        if match and match["name"] == path.stem.replace("_", "-"):
            lines[match["name"]] = f"  {match['usage']:17} {match['summary']}"
    return lines


def command(name: str) -> ModuleType:
    """Import and return the Python module that implements a command."""
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
