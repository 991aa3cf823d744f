"""Function `release_table`, which releases means of columns by group under one budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Never

import numpy as np

from dpbench.arrays import Floats
from dpbench.errors import (
    ConfigError,
    check_instance,
    check_list,
    choose_from,
    describe_value,
    reject_unknown_keywords,
)
from dpbench.estimators.assumptions import warn_of_contradictions
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.tables import Cell, TableMean
from dpbench.privacy import Budget, Ledger
from dpbench.samples import DenseSample
from dpbench.seeds import check_generator

if TYPE_CHECKING:  # slow to load
    import pandas as pd

__all__ = ["TableRelease", "release_table"]


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
    ledger : Ledger
        Ledger of the release, with the cost of each column and group.
    """

    estimates: pd.DataFrame
    budget: Budget
    ledger: Ledger

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

    If group sizes are private, estimators must keep n private, as `TransformedNoiseMean` and
    `NormalizedSumMean` do. The docstring of `dpbench.estimators.tables` derives these costs.

    Parameters
    ----------
    frame : DataFrame
        Records. Missing values in the released columns and in `by` are an error. A missing number
        may be filled with a public constant; dropping its record is a removal, for which n has to
        be private.
    columns : mapping of str to Estimator
        Private estimator of numbers for each released column.
    budget : Budget
        Privacy budget of the whole table.
    by : str, optional
        Column with the group of each record. By default all records form one group, ``all``.
    groups : iterable, optional
        All groups, in the order of the result, from public knowledge. By default the categories of
        the column `by`, which then must be a pandas Categorical. (``astype("category")`` reads the
        categories from the records, so list public groups in that case.)
    group_sizes : {'public', 'private'}, optional
        Required with `by` if neighbours replace a record, see above. If neighbours add or remove a
        record, sizes are private.
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
        Estimates as a DataFrame, groups by columns, and the receipt.

    Raises
    ------
    ConfigError
        If an argument has the wrong type or does not fit the table, or an estimator does not
        support its part of the budget. Nothing is released.
    ValueError
        If a value is missing or infinite, or the table has no record. Nothing is released.

    Warns
    -----
    AssumptionWarning
        If the numbers of a column in a group contradict the assumptions of its estimator, as in
        `dpbench.release`.

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
    _check_arguments(columns, budget, by, groups, split, units, rng)
    if split == "sensitivity" and units is None:
        raise ConfigError(
            "units: split='sensitivity' compares errors of different columns; give the size of an "
            "error that counts as 1 for each column, such as units={'income': 1000, 'age': 1}"
        )
    labels, names = _read_groups(frame, by, groups)
    sizes_are_public = _sizes_are_public(budget, by, group_sizes)
    table = TableMean(
        columns=dict(columns),
        groups=[str(name) for name in names],
        labels=labels.tolist() if sizes_are_public else None,
        split=split if isinstance(split, str) else dict(split),
        units=dict(units or {}),
    )
    if reason := table.refusal(budget):
        raise ConfigError(f"columns: {reason}")
    values = _read_columns(frame, columns)
    for group in np.unique(labels):
        for column, name in zip(values.T, columns, strict=True):
            place = f"{name}, {names[group]}: "
            warn_of_contradictions(table.columns[name], column[labels == group], 2, place)
    if not sizes_are_public:
        values = np.column_stack([labels, values])
    ledger = Ledger(budget, rng)
    cells = table.release_cells(DenseSample(values[None]), ledger)
    return TableRelease(_as_frame(cells, columns, names, by), budget, ledger)


def _check_arguments(
    columns: Any, budget: Any, by: Any, groups: Any, split: Any, units: Any, rng: Any
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
    if groups is not None:
        check_list("groups", groups, object, "a group", "'north', 'south'")
    check_instance(
        "split", split, str | Mapping, "'equal', 'sensitivity' or a mapping", "{'age': 2}"
    )
    if units is not None:
        check_instance("units", units, Mapping, "a mapping of names to numbers", "{'age': 1}")
    check_generator(rng)


def _sizes_are_public(budget: Budget, by: str | None, group_sizes: str | None) -> bool:
    """Return whether the number of records of every group is public; raise if that is not said."""
    if not isinstance(group_sizes, str | None) or group_sizes not in (None, "public", "private"):
        raise ConfigError(f"group_sizes: {describe_value(group_sizes)}: give 'public' or 'private'")
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
    frame: pd.DataFrame, by: str | None, groups: Iterable[Any] | None
) -> tuple[np.ndarray[Any, np.dtype[np.int_]], list[Any]]:
    """Return the index of the group of each record, shape (n,), and the list of all groups."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"frame: expected a pandas DataFrame, got {type(frame).__name__}")
    if by is None:
        if groups is not None:
            raise ConfigError("groups: give the column of the groups, too, as by")
        return np.zeros(len(frame), dtype=int), ["all"]
    column = _column(frame, by, "by")
    if groups is None and not isinstance(column.dtype, pd.CategoricalDtype):
        raise ConfigError(
            f"groups: the values of {by!r} would show which groups have records; list all groups "
            "from public knowledge, as groups=[...], or make the column a pandas Categorical"
        )
    names = list(column.cat.categories if groups is None else groups)
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"groups: {names}: list at least one group, and each group once")
    codes = pd.Index(names).get_indexer(column.to_numpy(dtype=object))
    if lost := int((codes < 0).sum()):
        raise ValueError(
            f"by: {lost} of {len(codes)} records have no group or one that is not in groups; add a "
            "group for them, such as 'other'"
        )
    return np.asarray(codes, dtype=int), names


def _column(frame: pd.DataFrame, name: str, argument: str) -> Any:
    """Return a column of the table; raise ConfigError unless exactly one has this name."""
    if list(frame.columns).count(name) != 1:
        names = [str(column) for column in frame.columns]
        raise ConfigError(f"{argument}: {name!r}: no such column; {choose_from(str(name), names)}")
    return frame[name]


def _read_columns(frame: pd.DataFrame, names: Iterable[str]) -> Floats:
    """Return the released columns as an array (n, d); raise ValueError if a value is not finite."""
    arrays = []
    for name in names:
        column = _column(frame, name, "columns")
        try:
            values = column.to_numpy(dtype=float, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"columns: {name!r}: its values are not numbers") from error
        if bad := int(np.count_nonzero(~np.isfinite(values))):
            raise ValueError(
                f"{name}: {bad} of {len(values)} values are missing or infinite; fill them with a "
                "public constant (a dropped record changes n)"
            )
        arrays.append(values)
    if not len(frame):
        raise ValueError("frame: the table has no record")
    return np.column_stack(arrays)


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
            for end, suffix in enumerate(("low", "high")):
                parts[f"{name}_{suffix}"] = [
                    np.nan if cell is None or cell.interval is None else cell.interval[end][0]
                    for cell in ours
                ]
        if taken := parts.keys() & released.keys():
            raise ConfigError(f"columns: {min(taken)!r}: this is an end of an interval; rename it")
        released |= parts
    return pd.DataFrame(released, index=pd.Index(groups, name=by))
