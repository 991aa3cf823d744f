"""Recognise a finished run and print its results again, without importing numpy or pandas."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.run_folder import (
    PAGE,
    only_writer,
    read_finished,
    read_manifest,
    write_manifest,
)
from dpbench.output.terminal import WIDE, command_line, rerun_line, say, screen_width
from dpbench.runner.cost import Cost
from dpbench.runner.origin import Origin, fingerprint
from dpbench.seeds import digest

__all__ = ["FinishedRun", "find_finished_run", "print_files", "print_next"]


def find_finished_run(
    folder: Path, config: Mapping[str, Any], origin: Origin | None = None
) -> dict[str, Any] | None:
    """Return the manifest of a finished run that has this configuration and unchanged files.

    `origin` has the source, versions and machine with which the run would be computed now. It can
    be omitted if there are no plug-ins. Return None if there is no finished run, its files were
    changed, or the source, the machine or the configuration differs.
    """
    manifest = read_finished(folder)
    if manifest is None or not manifest.get("fingerprint"):
        return None
    is_unchanged = manifest["fingerprint"] == fingerprint(
        folder, config, origin, manifest.get("reads", ())
    )
    return manifest if is_unchanged else None


@dataclass(frozen=True)
class FinishedRun:
    """A finished run whose files are unchanged; `record` is its manifest."""

    folder: Path
    record: Mapping[str, Any]
    stores: None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> FinishedRun | None:
        """Return the finished run that a composed configuration describes.

        Return None if there is no such run, or if the configuration has plug-ins, which may have
        changed.
        """
        sweep, plugins = config.get("sweep"), config.get("plugins")
        # `resume` may be the text "no", because the settings are not checked yet.
        if plugins or config.get("resume", True) is not True or not isinstance(sweep, dict):
            return None
        try:
            folder = Path(config.get("out") or f"results/{sweep.get('name', 'sweep')}").expanduser()
        except (TypeError, RuntimeError):
            return None
        manifest = find_finished_run(folder, config)
        if manifest is None or manifest["tracked"] or not (folder / PAGE).exists():
            return None
        return cls(folder, manifest)

    def has_exactly(self, config: Mapping[str, Any]) -> bool:
        """Return whether the run had this configuration in all keys.

        Keys that change no result, such as ``n_jobs``, are compared, too.
        """
        return digest(config) == digest(self.record["configuration"])

    def run(self, argv: Sequence[str]) -> int:
        """Print the stored text of the run and its files; return the run's exit code."""
        record = self.record
        with only_writer(self.folder):
            if digest(read_manifest(self.folder)) != digest(record):
                raise ConfigError(f"out: '{self.folder}': another run has just written there")
            cost = Cost(trials=record["trials"])
            cost.reuse(record)
            write_manifest(self.folder, {**record, **cost.as_dict()})
        say(printed_text(self.folder, record))
        print_files(self.folder, record, argv, cost)
        return int(record["exit_code"])


def printed_text(folder: Path, record: Mapping[str, Any]) -> str:
    """Return the tables of a finished run as the screen shows them; `record` is its manifest."""
    if screen_width() == WIDE and "wide_text" in record:
        return str(record["wide_text"]).rstrip("\n")
    return (folder / "scoreboard.txt").read_text(encoding="utf-8").rstrip("\n")


def print_files(folder: Path, record: Mapping[str, Any], argv: Sequence[str], cost: Cost) -> None:
    """Print the numbers of computed and reused blocks, and the result files.

    `record` is the manifest of the run, and `argv` has the words of the command line.
    """
    if failures := record["failures"]:
        say(f"the first failure's traceback: {rerun_line(argv, failures[0]['name'])}")
    seconds, unit = time.monotonic() - cost.started, record["unit"]
    say(f"{cost.blocks_done} {unit} done, {cost.blocks_reused} reused, {seconds:.1f} s")
    say(f"results: {folder}/{', '.join(record['results'])}")


def print_next(folder: Path, argv: Sequence[str]) -> None:
    """Print the next command that a finished run suggests after the words `argv`, if any."""
    record = read_manifest(folder)
    if record["next"] is not None:
        description, added, dropped = record["next"]
        words = [w for w in argv if dropped is not None and not w.startswith(tuple(dropped))]
        say(f"{description}: {command_line([*words, *added])}")
