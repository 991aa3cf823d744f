"""Audit by runs: release on two neighbouring datasets and bound the privacy parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Bools, Floats
from dpbench.audit.attack import PairReleases, choose_attacks
from dpbench.audit.pairs import check_pair
from dpbench.errors import ConfigError, check_instance, check_whole_number
from dpbench.estimators import Estimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.samples import DenseSample
from dpbench.sweep.block import BLOCK_NUMBERS, single_threaded_blas

__all__ = [
    "MIN_AUDIT_RUNS",
    "PILOT_SHARE",
    "PrivacyBound",
    "Split",
    "Streams",
    "audit_pair",
    "bound_from_releases",
    "bound_privacy",
    "release_both_sides",
]  # fmt: skip

# Function from a purpose (coins, or a way of releasing and a side) to its random generator.
Streams = Callable[..., np.random.Generator]
MIN_AUDIT_RUNS = 100  # smallest accepted average number of runs on each dataset
# Share of an audit's runs that are the pilot, which chooses the attack.
PILOT_SHARE = 0.2
# Largest batch of runs, because some estimators copy the records of a batch.
MAX_BATCH_RUNS = 500


@dataclass(frozen=True)
class PrivacyBound:
    """Result of an audit on one pair of neighbouring datasets.

    Attributes
    ----------
    claimed : float
        Claimed privacy parameter: epsilon, or rho under zCDP, or mu under GDP.
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
        """Verdict on the claim: ``refuted``, ``not refuted``, or ``failed`` if there is no bound.

        A claim is refuted if the lower bound exceeds the claimed parameter.
        """
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
    failure_probability: float = 1e-5,
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
        Average number of releases on each dataset, at least 100. A fair coin chooses the dataset of
        each of 2 `runs` releases.
    failure_probability : float
        Probability that the bound exceeds the true parameter, in (0, 1).
    rng : Generator
        Source of the coins and of all noise.

    Returns
    -------
    PrivacyBound

    Raises
    ------
    ValueError
        If the datasets are not neighbours, or the estimator does not claim the budget's notion, or
        `runs` or `failure_probability` is out of range.
    TypeError
        If `rng` is a seed instead of a generator.

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
    pair = check_pair(estimator, budget, pair, rng)
    check_whole_number("runs", runs, MIN_AUDIT_RUNS)
    name, value = "failure_probability", failure_probability
    check_instance(name, value, float | int, "a number", f"{name}=1e-5")
    if not 0 < value < 1:
        raise ConfigError(f"{name}: {value}: not a probability; write a number between 0 and 1")
    with single_threaded_blas():
        return bound_privacy(estimator, budget, pair, runs, failure_probability, lambda *_: rng)


def bound_privacy(
    estimator: Estimator,
    budget: Budget,
    pair: Pair,
    runs: int,
    error: float,
    streams: Streams,
    noise_factor: float | None = None,
) -> PrivacyBound:
    """Bound the privacy parameter from below by releases on two datasets, without checking them.

    An attack is a test that distinguishes the datasets by their releases. The first fifth of the
    releases chooses the attacks. The other releases give the bound. `streams` maps the name of a
    purpose to the random generator for this purpose. The other arguments are those of `audit_pair`;
    without `noise_factor` the factor of the enclosing `dpbench.audit.noise_times` applies, or 1.
    """
    split = Split.draw(runs, streams("coins"))
    releases = release_both_sides(estimator, budget, pair, split.counts, streams, noise_factor)
    # `release_both_sides` tries at most twice, and each try has half of the error.
    return bound_from_releases(
        releases, split, estimator.estimand.direction(pair), budget, error / 2
    )


@dataclass(frozen=True)
class Split:
    """Assignment of releases to the two datasets of a pair, by fair coins.

    The first releases are the pilot, which chooses the attacks of an audit. The other releases give
    the lower bound on the privacy parameter.

    Attributes
    ----------
    coins : ndarray of bool, shape (2 runs,)
        True for a release on the left dataset. The coins are fair, because `guess_bound` assumes
        fair coins.
    """

    coins: Bools

    @classmethod
    def draw(cls, runs: int, rng: np.random.Generator) -> Split:
        """Draw the fair coins that assign 2 `runs` releases to the two datasets of a pair."""
        return cls(rng.random(2 * runs) < 0.5)

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of releases on the left and on the right dataset."""
        return int(self.coins.sum()), int((~self.coins).sum())

    @property
    def early(self) -> tuple[int, int]:
        """Numbers of pilot releases on the left and on the right dataset.

        The pilot is the first part of the releases; it chooses the attacks of an audit.
        """
        coins = self.coins[: int(PILOT_SHARE * len(self.coins))]
        return int(coins.sum()), int((~coins).sum())


def bound_from_releases(
    releases: PairReleases | None, split: Split, direction: Floats, budget: Budget, error: float
) -> PrivacyBound:
    """Bound the privacy parameter from below by given releases on both datasets of a pair.

    The releases on each dataset are in the order of the coins of `split`; None stands for releases
    that all failed. `split` assigns them to the datasets, and to a first part (the pilot) that
    chooses the attacks. The direction, of shape (m,), is that in which the estimated quantity
    differs between the two datasets. The bound exceeds the true parameter with probability `error`.
    """
    claimed, runs = budget.amounts[0], len(split.coins) // 2
    if releases is None:
        return PrivacyBound(claimed, np.nan, runs)
    pilot, rest = (
        PairReleases(*(side[part] for side, part in zip(releases, parts, strict=True)))
        for parts in (
            [slice(early) for early in split.early],
            [slice(early, None) for early in split.early],
        )
    )
    attacks = choose_attacks(pilot, direction, budget, min(map(len, rest)), error)
    lower_bound = max(attack.bound(rest, share * error) for attack, share in attacks)
    return PrivacyBound(claimed, lower_bound, runs)


def release_both_sides(
    estimator: Estimator,
    budget: Budget,
    pair: Pair,
    counts: tuple[int, int],
    streams: Streams,
    noise_factor: float | None,
) -> PairReleases | None:
    """Return independent releases on both datasets of a pair; None if all of them failed.

    `counts` are the numbers of releases on the left and on the right dataset. Releases are made in
    batches. An exception ends a whole batch. If an exception occurs, all releases are repeated one
    at a time. A release that then fails is NaN, because failing is an output, too. `streams` maps
    the name of a purpose to the random generator for this purpose. Without `noise_factor` the
    factor of the enclosing `dpbench.audit.noise_times` applies, or 1.
    """
    size = max(1, min(MAX_BATCH_RUNS, BLOCK_NUMBERS // pair.left.size))
    for purpose, batch in (("audit", size), ("audit one by one", 1)):
        sides = [
            _release_batches(
                estimator, budget, data, runs, batch, streams(purpose, side), noise_factor
            )
            for side, data, runs in zip(
                ("left", "right"), (pair.left, pair.right), counts, strict=True
            )
        ]
        widths = {rows.shape[1] for side in sides for rows in side if rows is not None}
        failed = any(rows is None for side in sides for rows in side)
        if not failed:
            break
    if not widths:
        return None
    failed_row = np.full((1, widths.pop()), np.nan)
    return PairReleases(
        *(np.concatenate([failed_row if rows is None else rows for rows in side]) for side in sides)
    )


def _release_batches(
    estimator: Estimator,
    budget: Budget,
    data: Floats,
    runs: int,
    batch_size: int,
    rng: np.random.Generator,
    noise_factor: float | None,
) -> list[Floats | None]:
    """Return batches of releases, each of shape (size, m); None for a batch that raises."""
    batches: list[Floats | None] = []
    for start in range(0, runs, batch_size):
        count = min(batch_size, runs - start)
        sample = DenseSample(np.broadcast_to(data, (count, *data.shape)))
        try:
            ledger = Ledger(budget, rng, noise_factor=noise_factor)
            value = estimator.run(sample, ledger).value
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001, a plug-in may raise anything
            batches.append(None)
        else:
            batches.append(value.reshape(count, -1))
    return batches
