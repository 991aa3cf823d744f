"""A sweep from its configuration to its verdicts, files and figures."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from dpbench.analysis.claims import COLUMNS, Claim, evaluate
from dpbench.complexity import SampleComplexity, measure
from dpbench.config import Settings, SweepSettings, command_line
from dpbench.drawing import save, style
from dpbench.files import atomic
from dpbench.finished import fingerprint, previous, stamps
from dpbench.registry import ConfigError, from_mapping
from dpbench.report import (
    error_figures,  # noqa: F401 (its figures enter the registry)
    parameter_figures,  # noqa: F401
    sample_figures,  # noqa: F401
    scoreboard,
)
from dpbench.report.figures import Asked, Figure, Results
from dpbench.report.page import PAGE, write_page
from dpbench.runner.block import replay
from dpbench.runner.collect import Collected
from dpbench.runner.manifest import Cost, provenance, versions
from dpbench.runner.plan import Cell, Sweep, cell_at, make_cells, pick
from dpbench.runner.run import RunOptions, run_cells
from dpbench.runner.store import Store
from dpbench.selection import check_claim, rows_about, shares_data, with_parameters
from dpbench.tracking.command import FILES as TRACKED
from dpbench.tracking.command import Tracking

__all__ = ["Study"]


@dataclass(frozen=True)
class Study:
    """A checked sweep, ready to run."""

    name: str
    sweep: Sweep
    cells: list[Cell]
    claims: dict[str, Claim]
    complexity: dict[str, SampleComplexity]
    figures: dict[str, Figure]
    gate: bool
    options: RunOptions
    config: Mapping[str, Any]
    replay: str | None = None
    tracking: Tracking | None = None

    @classmethod
    def prepare(
        cls,
        settings: Settings,
        spec: SweepSettings,
        plugins: tuple[Path, ...],
        config: Mapping[str, Any],
    ) -> Study:
        """Build everything that the configuration names; nothing is run or written.

        Raises
        ------
        ConfigError
            At the first key that cannot be used.
        """
        if settings.replay is not None and settings.track is not None:
            raise ConfigError(f"replay: {settings.replay!r}: nothing is tracked")
        sweep = Sweep.build(settings.sweep)
        claims = {
            str(label): from_mapping(Claim, one, f"sweep.claims.{label}")
            for label, one in spec.claims.items()
        }
        cells = make_cells(sweep, trials=settings.trials)
        for label, claim in claims.items():
            check_claim(sweep, cells, claim, f"sweep.claims.{label}")
        complexity = {
            str(label): from_mapping(SampleComplexity, one, f"sweep.sample_complexity.{label}")
            for label, one in spec.sample_complexity.items()
        }
        for label, request in complexity.items():
            request.check(sweep, cells, f"sweep.sample_complexity.{label}")
        figures = _figures(spec.figures, sweep, Asked(claims, complexity))
        return cls(
            name=spec.name,
            sweep=sweep,
            cells=cells,
            claims=claims,
            complexity=complexity,
            figures=figures,
            gate=spec.gate,
            options=RunOptions.configured(settings, spec.name, plugins),
            config=config,
            replay=settings.replay,
            tracking=Tracking.prepare(settings, spec.name, min(cell.trials for cell in cells)),
        )

    @property
    def folder(self) -> Path:
        """Where all is written."""
        return self.options.out

    @property
    def stores(self) -> Path | None:
        """The baseline that the run replaces, if it does."""
        return self.tracking.path if self.tracking and self.tracking.stored is None else None

    def run(self, words: Sequence[str]) -> int:
        """Run the sweep, write its folder, print its verdicts.

        A finished run whose files are untouched is printed again and nothing else.

        Parameters
        ----------
        words : sequence of str
            The command line, for the next command to type.

        Returns
        -------
        int
            Exit code: 1 if a cell failed, a claim is inconsistent and the sweep gates on
            claims, or errors have become worse than the baseline's; else 0.
        """
        if self.replay is not None:
            return self._replay(self.replay)
        trials = {cell.trials for cell in self.cells}
        cost = Cost(trials=trials.pop() if len(trials) == 1 else None)
        say = scoreboard.console()
        manifest = self.options.out / "manifest.json"
        before = previous(manifest, self._inputs(), self._outputs())
        if before is not None and self.options.resume:
            say.print((self.options.out / "scoreboard.txt").read_text(), end="", markup=False)
            cost.cells_reused = len(self.cells)
            cost.blocks_reused = sum(len(c.tasks(self.options.seed)) for c in self.cells)
            record = {**before, **cost.as_dict()}
        else:
            record = self._run(cost, say, words)
        with atomic(manifest) as path:
            path.write_text(json.dumps(record, indent=2) + "\n")
        code = int(record["exit_code"])
        page = self.options.out / PAGE
        if self.tracking is not None:
            failed = bool(record["failures"])
            code = max(code, self.tracking.run(self.cells, self.options, failed, say))
        if before is None or self.tracking is not None or not page.exists():
            write_page([self.options.out], page)
        scoreboard.print_next(self.name, self.options.out, self.options.seed, cost, words, say)
        return code

    def _run(self, cost: Cost, say: Console, words: Sequence[str]) -> dict[str, Any]:
        """Compute, summarise and write all but the manifest, which is returned."""
        out = self.options.out
        collected = run_cells(self.cells, self.options, self._metrics(), cost, say.print)
        for name in (PAGE, *TRACKED):  # of an earlier run
            (out / name).unlink(missing_ok=True)
        with atomic(out / "summary.csv") as path:
            collected.summary.to_csv(path, index=False)
        claims = self._evaluate(collected)
        with atomic(out / "claims.csv") as path:
            scoreboard.labelled(claims).to_csv(path, index=False, columns=list(COLUMNS))
        samples = self._sample_complexity(collected, cost, say)
        self._draw(Results(self.sweep, collected.summary, claims, samples))
        text = scoreboard.render(collected.summary, claims, samples, collected.failures)
        with atomic(out / "scoreboard.txt") as path:
            path.write_text(text)
        say.print(text, end="", markup=False)
        gated = self.gate and bool((claims["verdict"] == "inconsistent").any())
        return {
            "sweep": self.name,
            "command": command_line(words),
            "configuration": self.config,
            "seed": self.options.seed,
            **provenance(),
            **cost.as_dict(),
            "failures": [
                {"failure": one.text, "replay": command_line([*words, f"replay={one.replay}"])}
                for one in collected.failures
            ],
            "exit_code": 1 if collected.failures or gated else 0,
            "inputs": self._inputs(),
            "outputs": stamps(self._outputs()),
        }

    def _replay(self, name: str) -> int:
        """Run the failure of that name again and show its traceback; nothing is written."""
        n = int(name.partition("n")[2])  # a direct search goes beyond the grid
        trials = [request.trials for request in self.complexity.values()]
        cells = (
            cell_at(c.family_label, c.family, n, c.settings, max([c.trials, *trials]))
            for c in self.cells
        )
        tasks = (task for cell in cells for task in cell.tasks(self.options.seed))
        try:
            found = next((e for e in (replay(task, name) for task in tasks) if e), None)
        except Exception:  # noqa: BLE001, whatever a plug-in raises is what was asked for
            traceback.print_exc()
            return 1
        if found is None:
            raise ConfigError(
                f"replay: {name!r}: no block of this sweep has a failure of that name"
            )
        print(f"released {np.isfinite(found.value).mean():.0%} of {len(found.value)} trials")
        return 0

    def _inputs(self) -> str:
        """A digest of all that the run's files depend on, block files included."""
        store = Store(self.options.out, self.options.plugins)
        paths = [store.path(task) for cell in self.cells for task in cell.tasks(self.options.seed)]
        shown = {key: self.config.get(key) for key in ("sweep", "seed", "trials")}
        return fingerprint(shown, stamps(paths), versions())

    def _outputs(self) -> list[Path]:
        out = self.options.out
        figures = [
            out / "figures" / f"{label}.{kind}"
            for label in self.figures
            for kind in ("pdf", "svg", "png")
        ]
        tables = ["summary.csv", "claims.csv", "scoreboard.txt"]
        tables += ["sample_complexity.csv"] if self.complexity else []
        return [*(out / name for name in tables), *figures]

    def _metrics(self) -> dict[str, set[str]]:
        """The families whose errors claims need, by column."""
        needed: dict[str, set[str]] = {}
        for claim in self.claims.values():
            if claim.replicated:
                families = pick(claim.families, self.sweep.families, "")
                needed.setdefault(claim.replicated, set()).update(families)
        for request in self.complexity.values():
            needed.setdefault("q90", set()).update(pick(request.families, self.sweep.families, ""))
        return needed

    def _sample_complexity(self, collected: Collected, cost: Cost, say: Console) -> pd.DataFrame:
        """Measure what the sweep asks for, and write it."""

        def run(cells: list[Cell]) -> Collected:
            metrics = {"q90": {cell.family_label for cell in cells}}
            found = run_cells(cells, self.options, metrics, cost, say.print)
            collected.failures.extend(found.failures)
            return found

        tables = [
            measure(label, request, self.sweep, self.cells, collected, run, say.print)
            for label, request in self.complexity.items()
        ]
        table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
        if tables:
            with atomic(self.options.out / "sample_complexity.csv") as path:
                table.to_csv(path, index=False)
        return table

    def _evaluate(self, collected: Collected) -> pd.DataFrame:
        summary, tables = collected.summary, []
        for label, claim in self.claims.items():
            regime = summary["n"].between(claim.n_min, claim.n_max or np.inf)
            chosen = np.flatnonzero(rows_about(summary, claim, self.sweep) & regime)
            known = collected.errors[claim.replicated] if claim.replicated else None
            errors = [known[i] for i in chosen] if known else None
            rows = with_parameters(summary.iloc[chosen].reset_index(drop=True), self.sweep)
            tables.append(
                evaluate(label, claim, rows, errors, shared=shares_data(self.sweep, claim))
            )
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)

    def _draw(self, results: Results) -> None:
        if not self.figures:
            return
        with style():
            for label, figure in self.figures.items():
                save(figure.draw(results), self.options.out / "figures", label)


def _figures(specs: Mapping[str, Any], sweep: Sweep, asked: Asked) -> dict[str, Figure]:
    """Make and check the figures of a sweep."""
    figures = {}
    for label, one in specs.items():
        figures[str(label)] = figure = Figure.build(one, f"sweep.figures.{label}")
        figure.check(sweep, asked, f"sweep.figures.{label}")
    return figures
