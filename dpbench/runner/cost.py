"""Counts of the work of a run: blocks, records, time and memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbench.sweep.block import Block

__all__ = ["Cost"]


@dataclass
class Cost:
    """Counts of the work of a run, updated while it runs.

    `trials` is the number of trials of every part of the sweep. It is None if the parts differ or
    have no trials. Work that is "done" was computed, and "reused" work was read from disk. Corrupt
    blocks are names of damaged files. `records_drawn` counts records of computed blocks.
    `worker_cpu_seconds` is a total over blocks, and `worker_peak_bytes` is the largest peak memory
    of a process. `estimator_seconds` holds the CPU seconds of the releases and of measuring their
    errors, keyed by label of the estimator. `files_opened` lists files outside the origin that
    plug-ins opened for computed blocks. Both clocks are in seconds: wall clock and CPU clock at the
    start of the run.
    """

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
    files_opened: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    cpu_started: float = field(default_factory=time.process_time)

    def add(self, block: Block, records: int) -> None:
        """Count a computed block, for which `records` records were drawn."""
        self.blocks_done += 1
        self.records_drawn += records
        self.worker_cpu_seconds += block.cpu_seconds
        self.worker_peak_bytes = max(self.worker_peak_bytes, block.peak_bytes)
        self.note_files(block.reads)
        for label, seconds in block.seconds.items():
            self.estimator_seconds[label] = self.estimator_seconds.get(label, 0.0) + seconds

    def note_files(self, names: Iterable[str]) -> None:
        """Note each file that plug-ins opened and that the origin of the results does not list."""
        self.files_opened += [name for name in names if name not in self.files_opened]

    def reuse(self, record: Mapping[str, Any]) -> None:
        """Count all cells and blocks of a finished run as reused.

        `record` is the manifest of the finished run, which holds its numbers of cells and blocks.
        """
        self.cells_reused = record["cells_done"] + record["cells_reused"]
        self.blocks_reused = record["blocks_done"] + record["blocks_reused"]

    def as_dict(self) -> dict[str, Any]:
        """Return the counts, the wall time, and the CPU time and peak memory of this process."""
        import resource  # only runs come here, and `only_writer` refuses a system without it

        counts = {name: value for name, value in vars(self).items() if "started" not in name}
        return counts | {
            "wall_seconds": round(time.monotonic() - self.started, 3),
            "parent_cpu_seconds": round(time.process_time() - self.cpu_started, 3),
            "parent_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
