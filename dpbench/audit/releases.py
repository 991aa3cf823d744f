"""Audit by runs: release on both datasets of a pair and bound the privacy parameter."""

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
from dpbench.sweep.block import BLOCK_NUMBERS, single_threaded_blas

__all__ = [
    "LEAST_RUNS",
    "PILOT",
    "PrivacyBound",
    "Split",
    "Streams",
    "audit_pair",
    "both_sides",
    "bound_of",
    "direction",
    "judged",
]  # fmt: skip

# Function from a purpose (the coins, or a try and a side) to its random generator.
Streams = Callable[..., np.random.Generator]
LEAST_RUNS = 100
# Share of an audit's runs that are the pilot, which chooses the attack.
PILOT = 0.2
# Largest batch of runs, because some estimators copy the records of a batch.
MOST_RUNS = 500


@dataclass(frozen=True)
class PrivacyBound:
    """Result of an audit of one pair.

    Attributes
    ----------
    claimed : float
        Claimed parameter: epsilon, rho under zCDP, mu under GDP.
    lower_bound : float
        Lower bound on the true parameter; NaN if the estimator raised in every run on both
        datasets.
    runs : int
        Average number of releases on each dataset.
    """

    claimed: float
    lower_bound: float
    runs: int

    @property
    def verdict(self) -> Literal["refuted", "not refuted", "failed"]:
        """Verdict: ``refuted`` if the bound exceeds the claim, ``failed`` if there is no bound."""
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
) -> PrivacyBound:
    """Bound the privacy parameter from below by releases on two neighbouring datasets.

    A bound below the claim proves nothing: another pair, or more runs, may give a larger bound.

    Parameters
    ----------
    estimator : Estimator
        Estimator to audit.
    budget : Budget
        Claimed budget.
    pair : Pair or tuple of two arrays
        Datasets of shape (n,) or (n, d) that differ in one record; under ``add_remove`` the right
        dataset lacks this record.
    runs : int
        Average number of releases on each dataset, at least 100: a fair coin chooses the dataset
        of each of 2 `runs` releases.
    error : float
        Probability that the bound exceeds the true parameter, in (0, 1).
    rng : Generator
        Source of the coins and of all noise.

    Returns
    -------
    Bound

    Raises
    ------
    ValueError
        If the datasets are not neighbours, or the estimator does not claim the budget's notion, or
        `runs` or `error` is out of range.
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
        raise ValueError(
            f"runs: {runs}, error: {error}: give at least {LEAST_RUNS} runs and an error in (0, 1)"
        )
    with single_threaded_blas():
        return bound_of(estimator, budget, pair, runs, error, lambda *_: rng)


def bound_of(
    estimator: Estimator,
    budget: Budget,
    pair: Pair,
    runs: int,
    error: float,
    streams: Streams,
    noise_factor: float | None = None,
) -> PrivacyBound:
    """Bound the privacy parameter; the first fifth of the runs chooses the attacks.

    Parameters
    ----------
    estimator, budget, pair, runs, error
        See `audit_pair`; the pair is not checked.
    streams : callable
        Function from a purpose to its random generator.
    noise_factor : float, optional
        Factor of all noise; correct noise by default.

    Returns
    -------
    Bound
    """
    split = Split.drawn(runs, streams("coins"))
    both = both_sides(estimator, budget, pair, split.counts, streams, noise_factor)
    # `both_sides` tries at most twice, and each try has half of the error.
    return judged(both, split, direction(estimator.estimand, pair), budget, error / 2)


@dataclass(frozen=True)
class Split:
    """Assignment of releases to the two datasets of a pair, and to pilot and further runs.

    Attributes
    ----------
    coins : ndarray of bool, shape (2 runs,)
        True for a release on the left dataset. The coins are fair, because `guess_bound` needs it.
    """

    coins: Bools

    @classmethod
    def drawn(cls, runs: int, rng: np.random.Generator) -> Split:
        """Draw the coins of 2 `runs` releases.

        Parameters
        ----------
        runs : int
            Average number of releases on each dataset.
        rng : Generator
            Source of the coins.

        Returns
        -------
        Split
        """
        return cls(rng.random(2 * runs) < 0.5)

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of releases on the left and on the right dataset."""
        return int(self.coins.sum()), int((~self.coins).sum())

    @property
    def early(self) -> tuple[int, int]:
        """Numbers of pilot releases on the left and on the right dataset; these come first."""
        pilot = self.coins[: int(PILOT * len(self.coins))]
        return int(pilot.sum()), int((~pilot).sum())


def judged(
    both: Released | None, split: Split, direction: Floats, budget: Budget, error: float
) -> PrivacyBound:
    """Bound the privacy parameter from releases on both datasets of a pair.

    Parameters
    ----------
    both : Released or None
        Releases on each side, in the order of the coins of `split`; None if all failed.
    split : Split
        Assignment of the releases.
    direction : ndarray of shape (m,)
        Direction in which the estimands of the two datasets differ.
    budget : Budget
        Claimed budget.
    error : float
        Probability that the bound exceeds the true parameter.

    Returns
    -------
    Bound
    """
    claimed, runs = budget.amounts[0], len(split.coins) // 2
    if both is None:
        return PrivacyBound(claimed, np.nan, runs)
    pilot, rest = (
        Released(*(side[of] for side, of in zip(both, ends, strict=True)))
        for ends in (
            [slice(early) for early in split.early],
            [slice(early, None) for early in split.early],
        )
    )
    chosen = attacks(pilot, direction, budget, min(map(len, rest)), error)
    found = max(attack.bound(rest, share * error) for attack, share in chosen)
    return PrivacyBound(claimed, found, runs)


def both_sides(
    estimator: Estimator,
    budget: Budget,
    pair: Pair,
    counts: tuple[int, int],
    streams: Streams,
    noise_factor: float | None,
) -> Released | None:
    """Return independent releases on both datasets; None if all of them failed.

    Releases are made in batches. An exception ends a whole batch; if there is one, all releases are
    repeated one at a time, and a release that fails is NaN, because failing is an output too.

    Parameters
    ----------
    estimator : Estimator
        Estimator to audit.
    budget : Budget
        Budget of each release.
    pair : Pair
        Neighbouring datasets.
    counts : tuple of two int
        Numbers of releases on the left and on the right dataset.
    streams : callable
        Function from a purpose to its random generator.
    noise_factor : float or None
        Factor of all noise; None for correct noise.

    Returns
    -------
    Released or None
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
    """Return batches of `size` releases, each of shape (size, m); None if the estimator raises."""
    found: list[Floats | None] = []
    for start in range(0, runs, size):
        count = min(size, runs - start)
        sample = DenseSample(np.broadcast_to(data, (count, *data.shape)))
        try:
            ledger = Ledger(budget, rng, noise_factor=noise_factor)
            value = estimator.run(sample, ledger).value
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001, a plug-in may raise anything
            found.append(None)
        else:
            found.append(value.reshape(count, -1))
    return found


def direction(estimand: str, pair: Pair) -> Floats:
    """Return the direction in which the estimands of the two datasets of a pair differ.

    Parameters
    ----------
    estimand : str
        ``mean``, ``covariance`` or ``regression``.
    pair : Pair
        Neighbouring datasets.

    Returns
    -------
    ndarray of shape (m,)
        Direction in the space of releases; not normalised.
    """
    if pair.relation == "add_remove":
        return np.atleast_1d(pair.right.mean(axis=0) - pair.left.mean(axis=0))
    changed = np.atleast_1d((pair.left != pair.right).reshape(len(pair.left), -1).any(axis=1))
    left, right = (np.atleast_1d(side[changed][0]) for side in (pair.left, pair.right))
    if estimand == "covariance":
        return np.asarray(np.outer(right, right) - np.outer(left, left)).ravel()
    if estimand == "regression":
        return np.asarray(right[:-1] * right[-1] - left[:-1] * left[-1])
    return np.asarray(right - left)
