"""The audit of one estimator under one budget, on all of its pairs."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpbench.arrays import Floats
from dpbench.audit.attack import PILOT, Released, lower_bound
from dpbench.estimators import Estimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.registry import canonical
from dpbench.runner.block import BLOCK_NUMBERS, steady
from dpbench.samples import DenseSample
from dpbench.seeds import digest, stream

__all__ = ["COLUMNS", "AuditTask", "audit"]


COLUMNS = ("estimator", "notion", "claimed", "pair", "runs", "lower_bound", "verdict", "seconds")
# Held at once by estimators that copy their records.
MOST_RUNS = 500


@dataclass(frozen=True)
class AuditTask:
    """What to run and how often.

    Attributes
    ----------
    label : str
        The estimator's.
    estimator : Estimator
    budget : Budget
        What it claims.
    pairs : tuple of Pair
    runs : int
        Releases on each dataset, on average: a coin decides which one each of 2 runs is for.
    error : float
        Probability that the bound of one pair exceeds the true parameter.
    seed : int
    """

    label: str
    estimator: Estimator
    budget: Budget
    pairs: tuple[Pair, ...]
    runs: int
    error: float
    seed: int

    @cached_property
    def name(self) -> str:
        """A digest of all of it."""
        data = [
            hashlib.sha256(p.left.tobytes() + p.right.tobytes()).hexdigest() for p in self.pairs
        ]
        about = [self.label, canonical(self.estimator), canonical(self.budget)]
        return digest(*about, [p.name for p in self.pairs], data, self.runs, self.error, self.seed)


def audit(task: AuditTask) -> list[dict[str, Any]]:
    """Audit every pair.

    Returns
    -------
    list of dict
        A row of `COLUMNS` for each pair. ``claimed`` and ``lower_bound`` are epsilon, rho under
        zCDP. The verdict is ``refuted`` if the bound exceeds the claim, else ``not refuted``;
        ``failed`` if it raised in every run, on both datasets.
    """
    claimed = task.budget.amounts[0]
    rows = []
    with steady():
        for pair in task.pairs:
            started = time.process_time()
            found = _audited(task, pair)
            verdict = "failed" if found is None else "not refuted"
            if found is not None and found > claimed:
                verdict = "refuted"
            seconds = round(time.process_time() - started, 3)
            bound = np.nan if found is None else found
            values = (task.label, task.budget.label, claimed, pair.name, task.runs, bound)
            rows.append(dict(zip(COLUMNS, (*values, verdict, seconds), strict=True)))
    return rows


def _audited(task: AuditTask, pair: Pair) -> float | None:
    """The lower bound; None if the estimator raised in every run."""
    name = (
        task.seed,
        task.runs,  # more runs are another look, not these and some more
        canonical(task.estimator),
        canonical(task.budget),
        pair.name,
        *pair.left.shape,
    )
    coins = stream("coins", *name).random(2 * task.runs) < 0.5
    pilot = int(PILOT * len(coins))
    counts = int(coins.sum()), int((~coins).sum())
    early = int(coins[:pilot].sum()), int((~coins[:pilot]).sum())
    both = _both_sides(task, pair, counts, name)
    if both is None:
        return None
    left, right = both
    return lower_bound(
        Released(left[: early[0]], right[: early[1]]),
        Released(left[early[0] :], right[early[1] :]),
        _direction(task.estimator, pair),
        task.budget,
        task.error / 2,  # a half for each try of `_both_sides`
    )


def _both_sides(
    task: AuditTask, pair: Pair, counts: tuple[int, int], name: tuple[str | int, ...]
) -> tuple[Floats, Floats] | None:
    """Independent releases on both datasets, (runs, numbers); None if all of them failed.

    Many at once, where none fails. To fail is a release like any other, but an exception ends
    all releases of a batch: then they are made anew, one by one, and those that fail are NaN.
    """
    size = max(1, min(MOST_RUNS, BLOCK_NUMBERS // pair.left.size))
    for tried, batch in (("audit", size), ("audit one by one", 1)):
        found = [
            _releases(task, data, runs, batch, stream(tried, side, *name))
            for side, data, runs in zip(
                ("left", "right"), (pair.left, pair.right), counts, strict=True
            )
        ]
        widths = {rows.shape[1] for side in found for rows in side if rows is not None}
        failed = any(rows is None for side in found for rows in side)
        if not failed:
            break
    if not widths:
        return None
    nothing = np.full((1, widths.pop()), np.nan)
    left, right = (
        np.concatenate([nothing if rows is None else rows for rows in side]) for side in found
    )
    return left, right


def _releases(
    task: AuditTask, data: Floats, runs: int, size: int, rng: np.random.Generator
) -> list[Floats | None]:
    """Batches of `size` releases; None where the estimator raises."""
    found: list[Floats | None] = []
    for start in range(0, runs, size):
        count = min(size, runs - start)
        sample = DenseSample(np.broadcast_to(data, (count, *data.shape)))
        try:
            value = task.estimator.run(sample, Ledger(task.budget, rng)).value
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001, whatever a plug-in raises
            found.append(None)
        else:
            found.append(value.reshape(count, -1))
    return found


def _direction(estimator: Estimator, pair: Pair) -> Floats:
    """Along which the pair's means, or second moments, differ."""
    changed = np.atleast_1d((pair.left != pair.right).reshape(len(pair.left), -1).any(axis=1))
    left, right = (np.atleast_1d(side[changed][0]) for side in (pair.left, pair.right))
    if estimator.estimand == "covariance":
        return np.asarray(np.outer(right, right) - np.outer(left, left)).ravel()
    return np.asarray(right - left)
