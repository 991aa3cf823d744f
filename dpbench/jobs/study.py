"""Job of most sweeps: measure errors of estimators, test claims about them, draw figures."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from dpbench.analysis.claims import COLUMNS
from dpbench.analysis.results import Results, collect
from dpbench.analysis.smallest_n import measure
from dpbench.analysis.study import Study, SweepPlan
from dpbench.arrays import Bools
from dpbench.jobs.base import FolderJob, Next, Outcome
from dpbench.output.files import Stamps, atomic
from dpbench.output.names import Font, Width
from dpbench.output.run_folder import PAGE, only_writer
from dpbench.output.terminal import command_line, replay_line
from dpbench.output.verdicts import CLAIMS, any_fails
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.drawing.style import save, style
from dpbench.report.latex import claim_rows, claims_table, write_snippet
from dpbench.report.result import Result
from dpbench.runner.cost import Cost
from dpbench.runner.origin import environment_digest
from dpbench.runner.run import RunOptions, Say, run_cells
from dpbench.runner.settings import Settings
from dpbench.sweep.block import replay
from dpbench.sweep.plan import Cell, cell_at
from dpbench.tracking.check import FILES as TRACKED
from dpbench.tracking.check import Tracking

__all__ = ["StudyJob"]


@dataclass(frozen=True)
class StudyJob(FolderJob):
    """Job that measures the errors of estimators, with a checked configuration.

    Parameters
    ----------
    options : RunOptions
        Seed, processes and folder of the run.
    config : mapping
        The whole configuration.
    plan : SweepPlan
        Cells (family, n, estimators, budgets) and claims of the study.
    replay : str, optional
        Name of a failure. If given, only this failure is run again.
    tracking : Tracking, optional
        Comparison of the errors with a stored baseline; None for no comparison.
    paper : bool
        If True, write LaTeX files. False by default.
    size : {"page", "column", "slide"}
        Size of the figures.
    font : {"sans", "serif"}
        Font of the figures.
    """

    sweeps: ClassVar[type[Any]] = Study
    sections = (
        "failures", "baseline", "claims", "limit", "figures", "samples", "errors", "origin",
    )  # fmt: skip
    plan: SweepPlan
    replay: str | None = None
    tracking: Tracking | None = None
    paper: bool = False
    size: Width = "page"
    font: Font = "sans"

    @classmethod
    def prepare(
        cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]
    ) -> StudyJob:
        if settings.replay is not None and settings.track is not None:
            raise ConfigError(f"replay: {settings.replay!r}: a replay tracks nothing; omit track=")
        study = from_mapping(Study, settings.sweep, "sweep")
        plan = study.plan(settings.trials)
        trials = min(cell.trials for cell in plan.cells)
        tracking = Tracking.prepare(settings, study.name, trials, study.fail_on_inconsistent)
        size = settings.size or ("column" if settings.paper else "page")
        figure_options = settings.paper, size, settings.font
        return cls(options, config, plan, settings.replay, tracking, *figure_options)

    @property
    def stores(self) -> Path | None:
        return self.tracking.path if self.tracking and self.tracking.update else None

    @property
    def trials(self) -> Sequence[int]:
        return [cell.trials for cell in self.plan.cells]

    @property
    def results(self) -> Sequence[str]:
        tables = ["summary.csv", "claims.csv", "factors.csv"]
        tables += ["sample_complexity.csv"] if self.plan.study.sample_complexity else []
        tables += ["errors.tex", "errors.md"] if self.paper else []
        return [PAGE, *tables, "figures/", "manifest.json"]

    @property
    def next(self) -> Next:
        if self.plan.study.next is not None:
            return "next", [f"sweep={self.plan.study.next}"], None
        if len(set(self.trials)) == 1:
            words = [f"trials={2 * self.trials[0]}"]
            return "more trials, keeping these", words, ["trials=", "resume="]
        seed = self.options.seed + 1
        replication_words = [f"seed={seed}", f"out={self.options.out}-seed{seed}"]
        return "an independent replication", replication_words, ["seed=", "out=", "resume="]

    def run(self, argv: Sequence[str]) -> int:
        return super().run(argv) if self.replay is None else self._replay(self.replay)

    def compute(self, argv: Sequence[str] | None, cost: Cost, say: Say) -> Outcome:
        return self._outcome(self._result(cost, say), argv)

    def track(self, argv: Sequence[str], failed: bool, say: Say) -> tuple[int, list[str]]:
        for name in TRACKED:
            (self.folder / name).unlink(missing_ok=True)
        if self.tracking is None:
            return 0, []
        words = [word for word in argv if not word.startswith("track=")]
        update = command_line([*words, "track=update"])
        code = self.tracking.run(self.plan.cells, self.options, failed, say, update)
        return code, [name for name in TRACKED if (self.folder / name).exists()]

    def result(self) -> Result:
        """Measure the errors, test the claims about them, and return the result.

        If the job has a folder, errors that are stored there are not computed again, and the result
        is written there.
        """
        if self.options.out is None:
            return self._result(Cost(), lambda _: None)
        with only_writer(self.folder):
            cost, before = Cost(), environment_digest(self.config)
            result = self._result(cost, lambda _: None)
            self.finish(self.write(self._outcome(result, None), None, cost), before)
        return result

    def _result(self, cost: Cost, say: Say) -> Result:
        """Measure the errors, test the claims about them, and return the result.

        Stored blocks of trials are read, and all other blocks are computed and stored.
        """
        study, blocks = self.plan.study, self.options.store()

        def run(
            cells: Sequence[Cell], keep: Mapping[str, Bools | bool], *, bounds: bool
        ) -> Results:
            blocks_of_cells = run_cells(cells, self.options, blocks, cost, say)
            return collect(study, cells, blocks_of_cells, keep, bounds=bounds)

        results = run(self.plan.cells, self.plan.measures, bounds=True)

        def search(cells: Sequence[Cell]) -> Results:
            searched = run(cells, {"error": True}, bounds=False)
            results.failures.extend(searched.failures)
            return searched

        claims = [
            claim.evaluate(label, results, study) for label, claim in study.all_claims.items()
        ]
        samples = [
            measure(label, request, study, self.plan.cells, results, search, say)
            for label, request in study.sample_complexity.items()
        ]
        return Result(
            study=study,
            summary=results.summary,
            claims=_concatenate(claims, COLUMNS)[COLUMNS],
            samples=_concatenate(samples),
            failures=results.failures,
            cells=self.plan.cells,
            blocks=blocks,
            seed=self.options.seed,
        )

    def _outcome(self, result: Result, argv: Sequence[str] | None) -> Outcome:
        """Return the tables, text, figures, exit code and failures to write for a result."""
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
        verdicts = [*result.claims["verdict"], *result.claims["theorem_verdict"].dropna()]
        gated = self.plan.study.fail_on_inconsistent and any_fails(CLAIMS, verdicts)
        code = int(bool(failures) or gated)
        return Outcome(tables, result.scoreboard, partial(self._draw, result), code, failures)

    def _draw(self, result: Result, stamps: Stamps) -> None:
        """Draw the figures of a result.

        If `paper` is True, a LaTeX file for each figure, and the tables of `_write_tables`, are
        written, too.
        """
        if self.paper:
            self._write_tables(result, stamps)
        figures, folder = self.plan.study.all_figures, self.folder / "figures"
        with style(self.size, self.font) if figures else contextlib.nullcontext():
            for label, figure in figures.items():
                canvas = figure.figure(result)
                save(canvas, folder, label, stamps=stamps)
                if self.paper:
                    write_snippet(figure, result, canvas, folder, label, stamps=stamps)

    def _write_tables(self, result: Result, stamps: Stamps) -> None:
        """Write a table of errors in LaTeX and in Markdown, and a table of the claims, if any."""
        texts: dict[str, str] = {
            "errors.tex": result.table(format="latex"),
            "errors.md": result.table(format="markdown"),
        }
        if rows := claim_rows(result, list(self.plan.study.all_claims)):
            texts["claims.tex"] = claims_table(rows)
        for name, text in texts.items():
            with atomic(self.folder / name, stamps) as path:
                path.write_text(text, encoding="utf-8")

    def _replay(self, name: str) -> int:
        """Run the estimator with the failure `name` again, print the traceback and return 1.

        If the estimator does not fail again, print the share of trials with a release and return 0.
        """
        # n may be outside the grid, because a search for the smallest n chooses its own n.
        n = int(name.partition("n")[2])
        requests = self.plan.study.sample_complexity.values()
        for planned in self.plan.cells:
            trials = max([planned.trials, *(request.trials for request in requests)])
            cell = cell_at(planned.family_label, planned.family, n, planned.settings, trials)
            for task in cell.tasks(self.options.seed):
                try:
                    estimate = replay(task, name)
                except Exception:  # noqa: BLE001, plug-ins may raise any exception
                    traceback.print_exc()
                    return 1
                if estimate is not None:
                    share = np.isfinite(estimate.value).mean()
                    print(f"released {share:.0%} of {len(estimate.value)} trials")
                    return 0
        raise ConfigError(f"replay: {name!r}: no block of this sweep has a failure of that name")


def _concatenate(tables: Sequence[pd.DataFrame], columns: list[str] | None = None) -> pd.DataFrame:
    """Concatenate tables; if there are none, return an empty table with the given columns."""
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)
