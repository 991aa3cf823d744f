"""Give access to the results of a run: tables, errors of every trial, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.claims import completed_row
from dpbench.analysis.factors import factors
from dpbench.analysis.oracle import exact_values
from dpbench.analysis.results import Failure
from dpbench.analysis.scoreboard import render
from dpbench.analysis.study import Figure, Study
from dpbench.errors import choose_from
from dpbench.output.style import Axes, Canvas, Font, Width, style
from dpbench.registry import ConfigError
from dpbench.runner.store import Memory, Store
from dpbench.sweep.metrics import ERRORS
from dpbench.sweep.plan import Cell, key_table
from dpbench.sweep.selection import completed

__all__ = ["Result", "read_result"]


@dataclass(frozen=True)
class Result:
    """Tables of a run of a study, and the errors of its trials.

    Attributes
    ----------
    study : Study
        The study that was run.
    summary, claims, samples : DataFrame
        The tables ``summary.csv``, ``claims.csv`` and ``sample_complexity.csv``.
    failures : list of Failure
        Settings that raised an error.
    cells : list of Cell
        Cells of the run.
    blocks : Store or Memory
        Store of the blocks, from which `errors` reads.
    seed : int
        Seed of the run.
    """

    study: Study
    summary: pd.DataFrame
    claims: pd.DataFrame
    samples: pd.DataFrame
    failures: Sequence[Failure] = field(repr=False)
    cells: Sequence[Cell] = field(repr=False)
    blocks: Store | Memory = field(repr=False)
    seed: int = 0

    @cached_property
    def factors(self) -> pd.DataFrame:
        """Return ``factors.csv``; see `dpbench.analysis.factors.factors`."""
        return self.factors_of(self.summary)

    def factors_of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the factors of some rows of the summary, exact where exact errors are known."""
        return factors(rows, partial(exact_values, sweep=self.study, metric="q90"))

    def errors(self, **about: Any) -> pd.DataFrame:
        """Return the errors of every trial, with their parts.

        Parameters
        ----------
        **about
            Selected value, or list of values, by column of the summary:
            ``estimator="minimax", n=1000, epsilon=0.1``. By default all rows.

        Returns
        -------
        DataFrame
            A row for each key and trial: the columns of a key, ``trial``, ``error, sampling, bias,
            noise, private``, and further values of blocks; see `dpbench.sweep.block.Block`.

        Raises
        ------
        KeyError
            If there is no such column.
        """
        keys = key_table(self.study, self.cells, bounds=False)
        wanted = pd.Series(data=True, index=keys.index)
        for name, value in about.items():
            if name not in keys:
                raise KeyError(f"{name!r}: no such column; choose from {', '.join(map(str, keys))}")
            alone = value is None or np.isscalar(value)
            wanted &= keys[name].isin([value] if alone else list(value))
        tables, first = [keys.iloc[:0].assign(trial=0, **dict.fromkeys(ERRORS, np.nan))], 0
        for cell in self.cells:
            last = first + len(cell.members) * len(cell.settings)
            at = np.flatnonzero(wanted.iloc[first:last])
            for index, task in enumerate(cell.tasks(self.seed) if at.size else ()):
                block = self.blocks.read(task)
                trials = np.arange(task.trials) + index * task.trials
                kept = trials < cell.trials
                table = keys.iloc[np.repeat(first + at, kept.sum())].reset_index(drop=True)
                values = {name: v[at][:, kept].ravel() for name, v in block.values.items()}
                tables.append(table.assign(trial=np.tile(trials[kept], at.size), **values))
            first = last
        return pd.concat(tables[1:] or tables, ignore_index=True)

    def figure(
        self, name: str | Mapping[str, Any], *, width: Width = "page", font: Font = "sans"
    ) -> Canvas:
        """Draw a figure on a new canvas.

        Parameters
        ----------
        name : str or mapping
            Label of a figure of the study, or the configuration of a new figure as in a sweep.
        width : {'page', 'column'}
            Width of the canvas: a whole page, or a column of a paper.
        font : {'sans', 'serif'}
            Font family.

        Returns
        -------
        Canvas

        Raises
        ------
        ConfigError
            If there is no such figure, or the study did not run what it shows.
        """
        with style(width, font):
            canvas: Canvas = self._figure(name).figure(self)
        return canvas

    def plot(
        self, name: str | Mapping[str, Any], ax: Axes | None = None, *, panel: int | None = None
    ) -> Axes:
        """Draw a figure on the caller's axes, in the caller's style.

        Parameters
        ----------
        name : str or mapping
            As in `figure`.
        ax : Axes, optional
            Axes to draw on, by default pyplot's current axes. Several panels are drawn in a grid
            in their place.
        panel : int, optional
            The only panel to draw, from 0. By default draw all.

        Returns
        -------
        Axes
            The axes `ax`.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.gca()
        self._figure(name).figure(self, ax=ax, panel=panel)
        return ax

    def _figure(self, name: str | Mapping[str, Any]) -> Figure:
        if isinstance(name, str):
            known = self.study.all_figures
            if name not in known:
                choices = known or ["none: the sweep has no figures"]
                raise ConfigError(f"figure: {name!r}: no such figure; {choose_from(name, choices)}")
            return known[name]
        figure = Figure.build(name, "figure")
        keys = key_table(self.study, self.cells, bounds=False)
        figure.check(self.study, keys, "figure")
        return figure

    @property
    def scoreboard(self) -> str:
        """Return verdicts, factors over lower bounds, sample complexities and failures as text."""
        return render(
            self.study,
            summary=self.summary,
            claims=self.claims,
            factors=self.factors,
            samples=self.samples,
            failures=self.failures,
        )

    def __str__(self) -> str:
        return self.scoreboard


def read_result(study: Study, folder: Path, manifest: Mapping[str, Any]) -> Result:
    """Read the result that a finished run of a study has written.

    Parameters
    ----------
    study : Study
        The study that was run.
    folder : Path
        Folder of the run.
    manifest : mapping
        Contents of its ``manifest.json``.

    Returns
    -------
    Result
    """
    return Result(
        study=study,
        summary=_table(folder / "summary.csv"),
        claims=_claims(_table(folder / "claims.csv"), study),
        samples=_table(folder / "sample_complexity.csv"),
        failures=[Failure(one["failure"], one["name"]) for one in manifest["failures"]],
        cells=study.plan(manifest["configuration"].get("trials")).cells,
        blocks=Store(folder, manifest["computer"]),
        seed=manifest["seed"],
    )


def _claims(table: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Add the columns that the claims of an older run lack, see `completed_row`."""
    if "theorem_verdict" in table or table.empty:
        return table
    about = [(row, study.all_claims[row["claim"]]) for row in table.to_dict("records")]
    return pd.DataFrame(
        completed_row(row, finite=bool(getattr(one, "finite", False)), subject=one.subject)
        for row, one in about
    )


def _table(path: Path) -> pd.DataFrame:
    """Read a table of a run; only empty cells are missing values, because 'none' is a label."""
    if not path.exists():
        return pd.DataFrame()
    labels = ("claim", "request", "distribution", "family", "estimator", "privacy", "bound_name")
    known = dict.fromkeys(labels, str)  # labels may look like numbers
    table = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=known)
    return completed(table.fillna({"bound_name": ""}))
