"""Summarise the trials of a run in a table, and pick the worst distribution of each family."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbench.analysis.trial_statistics import mean_and_se, quantile, statistics
from dpbench.arrays import Bools, Floats
from dpbench.output.names import natural_sort_key
from dpbench.sweep.block import Block, failure_name
from dpbench.sweep.metrics import ERRORS, EXTRAS, METRICS
from dpbench.sweep.plan import Cell, Sweep, key_table
from dpbench.sweep.selection import BUDGET, KEY

__all__ = ["CURVE", "Failure", "Results", "collect", "select_held_out", "worst_case"]

CURVE = ["family", "k", "estimator", *BUDGET]
# Number of errors that are summarised in one call, to bound the memory; a larger cell is one call.
MAX_BATCH_ERRORS = 1 << 18
SORT_COLUMNS = ["family", "distribution", "estimator", *BUDGET, "n"]


class Failure(NamedTuple):
    """Error message of an estimator that raised an error, and the name of the failed block.

    A block is a group of trials that run together. With the name a user can run the block again.
    The name identifies the distribution, n, estimator, budget and number of the block.
    """

    text: str
    rerun: str


@dataclass
class Results:
    """Summary of a run, with the kept per-trial values and the failures.

    The summary has a row for each distribution, setting, n and swept parameters. The columns are,
    in this order: the columns that identify the row (`KEY`) except ``mu``; statistics of errors;
    ``lower_bound``; statistics that only some estimators have; ``mu``, an amount of privacy;
    ``bound_name``, the proof of the bound; and the swept parameters.

    `values` has the kept per-trial values by name, with an array of shape (trials,) for each row. A
    trial without a value has NaN. A row whose values were not kept has an empty array. `failures`
    are settings that raised an error in a block. `replicate_cache` has bootstrap replicates of
    quantiles, which several claims share.
    """

    summary: pd.DataFrame
    values: dict[str, list[Floats]]
    failures: list[Failure]
    replicate_cache: dict[Hashable, Floats] = field(default_factory=dict)

    def select(self, rows: pd.Series[bool] | Bools) -> Results:
        """Return results with only those rows of the summary for which a mask is True."""
        places = np.flatnonzero(rows)
        values = {name: [vectors[i] for i in places] for name, vectors in self.values.items()}
        return Results(
            self.summary.iloc[places].reset_index(drop=True),
            values,
            self.failures,
            self.replicate_cache,
        )


def collect(
    sweep: Sweep,
    cells: Sequence[Cell],
    cell_blocks: Iterable[tuple[int, Sequence[Block]]],
    keep: Mapping[str, Bools | bool],
    *,
    bounds: bool = True,
) -> Results:
    """Compute the summary of a run from the errors of all trials.

    A cell is a family at one n, with all estimators and budgets that run on its data. Cells are in
    the order of `dpbench.sweep.plan.key_table`. A block has the errors of a group of trials of one
    cell. `cell_blocks` has the index of each cell with its blocks, in any order.

    `keep` names per-trial values to keep. Each has a mask of the rows whose values are kept, in the
    order of `key_table`, or True for all rows. The summary has lower bounds if `bounds` is True.
    Its rows are sorted by family, distribution, estimator, budget and n.
    """
    *ends, size = np.cumsum([len(cell.members) * len(cell.settings) for cell in cells])
    rows_of = np.split(np.arange(size), ends)
    columns: dict[str, NDArray[np.number[Any]]] = {}
    kept_values = {name: [np.empty(0)] * size for name in keep}
    failures: dict[int, list[Failure]] = {}
    for batch in _batches(cells, cell_blocks):
        rows = np.concatenate([rows_of[index] for index, _ in batch])
        values = _stack_arrays(
            [_join_blocks(blocks, cells[index].trials) for index, blocks in batch]
        )
        values["signed"] = _array_of(values, "sign") * values["error"]
        step = max(1, MAX_BATCH_ERRORS // values["error"].shape[1])
        for part in (slice(i, i + step) for i in range(0, len(rows), step)):
            for name, column in statistics({k: v[part] for k, v in values.items()}).items():
                columns.setdefault(name, np.empty(size, column.dtype))[rows[part]] = column
        for name, mask in keep.items():
            vectors = _array_of(values, name)
            for i in np.flatnonzero(np.broadcast_to(mask, size)[rows]):
                # A view would keep the batch in memory.
                kept_values[name][rows[i]] = vectors[i].copy()
        failures |= {index: _list_failures(cells[index], blocks) for index, blocks in batch}
    keys = key_table(sweep, cells, bounds=bounds)  # slow, and the blocks need not wait for it
    table = pd.concat([keys, pd.DataFrame(columns)], axis=1)
    table = table[_order_columns([*columns], keys.columns.tolist())]
    order = table.sort_values(SORT_COLUMNS, kind="stable", key=_natural_ranks).index.to_numpy()
    return Results(
        table.iloc[order].reset_index(drop=True),
        {name: [of_rows[i] for i in order] for name, of_rows in kept_values.items()},
        [failure for index in range(len(cells)) for failure in failures[index]],
    )


def _order_columns(statistics: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return the columns of a summary in the order that `Results` states."""
    of_some = [name for name, metric in METRICS.items() if metric.of in EXTRAS]
    extras = [name for of in of_some for name in (of, f"{of}_se") if name in statistics]
    common = [name for name in statistics if name not in extras]
    first = [name for name in KEY if name != "mu"]
    bound = [name for name in keys if name == "lower_bound"]
    return [*dict.fromkeys([*first, *common, *bound, *extras, *keys])]


def _natural_ranks(column: pd.Series) -> pd.Series:
    """Return numbers that sort a column: labels by their numbers, ``clip9`` before ``clip10``.

    A column of numbers is returned unchanged.
    """
    if pd.api.types.is_numeric_dtype(column):
        return column
    ordered = sorted(column.unique(), key=natural_sort_key)
    return column.map({label: rank for rank, label in enumerate(ordered)})


def _batches(
    cells: Sequence[Cell], cell_blocks: Iterable[tuple[int, Sequence[Block]]]
) -> Iterator[list[tuple[int, Sequence[Block]]]]:
    """Yield batches of cells with equal numbers of trials, each cell with its blocks of trials.

    A cell is a family at one n, with all estimators and budgets that run on its data. Statistics
    are computed for a whole batch, because one call for each cell would be slow.
    """
    batch, size = list[tuple[int, Sequence[Block]]](), 0
    for index, blocks in cell_blocks:
        if batch and (size >= MAX_BATCH_ERRORS or cells[index].trials != cells[batch[0][0]].trials):
            yield batch
            batch, size = [], 0
        batch.append((index, blocks))
        size += sum(block.values["error"].size for block in blocks)
    if batch:
        yield batch


def _join_blocks(blocks: Sequence[Block], trials: int) -> dict[str, Floats]:
    """Join the arrays of several blocks of trials, and keep the first `trials` trials."""
    # A block in which every release failed lacks the values that only some estimators release.
    return {k: v[:, :trials] for k, v in _stack_arrays([b.values for b in blocks], axis=1).items()}


def _stack_arrays(parts: Sequence[Mapping[str, Floats]], axis: int = 0) -> dict[str, Floats]:
    """Merge several mappings from names to arrays: concatenate the arrays of each name.

    If a mapping lacks a name, an array of NaN takes the place of the missing array.
    """
    if len(parts) == 1:
        return dict(parts[0])
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: np.concatenate([_array_of(part, name) for part in parts], axis) for name in names}


def _array_of(part: Mapping[str, Floats], name: str) -> Floats:
    return part[name] if name in part else np.full_like(part["error"], np.nan)


def _list_failures(cell: Cell, blocks: Sequence[Block]) -> list[Failure]:
    keys = [(label, setting) for label, _ in cell.members for setting in cell.settings]
    failures = []
    for i, block in enumerate(blocks):
        for key, text in block.failures.items():
            member, setting = keys[key]
            place = f"{setting.label} on {member} at n = {cell.n}, {setting.budget}, block {i}"
            failures.append(Failure(f"{place}: {text}", failure_name(member, cell.n, setting, i)))
    return sorted(failures)


def worst_case(table: pd.DataFrame, draws: Floats) -> tuple[pd.DataFrame, Floats]:
    """Take the largest value over the members of each family, in every bootstrap replicate.

    The table has rows of a summary. `draws`, of shape (rows, draws), has for each row the value of
    a column, followed by its replicates. Return the first row of each family, estimator, budget and
    n, and for each of these rows the largest values over the members of the family.

    If several members are equally bad, the maximum of their values is too high, by a factor that
    does not depend on n. The spread of the maximum's replicates exceeds the true spread of the
    maximum by an eighth to a quarter. Therefore intervals of exponents are conservative.
    """
    # Groups are in the order of the table, because labels sort by the numbers in them.
    code = table.groupby([*CURVE, "n"], dropna=False, sort=False).ngroup().to_numpy()
    order = np.argsort(code, kind="stable")
    _, starts = np.unique(code[order], return_index=True)
    curves = table.iloc[order[starts]].reset_index(drop=True)
    return curves, np.maximum.reduceat(draws[order], starts, axis=0)


def select_held_out(
    results: Results, column: str, group_columns: list[str], candidate_columns: list[str]
) -> Results:
    """Choose the worst candidate on one half of the trials, and measure it on the other half.

    A candidate is a group of rows with equal values in `candidate_columns`, for example an
    estimator under a budget on a distribution at one n. The largest of several noisy numbers is too
    high. If the true numbers tie, its bootstrap interval misses the true number too often. The
    measurement of a candidate that was chosen on other trials has no such bias.

    One candidate is chosen in each group of rows with equal values in `group_columns`. The worst
    candidate has the largest geometric mean of absolute values over its rows. In each group, only
    candidates with the largest number of rows take part. An unknown value (NaN) counts as infinite.
    `column` is a metric in `dpbench.sweep.metrics.METRICS`, and the results must hold its per-trial
    values. Return the rows of the chosen candidates, with statistics of the second half of the
    trials.
    """
    measurement, table = METRICS[column].of, results.summary
    halves = [np.array_split(values, 2) for values in results.values[measurement]]
    first, second = (
        np.array([_compute_metric(half[i], column) for half in halves]) for i in (0, 1)
    )
    second_halves = [half[1] for half in halves]
    table = table.assign(**{column: second}, trials=[len(values) for values in second_halves])
    if METRICS[column].statistic == "mean":
        table[f"{column}_se"] = np.array([mean_and_se(values)[1] for values in second_halves])
    group, candidate = (
        table.groupby(names, dropna=False).ngroup() for names in (group_columns, candidate_columns)
    )
    with np.errstate(divide="ignore"):
        scores = pd.Series(np.log(np.where(np.isnan(first), np.inf, abs(first)))).groupby(candidate)
    # An error of 0 at one n and a failure at another give NaN: count it as the worst.
    means, sizes = scores.transform("mean").fillna(np.inf), scores.transform("size")
    is_complete = sizes == sizes.groupby(group).transform("max")
    worst = means[is_complete].groupby(group).idxmax()
    return Results(table, {measurement: second_halves}, results.failures).select(
        candidate.isin(candidate[worst])
    )


def _compute_metric(values: Floats, column: str) -> float:
    """Compute a metric, for example the 0.9 quantile of the error, from one value per trial.

    A mean or root mean square is over the trials that have a value. In a quantile of errors, a
    trial without a value counts as an infinite error. All other metrics are NaN if a trial has no
    value. If `values` is empty, return infinity.
    """
    metric = METRICS[column]
    if not values.size:
        return np.inf  # the second half of a single trial is empty
    if metric.statistic == "mean":
        return float(mean_and_se(values)[0])
    if metric.statistic == "rms":
        return float(np.sqrt(mean_and_se(values**2)[0]))
    if metric.statistic == "rate" or (metric.of not in ERRORS and np.isnan(values).any()):
        return float(values.mean())
    return float(quantile(values, metric.q))
