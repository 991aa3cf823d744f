"""Figure of the order of estimators on several families."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.registry import ConfigError, Count, validated
from dpbench.report.drawing.axes import colour_bar
from dpbench.report.drawing.style import Axes, make_higher
from dpbench.report.figures import Panel, SelectingFigure
from dpbench.report.labels import Labels, metric_text
from dpbench.report.run_result import Result
from dpbench.report.study import Study
from dpbench.sweep.metrics import METRICS, MetricName
from dpbench.sweep.selection import BUDGET, Choice, select_labels

__all__ = ["EstimatorRanks"]

Heading = Annotated[str, Field(max_length=40)]

MAX_RATIO = 10.0  # larger ratios have the colour of this ratio
ROW_HEIGHT, NAME_HEIGHT = (
    0.16,
    1.6,
)  # inches of a row, and of the names and the title of all columns


@validated
class EstimatorRanks(SelectingFigure):
    """Map of the ranks of private estimators, by family, at one n and one budget.

    A row is an estimator, and a column a family. A cell shows the rank of the estimator by its
    error on the family; 1 is the smallest error. The colour is the error divided by the smallest
    error of the column. Rows are in the order of the first column in the first panel. A gap divides
    the columns: the families `targets` stand on its right. There is a panel for each metric.
    `headings` stand above both groups of columns.

    Parameters
    ----------
    targets : names, patterns or mapping
        Families on the right of the gap.
    n : int
        Number of records.
    metrics : list of str
        Columns of the summary to rank by, a panel for each; the 0.9 quantile of the error by
        default. An estimator that fails in a trial has an infinite root mean square error.
    headings : list of two str
        Names of the families on the left and on the right of the gap.
    """

    targets: Choice
    n: Count
    metrics: Annotated[list[MetricName], Field(min_length=1)] = Field(
        default_factory=lambda: ["q90"]
    )
    headings: tuple[Heading, Heading] = ("", "")

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        select_labels(self.targets, study.families, f"{where}.targets")
        rows = rows[rows["privacy"] != "none"]
        if not (rows["n"] == self.n).any():
            raise ConfigError(f"{where}.n: {self.n}: no private estimator runs at this n")
        if len(rows[BUDGET].drop_duplicates()) > 1:
            raise ConfigError(f"{where}.budgets: ranks need one budget; select one")

    def describe(self) -> tuple[str, str]:
        return (
            f"rank of each estimator by its error at n = {self.n}; 1 is the smallest error of a "
            "column",
            "colour: the error over the smallest error of the column; no intervals are drawn",
        )

    def summary_rows(self, result: Result) -> pd.DataFrame:
        rows = super().summary_rows(result)
        return rows[(rows["n"] == self.n) & (rows["privacy"] != "none")].reset_index(drop=True)

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        rows, study = self.summary_rows(result), result.study
        right = set(select_labels(self.targets, study.families))
        run = [label for label in study.families if (rows["family"] == label).any()]
        families = sorted(run, key=lambda label: label in right)  # stable
        gap = sum(label not in right for label in families)
        first = _worst_errors(rows, self.metrics[0])[families[0]]
        order = list(first.sort_values(kind="stable").index)
        for metric in self.metrics:
            errors = _worst_errors(rows, metric).loc[order, families]
            yield partial(self._draw_panel, errors, metric, gap, words)

    def _draw_panel(
        self, errors: pd.DataFrame, metric: str, gap: int, words: Labels, ax: Axes
    ) -> None:
        import seaborn as sns
        from matplotlib.colors import LogNorm

        ranks = errors.rank(method="min").astype(int)
        ratio = (errors / errors.min()).fillna(np.inf).clip(upper=10 * MAX_RATIO)
        sns.heatmap(
            ratio, annot=ranks, fmt="d", norm=LogNorm(1, MAX_RATIO), cmap="YlOrRd", cbar=False,
            ax=ax, linewidths=0.5, annot_kws={"fontsize": "xx-small"}, xticklabels=False,
            yticklabels=False,
        )  # fmt: skip
        ax.axvline(gap, color="white", linewidth=5 if len(self.metrics) == 1 else 2)
        ax.grid(visible=False)
        ax.set(xlabel="", ylabel="")
        pad = 16 if any(self.headings) else None
        ax.set_title(f"rank by {metric_text(metric)}", pad=pad)
        for at, heading in zip((gap / 2, (gap + errors.shape[1]) / 2), self.headings, strict=True):
            ax.annotate(
                heading, (at, 0), (0, 2), textcoords="offset points", ha="center", va="bottom",
                fontsize="x-small",
            )  # fmt: skip
        place = ax.get_subplotspec()
        if place is not None and len(self.metrics) > 1:
            make_higher(ax, ROW_HEIGHT * len(errors) + NAME_HEIGHT)
        left = place is None or place.is_first_col()
        names = [words.estimator(str(label)) if left else "" for label in errors.index]
        families = [words.family(str(label)) for label in errors.columns]
        ax.set_yticks(np.arange(len(names)) + 0.5, names, rotation=0)
        ax.set_xticks(np.arange(len(families)) + 0.5, families, rotation=90)
        ax.tick_params(length=0, labelsize="x-small")
        if metric == self.metrics[-1]:
            colour_bar(ax, [1, 2, 5, MAX_RATIO], "error over the smallest")


def _worst_errors(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the worst value of a metric, a row for each estimator and a column for each family."""
    values = rows[metric].fillna(np.inf)
    if METRICS[metric].statistic == "rms":
        values = values.where(rows["failure_rate"] == 0, np.inf)
    table = rows.assign(value=values).pivot_table("value", "estimator", "family", aggfunc="max")
    return table.fillna(np.inf)
