"""Plan of a sweep: expand its configuration into cells, and check all cells before any runs.

Vocabulary:

    sweep ── part         families x n x estimators x budgets, as configured
             │
             └─ cell      one family at one n; also at one budget, if the members depend on it
                ├─ members   the family's distributions, each with its own data
                ├─ settings  estimators with budgets, all run on the same data
                └─ blocks    batches of its trials: the unit of work and of storage

    variant   an entry with one value for each parameter; a list of values gives several variants
    key       identifies a row of results: a member, a setting, n and the swept parameters
    curve     errors, worst over members, at keys that differ only in n or in one parameter
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
from dpbench.errors import ErrorCollector
from dpbench.estimators import Estimator
from dpbench.privacy import Budget, NonPrivate
from dpbench.privacy.neighbours import replacement_budget
from dpbench.registry import (
    MAX_RECORDS,
    ConfigError,
    Count,
    Label,
    Trials,
    as_config_error,
    labelled_entries,
    nested_entry,
    validated,
)
from dpbench.samples.binned import MAX_BINNED_RECORDS
from dpbench.seeds import canonical, digest
from dpbench.sweep.block import BLOCK_NUMBERS, BlockTask, Setting, block_trials, most_trials
from dpbench.sweep.entries import Budgets, Estimators, Families
from dpbench.sweep.selection import (
    BUDGET,
    Selection,
    rows_of_budget,
    select_labels,
    swept_columns,
)
from dpbench.theory.bounds.class_bound import ErrorBound
from dpbench.theory.families import Family

__all__ = [
    "Cell", "Described", "Part", "Sweep", "cell_at", "key_table", "largest_n", "lower_bound",
    "make_cells",
]  # fmt: skip

# Largest number of values in a trial of dense data: 0.8 GB.
MAX_DENSE_NUMBERS = 32 * BLOCK_NUMBERS
# Upper limits for one sweep: number of settings over all cells, number of blocks.
MAX_SETTINGS = 1_000_000
MAX_BLOCKS = 1_000_000


@validated
class Grid:
    """Logarithmically spaced whole numbers from `low` to `high`.

    Parameters
    ----------
    low, high : int >= 1
        Ends of the grid, which are included.
    points : int in [2, 10000]
        Number of points before rounding. If several points round to one number, it is run once.
    """

    low: Count
    high: Count
    points: Annotated[int, Field(ge=2, le=10_000)]


@validated
class Part(Selection):
    """Part of a sweep: all combinations of its families, sample sizes, estimators and budgets.

    Parameters
    ----------
    n : list of int, or Grid
        Sample sizes: numbers of records of a dataset.
    trials : int >= 1
        Number of independent datasets for each family and n, rounded up to whole blocks of up to
        2,000 trials, or 200 if fewer than 2,000 are given.
    families, estimators, budgets : optional
        Choices as in `Selection`. An estimator runs only under budgets whose neighbour relation it
        supports. If `estimators` gives its name, it must support the privacy notion of each of
        these budgets. If `estimators` matches it by a pattern, unsupported budgets are skipped.
        Estimators without privacy run once, without budget. They do not run on families that depend
        on the budget.
    """

    n: Annotated[
        Annotated[Grid, nested_entry(Grid), Tag("[grid]")]
        | Annotated[list[Count], Field(min_length=1), Tag("[list]")],
        Discriminator(lambda n: "[grid]" if isinstance(n, Mapping | Grid) else "[list]"),
    ]
    trials: Trials

    @cached_property
    def sizes(self) -> list[int]:
        """Sample sizes, in increasing order."""
        if isinstance(self.n, Grid):
            return [round(x) for x in np.geomspace(self.n.low, self.n.high, self.n.points)]
        return sorted(set(self.n))


@dataclass(frozen=True)
class Cell:
    """Family at one sample size n, with all settings that run on its data."""

    family_label: str
    family: Family
    n: int
    # Labels and distributions of the family at this n.
    members: tuple[tuple[str, Distribution], ...]
    settings: tuple[Setting, ...]  # Estimators with budgets.
    trials: int  # Smallest number of trials to run.

    @property
    def blocks(self) -> int:
        """Number of blocks that together hold at least `trials` trials."""
        most = most_trials(self.trials)
        return -(-self.trials // min(block_trials(self.n, law, most) for _, law in self.members))

    def tasks(self, seed: int) -> list[BlockTask]:
        """Return the tasks of the cell's blocks under the sweep's `seed`, ordered by block."""
        followed, members, settings = self.names
        most, arguments = most_trials(self.trials), (self.members, self.n, self.settings, seed)
        name = digest(seed, followed, self.n, most, members, settings)
        return [BlockTask(*arguments, i, name, followed, most) for i in range(self.blocks)]

    @cached_property
    def names(self) -> tuple[str, list[tuple[str, str]], list[str]]:
        """Texts that describe the budget, each labelled member and each setting, in this order.

        The name of the cell's blocks is a digest of these texts, n, the seed and `most_trials`. The
        text of the budget is "" if the members do not depend on a budget.
        """
        followed = canonical(self.settings[0].budget) if self.family.follows_budget else ""
        members = [(label, canonical(member)) for label, member in self.members]
        return followed, members, [setting.name for setting in self.settings]


@validated
class Described:
    """Texts that say what a sweep of any kind is for.

    Parameters
    ----------
    name : str
        Name of the run's folder.
    title : str
        Subject in a few words, for lists of sweeps.
    question : str
        Question that the sweep answers, one sentence that ends with a question mark. The terminal
        and the page of a run begin with it.
    about : str
        What is measured, how, and after which sources.
    cost : str
        Run time on two idle cores and disk space, such as ``12 s, 107 MB``.
    """

    name: Label = "sweep"
    title: Annotated[str, Field(max_length=60)] = ""
    question: Annotated[str, Field(pattern=r"^([^\n]*\?)?$", max_length=130)] = ""
    about: str = ""
    cost: Annotated[str, Field(pattern=r"^(\d+ (s|min), \d+ MB)?$")] = ""


@validated
class Sweep(Described):
    """Configuration of a sweep, checked, with its entries expanded into variants.

    Parameters
    ----------
    families, estimators, budgets : mapping
        Entries by name: a ``kind`` with its parameters, where a list of values gives one variant
        for each value. If the entry of an estimator lacks the moment order k or the number m of
        records of a person, the family's value is used. A budget without a kind has the notion of
        its parameters. Budgets may also be a list, ``[{epsilon: 0.1}, {rho: 0.1}]``; their names
        are then ``pure_epsilon0.1`` and ``zcdp_rho0.1``.
    parts : mapping of str to Part
        Parts by name. The sweep runs all combinations of the values that a part lists.
    """

    families: Families
    estimators: Estimators
    budgets: Budgets
    parts: Annotated[Mapping[str, Part], labelled_entries(Part, least=1, title="a part")]

    @cached_property
    def exact_values(self) -> dict[Hashable, float]:
        """Exact values of statistics that were computed so far, by statistic and row."""
        return {}

    def estimator(self, label: str, family: str) -> Estimator:
        """Return the estimator that runs on a family; both are given by their labels.

        If the entry of the estimator lacks the moment order k or the number m of records of a
        person, the family's value is used. A ConfigError is raised if the estimator needs k, and
        neither its entry nor the family has a value.
        """
        variant = self.estimators[label]
        spec, where = variant.value, f"sweep.estimators.{variant.name}"
        if isinstance(spec, Estimator):
            return spec
        keys = {field.name for field in dataclasses.fields(Estimator.lookup(spec, where))}  # type: ignore[arg-type]
        if "k" in keys - set(spec):
            k = self.families[family].value.moment_order
            if k is None:
                raise ConfigError(
                    f"{where}.k: this key is required: the family {family} has no moment order"
                )
            spec = {**spec, "k": k}
        if "m" in keys - set(spec):
            spec = {**spec, "m": self.families[family].value.person_records}
        return Estimator.build(spec, where)

    def select_rows(
        self, selection: Selection, table: pd.DataFrame, where: str = ""
    ) -> pd.Series[bool]:
        """Return a mask of the rows of a table of results that a selection includes.

        A ConfigError is raised if the selection names something that the sweep does not have. The
        message begins with `where`, the place of the selection in the configuration.
        """
        budgets = select_labels(selection.budgets, self.budgets, f"{where}.budgets")
        columns = {name: table[name].to_numpy() for name in BUDGET}  # faster to compare
        in_budgets = columns["privacy"] == "none"
        for label in budgets:
            in_budgets |= rows_of_budget(columns, self.budgets[label].value)
        families = select_labels(selection.families, self.families, f"{where}.families")
        estimators = select_labels(selection.estimators, self.estimators, f"{where}.estimators")
        names = table["family"].isin(families) & table["estimator"].isin(estimators)
        return names & np.asarray(in_budgets)

    def shares_data(self, families: Iterable[str]) -> bool:
        """Return True if the data of at least one given family do not depend on the budget."""
        return any(not self.families[label].value.follows_budget for label in families)


def key_table(sweep: Sweep, cells: Sequence[Cell], *, bounds: bool = True) -> pd.DataFrame:
    """Return a table with one row for each key of all cells.

    A key is a member (a distribution of a family) and a setting (an estimator with a budget) at one
    n. A row holds the key and its parameters. The rows of a cell are in the order of
    `BlockTask.keys`. If `bounds` is False, the columns ``lower_bound`` and ``bound_name`` are left
    out, because computing one bound may take 0.2 s.
    """
    families, estimators = swept_columns(sweep.families.values(), sweep.estimators.values())
    rows = []
    for cell in cells:
        family_parameters = sweep.families[cell.family_label].parameters
        family_columns = {column: family_parameters.get(name) for name, column in families.items()}
        k, d = cell.family.moment_order, cell.members[0][1].d
        settings = []
        for setting in cell.settings:
            parameters = sweep.estimators[setting.label].parameters
            swept = {column: parameters.get(name) for name, column in estimators.items()}
            columns = {**family_columns, **swept}
            if bounds:
                bound = _bound(sweep, cell.family_label, cell.n, setting.estimator, setting.budget)
                columns = {"lower_bound": bound.value, "bound_name": bound.by, **columns}
            settings.append((setting.label, setting.budget, columns))
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
    """Return the lower bound on the error for a row of `key_table`; NaN if no bound is known."""
    budgets = (variant.value for variant in sweep.budgets.values())
    budget = next((b for b in budgets if rows_of_budget(row, b)), NonPrivate())
    estimator = sweep.estimator(row["estimator"], row["family"])
    return _bound(sweep, row["family"], row["n"], estimator, budget).value


def _bound(sweep: Sweep, family: str, n: int, estimator: Estimator, budget: Budget) -> ErrorBound:
    """Return the lower bound on the error of an estimator with a budget, on a family at `n`."""
    model = estimator.bounded_in
    if model is None:
        return ErrorBound()
    # An estimator that may not read n cannot do better than one that may, so the bound for the
    # implied replacement guarantee applies.
    implied = replacement_budget(budget)
    with as_config_error(f"sweep.families.{family}: at n = {n}"):
        return sweep.families[family].value.lower_bound(n, implied, local=model == "local")


def make_cells(sweep: Sweep, *, trials: int | None = None) -> list[Cell]:
    """Return all cells of a sweep, sorted by family, n and the budget on which the members depend.

    A cell is a family at one sample size n, with the settings that run on its data. A member is a
    distribution of the family, and a setting is an estimator with a budget. Parts of the sweep with
    the same family and n share a cell. The cell runs the settings of all these parts, with their
    largest number of trials. If `trials` is given, all cells have this number. A ConfigError is
    raised if a cell cannot be run, an estimator runs in no part, or the sweep is too large.
    """
    # Settings by name, because a setting of several parts runs once.
    settings: dict[tuple[str, int, str], dict[str, Setting]] = {}
    setting_count = block_count = 0
    part_trials: dict[tuple[str, int, str], tuple[int, str]] = {}
    _check_parts(sweep)
    for name, part in sweep.parts.items():
        where = f"sweep.parts.{name}"
        for label in select_labels(part.families, sweep.families, f"{where}.families"):
            follows = sweep.families[label].value.follows_budget
            for setting in _make_settings(sweep, part, where, label):
                setting_count += len(part.sizes)
                if setting_count > MAX_SETTINGS:
                    raise ConfigError(f"{where}: more than {MAX_SETTINGS} estimators x budgets x n")
                for n in part.sizes:
                    key = (label, n, str(setting.budget) if follows else "")
                    settings.setdefault(key, {})[setting.name] = setting
                    largest = max(part.trials, part_trials.get(key, (0, ""))[0])
                    part_trials[key] = (largest, where)
    cells = []
    for key in sorted(settings):
        (label, n, _), (largest, where) = key, part_trials[key]
        group = tuple(settings[key][name] for name in sorted(settings[key]))
        with as_config_error(f"{where}: {label} at n = {n}"):
            cells.append(cell_at(label, sweep.families[label].value, n, group, trials or largest))
            _check_cell(cells[-1], where)
            block_count += cells[-1].blocks
        if block_count > MAX_BLOCKS:
            at = f"{where}.trials: {cells[-1].trials}"
            raise ConfigError(f"{at}: more than {MAX_BLOCKS} batches of trials in the sweep")
    _check_use(sweep, {setting.label for cell in cells for setting in cell.settings})
    return cells


def cell_at(label: str, family: Family, n: int, settings: tuple[Setting, ...], trials: int) -> Cell:
    """Return the cell of one family at one sample size n, with at least one setting.

    A cell holds the family's distributions, and the settings that run on their data. If the
    distributions depend on a budget, the budget of the first setting is used. `trials` is the
    smallest number of trials to run.
    """
    members = family.members(label, n, settings[0].budget)
    return Cell(label, family, n, tuple(members.items()), settings, trials)


def largest_n(family: Family, n: int, setting: Setting) -> int:
    """Return the largest n at which a family can be drawn and a setting can run.

    The family makes its distributions for `MAX_RECORDS`, dpbench's limit on n. If the family cannot
    be drawn, or the setting cannot run, at this limit, they are made for `n`.
    """
    members_at_limit = family.members("", MAX_RECORDS, setting.budget).values()
    if all(_largest_n(member, MAX_RECORDS, setting) >= MAX_RECORDS for member in members_at_limit):
        return MAX_RECORDS
    members_at_n = family.members("", n, setting.budget).values()
    return min(_largest_n(member, n, setting) for member in members_at_n)


def _largest_n(law: Distribution, n: int, setting: Setting) -> int:
    """Return the largest number of records that one setting can use from the distribution `law`.

    `n` is the sample size for which the family made the distribution.
    """
    limit = setting.estimator.most_records or MAX_RECORDS
    if law.bins(MAX_BINNED_RECORDS):
        return min(limit, MAX_BINNED_RECORDS, setting.estimator.most_at_once or MAX_BINNED_RECORDS)
    held = law.held(n) if law.counted else max(law.held(n), n * law.d)  # people hold all records
    return min(limit, int(MAX_DENSE_NUMBERS / (held / n)))


def _check_cell(cell: Cell, where: str) -> None:
    """Raise a ConfigError if a cell cannot run.

    The reasons are: no members, too many or too few records, or a distribution that
    does not suit an estimator of the cell.
    """
    key = f"{where}.n: {cell.n}"
    if not cell.members:
        raise ConfigError(f"{key}: the family {cell.family_label} has no member at this n")
    for setting in cell.settings:
        _check_size(cell, setting, key)
        _check_moment(cell, setting, where)
        if not setting.estimator.estimand.measured:
            raise ConfigError(
                f"{where}.estimators: {setting.label}: releases a table, which has no error on a "
                "distribution; audit it, or measure columns_clipped_mean"
            )
        for label, law in cell.members if setting.estimator.estimand.centred else ():
            try:
                is_supported = np.all(law.mean == 0) and law.covariance.size > 0
            except ValueError:
                is_supported = False
            if not is_supported:
                needs = "vectors of mean 0 and a known covariance"
                raise ConfigError(f"{where}.families: {label!r}: {setting.label} needs {needs}")


def _check_moment(cell: Cell, setting: Setting, where: str) -> None:
    """Raise a ConfigError if an estimator needs a moment that is infinite for a member."""
    k = getattr(setting.estimator, "k", None)
    if k is None or k <= (cell.family.moment_order or 0):
        return
    for label, law in cell.members:
        if law.moment(k) == np.inf:
            raise ConfigError(
                f"{where}.families: {label!r}: {setting.label} needs a moment of order k = {k:g}, "
                "which is infinite there"
            )


def _check_size(cell: Cell, setting: Setting, key: str) -> None:
    """Raise a ConfigError if the number of records of a cell does not suit a setting.

    The cell has too few records if the setting needs more. It has too many if they exceed the
    maximum of the setting, or if their data are too large to draw or to hold in memory.
    """
    most_records = setting.estimator.most_records or cell.n
    if cell.n > most_records:
        raise ConfigError(f"{key}: {setting.label} takes at most {most_records:,} records")
    least = setting.estimator.least_records(cell.members[0][1].d, setting.budget)
    if cell.n < least:
        raise ConfigError(f"{key}: {setting.label} needs at least {least} records")
    limit = min(_largest_n(law, cell.n, setting) for _, law in cell.members)
    if cell.n > limit:
        if not any(law.bins(cell.n) for _, law in cell.members):
            reason = f" draws every record; at most {MAX_DENSE_NUMBERS} numbers per trial"
        elif limit < MAX_BINNED_RECORDS:
            reason = f": {setting.label} takes all records at once; give an n of at most {limit:,}"
        else:
            reason = f": a dataset is too large; give an n of at most {limit:,}"
        raise ConfigError(f"{key}: {cell.family_label}{reason}")


def _check_use(sweep: Sweep, run: set[str]) -> None:
    """Raise a ConfigError if no part of the sweep runs one of its estimators.

    `run` holds the labels of the estimators that run.
    """
    for label, variant in sweep.estimators.items():
        if label not in run:
            spec = variant.value
            kind = spec if isinstance(spec, Estimator) else Estimator.lookup(spec, label)
            supports = ", ".join(notion.notion for notion in kind.notions)
            key = f"sweep.estimators.{variant.name}"
            fact = f"no part of the sweep runs it; it supports: {supports}"
            raise ConfigError(f"{key}: {fact}; a part that chooses its estimators has to name it")


def _check_parts(sweep: Sweep) -> None:
    """Raise a ConfigError with all errors of the parts' selections and of their estimators."""
    errors = ErrorCollector()
    for name, part in sweep.parts.items():
        where, estimators = f"sweep.parts.{name}", list[str]()
        with errors.step():
            select_labels(part.budgets, sweep.budgets, f"{where}.budgets")
        with errors.step():
            estimators = select_labels(part.estimators, sweep.estimators, f"{where}.estimators")
        with errors.step():
            for family in select_labels(part.families, sweep.families, f"{where}.families"):
                for label in estimators:
                    with errors.step():
                        sweep.estimator(label, family)
    errors.raise_all()


def _make_settings(sweep: Sweep, part: Part, where: str, family_label: str) -> list[Setting]:
    """Return the settings of a part on one family: each estimator with each budget it supports.

    Raise a ConfigError if the part names an estimator that does not support a selected budget.
    """
    follows = sweep.families[family_label].value.follows_budget
    budgets = select_labels(part.budgets, sweep.budgets, f"{where}.budgets")
    settings: list[Setting] = []
    for label in select_labels(part.estimators, sweep.estimators, f"{where}.estimators"):
        estimator = sweep.estimator(label, family_label)
        if estimator.supports(NonPrivate()):
            settings += [] if follows else [Setting(label, estimator, NonPrivate())]
            continue
        selected = [sweep.budgets[name].value for name in budgets]
        for budget in [b for b in selected if b.neighbours in estimator.relations] or selected:
            if estimator.supports(budget):
                settings.append(Setting(label, estimator, budget))
            elif sweep.estimators[label].name in (part.estimators or ()):
                raise ConfigError(
                    f"{where}.budgets: {budget}: the estimator {label} cannot honour the notion "
                    f"{budget.label!r}; it supports: {estimator.promises}"
                )
    return settings
