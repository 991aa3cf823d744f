"""Job of the sweep ``audit``: test each estimator's privacy claim on neighbouring datasets."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from dpbench.analysis.result import Result
from dpbench.audit.cases import AuditSweep, control_tasks
from dpbench.audit.releases import LEAST_RUNS
from dpbench.audit.report import bounds_figure, render, strongest
from dpbench.audit.task import COLUMNS, AuditTask, audit
from dpbench.jobs.base import FolderJob, Next, Outcome, refuse_errors
from dpbench.output.files import Stamps, atomic
from dpbench.output.run_folder import PAGE
from dpbench.output.style import save, style
from dpbench.output.terminal import progress
from dpbench.output.verdicts import AUDIT, CONTROLS, any_fails
from dpbench.registry import ConfigError, from_mapping
from dpbench.runner.cost import Cost
from dpbench.runner.execute import compute
from dpbench.runner.run import RunOptions, Say
from dpbench.runner.settings import Settings
from dpbench.seeds import digest

__all__ = ["AuditJob"]

# CSV files: the estimators, and the controls, which are broken on purpose.
TABLES = ("audit", "controls")
# Releases per dataset from which on the audit must refute every control.
TELLING_RUNS = 1000


@dataclass(frozen=True)
class AuditJob(FolderJob):
    """An audit whose configuration is checked.

    The exit code is 1 if an estimator is refuted or fails, if an audit of `TELLING_RUNS` runs or
    more does not refute a control, or if a replay does not refute a control (at any number of
    runs); else 0.

    Parameters
    ----------
    options : RunOptions
        Seed, processes and folder of the run.
    config : mapping
        The whole configuration.
    tasks, controls : list of AuditTask
        Audits of the estimators, and of the controls, which are broken on purpose.
    """

    sweeps: ClassVar[type[Any]] = AuditSweep
    sections = ("failures", "privacy", "figures", "origin")
    tasks: list[AuditTask]
    controls: list[AuditTask]
    work: ClassVar[str] = "dpbench.audit.cases"  # imports the controls and the releases
    unit: ClassVar[str] = "audits"

    @classmethod
    def prepare(
        cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]
    ) -> AuditJob:
        sweep = from_mapping(AuditSweep, settings.sweep, "sweep")
        refuse_errors(settings, "an audit", "audit")
        if settings.trials is not None:
            if settings.trials < LEAST_RUNS:
                raise ConfigError(
                    f"trials: {settings.trials}: an audit needs {LEAST_RUNS} or more per dataset"
                )
            how = dataclasses.replace(sweep.audit, runs=settings.trials)
            sweep = dataclasses.replace(sweep, audit=how)
        tasks, controls = sweep.tasks(settings.seed), control_tasks(sweep.audit, settings.seed)
        return cls(options, config, tasks, controls)

    def result(self) -> Result:
        raise ConfigError("sweep: an audit is run by the command, or pair by pair by audit_pair")

    @property
    def trials(self) -> Sequence[int]:
        return [task.runs for task in self.tasks]

    @property
    def results(self) -> Sequence[str]:
        return ["audit.csv", "controls.csv", PAGE]

    @property
    def next(self) -> Next:
        return "more runs", [f"trials={10 * max(self.trials)}"], ["trials="]

    def compute(self, argv: Sequence[str] | None, cost: Cost, say: Say) -> Outcome:
        found = self._rows(cost)
        tables = [
            pd.DataFrame([one for t in tasks for one in found[t.name]], columns=list(COLUMNS))
            for tasks in (self.tasks, self.controls)
        ]
        named, draw = dict(zip(TABLES, tables, strict=True)), partial(self._draw, tables)
        missed = self._missed_by_replay(tables[1])
        told = render(tables[0], tables[1], missed)
        return Outcome(named, told, draw, self._code(tables, missed))

    def _code(self, tables: Sequence[pd.DataFrame], missed: Sequence[str]) -> int:
        """Return the exit code, which the class docstring explains."""
        passed = not any_fails(AUDIT, tables[0]["verdict"])
        # Fewer runs may miss a control by chance; the printed text says so.
        few = max(self.trials) < TELLING_RUNS
        caught = few or not any_fails(CONTROLS, strongest(tables[1])["verdict"])
        return 0 if passed and caught and not missed else 1

    def _missed_by_replay(self, controls: pd.DataFrame) -> list[str]:
        """Return the labels of the controls that a replay should refute but does not."""
        seen = controls[controls["refuted_by_replay"] != ""]
        refuted = set(zip(seen["estimator"], seen["notion"], strict=True))
        wanted = (task for task in self.controls if "replay" in task.seen_by)
        missed = [t.label for t in wanted if (t.label, t.budget.label) not in refuted]
        return list(dict.fromkeys(missed))

    def _draw(self, tables: Sequence[pd.DataFrame], stamps: Stamps) -> None:
        """Draw the audited lower bounds of the estimators and of the controls."""
        with style(font=self.config.get("font", "sans")):
            for name, table in zip(("estimators", "controls"), tables, strict=True):
                save(bounds_figure(table), self.folder / "figures", name, stamps=stamps)

    def _rows(self, cost: Cost) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of every task by task name; stored rows are read, others computed."""
        found: dict[str, list[dict[str, Any]]] = {}
        tasks = {task.name: task for task in (*self.tasks, *self.controls)}
        for name in tasks if self.options.resume else ():
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                rows, checksum = json.loads(self._path(name).read_text(encoding="utf-8"))
                if checksum == digest(self._key(name), rows):
                    found[name] = rows
        pending = [task for name, task in tasks.items() if name not in found]
        cost.blocks_reused = cost.cells_reused = len(found)
        if pending:
            o = self.options
            with progress("audits", len(pending), f"done, {len(found)} reused") as advance:
                for task, rows in compute(audit, pending, o.runner, o.n_jobs, o.origin):
                    with atomic(self._path(task.name)) as path:
                        checked = [rows, digest(self._key(task.name), rows)]
                        path.write_text(json.dumps(checked), encoding="utf-8")
                    found[task.name] = rows
                    cost.blocks_done += 1
                    advance()
            cost.cells_done = cost.blocks_done
        return found

    def _key(self, name: str) -> str:
        """Return a digest of everything on which the rows of a task depend."""
        return digest(self.options.origin.bits, name)

    def _path(self, name: str) -> Path:
        """Return the file in which the rows of a task are stored."""
        return self.folder / "blocks" / f"audit_{self._key(name)[:16]}.json"
