"""Key of a row of results (the columns that identify the row), and selections of rows.

`dpbench.sweep.plan` makes the keys. Every later table begins with the columns of the key. Claims,
figures and audits select rows by a `Selection`. Labels of rows are for display only, so no code
parses them.
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
    "rows_of_budget",
    "select_labels",
    "swept_columns",
]  # fmt: skip

T = TypeVar("T")
BUDGET = ["privacy", *AMOUNTS]
# Columns that identify a row of results; k is the order of the family's bounded moment, NaN if none
# is known. A table then has the statistics, and ends with the swept parameters.
KEY = ["distribution", "family", "k", "estimator", *BUDGET, "n", "d"]


def rows_of_budget(table: pd.DataFrame | Mapping[Any, Any], budget: Budget) -> Any:
    """Return a mask of the rows with the given budget; for a single row return True or False."""
    mask = table["privacy"] == budget.label
    for name, amount in budget.named_amounts.items():
        mask &= table[name] == amount
    return mask


@dataclass(frozen=True)
class Variant(Generic[T]):
    """Variant of a configuration entry, with one value for each parameter.

    An entry that lists several values for a parameter has one variant for each value.
    """

    name: str  # Name of the entry.
    value: T  # A family, a budget, an estimator, or the specification of an estimator.
    parameters: Mapping[str, Any]  # Parameters of the object by name, including defaults.
    swept: tuple[str, ...] = ()  # Parameters for which the entry gives a list of values.

    def label(self, *without: str) -> str:
        """Return the label: the entry's name, then the names and values of swept parameters.

        The parameters named in `without` are left out.
        """
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
    """Map each swept parameter to the column of the results table that holds its values.

    A parameter is swept if an entry of the sweep gives a list of values for it. The columns of
    families come first, then those of estimators. A parameter of families is left out if it is in
    `KEY`, because every table has the columns in `KEY`. An estimator's parameter ``p`` has the
    column ``estimator_p`` if a column ``p`` exists already.
    """
    family_columns = {p: p for variant in families for p in variant.swept if p not in KEY}
    taken, estimator_parameters = (
        {*KEY, *family_columns},
        [p for variant in estimators for p in variant.swept],
    )
    return family_columns, {p: f"estimator_{p}" if p in taken else p for p in estimator_parameters}


# Names: a list of names or patterns, with ``!`` before an excluded name. Values: names with the
# values of their parameters.
Names = Annotated[list[str], Field(min_length=1)]
Values = Annotated[dict[str, dict[str, Any] | None], Field(min_length=1)]


def _as_names(given: Any) -> Any:
    """Return one name as a list; raise ValueError if a file gives something else without quotes."""
    names = [given] if isinstance(given, str | int | float) else given
    for name in names if isinstance(names, list | tuple) else ():
        if not isinstance(name, str):
            word = "null" if name is None else str(name).lower()
            raise ValueError(f"{word} is not a name; put a name in quotes: '{word}'")
    return names


Choice = Annotated[
    Names | Values, BeforeValidator(_as_names, json_schema_input_type=str | Names | Values)
]


@validated
class Selection:
    """Selection of families, estimators and budgets of a sweep.

    Parameters
    ----------
    families, estimators, budgets : optional
        All by default. A choice is a list of names or shell patterns (``[minimax, clip_*]``), where
        ``!`` before a name excludes it. It may also be a mapping of names to values of their
        parameters, ``{pure: {epsilon: [0.1, 1]}}``, where ``{low: 1, high: 10}`` stands for all
        values in [1, 10] and ``{}`` for no restriction. Estimators without privacy have no budget,
        so every choice of budgets includes them.
    """

    families: Choice | None = None
    estimators: Choice | None = None
    budgets: Choice | None = None


def select_labels(
    choice: list[str] | Mapping[str, Mapping[str, Any] | None] | None,
    section: Mapping[str, Variant[Any]],
    where: str = "",
) -> list[str]:
    """Return the labels of one section that a selection includes, in the section's order.

    A section is the families, the estimators or the budgets of a sweep. The choice is one field of
    a `Selection`; None selects all. A ConfigError is raised if a name or a value matches nothing.
    The message begins with `where`, the place of the choice in the configuration.
    """
    if choice is None:
        return list(section)
    if isinstance(choice, Mapping):
        label_groups = [
            _match_values(name, values or {}, section, where) for name, values in choice.items()
        ]
        return [label for label in section if any(label in labels for labels in label_groups)]
    included = dict.fromkeys(section, all(pattern.startswith("!") for pattern in choice))
    for pattern in sorted(choice, key=lambda p: p.startswith("!")):
        for label in _match_names(pattern.removeprefix("!"), section, where):
            included[label] = not pattern.startswith("!")
    return [label for label, is_included in included.items() if is_included]


def _match_names(pattern: str, section: Mapping[str, Variant[Any]], where: str) -> list[str]:
    """Return the labels of variants with a name that matches a shell pattern.

    Raise ConfigError if there is none.
    """
    labels = [label for label, variant in section.items() if fnmatchcase(variant.name, pattern)]
    if not labels:
        names = dict.fromkeys(variant.name for variant in section.values())
        raise ConfigError(f"{where}: {pattern!r}: no such name; {choose_from(pattern, names)}")
    return labels


def _match_values(
    name: str, values: Mapping[str, Any], section: Mapping[str, Variant[Any]], where: str
) -> list[str]:
    """Return the labels of the variants of one entry that have the requested parameter values.

    A parameter may have any of several requested values. Raise ConfigError if a requested
    value matches no variant.
    """
    labels = _match_names(name, section, where)
    for parameter, requested in values.items():
        place = f"{where}.{name}.{parameter}"
        names = dict.fromkeys(key for label in labels for key in section[label].parameters)
        if parameter not in names:
            raise ConfigError(f"{place}: no such parameter; {choose_from(parameter, names)}")
        actual = {label: section[label].parameters.get(parameter) for label in labels}
        matching: set[str] = set()
        for value in requested if isinstance(requested, list) else [requested]:
            equal = {label for label, has in actual.items() if _matches(has, value)}
            if not equal:
                texts = [f"{v:g}" if isinstance(v, float) else str(v) for v in actual.values()]
                choices = ", ".join(dict.fromkeys(texts))
                raise ConfigError(f"{place}: {value!r}: no such value; choose from {choices}")
            matching |= equal
        labels = [label for label in labels if label in matching]
    return labels


def _matches(actual: Any, requested: Any) -> bool:
    """Return whether a parameter's value equals the requested value or lies in the requested range.

    A range is a mapping with the keys ``low``, ``high`` or both; it includes its ends.
    """
    if not isinstance(requested, Mapping):
        return bool(actual == requested)
    if not isinstance(actual, int | float) or not set(requested) <= {"low", "high"}:
        return False
    return bool(requested.get("low", -np.inf) <= actual <= requested.get("high", np.inf))
