"""A run with a folder: what is finished is recognised, what is computed is written."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.claims import COLUMNS
from dpbench.analysis.result import Result
from dpbench.analysis.results import Results, collect
from dpbench.analysis.smallest_n import measure
from dpbench.analysis.study import Plan, Study
from dpbench.arrays import Bools
from dpbench.jobs.base import InFolder, more_trials
from dpbench.jobs.finished import print_next
from dpbench.output.files import Stamps, atomic
from dpbench.output.folder import (
    PAGE,
    finished,
    only_writer,
    read_manifest,
    stamps_of,
    write_manifest,
)
from dpbench.output.style import Font, Width, save, style
from dpbench.output.terminal import replay_line, say
from dpbench.output.verdicts import CLAIMS, failing
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.latex import claim_rows, claims_table, write_snippet
from dpbench.runner.cost import Cost
from dpbench.runner.origin import fingerprint, package_source, surroundings, versions
from dpbench.runner.run import RunOptions, Say, run_cells
from dpbench.runner.settings import Settings
from dpbench.runner.store import Store
from dpbench.seeds import digest
from dpbench.sweep.block import replay
from dpbench.sweep.plan import Cell, cell_at
from dpbench.tracking.check import FILES as TRACKED
from dpbench.tracking.check import Tracking

__all__ = ["Job"]


@dataclass(frozen=True)
class Job(InFolder):
    """A checked study, ready to run."""

    plan: Plan
    options: RunOptions
    config: Mapping[str, Any]
    replay: str | None = None
    tracking: Tracking | None = None
    paper: bool = False
    font: Font = "sans"

    @classmethod
    def prepare(cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]) -> Job:
        """Build everything that the configuration names; nothing is run or written."""
        if settings.replay is not None and settings.track is not None:
            raise ConfigError(f"replay: {settings.replay!r}: nothing is tracked")
        study = from_mapping(Study, settings.sweep, "sweep")
        plan = study.plan(settings.trials)
        trials = min(cell.trials for cell in plan.cells)
        tracking = Tracking.prepare(settings, study.name, trials, study.gate)
        drawn = settings.paper, settings.font
        return cls(plan, options, config, settings.replay, tracking, *drawn)

    @property
    def stores(self) -> Path | None:
        return self.tracking.path if self.tracking and self.tracking.update else None

    def run(self, argv: Sequence[str]) -> int:
        """Run the study, write its folder, print its verdicts and what to type; the exit code.

        A finished run whose files are untouched is printed again and nothing else.
        """
        if self.replay is not None:
            return self._replay(self.replay)
        trials = {cell.trials for cell in self.plan.cells}
        cost = Cost(trials=trials.pop() if len(trials) == 1 else None)
        with only_writer(self.folder):
            more = more_trials(self.folder, self.config)
            code, told = self._completed(argv, cost)
            record = read_manifest(self.folder)
        # Files first: a terminal may keep a run waiting.
        for text in (*told, *more):
            say(text)
        print_next(self.folder, record, argv, cost)
        return code

    def _completed(self, argv: Sequence[str], cost: Cost) -> tuple[int, list[str]]:
        """Bring the folder up to date; the exit code and what is to be printed."""
        before = surroundings(self.config)
        record, page = self._finished() if self.options.resume else None, self.folder / PAGE
        if record is None:
            record = self._written(self._result(cost, say), argv, cost)
        else:
            cost.cells_reused = len(self.plan.cells)
            cost.blocks_reused = sum(cell.blocks for cell in self.plan.cells)
        told = [(self.folder / "scoreboard.txt").read_text(encoding="utf-8").rstrip("\n")]
        failed, last = bool(record["failures"]), (record["tracked"], record["exit_code"])
        code = self._code(failed, pd.read_csv(self.folder / "claims.csv"))  # not tracking's of then
        for name in TRACKED:
            (self.folder / name).unlink(missing_ok=True)
        if self.tracking is not None:
            found = self.tracking.run(self.plan.cells, self.options, failed, told.append)
            code = max(code, found)
        tracked = [name for name in TRACKED if (self.folder / name).exists()]
        if tracked or (tracked, code) != last:
            page.unlink(missing_ok=True)
        more = {"tracked": tracked, "exit_code": code, "fingerprint": None}
        unknown = self.options.plugins or self.options.depends  # what these read
        if not unknown and surroundings(self.config) == before:  # else edited meanwhile
            more["fingerprint"] = fingerprint(self.folder, self.config)
        record = {**record, **cost.as_dict(), **more}
        write_manifest(self.folder, record)
        if not page.exists():
            self._write_page()  # of the manifest
        outputs = {**record["outputs"], **(stamps_of(self.folder, [page]) or {})}
        write_manifest(self.folder, {**record, "outputs": outputs})
        return code, told

    def result(self) -> Result:
        """Compute what is missing and test the claims; if there is a folder, write all to it."""
        if self.options.out is None:
            return self._result(Cost(), lambda _: None)
        with only_writer(self.folder):
            cost = Cost()
            result = self._result(cost, lambda _: None)
            self._written(result, None, cost)
            self._write_page()
        return result

    def _write_page(self) -> None:
        from dpbench.report.page import write_page  # slow to load

        write_page([self.folder], self.folder / PAGE)

    def _result(self, cost: Cost, say: Say) -> Result:
        """Compute what is missing and test the claims."""
        study, blocks = self.plan.study, self.options.store()

        def run(
            cells: Sequence[Cell], keep: Mapping[str, Bools | bool], *, bounds: bool
        ) -> Results:
            found = run_cells(cells, self.options, blocks, cost, say)
            return collect(study, cells, found, keep, bounds=bounds)

        results = run(self.plan.cells, self.plan.measures, bounds=True)

        def search(cells: Sequence[Cell]) -> Results:
            found = run(cells, {"error": True}, bounds=False)
            results.failures.extend(found.failures)
            return found

        claims = [one.evaluate(label, results, study) for label, one in study.all_claims.items()]
        samples = [
            measure(label, request, study, self.plan.cells, results, search, say)
            for label, request in study.sample_complexity.items()
        ]
        return Result(
            study=study,
            summary=results.summary,
            claims=_joined(claims, COLUMNS)[COLUMNS],
            samples=_joined(samples),
            failures=results.failures,
            cells=self.plan.cells,
            blocks=blocks,
            seed=self.options.seed,
        )

    def _written(self, result: Result, argv: Sequence[str] | None, cost: Cost) -> dict[str, Any]:
        """Write tables, figures and the manifest in place of an earlier run's; the manifest."""
        (self.folder / PAGE).unlink(missing_ok=True)
        tables = {"summary": result.summary, "claims": result.claims, "factors": result.factors}
        tables |= {} if result.samples.empty else {"sample_complexity": result.samples}
        failures = [
            {
                "failure": failure.text,
                "name": failure.replay,
                "replay": "" if argv is None else replay_line(argv, failure.replay),
            }
            for failure in result.failures
        ]
        found = {
            "failures": failures,
            "exit_code": self._code(bool(failures), result.claims),
            "inputs": self._inputs(),
            "tracked": [],
        }
        draw = partial(self._draw, result)
        return self.written(argv, cost, tables, result.scoreboard, draw, **found)

    def _draw(self, result: Result, stamps: Stamps) -> None:
        """Write figures; for a paper as wide as a column, with what includes them, and claims."""
        if self.paper:
            rows = claim_rows(result, list(self.plan.study.all_claims))
            with atomic(self.folder / "claims.tex", stamps) as path:
                path.write_text(claims_table(rows), encoding="utf-8")
        figures, folder = self.plan.study.all_figures, self.folder / "figures"
        width: Width = "column" if self.paper else "page"
        with style(width, self.font) if figures else contextlib.nullcontext():
            for label, figure in figures.items():
                canvas = figure.figure(result)
                save(canvas, folder, label, stamps=stamps)
                if self.paper:
                    write_snippet(figure, result, canvas, folder, label, stamps=stamps)

    def _code(self, failed: bool, claims: pd.DataFrame) -> int:
        """The exit code of a run that is not tracked."""
        gated = self.plan.study.gate and claims["verdict"].isin(failing(CLAIMS)).any()
        return int(failed or gated)

    def _replay(self, name: str) -> int:
        """Run the failure of that name again and show its traceback; nothing is written."""
        n = int(name.partition("n")[2])  # a direct search goes beyond the grid
        requests = self.plan.study.sample_complexity.values()
        for one in self.plan.cells:
            trials = max([one.trials, *(request.trials for request in requests)])
            cell = cell_at(one.family_label, one.family, n, one.settings, trials)
            for task in cell.tasks(self.options.seed):
                try:
                    found = replay(task, name)
                except Exception:  # noqa: BLE001, whatever a plug-in raises is what was asked for
                    traceback.print_exc()
                    return 1
                if found is not None:
                    share = np.isfinite(found.value).mean()
                    print(f"released {share:.0%} of {len(found.value)} trials")
                    return 0
        raise ConfigError(f"replay: {name!r}: no block of this sweep has a failure of that name")

    def _finished(self) -> Mapping[str, Any] | None:
        """The manifest of a finished run of the same."""
        found = finished(self.folder)
        same = found is not None and found.get("inputs") == self._inputs()
        return found if same else None

    def _inputs(self) -> str:
        """A digest of all that the run's files depend on, source and block files included."""
        store = self.options.store()
        assert isinstance(store, Store)
        shown = {key: self.config.get(key) for key in ("sweep", "seed", "trials", "paper", "font")}
        blocks = [(cell.n, cell.blocks, cell.names) for cell in self.plan.cells]
        stamps = stamps_of(store.folder, store.files())  # by names that say source and machine
        return digest(package_source(), shown, blocks, stamps, versions())


def _joined(tables: Sequence[pd.DataFrame], columns: list[str] | None = None) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)
