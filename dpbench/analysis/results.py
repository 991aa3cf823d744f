"""Collect blocks of trials into a summary, and pick the worst case of a family."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbench.analysis.summary import mean_and_se, quantile, statistics
from dpbench.arrays import Bools, Floats
from dpbench.sweep.block import Block, replay_name
from dpbench.sweep.metrics import ERRORS, EXTRAS, METRICS
from dpbench.sweep.plan import Cell, Sweep, key_table
from dpbench.sweep.selection import BUDGET, KEY

__all__ = ["CURVE", "Failure", "Results", "collect", "held_out", "worst_case"]

CURVE = ["family", "k", "estimator", *BUDGET]
# Errors that are summarised in one call, which bounds the memory; a larger cell is one call.
AT_ONCE = 1 << 18
ORDER = ["family", "distribution", "estimator", *BUDGET, "n"]


class Failure(NamedTuple):
    """Error of a setting in a block: its text, and the `replay_name` that runs it again."""

    text: str
    replay: str


@dataclass
class Results:
    """Summary of a run, with the values of every trial that were kept, and the failures.

    Parameters
    ----------
    summary : DataFrame
        A row for each key. The columns are, in this order: `KEY` without ``mu``; statistics of
        errors; ``lower_bound``; statistics that only some estimators have; ``mu``; ``bound_name``,
        the proof of the bound; and the swept parameters.
    values : dict of str to list of ndarray of shape (trials,)
        Kept per-trial values by name, an array for each row: NaN where a trial has no value, empty
        if the row was not kept.
    failures : list of Failure
        Settings that raised an error in a block.
    found : dict
        Cache of quantile replicates, which several claims share.
    """

    summary: pd.DataFrame
    values: dict[str, list[Floats]]
    failures: list[Failure]
    found: dict[Hashable, Floats] = field(default_factory=dict)

    def chosen(self, rows: pd.Series[bool] | Bools) -> Results:
        """Return the results of the rows that a mask selects."""
        at = np.flatnonzero(rows)
        values = {name: [vectors[i] for i in at] for name, vectors in self.values.items()}
        return Results(
            self.summary.iloc[at].reset_index(drop=True), values, self.failures, self.found
        )


def collect(
    sweep: Sweep,
    cells: Sequence[Cell],
    found: Iterable[tuple[int, Sequence[Block]]],
    keep: Mapping[str, Bools | bool],
    *,
    bounds: bool = True,
) -> Results:
    """Summarise the blocks of all cells.

    Parameters
    ----------
    sweep : Sweep
    cells : sequence of Cell
        Its cells, in the order of `key_table`.
    found : iterable of (int, sequence of Block)
        Index of each cell with its blocks, in any order.
    keep : mapping of str to bool or ndarray of bool
        Names of per-trial values to keep, with the rows of `key_table` to keep them for.
    bounds : bool, default True
        Whether the summary has lower bounds.

    Returns
    -------
    Results
        Its rows are in the order of `ORDER`.
    """
    *ends, size = np.cumsum([len(cell.members) * len(cell.settings) for cell in cells])
    rows_of = np.split(np.arange(size), ends)
    columns: dict[str, NDArray[np.number[Any]]] = {}
    kept = {name: [np.empty(0)] * size for name in keep}
    failures: dict[int, list[Failure]] = {}
    for batch in _batches(cells, found):
        rows = np.concatenate([rows_of[index] for index, _ in batch])
        values = _stacked([_joined(blocks, cells[index].trials) for index, blocks in batch])
        values["signed"] = _of(values, "sign") * values["error"]
        step = max(1, AT_ONCE // values["error"].shape[1])
        for at in (slice(i, i + step) for i in range(0, len(rows), step)):
            for name, column in statistics({k: v[at] for k, v in values.items()}).items():
                columns.setdefault(name, np.empty(size, column.dtype))[rows[at]] = column
        for name, wanted in keep.items():
            vectors = _of(values, name)
            for i in np.flatnonzero(np.broadcast_to(wanted, size)[rows]):
                kept[name][rows[i]] = vectors[i].copy()  # a view would keep the batch in memory
        failures |= {index: _failures(cells[index], blocks) for index, blocks in batch}
    keys = key_table(sweep, cells, bounds=bounds)  # slow, and the blocks need not wait for it
    table = pd.concat([keys, pd.DataFrame(columns)], axis=1)
    younger = [name for name, metric in METRICS.items() if metric.of in EXTRAS]
    extras = [name for one in younger for name in (one, f"{one}_se") if name in columns]
    plain = [name for name in columns if name not in extras]
    first = [name for name in KEY if name != "mu"]  # mu came later and stands behind
    bound = ["lower_bound"] if bounds else []
    table = table[[*dict.fromkeys([*first, *plain, *bound, *extras, *keys])]]
    order = table.sort_values(ORDER, kind="stable").index.to_numpy()
    return Results(
        table.iloc[order].reset_index(drop=True),
        {name: [of_rows[i] for i in order] for name, of_rows in kept.items()},
        [failure for index in range(len(cells)) for failure in failures[index]],
    )


def _batches(
    cells: Sequence[Cell], found: Iterable[tuple[int, Sequence[Block]]]
) -> Iterator[list[tuple[int, Sequence[Block]]]]:
    """Group cells with equal numbers of trials, because one call for each cell would be slow."""
    batch, size = list[tuple[int, Sequence[Block]]](), 0
    for index, blocks in found:
        if batch and (size >= AT_ONCE or cells[index].trials != cells[batch[0][0]].trials):
            yield batch
            batch, size = [], 0
        batch.append((index, blocks))
        size += sum(block.values["error"].size for block in blocks)
    if batch:
        yield batch


def _joined(blocks: Sequence[Block], trials: int) -> dict[str, Floats]:
    """Join the arrays of blocks along trials, and cut them to the requested trials."""
    # A block in which every release failed lacks the values that only some estimators release.
    return {k: v[:, :trials] for k, v in _stacked([b.values for b in blocks], axis=1).items()}


def _stacked(parts: Sequence[Mapping[str, Floats]], axis: int = 0) -> dict[str, Floats]:
    """Concatenate arrays by name, with NaN for parts that lack a name."""
    if len(parts) == 1:
        return dict(parts[0])
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: np.concatenate([_of(part, name) for part in parts], axis) for name in names}


def _of(part: Mapping[str, Floats], name: str) -> Floats:
    return part[name] if name in part else np.full_like(part["error"], np.nan)


def _failures(cell: Cell, blocks: Sequence[Block]) -> list[Failure]:
    keys = [(label, one) for label, _ in cell.members for one in cell.settings]
    found = []
    for i, block in enumerate(blocks):
        for key, text in block.failures.items():
            member, setting = keys[key]
            at = f"{setting.label} on {member} at n = {cell.n}, {setting.budget}, block {i}"
            found.append(Failure(f"{at}: {text}", replay_name(member, cell.n, setting, i)))
    return sorted(found)


def worst_case(table: pd.DataFrame, draws: Floats) -> tuple[pd.DataFrame, Floats]:
    """Take the largest value over the members of each family, in every replicate.

    The largest of several equally bad members is too high, by a factor that does not depend on n.
    Its replicates spread by an eighth to a quarter more than it does, so that intervals of
    exponents are conservative.

    Parameters
    ----------
    table : DataFrame
        Rows of a summary.
    draws : ndarray of shape (rows, draws)
        Values of a column with their replicates.

    Returns
    -------
    curves : DataFrame
        The first row of each family, estimator, budget and n.
    worst : ndarray of shape (len(curves), draws)
        The largest values over the members.
    """
    code = table.groupby([*CURVE, "n"], dropna=False).ngroup().to_numpy()
    order = np.argsort(code, kind="stable")
    _, starts = np.unique(code[order], return_index=True)
    curves = table.iloc[order[starts]].reset_index(drop=True)
    return curves, np.maximum.reduceat(draws[order], starts, axis=0)


def held_out(results: Results, column: str, apart: list[str], one: list[str]) -> Results:
    """Choose the worst candidate on one half of the trials, and keep its rows of the other half.

    The largest of several noisy numbers is too high, and its bootstrap interval does not cover if
    they tie. A candidate that was chosen on other trials has no such bias. The score is the
    geometric mean over a candidate's rows; only candidates with the most rows take part, and an
    unknown value (NaN) is the worst.

    Parameters
    ----------
    results : Results
        Results that hold the per-trial values of the metric.
    column : str
        A metric, see `dpbench.sweep.metrics.METRICS`.
    apart : list of str
        Grouping columns: one candidate is chosen in each group.
    one : list of str
        Columns that identify a candidate.

    Returns
    -------
    Results
        The chosen rows, with statistics of the second half of the trials.
    """
    of, table = METRICS[column].of, results.summary
    halves = [np.array_split(values, 2) for values in results.values[of]]
    first, second = (np.array([_value(half[i], column) for half in halves]) for i in (0, 1))
    kept = [half[1] for half in halves]
    table = table.assign(**{column: second}, trials=[len(values) for values in kept])
    if METRICS[column].statistic == "mean":
        table[f"{column}_se"] = np.array([mean_and_se(values)[1] for values in kept])
    choice, code = (table.groupby(names, dropna=False).ngroup() for names in (apart, one))
    with np.errstate(divide="ignore"):
        scores = pd.Series(np.log(np.where(np.isnan(first), np.inf, abs(first)))).groupby(code)
    # An error of 0 at one n and a failure at another give NaN: count it as the worst.
    means, sizes = scores.transform("mean").fillna(np.inf), scores.transform("size")
    everywhere = sizes == sizes.groupby(choice).transform("max")
    worst = means[everywhere].groupby(choice).idxmax()
    return Results(table, {of: kept}, results.failures).chosen(code.isin(code[worst]))


def _value(values: Floats, column: str) -> float:
    """Compute a metric from some trials; NaN if a quantity other than an error lacks a trial."""
    metric = METRICS[column]
    if not values.size:
        return np.inf  # the first half of a single trial has no value
    if metric.statistic == "mean":
        return float(mean_and_se(values)[0])
    if metric.statistic == "rate" or (metric.of not in ERRORS and np.isnan(values).any()):
        return float(values.mean())
    return float(quantile(values, metric.q))
