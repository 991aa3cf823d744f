"""Give access to the results of a run: tables, errors of every trial, figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import pandas as pd

from dpbench.analysis.exact_of_sweep import exact_values
from dpbench.analysis.factors import factors
from dpbench.analysis.summary_table import Failure
from dpbench.errors import ArgumentError, check_instance, choose_from, describe_value
from dpbench.output.names import Font, Width
from dpbench.output.run_folder import read_manifest
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.answer import asks_whether
from dpbench.report.drawing.style import Axes, Canvas, style
from dpbench.report.overview import check_values, describe, describe_as_html, overview
from dpbench.report.scoreboard import render
from dpbench.report.study import Figure, Study, Table
from dpbench.runner.store import Memory, Store
from dpbench.sweep.metrics import ERRORS
from dpbench.sweep.plan import Cell, key_table

__all__ = ["Result", "load_result", "read_result"]

# Keyword arguments by which `Result.table` selects rows.
TABLE_SELECTION = ("families", "estimators", "budgets", "n")


@dataclass(frozen=True, repr=False)
class Result:
    """Tables of a run of a study, and the errors of its trials.

    Attributes
    ----------
    study : Study
        The study that was run.
    summary, claims, samples : DataFrame
        The tables ``summary.csv``, ``claims.csv`` and ``sample_complexity.csv``.
    failures : list of Failure
        Error messages of the settings that raised an error. A setting is an estimator with a
        budget.
    cells : list of Cell
        Cells of the run. A cell is a family at one n, with all settings that run on its data.
    blocks : Store or Memory
        Store of the errors of all trials, from which the method `errors` reads.
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
        """Return the table ``factors.csv``: the best estimators' errors divided by lower bounds.

        See `dpbench.analysis.factors.factors`.
        """
        return self.factors_of(self.summary)

    def factors_of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Divide the best estimators' errors by lower bounds, for some rows of the summary.

        A quotient is exact if the exact error is known. Else it comes from trials.
        """
        check_instance("rows", rows, pd.DataFrame, "a table", "rows of result.summary")
        return factors(rows, partial(exact_values, sweep=self.study, metric="q90"))

    def errors(self, **selected: Any) -> pd.DataFrame:
        """Return the error of every trial, with its parts: sampling error, bias and noise.

        Parameters
        ----------
        **selected
            Selected value, or list of values, for columns of the summary, as in
            ``estimator="minimax", n=1000, epsilon=0.1``. By default all rows are selected.

        Returns
        -------
        DataFrame
            A row for each result and trial. The columns are those that identify the result
            (distribution, estimator, budget, n and parameters), ``trial``, ``error``, its parts
            ``sampling``, ``bias`` and ``noise``, ``private`` (bias + noise), and further
            measurements of trials; see `dpbench.sweep.block.Block`.

        Raises
        ------
        KeyError
            If the summary has no column of a selected name, or no row with a selected value; the
            message lists the names or values that there are.
        """
        keys = key_table(self.study, self.cells, bounds=False)
        values_of: dict[str, list[Any]] = {}
        for name, value in selected.items():
            if name not in keys:
                raise KeyError(f"{name!r}: no such column; {choose_from(name, map(str, keys))}")
            is_single = value is None or np.isscalar(value)
            if not is_single and not isinstance(value, Iterable):
                raise ArgumentError(f"{name}: {describe_value(value)}: write a value or a list")
            values_of[name] = [value] if is_single else list(value)
        check_values(keys, values_of)
        mask = pd.Series(data=True, index=keys.index)
        for name, values in values_of.items():
            mask &= keys[name].isin(values)
        tables, first = [keys.iloc[:0].assign(trial=0, **dict.fromkeys(ERRORS, np.nan))], 0
        for cell in self.cells:
            last = first + len(cell.members) * len(cell.settings)
            places = np.flatnonzero(mask.iloc[first:last])
            for index, task in enumerate(cell.tasks(self.seed) if places.size else ()):
                block = self.blocks.read(task)
                trials = np.arange(task.trials) + index * task.trials
                in_run = trials < cell.trials
                table = keys.iloc[np.repeat(first + places, in_run.sum())].reset_index(drop=True)
                columns = {name: v[places][:, in_run].ravel() for name, v in block.values.items()}
                tables.append(table.assign(trial=np.tile(trials[in_run], places.size), **columns))
            first = last
        return pd.concat(tables[1:] or tables, ignore_index=True)

    def figure(
        self, name: str | Mapping[str, Any], *, width: Width = "page", font: Font = "sans"
    ) -> Canvas:
        """Draw a figure on a new canvas.

        Parameters
        ----------
        name : str or mapping
            Label of a figure of the study, or the configuration of a new figure.
        width : {'page', 'column', 'slide'}
            Size of the canvas: as wide as a page by default, or as a column of a paper, or a slide.
        font : {'sans', 'serif'}
            Font family, without serifs by default.

        Returns
        -------
        Canvas
            The canvas, a figure of matplotlib.

        Raises
        ------
        ConfigError
            If the study has no figure of this label, or did not run the results that it shows.
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
            Label of a figure of the study, or the configuration of a new figure.
        ax : Axes, optional
            Axes to draw on, by default pyplot's current axes. If the figure has several panels, a
            grid of new axes takes the place of these axes.
        panel : int, optional
            The only panel to draw, from 0. By default draw all.

        Returns
        -------
        Axes
            The axes `ax`.

        Raises
        ------
        ConfigError
            If the study has no figure of this label, or did not run the results that it shows, or
            the figure has no such panel.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.gca()
        self._figure(name).figure(self, ax=ax, panel=panel)
        return ax

    def _figure(self, name: str | Mapping[str, Any]) -> Figure:
        if isinstance(name, str):
            figures = self.study.all_figures
            if name not in figures:
                choices = figures or ["none: the sweep has no figures"]
                raise ConfigError(f"figure: {name!r}: no such figure; {choose_from(name, choices)}")
            return figures[name]
        figure = Figure.build(name, "figure")
        keys = key_table(self.study, self.cells, bounds=False)
        figure.check(self.study, keys, "figure")
        return figure

    @overload
    def table(
        self,
        metric: str = ...,
        *,
        columns: Literal["n", "budget"] | None = ...,
        format: None = ...,
        **selected: Any,
    ) -> pd.DataFrame: ...

    @overload
    def table(
        self,
        metric: str = ...,
        *,
        columns: Literal["n", "budget"] | None = ...,
        format: Literal["latex", "markdown"],
        **selected: Any,
    ) -> str: ...

    def table(
        self,
        metric: str = "q90",
        *,
        columns: Literal["n", "budget"] | None = None,
        format: Literal["latex", "markdown"] | None = None,  # noqa: A002 (pandas names it so)
        **selected: Any,
    ) -> pd.DataFrame | str:
        """Return a table of errors: a row for each estimator, a column for each n or budget.

        Each number is the error on the worst distribution of a family. The lower bound has a row
        of its own.

        Parameters
        ----------
        metric : str
            Column of the summary, such as ``q90`` (default), ``q50``, ``rmse`` or ``mean_error``.
        columns : {'n', 'budget'}, optional
            Quantity that varies from column to column. By default n if the sweep runs several n, or
            only one budget; otherwise the budget.
        format : {'latex', 'markdown'}, optional
            Language of the text to return. By default return a DataFrame.
        **selected
            ``families``, ``estimators`` and ``budgets`` as in the figures of a sweep, and a list of
            sample sizes ``n``, as in ``families="student", n=[100, 1000]``. By default the table
            has all estimators, families and budgets; a text shows at most four columns.

        Returns
        -------
        DataFrame or str
            The text has a caption. The columns of the data frame have two levels. The first level
            is the metric, the ends ``low`` and ``high`` of its 95% interval, and ``best``, which is
            True where the text is bold.

        Raises
        ------
        ConfigError
            If an argument cannot be used, or nothing that was run is selected.
        """
        for name in selected:
            if name not in TABLE_SELECTION:
                raise ConfigError(f"{name}: no such argument; {choose_from(name, TABLE_SELECTION)}")
        if not isinstance(format, str | None) or format not in (None, "latex", "markdown"):
            raise ConfigError(
                f"format: {describe_value(format)}: choose from 'latex', 'markdown', None"
            )
        arguments = {"kind": "error_table", "metric": metric, "columns": columns, **selected}
        built = Table.build(arguments, "")
        return built.frame(self) if format is None else built.text(self, format)

    @property
    def scoreboard(self) -> str:
        """Return a text with verdicts on claims, errors over lower bounds and sample complexities.

        Failures of settings stand at its end.
        """
        closed = asks_whether(self.study.question)
        figures = (figure.compared(self) for figure in self.study.all_figures.values())
        compared = [one for one in figures if one and len(one.rows)]
        # The table of another parameter than n says more, because claims are about n.
        first = max(compared, key=lambda one: one.parameter != "n", default=None)
        return render(
            self.study,
            compared=None if closed else first,
            summary=self.summary,
            claims=self.claims,
            factors=self.factors,
            samples=self.samples,
            failures=self.failures,
        )

    def __str__(self) -> str:
        return self.scoreboard

    @property
    def _overview(self) -> dict[str, str]:
        count = len(self.failures)
        return overview(self.study.name, self.summary, self.claims, count, self.blocks)

    def __repr__(self) -> str:
        return describe(self._overview)

    def _repr_html_(self) -> str:
        return describe_as_html(self._overview)


def read_result(study: Study, folder: Path, manifest: Mapping[str, Any]) -> Result:
    """Read the result that a finished run of a study has written.

    Parameters
    ----------
    study : Study
        The study that was run.
    folder : Path
        Folder of the run.
    manifest : mapping
        Contents of the file ``manifest.json`` in this folder.

    Returns
    -------
    Result
    """
    return Result(
        study=study,
        summary=_read_table(folder / "summary.csv"),
        claims=_read_table(folder / "claims.csv"),
        samples=_read_table(folder / "sample_complexity.csv"),
        failures=[Failure(failure["failure"], failure["name"]) for failure in manifest["failures"]],
        cells=study.plan(manifest["configuration"].get("trials")).cells,
        blocks=Store(folder, manifest["computer"]),
        seed=manifest["seed"],
    )


def _read_table(path: Path) -> pd.DataFrame:
    """Read a CSV file of a run as a table; return an empty table if there is no such file.

    Only empty cells are missing values, because the text ``none`` is a label.
    """
    if not path.exists():
        return pd.DataFrame()
    labels = ("claim", "request", "distribution", "family", "estimator", "privacy", "bound_name")
    types = dict.fromkeys(labels, str)  # labels may look like numbers
    table = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=types)
    return table.fillna({"bound_name": ""})


def load_result(folder: Path, plugin_folder: Path | None) -> Result:
    """Read the result of a finished study from its folder.

    Plug-ins are imported from `plugin_folder`. A ConfigError is raised if the folder holds no
    finished study.
    """
    import dpbench.report  # noqa: F401 (the figures enter the registry)
    from dpbench.runner.settings import Settings, load_plugins

    manifest = read_manifest(folder)
    if not (folder / "summary.csv").exists():
        tables = ", ".join(sorted(file.name for file in folder.glob("*.csv")))
        raise ConfigError(
            f"'{folder}': holds an audit or a run of libraries; read its tables instead: {tables}"
        )
    settings = from_mapping(Settings, {**manifest["configuration"], "out": None}, "")
    load_plugins(settings.plugins, plugin_folder)
    return read_result(from_mapping(Study, settings.sweep, "sweep"), folder, manifest)
