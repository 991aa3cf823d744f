"""Base classes of jobs: a checked configuration that computes and writes results in a folder.

Each subclass implements `FolderJob.compute`. The base class locks the folder, recognises a finished
run, writes tables, manifest and report page, and prints the next command.
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
from dpbench.jobs.finished_run import print_next, standing
from dpbench.output.files import Stamps, atomic
from dpbench.output.run_folder import (
    PAGE,
    by_name,
    only_writer,
    read_manifest,
    stamps_of,
    write_manifest,
)
from dpbench.output.terminal import command_line, say
from dpbench.runner.cost import Cost
from dpbench.runner.origin import BLOCKS, environment_digest, fingerprint

if TYPE_CHECKING:  # slow to load
    import pandas as pd

    from dpbench.analysis.result import Result
    from dpbench.runner.run import RunOptions, Say
    from dpbench.runner.settings import Settings

__all__ = ["FolderJob", "Job", "Next", "Outcome", "refuse_errors"]

# Next command: its description, the words to add to the command of this run, and the prefixes of
# the words to drop from it (None: drop all words).
Next = tuple[str, list[str], list[str] | None]


@dataclass(frozen=True)
class Outcome:
    """Results of a job before they are written.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Tables by the stem of their CSV file.
    text : str
        Text that is printed and kept in ``scoreboard.txt``.
    draw : callable
        Function that writes the figures with their LaTeX files, and adds the stamps of all files
        written to its argument.
    exit_code : int
        Exit code of the run.
    failures : sequence of mapping
        One mapping per exception: the text of the ``failure``, its ``name``, and the command line
        that would ``replay`` it.
    """

    tables: Mapping[str, pd.DataFrame]
    text: str
    draw: Callable[[Stamps], None]
    exit_code: int
    failures: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class Job(ABC):
    """A checked configuration, ready to run.

    Parameters
    ----------
    options : RunOptions
        Seed, processes and folder of the run.
    config : mapping
        The whole configuration.
    """

    options: RunOptions
    config: Mapping[str, Any]
    sweeps: ClassVar[type[Any]]  # dataclass whose fields are the keys of a sweep of this kind
    work: ClassVar[str] = BLOCKS  # Python module that computes; see `Origin.of`

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]) -> Self:
        """Check a configuration and build the job; nothing is run or written.

        Parameters
        ----------
        settings : Settings
            Top-level keys of the configuration, checked.
        options : RunOptions
            Seed, processes and folder of the run.
        config : mapping
            The whole configuration.

        Returns
        -------
        Job

        Raises
        ------
        ConfigError
            At the first key that cannot be used.
        """

    @abstractmethod
    def run(self, argv: Sequence[str]) -> int:
        """Run the job; return the exit code. `argv` are the words of the command line."""

    def result(self) -> Result:
        """Compute and return the result, for `dpbench.run`.

        Raises
        ------
        ConfigError
            If jobs of this kind have no `Result`.
        """
        raise ConfigError("sweep: only studies have a result; run others from the command line")

    @property
    def folder(self) -> Path:
        """Folder to which all results are written."""
        assert self.options.out is not None
        return self.options.out

    @property
    def stores(self) -> Path | None:
        """Baseline file that the run replaces; None if it replaces none."""
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

        Parameters
        ----------
        argv : sequence of str or None
            Words of the command line; None if the job was started from Python.
        cost : Cost
            Counts of computed and reused blocks, which this method updates.
        say : callable
            Function that prints a line.

        Returns
        -------
        Outcome
        """

    @property
    @abstractmethod
    def results(self) -> Sequence[str]:
        """Files that the last printed lines name, the most important first."""

    @property
    def next(self) -> Next | None:
        """Next command that is suggested to the user, if any."""
        return None

    @property
    def reads(self) -> Sequence[Path]:
        """Files outside the folder, existing or not, on which the outcome depends."""
        return ()

    @property
    def trials(self) -> Sequence[int]:
        """Numbers of trials of the rows; empty if the user cannot set them."""
        return ()

    def track(self, failed: bool, say: Say) -> tuple[int, list[str]]:
        """Compare a computed run with its baseline.

        Parameters
        ----------
        failed : bool
            Whether an estimator failed in this run.
        say : callable
            Function that prints a line.

        Returns
        -------
        code : int
            Exit code of the comparison.
        files : list of str
            Names of the files written to the folder.
        """
        return 0, []

    def run(self, argv: Sequence[str]) -> int:
        """Run the job in its folder: compute, write and print; return the exit code.

        A finished run of the same configuration whose files are unchanged is only printed again.
        """
        cost = Cost(trials=self.trials[0] if len(set(self.trials)) == 1 else None)
        with only_writer(self.folder):
            more = self._fewer_trials()
            told = self._completed(argv, cost)
            record = read_manifest(self.folder)
        # All files are written and unlocked before printing, because a terminal may block.
        for text in (*told, *more):
            say(text)
        print_next(self.folder, record, argv, cost)
        return int(record["exit_code"])

    def _completed(self, argv: Sequence[str], cost: Cost) -> list[str]:
        """Bring the folder up to date; return the texts to print."""
        before, origin = environment_digest(self.config), self.options.origin
        record = standing(self.folder, self.config, origin) if self.options.resume else None
        if record is None:
            record = self.write(self.compute(argv, cost, say), argv, cost)
        else:
            cost.reuse(record)
        told = [(self.folder / "scoreboard.txt").read_text(encoding="utf-8").rstrip("\n")]
        last = record["tracked"], record["exit_code"]
        code, tracked = self.track(bool(record["failures"]), told.append)
        code, page = max(code, record["untracked_exit_code"]), self.folder / PAGE
        if tracked or (tracked, code) != last:
            page.unlink(missing_ok=True)
        self.finish({**record, **cost.as_dict(), "tracked": tracked, "exit_code": code}, before)
        return told

    def finish(self, record: dict[str, Any], before: str) -> None:
        """Write the manifest of a finished run, and its report page if that is missing.

        Parameters
        ----------
        record : dict
            Contents of the manifest.
        before : str
            Value of `environment_digest` when the run started. If it has changed since, a source or
            data file was edited meanwhile, and the manifest gets no fingerprint.
        """
        if environment_digest(self.config) == before:
            reads = [str(path) for path in self.reads]
            found = fingerprint(self.folder, self.config, self.options.origin, reads)
            record |= {"fingerprint": found, "reads": reads}
        write_manifest(self.folder, record)
        page = self.folder / PAGE
        if not page.exists():
            from dpbench.report.page import write_page  # slow to load

            write_page([self.folder], page)  # reads the manifest
        outputs = {**record["outputs"], **(stamps_of(self.folder, [page]) or {})}
        write_manifest(self.folder, {**record, "outputs": outputs})

    def write(self, found: Outcome, argv: Sequence[str] | None, cost: Cost) -> dict[str, Any]:
        """Replace the files of an earlier run by tables, text, figures and a manifest.

        Parameters
        ----------
        found : Outcome
            Results to write.
        argv : sequence of str or None
            Words of the command line; None if the job was started from Python.
        cost : Cost
            Counts of computed and reused blocks.

        Returns
        -------
        dict
            Contents of the manifest.
        """
        when, stamps = self._computed(cost), Stamps()
        self._forget()
        (self.folder / PAGE).unlink(missing_ok=True)
        for name, table in found.tables.items():
            with atomic(self.folder / f"{name}.csv", stamps) as path:
                # Python objects are written in half of the time of numpy numbers, as equal text.
                table.astype(object).to_csv(path, index=False)
        with atomic(self.folder / "scoreboard.txt", stamps) as path:
            path.write_text(found.text, encoding="utf-8")
        found.draw(stamps)
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
            "failures": list(found.failures),
            "exit_code": found.exit_code,
            "untracked_exit_code": found.exit_code,
            "tracked": [],
            "fingerprint": None,
            "reads": [],
            "most_trials": max(self.trials, default=0),
            "unit": self.unit,
            "results": [*self.results],
            "next": self.next,
            "computed": when,
            "sections": [*self.sections],
            "outputs": by_name(self.folder, stamps),
        }
        write_manifest(self.folder, record)
        return record

    def _computed(self, cost: Cost) -> dict[str, Any]:
        """Return the time of the last computation and its duration, for the manifest.

        A run that computes no block keeps the stored values, so that its page does not change.
        """
        if not cost.blocks_done:
            with contextlib.suppress(ConfigError, KeyError):
                return dict(read_manifest(self.folder)["computed"])
        seconds = round(time.monotonic() - cost.started, 1)
        return {"at": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "seconds": seconds}

    def _forget(self) -> None:
        """Delete the files of the previous run, its manifest first; files edited since are kept."""
        try:
            record = read_manifest(self.folder)
            outputs, tracked = record["outputs"], record["tracked"]
        except (ConfigError, KeyError):
            outputs, tracked = {}, []
        for name in tracked:
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "manifest.json").unlink(missing_ok=True)
        for name, wanted in outputs.items() if isinstance(outputs, dict) else ():
            path = self.folder / name
            ours = path.parent in {self.folder, self.folder / "figures"}
            if ours and stamps_of(self.folder, [path]) == {name: wanted}:
                path.unlink()

    def _fewer_trials(self) -> list[str]:
        """Return a line of warning if this run replaces a finished run with more trials."""
        try:
            found = read_manifest(self.folder)
            before, now = int(found["most_trials"]), max(self.trials, default=0)
        except (ConfigError, KeyError, TypeError, ValueError):
            return []
        if before <= now:
            return []
        again = found.get("command") or f"trials={before}"
        return [
            f"'{self.folder}' showed {before:,} trials and now shows {now:,}; the others are kept; "
            f"to show them again: {again}"
        ]


def refuse_errors(settings: Settings, what: str, script: str) -> None:
    """Refuse the keys that apply to sweeps of errors only: `track`, `replay` and `paper`.

    Parameters
    ----------
    settings : Settings
        Top-level keys of the configuration.
    what : str
        Name of this kind of job, for the message.
    script : str
        Script of the folder ``experiments`` that draws its figures for a paper.

    Raises
    ------
    ConfigError
        If one of the keys is set.
    """
    for key in ("track", "replay"):
        if getattr(settings, key) is not None:
            raise ConfigError(f"{key}: {getattr(settings, key)!r}: not for {what}")
    if settings.paper:
        command = f"python -m experiments {script}"
        raise ConfigError(
            f"paper: True: not for {what}; in the checkout '{command}' draws its figures"
        )
