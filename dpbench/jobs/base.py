"""A job: what a configuration asks for, computed and written in a folder of its own.

A kind of job says what it computes (`Job.compute`). Everything else stands here once: who may write
to the folder, whether a finished run stands, the manifest, the page, and what to type next.
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
from dpbench.jobs.finished import print_next, standing
from dpbench.output.files import Stamps, atomic
from dpbench.output.folder import (
    PAGE,
    by_name,
    only_writer,
    read_manifest,
    stamps_of,
    write_manifest,
)
from dpbench.output.terminal import command_line, say
from dpbench.runner.cost import Cost
from dpbench.runner.origin import BLOCKS, fingerprint, surroundings

if TYPE_CHECKING:  # slow to load
    import pandas as pd

    from dpbench.analysis.result import Result
    from dpbench.runner.run import RunOptions, Say
    from dpbench.runner.settings import Settings

__all__ = ["FolderJob", "Job", "Next", "Outcome", "refuse_errors"]

# What to type next: what it is, words to add, and beginnings of words to leave out (None: of all).
Next = tuple[str, list[str], list[str] | None]


@dataclass(frozen=True)
class Outcome:
    """What a job has found, before anything is written.

    Attributes
    ----------
    tables : mapping of str to DataFrame
        By the stem of the CSV file.
    text : str
        What is printed, and kept in ``scoreboard.txt``.
    draw : callable
        Writes figures and what belongs to them, and adds their stamps.
    exit_code : int
    failures : sequence of mapping
        What raised: its ``failure``, its ``name`` and the command that would ``replay`` it.
    """

    tables: Mapping[str, pd.DataFrame]
    text: str
    draw: Callable[[Stamps], None]
    exit_code: int
    failures: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class Job(ABC):
    """A checked configuration, ready to run; `config` is the whole of it."""

    options: RunOptions
    config: Mapping[str, Any]
    sweeps: ClassVar[type[Any]]  # whose fields are the keys of a sweep of this kind
    work: ClassVar[str] = BLOCKS  # the module that computes; see `Origin.of`

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]) -> Self:
        """Build everything that the configuration names; nothing is run or written.

        Raises
        ------
        ConfigError
            At the first key that cannot be used.
        """

    @abstractmethod
    def run(self, argv: Sequence[str]) -> int:
        """Do what is asked for by the command's words; the exit code."""

    def result(self) -> Result:
        """Compute what is asked for, for a caller in Python; ConfigError if it has no result."""
        raise ConfigError("sweep: only studies have a result; run others by the command")

    @property
    def folder(self) -> Path:
        """Where all is written."""
        assert self.options.out is not None
        return self.options.out

    @property
    def stores(self) -> Path | None:
        """The baseline that the run replaces, if it does."""
        return None


@dataclass(frozen=True)
class FolderJob(Job):
    """A job that computes, and keeps in its folder what it has found."""

    sections: ClassVar[tuple[str, ...]]  # of its page, in order; see `dpbench.report.sections`
    unit: ClassVar[str] = "blocks"  # what is counted when it is done

    @abstractmethod
    def compute(self, argv: Sequence[str] | None, cost: Cost, say: Say) -> Outcome:
        """Compute what is not stored; `cost` counts it, `argv` are the command's words."""

    @property
    @abstractmethod
    def results(self) -> Sequence[str]:
        """The files to name at the end, the most important first."""

    @property
    def next(self) -> Next | None:
        """What a user might type next."""
        return None

    @property
    def reads(self) -> Sequence[Path]:
        """Files outside of the folder, there or not, that the outcome depends on."""
        return ()

    @property
    def trials(self) -> Sequence[int]:
        """The trials of its rows, as far as they are a number of the user's."""
        return ()

    def track(self, failed: bool, say: Say) -> tuple[int, list[str]]:
        """Compare a computed run with its baseline; the exit code and the files written."""
        return 0, []

    def run(self, argv: Sequence[str]) -> int:
        """Compute and write what is missing, print verdicts and what to type; the exit code.

        A finished run whose files are untouched is printed again and nothing else.
        """
        cost = Cost(trials=self.trials[0] if len(set(self.trials)) == 1 else None)
        with only_writer(self.folder):
            more = self._fewer_trials()
            told = self._completed(argv, cost)
            record = read_manifest(self.folder)
        # Files first: a terminal may keep a run waiting.
        for text in (*told, *more):
            say(text)
        print_next(self.folder, record, argv, cost)
        return int(record["exit_code"])

    def _completed(self, argv: Sequence[str], cost: Cost) -> list[str]:
        """Bring the folder up to date; what is to be printed."""
        before, origin = surroundings(self.config), self.options.origin
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
        """Write the manifest of a finished run, and the page of what the folder holds.

        `before` are the `surroundings` at the start.
        """
        if surroundings(self.config) == before:  # else a file was edited meanwhile
            reads = [str(path) for path in self.reads]
            found = fingerprint(self.folder, self.config, self.options.origin, reads)
            record |= {"fingerprint": found, "reads": reads}
        write_manifest(self.folder, record)
        page = self.folder / PAGE
        if not page.exists():
            from dpbench.report.page import write_page  # slow to load

            write_page([self.folder], page)  # of the manifest
        outputs = {**record["outputs"], **(stamps_of(self.folder, [page]) or {})}
        write_manifest(self.folder, {**record, "outputs": outputs})

    def write(self, found: Outcome, argv: Sequence[str] | None, cost: Cost) -> dict[str, Any]:
        """Write tables, text and figures in place of an earlier run's, then the manifest.

        What was run from Python has no command. Returns the manifest.
        """
        when, stamps = self._computed(cost), Stamps()
        self._forget()
        (self.folder / PAGE).unlink(missing_ok=True)
        for name, table in found.tables.items():
            with atomic(self.folder / f"{name}.csv", stamps) as path:
                # Python writes a number in half of the time that numpy takes, and the same.
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
        """Return when blocks were last computed and what that took, for the manifest.

        A run that computes none keeps what the manifest says, so that it leaves the page as it is.
        """
        if not cost.blocks_done:
            with contextlib.suppress(ConfigError, KeyError):
                return dict(read_manifest(self.folder)["computed"])
        seconds = round(time.monotonic() - cost.started, 1)
        return {"at": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "seconds": seconds}

    def _forget(self) -> None:
        """Remove what the run before wrote, its manifest first; what was changed since stays."""
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
        """Return a line, if a finished run with more trials lies there, which this one replaces."""
        try:
            found = read_manifest(self.folder)
            before, now = int(found["most_trials"]), max(self.trials, default=0)
        except (ConfigError, KeyError, TypeError, ValueError):
            return []
        if before <= now:
            return []
        again = found.get("command") or f"trials={before}"
        return [
            f"'{self.folder}' showed {before:,} trials and shows {now:,} from now on; those are "
            f"kept, to show them again: {again}"
        ]


def refuse_errors(settings: Settings, what: str, script: str) -> None:
    """Raise ConfigError at a key for sweeps of errors alone; `what` this is, `script` draws it."""
    for key in ("track", "replay"):
        if getattr(settings, key) is not None:
            raise ConfigError(f"{key}: {getattr(settings, key)!r}: not for {what}")
    if settings.paper:
        command = f"python -m experiments {script}"
        raise ConfigError(
            f"paper: True: not for {what}; in the checkout '{command}' draws its figures"
        )
