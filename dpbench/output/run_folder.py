"""Files of a run's folder: its lock, its manifest, and the checksums of its other files."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.files import Checksums, atomic, check_writable, checksum

__all__ = [
    "PAGE", "checksums_of", "only_writer", "read_finished", "read_manifest", "relative_checksums",
    "write_manifest",
]  # fmt: skip

PAGE = "report.html"


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock a folder against other runs while this context is open.

    A ConfigError is raised if another run holds the lock, the folder cannot be written to, or the
    system has no locks of files.
    """
    try:
        import fcntl
    except ImportError:
        raise ConfigError(
            f"out: '{folder}': runs lock their folder with fcntl, which this system lacks; run on "
            "Linux or macOS; release, check_estimator and plan work here"
        ) from None
    check_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have removed the file between `open` and `flock`.
            held = os.path.samestat(os.fstat(file.fileno()), path.stat())
        except (BlockingIOError, FileNotFoundError):
            held = False
        except OSError:  # the file system has no locks
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


def relative_checksums(folder: Path, checksums: Checksums) -> dict[str, str]:
    """Return the checksums of files by their paths relative to a folder, for a manifest."""
    return {path.relative_to(folder).as_posix(): found for path, found in checksums.items()}


def checksums_of(folder: Path, paths: Iterable[Path]) -> dict[str, str] | None:
    """Return the checksums of files in a folder, keyed by path relative to the folder.

    Return None if a file is missing.
    """
    try:
        return relative_checksums(folder, {path: checksum(path.read_bytes()) for path in paths})
    except OSError:
        return None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a finished run.

    A ConfigError is raised if there is no manifest, or the manifest lacks a required key.
    """
    try:
        manifest: dict[str, Any] = json.loads(
            (folder / "manifest.json").read_text(encoding="utf-8")
        )
        assert {"sweep", "configuration", "computer", "seed", "failures"} <= manifest.keys()
    except (OSError, ValueError, AssertionError, AttributeError, RecursionError) as error:
        raise ConfigError(f"'{folder}': holds no finished run of this version") from error
    return manifest


def read_finished(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a finished run, which lists the files of the run.

    Return None if there is no manifest, or a listed file is missing or changed.
    """
    try:
        manifest = read_manifest(folder)
        outputs = manifest["outputs"]
        is_unchanged = outputs == checksums_of(folder, [folder / name for name in outputs])
    except (ConfigError, KeyError, TypeError):
        return None
    return manifest if is_unchanged else None


def write_manifest(folder: Path, record: Mapping[str, Any]) -> None:
    """Write ``manifest.json``, whose presence marks a run as finished."""
    with atomic(folder / "manifest.json") as path:
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
