"""Figures of exponents and sample complexities, which are fitted to curves of errors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from dpbench.analysis.claims import Claim
from dpbench.analysis.result import Result
from dpbench.analysis.smallest_n import TERMS
from dpbench.analysis.study import Study
from dpbench.output.axes import ticks
from dpbench.output.style import GUIDE, GUIDE_DASHES, THEORY, Axes, line_styles, number_text
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import DrawnFigure, Looks, Panel, SelectingFigure, chosen_labels
from dpbench.report.labels import Labels, exponent_text, plain_text
from dpbench.sweep.metrics import VARIABLES
from dpbench.sweep.selection import BUDGET, Choice, select_labels

__all__ = ["Exponents", "SampleComplexityCurves", "Thresholds"]

# Description of the intervals in captions.
BARS = "bars: 95 per cent intervals, bootstrap over trials"


def _errorbar(ax: Axes, x: Any, y: Any, rows: pd.DataFrame, column: str, **look: Any) -> None:
    """Draw the interval of a column around y; no bars if it is unknown."""
    reach = rows[["low", "high"]].sub(rows[column], axis=0).abs()
    ax.errorbar(x, y, yerr=reach.fillna(0).to_numpy(float).T, elinewidth=1, **look)


@validated
class Exponents(DrawnFigure):
    """Measured exponents with 95% intervals against the moment order k, with curves of theory.

    There is a panel for each variable. The panel below it has measured minus theory, with the
    claims' tolerance in grey.

    Parameters
    ----------
    claims : names or patterns
        Claims about exponents to draw.
    """

    claims: Choice
    HEIGHTS: ClassVar[tuple[float, ...]] = (3, 2)

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        super().check(study, keys, where)
        chosen = self._claims(study, f"{where}.claims")
        if not chosen:
            raise ConfigError(f"{where}.claims: {self.claims!r}: no claim is left to draw")
        for label, claim in chosen.items():
            if claim.statement.variable not in VARIABLES:
                raise ConfigError(f"{where}.claims: {label!r}: it tests no exponent; leave it out")
            if keys.loc[study.about(claim, keys), "k"].isna().any():
                raise ConfigError(f"{where}.claims: {label!r}: a family has no moment order")

    def _claims(self, study: Study, where: str = "") -> dict[str, Claim]:
        known = study.all_claims
        return {label: known[label] for label in chosen_labels(self.claims, known, where)}

    def describe(self) -> tuple[str, str]:
        return "fitted exponents against the moment order k, and measured minus theory", BARS

    def rows(self, result: Result) -> pd.DataFrame:
        summary = result.summary
        shown = pd.Series(data=False, index=summary.index)
        for claim in self._claims(result.study).values():
            regime = summary["n"].between(claim.n_min, claim.n_max or np.inf)
            shown |= result.study.about(claim, summary) & regime
        return summary[shown]

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        rows = self._measured(result, words)
        looks = line_styles(rows["label"])
        for left in (False, True):
            for _, panel in rows.groupby("variable", sort=False):
                yield partial(self._panel, panel, looks, result.study, left)

    def _measured(self, result: Result, words: Labels) -> pd.DataFrame:
        """Return the rows of the claims, with the moment order ``k`` and a ``label``."""
        study = result.study
        rows = result.claims[result.claims["claim"].isin(list(self._claims(study)))]
        spanned = rows["variable"].map(lambda name: VARIABLES[name].column)
        laws = [
            next(f.value.moment_order for f in study.families.values() if f.label(column) == law)
            for law, column in zip(rows["distribution"], spanned, strict=True)
        ]
        about = [words.claim(row) for row in rows.to_dict("records")]
        rows = rows.assign(k=np.array(laws, dtype=float), label=[name for name, _ in about])
        for more in (words.budgets(rows), [law for _, law in about]):
            if rows.duplicated(["variable", "label", "k"]).any():
                told = zip(rows["label"], more, strict=True)
                rows["label"] = [", ".join(filter(None, parts)) for parts in told]
        return rows

    def _panel(self, rows: pd.DataFrame, looks: Looks, study: Study, left: bool, ax: Axes) -> None:
        """Draw measured exponents, or, with `left`, measured minus theory."""
        claims = [study.all_claims[label] for label in rows["claim"].unique()]
        if left:
            tolerance = rows["tolerance"].max()
            ax.axhspan(-tolerance, tolerance, color="black", alpha=0.08, linewidth=0)
            ax.axhline(0, **THEORY)
            ax.set_ylabel("measured $-$ theory")
        else:
            k = np.linspace(rows["k"].min() - 0.1, rows["k"].max() + 0.1, 200)
            for curve in dict.fromkeys(tuple(claim.prediction(x) for x in k) for claim in claims):
                ax.plot(k, curve, label="theory", **THEORY)
            what, base, sign = exponent_text(claims[0].statement)
            ax.set_ylabel(rf"${sign}$ in $\mathit{{{what}}} \sim {base}^{sign}$")
        # Points at equal k are drawn side by side where the curve of theory is horizontal.
        apart = 0.42 / ax.figure.figure.get_figwidth() if left else 0.0
        for i, (label, points) in enumerate(rows.groupby("label")):
            look: dict[str, Any] = {key: looks[str(label)][key] for key in ("color", "marker")}
            shift = apart * (i - (rows["label"].nunique() - 1) / 2)
            height = points["measured"] - (points["theorem"] if left else 0)
            look |= {"label": label, "linestyle": "none", "capsize": 2, "markersize": 3}
            _errorbar(ax, points["k"] + shift, height, points, "measured", **look)
        ax.set_xticks(sorted(rows["k"].unique()))
        if ax.xaxis.get_tick_params()["labelbottom"]:  # false above another panel
            ax.set_xlabel("moment order $k$")


@validated
class _OfRequest(SelectingFigure):
    """Figure of the sample complexities that a request of the study has found.

    Parameters
    ----------
    request : str
        Label of the request under ``sample_complexity``.
    """

    request: str

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        if self.request not in study.sample_complexity:
            choices = (
                ", ".join(study.sample_complexity) or "none: the sweep has no sample_complexity"
            )
            raise ConfigError(f"{where}.request: {self.request!r}: choose from {choices}")
        asked = study.about(study.sample_complexity[self.request], keys)
        super().check(study, keys[asked], where)

    def rows(self, result: Result) -> pd.DataFrame:
        rows, study = super().rows(result), result.study
        return rows[study.about(study.sample_complexity[self.request], rows)]

    def _found(self, result: Result) -> pd.DataFrame:
        """Return the rows of ``sample_complexity.csv`` that the figure shows."""
        table = result.samples[result.samples["request"] == self.request]
        table = table.assign(family=table["distribution"])
        return table[result.study.about(self, table)]

    def _unit(self, rows: pd.DataFrame, study: Study) -> str:
        """Return the unit of alpha in mathematical text: sigma if all variances are 1, or blank."""
        families = [study.families[label].value for label in rows["family"].unique()]
        known = [getattr(family, "distribution", None) for family in families]
        return r"\sigma" if all(law is not None and law.variance == 1 for law in known) else ""


@validated
class SampleComplexityCurves(_OfRequest):
    """Smallest n against 1/alpha, with the theorem's n and its terms, a panel for each curve.

    Points with 95% intervals are read off the curves of errors; diamonds are found by direct
    search. Grey lines are the terms of the theorem's n, the dotted line is their sum.
    """

    def describe(self) -> tuple[str, str]:
        return "the smallest n with error at most alpha in 0.9 of the trials", BARS

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        rows = self._found(result)
        several = rows["family"].nunique() > 1
        for _, curve in rows.groupby(["family", "estimator", *BUDGET], dropna=False, sort=False):
            row = curve.iloc[0]
            law = words.family(row["family"]) if several else ""
            name = ", ".join(filter(None, [law, words.estimator(row["estimator"])]))
            title = f"{name}\n{words.budget(row.to_dict())}".strip()
            yield partial(self._panel, curve, title, self._unit(rows, result.study))

    def _panel(self, rows: pd.DataFrame, title: str, unit: str, ax: Axes) -> None:
        curve = rows[rows["method"] == "curve"].sort_values("alpha")
        search = rows[rows["method"] == "search"]
        inverse = 1 / curve["alpha"]
        terms = curve[[f"{name}_term" for name in TERMS]]
        for name, dash in zip(TERMS, GUIDE_DASHES, strict=True):
            term, look = terms[f"{name}_term"], GUIDE | {"linestyle": dash}
            if term.notna().any():
                ax.plot(inverse, term, label=f"{name} term", **look)
        if terms["privacy_term"].notna().any():
            ax.plot(inverse, terms.sum(axis=1), label="theory, all terms", **THEORY)
        full = {"marker": "o", "markersize": 3}
        hollow = {"marker": "D", "markersize": 5, "markerfacecolor": "none"}
        for label, found, look in (("measured", curve, full), ("direct search", search, hollow)):
            points = found.dropna(subset=["samples"])
            if not points.empty:
                look |= {"linestyle": "none", "color": "0.25"}
                x, y = 1 / points["alpha"], points["samples"]
                _errorbar(ax, x, y, points, "samples", label=label, **look)
        # The sum stays in the frame; a negligible term may leave it.
        shown = [*rows["samples"].dropna(), *terms.sum(axis=1)]
        ax.set_ylim(min(shown) / 4, max(shown) * 4)
        ax.set(xscale="log", yscale="log", xlabel=rf"${unit or 1}/\alpha$", ylabel="smallest $n$")
        ax.set_title(title, fontsize=8)
        ticks(ax, [])


@validated
class Thresholds(_OfRequest):
    """Smallest n for a coarse alpha against the radius R or ln(1/delta), a panel for each budget.

    The axis of R is logarithmic. An n that is linear in ln R gives a straight line; an n that is
    linear in R leaves the frame. Estimators that take no R have a line across the whole panel. If
    a request has several alpha, the smallest is shown.

    Parameters
    ----------
    against : {'radius', 'delta'}
        Parameter on the horizontal axis.
    leave : names, or values by name, optional
        Estimators whose n may leave the frame, as in a `Selection`.
    """

    against: Literal["radius", "delta"] = "radius"
    leave: Choice | None = None

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        if self.leave is not None:
            select_labels(self.leave, study.estimators, f"{where}.leave")

    def describe(self) -> tuple[str, str]:
        return f"the smallest n with a coarse error against {plain_text(self.against)}", BARS

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        rows = self._found(result)
        rows = rows[(rows["method"] == "curve") & (rows["alpha"] == rows["alpha"].min())]
        names = rows["estimator"].map(lambda label: words.estimator(label, self.against))
        leave = select_labels(self.leave, result.study.estimators) if self.leave is not None else []
        if rows["family"].nunique() > 1:
            names += ", " + rows["family"].map(words.family)
        rows = rows.assign(series=names, stays=~rows["estimator"].isin(leave))
        unit = self._unit(rows, result.study)
        held = [name for name in BUDGET if name != self.against]
        looks = line_styles(rows["series"])
        for _, panel in rows.groupby(held, dropna=False):
            title = words.budget(panel.iloc[0].to_dict(), held)
            yield partial(self._panel, panel, title, unit, looks)

    def _panel(self, rows: pd.DataFrame, title: str, unit: str, looks: Looks, ax: Axes) -> None:
        variable = VARIABLES[self.against]
        amounts = rows[self.against].to_numpy(float)
        # Draw log10 R on a linear axis, because ticks of a logarithmic axis overflow near 1e300.
        x = variable.x(amounts) if variable.shows_x else np.log10(amounts)
        ends = pd.DataFrame({"x": [np.nanmin(x), np.nanmax(x)]})
        for series, curve in rows.assign(x=x).groupby("series"):
            points = curve.sort_values("x")
            if points["x"].isna().all():
                points = points.drop(columns="x").merge(ends, how="cross")
            x, y, look = points["x"], points["samples"], {"label": series, **looks[str(series)]}
            _errorbar(ax, x, y, points, "samples", **look)
        top = rows.loc[rows["stays"], ["samples", "high"]].max().max()
        ax.set_ylim(0, 1.15 * top if np.isfinite(top) else None)
        if not variable.shows_x:
            ax.xaxis.set_major_formatter(lambda x, _: f"$10^{{{x:g}}}$")
        alpha = rf"{number_text(rows['alpha'].iloc[0])}\,{unit}"
        ax.set(xlabel=variable.axis, ylabel=rf"smallest $n$ for $\alpha = {alpha}$", title=title)
