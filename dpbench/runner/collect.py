"""From stored blocks to a cell's rows and their summary."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbench.analysis.summary import ByCell
from dpbench.runner.block import EXTRAS, METRICS, BlockResult, replay_name
from dpbench.runner.plan import Cell

__all__ = ["Collected", "Failure", "Metrics", "cell_rows", "collect", "join"]

# The families whose errors claims need, by column of a summary.
Metrics = Mapping[str, Collection[str]]
ERRORS = {"q90": "error", "miss_rate": "missed"}


class Failure(NamedTuple):
    """A setting that raised in a block.

    Attributes
    ----------
    text : str
        What raised, where, and what it said.
    replay : str
        The name of the block and the setting, see `dpbench.runner.block.replay_name`.
    """

    text: str
    replay: str


@dataclass
class Collected:
    """A summary, errors per trial for the claims, and what failed.

    Attributes
    ----------
    summary : DataFrame
    errors : dict of str to list of (trials,) arrays
        By column of `summary`, a vector per row; empty where no claim asks.
    failures : list of Failure
        One per setting that raised.
    """

    summary: pd.DataFrame
    errors: dict[str, list[NDArray[np.float64]]]
    failures: list[Failure]


def cell_rows(cell: Cell, blocks: Sequence[BlockResult]) -> pd.DataFrame:
    """The cell's errors per trial, cut to the trials it asks for; see `ByCell`."""
    members, settings = len(cell.members), len(cell.settings)
    values = _joined(cell, blocks)
    member = np.repeat(np.arange(members), settings * cell.trials)
    setting = np.tile(np.repeat(np.arange(settings), cell.trials), members)

    def labels(texts: list[str], code: NDArray[np.intp]) -> pd.Categorical[str]:
        known = sorted(set(texts))
        codes = np.array([known.index(text) for text in texts])[code]
        return pd.Categorical.from_codes(codes, pd.Index(known))

    def per_setting(numbers: Iterable[float | None]) -> NDArray[np.float64]:
        return np.array([np.nan if x is None else x for x in numbers], dtype=float)[setting]

    budgets = [s.budget for s in cell.settings]
    k = cell.family.moment_order
    return pd.DataFrame(
        {
            "distribution": labels([label for label, _ in cell.members], member),
            "family": labels([cell.family_label], np.zeros_like(member)),
            "k": np.nan if k is None else float(k),
            "estimator": labels([s.label for s in cell.settings], setting),
            "privacy": labels([b.label for b in budgets], setting),
            "epsilon": per_setting(getattr(b, "epsilon", None) for b in budgets),
            "delta": per_setting(getattr(b, "delta", None) for b in budgets),
            "rho": per_setting(getattr(b, "rho", None) for b in budgets),
            "n": cell.n,
            "d": cell.members[0][1].d,
            "lower_bound": per_setting(
                cell.family.lower_bound(cell.n, b) if cell.family.follows_budget else None
                for b in budgets
            ),
            **values,
        }
    )


def _joined(cell: Cell, blocks: Sequence[BlockResult]) -> dict[str, NDArray[np.float64]]:
    """The blocks' values one after another, flat, as many trials as the cell asks for."""
    # A block whose every release failed has no extras.
    absent = {block: np.full_like(b.values["error"], np.nan) for block, b in enumerate(blocks)}
    return {
        metric: np.concatenate(
            [block.values.get(metric, absent[i]) for i, block in enumerate(blocks)], axis=2
        )[..., : cell.trials].ravel()
        for metric in (*METRICS, *EXTRAS)
        if any(metric in block.values for block in blocks)
    }


def collect(cell: Cell, blocks: Sequence[BlockResult], metrics: Metrics) -> Collected:
    """Summarise a cell, and keep the errors that claims about its family need."""
    grouped = ByCell(cell_rows(cell, blocks))
    none = [np.empty(0)] * len(grouped.cells)
    errors = {
        metric: grouped.errors(ERRORS.get(metric, re.sub(r"_q\d\d$", "", metric)))
        if cell.family_label in families
        else none
        for metric, families in metrics.items()
    }
    failures = {
        Failure(
            f"{cell.settings[j].label} on {cell.members[i][0]} at n = {cell.n}, "
            f"{cell.settings[j].budget}, block {index}: {text}",
            replay_name(cell.members[i][0], cell.n, cell.settings[j], index),
        )
        for index, block in enumerate(blocks)
        for (i, j), text in block.failures.items()
    }
    return Collected(grouped.summary(), errors, sorted(failures))


def join(parts: Sequence[Collected]) -> Collected:
    """One summary of all cells, in an order that does not depend on how they were listed."""
    summary = pd.concat([part.summary for part in parts], ignore_index=True)
    by = ["family", "distribution", "estimator", "privacy", "epsilon", "delta", "rho", "n"]
    for column in ("distribution", "family", "estimator", "privacy"):
        summary[column] = summary[column].astype(str)
    order = summary.sort_values(by, kind="stable").index.to_numpy()
    errors = {}
    for metric in parts[0].errors:
        flat = [vector for part in parts for vector in part.errors[metric]]
        errors[metric] = [flat[i] for i in order]
    return Collected(
        summary.iloc[order].reset_index(drop=True),
        errors,
        [failure for part in parts for failure in part.failures],
    )
