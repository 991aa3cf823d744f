"""Run ``track=check`` and ``track=update``: compare a sweep's errors with a stored baseline."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from dpbench.output.files import atomic, check_writable
from dpbench.output.verdicts import failing_words
from dpbench.registry import ConfigError
from dpbench.runner.run import RunOptions, Say
from dpbench.runner.settings import Settings
from dpbench.sweep.plan import Cell
from dpbench.tracking.baseline import Baseline, baseline_path, check_replaceable, collect_errors
from dpbench.tracking.comparison import MIN_BOOTSTRAP_TRIALS, SMALLEST_CHANGE, compare
from dpbench.tracking.power import power, power_sentence
from dpbench.tracking.report import (
    OTHER_BITS,
    SUSPECT,
    format_terminal,
    junit,
    markdown,
    row_name,
)
from dpbench.tracking.verdicts import TRACKING

__all__ = ["FILES", "Judgement", "Tracking", "find_suspects"]

FILES = ("tracking.csv", "tracking.md", "junit.xml", "tracking_power.csv")
SUSPICIOUS_GAIN = 0.05  # relative gain above which a private row may no longer be private


def find_suspects(table: pd.DataFrame) -> list[int]:
    """Return the indices of private rows with an error that fell by more than `SUSPICIOUS_GAIN`.

    A private row has the errors of an estimator under a privacy budget. If they fell so much, the
    estimator may no longer be private.
    """
    improved = (table["verdict"] == "better") & (
        table["trimmed_mean_error_high"] < 1 - SUSPICIOUS_GAIN
    )
    return [int(place) for place in np.flatnonzero(improved & (table["privacy"] != "none"))]


class Judgement(NamedTuple):
    """Result of a comparison with a baseline: table, notes, failing rows and power.

    Attributes
    ----------
    table : DataFrame
        Table of `dpbench.tracking.compare`.
    notes : list of str
        Sentences about the baseline and the comparison.
    reasons : dict of int to str
        Reason why a row fails, keyed by the index of the row in the table.
    power : DataFrame or None
        Table of `dpbench.tracking.power`; None if the run used the baseline's processor.
    """

    table: pd.DataFrame
    notes: list[str]
    reasons: dict[int, str]
    power: pd.DataFrame | None = None


@dataclass(frozen=True)
class Tracking:
    """Comparison of a sweep's errors with a baseline, or storage of the errors as a new baseline.

    Attributes
    ----------
    sweep : str
        Name of the sweep.
    path : Path
        File of the baseline.
    stored : Baseline or None
        Baseline to compare with; None if the file has no usable baseline.
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
    ) -> Self:
        """Read the baseline, and check the options, before anything is computed.

        `trials` is the smallest number of trials of a row. If the sweep sets
        `fail_on_inconsistent`, a private row that became better fails the run. A ConfigError says
        that the baseline cannot be read, that a new one cannot be written, or that the trials are
        too few.
        """
        if trials < MIN_BOOTSTRAP_TRIALS:
            raise ConfigError(f"track: {trials} trials: {MIN_BOOTSTRAP_TRIALS} or more are needed")
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

    def run(
        self, cells: Sequence[Cell], options: RunOptions, failed: bool, say: Say, update: str
    ) -> int:
        """Compare a finished run with the baseline, or store it, and return the exit code.

        The code is 1 if a run with failures was to be stored; such a run is not stored. For
        ``track=check`` it is 1 if a row is worse or gone, if errors differ in a bit although source
        and processor are equal, or if a private row is suspiciously better and
        `fail_on_inconsistent` is set. Otherwise it is 0. Messages contain `update`, the command
        that stores the errors as the new baseline.
        """
        assert options.out is not None
        rows = collect_errors(cells, options.store(finished=True), options.seed)
        new = Baseline(rows, self.sweep, options.seed, options.origin)
        if self.update and failed:
            say(f"baseline: '{self.path}': not stored, as estimators failed")
            return 1
        code = 0 if self.stored is None else self._write_comparison(new, options.out, say, update)
        if not self.update:
            return code
        for name in FILES:  # remove the comparison with the replaced baseline
            (options.out / name).unlink(missing_ok=True)
        self.store(new, say)
        return 0

    def store(self, errors: Baseline, say: Say) -> None:
        """Store errors as the new baseline; print rows that drifted since their first baseline."""
        new = Baseline.with_first_errors(self.stored, errors)
        new.write(self.path)
        drifted = (new.drift - 1).abs() > SMALLEST_CHANGE
        if drifted.any():
            say(f"{drifted.sum()} rows have drifted since their first baseline:")
            for row, drift in zip(
                new.rows[drifted].to_dict("records"), new.drift[drifted], strict=True
            ):
                say(f"  {drift:.3f} {row_name(row)}")
        say(f"baseline of {len(new.rows)} rows: {self.path}")

    def judge(self, new: Baseline) -> Judgement:
        """Compare the errors of a run with the stored baseline."""
        assert self.stored is not None
        table = compare(self.stored.rows, new.rows)
        paired = table["comparison"] == "paired"
        notes, reasons = self._describe_baseline(new), dict[int, str]()
        power_table = None
        if new.origin.machine != self.stored.origin.machine:
            power_table = power(self.stored.rows, new.rows, table)
            notes.insert(0, power_sentence(power_table))
        if new.origin.same_bits(self.stored.origin) and paired.any():
            notes.append(
                f"**{paired.sum()} rows have other bits all the same: "
                "they depend on more than their seed.**"
            )
            reasons = dict.fromkeys(np.flatnonzero(paired).tolist(), OTHER_BITS)
        suspects = find_suspects(table)
        if len(suspects):
            notes.append(
                f"**{len(suspects)} private rows are better by more than {SUSPICIOUS_GAIN:.0%}: "
                "are they as private as before? Check that before you store a new baseline.**"
            )
            if self.fail_on_inconsistent:
                reasons |= dict.fromkeys(suspects, SUSPECT)
        for place in np.flatnonzero(table["verdict"].isin(failing_words(TRACKING))).tolist():
            reasons[place] = str(table["verdict"][place])
        return Judgement(table, notes, reasons, power_table)

    def _write_comparison(self, new: Baseline, out: Path, say: Say, update: str) -> int:
        table, notes, reasons, power_table = self.judge(new)
        text = markdown(table, self.sweep, notes)
        contents = [table.to_csv(index=False), text, junit(table, self.sweep, reasons, update)]
        contents += [] if power_table is None else [power_table.to_csv(index=False)]
        for name, content in zip(FILES, contents, strict=False):
            with atomic(out / name) as path:
                path.write_text(content, encoding="utf-8")
        say(format_terminal(table, self.sweep, notes))
        if not self.update and table["comparison"].isin(["paired", "unpaired"]).any():
            say(f"if these changes are meant, run:\n{update}")
        return int(bool(reasons))

    def _describe_baseline(self, new: Baseline) -> list[str]:
        """Return sentences about the baseline's origin and the validity of the comparison."""
        assert self.stored is not None
        old, origin = self.stored.origin, new.origin
        versions = old.about.get("versions", {})
        # A commit for each plug-in folder; without plug-ins, the commit of dpbench.
        sources = (old.about.get("plugin_commits") or {"dpbench": old.about}).items()
        commits = ", ".join(
            (f"commit {source['commit'][:12]} of {folder}" if source.get("commit") else
             f"no known commit of {folder}")
            + (" with uncommitted changes" if source.get("dirty") else "")
            for folder, source in sources
        )  # fmt: skip
        notes = [
            f"Baseline of {commits}: dpbench {versions.get('dpbench')}, numpy "
            f"{versions.get('numpy')}, scipy {versions.get('scipy')}, seed {self.stored.seed}."
        ]
        if self.stored.seed != new.seed:
            notes.append(
                f"This run has seed {new.seed}: all rows are compared as independent samples."
            )
        elif old.source != origin.source:
            notes.append("The numerical source, numpy or scipy has changed since.")
        elif old.machine != origin.machine:
            notes.append("The source is the same, but not the processor, so bits may differ.")
        else:
            notes.append("Source, numpy, scipy and processor are the same: bits must be equal.")
        return notes
