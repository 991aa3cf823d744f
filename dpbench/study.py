"""A sweep from its configuration to its verdicts, files and figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from dpbench.analysis.claims import COLUMNS, Claim, evaluate, under
from dpbench.config import Settings, SweepSettings
from dpbench.files import atomic
from dpbench.finished import fingerprint, previous, stamps
from dpbench.parameters import ConfigError, from_mapping
from dpbench.privacy import Budget, NonPrivate
from dpbench.report import scoreboard
from dpbench.report.figures import Figure, Results
from dpbench.runner.collect import Collected
from dpbench.runner.manifest import Cost, provenance, versions
from dpbench.runner.plan import Cell, Sweep, make_cells, pick
from dpbench.runner.run import RunOptions, run_cells
from dpbench.runner.store import Store

__all__ = ["Study"]


@dataclass(frozen=True)
class Study:
    """A checked sweep, ready to run."""

    name: str
    sweep: Sweep
    cells: list[Cell]
    claims: dict[str, Claim]
    figures: dict[str, Figure]
    gate: bool
    options: RunOptions
    config: Mapping[str, Any]

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
        sweep = Sweep.build(settings.sweep)
        claims = {
            str(label): from_mapping(Claim, one, f"sweep.claims.{label}")
            for label, one in spec.claims.items()
        }
        cells = make_cells(sweep, trials=settings.trials)
        for label, claim in claims.items():
            _check_claim(sweep, cells, claim, f"sweep.claims.{label}")
        figures = {}
        for label, one in spec.figures.items():
            figures[str(label)] = figure = Figure.build(one, f"sweep.figures.{label}")
            figure.check(sweep, claims, f"sweep.figures.{label}")
        return cls(
            name=spec.name,
            sweep=sweep,
            cells=cells,
            claims=claims,
            figures=figures,
            gate=spec.gate,
            options=RunOptions(
                seed=settings.seed,
                n_jobs=settings.n_jobs,
                runner=settings.runner,
                out=Path(settings.out or f"results/{spec.name}").expanduser(),
                resume=settings.resume,
                plugins=plugins,
            ),
            config=config,
        )

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
            Exit code: 1 if a cell failed, or a claim is inconsistent and the sweep
            gates on claims; else 0.
        """
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
            record = self._run(cost, say)
        with atomic(manifest) as path:
            path.write_text(json.dumps(record, indent=2) + "\n")
        scoreboard.print_next(self.name, self.options.out, cost, words, say)
        return int(record["exit_code"])

    def _run(self, cost: Cost, say: Console) -> dict[str, Any]:
        """Compute, summarise and write all but the manifest, which is returned."""
        out = self.options.out
        collected = run_cells(self.cells, self.options, self._metrics(), cost, say.print)
        claims = self._evaluate(collected)
        with atomic(out / "summary.csv") as path:
            collected.summary.to_csv(path, index=False)
        with atomic(out / "claims.csv") as path:
            scoreboard.labelled(claims).to_csv(path, index=False, columns=list(COLUMNS))
        self._draw(Results(self.sweep, collected.summary, claims))
        text = scoreboard.render(collected.summary, claims, collected.failures)
        with atomic(out / "scoreboard.txt") as path:
            path.write_text(text)
        say.print(text, end="", markup=False)
        gated = self.gate and bool((claims["verdict"] == "inconsistent").any())
        return {
            "sweep": self.name,
            "configuration": self.config,
            "seed": self.options.seed,
            **provenance(),
            **cost.as_dict(),
            "failures": collected.failures,
            "exit_code": 1 if collected.failures or gated else 0,
            "inputs": self._inputs(),
            "outputs": stamps(self._outputs()),
        }

    def _inputs(self) -> str:
        """A digest of all that the run's files depend on, block files included."""
        store = Store(self.options.out, self.options.plugins)
        paths = [store.path(task) for cell in self.cells for task in cell.tasks(self.options.seed)]
        shown = {key: self.config.get(key) for key in ("sweep", "seed", "trials")}
        return fingerprint(shown, stamps(paths), versions())

    def _outputs(self) -> list[Path]:
        out = self.options.out
        figures = [
            out / "figures" / f"{label}.{kind}" for label in self.figures for kind in ("pdf", "png")
        ]
        return [out / "summary.csv", out / "claims.csv", out / "scoreboard.txt", *figures]

    def _metrics(self) -> dict[str, set[str]]:
        """The families whose errors claims need, by column."""
        needed: dict[str, set[str]] = {}
        for claim in self.claims.values():
            if claim.replicated:
                families = pick(claim.families, self.sweep.families, "")
                needed.setdefault(claim.replicated, set()).update(families)
        return needed

    def _evaluate(self, collected: Collected) -> pd.DataFrame:
        summary, tables = collected.summary, []
        for label, claim in self.claims.items():
            chosen = np.flatnonzero(_rows(summary, claim, self.sweep))
            known = collected.errors[claim.replicated] if claim.replicated else None
            errors = [known[i] for i in chosen] if known else None
            rows = summary.iloc[chosen].reset_index(drop=True)
            tables.append(evaluate(label, claim, rows, errors))
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)

    def _draw(self, results: Results) -> None:
        if not self.figures:
            return
        from dpbench.report.style import save, use_style  # slow to load

        use_style()
        for label, figure in self.figures.items():
            save(figure.draw(results), self.options.out / "figures", label)


def _rows(summary: pd.DataFrame, claim: Claim, sweep: Sweep) -> pd.Series[bool]:
    """Which rows of a summary a claim is about."""
    chosen = summary["family"].isin(pick(claim.families, sweep.families, ""))
    chosen &= summary["n"].between(claim.n_min, claim.n_max or np.inf)
    if claim.estimators is not None:
        chosen &= summary["estimator"].isin(pick(claim.estimators, sweep.estimators, ""))
    if claim.budgets is None:
        return chosen & (summary["privacy"] == "none")
    paid = pd.Series(data=False, index=summary.index)
    for label in pick(claim.budgets, sweep.budgets, ""):
        paid |= under(summary, sweep.budgets[label])
    return chosen & paid


def _check_claim(sweep: Sweep, cells: Sequence[Cell], claim: Claim, where: str) -> None:
    """Refuse a claim that nothing of the sweep speaks about."""
    families = pick(claim.families, sweep.families, f"{where}.families")
    estimators = pick(claim.estimators, sweep.estimators, f"{where}.estimators")
    budgets = pick(claim.budgets, sweep.budgets, f"{where}.budgets")
    paid = [NonPrivate()] if claim.budgets is None else [sweep.budgets[b] for b in budgets]
    grid: dict[tuple[str, str, Budget], set[int]] = {}
    for cell in cells:
        if cell.family_label in families and claim.n_min <= cell.n <= (claim.n_max or cell.n):
            for s in cell.settings:
                if s.label in estimators and s.budget in paid:
                    grid.setdefault((cell.family_label, s.label, s.budget), set()).add(cell.n)
    if not grid:
        raise ConfigError(
            f"{where}: the sweep runs none of {estimators} on {families} under "
            f"{budgets if claim.budgets else 'no budget'} with n in the claim's regime"
        )
    variable = claim.statement.variable
    if variable != "factor" and min(len(sizes) for sizes in grid.values()) < 2:
        raise ConfigError(f"{where}: one n in the claim's regime; an exponent needs two or more")
    for label in families:
        k = sweep.families[label].moment_order
        if not np.isfinite(claim.statement.predicted(np.nan if k is None else k)):
            raise ConfigError(f"{where}.families: {label!r}: the theorem needs its moment order")
    if variable == "factor" or claim.statement.metric == "lower_bound":
        for label, _, budget in grid:
            n = min(cell.n for cell in cells if cell.family_label == label)
            if not np.isfinite(sweep.families[label].lower_bound(n, budget)):
                raise ConfigError(f"{where}.families: {label!r}: no lower bound is known for it")
    if variable == "epsilon":
        _check_epsilons(sweep, list(grid), where)


def _check_epsilons(sweep: Sweep, curves: list[tuple[str, str, Budget]], where: str) -> None:
    """Refuse an exponent in epsilon without two of them, or on data that budgets share."""
    found: dict[tuple[str, str, str], set[float]] = {}
    for family, estimator, budget in curves:
        if not sweep.families[family].follows_budget:
            raise ConfigError(
                f"{where}.families: {family!r}: budgets share their data here, so that no "
                "interval for an exponent in epsilon is valid"
            )
        amounts = found.setdefault((family, estimator, budget.label), set())
        amounts.update({getattr(budget, "epsilon", np.nan)} - {np.nan})
    for (family, estimator, notion), amounts in found.items():
        if len(amounts) < 2:
            raise ConfigError(
                f"{where}.budgets: {estimator} on {family} has {len(amounts)} epsilon under "
                f"{notion!r}; two or more are needed"
            )
