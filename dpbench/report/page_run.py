"""Read a run's folder for its page."""

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
    """Return the manifest of a folder; empty if it is missing or cannot be read."""
    try:
        return mapping(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


@dataclass(frozen=True)
class RunFolder:
    """Folder of a run, limited to the tables and figures that the run has written.

    Parameters
    ----------
    path : Path
        The folder.
    most : int
        Largest number of rows of a table that a page shows.
    """

    path: Path
    most: int

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Return the manifest; empty if it is missing or cannot be read."""
        return read_manifest(self.path)

    @property
    def configuration(self) -> dict[str, Any]:
        """Return the configuration of the run."""
        return mapping(self.manifest.get("configuration"))

    @property
    def sweep(self) -> dict[str, Any]:
        """Return the sweep of the configuration."""
        return mapping(self.configuration.get("sweep"))

    @property
    def written(self) -> list[str]:
        """Return the names of the files that the run has written, in this order."""
        found = self.manifest
        return [*mapping(found.get("outputs")), *(found.get("tracked") or ())]

    def rows(self, name: str) -> list[Row]:
        """Read the rows of a table; an empty list if the run has not written it."""
        if f"{name}.csv" not in self.written:
            return []
        try:
            with (self.path / f"{name}.csv").open(newline="", encoding="utf-8") as file:
                return list(csv.DictReader(file, restval=""))
        except FileNotFoundError:
            return []

    def table(self, name: str, caption: str, **how: Any) -> Table | None:
        """Format a table for the page.

        Parameters
        ----------
        name : str
            Name of the file, without ``.csv``.
        caption : str
            Caption of the table.
        **how
            Further arguments of `dpbench.report.page_tables.make_table`.

        Returns
        -------
        Table or None
            None if the table has no rows.
        """
        return make_table(self.rows(name), self.most, caption, name=name, **how)


def mapping(found: object) -> dict[str, Any]:
    """Return an object from a file if it is a mapping, else an empty mapping."""
    return found if isinstance(found, dict) else {}


def worst(tones: Collection[str]) -> str:
    """Return the worst of some tones; ``calm`` without any."""
    return next((tone for tone in SEVERITY if tone in tones), "calm")
