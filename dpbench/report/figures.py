"""The figures that a sweep may ask for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.worst_case import under
from dpbench.estimators.heavy_tailed import HeavyTailedMean, worst_clipping_bias
from dpbench.parameters import ConfigError, Registered, validated
from dpbench.privacy import Budget
from dpbench.runner.plan import Sweep, pick
from dpbench.theory.lower_bounds import BETA
from dpbench.theory.theorems import THEOREMS

if TYPE_CHECKING:  # drawing libraries load when the first figure is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["Figure", "Results"]

Labels = Annotated[list[str], Field(min_length=1)]
THEORY: dict[str, Any] = {"color": "black", "linestyle": ":", "linewidth": 0.9, "zorder": 1}
BOUND: dict[str, Any] = {"color": "black", "linewidth": 1.2, "zorder": 3}
METRIC_NAMES = {
    "q90": "error",
    "private_q90": "bias + noise",
    "sampling_q90": "sampling error",
}


@dataclass(frozen=True)
class Results:
    """What figures are drawn from."""

    sweep: Sweep
    summary: pd.DataFrame
    claims: pd.DataFrame
    samples: pd.DataFrame


class Figure(Registered, ABC):
    """A figure of a sweep, as configured."""

    @abstractmethod
    def check(self, sweep: Sweep, claims: Collection[str], where: str) -> None:
        """Raise ConfigError if a label is unknown."""

    @abstractmethod
    def draw(self, results: Results) -> Canvas:
        """Draw the figure."""


def _panels(count: int, height: float = 2.4) -> tuple[Canvas, Iterator[Axes]]:
    import matplotlib.pyplot as plt

    from dpbench.report.style import WIDTH

    columns = count if count <= 3 else 2
    rows = -(-count // columns)
    canvas, axes = plt.subplots(rows, columns, figsize=(WIDTH, height * rows), squeeze=False)
    for spare in axes.flat[count:]:
        spare.set_visible(False)
    return canvas, iter(axes.flat)


def _two_rows(columns: int) -> tuple[Canvas, list[Axes], list[Axes]]:
    """Panels above smaller ones that share their horizontal axes."""
    import matplotlib.pyplot as plt

    from dpbench.report.style import WIDTH

    canvas, axes = plt.subplots(
        2,
        columns,
        figsize=(WIDTH, 4.4),
        height_ratios=(2, 1),
        sharex="col",
        squeeze=False,
    )
    return canvas, list(axes[0]), list(axes[1])


def _power(n: float) -> str:
    """A size for mathematical text: powers of ten as such."""
    exponent = round(np.log10(n))
    return f"10^{{{exponent}}}" if 10.0**exponent == n else f"{n:g}"


def _legend(canvas: Canvas) -> None:
    """One legend for all panels, below them."""
    entries: dict[str, Any] = {}
    for axes in canvas.axes:
        handles, labels = axes.get_legend_handles_labels()
        entries |= {label: h for h, label in zip(handles, labels, strict=True)}
    columns = len(entries) if sum(map(len, entries)) < 60 else 4
    canvas.legend(
        entries.values(), entries.keys(), loc="outside lower center", ncols=columns, frameon=False
    )


def _shown(summary: pd.DataFrame, budget: Budget) -> pd.DataFrame:
    """The rows under `budget`, and those without privacy."""
    chosen = under(summary, budget) | (summary["privacy"] == "none")
    return summary[chosen].reset_index(drop=True)


@validated
class ErrorAgainstN(Figure):
    """The worst error over each family against n, a panel per moment order.

    Dotted lines have the slope that a claim of the sweep predicts, through the
    geometric mean of the measured errors. Bands are 95% intervals of the member that is
    worst. Below the black line no private estimator can be.

    Parameters
    ----------
    families, estimators : list of str
        Labels or patterns.
    budget : str
        Label of the one budget shown.
    metric : str
        A 0.9 quantile of the summary.
    """

    families: Labels
    budget: str
    estimators: Labels | None = None
    metric: Literal["q90", "private_q90", "sampling_q90"] = "q90"

    def check(self, sweep: Sweep, claims: Collection[str], where: str) -> None:
        pick(self.families, sweep.families, f"{where}.families")
        pick(self.estimators, sweep.estimators, f"{where}.estimators")
        pick([self.budget], sweep.budgets, f"{where}.budget")

    def draw(self, results: Results) -> Canvas:
        sweep = results.sweep
        estimators = pick(self.estimators, sweep.estimators, "figures.estimators")
        families = pick(self.families, sweep.families, "figures.families")
        rows = _shown(results.summary, sweep.budgets[self.budget])
        rows = rows[rows["family"].isin(families) & rows["estimator"].isin(estimators)]
        from dpbench.report.style import looks

        style = looks(rows["estimator"])
        panels = [panel for _, panel in rows.groupby("k", dropna=False)]
        canvas, axes = _panels(len(panels))
        for panel, ax in zip(panels, axes, strict=False):
            for (family, estimator), curve in panel.groupby(["family", "estimator"]):
                self._curve(ax, curve, style[str(estimator)], str(estimator))
                self._theory(ax, curve, results.claims, str(family), str(estimator))
            self._bound(ax, panel)
            ax.set(xscale="log", yscale="log", xlabel="$n$")
            k = panel["k"].iloc[0]
            ax.set_title("no moment order" if np.isnan(k) else f"$k = {k:g}$")
            ax.set_ylabel(f"{METRIC_NAMES[self.metric]} (0.9 quantile)")
            ax.minorticks_off()
        _legend(canvas)
        return canvas

    def _curve(self, ax: Axes, rows: pd.DataFrame, style: dict[str, Any], label: str) -> None:
        worst = rows.loc[rows.groupby("n")[self.metric].idxmax()]
        ax.plot(worst["n"], worst[self.metric], label=label, **style)
        if self.metric == "q90":
            ax.fill_between(
                worst["n"], worst["q90_low"], worst["q90_high"], color=style["color"], alpha=0.2
            )

    def _theory(
        self, ax: Axes, rows: pd.DataFrame, claims: pd.DataFrame, family: str, estimator: str
    ) -> None:
        if claims.empty:
            return
        about = claims[
            (claims["distribution"] == family)
            & (claims["estimator"] == estimator)
            & (claims["variable"] == "alpha")
            & (claims["metric"] == self.metric)
        ]
        if about.empty:
            return
        value = rows.groupby("n")[self.metric].max()
        n = value.index.to_numpy(float)
        shape = n ** (-1 / about["predicted"].iloc[0])
        scale = np.exp(np.mean(np.log(value.to_numpy() / shape)))
        ax.plot(n, scale * shape, label="slope by theory", **THEORY)

    def _bound(self, ax: Axes, rows: pd.DataFrame) -> None:
        bound = rows.groupby("n")["lower_bound"].max().dropna()
        if bound.empty or self.metric != "q90":
            return
        ax.plot(bound.index, bound, label="exact lower bound", **BOUND)
        errors = rows[self.metric]
        bottom, top = bound.min() / 2, 2 * max(bound.max(), errors[np.isfinite(errors)].max())
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

    def check(self, sweep: Sweep, claims: Collection[str], where: str) -> None:
        for family in pick(self.families, sweep.families, f"{where}.families"):
            for label in pick(self.chosen, sweep.estimators, f"{where}.chosen"):
                if not isinstance(sweep.estimator(label, family), HeavyTailedMean):
                    raise ConfigError(f"{where}.chosen: {label!r}: it chooses no threshold")
        for label in pick(self.estimators, sweep.estimators, f"{where}.estimators"):
            if "clip_at" not in sweep.estimators[label]:
                raise ConfigError(f"{where}.estimators: {label!r}: it has no clip_at")
        pick([self.budget], sweep.budgets, f"{where}.budget")

    def draw(self, results: Results) -> Canvas:
        sweep = results.sweep
        budget = sweep.budgets[self.budget]
        labels = pick(self.estimators, sweep.estimators, "figures.estimators")
        families = pick(self.families, sweep.families, "figures.families")
        rows = _shown(results.summary, budget)
        rows = rows[(rows["n"] == self.n) & rows["estimator"].isin(labels)].assign(
            threshold=lambda frame: [sweep.estimators[e]["clip_at"] for e in frame["estimator"]]
        )
        from dpbench.report.style import looks

        style = looks(self.PARTS.values())
        canvas, axes = _panels(len(families), height=2.8)
        for family, ax in zip(families, axes, strict=False):
            panel = rows[rows["family"] == family]
            for part, name in self.PARTS.items():
                worst = panel.groupby("threshold")[part].max()
                ax.plot(worst.index, worst, label=name, **style[name])
            ax.set(xscale="log", yscale="log", xlabel="threshold $T$")
            name = family.partition("_k")[0].replace("_", " ").capitalize()
            ax.set_title(f"{name}, $k = {panel['k'].iloc[0]:g}$", pad=14)
            ax.set_ylabel(f"0.9 quantile at $n = {_power(self.n)}$")
            self._theory(ax, panel, budget)
            self._chosen(ax, sweep, family, budget)
        _legend(canvas)
        return canvas

    def _theory(self, ax: Axes, panel: pd.DataFrame, budget: Budget) -> None:
        # A bias of zero is a rounding error on the page: leave it below the frame.
        bottom, top = panel["noise_q90"].min() / 3, 3 * panel["q90"].max()
        thresholds = np.sort(panel["threshold"].unique())
        k = panel["k"].iloc[0]
        bias = [worst_clipping_bias(t, k) for t in thresholds]
        noise = 2 * thresholds / self.n * budget.noise_quantile(BETA)
        ax.plot(thresholds, bias, label="worst bias, noise quantile", **THEORY)
        ax.plot(thresholds, noise, **THEORY)
        ax.set_ylim(bottom, top)

    def _chosen(self, ax: Axes, sweep: Sweep, family: str, budget: Budget) -> None:
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
                ax.annotate(label, (threshold, 1.01), fontsize=7, **at)


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

    def check(self, sweep: Sweep, claims: Collection[str], where: str) -> None:
        pick(self.claims, claims, f"{where}.claims")

    def draw(self, results: Results) -> Canvas:
        names = pick(self.claims, results.claims["claim"].unique(), "figures.claims")
        rows = results.claims[results.claims["claim"].isin(names)]
        rows = rows.assign(
            label=rows["estimator"].where(
                rows["privacy"].isin(["pure"]) | rows["privacy"].isna(),
                rows["estimator"] + " (" + rows["privacy"].astype(str) + ")",
            )
        )
        from dpbench.report.style import looks

        style = looks(rows["label"])
        variables = [v for v in self.TITLES if v in set(rows["variable"])]
        canvas, above, below = _two_rows(len(variables))
        for variable, top, bottom in zip(variables, above, below, strict=True):
            panel = rows[rows["variable"] == variable]
            self._curves(top, panel)
            self._points(top, panel, style, panel["measured"])
            top.set_ylabel(self.TITLES[variable])
            tolerance = panel["tolerance"].max()
            bottom.axhspan(-tolerance, tolerance, color="black", alpha=0.08, linewidth=0)
            bottom.axhline(0, **THEORY)
            self._points(bottom, panel, style, panel["measured"] - panel["predicted"])
            bottom.set(xlabel="moment order $k$", ylabel="measured - theory")
            bottom.set_xticks(sorted(panel["k"].unique()))
        _legend(canvas)
        return canvas

    @staticmethod
    def _points(ax: Axes, panel: pd.DataFrame, style: dict[str, Any], height: pd.Series) -> None:
        """Draw intervals around `height`, side by side where they share a k."""
        for i, (label, points) in enumerate(panel.groupby("label")):
            look = {key: style[str(label)][key] for key in ("color", "marker")}
            shift = 0.06 * (i - (panel["label"].nunique() - 1) / 2)
            ends = points[["low", "high"]].to_numpy().T - points["measured"].to_numpy()
            ax.errorbar(
                points["k"] + shift,
                height[points.index],
                yerr=np.abs(ends),
                label=label,
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
            if about.empty or theorem.variable != panel["variable"].iloc[0]:
                continue
            curve = np.array([theorem.predicted(x) for x in k])
            if tuple(curve) not in drawn:
                drawn.add(tuple(curve))
                ax.plot(k, curve, label="theory", **THEORY)
