"""Files: a check that a folder can be written to, stamps, and files written whole or not at all."""

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
    """Refuse a folder that cannot be written to, before anything is computed."""
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise ConfigError(f"{key}: '{folder}': cannot be written to: {error.strerror}") from error


def stamp(path: Path) -> list[int]:
    """The size of a file, and when it was changed."""
    state = path.stat()
    return [state.st_size, state.st_mtime_ns]


@contextlib.contextmanager
def atomic(path: Path, stamps: Stamps | None = None) -> Iterator[Path]:
    """Give a temporary path to write to; move it to `path` if all goes well.

    `stamps` gets that of what was written, whatever others write to `path` afterwards.
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
