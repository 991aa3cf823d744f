"""Commands other than a sweep, one module each: words in, text and files out.

The command ``init-ci`` is the module ``init_ci``, with ``USAGE`` and ``main(words)``. Its docstring
begins with the line that ``--help`` shows: "``init-ci [DIR]``: a summary.".
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

__all__ = ["command", "commands"]

FIRST_LINE = re.compile(r'"""``(?P<usage>(?P<name>[a-z-]+)[^`]*)``: (?P<summary>.*?)\.?(""")?\n')


def commands() -> dict[str, str]:
    """Return each command's line in ``--help``, by name; nothing is imported, which is slow."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        with path.open(encoding="utf-8") as file:
            first = FIRST_LINE.fullmatch(file.readline())
        if first and first["name"] == path.stem.replace("_", "-"):
            found[first["name"]] = f"  {first['usage']:17} {first['summary']}"
    return found


def command(name: str) -> ModuleType:
    """Import the module of a command."""
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
