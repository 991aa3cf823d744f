"""Files of a run's folder: its lock, its manifest, and the sizes and times of its other files."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.files import Stamps, atomic, check_writable, stamp

__all__ = [
    "PAGE", "only_writer", "read_finished", "read_manifest", "stamps_of", "write_manifest",
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


def relative_stamps(folder: Path, stamps: Stamps) -> dict[str, list[int]]:
    """Return the stamps of files with paths relative to a folder, as a manifest stores them.

    A stamp is the size of a file in bytes and the time of its last change in nanoseconds.
    """
    return {path.relative_to(folder).as_posix(): file_stamp for path, file_stamp in stamps.items()}


def stamps_of(folder: Path, paths: Iterable[Path]) -> dict[str, list[int]] | None:
    """Return the stamps of files in a folder, keyed by path relative to the folder.

    A stamp is the size of a file in bytes and the time of its last change in nanoseconds. Return
    None if a file is missing.
    """
    try:
        return relative_stamps(folder, {path: stamp(path) for path in paths})
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
        is_unchanged = outputs == stamps_of(folder, [folder / name for name in outputs])
    except (ConfigError, KeyError, TypeError):
        return None
    return manifest if is_unchanged else None


def write_manifest(folder: Path, record: Mapping[str, Any]) -> None:
    """Write ``manifest.json``, whose presence marks a run as finished."""
    with atomic(folder / "manifest.json") as path:
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
