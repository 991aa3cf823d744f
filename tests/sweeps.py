"""Small sweeps, and results of them whose errors a test makes itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbench.analysis.claim_kinds import build_claim
from dpbench.analysis.summary_table import Results, collect
from dpbench.registry import from_mapping
from dpbench.sweep.block import Block
from dpbench.sweep.metrics import ERRORS
from dpbench.sweep.plan import Cell, Sweep, key_table, make_cells

COIN = {"kind": "bernoulli", "p": 0.5}
CLIP = {"kind": "clipped_mean", "lower": 0, "upper": 1}
PURE = {"kind": "pure_dp", "epsilon": 1}

# An error, or those of all trials, of a row of the key table: row.n, row.epsilon, row.radius.
Errors = Callable[[Any], ArrayLike]


def sweep_of(
    *,
    families: Mapping[str, Any] | None = None,
    estimators: Mapping[str, Any] | None = None,
    budgets: Mapping[str, Any] | None = None,
    parts: Mapping[str, Any] | None = None,
    n: Sequence[int] = (100, 1000),
    trials: int = 50,
) -> Sweep:
    """A sweep of one coin, one clipped mean and epsilon = 1, but for what is given."""
    spec = {
        "families": families or {"coin": COIN},
        "estimators": estimators or {"clip": CLIP},
        "budgets": budgets or {"pure": PURE},
        "parts": parts or {"all": {"n": list(n), "trials": trials}},
    }
    return from_mapping(Sweep, spec, "sweep")


class Made:
    """A small sweep that is not run: a test says what its trials give.

    Of its lower bounds nothing is known without `bounds`, which take 0.02 s and more each.
    """

    def __init__(self, *, bounds: bool = False, **sections: Any) -> None:
        self.bounds = bounds
        self.sweep = sweep_of(**sections)
        self._take(make_cells(self.sweep))

    @classmethod
    def of(cls, sweep: Sweep, cells: list[Cell]) -> Made:
        """The same of other cells, such as a search tries."""
        made = cls.__new__(cls)
        made.sweep, made.bounds = sweep, False
        made._take(cells)
        return made

    def _take(self, cells: list[Cell]) -> None:
        self.cells = cells
        self.keys = key_table(self.sweep, cells, bounds=self.bounds)
        rows = list(self.keys.itertuples(index=False))
        ends = np.cumsum([len(cell.members) * len(cell.settings) for cell in cells])
        self._rows = [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def results(self, error: Errors, *keep: str) -> Results:
        """Results whose errors, parts and values that are to be kept are all `error`."""
        found = []
        for index, (cell, rows) in enumerate(zip(self.cells, self._rows, strict=True)):
            given = [np.broadcast_to(np.asarray(error(row), float), cell.trials) for row in rows]
            values = dict.fromkeys((*ERRORS, *keep), np.stack(given))
            found.append((index, [Block(values)]))
        kept = dict.fromkeys(keep, True)
        return collect(self.sweep, self.cells, found, kept, bounds=self.bounds)

    def judge(self, theorem: str, error: Errors, **options: Any) -> pd.DataFrame:
        """What a claim that can be tested here says of such results."""
        about = {"theorem": theorem, "tolerance": 0.05, "reason": "test", **options}
        claim = build_claim(about, "claims.c")
        claim.check(self.sweep, self.keys, "claims.c")
        keep = [claim.measures] if claim.measures else []
        return claim.evaluate("c", self.results(error, *keep), self.sweep)
