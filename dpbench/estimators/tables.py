"""Means of several columns for several groups of records, under one budget.

A record has a group and d numbers, one for each column. The release has a number for each group and
column. Let b be the budget, and s_j the share of column j, where s_1 + ... + s_d = 1.

Columns. A record is in all columns. So the costs of the columns add up, and column j gets s_j b
(DR14, Theorem 3.16, number not checked).

Groups. Let the estimator of a cell (a group and a column) see the records of its group only.

1. Neighbours add or remove a record. The record is in one group, so only the cells of one group see
   the difference. Each group may use the whole share s_j b: the groups pay in parallel (M09,
   Theorem 4, number not checked). The size of a group is private, and so is whether the group is
   empty. So the estimators must keep n private, and an empty group is released like others.
2. Neighbours replace a record, and the group of a record is private. If the record moves from group
   A to group B, A loses a record and B gains one. That is one step of removal and one of addition,
   on disjoint sets of cells. Let each group have a budget for added and removed records. The costs
   of the cells of A and of B add up: 2 epsilon; 2 rho; sqrt(2) mu; or (2 epsilon, 2 delta). If the
   record stays in A, both steps are in A, and group privacy counts (`dpbench.privacy.neighbours`):
   2 epsilon; 4 rho; 2 mu; or (2 epsilon, (1 + e^epsilon) delta). The second cost is never smaller.
   So b pays for a table whose budget for added and removed records is
   `dpbench.privacy.neighbours.removal_budget` of b: half of epsilon or mu, a quarter of rho.
   An estimator with a public n must not be used here: A and B change their sizes, so the noise for
   a sensitivity w/n would show the sizes.
3. Neighbours replace a record, and the group of every record is public and fixed. Then neighbours
   differ in the numbers of one record, and the sizes of all groups are public. The groups pay in
   parallel, by estimators with a public n. Nothing is released from an empty group.
4. Neighbours add, remove or replace a person, who may have many rows in several groups. A row has a
   group and d numbers. At most r = `cap` rows of each person are kept, drawn at random. Fix the
   rows that are kept of all other people. Then the kept rows of neighbours differ by k steps, each
   of which adds or removes one row: k = r if a person is added or removed, and k = 2r if a person
   is replaced. It does not matter in which groups these rows are. A step costs what case 1 says.
   So, by group privacy, b pays for a table whose budget for added and removed rows is
   `dpbench.privacy.neighbours.row_budget` of b: epsilon/k; rho/k^2; mu/k; or
   (epsilon/k, delta/(1 + e^(epsilon/k) + ... + e^((k - 1) epsilon/k))).
   The rows that are kept of other people have one distribution on both sides, because each person's
   rows are drawn independently of all other rows. A guarantee that holds for each outcome of this
   draw holds for the mixture: inequalities P <= e^epsilon Q + delta are averaged, Renyi divergences
   are jointly quasi-convex, and trade-off functions are convex. The number of a person's rows is
   private, and so are the sizes of all groups. So the estimators must keep n private under both
   relations. Cases 1 and 2 are this case for one row of each person.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from dpbench.arrays import Bools, Floats, Ints
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import as_private_base
from dpbench.estimators.columns import Unit, best_shares
from dpbench.estimators.estimands import TABLE, Estimand
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.budgets import Relation
from dpbench.privacy.neighbours import Pair, row_budget
from dpbench.registry import validated
from dpbench.samples import DenseSample, Sample
from dpbench.samples.base import AddRemoveView
from dpbench.samples.labelled import GroupSample

__all__ = ["Cell", "TableMean"]

Weight = Annotated[float, Field(gt=0, le=1e150)]
Cell = tuple[int, str]  # index of a group, and name of a column


@validated
class TableMean(Estimator):
    """Means of columns for each group of records, under one budget (DR14, M09).

    DR14, Theorem 3.16, and M09, Theorem 4, numbers not checked. The docstring of
    `dpbench.estimators.tables` derives the cost. The release lists the cells of the first group,
    column by column, then the cells of the second group, and so on.

    If `labels` is None, the first coordinate of a record says its group: rounded down, and moved
    into 0 to G - 1 for G groups. The other coordinates are its columns.

    If `cap` is given, a record is a person. Its first coordinate is the number m of the person's
    rows. The rows follow, in a random order that does not depend on their values, then zeros. A row
    has the coordinates of a record without `cap`. `dpbench.samples.person_rows` arranges numbers in
    this way, and `dpbench.release_table` arranges tables.

    Parameters
    ----------
    columns : mapping of str to estimator
        Private estimator of numbers for each column, or its name or configuration, in the order of
        the coordinates. The estimators must keep n private, unless `labels` are given.
    groups : list of str
        Names of the groups, for receipts. Choose them without looking at the data.
    labels : list of int, optional
        Public index of the group of every record, from 0; neighbours then replace the numbers of a
        record and keep its group. None (the default) if groups are private.
    cap : int in [1, 1e6], optional
        Number of rows that are kept of each person. Noise grows in proportion to it, and other rows
        are dropped. Choose it without looking at the data. None (the default): a record is a row.
    split : {'equal', 'sensitivity'} or mapping of str to float
        Shares of the budget of the columns. ``equal``: equal shares. ``sensitivity``: the shares
        that minimise the sum of the squared errors in a group, if the noise of a column is
        proportional to the width of its bounds (`dpbench.estimators.columns.best_shares`). A
        mapping: a weight for each column, to which its share is proportional.
    units : mapping of str to float
        Size of an error that counts as 1, for each column, in the unit of the column. It is used by
        ``split: sensitivity`` only. By default it is 1, which is right if all columns have one
        unit. With the widths of the bounds as units, the best shares are equal.
    """

    columns: Annotated[dict[str, Any], Field(min_length=1)]
    groups: Annotated[list[str], Field(min_length=1, max_length=10_000)] = Field(
        default_factory=lambda: ["all"]
    )
    labels: list[Annotated[int, Field(ge=0)]] | None = None
    cap: Annotated[int, Field(ge=1, le=10**6)] | None = None
    split: Literal["equal", "sensitivity"] | dict[str, Weight] = "equal"
    units: dict[str, Unit] = Field(default_factory=dict)
    relations: ClassVar[tuple[Relation, ...]] = ("replace", "add_remove")
    multivariate: ClassVar[bool] = True
    estimand: ClassVar[Estimand] = TABLE
    bounded_in: ClassVar[None] = None
    narrowed_by: ClassVar[tuple[str, ...]] = ("columns",)

    @field_validator("columns")
    @classmethod
    def _check_columns(cls, columns: dict[str, Any]) -> dict[str, Estimator]:
        return {name: as_private_base(column) for name, column in columns.items()}

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if self.labels is not None and max(self.labels, default=0) >= len(self.groups):
            raise ValueError(f"labels: {max(self.labels)}: there are {len(self.groups)} groups")
        if self.labels is not None and self.cap is not None:
            raise ValueError("labels: the groups of a person's rows are private; leave out labels")
        names = set(self.columns)
        if isinstance(self.split, dict) and set(self.split) != names:
            raise ValueError(f"split: give a weight for each column: {', '.join(self.columns)}")
        if unknown := set(self.units) - names:
            raise ValueError(f"units: {min(unknown)!r}: no such column")
        if self.split == "sensitivity":
            self._sensitivities()
        return self

    def _sensitivities(self) -> list[float]:
        """Return the widths of the columns' bounds, each in the unit of the column's errors."""
        widths = []
        for name, column in self.columns.items():
            lower, upper = (getattr(column, end, None) for end in ("lower", "upper"))
            if lower is None or upper is None:
                raise ValueError(
                    f"split: sensitivity needs bounds lower and upper, which {name} "
                    f"({type(column).__name__}) lacks; give a mapping of weights"
                )
            widths.append((upper - lower) / self.units.get(name, 1.0))
        return widths

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        kept = (set(column.honoured) for column in self.columns.values())
        common = set(self.notions).intersection(*kept)
        return tuple(notion for notion in self.notions if notion in common)

    def supports(self, budget: Budget) -> bool:
        return super().supports(budget) and not self.refusal(budget)

    def refusal(self, budget: Budget) -> str:
        """Return the reason why a column cannot be released under a budget; empty if all can.

        The budget is that of the whole table.
        """
        if not budget.amounts:
            return "a table needs a private budget"
        if self.labels is not None and budget.neighbours != "replace":
            return "labels are public, but neighbours: add_remove changes the size of a group"
        part = self._group_budget(budget)
        cause = (
            "a person has several rows" if self.cap else "a replaced record may change its group"
        )
        why = "" if part.neighbours == budget.neighbours else f": n is private, because {cause}"
        for name, column in self.columns.items():
            if not column.supports(part):
                return f"{name}: {type(column).__name__} does not support {part.label}{why}; " + (
                    "take one that keeps n private, such as TransformedNoiseMean"
                    if part.neighbours == "add_remove"
                    else f"it supports: {column.promises}"
                )
        return ""

    def _group_budget(self, budget: Budget) -> Budget:
        """Return the budget of the rows of one group, if `budget` pays for the table."""
        return budget if self.labels is not None else row_budget(budget, self.cap or 1)

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        return (len(self.groups) * len(self.columns),)

    def shares(self, budget: Budget) -> Floats:
        """Return the shares of the columns of a budget, an array (d,) that adds up to 1."""
        if isinstance(self.split, dict):
            weights = np.array([self.split[name] for name in self.columns])
            return np.asarray(weights / weights.sum())
        if self.split == "equal":
            return np.full(len(self.columns), 1 / len(self.columns))
        return best_shares(budget, self._sensitivities())

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        nothing = np.full(sample.trials, np.nan)
        cells = self.release_cells(sample, ledger)
        empty = Estimate(nothing, nothing)
        every = [
            cells.get((group, name), empty)
            for group in range(len(self.groups))
            for name in self.columns
        ]
        return Estimate(
            np.stack([cell.value for cell in every], axis=1),
            np.stack([cell.before_noise for cell in every], axis=1),
        )

    def release_cells(
        self, sample: Sample, ledger: Ledger, *, kept: bool = False
    ) -> dict[Cell, Estimate]:
        """Release every cell, and spend the whole budget of `ledger`.

        The vectors of the sample are the columns, after the group if `labels` is None. If `kept` is
        True, the vectors are rows: at most `cap` of each person, drawn at random. Otherwise a
        vector is a person if `cap` is given. The estimates are keyed by index of the group and name
        of the column. Groups whose public size is 0 are left out.
        """
        values, exists = self._rows(sample, kept or self.cap is None)
        group_budget = self._group_budget(ledger.budget)
        inner = (
            ledger
            if group_budget is ledger.budget
            else ledger.split(group_budget, rows=self.cap or 1)[0]
        )
        cells: dict[Cell, Estimate] = {}
        samples = list(self._group_samples(values, exists))
        shares = self.shares(ledger.budget).tolist()
        for j, (name, part) in enumerate(zip(self.columns, inner.split(*shares), strict=True)):
            part.name = name
            for (group, columns), cell in zip(samples, part.parallel(len(samples)), strict=True):
                cell.name = self.groups[group]
                cells[group, name] = self.columns[name].run(columns[j], cell)
        return cells

    def _rows(self, sample: Sample, kept: bool) -> tuple[Floats, Bools | bool]:
        """Return all rows, (trials, rows, coordinates), and which exist; others are padding.

        Raise ValueError if the records do not fit.
        """
        # Every cell hides the size of its group by itself.
        whole = sample.whole if isinstance(sample, AddRemoveView) else sample
        if not isinstance(whole, DenseSample) or not whole.vectors:
            raise ValueError("a table needs vectors that are all held, in a DenseSample")
        if not self._fits(whole.d, kept):
            names = [*([] if self.labels is not None else ["group"]), *self.columns]
            rows = "" if kept else "1 for the number of rows, and for each row "
            raise ValueError(
                f"expected {rows}{len(names)} coordinates ({', '.join(names)}), got {whole.d}"
            )
        return (whole.values, True) if kept else self._kept_rows(whole.values)

    def _fits(self, d: int | None, kept: bool) -> bool:
        """Return whether records of d coordinates fit the table, as rows or as people."""
        width = len(self.columns) + (self.labels is None)
        if d is None or kept:
            return d == width
        return d > width and (d - 1) % width == 0

    def _kept_rows(self, people: Floats) -> tuple[Floats, Bools]:
        """Return the first `cap` rows of all people, (trials, rows, 1 + columns), and which exist.

        Rows that do not exist are padding.
        """
        assert self.cap is not None
        trials, n, d = people.shape
        width = 1 + len(self.columns)
        most = min(self.cap, (d - 1) // width)
        exists = np.arange(most) < np.maximum(np.floor(people[..., :1]), 1.0)
        rows = people[..., 1 : 1 + most * width].reshape(trials, n * most, width)
        return rows, exists.reshape(trials, n * most)

    def _group_samples(
        self, values: Floats, exists: Bools | bool
    ) -> Iterator[tuple[int, list[Sample]]]:
        """Yield the index of each group, and a sample of numbers for each of its columns.

        Groups whose size is public and 0 are left out.
        """
        if self.labels is None:
            labels: Ints = np.clip(np.floor(values[..., 0]), 0, len(self.groups) - 1).astype(int)
            for group in range(len(self.groups)):
                member = (labels == group) & exists
                yield group, [GroupSample(x, member) for x in np.moveaxis(values[..., 1:], 2, 0)]
            return
        if len(self.labels) != values.shape[1]:
            raise ValueError(f"labels: {len(self.labels)}, but there are {values.shape[1]} records")
        for group in sorted(set(self.labels)):
            members = values[:, np.asarray(self.labels) == group]
            if values.strides[0] == 0:  # one dataset for all trials is stored once
                members = np.broadcast_to(members[:1], members.shape)
            yield group, [DenseSample(x) for x in np.moveaxis(members, 2, 0)]

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        """Return pairs in which a record moves to another group, or to the other end of all bounds.

        The record is alone in a group, or all other records are in its group. All rows of a person
        move, or all but one vanish. The list is empty if records of `d` coordinates do not fit the
        table.
        """
        if d is None or not self._fits(d, self.cap is None):
            return []
        ends = [
            [float(getattr(column, end, None) or default) for column in self.columns.values()]
            for end, default in (("lower", -1.0), ("upper", 1.0))
        ]
        low, high = (np.array(end) for end in ends)
        if self.labels is not None:
            flat = np.tile(low, (n, 1))
            return [Pair.replacing("to_the_other_end", flat, 0, high)]
        last = float(len(self.groups) - 1)
        first, other = np.append(0.0, low), np.append(last, high)
        pairs = {
            "to_an_empty_group": (first, other),
            "alone_to_the_other_end": (np.append(last, low), other),
            "to_the_other_end": (first, np.append(0.0, high)),
        }
        if self.cap is None:
            many = np.tile(first, (n - 1, 1))
        else:
            most = (d - 1) // first.size
            many = np.tile(_person(first, 1, most), (n - 1, 1))
            to_one_row = _person(np.append(0.0, high), most, most), _person(first, 1, most)
            pairs = {
                name: (_person(record, most, most), _person(by, most, most))
                for name, (record, by) in pairs.items()
            } | ({"to_one_row": to_one_row} if most > 1 else {})
        return [
            Pair.replacing(name, np.vstack([record, many]), 0, by)
            for name, (record, by) in pairs.items()
        ]


def _person(row: Floats, rows: int, most: int) -> Floats:
    """Return the record of a person with a number of equal rows, padded to `most` rows."""
    return np.concatenate([[rows], np.tile(row, rows), np.zeros((most - rows) * row.size)])
