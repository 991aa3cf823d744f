"""``track=check`` and ``track=update``: a sweep's errors against its stored baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pandas as pd
from rich.console import Console

from dpbench.config import Settings
from dpbench.output import atomic
from dpbench.registry import ConfigError
from dpbench.runner.plan import Cell
from dpbench.runner.run import RunOptions, check_writable
from dpbench.tracking.baseline import Baseline, Origin, baseline_path, errors_of
from dpbench.tracking.comparison import LEAST_TRIALS, compare
from dpbench.tracking.report import FAILING, junit, markdown

__all__ = ["FILES", "Tracking"]

FILES = ("tracking.csv", "tracking.md", "junit.xml")


@dataclass(frozen=True)
class Tracking:
    """What to do with the errors of a sweep.

    Attributes
    ----------
    sweep : str
    path : Path
        The baseline's file.
    stored : Baseline or None
        What to compare with; None to store a new one.
    """

    sweep: str
    path: Path
    stored: Baseline | None

    @classmethod
    def prepare(cls, settings: Settings, sweep: str, trials: int) -> Self | None:
        """Read the baseline, before anything is computed; None if nothing is to be tracked.

        Parameters
        ----------
        settings : Settings
        sweep : str
        trials : int
            Of the row that has fewest.

        Raises
        ------
        ConfigError
            If the baseline cannot be read, a new one not be written, or trials are few.
        """
        if settings.track is None:
            return None
        if trials < LEAST_TRIALS:
            raise ConfigError(f"track: {trials} trials: {LEAST_TRIALS} or more are needed")
        path = baseline_path(settings.baseline, sweep)
        if path.is_dir():
            raise ConfigError(f"baseline: '{path}': is a folder")
        if settings.track == "check":
            return cls(sweep, path, Baseline.read(path, sweep))
        check_writable(path.parent, "baseline")
        return cls(sweep, path, None)

    def run(self, cells: Sequence[Cell], options: RunOptions, failed: bool, say: Console) -> int:
        """Compare a finished run with the baseline, or store it as the new one.

        Returns
        -------
        int
            1 if a row is worse or gone, if bits differ that must not, or if a run with
            failures was to be stored; else 0.
        """
        assert options.out is not None
        origin = Origin.here(self.sweep, options.seed, options.source)
        rows = errors_of(cells, options.store(), options.seed)
        if self.stored is not None:
            return self._check(rows, origin, options.out, say)
        if failed:
            say.print(f"baseline: '{self.path}': not stored, as estimators failed", markup=False)
            return 1
        Baseline(rows, origin).write(self.path)
        for name in FILES:  # of a comparison with the one before
            (options.out / name).unlink(missing_ok=True)
        say.print(f"baseline of {len(rows)} rows: {self.path}", markup=False)
        return 0

    def _check(self, rows: pd.DataFrame, origin: Origin, out: Path, say: Console) -> int:
        assert self.stored is not None
        table = compare(self.stored.rows, rows)
        compared = table["comparison"].isin(["paired", "unpaired"])
        broken = origin.same_bits(self.stored.origin) and bool(
            (table["comparison"] == "paired").any()
        )
        notes = self._notes(origin)
        if broken:
            notes.append(
                f"**{(table['comparison'] == 'paired').sum()} rows have other bits all the same: "
                "they depend on more than their seed.**"
            )
        text = markdown(table, self.sweep, notes)
        written = (table.to_csv(index=False), text, junit(table, self.sweep))
        for name, content in zip(FILES, written, strict=True):
            with atomic(out / name) as path:
                path.write_text(content)
        say.print(text, markup=False)
        if compared.any():
            say.print("to take these errors as the new baseline: track=update", markup=False)
        return int(broken or bool(table["verdict"].isin(FAILING).any()))

    def _notes(self, origin: Origin) -> list[str]:
        """What the baseline is, and how far it can be compared."""
        assert self.stored is not None
        old = self.stored.origin
        commit = str(old.about.get("commit") or "unknown")[:12]
        edited = " with uncommitted changes" if old.about.get("dirty") else ""
        notes = [
            f"Baseline of commit {commit}{edited}: dpbench {old.about.get('dpbench')}, numpy "
            f"{old.about.get('numpy')}, scipy {old.about.get('scipy')}, seed {old.seed}."
        ]
        if old.seed != origin.seed:
            notes.append(
                f"This run has seed {origin.seed}: all rows are compared as independent samples."
            )
        elif old.source != origin.source:
            notes.append("The numerical source, numpy or scipy has changed since.")
        elif old.machine != origin.machine:
            notes.append("The source is the same; the processor is another, and so may bits be.")
        else:
            notes.append("Source, numpy, scipy and processor are the same: bits must be equal.")
        return notes
