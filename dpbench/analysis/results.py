"""From blocks to a table, one row per key with its statistics, and the worst of it."""

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
# Statistics are taken of so many numbers together, or of one cell's.
AT_ONCE = 1 << 18
ORDER = ["family", "distribution", "estimator", *BUDGET, "n"]


class Failure(NamedTuple):
    """A setting that raised in a block: what it said, and its `replay_name`."""

    text: str
    replay: str


@dataclass
class Results:
    """A summary, what was measured in every trial, and what failed in which block.

    A row per key: `KEY` but mu, statistics, ``lower_bound``, what only some release, mu, what the
    bound is ``bound_by``, what is swept. And of what was kept of blocks a (trials,) array per row,
    NaN where there is none, empty if not kept.
    """

    summary: pd.DataFrame
    values: dict[str, list[Floats]]
    failures: list[Failure]
    found: dict[Hashable, Floats] = field(default_factory=dict)  # of rows, that claims share

    def chosen(self, rows: pd.Series[bool] | Bools) -> Results:
        """The rows of a mask alone."""
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
    """Summarise cells as their blocks are `found`, in any order.

    `keep` says what of `Block.values` is kept, and of which rows of `key_table`, which has
    `bounds` or not.
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
                kept[name][rows[i]] = vectors[i].copy()  # of itself, not a part of all
        failures |= {index: _failures(cells[index], blocks) for index, blocks in batch}
    keys = key_table(sweep, cells, bounds=bounds)  # after the blocks, which bounds would hold up
    table = pd.concat([keys, pd.DataFrame(columns)], axis=1)
    younger = [name for name, metric in METRICS.items() if metric.of in EXTRAS]
    extras = [name for one in younger for name in (one, f"{one}_se") if name in columns]
    plain = [name for name in columns if name not in extras]
    first = [name for name in KEY if name != "mu"]  # which is younger than these columns
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
    """Cells of equally many trials together: statistics of each alone would take most of a run."""
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
    """The blocks' arrays side by side, cut to the trials that are asked for."""
    # A block whose every release failed has nothing of what only some estimators release.
    return {k: v[:, :trials] for k, v in _stacked([b.values for b in blocks], axis=1).items()}


def _stacked(parts: Sequence[Mapping[str, Floats]], axis: int = 0) -> dict[str, Floats]:
    """Arrays of the same names as one, NaN where a part has none of a name."""
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
    """The largest values over the members of each family, anew in every replicate.

    Of the (rows, draws) replicates of a column of a summary; a row for each of `CURVE` and n, and
    the largest replicates, (rows, draws). The largest of several equally bad members is too high,
    at every n alike, and its replicates spread by an eighth to a quarter more than it does:
    intervals of exponents are wider than they need be.
    """
    code = table.groupby([*CURVE, "n"], dropna=False).ngroup().to_numpy()
    order = np.argsort(code, kind="stable")
    _, starts = np.unique(code[order], return_index=True)
    curves = table.iloc[order[starts]].reset_index(drop=True)
    return curves, np.maximum.reduceat(draws[order], starts, axis=0)


def held_out(results: Results, column: str, apart: list[str], one: list[str]) -> Results:
    """Choose the worst on half of the trials, and keep its rows with those of the other half.

    The largest of several noisy numbers is too high, and no bootstrap of it covers when they
    tie. A number that other trials have chosen is not. The choice is by the geometric mean over
    rows, among what has the most of them; what is not known is the worst. `apart` are the columns
    that tell the choices apart, `one` those in which the rows of one thing agree.
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
    # An error of 0 at one n and a failure at another give NaN: a failure is the worst of all.
    means, sizes = scores.transform("mean").fillna(np.inf), scores.transform("size")
    everywhere = sizes == sizes.groupby(choice).transform("max")
    worst = means[everywhere].groupby(choice).idxmax()
    return Results(table, {of: kept}, results.failures).chosen(code.isin(code[worst]))


def _value(values: Floats, column: str) -> float:
    """The column as these trials have it; NaN where something but an error is not known."""
    metric = METRICS[column]
    if not values.size:
        return np.inf  # half of one trial: of that nothing is said
    if metric.statistic == "mean":
        return float(mean_and_se(values)[0])
    if metric.statistic == "rate" or (metric.of not in ERRORS and np.isnan(values).any()):
        return float(values.mean())
    return float(quantile(values, metric.q))
