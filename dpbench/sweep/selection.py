"""Columns that identify a row of results (its key), and selections of rows.

Planning makes the keys, and every later table begins with them. Claims, figures and audits select
rows by a `Selection`. Labels are for display only and are never parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, Field

from dpbench.errors import choose_from
from dpbench.privacy import AMOUNTS, Budget
from dpbench.registry import ConfigError, validated

__all__ = [
    "BUDGET",
    "KEY",
    "Choice",
    "Selection",
    "Variant",
    "completed",
    "rows_of_budget",
    "select_labels",
    "swept_columns",
]  # fmt: skip

T = TypeVar("T")
BUDGET = ["privacy", *AMOUNTS]
# Columns that identify a row of results; k is the order of the family's bounded moment, NaN if none
# is known. A table then has the statistics, and ends with the swept parameters.
KEY = ["distribution", "family", "k", "estimator", *BUDGET, "n", "d"]


def completed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the columns that tables of earlier versions lack."""
    # Missing column: (a column beside which it belongs, value to fill in).
    of = {"mu": ("rho", np.nan), "bound_name": ("sampling_q90", "")}
    lacking: dict[str, Any] = {
        name: text for name, (near, text) in of.items() if near in table and name not in table
    }
    return table.assign(**lacking)


def rows_of_budget(table: pd.DataFrame | Mapping[Any, Any], budget: Budget) -> Any:
    """Return a mask of the rows of a budget; for a single row True or False.

    Parameters
    ----------
    table : DataFrame or mapping
        Table of results, or one row.
    budget : Budget
        Budget to select.

    Returns
    -------
    Series of bool or bool
    """
    same = table["privacy"] == budget.label
    for name, amount in budget.named_amounts.items():
        same &= table[name] == amount
    return same


@dataclass(frozen=True)
class Variant(Generic[T]):
    """Value that an entry of a configuration stands for; one of several if a parameter has a list.

    Parameters
    ----------
    name : str
        Name of the entry.
    value : object
        Value: a family, a budget, or an estimator or its specification.
    parameters : mapping
        Parameters of the value, given or by default.
    swept : tuple of str
        Parameters for which the entry gives a list of values.
    """

    name: str
    value: T
    parameters: Mapping[str, Any]
    swept: tuple[str, ...] = ()

    def label(self, *without: str) -> str:
        """Return the name with the swept values to display, but those of `without`."""
        shown = {name: self.parameters[name] for name in self.swept if name not in without}
        if "path" in shown:  # a data file is shown by its name, without folders
            shown["path"] = str(shown["path"]).rpartition("/")[2]
        return self.name + "".join(
            f"_{name}{value:g}" if isinstance(value, int | float) else f"_{name}_{value}"
            for name, value in shown.items()
        )


def swept_columns(
    families: Iterable[Variant[Any]], estimators: Iterable[Variant[Any]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the columns of swept parameters, by parameter.

    Parameters
    ----------
    families, estimators : iterable of Variant
        Variants of the two sections.

    Returns
    -------
    tuple of two dict of str to str
        For families and for estimators. A parameter ``k`` of estimators has the column
        ``estimator_k`` if ``k`` is another column.
    """
    of_families = {p: p for one in families for p in one.swept if p not in KEY}
    taken, swept = {*KEY, *of_families}, [p for one in estimators for p in one.swept]
    return of_families, {p: f"estimator_{p}" if p in taken else p for p in swept}


# Names or patterns, with ``!`` before an exclusion; or names with the values of their parameters.
Names = Annotated[list[str], Field(min_length=1)]
Values = Annotated[dict[str, dict[str, Any] | None], Field(min_length=1)]
Choice = Annotated[
    Names | Values,
    BeforeValidator(
        lambda given: [given] if isinstance(given, str) else given,
        json_schema_input_type=str | Names | Values,
    ),
]


@validated
class Selection:
    """Selection of families, estimators and budgets of a sweep.

    Parameters
    ----------
    families, estimators, budgets : optional
        By default all. A list of names (``[minimax, rate]``), which may be shell patterns
        (``clip_*``); ``!`` before a name excludes it. Or a mapping of names to values of their
        parameters, ``{pure: {epsilon: [0.1, 1]}}``, where ``{low: 1, high: 10}`` stands for all
        values between and ``{}`` for no restriction. Estimators without privacy have no budget and
        are always included.
    """

    families: Choice | None = None
    estimators: Choice | None = None
    budgets: Choice | None = None


def select_labels(
    choice: list[str] | Mapping[str, Mapping[str, Any] | None] | None,
    section: Mapping[str, Variant[Any]],
    where: str = "",
) -> list[str]:
    """Return the labels of a section that a selection includes, in the section's order.

    Parameters
    ----------
    choice : list of str, mapping or None
        One field of a `Selection`; None selects all.
    section : mapping of str to Variant
        Variants by label.
    where : str
        Place of the choice in the configuration, with which messages begin.

    Returns
    -------
    list of str

    Raises
    ------
    ConfigError
        If a name or a value matches nothing.
    """
    if choice is None:
        return list(section)
    if isinstance(choice, Mapping):
        wanted = [_with_values(name, given or {}, section, where) for name, given in choice.items()]
        return [label for label in section if any(label in labels for labels in wanted)]
    chosen = dict.fromkeys(section, all(pattern.startswith("!") for pattern in choice))
    for pattern in sorted(choice, key=lambda p: p.startswith("!")):
        for label in _named(pattern.removeprefix("!"), section, where):
            chosen[label] = not pattern.startswith("!")
    return [label for label, meant in chosen.items() if meant]


def _named(pattern: str, section: Mapping[str, Variant[Any]], where: str) -> list[str]:
    found = [label for label, one in section.items() if fnmatchcase(one.name, pattern)]
    if not found:
        names = dict.fromkeys(one.name for one in section.values())
        raise ConfigError(f"{where}: {pattern!r}: no such name; {choose_from(pattern, names)}")
    return found


def _with_values(
    name: str, values: Mapping[str, Any], section: Mapping[str, Variant[Any]], where: str
) -> list[str]:
    """Return the labels of a name whose parameters each have one of the given values."""
    found = _named(name, section, where)
    for parameter, wanted in values.items():
        at = f"{where}.{name}.{parameter}"
        names = dict.fromkeys(key for label in found for key in section[label].parameters)
        if parameter not in names:
            raise ConfigError(f"{at}: no such parameter; {choose_from(parameter, names)}")
        known = {label: section[label].parameters.get(parameter) for label in found}
        meant: set[str] = set()
        for value in wanted if isinstance(wanted, list) else [wanted]:
            same = {label for label, has in known.items() if _matches(has, value)}
            if not same:
                texts = [f"{v:g}" if isinstance(v, float) else str(v) for v in known.values()]
                choices = ", ".join(dict.fromkeys(texts))
                raise ConfigError(f"{at}: {value!r}: no such value; choose from {choices}")
            meant |= same
        found = [label for label in found if label in meant]
    return found


def _matches(has: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(has == wanted)
    if not isinstance(has, int | float) or not set(wanted) <= {"low", "high"}:
        return False
    return bool(wanted.get("low", -np.inf) <= has <= wanted.get("high", np.inf))
