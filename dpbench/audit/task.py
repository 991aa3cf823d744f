"""Audit of one estimator under one budget."""

from __future__ import annotations

import bisect
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from dpbench.audit.attack import EVENTS, attacks
from dpbench.audit.blind import reasons, steps_of
from dpbench.audit.half_additive import HALF, HalfAdditive
from dpbench.audit.releases import (
    LEAST_RUNS,
    PILOT,
    PrivacyBound,
    Streams,
    both_sides,
    bound_of,
    direction,
)
from dpbench.audit.replay import Replay, first_reason, largest_ratio, replay
from dpbench.estimators import Estimator
from dpbench.estimators.external import OneDataset
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair
from dpbench.seeds import canonical, digest, stream
from dpbench.sweep.block import single_threaded_blas

__all__ = ["COLUMNS", "AuditTask", "Way", "audit"]

# Methods of refuting a claim: lower bounds from runs, or a replay.
Way = Literal["runs", "replay"]

COLUMNS = (
    *("estimator", "notion", "delta", "claimed", "pair", "pairs", "runs", "lower_bound"),
    *("visible", "blind", "blind_additive", "move_over_sensitivity", "verdict"),
    *("refuted_by_replay", "seconds"),
)
# Number of pairs that are audited, the most promising of all pairs after a short pilot.
CHOSEN = 2
# Factors of the noise that `visible` tries, in decreasing order.
FACTORS = (0.8, 0.65, 0.5, 0.35, 0.25)
OWN_NOISE = "own noise: the library draws it"


@dataclass(frozen=True)
class AuditTask:
    """Audit of one estimator under one budget, on the most promising of its pairs.

    Attributes
    ----------
    label : str
        Label of the estimator.
    estimator, budget, runs
        See `audit_pair`.
    pairs : tuple of Pair
        Candidate pairs.
    error : float
        Probability that any bound of the task exceeds the true parameter.
    seed : int
        Seed of the audit.
    seen_by : tuple of str
        Methods that must refute a control: ``runs``, ``replay`` or both; empty for estimators.
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
        """Digest of the task: estimator, budget, pairs, runs, error, seed."""
        data = [
            hashlib.sha256(p.left.tobytes() + p.right.tobytes()).hexdigest() for p in self.pairs
        ]
        about = [self.label, canonical(self.estimator), canonical(self.budget)]
        how = self.runs, self.error, self.seed, self.seen_by
        return digest(*about, [p.name for p in self.pairs], data, *how)

    def streams(self, pair: Pair, stage: object) -> Streams:
        """Return the random streams of a pair.

        They do not depend on other estimators or pairs of the audit. They depend on `runs`, so
        that a larger audit is an independent repetition.

        Parameters
        ----------
        pair : Pair
            Neighbouring datasets.
        stage : object
            Stage of the audit, as ``"pilot"``; part of the streams' name.

        Returns
        -------
        callable
            Function from a purpose to its random generator.
        """
        kinds = canonical(self.estimator), canonical(self.budget)
        name = (self.seed, self.runs, *kinds, pair.name, *pair.left.shape, stage)
        return lambda *what: stream(*what, *name)

    def bound(
        self, pair: Pair, noise_factor: float | None = None, error: float | None = None
    ) -> PrivacyBound:
        """Return the lower bound from releases on this pair.

        Parameters
        ----------
        pair : Pair
            Neighbouring datasets.
        noise_factor : float, optional
            Factor of all noise; correct noise by default.
        error : float, optional
            Probability that the bound exceeds the true parameter; by default an equal share of the
            error of the task.

        Returns
        -------
        Bound
        """
        error = error or self.error / CHOSEN
        streams = self.streams(pair, noise_factor or "audit")
        given = self.estimator, self.budget, pair, self.runs, error
        return bound_of(*given, streams, noise_factor)

    def replays(self) -> list[Replay]:
        """Return the replay of every pair; empty for a library, which draws its own noise."""
        if isinstance(self.estimator, OneDataset):
            return []
        about = self.estimator, self.budget
        return [replay(*about, pair, self.streams(pair, "replay")()) for pair in self.pairs]

    def judge(self, bound: PrivacyBound, found: Sequence[Replay], *, blind: bool) -> str:
        """Return the verdict of the bound and the replays together.

        An estimator is refuted if one of them refutes it, a control only if all methods of
        `seen_by` do.

        Parameters
        ----------
        bound : Bound
            Bound from runs on one pair.
        found : sequence of Replay
            Replays of all pairs.
        blind : bool
            Whether the estimator raised in every run of the pilot.

        Returns
        -------
        str
            ``refuted``, ``not refuted`` or ``failed``.
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
        """Return the bound expected from a pair if the noise is halved; -1 if every run raised.

        The estimate is from a few runs; pairs are ranked by it.
        """
        few = max(LEAST_RUNS, self.runs // 20)
        streams = self.streams(pair, "pilot")
        pilot = both_sides(self.estimator, self.budget, pair, (few, few), streams, 0.5)
        if pilot is None:
            return -1.0
        along, error = direction(self.estimator.estimand, pair), self.error / CHOSEN
        chosen = attacks(pilot, along, self.budget, self.runs, error)
        return max(attack.promise for attack, _ in chosen)

    def visible(self, *pairs: Pair) -> float:
        """Return the largest of `FACTORS` of the noise that about 95% of audits would refute.

        The distance of a bound to the truth is a number of standard deviations that depends on its
        error. The claim is refuted in half of all audits if the typical bound equals it, and in 95%
        if the bound still does with 1.64 deviations more. One refuting pair suffices, because the
        best pair depends on the noise. The result is NaN if no factor is refuted, or if the noise
        is not drawn by the ledger.
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
        """Error at which one refutation predicts refutations in 95% of audits; see `visible`."""
        return float(ndtr(ndtri(self.error / CHOSEN) + ndtri(0.05)))

    def blind(self, pairs: Sequence[Pair], visible: float) -> tuple[str, str]:
        """Return the `dpbench.audit.blind.reasons` of audited pairs.

        Parameters
        ----------
        pairs : sequence of Pair
            Audited pairs.
        visible : float
            Result of `visible` for these pairs.

        Returns
        -------
        tuple of two str
            Reasons for all noise, and for additive noise alone; empty if halving it is refuted.
        """
        if isinstance(self.estimator, OneDataset):
            return (OWN_NOISE,) * 2
        rng, budget = self.streams(pairs[0], "blind"), self.budget
        steps = [steps_of(self.estimator, budget, pair, rng("steps")) for pair in pairs]
        error = self._stricter / 2 / EVENTS  # halved, because `both_sides` may try twice
        claim = budget, int((1 - PILOT) * self.runs), error
        additive, failed = partial(self._additive, pairs), partial(self._failed, pairs)
        return reasons(steps, visible >= HALF, additive, failed, claim)

    def _additive(self, pairs: Sequence[Pair]) -> bool:
        """Return whether one of the pairs refutes half of the additive noise alone."""
        half: Any = HalfAdditive(self.estimator)
        given = self.runs, self._stricter
        bounds = (
            bound_of(half, self.budget, pair, *given, self.streams(pair, "additive"))
            for pair in pairs
        )
        return any(bound.verdict == "refuted" for bound in bounds)

    def _failed(self, pairs: Sequence[Pair]) -> float:
        """Return the share of releases with halved noise that fail, its minimum over pairs."""
        few, shares = (LEAST_RUNS,) * 2, []
        for pair in pairs:
            streams = self.streams(pair, "failed")
            both = both_sides(self.estimator, self.budget, pair, few, streams, HALF)
            bad = [True] if both is None else ~np.isfinite(np.concatenate(both)).all(axis=1)
            shares.append(float(np.mean(bad)))
        return min(shares)


def audit(task: AuditTask) -> list[dict[str, Any]]:
    """Audit the most promising pairs and return one row of `COLUMNS` for each.

    An estimator that raised in every pilot run, on every pair, has the verdict ``failed`` unless it
    is refuted. All pairs are replayed; all rows show the replay with the largest ratio.
    """
    started = time.thread_time()
    with single_threaded_blas():
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
