"""Write the file of a new entry from a template that works."""

from __future__ import annotations

import keyword
from importlib.util import find_spec
from pathlib import Path

from dpbench.output.files import atomic, check_writable
from dpbench.output.terminal import command_line
from dpbench.registry import ConfigError

__all__ = ["run_words", "write_entry"]

TEMPLATE = Path(__file__).parent / "templates" / "entry.py"


def write_entry(name: str) -> Path:
    """Write a new entry's file, a template with comments that can be scored as it is.

    `name` is a path with or without the suffix ``.py``; its last part names the entry. The function
    refuses an existing file, a missing folder, and names under which Python could not import it.
    """
    path = Path(name if name.endswith(".py") else f"{name}.py")
    stem = path.stem
    if not stem.isidentifier() or keyword.iskeyword(stem):
        raise ConfigError(
            f"new: '{name}': not the name of a module; use only letters, digits and _"
        )
    if path.exists():
        raise ConfigError(f"new: '{path}': exists, and is not replaced; choose another name")
    if not path.parent.is_dir():
        raise ConfigError(f"new: '{path.parent}': no such folder; make it first")
    if find_spec(stem) is not None:
        raise ConfigError(
            f"new: '{name}': Python has a module of this name, which the file would hide; choose "
            "another name"
        )
    check_writable(path.parent, "new")
    text = TEMPLATE.read_text("utf-8").replace("@NAME@", stem)
    with atomic(path) as temporary:
        temporary.write_text(
            text.replace("@COMMAND@", command_line(run_words(path))), encoding="utf-8"
        )
    return path


def run_words(path: Path) -> list[str]:
    """Return the words of the command that checks and scores an entry in a few minutes."""
    return ["suite", "run", str(path), "quick=true"]
