"""Plan of a table: means of columns by group, under one budget, before there are data.

A column has public bounds, or a distribution and bounds of its clip. All groups of a column have
one clip, the best of the smallest group, whose error is the largest. The error of a cell is that of
a plan with the records of its group and the budget of its column
(`dpbench.estimators.tables` derives what columns and groups pay).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import yaml
from pydantic import Field, model_validator

from dpbench.errors import ConfigError
from dpbench.estimators import ClippedMean, TransformedNoiseMean
from dpbench.estimators.tables import TableMean, Weight
from dpbench.output.names import as_text
from dpbench.output.terminal import fill
from dpbench.planner.explanations import format_records
from dpbench.planner.page import MIN_BIAS_RATIO, NEIGHBOURS, ReleasePlan
from dpbench.planner.question import Number, Positive, Question, build_law, build_problem
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.symbols import budget_text
from dpbench.registry import Count, from_mapping, labelled_entries, validated

__all__ = ["Table", "TablePlan", "read_table"]


@validated
class Column:
    """Public knowledge of a column of a table: bounds, and perhaps its distribution."""

    lower: Number
    upper: Number
    law: Any = None
    alpha: Positive | None = None  # largest error, for which records are counted

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.lower >= self.upper:
            raise ValueError(f"upper: {self.upper:g}: must exceed lower, {self.lower:g}")
        return self


@validated
class Table:
    """File of ``plan table=``: columns, expected records of each group, and shares of the budget.

    Without groups all records are in one group, whose number of records is the key ``n``.
    """

    columns: Annotated[dict[str, Column], labelled_entries(Column, least=1)]
    groups: dict[str, Count] = Field(default_factory=dict)
    n: Count | None = None
    group_sizes: Literal["public", "private"] = "private"
    split: Literal["equal", "sensitivity"] | dict[str, Weight] = "equal"

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if bool(self.groups) == (self.n is not None):
            raise ValueError("groups: give groups and their expected records, or n without groups")
        return self

    @property
    def sizes(self) -> dict[str, int]:
        """Expected number of records of each group."""
        return self.groups or {"all": self.n or 1}


def read_table(path: str) -> Table:
    """Read the file of a table; raise ConfigError if it cannot be read or has a wrong key."""
    try:
        content = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"table: {path!r}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise ConfigError(f"table: {path!r}: not a YAML file: {problem}") from error
    table: Table = from_mapping(Table, content, "table")
    return table


@dataclass(frozen=True)
class TablePlan:
    """Plan of a table under a budget."""

    table: Table
    budget: Budget

    @property
    def _sizes_are_public(self) -> bool:
        """True if sizes of groups are public. Without groups, the number of all records is."""
        if self.budget.neighbours == "add_remove":
            return False
        return not self.table.groups or self.table.group_sizes == "public"

    @cached_property
    def estimator(self) -> TableMean:
        """The estimator of the table, whose columns have their clips."""
        kind = ClippedMean if self._sizes_are_public else TransformedNoiseMean
        smallest = min(self.table.sizes.values())
        # The budget of a column does not depend on its clip, unless the split does.
        bounded = {
            name: kind(lower=column.lower, upper=column.upper)
            for name, column in self.table.columns.items()
        }
        plans = self._plans(self._table_of(bounded), smallest)
        for name, plan in plans.items():
            if not np.isfinite(plan.expected.q90):
                key = "groups" if self.table.groups else "n"
                raise ConfigError(
                    f"table.{key}: {smallest}: too few records for {name} and its share of the "
                    "budget: the noise of their private count may exceed n/2"
                )
        clips = {name: plan.clip for name, plan in plans.items()}
        return self._table_of({name: kind(lower=a, upper=b) for name, (a, b) in clips.items()})

    def _table_of(self, columns: dict[str, Any]) -> TableMean:
        # Labels say that sizes are public; one record of each group stands for all.
        labels = list(range(len(self.table.sizes))) if self._sizes_are_public else None
        groups, split = list(self.table.sizes), self.table.split
        try:
            return TableMean(columns=columns, groups=groups, labels=labels, split=split)
        except ConfigError as error:
            raise ConfigError(str(error).replace("TableMean: ", "table.")) from error

    def _plans(self, table: TableMean, n: int) -> dict[str, ReleasePlan]:
        """Return the plan of each column for a group of n records."""
        if reason := table.refusal(self.budget):
            raise ConfigError(f"table: {reason}")
        inner = table._group_budget(self.budget)
        parts = Ledger(inner, np.random.default_rng(0)).split(*table.shares(self.budget).tolist())
        plans = {}
        for (name, column), part in zip(self.table.columns.items(), parts, strict=True):
            try:
                question = Question(lower=column.lower, upper=column.upper, law=column.law)
                law = build_law(question)
                problem = build_problem(question, law, part.budget)
            except ConfigError as error:
                raise ConfigError(f"table.columns.{name}.{error}") from error
            plans[name] = ReleasePlan(problem, n, part.budget, law, column.alpha)
        return plans

    def lines(self) -> Iterator[str]:
        """Yield the lines of the printed plan."""
        sizes, table = self.table.sizes, self.estimator
        yield (
            f"{format_records(sum(sizes.values()))}, {budget_text(self.budget, 'name')}; "
            + (NEIGHBOURS[self.budget.neighbours])
        )
        shares = zip(table.columns, table.shares(self.budget), strict=True)
        split = ", ".join(f"{name} {as_text(share)}" for name, share in shares)
        yield fill(f"shares of the budget: {split}; each group may use all of them", "")
        yield ""
        width = max(len(name) for name in (*table.columns, "column")) + 1
        place = max(len(name) for name in (*sizes, "group")) + 1
        yield f"{'column':{width}}{'group':{place}}{'records':>9}{'clip':>21}" + "".join(
            f"{title:>9}" for title in ("q90", "sampling", "bias", "noise")
        )
        by_group = {group: self._plans(table, n) for group, n in sizes.items()}
        for name, column in table.columns.items():
            clip = f"[{column.lower:.6g}, {column.upper:.6g}]"
            for group, n in sizes.items():
                error = by_group[group][name].error(column.lower, column.upper)
                bias = error.bias if abs(error.bias) > MIN_BIAS_RATIO * error.q90 else 0.0
                numbers = error.q90, error.sampling, bias, error.noise
                parts = "".join(f" {as_text(number):>8}" for number in numbers)
                yield f"{name:{width}}{group:{place}}{n:9,} {clip:>20}{parts}"
        yield "q90: the 0.9 quantile of the absolute error, in the unit of the column."
        yield "Parts of it: 0.9 quantiles of sampling error and noise; bias due to clipping."
        yield from self._needs(by_group)
        yield f"\nPython:\n\n{self.code}"

    def _needs(self, by_group: dict[str, dict[str, ReleasePlan]]) -> Iterator[str]:
        """Yield a line for each column that states an error: the records that a group needs."""
        plans = next(iter(by_group.values()))
        for name, plan in plans.items():
            if plan.alpha is None:
                continue
            try:
                needed = f"needs {format_records(plan.records(plan.alpha))} in a group"
            except ConfigError:
                needed = "is not reached by any number of records"
            yield f"{name}: a q90 of {as_text(plan.alpha, 4)} {needed}, with the best clip then."

    @property
    def code(self) -> str:
        """Python code that releases the table."""
        kind = "ClippedMean" if self._sizes_are_public else "TransformedNoiseMean"
        columns = "\n".join(
            f"    {name!r}: {kind}(lower={column.lower!r}, upper={column.upper!r}),"
            for name, column in self.estimator.columns.items()
        )
        amounts = ", ".join(map(repr, self.budget.amounts))
        if self.budget.neighbours == "add_remove":
            amounts += ', neighbours="add_remove"'
        groups, options = self.table.groups, ""
        if groups:
            options += f'\n    by="group", groups={list(groups)!r},  # the column of the groups'
            if self.budget.neighbours == "replace":
                options += f"\n    group_sizes={self.table.group_sizes!r},"
        if self.table.split != "equal":
            options += f"\n    split={self.table.split!r},"
        return f"""\
import dpbench, numpy as np, pandas as pd
from dpbench.estimators import {kind}

columns = {{
{columns}
}}
people = pd.read_csv("my.csv")
table = dpbench.release_table(
    people, columns, dpbench.{type(self.budget).__name__}({amounts}),{options}
    rng=np.random.default_rng(),
)
print(table.estimates)"""
