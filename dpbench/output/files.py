"""Write files atomically, record their checksums, and check that a folder can be written to."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError

Checksums = dict[Path, str]  # the checksum of each file


def check_writable(folder: Path, key: str = "out") -> None:
    """Raise a ConfigError if a folder cannot be written to; call it before a long computation.

    If the folder does not exist, its closest existing parent is tried. The message names the key or
    command `key`.
    """
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise ConfigError(f"{key}: '{folder}': cannot be written to: {error.strerror}") from error


def checksum(data: Any) -> str:
    """Return the first 16 digits of the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def stamp(path: Path) -> list[int]:
    """Return the size of a file in bytes, and the time of its last change in nanoseconds."""
    state = path.stat()
    return [state.st_size, state.st_mtime_ns]


@contextlib.contextmanager
def atomic(path: Path, checksums: Checksums | None = None) -> Iterator[Path]:
    """Yield a temporary path; if no error follows, move the file written there to `path`.

    The folder of `path` is created, and holds the temporary file. If `checksums` is given, it
    receives the file's checksum. The checksum is taken before the file is moved, because another
    process may replace the file afterwards.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if checksums is not None:
            checksums[path] = checksum(temporary.read_bytes())
        os.replace(temporary, path)  # noqa: PTH105
    finally:
        temporary.unlink(missing_ok=True)
