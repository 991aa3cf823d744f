"""The sweep ``audit``: every estimator under every notion, attacked on neighbouring datasets."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import Field
from rich.console import Console

from dpbench.audit.catalogue import catalogue
from dpbench.audit.controls import CONTROLS
from dpbench.audit.task import COLUMNS, AuditTask, audit
from dpbench.config import Settings, command_line
from dpbench.estimators import Estimator
from dpbench.files import atomic
from dpbench.registry import ConfigError, from_mapping, validated
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair
from dpbench.report.audit_figures import bounds_figure
from dpbench.report.audit_text import render, strongest
from dpbench.report.page import PAGE, write_page
from dpbench.report.scoreboard import console
from dpbench.runner.execute import compute
from dpbench.runner.manifest import Cost, provenance
from dpbench.runner.plan import pick, section
from dpbench.runner.progress import BlockProgress
from dpbench.runner.run import RunOptions, check_writable
from dpbench.runner.store import source_digest
from dpbench.seeds import digest

__all__ = ["Audit", "AuditSettings", "Case"]

Labels = Annotated[list[str], Field(min_length=1)]
LEAST_RUNS = 100
# Of the estimators, and of those that are broken on purpose.
TABLES = ("audit.csv", "controls.csv")


@validated
class Case:
    """Estimators that are audited on data of one shape.

    Parameters
    ----------
    estimators, budgets : list of str
        Labels of the sweep, or patterns; by default all. An estimator runs under the notions
        that it honours.
    n : int
        Records.
    d : int, optional
        Coordinates of vectors; by default the records are numbers.
    """

    estimators: Labels | None = None
    budgets: Labels | None = None
    n: Annotated[int, Field(ge=4)]
    d: Annotated[int, Field(ge=1)] | None = None


@validated
class AuditSettings:
    """How to audit.

    Parameters
    ----------
    cases : mapping of label to Case
    runs : int
        Releases on each dataset of a pair; ``trials=`` on the command line says another number.
    error : float
        Probability that any bound of the audit exceeds the truth. The controls have as much
        of their own.
    """

    cases: Annotated[dict[str, Any], Field(min_length=1)]
    runs: Annotated[int, Field(ge=LEAST_RUNS)] = 1000
    error: Annotated[float, Field(gt=0, lt=1)] = 1e-5


@validated
class _Spec:
    name: Annotated[str, Field(pattern=r"^[\w-]+$")]
    estimators: Annotated[dict[str, Any], Field(min_length=1)]
    budgets: Annotated[dict[str, Any], Field(min_length=1)]
    audit: dict[str, Any]


@dataclass(frozen=True)
class Audit:
    """A checked audit, ready to run."""

    name: str
    tasks: list[AuditTask]
    controls: list[AuditTask]
    options: RunOptions
    config: Mapping[str, Any]

    @classmethod
    def prepare(
        cls, settings: Settings, plugins: tuple[Path, ...], config: Mapping[str, Any]
    ) -> Audit:
        """Build everything that the configuration names; nothing is run or written.

        Raises
        ------
        ConfigError
            At the first key that cannot be used.
        """
        spec = from_mapping(_Spec, settings.sweep, "sweep")
        for key in ("track", "replay"):
            if getattr(settings, key) is not None:
                raise ConfigError(f"{key}: {getattr(settings, key)!r}: not for an audit")
        how = from_mapping(AuditSettings, spec.audit, "sweep.audit")
        if settings.trials is not None:
            if settings.trials < LEAST_RUNS:
                raise ConfigError(
                    f"trials: {settings.trials}: an audit takes {LEAST_RUNS} or more a dataset"
                )
            how = dataclasses.replace(how, runs=settings.trials)
        return cls(
            name=spec.name,
            tasks=_tasks(settings.sweep, how, settings.seed),
            controls=_control_tasks(how, settings.seed),
            options=RunOptions.configured(settings, spec.name, plugins),
            config=config,
        )

    @property
    def folder(self) -> Path:
        """Where all is written."""
        return self.options.out

    @property
    def stores(self) -> Path | None:
        """An audit replaces no baseline."""
        return None

    def run(self, words: Sequence[str]) -> int:
        """Audit, write the tables, print what was found.

        Returns
        -------
        int
            1 if an estimator is refuted or failed, or a control is not refuted; else 0.
        """
        out, cost = self.options.out, Cost()
        say = console()
        check_writable(out)
        found = self._rows(cost)
        tables = [
            pd.DataFrame([row for task in tasks for row in found[task.name]], columns=list(COLUMNS))
            for tasks in (self.tasks, self.controls)
        ]
        for name, table in zip(TABLES, tables, strict=True):
            with atomic(out / name) as path:
                table.to_csv(path, index=False)
        text = render(*tables)
        with atomic(out / "scoreboard.txt") as path:
            path.write_text(text)
        passed = bool((tables[0]["verdict"] == "not refuted").all())
        caught = bool((strongest(tables[1])["verdict"] == "refuted").all())
        record = {
            "sweep": self.name,
            "command": command_line(words),
            "configuration": self.config,
            "seed": self.options.seed,
            **provenance(),
            **cost.as_dict(),
            "failures": [],
            "exit_code": 0 if passed and caught else 1,
        }
        with atomic(out / "manifest.json") as path:
            path.write_text(json.dumps(record, indent=2) + "\n")
        self._draw(tables)
        write_page([out], out / PAGE)
        say.print(text, end="", markup=False)
        self._print_next(words, cost, say)
        return int(record["exit_code"])

    def _draw(self, tables: Sequence[pd.DataFrame]) -> None:
        from dpbench.report.style import save, use_style  # slow to load

        use_style()
        for name, table in zip(("estimators", "controls"), tables, strict=True):
            save(bounds_figure(table), self.options.out / "figures", name)

    def _rows(self, cost: Cost) -> dict[str, list[dict[str, Any]]]:
        """The rows of every task by its name, computed or read back."""
        found: dict[str, list[dict[str, Any]]] = {}
        tasks = {task.name: task for task in (*self.tasks, *self.controls)}
        for name in tasks if self.options.resume else ():
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                rows = json.loads(self._path(name).read_text())
                if [row["pair"] for row in rows] == [pair.name for pair in tasks[name].pairs]:
                    found[name] = rows
        pending = [task for name, task in tasks.items() if name not in found]
        cost.blocks_reused = cost.cells_reused = len(found)
        if pending:
            o = self.options
            with BlockProgress(len(pending), len(found)) as progress:
                for task, rows in compute(audit, pending, o.runner, o.n_jobs, o.plugins):
                    with atomic(self._path(task.name)) as path:
                        path.write_text(json.dumps(rows))
                    found[task.name] = rows
                    cost.blocks_done += 1
                    progress.advance()
            cost.cells_done = cost.blocks_done
        return found

    def _path(self, name: str) -> Path:
        """Where the rows of a task are kept, under a name that its numbers depend on."""
        key = digest(source_digest(self.options.plugins), _source(), name)
        return self.options.out / "blocks" / f"audit_{key[:16]}.json"

    def _print_next(self, words: Sequence[str], cost: Cost, say: Console) -> None:
        out = self.options.out
        say.print(
            f"{cost.blocks_done} audits done, {cost.blocks_reused} reused, "
            f"{time.monotonic() - cost.started:.1f} s"
        )
        say.print(f"results: {out}/audit.csv, controls.csv, report.html", markup=False)
        runs = 10 * max(task.runs for task in self.tasks)
        kept = [word for word in words if not word.startswith("trials=")]
        say.print(f"more runs: {command_line([*kept, f'trials={runs}'])}", markup=False)


@cache
def _source() -> str:
    """The source of the audit itself."""
    folder = Path(__file__).parent / "audit"
    return digest([path.read_text() for path in sorted(folder.glob("*.py"))])


def _tasks(spec: Mapping[str, Any], how: AuditSettings, seed: int) -> list[AuditTask]:
    """All that the sweep's cases ask for; the error is divided over their pairs."""
    where = "sweep.estimators"
    estimators = section(spec["estimators"], where, Estimator.build, Estimator)
    budgets = section(spec["budgets"], "sweep.budgets", Budget.build, Budget)
    found: dict[tuple[str, str], tuple[Estimator, Budget, tuple[Pair, ...]]] = {}
    for label, one in how.cases.items():
        at = f"sweep.audit.cases.{label}"
        case = from_mapping(Case, one, at)
        for name in pick(case.estimators, estimators, f"{at}.estimators"):
            estimator = estimators[name]
            for key in pick(case.budgets, budgets, f"{at}.budgets"):
                if estimator.supports(budgets[key]):
                    if (name, key) in found:
                        raise ConfigError(f"{at}: {name} under {key} is in another case, too")
                    pairs = _pairs(estimator, budgets[key], case, f"{where}.{name}")
                    found[name, key] = (estimator, budgets[key], pairs)
    for name in sorted(set(estimators) - {name for name, _ in found}):
        raise ConfigError(f"{where}.{name}: no case audits it under a notion that it honours")
    total = sum(len(pairs) for *_, pairs in found.values())
    return [
        AuditTask(name, estimator, budget, pairs, how.runs, how.error / total, seed)
        for (name, _), (estimator, budget, pairs) in found.items()
    ]


def _pairs(estimator: Estimator, budget: Budget, case: Case, where: str) -> tuple[Pair, ...]:
    shape = (case.n,) if case.d is None else (case.n, case.d)
    try:
        own = tuple(estimator.audit_pairs(case.n, case.d, budget))
        for pair in own:
            if not isinstance(pair, Pair) or pair.left.shape != shape:
                raise ValueError(f"a Pair of records of shape {shape} is wanted")
    except MemoryError:
        raise
    except Exception as error:  # whatever a plug-in raises
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"{where}: audit_pairs: {told}") from error
    return (*catalogue(case.n, case.d), *own)


def _control_tasks(how: AuditSettings, seed: int) -> list[AuditTask]:
    asked = [
        (c, budget, (*catalogue(c.n, c.d), *c.audit_pairs(c.n, c.d, budget)))
        for c in CONTROLS
        for budget in c.budgets
    ]
    total = sum(len(pairs) for *_, pairs in asked)
    return [
        AuditTask(c.label, c, budget, pairs, max(how.runs, c.runs), how.error / total, seed)
        for c, budget, pairs in asked
    ]
