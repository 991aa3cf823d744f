"""A run's folder: who may write there, and what was written."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.files import Stamps, atomic, check_writable, stamp

__all__ = [
    "PAGE", "finished", "only_writer", "read_manifest", "stamps_of",
    "write_manifest",
]  # fmt: skip

PAGE = "report.html"


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Keep others out for as long as this process lives; ConfigError if one is there already."""
    check_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.path.samestat(os.fstat(file.fileno()), path.stat())  # not one removed since
        except (BlockingIOError, FileNotFoundError):
            held = False
        except OSError:  # the file system knows no locks
            held = True
        if not held:
            file.seek(0)
            raise ConfigError(
                f"out: '{folder}': another run writes there ({file.read()}); wait for it, or "
                "give another out=DIR"
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def by_name(folder: Path, stamps: Stamps) -> dict[str, list[int]]:
    """Stamps as a manifest holds them."""
    return {path.relative_to(folder).as_posix(): found for path, found in stamps.items()}


def stamps_of(folder: Path, paths: Iterable[Path]) -> dict[str, list[int]] | None:
    """Of files that lie there; None if one is missing."""
    try:
        return by_name(folder, {path: stamp(path) for path in paths})
    except OSError:
        return None


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished run; ConfigError if there is none."""
    try:
        found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        assert {"sweep", "configuration", "computer", "seed", "failures"} <= found.keys()
    except (OSError, ValueError, AssertionError, AttributeError, RecursionError) as error:
        raise ConfigError(f"'{folder}': holds no finished run of this version") from error
    return found


def finished(folder: Path) -> dict[str, Any] | None:
    """The manifest of a finished run, if what it wrote has its size and its time."""
    try:
        found = read_manifest(folder)
        outputs = found["outputs"]
        whole = outputs == stamps_of(folder, [folder / name for name in outputs])
    except (ConfigError, KeyError, TypeError):
        return None
    return found if whole else None


def write_manifest(folder: Path, record: Mapping[str, Any]) -> None:
    """Write ``manifest.json``, which says that a run is finished."""
    with atomic(folder / "manifest.json") as path:
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
