"""The sweep ``libraries``: other libraries' means, measured and audited."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbench.audit.releases import COLUMNS, AuditTask, audit
from dpbench.audit.report import strongest
from dpbench.jobs.base import InFolder
from dpbench.libraries.measure import Found, Row, cell_rows, claim_rows, hostile_rows, status
from dpbench.libraries.report import benchmarks, figure, overview, render
from dpbench.libraries.sweep import LibrarySweep
from dpbench.output.files import Stamps
from dpbench.output.folder import only_writer
from dpbench.output.style import save, style
from dpbench.output.terminal import progress, say
from dpbench.output.verdicts import CLAIMS, failing
from dpbench.registry import ConfigError, from_mapping
from dpbench.runner.cost import Cost
from dpbench.runner.run import RunOptions
from dpbench.runner.settings import Settings
from dpbench.sweep.block import Setting
from dpbench.sweep.plan import Cell
from dpbench.sweep.selection import choose

__all__ = ["Libraries"]

Tables = dict[str, pd.DataFrame]


@dataclass(frozen=True)
class Libraries(InFolder):
    """A checked sweep of libraries, ready to run, by one process for the sake of times.

    Noise of libraries cannot be seeded: every run measures anew.
    """

    sweep: LibrarySweep
    cells: list[Cell]
    audits: list[AuditTask]
    options: RunOptions
    config: Mapping[str, Any]

    @classmethod
    def prepare(
        cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]
    ) -> Libraries:
        """Build everything that the configuration names; nothing is run or written.

        Raises
        ------
        ConfigError
            At the first key that cannot be used.
        """
        sweep = from_mapping(LibrarySweep, settings.sweep, "sweep")
        settings.without_errors("libraries", "libraries")
        order = list(sweep.families)
        cells = sorted(sweep.cells(settings.trials), key=lambda one: order.index(one.family_label))
        return cls(sweep, cells, sweep.audits(settings.seed), options, config)

    @property
    def settings(self) -> dict[str, Setting]:
        """By label each estimator, with its largest epsilon."""
        found = [one for cell in self.cells for one in cell.settings]
        return {one.label: one for one in sorted(found, key=lambda one: one.budget.amounts)}

    def run(self, argv: Sequence[str], page: Callable[[Path], object] = lambda _: None) -> int:
        """Measure, write the tables, print what was found.

        Parameters
        ----------
        argv : sequence of str
            The command's words.
        page : callable
            Writes what is to be written of a finished folder, before anything is printed.

        Returns
        -------
        int
            1 if the process of a library has ended, a claim is inconsistent, or the audit does
            not refute what it is known to; else 0, also if some are not installed.

        Raises
        ------
        ConfigError
            If none is.
        """
        cost = Cost()
        with only_writer(self.folder):
            tables = self._tables(cost)
            text = render(tables["overview"], tables["claims"])
            unlike = [
                f"audit: {row['estimator']}: {row['verdict']}, {row['expected']} was expected\n"
                for row in strongest(tables["audit"]).to_dict("records")
                if row["verdict"] != row["expected"]
            ]
            text += "".join(unlike)
            said = pd.concat([tables["overview"]["version"], tables["libraries"]["told"]])
            wrong = said.str.contains("process ended").any()
            wrong |= tables["claims"]["verdict"].isin(failing(CLAIMS)).any()
            code = int(bool(unlike) or wrong)
            draw = partial(self._draw, tables)
            self.written(argv, cost, tables, text, draw, failures=[], exit_code=code)
            page(self.folder)
        say(text.rstrip("\n"))
        say(f"{cost.cells_done} cells done, {time.monotonic() - cost.started:.1f} s")
        say(f"results: {self.folder}/overview.csv, libraries.csv, hostile.csv, report.html")
        return code

    def _tables(self, cost: Cost) -> Tables:
        """All tables, by the names of their files."""
        order = [label for label in self.sweep.estimators if label in self.settings]
        known = {label: status(self.settings[label].estimator) for label in order}
        skip = {label: why for label, (why, runs) in known.items() if not runs}
        if len(skip) == len(known):
            label, why = next(iter(skip.items()))
            raise ConfigError(f"sweep.estimators: none of these can run; {label}: {why}")
        how, seed = self.sweep.libraries, self.options.seed
        chosen = choose(how.hostile.estimators, self.sweep.estimators)
        met = [label for label in chosen if label in known and label not in skip]
        audits = [task for task in self.audits if task.label not in skip]
        rows: list[Found] = []
        hostile: list[Row] = []
        bounds: list[Row] = []
        with progress("cells", len(self.cells) + len(met) + len(audits), "done") as advance:
            for cell in self.cells:
                rows += cell_rows(cell, how, seed, skip)
                advance()
            for label in met:
                hostile += hostile_rows(label, self.settings[label], how, seed)
                advance()
            for task in audits:
                bounds += audit(task)
                advance()
        cost.cells_done = cost.blocks_done = len(self.cells)
        versions = [(label, version) for label, (version, _) in known.items()]
        tables = {
            "libraries": pd.DataFrame([row for row, _ in rows]),
            "hostile": pd.DataFrame(hostile, columns=["estimator", "column", "outcome", "told"]),
            "audit": self._expected(pd.DataFrame(bounds, columns=list(COLUMNS))),
            "claims": claim_rows(self.sweep.claims, rows),
        }
        about = pd.DataFrame(versions, columns=["estimator", "version"])
        shown = overview(about, tables["libraries"], tables["hostile"], tables["audit"])
        return {"overview": shown, **tables}

    def _expected(self, bounds: pd.DataFrame) -> pd.DataFrame:
        """With the verdict that each estimator's strongest pair is known to have."""
        known = choose(list(self.sweep.libraries.refuted), self.sweep.estimators)
        refuted = bounds["estimator"].isin(list(known))
        return bounds.assign(expected=np.where(refuted, "refuted", "not refuted"))

    def _draw(self, tables: Tables, stamps: Stamps) -> None:
        with style(font=self.config.get("font", "sans")):
            how, rows = self.sweep.libraries, tables["libraries"]
            drawn = {
                "libraries": figure(tables["overview"], rows),
                "benchmarks": benchmarks(rows, how.upper - how.lower),
            }
            for name, canvas in drawn.items():
                save(canvas, self.folder / "figures", name, stamps=stamps)
