"""Accounts, which divide a privacy budget into parts and list the costs in a receipt."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from functools import cache, reduce
from typing import Any, Self

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.budgets import Budget, _BadEvent
from dpbench.privacy.neighbours import group_budget, replacement_budget
from dpbench.privacy.tape import Place

__all__ = ["Account", "OverdraftError", "check_number"]

# Relative tolerance for rounding. A sum of shares that exceeds a budget by no more is the budget.
SLACK = 1e-9


class OverdraftError(RuntimeError):
    """Error for a release that tries to spend more than its budget."""


class Account:
    """Privacy budget with its parts and the costs that mechanisms have paid from it.

    Parameters
    ----------
    budget : Budget
        Budget of one release.

    Attributes
    ----------
    name : str
        Name of the account in the receipt, for example of a column; empty by default.
    steps : int
        Number of steps, each to a dataset with one record more or less, between neighbours of the
        release. It is 1, or 2 in a part for added or removed records of a budget for replaced
        records. A part for rows has so many steps for each row of a record.
    times : int
        Number of times that this account is paid for, see `repeated`; 1 by default.
    place : Place
        Place of this account among the parts of the whole budget.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.name = ""
        self._rows = 1  # rows of this account that make up a record of the account it is a part of
        self._reserved = (0.0,) * len(budget.amounts)
        self._mechanism: str | None = None  # the mechanism that spent the budget
        self._groups: list[list[Self]] = []  # the parts in a group are parallel
        self.steps = self.times = 1
        self.place: Place = ()

    def _part(self, budget: Budget, rows: int = 1) -> Self:
        """Return a new account that holds `budget`, a part of this account's budget.

        A record of this account has at most `rows` records of the new account.
        """
        part = self._new(budget)
        part._rows, part.times = rows, self.times
        part.steps = rows * (self.steps if budget.neighbours == self.budget.neighbours else 2)
        return part

    def _new(self, budget: Budget) -> Self:
        """Return a new account that holds `budget` and shares the other arguments of this one."""
        return type(self)(budget)

    @property
    def spent(self) -> tuple[float, ...]:
        """Privacy parameters, such as epsilon and delta, that mechanisms have spent so far.

        They never exceed the budget by rounding.
        """
        amounts = self.budget.amounts_of(self._cost_in(self.budget))
        return tuple(map(_without_rounding, amounts, self.budget.amounts))

    @property
    def share(self) -> float:
        """Fraction of the budget that mechanisms have spent, from 0 to 1.

        For an (epsilon, delta)-DP budget, it is the smaller of the fractions of epsilon and delta.
        """
        costs = zip(self._cost_in(self.budget), self.budget.cost, strict=True)
        shares = (_without_rounding(spent / cost, 1.0) for spent, cost in costs)
        return min(shares, default=1.0)

    def _cost_in(self, notion: Budget) -> Floats:
        if self._mechanism is not None:
            return np.asarray(notion.cost_of(_in_relation_of(notion, self.budget, self._rows)))
        # Parts compose in the notion of this account, and the total is converted once.
        # Cache costs, because `repeated` lists one child many times.
        cost = cache(lambda child: child._cost_in(self.budget))
        nothing = np.zeros(len(self.budget.amounts))
        costs = [nothing, *(reduce(np.maximum, map(cost, group)) for group in self._groups)]
        total = np.array([math.fsum(amounts) for amounts in zip(*costs, strict=True)])
        same_relation = notion.neighbours == self.budget.neighbours
        if type(notion) is type(self.budget) and same_relation and self._rows == 1:
            return total
        if not total.any():  # a budget of 0 does not exist, so it cannot be converted
            return np.zeros(len(notion.amounts))
        relation: Any = {"neighbours": self.budget.neighbours}
        spent = type(self.budget)(*self.budget.amounts_of(total), **relation)
        return np.asarray(notion.cost_of(_in_relation_of(notion, spent, self._rows)))

    def split(self, *parts: float | Budget, rows: int = 1) -> list[Self]:
        """Split the budget among successive steps on one dataset, because their costs add up.

        Parameters
        ----------
        *parts : float or Budget
            Each part is a fraction of this budget, in (0, 1], or a budget. The guarantee of a part
            must imply a guarantee in this budget's notion of privacy. If this budget is for
            replaced records, a part may be for added or removed records. A replaced record is one
            of each, so the part costs its `dpbench.privacy.neighbours.replacement_budget`.
        rows : int
            Largest number of records of a part that a record of this budget has, for example the
            rows of a person. Parts then cost what group privacy implies, so give them as budgets
            (`dpbench.privacy.neighbours.row_budget`).

        Returns
        -------
        list
            An account or ledger for each part.

        Raises
        ------
        OverdraftError
            If the parts cost more than is left.
        ValueError
            If a part is for replaced records and this budget is not, or if a part implies no
            guarantee in the notion of this budget.
        """
        budgets = [p if isinstance(p, Budget) else self.budget.fraction(p) for p in parts]
        check_number("rows", rows)
        whole = budgets if rows == 1 else [_in_relation_of(self.budget, b, rows) for b in budgets]
        self._reserve(*whole)
        return [self._add_group(self._part(budget, rows))[0] for budget in budgets]

    def parallel(self, parts: int) -> list[Self]:
        """Return accounts that each have the whole budget, for `parts` disjoint sets of records.

        Replacing a record must change only one set, so that only the largest of the costs counts.
        So the sets must be fixed by record index, not by value. If records are added or removed
        instead, the values of a record alone may decide its set, because the record is in one set
        only (M09, Theorem 4, number not checked).
        """
        check_number("parts", parts)
        self._reserve(self.budget)
        return self._add_group(*(self._part(self.budget) for _ in range(parts)))

    def _add_group(self, *children: Self) -> list[Self]:
        """Append a group of parts that pay in parallel, and return the parts."""
        for index, child in enumerate(children):
            child.place = (*self.place, (len(self._groups), index, self.steps))
        self._groups.append([*children])
        return [*children]

    def allow_failure(self, delta: float) -> None:
        """Pay for an event of probability at most `delta` in which later steps are not private.

        An example is the event that a released bound, on which later sensitivities rely, is wrong.
        Assume that later steps are (eps, delta')-DP, given all earlier releases, if the event does
        not occur. Then all steps together are (eps, delta + delta')-DP. Only an
        (epsilon, delta)-DP budget can pay for such an event.
        """
        (event,) = self.split(_BadEvent(delta, self.budget.neighbours))
        event.pay("an event under which a later bound is wrong")

    def repeated(self, times: int) -> Self:
        """Return one account that pays for `times` releases on the same records.

        Each release pays 1/times of the budget. All releases are computed in one call, as rows of
        one array. Use this account for coordinates of vectors: `Sample.columns` turns each
        coordinate of a vector into a dataset of its own, a row of that array.
        """
        check_number("times", times)
        child = self._part(self.budget.fraction(1 / times))
        child.times = self.times * times
        self._reserve(*[child.budget] * times)
        for _ in range(times):
            self._add_group(child)
        return child

    def pay(
        self, mechanism: str = "a mechanism of its own", sensitivity: float | Floats | None = None
    ) -> None:
        """Spend the whole budget of this account, which is possible only once.

        Parameters
        ----------
        mechanism : str
            Name of the mechanism, for the receipt.
        sensitivity : float or ndarray, optional
            Sensitivity of the mechanism, for the receipt.

        Raises
        ------
        OverdraftError
            If a part of the budget is already spent or reserved.
        """
        self._reserve(self.budget)
        if sensitivity is not None:
            low, high = np.min(sensitivity), np.max(sensitivity)
            mechanism += f", sensitivity {low:.6g}" + (f" to {high:.6g}" if high > low else "")
        self._mechanism = mechanism

    def copy_costs(self) -> Account:
        """Return a copy with all costs and no means to draw or repeat noise, for publication.

        A ledger holds the generator of its noise. Whoever has its state can subtract the noise.
        """
        copies: dict[int, Account] = {}  # `repeated` lists one account many times

        def copied(account: Account) -> Account:
            if id(account) not in copies:
                copies[id(account)] = bare = Account(account.budget)
                bare.name, bare._rows = account.name, account._rows
                bare._reserved, bare._mechanism = account._reserved, account._mechanism
                bare._groups = [[copied(part) for part in group] for group in account._groups]
            return copies[id(account)]

        return copied(self)

    def receipt(self) -> str:
        """Return a receipt: a line for each part of the budget, then the privacy parameters left.

        The line of a part names the mechanism that spent the part.
        """
        cost = np.asarray(self.budget.cost)
        left = cost - self._cost_in(self.budget)
        left = np.where(left > SLACK * cost, left, 0.0)
        text = _format_amounts(self.budget, self.budget.amounts_of(left))
        return "\n".join([*self._lines(), f"left: {text or 'nothing'}"])

    __str__ = receipt

    def _lines(self, note: str = "") -> list[str]:
        amounts = _format_amounts(self.budget, self.budget.amounts)
        title = f"{self.name}: " if self.name else ""
        name = f"{note}{title}{self.budget.label} {amounts}".rstrip()
        if not self._groups:
            return [f"{name}: {self._mechanism or 'not spent'}"]
        lines = [name]
        for _, repeats in itertools.groupby(self._groups, key=lambda group: id(group[0])):
            group, *further = repeats
            times = f"{1 + len(further)} times: " if further else ""
            note = "in parallel: " if len(group) > 1 else times
            lines += [f"  {line}" for part in group for line in part._lines(note)]
        return lines

    def _reserve(self, *budgets: Budget) -> None:
        cost = cache(lambda part: self.budget.cost_of(_in_relation_of(self.budget, part)))
        costs = self._reserved, *map(cost, budgets)
        reserved = tuple(map(sum, zip(*costs, strict=True)))
        if any(
            r > limit * (1 + SLACK) for r, limit in zip(reserved, self.budget.cost, strict=True)
        ):
            requested = " + ".join(str(budget) for budget in budgets)
            taken = self.budget.amounts_of(self._reserved)
            raise OverdraftError(
                f"{requested} exceeds what is left of {self.budget}: {taken} is taken"
            )
        self._reserved = reserved


def _in_relation_of(budget: Budget, part: Budget, rows: int = 1) -> Budget:
    """Return the guarantee that `part` implies under the neighbour relation of `budget`.

    A record of `budget` has at most `rows` records of `part`. Raise ValueError if `part` implies no
    guarantee.
    """
    if part.neighbours == budget.neighbours:
        return part if rows == 1 else group_budget(part, rows)
    if part.neighbours == "add_remove":
        return replacement_budget(part, rows)
    raise ValueError(f"split: {part}: neighbours must be those of {budget}")


def _without_rounding(amount: float, limit: float) -> float:
    """Return `limit` if `amount` exceeds it by at most `SLACK`, else `amount`."""
    return limit if limit < amount <= limit * (1 + SLACK) else float(amount)


def _format_amounts(budget: Budget, amounts: Iterable[float]) -> str:
    pairs = zip(budget.named_amounts, amounts, strict=True)
    return ", ".join(f"{name} {amount:.6g}" for name, amount in pairs)


def check_number(name: str, number: int) -> None:
    """Raise a ValueError that names a number of parts, repeats or draws if it is below 1."""
    if number < 1:
        raise ValueError(f"{name} is {number}; at least one is needed")
