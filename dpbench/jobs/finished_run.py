"""Recognise a finished run and print its results again, without importing numpy or pandas."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.run_folder import PAGE, finished, only_writer, read_manifest, write_manifest
from dpbench.output.terminal import command_line, replay_line, say
from dpbench.runner.cost import Cost
from dpbench.runner.origin import Origin, fingerprint
from dpbench.seeds import digest

__all__ = ["FinishedRun", "print_next", "standing"]


def standing(
    folder: Path, config: Mapping[str, Any], origin: Origin | None = None
) -> dict[str, Any] | None:
    """Return the manifest of a finished run of this configuration.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    config : mapping
        The whole configuration.
    origin : Origin, optional
        Source code and machine that would compute now. It may be omitted if there are no plug-ins.

    Returns
    -------
    dict or None
        The manifest; None if there is no finished run, its files were changed, or source, machine
        or configuration differ.
    """
    found = finished(folder)
    if found is None or not found.get("fingerprint"):
        return None
    same = found["fingerprint"] == fingerprint(folder, config, origin, found.get("reads", ()))
    return found if same else None


@dataclass(frozen=True)
class FinishedRun:
    """A finished run whose files are unchanged.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    record : mapping
        Its manifest.
    """

    folder: Path
    record: Mapping[str, Any]
    stores: None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> FinishedRun | None:
        """Return the finished run of a composed configuration; None if anything is left to do."""
        more = any(config.get(key) for key in ("plugins", "track", "replay", "report"))
        sweep = config.get("sweep")
        # Settings are not checked yet, so that resume=no may still be the text "no".
        if more or config.get("resume", True) is not True or not isinstance(sweep, dict):
            return None
        try:
            folder = Path(config.get("out") or f"results/{sweep.get('name', 'sweep')}").expanduser()
        except (TypeError, RuntimeError):
            return None
        found = standing(folder, config)
        if found is None or found["tracked"] or not (folder / PAGE).exists():
            return None
        return cls(folder, found)

    def has_exactly(self, config: Mapping[str, Any]) -> bool:
        """Return whether the run had exactly this configuration, including the number of jobs."""
        return digest(config) == digest(self.record["configuration"])

    def run(self, argv: Sequence[str]) -> int:
        """Print the verdicts and the next command; return the exit code."""
        record = self.record
        with only_writer(self.folder):
            if digest(read_manifest(self.folder)) != digest(record):
                raise ConfigError(f"out: '{self.folder}': another run has just written there")
            cost = Cost(trials=record["trials"])
            cost.reuse(record)
            write_manifest(self.folder, {**record, **cost.as_dict()})
        say((self.folder / "scoreboard.txt").read_text("utf-8").rstrip("\n"))
        print_next(self.folder, record, argv, cost)
        return int(record["exit_code"])


def print_next(folder: Path, record: Mapping[str, Any], argv: Sequence[str], cost: Cost) -> None:
    """Print the numbers of computed blocks, the places of results and the next command.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    record : mapping
        Manifest of the run.
    argv : sequence of str
        Words of the command line.
    cost : Cost
        Counts of computed and reused blocks.
    """
    if failures := record["failures"]:
        say(f"the first failure's traceback: {replay_line(argv, failures[0]['name'])}")
    seconds, unit = time.monotonic() - cost.started, record["unit"]
    say(f"{cost.blocks_done} {unit} done, {cost.blocks_reused} reused, {seconds:.1f} s")
    say(f"results: {folder}/{', '.join(record['results'])}")
    if record["next"] is not None:
        what, added, without = record["next"]
        kept = [w for w in argv if without is not None and not w.startswith(tuple(without))]
        say(f"{what}: {command_line([*kept, *added])}")
