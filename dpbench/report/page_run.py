"""Read the folder of a run for the page that presents the run."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dpbench.output.verdicts import SEVERITY
from dpbench.report.page_tables import Row, Table, make_table

__all__ = ["RunFolder", "as_mapping", "read_manifest", "worst_tone"]


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the contents of ``manifest.json`` in a folder.

    Return an empty mapping if the file is missing or cannot be read.
    """
    try:
        return as_mapping(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


@dataclass(frozen=True)
class RunFolder:
    """Folder of a run, with the tables and figures that the run itself has written.

    Files in the folder that the run has not written are ignored. A page shows at most `max_rows`
    rows of a table.
    """

    path: Path
    max_rows: int

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Return the contents of ``manifest.json`` in the folder, or an empty mapping."""
        return read_manifest(self.path)

    @property
    def configuration(self) -> dict[str, Any]:
        """Return the configuration of the run."""
        return as_mapping(self.manifest.get("configuration"))

    @property
    def sweep(self) -> dict[str, Any]:
        """Return the section ``sweep`` of the run's configuration, or an empty mapping."""
        return as_mapping(self.configuration.get("sweep"))

    @property
    def written(self) -> list[str]:
        """Return the names of the files that the run has written, in the order of its manifest.

        The manifest is the file ``manifest.json`` of the run.
        """
        manifest = self.manifest
        return [*as_mapping(manifest.get("outputs")), *(manifest.get("tracked") or ())]

    def rows(self, name: str) -> list[Row]:
        """Read the rows of a CSV file of the run; an empty list if the run has not written it.

        `name` is the name of the file without ``.csv``.
        """
        if f"{name}.csv" not in self.written:
            return []
        try:
            with (self.path / f"{name}.csv").open(newline="", encoding="utf-8") as file:
                return list(csv.DictReader(file, restval=""))
        except FileNotFoundError:
            return []

    def table(self, name: str, caption: str, **options: Any) -> Table | None:
        """Format a CSV file of the run, named without ``.csv``, as a table of the page.

        `options` are further arguments of `dpbench.report.page_tables.make_table`. Return None if
        the file has no rows or was not written.
        """
        return make_table(self.rows(name), self.max_rows, caption, name=name, **options)


def as_mapping(value: object) -> dict[str, Any]:
    """Return `value` if it is a mapping, else an empty mapping."""
    return value if isinstance(value, dict) else {}


def worst_tone(tones: Collection[str]) -> str:
    """Return the worst of some tones, CSS classes such as ``good`` and ``bad`` for verdicts.

    Return ``calm`` if there are none.
    """
    return next((tone for tone in SEVERITY if tone in tones), "calm")
