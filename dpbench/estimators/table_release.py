"""Function `release_table`, which releases means of columns by group under one budget."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Never

import numpy as np

from dpbench.arrays import Floats, Ints
from dpbench.errors import (
    AssumptionWarning,
    ConfigError,
    check_instance,
    choose_from,
    describe_value,
    reject_unknown_keywords,
)
from dpbench.estimators.assumptions import warn_of_contradictions
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.tables import Cell, TableMean
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.account import Account
from dpbench.samples import DenseSample
from dpbench.samples.labels import index_labels, match_labels, read_labels, type_names
from dpbench.samples.people import index_persons, keep_records
from dpbench.samples.records import read_numbers, table_of
from dpbench.seeds import check_generator

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TableRelease", "release_table"]

ENDS = ("low", "high")  # of an interval, as suffixes of columns


@dataclass(frozen=True, eq=False, repr=False)
class TableRelease:
    """Released means of columns by group, and what they cost.

    Parameters
    ----------
    estimates : DataFrame
        A row for each group and a column for each released column. An estimator of confidence
        intervals adds the columns ``NAME_low`` and ``NAME_high``. NaN where an estimator declares
        failure, and for groups whose public size is 0.
    budget : Budget
        Budget of the whole table.
    ledger : Account
        Cost of each column and group. It holds no generator: the state of the generator that drew
        the noise would undo the noise.
    accuracy : DataFrame
        A row for each group and three columns for each released column: ``(NAME, "noise_sd")``,
        the standard error that noise causes; ``(NAME, "noise_q90")``, the 0.9 quantile of the
        absolute noise; and ``(NAME, "unknown")``, why they are NaN, or blank text. They depend on
        public numbers and releases only. The errors of sampling and of clipping come on top.
    """

    estimates: pd.DataFrame
    budget: Budget
    ledger: Account
    accuracy: pd.DataFrame

    @property
    def receipt(self) -> str:
        """Receipt: a line for the budget of each column and group, then what is left in total."""
        return self.ledger.receipt()

    @property
    def spent(self) -> tuple[float, ...]:
        """Privacy parameters that the table has spent, such as epsilon and delta."""
        return self.ledger.spent

    def __repr__(self) -> str:
        amounts = zip(self.budget.named_amounts, self.spent, strict=True)
        spent = ", ".join(f"{name} {amount:.6g}" for name, amount in amounts)
        return f"{self.estimates}\nspent in total: {self.budget.label} {spent}"


def release_table(
    frame: pd.DataFrame,
    columns: Mapping[str, Estimator],
    budget: Budget,
    *,
    by: str | None = None,
    groups: Iterable[Any] | None = None,
    person: str | None = None,
    cap: int | None = None,
    group_sizes: Literal["public", "private"] | None = None,
    split: Literal["equal", "sensitivity"] | Mapping[str, float] = "equal",
    units: Mapping[str, float] | None = None,
    rng: np.random.Generator,
    **unknown: Never,
) -> TableRelease:
    """Release differentially private means of columns, by group, under one budget.

    A record is a row of the table. It is in all columns, so the costs of the columns add up. It is
    in one group, so the groups pay in parallel:

    - If neighbours add or remove a record, each group has the whole budget of a column. Group sizes
      are private, and empty groups are released like others.
    - If neighbours replace a record and ``group_sizes="public"``, the group of every record is
      fixed and public. Each group has the whole budget of a column. An empty group releases nothing
      (NaN).
    - If neighbours replace a record and ``group_sizes="private"``, a record may move to another
      group. It is removed from one group and added to another, so the table is released with half
      of epsilon or mu, or a quarter of rho. Group sizes are private.

    If a person may have several rows, give the column `person` and a `cap`. Neighbours then add,
    remove or replace a person with all rows. At most `cap` rows of each person are kept, drawn at
    random, and each row is released with a smaller budget, so that all of them together cost the
    budget. The number of rows of a person is private, and so are group sizes.

    If group sizes are private, estimators must keep n private, as `TransformedNoiseMean` and
    `NormalizedSumMean` do. The docstring of `dpbench.estimators.tables` derives these costs.

    Parameters
    ----------
    frame : DataFrame
        Records: a table of pandas, polars or pyarrow. `dpbench.samples.records` lists the types of
        columns that are numbers. Missing values in the released columns and in `by` are an error. A
        missing number may be filled with a public constant; dropping its record is a removal, for
        which n has to be private.
    columns : mapping of str to Estimator
        Private estimator of numbers for each released column.
    budget : Budget
        Privacy budget of the whole table.
    by : str, optional
        Column with the group of each record. By default all records form one group, ``all``.
    groups : iterable, optional
        All groups, in the order of the result, from public knowledge: text, numbers, or tuples of
        them. A record is in the group that equals its value in `by` in value and type. By default
        the categories of the column `by`, which then must be a pandas Categorical.
        (``astype("category")`` reads the categories from the records, so list public groups in that
        case.)
    person : str, optional
        Column with the person of each row. By default each row is a record of its own, and two rows
        of one person are protected one at a time only.
    cap : int in [1, 1e6], optional
        Number of rows that are kept of each person, required with `person`. The others are dropped.
        Noise grows in proportion to it. Choose it from public knowledge, not from the table.
    group_sizes : {'public', 'private'}, optional
        Required with `by` if neighbours replace a record, see above. If neighbours add or remove a
        record, or with `person`, sizes are private.
    split : {'equal', 'sensitivity'} or mapping of str to float
        Shares of the budget for the columns, or their weights; see `TableMean`.
    units : mapping of str to float, optional
        Size of an error that counts as 1, for each column; required with ``split="sensitivity"``.
    rng : Generator
        Source of all randomness.
    **unknown
        Not accepted: an unknown name raises ConfigError with the names that exist.

    Returns
    -------
    TableRelease
        Estimates and accuracy as DataFrames, groups by columns, and the receipt.

    Raises
    ------
    ConfigError
        If an argument has the wrong type or does not fit the table, or an estimator does not
        support its part of the budget.
    ValueError
        If a value is missing or infinite, or the table has no record. No noise is drawn and no
        budget is spent. But errors and their messages depend on the records, so they are not
        private: do not publish them.

    Warns
    -----
    AssumptionWarning
        If the numbers of a column in a group contradict the assumptions of its estimator, as in
        `dpbench.release`. Also, once for all cells, if a public size of a group is too small for an
        estimator. The warning looks at the records, so it is not private either. It prints
        counts, also if n is private.

    References
    ----------
    C. Dwork, A. Roth, "The algorithmic foundations of differential privacy", 2014, Theorem 3.16
    (sequential composition). F. McSherry, "Privacy integrated queries", 2009, Theorem 4 (parallel
    composition). Numbers not checked.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from dpbench import PureDP, release_table
    >>> from dpbench.estimators import TransformedNoiseMean
    >>> people = pd.DataFrame({"region": ["north", "south"] * 500, "age": np.arange(1000) % 90})
    >>> table = release_table(people, {"age": TransformedNoiseMean(lower=0, upper=100)},
    ...                       PureDP(1.0, neighbours="add_remove"), by="region",
    ...                       groups=["north", "south"], rng=np.random.default_rng(0))
    >>> table.estimates.round(0).to_dict()
    {'age': {'north': 44.0, 'south': 45.0}}
    >>> print(table.receipt)
    pure_add_remove epsilon 1
      age: pure_add_remove epsilon 1
        in parallel: north: pure_add_remove epsilon 1: additive noise, sensitivity 1
        in parallel: south: pure_add_remove epsilon 1: additive noise, sensitivity 1
    left: epsilon 0
    """
    reject_unknown_keywords(unknown, release_table)
    _check_arguments(columns, budget, by, person, split, units, rng)
    if split == "sensitivity" and units is None:
        raise ConfigError(
            "units: split='sensitivity' compares errors of different columns; give the size of an "
            "error that counts as 1 for each column, such as units={'income': 1000, 'age': 1}"
        )
    # Of private numbers of records, messages say nothing.
    show_counts = budget.neighbours != "add_remove" and person is None
    labels, names = _read_groups(frame, by, groups, show_counts)
    sizes_are_public = _sizes_are_public(budget, by, group_sizes, person, cap)
    table = TableMean(
        columns=dict(columns),
        groups=_receipt_names(names),
        labels=labels.tolist() if sizes_are_public else None,
        cap=cap,
        split=split if isinstance(split, str) else dict(split),
        units=dict(units or {}),
    )
    if reason := table.refusal(budget):
        raise ConfigError(f"columns: {reason}")
    values = _read_columns(frame, columns, show_counts)
    people = None if person is None else index_persons(_column(frame, person, "person"), "person")
    for group in np.unique(labels):
        for column, name in zip(values.T, columns, strict=True):
            place = f"{name}, {names[group]}: "
            warn_of_contradictions(table.columns[name], column[labels == group], 2, place)
    if sizes_are_public:
        _warn_of_few_records(table, budget, labels, names)
    else:
        values = np.column_stack([labels, values])
    if {f"{name}_{end}" for name in columns for end in ENDS} & {*columns, by}:
        # Zeros show which columns of the answer have one name, before anything is spent.
        zeros = DenseSample(np.zeros((1, *values.shape)))
        cells = table.release_cells(zeros, Ledger(budget, np.random.default_rng(0)), kept=True)
        _as_frame(cells, columns, names, by)
    if people is not None:
        values = values[keep_records(people, rng, cap)]
    ledger = Ledger(budget, rng)
    cells = table.release_cells(DenseSample(values[None]), ledger, kept=True)
    estimates = _as_frame(cells, columns, names, by)
    accuracy = _accuracy(cells, table, estimates.index)
    return TableRelease(estimates, budget, ledger.copy_costs(), accuracy)


def _check_arguments(
    columns: Any, budget: Any, by: Any, person: Any, split: Any, units: Any, rng: Any
) -> None:
    """Raise ArgumentError for an argument of `release_table` that has the wrong type."""
    example = "TransformedNoiseMean(lower=0, upper=100)"
    check_instance(
        "columns", columns, Mapping, "a mapping of names to estimators", f"{{'age': {example}}}"
    )
    for name, estimator in columns.items():
        check_instance("columns", name, str, "the name of a column, a text", "'age'")
        kinds = (Estimator, str, Mapping)
        check_instance(f"columns: {name!r}", estimator, kinds, "an estimator", example)
    check_instance("budget", budget, Budget, "a budget", "PureDP(1.0, neighbours='add_remove')")
    if by is not None:
        check_instance("by", by, str, "the name of a column, a text", "'region'")
    if person is not None:
        check_instance("person", person, str, "the name of a column, a text", "'customer'")
    check_instance(
        "split", split, str | Mapping, "'equal', 'sensitivity' or a mapping", "{'age': 2}"
    )
    if units is not None:
        check_instance("units", units, Mapping, "a mapping of names to numbers", "{'age': 1}")
    check_generator(rng)


def _sizes_are_public(
    budget: Budget, by: str | None, group_sizes: str | None, person: str | None, cap: int | None
) -> bool:
    """Return whether the number of records of every group is public; raise if that is not said."""
    if (person is None) != (cap is None):
        raise ConfigError(
            "cap: with the column person, give the number of rows to keep of a person"
            if cap is None
            else f"cap: {cap!r}: it bounds the rows of a person; give the column of persons, too"
        )
    if not isinstance(group_sizes, str | None) or group_sizes not in (None, "public", "private"):
        raise ConfigError(f"group_sizes: {describe_value(group_sizes)}: give 'public' or 'private'")
    if person is not None:
        if group_sizes == "public":
            raise ConfigError(
                "group_sizes: 'public': the number of rows of a person is private; leave it out"
            )
        return False
    if budget.neighbours == "add_remove":
        if group_sizes == "public":
            raise ConfigError(
                "group_sizes: 'public': neighbours: add_remove changes the size of a group; "
                "leave it out, or give a budget with neighbours='replace'"
            )
        return False
    if by is None:
        return group_sizes != "private"
    if group_sizes is None:
        raise ConfigError(
            "group_sizes: a replaced record may change its group; give 'public' if neighbours keep "
            "the group of every record, 'private' if not (at half of epsilon, or a quarter of "
            "rho), or a budget with neighbours='add_remove'"
        )
    return group_sizes == "public"


def _read_groups(
    frame: Any, by: str | None, groups: Iterable[Any] | None, show_counts: bool
) -> tuple[Ints, list[Any]]:
    """Return the index of the group of each record, shape (n,), and the list of all groups."""
    import pandas as pd

    _read_table(frame)
    if by is None:
        if groups is not None:
            raise ConfigError("groups: give the column of the groups, too, as by")
        return np.zeros(len(frame), dtype=np.int64), ["all"]
    column = _column(frame, by, "by")
    if groups is None and isinstance(getattr(column, "dtype", None), pd.CategoricalDtype):
        groups = column.cat.categories
    if groups is None:
        raise ConfigError(
            f"groups: the values of {by!r} would show which groups have records; list all groups "
            "from public knowledge, as groups=[...], or make the column a pandas Categorical"
        )
    names = read_labels(groups, "groups")
    if not names or len(index_labels(names, "groups")[0]) < len(names):
        raise ConfigError(f"groups: {names}: list at least one group, and each group once")
    codes = match_labels(column, names, "by")
    if lost := int((codes < 0).sum()):
        count = f"{lost} of {len(codes)}" if show_counts else "some"
        known = (label for label in read_labels(column, "by") if label is not None)
        types = type_names(known) or type_names(names), type_names(names)
        told = "" if types[0] == types[1] else f" (their types: {types[0]}; groups: {types[1]})"
        raise ValueError(
            f"by: {count} records have no group or one that is not in groups{told}; add a group "
            "for them, such as 'other'"
        )
    return codes, names


def _receipt_names(groups: Sequence[Any]) -> list[str]:
    """Return a text for each group; groups such as 1 and "1" have different texts."""
    texts = [str(group) for group in groups]
    return texts if len(set(texts)) == len(texts) else [repr(group) for group in groups]


def _read_table(frame: Any) -> tuple[list[Any], list[Any]]:
    """Return the names and columns of a table; raise TypeError for other types."""
    if (table := table_of(frame)) is None:
        kind = f"{type(frame).__module__}.{type(frame).__qualname__}".removeprefix("builtins.")
        raise TypeError(
            f"frame: expected a table of pandas, polars or pyarrow, got {kind}; convert it, such "
            "as by its to_pandas()"
        )
    return table


def _column(frame: Any, name: str, argument: str) -> Any:
    """Return a column of the table; raise ConfigError unless exactly one has this name."""
    names, columns = _read_table(frame)
    if (count := names.count(name)) > 1:
        raise ConfigError(f"{argument}: {name!r}: {count} columns have this name; rename them")
    if not count:
        known = [str(column) for column in names]
        raise ConfigError(f"{argument}: {name!r}: no such column; {choose_from(str(name), known)}")
    return columns[names.index(name)]


def _read_columns(frame: Any, names: Iterable[str], show_counts: bool) -> Floats:
    """Return the released columns as an array (n, d); raise ValueError if a value is not finite."""
    columns = {name: _column(frame, name, "columns") for name in names}
    if not len(frame):
        raise ValueError("frame: the table has no record")
    return np.column_stack(
        [
            read_numbers(column, f"columns: {name!r}", show_counts=show_counts)
            for name, column in columns.items()
        ]
    )


def _warn_of_few_records(
    table: TableMean, budget: Budget, labels: Ints, names: Sequence[Any]
) -> None:
    """Warn once of all groups whose public size is too small for a column, as `release` does."""
    sizes = np.bincount(labels, minlength=len(names))
    few: list[str] = []
    for (name, column), share in zip(table.columns.items(), table.shares(budget), strict=True):
        least = column.working_records(1, budget.fraction(float(share)))
        few += [
            f"{name}, {names[group]}: n: {sizes[group]}: too few records for "
            f"{type(column).__name__} at its share of {budget.label}, which declares failure; it "
            f"works from n = {least:,}"
            for group in np.flatnonzero((sizes > 0) & (sizes < least)).tolist()
        ]
    if few:
        more = f" ({len(few)} cells have too few records)" if len(few) > 1 else ""
        warnings.warn(few[0] + more, AssumptionWarning, stacklevel=3)


def _as_frame(
    cells: Mapping[Cell, Estimate], columns: Iterable[str], groups: Sequence[Any], by: str | None
) -> pd.DataFrame:
    """Return the released cells as a DataFrame with a row for each group."""
    import pandas as pd

    released: dict[str, list[float]] = {}
    for name in columns:
        ours = [cells.get((group, name)) for group in range(len(groups))]
        parts = {name: [np.nan if cell is None else float(cell.value[0]) for cell in ours]}
        if any(cell is not None and cell.interval is not None for cell in ours):
            for end, suffix in enumerate(ENDS):
                parts[f"{name}_{suffix}"] = [
                    np.nan if cell is None or cell.interval is None else cell.interval[end][0]
                    for cell in ours
                ]
        ends = parts.keys() - {name}
        if taken := (parts.keys() & released.keys()) | (ends & {by}):
            raise ConfigError(f"columns: {min(taken)!r}: this is an end of an interval; rename it")
        released |= parts
    # Without a type of objects, pandas would turn groups such as 1 and 2.5 into one type.
    kept = object if len({type(group) for group in groups}) > 1 else None
    return pd.DataFrame(released, index=pd.Index(groups, name=by, dtype=kept, tupleize_cols=False))


def _accuracy(
    cells: Mapping[Cell, Estimate], table: TableMean, groups: pd.Index[Any]
) -> pd.DataFrame:
    """Return the size of the noise of each cell, or why it is unknown; see `TableRelease`."""
    import pandas as pd

    statistics = ["noise_sd", "noise_q90", "unknown"]
    names = pd.MultiIndex.from_product([list(table.columns), statistics])
    rows = [
        [
            entry
            for name, column in table.columns.items()
            for entry in _noise_of_cell(cells.get((group, name)), column, table)
        ]
        for group in range(len(groups))
    ]
    return pd.DataFrame(rows, index=groups, columns=names)


def _noise_of_cell(
    cell: Estimate | None, column: Estimator, table: TableMean
) -> tuple[float, float, str]:
    """Return standard deviation and 0.9 quantile of the noise, and blank text or a reason."""
    if table.labels is None:
        reason = "n is private, and the noise of a mean is proportional to 1/n"
    elif cell is None:
        reason = "the group is empty"
    elif cell.interval is not None:
        reason = "the interval states the error"
    elif cell.noise is None:
        reason = f"{type(column).__name__} does not add noise of a public law to a mean"
    elif np.isnan(cell.value[0]):
        reason = "the estimator declares failure"
    else:
        sensitivity, budget = float(cell.noise[0][0]), cell.noise[1]
        return sensitivity * budget.noise_sd(), sensitivity * budget.noise_quantile(0.1), ""
    return np.nan, np.nan, reason
