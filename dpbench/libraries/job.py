"""Job of the sweep ``libraries``: measure and audit other libraries' private mean estimators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from dpbench.audit.report import select_strongest
from dpbench.audit.task import COLUMNS, AuditTask, audit
from dpbench.jobs.base import FolderJob, Outcome, refuse_keys_of_studies
from dpbench.libraries.library_verdict import judge_libraries
from dpbench.libraries.means.mean import LibraryMean
from dpbench.libraries.means.process import environments
from dpbench.libraries.measure import (
    Row,
    RowWithErrors,
    cell_rows,
    claim_rows,
    hostile_rows,
    status,
)
from dpbench.libraries.replay import replay_table, unexpected_verdicts
from dpbench.libraries.report import benchmarks, figure, overview, render, render_replay
from dpbench.libraries.sweep import LibrarySweep
from dpbench.output.files import Checksums
from dpbench.output.run_folder import PAGE
from dpbench.output.terminal import progress
from dpbench.output.verdicts import CLAIMS, any_fails
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.drawing.style import save, style
from dpbench.report.run_result import Result
from dpbench.runner.cost import Cost
from dpbench.runner.opened_files import noting
from dpbench.runner.run import RunOptions, Say
from dpbench.runner.settings import Settings
from dpbench.sweep.block import Setting
from dpbench.sweep.plan import Cell
from dpbench.sweep.selection import select_labels

__all__ = ["LibrariesJob"]

Tables = dict[str, pd.DataFrame]


@dataclass(frozen=True)
class LibrariesJob(FolderJob):
    """Job that measures and audits the private mean estimators of other libraries.

    Estimators run one after another, because run times are compared. An unfinished run begins anew,
    because the noise of other libraries cannot be seeded. The exit code is 1 if a library crashed,
    a claim is inconsistent, or an audit or replay has an unexpected verdict. Libraries that are not
    installed do not change the exit code.
    """

    sweeps: ClassVar[type[Any]] = LibrarySweep
    sections = ("failures", "verdicts", "means", "claims", "privacy", "replay", "figures", "origin")
    sweep: LibrarySweep
    cells: list[Cell]  # one for each distribution and n, in the order of the sweep's families
    audits: list[AuditTask]
    rooms = ("audit", "theory")
    unit: ClassVar[str] = "cells"

    @classmethod
    def prepare(
        cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]
    ) -> LibrariesJob:
        sweep = from_mapping(LibrarySweep, settings.sweep, "sweep")
        refuse_keys_of_studies(settings, "libraries", "libraries")
        order = list(sweep.families)
        cells = sorted(
            sweep.cells(settings.trials), key=lambda cell: order.index(cell.family_label)
        )
        return cls(options, config, sweep, cells, sweep.audits(settings.seed))

    @property
    def settings(self) -> dict[str, Setting]:
        """Estimators with a privacy budget, keyed by the estimator's label.

        If the sweep runs an estimator with several budgets, the largest budget is used.
        """
        all_settings = [setting for cell in self.cells for setting in cell.settings]
        return {
            setting.label: setting
            for setting in sorted(all_settings, key=lambda setting: setting.budget.amounts)
        }

    def result(self) -> Result:
        raise ConfigError(
            "sweep: libraries are measured from the command line only; in Python use `library_mean`"
        )

    @property
    def results(self) -> Sequence[str]:
        replayed = ["replay.csv"] if self.sweep.libraries.replay else []
        return ["verdicts.csv", "overview.csv", "libraries.csv", "hostile.csv", *replayed, PAGE]

    @property
    def reads(self) -> Sequence[Path]:
        return environments()

    def compute(self, argv: Sequence[str] | None, cost: Cost, say: Say) -> Outcome:
        tables, reads = noting(self._tables, self.options.origin)(cost)
        cost.note_files(reads)
        for file in reads:
            say(f"a later run measures the libraries again, because a plug-in has read '{file}'")
        unexpected = [
            f"audit: {row['estimator']}: {row['verdict']}, {row['expected']} was expected\n"
            for row in select_strongest(tables["audit"]).to_dict("records")
            if row["verdict"] != row["expected"]
        ]
        if "replay" in tables:
            unexpected += [f"{line}\n" for line in unexpected_verdicts(tables["replay"])]

        def text() -> str:
            printed = render(tables["overview"], tables["claims"], tables["verdicts"])
            replayed = f"\n{render_replay(tables['replay'])}" if "replay" in tables else ""
            return "".join([printed, replayed, *unexpected])

        messages = pd.concat([tables["overview"]["version"], tables["libraries"]["message"]])
        failed = messages.str.contains("process ended").any()
        failed |= any_fails(CLAIMS, tables["claims"]["verdict"])
        return Outcome(tables, text, partial(self._draw, tables), int(bool(unexpected) or failed))

    def _tables(self, cost: Cost) -> Tables:
        """Measure and audit all libraries; return tables, keyed by CSV file without ``.csv``."""
        order = [label for label in self.sweep.estimators if label in self.settings]
        statuses = {label: status(self.settings[label].estimator) for label in order}
        skip = {label: reason for label, (reason, running) in statuses.items() if not running}
        if len(skip) == len(statuses):
            label, reason = next(iter(skip.items()))
            raise ConfigError(f"sweep.estimators: none of these can run; {label}: {reason}")
        measured = self._measure(skip)
        cost.cells_done = cost.blocks_done = len(self.cells)
        versions = [(label, version) for label, (version, _) in statuses.items()]
        versions_table = pd.DataFrame(versions, columns=["estimator", "version"])
        means, hostile, bounds = (measured[name] for name in ("libraries", "hostile", "audit"))
        summary = overview(versions_table, means, hostile, bounds, self._controls)
        tables = {"overview": summary, **measured}
        if self.sweep.libraries.replay:
            tables["replay"] = replay_table(self.sweep.libraries.replay)
        estimators = {label: self.settings[label].estimator for label in order if label not in skip}
        libraries = {
            label: estimator.library
            for label, estimator in estimators.items()
            if isinstance(estimator, LibraryMean)
        }
        return {"verdicts": judge_libraries(libraries, tables, self._controls), **tables}

    def _measure(self, skip: Mapping[str, str]) -> Tables:
        """Measure and audit the libraries that run, all but those in `skip`, with progress."""
        asked, seed = self.sweep.libraries, self.options.seed
        chosen = select_labels(asked.hostile.estimators, self.sweep.estimators)
        selected = [label for label in chosen if label in self.settings and label not in skip]
        audits = [task for task in self.audits if task.label not in skip]
        rows: list[RowWithErrors] = []
        hostile: list[Row] = []
        bounds: list[Row] = []
        pending = len(self.cells) + len(selected) + len(audits)
        with progress("cells", pending, "done", transient=True) as advance:
            for cell in self.cells:
                rows += cell_rows(cell, asked, seed, skip)
                advance()
            for label in selected:
                hostile += hostile_rows(label, self.settings[label], asked, seed)
                advance()
            for task in audits:
                bounds += audit(task)
                advance()
        return {
            "libraries": pd.DataFrame([row for row, _ in rows]),
            "hostile": pd.DataFrame(hostile, columns=["estimator", "column", "outcome", "message"]),
            "audit": self._expected(pd.DataFrame(bounds, columns=list(COLUMNS))),
            "claims": claim_rows(self.sweep.claims, rows),
        }

    @property
    def _controls(self) -> Collection[str]:
        """Labels of estimators that are wrong on purpose, which the audit must refute."""
        names = list(self.sweep.libraries.refuted)
        return select_labels(names, self.sweep.estimators) if names else []

    def _expected(self, bounds: pd.DataFrame) -> pd.DataFrame:
        """Add the column ``expected`` to `bounds`, the table of audits, and return the new table.

        The column holds the verdict that the sweep expects: "refuted" or "not refuted".
        """
        refuted = bounds["estimator"].isin(list(self._controls))
        return bounds.assign(expected=np.where(refuted, "refuted", "not refuted"))

    def _draw(self, tables: Tables, checksums: Checksums) -> None:
        """Draw the two figures ``libraries`` and ``benchmarks``.

        The figure ``libraries`` shows errors with lower bounds, run times, and answers to hostile
        data such as NaN. The figure ``benchmarks`` shows errors against n and against epsilon.
        """
        with style(font=self.config.get("font", "sans")):
            library_settings, rows = self.sweep.libraries, tables["libraries"]
            canvases = {
                "libraries": figure(tables["overview"], rows),
                "benchmarks": benchmarks(
                    rows[~rows["estimator"].isin(list(self._controls)) & (rows["unit"] == "width")],
                    library_settings.upper - library_settings.lower,
                ),
            }
            for name, canvas in canvases.items():
                save(canvas, self.folder / "figures", name, checksums=checksums)
