"""Figure of columns of the summary against a parameter."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.exact_of_sweep import exact_values
from dpbench.arrays import Floats
from dpbench.output.names import number_text
from dpbench.privacy import AMOUNTS
from dpbench.registry import ConfigError, validated
from dpbench.report.drawing.axes import set_horizontal_ticks
from dpbench.report.drawing.curves import draw_guide
from dpbench.report.drawing.style import GUIDE, GUIDE_DASHES, Axes, line_styles
from dpbench.report.error_curves import (
    add_interval,
    axis_scale,
    check_sizes,
    draw_errors,
    intervals_text,
    leave_frame,
    select_worst,
)
from dpbench.report.figures import Looks, Panel
from dpbench.report.labels import Labels, axis_label, metric_text, plain_text
from dpbench.report.panel_split import PanelRows, SplitFigure
from dpbench.report.run_result import Result
from dpbench.report.study import Compared, Study
from dpbench.sweep.metrics import METRICS, VARIABLES, MetricName
from dpbench.sweep.selection import BUDGET, KEY, swept_columns

__all__ = ["GUIDES", "AgainstParameter"]


@dataclass(frozen=True)
class Guide:
    """Formula that a figure draws as a line for comparison, and the label of the line.

    The arguments of the formula are columns of the summary.
    """

    label: str
    formula: Callable[..., Floats]

    @property
    def needs(self) -> list[str]:
        """Return the columns that the formula takes as arguments."""
        return list(inspect.signature(self.formula).parameters)


# Formulas for comparison: rates without their constants, and a share with its constants.
GUIDES = {
    # Lower bounds of Z24 for records of norm 1, whose constants are not known.
    "pure": Guide(r"$d/(n\varepsilon)$", lambda d, n, epsilon: d / (n * epsilon)),
    "approx": Guide(
        r"$\sqrt{d\ln(1/\delta)}/(n\varepsilon)$",
        lambda d, n, epsilon, delta: np.sqrt(-d * np.log(delta)) / (n * epsilon),
    ),
    # Share of the records that remain in a core of friends if a share eta of them are outliers.
    "core": Guide(r"$(1-\eta)(1-2\eta)$", lambda eta: (1 - eta) * np.maximum(1 - 2 * eta, 0)),
}


# Look of the mark of the predicted best parameter.
BEST: dict[str, Any] = {
    "color": "black", "marker": "*", "markersize": 9, "markerfacecolor": "white",
    "linestyle": "none", "zorder": 5, "label": "smallest exact value",
}  # fmt: skip
FLAT = 1.01  # ratio of exact values up to which a line counts as flat

# Columns of a key that can be the parameter of an `AgainstParameter` figure.
KEY_PARAMETERS = ("k", "d", *AMOUNTS)

Size = Annotated[int, Field(ge=1)]


@validated
class AgainstParameter(SplitFigure):
    """Figure of columns of the summary against a parameter, a panel for each column and family.

    Dotted lines have the slope that a theorem predicts in the parameter at fixed n. They go through
    the geometric mean of the measured values.

    Parameters
    ----------
    parameter : str
        Column of the summary on the horizontal axis: the order ``k`` of the bounded moment, the
        dimension ``d``, an amount of the budgets, or a parameter with a list of values. The axis
        of ``delta`` shows ln(1/delta).
    n : int or list of int
        Sample sizes, with a line for each.
    metrics : list of str
        Columns of the summary on the vertical axis, with panels for each.
    logarithmic : bool
        Whether the horizontal axis is logarithmic.
    guides : list of str
        Names of formulas in `GUIDES` to draw for comparison.
    mark_best : bool
        Whether to mark, on each line, the parameter with the smallest exact value, by a star at
        the measured value. A line gets no star if its exact value at the largest parameter is
        within 1% of the smallest, because no parameter matters then. False by default.
    level : list of str
        Labels of estimators without the parameter. Each is drawn as a level line, because its
        values do not depend on the parameter. Empty by default.
    """

    parameter: str
    n: Size | Annotated[list[Size], Field(min_length=1)]
    metrics: Annotated[list[MetricName], Field(min_length=1)] = Field(
        default_factory=lambda: ["q90"]
    )
    logarithmic: bool = True
    guides: list[Literal["pure", "approx", "core"]] = Field(default_factory=list)
    mark_best: bool = False
    level: list[str] = Field(default_factory=list)

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        super()._check(rows, study, where)
        no_parameter = {*KEY, "lower_bound", "bound_name"} - {*KEY_PARAMETERS}
        choosable = [str(name) for name in rows if name not in no_parameter]
        if self.parameter not in choosable:
            choices = ", ".join(choosable)
            raise ConfigError(f"{where}.parameter: {self.parameter!r}: choose from {choices}")
        check_sizes(rows, self._sizes, where)
        for name in self.guides:
            needs = GUIDES[name].needs
            if self.parameter not in needs or set(needs) - {self.parameter, "d", "n", *BUDGET}:
                raise ConfigError(
                    f"{where}.guides: {name!r}: it needs the columns {', '.join(needs)}"
                )
        sections = {"estimators": "estimator", "families": "family"}
        if self.parameter in AMOUNTS:
            rows, sections = rows[rows["privacy"] != "none"], {"budgets": "privacy"}
        unknown = sorted(set(self.level) - set(rows["estimator"]))
        if unknown:
            choices = ", ".join(sorted(set(rows["estimator"])))
            raise ConfigError(f"{where}.level: {unknown[0]!r}: choose from {choices}")
        numbers = pd.to_numeric(rows[self.parameter], errors="coerce").notna()
        for section, column in sections.items():
            has_number = numbers.groupby(rows[column]).any()
            for label in has_number.index[~has_number].difference(self.level):
                raise ConfigError(
                    f"{where}.{section}: {label!r}: leave it out: it has no {self.parameter}"
                )

    @property
    def _sizes(self) -> list[int]:
        return self.n if isinstance(self.n, list) else [self.n]

    def describe(self) -> tuple[str, str]:
        metrics = " and ".join(plain_text(metric_text(metric)) for metric in self.metrics)
        return f"{metrics} against {plain_text(self.parameter)}", intervals_text(self.metrics)

    def summary_rows(self, result: Result) -> pd.DataFrame:
        rows = super().summary_rows(result)
        rows = rows[rows["n"].isin(self._sizes)].astype({self.parameter: float})
        is_level = rows["estimator"].isin(self.level)
        swept = rows[~is_level].dropna(subset=[self.parameter])
        if not self.level:
            return swept
        level = rows[is_level].drop(columns=self.parameter)
        ends = swept[[self.parameter]].agg(["min", "max"])
        return pd.concat([swept, level.merge(ends, how="cross")], ignore_index=True)[rows.columns]

    def compared(self, result: Result) -> Compared:
        rows = self.summary_rows(result)
        rows = rows[~rows["estimator"].isin(self.level)]
        return self._compare(rows, self.parameter, self.metrics[0], result.study)

    FIRST_SPLIT: ClassVar[tuple[str, ...]] = ("family",)

    def _omitted(self, study: Study) -> list[str]:
        columns = swept_columns(study.families.values(), study.estimators.values())[1]
        parameters = {column: name for name, column in columns.items()}
        return [self.parameter, parameters.get(self.parameter, self.parameter)]

    def _details(self, rows: pd.DataFrame, words: Labels, split: Sequence[str]) -> list[list[str]]:
        told = BUDGET if "budget" in split else split
        sizes = [f"$n = {number_text(n)}$" if len(self._sizes) > 1 else "" for n in rows["n"]]
        return [words.budgets(rows, self.parameter, *told), sizes]

    def _points(self, result: Result) -> pd.DataFrame:
        rows = self.summary_rows(result)
        variable, x = VARIABLES.get(self.parameter), rows[self.parameter].to_numpy()
        return rows.assign(x=variable.x(x) if variable and variable.shows_x else x)

    def _draw_split(
        self, panels: Sequence[PanelRows | None], result: Result
    ) -> Iterator[Panel | None]:
        rows = pd.concat([panel.rows for panel in panels if panel])
        looks = line_styles(rows["line"], free=rows.loc[rows["privacy"] == "none", "line"])
        rows = rows[~rows.index.duplicated()]
        for metric in self.metrics:
            yscale = axis_scale(rows, metric)
            points = select_worst(add_interval(rows, metric), metric)
            points = leave_frame(points, metric) if yscale == "log" else points
            for panel in panels:
                if panel is None:
                    yield None
                    continue
                shown = points[points.index.isin(panel.rows.index)]
                options = {"title": panel.title, "yscale": yscale}
                yield partial(self._draw_panel, shown, metric, options, looks, result)

    def _draw_panel(
        self, rows: pd.DataFrame, metric: str, options: Any, looks: Looks, result: Result, ax: Axes
    ) -> None:
        floor = rows["floor"].min() if "floor" in rows else np.nan
        if np.isfinite(floor):
            ax.set_ylim(floor, 2 * np.nanmax([rows[metric].replace(np.inf, np.nan).max(), floor]))
        for line, points in rows.groupby("line"):
            label = str(line)
            draw_errors(ax, points, metric, self.parameter, label, looks[label], result)
            if self.mark_best:
                _mark_best(ax, points, metric, result)
        self._draw_guides(ax, rows)
        ax.set(xlabel=axis_label(self.parameter), ylabel=METRICS[metric].words, **options)
        if self.logarithmic:
            ax.set_xscale("log")
        set_horizontal_ticks(ax, rows["x"] if self.logarithmic else [])
        if not self.logarithmic and np.all(rows["x"] == np.round(rows["x"])):
            ax.set_xticks(np.unique(rows["x"]))

    def _draw_guides(self, ax: Axes, rows: pd.DataFrame) -> None:
        for name, dash in zip(self.guides, itertools.cycle(GUIDE_DASHES)):
            guide = GUIDES[name]
            needed = rows.dropna(subset=guide.needs).drop_duplicates(guide.needs)
            others = [column for column in guide.needs if column != self.parameter]
            for _, line in needed.groupby(others) if others else [((), needed)]:
                points = line.sort_values("x")
                height = guide.formula(**points[guide.needs].astype(float))
                look = GUIDE | {"linestyle": dash}
                draw_guide(ax, points["x"], height, label=guide.label, look=look)


def _mark_best(ax: Axes, points: pd.DataFrame, metric: str, result: Result) -> None:
    """Draw a star on a line, at the parameter with the smallest exact value; see `mark_best`."""
    exact = exact_values(points, result.study, metric)
    if not np.isfinite(exact).any() or exact[-1] <= FLAT * np.nanmin(exact):
        return
    best = points.iloc[int(np.nanargmin(exact))]
    ax.plot(best["x"], best[metric], **BEST)
