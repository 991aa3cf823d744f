"""Release on both datasets of a pair, and bound the loss of privacy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Bools, Floats
from dpbench.audit.attack import Released, attacks
from dpbench.audit.pairs import checked_pair
from dpbench.estimators import Estimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.samples import DenseSample
from dpbench.sweep.block import BLOCK_NUMBERS, steady

__all__ = [
    "LEAST_RUNS",
    "PILOT",
    "Bound",
    "Split",
    "Streams",
    "audit_pair",
    "both_sides",
    "bound_of",
    "direction",
    "judged",
]  # fmt: skip

# A generator for what it is asked for: the coins, or the releases of a try on one side.
Streams = Callable[..., np.random.Generator]
LEAST_RUNS = 100
# Share of an audit's runs that choose the attack.
PILOT = 0.2
# Held at once by estimators that copy their records.
MOST_RUNS = 500


@dataclass(frozen=True)
class Bound:
    """What an audit of a pair has found.

    Attributes
    ----------
    claimed : float
        The parameter of the budget's notion: epsilon, rho under zCDP, mu under GDP.
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
        Datasets that differ in one record, (n,) or (n, d) each; under ``add_remove`` the right one
        lacks it.
    runs : int
        Releases on each dataset, on average: a coin decides which one each of 2 runs is for.
    error : float
        Probability that the bound exceeds the true parameter.
    rng : Generator

    Raises
    ------
    ValueError
        If these are no neighbours, or the estimator claims nothing of the kind.
    TypeError
        If `rng` is a seed.

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
    pair = checked_pair(estimator, budget, pair, rng)
    if runs < LEAST_RUNS or not 0 < error < 1:
        raise ValueError(f"{runs} runs at error {error}: give {LEAST_RUNS} or more, below 1")
    with steady():
        return bound_of(estimator, budget, pair, runs, error, lambda *_: rng)


def bound_of(
    estimator: Estimator,
    budget: Budget,
    pair: Pair,
    runs: int,
    error: float,
    streams: Streams,
    noise_factor: float | None = None,
) -> Bound:
    """Release, let the first fifth of the runs choose the attacks, and judge the rest by them."""
    split = Split.drawn(runs, streams("coins"))
    both = both_sides(estimator, budget, pair, split.counts, streams, noise_factor)
    # a half of the error for each try of `both_sides`
    return judged(both, split, direction(estimator.estimand, pair), budget, error / 2)


@dataclass(frozen=True)
class Split:
    """Split releases between the datasets of a pair, the first of which choose the attack.

    Attributes
    ----------
    coins : array of bool
        True for each release on the left dataset: fair coins, because `guess_bound` needs them.
    """

    coins: Bools

    @classmethod
    def drawn(cls, runs: int, rng: np.random.Generator) -> Split:
        """Toss the coins of 2 `runs` releases."""
        return cls(rng.random(2 * runs) < 0.5)

    @property
    def counts(self) -> tuple[int, int]:
        """Return the numbers of releases on the left dataset and on the right one."""
        return int(self.coins.sum()), int((~self.coins).sum())

    @property
    def early(self) -> tuple[int, int]:
        """Return how many of the releases on each side choose the attack; these come first."""
        pilot = self.coins[: int(PILOT * len(self.coins))]
        return int(pilot.sum()), int((~pilot).sum())


def judged(
    both: Released | None, split: Split, direction: Floats, budget: Budget, error: float
) -> Bound:
    """Bound the loss of privacy from releases on both datasets of a pair.

    Parameters
    ----------
    both : Released or None
        As many on each side as the split has, in the order of its coins; None if all failed.
    split : Split
    direction : (numbers of a release,) array
        See `attacks`.
    budget : Budget
    error : float
        Probability that the bound exceeds the true parameter.
    """
    claimed, runs = budget.amounts[0], len(split.coins) // 2
    if both is None:
        return Bound(claimed, np.nan, runs)
    pilot, rest = (
        Released(*(side[of] for side, of in zip(both, ends, strict=True)))
        for ends in (
            [slice(early) for early in split.early],
            [slice(early, None) for early in split.early],
        )
    )
    chosen = attacks(pilot, direction, budget, min(map(len, rest)), error)
    found = max(attack.bound(rest, share * error) for attack, share in chosen)
    return Bound(claimed, found, runs)


def both_sides(
    estimator: Estimator,
    budget: Budget,
    pair: Pair,
    counts: tuple[int, int],
    streams: Streams,
    noise_factor: float | None,
) -> Released | None:
    """Return independent releases on both datasets, (runs, numbers); None if all of them failed.

    Many at once, where none fails. To fail is a release like any other, but an exception ends
    all releases of a batch: then they are made anew, one by one, and those that fail are NaN.
    """
    size = max(1, min(MOST_RUNS, BLOCK_NUMBERS // pair.left.size))
    for tried, batch in (("audit", size), ("audit one by one", 1)):
        found = [
            _releases(estimator, budget, data, runs, batch, streams(tried, side), noise_factor)
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
    return Released(
        *(np.concatenate([nothing if rows is None else rows for rows in side]) for side in found)
    )


def _releases(
    estimator: Estimator,
    budget: Budget,
    data: Floats,
    runs: int,
    size: int,
    rng: np.random.Generator,
    noise_factor: float | None,
) -> list[Floats | None]:
    """Batches of `size` releases; None where the estimator raises."""
    found: list[Floats | None] = []
    for start in range(0, runs, size):
        count = min(size, runs - start)
        sample = DenseSample(np.broadcast_to(data, (count, *data.shape)))
        try:
            ledger = Ledger(budget, rng, noise_factor=noise_factor)
            value = estimator.run(sample, ledger).value
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001, whatever a plug-in raises
            found.append(None)
        else:
            found.append(value.reshape(count, -1))
    return found


def direction(estimand: str, pair: Pair) -> Floats:
    """Return the direction in which the estimands of a pair's datasets differ."""
    if pair.relation == "add_remove":
        return np.atleast_1d(pair.right.mean(axis=0) - pair.left.mean(axis=0))
    changed = np.atleast_1d((pair.left != pair.right).reshape(len(pair.left), -1).any(axis=1))
    left, right = (np.atleast_1d(side[changed][0]) for side in (pair.left, pair.right))
    if estimand == "covariance":
        return np.asarray(np.outer(right, right) - np.outer(left, left)).ravel()
    if estimand == "regression":
        return np.asarray(right[:-1] * right[-1] - left[:-1] * left[-1])
    return np.asarray(right - left)
