"""Releases on both datasets of a pair, and the bound that they give."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbench.audit.attack import PILOT, Released, lower_bound
from dpbench.estimators import Estimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.registry import canonical
from dpbench.runner.block import BLOCK_NUMBERS, steady
from dpbench.samples import DenseSample
from dpbench.seeds import digest, stream

__all__ = ["COLUMNS", "LEAST_RUNS", "AuditTask", "Bound", "audit", "audit_pair"]

Floats = NDArray[np.float64]
# A generator for what it is asked for: the coins, or the releases of a try on one side.
Streams = Callable[..., np.random.Generator]

COLUMNS = ("estimator", "notion", "claimed", "pair", "runs", "lower_bound", "verdict", "seconds")
LEAST_RUNS = 100
# Held at once by estimators that copy their records.
MOST_RUNS = 500


@dataclass(frozen=True)
class Bound:
    """What an audit of a pair has found.

    Attributes
    ----------
    claimed : float
        The parameter of the budget's notion: epsilon, rho under zCDP.
    lower_bound : float
        On the true one; NaN if the estimator raised in every run, on both datasets.
    runs : int
        Releases on each dataset, on average.
    """

    claimed: float
    lower_bound: float
    runs: int

    @property
    def verdict(self) -> Literal["refuted", "not refuted", "failed"]:
        """``refuted`` if the bound exceeds the claim, ``failed`` if there is no bound."""
        if np.isnan(self.lower_bound):
            return "failed"
        return "refuted" if self.lower_bound > self.claimed else "not refuted"

    def __str__(self) -> str:
        return (
            f"{self.verdict}: claimed {self.claimed:g}, lower bound {self.lower_bound:.3f} "
            f"({self.runs} runs on each dataset)"
        )


def audit_pair(
    estimator: Estimator,
    budget: Budget,
    pair: Pair | tuple[ArrayLike, ArrayLike],
    *,
    runs: int = 1000,
    error: float = 1e-5,
    rng: np.random.Generator,
) -> Bound:
    """Look for a loss of privacy above the claim on two neighbouring datasets.

    A bound below the claim proves nothing: another pair, or more runs, may show more.

    Parameters
    ----------
    estimator : Estimator
    budget : Budget
        What it claims.
    pair : Pair or tuple of two arrays
        Datasets that differ in one record, (n,) or (n, d) each.
    runs : int
        Releases on each dataset, on average: a coin decides which one each of 2 runs is for.
    error : float
        Probability that the bound exceeds the true parameter.
    rng : Generator

    Raises
    ------
    ValueError
        If these are no neighbours, or the estimator claims nothing of the kind.

    Examples
    --------
    >>> import numpy as np
    >>> from dpbench import PureDP
    >>> from dpbench.audit import audit_pair
    >>> from dpbench.estimators import ClippedMean
    >>> data = np.zeros(20), np.append(np.zeros(19), 5.0)
    >>> bound = audit_pair(ClippedMean(lower=0, upper=1), PureDP(1.0), data,
    ...                    rng=np.random.default_rng(0))
    >>> bound.verdict
    'not refuted'
    """
    if not isinstance(pair, Pair):
        left, right = (np.asarray(side, dtype=float) for side in pair)
        pair = Pair("pair", left, right)
    name = type(estimator).__name__
    if not budget.amounts or not estimator.supports(budget):
        raise ValueError(f"{name} claims nothing under a budget of notion {budget.notion!r}")
    if pair.left.ndim == 2 and not estimator.multivariate:
        raise ValueError(f"{name} takes scalar records, got vectors")
    if runs < LEAST_RUNS or not 0 < error < 1:
        raise ValueError(f"{runs} runs at error {error}: give {LEAST_RUNS} or more, below 1")
    with steady():
        return _bound(estimator, budget, pair, runs, error, lambda *_: rng)


@dataclass(frozen=True)
class AuditTask:
    """What to run and how often: one estimator under one budget, on all of its pairs.

    Attributes
    ----------
    label : str
        The estimator's.
    estimator, budget, runs
        See `audit_pair`.
    pairs : tuple of Pair
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

    def streams(self, pair: Pair) -> Streams:
        """Those of a pair, whatever else is audited; more runs are another look, not some more."""
        kinds = canonical(self.estimator), canonical(self.budget)
        name = (self.seed, self.runs, *kinds, pair.name, *pair.left.shape)
        return lambda *what: stream(*what, *name)


def audit(task: AuditTask) -> list[dict[str, Any]]:
    """Audit every pair: a row of `COLUMNS` for each, see `Bound`."""
    rows = []
    with steady():
        for pair in task.pairs:
            started = time.process_time()
            streams = task.streams(pair)
            found = _bound(task.estimator, task.budget, pair, task.runs, task.error, streams)
            seconds = round(time.process_time() - started, 3)
            about = (task.label, task.budget.label, found.claimed, pair.name, found.runs)
            values = (*about, found.lower_bound, found.verdict, seconds)
            rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def _bound(
    estimator: Estimator, budget: Budget, pair: Pair, runs: int, error: float, streams: Streams
) -> Bound:
    claimed = budget.amounts[0]
    coins = streams("coins").random(2 * runs) < 0.5
    pilot = int(PILOT * len(coins))
    counts = int(coins.sum()), int((~coins).sum())
    early = int(coins[:pilot].sum()), int((~coins[:pilot]).sum())
    both = _both_sides(estimator, budget, pair, counts, streams)
    if both is None:
        return Bound(claimed, np.nan, runs)
    left, right = both
    found = lower_bound(
        Released(left[: early[0]], right[: early[1]]),
        Released(left[early[0] :], right[early[1] :]),
        _direction(estimator, pair),
        budget,
        error / 2,  # a half for each try of `_both_sides`
    )
    return Bound(claimed, found, runs)


def _both_sides(
    estimator: Estimator, budget: Budget, pair: Pair, counts: tuple[int, int], streams: Streams
) -> tuple[Floats, Floats] | None:
    """Independent releases on both datasets, (runs, numbers); None if all of them failed.

    Many at once, where none fails. To fail is a release like any other, but an exception ends
    all releases of a batch: then they are made anew, one by one, and those that fail are NaN.
    """
    size = max(1, min(MOST_RUNS, BLOCK_NUMBERS // pair.left.size))
    for tried, batch in (("audit", size), ("audit one by one", 1)):
        found = [
            _releases(estimator, budget, data, runs, batch, streams(tried, side))
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
    estimator: Estimator,
    budget: Budget,
    data: Floats,
    runs: int,
    size: int,
    rng: np.random.Generator,
) -> list[Floats | None]:
    """Batches of `size` releases; None where the estimator raises."""
    found: list[Floats | None] = []
    for start in range(0, runs, size):
        count = min(size, runs - start)
        sample = DenseSample(np.broadcast_to(data, (count, *data.shape)))
        try:
            value = estimator.run(sample, Ledger(budget, rng)).value
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
