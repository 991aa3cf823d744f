"""A finished run is recognised, and shown again, before anything is loaded that takes its time."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbench.arguments import command_line, replay_line
from dpbench.errors import ConfigError
from dpbench.folder import (
    PAGE,
    finished,
    only_writer,
    read_manifest,
    stamps_of,
    write_manifest,
)
from dpbench.output import say, stamp
from dpbench.runner.provenance import Cost, versions
from dpbench.seeds import digest

__all__ = ["Again", "fingerprint", "package_source", "print_next", "surroundings"]

PACKAGE = Path(__file__).parent
# Of variables that choose how arithmetic is done.
ARITHMETIC = ("BLIS", "MKL", "NPY", "OMP", "OPENBLAS")


def package_source() -> list[tuple[str, str]]:
    """The text of all files that results, tables and pages depend on, by path."""
    files = (f for f in sorted(PACKAGE.rglob("*")) if f.suffix in {".py", ".html", ".css", ".js"})
    return [(path.relative_to(PACKAGE).as_posix(), path.read_text("utf-8")) for path in files]


def fingerprint(folder: Path, config: Mapping[str, Any]) -> str:
    """A digest of all that the files of a run without plug-ins depend on, blocks included."""
    blocks = stamps_of(folder, sorted((folder / "blocks").glob("*.parquet")))
    return digest(surroundings(config), blocks)


def surroundings(config: Mapping[str, Any]) -> str:
    """Of source, versions, configuration, the machine, stamps of files of data."""
    shown = {key: config.get(key) for key in ("sweep", "seed", "trials", "paper", "font")}
    data = {str(path): stamp(path) for path in _data_files(config["sweep"].get("families"))}
    return digest(package_source(), versions(), shown, data, _machine())


def _data_files(spec: Any) -> Iterator[Path]:
    """Files that values of a configuration name, in the working folder and shipped."""
    if isinstance(spec, Mapping | list | tuple):
        for one in spec.values() if isinstance(spec, Mapping) else spec:
            yield from _data_files(one)
    elif isinstance(spec, str):
        for path in (Path(spec), PACKAGE / "data" / spec):
            if os.path.isfile(path):  # noqa: PTH113, which minds no text that no file can have
                yield path


def _machine() -> list[str]:
    """What tells that arithmetic is done as before, if it is the same; read in no time."""
    try:
        processor = Path("/proc/cpuinfo").read_text("utf-8")
        about = {line for line in processor.splitlines() if line.startswith(("model", "flags"))}
    except OSError:
        about = set()
    chosen = {f"{k}={v}" for k, v in os.environ.items() if k.startswith(ARITHMETIC)}
    return [platform.node(), platform.platform(), *sorted(about | chosen)]


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
