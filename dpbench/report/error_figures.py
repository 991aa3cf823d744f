"""Figures of errors: against n, taken apart, and their exponents."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.claims import Claim
from dpbench.columns import Choice, choose, under
from dpbench.drawing import BOUND, THEORY, line_styles, number_text, ticks
from dpbench.estimators.heavy_tailed import HeavyTailedMean, worst_clipping_bias
from dpbench.metrics import METRICS, VARIABLES, MetricName
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import (
    BARS,
    DrawnFigure,
    Looks,
    Panel,
    SelectingFigure,
    check_one_budget,
    check_sizes,
    chosen_labels,
    draw_curve,
    draw_slopes,
    linear,
    reach,
    spread,
    with_interval,
)
from dpbench.report.words import Words, exponent_text, metric_text, plain, variant_text
from dpbench.result import Result
from dpbench.study import Study
from dpbench.theory.lower_bounds import BETA

if TYPE_CHECKING:  # drawing libraries load when the first figure is drawn
    from matplotlib.axes import Axes

__all__ = ["Decomposition", "ErrorAgainstN", "Exponents"]

# Between the largest and the smallest error of a panel, at most.
MOST_DECADES = 1e9
# The column that lower bounds are about.
BOUNDED = "q90"


@validated
class ErrorAgainstN(SelectingFigure):
    """The worst error over each family against n, in panels.

    Dotted lines have the slope that a claim of the study predicts, through the
    geometric mean of the measured errors. Bands are 95% intervals of the member that is
    worst, where the metric has one. Below the black line no private estimator can be.

    Parameters
    ----------
    metric : str
        A column of the summary.
    by : {'k', 'family', 'budget'}
        What the panels differ in. In a panel of one moment order all families are drawn.
    """

    metric: MetricName = "q90"
    by: Literal["k", "family", "budget"] = "k"

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        if self.by != "budget":
            check_one_budget(rows, where, ", or by: budget")

    def told(self) -> tuple[str, str]:
        return f"{plain(metric_text(self.metric))} against n", spread([self.metric])

    def _panels(self, result: Result, words: Words) -> Iterator[Panel]:
        rows = with_interval(self.rows(result).dropna(subset=[self.metric]), self.metric)
        lines = {label: words.estimator(label) for label in rows["estimator"].unique()}
        styles = line_styles(lines.values())
        looks = {label: {"label": line, **styles[line]} for label, line in lines.items()}
        scale = "linear" if linear(rows, self.metric) else "log"
        for title, panel in self._parts(rows, words):
            yield partial(self._panel, panel, {"title": title, "yscale": scale}, looks, result)

    def _parts(self, rows: pd.DataFrame, words: Words) -> Iterator[tuple[str, pd.DataFrame]]:
        """Titles and rows of the panels."""
        if self.by == "budget":
            free = rows["privacy"] == "none"
            for label in choose(self.budgets, words.study.budgets):
                budget = words.study.budgets[label].value
                paid = under(rows, budget)
                if paid.any():
                    yield words.budget(budget.columns), rows[paid | free]
        elif self.by == "family":
            for family, panel in rows.groupby("family"):
                yield words.family(str(family)), panel
        else:
            for _, panel in rows.groupby("k", dropna=False):
                k = panel["k"].iloc[0]
                yield "no moment order" if pd.isna(k) else f"$k = {k:g}$", panel

    def _panel(
        self, rows: pd.DataFrame, about: dict[str, str], looks: Looks, result: Result, ax: Axes
    ) -> None:
        positive = rows.loc[np.isfinite(rows[self.metric]) & (rows[self.metric] > 0), self.metric]
        top = MOST_DECADES * positive.min()
        if positive.max() > top:  # a search that went astray reaches 1e300 and leaves the frame
            ax.set_ylim(positive.min() / 2, top)
            drawn = [self.metric, "low", "high"]
            rows = rows.assign(**{name: rows[name].clip(upper=10 * top) for name in drawn})
        for (_, estimator), curve in rows.groupby(["family", "estimator"]):
            worst = draw_curve(ax, curve, "n", self.metric, looks[str(estimator)])
            draw_slopes(ax, worst, "n", self.metric, "n", result)
        bound = rows.groupby("n")["lower_bound"].max().dropna()
        if self.metric == BOUNDED and not bound.empty:
            ax.plot(bound.index, bound, label="lower bound", **BOUND)
            bottom = bound.min() / 2
            ax.fill_between(bound.index, bound, bottom, color="black", alpha=0.08, linewidth=0)
            ax.set_ylim(bottom, 2 * max(bound.max(), min(positive.max(), top)))
        ax.set(xscale="log", xlabel="$n$", ylabel=METRICS[self.metric].words, **about)
        ticks(ax, rows["n"])


@validated
class Decomposition(SelectingFigure):
    """The parts of the error against the clipping threshold T, a panel per family.

    Bias falls and noise rises; the T that each policy chooses is marked. Dotted lines
    are the worst bias over the moment class and the quantile of the noise.

    Parameters
    ----------
    estimators : optional
        Those with a list of `clip_at`.
    chosen : names, or values by name
        Estimators whose own T is marked, as in a `Selection`.
    n : int
    """

    chosen: Choice
    n: Annotated[int, Field(ge=1)]
    PARTS: ClassVar[dict[str, str]] = {
        "q90": "error", "bias_q90": "clipping bias", "noise_q90": "noise",
        "sampling_q90": "sampling",
    }  # fmt: skip

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        check_sizes(rows, [self.n], where)
        check_one_budget(rows, where)
        for label in rows["estimator"].unique():
            if "clip_at" not in study.estimators[label].swept:
                raise ConfigError(f"{where}.estimators: {label!r}: it has no list of clip_at")
        for label in choose(self.chosen, study.estimators, f"{where}.chosen"):
            for family in rows["family"].unique():
                if not isinstance(study.estimator(label, family), HeavyTailedMean):
                    raise ConfigError(f"{where}.chosen: {label!r}: it chooses no threshold")

    def told(self) -> tuple[str, str]:
        shown = "0.9 quantiles of the error and its parts against the clipping threshold"
        return shown, spread([])

    def rows(self, result: Result) -> pd.DataFrame:
        rows = super().rows(result)
        return rows[rows["n"] == self.n]

    def _panels(self, result: Result, words: Words) -> Iterator[Panel]:
        for family, rows in self.rows(result).groupby("family", sort=False):
            yield partial(self._panel, str(family), rows, words)

    def _panel(self, family: str, rows: pd.DataFrame, words: Words, ax: Axes) -> None:
        looks, study = line_styles(self.PARTS.values()), words.study
        for part, name in self.PARTS.items():
            worst = rows.groupby("clip_at")[part].max()
            ax.plot(worst.index, worst, label=name, **looks[name])
        ax.set(xscale="log", yscale="log", xlabel="threshold $T$")
        ax.minorticks_off()
        ax.set_title(words.family(family), pad=14)
        ax.set_ylabel(f"0.9 quantile at $n = {number_text(self.n)}$")
        known = (one.value for one in study.budgets.values())
        budget = next(one for one in known if under(rows, one).any())
        thresholds = np.sort(rows["clip_at"].unique())
        bias = [worst_clipping_bias(t, rows["k"].iloc[0]) for t in thresholds]
        ax.plot(thresholds, bias, label="theory", **THEORY)
        ax.plot(thresholds, 2 * thresholds / self.n * budget.noise_quantile(BETA), **THEORY)
        # a bias of zero is a rounding error on the page: leave it below the frame
        ax.set_ylim(rows["noise_q90"].min() / 3, 3 * rows["q90"].max())
        for label in choose(self.chosen, study.estimators):
            estimator = study.estimator(label, family)
            assert isinstance(estimator, HeavyTailedMean)
            threshold = estimator.clipping_threshold(self.n, budget)
            low, high = ax.get_xlim()
            if low < threshold < high:
                ax.axvline(threshold, color="0.35", linewidth=0.8, zorder=1)
                at: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "fontsize": 7}
                name = words.estimator(label)
                ax.annotate(name, (threshold, 1.01), ha="center", va="bottom", **at)


@validated
class Exponents(DrawnFigure):
    """Measured exponents with 95% intervals against k, over the curves of theory.

    A panel for each variable; below, what is left when theory is taken away, with the claims'
    tolerance in grey.

    Parameters
    ----------
    claims : names or patterns
        Claims about exponents.
    """

    claims: Choice
    HEIGHTS: ClassVar[tuple[float, ...]] = (2, 1)

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        for label, claim in self._claims(study, f"{where}.claims").items():
            if claim.statement.variable not in VARIABLES:
                raise ConfigError(f"{where}.claims: {label!r}: it is about no exponent")
            if keys.loc[study.about(claim, keys), "k"].isna().any():
                raise ConfigError(f"{where}.claims: {label!r}: a family has no moment order")

    def _claims(self, study: Study, where: str = "") -> dict[str, Claim]:
        known = study.all_claims
        return {label: known[label] for label in chosen_labels(self.claims, known, where)}

    def told(self) -> tuple[str, str]:
        return "fitted exponents against the moment order k, and measured minus theory", BARS

    def rows(self, result: Result) -> pd.DataFrame:
        summary = result.summary
        shown = pd.Series(data=False, index=summary.index)
        for claim in self._claims(result.study).values():
            regime = summary["n"].between(claim.n_min, claim.n_max or np.inf)
            shown |= result.study.about(claim, summary) & regime
        return summary[shown]

    def _panels(self, result: Result, words: Words) -> Iterator[Panel]:
        rows = self._measured(result, words)
        looks = line_styles(rows["label"])
        for left in (False, True):
            for _, panel in rows.groupby("variable", sort=False):
                yield partial(self._panel, panel, looks, result.study, left)

    def _measured(self, result: Result, words: Words) -> pd.DataFrame:
        """The rows of the claims with the moment order ``k`` and a ``label`` for the legend."""
        study = result.study
        rows = result.claims[result.claims["claim"].isin(list(self._claims(study)))]
        orders, labels = [], []
        for row, budget in zip(rows.to_dict("records"), words.budgets(rows), strict=True):
            spanned = VARIABLES[row["variable"]].column
            laws = {one.label(spanned): one.value for one in study.families.values()}
            series = {one.label(spanned): one for one in study.estimators.values()}
            orders.append(laws[row["distribution"]].moment_order)
            one = series.get(row["estimator"])  # none of a lower bound
            name = variant_text(one, words.names, spanned) if one else row["estimator"].strip("()")
            labels.append(", ".join(filter(None, [name, budget])))
        return rows.assign(k=np.array(orders, dtype=float), label=labels)

    def _panel(self, rows: pd.DataFrame, looks: Looks, study: Study, left: bool, ax: Axes) -> None:
        """Draw what is measured, or what is left of it without theory."""
        claims = [study.all_claims[label] for label in rows["claim"].unique()]
        if left:
            tolerance = rows["tolerance"].max()
            ax.axhspan(-tolerance, tolerance, color="black", alpha=0.08, linewidth=0)
            ax.axhline(0, **THEORY)
            ax.set_ylabel("measured - theory")
        else:
            k = np.linspace(rows["k"].min() - 0.1, rows["k"].max() + 0.1, 200)
            for curve in dict.fromkeys(tuple(claim.prediction(x) for x in k) for claim in claims):
                ax.plot(k, curve, label="theory", **THEORY)
            what, base, sign = exponent_text(claims[0].statement)
            ax.set_ylabel(rf"${sign}$ in $\mathit{{{what}}} \sim {base}^{sign}$")
        apart = 0.42 / ax.figure.figure.get_figwidth()  # of those that share a k
        for i, (label, points) in enumerate(rows.groupby("label")):
            look = {key: looks[str(label)][key] for key in ("color", "marker")}
            shift = apart * (i - (rows["label"].nunique() - 1) / 2)
            height = points["measured"] - (points["predicted"] if left else 0)
            ax.errorbar(
                points["k"] + shift, height, yerr=reach(points, "measured"), label=str(label),
                linestyle="none", capsize=2, elinewidth=1, markersize=3, **look,
            )  # fmt: skip
        ax.set_xticks(sorted(rows["k"].unique()))
        if ax.xaxis.get_tick_params()["labelbottom"]:  # unless another panel is below
            ax.set_xlabel("moment order $k$")
