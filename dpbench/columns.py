"""The one schema: what a row of results is about, and how rows are chosen.

A `Key` is made in planning, and its fields are the columns of every table after it. Whatever is
selected later (by a part, a claim, a figure, an audit) is selected by these columns, in one way:
a `Selection`. A label is made from a key for print, and is never taken apart again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, Field

from dpbench.privacy import AMOUNTS, Budget
from dpbench.registry import ConfigError, validated

__all__ = [
    "BUDGET", "KEY", "Choice", "Key", "Selection", "Variant", "amounts_of", "choose",
    "swept_columns", "under",
]  # fmt: skip

T = TypeVar("T")

BUDGET = ["privacy", *AMOUNTS]
# The columns that a table of results begins with. After the statistics it ends with the parameters
# that the sweep gives several values.
KEY = ["distribution", "family", "k", "estimator", *BUDGET, "n", "d"]


def amounts_of(row: Mapping[Any, Any]) -> dict[str, float]:
    """The amounts of a row's budget that there are."""
    return {name: row[name] for name in AMOUNTS if pd.notna(row.get(name, np.nan))}


def under(table: pd.DataFrame, budget: Budget) -> pd.Series[bool]:
    """Which rows of a table are about a budget."""
    same = table["privacy"] == budget.label
    for name, amount in amounts_of(budget.columns).items():
        same &= table[name] == amount
    return same


@dataclass(frozen=True)
class Key:
    """What one row of results is about.

    Attributes
    ----------
    distribution, family, estimator : str
        Labels; the family's, over whose members (distributions) a worst case is taken.
    k : float
        The order of the family's bounded moment; NaN if none is known.
    budget : Budget
    n, d : int
        Records in a dataset, coordinates in a record.
    swept : mapping
        The parameters that the sweep gives several values, by column.
    lower_bound : float
        An error that no private estimator beats over the family; NaN if none is known.
    """

    distribution: str
    family: str
    k: float
    estimator: str
    budget: Budget
    n: int
    d: int
    swept: Mapping[str, Any] = field(default_factory=dict)
    lower_bound: float = np.nan

    @property
    def columns(self) -> dict[str, Any]:
        """The row's first columns, and its last."""
        return {
            "distribution": self.distribution,
            "family": self.family,
            "k": self.k,
            "estimator": self.estimator,
            **self.budget.columns,
            "n": self.n,
            "d": self.d,
            "lower_bound": self.lower_bound,
            **self.swept,
        }


@dataclass(frozen=True)
class Variant(Generic[T]):
    """An entry of a configuration; one of several if it gives a parameter a list of values.

    Attributes
    ----------
    name : str
        The entry's.
    value : T
        What it makes.
    parameters : mapping
        What it is given, or has.
    swept : tuple of str
        The parameters that were given a list.
    """

    name: str
    value: T
    parameters: Mapping[str, Any]
    swept: tuple[str, ...] = ()

    def label(self, *without: str) -> str:
        """For print: the name with the values that are swept, but for those of some parameters."""
        shown = [name for name in self.swept if name not in without]
        return "_".join([self.name, *(f"{name}{_brief(self.parameters[name])}" for name in shown)])


def _brief(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else f"_{value}"


def swept_columns(
    families: Iterable[Variant[Any]], estimators: Iterable[Variant[Any]]
) -> tuple[dict[str, str], dict[str, str]]:
    """The columns of the parameters that families and estimators are swept over, by parameter.

    An estimator's is named ``estimator_k`` where ``k`` alone is another column.
    """
    of_families = {p: p for one in families for p in one.swept if p not in KEY}
    taken = {*KEY, *of_families}
    of_estimators = {
        p: f"estimator_{p}" if p in taken else p for one in estimators for p in one.swept
    }
    return of_families, of_estimators


def _as_choice(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


# Names or patterns, ``!`` before what is left out; or names with the values of their parameters.
Names = Annotated[list[str], Field(min_length=1)]
Values = Annotated[dict[str, dict[str, Any] | None], Field(min_length=1)]
Choice = Annotated[
    Names | Values, BeforeValidator(_as_choice, json_schema_input_type=str | Names | Values)
]


@validated
class Selection:
    """What of a sweep something is about: families, estimators and budgets.

    Parameters
    ----------
    families, estimators, budgets : optional
        By default all. A list of names (``[minimax, rate]``), which may be shell patterns
        (``clip_*``), with ``!`` before what is left out; or a mapping of names to the values of
        parameters that are meant, ``{pure: {epsilon: [0.1, 1]}}``, where ``{low: 1, high: 10}``
        stands for all values between these and ``{}`` leaves nothing out. Estimators without
        privacy have no budget: they are in whatever the budgets are.
    """

    families: Choice | None = None
    estimators: Choice | None = None
    budgets: Choice | None = None


def choose(
    choice: list[str] | Mapping[str, Mapping[str, Any] | None] | None,
    section: Mapping[str, Variant[Any]],
    where: str = "",
) -> list[str]:
    """The labels that a choice means, in the section's order.

    Parameters
    ----------
    choice : see `Selection`
    section : mapping of label to Variant
    where : str
        For messages.

    Raises
    ------
    ConfigError
        If a name or a value matches nothing.
    """
    if choice is None:
        return list(section)
    if isinstance(choice, Mapping):
        wanted = [
            label
            for name, values in choice.items()
            for label in _with_values(name, values or {}, section, where)
        ]
        return [label for label in section if label in set(wanted)]
    chosen = dict.fromkeys(section, all(pattern.startswith("!") for pattern in choice))
    for pattern in sorted(choice, key=lambda p: p.startswith("!")):
        for label in _named(pattern.removeprefix("!"), section, where):
            chosen[label] = not pattern.startswith("!")
    return [label for label, wanted_ in chosen.items() if wanted_]


def _named(pattern: str, section: Mapping[str, Variant[Any]], where: str) -> list[str]:
    found = [label for label, one in section.items() if fnmatchcase(one.name, pattern)]
    if not found:
        names = dict.fromkeys(one.name for one in section.values())
        raise ConfigError(f"{where}: {pattern!r}: no such name; choose from {', '.join(names)}")
    return found


def _with_values(
    name: str, values: Mapping[str, Any], section: Mapping[str, Variant[Any]], where: str
) -> list[str]:
    """The labels of a name whose parameters have one of the values each."""
    found = _named(name, section, where)
    for parameter, wanted in values.items():
        if not any(parameter in section[label].parameters for label in found):
            names = dict.fromkeys(key for label in found for key in section[label].parameters)
            raise ConfigError(
                f"{where}.{name}.{parameter}: no such parameter; choose from {', '.join(names)}"
            )
        known = {label: section[label].parameters.get(parameter) for label in found}
        one_by_one = wanted if isinstance(wanted, list) else [wanted]
        for value in one_by_one:
            if not any(_matches(has, value) for has in known.values()):
                texts = dict.fromkeys(
                    f"{has:g}" if isinstance(has, float) else str(has) for has in known.values()
                )
                raise ConfigError(
                    f"{where}.{name}.{parameter}: {value!r}: no such value; choose from "
                    f"{', '.join(texts)}"
                )
        found = [label for label in found if any(_matches(known[label], v) for v in one_by_one)]
    return found


def _matches(has: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if not isinstance(has, int | float) or not set(wanted) <= {"low", "high"}:
            return False
        return bool(wanted.get("low", -np.inf) <= has <= wanted.get("high", np.inf))
    return bool(has == wanted)
