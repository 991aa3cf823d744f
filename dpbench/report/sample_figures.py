"""Figures of sample complexities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pandas as pd

from dpbench.analysis.smallest_n import SampleComplexity
from dpbench.columns import BUDGET, Choice, choose
from dpbench.drawing import GUIDE, GUIDE_DASHES, THEORY, line_styles, number_text, ticks
from dpbench.metrics import VARIABLES
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import Panel, SelectingFigure
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
        super().check(study, keys[study.about(self.asked(study), keys)], where)

    def asked(self, study: Study) -> SampleComplexity:
        """The sample complexity that this is about."""
        return study.sample_complexity[self.request]

    def rows(self, result: Result) -> pd.DataFrame:
        rows = super().rows(result)
        return rows[result.study.about(self.asked(result.study), rows)]

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

    TERMS: ClassVar[dict[str, str]] = {
        "sampling_term": "sampling",
        "privacy_term": "privacy",
        "range_term": "range",
    }

    @property
    def shows(self) -> str:
        return "the smallest n with error at most alpha in 0.9 of the trials"

    def _panels(self, result: Result, words: Words) -> Sequence[Panel]:
        rows = self._found(result)
        several = rows["family"].nunique() > 1
        found = []
        for _, curve in rows.groupby(["family", "estimator", *BUDGET], dropna=False, sort=False):
            row = curve.iloc[0]
            law = words.family(row["family"]) if several else ""
            name = ", ".join(filter(None, [law, words.estimator(row["estimator"])]))
            title = f"{name}\n{words.budget(row.to_dict())}".strip()
            found.append(partial(self._draw_panel, title=title, rows=curve))
        return found

    def _draw_panel(self, ax: Axes, *, title: str, rows: pd.DataFrame) -> None:
        curve = rows[rows["method"] == "curve"].sort_values("alpha")
        inverse = 1 / curve["alpha"].to_numpy()
        terms = curve[list(self.TERMS)]
        for (column, name), dash in zip(self.TERMS.items(), GUIDE_DASHES, strict=True):
            if terms[column].notna().any():
                look = {**GUIDE, "linestyle": dash}
                ax.plot(inverse, terms[column], label=f"{name} term", **look)
        if terms["privacy_term"].notna().any():
            ax.plot(inverse, terms.sum(axis=1), label="theory, all terms", **THEORY)
        _points(ax, rows[rows["method"] == "curve"], label="measured", marker="o", markersize=3)
        _points(
            ax, rows[rows["method"] == "search"], label="direct search", marker="D", markersize=5,
            markerfacecolor="none",
        )  # fmt: skip
        # The sum stays in the frame; a term that hardly counts may leave it.
        shown = [*rows["samples"].dropna(), *terms.sum(axis=1)]
        ax.set_ylim(min(shown) / 4, max(shown) * 4)
        ax.set(xscale="log", yscale="log", xlabel=r"$1/\alpha$", ylabel="smallest $n$")
        ax.set_title(title, fontsize=8)
        ticks(ax, [])


def _points(ax: Axes, rows: pd.DataFrame, **look: Any) -> None:
    points = rows.dropna(subset=["samples"])
    if not points.empty:
        drawn = {"linestyle": "none", "color": "0.25", "elinewidth": 1, **look}
        ax.errorbar(1 / points["alpha"], points["samples"], yerr=_ends(points), **drawn)


def _ends(points: pd.DataFrame) -> Any:
    """How far the intervals reach to both sides."""
    ends = points[["low", "high"]].to_numpy().T - points["samples"].to_numpy()
    return np.nan_to_num(np.abs(ends))


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

    @property
    def shows(self) -> str:
        return f"the smallest n with a coarse error against {plain(self.against)}"

    def _panels(self, result: Result, words: Words) -> Sequence[Panel]:
        rows = self._found(result)
        rows = rows[(rows["method"] == "curve") & (rows["alpha"] == rows["alpha"].min())]
        names = rows["estimator"].map(lambda label: words.estimator(label, self.against))
        leave = choose(self.leave, result.study.estimators) if self.leave is not None else []
        rows = rows.assign(series=names, stays=~rows["estimator"].isin(leave))
        held = [name for name in BUDGET if name != self.against]
        style = line_styles(rows["series"])
        return [
            partial(
                self._draw_panel,
                title=words.budget(panel.iloc[0].to_dict(), held),
                rows=panel,
                style=style,
            )
            for _, panel in rows.groupby(held, dropna=False)
        ]

    def _draw_panel(
        self, ax: Axes, *, title: str, rows: pd.DataFrame, style: Mapping[str, dict[str, Any]]
    ) -> None:
        variable = VARIABLES[self.against]
        amounts = rows[self.against].to_numpy(float)
        # ln R on a linear axis: the ticks of a logarithmic one overflow near 1e300
        x = variable.x(amounts) if variable.shows_x else np.log10(amounts)
        for (series, _), curve in rows.assign(x=x).groupby(["series", "distribution"]):
            points = curve.sort_values("x")
            ax.errorbar(
                points["x"], points["samples"], yerr=_ends(points), label=str(series),
                elinewidth=1, **style[str(series)],
            )  # fmt: skip
        top = rows.loc[rows["stays"], ["samples", "high"]].max().max()
        ax.set_ylim(0, 1.15 * top if np.isfinite(top) else None)
        if not variable.shows_x:
            ax.xaxis.set_major_formatter(lambda x, _: f"$10^{{{x:g}}}$")
        alpha = number_text(rows["alpha"].iloc[0])
        ax.set(xlabel=variable.axis, ylabel=rf"smallest $n$ for $\alpha = {alpha}$", title=title)
