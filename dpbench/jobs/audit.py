"""Run the sweep ``audit``: attack every estimator under every notion, on neighbouring datasets."""

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
from dpbench.output.folder import PAGE
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

# Of the estimators, and of those that are broken on purpose.
TABLES = ("audit", "controls")
# Runs a side from which every control must be refuted.
TELLING_RUNS = 1000


@dataclass(frozen=True)
class AuditJob(FolderJob):
    """Run a checked audit.

    The exit code is 1 if an estimator is refuted or failed, if enough runs miss a control, or if a
    replay misses a control, at any number of runs.
    """

    sweeps: ClassVar[type[Any]] = AuditSweep
    sections = ("failures", "privacy", "figures", "origin")
    tasks: list[AuditTask]
    controls: list[AuditTask]
    work: ClassVar[str] = "dpbench.audit.cases"  # and with it controls and releases
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
                    f"trials: {settings.trials}: an audit takes {LEAST_RUNS} or more a dataset"
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
        passed = not any_fails(AUDIT, tables[0]["verdict"])
        # So few runs that they may miss a control show nothing, which the text says.
        few = max(self.trials) < TELLING_RUNS
        caught = few or not any_fails(CONTROLS, strongest(tables[1])["verdict"])
        return 0 if passed and caught and not missed else 1

    def _missed_by_replay(self, controls: pd.DataFrame) -> list[str]:
        """Return the labels of controls that a replay must refute and does not."""
        seen = controls[controls["refuted_by_replay"] != ""]
        refuted = set(zip(seen["estimator"], seen["notion"], strict=True))
        wanted = (task for task in self.controls if "replay" in task.seen_by)
        missed = [t.label for t in wanted if (t.label, t.budget.label) not in refuted]
        return list(dict.fromkeys(missed))

    def _draw(self, tables: Sequence[pd.DataFrame], stamps: Stamps) -> None:
        with style(font=self.config.get("font", "sans")):
            for name, table in zip(("estimators", "controls"), tables, strict=True):
                save(bounds_figure(table), self.folder / "figures", name, stamps=stamps)

    def _rows(self, cost: Cost) -> dict[str, list[dict[str, Any]]]:
        """The rows of every task by its name, computed or read back."""
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
        """A digest of everything that the rows of a task depend on."""
        return digest(self.options.origin.bits, name)

    def _path(self, name: str) -> Path:
        """Where the rows of a task are kept."""
        return self.folder / "blocks" / f"audit_{self._key(name)[:16]}.json"
