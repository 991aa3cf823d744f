"""Figures of errors against something other than n: a parameter, the dimension, a budget."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field

from dpbench.arrays import Floats
from dpbench.columns import BUDGET, KEY, swept_columns
from dpbench.drawing import GUIDE, GUIDE_DASHES, line_styles, number_text, ticks
from dpbench.metrics import METRICS, VARIABLES, MetricName
from dpbench.privacy import AMOUNTS
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import (
    Looks,
    Panel,
    SelectingFigure,
    check_sizes,
    draw_curve,
    draw_slopes,
    linear,
    spread,
    with_interval,
)
from dpbench.report.words import Words, axis, metric_text, plain
from dpbench.result import Result
from dpbench.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GUIDES", "AgainstParameter", "Guide"]


@dataclass(frozen=True)
class Guide:
    """A formula of columns of a summary; its label in a legend is mathematical text."""

    label: str
    needs: tuple[str, ...]
    formula: Callable[..., Floats]


# To compare with: rates without their constants, and an exact share.
GUIDES = {
    # The blog's lower bounds, for records of norm 1; constants are not known.
    "pure": Guide(r"$d/(n\varepsilon)$", ("d", "n", "epsilon"), lambda d, n, e: d / (n * e)),
    "approx": Guide(
        r"$\sqrt{d\ln(1/\delta)}/(n\varepsilon)$",
        ("d", "n", "epsilon", "delta"),
        lambda d, n, e, delta: np.sqrt(-d * np.log(delta)) / (n * e),
    ),
    # What is left of a core of friends when a share of the records is far off.
    "core": Guide(
        r"$(1-\eta)(1-2\eta)$", ("eta",), lambda eta: (1 - eta) * np.maximum(1 - 2 * eta, 0)
    ),
}


def _known(name: str) -> str:
    if name not in GUIDES:
        raise ValueError(f"choose from {', '.join(GUIDES)}")
    return name


# Columns of a key that may be a figure's parameter.
OF_KEYS = ("k", "d", *AMOUNTS)

Size = Annotated[int, Field(ge=1)]


@validated
class AgainstParameter(SelectingFigure):
    """Columns of the summary against a parameter, a panel per column and law.

    Dotted lines have the slope that a claim of the study predicts in the parameter at fixed
    n, through the geometric mean of what is measured.

    Parameters
    ----------
    parameter : str
        A column of the summary: ``k``, ``d``, an amount of the budgets (``delta`` as
        ln(1/delta)), or a parameter that is given a list of values.
    n : int or list of int
        A line for each.
    metrics : list of str
        Columns of the summary, panels for each.
    logarithmic : bool
        Whether the parameter's axis is.
    guides : list of str
        Formulas to draw, of `GUIDES`.
    """

    parameter: str
    n: Size | Annotated[list[Size], Field(min_length=1)]
    metrics: Annotated[list[MetricName], Field(min_length=1)] = Field(
        default_factory=lambda: ["q90"]
    )
    logarithmic: bool = True
    guides: list[Annotated[str, AfterValidator(_known)]] = Field(default_factory=list)

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        known = [str(name) for name in rows if name in OF_KEYS or name not in (*KEY, "lower_bound")]
        if self.parameter not in known:
            choices = ", ".join(known)
            raise ConfigError(f"{where}.parameter: {self.parameter!r}: choose from {choices}")
        self._check_numbers(rows, where)
        check_sizes(rows, self._sizes, where)
        for name in self.guides:
            needs = GUIDES[name].needs
            if self.parameter not in needs or set(needs) - {self.parameter, "d", "n", *BUDGET}:
                raise ConfigError(f"{where}.guides: {name!r}: it is about {', '.join(needs)}")

    def _check_numbers(self, rows: pd.DataFrame, where: str) -> None:
        """Refuse what has no number as the parameter."""
        sections = {"estimators": "estimator", "families": "family"}
        if self.parameter in AMOUNTS:
            rows, sections = rows[rows["privacy"] != "none"], {"budgets": "privacy"}
        numbers = pd.to_numeric(rows[self.parameter], errors="coerce").notna()
        for section, column in sections.items():
            for label, found in numbers.groupby(rows[column]):
                if not found.any():
                    raise ConfigError(
                        f"{where}.{section}: {label!r}: it has no number as {self.parameter}"
                    )

    @property
    def _sizes(self) -> list[int]:
        return self.n if isinstance(self.n, list) else [self.n]

    def told(self) -> tuple[str, str]:
        metrics = " and ".join(plain(metric_text(metric)) for metric in self.metrics)
        return f"{metrics} against {plain(self.parameter)}", spread(self.metrics)

    def rows(self, result: Result) -> pd.DataFrame:
        rows = super().rows(result)
        rows = rows[rows["n"].isin(self._sizes)].astype({self.parameter: float})
        return rows.dropna(subset=[self.parameter])

    def _panels(self, result: Result, words: Words) -> Iterator[Panel]:
        rows = self._told(self.rows(result), words)
        looks = line_styles(rows["line"])
        laws = list(rows.groupby("law", sort=False))
        for metric in self.metrics:
            scale = "linear" if linear(rows, metric) else "log"
            for law, panel in laws:
                about = {"title": str(law) if len(laws) > 1 else "", "yscale": scale}
                yield partial(self._panel, panel, metric, about, looks, result)

    def _told(self, rows: pd.DataFrame, words: Words) -> pd.DataFrame:
        """The rows with ``x`` on the axis, ``law`` of the panel, and ``line`` for the legend."""
        study = words.study
        columns = swept_columns(study.families.values(), study.estimators.values())[1]
        own = {column: name for name, column in columns.items()}  # as estimators call it
        swept = own.get(self.parameter, self.parameter)
        names = rows["estimator"].map(lambda label: words.estimator(label, swept))
        budgets = words.budgets(rows, self.parameter)
        sizes = [f"$n = {number_text(n)}$" if len(self._sizes) > 1 else "" for n in rows["n"]]
        parts = zip(names, budgets, sizes, strict=True)
        variable, x = VARIABLES.get(self.parameter), rows[self.parameter].to_numpy()
        return rows.assign(
            x=variable.x(x) if variable and variable.shows_x else x,
            law=rows["family"].map(lambda label: words.family(label, self.parameter)),
            line=[", ".join(filter(None, part)) for part in parts],
        )

    def _panel(
        self, rows: pd.DataFrame, metric: str, about: Any, looks: Looks, result: Result, ax: Axes
    ) -> None:
        known = with_interval(rows, metric).dropna(subset=[metric])
        for line, points in known.groupby("line"):
            look = {"label": line, **looks[str(line)]}
            worst = draw_curve(ax, points, "x", metric, look)
            draw_slopes(ax, worst, "x", metric, self.parameter, result)
        self._guides(ax, rows)
        ax.set(xlabel=axis(self.parameter), ylabel=METRICS[metric].words, **about)
        if self.logarithmic:
            ax.set_xscale("log")
        ticks(ax, rows["x"] if self.logarithmic else [])
        if not self.logarithmic and np.all(rows["x"] == np.round(rows["x"])):
            ax.set_xticks(np.unique(rows["x"]))

    def _guides(self, ax: Axes, rows: pd.DataFrame) -> None:
        for name, dash in zip(self.guides, itertools.cycle(GUIDE_DASHES)):
            guide = GUIDES[name]
            needs = list(guide.needs)
            needed = rows.dropna(subset=needs).drop_duplicates(needs)
            others = [column for column in needs if column != self.parameter]
            for _, line in needed.groupby(others) if others else [((), needed)]:
                points = line.sort_values("x")
                height = guide.formula(*(points[column].to_numpy(float) for column in needs))
                look = {**GUIDE, "linestyle": dash}
                ax.plot(points["x"], height, label=guide.label, **look)
