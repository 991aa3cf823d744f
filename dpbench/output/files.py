"""Write files whole or not at all, stamp them, and check that a folder can be written to."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dpbench.errors import ConfigError

Stamps = dict[Path, list[int]]


def check_writable(folder: Path, key: str = "out") -> None:
    """Refuse a folder that cannot be written to, before anything is computed.

    Parameters
    ----------
    folder : Path
        Folder to write to; it need not exist.
    key : str
        Key or command that the message names. ``out`` by default.

    Raises
    ------
    ConfigError
        If a file cannot be created in the folder, or in its closest parent that exists.
    """
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise ConfigError(f"{key}: '{folder}': cannot be written to: {error.strerror}") from error


def stamp(path: Path) -> list[int]:
    """Return the size of a file in bytes and the time of its last change in nanoseconds."""
    state = path.stat()
    return [state.st_size, state.st_mtime_ns]


@contextlib.contextmanager
def atomic(path: Path, stamps: Stamps | None = None) -> Iterator[Path]:
    """Yield a temporary path to write to, and move that file to `path` if no error is raised.

    Parameters
    ----------
    path : Path
        File to write or replace; its folder is created.
    stamps : dict of Path to list of int, optional
        Mapping that receives the stamp of the written file under `path`. The stamp is taken before
        the file is moved, so that it never describes a file of another process.

    Yields
    ------
    Path
        Temporary file in the folder of `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if stamps is not None:
            stamps[path] = stamp(temporary)
        os.replace(temporary, path)  # noqa: PTH105
    finally:
        temporary.unlink(missing_ok=True)
