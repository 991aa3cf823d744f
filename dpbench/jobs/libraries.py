"""Job of the sweep ``libraries``: measure and audit the means of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from dpbench.analysis.result import Result
from dpbench.audit.report import strongest
from dpbench.audit.task import COLUMNS, AuditTask, audit
from dpbench.estimators.libraries.process import environments
from dpbench.jobs.base import FolderJob, Outcome, refuse_errors
from dpbench.libraries.measure import Found, Row, cell_rows, claim_rows, hostile_rows, status
from dpbench.libraries.replay import replay_table, surprises
from dpbench.libraries.report import benchmarks, figure, overview, render, render_replay
from dpbench.libraries.sweep import LibrarySweep
from dpbench.output.files import Stamps
from dpbench.output.run_folder import PAGE
from dpbench.output.style import save, style
from dpbench.output.terminal import progress
from dpbench.output.verdicts import CLAIMS, any_fails
from dpbench.registry import ConfigError, from_mapping
from dpbench.runner.cost import Cost
from dpbench.runner.run import RunOptions, Say
from dpbench.runner.settings import Settings
from dpbench.sweep.block import Setting
from dpbench.sweep.plan import Cell
from dpbench.sweep.selection import select_labels

__all__ = ["LibrariesJob"]

Tables = dict[str, pd.DataFrame]


@dataclass(frozen=True)
class LibrariesJob(FolderJob):
    """A sweep of libraries whose configuration is checked.

    Everything runs in one process, so that run times are comparable. The noise of libraries cannot
    be seeded, so that an unfinished run begins anew. The exit code is 1 if the process of a library
    ended, a claim is inconsistent, or the verdict of an audit or replay is not the expected one.
    Libraries that are not installed do not change the exit code.

    Parameters
    ----------
    options : RunOptions
        Seed and folder of the run.
    config : mapping
        The whole configuration.
    sweep : LibrarySweep
        The checked sweep.
    cells : list of Cell
        Combinations of distribution and n, in the order of the sweep's families.
    audits : list of AuditTask
        Audits of the libraries.
    """

    sweeps: ClassVar[type[Any]] = LibrarySweep
    sections = ("failures", "means", "claims", "privacy", "replay", "figures", "origin")
    sweep: LibrarySweep
    cells: list[Cell]
    audits: list[AuditTask]
    work: ClassVar[str] = "dpbench.audit.cases"  # imports the controls and the releases
    unit: ClassVar[str] = "cells"

    @classmethod
    def prepare(
        cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]
    ) -> LibrariesJob:
        sweep = from_mapping(LibrarySweep, settings.sweep, "sweep")
        refuse_errors(settings, "libraries", "libraries")
        order = list(sweep.families)
        cells = sorted(sweep.cells(settings.trials), key=lambda one: order.index(one.family_label))
        return cls(options, config, sweep, cells, sweep.audits(settings.seed))

    @property
    def settings(self) -> dict[str, Setting]:
        """Estimators by label, each with its largest budget."""
        found = [one for cell in self.cells for one in cell.settings]
        return {one.label: one for one in sorted(found, key=lambda one: one.budget.amounts)}

    def result(self) -> Result:
        raise ConfigError(
            "sweep: libraries are measured from the command line only; in Python use `library_mean`"
        )

    @property
    def results(self) -> Sequence[str]:
        replayed = ["replay.csv"] if self.sweep.libraries.replay else []
        return ["overview.csv", "libraries.csv", "hostile.csv", *replayed, PAGE]

    @property
    def reads(self) -> Sequence[Path]:
        return environments()

    def compute(self, argv: Sequence[str] | None, cost: Cost, say: Say) -> Outcome:
        tables = self._tables(cost)
        text = render(tables["overview"], tables["claims"])
        unlike = [
            f"audit: {row['estimator']}: {row['verdict']}, {row['expected']} was expected\n"
            for row in strongest(tables["audit"]).to_dict("records")
            if row["verdict"] != row["expected"]
        ]
        if "replay" in tables:
            text += f"\n{render_replay(tables['replay'])}"
            unlike += [f"{line}\n" for line in surprises(tables["replay"])]
        text += "".join(unlike)
        said = pd.concat([tables["overview"]["version"], tables["libraries"]["message"]])
        wrong = said.str.contains("process ended").any()
        wrong |= any_fails(CLAIMS, tables["claims"]["verdict"])
        return Outcome(tables, text, partial(self._draw, tables), int(bool(unlike) or wrong))

    def _tables(self, cost: Cost) -> Tables:
        """Measure and audit all libraries; return the tables by the stems of their files."""
        order = [label for label in self.sweep.estimators if label in self.settings]
        known = {label: status(self.settings[label].estimator) for label in order}
        skip = {label: why for label, (why, runs) in known.items() if not runs}
        if len(skip) == len(known):
            label, why = next(iter(skip.items()))
            raise ConfigError(f"sweep.estimators: none of these can run; {label}: {why}")
        how, seed = self.sweep.libraries, self.options.seed
        chosen = select_labels(how.hostile.estimators, self.sweep.estimators)
        met = [label for label in chosen if label in known and label not in skip]
        audits = [task for task in self.audits if task.label not in skip]
        rows: list[Found] = []
        hostile: list[Row] = []
        bounds: list[Row] = []
        pending = len(self.cells) + len(met) + len(audits)
        with progress("cells", pending, "done", transient=True) as advance:
            for cell in self.cells:
                rows += cell_rows(cell, how, seed, skip)
                advance()
            for label in met:
                hostile += hostile_rows(label, self.settings[label], how, seed)
                advance()
            for task in audits:
                bounds += audit(task)
                advance()
        cost.cells_done = cost.blocks_done = len(self.cells)
        versions = [(label, version) for label, (version, _) in known.items()]
        tables = {
            "libraries": pd.DataFrame([row for row, _ in rows]),
            "hostile": pd.DataFrame(hostile, columns=["estimator", "column", "outcome", "told"]),
            "audit": self._expected(pd.DataFrame(bounds, columns=list(COLUMNS))),
            "claims": claim_rows(self.sweep.claims, rows),
        }
        about = pd.DataFrame(versions, columns=["estimator", "version"])
        shown = overview(about, tables["libraries"], tables["hostile"], tables["audit"])
        if how.replay:
            tables["replay"] = replay_table(how.replay)
        return {"overview": shown, **tables}

    def _expected(self, bounds: pd.DataFrame) -> pd.DataFrame:
        """Add the column ``expected``: the verdict stated in the sweep for each estimator."""
        names = list(self.sweep.libraries.refuted)
        known = select_labels(names, self.sweep.estimators) if names else []
        refuted = bounds["estimator"].isin(list(known))
        return bounds.assign(expected=np.where(refuted, "refuted", "not refuted"))

    def _draw(self, tables: Tables, stamps: Stamps) -> None:
        """Draw the figures ``libraries`` and ``benchmarks``."""
        with style(font=self.config.get("font", "sans")):
            how, rows = self.sweep.libraries, tables["libraries"]
            drawn = {
                "libraries": figure(tables["overview"], rows),
                "benchmarks": benchmarks(rows, how.upper - how.lower),
            }
            for name, canvas in drawn.items():
                save(canvas, self.folder / "figures", name, stamps=stamps)
