"""Figures of errors: against n, taken apart, and their exponents."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.drawing import (
    BOUND,
    THEORY,
    band,
    legend,
    line_styles,
    panels,
    power_text,
    ticks,
    two_rows,
)
from dpbench.estimators.heavy_tailed import HeavyTailedMean, worst_clipping_bias
from dpbench.privacy import Budget
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import (
    Asked,
    Figure,
    Labels,
    Metric,
    Results,
    axis_label,
    budget_text,
    shown,
    spread,
    with_interval,
)
from dpbench.runner.plan import Sweep, pick
from dpbench.theory.lower_bounds import BETA
from dpbench.theory.theorems import THEOREMS

if TYPE_CHECKING:  # drawing libraries load when the first figure is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

# Between the largest and the smallest error of a panel, at most.
MOST_DECADES = 1e9
MOST_MARKERS = 15

__all__ = ["Decomposition", "ErrorAgainstN", "Exponents"]


@validated
class ErrorAgainstN(Figure):
    """The worst error over each family against n, in panels.

    Dotted lines have the slope that a claim of the sweep predicts, through the
    geometric mean of the measured errors. Bands are 95% intervals of the member that is
    worst, where the metric has one. Below the black line no private estimator can be.

    Parameters
    ----------
    families, estimators : list of str
        Labels or patterns.
    budget : str or list of str
        Labels or patterns of the budgets shown: one, or a panel for each with ``by: budget``.
    metric : str
        A column of the summary.
    by : {'k', 'family', 'budget'}
        What the panels differ in. In a panel of one moment order all families are drawn.
    """

    families: Labels
    budget: str | Labels
    estimators: Labels | None = None
    metric: Metric = "q90"
    by: Literal["k", "family", "budget"] = "k"

    def check(self, sweep: Sweep, known: Asked, where: str) -> None:
        pick(self.families, sweep.families, f"{where}.families")
        pick(self.estimators, sweep.estimators, f"{where}.estimators")
        budgets = pick(self._budgets, sweep.budgets, f"{where}.budget")
        if self.by != "budget" and len(budgets) > 1:
            raise ConfigError(f"{where}.budget: {self.budget!r}: one budget, or by: budget")

    @property
    def _budgets(self) -> list[str]:
        return [self.budget] if isinstance(self.budget, str) else self.budget

    @property
    def intervals(self) -> str:
        return spread([self.metric])

    def draw(self, results: Results) -> Canvas:
        rows = {title: panel for title, panel in self._panels(results) if not panel.empty}
        style = line_styles(results.words(e) for panel in rows.values() for e in panel["estimator"])
        canvas, axes = panels(len(rows))
        for (title, whole), ax in zip(rows.items(), axes, strict=False):
            panel = self._framed(ax, whole)
            for (family, estimator), curve in panel.groupby(["family", "estimator"]):
                name = results.words(str(estimator))
                self._curve(ax, curve, style[name], name)
                self._theory(ax, curve, results.claims, str(family), str(estimator))
            self._bound(ax, panel)
            ax.set(xscale="log", xlabel="$n$", title=title)
            if self.metric not in {"miss_rate", "mean_error", "failure_rate"}:
                ax.set_yscale("log")
            ax.set_ylabel(axis_label(self.metric))
            ticks(ax, panel["n"])
        legend(canvas)
        return canvas

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

    def _panels(self, results: Results) -> list[tuple[str, pd.DataFrame]]:
        """Titles and rows of the panels."""
        sweep = results.sweep
        estimators = pick(self.estimators, sweep.estimators, "figures.estimators")
        families = pick(self.families, sweep.families, "figures.families")
        summary = results.summary
        rows = summary[summary["family"].isin(families) & summary["estimator"].isin(estimators)]
        rows = with_interval(rows[rows[self.metric].notna()], self.metric)
        budgets = pick(self._budgets, sweep.budgets, "figures.budget")
        if self.by == "budget":
            paid = [sweep.budgets[label] for label in budgets]
            return [(budget_text(one, results.words), shown(rows, one)) for one in paid]
        rows = shown(rows, sweep.budgets[budgets[0]])
        if self.by == "family":
            return [
                (results.words(str(family)).replace("_", " "), panel)
                for family, panel in rows.groupby("family")
            ]
        return [
            ("no moment order" if np.isnan(k) else f"$k = {k:g}$", panel)
            for k, panel in ((p["k"].iloc[0], p) for _, p in rows.groupby("k", dropna=False))
        ]

    def _curve(self, ax: Axes, rows: pd.DataFrame, style: dict[str, Any], label: str) -> None:
        worst = rows.loc[rows.groupby("n")[self.metric].idxmax()]
        shown_values = worst[self.metric].replace(np.inf, np.nan)
        every = -(-len(worst) // MOST_MARKERS)
        ax.plot(worst["n"], shown_values, label=label, markevery=every, **style)
        band(ax, worst, "n", style["color"])

    def _theory(
        self, ax: Axes, rows: pd.DataFrame, claims: pd.DataFrame, family: str, estimator: str
    ) -> None:
        """Draw the slope of every claim about these rows, over the claim's regime."""
        if claims.empty:
            return
        about = claims[
            (claims["distribution"] == family)
            & (claims["estimator"] == estimator)
            & claims["variable"].isin(["alpha", "n"])
            & (claims["metric"] == self.metric)
            & (claims["privacy"] == rows["privacy"].iloc[0])
        ]
        for name in ("epsilon", "delta", "rho"):
            about = about[about[name].isna() | (about[name] == rows[name].iloc[0])]
        for claim in about.to_dict("records"):
            regime = rows[rows["n"].between(claim["n_low"], claim["n_high"])]
            value = regime.groupby("n")[self.metric].max()
            n = value.index.to_numpy(float)
            predicted = claim["predicted"]
            shape = n ** (predicted if claim["variable"] == "n" else -1 / predicted)
            scale = np.exp(np.mean(np.log(value.to_numpy() / shape)))
            label = "slowest slope by theory" if claim["at_most"] else "slope by theory"
            ax.plot(n, scale * shape, label=label, **THEORY)

    def _bound(self, ax: Axes, rows: pd.DataFrame) -> None:
        bound = rows.groupby("n")["lower_bound"].max().dropna()
        if bound.empty or self.metric != "q90":
            return
        ax.plot(bound.index, bound, label="lower bound", **BOUND)
        errors = rows[self.metric]
        errors = errors[np.isfinite(errors) & (errors > 0)]
        largest = min(errors.max(), MOST_DECADES * errors.min())
        bottom, top = bound.min() / 2, 2 * max(bound.max(), largest)
        ax.fill_between(bound.index, bound, bottom, color="black", alpha=0.08, linewidth=0)
        ax.set_ylim(bottom, top)


@validated
class Decomposition(Figure):
    """The parts of the error against the clipping threshold T, a panel per family.

    Bias falls and noise rises; the T that each policy chooses is marked. Dotted lines
    are the worst bias over the moment class and the quantile of the noise.

    Parameters
    ----------
    families : list of str
    estimators : list of str
        Estimators with `clip_at` given.
    chosen : list of str
        Estimators whose own T is marked.
    budget : str
        Label of the budget shown.
    n : int
    """

    families: Labels
    estimators: Labels
    chosen: Labels
    budget: str
    n: Annotated[int, Field(ge=1)]
    PARTS: ClassVar[dict[str, str]] = {
        "q90": "error",
        "bias_q90": "clipping bias",
        "noise_q90": "noise",
        "sampling_q90": "sampling",
    }

    def check(self, sweep: Sweep, known: Asked, where: str) -> None:
        for family in pick(self.families, sweep.families, f"{where}.families"):
            for label in pick(self.chosen, sweep.estimators, f"{where}.chosen"):
                if not isinstance(sweep.estimator(label, family), HeavyTailedMean):
                    raise ConfigError(f"{where}.chosen: {label!r}: it chooses no threshold")
        for label in pick(self.estimators, sweep.estimators, f"{where}.estimators"):
            if "clip_at" not in sweep.estimators[label]:
                raise ConfigError(f"{where}.estimators: {label!r}: it has no clip_at")
        pick([self.budget], sweep.budgets, f"{where}.budget")

    @property
    def intervals(self) -> str:
        return spread([])

    def draw(self, results: Results) -> Canvas:
        sweep = results.sweep
        budget = sweep.budgets[self.budget]
        labels = pick(self.estimators, sweep.estimators, "figures.estimators")
        families = pick(self.families, sweep.families, "figures.families")
        rows = shown(results.summary, budget)
        rows = rows[(rows["n"] == self.n) & rows["estimator"].isin(labels)].assign(
            threshold=lambda frame: [sweep.estimators[e]["clip_at"] for e in frame["estimator"]]
        )
        style = line_styles(self.PARTS.values())
        canvas, axes = panels(len(families), height=2.8)
        for family, ax in zip(families, axes, strict=False):
            panel = rows[rows["family"] == family]
            for part, name in self.PARTS.items():
                worst = panel.groupby("threshold")[part].max()
                ax.plot(worst.index, worst, label=name, **style[name])
            ax.set(xscale="log", yscale="log", xlabel="threshold $T$")
            ax.minorticks_off()
            name = family.partition("_k")[0].replace("_", " ").capitalize()
            ax.set_title(f"{name}, $k = {panel['k'].iloc[0]:g}$", pad=14)
            ax.set_ylabel(f"0.9 quantile at $n = {power_text(self.n)}$")
            self._theory(ax, panel, budget)
            self._chosen(ax, results, family, budget)
        legend(canvas)
        return canvas

    def _theory(self, ax: Axes, panel: pd.DataFrame, budget: Budget) -> None:
        # A bias of zero is a rounding error on the page: leave it below the frame.
        bottom, top = panel["noise_q90"].min() / 3, 3 * panel["q90"].max()
        thresholds = np.sort(panel["threshold"].unique())
        k = panel["k"].iloc[0]
        bias = [worst_clipping_bias(t, k) for t in thresholds]
        noise = 2 * thresholds / self.n * budget.noise_quantile(BETA)
        ax.plot(thresholds, bias, label="theory", **THEORY)
        ax.plot(thresholds, noise, **THEORY)
        ax.set_ylim(bottom, top)

    def _chosen(self, ax: Axes, results: Results, family: str, budget: Budget) -> None:
        sweep = results.sweep
        for label in pick(self.chosen, sweep.estimators, "figures.chosen"):
            estimator = sweep.estimator(label, family)
            assert isinstance(estimator, HeavyTailedMean)
            threshold = estimator.clipping_threshold(self.n, budget)
            low, high = ax.get_xlim()
            if low < threshold < high:
                ax.axvline(threshold, color="0.35", linewidth=0.8, zorder=1)
                at: dict[str, Any] = {
                    "xycoords": ("data", "axes fraction"),
                    "ha": "center",
                    "va": "bottom",
                }
                ax.annotate(results.words(label), (threshold, 1.01), fontsize=7, **at)


@validated
class Exponents(Figure):
    """Measured exponents with 95% intervals against k, over the curves of theory.

    Left the e of n ~ (1/alpha)^e, right the s of n ~ (1/epsilon)^s; below, what is left
    when theory is taken away, with the claims' tolerance in grey.

    Parameters
    ----------
    claims : list of str
        Labels or patterns of claims about exponents.
    """

    claims: Labels
    TITLES: ClassVar[dict[str, str]] = {
        "alpha": r"$e$ in $n \sim (1/\alpha)^e$",
        "epsilon": r"$s$ in $n \sim (1/\varepsilon)^s$",
    }

    def check(self, sweep: Sweep, known: Asked, where: str) -> None:
        pick(self.claims, known.claims, f"{where}.claims")

    def draw(self, results: Results) -> Canvas:
        names = pick(self.claims, results.claims["claim"].unique(), "figures.claims")
        rows = results.claims[results.claims["claim"].isin(names)]
        rows = rows.assign(
            label=rows["estimator"].where(
                rows["privacy"].isin(["pure"]) | rows["privacy"].isna(),
                rows["estimator"] + " (" + rows["privacy"].astype(str) + ")",
            )
        )
        style = line_styles(rows["label"])
        variables = [v for v in self.TITLES if v in set(rows["variable"])]
        canvas, above, below = two_rows(len(variables))
        for variable, top, bottom in zip(variables, above, below, strict=True):
            panel = rows[rows["variable"] == variable]
            self._curves(top, panel)
            self._points(top, panel, style, panel["measured"], results.words)
            top.set_ylabel(self.TITLES[variable])
            tolerance = panel["tolerance"].max()
            bottom.axhspan(-tolerance, tolerance, color="black", alpha=0.08, linewidth=0)
            bottom.axhline(0, **THEORY)
            left = panel["measured"] - panel["predicted"]
            self._points(bottom, panel, style, left, results.words)
            bottom.set(xlabel="moment order $k$", ylabel="measured - theory")
            bottom.set_xticks(sorted(panel["k"].unique()))
        legend(canvas)
        return canvas

    @staticmethod
    def _points(
        ax: Axes,
        panel: pd.DataFrame,
        style: dict[str, Any],
        height: pd.Series,
        words: Callable[[str], str],
    ) -> None:
        """Draw intervals around `height`, side by side where they share a k."""
        for i, (label, points) in enumerate(panel.groupby("label")):
            look = {key: style[str(label)][key] for key in ("color", "marker")}
            apart = 0.42 / ax.get_figure().get_figwidth()  # type: ignore[union-attr]
            shift = apart * (i - (panel["label"].nunique() - 1) / 2)
            ends = points[["low", "high"]].to_numpy().T - points["measured"].to_numpy()
            ax.errorbar(
                points["k"] + shift,
                height[points.index],
                yerr=np.abs(ends),
                label=words(str(label)),
                linestyle="none",
                capsize=2,
                elinewidth=1,
                markersize=3,
                **look,
            )

    @staticmethod
    def _curves(ax: Axes, panel: pd.DataFrame) -> None:
        """Draw the distinct predictions; the theorems are known at every k."""
        k = np.linspace(panel["k"].min() - 0.1, panel["k"].max() + 0.1, 200)
        drawn = set()
        for theorem in THEOREMS.values():
            about = panel[panel["source"] == theorem.source]
            # a source has several theorems: of these, the ones that the claims are about
            right = np.isclose(about["predicted"], about["k"].map(theorem.predicted))
            known = pd.Series(right, about.index).groupby(about["claim"]).all().any()
            if not known or theorem.variable != panel["variable"].iloc[0]:
                continue
            curve = np.array([theorem.predicted(x) for x in k])
            if tuple(curve) not in drawn:
                drawn.add(tuple(curve))
                ax.plot(k, curve, label="theory", **THEORY)
