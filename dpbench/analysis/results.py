"""From blocks to a table, one row per key with its statistics, and the worst of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from dpbench.analysis.summary import quantile, statistics
from dpbench.arrays import Bools, Floats
from dpbench.columns import BUDGET, KEY
from dpbench.metrics import ERRORS, EXTRAS, METRICS
from dpbench.runner.block import Block, replay_name
from dpbench.runner.plan import Cell, Sweep, key_table

__all__ = ["CURVE", "Failure", "Results", "collect", "held_out", "worst_case"]

CURVE = ["family", "k", "estimator", *BUDGET]
ORDER = ["family", "distribution", "estimator", *BUDGET, "n"]


class Failure(NamedTuple):
    """A setting that raised in a block: what it said, and its `replay_name`."""

    text: str
    replay: str


@dataclass
class Results:
    """A summary, what was measured in every trial, and what failed in which block.

    A row per key: `KEY`, statistics, ``lower_bound``, what only some release, what is swept. And of
    what was kept of blocks a (trials,) array per row, NaN where there is none.
    """

    summary: pd.DataFrame
    values: dict[str, list[Floats]]
    failures: list[Failure]

    def chosen(self, rows: pd.Series[bool] | Bools) -> Results:
        """The rows of a mask alone."""
        at = np.flatnonzero(rows)
        values = {name: [vectors[i] for i in at] for name, vectors in self.values.items()}
        return Results(self.summary.iloc[at].reset_index(drop=True), values, self.failures)


def collect(
    sweep: Sweep,
    cells: Sequence[Cell],
    found: Iterable[tuple[int, Sequence[Block]]],
    keep: Collection[str],
) -> Results:
    """Summarise cells as their blocks are `found`, in any order; `keep` some of `Block.values`."""
    done: dict[int, tuple[pd.DataFrame, dict[str, Floats], list[Failure]]] = {}
    for index, blocks in found:
        values = _joined(blocks, cells[index].trials)
        kept = {name: values.get(name, np.full_like(values["error"], np.nan)) for name in keep}
        done[index] = pd.DataFrame(statistics(values)), kept, _failures(cells[index], blocks)
    tables, by_cell, failures = zip(*(done[index] for index in range(len(cells))), strict=True)
    keys = key_table(sweep, cells)
    table = pd.concat([keys, pd.concat(tables, ignore_index=True)], axis=1)
    extras = [name for name, metric in METRICS.items() if metric.of in EXTRAS]
    plain = [name for name in tables[0] if name not in extras]
    table = table[[*dict.fromkeys([*KEY, *plain, "lower_bound", *extras, *keys])]]
    order = table.sort_values(ORDER, kind="stable").index.to_numpy()
    flat = {name: [row for kept in by_cell for row in kept[name]] for name in keep}
    return Results(
        table.iloc[order].reset_index(drop=True),
        {name: [rows[i] for i in order] for name, rows in flat.items()},
        [failure for of_cell in failures for failure in of_cell],
    )


def _joined(blocks: Sequence[Block], trials: int) -> dict[str, Floats]:
    """The blocks' arrays side by side, cut to the trials that are asked for."""
    joined = {}
    for name in dict.fromkeys(name for block in blocks for name in block.values):
        # A block whose every release failed has nothing of what only some estimators release.
        parts = [b.values.get(name, np.full_like(b.values["error"], np.nan)) for b in blocks]
        joined[name] = np.concatenate(parts, axis=1)[:, :trials]
    return joined


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
    choice, code = (table.groupby(names, dropna=False).ngroup() for names in (apart, one))
    with np.errstate(divide="ignore"):
        scores = pd.Series(np.log(np.where(np.isnan(first), np.inf, first))).groupby(code)
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
    if metric.statistic == "rate" or (metric.of not in ERRORS and np.isnan(values).any()):
        return float(values.mean())
    return float(quantile(values, metric.q))
