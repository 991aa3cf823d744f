"""A run's folder: who may write there, and what was written."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbench.arguments import command_line
from dpbench.errors import ConfigError
from dpbench.output import Stamps, atomic, check_writable, stamp
from dpbench.runner.provenance import Cost, provenance

if TYPE_CHECKING:  # slow to load
    import pandas as pd

    from dpbench.runner.run import RunOptions

__all__ = [
    "PAGE", "InFolder", "finished", "more_trials", "only_writer", "read_manifest", "stamps_of",
    "write_manifest",
]  # fmt: skip

PAGE = "report.html"


class InFolder:
    """What runs with a folder have in common: `config` is the whole configuration."""

    options: RunOptions
    config: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """Where all is written."""
        assert self.options.out is not None
        return self.options.out

    @property
    def stores(self) -> Path | None:
        """The baseline that the run replaces, if it does."""
        return None

    def written(
        self,
        argv: Sequence[str] | None,
        cost: Cost,
        tables: Mapping[str, pd.DataFrame],
        text: str,
        draw: Callable[[Stamps], None],
        **found: Any,
    ) -> dict[str, Any]:
        """Write tables by name, the scoreboard's text and figures in place of an earlier run's.

        Then the manifest, with what was `found`, which is returned; `draw` gets the stamps of what
        is written, and adds its own. What was run from Python has no command.
        """
        when, stamps = computed(self.folder, cost), Stamps()
        forget(self.folder)
        for name, table in tables.items():
            with atomic(self.folder / f"{name}.csv", stamps) as path:
                # Python writes a number in half of the time that numpy takes, and the same.
                table.astype(object).to_csv(path, index=False)
        with atomic(self.folder / "scoreboard.txt", stamps) as path:
            path.write_text(text, encoding="utf-8")
        draw(stamps)
        record = {
            "sweep": self.config["sweep"].get("name", "sweep"),
            "command": None if argv is None else command_line(argv),
            "configuration": self.config,
            "seed": self.options.seed,
            "source": self.options.source,
            "computer": self.options.computer,
            **provenance(self.options.depends, self.options.plugins),
            **cost.as_dict(),
            **found,
            "computed": when,
            "outputs": by_name(self.folder, stamps),
        }
        write_manifest(self.folder, record)
        return record


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


def computed(folder: Path, cost: Cost) -> dict[str, Any]:
    """When blocks there were last computed and what that took, for the manifest.

    A run that computes none keeps what the manifest says, so that it leaves the page as it is.
    """
    if not cost.blocks_done:
        with contextlib.suppress(ConfigError, KeyError):
            return dict(read_manifest(folder)["computed"])
    seconds = round(time.monotonic() - cost.started, 1)
    return {"at": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "seconds": seconds}


def forget(folder: Path) -> None:
    """Remove what the run before wrote there, its manifest first; what was changed since stays."""
    try:
        outputs = read_manifest(folder)["outputs"]
    except (ConfigError, KeyError):
        outputs = {}
    (folder / "manifest.json").unlink(missing_ok=True)
    for name, wanted in outputs.items() if isinstance(outputs, dict) else ():
        path = folder / name
        if path.parent in {folder, folder / "figures"} and stamps_of(folder, [path]) == {
            name: wanted
        }:
            path.unlink()


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


def more_trials(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """A line, if a finished run with more trials lies there, whose files this one's replace."""
    try:
        found = read_manifest(folder)
        before, now = _most_trials(found["configuration"]), _most_trials(config)
    except (ConfigError, KeyError, TypeError, ValueError):
        return []
    if before <= now:
        return []
    again = found.get("command") or f"trials={before}"
    return [
        f"'{folder}' showed {before:,} trials and shows {now:,} from now on; those are kept, "
        f"to show them again: {again}"
    ]


def _most_trials(config: Mapping[str, Any]) -> int:
    """Of a configuration: its own number, or the largest of the parts; runs of an audit."""
    if config.get("trials") is not None:
        return int(config["trials"])
    sweep = config["sweep"]
    if "audit" in sweep:
        return int(sweep["audit"]["runs"])
    return max(int(part["trials"]) for part in sweep["parts"].values())


def write_manifest(folder: Path, record: Mapping[str, Any]) -> None:
    """Write ``manifest.json``, which says that a run is finished."""
    with atomic(folder / "manifest.json") as path:
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
