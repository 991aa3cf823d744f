"""Figures of sample complexities."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from dpbench.analysis.smallest_n import TERMS
from dpbench.columns import BUDGET, Choice, choose
from dpbench.drawing import GUIDE, GUIDE_DASHES, THEORY, line_styles, number_text, ticks
from dpbench.metrics import VARIABLES
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import BARS, Looks, Panel, SelectingFigure, reach
from dpbench.report.words import Words, plain
from dpbench.result import Result
from dpbench.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SampleComplexityCurves", "Thresholds"]


@validated
class _OfRequest(SelectingFigure):
    """A figure of what a sample complexity of the study has found.

    Parameters
    ----------
    request : str
        Its label.
    """

    request: str

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        if self.request not in study.sample_complexity:
            choices = ", ".join(study.sample_complexity) or "none: the sweep asks for none"
            raise ConfigError(f"{where}.request: {self.request!r}: choose from {choices}")
        asked = study.about(study.sample_complexity[self.request], keys)
        super().check(study, keys[asked], where)

    def rows(self, result: Result) -> pd.DataFrame:
        rows, study = super().rows(result), result.study
        return rows[study.about(study.sample_complexity[self.request], rows)]

    def _found(self, result: Result) -> pd.DataFrame:
        """The rows of the table of samples."""
        table = result.samples[result.samples["request"] == self.request]
        table = table.assign(family=table["distribution"])
        return table[result.study.about(self, table)]


@validated
class SampleComplexityCurves(_OfRequest):
    """The smallest n against 1/alpha, beside the theorem's formula and its terms.

    A panel per curve. Points with 95% intervals are read off the curves of errors,
    diamonds found by direct search. The dotted line is the sum of the terms, which are grey.
    """

    def told(self) -> tuple[str, str]:
        return "the smallest n with error at most alpha in 0.9 of the trials", BARS

    def _panels(self, result: Result, words: Words) -> Iterator[Panel]:
        rows = self._found(result)
        several = rows["family"].nunique() > 1
        for _, curve in rows.groupby(["family", "estimator", *BUDGET], dropna=False, sort=False):
            row = curve.iloc[0]
            law = words.family(row["family"]) if several else ""
            name = ", ".join(filter(None, [law, words.estimator(row["estimator"])]))
            yield partial(self._panel, curve, f"{name}\n{words.budget(row.to_dict())}".strip())

    def _panel(self, rows: pd.DataFrame, title: str, ax: Axes) -> None:
        curve = rows[rows["method"] == "curve"].sort_values("alpha")
        search = rows[rows["method"] == "search"]
        inverse = 1 / curve["alpha"].to_numpy()
        terms = curve[[f"{name}_term" for name in TERMS]]
        for name, dash in zip(TERMS, GUIDE_DASHES, strict=True):
            if terms[f"{name}_term"].notna().any():
                look = {**GUIDE, "linestyle": dash}
                ax.plot(inverse, terms[f"{name}_term"], label=f"{name} term", **look)
        if terms["privacy_term"].notna().any():
            ax.plot(inverse, terms.sum(axis=1), label="theory, all terms", **THEORY)
        hollow = {"marker": "D", "markersize": 5, "markerfacecolor": "none"}
        for label, found, look in (
            ("measured", curve, {"marker": "o", "markersize": 3}),
            ("direct search", search, hollow),
        ):
            points = found.dropna(subset=["samples"])
            if not points.empty:
                look |= {"linestyle": "none", "color": "0.25"}
                _errorbar(ax, 1 / points["alpha"], points, label=label, **look)
        # The sum stays in the frame; a term that hardly counts may leave it.
        shown = [*rows["samples"].dropna(), *terms.sum(axis=1)]
        ax.set_ylim(min(shown) / 4, max(shown) * 4)
        ax.set(xscale="log", yscale="log", xlabel=r"$1/\alpha$", ylabel="smallest $n$")
        ax.set_title(title, fontsize=8)
        ticks(ax, [])


def _errorbar(ax: Axes, x: Any, points: pd.DataFrame, **look: Any) -> None:
    """Draw samples with their intervals."""
    yerr = np.nan_to_num(reach(points, "samples"))
    ax.errorbar(x, points["samples"], yerr=yerr, elinewidth=1, **look)


@validated
class Thresholds(_OfRequest):
    """The smallest n for a coarse alpha against R or ln(1/delta), a panel per budget.

    On the logarithmic axis of R what is linear in ln R is a straight line; what is
    linear in R leaves the frame. Of a request with several alpha the smallest is shown.

    Parameters
    ----------
    against : {'radius', 'delta'}
    leave : names, or values by name, optional
        Estimators that may leave the frame, as in a `Selection`.
    """

    against: Literal["radius", "delta"] = "radius"
    leave: Choice | None = None

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        if self.leave is not None:
            choose(self.leave, study.estimators, f"{where}.leave")

    def told(self) -> tuple[str, str]:
        return f"the smallest n with a coarse error against {plain(self.against)}", BARS

    def _panels(self, result: Result, words: Words) -> Iterator[Panel]:
        rows = self._found(result)
        rows = rows[(rows["method"] == "curve") & (rows["alpha"] == rows["alpha"].min())]
        names = rows["estimator"].map(lambda label: words.estimator(label, self.against))
        leave = choose(self.leave, result.study.estimators) if self.leave is not None else []
        rows = rows.assign(series=names, stays=~rows["estimator"].isin(leave))
        held = [name for name in BUDGET if name != self.against]
        looks = line_styles(rows["series"])
        for _, panel in rows.groupby(held, dropna=False):
            title = words.budget(panel.iloc[0].to_dict(), held)
            yield partial(self._panel, panel, title, looks)

    def _panel(self, rows: pd.DataFrame, title: str, looks: Looks, ax: Axes) -> None:
        variable = VARIABLES[self.against]
        amounts = rows[self.against].to_numpy(float)
        # ln R on a linear axis: the ticks of a logarithmic one overflow near 1e300
        x = variable.x(amounts) if variable.shows_x else np.log10(amounts)
        for (series, _), curve in rows.assign(x=x).groupby(["series", "distribution"]):
            points = curve.sort_values("x")
            _errorbar(ax, points["x"], points, label=str(series), **looks[str(series)])
        top = rows.loc[rows["stays"], ["samples", "high"]].max().max()
        ax.set_ylim(0, 1.15 * top if np.isfinite(top) else None)
        if not variable.shows_x:
            ax.xaxis.set_major_formatter(lambda x, _: f"$10^{{{x:g}}}$")
        alpha = number_text(rows["alpha"].iloc[0])
        ax.set(xlabel=variable.axis, ylabel=rf"smallest $n$ for $\alpha = {alpha}$", title=title)
