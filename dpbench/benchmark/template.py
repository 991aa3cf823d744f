"""Write the file of a new entry from a template that works."""

from __future__ import annotations

from pathlib import Path

from dpbench.output.new_files import check_module, write_new_files
from dpbench.output.terminal import command_line

__all__ = ["run_words", "write_entry"]

TEMPLATE = Path(__file__).parent / "templates" / "entry.py"


def write_entry(name: str) -> Path:
    """Write a new entry's file, a template with comments that can be scored as it is.

    `name` is a path with or without the suffix ``.py``; its last part names the entry. The function
    refuses an existing file, a missing folder, and names under which Python could not import it.
    """
    path = Path(name if name.endswith(".py") else f"{name}.py")
    check_module("new", path)
    text = TEMPLATE.read_text("utf-8").replace("@NAME@", path.stem)
    text = text.replace("@COMMAND@", command_line(run_words(path)))
    write_new_files("new", path.parent, {path.name: text})
    return path


def run_words(path: Path) -> list[str]:
    """Return the words of the command that checks and scores an entry in a few minutes."""
    return ["benchmark", "run", str(path), "quick=true"]
