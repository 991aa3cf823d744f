"""Plan of a sweep: expand its configuration into the cells to run, and check them before running.

Vocabulary:

    sweep ── part         families x n x estimators x budgets, as configured
             │
             └─ cell      one family at one n; if the family follows a budget, under that budget
                ├─ members   the family's distributions, each with its own data
                ├─ settings  estimators with budgets, all run on the same data
                └─ blocks    batches of its trials: the unit of work and of storage

    variant   one of several values that an entry stands for if a parameter has a list of values
    key       identifies a row of results: a member, a setting, n and the swept parameters
    curve     keys that differ in n (or in the variable of an exponent) only, worst over members
    claim     prediction of a theorem about curves, compared with the measurement
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
    as_config_error,
    keyed,
    named,
    validated,
)
from dpbench.samples.streamed import MOST_STREAMED
from dpbench.seeds import canonical, digest
from dpbench.sweep.block import BLOCK_NUMBERS, BlockTask, Setting, block_trials
from dpbench.sweep.entries import Budgets, Estimators, Families
from dpbench.sweep.selection import Selection, rows_of_budget, select_labels, swept_columns
from dpbench.theory.bounds.class_bound import ErrorBound
from dpbench.theory.families import Family

__all__ = [
    "Cell", "Part", "Sweep", "cell_at", "key_table", "largest_n", "lower_bound", "make_cells",
]  # fmt: skip

# Largest number of numbers in a trial of dense data: 0.8 GB.
MOST_DENSE = 32 * BLOCK_NUMBERS
# Upper limits for one sweep: number of settings over all cells, number of blocks.
MOST_SETTINGS = 1_000_000
MOST_BLOCKS = 1_000_000


@validated
class Grid:
    """Logarithmically spaced whole numbers from `low` to `high`.

    Parameters
    ----------
    low, high : int >= 1
        Ends of the grid, which are included.
    points : int in [2, 10000]
        Number of points; points that round to the same whole number are run once.
    """

    low: Count
    high: Count
    points: Annotated[int, Field(ge=2, le=10_000)]


@validated
class Part(Selection):
    """Product of families, sample sizes, estimators and budgets.

    Parameters
    ----------
    n : list of int, or Grid
        Numbers of records of a dataset.
    trials : int >= 1
        Number of independent datasets for each family and n, rounded up to whole blocks.
    families, estimators, budgets : optional
        See `Selection`. An estimator runs only under budgets whose neighbour relation it supports.
        An estimator that is named has to support the notions of all of these budgets; an estimator
        that a pattern matches runs under the budgets that it supports. Estimators without privacy
        run once and without budget, except on families that follow a budget, where they are left
        out.
    """

    n: Annotated[
        Annotated[Grid, keyed(Grid), Tag("[grid]")]
        | Annotated[list[Count], Field(min_length=1), Tag("[list]")],
        Discriminator(lambda n: "[grid]" if isinstance(n, Mapping | Grid) else "[list]"),
    ]
    trials: Trials

    @cached_property
    def sizes(self) -> list[int]:
        """Sample sizes, increasing."""
        if isinstance(self.n, Grid):
            return [round(x) for x in np.geomspace(self.n.low, self.n.high, self.n.points)]
        return sorted(set(self.n))


@dataclass(frozen=True)
class Cell:
    """Family at one n, with all settings that run on its data.

    Parameters
    ----------
    family_label, family : str, Family
        Family of distributions, and its label.
    n : int
        Number of records of a dataset.
    members : tuple of (str, Distribution)
        Labels and distributions of the family at this n.
    settings : tuple of Setting
        Estimators with budgets.
    trials : int
        Least number of trials.
    """

    family_label: str
    family: Family
    n: int
    members: tuple[tuple[str, Distribution], ...]
    settings: tuple[Setting, ...]
    trials: int

    @property
    def blocks(self) -> int:
        """Number of blocks that together hold at least `trials` trials."""
        return -(-self.trials // min(block_trials(self.n, law) for _, law in self.members))

    def tasks(self, seed: int) -> list[BlockTask]:
        """Return the blocks of the cell, which together hold at least `trials` trials."""
        followed, members, settings = self.names
        name, at = digest(seed, followed, self.n, members, settings), (self.n, self.settings, seed)
        return [BlockTask(self.members, *at, i, name, followed) for i in range(self.blocks)]

    @cached_property
    def names(self) -> tuple[str, list[tuple[str, str]], list[str]]:
        """Names of the parts: the budget that the family follows or "", members, settings."""
        followed = canonical(self.settings[0].budget) if self.family.follows_budget else ""
        members = [(label, canonical(member)) for label, member in self.members]
        return followed, members, [setting.name for setting in self.settings]


@validated
class Sweep:
    """Configuration of a sweep, checked, with its entries made.

    Parameters
    ----------
    name : str
        Name of the run's folder.
    families, estimators, budgets : mapping
        Entries by name: a ``kind`` with its parameters, where a list of values gives one variant
        for each value. An estimator that needs a moment order k, or the number m of records of a
        person, takes that of the family if none is given.
    parts : mapping of str to Part
        Parts by name; every part is a product to run.
    """

    name: Label = "sweep"
    families: Families
    estimators: Estimators
    budgets: Budgets
    parts: Annotated[Mapping[str, Part], named(Part, least=1, title="a part")]

    def estimator(self, label: str, family: str) -> Estimator:
        """Return the estimator of a label as it runs on a family, which may give it k and m.

        Parameters
        ----------
        label, family : str
            Labels of the estimator and of the family.

        Returns
        -------
        Estimator

        Raises
        ------
        ConfigError
            If the estimator needs k and neither its entry nor the family has one.
        """
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
        """Return a mask of the rows of a table that a selection includes.

        Parameters
        ----------
        what, table : Selection, DataFrame
            Families, estimators and budgets, and table of results.
        where : str
            Place of the selection in the configuration, with which messages begin.

        Returns
        -------
        Series of bool

        Raises
        ------
        ConfigError
            If the selection names something that the sweep does not have.
        """
        budgets = select_labels(what.budgets, self.budgets, f"{where}.budgets")
        paid = table["privacy"] == "none"
        for label in budgets:
            paid |= rows_of_budget(table, self.budgets[label].value)
        families = select_labels(what.families, self.families, f"{where}.families")
        estimators = select_labels(what.estimators, self.estimators, f"{where}.estimators")
        return paid & table["family"].isin(families) & table["estimator"].isin(estimators)

    def shares_data(self, families: Iterable[str]) -> bool:
        """Return True if all budgets share their data on any of these families."""
        return any(not self.families[label].value.follows_budget for label in families)


def key_table(sweep: Sweep, cells: Sequence[Cell], *, bounds: bool = True) -> pd.DataFrame:
    """Return the keys of all cells, a row each, in the order of `BlockTask.keys`.

    Parameters
    ----------
    sweep, cells : Sweep, sequence of Cell
        Configuration and cells of the sweep.
    bounds : bool
        If False, leave out ``lower_bound`` and ``bound_name``; one bound may take 0.2 s.

    Returns
    -------
    DataFrame
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
                columns = {"lower_bound": bound.value, "bound_name": bound.by, **columns}
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
    """Return the lower bound of a row of `key_table`.

    Parameters
    ----------
    sweep, row : Sweep, mapping
        Configuration of the sweep, and row of the table.

    Returns
    -------
    float
        NaN if no bound is known.
    """
    budgets = (one.value for one in sweep.budgets.values())
    budget = next((one for one in budgets if rows_of_budget(row, one)), NonPrivate())
    estimator = sweep.estimator(row["estimator"], row["family"])
    return _bound(sweep, row["family"], row["n"], estimator, budget).value


def _bound(sweep: Sweep, family: str, n: int, estimator: Estimator, budget: Budget) -> ErrorBound:
    """Return the lower bound of a setting on a family at n, and its name."""
    model = estimator.bounded_in
    if model is None:
        return ErrorBound()
    # An estimator that may not read n cannot do better than one that may, so the bound for the
    # implied replacement guarantee applies.
    implied = under_replacement(budget)
    with as_config_error(f"sweep.families.{family}: at n = {n}"):
        return sweep.families[family].value.lower_bound(n, implied, local=model == "local")


def make_cells(sweep: Sweep, *, trials: int | None = None) -> list[Cell]:
    """Return all cells of a sweep, sorted by family, n and budget.

    Parts that meet at the same family and n share their data: the cell runs the settings of both,
    with the larger number of trials.

    Parameters
    ----------
    sweep : Sweep
        Configuration of the sweep.
    trials : int, optional
        Number of trials of every cell, instead of those of the parts.

    Returns
    -------
    list of Cell

    Raises
    ------
    ConfigError
        If a cell cannot be run, or if there are too many.
    """
    settings: dict[tuple[str, int, str], dict[str, Setting]] = {}  # by name, so that each runs once
    wanted = blocks = 0
    about: dict[tuple[str, int, str], tuple[int, str]] = {}
    for name, part in sweep.parts.items():
        where = f"sweep.parts.{name}"
        for label in select_labels(part.families, sweep.families, f"{where}.families"):
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
        with as_config_error(f"{where}: {label} at n = {n}"):
            cells.append(cell_at(label, sweep.families[label].value, n, group, trials or most))
            _check(cells[-1], where)
            blocks += cells[-1].blocks
        if blocks > MOST_BLOCKS:
            at = f"{where}.trials: {cells[-1].trials}"
            raise ConfigError(f"{at}: more than {MOST_BLOCKS} batches of trials in the sweep")
    _check_use(sweep, {setting.label for cell in cells for setting in cell.settings})
    return cells


def cell_at(label: str, family: Family, n: int, settings: tuple[Setting, ...], trials: int) -> Cell:
    """Return the cell of a family at n; the members follow the budget of the first setting.

    Parameters
    ----------
    label, family, n, settings, trials
        See `Cell`.

    Returns
    -------
    Cell
    """
    members = family.members(label, n, settings[0].budget)
    return Cell(label, family, n, tuple(members.items()), settings, trials)


def largest_n(family: Family, n: int, setting: Setting) -> int:
    """Return the largest n at which a family can be drawn and a setting run.

    Parameters
    ----------
    family, setting : Family, Setting
        Family of distributions, and estimator with a budget.
    n : int
        Sample size whose members are examined if there is a limit.

    Returns
    -------
    int
    """
    far = family.members("", MOST_RECORDS, setting.budget).values()
    if all(_most(member, MOST_RECORDS, setting) >= MOST_RECORDS for member in far):
        return MOST_RECORDS
    here = family.members("", n, setting.budget).values()
    return min(_most(member, n, setting) for member in here)


def _most(law: Distribution, n: int, setting: Setting) -> int:
    """Return the largest n for one distribution, a member of the family at n."""
    most = setting.estimator.most_records or MOST_RECORDS
    if law.streams(MOST_STREAMED):
        return min(most, MOST_STREAMED, setting.estimator.most_at_once or MOST_STREAMED)
    return min(most, int(MOST_DENSE / ((law.held(n) if law.counted else n * law.d) / n)))


def _check(cell: Cell, where: str) -> None:
    """Raise a ConfigError if data are too large, or a distribution does not suit an estimator."""
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
    """Raise a ConfigError if an estimator needs a moment of order k that is infinite."""
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
    """Raise a ConfigError if a setting takes fewer or more records, or the data exceed memory."""
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
    """Raise a ConfigError if no part runs an estimator of the sweep."""
    for label, one in sweep.estimators.items():
        if label not in run:
            spec = one.value
            kind = spec if isinstance(spec, Estimator) else Estimator.lookup(spec, label)
            supports = ", ".join(notion.notion for notion in kind.notions)
            at = f"sweep.estimators.{one.name}"
            told = f"no part of the sweep runs it; it supports: {supports}"
            raise ConfigError(f"{at}: {told}; a part that chooses its estimators has to name it")


def _settings(sweep: Sweep, part: Part, where: str, family_label: str) -> list[Setting]:
    """Return the estimators of a part with the budgets under which they run, for one family."""
    follows = sweep.families[family_label].value.follows_budget
    budgets = select_labels(part.budgets, sweep.budgets, f"{where}.budgets")
    found: list[Setting] = []
    for label in select_labels(part.estimators, sweep.estimators, f"{where}.estimators"):
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
