"""Figure of the distance between the best estimators and lower bounds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.factors import EXACT
from dpbench.analysis.result import Result
from dpbench.analysis.study import Study
from dpbench.output.style import Axes, number_text
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import Panel, SelectingFigure
from dpbench.report.labels import Labels
from dpbench.sweep.plan import lower_bound

__all__ = ["BETWEEN", "Factors", "factor_text"]

MOST = 5.0  # larger factors have the colour of this factor
BETWEEN = "\N{EN DASH}"  # stands between the ends of an interval


@validated
class Factors(SelectingFigure):
    """Factor of the best estimator over the lower bound, by family, budget and n.

    There is a panel for each notion of privacy. A factor is the worst 0.9 quantile of the error
    over the family, divided by a lower bound for all private estimators. A single number is exact.
    Two numbers are the ends of a 95% interval from trials; the colour shows the estimate between
    them. Bold numbers are at most 1.1, by the exact factor or the upper end. Grey cells were not
    run, or have no known bound.
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
            "trials; bold: at most 1.1; grey: not run, or no known bound",
        )

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        found = result.factors_of(self.rows(result))
        families = list(found["distribution"].unique())  # all panels share the rows and labels
        for _, about in found.groupby("privacy", sort=False):
            yield partial(self._panel, about, families, words)

    def _panel(self, found: pd.DataFrame, families: list[str], words: Labels, ax: Axes) -> None:
        import seaborn as sns
        from matplotlib.colors import LogNorm

        amounts = words.budgets(found)
        order = {one: i for i, one in enumerate(dict.fromkeys(amounts))}
        found["column"] = [(order[one], n) for one, n in zip(amounts, found["n"], strict=True)]
        text = pd.Series(list(map(factor_text, found.to_dict("records"))), index=found.index)
        tables = found.assign(text=text).pivot(
            index="distribution", columns="column", values=["factor", "text"]
        )
        tables = tables.reindex(families).sort_index(axis=1)
        factor, text = tables["factor"].astype(float), tables["text"].fillna("")
        sns.heatmap(
            factor, annot=text, fmt="", norm=LogNorm(1, MOST), cmap="YlOrRd", cbar=False, ax=ax,
            linewidths=0.5, annot_kws={"fontsize": "x-small"}, xticklabels=False,
            yticklabels=False,
        )  # fmt: skip
        for drawn in ax.texts:
            if BETWEEN in drawn.get_text():  # two numbers must fit into a cell
                drawn.set_fontsize("xx-small")
        ax.set(xlabel="$n$", ylabel="", facecolor="0.93")
        ax.set_title(words.notion(found["privacy"].iloc[0]), pad=14)
        ax.grid(visible=False)
        columns = sorted(found["column"].unique())
        ax.set_xticks(np.arange(len(columns)) + 0.5)
        ax.set_xticklabels([f"${number_text(n)}$" for _, n in columns], rotation=0)
        place = ax.get_subplotspec()
        left = place is None or place.is_first_col()
        ax.set_yticks(np.arange(len(families)) + 0.5)
        ax.set_yticklabels([words.family(one) if left else "" for one in families], rotation=0)
        ax.tick_params(length=0, labelsize="small")
        for one, i in order.items():
            own = [j for j, (budget, _) in enumerate(columns) if budget == i]
            look: Any = {"ha": "center", "va": "bottom", "fontsize": "x-small"}
            ax.text(float(np.mean(own)) + 0.5, -0.1, one, **look)
            ax.axvline(own[-1] + 1, color="white", linewidth=4)


def factor_text(row: Mapping[Hashable, Any]) -> str:
    """Format an exact factor, or both ends of an interval, in bold if it is optimal."""
    ends = [row["factor"]] if row["factor_by"] == EXACT else [row["factor_low"], row["factor_high"]]
    texts = [f"{one:.2f}" if one < 2 else f"{one:.1f}" for one in ends]
    if row["verdict"] == "optimal":
        texts = [rf"$\bf{{{one}}}$" for one in texts]
    return BETWEEN.join(texts)
