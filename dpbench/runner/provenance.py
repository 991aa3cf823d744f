"""Where results come from: versions, commit, cost."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpbench.runner.block import Block
from dpbench.version import __version__

__all__ = ["Cost", "provenance", "versions"]

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
        counts = {name: value for name, value in vars(self).items() if name != "started"}
        own = resource.getrusage(resource.RUSAGE_SELF)
        return counts | {
            "wall_seconds": round(time.monotonic() - self.started, 3),
            "parent_cpu_seconds": round(own.ru_utime + own.ru_stime, 3),
            "parent_peak_bytes": own.ru_maxrss * 1024,
        }


def versions() -> dict[str, str]:
    """Versions of Python and of everything that results or figures depend on."""
    known = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "dpbench": __version__, **known}


def provenance(depends: Sequence[str] = ()) -> dict[str, Any]:
    """Versions, machine and commit; asks git once. For `depends` see `RunOptions`."""
    return {
        "versions": versions() | dict(line.split(" ", 1) for line in depends),
        "platform": f"{sys.platform} {platform.machine()}",
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain")),
    }


def _git(*arguments: str) -> str | None:
    """What git says of the checkout that this package is in; None if it is in none."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None
