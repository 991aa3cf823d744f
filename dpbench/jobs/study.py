"""Job of most sweeps: measure errors of estimators, test claims about them, draw figures."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import pandas as pd

from dpbench.analysis.claim_kinds import Level
from dpbench.analysis.claims import COLUMNS, shown_verdicts
from dpbench.analysis.smallest_n import measure
from dpbench.analysis.summary_table import Results, collect
from dpbench.arrays import Bools, Floats
from dpbench.jobs.base import FolderJob, Next, Outcome
from dpbench.output.files import Checksums, atomic
from dpbench.output.names import Font, Width
from dpbench.output.run_folder import PAGE, only_writer
from dpbench.output.terminal import TO_DECIDE, rerun_line
from dpbench.output.verdicts import CLAIMS, any_fails
from dpbench.registry import MAX_TRIALS, from_mapping
from dpbench.report.answer import trials_to_decide
from dpbench.report.drawing.style import PRINT, save, style
from dpbench.report.latex import claim_rows, claims_table, write_snippet
from dpbench.report.run_result import Result
from dpbench.report.study import Study, SweepPlan
from dpbench.runner.cost import Cost
from dpbench.runner.execute import Runner, compute
from dpbench.runner.origin import environment_digest
from dpbench.runner.run import RunOptions, Say, run_cells
from dpbench.runner.settings import Settings
from dpbench.sweep.block import most_trials
from dpbench.sweep.plan import Cell

__all__ = ["StudyJob"]


@dataclass(frozen=True)
class StudyJob(FolderJob):
    """Job that measures the errors of estimators, with a checked configuration.

    If `paper` is True, it writes LaTeX files. `size` (``page``, ``column``, ``slide``) and `font`
    (``sans``, ``serif``) are those of the figures. Figures of another size than ``page``, and those
    of a paper, are also written as PDF and PNG.
    """

    sweeps: ClassVar[type[Any]] = Study
    sections: ClassVar[tuple[str, ...]] = (
        "failures",
        "claims",
        "limit",
        "figures",
        "samples",
        "errors",
        "origin",
    )
    plan: SweepPlan
    paper: bool = False
    size: Width = "page"
    font: Font = "sans"

    @classmethod
    def prepare(cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]) -> Self:
        study = from_mapping(Study, settings.sweep, "sweep")
        plan = study.plan(settings.trials)
        size = settings.size or ("column" if settings.paper else "page")
        return cls(options, config, plan, settings.paper, size, settings.font)

    @property
    def trials(self) -> Sequence[int]:
        return [cell.trials for cell in self.plan.cells]

    @property
    def results(self) -> Sequence[str]:
        tables = ["summary.csv", "claims.csv", "factors.csv"]
        tables += ["sample_complexity.csv"] if self.plan.study.sample_complexity else []
        tables += ["errors.tex", "errors.md"] if self.paper else []
        return [PAGE, *tables, "figures/", "manifest.json"]

    def _next(self, result: Result) -> Next:
        """Return the next command to suggest; more trials only if they may decide something."""
        study, rows = self.plan.study, result.claims.to_dict("records")
        needed = trials_to_decide(result.claims, result.summary, study)
        if 0 < needed <= MAX_TRIALS:
            return TO_DECIDE, [f"trials={needed:.0f}"], ["trials=", "resume="]
        if study.see_next is not None:
            return "next", [f"sweep={study.see_next}"], None
        words = {shown_verdicts(row)[0] for row in rows}
        is_open = "inconclusive" in words and "inconsistent" not in words
        if len(set(self.trials)) == 1 and (is_open or not rows):
            few, many = self.trials[0], 2 * self.trials[0]
            kept = ", keeping these" if most_trials(few) == most_trials(many) else ""
            return f"more trials{kept}", [f"trials={many}"], ["trials=", "resume="]
        seed = self.options.seed + 1
        replication_words = [f"seed={seed}", f"out={self.options.out}-seed{seed}"]
        return "an independent replication", replication_words, ["seed=", "out=", "resume="]

    def compute(self, argv: Sequence[str] | None, cost: Cost, say: Say) -> Outcome:
        return self._outcome(self._result(cost, say), argv)

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

        claims = self._evaluate_claims(results)
        samples = [
            measure(label, request, study, self.plan.cells, results, search, say)
            for label, request in study.sample_complexity.items()
        ]
        return Result(
            study=study,
            summary=results.summary,
            claims=claims,
            samples=_concatenate(samples),
            failures=results.failures,
            cells=self.plan.cells,
            blocks=blocks,
            seed=self.options.seed,
        )

    def _evaluate_claims(self, results: Results) -> pd.DataFrame:
        """Test the claims about the results on several processes, and return their table.

        The study and the results keep what the claims have computed for later use.
        """
        study, options, tables = self.plan.study, self.options, dict[str, pd.DataFrame]()
        tasks = [
            (label, results.select(claim.rows(results.summary, study)))
            for label, claim in study.all_claims.items()
        ]
        # The longest first: levels, because they compute exact values, and those of many rows.
        tasks.sort(
            key=lambda t: (not isinstance(study.all_claims[t[0]], Level), -len(t[1].summary))
        )
        evaluate = partial(_evaluate_claim, study)
        done = compute(evaluate, tasks, Runner(), options.n_jobs, options.origin)
        for (label, _), (table, exact_values, replicate_cache) in done:
            tables[label] = table
            study.exact_values.update(exact_values)
            results.replicate_cache.update(replicate_cache)
        return _concatenate([tables[label] for label in study.all_claims], COLUMNS)[COLUMNS]

    def _outcome(self, result: Result, argv: Sequence[str] | None) -> Outcome:
        """Return the tables, text, figures, exit code and failures to write for a result."""
        tables = {"summary": result.summary, "claims": result.claims, "factors": result.factors}
        tables |= {} if result.samples.empty else {"sample_complexity": result.samples}
        failures = [
            {
                "failure": failure.text,
                "name": failure.rerun,
                "rerun": "" if argv is None else rerun_line(argv, failure.rerun),
            }
            for failure in result.failures
        ]
        verdicts = [*result.claims["verdict"], *result.claims["theorem_verdict"].dropna()]
        gated = self.plan.study.fail_on_inconsistent and any_fails(CLAIMS, verdicts)
        code = int(bool(failures) or gated)
        draw = partial(self._draw, result)
        return Outcome(tables, lambda: result.scoreboard, draw, code, failures, self._next(result))

    def _draw(self, result: Result, checksums: Checksums) -> None:
        """Draw the figures of a result, on several processes.

        If `paper` is True, a LaTeX file for each figure, and the tables of `_write_tables`, are
        written, too.
        """
        if self.paper:
            self._write_tables(result, checksums)
        options, labels = self.options, list(self.plan.study.all_figures)
        draw = partial(_draw_figure, result, self.folder, self.paper, self.size, self.font)
        for _, drawn in compute(draw, labels, Runner(), options.n_jobs, options.origin):
            checksums.update(drawn)

    def _write_tables(self, result: Result, checksums: Checksums) -> None:
        """Write a table of errors in LaTeX and in Markdown, and a table of the claims, if any."""
        texts: dict[str, str] = {
            "errors.tex": result.table(format="latex"),
            "errors.md": result.table(format="markdown"),
        }
        if rows := claim_rows(result, list(self.plan.study.all_claims)):
            texts["claims.tex"] = claims_table(rows)
        for name, text in texts.items():
            with atomic(self.folder / name, checksums) as path:
                path.write_text(text, encoding="utf-8")


def _evaluate_claim(
    study: Study, task: tuple[str, Results]
) -> tuple[pd.DataFrame, dict[Hashable, float], dict[Hashable, Floats]]:
    """Test one claim, given its label and the results that it is about.

    Return its rows of the table of claims, and the exact values and replicates it has computed.
    """
    label, results = task
    table = study.all_claims[label].evaluate(label, results, study)
    return table, study.exact_values, results.replicate_cache


def _draw_figure(
    result: Result, run_folder: Path, paper: bool, size: Width, font: Font, label: str
) -> Checksums:
    """Draw one figure of a result, and return the checksums of its files."""
    figure, folder, checksums = result.study.all_figures[label], run_folder / "figures", Checksums()
    save_figure = partial(save, kinds=PRINT) if paper or size != "page" else save
    with style(size, font):
        canvas = figure.figure(result)
        save_figure(canvas, folder, label, checksums=checksums)
        if paper:
            write_snippet(figure, result, canvas, folder, label, checksums=checksums)
    return checksums


def _concatenate(tables: Sequence[pd.DataFrame], columns: list[str] | None = None) -> pd.DataFrame:
    """Concatenate tables; if there are none, return an empty table with the given columns."""
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)
