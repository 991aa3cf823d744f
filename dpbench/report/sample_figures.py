"""Figures of sample complexities."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.worst_case import under
from dpbench.drawing import (
    GUIDE,
    GUIDE_DASHES,
    THEORY,
    legend,
    line_styles,
    number_text,
    panels,
    ticks,
)
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import (
    Asked,
    Figure,
    Labels,
    Results,
)
from dpbench.runner.plan import Sweep, pick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


__all__ = ["SampleComplexityCurves", "Thresholds"]


def _curve_title(row: pd.Series, results: Results) -> str:
    """An estimator with its radius, and on a second line its budget."""
    name = results.words(results.sweep.series(row["estimator"])).replace("_", " ")
    if np.isfinite(row["radius"]):
        name += f", $R = {number_text(row['radius'])}$"
    amounts = [
        f"${symbol} = {number_text(row[name])}$"
        for name, symbol in (
            ("epsilon", r"\varepsilon"),
            ("delta", r"\delta"),
            ("rho", r"\rho"),
        )
        if np.isfinite(row[name])
    ]
    return "\n".join([name, ", ".join(amounts)])


def _check_request(
    label: str, estimators: list[str] | None, sweep: Sweep, known: Asked, where: str
) -> None:
    """Raise ConfigError if a request is unknown or not about any of the estimators."""
    if label not in known.requests:
        choices = ", ".join(known.requests) or "none: the sweep asks for no sample complexity"
        raise ConfigError(f"{where}.request: {label!r}: choose from {choices}")
    chosen = pick(estimators, sweep.estimators, f"{where}.estimators")
    about = pick(known.requests[label].estimators, sweep.estimators, "")
    if not set(chosen) & set(about):
        raise ConfigError(
            f"{where}.estimators: {estimators}: the request {label!r} has none of them"
        )


@validated
class SampleComplexityCurves(Figure):
    """The smallest n against 1/alpha, beside the theorem's formula and its terms.

    A panel per curve. Points with 95% intervals are read off the curves of errors,
    diamonds found by direct search. The dotted line is the sum of the terms, which are grey.

    Parameters
    ----------
    request : str
        Label of a sample complexity of the sweep.
    estimators, families, budgets : list of str, optional
        Labels or patterns of those shown.
    """

    request: str
    estimators: Labels | None = None
    families: Labels | None = None
    budgets: Labels | None = None
    TERMS: ClassVar[dict[str, str]] = {
        "sampling_term": "sampling",
        "privacy_term": "privacy",
        "range_term": "range",
    }

    def check(self, sweep: Sweep, known: Asked, where: str) -> None:
        _check_request(self.request, self.estimators, sweep, known, where)
        pick(self.families, sweep.families, f"{where}.families")
        pick(self.budgets, sweep.budgets, f"{where}.budgets")

    def draw(self, results: Results) -> Canvas:
        sweep = results.sweep
        rows = results.samples[results.samples["request"] == self.request]
        rows = rows[rows["estimator"].isin(pick(self.estimators, sweep.estimators, ""))]
        rows = rows[rows["distribution"].isin(pick(self.families, sweep.families, ""))]
        budgets = [sweep.budgets[label] for label in pick(self.budgets, sweep.budgets, "")]
        rows = rows[np.any([under(rows, budget) for budget in budgets], axis=0)]
        by = ["distribution", "estimator", "privacy", "epsilon", "delta", "rho"]
        curves = [curve for _, curve in rows.groupby(by, dropna=False, sort=False)]
        canvas, axes = panels(len(curves))
        for curve, ax in zip(curves, axes, strict=False):
            self._draw_curve(ax, curve)
            ax.set_title(_curve_title(curve.iloc[0], results), fontsize=8)
        legend(canvas)
        return canvas

    def _draw_curve(self, ax: Axes, rows: pd.DataFrame) -> None:
        curve = rows[rows["method"] == "curve"].sort_values("alpha")
        inverse = 1 / curve["alpha"].to_numpy()
        terms = curve[list(self.TERMS)]
        for (column, name), dash in zip(self.TERMS.items(), GUIDE_DASHES, strict=True):
            if terms[column].notna().any():
                look = {**GUIDE, "linestyle": dash}
                ax.plot(inverse, terms[column], label=f"{name} term", **look)
        if terms["privacy_term"].notna().any():
            ax.plot(inverse, terms.sum(axis=1), label="theory, all terms", **THEORY)
        for method, marker in (("curve", "o"), ("search", "D")):
            points = rows[(rows["method"] == method) & rows["samples"].notna()]
            if points.empty:
                continue
            ends = points[["low", "high"]].to_numpy().T - points["samples"].to_numpy()
            ax.errorbar(
                1 / points["alpha"],
                points["samples"],
                yerr=np.nan_to_num(np.abs(ends)),
                marker=marker,
                markersize=3 if method == "curve" else 5,
                markerfacecolor="none" if method == "search" else None,
                linestyle="none",
                color="0.25",
                elinewidth=1,
                label="measured" if method == "curve" else "direct search",
            )
        # The sum stays in the frame; a term that hardly counts may leave it.
        shown_n = [*rows["samples"].dropna(), *terms.sum(axis=1)]
        ax.set_ylim(min(shown_n) / 4, max(shown_n) * 4)
        ax.set(xscale="log", yscale="log", xlabel=r"$1/\alpha$", ylabel="smallest $n$")
        ticks(ax, [])


@validated
class Thresholds(Figure):
    """The smallest n for a coarse alpha against R or ln(1/delta), a panel per budget.

    On the logarithmic axis of R what is linear in ln R is a straight line; what is
    linear in R leaves the frame.

    Parameters
    ----------
    request : str
        Label of a sample complexity of the sweep; its smallest alpha is shown.
    against : {'radius', 'delta'}
    estimators : list of str, optional
        Labels or patterns of those shown.
    leave : list of str, optional
        Those that may leave the frame.
    """

    request: str
    against: Literal["radius", "delta"] = "radius"
    estimators: Labels | None = None
    leave: Labels = Field(default_factory=list)

    def check(self, sweep: Sweep, known: Asked, where: str) -> None:
        _check_request(self.request, self.estimators, sweep, known, where)
        if self.leave:
            pick(self.leave, sweep.estimators, f"{where}.leave")

    def draw(self, results: Results) -> Canvas:
        sweep = results.sweep
        rows = results.samples[results.samples["request"] == self.request]
        rows = rows[rows["estimator"].isin(pick(self.estimators, sweep.estimators, ""))]
        rows = rows[(rows["method"] == "curve") & (rows["alpha"] == rows["alpha"].min())]
        rows = rows.assign(series=[sweep.series(label) for label in rows["estimator"]])
        leaving = pick(self.leave, sweep.estimators, "") if self.leave else []
        by = ["privacy", *(n for n in ("epsilon", "delta", "rho") if n != self.against)]
        groups = [group for _, group in rows.groupby(by, dropna=False)]
        style = line_styles(rows["series"])
        canvas, axes = panels(len(groups))
        alpha = number_text(rows["alpha"].iloc[0])
        for group, ax in zip(groups, axes, strict=False):
            for (series, _), curve in group.groupby(["series", "distribution"]):
                curve = curve.sort_values(self.against)  # noqa: PLW2901
                # ln R on a linear axis: the ticks of a logarithmic one overflow near 1e300
                radius = self.against == "radius"
                x = np.log10(curve["radius"]) if radius else -np.log(curve["delta"])
                ends = curve[["low", "high"]].to_numpy().T - curve["samples"].to_numpy()
                ax.errorbar(
                    x, curve["samples"], yerr=np.nan_to_num(np.abs(ends)),
                    label=results.words(str(series)), elinewidth=1, **style[str(series)],
                )  # fmt: skip
            about = group.iloc[0].copy()
            about[self.against] = np.nan
            staying = group[~group["estimator"].isin(leaving)]
            ax.set_ylim(0, 1.15 * staying["high"].max())
            if self.against == "radius":
                ax.xaxis.set_major_formatter(lambda x, _: f"$10^{{{x:g}}}$")
            name = "$R$" if self.against == "radius" else r"$\ln(1/\delta)$"
            ax.set(xlabel=name, ylabel=rf"smallest $n$ for $\alpha = {alpha}$")
            ax.set_title(_curve_title(about, results).split("\n")[1])
        legend(canvas)
        return canvas
