"""Table of errors: estimators by n or by budget, as a data frame, in LaTeX and in Markdown."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field

from dpbench.analysis.fallback import answers_without_data
from dpbench.analysis.trial_statistics import metric_interval
from dpbench.privacy.symbols import budget_text
from dpbench.registry import ConfigError, Count, validated
from dpbench.report.error_curves import BOUNDED_COLUMN
from dpbench.report.error_table_text import (
    BOUND,
    FREE,
    MAX_COLUMNS,
    PRIVATE,
    LatexWriter,
    MarkdownWriter,
    TableBlock,
)
from dpbench.report.run_result import Result
from dpbench.report.study import Study, Table
from dpbench.sweep.metrics import ERRORS, METRICS
from dpbench.sweep.selection import BUDGET, Selection
from dpbench.theory.bounds.class_bound import LOCAL_BOUND_NAME

__all__ = ["ErrorTable"]

ERROR_METRICS = [name for name, metric in METRICS.items() if metric.of in ERRORS]
NUMBERS = ("value", "low", "high", "best")


def _check_error_metric(name: str) -> str:
    if name not in ERROR_METRICS:
        raise ValueError(f"choose from {', '.join(ERROR_METRICS)}")
    return name


@validated
class ErrorTable(Selection, Table):
    """Table of errors with a row for each estimator and a column for each n or each budget.

    Each number is the error on the worst distribution of a family. There is a block of rows for
    each family and budget, or for each family and n. In a block come the private estimators, then
    the estimators without privacy, and then the lower bound.

    Parameters
    ----------
    metric : str
        Statistic of the errors, a column of the summary; ``q90`` by default.
    columns : {'n', 'budget'}, optional
        Quantity that varies from column to column. By default n if several n were run, or only one
        budget; otherwise the budget.
    n : list of int, optional
        Sample sizes to show. By default a data frame has all of them, and a text has at most four
        columns.
    """

    metric: Annotated[str, AfterValidator(_check_error_metric)] = "q90"
    columns: Literal["n", "budget"] | None = None
    n: Annotated[list[Count], Field(min_length=1)] | None = None

    def frame(self, result: Result) -> pd.DataFrame:
        rows = self._rows(result)
        across, fixed = self._directions(rows)
        index = ["family", fixed, "role", "estimator"]
        wide = rows.pivot(index=index, columns=across, values=list(NUMBERS))
        places = pd.MultiIndex.from_frame(rows[index].drop_duplicates())
        columns = [(name, column) for name in NUMBERS for column in rows[across].unique()]
        wide = wide.reindex(index=places, columns=pd.MultiIndex.from_tuples(columns))
        types = {c: bool if c[0] == "best" else float for c in wide.columns}
        wide = wide.fillna({c: False for c in wide.columns if c[0] == "best"}).astype(types)
        wide.columns = wide.columns.set_names([None, across])
        return wide.rename(columns={"value": self.metric}, level=0)

    def text(self, result: Result, syntax: str) -> str:
        rows = self._rows(result)
        across, fixed = self._directions(rows)
        writer = (LatexWriter if syntax == "latex" else MarkdownWriter)(
            result.study, self.metric, across, fixed
        )
        return writer.document(
            [
                TableBlock(str(family), value, self._shown_columns(across, block), block)
                for (family, value), block in rows.groupby(["family", fixed], sort=False)
            ]
        )

    def _directions(self, rows: pd.DataFrame) -> tuple[str, str]:
        """Return the quantity that varies over columns, and the other one: n and the budget."""
        several_budgets = rows["budget"].nunique() > 1
        default = "budget" if rows["n"].nunique() == 1 and several_budgets else "n"
        across = self.columns or default
        return across, "budget" if across == "n" else "n"

    def _shown_columns(self, across: str, block: pd.DataFrame) -> list[Any]:
        """Return the values that have a column: at most `MAX_COLUMNS`, evenly spaced in rank.

        If the caller selected values, all of them have a column.
        """
        present = list(block[across].unique())
        selected = self.n if across == "n" else self.budgets
        if selected is not None or len(present) <= MAX_COLUMNS:
            return present
        places = np.linspace(0, len(present) - 1, MAX_COLUMNS).round().astype(int)
        return [present[place] for place in places]

    def _rows(self, result: Result) -> pd.DataFrame:
        """Return the numbers of the table, a row for each family, budget, n and estimator.

        Columns are ``family``, ``budget`` (as text), ``n``, ``role``, ``estimator``, `NUMBERS`,
        ``trials`` and ``distributions``. Rows are in the order of the study. Estimators without
        privacy have a row for each budget of their family.
        """
        study, summary = result.study, result.summary
        rows = summary[study.select_rows(self, summary, "")]
        if self.n is not None:
            for n in set(self.n) - set(rows["n"]):
                sizes = ", ".join(map(str, sorted(rows["n"].unique())))
                raise ConfigError(f"n: {n}: not run; choose from {sizes}")
            rows = rows[rows["n"].isin(self.n)]
        rows = rows.dropna(subset=[self.metric])
        if rows.empty:
            raise ConfigError("table: nothing that was run is selected; select less narrowly")
        low, high = metric_interval(rows, self.metric)
        texts = [budget_text(row, label=row["privacy"]) for row in rows[BUDGET].to_dict("records")]
        free = rows["privacy"] == "none"
        rows = rows.assign(
            value=rows[self.metric], low=low, high=high, budget=texts, best=False,
            role=np.where(free, FREE, PRIVATE), without_data=answers_without_data(rows),
        )  # fmt: skip
        groups = rows.groupby(["family", "budget", "n", "estimator"])
        worst = rows.loc[groups["value"].idxmax()].assign(
            distributions=groups["distribution"].transform("nunique")
        )
        worst = _repeat_free(worst)
        parts = [_mark_best(worst)]
        if self.metric == BOUNDED_COLUMN:
            parts.append(_bounds(rows))
        columns = ["family", "budget", "n", "role", "estimator", *NUMBERS]
        more = ["without_data", "trials", "distributions"]
        table = pd.concat(parts, ignore_index=True)[[*columns, *more]]
        table["without_data"] = table["without_data"].eq(True)  # a bound has no such value
        return _sort(table, study)


def _repeat_free(rows: pd.DataFrame) -> pd.DataFrame:
    """Repeat the rows without privacy for each budget under which their family was run."""
    free = rows[rows["role"] == FREE]
    paid = rows.loc[rows["role"] == PRIVATE, ["family", "budget"]].drop_duplicates()
    repeated = free.drop(columns="budget").merge(paid, on="family")
    alone = free[~free["family"].isin(paid["family"])]
    return pd.concat([rows[rows["role"] == PRIVATE], repeated, alone], ignore_index=True)


def _mark_best(rows: pd.DataFrame) -> pd.DataFrame:
    """Mark the smallest error of several private estimators, and the errors that tie with it.

    An error ties if its 95% interval overlaps the interval of the smallest error. Errors of an
    estimator that answers the mean without data are not marked.
    """
    rows = rows.copy()
    private = (rows["role"] == PRIVATE) & np.isfinite(rows["value"])
    candidates = rows[private & ~rows["without_data"]]
    for _, column in candidates.groupby(["family", "budget", "n"]):
        if len(column) > 1:
            smallest = column.loc[column["value"].idxmin()]
            ties = (column["low"] <= smallest["high"]) | (column["value"] == smallest["value"])
            rows.loc[column.index[ties], "best"] = True
    return rows


def _bounds(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for the lower bound of each family, budget and n.

    Bounds of the local model are used only where no other private estimator was run.
    """
    private = rows[rows["role"] == PRIVATE]
    keys = ["family", "budget", "n"]
    local = private["bound_name"] == LOCAL_BOUND_NAME
    has_central = (~local).groupby([private[key] for key in keys]).transform("any")
    bound = private[~(local & has_central)].groupby(keys)["lower_bound"].min().dropna()
    unknown = {"low": np.nan, "high": np.nan, "best": False, "trials": 0, "distributions": 0}
    table = bound.rename("value").reset_index()
    return table.assign(role=BOUND, estimator=BOUND, **unknown)


def _sort(table: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Sort rows by family, budget, role and estimator as in the study, and by n."""
    budgets = [budget_text(v.value, label=v.value.label) for v in study.budgets.values()]
    orders = {
        "family": list(study.families), "budget": ["none", *budgets],
        "role": [PRIVATE, FREE, BOUND], "estimator": [*study.estimators, BOUND],
    }  # fmt: skip
    ranks = [table[name].map({v: i for i, v in enumerate(o)}) for name, o in orders.items()]
    order = np.lexsort([table["n"], *reversed(ranks)])
    return table.iloc[order].reset_index(drop=True)
