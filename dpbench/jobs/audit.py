"""The sweep ``audit``: every estimator under every notion, attacked on neighbouring datasets."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from dpbench.audit.cases import AuditSweep, control_tasks
from dpbench.audit.releases import COLUMNS, LEAST_RUNS, AuditTask, audit
from dpbench.audit.report import bounds_figure, render, strongest
from dpbench.jobs.base import InFolder, more_trials
from dpbench.output.files import Stamps, atomic
from dpbench.output.folder import only_writer
from dpbench.output.style import save, style
from dpbench.output.terminal import command_line, progress, say
from dpbench.output.verdicts import AUDIT, CONTROLS, failing
from dpbench.package import PACKAGE
from dpbench.registry import ConfigError, from_mapping
from dpbench.runner.cost import Cost
from dpbench.runner.execute import compute
from dpbench.runner.run import RunOptions
from dpbench.runner.settings import Settings
from dpbench.seeds import digest

__all__ = ["Audit"]

# Of the estimators, and of those that are broken on purpose.
TABLES = ("audit", "controls")
# Runs a side from which every control must be refuted.
TELLING_RUNS = 1000


@dataclass(frozen=True)
class Audit(InFolder):
    """A checked audit, ready to run."""

    tasks: list[AuditTask]
    controls: list[AuditTask]
    options: RunOptions
    config: Mapping[str, Any]

    @classmethod
    def prepare(cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]) -> Audit:
        """Build everything that the configuration names; nothing is run or written.

        Raises
        ------
        ConfigError
            At the first key that cannot be used.
        """
        sweep = from_mapping(AuditSweep, settings.sweep, "sweep")
        settings.without_errors("an audit", "audit")
        if settings.trials is not None:
            if settings.trials < LEAST_RUNS:
                raise ConfigError(
                    f"trials: {settings.trials}: an audit takes {LEAST_RUNS} or more a dataset"
                )
            how = dataclasses.replace(sweep.audit, runs=settings.trials)
            sweep = dataclasses.replace(sweep, audit=how)
        tasks, controls = sweep.tasks(settings.seed), control_tasks(sweep.audit, settings.seed)
        return cls(tasks, controls, options, config)

    def run(self, argv: Sequence[str], page: Callable[[Path], object] = lambda _: None) -> int:
        """Audit, write the tables, print what was found.

        Parameters
        ----------
        argv : sequence of str
            The command's words.
        page : callable
            Writes what is to be written of a finished folder, before anything is printed.

        Returns
        -------
        int
            1 if an estimator is refuted or failed, or enough runs miss a control; else 0.
        """
        out, cost = self.folder, Cost()
        with only_writer(out):
            more = more_trials(out, self.config)
            found = self._rows(cost)
            tables = [
                pd.DataFrame([one for t in tasks for one in found[t.name]], columns=list(COLUMNS))
                for tasks in (self.tasks, self.controls)
            ]
            text = render(*tables)
            code = self._code(tables)
            named, draw = dict(zip(TABLES, tables, strict=True)), partial(self._draw, tables)
            self.written(argv, cost, named, text, draw, failures=[], exit_code=code)
            page(out)
        for told in (text.rstrip("\n"), *more):
            say(told)
        self._print_next(argv, cost)
        return code

    def _code(self, tables: Sequence[pd.DataFrame]) -> int:
        passed = not tables[0]["verdict"].isin(failing(AUDIT)).any()
        # So few runs that they may miss a control show nothing, which the text says.
        few = max(task.runs for task in self.tasks) < TELLING_RUNS
        caught = few or not strongest(tables[1])["verdict"].isin(failing(CONTROLS)).any()
        return 0 if passed and caught else 1

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
                for task, rows in compute(audit, pending, o.runner, o.n_jobs, o.plugins, o.depends):
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
        return digest(self.options.computer, _source(), name)

    def _path(self, name: str) -> Path:
        """Where the rows of a task are kept."""
        return self.folder / "blocks" / f"audit_{self._key(name)[:16]}.json"

    def _print_next(self, argv: Sequence[str], cost: Cost) -> None:
        out = self.folder
        say(
            f"{cost.blocks_done} audits done, {cost.blocks_reused} reused, "
            f"{time.monotonic() - cost.started:.1f} s"
        )
        say(f"results: {out}/audit.csv, controls.csv, report.html")
        runs = 10 * max(task.runs for task in self.tasks)
        kept = [word for word in argv if not word.startswith("trials=")]
        say(f"more runs: {command_line([*kept, f'trials={runs}'])}")


@cache
def _source() -> str:
    """The source of what the numbers of an audit depend on."""
    folder = PACKAGE / "audit"
    files = set(folder.glob("*.py")) - {folder / "report.py"}
    return digest([path.read_text("utf-8") for path in sorted(files)])
