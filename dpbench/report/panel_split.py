"""Split the curves of a figure into panels, by columns of the summary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, Field

from dpbench.errors import choose_from
from dpbench.output.names import display_name, natural_sort_key
from dpbench.privacy import AMOUNTS
from dpbench.registry import ConfigError, validated
from dpbench.report.error_curves import check_one_budget
from dpbench.report.figures import Panel, SelectingFigure
from dpbench.report.labels import Labels, parameter_text
from dpbench.report.run_result import Result
from dpbench.report.study import Compared, Study
from dpbench.sweep.selection import BUDGET, rows_of_budget, swept_columns

__all__ = ["MAX_CURVES", "PanelRows", "SplitFigure"]

FREE_WORDS = "without privacy"  # in the legend, after the name of an estimator
MAX_CURVES = 6  # largest number of curves that a panel has by default
Names = Annotated[
    list[str],
    Field(min_length=1),
    BeforeValidator(
        lambda given: [given] if isinstance(given, str) else given,
        json_schema_input_type=str | list[str],
    ),
]


@dataclass(frozen=True)
class PanelRows:
    """Rows of a summary that a panel shows, and the panel's title."""

    title: str
    rows: pd.DataFrame


@validated
class SplitFigure(SelectingFigure, ABC):
    """Base class of figures of curves, whose panels show parts of the curves.

    Parameters
    ----------
    rows : name or list of names, optional
        Columns of the summary in whose values the panels of different rows differ: ``family``,
        ``budget``, ``k``, ``d``, ``estimator``, an amount of the budgets or a parameter with a list
        of values. Panels have a common scale. By default neither `rows` nor `columns` is set. The
        figure then has so many panels that none has more than six curves.
    columns : name or list of names, optional
        Columns of the summary in whose values the panels of a row differ. If only `columns` is set,
        the panels fill as many rows as they need.
    """

    rows: Names | None = None
    columns: Names | None = None

    # Columns by which the figure is always split if neither `rows` nor `columns` is set.
    FIRST_SPLIT: ClassVar[tuple[str, ...]] = ()
    # Whether all curves of a panel must have the same budget.
    ONE_BUDGET: ClassVar[bool] = False

    @abstractmethod
    def _draw_split(
        self, panels: Sequence[PanelRows | None], result: Result
    ) -> Iterator[Panel | None]:
        """Yield a function for each panel, which draws the panel on given axes."""

    @abstractmethod
    def _points(self, result: Result) -> pd.DataFrame:
        """Return the points of all curves, rows of the summary with an index of their own."""

    def _omitted(self, study: Study) -> list[str]:
        """Return the parameters that titles and legends leave out, because an axis shows them."""
        return []

    def _details(self, rows: pd.DataFrame, words: Labels, split: Sequence[str]) -> list[list[str]]:
        """Return lists of texts that distinguish the curves of an estimator, by row."""
        return []

    def _compare(
        self, rows: pd.DataFrame, parameter: str, metric: str, study: Study, over: str = ""
    ) -> Compared:
        """Return the metric in rows of the summary, to be printed against a parameter."""
        without = self._omitted(study)
        names = {
            "estimator": [study.estimators[label].label(*without) for label in rows["estimator"]],
            "distribution": [study.families[label].label(*without) for label in rows["family"]],
        }
        rows = rows.assign(**names, x=rows[parameter], value=rows[metric])
        return Compared(parameter, metric, rows, over)

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        return (panel for panel in self._grid(result, words)[0] if panel)

    def _grid(self, result: Result, words: Labels) -> tuple[list[Panel | None], int]:
        panels, across = self._split(self._points(result), words)
        return list(self._draw_split(panels, result)), across

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        named = self._named_split
        allowed = ["family", "budget", "k", "d", "estimator", *AMOUNTS, *_parameters(study)]
        for key in ("columns", "rows"):
            for name in getattr(self, key) or []:
                if name not in allowed:
                    raise ConfigError(f"{where}.{key}: {name!r}: {choose_from(name, allowed)}")
        if len(set(named)) < len(named):
            raise ConfigError(f"{where}.rows: {self.rows!r}: a name occurs twice; remove one")
        if named and self.ONE_BUDGET and not {"budget", *AMOUNTS} & set(named):
            check_one_budget(rows, where, ", or columns: budget")

    @property
    def _named_split(self) -> list[str]:
        return [*(self.columns or []), *(self.rows or [])]

    def _split(self, rows: pd.DataFrame, words: Labels) -> tuple[list[PanelRows | None], int]:
        """Split the rows of a summary, each with an index of its own, into panels.

        Return the panels, row by row, and the number of panels in a row of the grid. None stands
        for a place of the grid without results. The number is 0 if the panels fill as many rows as
        they need. The rows of a panel have the text of the legend in the added column ``line``.
        """
        named = self._named_split
        split = named or self._choose_split(rows, words)
        columns = (self.columns or []) if named else split[:1]
        rows = rows.assign(line=self._line_texts(rows, split, words))
        without = self._without(split, words.study)
        across, down = (
            _divide(rows, part, without, words) for part in (columns, split[len(columns) :])
        )
        panels = [_intersect(right, left) for left in down for right in across]
        if (
            named
            or max((_count_curves(panel.rows) for panel in panels if panel), default=0)
            <= MAX_CURVES
        ):
            return panels, len(across) if len(split) > len(columns) else 0
        return [part for panel in panels if panel for part in _share_out(panel)], 0

    def _choose_split(self, rows: pd.DataFrame, words: Labels) -> list[str]:
        """Choose columns of the summary by which no panel has more than six curves, if possible."""
        split = list(self.FIRST_SPLIT)
        paid = rows.loc[rows["privacy"] != "none", BUDGET].drop_duplicates()
        if len(paid) > 1 and self.ONE_BUDGET:
            split.append("budget")
        omitted = self._omitted(words.study)
        if rows["family"].map(lambda label: words.family(label, *omitted)).nunique() == 1:
            split = [name for name in split if name != "family"]

        def most_curves(names: list[str]) -> int:
            lines = rows.assign(line=self._line_texts(rows, names, words))
            parts = _divide(lines, names, self._without(names, words.study), words)
            return max(_count_curves(part.rows) for part in parts)

        for name in ("k", "budget", "family"):
            most = most_curves(split)
            if most <= MAX_CURVES:
                break
            if name not in split and most_curves([*split, name]) < most:
                split.append(name)
        return split

    def _without(self, split: Sequence[str], study: Study) -> list[str]:
        """Return the parameters that the names of families and estimators leave out."""
        parameters = _parameters(study)
        return [*self._omitted(study), *(parameters.get(name, name) for name in split)]

    def _line_texts(
        self, rows: pd.DataFrame, split: Sequence[str], words: Labels
    ) -> pd.Series[str]:
        """Return the text of the legend for each row, in a figure split by the columns `split`.

        The family is named if a panel has several.
        """
        without = self._without(split, words.study)
        laws = rows["family"].map(lambda label: words.family(label, *without))
        parts = _divide(rows.assign(law=laws), split, without, words)
        several = any(panel.rows["law"].nunique() > 1 for panel in parts)
        names = rows["estimator"].map(lambda label: words.estimator(label, *without))
        # Two entries with one printed name would be one curve.
        entries = rows["estimator"].map(lambda label: words.study.estimators[label].name)
        named = rows.assign(name=names, entry=entries)
        alike = named.groupby(["family", *BUDGET, "name"], dropna=False)["entry"]
        clash = alike.transform("nunique") > 1
        names = names.where(~clash, names + " (" + rows["estimator"].map(display_name) + ")")
        texts = [names, *([laws] if several else []), *self._details(rows, words, split)]
        texts.append(rows["privacy"].map(lambda label: FREE_WORDS if label == "none" else ""))
        lines = [", ".join(filter(None, parts)) for parts in zip(*texts, strict=True)]
        return pd.Series(lines, rows.index, dtype=object)


def _parameters(study: Study) -> dict[str, str]:
    """Map the columns of the swept parameters of a study to the names of these parameters."""
    both = swept_columns(study.families.values(), study.estimators.values())
    return {column: name for columns in both for name, column in columns.items()}


def _divide(
    rows: pd.DataFrame, names: Sequence[str], without: Sequence[str], words: Labels
) -> list[PanelRows]:
    """Divide rows by the columns `names`, one after the other.

    Titles leave out the parameters `without`.
    """
    parts = [PanelRows("", rows)]
    for name in names:
        parts = [
            PanelRows(", ".join(filter(None, [part.title, title])), rows_of_part)
            for part in parts
            for title, rows_of_part in _divide_by(part.rows, name, without, words)
        ]
    return parts


def _divide_by(
    rows: pd.DataFrame, name: str, without: Sequence[str], words: Labels
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the title and the rows of each value of a column.

    Results without privacy are in the part of every budget. Estimators without a parameter are in
    the part of every value of this parameter.
    """
    if name == "budget":
        free = rows["privacy"] == "none"
        for budget in words.study.budgets.values():
            paid = rows_of_budget(rows, budget.value)
            if paid.any():
                yield words.budget(budget.value.columns), rows[paid | free]
        if free.all():
            yield "", rows
        return
    parameters = _parameters(words.study)
    keys, shared = rows[name], pd.Series(data=False, index=rows.index)
    if name in ("family", "estimator"):
        keys = keys.map(lambda label: getattr(words, name)(label, *without))
    elif name not in ("k", "d"):
        shared = keys.isna() & ((rows["privacy"] == "none") | (name not in AMOUNTS))
        shared &= not keys.isna().all()
    value: Any
    groups = rows[~shared].groupby(keys[~shared], dropna=False, sort=False)
    for value, part in sorted(
        groups, key=lambda group: natural_sort_key(str(group[1][name].min()))
    ):
        title = value if isinstance(value, str) else ""
        if not isinstance(value, str) and not pd.isna(value):
            title = parameter_text(parameters.get(name, name), value)
        yield title, pd.concat([part, rows[shared]])


def _intersect(column: PanelRows, row: PanelRows) -> PanelRows | None:
    """Return the panel in a column and a row of the grid, None if it has no results."""
    rows = column.rows[column.rows.index.isin(row.rows.index)]
    title = ", ".join(filter(None, [column.title, row.title]))
    return None if rows.empty else PanelRows(title, rows)


def _count_curves(rows: pd.DataFrame) -> int:
    return int(rows["line"].nunique())


def _share_out(panel: PanelRows) -> Iterator[PanelRows]:
    """Share the private curves of a panel out to panels of at most six curves.

    Curves without privacy are in all of them.
    """
    rows = panel.rows
    free = rows["privacy"] == "none"
    lines = sorted(rows.loc[~free, "line"].unique(), key=natural_sort_key)
    room = max(MAX_CURVES - _count_curves(rows[free]), MAX_CURVES // 2)
    for group in np.array_split(np.array(lines), max(1, -(-len(lines) // room))):
        yield PanelRows(panel.title, rows[rows["line"].isin(list(group)) | free])
