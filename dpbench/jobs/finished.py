"""A finished run is recognised, and shown again, before anything is loaded that takes its time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.folder import (
    PAGE,
    finished,
    only_writer,
    read_manifest,
    write_manifest,
)
from dpbench.output.terminal import command_line, replay_line, say
from dpbench.runner.cost import Cost
from dpbench.runner.origin import fingerprint
from dpbench.seeds import digest

__all__ = [
    "Again",
    "print_next",
]


@dataclass(frozen=True)
class Again:
    """A finished run, whose files are as they were written; `record` is its manifest."""

    folder: Path
    record: Mapping[str, Any]
    stores: None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Again | None:
        """The run of this configuration, as it was composed, if nothing is left of it to do."""
        more = any(config.get(key) for key in ("plugins", "track", "replay", "report"))
        sweep = config.get("sweep")
        # resume=no is text until settings are checked
        if more or config.get("resume", True) is not True or not isinstance(sweep, dict):
            return None
        try:
            folder = Path(config.get("out") or f"results/{sweep.get('name', 'sweep')}").expanduser()
        except (TypeError, RuntimeError):
            return None
        found = finished(folder)
        if found is None or found.get("tracked", True) or not (folder / PAGE).exists():
            return None
        return (
            cls(folder, found) if found.get("fingerprint") == fingerprint(folder, config) else None
        )

    def checked(self, config: Mapping[str, Any]) -> bool:
        """Whether that run had this configuration to the last key, so that it can be used."""
        return digest(config) == digest(self.record["configuration"])

    def run(self, argv: Sequence[str]) -> int:
        """Print its verdicts and what to type; the exit code."""
        record = self.record
        with only_writer(self.folder):
            if digest(read_manifest(self.folder)) != digest(record):
                raise ConfigError(f"out: '{self.folder}': another run has just written there")
            cost = Cost(trials=record["trials"])
            cost.cells_reused = record["cells_done"] + record["cells_reused"]
            cost.blocks_reused = record["blocks_done"] + record["blocks_reused"]
            write_manifest(self.folder, {**record, **cost.as_dict()})
        say((self.folder / "scoreboard.txt").read_text("utf-8").rstrip("\n"))
        print_next(self.folder, record, argv, cost)
        return int(record["exit_code"])


def print_next(folder: Path, record: Mapping[str, Any], argv: Sequence[str], cost: Cost) -> None:
    """Print what was done, where the results are and what to type next; of a run's manifest."""
    sweep, seed, failures = (record[key] for key in ("sweep", "seed", "failures"))
    if failures:
        say(f"the first failure's traceback: {replay_line(argv, failures[0]['name'])}")
    seconds = time.monotonic() - cost.started
    say(f"{cost.blocks_done} blocks done, {cost.blocks_reused} reused, {seconds:.1f} s")
    more = ", sample_complexity.csv" if (folder / "sample_complexity.csv").exists() else ""
    files = f"{PAGE}, summary.csv, claims.csv, factors.csv{more}, figures/, manifest.json"
    say(f"results: {folder}/{files}")
    if sweep == "quick":
        said, kept, added = "next", [], ["sweep=heavy_tail"]
    elif cost.trials is not None:
        said, added = "more trials, keeping these", [f"trials={2 * cost.trials}"]
        kept = [word for word in argv if not word.startswith(("trials=", "resume="))]
    else:
        said = "an independent replication"
        added = [f"seed={seed + 1}", f"out={folder}-seed{seed + 1}"]
        kept = [word for word in argv if not word.startswith(("seed=", "out=", "resume="))]
    say(f"{said}: {command_line([*kept, *added])}")
