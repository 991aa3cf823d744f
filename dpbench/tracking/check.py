"""Run ``track=check`` and ``track=update``: a sweep's errors against its stored baseline."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from dpbench.output.files import atomic, check_writable
from dpbench.output.verdicts import TRACKING, failing
from dpbench.registry import ConfigError
from dpbench.runner.run import RunOptions, Say
from dpbench.runner.settings import Settings
from dpbench.sweep.plan import Cell
from dpbench.tracking.baseline import Baseline, baseline_path, check_replaceable, errors_of
from dpbench.tracking.comparison import LEAST_TRIALS, SMALLEST, compare
from dpbench.tracking.power import power, power_sentence
from dpbench.tracking.report import in_print, junit, markdown, row_name

__all__ = ["FILES", "Judgement", "Tracking", "suspects"]

FILES = ("tracking.csv", "tracking.md", "junit.xml", "tracking_power.csv")
TOO_GOOD = 0.05  # relative gain above which a private row may no longer be private


def suspects(table: pd.DataFrame) -> list[int]:
    """Return the places of private rows that are better by more than `TOO_GOOD`."""
    better = (table["verdict"] == "better") & (table["trimmed_mean_high"] < 1 - TOO_GOOD)
    return [int(place) for place in np.flatnonzero(better & (table["privacy"] != "none"))]


class Judgement(NamedTuple):
    """A comparison with its notes, failures and power.

    Attributes
    ----------
    table : DataFrame
        Table of `dpbench.tracking.compare`.
    notes : list of str
        Sentences about the baseline and the comparison.
    reasons : dict of int to str
        Reason of every row that fails, by its place in the table.
    power : DataFrame or None
        Table of `dpbench.tracking.power`; None on the baseline's processor.
    """

    table: pd.DataFrame
    notes: list[str]
    reasons: dict[int, str]
    power: pd.DataFrame | None = None


@dataclass(frozen=True)
class Tracking:
    """Compare the errors of a sweep with a baseline, or store them as a new baseline.

    Attributes
    ----------
    sweep : str
        Name of the sweep.
    path : Path
        The baseline's file.
    stored : Baseline or None
        The baseline to compare with, if there is one.
    update : bool
        True to store the run's errors as the new baseline.
    fail_on_inconsistent : bool
        True if a private row that became better fails the run.
    """

    sweep: str
    path: Path
    stored: Baseline | None
    update: bool
    fail_on_inconsistent: bool

    @classmethod
    def prepare(
        cls, settings: Settings, sweep: str, trials: int, fail_on_inconsistent: bool
    ) -> Self | None:
        """Read the baseline before anything is computed.

        Parameters
        ----------
        settings : Settings
            `track` and `baseline` of the command line.
        sweep : str
            Name of the sweep.
        trials : int
            Trials of the row that has fewest.
        fail_on_inconsistent : bool
            See `Tracking`; set by the sweep.

        Returns
        -------
        Tracking or None
            None if nothing is to be tracked.

        Raises
        ------
        ConfigError
            If the baseline cannot be read, the new one cannot be written, or trials are too few.
        """
        if settings.track is None:
            return None
        if trials < LEAST_TRIALS:
            raise ConfigError(f"track: {trials} trials: {LEAST_TRIALS} or more are needed")
        path = baseline_path(settings.baseline, sweep)
        if path.is_dir():
            raise ConfigError(f"baseline: '{path}': is a folder")
        if settings.track == "check":
            return cls(sweep, path, Baseline.read(path, sweep), False, fail_on_inconsistent)
        check_writable(path.parent, "baseline")
        check_replaceable(path)
        stored = None
        with contextlib.suppress(ConfigError):  # damaged, or of another version or sweep
            stored = Baseline.read(path, sweep)
        return cls(sweep, path, stored, True, fail_on_inconsistent)

    def run(self, cells: Sequence[Cell], options: RunOptions, failed: bool, say: Say) -> int:
        """Compare a finished run with the baseline; store it as the new one if `update` is set.

        Parameters
        ----------
        cells : sequence of Cell
            Cells of the run.
        options : RunOptions
            Options of the run, with its folder.
        failed : bool
            True if estimators failed; such a run is not stored.
        say : callable
            Prints a line.

        Returns
        -------
        int
            Exit code. 1 if a row is worse or gone; if a private row is better and the sweep gates;
            if bits differ although source and processor are the same; or if a run with failures was
            to be stored. Else 0.
        """
        assert options.out is not None
        rows = errors_of(cells, options.store(), options.seed)
        found = Baseline(rows, self.sweep, options.seed, options.origin)
        if self.update and failed:
            say(f"baseline: '{self.path}': not stored, as estimators failed")
            return 1
        code = 0 if self.stored is None else self._check(found, options.out, say)
        if not self.update:
            return code
        for name in FILES:  # remove the comparison with the replaced baseline
            (options.out / name).unlink(missing_ok=True)
        self.store(found, say)
        return 0

    def store(self, found: Baseline, say: Say) -> None:
        """Store errors as the new baseline, and print the rows that have drifted since their first.

        Parameters
        ----------
        found : Baseline
            Errors of the finished run.
        say : callable
            Prints a line.
        """
        new = Baseline.after(self.stored, found)
        new.write(self.path)
        drifted = (new.drift - 1).abs() > SMALLEST
        if drifted.any():
            say(f"{drifted.sum()} rows have drifted since their first baseline:")
            for row, drift in zip(
                new.rows[drifted].to_dict("records"), new.drift[drifted], strict=True
            ):
                say(f"  {drift:.3f} {row_name(row)}")
        say(f"baseline of {len(new.rows)} rows: {self.path}")

    def judge(self, found: Baseline) -> Judgement:
        """Compare errors with the stored baseline."""
        assert self.stored is not None
        table = compare(self.stored.rows, found.rows)
        paired = table["comparison"] == "paired"
        notes, reasons = self._notes(found), dict[int, str]()
        seen = None
        if found.origin.machine != self.stored.origin.machine:
            seen = power(self.stored.rows, found.rows, table)
            notes.insert(0, power_sentence(seen))
        if found.origin.same_bits(self.stored.origin) and paired.any():
            notes.append(
                f"**{paired.sum()} rows have other bits all the same: "
                "they depend on more than their seed.**"
            )
            reasons = dict.fromkeys(
                np.flatnonzero(paired).tolist(), "other bits from the same seed"
            )
        suspect = suspects(table)
        if len(suspect):
            notes.append(
                f"**{len(suspect)} private rows are better by more than {TOO_GOOD:.0%}: are they "
                "as private as before? If you have checked, accept them by track=update.**"
            )
            if self.fail_on_inconsistent:
                reasons |= dict.fromkeys(suspect, "better, and as private?")
        for place in np.flatnonzero(table["verdict"].isin(failing(TRACKING))).tolist():
            reasons[place] = str(table["verdict"][place])
        return Judgement(table, notes, reasons, seen)

    def _check(self, found: Baseline, out: Path, say: Say) -> int:
        table, notes, reasons, seen = self.judge(found)
        text = markdown(table, self.sweep, notes)
        written = [table.to_csv(index=False), text, junit(table, self.sweep, reasons)]
        written += [] if seen is None else [seen.to_csv(index=False)]
        for name, content in zip(FILES, written, strict=False):
            with atomic(out / name) as path:
                path.write_text(content, encoding="utf-8")
        say(in_print(table, self.sweep, notes))
        if not self.update and table["comparison"].isin(["paired", "unpaired"]).any():
            say("to take these errors as the new baseline: track=update")
        return int(bool(reasons))

    def _notes(self, found: Baseline) -> list[str]:
        """Return sentences about the baseline's origin and the validity of the comparison."""
        assert self.stored is not None
        old, origin = self.stored.origin, found.origin
        known = old.about.get("versions", {})
        theirs = (
            old.about.get("plugin_commits") or {"": old.about}
        ).items()  # a commit for each plugin folder
        commits = ", ".join(
            f"{str(one.get('commit') or 'unknown')[:12]}{f' of {folder}' if folder else ''}"
            f"{' with uncommitted changes' if one.get('dirty') else ''}"
            for folder, one in theirs
        )
        notes = [
            f"Baseline of commit {commits}: dpbench {known.get('dpbench')}, numpy "
            f"{known.get('numpy')}, scipy {known.get('scipy')}, seed {self.stored.seed}."
        ]
        if self.stored.seed != found.seed:
            notes.append(
                f"This run has seed {found.seed}: all rows are compared as independent samples."
            )
        elif old.source != origin.source:
            notes.append("The numerical source, numpy or scipy has changed since.")
        elif old.machine != origin.machine:
            notes.append("The source is the same, but not the processor, so bits may differ.")
        else:
            notes.append("Source, numpy, scipy and processor are the same: bits must be equal.")
        return notes
