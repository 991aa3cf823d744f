"""From a sweep's configuration to cells: what is to be run, before anything runs.

The words, here and everywhere after:

    sweep ── part         families x n x estimators x budgets, as configured
             │
             └─ cell      one family at one n; if the family follows a budget, under that budget
                ├─ members   the family's laws, each with its own data
                ├─ settings  estimators with budgets, all run on the same data
                └─ blocks    batches of its trials: the unit of work and of storage

    variant   one of those that an entry stands for whose parameter has a list of values
    key       what one row of results is about: a member, a setting, n and the swept parameters
    curve     the keys that differ in n (or in what an exponent is of), worst over members
    claim     what a theorem says of curves, beside what was measured
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Discriminator, Field, Tag

from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.privacy import Budget, NonPrivate
from dpbench.privacy.neighbours import under_replacement
from dpbench.registry import (
    MOST_RECORDS,
    ConfigError,
    Count,
    Label,
    Trials,
    computable,
    keyed,
    named,
    validated,
)
from dpbench.samples.streamed import MOST_STREAMED
from dpbench.seeds import canonical, digest
from dpbench.sweep.block import BLOCK_NUMBERS, BlockTask, Setting, block_trials
from dpbench.sweep.entries import Budgets, Estimators, Families
from dpbench.sweep.selection import Selection, choose, swept_columns, under
from dpbench.theory.bounds.of_class import Bound
from dpbench.theory.families import Family

__all__ = [
    "Cell", "Part", "Sweep", "cell_at", "key_table", "largest_n", "lower_bound", "make_cells",
]  # fmt: skip

# A trial of dense data may take this many numbers: 0.8 GB.
MOST_DENSE = 32 * BLOCK_NUMBERS
# Of a sweep: settings of all cells, and batches of trials.
MOST_SETTINGS = 1_000_000
MOST_BLOCKS = 1_000_000


@validated
class Grid:
    """Logarithmically spaced whole numbers from `low` to `high`."""

    low: Count
    high: Count
    points: Annotated[int, Field(ge=2, le=10_000)]


@validated
class Part(Selection):
    """A product of families, sample sizes, estimators and budgets.

    Parameters
    ----------
    n : list of int, or Grid
    trials : int
    families, estimators, budgets : optional
        See `Selection`. Of budgets an estimator meets those whose neighbours it is for: one that
        is named must honour them all; one that a pattern matches is run with those it can honour.
        Estimators without privacy run once and under no budget, except on families that follow a
        budget, where they are left out.
    """

    n: Annotated[
        Annotated[Grid, keyed(Grid), Tag("[grid]")]
        | Annotated[list[Count], Field(min_length=1), Tag("[list]")],
        Discriminator(lambda n: "[grid]" if isinstance(n, Mapping | Grid) else "[list]"),
    ]
    trials: Trials

    @cached_property
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

    @property
    def blocks(self) -> int:
        """How many hold at least `trials` trials."""
        return -(-self.trials // min(block_trials(self.n, law) for _, law in self.members))

    def tasks(self, seed: int) -> list[BlockTask]:
        """The blocks that together hold at least `trials` trials."""
        followed, members, settings = self.names
        name, at = digest(seed, followed, self.n, members, settings), (self.n, self.settings, seed)
        return [BlockTask(self.members, *at, i, name, followed) for i in range(self.blocks)]

    @cached_property
    def names(self) -> tuple[str, list[tuple[str, str]], list[str]]:
        """Of the budget that is followed, the members and the settings."""
        followed = canonical(self.settings[0].budget) if self.family.follows_budget else ""
        members = [(label, canonical(member)) for label, member in self.members]
        return followed, members, [setting.name for setting in self.settings]


@validated
class Sweep:
    """What to run, made and checked.

    Parameters
    ----------
    name : str
        Names the run's folder.
    families, estimators, budgets : mapping
        By name a ``kind`` with its parameters, where a list of values stands for one variant
        each. An estimator that needs a moment order k, or the number m of a person's records, and
        is given none takes the family's.
    parts : mapping of str to Part
    """

    name: Label = "sweep"
    families: Families
    estimators: Estimators
    budgets: Budgets
    parts: Annotated[Mapping[str, Part], named(Part, least=1, title="a part")]

    def estimator(self, label: str, family: str) -> Estimator:
        """The estimator of that label as it runs on a family, which may give it its k and m."""
        one = self.estimators[label]
        spec, where = one.value, f"sweep.estimators.{one.name}"
        if isinstance(spec, Estimator):
            return spec
        needed = {field.name for field in dataclasses.fields(Estimator.lookup(spec, where))}  # type: ignore[arg-type]
        if "k" in needed - set(spec):
            k = self.families[family].value.moment_order
            if k is None:
                raise ConfigError(
                    f"{where}.k: this key is required: the family {family} has no moment order"
                )
            spec = {**spec, "k": k}
        if "m" in needed - set(spec):
            spec = {**spec, "m": self.families[family].value.person_records}
        return Estimator.build(spec, where)

    def about(self, what: Selection, table: pd.DataFrame, where: str = "") -> pd.Series[bool]:
        """Which rows of a table a selection is about; ConfigError if it names what is not there."""
        budgets = choose(what.budgets, self.budgets, f"{where}.budgets")
        paid = table["privacy"] == "none"
        for label in budgets:
            paid |= under(table, self.budgets[label].value)
        families = choose(what.families, self.families, f"{where}.families")
        estimators = choose(what.estimators, self.estimators, f"{where}.estimators")
        return paid & table["family"].isin(families) & table["estimator"].isin(estimators)

    def shares_data(self, families: Iterable[str]) -> bool:
        """Whether budgets share their data on any of these families."""
        return any(not self.families[label].value.follows_budget for label in families)


def key_table(sweep: Sweep, cells: Sequence[Cell], *, bounds: bool = True) -> pd.DataFrame:
    """The keys of all cells, a row each, in the order of `BlockTask.keys`.

    Without `bounds`, of which one may take 0.2 s, there is neither ``lower_bound`` nor
    ``bound_by``.
    """
    families, estimators = swept_columns(sweep.families.values(), sweep.estimators.values())
    rows = []
    for cell in cells:
        known = sweep.families[cell.family_label].parameters
        of_family = {column: known.get(name) for name, column in families.items()}
        k, d = cell.family.moment_order, cell.members[0][1].d
        settings = []
        for one in cell.settings:
            given = sweep.estimators[one.label].parameters
            swept = {column: given.get(name) for name, column in estimators.items()}
            columns = {**of_family, **swept}
            if bounds:
                bound = _bound(sweep, cell.family_label, cell.n, one.estimator, one.budget)
                columns = {"lower_bound": bound.value, "bound_by": bound.by, **columns}
            settings.append((one.label, one.budget, columns))
        rows += [
            {
                "distribution": member,
                "family": cell.family_label,
                "k": np.nan if k is None else float(k),
                "estimator": label,
                **budget.columns,
                "n": cell.n,
                "d": d,
                **columns,
            }
            for member, _ in cell.members
            for label, budget, columns in settings
        ]
    return pd.DataFrame(rows)


def lower_bound(sweep: Sweep, row: Mapping[Hashable, Any]) -> float:
    """The bound of a row of `key_table`; NaN if none is known."""
    budgets = (one.value for one in sweep.budgets.values())
    budget = next((one for one in budgets if under(row, one)), NonPrivate())
    estimator = sweep.estimator(row["estimator"], row["family"])
    return _bound(sweep, row["family"], row["n"], estimator, budget).value


def _bound(sweep: Sweep, family: str, n: int, estimator: Estimator, budget: Budget) -> Bound:
    model = estimator.bounded_in
    if model is None:
        return Bound()
    # One who may not read n does no better than one who may: what is implied bounds it.
    implied = under_replacement(budget)
    with computable(f"sweep.families.{family}: at n = {n}"):
        return sweep.families[family].value.lower_bound(n, implied, local=model == "local")


def make_cells(sweep: Sweep, *, trials: int | None = None) -> list[Cell]:
    """All cells of a sweep, sorted by family, n and budget; ConfigError if one cannot be run.

    Parts that meet at the same family and n share one draw: the cell runs the settings
    of both, with the larger number of trials, or with `trials` instead of every part's own.
    """
    settings: dict[tuple[str, int, str], dict[str, Setting]] = {}  # by name: each runs once
    wanted = blocks = 0
    about: dict[tuple[str, int, str], tuple[int, str]] = {}
    for name, part in sweep.parts.items():
        where = f"sweep.parts.{name}"
        for label in choose(part.families, sweep.families, f"{where}.families"):
            follows = sweep.families[label].value.follows_budget
            for setting in _settings(sweep, part, where, label):
                wanted += len(part.sizes)
                if wanted > MOST_SETTINGS:
                    raise ConfigError(
                        f"{where}: more than {MOST_SETTINGS} estimators x budgets x n"
                    )
                for n in part.sizes:
                    key = (label, n, str(setting.budget) if follows else "")
                    settings.setdefault(key, {})[setting.name] = setting
                    most = max(part.trials, about.get(key, (0, ""))[0])
                    about[key] = (most, where)
    cells = []
    for key in sorted(settings):
        (label, n, _), (most, where) = key, about[key]
        group = tuple(settings[key][name] for name in sorted(settings[key]))
        with computable(f"{where}: {label} at n = {n}"):
            cells.append(cell_at(label, sweep.families[label].value, n, group, trials or most))
            _check(cells[-1], where)
            blocks += cells[-1].blocks
        if blocks > MOST_BLOCKS:
            at = f"{where}.trials: {cells[-1].trials}"
            raise ConfigError(f"{at}: more than {MOST_BLOCKS} batches of trials in the sweep")
    _check_use(sweep, {setting.label for cell in cells for setting in cell.settings})
    return cells


def cell_at(label: str, family: Family, n: int, settings: tuple[Setting, ...], trials: int) -> Cell:
    """The cell of a family at n; the members follow the budget of the first setting."""
    members = family.members(label, n, settings[0].budget)
    return Cell(label, family, n, tuple(members.items()), settings, trials)


def largest_n(family: Family, n: int, setting: Setting) -> int:
    """The largest sample size that a family can be drawn at, and the setting run on."""
    far = family.members("", MOST_RECORDS, setting.budget).values()
    if all(_most(member, MOST_RECORDS, setting) >= MOST_RECORDS for member in far):
        return MOST_RECORDS
    here = family.members("", n, setting.budget).values()
    return min(_most(member, n, setting) for member in here)


def _most(law: Distribution, n: int, setting: Setting) -> int:
    """The same of a law, which is of the family's at this n."""
    most = setting.estimator.most_records or MOST_RECORDS
    if law.streams(MOST_STREAMED):
        return min(most, MOST_STREAMED, setting.estimator.most_at_once or MOST_STREAMED)
    return min(most, int(MOST_DENSE / ((law.held(n) if law.counted else n * law.d) / n)))


def _check(cell: Cell, where: str) -> None:
    """Refuse data that are too large, and laws that are not what the estimator is for."""
    at = f"{where}.n: {cell.n}"
    if not cell.members:
        raise ConfigError(f"{at}: the family {cell.family_label} has no member at this n")
    for setting in cell.settings:
        _check_size(cell, setting, at)
        _check_moment(cell, setting, where)
        for label, law in cell.members if setting.estimator.estimand != "mean" else ():
            try:
                known = np.all(law.mean == 0) and law.covariance.size > 0
            except ValueError:
                known = False
            if not known:
                needed = "vectors of mean 0 and a known covariance"
                raise ConfigError(f"{where}.families: {label!r}: {setting.label} needs {needed}")


def _check_moment(cell: Cell, setting: Setting, where: str) -> None:
    """Refuse an estimator for moments of order k on a law that has none."""
    k = getattr(setting.estimator, "k", None)
    if k is None or k <= (cell.family.moment_order or 0):
        return
    for label, law in cell.members:
        if law.moment(k) == np.inf:
            raise ConfigError(
                f"{where}.families: {label!r}: {setting.label} needs a moment of order k = {k:g}, "
                "which is infinite there"
            )


def _check_size(cell: Cell, setting: Setting, at: str) -> None:
    taken = setting.estimator.most_records or cell.n
    if cell.n > taken:
        raise ConfigError(f"{at}: {setting.label} takes at most {taken} records")
    least = setting.estimator.least_records(cell.members[0][1].d, setting.budget)
    if cell.n < least:
        raise ConfigError(f"{at}: {setting.label} needs at least {least} records")
    most = min(_most(law, cell.n, setting) for _, law in cell.members)
    if cell.n > most:
        line = f"{at}: {cell.family_label} draws every record"
        if not any(law.streams(cell.n) for _, law in cell.members):
            raise ConfigError(f"{line}; at most {MOST_DENSE} numbers per trial")
        whole = f" and {setting.label} takes all at once" if most < MOST_STREAMED else ""
        raise ConfigError(f"{line}{whole}; at most {most}")


def _check_use(sweep: Sweep, run: set[str]) -> None:
    for label, one in sweep.estimators.items():
        if label not in run:
            spec = one.value
            kind = spec if isinstance(spec, Estimator) else Estimator.lookup(spec, label)
            supports = ", ".join(notion.notion for notion in kind.notions)
            at = f"sweep.estimators.{one.name}"
            told = f"no part of the sweep runs it; it supports: {supports}"
            raise ConfigError(f"{at}: {told}; a part that chooses its estimators has to name it")


def _settings(sweep: Sweep, part: Part, where: str, family_label: str) -> list[Setting]:
    """The estimators of a part with the budgets that they run under, for one family."""
    follows = sweep.families[family_label].value.follows_budget
    budgets = choose(part.budgets, sweep.budgets, f"{where}.budgets")
    found: list[Setting] = []
    for label in choose(part.estimators, sweep.estimators, f"{where}.estimators"):
        estimator = sweep.estimator(label, family_label)
        if estimator.supports(NonPrivate()):
            found += [] if follows else [Setting(label, estimator, NonPrivate())]
            continue
        given = [sweep.budgets[one].value for one in budgets]
        for budget in [b for b in given if b.neighbours in estimator.relations] or given:
            if estimator.supports(budget):
                found.append(Setting(label, estimator, budget))
            elif sweep.estimators[label].name in (part.estimators or ()):
                raise ConfigError(
                    f"{where}.budgets: {budget}: the estimator {label} cannot honour the notion "
                    f"{budget.label!r}; it supports: {estimator.promises}"
                )
    return found
