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

from dpbench.audit.cases import AuditSweep, control_tasks
from dpbench.audit.releases import MIN_AUDIT_RUNS
from dpbench.audit.report import bounds_figure, render, select_strongest
from dpbench.audit.task import COLUMNS, AuditTask, audit
from dpbench.audit.verdicts import AUDIT, CONTROLS
from dpbench.jobs.base import FolderJob, Next, Outcome, refuse_keys_of_studies
from dpbench.output.files import Checksums, atomic
from dpbench.output.run_folder import PAGE
from dpbench.output.terminal import progress
from dpbench.output.verdicts import any_fails
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.drawing.style import save, style
from dpbench.report.run_result import Result
from dpbench.report.scoreboard import shipped_estimators
from dpbench.runner.cost import Cost
from dpbench.runner.execute import compute
from dpbench.runner.opened_files import explain_no_reuse, noting
from dpbench.runner.run import RunOptions, Say
from dpbench.runner.settings import Settings
from dpbench.seeds import digest

__all__ = ["AuditJob"]

# CSV files: the estimators, and the controls, which are broken on purpose.
TABLES = ("audit", "controls")
# Smallest number of releases per dataset with which the audit must refute every control.
TELLING_RUNS = 1000


@dataclass(frozen=True)
class AuditJob(FolderJob):
    """Job that audits the privacy claims of estimators, with a checked configuration.

    An audit refutes a privacy claim if releases show that it is false. A control is an estimator
    that is broken on purpose. A replay is a test that runs an estimator with frozen randomness. The
    exit code is 1 in three cases, and otherwise 0:

    - An estimator is refuted, or fails with an exception.
    - A control is not refuted, although the audits make 1000 (`TELLING_RUNS`) or more releases.
    - A replay does not refute a control that replays should refute. The number of releases does
      not matter in this case.
    """

    sweeps: ClassVar[type[Any]] = AuditSweep
    sections = ("failures", "privacy", "figures", "origin")
    tasks: list[AuditTask]
    controls: list[AuditTask]
    rooms = ("audit", "theory")
    unit: ClassVar[str] = "audits"

    @classmethod
    def prepare(
        cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]
    ) -> AuditJob:
        sweep = from_mapping(AuditSweep, settings.sweep, "sweep")
        refuse_keys_of_studies(settings, "an audit", "audit")
        if settings.trials is not None:
            if settings.trials < MIN_AUDIT_RUNS:
                raise ConfigError(
                    f"trials: {settings.trials}: "
                    f"an audit needs {MIN_AUDIT_RUNS} or more per dataset"
                )
            audit_options = dataclasses.replace(sweep.audit, runs=settings.trials)
            sweep = dataclasses.replace(sweep, audit=audit_options)
        shipped = shipped_estimators(sweep.name)
        added = {label for label, v in sweep.estimators.items() if v.name not in shipped}
        tasks = sorted(sweep.tasks(settings.seed), key=lambda task: task.label not in added)
        return cls(options, config, tasks, control_tasks(sweep.audit, settings.seed))

    def result(self) -> Result:
        raise ConfigError("sweep: an audit is run by the command, or pair by pair by audit_pair")

    @property
    def trials(self) -> Sequence[int]:
        return [task.runs for task in self.tasks]

    @property
    def results(self) -> Sequence[str]:
        return ["audit.csv", "controls.csv", PAGE]

    def compute(self, argv: Sequence[str] | None, cost: Cost, say: Say) -> Outcome:
        rows_by_task = self._rows(cost, say)
        tables = [
            pd.DataFrame(
                [row for t in tasks for row in rows_by_task[t.name]], columns=list(COLUMNS)
            )
            for tasks in (self.tasks, self.controls)
        ]
        tables_by_name, draw = dict(zip(TABLES, tables, strict=True)), partial(self._draw, tables)
        missed = self._find_controls_missed_by_replay(tables[1])
        text, code = partial(render, tables[0], tables[1], missed), self._code(tables, missed)
        more: Next = "more runs", [f"trials={10 * max(self.trials)}"], ["trials="]
        is_refuted = any_fails(AUDIT, tables[0]["verdict"])  # which no further run undoes
        return Outcome(tables_by_name, text, draw, code, next=None if is_refuted else more)

    def _code(self, tables: Sequence[pd.DataFrame], missed: Sequence[str]) -> int:
        """Return the exit code for the tables of estimators and controls; see `AuditJob`."""
        passed = not any_fails(AUDIT, tables[0]["verdict"])
        # Fewer releases may miss a control by chance, as the printed text says.
        few = max(self.trials) < TELLING_RUNS
        controls_pass = few or not any_fails(CONTROLS, select_strongest(tables[1])["verdict"])
        return 0 if passed and controls_pass and not missed else 1

    def _find_controls_missed_by_replay(self, controls: pd.DataFrame) -> list[str]:
        """Return the labels of controls that a replay did not refute, although it should.

        A control is an estimator that is broken on purpose. A replay is a test that runs the
        control with frozen randomness.
        """
        refutations = controls[controls["refuted_by_replay"] != ""]
        refuted = set(zip(refutations["estimator"], refutations["notion"], strict=True))
        refutable = (task for task in self.controls if "replay" in task.seen_by)
        missed = [t.label for t in refutable if (t.label, t.budget.label) not in refuted]
        return list(dict.fromkeys(missed))

    def _draw(self, tables: Sequence[pd.DataFrame], checksums: Checksums) -> None:
        """Draw the audited lower bounds on privacy loss, for estimators and for controls."""
        with style(font=self.config.get("font", "sans")):
            for name, table in zip(("estimators", "controls"), tables, strict=True):
                save(bounds_figure(table), self.folder / "figures", name, checksums=checksums)

    def _rows(self, cost: Cost, say: Say) -> dict[str, list[dict[str, Any]]]:
        """Return the result rows of all audits, keyed by name of the audit.

        Rows that an earlier run has stored are read, and all other rows are computed. So are rows
        that depend on files outside their origin.
        """
        rows_by_task: dict[str, list[dict[str, Any]]] = {}
        unusable: dict[str, None] = {}
        tasks = {task.name: task for task in (*self.tasks, *self.controls)}
        for name in tasks if self.options.resume else ():
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                rows, reads, checksum = json.loads(self._path(name).read_text(encoding="utf-8"))
                if checksum == digest(self._key(name), rows, reads):
                    unusable |= dict.fromkeys(reads)
                    rows_by_task |= {} if reads else {name: rows}
        for file in unusable:
            say(explain_no_reuse("audits", file))
        pending = [task for name, task in tasks.items() if name not in rows_by_task]
        cost.blocks_reused = cost.cells_reused = len(rows_by_task)
        if pending:
            o = self.options
            with progress("audits", len(pending), f"done, {len(rows_by_task)} reused") as advance:
                run = noting(audit, o.origin)
                for task, (rows, reads) in compute(run, pending, o.runner, o.n_jobs, o.origin):
                    cost.note_files(reads)
                    with atomic(self._path(task.name)) as path:
                        checked = [rows, reads, digest(self._key(task.name), rows, reads)]
                        path.write_text(json.dumps(checked), encoding="utf-8")
                    rows_by_task[task.name] = rows
                    cost.blocks_done += 1
                    advance()
            cost.cells_done = cost.blocks_done
        return rows_by_task

    def _key(self, name: str) -> str:
        """Return a digest of everything on which the result rows of the audit `name` depend."""
        return digest(self.options.origin.bits, name)

    def _path(self, name: str) -> Path:
        """Return the path of the file that holds the result rows of the audit `name`."""
        return self.folder / "blocks" / f"audit_{self._key(name)[:16]}.json"
