"""A run with a folder: what is finished is recognised, what is computed is written."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpbench.config import Settings, command_line
from dpbench.output import atomic, console
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.page import PAGE, write_page
from dpbench.result import Result, compute, read_manifest
from dpbench.runner.block import replay
from dpbench.runner.plan import cell_at
from dpbench.runner.provenance import Cost, provenance, versions
from dpbench.runner.run import RunOptions
from dpbench.runner.store import Store
from dpbench.scoreboard import print_next
from dpbench.seeds import digest
from dpbench.study import Plan, Study
from dpbench.tracking.command import FILES as TRACKED
from dpbench.tracking.command import Tracking

__all__ = ["Job"]

PACKAGE = Path(__file__).parent


@dataclass(frozen=True)
class Job:
    """A checked study, ready to run in a folder.

    Attributes
    ----------
    plan : Plan
    options : RunOptions
    config : mapping
        The whole configuration, for the manifest.
    replay : str, optional
        The failure that is to be run again.
    tracking : Tracking, optional
        What to do with the errors.
    """

    plan: Plan
    options: RunOptions
    config: Mapping[str, Any]
    replay: str | None = None
    tracking: Tracking | None = None

    @classmethod
    def prepare(cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]) -> Job:
        """Build everything that the configuration names; nothing is run or written.

        Raises
        ------
        ConfigError
            At the first key that cannot be used.
        """
        if settings.replay is not None and settings.track is not None:
            raise ConfigError(f"replay: {settings.replay!r}: nothing is tracked")
        study = from_mapping(Study, settings.sweep, "sweep")
        plan = study.plan(settings.trials)
        trials = min(cell.trials for cell in plan.cells)
        tracking = Tracking.prepare(settings, study.name, trials, study.gate)
        return cls(plan, options, config, settings.replay, tracking)

    @property
    def folder(self) -> Path:
        """Where all is written."""
        assert self.options.out is not None
        return self.options.out

    @property
    def stores(self) -> Path | None:
        """The baseline that the run replaces, if it does."""
        return self.tracking.path if self.tracking and self.tracking.update else None

    def result(
        self, argv: Sequence[str] | None, cost: Cost, say: Callable[[str], None] = lambda _: None
    ) -> Result:
        """Compute; if there is a folder, write all to it."""
        result = compute(self.plan, self.options, cost, say)
        if self.options.out is not None:
            write_manifest(self.folder, self._write(result, argv, cost))
        return result

    def run(self, argv: Sequence[str]) -> int:
        """Run the study, write its folder, print its verdicts.

        A finished run whose files are untouched is printed again and nothing else.

        Parameters
        ----------
        argv : sequence of str
            The command line, for the next command to type.

        Returns
        -------
        int
            Exit code: 1 if a cell failed, a claim is inconsistent and the sweep gates on
            claims, or errors have become worse than the baseline's; else 0.
        """
        if self.replay is not None:
            return self._replay(self.replay)
        trials = {cell.trials for cell in self.plan.cells}
        cost = Cost(trials=trials.pop() if len(trials) == 1 else None)
        say = console()
        before = self._finished() if self.options.resume else None
        if before is not None:
            cost.cells_reused = len(self.plan.cells)
            cost.blocks_reused = sum(len(c.tasks(self.options.seed)) for c in self.plan.cells)
            write_manifest(self.folder, {**before, **cost.as_dict()})
        else:
            self.result(argv, cost, say.print)
        say.print((self.folder / "scoreboard.txt").read_text(), end="", markup=False)
        record = read_manifest(self.folder)
        code, page = int(record["exit_code"]), self.folder / PAGE
        if self.tracking is not None:
            failed = bool(record["failures"])
            code = max(code, self.tracking.run(self.plan.cells, self.options, failed, say))
        if before is None or self.tracking is not None or not page.exists():
            write_page([self.folder], page)
        name, seed = self.plan.study.name, self.options.seed
        print_next(name, self.folder, seed, cost, argv, say)
        return code

    def _write(self, result: Result, argv: Sequence[str] | None, cost: Cost) -> dict[str, Any]:
        """Write all but the manifest, which is returned."""
        # of an earlier run; the manifest, which says that all is there, goes first
        for name in ("manifest.json", PAGE, "sample_complexity.csv", *TRACKED):
            (self.folder / name).unlink(missing_ok=True)
        tables = {"summary.csv": result.summary, "claims.csv": result.claims}
        tables |= {} if result.samples.empty else {"sample_complexity.csv": result.samples}
        for name, table in tables.items():
            with atomic(self.folder / name) as path:
                table.to_csv(path, index=False)
        self._draw(result)
        with atomic(self.folder / "scoreboard.txt") as path:
            path.write_text(result.scoreboard)
        gated = self.plan.study.gate and bool((result.claims["verdict"] == "inconsistent").any())
        return {
            "sweep": self.plan.study.name,
            "command": None if argv is None else command_line(argv),
            "configuration": self.config,
            "seed": self.options.seed,
            "source": self.options.source,
            **provenance(),
            **cost.as_dict(),
            "failures": [
                {"failure": one.text, "name": one.replay, "replay": _replayed(argv, one.replay)}
                for one in result.failures
            ],
            "exit_code": 1 if result.failures or gated else 0,
            "inputs": self._inputs(),
            "outputs": _stamps(self._outputs()),
        }

    def _draw(self, result: Result) -> None:
        if not self.plan.study.all_figures:
            return
        from dpbench.drawing import save, style  # slow to load

        with style("page"):
            for label, figure in self.plan.study.all_figures.items():
                save(figure.figure(result), self.folder / "figures", label)

    def _replay(self, name: str) -> int:
        """Run the failure of that name again and show its traceback; nothing is written."""
        n = int(name.partition("n")[2])  # a direct search goes beyond the grid
        trials = [request.trials for request in self.plan.study.sample_complexity.values()]
        cells = (
            cell_at(c.family_label, c.family, n, c.settings, max([c.trials, *trials]))
            for c in self.plan.cells
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

    def _finished(self) -> Mapping[str, Any] | None:
        """The manifest of a finished run of the same whose outputs are untouched, if any.

        Files whose size and time of change are those recorded are taken as untouched.
        """
        try:
            found: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        except (OSError, ValueError):
            return None
        same = found.get("inputs") == self._inputs()
        return found if same and found.get("outputs") == _stamps(self._outputs()) else None

    def _inputs(self) -> str:
        """A digest of all that the run's files depend on, source and block files included."""
        store = Store(self.folder, self.options.source)
        tasks = (task for cell in self.plan.cells for task in cell.tasks(self.options.seed))
        shown = {key: self.config.get(key) for key in ("sweep", "seed", "trials")}
        source = [
            (path.relative_to(PACKAGE).as_posix(), path.read_text())
            for path in sorted(PACKAGE.rglob("*"))
            if path.suffix in {".py", ".html", ".css", ".js"}
        ]
        return digest(source, shown, _stamps(store.path(task) for task in tasks), versions())

    def _outputs(self) -> list[Path]:
        study, out = self.plan.study, self.folder
        tables = ["summary.csv", "claims.csv", "scoreboard.txt"]
        tables += ["sample_complexity.csv"] if study.sample_complexity else []
        kinds = ("pdf", "svg", "png")
        figures = [f"figures/{label}.{kind}" for label in study.all_figures for kind in kinds]
        return [out / name for name in (*tables, *figures)]


def _replayed(argv: Sequence[str] | None, name: str) -> str:
    """The command that runs a failure again; what was run from Python has none."""
    return "" if argv is None else command_line([*argv, f"replay={name}"])


def write_manifest(folder: Path, record: Mapping[str, Any]) -> None:
    """Write ``manifest.json``, which says that a run is finished."""
    with atomic(folder / "manifest.json") as path:
        path.write_text(json.dumps(record, indent=2) + "\n")


def _stamps(paths: Iterable[Path]) -> dict[str, list[int]] | None:
    """Size and time of change of every file, by name; None if one is missing."""
    found = {}
    for path in paths:
        try:
            state = path.stat()
        except OSError:
            return None
        found[path.name] = [state.st_size, state.st_mtime_ns]
    return found
