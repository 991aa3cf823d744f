"""a run with a folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpbench.errors import ConfigError
from dpbench.output.files import Stamps, atomic
from dpbench.output.folder import by_name, read_manifest, stamps_of, write_manifest
from dpbench.output.terminal import command_line
from dpbench.runner.cost import Cost
from dpbench.runner.origin import provenance

if TYPE_CHECKING:  # slow to load
    import pandas as pd

    from dpbench.runner.run import RunOptions


class InFolder:
    """What runs with a folder have in common: `config` is the whole configuration."""

    sections: ClassVar[tuple[str, ...]]  # of its page, in order, see `dpbench.report.sections`
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
            "sections": self.sections,
            "outputs": by_name(self.folder, stamps),
        }
        write_manifest(self.folder, record)
        return record


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
