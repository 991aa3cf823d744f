"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

__all__ = ["atomic"]


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; move it to `path` if all goes well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)  # noqa: PTH105
    finally:
        temporary.unlink(missing_ok=True)
