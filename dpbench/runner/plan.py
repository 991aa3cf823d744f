"""From a sweep's configuration to cells: what is to be run, before anything runs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import Discriminator, Field, Tag

from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.registry import ConfigError, Registered, canonical, from_mapping, validated
from dpbench.privacy import Budget, NonPrivate
from dpbench.runner.block import BLOCK_NUMBERS, BlockTask, Setting, block_trials
from dpbench.seeds import digest
from dpbench.theory.families import Family, build_family

__all__ = ["Cell", "Part", "Sweep", "cell_at", "largest_n", "make_cells", "pick", "section"]

# A trial of dense data may take this many numbers: 0.8 GB.
MOST_DENSE = 32 * BLOCK_NUMBERS
MOST_COUNTED = 10**15

T = TypeVar("T")

Count = Annotated[int, Field(ge=1)]
Labels = Annotated[list[str], Field(min_length=1)]


@validated
class Grid:
    """Logarithmically spaced whole numbers from `low` to `high`."""

    low: Count
    high: Count
    points: Annotated[int, Field(ge=2)]


@validated
class Part:
    """A product of families, sample sizes, estimators and budgets.

    Parameters
    ----------
    n : list of int, or Grid
    trials : int
    families, estimators, budgets : list of str, optional
        Labels of the sweep, or patterns, see `pick`; by default all. An estimator that
        is named must honour all budgets; one that a pattern matches is run with those it
        can honour. Estimators without privacy run once and under no budget, except on families
        that follow a budget, where they are left out.
    """

    n: Annotated[
        Annotated[Grid, Tag("[grid]")] | Annotated[list[Count], Field(min_length=1), Tag("[list]")],
        Discriminator(lambda n: "[grid]" if isinstance(n, Mapping | Grid) else "[list]"),
    ]
    trials: Count
    families: Labels | None = None
    estimators: Labels | None = None
    budgets: Labels | None = None

    @property
    def sizes(self) -> list[int]:
        """The sample sizes, increasing."""
        if isinstance(self.n, Grid):
            return [round(x) for x in np.geomspace(self.n.low, self.n.high, self.n.points)]
        return sorted(set(self.n))


@dataclass(frozen=True)
class Cell:
    """A family at one n, with all settings that run on its data."""

    family_label: str
    family: Family
    n: int
    members: tuple[tuple[str, Distribution], ...]
    settings: tuple[Setting, ...]
    trials: int

    def tasks(self, seed: int) -> list[BlockTask]:
        """The blocks that together hold at least `trials` trials."""
        size = min(block_trials(self.n, member) for _, member in self.members)
        blocks = range(-(-self.trials // size))
        members = [(label, canonical(member)) for label, member in self.members]
        data = canonical(self.settings[0].budget) if self.family.follows_budget else ""
        name = digest(seed, data, self.n, members, [setting.name for setting in self.settings])
        return [BlockTask(self.members, self.n, self.settings, seed, b, name, data) for b in blocks]


@dataclass(frozen=True)
class Sweep:
    """A sweep's building blocks, made and checked.

    Attributes
    ----------
    families, budgets : dict
        Instances by label.
    estimators : dict
        Parameters by label; an estimator that needs a moment order k and is given none
        takes the family's.
    parts : dict of str to Part
    """

    families: dict[str, Family]
    estimators: dict[str, Mapping[str, Any]]
    budgets: dict[str, Budget]
    parts: dict[str, Part]

    @classmethod
    def build(cls, spec: Mapping[str, Any], where: str = "sweep") -> Sweep:
        """Make a sweep from its configuration.

        Raises
        ------
        ConfigError
            At the first key that cannot be used.
        """
        makers: dict[str, tuple[Any, ...]] = {
            "families": (build_family, Family, Distribution),
            "estimators": (_known_estimator, Estimator),
            "budgets": (Budget.build, Budget),
            "parts": (lambda one, at: from_mapping(Part, one, at),),
        }
        for name in makers:
            found = spec.get(name)
            if not isinstance(found, Mapping) or not found:
                raise ConfigError(f"{where}.{name}: {found!r}: at least one entry is needed")
        return cls(**{n: section(spec[n], f"{where}.{n}", *make) for n, make in makers.items()})

    def estimator(self, label: str, family: str) -> Estimator:
        """The estimator of that label as it runs on a family.

        Raises
        ------
        ConfigError
            If it needs a moment order and neither it nor the family has one.
        """
        spec, where = self.estimators[label], f"sweep.estimators.{label}"
        needed = {field.name for field in dataclasses.fields(Estimator.lookup(spec, where))}  # type: ignore[arg-type]
        if "k" in needed - set(spec):
            k = self.families[family].moment_order
            if k is None:
                raise ConfigError(
                    f"{where}.k: this key is required: the family {family} has no moment order"
                )
            spec = {**spec, "k": k}
        return Estimator.build(spec, where)

    def series(self, label: str, parameter: str = "radius") -> str:
        """The label without the value of a parameter that an expanded list has put there."""
        return _without(label, parameter, self.estimators[label].get(parameter))

    def law(self, label: str, *parameters: str) -> str:
        """A family's label without the values of these parameters, likewise."""
        bare = label
        for parameter in parameters:
            bare = _without(bare, parameter, self.family_value(label, parameter))
        return bare

    def family_value(self, label: str, parameter: str) -> Any:
        """A parameter of a family, or of the law if it is a family of one; None if it has none."""
        family = self.families[label]
        law = getattr(family, "distribution", family)
        fields = {field.name for field in dataclasses.fields(law)}  # type: ignore[arg-type]
        return getattr(law, parameter) if parameter in fields else None


def section(
    entries: Mapping[str, Any], where: str, make: Callable[[Any, str], T], *kinds: type[Registered]
) -> dict[str, T]:
    """Make the entries of a section, one for each value of a parameter that is given a list."""
    found: dict[str, T] = {}
    for key, one in entries.items():
        at = f"{where}.{key}"
        for label, single in _expand(str(key), one, at, kinds):
            if label in found:
                raise ConfigError(f"{at}: two entries would be called {label!r}")
            found[label] = make(single, at)
    return found


def _without(label: str, parameter: str, value: Any) -> str:
    if value is None:
        return label
    return re.sub(rf"_{parameter}{re.escape(_brief(value))}(?=_|$)", "", label)


def _known_estimator(spec: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    Estimator.lookup(spec, where)
    return spec


def _expand(
    key: str, spec: Any, where: str, kinds: tuple[type[Registered], ...]
) -> list[tuple[str, Any]]:
    """One specification per value of each parameter that is given a list but takes one value.

    ``k: [2, 3]`` under the key ``two_point`` gives ``two_point_k2`` and ``two_point_k3``.
    """
    specs: list[tuple[str, Any]] = [(key, spec)]
    found = [kind.find(spec) for kind in kinds] if isinstance(spec, Mapping) else []
    for chosen in filter(None, found):
        fields = {f.name: str(f.type) for f in dataclasses.fields(chosen)}  # type: ignore[arg-type]
        for name, values in spec.items():
            if not isinstance(values, list) or "list[" in fields.get(name, "list["):
                continue
            if not values:
                raise ConfigError(f"{where}.{name}: []: an empty grid; give at least one value")
            specs = [
                (f"{label}_{name}{_brief(value)}", {**one, name: value})
                for label, one in specs
                for value in values
            ]
    return specs


def _brief(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else f"_{value}"


def pick(patterns: Sequence[str] | None, labels: Iterable[str], where: str) -> list[str]:
    """The labels that a list of patterns chooses, in their own order.

    Parameters
    ----------
    patterns : sequence of str, optional
        Labels, shell patterns, and either after ``!`` to leave out what it matches; None,
        or a list that only leaves out, starts from all.
    labels : iterable of str
    where : str
        For messages.

    Raises
    ------
    ConfigError
        If a pattern matches nothing.
    """
    known = list(labels)
    patterns = patterns or []
    wanted = all(pattern.startswith("!") for pattern in patterns)
    chosen = dict.fromkeys(known, wanted)
    for pattern in sorted(patterns, key=lambda p: p.startswith("!")):
        found = [label for label in known if fnmatchcase(label, pattern.removeprefix("!"))]
        if not found:
            raise ConfigError(
                f"{where}: {pattern!r}: no such label; choose from {', '.join(known)}"
            )
        chosen.update(dict.fromkeys(found, not pattern.startswith("!")))
    return [label for label in known if chosen[label]]


def make_cells(sweep: Sweep, *, trials: int | None = None) -> list[Cell]:
    """All cells of a sweep, sorted by family, n and budget.

    Parts that meet at the same family and n share one draw: the cell runs the settings
    of both, with the larger number of trials.

    Parameters
    ----------
    sweep : Sweep
    trials : int, optional
        Instead of every part's own.

    Raises
    ------
    ConfigError
        If a label is unknown, an estimator cannot honour a budget or lacks its moment
        order, or a cell would not fit in memory.
    """
    merged: dict[tuple[str, int, str], Cell] = {}
    for label, part in sweep.parts.items():
        for cell in _part_cells(sweep, part, f"sweep.parts.{label}"):
            follows = cell.family.follows_budget
            key = (cell.family_label, cell.n, str(cell.settings[0].budget) if follows else "")
            if key in merged:
                cell = _merge(merged[key], cell)  # noqa: PLW2901
            merged[key] = cell
    unused = set(sweep.estimators) - {s.label for c in merged.values() for s in c.settings}
    if unused:
        label = min(unused)
        supports = ", ".join(
            notion.notion for notion in Estimator.lookup(sweep.estimators[label], label).notions
        )
        raise ConfigError(
            f"sweep.estimators.{label}: no part of the sweep runs it; it supports: {supports}"
        )
    return [
        dataclasses.replace(cell, trials=trials or cell.trials)
        for _, cell in sorted(merged.items(), key=lambda item: item[0])
    ]


def _merge(one: Cell, other: Cell) -> Cell:
    settings = {s.name: s for s in (*one.settings, *other.settings)}
    return dataclasses.replace(
        one,
        settings=tuple(settings[name] for name in sorted(settings)),
        trials=max(one.trials, other.trials),
    )


def _part_cells(sweep: Sweep, part: Part, where: str) -> list[Cell]:
    cells = []
    for family_label in pick(part.families, sweep.families, f"{where}.families"):
        family = sweep.families[family_label]
        settings = _settings(sweep, part, where, family_label)
        groups = [settings]
        if family.follows_budget:
            budgets = {setting.budget for setting in settings}
            groups = [[s for s in settings if s.budget == budget] for budget in budgets]
        for group in groups:
            if not group:
                continue
            ordered = tuple(sorted(group, key=lambda s: s.name))
            for n in part.sizes:
                cell = cell_at(family_label, family, n, ordered, part.trials)
                _check_size(dict(cell.members), n, f"{where}.n", family_label)
                cells.append(cell)
            _check_covariance(cells[-1], f"{where}.families")
    return cells


def cell_at(label: str, family: Family, n: int, settings: tuple[Setting, ...], trials: int) -> Cell:
    """The cell of a family at n; the members follow the budget of the first setting."""
    members = family.members(label, n, settings[0].budget)
    return Cell(label, family, n, tuple(members.items()), settings, trials)


def largest_n(family: Family, n: int, budget: Budget) -> int:
    """The largest sample size that a family can be drawn at."""
    far = family.members("", MOST_COUNTED, budget).values()
    if all(_numbers(member, MOST_COUNTED) <= MOST_DENSE for member in far):
        return MOST_COUNTED
    here = family.members("", n, budget).values()
    return int(MOST_DENSE / max(_numbers(member, n) / n for member in here))


def _numbers(law: Distribution, n: int) -> float:
    """How many numbers the data of a trial take."""
    return law.held(n) if law.counted else float(n * law.d)


def _check_size(members: Mapping[str, Distribution], n: int, where: str, label: str) -> None:
    if not members:
        raise ConfigError(f"{where}: {n}: the family {label} has no member at this n")
    if any(_numbers(m, n) > MOST_DENSE for m in members.values()):
        raise ConfigError(
            f"{where}: {n}: {label} draws every record; at most {MOST_DENSE} numbers per trial"
        )


def _check_covariance(cell: Cell, where: str) -> None:
    """Refuse laws whose covariance is not what an estimator of covariances estimates."""
    for setting in cell.settings:
        for label, law in cell.members if setting.estimator.estimand == "covariance" else ():
            try:
                known = np.all(law.mean == 0) and law.covariance.size > 0
            except ValueError:
                known = False
            if not known:
                raise ConfigError(
                    f"{where}: {label!r}: {setting.label} needs vectors of mean 0 and a known "
                    "covariance"
                )


def _settings(sweep: Sweep, part: Part, where: str, family_label: str) -> list[Setting]:
    """The estimators of a part with the budgets that they run under, for one family."""
    family = sweep.families[family_label]
    budgets = [sweep.budgets[b] for b in pick(part.budgets, sweep.budgets, f"{where}.budgets")]
    settings: dict[str, Setting] = {}  # by name: a budget under two labels runs once

    def add(setting: Setting) -> None:
        settings[setting.name] = setting

    for label in pick(part.estimators, sweep.estimators, f"{where}.estimators"):
        estimator = sweep.estimator(label, family_label)
        if estimator.supports(NonPrivate()):
            if not family.follows_budget:
                add(Setting(label, estimator, NonPrivate()))
            continue
        for budget in budgets:
            if estimator.supports(budget):
                add(Setting(label, estimator, budget))
            elif label in (part.estimators or ()):
                allowed = ", ".join(notion.notion for notion in estimator.honoured)
                raise ConfigError(
                    f"{where}.budgets: {budget}: the estimator {label} cannot honour the notion "
                    f"{budget.notion!r}; it supports: {allowed}"
                )
    return list(settings.values())
