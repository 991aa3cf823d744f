"""Write files that a user goes on to edit: never over an existing file, and all or none."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

from dpbench.errors import ConfigError
from dpbench.output.files import atomic, check_writable

__all__ = ["check_module", "check_new_files", "write_new_files"]


def check_module(command: str, path: Path) -> None:
    """Raise a ConfigError, which begins with the command, unless a new module can have this path.

    A name that Python already finds is refused, because the file would hide that module.
    """
    if not path.stem.isidentifier() or keyword.iskeyword(path.stem):
        raise ConfigError(
            f"{command}: '{path.stem}': not the name of a module; use only letters, digits and _"
        )
    if path.exists():
        raise ConfigError(f"{command}: '{path}': exists, and is not replaced; choose another name")
    if find_spec(path.stem) is not None:
        raise ConfigError(
            f"{command}: '{path.stem}': Python has a module of this name, which the file would "
            "hide; choose another name"
        )


def check_new_files(command: str, folder: Path, paths: Iterable[str]) -> None:
    """Raise a ConfigError unless new files can be written to paths below an existing folder."""
    if not folder.is_dir():
        raise ConfigError(f"{command}: '{folder}': no such folder; make it first")
    for path in paths:
        if (folder / path).exists():
            raise ConfigError(f"{command}: '{folder / path}': exists, and is not replaced; move it")
    check_writable(folder, command)


def write_new_files(command: str, folder: Path, texts: Mapping[str, str]) -> None:
    """Write texts to files, by path below a folder; nothing if `check_new_files` refuses one."""
    check_new_files(command, folder, texts)
    for path, text in texts.items():
        with atomic(folder / path) as temporary:
            temporary.write_text(text, encoding="utf-8")
