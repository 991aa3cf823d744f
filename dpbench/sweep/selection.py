"""The one schema: what a row of results is about, and how rows are chosen.

A key is made in planning, and begins every table after it. What is selected later (by a claim, a
figure, an audit) is so by a `Selection`. A label is for print, and is never taken apart again.
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
    "BUDGET", "KEY", "Choice", "Selection", "Variant", "choose", "completed", "swept_columns",
    "under",
]  # fmt: skip

T = TypeVar("T")
BUDGET = ["privacy", *AMOUNTS]
# What a row of results is about: k is the order of the family's bounded moment, NaN if none is
# known. After the statistics a table ends with the parameters that the sweep gives several values.
KEY = ["distribution", "family", "k", "estimator", *BUDGET, "n", "d"]


def completed(table: pd.DataFrame) -> pd.DataFrame:
    """With the columns that tables from earlier versions lack."""
    of = {"mu": ("rho", np.nan), "bound_by": ("sampling_q90", "")}  # beside what, and as what
    lacking: dict[str, Any] = {
        name: text for name, (near, text) in of.items() if near in table and name not in table
    }
    return table.assign(**lacking)


def under(table: pd.DataFrame | Mapping[Any, Any], budget: Budget) -> Any:
    """Which rows of a table are about a budget, or whether a row is."""
    same = table["privacy"] == budget.label
    for name, amount in budget.named_amounts.items():
        same &= table[name] == amount
    return same


@dataclass(frozen=True)
class Variant(Generic[T]):
    """What an entry of a configuration makes: one of several if parameters are `swept`, have lists.

    `parameters` are what the value is given, or has by default.
    """

    name: str
    value: T
    parameters: Mapping[str, Any]
    swept: tuple[str, ...] = ()

    def label(self, *without: str) -> str:
        """For print: the name with the values that are swept, but for those of some parameters."""
        shown = {name: self.parameters[name] for name in self.swept if name not in without}
        if "path" in shown:  # of data: the file's name
            shown["path"] = str(shown["path"]).rpartition("/")[2]
        return self.name + "".join(
            f"_{name}{value:g}" if isinstance(value, int | float) else f"_{name}_{value}"
            for name, value in shown.items()
        )


def swept_columns(
    families: Iterable[Variant[Any]], estimators: Iterable[Variant[Any]]
) -> tuple[dict[str, str], dict[str, str]]:
    """The columns of the parameters that families and estimators are swept over, by parameter.

    An estimator's is named ``estimator_k`` where ``k`` alone is another column.
    """
    of_families = {p: p for one in families for p in one.swept if p not in KEY}
    taken, swept = {*KEY, *of_families}, [p for one in estimators for p in one.swept]
    return of_families, {p: f"estimator_{p}" if p in taken else p for p in swept}


# Names or patterns, ``!`` before what is left out; or names with the values of their parameters.
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
    """The labels of a section that a `Selection` means, in the section's order.

    Raises
    ------
    ConfigError
        If a name or a value matches nothing; it begins with `where`.
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
    """The labels of a name whose parameters have one of the values each."""
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
