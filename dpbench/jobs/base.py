"""Base classes of jobs: checked configurations that compute results and write them to a folder.

Each subclass implements `FolderJob.compute`. The base class locks the folder, recognises a finished
run, and writes tables, manifest and report page.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpbench.errors import ConfigError
from dpbench.jobs.finished_run import find_finished_run, print_files, printed_text
from dpbench.jobs.replaced_run import replaced_report
from dpbench.output.files import Checksums, atomic
from dpbench.output.run_folder import (
    PAGE,
    checksums_of,
    only_writer,
    read_manifest,
    relative_checksums,
    write_manifest,
)
from dpbench.output.terminal import WIDE, WIDTH, command_line, line_width, say
from dpbench.runner.cost import Cost
from dpbench.runner.origin import environment_digest, fingerprint

if TYPE_CHECKING:
    import pandas as pd

    from dpbench.report.run_result import Result
    from dpbench.runner.run import RunOptions, Say
    from dpbench.runner.settings import Settings

__all__ = ["FolderJob", "Job", "Next", "Outcome", "refuse_keys_of_studies"]

# Suggested next command: its description, the words to add to the command of this run, and the
# prefixes of the words to drop from that command (None: drop all words).
Next = tuple[str, list[str], list[str] | None]


@dataclass(frozen=True)
class Outcome:
    """Results of a job before they are written.

    `tables` are keyed by the name of their CSV file without ``.csv``. `text` returns the text that
    is printed and kept in ``scoreboard.txt``, with lines of the width in use. `draw` writes the
    figures and their LaTeX files; to its argument, a mapping, it adds the checksum of each
    file. `exit_code` is that of the run. `failures` has one
    mapping per exception: the text of the ``failure``, the ``name`` of the failure, and the command
    line that would ``rerun`` the failure. `next` is the command that is suggested to the user, if
    any.
    """

    tables: Mapping[str, pd.DataFrame]
    text: Callable[[], str]
    draw: Callable[[Checksums], None]
    exit_code: int
    failures: Sequence[Mapping[str, str]] = ()
    next: Next | None = None


@dataclass(frozen=True)
class Job(ABC):
    """A checked configuration that is ready to run; `config` is the whole configuration."""

    options: RunOptions
    config: Mapping[str, Any]
    sweeps: ClassVar[type[Any]]  # dataclass whose fields are the keys of a sweep of this kind
    # Rooms that compute, see `Origin.of`; None if the job computes nothing.
    rooms: ClassVar[tuple[str, ...] | None] = ()

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]) -> Self:
        """Check a configuration and build its job, without running or writing anything.

        `settings` are the checked top-level keys of the whole configuration `config`. Raise
        ConfigError at the first key that cannot be used.
        """

    @abstractmethod
    def run(self, argv: Sequence[str]) -> int:
        """Run the job and return the exit code; `argv` holds the words of the command line."""

    def result(self) -> Result:
        """Compute and return the result that `dpbench.run` gives to its caller.

        Raise ConfigError if jobs of this kind have no `Result`.
        """
        raise ConfigError("sweep: only studies have a result; run others from the command line")

    @property
    def folder(self) -> Path:
        """Folder to which all results are written."""
        assert self.options.out is not None
        return self.options.out

    @property
    def stores(self) -> Path | None:
        """Baseline file that the run of this job replaces; None if it replaces none."""
        return None


@dataclass(frozen=True)
class FolderJob(Job):
    """A job that computes results and keeps them in its folder."""

    # Sections of the report page, in order; see `dpbench.report.sections`.
    sections: ClassVar[tuple[str, ...]]
    unit: ClassVar[str] = "blocks"  # plural noun for the units of work in the printed count

    @abstractmethod
    def compute(self, argv: Sequence[str] | None, cost: Cost, say: Say) -> Outcome:
        """Compute the results that are not stored yet.

        `argv` has the words of the command line; it is None if the job was started from Python. The
        method updates the counts in `cost`. `say` prints a line.
        """

    @property
    @abstractmethod
    def results(self) -> Sequence[str]:
        """Names of the result files that are printed at the end, the most important first."""

    @property
    def reads(self) -> Sequence[Path]:
        """Files outside the job's folder, existing or not, on which the outcome depends."""
        return ()

    @property
    def trials(self) -> Sequence[int]:
        """Number of trials of each part of the job, in order of the parts.

        A part is one family of distributions at one n, or one audit. The sequence is empty if the
        user cannot set numbers of trials.
        """
        return ()

    def track(self, argv: Sequence[str], failed: bool, say: Say) -> tuple[int, list[str]]:
        """Compare the errors of a finished computation with a stored baseline, if the job has one.

        `argv` has the words of the command line. `failed` is True if an estimator failed in this
        run. Return the exit code of the comparison, and the names of the files that it wrote to the
        job's folder.
        """
        return 0, []

    def run(self, argv: Sequence[str]) -> int:
        """Compute the results, write and print them, and return the exit code.

        If the folder has a finished run with this configuration and unchanged files, nothing is
        computed. The results of the finished run are then printed.
        """
        cost = Cost(trials=self.trials[0] if len(set(self.trials)) == 1 else None)
        with only_writer(self.folder):
            warnings = self._warn_of_fewer_trials()
            for text in replaced_report(self.folder, self.config):
                say(text)
            texts = self._update_folder(argv, cost)
            record = read_manifest(self.folder)
        # All files are written and unlocked before printing, because a terminal may block.
        for text in (*texts, *warnings):
            say(text)
        print_files(self.folder, record, argv, cost)
        return int(record["exit_code"])

    def _update_folder(self, argv: Sequence[str], cost: Cost) -> list[str]:
        """Bring the files in the job's folder up to date, and return the texts to print.

        Results are computed and written only if the folder has no finished run with them. New and
        stored results are both compared with the baseline, if the job has a baseline.
        """
        digest_at_start, origin = environment_digest(self.config), self.options.origin
        record = (
            find_finished_run(self.folder, self.config, origin) if self.options.resume else None
        )
        if record is None:
            record = self.write(self.compute(argv, cost, say), argv, cost)
        else:
            cost.reuse(record)
        texts = [printed_text(self.folder, record)]
        last = record["tracked"], record["exit_code"]
        for name in record["tracked"]:
            (self.folder / name).unlink(missing_ok=True)
        code, tracked = self.track(argv, bool(record["failures"]), texts.append)
        code, page = max(code, record["untracked_exit_code"]), self.folder / PAGE
        if tracked or (tracked, code) != last:
            page.unlink(missing_ok=True)
        changed = {"tracked": tracked, "exit_code": code, "sections": [*self.sections]}
        self.finish({**record, **cost.as_dict(), **changed}, digest_at_start)
        return texts

    def finish(self, record: dict[str, Any], before: str) -> None:
        """Write the manifest of a finished run, and the report page if the folder has none.

        `record` is the content of the manifest. `before` is the value of `environment_digest` when
        the run started: a digest of source, versions, configuration, machine and data files. If the
        value has changed since, files were edited during the run. The manifest then gets no
        fingerprint, and later runs do not reuse the results as a whole. Neither do they if a
        plug-in has opened other files.
        """
        if environment_digest(self.config) == before and not record["files_opened"]:
            reads = [str(path) for path in self.reads]
            digest_of_run = fingerprint(self.folder, self.config, self.options.origin, reads)
            record |= {"fingerprint": digest_of_run, "reads": reads}
        write_manifest(self.folder, record)
        page = self.folder / PAGE
        if not page.exists():
            from dpbench.report.page import write_page

            write_page([self.folder], page)  # reads the manifest
        outputs = {**record["outputs"], **(checksums_of(self.folder, [page]) or {})}
        write_manifest(self.folder, {**record, "outputs": outputs})

    def write(self, outcome: Outcome, argv: Sequence[str] | None, cost: Cost) -> dict[str, Any]:
        """Replace the files of an earlier run by the new tables, text, figures and manifest.

        `argv` has the words of the command line; it is None if the job was started from Python.
        Return the content of the manifest.
        """
        computation, checksums = self._computation_time(cost), Checksums()
        self._delete_previous_files()
        (self.folder / PAGE).unlink(missing_ok=True)
        for name, table in outcome.tables.items():
            with atomic(self.folder / f"{name}.csv", checksums) as path:
                # Python objects give the text that numpy numbers give, in half of the time.
                table.astype(object).to_csv(path, index=False)
        with atomic(self.folder / "scoreboard.txt", checksums) as path, line_width(WIDTH):
            path.write_text(outcome.text(), encoding="utf-8")
        with line_width(WIDE):
            wide_text = outcome.text()
        outcome.draw(checksums)
        record = {
            "sweep": self.config["sweep"].get("name", "sweep"),
            "command": None if argv is None else command_line(argv),
            "configuration": self.config,
            "seed": self.options.seed,
            "source": self.options.origin.source,
            "machine": self.options.origin.machine,
            "computer": self.options.origin.bits,
            **self.options.origin.about,
            **cost.as_dict(),
            "failures": list(outcome.failures),
            "exit_code": outcome.exit_code,
            "untracked_exit_code": outcome.exit_code,
            "tracked": [],
            "fingerprint": None,
            "reads": [],
            "most_trials": max(self.trials, default=0),
            "unit": self.unit,
            "results": [*self.results],
            "next": outcome.next,
            "computed": computation,
            "sections": [*self.sections],
            "wide_text": wide_text,
            "outputs": relative_checksums(self.folder, checksums),
        }
        write_manifest(self.folder, record)
        return record

    def _computation_time(self, cost: Cost) -> dict[str, Any]:
        """Return the date and the duration in seconds of the last computation, for the manifest.

        A run that reads all its results from disk keeps the stored date and duration, because its
        report page should not change.
        """
        if not cost.blocks_done:
            with contextlib.suppress(ConfigError, KeyError):
                return dict(read_manifest(self.folder)["computed"])
        seconds = round(time.monotonic() - cost.started, 1)
        return {"at": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "seconds": seconds}

    def _delete_previous_files(self) -> None:
        """Delete the files that the previous run wrote, except output files edited since then."""
        try:
            record = read_manifest(self.folder)
            outputs, tracked = record["outputs"], record["tracked"]
        except (ConfigError, KeyError):
            outputs, tracked = {}, []
        for name in tracked:
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "manifest.json").unlink(missing_ok=True)
        for name, file_checksum in outputs.items() if isinstance(outputs, dict) else ():
            path = self.folder / name
            is_output_folder = path.parent in {self.folder, self.folder / "figures"}
            if is_output_folder and checksums_of(self.folder, [path]) == {name: file_checksum}:
                path.unlink()

    def _warn_of_fewer_trials(self) -> list[str]:
        """Return a list with a one-line warning if this run replaces a run with more trials.

        The list is empty otherwise.
        """
        try:
            record = read_manifest(self.folder)
            before, now = int(record["most_trials"]), max(self.trials, default=0)
        except (ConfigError, KeyError, TypeError, ValueError):
            return []
        if before <= now:
            return []
        command = record.get("command") or f"trials={before}"
        return [
            f"'{self.folder}' showed {before:,} trials and now shows {now:,}; the others are kept; "
            f"to show them again: {command}"
        ]


def refuse_keys_of_studies(settings: Settings, job: str, source: str) -> None:
    """Raise a ConfigError if a key of the figures of studies is set, for example `paper`.

    The message names this kind of job, and the source for which the command ``paper`` draws its
    figures.
    """
    if settings.size is not None:
        raise ConfigError(f"size: {settings.size!r}: not for {job}; omit size=")
    if settings.paper:
        raise ConfigError(
            f"paper: True: not for {job}; '{command_line(['paper', source])}' draws its figures"
        )
