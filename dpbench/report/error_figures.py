"""Figures of errors: against n, taken apart, and their exponents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.claims import Claim
from dpbench.columns import BUDGET, Choice, choose, under
from dpbench.drawing import (
    BOUND,
    THEORY,
    band,
    line_styles,
    power_text,
    ticks,
    two_rows,
)
from dpbench.estimators.heavy_tailed import HeavyTailedMean, worst_clipping_bias
from dpbench.metrics import METRICS, VARIABLES, MetricName
from dpbench.privacy import Budget
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import (
    Figure,
    Panel,
    SelectingFigure,
    check_one_budget,
    chosen_labels,
    linear,
    slope_by_theory,
    spread,
    with_interval,
)
from dpbench.report.words import Words, exponent_text, metric_text, plain
from dpbench.theory.lower_bounds import BETA

if TYPE_CHECKING:  # drawing libraries load when the first figure is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

    from dpbench.result import Result
    from dpbench.study import Study

__all__ = ["Decomposition", "ErrorAgainstN", "Exponents"]

# Between the largest and the smallest error of a panel, at most.
MOST_DECADES = 1e9
MOST_MARKERS = 15
# The column that lower bounds are about.
BOUNDED = "q90"
# The exponent of n in an error, from a theorem's number.
SLOPES: dict[str, Callable[[float], float]] = {"n": lambda c: c, "alpha": lambda e: -1 / e}


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

    @property
    def shows(self) -> str:
        return f"{plain(metric_text(self.metric))} against n"

    @property
    def intervals(self) -> str:
        return spread([self.metric])

    def _panels(self, result: Result, words: Words) -> Sequence[Panel]:
        rows = with_interval(self.rows(result).dropna(subset=[self.metric]), self.metric)
        style = line_styles(map(words.estimator, rows["estimator"].unique()))
        scale = "linear" if linear(rows, self.metric) else "log"
        return [
            partial(
                self._draw_panel, title=title, rows=panel, scale=scale, style=style, words=words,
                claims=result.claims,
            )
            for title, panel in self._parts(rows, words)
            if not panel.empty
        ]  # fmt: skip

    def _parts(self, rows: pd.DataFrame, words: Words) -> Iterator[tuple[str, pd.DataFrame]]:
        """Titles and rows of the panels."""
        study = words.study
        if self.by == "budget":
            for label in choose(self.budgets, study.budgets):
                budget = study.budgets[label].value
                paid = under(rows, budget)
                if paid.any():
                    shown = rows[paid | (rows["privacy"] == "none")]
                    yield words.budget(budget.columns), shown.reset_index(drop=True)
        elif self.by == "family":
            for family, panel in rows.groupby("family"):
                yield words.family(str(family)), panel
        else:
            for _, panel in rows.groupby("k", dropna=False):
                k = panel["k"].iloc[0]
                yield "no moment order" if pd.isna(k) else f"$k = {k:g}$", panel

    def _draw_panel(
        self,
        ax: Axes,
        *,
        title: str,
        rows: pd.DataFrame,
        scale: str,
        style: Mapping[str, dict[str, Any]],
        words: Words,
        claims: pd.DataFrame,
    ) -> None:
        rows = self._framed(ax, rows)
        for (_, estimator), curve in rows.groupby(["family", "estimator"]):
            name = words.estimator(str(estimator))
            self._curve(ax, curve, style[name], name)
            self._theory(ax, curve, claims, words.study)
        self._bound(ax, rows)
        ax.set(xscale="log", yscale=scale, xlabel="$n$", title=title)
        ax.set_ylabel(METRICS[self.metric].words)
        ticks(ax, rows["n"])

    def _framed(self, ax: Axes, rows: pd.DataFrame) -> pd.DataFrame:
        """Let the errors of a search that went astray, which reach 1e300, leave the frame."""
        values = rows[self.metric]
        positive = values[np.isfinite(values) & (values > 0)]
        if positive.empty or positive.max() <= MOST_DECADES * positive.min():
            return rows
        top = MOST_DECADES * positive.min()
        ax.set_ylim(positive.min() / 2, top)
        drawn = [self.metric, "low", "high"]
        return rows.assign(**{name: rows[name].clip(upper=10 * top) for name in drawn})

    def _curve(self, ax: Axes, rows: pd.DataFrame, style: dict[str, Any], label: str) -> None:
        worst = rows.loc[rows.groupby("n")[self.metric].idxmax()]
        shown = worst[self.metric].replace(np.inf, np.nan)
        every = -(-len(worst) // MOST_MARKERS)
        ax.plot(worst["n"], shown, label=label, markevery=every, **style)
        band(ax, worst, "n", style["color"])

    def _theory(self, ax: Axes, rows: pd.DataFrame, claims: pd.DataFrame, study: Study) -> None:
        """Draw the slope of every claim about these rows, over the claim's regime."""
        about = claims[claims["variable"].isin(list(SLOPES)) & (claims["metric"] == self.metric)]
        row = rows.iloc[0]
        for claim in about.to_dict("records"):
            names = {"distribution": row["family"], "estimator": row["estimator"]}
            names |= {name: row[name] for name in BUDGET if pd.notna(row[name])}
            if any(claim[name] != value for name, value in names.items()):
                continue
            regime = rows[rows["n"].between(claim["n_low"], claim["n_high"])]
            value = regime.groupby("n")[self.metric].max()
            n = value.index.to_numpy(float)
            at_most = study.all_claims[claim["claim"]].statement.at_most
            label = "slowest slope by theory" if at_most else "slope by theory"
            slope_by_theory(ax, n, value, n ** SLOPES[claim["variable"]](claim["predicted"]), label)

    def _bound(self, ax: Axes, rows: pd.DataFrame) -> None:
        bound = rows.groupby("n")["lower_bound"].max().dropna()
        if bound.empty or self.metric != BOUNDED:
            return
        ax.plot(bound.index, bound, label="lower bound", **BOUND)
        errors = rows[self.metric]
        errors = errors[np.isfinite(errors) & (errors > 0)]
        largest = min(errors.max(), MOST_DECADES * errors.min())
        bottom, top = bound.min() / 2, 2 * max(bound.max(), largest)
        ax.fill_between(bound.index, bound, bottom, color="black", alpha=0.08, linewidth=0)
        ax.set_ylim(bottom, top)


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
        "q90": "error",
        "bias_q90": "clipping bias",
        "noise_q90": "noise",
        "sampling_q90": "sampling",
    }

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        if self.n not in set(rows["n"]):
            raise ConfigError(f"{where}.n: {self.n}: the sweep does not run it")
        check_one_budget(rows, where)
        for label in rows["estimator"].unique():
            if "clip_at" not in study.estimators[label].swept:
                raise ConfigError(f"{where}.estimators: {label!r}: it has no list of clip_at")
        for label in choose(self.chosen, study.estimators, f"{where}.chosen"):
            for family in rows["family"].unique():
                if not isinstance(study.estimator(label, family), HeavyTailedMean):
                    raise ConfigError(f"{where}.chosen: {label!r}: it chooses no threshold")

    @property
    def shows(self) -> str:
        return "0.9 quantiles of the error and its parts against the clipping threshold"

    @property
    def intervals(self) -> str:
        return spread([])

    def rows(self, result: Result) -> pd.DataFrame:
        rows = super().rows(result)
        return rows[rows["n"] == self.n]

    def _panels(self, result: Result, words: Words) -> Sequence[Panel]:
        return [
            partial(self._draw_panel, family=str(family), rows=rows, words=words)
            for family, rows in self.rows(result).groupby("family", sort=False)
        ]

    def _draw_panel(self, ax: Axes, *, family: str, rows: pd.DataFrame, words: Words) -> None:
        for part, name in self.PARTS.items():
            worst = rows.groupby("clip_at")[part].max()
            ax.plot(worst.index, worst, label=name, **line_styles(self.PARTS.values())[name])
        ax.set(xscale="log", yscale="log", xlabel="threshold $T$")
        ax.minorticks_off()
        ax.set_title(words.family(family), pad=14)
        ax.set_ylabel(f"0.9 quantile at $n = {power_text(self.n)}$")
        budgets = (one.value for one in words.study.budgets.values())
        budget = next(one for one in budgets if under(rows, one).any())
        self._theory(ax, rows, budget)
        self._chosen(ax, family, budget, words)

    def _theory(self, ax: Axes, rows: pd.DataFrame, budget: Budget) -> None:
        # A bias of zero is a rounding error on the page: leave it below the frame.
        bottom, top = rows["noise_q90"].min() / 3, 3 * rows["q90"].max()
        thresholds = np.sort(rows["clip_at"].unique())
        bias = [worst_clipping_bias(t, rows["k"].iloc[0]) for t in thresholds]
        noise = 2 * thresholds / self.n * budget.noise_quantile(BETA)
        ax.plot(thresholds, bias, label="theory", **THEORY)
        ax.plot(thresholds, noise, **THEORY)
        ax.set_ylim(bottom, top)

    def _chosen(self, ax: Axes, family: str, budget: Budget, words: Words) -> None:
        for label in choose(self.chosen, words.study.estimators):
            estimator = words.study.estimator(label, family)
            assert isinstance(estimator, HeavyTailedMean)
            threshold = estimator.clipping_threshold(self.n, budget)
            low, high = ax.get_xlim()
            if low < threshold < high:
                ax.axvline(threshold, color="0.35", linewidth=0.8, zorder=1)
                at: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center"}
                at |= {"va": "bottom", "fontsize": 7}
                ax.annotate(words.estimator(label), (threshold, 1.01), **at)


@validated
class Exponents(Figure):
    """Measured exponents with 95% intervals against k, over the curves of theory.

    A panel for each variable; below, what is left when theory is taken away, with the claims'
    tolerance in grey.

    Parameters
    ----------
    claims : names or patterns
        Claims about exponents.
    """

    claims: Choice

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        for label, claim in self._claims(study, f"{where}.claims").items():
            if claim.statement.variable not in VARIABLES:
                raise ConfigError(f"{where}.claims: {label!r}: it is about no exponent")
            if keys.loc[study.about(claim, keys), "k"].isna().any():
                raise ConfigError(f"{where}.claims: {label!r}: a family has no moment order")

    def _claims(self, study: Study, where: str = "") -> dict[str, Claim]:
        known = study.all_claims
        return {label: known[label] for label in chosen_labels(self.claims, known, where)}

    @property
    def shows(self) -> str:
        return "fitted exponents against the moment order k, and measured minus theory"

    def rows(self, result: Result) -> pd.DataFrame:
        summary = result.summary
        shown = pd.Series(data=False, index=summary.index)
        for claim in self._claims(result.study).values():
            regime = summary["n"].between(claim.n_min, claim.n_max or np.inf)
            shown |= result.study.about(claim, summary) & regime
        return summary[shown]

    def _panels(self, result: Result, words: Words) -> Sequence[Panel]:
        rows = self._measured(result, words)
        style = line_styles(rows["label"])
        groups = [panel for _, panel in rows.groupby("variable", sort=False)]
        return [
            partial(draw, rows=panel, style=style, study=result.study)
            for draw in (self._draw_above, self._draw_below)
            for panel in groups
        ]

    def _laid_out(self, count: int, on: Axes | None) -> tuple[Canvas, Iterator[Axes]]:
        canvas, above, below = two_rows(count // 2, on=on)
        return canvas, iter([*above, *below])

    def _measured(self, result: Result, words: Words) -> pd.DataFrame:
        """The rows of the claims with the moment order ``k`` and a ``label`` for the legend."""
        study = result.study
        rows = result.claims[result.claims["claim"].isin(list(self._claims(study)))]
        orders, labels = [], []
        budgets = words.budgets(rows)
        for row, budget in zip(rows.to_dict("records"), budgets, strict=True):
            spanned = VARIABLES[row["variable"]].column
            laws = {one.label(spanned): one.value for one in study.families.values()}
            series = {one.label(spanned): one for one in study.estimators.values()}
            orders.append(laws[row["distribution"]].moment_order)
            one = series.get(row["estimator"])  # none of a lower bound
            name = words.variant(one, spanned) if one else row["estimator"].strip("()")
            labels.append(", ".join(filter(None, [name, budget])))
        return rows.assign(k=np.array(orders, dtype=float), label=labels)

    def _draw_above(
        self, ax: Axes, *, rows: pd.DataFrame, style: Mapping[str, dict[str, Any]], study: Study
    ) -> None:
        k = np.linspace(rows["k"].min() - 0.1, rows["k"].max() + 0.1, 200)
        claims = [study.all_claims[label] for label in rows["claim"].unique()]
        for curve in dict.fromkeys(tuple(claim.prediction(x) for x in k) for claim in claims):
            ax.plot(k, curve, label="theory", **THEORY)
        self._points(ax, rows, style, rows["measured"])
        what, base, sign = exponent_text(claims[0].statement)
        ax.set_ylabel(rf"${sign}$ in $\mathit{{{what}}} \sim {base}^{sign}$")

    def _draw_below(
        self, ax: Axes, *, rows: pd.DataFrame, style: Mapping[str, dict[str, Any]], study: Study
    ) -> None:
        tolerance = rows["tolerance"].max()
        ax.axhspan(-tolerance, tolerance, color="black", alpha=0.08, linewidth=0)
        ax.axhline(0, **THEORY)
        self._points(ax, rows, style, rows["measured"] - rows["predicted"])
        ax.set_ylabel("measured - theory")

    @staticmethod
    def _points(
        ax: Axes, rows: pd.DataFrame, style: Mapping[str, dict[str, Any]], height: pd.Series[float]
    ) -> None:
        """Draw intervals around `height`, side by side where they share a k."""
        for i, (label, points) in enumerate(rows.groupby("label")):
            look = {key: style[str(label)][key] for key in ("color", "marker")}
            apart = 0.42 / ax.figure.figure.get_figwidth()
            shift = apart * (i - (rows["label"].nunique() - 1) / 2)
            ends = points[["low", "high"]].to_numpy().T - points["measured"].to_numpy()
            ax.errorbar(
                points["k"] + shift, height[points.index], yerr=np.abs(ends), label=str(label),
                linestyle="none", capsize=2, elinewidth=1, markersize=3, **look,
            )  # fmt: skip
        ax.set_xticks(sorted(rows["k"].unique()))
        if ax.xaxis.get_tick_params()["labelbottom"]:  # unless another panel is below
            ax.set_xlabel("moment order $k$")
