"""A run's folder, as its page reads it."""

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

__all__ = ["RunFolder", "mapping", "read_manifest", "worst"]


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder; empty if there is none that can be read."""
    try:
        return mapping(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


@dataclass(frozen=True)
class RunFolder:
    """A folder with the tables and figures that its run has written, not what else lies there.

    Parameters
    ----------
    path : Path
        The folder.
    most : int
        Rows of a table that a page shows.
    """

    path: Path
    most: int

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest; empty if there is none that can be read."""
        return read_manifest(self.path)

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration of the run."""
        return mapping(self.manifest.get("configuration"))

    @property
    def sweep(self) -> dict[str, Any]:
        """The sweep of the configuration."""
        return mapping(self.configuration.get("sweep"))

    @property
    def written(self) -> list[str]:
        """The files that the run has written, in the order in which it wrote them."""
        found = self.manifest
        return [*mapping(found.get("outputs")), *(found.get("tracked") or ())]

    def rows(self, name: str) -> list[Row]:
        """Read the rows of a table; none if the run has not written it, or no row."""
        if f"{name}.csv" not in self.written:
            return []
        try:
            with (self.path / f"{name}.csv").open(newline="", encoding="utf-8") as file:
                return list(csv.DictReader(file, restval=""))
        except FileNotFoundError:
            return []

    def table(self, name: str, caption: str, **how: Any) -> Table | None:
        """Put the table of that name in print, see `make_table`; None without rows."""
        return make_table(self.rows(name), self.most, caption, name=name, **how)


def mapping(found: object) -> dict[str, Any]:
    """Return what was found in a file, empty unless it is a mapping."""
    return found if isinstance(found, dict) else {}


def worst(tones: Collection[str]) -> str:
    """Return the worst of some tones, ``calm`` if there is none."""
    return next((tone for tone in SEVERITY if tone in tones), "calm")
