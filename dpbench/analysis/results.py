"""From blocks to a table: one row per key, with the statistics of its trials."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from dpbench.analysis.summary import statistics
from dpbench.arrays import Bools, Floats
from dpbench.columns import KEY
from dpbench.metrics import EXTRAS, METRICS
from dpbench.runner.block import Block, replay_name
from dpbench.runner.plan import Cell, Sweep, key_table

__all__ = ["Failure", "Results", "collect"]

ORDER = ["family", "distribution", "estimator", "privacy", "epsilon", "delta", "rho", "n"]


class Failure(NamedTuple):
    """A setting that raised in a block: what it said, and its `replay_name`."""

    text: str
    replay: str


@dataclass
class Results:
    """A summary, what was measured in every trial, and what failed.

    Attributes
    ----------
    summary : DataFrame
        A row per key: the columns of `KEY`, statistics, ``lower_bound``, statistics of what only
        some estimators release, and the swept parameters.
    values : dict of str to list of (trials,) arrays
        By what blocks hold, as far as it was kept: a vector per row, NaN where there is none.
    failures : list of Failure
        One per setting and block that raised.
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
    """Summarise cells as their blocks come, and keep some of what was measured in every trial.

    Parameters
    ----------
    found : iterable of (index of a cell, its blocks)
        In any order, which changes nothing; see `dpbench.runner.run.run_cells`.
    keep : collection of str
        What of `Block.values` to keep.
    """
    done: dict[int, tuple[pd.DataFrame, dict[str, Floats], list[Failure]]] = {}
    for index, blocks in found:
        values = _joined(blocks, cells[index].trials)
        none = np.full_like(values["error"], np.nan)
        kept = {name: values.get(name, none) for name in keep}
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
