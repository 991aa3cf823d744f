"""Releases on both datasets of a pair, and the bound that they give."""

from __future__ import annotations

import bisect
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from dpbench.arrays import Bools, Floats
from dpbench.audit.attack import EVENTS, Released, attacks
from dpbench.audit.blind import reasons, steps_of
from dpbench.audit.half_additive import HALF, HalfAdditive
from dpbench.audit.pairs import checked_pair
from dpbench.audit.replay import Replay, first_reason, largest_ratio, replay
from dpbench.estimators import Estimator
from dpbench.estimators.outside import OneDataset
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.registry import canonical
from dpbench.samples import DenseSample
from dpbench.seeds import digest, stream
from dpbench.sweep.block import BLOCK_NUMBERS, steady

__all__ = [
    "COLUMNS", "LEAST_RUNS", "AuditTask", "Bound", "Split", "Way", "audit", "audit_pair",
    "direction", "judged",
]  # fmt: skip

# A generator for what it is asked for: the coins, or the releases of a try on one side.
Streams = Callable[..., np.random.Generator]
# What refutes a claim.
Way = Literal["runs", "replay"]

COLUMNS = (
    *("estimator", "notion", "delta", "claimed", "pair", "pairs", "runs", "lower_bound"),
    *("visible", "blind", "blind_additive", "move_over_sensitivity", "verdict"),
    *("refuted_by_replay", "seconds"),
)
LEAST_RUNS = 100
# Of the runs of an audit, those that choose the attack; and of all pairs that a pilot of a few
# runs compares, those that are audited.
PILOT = 0.2
CHOSEN = 2
# Of the noise, from the largest: those that are tried for what is visible.
FACTORS = (0.8, 0.65, 0.5, 0.35, 0.25)
OWN_NOISE = "own noise: the library draws it"
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
        return _bound(estimator, budget, pair, runs, error, lambda *_: rng)


@dataclass(frozen=True)
class AuditTask:
    """What to run and how often: one estimator under one budget, on the best of its pairs.

    Attributes
    ----------
    label : str
        The estimator's.
    estimator, budget, runs
        See `audit_pair`.
    pairs : tuple of Pair
    error : float
        Probability that any bound of the task exceeds the true parameter.
    seed : int
    seen_by : tuple of str
        For a control, what has to refute it: ``runs``, ``replay`` or both.
    """

    label: str
    estimator: Estimator
    budget: Budget
    pairs: tuple[Pair, ...]
    runs: int
    error: float
    seed: int
    seen_by: tuple[Way, ...] = ()

    @cached_property
    def name(self) -> str:
        """A digest of all of it."""
        data = [
            hashlib.sha256(p.left.tobytes() + p.right.tobytes()).hexdigest() for p in self.pairs
        ]
        about = [self.label, canonical(self.estimator), canonical(self.budget)]
        how = self.runs, self.error, self.seed, self.seen_by
        return digest(*about, [p.name for p in self.pairs], data, *how)

    def streams(self, pair: Pair, stage: object) -> Streams:
        """Those of a pair, whatever else is audited; more runs are another look, not some more."""
        kinds = canonical(self.estimator), canonical(self.budget)
        name = (self.seed, self.runs, *kinds, pair.name, *pair.left.shape, stage)
        return lambda *what: stream(*what, *name)

    def bound(
        self, pair: Pair, noise_factor: float | None = None, error: float | None = None
    ) -> Bound:
        """Return the bound that this pair shows where the noise is multiplied by a factor."""
        error = error or self.error / CHOSEN
        streams = self.streams(pair, noise_factor or "audit")
        given = self.estimator, self.budget, pair, self.runs, error
        return _bound(*given, streams, noise_factor)

    def replays(self) -> list[Replay]:
        """Return the replay of every pair; none of a library, which draws by itself."""
        if isinstance(self.estimator, OneDataset):
            return []
        about = self.estimator, self.budget
        return [replay(*about, pair, self.streams(pair, "replay")()) for pair in self.pairs]

    def judge(self, bound: Bound, found: Sequence[Replay], *, blind: bool) -> str:
        """Return the verdict of the bound and the replays together.

        One of them refutes an estimator; all that have to see a control must refute it. An
        estimator that raised in every run of the pilot is `blind`.
        """
        by_replay = any(one.verdict == "refuted" for one in found)
        refuted = {"runs": bound.verdict == "refuted", "replay": by_replay}
        enough = (
            all(refuted[way] for way in self.seen_by) if self.seen_by else any(refuted.values())
        )
        if enough:
            return "refuted"
        return "failed" if blind or bound.verdict == "failed" else "not refuted"

    def promise(self, pair: Pair) -> float:
        """What a few runs with half of the noise, which show more, let one hope for of a pair.

        -1 if all of them raised.
        """
        few = max(LEAST_RUNS, self.runs // 20)
        streams = self.streams(pair, "pilot")
        pilot = _both_sides(self.estimator, self.budget, pair, (few, few), streams, 0.5)
        if pilot is None:
            return -1.0
        along, error = direction(self.estimator.estimand, pair), self.error / CHOSEN
        chosen = attacks(pilot, along, self.budget, self.runs, error)
        return max(attack.promise for attack, _ in chosen)

    def visible(self, *pairs: Pair) -> float:
        """The largest of `FACTORS` of the noise that would be refuted in 95% of audits, about.

        By one of the pairs: which of them shows most depends on the noise.

        A bound's distance to the truth is some standard deviations, as many as its error allows.
        It is refuted in half of all audits if the bound reaches the claim, and in 95% if
        it does with 1.64 deviations more. NaN if none is, or the noise is not of the ledger.
        """
        if isinstance(self.estimator, OneDataset):
            return np.nan

        def refuted(factor: float) -> bool:
            bounds = (self.bound(pair, factor, self._stricter) for pair in pairs)
            return any(bound.verdict == "refuted" for bound in bounds)

        found = bisect.bisect_left(FACTORS, True, key=refuted)
        return FACTORS[found] if found < len(FACTORS) else np.nan

    @property
    def _stricter(self) -> float:
        """The error at which what is refuted is refuted in 95% of audits; see `visible`."""
        return float(ndtr(ndtri(self.error / CHOSEN) + ndtri(0.05)))

    def blind(self, pairs: Sequence[Pair], visible: float) -> tuple[str, str]:
        """Return the `dpbench.audit.blind.reasons` of audited pairs, given what is visible."""
        if isinstance(self.estimator, OneDataset):
            return (OWN_NOISE,) * 2
        rng, budget = self.streams(pairs[0], "blind"), self.budget
        steps = [steps_of(self.estimator, budget, pair, rng("steps")) for pair in pairs]
        error = self._stricter / 2 / EVENTS  # a half for each try of `_both_sides`
        claim = budget, int((1 - PILOT) * self.runs), error
        additive, failed = partial(self._additive, pairs), partial(self._failed, pairs)
        return reasons(steps, visible >= HALF, additive, failed, claim)

    def _additive(self, pairs: Sequence[Pair]) -> bool:
        """Whether half of the additive noise alone is refuted by one of the pairs."""
        half: Any = HalfAdditive(self.estimator)
        given = self.runs, self._stricter
        bounds = (
            _bound(half, self.budget, pair, *given, self.streams(pair, "additive"))
            for pair in pairs
        )
        return any(bound.verdict == "refuted" for bound in bounds)

    def _failed(self, pairs: Sequence[Pair]) -> float:
        """The least share of releases with half of the noise that are not finite, by pair."""
        few, shares = (LEAST_RUNS,) * 2, []
        for pair in pairs:
            streams = self.streams(pair, "failed")
            both = _both_sides(self.estimator, self.budget, pair, few, streams, HALF)
            bad = [True] if both is None else ~np.isfinite(np.concatenate(both)).all(axis=1)
            shares.append(float(np.mean(bad)))
        return min(shares)


def audit(task: AuditTask) -> list[dict[str, Any]]:
    """Audit the pairs that promise most: a row of `COLUMNS` for each, see `Bound`.

    What raised in every run with half of the noise, on every pair, shows nothing unless it is
    refuted: that is ``failed`` too. The replay is of all pairs, and the same in each row.
    """
    started = time.thread_time()
    with steady():
        promises = [task.promise(pair) for pair in task.pairs]
        order = np.argsort([-promise for promise in promises], kind="stable")
        pairs = [task.pairs[index] for index in order[:CHOSEN]]
        found = [task.bound(pair) for pair in pairs]
        visible = task.visible(*pairs)
        half, additive = task.blind(pairs, visible)
        replayed = task.replays()
    seconds = round(time.thread_time() - started, 3)
    blind = max(promises) < 0
    return [
        {
            "estimator": task.label,
            "notion": task.budget.label,
            "delta": getattr(task.budget, "delta", np.nan),
            "claimed": bound.claimed,
            "pair": pair.name,
            "pairs": len(task.pairs),
            "runs": bound.runs,
            "lower_bound": bound.lower_bound,
            "visible": visible,
            "blind": half,
            "blind_additive": additive,
            "move_over_sensitivity": largest_ratio(replayed),
            "verdict": task.judge(bound, replayed, blind=blind),
            "refuted_by_replay": first_reason(replayed),
            "seconds": seconds,
        }
        for pair, bound in zip(pairs, found, strict=True)
    ]


def _bound(
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
    both = _both_sides(estimator, budget, pair, split.counts, streams, noise_factor)
    # a half of the error for each try of `_both_sides`
    return judged(both, split, direction(estimator.estimand, pair), budget, error / 2)


@dataclass(frozen=True)
class Split:
    """How many releases are for each dataset of a pair, and how many of these choose the attack.

    Attributes
    ----------
    coins : array of bool
        For each release whether it is for the left dataset: a coin, which `guess_bound` needs.
    """

    coins: Bools

    @classmethod
    def drawn(cls, runs: int, rng: np.random.Generator) -> Split:
        """Toss the coins of 2 `runs` releases."""
        return cls(rng.random(2 * runs) < 0.5)

    @property
    def counts(self) -> tuple[int, int]:
        """Releases on the left dataset and on the right one."""
        return int(self.coins.sum()), int((~self.coins).sum())

    @property
    def early(self) -> tuple[int, int]:
        """Of these the ones that choose the attack, which come first."""
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


def _both_sides(
    estimator: Estimator,
    budget: Budget,
    pair: Pair,
    counts: tuple[int, int],
    streams: Streams,
    noise_factor: float | None,
) -> Released | None:
    """Independent releases on both datasets, (runs, numbers); None if all of them failed.

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
