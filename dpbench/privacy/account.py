"""An account: a budget, how it is cut into parts, and a receipt of what the parts have cost."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import cache, reduce
from typing import Self

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.budgets import Budget, _BadEvent

__all__ = ["Account", "OverdraftError", "check_number"]

# Room for the rounding of sums of shares.
SLACK = 1e-9


class OverdraftError(RuntimeError):
    """A release tried to spend more than its budget."""


class Account:
    """Count what the parts of a budget cost; the ledger's mechanisms pay from it.

    Parameters
    ----------
    budget : Budget
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._reserved = (0.0,) * len(budget.amounts)
        self._mechanism: str | None = None  # what spent it
        self._groups: list[list[Self]] = []  # parts, those of a group in parallel

    def _part(self, budget: Budget) -> Self:
        """Open the account of a part of the budget."""
        return type(self)(budget)

    @property
    def spent(self) -> tuple[float, ...]:
        """What mechanisms have cost so far, in the notion's amounts."""
        return self.budget.amounts_of(self._cost_in(self.budget))

    @property
    def share(self) -> float:
        """What share of the budget is spent: of the cost of which it is least."""
        costs = zip(self._cost_in(self.budget), self.budget.cost, strict=True)
        return min((float(spent / cost) for spent, cost in costs), default=1.0)

    def _cost_in(self, notion: Budget) -> Floats:
        if self._mechanism is not None:
            return np.asarray(notion.cost_of(self.budget))
        # Parts compose in the notion that this ledger was cut in, and convert once.
        total = np.zeros(len(self.budget.amounts))
        cost = cache(lambda child: child._cost_in(self.budget))  # `repeated` lists one many times
        for group in self._groups:
            total += reduce(np.maximum, map(cost, group))
        if type(notion) is type(self.budget):
            return total
        if not total.any():  # which is no budget
            return np.zeros(len(notion.amounts))
        return np.asarray(notion.cost_of(type(self.budget)(*self.budget.amounts_of(total))))

    def split(self, *parts: float | Budget) -> list[Self]:
        """Cut the budget for steps that follow each other on the same records.

        The parts are shares of this budget, or budgets of a notion that implies this one.
        """
        budgets = [p if isinstance(p, Budget) else self.budget.fraction(p) for p in parts]
        if any(budget.neighbours != self.budget.neighbours for budget in budgets):
            raise ValueError(f"{budgets} are not all about the neighbours of {self.budget}")
        self._reserve(*budgets)
        children = [self._part(budget) for budget in budgets]
        self._groups += [[child] for child in children]
        return children

    def parallel(self, parts: int) -> list[Self]:
        """Give each of `parts` disjoint sets of records the whole budget.

        They must be fixed by record index, and not by value: replacing a record changes one set.
        """
        check_number("parts", parts)
        self._reserve(self.budget)
        children = [self._part(self.budget) for _ in range(parts)]
        self._groups.append(children)
        return children

    def allow_failure(self, delta: float) -> None:
        """Pay for an event of probability at most `delta` under which a later bound is wrong.

        If, given all earlier releases, later steps cost (eps, delta') unless that event
        occurs, the whole costs delta + delta'. Only (eps, delta) budgets can pay for it.
        """
        (event,) = self.split(_BadEvent(delta, self.budget.neighbours))
        event.pay("an event under which a later bound is wrong")

    def repeated(self, times: int) -> Self:
        """One ledger for `times` releases on the same records, the rows of one batch.

        Each row pays 1/times of the budget: for coordinates, which `Sample.columns` puts in rows.
        """
        check_number("times", times)
        child = self._part(self.budget.fraction(1 / times))
        self._reserve(*[child.budget] * times)
        self._groups.extend([child] for _ in range(times))
        return child

    def pay(
        self, mechanism: str = "a mechanism of its own", sensitivity: float | Floats | None = None
    ) -> None:
        """Spend the whole ledger, once; the receipt says on what mechanism."""
        self._reserve(self.budget)
        if sensitivity is not None:
            low, high = np.min(sensitivity), np.max(sensitivity)
            mechanism += f", sensitivity {low:.6g}" + (f" to {high:.6g}" if high > low else "")
        self._mechanism = mechanism

    def receipt(self) -> str:
        """What was spent on what, a line for each part, and what is left."""
        cost = np.asarray(self.budget.cost)
        left = cost - self._cost_in(self.budget)
        left = np.where(left > SLACK * cost, left, 0.0)
        text = _written(self.budget, self.budget.amounts_of(left))
        return "\n".join([*self._lines(), f"left: {text or 'nothing'}"])

    __str__ = receipt

    def _lines(self, note: str = "") -> list[str]:
        name = f"{note}{self.budget.label} {_written(self.budget, self.budget.amounts)}".rstrip()
        if not self._groups:
            return [f"{name}: {self._mechanism or 'not spent'}"]
        lines = [name]
        for _, same in itertools.groupby(self._groups, key=lambda group: id(group[0])):
            group, *again = same
            times = f"{1 + len(again)} times: " if again else ""
            note = "in parallel: " if len(group) > 1 else times
            lines += [f"  {line}" for part in group for line in part._lines(note)]
        return lines

    def _reserve(self, *budgets: Budget) -> None:
        costs = self._reserved, *map(cache(self.budget.cost_of), budgets)
        reserved = tuple(map(sum, zip(*costs, strict=True)))
        if any(r > most * (1 + SLACK) for r, most in zip(reserved, self.budget.cost, strict=True)):
            wanted = " + ".join(str(budget) for budget in budgets)
            taken = self.budget.amounts_of(self._reserved)
            raise OverdraftError(
                f"{wanted} exceeds what is left of {self.budget}: {taken} is taken"
            )
        self._reserved = reserved


def _written(budget: Budget, amounts: Iterable[float]) -> str:
    named = zip(budget.named_amounts, amounts, strict=True)
    return ", ".join(f"{name} {amount:.6g}" for name, amount in named)


def check_number(name: str, number: int) -> None:
    """Check that a number of parts, repeats or draws is at least 1."""
    if number < 1:
        raise ValueError(f"{name} is {number}; at least one is needed")
