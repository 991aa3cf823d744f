"""From stored blocks to a cell's rows and their summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbench.analysis.summary import quantile_replicates, summarise
from dpbench.runner.block import METRICS, BlockResult
from dpbench.runner.plan import Cell

__all__ = ["Collected", "cell_rows", "collect", "join"]

DRAWS = 1000


@dataclass
class Collected:
    """A summary, bootstrap replicates of its columns, and what failed.

    Attributes
    ----------
    summary : DataFrame
    replicates : dict of str to (rows, draws) array
        By column of `summary`.
    failures : list of str
        One line per setting that raised.
    """

    summary: pd.DataFrame
    replicates: dict[str, NDArray[np.float64]]
    failures: list[str]


def cell_rows(cell: Cell, blocks: Sequence[BlockResult]) -> pd.DataFrame:
    """The cell's errors per trial, cut to the trials it asks for; see `summarise`."""
    members, settings = len(cell.members), len(cell.settings)
    values = {
        metric: np.concatenate([block.values[metric] for block in blocks], axis=2)[
            ..., : cell.trials
        ].ravel()
        for metric in METRICS
    }
    member = np.repeat(np.arange(members), settings * cell.trials)
    setting = np.tile(np.repeat(np.arange(settings), cell.trials), members)

    def labels(texts: list[str], code: NDArray[np.intp]) -> pd.Categorical:
        known = sorted(set(texts))
        return pd.Categorical.from_codes(np.array([known.index(t) for t in texts])[code], known)

    def per_setting(numbers: Iterable[float | None]) -> NDArray[np.float64]:
        return np.array([np.nan if x is None else x for x in numbers], dtype=float)[setting]

    budgets = [s.budget for s in cell.settings]
    k = cell.family.moment_order
    return pd.DataFrame(
        {
            "distribution": labels([label for label, _ in cell.members], member),
            "family": pd.Categorical.from_codes(np.zeros(len(member), int), [cell.family_label]),
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


def collect(cell: Cell, blocks: Sequence[BlockResult], metrics: Iterable[str]) -> Collected:
    """Summarise a cell, with bootstrap replicates of the q90 of each of `metrics`.

    Parameters
    ----------
    metrics : iterable of str
        Columns of a summary that are 0.9 quantiles: ``q90``, ``private_q90``, ...
    """
    rows = cell_rows(cell, blocks)
    replicates = {
        metric: quantile_replicates(
            rows, "error" if metric == "q90" else metric.removesuffix("_q90"), draws=DRAWS
        )
        for metric in metrics
    }
    texts = {
        f"{cell.settings[j].label} on {cell.members[i][0]} at n = {cell.n}, "
        f"{cell.settings[j].budget}, block {index}: {text}"
        for index, block in enumerate(blocks)
        for (i, j), text in block.failures.items()
    }
    return Collected(summarise(rows), replicates, sorted(texts))


def join(parts: Sequence[Collected]) -> Collected:
    """One summary of all cells, in an order that does not depend on how they were listed."""
    summary = pd.concat([part.summary for part in parts], ignore_index=True)
    by = ["family", "distribution", "estimator", "privacy", "epsilon", "delta", "rho", "n"]
    for column in ("distribution", "family", "estimator", "privacy"):
        summary[column] = summary[column].astype(str)
    order = summary.sort_values(by, kind="stable").index.to_numpy()
    names = parts[0].replicates
    return Collected(
        summary.iloc[order].reset_index(drop=True),
        {name: np.concatenate([part.replicates[name] for part in parts])[order] for name in names},
        [text for part in parts for text in part.failures],
    )
