"""Figures of exponents and of smallest n, both computed from curves of errors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from dpbench.analysis.claims import Claim
from dpbench.analysis.smallest_n import TERMS
from dpbench.output.names import number_text
from dpbench.registry import ConfigError, validated
from dpbench.report.drawing.axes import set_horizontal_ticks
from dpbench.report.drawing.curves import draw_curve, draw_guide, mark_guide
from dpbench.report.drawing.style import GUIDE, GUIDE_DASHES, THEORY, Axes, line_styles
from dpbench.report.figures import DrawnFigure, Looks, Panel, SelectingFigure, chosen_labels
from dpbench.report.labels import Labels, exponent_text, plain_text
from dpbench.report.run_result import Result
from dpbench.report.study import Study
from dpbench.sweep.metrics import VARIABLES
from dpbench.sweep.selection import BUDGET, Choice, select_labels

__all__ = ["Exponents", "SampleComplexityCurves", "Thresholds"]

# Description of the intervals in captions.
BARS = "bars: 95 per cent intervals, bootstrap over trials"
DODGE = 5.5  # points between the series of measured minus theory, which have equal k
K_MARGIN = 0.15  # space beside the least and the largest k, as a share of their distance
ENDS = ("low", "high")  # columns with the ends of the intervals


@validated
class Exponents(DrawnFigure):
    """Figure of fitted exponents with 95% intervals against the moment order k.

    Curves show the exponents that theorems state. There is a panel for each variable of a power
    law, for example n. A second panel below it shows measured minus theoretical exponents. Its grey
    band is the tolerance of the claims.

    Parameters
    ----------
    claims : names or patterns
        Names of the claims about exponents to draw.
    """

    claims: Choice
    HEIGHTS: ClassVar[tuple[float, ...]] = (2, 3)

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        super().check(study, keys, where)
        claims = self._claims(study, f"{where}.claims")
        if not claims:
            raise ConfigError(f"{where}.claims: {self.claims!r}: no claim is left to draw")
        for label, claim in claims.items():
            if claim.statement.variable not in VARIABLES:
                raise ConfigError(f"{where}.claims: {label!r}: it tests no exponent; leave it out")
            if keys.loc[study.select_rows(claim, keys), "k"].isna().any():
                raise ConfigError(f"{where}.claims: {label!r}: a family has no moment order")

    def _claims(self, study: Study, where: str = "") -> dict[str, Claim]:
        claims = study.all_claims
        return {label: claims[label] for label in chosen_labels(self.claims, claims, where)}

    def describe(self) -> tuple[str, str]:
        return "fitted exponents against the moment order k, and measured minus theory", BARS

    def summary_rows(self, result: Result) -> pd.DataFrame:
        summary = result.summary
        mask = pd.Series(data=False, index=summary.index)
        for claim in self._claims(result.study).values():
            regime = summary["n"].between(claim.n_min, claim.n_max or np.inf)
            mask |= result.study.select_rows(claim, summary) & regime
        return summary[mask]

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        rows = self._label_claims(result, words)
        looks = line_styles(rows["label"])
        for difference in (False, True):
            for _, panel in rows.groupby("variable", sort=False):
                yield partial(self._draw_panel, panel, looks, result.study, difference)

    def _label_claims(self, result: Result, words: Labels) -> pd.DataFrame:
        """Return the rows of ``claims.csv`` that the figure shows, with two added columns.

        ``k`` is the moment order, and ``label`` the text for the legend.
        """
        study = result.study
        rows = result.claims[result.claims["claim"].isin(list(self._claims(study)))]
        spanned = rows["variable"].map(lambda name: VARIABLES[name].column)
        laws = [
            next(f.value.moment_order for f in study.families.values() if f.label(column) == law)
            for law, column in zip(rows["distribution"], spanned, strict=True)
        ]
        names = [words.claim(row) for row in rows.to_dict("records")]
        rows = rows.assign(k=np.array(laws, dtype=float), label=[name for name, _ in names])
        for details in (words.budgets(rows), [law for _, law in names]):
            if rows.duplicated(["variable", "label", "k"]).any():
                pairs = zip(rows["label"], details, strict=True)
                rows["label"] = [", ".join(filter(None, parts)) for parts in pairs]
        return rows

    def _draw_panel(
        self, rows: pd.DataFrame, looks: Looks, study: Study, difference: bool, ax: Axes
    ) -> None:
        """Draw the measured exponents of claims, or measured minus theory with `difference`."""
        from matplotlib.transforms import offset_copy

        claims = [study.all_claims[label] for label in rows["claim"].unique()]
        if difference:
            tolerance = rows["tolerance"].max()
            ax.axhspan(-tolerance, tolerance, color="black", alpha=0.08, linewidth=0)
            mark_guide(ax.axhline(0, **THEORY))
            ax.set_ylabel("measured $-$ theory")
        else:
            k = np.linspace(rows["k"].min() - 0.1, rows["k"].max() + 0.1, 200)
            for curve in dict.fromkeys(tuple(claim.prediction(x) for x in k) for claim in claims):
                draw_guide(ax, k, curve, label="theory", look=THEORY)
            quantity, base, sign = exponent_text(claims[0].statement)
            ax.set_ylabel(rf"${sign}$ in $\mathit{{{quantity}}} \sim {base}^{sign}$")
        # Differences at equal k are drawn side by side, because theory is horizontal there.
        spacing = DODGE if difference else 0.0
        for i, (label, points) in enumerate(rows.groupby("label")):
            look = {**looks[str(label)], "linestyle": "none", "capsize": 2}
            shift = spacing * (i - (rows["label"].nunique() - 1) / 2)
            look["transform"] = offset_copy(ax.transData, ax.figure.figure, x=shift, units="points")
            level = points["theorem"] if difference else 0
            values = [points[end] - level for end in ("measured", *ENDS)]
            draw_curve(ax, points["k"], *values, label=str(label), look=look, intervals="bars")
            for end in values[1:]:  # shifted bars do not count for the range of the axis
                ax.update_datalim(np.column_stack([points["k"], end]))
        orders = np.sort(rows["k"].unique())
        margin = K_MARGIN * (np.ptp(orders) or 1.0)
        ax.set_xlim(orders[0] - margin, orders[-1] + margin)
        ax.set_xticks(orders)
        if ax.xaxis.get_tick_params()["labelbottom"]:  # false above another panel
            ax.set_xlabel("moment order $k$")


@validated
class _RequestFigure(SelectingFigure):
    """Base class of figures that show the smallest n at which an estimator reaches an error.

    A request in the configuration determines the errors and estimators, see
    `dpbench.analysis.smallest_n.SampleComplexity`.

    Parameters
    ----------
    request : str
        Label of the request, a key under ``sample_complexity`` in the configuration.
    """

    request: str

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        if self.request not in study.sample_complexity:
            choices = (
                ", ".join(study.sample_complexity) or "none: the sweep has no sample_complexity"
            )
            raise ConfigError(f"{where}.request: {self.request!r}: choose from {choices}")
        requested = study.select_rows(study.sample_complexity[self.request], keys)
        super().check(study, keys[requested], where)

    def summary_rows(self, result: Result) -> pd.DataFrame:
        rows, study = super().summary_rows(result), result.study
        return rows[study.select_rows(study.sample_complexity[self.request], rows)]

    def _select_samples(self, result: Result) -> pd.DataFrame:
        """Return the rows of ``sample_complexity.csv`` that the figure shows."""
        table = result.samples[result.samples["request"] == self.request]
        table = table.assign(family=table["distribution"])
        return table[result.study.select_rows(self, table)]

    def _unit(self, rows: pd.DataFrame, study: Study) -> str:
        """Return the unit of the errors alpha in mathematical text.

        The unit is sigma if the variances of all distributions are 1, else blank.
        """
        families = [study.families[label].value for label in rows["family"].unique()]
        distributions = [getattr(family, "distribution", None) for family in families]
        return (
            r"\sigma" if all(law is not None and law.variance == 1 for law in distributions) else ""
        )


@validated
class SampleComplexityCurves(_RequestFigure):
    """Figure of the smallest sample size n that reaches an error alpha, against 1/alpha.

    There is a panel for each combination of family, estimator and budget. Points with 95% intervals
    come from curves of measured errors. Diamonds are found by direct search, which runs more n than
    the sweep. A theorem states the smallest n as a sum of terms. Each grey line is one term, and
    the dotted line is the sum.
    """

    def describe(self) -> tuple[str, str]:
        return "the smallest n with error at most alpha in 0.9 of the trials", BARS

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        rows = self._select_samples(result)
        several = rows["family"].nunique() > 1
        for _, curve in rows.groupby(["family", "estimator", *BUDGET], dropna=False, sort=False):
            row = curve.iloc[0]
            law = words.family(row["family"]) if several else ""
            name = ", ".join(filter(None, [law, words.estimator(row["estimator"])]))
            title = f"{name}\n{words.budget(row.to_dict())}".strip()
            yield partial(self._draw_panel, curve, title, self._unit(rows, result.study))

    def _draw_panel(self, rows: pd.DataFrame, title: str, unit: str, ax: Axes) -> None:
        curve = rows[rows["method"] == "curve"].sort_values("alpha")
        search = rows[rows["method"] == "search"]
        inverse = 1 / curve["alpha"]
        terms = curve[[f"{name}_term" for name in TERMS]]
        for name, dash in zip(TERMS, GUIDE_DASHES, strict=True):
            term, style = terms[f"{name}_term"], GUIDE | {"linestyle": dash}
            if term.notna().any():
                draw_guide(ax, inverse, term, label=f"{name} term", look=style)
        if terms["privacy_term"].notna().any():
            total = terms.sum(axis=1)
            draw_guide(ax, inverse, total, label="theory, all terms", look=THEORY)
        filled = {"marker": "o", "markersize": 3}
        hollow = {"marker": "D", "markersize": 5, "markerfacecolor": "none"}
        for label, group, style in (("measured", curve, filled), ("direct search", search, hollow)):
            points = group.dropna(subset=["samples"])
            if not points.empty:
                style |= {"linestyle": "none", "color": "0.25"}
                values = (points[name] for name in ("samples", *ENDS))
                x = 1 / points["alpha"]
                draw_curve(ax, x, *values, label=label, look=style, intervals="bars")
        # The sum stays in the frame; a negligible term may leave it.
        heights = [*rows["samples"].dropna(), *terms.sum(axis=1)]
        ax.set_ylim(min(heights) / 4, max(heights) * 4)
        ax.set(xscale="log", yscale="log", xlabel=rf"${unit or 1}/\alpha$", ylabel="smallest $n$")
        ax.set_title(title, fontsize="medium")
        set_horizontal_ticks(ax, [])


@validated
class Thresholds(_RequestFigure):
    """Figure of the smallest n for an error alpha, against a radius R or ln(1/delta).

    There is a panel for each budget. The radius R is a parameter of estimators, a public bound on
    the mean or on the records. Its axis is logarithmic. If n is linear in ln R, the line is
    straight. If n is linear in R, the line leaves the frame. Estimators without a parameter R have
    a line across the whole panel. If several alpha were requested, the figure shows the smallest
    alpha.

    Parameters
    ----------
    against : {'radius', 'delta'}
        Parameter on the horizontal axis.
    leave : names, or values by name, optional
        Estimators whose n may leave the frame. A list of names, or a mapping of names to values of
        parameters.
    """

    against: Literal["radius", "delta"] = "radius"
    leave: Choice | None = None

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        if self.leave is not None:
            select_labels(self.leave, study.estimators, f"{where}.leave")

    def describe(self) -> tuple[str, str]:
        return f"the smallest n with a coarse error against {plain_text(self.against)}", BARS

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        rows = self._select_samples(result)
        rows = rows[(rows["method"] == "curve") & (rows["alpha"] == rows["alpha"].min())]
        names = rows["estimator"].map(lambda label: words.estimator(label, self.against))
        leave = select_labels(self.leave, result.study.estimators) if self.leave is not None else []
        if rows["family"].nunique() > 1:
            names += ", " + rows["family"].map(words.family)
        rows = rows.assign(series=names, stays=~rows["estimator"].isin(leave))
        unit = self._unit(rows, result.study)
        columns = [name for name in BUDGET if name != self.against]
        looks = line_styles(rows["series"])
        for _, panel in rows.groupby(columns, dropna=False):
            title = words.budget(panel.iloc[0].to_dict(), columns)
            yield partial(self._draw_panel, panel, title, unit, looks)

    def _draw_panel(
        self, rows: pd.DataFrame, title: str, unit: str, looks: Looks, ax: Axes
    ) -> None:
        variable = VARIABLES[self.against]
        amounts = rows[self.against].to_numpy(float)
        # Draw log10 R on a linear axis, because ticks of a logarithmic axis overflow near 1e300.
        x = variable.x(amounts) if variable.shows_x else np.log10(amounts)
        ends = pd.DataFrame({"x": [np.nanmin(x), np.nanmax(x)]})
        for series, curve in rows.assign(x=x).groupby("series"):
            points = curve.sort_values("x")
            if points["x"].isna().all():
                points = points.drop(columns="x").merge(ends, how="cross")
            values = (points[name] for name in ("x", "samples", *ENDS))
            label = str(series)
            draw_curve(ax, *values, label=label, look=looks[label], intervals="bars")
        top = rows.loc[rows["stays"], ["samples", "high"]].max().max()
        ax.set_ylim(0, 1.15 * top if np.isfinite(top) else None)
        if not variable.shows_x:
            ax.xaxis.set_major_formatter(lambda x, _: f"$10^{{{x:g}}}$")
        alpha = rf"{number_text(rows['alpha'].iloc[0])}\,{unit}"
        ax.set(xlabel=variable.axis, ylabel=rf"smallest $n$ for $\alpha = {alpha}$", title=title)
