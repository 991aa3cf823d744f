"""Figures of errors against something other than n: a parameter, the dimension, a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.worst_case import BUDGET, under
from dpbench.drawing import (
    GUIDE,
    GUIDE_DASHES,
    THEORY,
    band,
    legend,
    line_styles,
    panels,
    ticks,
)
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import (
    Asked,
    Figure,
    Labels,
    Metric,
    Results,
    axis_label,
    spread,
    with_interval,
)
from dpbench.runner.plan import Sweep, pick
from dpbench.theory.guides import GUIDES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Size = Annotated[int, Field(ge=1)]
RATES = ("miss_rate", "failure_rate", "outside_q90", "core_q50")
NAMES = {
    "alpha": r"$\alpha$",
    "delta": r"$\ln(1/\delta)$",
    "d": "dimension $d$",
    "epsilon": r"$\varepsilon$",
    "eta": r"share of outliers $\eta$",
    "norm": r"$\|\mu\|$",
    "radius": "$R$",
    "report": "round",
    "rho": r"$\rho$",
}

__all__ = ["AgainstParameter"]


def _error() -> list[Metric]:
    return ["q90"]


@validated
class AgainstParameter(Figure):
    """Columns of the summary against a parameter, a panel per column and law.

    Dotted lines have the slope that a claim of the sweep predicts in the parameter at fixed
    n, through the geometric mean of what is measured.

    Parameters
    ----------
    families, estimators : list of str
        Labels or patterns.
    parameter : str
        ``d``, an amount of the budgets (``delta`` as ln(1/delta)), or a parameter that the
        estimators have, or the families.
    budget : str or list of str
        Labels or patterns of the budgets shown, a line for each.
    n : int or list of int
        A line for each.
    metrics : list of str
        Columns of the summary, panels for each.
    logarithmic : bool
        Whether the parameter's axis is.
    guides : list of str
        Formulas to draw, see `dpbench.theory.guides`.
    """

    families: Labels
    estimators: Labels
    parameter: str
    budget: str | Labels
    n: Size | Annotated[list[Size], Field(min_length=1)]
    metrics: Annotated[list[Metric], Field(min_length=1)] = Field(default_factory=_error)
    logarithmic: bool = True
    guides: list[str] = Field(default_factory=list)

    def check(self, sweep: Sweep, known: Asked, where: str) -> None:
        families = pick(self.families, sweep.families, f"{where}.families")
        pick(self._budgets, sweep.budgets, f"{where}.budget")
        for label in pick(self.estimators, sweep.estimators, f"{where}.estimators"):
            for family in families:
                if not isinstance(self._value(sweep, label, family), int | float):
                    raise ConfigError(
                        f"{where}.estimators: {label!r}: neither it nor the family {family} has "
                        f"a number as {self.parameter}"
                    )
        for guide in self.guides:
            if guide not in GUIDES:
                choices = ", ".join(GUIDES)
                raise ConfigError(f"{where}.guides: {guide!r}: choose from {choices}")
            needs = set(GUIDES[guide].needs)
            if self.parameter not in needs or needs - {self.parameter, "d", "n", *BUDGET}:
                raise ConfigError(f"{where}.guides: {guide!r}: it is about {', '.join(needs)}")
        if self.parameter in BUDGET[1:]:
            for label in pick(self._budgets, sweep.budgets, f"{where}.budget"):
                if not hasattr(sweep.budgets[label], self.parameter):
                    raise ConfigError(f"{where}.budget: {label!r}: it has no {self.parameter}")
        run = {n for part in sweep.parts.values() for n in part.sizes}
        for n in self._sizes:
            if n not in run:
                raise ConfigError(f"{where}.n: {n}: no part of the sweep runs it")

    @property
    def _sizes(self) -> list[int]:
        return self.n if isinstance(self.n, list) else [self.n]

    @property
    def _budgets(self) -> list[str]:
        return [self.budget] if isinstance(self.budget, str) else self.budget

    def _value(self, sweep: Sweep, estimator: str, family: str) -> Any:
        """The parameter's value; of the dimension and of budgets, which rows say, any number."""
        if self.parameter in {"d", *BUDGET[1:]}:
            return 1.0
        value = sweep.estimators[estimator].get(self.parameter)
        return sweep.family_value(family, self.parameter) if value is None else value

    @property
    def intervals(self) -> str:
        return spread(self.metrics)

    def draw(self, results: Results) -> Canvas:
        rows = self._rows(results)
        style = line_styles(rows["line"])
        laws = list(dict.fromkeys(rows["law"]))
        canvas, axes = panels(len(laws) * len(self.metrics))
        for metric in self.metrics:
            for law in laws:
                ax = next(axes)
                panel = rows[rows["law"] == law]
                for line, points in panel.groupby("line"):
                    worst = points.groupby("value")[metric].max().replace(np.inf, np.nan)
                    ax.plot(worst.index, worst, label=line, **style[str(line)])
                    known = with_interval(points, metric).dropna(subset=[metric])
                    highest = known.loc[known.groupby("value")[metric].idxmax()]
                    band(ax, highest, "value", style[str(line)]["color"])
                    self._theory(ax, points, worst, results, metric)
                self._guides(ax, panel)
                name = NAMES.get(self.parameter, self.parameter.replace("_", " "))
                ax.set(xlabel=name, ylabel=axis_label(metric))
                title = results.words(law).replace("_", " ")
                ax.set_title(title if len(laws) > 1 else "")
                self._scale(ax, panel, metric)
        legend(canvas)
        return canvas

    def _scale(self, ax: Axes, panel: pd.DataFrame, metric: str) -> None:
        values = panel["value"]
        # A mean of errors 0 and 1 is a rate; other errors of 0 are of estimators without privacy.
        if metric not in RATES and not (metric == "mean_error" and (panel[metric] == 0).any()):
            ax.set_yscale("log")
        if self.logarithmic:
            ax.set_xscale("log")
            ticks(ax, values)
            return
        ticks(ax, [])
        if np.all(values == np.round(values)):
            ax.set_xticks(np.unique(values))

    def _rows(self, results: Results) -> pd.DataFrame:
        """The rows shown, with ``value`` of the parameter, ``law`` of the panel and ``line``."""
        sweep, rows = results.sweep, results.summary
        labels = pick(self.estimators, sweep.estimators, "figures.estimators")
        families = pick(self.families, sweep.families, "figures.families")
        budgets = [sweep.budgets[b] for b in pick(self._budgets, sweep.budgets, "figures.budget")]
        paid = np.any([under(rows, budget) for budget in budgets], axis=0)
        rows = rows[(paid | (rows["privacy"] == "none")) & rows["n"].isin(self._sizes)]
        rows = rows[rows["estimator"].isin(labels) & rows["family"].isin(families)]
        if self.parameter in {"d", *BUDGET[1:]}:
            values = rows[self.parameter].to_numpy(float)
        else:
            pairs = zip(rows["estimator"], rows["family"], strict=True)
            values = np.array([self._value(sweep, *pair) for pair in pairs], dtype=float)
        rows = rows.assign(
            value=-np.log(values) if self.parameter == "delta" else values,
            law=[sweep.law(label, self.parameter) for label in rows["family"]],
        )
        named: pd.DataFrame = rows.assign(line=self._lines(rows, results))
        return named.dropna(subset=["value"])

    def _lines(self, rows: pd.DataFrame, results: Results) -> list[str]:
        """Name each row by what tells it from others: estimator, budget and n."""
        held = [name for name in BUDGET if name != self.parameter]
        several = rows.loc[rows["privacy"] != "none", held].drop_duplicates()
        shown = [name for name in held if several[name].nunique() > 1]
        names = []
        for row in rows[["estimator", "n", *BUDGET]].to_dict("records"):
            label = results.sweep.series(row["estimator"], self.parameter)
            parts = [results.words(label).replace("_", " ")]
            if row["privacy"] != "none":
                amounts = [row[name] for name in shown if pd.notna(row[name])]
                parts += [
                    f"{v:g}" if isinstance(v, float) else results.words(str(v)) for v in amounts
                ]
            parts += [f"n = {row['n']:g}"] if len(self._sizes) > 1 else []
            names.append(", ".join(parts))
        return names

    def _theory(
        self, ax: Axes, points: pd.DataFrame, worst: pd.Series, results: Results, metric: str
    ) -> None:
        claims, row = results.claims, points.iloc[0]
        if claims.empty:
            return
        names = {row["estimator"], results.sweep.series(row["estimator"])}
        laws = {row["family"], results.sweep.law(row["family"], "d", "norm")}
        about = claims[
            (claims["variable"] == self.parameter)
            & (claims["of"] == "fixed_n")
            & (claims["metric"] == metric)
            & claims["estimator"].isin(names)
            & claims["distribution"].isin(laws)
        ]
        for name in BUDGET:
            about = about[about[name].isna() | (about[name] == row[name])]
        for predicted in about["predicted"].unique()[:1]:
            x = worst.index.to_numpy(float)
            shape = x**predicted
            scale = np.exp(np.nanmean(np.log(worst.to_numpy() / shape)))
            ax.plot(x, scale * shape, label="slope by theory", **THEORY)

    def _guides(self, ax: Axes, panel: pd.DataFrame) -> None:
        for name in self.guides:
            guide = GUIDES[name]
            table = panel.assign(**{self.parameter: panel["value"]})
            if self.parameter == "delta":
                table["delta"] = np.exp(-panel["value"])
            needed = table.dropna(subset=list(guide.needs)).drop_duplicates(list(guide.needs))
            look = {**GUIDE, "linestyle": GUIDE_DASHES[self.guides.index(name) % 3]}
            others = [column for column in guide.needs if column != self.parameter]
            for _, line in needed.groupby(others) if others else [((), needed)]:
                points = line.sort_values("value")
                columns = [points[column].to_numpy(float) for column in guide.needs]
                ax.plot(points["value"], guide.formula(*columns), label=guide.label, **look)
