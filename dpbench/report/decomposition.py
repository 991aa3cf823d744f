"""Figure of the parts of an error (bias, noise, sampling) against the clipping threshold."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.fallback import EXACT_RATIO
from dpbench.estimators.heavy_tailed import TunedClippedMean, worst_clipping_bias
from dpbench.output.names import number_text
from dpbench.privacy import Budget
from dpbench.registry import ConfigError, validated
from dpbench.report.drawing.axes import set_horizontal_ticks
from dpbench.report.drawing.curves import draw_curve, draw_guide, mark_guide
from dpbench.report.drawing.style import THEORY, THEORY_AT_N, Axes, line_styles
from dpbench.report.error_curves import check_one_budget, check_sizes, intervals_text
from dpbench.report.figures import Panel, SelectingFigure
from dpbench.report.labels import Labels
from dpbench.report.run_result import Result
from dpbench.report.study import Study
from dpbench.sweep.selection import Choice, rows_of_budget, select_labels
from dpbench.theory.bounds.numbers import BETA

__all__ = ["Decomposition"]

# Behind a text that lines cross.
PAPER: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 1}
UNCLIPPED = "no record clipped"  # at the end of the curve of the bias


@validated
class Decomposition(SelectingFigure):
    """Figure of the parts of the error against the clipping threshold T, a panel for each family.

    The parts are bias, noise and sampling error. If T grows, the bias falls and the noise rises.
    Vertical lines mark the T that some estimators choose. A line of dashes and dots is
    the largest bias that any distribution with a bounded k-th moment can have. A dotted line is the
    exact 0.9 quantile of the noise. The curve of the bias ends where no record is clipped in 0.9 of
    the trials.

    Parameters
    ----------
    estimators : optional
        Estimators to draw, with a list of values for their parameter ``threshold``.
    chosen : names, or values by name
        Estimators that choose T themselves. Vertical lines mark their T. A list of names, or a
        mapping of names to values of parameters.
    n : int
        Sample size, the number of records.
    """

    chosen: Choice
    n: Annotated[int, Field(ge=1)]
    PARTS: ClassVar[dict[str, str]] = {
        "q90": "error", "clipping_q90": "clipping bias", "noise_q90": "noise",
        "sampling_q90": "sampling",
    }  # fmt: skip

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        check_sizes(rows, [self.n], where)
        check_one_budget(rows, where)
        for label in rows["estimator"].unique():
            if "threshold" not in study.estimators[label].swept:
                raise ConfigError(f"{where}.estimators: {label!r}: it has no list of threshold")
        for label in select_labels(self.chosen, study.estimators, f"{where}.chosen"):
            for family in rows["family"].unique():
                if not isinstance(study.estimator(label, family), TunedClippedMean):
                    raise ConfigError(
                        f"{where}.chosen: {label!r}: it chooses no threshold; leave it out"
                    )

    def describe(self) -> tuple[str, str]:
        shown = "0.9 quantiles of the error and its parts against the clipping threshold"
        return shown, intervals_text([])

    def summary_rows(self, result: Result) -> pd.DataFrame:
        rows = super().summary_rows(result)
        return rows[rows["n"] == self.n]

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        for family, rows in self.summary_rows(result).groupby("family", sort=False):
            yield partial(self._draw_panel, str(family), rows, words)

    def _draw_panel(self, family: str, rows: pd.DataFrame, words: Labels, ax: Axes) -> None:
        study, styles = words.study, line_styles(self.PARTS.values())
        worst = rows.groupby("threshold")[list(self.PARTS)].max()
        unclipped = worst["clipping_q90"] <= EXACT_RATIO * worst["sampling_q90"]
        worst["clipping_q90"] = worst["clipping_q90"].mask(unclipped)
        for part, name in self.PARTS.items():
            draw_curve(ax, worst.index, worst[part], label=name, look=styles[name])
        if unclipped.any() and not unclipped.all():
            colour = styles[self.PARTS["clipping_q90"]]["color"]
            at = (worst.index[unclipped][0], 0.03)
            look = {"color": colour, "fontsize": "small", "bbox": PAPER, "zorder": 4}
            ax.text(*at, UNCLIPPED, transform=ax.get_xaxis_transform(), **look)
        ax.set(xscale="log", yscale="log", xlabel="threshold $T$")
        set_horizontal_ticks(ax, [])
        ax.set_title(words.family(family), pad=22)
        ax.set_ylabel(f"0.9 quantile at $n = {number_text(self.n)}$")
        budgets = (variant.value for variant in study.budgets.values())
        budget = next(budget for budget in budgets if rows_of_budget(rows, budget).any())
        thresholds = np.sort(rows["threshold"].unique())
        scale = getattr(study.estimator(rows["estimator"].iloc[0], family), "scale", 1.0)
        bias = [scale * worst_clipping_bias(t / scale, rows["k"].iloc[0]) for t in thresholds]
        noise = 2 * thresholds / self.n * budget.noise_quantile(BETA)
        draw_guide(ax, thresholds, bias, label="largest bias of the class", look=THEORY_AT_N)
        draw_guide(ax, thresholds, noise, label="exact noise", look=THEORY)
        ax.set_ylim(rows["noise_q90"].min() / 3, 3 * rows["q90"].max())
        self._mark_thresholds(family, budget, words, ax)

    def _mark_thresholds(self, family: str, budget: Budget, words: Labels, ax: Axes) -> None:
        """Mark the thresholds that the estimators in `chosen` use, by vertical lines with names.

        Neighbouring names stand at different heights.
        """
        study, thresholds = words.study, {}
        for label in select_labels(self.chosen, study.estimators):
            estimator = study.estimator(label, family)
            assert isinstance(estimator, TunedClippedMean)
            thresholds[words.estimator(label)] = estimator.clipping_threshold(self.n, budget)
        # Names stand side by side, without the words with which all of them begin.
        starts = {name.rpartition(", ")[0] for name in thresholds}
        start = f"{starts.pop()}, " if len(starts) == 1 else ""
        low, high = ax.get_xlim()
        shown = sorted(
            (threshold, name.removeprefix(start))
            for name, threshold in thresholds.items()
            if low < threshold < high
        )
        for i, (threshold, name) in enumerate(shown):
            mark_guide(ax.axvline(threshold, color="0.35", linewidth=0.8, zorder=1))
            style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": "small"}
            offset: dict[str, Any] = {"xytext": (0, 1 + 8 * (i % 2)), "textcoords": "offset points"}
            ax.annotate(name, (threshold, 1), xycoords=ax.get_xaxis_transform(), **offset, **style)
