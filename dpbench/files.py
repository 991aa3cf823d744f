"""Files that are written whole or not at all, and commands to type."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["atomic", "command_line"]


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


def command_line(words: Sequence[str]) -> str:
    """What a user types to run dpbench with these words; ``dev.sh`` has its own way."""
    return f"{os.environ.get('DPBENCH_COMMAND', 'python -m dpbench')} {shlex.join(words)}".strip()
