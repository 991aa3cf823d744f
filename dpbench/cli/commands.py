"""Commands of ``python -m dpbench`` other than running a sweep, each in its own file.

Every such file defines ``USAGE``, the
text of ``--help``, and ``main(words)``, which returns the exit code. The docstring of the file
begins with the line that ``python -m dpbench --help`` shows: "``init-ci [DIR]``: a summary.".
"""

from __future__ import annotations

import importlib
import re
from types import ModuleType

from dpbench.package import PACKAGE

__all__ = ["FILES", "command", "commands"]

# File of each command.
FILES = {
    "compare": PACKAGE / "tracking" / "command_compare.py",
    "history": PACKAGE / "tracking" / "command_history.py",
    "init-ci": PACKAGE / "tracking" / "command_init_ci.py",
    "libraries": PACKAGE / "libraries" / "command.py",
    "plan": PACKAGE / "planner" / "command.py",
    "site": PACKAGE / "site" / "command.py",
    "suite": PACKAGE / "suite" / "command.py",
}

FIRST_LINE = re.compile(r'"""``(?P<usage>(?P<name>[a-z-]+)[^`]*)``: (?P<summary>.*?)\.?(""")?\n')


def commands() -> dict[str, str]:
    """Return the line that ``--help`` shows for each command, keyed by name of the command.

    The lines are read from the source files, because importing every command would be slow.
    """
    lines = {}
    for path in FILES.values():
        with path.open(encoding="utf-8") as file:
            match = FIRST_LINE.fullmatch(file.readline())
        if match:
            lines[match["name"]] = f"  {match['usage']:17} {match['summary']}"
    return lines


def command(name: str) -> ModuleType:
    """Import and return the Python module that implements a command."""
    parts = FILES[name].relative_to(PACKAGE.parent).with_suffix("").parts
    return importlib.import_module(".".join(parts))
