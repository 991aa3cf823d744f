"""Figure that compares the error of the best private estimator with lower bounds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.factors import EXACT, OPTIMAL
from dpbench.output.names import number_text
from dpbench.registry import ConfigError, validated
from dpbench.report.drawing.axes import colour_bar
from dpbench.report.drawing.style import Axes
from dpbench.report.figures import Panel, SelectingFigure
from dpbench.report.labels import Labels
from dpbench.report.run_result import Result
from dpbench.report.study import Study
from dpbench.sweep.plan import lower_bound

__all__ = ["BETWEEN", "Factors", "factor_text"]

MAX_FACTOR = 5.0  # larger factors have the colour of this factor
BETWEEN = "\N{EN DASH}"  # stands between the ends of an interval


@validated
class Factors(SelectingFigure):
    """Heat map of the best private estimator's error over a lower bound, by family, budget and n.

    There is a panel for each notion of privacy, in the order of the study's budgets. A cell shows a
    factor: the worst 0.9 quantile of
    the error over the family, divided by a lower bound for all private estimators. A single number
    in a cell is an exact factor. Two numbers are the ends of a 95% interval from trials. The colour
    then shows the estimate between both ends. A bar is the scale of the colours. Numbers are bold
    if the exact factor or the upper end is at most 1.1. Grey cells were not run, or have no known
    bound.
    """

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        paid = rows[rows["privacy"] != "none"]
        if not any(np.isfinite(lower_bound(study, row)) for row in paid.to_dict("records")):
            raise ConfigError(
                f"{where}: no finite lower bound is known for the rows that it selects"
            )

    def describe(self) -> tuple[str, str]:
        return (
            "the best estimator's worst 0.9 quantile of the error over the lower bound, by family, "
            "budget and n",
            "a single number is exact; two numbers are the ends of a 95 per cent interval from "
            "trials; colour: the factor, or the estimate between both ends; bold: at most 1.1; "
            "grey: not run, or no known bound",
        )

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        factors = result.factors_of(self.summary_rows(result))
        families = list(factors["distribution"].unique())  # all panels share the rows and labels
        notions = dict.fromkeys(one.value.label for one in result.study.budgets.values())
        present = [notion for notion in notions if (factors["privacy"] == notion).any()]
        groups = [factors[factors["privacy"] == notion].copy() for notion in present]
        for group in groups:
            last = group is groups[-1]
            yield partial(self._draw_panel, group, families, words, has_bar=last)

    def _draw_panel(
        self,
        factors: pd.DataFrame,
        families: list[str],
        words: Labels,
        ax: Axes,
        *,
        has_bar: bool,
    ) -> None:
        import seaborn as sns
        from matplotlib.colors import LogNorm

        amounts = words.budgets(factors)
        order = {amount: i for i, amount in enumerate(dict.fromkeys(amounts))}
        factors["column"] = [(order[a], n) for a, n in zip(amounts, factors["n"], strict=True)]
        text = pd.Series(list(map(factor_text, factors.to_dict("records"))), index=factors.index)
        tables = factors.assign(text=text).pivot(
            index="distribution", columns="column", values=["error_over_bound", "text"]
        )
        tables = tables.reindex(families).sort_index(axis=1)
        factor, text = tables["error_over_bound"].astype(float), tables["text"].fillna("")
        sns.heatmap(
            factor, annot=text, fmt="", norm=LogNorm(1, MAX_FACTOR), cmap="YlOrRd", cbar=False,
            ax=ax, linewidths=0.5, annot_kws={"fontsize": "x-small"}, xticklabels=False,
            yticklabels=False,
        )  # fmt: skip
        for drawn in ax.texts:
            if BETWEEN in drawn.get_text():  # two numbers must fit into a cell
                drawn.set_fontsize("xx-small")
        ax.set(xlabel="$n$", ylabel="", facecolor="0.93")
        ax.set_title(words.notion(factors["privacy"].iloc[0]), pad=14)
        ax.grid(visible=False)
        _label_rows(ax, [words.family(name) for name in families])
        _label_columns(ax, sorted(factors["column"].unique()), list(order))
        if has_bar:
            colour_bar(ax, [1, 1.5, 2, 3, MAX_FACTOR], "error over the lower bound")


def _label_rows(ax: Axes, names: Sequence[str]) -> None:
    """Write the names of the rows, in the first column of a grid of panels alone."""
    place = ax.get_subplotspec()
    left = place is None or place.is_first_col()
    ax.set_yticks(np.arange(len(names)) + 0.5)
    ax.set_yticklabels(names if left else [""] * len(names), rotation=0)
    ax.tick_params(length=0, labelsize="small")


def _label_columns(ax: Axes, columns: Sequence[tuple[int, int]], amounts: Sequence[str]) -> None:
    """Write n below each column, and each amount of privacy above its columns.

    A column is the index of its amount, and n.
    """
    ax.set_xticks(np.arange(len(columns)) + 0.5)
    ax.set_xticklabels([f"${number_text(n)}$" for _, n in columns], rotation=0)
    for i, amount in enumerate(amounts):
        own = [j for j, (budget, _) in enumerate(columns) if budget == i]
        look: Any = {"ha": "center", "va": "bottom", "fontsize": "x-small"}
        ax.text(float(np.mean(own)) + 0.5, -0.1, amount, **look)
        ax.axvline(own[-1] + 1, color="white", linewidth=4)


def factor_text(row: Mapping[Hashable, Any]) -> str:
    """Format a factor, the best estimator's worst error over the lower bound.

    The text is the exact factor, or both ends of its 95% interval. It is bold if the factor has the
    verdict ``optimal``. A factor or upper end that is above 1.1, and would be 1.10, has three
    decimals.
    """
    ends = (
        [row["error_over_bound"]]
        if row["error_over_bound_from"] == EXACT
        else [row["error_over_bound_low"], row["error_over_bound_high"]]
    )
    texts = [f"{end:.2f}" if end < 2 else f"{end:.1f}" for end in ends]
    if ends[-1] > OPTIMAL >= round(ends[-1], 2):
        texts[-1] = f"{max(ends[-1], OPTIMAL + 0.001):.3f}"
    if row["verdict"] == "optimal":
        texts = [rf"$\bf{{{end}}}$" for end in texts]
    return BETWEEN.join(texts)
