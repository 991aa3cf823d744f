"""Where results come from: versions, commit, cost."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbench.version import __version__

if TYPE_CHECKING:  # slow to load
    from dpbench.runner.block import Block

__all__ = ["Cost", "git", "provenance", "versions"]

PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "joblib", "hydra-core", "matplotlib", "seaborn")


@dataclass
class Cost:
    """What a run took, counted as it goes."""

    trials: int | None = None
    cells_done: int = 0
    cells_reused: int = 0
    blocks_done: int = 0
    blocks_reused: int = 0
    blocks_corrupt: list[str] = field(default_factory=list)
    records_drawn: int = 0
    worker_cpu_seconds: float = 0.0
    worker_peak_bytes: float = 0.0
    estimator_seconds: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    cpu_started: float = field(default_factory=time.process_time)

    def add(self, block: Block, records: int) -> None:
        """Count a block that was computed, of so many records."""
        self.blocks_done += 1
        self.records_drawn += records
        self.worker_cpu_seconds += block.cpu_seconds
        self.worker_peak_bytes = max(self.worker_peak_bytes, block.peak_bytes)
        for label, seconds in block.seconds.items():
            self.estimator_seconds[label] = self.estimator_seconds.get(label, 0.0) + seconds

    def as_dict(self) -> dict[str, Any]:
        """The counts, with wall and CPU seconds and the largest process's peak memory."""
        counts = {name: value for name, value in vars(self).items() if "started" not in name}
        return counts | {
            "wall_seconds": round(time.monotonic() - self.started, 3),
            "parent_cpu_seconds": round(time.process_time() - self.cpu_started, 3),
            "parent_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of everything that results or figures depend on."""
    known = {name: _version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "dpbench": __version__, **known}


def _version(name: str) -> str:
    """Of an installed distribution; `importlib.metadata.version` parses all else, slowly."""
    found = distribution(name)
    lines = (found.read_text("METADATA") or "").splitlines()
    said = (line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))
    return next(said, None) or found.version


def provenance(depends: Sequence[str] = (), plugins: Sequence[Path] = ()) -> dict[str, Any]:
    """Versions, machine and commits: of dpbench, and of folders of plug-ins in a repository.

    Asks git once for each. For `depends` and `plugins`, source files, see `RunOptions`.
    """
    root = Path(__file__).parents[2]
    own = _commit(root) if (root / ".git").exists() else None
    folders = sorted({path.parent for path in plugins})
    theirs = {folder.name: _commit(folder, "*.py") for folder in folders}  # no cache of imports
    known = {name: found for name, found in theirs.items() if found is not None}
    return {
        "versions": versions() | dict(line.split(" ", 1) for line in depends),
        "platform": f"{sys.platform} {platform.machine()}",
        **(own or {"commit": None, "dirty": False}),
        **({"plugin_commits": known} if known else {}),
    }


def _commit(folder: Path, *of: str) -> dict[str, Any] | None:
    """The commit of a folder, and whether files differ from it, `of` these patterns if any."""
    commit = git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(git(folder, "status", "--porcelain", "--", *of))}


def git(folder: Path, *arguments: str) -> str | None:
    """What git says in a folder; None if it says nothing, or cannot."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None
